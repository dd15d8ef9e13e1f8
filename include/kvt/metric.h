/* metric.h - what is measured of a kept set, in a registry: a file in replay/metrics/ and a
 * line in metrics.def. */
#ifndef KVT_METRIC_H
#define KVT_METRIC_H

#include "kvt/err.h"
#include "kvt/policy.h"

/* Mean: over rows (or decisions), then heads, then lanes, each equal. Quantiles and the maximum
 * are over the pooled rows. Micro: sum of numerators / sum of denominators over the cell.
 * Absent: the share of rows in which the metric is undefined. */
typedef enum kvt_over { KVT_MEAN, KVT_P50, KVT_P95, KVT_MAX, KVT_MICRO, KVT_ABSENT } kvt_over;

enum { KVT_SUPPORTS = 3 }; /* shares of a row: 0.9, 0.95, 0.99 */

/* A value as a fraction, so that it can be averaged in both ways; undefined unless below > 0.
 */
typedef struct kvt_ratio {
    double above, below;
} kvt_ratio;

/* What was judged: a lane at one budget, and in row() one response row of one query head.
 * Sets are over token positions 0..T-1. */
typedef struct kvt_judged {
    int layer, group, n_head; /* H: query heads of this lane */
    int64_t n_prompt, n_response, budget;
    bool inside; /* stays inside its budget in decode; else decoded tokens come on top */

    /* The row at hand. */
    int head;          /* query head within the lane */
    int64_t row;       /* response row m; it follows decision m */
    double lost, kept; /* exact sums of the row's half attention; lost <= 1, kept = 1 - lost */
    double out_err;    /* relative L2 error of the attention output; NAN: not asked for */
    double out_size;   /* L2 norm of the full output; NAN: not asked for */
    double out_l1, out_cos, out_unnorm; /* other errors of the output; NAN: not asked for */
    double support[KVT_SUPPORTS]; /* keys that hold these shares of the row; NAN: not asked for
                                   */

    int64_t n_heavy;   /* keys with more than 0.05 of the full row; -1: not asked for */
    int64_t had_heavy; /* how many of them it saw */

    /* The lane (lane(), ratio()), at decision `step`: 0 for on-top, 0..n_response - 1 for
     * inside. */
    int64_t step, n_arrived; /* tokens that have arrived: N + step */
    const uint8_t *held;     /* [n_arrived] 1: in the cache after this decision */
    const uint8_t *pinned;   /* [n_arrived] 1: its rule always keeps it */
    const double *remaining; /* [n_arrived] R_j(step), mean over the lane's query heads */
    const int32_t *truth;    /* [n_arrived] positions by falling remaining, ties by position */
    /* [max(budget, KVT_TOP_MAX) + 1, n_arrived + 1 at most] how many of the first i of truth
     * are held; n_held: of all. */
    const int32_t *hits;
    int64_t n_held;
    const float *score; /* [n_prompt] of the decision at the end of the prompt; NULL: none, or
                           they are no attention (kvt_traits.mass_scores), or select() decided
                           by the scores of several lanes */
    /* Scores [n_prompt] of that decision which alone rank the lane, attention or not: there is
     * no select(). NULL: none. ranked [n_ranked]: the positions that the rule does not keep in
     * any case, by falling score, ties by position. */
    const float *ranking;
    const int32_t *ranked;
    int64_t n_ranked;
    const float *future_mean; /* f32 [H N] of the trace; NULL: not declared */
    kvt_arena *scratch;

    /* turn(): what response row `row` attended to and what the row before it did, as sets:
     * bit t % 64 of word t / 64 is token t, tokens that had not arrived are 0. */
    const uint64_t *saw, *saw_before;
    int64_t n_word;

    /* end(): the lane when all its rows are through; means over rows and heads. */
    double oracle_lost, regret; /* NAN: it has no oracle */
    int64_t n_whole; /* rows that saw every token that had arrived; -1: it evicts nothing */
} kvt_judged;

enum { KVT_TOP_MAX = 512 };

/* Hits among the true top k, of min(k, arrived). */
static inline kvt_ratio kvt_recall_at(const kvt_judged *j, int64_t k)
{
    k = k < j->n_arrived ? k : j->n_arrived;
    kvt_ratio r = {(double)j->hits[k], (double)k};
    return r;
}

typedef struct kvt_metric_column {
    const char *column; /* "lost_mass_mean_frac": name, over, unit */
    kvt_over over;
} kvt_metric_column;

