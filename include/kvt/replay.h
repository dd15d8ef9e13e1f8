/* replay.h - policies x budgets x traces, offline.
 *
 *   kvt_replay_spec spec = {.trace = paths, .n_trace = n, .policies = "snapkv,h2o",
 *                           .budgets = "10%,25%,256"};
 *   kvt_results *found;
 *   kvt_code code = kvt_replay(&found, &spec, &ctx, &err);
 *   ... kvt_results_free(found);
 *
 * The unit of work is a pass: one trace, one policy, all budgets that are missing. Controls
 * (full, random with three seeds, position, the oracle) are always there. A cell that a trace
 * cannot answer, or whose budget is below what the policy protects, is skipped with its reason
 * and the others go on. */
#ifndef KVT_REPLAY_H
#define KVT_REPLAY_H

#include "kvt/ctx.h"
#include "kvt/policy.h"
#include "kvt/result.h"
#include "kvt/share.h"

/* ---- budgets -------------------------------------------------------------------------------
 */

/* X(id, name, what it does with the product of fraction and prompt length) */
/* clang-format off */
#define KVT_RULES(X)                                                                    \
    X(FLOOR_EXACT,     "floor_exact",     "exact product, rounded down, at least 1")    \
    X(FLOOR_IEEE,      "floor_ieee",      "int(T * (1 - removed)) in doubles, as kvpress; may be 0") \
    X(FLOOR_MIN1,      "floor_min1",      "the same, at least 1")                       \
    X(ROUND_HALF_EVEN, "round_half_even", "nearest, halves to even")                    \
    X(CEIL,            "ceil",            "rounded up")                                 \
    X(ABS,             "abs",             "tokens only: a fraction is refused")
/* clang-format on */
typedef enum kvt_rule {
#define X(id, name, help) KVT_RULE_##id,
    KVT_RULES(X)
#undef X
} kvt_rule;

typedef enum kvt_budget_kind {
    KVT_BUDGET_TOKENS,
    KVT_BUDGET_FRACTION,
    KVT_BUDGET_BYTES
} kvt_budget_kind;

/* A budget as asked: num / den of the prompt, tokens, or bytes for the whole model. */
typedef struct kvt_budget {
    kvt_budget_kind kind;
    int64_t num, den; /* den 1 unless a fraction */
    char text[32];    /* as typed: "12.5%" */
} kvt_budget;

enum { KVT_BUDGETS_MAX = 64 };

/* Reads a list: "64,128,10%,1/8,64MiB,5%..40%x2" (a geometric range: from, to, factor). Budgets
 * are sorted and equal ones dropped when they are resolved, not here. USAGE on 0, on anything
 * above 100 % and on text that is none of these. */
KVT_API KVT_CHECKED kvt_code kvt_budgets_parse(kvt_budget out[KVT_BUDGETS_MAX], int *n,
                                               const char *text, kvt_err *err);
/* Slots per lane, at least 1 (but 0 under FLOOR_IEEE where its arithmetic says so, and -1 for a
 * fraction under ABS). A fraction gives at most n_prompt; tokens and bytes may be more, and
 * then nothing of the prompt is evicted. n_lane lanes of `slot_bytes` a slot share a budget of
 * bytes. */
KVT_API int64_t kvt_budget_tokens(const kvt_budget *b, kvt_rule rule, int64_t n_prompt,
                                  int64_t n_lane, int64_t slot_bytes);
KVT_API const char *kvt_rule_name(kvt_rule rule);
KVT_API KVT_CHECKED kvt_code kvt_rule_parse(kvt_rule *out, const char *text, kvt_err *err);

/* ---- a policy in use -----------------------------------------------------------------------
 */

typedef enum kvt_act { KVT_ACT_OWN, KVT_ACT_PREFILL, KVT_ACT_DECODE } kvt_act;

/* The engine's own parameters, written like a policy's (a kvt_param table, kvt_use_params()).
 */
