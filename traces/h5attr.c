/* h5attr.c - attributes of HDF5 objects, read with their type and extent checked. */
#include "traces/h5.h"

#include <stdio.h>
#include <string.h>

enum { TEXT_MAX = 4096 }; /* long text is in datasets */

kvt_code h5_put_array(hid_t at, const char *name, hid_t type, int64_t n, const void *data,
                      kvt_err *err)
{
    kvt_code code = KVT_OK;
    hsize_t extent = (hsize_t)n;
    hid_t space = n < 0    ? H5Screate(H5S_SCALAR)
                  : n == 0 ? H5Screate(H5S_NULL)
                           : H5Screate_simple(1, &extent, NULL);
    hid_t attr = space < 0 ? -1 : H5Acreate2(at, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    if (attr < 0 || (n != 0 && H5Awrite(attr, type, data) < 0))
        code = h5_fail(err, KVT_IO, name);
    if (attr >= 0 && H5Aclose(attr) < 0 && !code)
        code = h5_fail(err, KVT_IO, name);
    if (space >= 0)
        H5Sclose(space);
    return code;
}

hid_t h5_text_type(size_t size)
{
    hid_t t = H5Tcopy(H5T_C_S1);
    if (t >= 0 && (H5Tset_size(t, size) < 0 || H5Tset_cset(t, H5T_CSET_UTF8) < 0)) {
        H5Tclose(t);
        return -1;
    }
    return t;
}

kvt_code h5_put_text(hid_t at, const char *name, const char *text, kvt_err *err)
{
    hid_t type = h5_text_type(strlen(text) + 1);
    if (type < 0)
        return h5_fail(err, KVT_IO, name);
    kvt_code code = h5_put_array(at, name, type, -1, text, err);
    H5Tclose(type);
    return code;
}

kvt_code h5_put_int(hid_t at, const char *name, int64_t x, kvt_err *err)
{
    return h5_put_array(at, name, H5T_STD_I64LE, -1, &x, err);
}

kvt_code h5_put_real(hid_t at, const char *name, double x, kvt_err *err)
{
    return h5_put_array(at, name, H5T_IEEE_F64LE, -1, &x, err);
}

/* Opens an attribute and says how many elements it has and of which type. */
static kvt_code open_attr(hid_t *out, hid_t *type, int64_t *n, hid_t at, const char *name,
                          kvt_err *err)
{
    *out = *type = -1;
    if (H5Aexists(at, name) <= 0) {
        H5Eclear2(H5E_DEFAULT);
        return kvt_fail(err, KVT_NOTFOUND, "no attribute '%s'", name);
    }
    if ((*out = H5Aopen(at, name, H5P_DEFAULT)) < 0)
        return h5_fail(err, KVT_FORMAT, name);
    *type = H5Aget_type(*out);
    hid_t space = H5Aget_space(*out);
    H5S_class_t kind = space < 0 ? H5S_NO_CLASS : H5Sget_simple_extent_type(space);
    *n = kind == H5S_NULL ? 0 : space < 0 ? -1 : (int64_t)H5Sget_simple_extent_npoints(space);
    if (space >= 0)
        H5Sclose(space);
    if (*type < 0 || *n < 0)
        return h5_fail(err, KVT_FORMAT, name);
    return KVT_OK;
}

static void close_attr(hid_t attr, hid_t type)
{
    if (type >= 0)
        H5Tclose(type);
    if (attr >= 0)
        H5Aclose(attr);
}

kvt_code h5_get_array(hid_t at, const char *name, hid_t type, int64_t cap, int64_t *n,
                      void *out, kvt_err *err)
{
    hid_t attr, stored;
    kvt_code code = open_attr(&attr, &stored, n, at, name, err);
    if (code)
        goto out;
    H5T_class_t want = H5Tget_class(type), got = H5Tget_class(stored);
    /* A producer may store a whole number where a real is meant, not the other way round. */
    if (got != want && !(want == H5T_FLOAT && got == H5T_INTEGER))
        code = kvt_fail(err, KVT_FORMAT, "attribute '%s': expected %s", name,
                        want == H5T_INTEGER ? "an integer"
                        : want == H5T_FLOAT ? "a real"
                                            : "text");
    else if (*n > cap)
        code =
            kvt_fail(err, KVT_FORMAT, "attribute '%s': expected at most %lld values, got %lld",
                     name, (long long)cap, (long long)*n);
    else if (want == H5T_STRING &&
             (H5Tis_variable_str(stored) || H5Tget_size(stored) > H5Tget_size(type)))
        code = kvt_fail(err, KVT_FORMAT, "attribute '%s': text is too long", name);
    else if (*n > 0 && H5Aread(attr, type, out) < 0)
        code = h5_fail(err, KVT_FORMAT, name);
out:
    close_attr(attr, stored);
    return code;
}

/* One string of variable length: HDF5 allocates it, so HDF5 frees it. */
static kvt_code read_variable(hid_t attr, const char *name, char *out, size_t cap, kvt_err *err)
{
    char *s = NULL;
    kvt_code code = KVT_OK;
    hid_t type = h5_text_type(H5T_VARIABLE);
    if (type < 0 || H5Aread(attr, type, &s) < 0)
        code = h5_fail(err, KVT_FORMAT, name);
    else if (s && strlen(s) >= cap)
        code = kvt_fail(err, KVT_FORMAT, "attribute '%s': text of %zu bytes, at most %zu fit",
                        name, strlen(s), cap - 1);
    else
        snprintf(out, cap, "%s", s ? s : "");
    if (s)
        H5free_memory(s);
    if (type >= 0)
        H5Tclose(type);
    return code;
}

kvt_code h5_get_text(hid_t at, const char *name, char *out, size_t cap, kvt_err *err)
{
    hid_t attr, stored;
    int64_t n = 0;
    char s[TEXT_MAX + 1] = "";
    kvt_code code = open_attr(&attr, &stored, &n, at, name, err);
    if (code)
        goto out;
    if (H5Tget_class(stored) != H5T_STRING || n != 1) {
        code = kvt_fail(err, KVT_FORMAT, "attribute '%s': expected one text", name);
        goto out;
    }
    if (H5Tis_variable_str(stored)) {
        code = read_variable(attr, name, out, cap, err);
        goto out;
    }
    size_t size = H5Tget_size(stored);
    if (size > TEXT_MAX)
        code = kvt_fail(err, KVT_FORMAT, "attribute '%s': text of %zu bytes", name, size);
    else if (H5Aread(attr, stored, s) < 0)
        code = h5_fail(err, KVT_FORMAT, name);
    else if (strlen(s) >= cap)
        code = kvt_fail(err, KVT_FORMAT, "attribute '%s': text of %zu bytes, at most %zu fit",
                        name, strlen(s), cap - 1);
    else
        snprintf(out, cap, "%s", s);
out:
    close_attr(attr, stored);
    return code;
}

kvt_code h5_get_int(hid_t at, const char *name, int64_t *out, kvt_err *err)
{
    int64_t n, x;
    if (h5_get_array(at, name, H5T_NATIVE_INT64, 1, &n, &x, err))
        return err->code;
    if (n != 1)
        return kvt_fail(err, KVT_FORMAT, "attribute '%s': expected one number", name);
    *out = x;
    return KVT_OK;
}

kvt_code h5_get_real(hid_t at, const char *name, double *out, kvt_err *err)
{
    int64_t n;
    double x;
    if (h5_get_array(at, name, H5T_NATIVE_DOUBLE, 1, &n, &x, err))
        return err->code;
    if (n != 1)
        return kvt_fail(err, KVT_FORMAT, "attribute '%s': expected one number", name);
    *out = x;
    return KVT_OK;
}
