/* result.h - what a replay found: one kvt_result is one pass, a policy at its budgets on one
 * trace. Kept in memory, and in DIR/TRACE/PASS.kvt-results.h5 (traces/results.def).
 *
 * Undefined numbers are NAN or KVT_EMPTY_INT, never 0. */
#ifndef KVT_RESULT_H
#define KVT_RESULT_H

#include "kvt/table.h"
#include "kvt/trace.h"

enum { KVT_VALUES_MAX = 96, KVT_RUN_ID = 33, KVT_COLUMNS_MAX = 160 };

/* One row of cells.csv: trace x policy x budget. The metric columns (kvt/metric.h) are in
 * value[], in the order of the registry; kvt_cell_schema() knows them. */
typedef struct kvt_cell {
    char run_id[KVT_RUN_ID]; /* XXH128 of the cell's canonical text; 8 digits for people */
    char trace_id[128];
    char policy[96];         /* name, with "/allocator" where one was named */
    char policy_params[384]; /* canonical, defaults written out */
    char exactness[24];
    char budget_asked[32], budget_rule[24];
    double budget_tokens; /* slots a lane may hold, mean over lanes */
    double budget_frac;   /* of the prompt */
    char act[16];         /* prefill, decode */
    char growth[16];      /* on-top: decoded tokens come on top of the budget; inside; ragged */
    int64_t seed;         /* of random streams; empty where nothing is drawn */
    char model[96];
    int64_t layers, kv_heads, q_heads, prompt_tokens, decode_steps;
    double kept_tokens_mean;
    int64_t kept_tokens_min,
        kept_tokens_max;            /* over lanes, after the decision at the prompt's end */
    double end_slots_mean_tokens;   /* after the last decision */
    int64_t kept_bytes, full_bytes; /* K and V in the trace's type, whole trace, at the end */
    int64_t acted_count;            /* decisions a lane took, the largest over lanes */
    int64_t evictions_prefill_count, evictions_decode_count;
    double lost_mass_ci_lo_frac, lost_mass_ci_hi_frac; /* spread over lanes of this one trace */
    double oracle_lost_mass_mean_frac; /* of the oracle with the same number of slots in each
                                          lane */
    double regret_mean_frac, allocation_regret_mean_frac;
    int64_t attn_kl_inf_count; /* rows that lost everything: left out of the mean */
    int64_t worst_layer, worst_kv_head, worst_step; /* by lost mass; layer of the model */
    int64_t decisions_count;                        /* slot updates */
    char status[16];                                /* ok, skipped, failed */
    char error[256];
    double value[KVT_VALUES_MAX];
} kvt_cell;

/* One row of lanes.csv: a cell's lane. Metric columns are mean values of the lane, in value[].
 */
typedef struct kvt_lane_row {
    char run_id[KVT_RUN_ID];
    char policy[96];
    char budget_asked[32];
    int64_t layer; /* of the model */
    int64_t kv_head;
    int64_t asked_tokens, kept_prefill_tokens, kept_end_tokens, kept_max_tokens;
    int64_t pinned_tokens; /* after the decision at the prompt's end */
    char flag[16];         /* ok, over, under, empty, grows: the budget audit */
    double oracle_lost_mass_mean_frac, regret_mean_frac;
    int64_t worst_step;
    double worst_lost_frac;
    double value[KVT_VALUES_MAX];
} kvt_lane_row;

typedef struct kvt_schema {
    kvt_column column[KVT_COLUMNS_MAX + 1]; /* ends with {0} */
    int n;
} kvt_schema;

/* The columns with the registered metrics; replay/columns.c has them. traces/ takes them as
 * arguments, so that the format knows no metric. */
KVT_API void kvt_cell_schema(kvt_schema *out);
KVT_API void kvt_lane_schema(kvt_schema *out);

typedef struct kvt_result {
    char path[1024]; /* of its file, "" where it was not written */
    char pass_id[KVT_DIGEST_TEXT];
    char trace_path[1024], trace_id[128], trace_digest[KVT_DIGEST_TEXT];
    char policy_text[512]; /* canonical: name/share:k=v,... */
    char policy_title[128];
    bool is_control, by_query_head;
    int n_layer, n_lane; /* L, A */
    int64_t n_prompt, n_response;
    int32_t layer_id[KVT_LAYERS_MAX];
    int n_cell;
    kvt_cell *cell;     /* [n_cell] by rising budget */
    kvt_lane_row *lane; /* [n_cell L A]; of a skipped cell all empty */
    char *plan_note;    /* "acted 9 times", or NULL */

    /* Arrays; NULL where kvt_result_open() was not asked for them or the pass has none. */
    float *score;  /* f32 [L A N] of the decision at the end of the prompt; NULL in SKIP */
    int32_t *rank; /* i32 [L A N] 0 is the last to go; pinned tokens first. One-ranking only */
    uint8_t *pinned;     /* u8 [L A N] at the end of the prompt (budget-independent passes) */
    int32_t *cut;        /* i32 [n_cell L A] one-ranking: kept is rank < cut */
    int32_t *evict_step; /* i32 [n_cell L A T] -1: never; NULL: use rank and cut */
    float *lost; /* f32 [n_cell L A M] lost mass of each response row, mean over its heads */
    float *kept_count; /* f32 [n_cell L A M] slots that each row saw */
} kvt_result;

KVT_API kvt_result *kvt_result_new(void); /* NULL: out of memory */
KVT_API void kvt_result_free(kvt_result *r);
KVT_API void kvt_result_drop_arrays(kvt_result *r);

/* Step at which a token left that lane: -1 never, 0 at the end of the prompt, t after row t
 * - 1. */
KVT_API int32_t kvt_result_evict_step(const kvt_result *r, int cell, int layer, int lane,
                                      int64_t token);

/* Writes by a temporary name and a rename; `cells` and `lanes` say which columns the rows have.
 */
KVT_API KVT_CHECKED kvt_code kvt_result_write(const kvt_result *r, const kvt_schema *cells,
                                              const kvt_schema *lanes, const char *path,
                                              kvt_err *err);
/* Columns are matched by name: one that the file lacks is undefined in every row (NAN,
 * KVT_EMPTY_INT, ""), one that it has beside them is passed over. Expected: NOTFOUND, FORMAT.
 */
KVT_API KVT_CHECKED kvt_code kvt_result_open(kvt_result **out, const kvt_schema *cells,
                                             const kvt_schema *lanes, const char *path,
                                             bool arrays, kvt_err *err);
/* Reads kept_count from its file where some cell's slots change from step to step and it is not
 * there; a result without a file keeps what it has. */
KVT_API KVT_CHECKED kvt_code kvt_result_read_steps(kvt_result *r, const kvt_schema *cells,
                                                   const kvt_schema *lanes, kvt_err *err);
KVT_API bool kvt_is_result_path(const char *path); /* ends with ".kvt-results.h5" */

/* A set of results, owned. */
typedef struct kvt_results {
    kvt_result **result;
    int64_t n;
} kvt_results;

KVT_API void kvt_results_free(kvt_results *s); /* NULL is fine */
KVT_API KVT_CHECKED kvt_code kvt_results_add(kvt_results *s, kvt_result *r, kvt_err *err);
/* Every result file below `dir` (or the file `dir`), sorted by trace and policy. */
KVT_API KVT_CHECKED kvt_code kvt_results_load(kvt_results **out, const kvt_schema *cells,
                                              const kvt_schema *lanes, const char *dir,
                                              bool arrays, kvt_err *err);

#endif
