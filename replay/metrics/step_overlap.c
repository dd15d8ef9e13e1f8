/* step_overlap - how alike the sets of two consecutive rows are.
 *
 *   |S_m and S_m-1| / |S_m or S_m-1|  (Jaccard)
 *
 * S_m what response row m attended to without its own token: after attend-then-drop exactly the
 * set that decision m kept, under SKIP what was selected for the row. Mean over rows 1..M - 1.
 * Other programs call this a rate of hits; it is none. */
#include "kvt/metric.h"

static kvt_ratio turn(const kvt_judged *j)
{
    int64_t both = 0, any = 0, own = j->n_prompt + j->row;
    for (int64_t i = 0; i < j->n_word; i++) {
        uint64_t now = j->saw[i], before = j->saw_before[i];
        if (i == own / 64)
            now &= ~(UINT64_C(1) << own % 64);
        if (i == (own - 1) / 64)
            before &= ~(UINT64_C(1) << (own - 1) % 64);
        both += __builtin_popcountll(now & before);
        any += __builtin_popcountll(now | before);
    }
    return (kvt_ratio){(double)both, (double)any};
}

const kvt_metric kvt_metric_step_overlap = {
    .name = "step_overlap",
    .unit = "frac",
    .title = "overlap of consecutive sets",
    .formula =
        "Jaccard index of what two consecutive rows attended to, their own tokens left out",
    .hides = "whether the sets are any good: a frozen cache has 1",
    .range = "0 to 1",
    .absent = "for policies that decide at the prompt's end only, and below two rows",
    .reading =
        "how much a cache on another device would have to move from one step to the next",
    .needs = KVT_NEED_ATTN,
    .column = {{"step_overlap_mean_frac", KVT_MEAN}, {"step_overlap_micro_frac", KVT_MICRO}},
    .turn = turn,
};
