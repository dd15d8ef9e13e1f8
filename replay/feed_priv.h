/* feed_priv.h - one layer of a trace, opened for its passes. */
#ifndef REPLAY_FEED_PRIV_H
#define REPLAY_FEED_PRIV_H

#include "replay/replay_priv.h"

enum { FEED_VIEWS = 16 };

typedef struct layer_feed {
    kvt_trace *trace;
    int layer;
    int64_t n_prompt, n_response, n_before, n_window; /* stored prompt queries; those in rows */
    kvt_view view[FEED_VIEWS];                        /* borrowed, as they are given back */
    kvt_feed all;                                     /* the same, by name */
    layer_rows rows;                                  /* f16 [H window+M T] */
    float *window;                                    /* f32 [H window T] */
    float *future;                                    /* f32 [H M T] */
    float *row;                                       /* f32 [H T] the row at hand */
    float *blocks;                                    /* f32 [H J N] */
} layer_feed;

/* Reads what the needs ask for; rows of the last n_window prompt queries and of the response
 * where the trace has them; `future`: the latter in f32, too. */
KVT_CHECKED kvt_code feed_open(layer_feed *out, kvt_trace *t, int layer, unsigned needs,
                               int64_t n_window, bool future, kvt_err *err);
void feed_close(layer_feed *f);
bool feed_has_rows(const kvt_trace_info *info);
layer_rows feed_response(const layer_feed *f); /* borrowed: the response's rows */

/* The prompt as the engine takes it. future_mean f32 [H N] stands in where there are no rows.
 */
KVT_CHECKED kvt_code feed_prompt(layer_feed *f, kvt_feed *out, const kvt_scores *scores,
                                 const float *future_mean, kvt_err *err);
/* Decodes response row `row` to f32 [H T], the first N + row + 1 of each; then its token. */
const float *feed_row(layer_feed *f, int64_t row);
void feed_token(const layer_feed *f, kvt_feed *out, int64_t row, const kvt_scores *scores);

#endif
