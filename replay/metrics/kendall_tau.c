/* kendall_tau - agreement of the order of the scores with the order of the attention that came.
 *
 *   tau-b = (n_c - n_d) / sqrt((P - T_s) (P - T_M))
 *
 * over all P pairs of prompt tokens that the rule does not keep in any case: n_c concordant,
 * n_d discordant, T_s tied in the score, T_M tied in the remaining mass M (mean over the lane's
 * query heads). Ties are common (max pools, zeros), so that tau-a would be wrong. O(n log n):
 * sorted by score, pairs that a merge sort by mass swaps are the discordant ones (Knight, "A
 * computer method for calculating Kendall's tau with ungrouped data", 1966). */
#include "kvt/metric.h"

#include <math.h>
#include <string.h>

/* Sorts y [n] by falling value; returns how many pairs stood the other way round. */
static int64_t sort_down(double *y, int64_t n, double *work)
{
    int64_t swaps = 0;
    for (int64_t run = 1; run < n; run *= 2) {
        for (int64_t from = 0; from < n; from += 2 * run) {
            int64_t i = from, middle = from + run < n ? from + run : n, j = middle;
            int64_t to = middle + run < n ? middle + run : n;
            for (int64_t k = from; k < to; k++) {
                bool right = i == middle || (j < to && y[j] > y[i]);
                swaps += right ? middle - i : 0;
                work[k] = right ? y[j++] : y[i++];
            }
        }
        memcpy(y, work, (size_t)n * sizeof *y);
    }
    return swaps;
}

/* Pairs of equal values in a sorted list. */
static int64_t tied_pairs(const double *y, int64_t n)
{
    int64_t pairs = 0;
    for (int64_t i = 1, run = 0; i < n; i++) {
        run = y[i] == y[i - 1] ? run + 1 : 0;
        pairs += run;
    }
    return pairs;
}

static double lane(const kvt_judged *j)
{
    int64_t n = j->n_ranked, tied_score = 0, tied_both = 0;
    if (!j->ranking || j->step > 0 || n < 2)
        return NAN;
    double *y = kvt_arena_array(j->scratch, n, sizeof *y);
    double *work = kvt_arena_array(j->scratch, n, sizeof *work);
    if (!y || !work)
        return NAN;
    for (int64_t i = 0; i < n; i++)
        y[i] = j->remaining[j->ranked[i]];
    for (int64_t from = 0, to; from < n; from = to) {
        for (to = from + 1; to < n && j->ranking[j->ranked[to]] == j->ranking[j->ranked[from]];)
            to++;
        tied_score += (to - from) * (to - from - 1) / 2;
        sort_down(y + from, to - from, work);
        tied_both += tied_pairs(y + from, to - from);
    }
    int64_t discordant = sort_down(y, n, work), tied_mass = tied_pairs(y, n);
    int64_t pairs = n * (n - 1) / 2;
    if (tied_score == pairs || tied_mass == pairs)
        return NAN;
    double above = (double)(pairs - tied_score - tied_mass + tied_both - 2 * discordant);
    return above / sqrt((double)(pairs - tied_score)) / sqrt((double)(pairs - tied_mass));
}

const kvt_metric kvt_metric_kendall_tau = {
    .name = "kendall_tau",
    .unit = "1",
    .title = "Kendall's tau-b of scores and attention to come",
    .formula =
        "(concordant - discordant pairs) / sqrt((pairs - ties in the score) (pairs - ties "
        "in the mass)), tokens that the rule keeps left out",
    .hides =
        "where in the order it goes wrong: pairs of tokens that never matter are most pairs",
    .range = "-1 to 1",
    .absent = "where the scores or the masses are all equal, and for policies without a score "
              "that alone ranks the lane (select() decides, or several lanes do)",
    .reading = "0: no better than chance; ndcg says it of the tokens that matter",
    .needs = KVT_NEED_ATTN,
    .extra = true,
    .by_rank = true,
    .of_score = true,
    .better = 1,
    .column = {{"kendall_tau_mean_1", KVT_MEAN}},
    .lane = lane,
};