typedef struct kvt_use_params {
    char weights[KVT_PARAM_TEXT_MAX], probe[KVT_PARAM_TEXT_MAX], base[KVT_PARAM_TEXT_MAX],
        file[KVT_PARAM_TEXT_MAX];
    char threshold[KVT_PARAM_TEXT_MAX]; /* a number, under by_threshold; "": matched */
    char table[KVT_PARAM_TEXT_MAX];     /* file of an allocator that reads one */
    int64_t every; /* decode: decide every K steps; 0: the policy's own. A policy of the prompt
                      only decides anew every K tokens */
} kvt_use_params;

/* A policy with its parameters and allocator: "snapkv/ada:floor=0.2,window=16". */
typedef struct kvt_use {
    const kvt_policy *policy;
    const kvt_share *share; /* never NULL */
    bool share_named;       /* the user typed it */
    void *params, *share_params;
    struct kvt_use *base; /* the policy that scores first, or NULL; owned */
    bool again;           /* a policy of the prompt only that decides anew while decoding */
    kvt_use_params own;
    kvt_traits traits; /* after vary(), the base and the allocator */
    char name[96];     /* "snapkv/ada" or "snapkv" */
    char text[512];    /* canonical: "snapkv/ada:compat=paper,window=32,...,floor=0.2" */
} kvt_use;

/* Policies of plug-ins beside the built-in ones. */
typedef struct kvt_registry kvt_registry;
KVT_API KVT_CHECKED kvt_code kvt_registry_new(kvt_registry **out, kvt_err *err);
KVT_API void kvt_registry_free(kvt_registry *r); /* closes its plug-ins */
/* Loads ./NAME.so, checks abi, names and hooks. */
KVT_API KVT_CHECKED kvt_code kvt_registry_plugin(kvt_registry *r, const char *path,
                                                 kvt_err *err);
KVT_API const kvt_policy *const *kvt_registry_policies(const kvt_registry *r);
KVT_API const kvt_policy *kvt_registry_find(const kvt_registry *r, const char *name);
/* Nearest known name, or NULL; of the built-in ones where r is NULL. */
KVT_API const char *kvt_registry_nearest(const kvt_registry *r, const char *name);

/* Reads one policy's text form. */
KVT_API KVT_CHECKED kvt_code kvt_use_parse(kvt_use **out, const kvt_registry *r,
                                           const char *text, kvt_err *err);
/* Length of the first policy of a list: a piece with '=' and no ':' before it belongs to the
 * policy in front. */
KVT_API size_t kvt_use_length(const char *text);
/* Reads a list. "all" is every policy of the registry that is no control and that some trace
 * can answer. */
KVT_API KVT_CHECKED kvt_code kvt_uses_parse(kvt_use ***out, int *n, const kvt_registry *r,
                                            const char *text, kvt_err *err);
/* Why no trace could answer it (kvt_policy.why_not), or NULL. */
KVT_API const char *kvt_use_why_not(const kvt_use *u);
KVT_API void kvt_use_free(kvt_use *u);
KVT_API void kvt_uses_free(kvt_use **u, int n);
KVT_API const kvt_param *kvt_use_table(void); /* of kvt_use_params */

/* ---- attention rows ------------------------------------------------------------------------
 */

/* Rows of the stored queries, head by head: read where the trace holds attn/rows, else computed
 * from q and k by the one routine of compute/rows.h; the same bits. For browsers and exports; a
 * few heads are cached. Used by one thread. NOTFOUND where the trace has neither.
 * (replay/rows.c) */
typedef struct kvt_rows kvt_rows;
KVT_API KVT_CHECKED kvt_code kvt_rows_open(kvt_rows **out, kvt_trace *t, kvt_err *err);
/* f16 [Q T] of a query head of the layer (of the trace), borrowed until the next call. */
KVT_API KVT_CHECKED kvt_code kvt_rows_head(kvt_rows *r, int layer, int head,
                                           const uint16_t **rows, kvt_err *err);
/* The mean over the query heads of a kv head, of the response rows only: f32 [M T]. */
KVT_API KVT_CHECKED kvt_code kvt_rows_group(kvt_rows *r, int layer, int group,
                                            const float **rows, kvt_err *err);
