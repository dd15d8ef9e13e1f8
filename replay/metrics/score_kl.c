/* score_kl - how far a policy's scores are from the attention that came.
 *
 *   KL(p || s) = sum over j of p_j ln(p_j / s_j)
 *
 * over the prompt tokens that the policy scores (pinned ones are left out of both), p the mean
 * over the lane's query heads of future/mean, s the scores, both divided by their sums. Terms
 * with p_j = 0 count 0; ln s_j is floored at -30. Defined for scores that are attention and
 * not all 0 (kvt_traits.mass_scores: shares of logarithms or priorities mean nothing, even
 * where none happens to be negative), of policies that choose a lane's slots by that lane's
 * scores: where the scores of several lanes decide together (tova), none of them alone is what
 * decided. LookaheadKV (arXiv:2603.10899) trains on the same quantity for each query head. */
#include "kvt/metric.h"

#include <math.h>

static const double floor_ln = -30, least = 9.3576229688401746e-14; /* e^-30 */

static double target(const kvt_judged *j, int64_t s)
{
    double sum = 0;
    for (int h = 0; h < j->n_head; h++)
        sum += (double)j->future_mean[h * j->n_prompt + s];
    return sum / j->n_head;
}

static double lane(const kvt_judged *j)
{
    double all_p = 0, all_s = 0, kl = 0;
    if (!j->score || !j->future_mean || j->step > 0)
        return NAN;
    for (int64_t i = 0; i < j->n_prompt; i++) {
        if (j->pinned && j->pinned[i])
            continue;
        if (!(j->score[i] >= 0))
            return NAN;
        all_s += (double)j->score[i];
        all_p += target(j, i);
    }
    if (!(all_s > 0) || !(all_p > 0))
        return NAN;
    for (int64_t i = 0; i < j->n_prompt; i++) {
        double p = j->pinned && j->pinned[i] ? 0 : target(j, i) / all_p;
        if (!(p > 0))
            continue;
        double s = (double)j->score[i] / all_s;
        kl += p * (s > least ? log(p / s) : log(p) - floor_ln);
    }
    return kl > 0 ? kl : 0; /* rounding: a KL is never below 0 */
}

const kvt_metric kvt_metric_score_kl = {
    .name = "score_kl",
    .unit = "nats",
    .title = "KL of the scores to the future",
    .formula = "KL(future || scores) over the tokens that are scored, each divided by its sum",
    .hides =
        "scores that are no attention (logarithms, priorities, positions, norms) have none; "
        "nor has a policy that decides by the scores of several lanes together (tova)",
    .range = "0 to infinity",
    .absent = "without future/mean, for scores that are no attention, below 0 or all 0",
    .reading = "0: the scores are the future, up to a factor",
    .needs = KVT_NEED_FUTURE,
    .of_score = true,
    .better = -1,
    .column = {{"score_kl_mean_nats", KVT_MEAN}},
    .lane = lane,
};
