/* analyze.h - comparisons that can be trusted, from results.
 *
 * Tables own their rows; kvt_report_free() ends them. Intervals are percentile bootstraps over
 * prompts, paired between policies, 10,000 resamples; below 8 prompts the range is printed and
 * labelled so; on one trace the spread over lanes. */
#ifndef KVT_ANALYZE_H
#define KVT_ANALYZE_H

#include "kvt/cost.h"
#include "kvt/ctx.h"
#include "kvt/result.h"

typedef enum kvt_interval_kind {
    KVT_INTERVAL_NONE,
    KVT_INTERVAL_LANES,  /* one trace: bootstrap over its lanes, a spread */
    KVT_INTERVAL_RANGE,  /* below 8 traces: smallest and largest */
    KVT_INTERVAL_PROMPTS /* 95 % bootstrap over traces */
} kvt_interval_kind;

KVT_API const char *kvt_interval_name(kvt_interval_kind kind); /* "95% over prompts" */

/* What the uses of policies in a result set are called: the name and the parameters that have
 * to be typed for it, "snapkv:window=8,pool=1"; files by the end of their path; cut behind what
 * is its own. No two are called the same. (analyze/labels.c) */
enum { KVT_LABEL_MAX = 512 };
typedef struct kvt_labels kvt_labels;
KVT_API KVT_CHECKED kvt_code kvt_labels_new(kvt_labels **out, const kvt_results *results,
                                            kvt_err *err);
KVT_API void kvt_labels_free(kvt_labels *s); /* NULL is fine */
/* By the fields of a cell or a row; the policy's name where the set has no such use. */
KVT_API const char *kvt_label(const kvt_labels *s, const char *policy, const char *params);

/* One line of the summary and a row of curve.csv: a policy at a budget, over traces. */
typedef struct kvt_curve_row {
    char policy[96], policy_params[384], exactness[24], act[16], growth[16];
    char policy_label[KVT_LABEL_MAX]; /* kvt_label() */
    char budget_asked[32];
    double budget_frac, budget_tokens_mean;
    int64_t traces_count, seeds_count; /* seeds: of random draws, averaged within a trace */
    double kept_tokens_mean, end_slots_mean_tokens, kept_bytes_mean;
    int64_t acted_count;
    double lost_mass_mean_frac, lost_mass_ci_lo_frac, lost_mass_ci_hi_frac;
    char interval[32]; /* kvt_interval_name() */
    double oracle_lost_mass_mean_frac, regret_mean_frac, allocation_regret_mean_frac;
    double recall_mean_frac, recall_unprotected_mean_frac;
    double attn_kl_mean_nats, attn_kl_p95_nats, attn_kl_max_nats;
    double score_kl_mean_nats, out_err_mean_rel;
    double auc_lost_mass; /* area over log2 budget, the same on each row of the curve */
    double auc_lost_mass_to_oracle; /* area over slots by the oracle's, likewise */
    int64_t is_control;
} kvt_curve_row;

typedef struct kvt_report kvt_report;

/* Names: cells, lanes, steps, evictions, audit, curve. steps and evictions read the traces and
 * are long: ask for the run ids that are wanted (NULL: all). The rows are sorted by key. */
KVT_API const char *const *kvt_report_names(void); /* ends with NULL */
KVT_API KVT_CHECKED kvt_code kvt_report_make(kvt_report **out, const char *name,
                                             const kvt_results *results, const char *run_id,
                                             const kvt_ctx *ctx, kvt_err *err);
/* The same, streamed into a CSV file: rows never stand in memory together. */
KVT_API KVT_CHECKED kvt_code kvt_report_csv(const char *name, const kvt_results *results,
                                            const char *run_id, const char *path,
                                            const kvt_csv_options *options, const kvt_ctx *ctx,
                                            kvt_err *err);
