/* recorder.h - the tap that keeps what a trace holds, and its way into a file.
 *
 *   recorder *r;
 *   recorder_new(&r, &spec, &err);
 *   forward_spec fs = {.tap = recorder_tap(r), ...};
 *   ... run; recorder_logit() for each response token ...
 *   recorder_write(r, f, writer, &err);
 *   recorder_free(r);
 *
 * Keys and values are not copied: they are read from the engine's own when written. On a device
 * capture/device_record.h keeps the same, and brings it into the same memory (and keys and
 * values as well). Queries are kept as halves; attention rows are computed from the stored
 * halves by compute/rows.h. What can be had at the end for all tokens at once (value norms,
 * rows) is computed there. */
#ifndef CAPTURE_RECORDER_H
#define CAPTURE_RECORDER_H

#include "capture/forward.h"
#include "capture/future.h"
#include "capture/sample.h"
#include "kvt/trace.h"

enum {
    RECORDER_QUERIES = 64,
    RECORDER_SKIP = 4
}; /* prompt rows kept; rows moments leave out */

typedef struct recorder_spec {
    const kvt_weights *weights;
    const kvt_backend *backend;
    const device_weights *device; /* NULL: the processor runs the model */
    const kvt_ctx *ctx;
    kvt_level level;
    int n_layer;
    int32_t layer_id[KVT_LAYERS_MAX];
    int64_t n_prompt, n_token; /* n_token: at most */
    int64_t tile;              /* the engine's */
    int64_t delay, block_limit, rows_limit;
    bool queries_all;
} recorder_spec;

typedef struct recorder recorder;

KVT_CHECKED kvt_code recorder_new(recorder **out, const recorder_spec *spec, kvt_err *err);
void recorder_free(recorder *r); /* NULL is fine */
/* Of the host; and of the device, in *on_device, which may be NULL. */
int64_t recorder_bytes(const recorder_spec *spec, int64_t *on_device);
const tap *recorder_tap(const recorder *r);
device_record *recorder_device(const recorder *r); /* NULL: not on a device */
/* What is kept on the device of such a recording, without the memory that it is brought to.
 * Borrows the layers of *spec. */
void recorder_device_spec(device_record_spec *out, const recorder_spec *spec);

/* Stored queries of the prompt after RoPE, f16 [n D], the last of them that of position N - 1;
 * `layer` is one of the model. NULL: not recorded. */
const uint16_t *recorder_queries(const recorder *r, int layer, int64_t head, int64_t *n);

/* Row m of /logit: what the sampler described, or what a device says, whose logit of the token
 * that was taken is `taken`. */
void recorder_logit(recorder *r, int64_t m, const sample_row *row);
void recorder_top(recorder *r, int64_t m, const device_top *top, float taken);

/* For a response that is given: row m of /logit is described as the engine tells it, with id[m]
 * the token that follows. sampler and id are borrowed until the end of the run; what fails is
 * returned by recorder_write(), or by the pass on a device. */
void recorder_expect(recorder *r, sampler *s, const int32_t *id, int64_t n);

/* Extents of a trace of n_token tokens by that spec: n_query, n_block, layers, and block_tokens
 * and delay of the facts. Text lengths are the caller's. */
void recorder_extents(kvt_writer_spec *out, const recorder_spec *spec, int64_t n_token);
/* Whether attn/rows of a trace of n_token tokens is within rows_limit. */
bool recorder_has_rows(const recorder_spec *spec, int64_t n_token);

/* Writes every dataset of the level but /token and /text, from a sequence that has run to its
 * end. seconds: of what was computed here; may be NULL. */
KVT_CHECKED kvt_code recorder_write(recorder *r, const forward *f, kvt_writer *w,
                                    double *seconds, kvt_err *err);

#endif
