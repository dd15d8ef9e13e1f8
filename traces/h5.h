/* h5.h - HDF5 with errors as ours, files as we want them, attributes with checked types.
 *
 * Everything here runs on the thread of io.h. Strings are stored with a fixed length: they lie
 * in object headers, which carry a checksum (strings of variable length lie in a heap that has
 * none). */
#ifndef TRACES_H5_H
#define TRACES_H5_H

#include <hdf5.h>

#include "kvt/view.h"

/* "what: the innermost text of HDF5's error stack"; clears the stack. */
kvt_code h5_fail_at(kvt_err *err, kvt_code code, const char *file, int line, const char *what);
#define h5_fail(err, code, what) h5_fail_at((err), (code), __FILE__, __LINE__, (what))

/* ---- files ---------------------------------------------------------------------------------
 */

/* Bounds V18, close-on-exec, no lock: a file under a final name is never written again. */
KVT_CHECKED kvt_code h5_file_new(hid_t *out, const char *path, kvt_err *err);
/* Says "no such file", "not an HDF5 file", "cut short (9 MiB expected, 7 MiB found)". */
KVT_CHECKED kvt_code h5_file_open(hid_t *out, const char *path, kvt_err *err);
/* One that is there, to be added to; what it holds is not looked at first. */
KVT_CHECKED kvt_code h5_file_change(hid_t *out, const char *path, kvt_err *err);
/* Flushes, syncs and closes a file that was written; fails where any of it does, and where an
 * object of it is still open. The file is closed in any case. */
KVT_CHECKED kvt_code h5_file_close(hid_t file, kvt_err *err);
/* Objects of a file that are open: it stays open behind a close that reports success. */
int64_t h5_file_objects(hid_t file);
KVT_CHECKED kvt_code h5_file_sync(hid_t file, kvt_err *err); /* flush and fsync */
void h5_file_drop(hid_t file); /* closes a file that was read, or that is given up */

/* ---- types and objects ---------------------------------------------------------------------
 */

/* The type as it lies in a file, little-endian; a half is 1-5-10 bits, a brain float 1-8-7. The
 * caller closes it. -1 where HDF5 fails. */
hid_t h5_type(kvt_dtype dtype);
hid_t h5_text_type(size_t size); /* UTF-8, ended by NUL, of that many bytes with it */
/* The kvt_dtype that a file's type is, or -1. */
int h5_dtype(hid_t type);

/* Whether path leads to an object over hard links only (others may name another file): 1 or 0;
 * -1 where the file is damaged there. */
int h5_has(hid_t at, const char *path);
/* Opens the dataset at path: hard links, stored in this file, no external storage. */
KVT_CHECKED kvt_code h5_set_open(hid_t *out, hid_t at, const char *path, kvt_err *err);
/* Group at path, made where it is not there. */
KVT_CHECKED kvt_code h5_group(hid_t *out, hid_t at, const char *path, kvt_err *err);

/* Chunks of a dataset between lo and hi on the outermost axis: all there, of a possible length,
 * through every filter. HDF5 1.10 trusts the length and the filter mask of its index, which has
 * no checksum, and would read past the end of what the filters give. Nothing to do where it is
 * not chunked. */
KVT_CHECKED kvt_code h5_chunks_check(hid_t set, int64_t lo, int64_t hi, int64_t file_bytes,
                                     kvt_err *err);

/* The whole of a dataset whose type and extents are already known to fit `out`. */
KVT_CHECKED kvt_code h5_set_read(void *out, hid_t set, hid_t type, kvt_err *err);
/* A new dataset, contiguous, or chunked by `chunk` with shuffle, deflate and fletcher32. */
KVT_CHECKED kvt_code h5_set_new(hid_t *out, hid_t at, const char *path, hid_t type, int rank,
                                const int64_t *dim, const int64_t *chunk, kvt_err *err);
/* One call for a small dataset: new, written, closed. Deflated where above a page. */
KVT_CHECKED kvt_code h5_set_write(hid_t at, const char *path, kvt_dtype dtype, int rank,
                                  const int64_t *dim, const void *data, kvt_err *err);

/* ---- attributes ----------------------------------------------------------------------------
 */

KVT_CHECKED kvt_code h5_put_text(hid_t at, const char *name, const char *text, kvt_err *err);
KVT_CHECKED kvt_code h5_put_array(hid_t at, const char *name, hid_t type, int64_t n,
                                  const void *data, kvt_err *err); /* n -1: a scalar */
KVT_CHECKED kvt_code h5_put_int(hid_t at, const char *name, int64_t x, kvt_err *err);
KVT_CHECKED kvt_code h5_put_real(hid_t at, const char *name, double x, kvt_err *err);

/* NOTFOUND where it is absent, FORMAT where it has another class or more elements than cap (a
 * text: does not fit). Fixed and variable strings are read. */
KVT_CHECKED kvt_code h5_get_text(hid_t at, const char *name, char *out, size_t cap,
                                 kvt_err *err);
KVT_CHECKED kvt_code h5_get_array(hid_t at, const char *name, hid_t type, int64_t cap,
                                  int64_t *n, void *out, kvt_err *err);
KVT_CHECKED kvt_code h5_get_int(hid_t at, const char *name, int64_t *out, kvt_err *err);
KVT_CHECKED kvt_code h5_get_real(hid_t at, const char *name, double *out, kvt_err *err);

#endif