KVT_API const kvt_table *kvt_report_table(const kvt_report *r);
KVT_API void kvt_report_free(kvt_report *r);
/* The columns of a table, without rows: for documents. */
KVT_API void kvt_report_schema(const char *name, kvt_schema *out);

/* Paired difference of two policies at one budget over the traces that both have; on one trace
 * over its lanes, which is a spread and separates nothing. */
typedef struct kvt_difference {
    double mean, lo, hi, p_value; /* a - b */
    int64_t n_trace;
    kvt_interval_kind kind;
    bool separable;   /* an interval over prompts leaves 0 out */
    int64_t n_needed; /* prompts that would separate such a difference (two-sided 5 %, power 80
                       * %, normal approximation); KVT_EMPTY_INT: not known */
} kvt_difference;

KVT_API KVT_CHECKED kvt_code kvt_compare(kvt_difference *out, const kvt_results *results,
                                         const char *policy_a, const char *policy_b,
                                         const char *budget, const char *column, uint64_t seed,
                                         kvt_err *err);

/* One line of `kvt compare` and a row of compare.csv: a policy beside the reference at one
 * budget, over the traces that both have. Differences are the policy's value minus the
 * reference's. A lost mass is the sum of three parts, so that their differences add up:
 *
 *   size        what the best slots of the whole model would lose that are as many
 *   allocation  what was lost by how slots were shared out over lanes
 *   ranking     what was lost by which tokens hold the slots of a lane
 *
 * (cells: oracle_lost_mass, allocation_regret, regret). The parts are undefined where a cell
 * has no allocation regret (policies that stay inside their budget in decode), and of any other
 * metric than the lost mass. (analyze/parts.c) */
typedef struct kvt_comparison_row {
    char policy[KVT_LABEL_MAX], reference[KVT_LABEL_MAX]; /* kvt_label() */
    char metric[64], budget_asked[32];
    char growth[16], reference_growth[16];
    int64_t traces_count;
    double value_mean, reference_mean; /* over those traces */
    double diff, diff_ci_lo, diff_ci_hi, p_value;
    double ranking_diff, ranking_ci_lo, ranking_ci_hi;
    double allocation_diff, allocation_ci_lo, allocation_ci_hi;
    double size_diff, size_ci_lo, size_ci_hi;
    char interval[32];     /* kvt_interval_name() */
    int64_t separable;     /* 1: an interval over prompts leaves 0 out */
    int64_t prompts_count; /* that would separate such a difference; empty: not known */
} kvt_comparison_row;

typedef struct kvt_comparison {
    kvt_comparison_row *row; /* by budget as asked, then policy as asked */
    int64_t n;
} kvt_comparison;

/* policy [n_policy]: text forms, the first is the reference; "snapkv" finds the one use of that
 * name, whatever its parameters, where there is only one. budget [n_budget] as asked; 0: all
 * that the reference has. column: of cells ("lost_mass_mean_frac"). NOTFOUND where the results
 * hold no such cell, USAGE where a name means several uses. */
KVT_API KVT_CHECKED kvt_code kvt_comparison_make(
    kvt_comparison *out, const kvt_results *results, const char *const *policy, int n_policy,
    const char *const *budget, int n_budget, const char *column, uint64_t seed, kvt_err *err);
KVT_API void kvt_comparison_free(kvt_comparison *c);
KVT_API kvt_table kvt_comparison_table(const kvt_comparison *c); /* "compare" */

/* Whether a result is that of the oracle that regret and the browser compare with: each lane
 * alone, nothing protected. Its lanes may be kv heads or query heads. */
KVT_API bool kvt_result_is_oracle(const kvt_result *r);

/* ---- quality against cost ------------------------------------------------------------------
 *
 * Rows of cost.csv that came from results, joined with what those cells lost, over traces:
 * which policies and budgets meet limits, which of them loses least, and which no other beats
 * in both. (analyze/choose.c, pareto.c) */

