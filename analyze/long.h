/* long.h - what the long tables (steps, evictions) read beside results: the trace of a result,
 * its tokens as text, attention rows, and the oracle's result for the same trace and budget. */
#ifndef ANALYZE_LONG_H
#define ANALYZE_LONG_H

#include "analyze/report_priv.h"
#include "kvt/replay.h"

typedef struct long_trace {
    kvt_trace *trace;
    const kvt_trace_info *info;
    kvt_rows *rows;            /* NULL where the trace holds neither rows nor queries */
    kvt_view id;               /* i32 [T] */
    int layer[KVT_LAYERS_MAX]; /* layer of the trace that each layer of the result is */
    kvt_arena *text;           /* of the strings below */
    const char **token;        /* [T] text, "" where it was left out; not made safe */
    const char **hex;          /* [T] its bytes, two digits each */
} long_trace;

/* A lane of a cell, as the maker of its rows sees it. */
typedef struct long_lane {
    const kvt_result *r, *oracle;       /* oracle: for the same trace and budget, NULL: none */
    int cell, oracle_cell, layer, lane; /* of the result */
    long_trace *trace;
    report_key key;
    const report_sink *sink;
    void *work; /* from long_kind.work */
} long_lane;

/* A long table: what it needs of a result, its memory for one trace, and the rows of one lane.
 */
typedef struct long_kind {
    const char *what; /* for progress */
    bool (*has)(const kvt_result *r);
    /* Memory for lanes of n_token tokens, from the trace's arena. NULL: out of memory. */
    void *(*work)(kvt_arena *arena, int64_t n_token);
    kvt_code (*lane)(const long_lane *at, kvt_err *err);
} long_kind;

/* Calls kind->lane() for every lane of every cell that run_id asks for, in table order. */
KVT_CHECKED kvt_code long_make(const long_kind *kind, const kvt_results *results,
                               const char *run_id, const report_sink *sink, const kvt_ctx *ctx,
                               kvt_err *err);

/* Attention of the response rows to the lane's tokens, mean over its query heads: f32 [M T];
 * NULL where the trace has neither rows nor queries. Borrowed until the next call. */
KVT_CHECKED kvt_code long_rows(const float **rows, const long_lane *at, kvt_err *err);

/* Whether the oracle keeps a prompt token in this lane: 1, 0, -1 not known. */
int long_oracle_keeps(const long_lane *at, int64_t token);

#endif