KVT_API void kvt_rows_close(kvt_rows *r); /* NULL is fine */

/* ---- running -------------------------------------------------------------------------------
 */

/* MiB. Less than what a reader keeps elsewhere: a layer is read once, or once more where slots
 * are traded over the model, and what is kept lies above all that passes hold. */
enum { KVT_REPLAY_CACHE_DEFAULT = 128 };

typedef struct kvt_replay_spec {
    const char *const *trace; /* files; result files among them are passed over */
    int n_trace;
    const char *policies, *budgets; /* NULL: "all", the default list */
    const char *const *plugin;
    int n_plugin;
    /* Learned weights: a policy that needs some and names no weights= takes the file of its
     * kind, and "all" then includes it. */
    const char *const *weights;
    int n_weights;
    /* KVT_FAIR_BYTES: a budget is the bytes that B slots of a kv head's lane take. A policy
     * that keeps sets per query head, or state beside its slots, gets fewer slots. */
    enum kvt_fair { KVT_FAIR_TOKENS, KVT_FAIR_BYTES } fair;
    kvt_rule rule;
    kvt_act act;
    const char *layers;   /* of the model, "0-3,29"; NULL: all of the trace */
    int64_t shrink_every; /* 0: each policy's own */
    /* NULL: "oracle"; "none". Unless none, oracle-assign is beside it where a policy acts in
     * decode. */
    const char *oracle;
    bool no_controls;
    const char *out_dir; /* NULL: kvt-results beside the first trace; "": nothing is written */
    bool recompute, fail_fast;
    int shard, n_shard;   /* 0 0: all; else pass i with i % n_shard == shard - 1 */
    bool keep_arrays;     /* the results keep rank, score, evict_step, lost */
    bool no_output_error; /* leaves the output error out, which costs most */
    /* Metrics that cost time and are measured beside the default ones: names of kvt/metric.h,
     * "all"; NULL: none. */
    const char *metrics;
    size_t cache_bytes; /* of each open trace; 0: KVT_REPLAY_CACHE_DEFAULT */
    /* Memory of a thread for the best schedule of a lane (oracle-assign, regret of policies
     * that act in decode); 0: 256 MiB. Above it the greedy schedule stands in, without regret.
     */
    size_t oracle_limit;
} kvt_replay_spec;

typedef struct kvt_replay_counts {
    int64_t n_trace, n_pass, n_cell, computed, reused, skipped, failed, decisions;
    int64_t bytes_planned;
    double read_s, rank_s, judge_s, write_s; /* CPU seconds of the parts, over all threads */
    char left_out[256];  /* policies of "all" whose kind of probe no trace has: "judgeq, laq" */
    char no_file[512];   /* those that read a file which was not named: "duo, headkv" */
    char no_trace[1024]; /* and those that no trace can answer: "cam (values are merged)" */
} kvt_replay_counts;

/* PARTLY: some cells failed; NO: no cell that was asked for was computed; STOPPED: what is
 * finished is in *out and on disk. *out is set (maybe empty) in these cases, too. */
KVT_API KVT_CHECKED kvt_code kvt_replay(kvt_results **out, kvt_replay_counts *counts,
                                        const kvt_replay_spec *spec, const kvt_ctx *ctx,
                                        kvt_err *err);
/* Counts cells and bytes, runs nothing. */
KVT_API KVT_CHECKED kvt_code kvt_replay_plan(kvt_replay_counts *counts,
                                             const kvt_replay_spec *spec, const kvt_ctx *ctx,
                                             kvt_err *err);
/* Why the first policy of the spec cannot run on its first trace, "" where it can: what the
 * cell would be skipped with at any budget. */
KVT_API KVT_CHECKED kvt_code kvt_replay_reason(char *why, size_t cap,
                                               const kvt_replay_spec *spec, const kvt_ctx *ctx,
                                               kvt_err *err);
/* The default budgets: "5%..50%x2". */
KVT_API const char *kvt_replay_default_budgets(void);

#endif