/* Limits of a service; NAN: none. */
typedef struct kvt_slo {
    double ttft_s, evict_s, tpot_s, request_s; /* tpot: mean of the response */
    double peak_bytes, steady_bytes;
    double lost_frac; /* mass lost, mean */
} kvt_slo;

/* "ttft=2s,tpot=15ms,peak=24GiB,lost=5%": s, ms, us; bytes as sizes; USAGE names the limit. */
KVT_API KVT_CHECKED kvt_code kvt_slo_parse(kvt_slo *out, const char *text, kvt_err *err);

/* Which cost the front is drawn against: columns of kvt_selection_row. */
typedef enum kvt_cost_axis {
    KVT_AXIS_REQUEST, /* "request": time to first token and the whole response */
    KVT_AXIS_TTFT,
    KVT_AXIS_TPOT,
    KVT_AXIS_PEAK,
    KVT_AXIS_STEADY
} kvt_cost_axis;
KVT_API const char *const *kvt_cost_axis_names(void); /* ends with NULL */

/* A policy at a budget on one machine, profile, batch and length, over the traces that have it.
 */
typedef struct kvt_selection_row {
    char policy_label[KVT_LABEL_MAX], policy[96], policy_params[384], exactness[24];
    char budget_asked[32], growth[16];
    char geometry[64], machine[64], profile[16];
    char model[96];               /* of the traces; "": several */
    int64_t batch, prompt_tokens; /* empty where traces differ in length */
    int64_t traces_count;
    double lost_mass_mean_frac, lost_mass_ci_lo_frac, lost_mass_ci_hi_frac;
    char interval[32];
    double ttft_s, evict_s, tpot_s, request_s, peak_bytes, steady_bytes; /* worst over traces */
    int64_t fits, meets, on_front, is_winner, is_bound, is_control;      /* 0, 1 */
    char missed[160]; /* which limits it misses, by how much: "tpot 18.2 ms, 21 % over" */
    double oracle_lost_mass_mean_frac; /* with the same slots: the limit of its quality */
} kvt_selection_row;

typedef struct kvt_selection {
    kvt_selection_row *row; /* by machine, profile, batch, length, then rising lost mass */
    int64_t n;
} kvt_selection;

/* One group (machine, profile, batch, length) and what to say of it. */
typedef struct kvt_winner {
    int64_t row;           /* of kvt_selection; -1: nothing meets the limits */
    int64_t runner_up;     /* -1: none */
    kvt_difference margin; /* of lost mass, runner-up minus winner, paired over traces */
    double headroom_frac;  /* least of (limit - value) / limit over the limits; NAN: none */
    int64_t n_meet, n_row;
} kvt_winner;

/* `costs` must come from the same results. Bounds and controls take no part in the choice; the
 * front shows bounds as its limit. NOTFOUND where no row of the table has a replayed cell. */
KVT_API KVT_CHECKED kvt_code kvt_selection_make(kvt_selection *out, const kvt_results *results,
                                                const kvt_cost_table *costs, const kvt_slo *slo,
                                                kvt_cost_axis axis, uint64_t seed,
                                                kvt_err *err);
/* The group that begins at row `first`; returns the first row of the next group (n: the last).
 */
KVT_API KVT_CHECKED kvt_code kvt_selection_winner(kvt_winner *out, int64_t *next,
                                                  const kvt_selection *c, int64_t first,
                                                  const kvt_results *results,
                                                  const kvt_slo *slo, uint64_t seed,
                                                  kvt_err *err);
KVT_API kvt_table kvt_selection_table(const kvt_selection *c); /* "selection" */
KVT_API void kvt_selection_free(kvt_selection *c);
/* Marks those of n points that no other one equals or beats in both cost and loss while beating
 * it in one; NAN never is. O(n log n). */
KVT_API KVT_CHECKED kvt_code kvt_pareto(bool *on_front, const double *cost, const double *loss,
                                        int64_t n, kvt_err *err);

#endif
