/* spearman - correlation of the ranks of the scores with the ranks of the attention that came.
 *
 *   rho = cov(r_s, r_M) / (sd(r_s) sd(r_M))
 *
 * over the prompt tokens that the rule does not keep in any case; equal values share the mean
 * of their ranks. M is the remaining mass, mean over the lane's query heads. */
#include "kvt/metric.h"

#include <math.h>

/* rank [n_prompt] of the tokens of a list sorted by falling value, equal ones sharing it. */
static void put_ranks(double *rank, const int32_t *token, const double *value, int64_t n)
{
    for (int64_t from = 0, to; from < n; from = to) {
        for (to = from + 1; to < n && value[token[to]] == value[token[from]];)
            to++;
        for (int64_t i = from; i < to; i++)
            rank[token[i]] = (double)(from + to - 1) / 2;
    }
}

static double lane(const kvt_judged *j)
{
    int64_t n = j->n_ranked, N = j->n_prompt, m = 0;
    if (!j->ranking || j->step > 0 || n < 2)
        return NAN;
    double *score = kvt_arena_array(j->scratch, N, sizeof *score);
    double *by_score = kvt_arena_array(j->scratch, N, sizeof *by_score);
    double *by_mass = kvt_arena_array(j->scratch, N, sizeof *by_mass);
    int32_t *order = kvt_arena_array(j->scratch, n, sizeof *order);
    if (!score || !by_score || !by_mass || !order)
        return NAN;
    for (int64_t s = 0; s < N; s++) {
        score[s] = (double)j->ranking[s];
        by_score[s] = -1;
    }
    put_ranks(by_score, j->ranked, score, n);
    for (int64_t i = 0; i < j->n_arrived; i++)
        if (j->truth[i] < N && by_score[j->truth[i]] >= 0)
            order[m++] = j->truth[i];
    put_ranks(by_mass, order, j->remaining, n);
    double middle = (double)(n - 1) / 2, xy = 0, xx = 0, yy = 0;
    for (int64_t i = 0; i < n; i++) {
        double x = by_score[order[i]] - middle, y = by_mass[order[i]] - middle;
        xy += x * y;
        xx += x * x;
        yy += y * y;
    }
    return xx > 0 && yy > 0 ? xy / sqrt(xx) / sqrt(yy) : NAN;
}

const kvt_metric kvt_metric_spearman = {
    .name = "spearman",
    .unit = "1",
    .title = "Spearman's rho of scores and attention to come",
    .formula = "correlation of average ranks, tokens that the rule keeps left out",
    .hides =
        "where in the order it goes wrong, as kendall_tau; it is no second witness beside it",
    .range = "-1 to 1",
    .absent = "as kendall_tau",
    .reading = "0: no better than chance",
    .needs = KVT_NEED_ATTN,
    .extra = true,
    .by_rank = true,
    .of_score = true,
    .better = 1,
    .column = {{"spearman_mean_1", KVT_MEAN}},
    .lane = lane,
};