typedef struct kvt_metric {
    const char *name, *unit, *title, *formula, *hides; /* hides: what it does not show */
    const char *range;                                 /* "0 to 1" */
    const char *absent;                                /* when it is undefined */
    const char *reading; /* how to read it; NULL: the formula says it */
    unsigned needs;      /* kvt_need */
    bool output;         /* needs out_err */
    bool extra;          /* costs time: only where it is asked for by name (--metrics) */
    bool of_score; /* looks at scores and pins only: the same at every budget of a ranking */
    bool of_trace; /* looks at neither: the same at every budget */
    /* Looks at what is there only where some metric does: ranking and ranked; support; n_heavy
     * and had_heavy. */
    bool by_rank, by_support, by_heavy;
    int better;                  /* -1: less is better, 1: more is, 0: it describes the trace */
    kvt_metric_column column[6]; /* ends with {0}; a mean, if there is one, comes first */
    /* One of these. */
    double (*row)(const kvt_judged *j);      /* one row of a head; NAN: undefined */
    double (*lane)(const kvt_judged *j);     /* one lane and decision */
    kvt_ratio (*ratio)(const kvt_judged *j); /* the same as a fraction */
    kvt_ratio (*turn)(const kvt_judged *j);  /* one lane and row while it decodes */
    kvt_ratio (*end)(const kvt_judged *j);   /* one lane, when all is known of it */
    double (*weight)(const kvt_judged *j);   /* of a row in KVT_MICRO; NULL: there is none */
} kvt_metric;

/* The metric of recall among the true top k: what the files of 128 and 512 say alike. */
/* clang-format off */
#define KVT_METRIC_TOPK(k)                                                                     \
    static kvt_ratio ratio(const kvt_judged *j)                                                \
    {                                                                                          \
        return kvt_recall_at(j, k);                                                            \
    }                                                                                          \
    const kvt_metric kvt_metric_topk_recall_##k = {                                            \
        .name = "topk_recall_" #k,                                                             \
        .unit = "frac",                                                                        \
        .title = "recall of the true top " #k,                                                 \
        .formula = "share of the " #k " tokens with the most attention to come that is held",  \
        .hides = "what is below the " #k "th token; a budget below " #k " cannot reach 1, "    \
                 "and where no more than " #k " tokens have arrived it is the share of "       \
                 "tokens that is held",                                                        \
        .range = "0 to 1",                                                                     \
        .absent = "without a response",                                                        \
        .needs = KVT_NEED_ATTN,                                                                \
        .better = 1,                                                                           \
        .column = {{"topk_recall_" #k "_mean_frac", KVT_MEAN}},                                \
        .ratio = ratio,                                                                        \
    }
/* clang-format on */

/* The metric of effective support at a share of the row: what its three files (0.9, 0.95, 0.99)
 * say alike. `place` is the share's in kvt_judged.support. */
/* clang-format off */
#define KVT_METRIC_SUPPORT(percent, share, place)                                              \
    static double row(const kvt_judged *j)                                                     \
    {                                                                                          \
        return j->support[place];                                                              \
    }                                                                                          \
    const kvt_metric kvt_metric_support_##percent = {                                          \
        .name = "support_" #percent,                                                           \
        .unit = "tokens",                                                                      \
        .title = "effective support at " share,                                                \
        .formula = "fewest keys that hold " share " of a row's attention",                     \
        .hides = "it says nothing of the policy: the same in every cell of a trace; that the " \
                 "keys are others in each row",                                                \
        .range = "1 to the tokens that have arrived",                                          \
        .absent = "without rows",                                                              \
        .reading = "the budget that a choice made anew for each row would need to lose at "    \
                   "most 1 - " share " of it",                                                 \
        .needs = KVT_NEED_ATTN,                                                                \
        .extra = true,                                                                         \
        .by_support = true,                                                                    \
        .column = {{"support_" #percent "_mean_tokens", KVT_MEAN},                             \
                   {"support_" #percent "_p50_tokens", KVT_P50},                               \
                   {"support_" #percent "_p95_tokens", KVT_P95},                               \
                   {"support_" #percent "_max_tokens", KVT_MAX}},                              \
        .row = row,                                                                            \
    }
/* clang-format on */

KVT_API const kvt_metric *const *
kvt_metrics(void); /* in the order of metrics.def, ends with NULL */
KVT_API const kvt_metric *kvt_metric_find(const char *name); /* or NULL */

/* Where the value of a column stands in kvt_cell.value; -1: no such column. */
KVT_API int kvt_metric_value(const char *column);

/* Bit i: metric i of kvt_metrics() is measured. `text`: "default" (those without `extra`; NULL
 * is the same), "all", or a comma list of names, which come on top of the default. USAGE with
 * the nearest name. */
KVT_API KVT_CHECKED kvt_code kvt_metrics_parse(uint64_t *set, const char *text, kvt_err *err);

#endif
