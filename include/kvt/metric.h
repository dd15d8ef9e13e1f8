/* metric.h - what is measured of a kept set, in a registry: a file in replay/metrics/ and a
 * line in metrics.def. */
#ifndef KVT_METRIC_H
#define KVT_METRIC_H

#include "kvt/policy.h"

typedef enum kvt_over { KVT_MEAN, KVT_P50, KVT_P95, KVT_MAX } kvt_over;

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

    /* The lane (lane() only), at decision `step`: 0 for on-top, 0..n_response - 1 for inside.
     */
    int64_t step, n_arrived; /* tokens that have arrived: N + step */
    const uint8_t *held;     /* [n_arrived] 1: in the cache after this decision */
    const uint8_t *pinned;   /* [n_arrived] 1: its rule always keeps it */
    const double *remaining; /* [n_arrived] R_j(step), mean over the lane's query heads */
    const int32_t *truth;    /* [n_arrived] positions by falling remaining, ties by position */
    const float *score; /* [n_prompt] of the decision at the end of the prompt; NULL: none, or
                           they are no attention (kvt_traits.mass_scores), or select() decided
                           by the scores of several lanes */
    const float *future_mean; /* f32 [H N] of the trace; NULL: not declared */
    kvt_arena *scratch;
} kvt_judged;

typedef struct kvt_metric_column {
    const char *column; /* "lost_mass_mean_frac": name, over, unit */
    kvt_over over;
} kvt_metric_column;

typedef struct kvt_metric {
    const char *name, *unit, *title, *formula, *hides; /* hides: what it does not show */
    unsigned needs;                                    /* kvt_need */
    bool output;                                       /* needs out_err */
    bool of_score; /* lane() looks at scores and pins only: the same at every budget of a
                      ranking */
    int better;    /* -1: less is better, 1: more is */
    kvt_metric_column column[5];         /* ends with {0} */
    double (*row)(const kvt_judged *j);  /* one row; NAN: undefined */
    double (*lane)(const kvt_judged *j); /* or one lane and decision */
} kvt_metric;

KVT_API const kvt_metric *const *
kvt_metrics(void); /* in the order of metrics.def, ends with NULL */
KVT_API const kvt_metric *kvt_metric_find(const char *name); /* or NULL */

/* Where the value of a column stands in kvt_cell.value; -1: no such column. */
KVT_API int kvt_metric_value(const char *column);

#endif
