/* tracein.h - one trace while a step reads it: the datasets that the trainer asked for, all
 * layers, in the stored type, until close. */
#ifndef TRAIN_TRACEIN_H
#define TRAIN_TRACEIN_H

#include "train/train_priv.h"

enum { TRACEIN_MAX = 8 };

typedef struct tracein {
    kvt_trace *t;
    const kvt_trace_info *info;
    const train_trace *of;
    int64_t H, G, R, D, E, N, T; /* as in the trace; R query heads a kv head */
    int n_layer, n_ds;
    kvt_ds ds[TRACEIN_MAX];
    kvt_view *view; /* [n_ds n_layer] */
    void *extra;    /* the trainer's own, freed by it */
} tracein;

/* The datasets must be there (train_needs). s is valid on failure, too: close it. */
KVT_CHECKED kvt_code tracein_open(tracein *s, const train_trace *of, const kvt_ds *ds, int n_ds,
                                  kvt_err *err);
/* One layer of them only. */
KVT_CHECKED kvt_code tracein_open_layer(tracein *s, const train_trace *of, const kvt_ds *ds,
                                        int n_ds, int layer, kvt_err *err);
void tracein_close(tracein *s);

/* A dataset's slab of one layer (without an axis L: all of it). */
const void *tracein_at(const tracein *s, kvt_ds ds, int layer);

/* out [T] = the attention of one query head at row `row` of query/q on every key, 0 where it
 * does not see one: the softmax over the stored halves. query f32 [D] is scratch; key f32 [T D]
 * of the head's lane. Needs KVT_DS_QUERIES and KVT_DS_QUERY_POS. */
void tracein_row(float *out, const tracein *s, int layer, int64_t head, int64_t row,
                 const float *key, float *query);
/* The row of query/q at a position, -1: not stored. */
int64_t tracein_find(const tracein *s, int64_t pos);

/* out [T D] = the keys of one lane. */
void tracein_keys(float *out, const tracein *s, int layer, int lane);

/* out [T 2 D] = the keys and values of one lane, [k; v] a token, for the first n tokens. */
void tracein_lane(float *out, const tracein *s, int layer, int lane, int64_t n, int64_t ld);

#endif
