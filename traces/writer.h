/* writer.h - puts that do not wait, for a writer who computes what comes next meanwhile.
 *
 *   int64_t n;
 *   writer_put_later(w, ds, layer, &view, &n, &err);   view.data must stay as it is
 *   ... compute ...
 *   writer_wait(w, n, &err);                           now it may change
 *
 * Puts reach the file in the order in which they were made. kvt_writer_close() waits for all,
 * and fails where one has; so does kvt_writer_abort(), and ignores what they say. */
#ifndef TRACES_WRITER_H
#define TRACES_WRITER_H

#include "kvt/trace.h"

/* As kvt_writer_put() for contiguous values of the stored type; what fails behind is said by a
 * later call. *n: its number, rising. */
KVT_CHECKED kvt_code writer_put_later(kvt_writer *w, kvt_ds ds, int layer, const kvt_view *data,
                                      int64_t *n, kvt_err *err);
/* Waits for the puts up to number n. */
KVT_CHECKED kvt_code writer_wait(kvt_writer *w, int64_t n, kvt_err *err);

#endif
