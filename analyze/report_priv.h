/* report_priv.h - what the tables of analyze/ share. */
#ifndef ANALYZE_REPORT_PRIV_H
#define ANALYZE_REPORT_PRIV_H

#include "kvt/analyze.h"
#include "kvt/arena.h"

/* Key columns of the long tables, borrowed from the cell that a row is about. */
typedef struct report_key {
    const char *run_id, *trace_id, *policy, *policy_params, *exactness, *budget_asked,
        *budget_rule;
    double budget_tokens, budget_frac;
    int64_t seed;
} report_key;

void report_key_of(report_key *out, const kvt_cell *cell);
/* Appends the key columns, at `offset` of a row. */
void report_key_schema(kvt_schema *out, size_t offset);
void report_schema_add(kvt_schema *out, const kvt_column *columns); /* ended by {0} */

/* Receives rows. Text columns are borrowed from the results and, for tokens, from an arena that
 * adopt() takes over when a trace is done; where it is NULL, the maker frees it. */
typedef struct report_sink {
    kvt_code (*rows)(void *user, const void *rows, int64_t n, kvt_err *err);
    kvt_code (*adopt)(void *user, kvt_arena *text, kvt_err *err);
    void *user;
} report_sink;

typedef struct report_kind {
    const char *name, *title;
    size_t row_size;
    void (*schema)(kvt_schema *out);
    /* Makes every row, sorted by key, into the sink. `run_id` NULL: of every cell that is ok.
     */
    kvt_code (*make)(const kvt_results *results, const char *run_id, const report_sink *sink,
                     const kvt_ctx *ctx, kvt_err *err);
} report_kind;

extern const report_kind report_cells, report_lanes, report_audit, report_steps,
    report_evictions, report_curve;

/* Whether run_id asks for this cell: a prefix of at least 6 digits does. */
bool report_wants(const char *run_id, const kvt_cell *cell);
/* Calls each() for every cell that is wanted, in table order; `all`: skipped and failed ones,
 * too. */
KVT_CHECKED kvt_code report_each(const kvt_results *results, const char *run_id, bool all,
                                 kvt_code (*each)(const report_sink *sink, const kvt_result *r,
                                                  int cell, kvt_err *err),
                                 const report_sink *sink, kvt_err *err);
/* Results in the order of the tables: by trace, controls last, policy, seed. Caller frees. */
const kvt_result **report_order(const kvt_results *results);

#endif
