/* hdf5_name.c - the version of the HDF5 library that is loaded, which may differ from the
 * headers'. */
#include <hdf5.h>
#include <stdio.h>

#include "kvt/trace.h"

const char *kvt_hdf5_name(char *out, size_t cap)
{
    unsigned major = 0, minor = 0, release = 0;
    if (H5get_libversion(&major, &minor, &release) < 0)
        snprintf(out, cap, "unknown");
    else
        snprintf(out, cap, "%u.%u.%u", major, minor, release);
    return out;
}
