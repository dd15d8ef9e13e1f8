/* device_forward.h - a model running on a device: many rows or one, by one function of a layer.
 *
 *   device_forward *f;
 *   device_forward_spec spec = {.weights = w, .record = r, .n_token = 2304, .n_row = 2048};
 *   if (device_forward_new(&f, &spec, &err) || device_forward_prefill(f, id, n, &err)) ...
 *   device_forward_top(f, &top, &err)                    the 64 best behind the last row
 *   device_forward_step(f, top.id[0], &err)
 *   device_forward_free(f);
 *
 * Layer by layer; in a layer chunks of DEVICE_CHUNK rows, in a chunk tiles of device_tile()
 * queries, whose scores are one product for each kv head; T x T is never there. Memory is taken
 * in device_forward_new() and never later. The same bytes on every run: one stream, shapes that
 * follow from the tokens alone.
 *
 * Needs of ours: base/, compute/ (layer.h for the rotation's table), capture/device_weights.c,
 * capture/device_record.c, capture/device_receive.c. */
#ifndef CAPTURE_DEVICE_FORWARD_H
#define CAPTURE_DEVICE_FORWARD_H

#include "capture/device_record.h"

enum {
    DEVICE_CHUNK = 2048,    /* rows of projections at a time */
    DEVICE_TILE = 64,       /* query rows of attention, at least: blocks are multiples of it */
    DEVICE_TILE_MOST = 512, /* which divides DEVICE_CHUNK */
    DEVICE_LOGITS = 32      /* rows whose logits are there at a time */
};

/* Query rows of attention at a time. A tile is six launches, which take as long as 64 rows of a
 * short sequence; of a long one its scores, f32 [H tile n_token], are what bounds it. */
int64_t device_tile(const kvt_geometry *g, int64_t n_token);

typedef struct device_forward_spec {
    const device_weights *weights;
    device_record *record; /* NULL: nothing is recorded */
    const kvt_ctx *ctx;    /* progress, between layers; may be NULL */
    int64_t n_token;       /* longest sequence */
    int64_t n_row;         /* most rows of one pass */
    int64_t tile;          /* DEVICE_TILE times a power of two; 0: device_tile() */
    int64_t n_vocab;       /* ids that logits are looked at for; 0: all rows of the embedding */
} device_forward_spec;

/* What is said behind a row: the best ids by falling logit, lower ids first among equals. */
typedef struct device_top {
    int32_t id[DEV_TOP]; /* -1 beyond n_vocab */
    float logit[DEV_TOP];
    float lse, entropy; /* of the whole row; nats */
} device_top;

typedef struct device_forward device_forward;

KVT_CHECKED kvt_code device_forward_new(device_forward **out, const device_forward_spec *spec,
                                        kvt_err *err);
void device_forward_free(device_forward *f); /* NULL is fine */
/* Of device memory, and of pinned memory of the host, that device_forward_new() takes. */
int64_t device_forward_bytes(const device_forward_spec *spec, int64_t *pinned);

/* As forward_prefill() and forward_step(). STOPPED, USAGE, and DEVICE where the device fails.
 */
KVT_CHECKED kvt_code device_forward_prefill(device_forward *f, const int32_t *id, int64_t n,
                                            kvt_err *err);
KVT_CHECKED kvt_code device_forward_step(device_forward *f, int32_t id, kvt_err *err);
/* Rows that are given; each(user, pos, top) is told what the model says behind every row, and
 * may ask device_forward_logit() about that row. */
typedef kvt_code device_row_fn(void *user, int64_t pos, const device_top *top, kvt_err *err);
KVT_CHECKED kvt_code device_forward_force(device_forward *f, const int32_t *id, int64_t n,
                                          device_row_fn *each, void *user, kvt_err *err);

/* Behind the last row. FORMAT: no number among the logits, or one that is none. */
KVT_CHECKED kvt_code device_forward_top(device_forward *f, device_top *out, kvt_err *err);
KVT_CHECKED kvt_code device_forward_logits(device_forward *f, float *out, kvt_err *err);
/* The logit of one id, behind the last row or the one that `each` was told of. */
KVT_CHECKED kvt_code device_forward_logit(device_forward *f, int32_t id, float *out,
                                          kvt_err *err);

int64_t device_forward_length(const device_forward *f);
/* Rows first .. first + n of a head's keys or values, as halves [n D]. */
KVT_CHECKED kvt_code device_forward_halves(device_forward *f, bool keys, int layer,
                                           int64_t kv_head, int64_t first, int64_t n,
                                           uint16_t *out, kvt_err *err);
/* The end of a recording: everything is in the recorder's arrays. */
KVT_CHECKED kvt_code device_forward_finish(device_forward *f, kvt_err *err);

#endif
