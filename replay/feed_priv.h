/* feed_priv.h - one layer of a trace, opened for its passes. */
#ifndef REPLAY_FEED_PRIV_H
#define REPLAY_FEED_PRIV_H

#include "replay/replay_priv.h"

enum { FEED_VIEWS = 16 };

/* What the passes of a run read of a layer. */
typedef struct feed_wants {
    unsigned needs;    /* kvt_need */
    int64_t n_window;  /* last prompt queries whose rows are read */
    bool future;       /* the response's rows in f32, too */
    bool rest;         /* with them and values: what the response's tokens add to the outputs */
    const bool *probe; /* [probes of the trace]; NULL: none */
} feed_wants;

typedef struct layer_feed {
    kvt_trace *trace;
    int layer;
    int64_t n_prompt, n_response, n_before, n_window; /* stored prompt queries; those in rows */
    kvt_view view[FEED_VIEWS];                        /* borrowed, as they are given back */
    kvt_feed all;                                     /* the same, by name */
    layer_rows rows;                                  /* f16 [H window+M T] */
    float *window;                                    /* f32 [H window T] */
    float *logits; /* f32 [H window+M T] before the softmax, NULL unless wanted */
    float *future; /* f32 [H M T] */
    float *rest;   /* f32 [H M D] what response tokens add to the outputs of its rows */
    float *row;    /* f32 [H T] the row at hand */
    float *wide;   /* f32 [H n_wide T] that row and those in front of it */
    int64_t n_wide, wide_room; /* rows; floats that are there */
    float *blocks;             /* f32 [H J N] */
    float *decided;            /* f32 [G T] decisions at the slots that they are about */
    kvt_probe_feed *probe;     /* [n_probe] those that nobody reads are empty */
    int n_probe;
} layer_feed;

/* Reads what is wanted, rows where the trace has them. */
KVT_CHECKED kvt_code feed_open(layer_feed *out, kvt_trace *t, int layer, const feed_wants *want,
                               kvt_err *err);
void feed_close(layer_feed *f);
bool feed_has_rows(const kvt_trace_info *info);
layer_rows feed_response(const layer_feed *f); /* borrowed: the response's rows */

/* The prompt as the engine takes it. future_mean f32 [H N] stands in where there are no rows.
 */
KVT_CHECKED kvt_code feed_prompt(layer_feed *f, kvt_feed *out, const kvt_scores *scores,
                                 const float *future_mean, kvt_err *err);
/* Decodes response row `row` to f32 [H T], the first N + row + 1 of each; then its token. */
const float *feed_row(layer_feed *f, int64_t row);
/* Decodes that row and the n - 1 queries in front of it, of the prompt's those that were wanted
 * (n_window). */
KVT_CHECKED kvt_code feed_rows(layer_feed *f, int64_t row, int64_t n, kvt_err *err);
/* Shows the last n_query queries, 1 unless feed_rows() was called for this row. */
void feed_token(const layer_feed *f, kvt_feed *out, int64_t row, int64_t n_query,
                const kvt_scores *scores);

/* feed_probe.c: the probes that are wanted [probes of the trace], NULL: none. */
KVT_CHECKED kvt_code probes_open(layer_feed *f, const bool *wanted, kvt_err *err);
void probes_close(layer_feed *f);

#endif
