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

KVT_CHECKED kvt_code long_open(long_trace *out, const kvt_result *result, kvt_err *err);
void long_close(long_trace *t);
/* The same at the end of a maker: hands the text to the sink. Returns code, or the sink's
 * failure. */
KVT_CHECKED kvt_code long_finish(long_trace *t, kvt_code code, const report_sink *sink,
                                 kvt_err *err);

/* The oracle's result for the same trace, and its cell with the same budget (-1: none). */
const kvt_result *long_oracle(const kvt_results *results, const kvt_result *of, int cell,
                              int *oracle_cell);
/* Whether that oracle keeps a prompt token in a lane of `of`: 1, 0, -1 not known. */
int long_oracle_keeps(const kvt_result *oracle, int cell, const kvt_result *of, int layer,
                      int lane, int64_t token);

#endif
