/* ndcg - how much of the attention to come the order of the scores puts in front.
 *
 *   NDCG@k = sum over rank r <= k of M(r) / log2(r + 1)  over the same of the order by M
 *
 * Linear gain: the remaining mass M, mean over the lane's query heads (2^M would mean nothing
 * for shares). Over the prompt tokens that the rule does not keep in any case; k = budget of
 * the lane less those that it keeps, the slots that the scores decide on. Tokens of equal score
 * share the mean discount of their ranks, 0 beyond k, so that their order does not matter. */
#include "kvt/metric.h"

#include <math.h>

static double discount(int64_t rank, int64_t k)
{
    return rank < k ? 1 / log2((double)rank + 2) : 0;
}

/* Discounted mass of a list by falling score. */
static double gained(const kvt_judged *j, int64_t k)
{
    double sum = 0;
    for (int64_t from = 0, to; from < k; from = to) {
        double mass = 0, weight = 0;
        float score = j->ranking[j->ranked[from]];
        for (to = from; to < j->n_ranked && j->ranking[j->ranked[to]] == score; to++) {
            mass += j->remaining[j->ranked[to]];
            weight += discount(to, k);
        }
        sum += mass * (weight / (double)(to - from));
    }
    return sum;
}

static bool is_constant(const kvt_judged *j)
{
    const int32_t *token = j->ranked;
    bool mass = true;
    for (int64_t i = 1; mass && i < j->n_ranked; i++)
        mass = j->remaining[token[i]] == j->remaining[token[0]];
    return mass || j->ranking[token[0]] == j->ranking[token[j->n_ranked - 1]];
}

static double lane(const kvt_judged *j)
{
    int64_t n = j->n_ranked, k = j->budget - (j->n_prompt - n), seen = 0;
    double best = 0;
    if (!j->ranking || j->step > 0 || n < 2 || k < 1 || is_constant(j))
        return NAN;
    bool *ranked = kvt_arena_array(j->scratch, j->n_prompt, sizeof *ranked);
    if (!ranked)
        return NAN;
    k = k < n ? k : n;
    for (int64_t i = 0; i < n; i++)
        ranked[j->ranked[i]] = true;
    for (int64_t i = 0; i < j->n_arrived && seen < k; i++)
        if (j->truth[i] < j->n_prompt && ranked[j->truth[i]])
            best += j->remaining[j->truth[i]] * discount(seen++, k);
    return best > 0 ? gained(j, k) / best : NAN;
}

const kvt_metric kvt_metric_ndcg = {
    .name = "ndcg",
    .unit = "1",
    .title = "NDCG of scores at the budget",
    .formula = "sum of the attention to come of the best-scored tokens, rank r weighted by "
               "1 / log2(r + 1), over that of the true order; up to the slots that the scores "
               "decide on",
    .hides = "that an eviction has no ranks: what is kept is kept alike",
    .range = "0 to 1",
    .absent = "as kendall_tau, and where the rule takes every slot of the budget",
    .reading = "0.5: the order puts half of the weighted mass in front that the best one does; "
               "not comparable between budgets",
    .needs = KVT_NEED_ATTN,
    .extra = true,
    .by_rank = true,
    .better = 1,
    .column = {{"ndcg_mean_1", KVT_MEAN}},
    .lane = lane,
};
