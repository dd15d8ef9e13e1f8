/* replay_plugin - policies that only tests use, as a plug-in that calls nothing of kvt: wrong
 * ones, and one that trades slots over the whole model. REPLAY_PLUGIN_ABI makes an outdated
 * plug-in. */
#include "kvt/policy.h"

#include <math.h>

#ifndef REPLAY_PLUGIN_ABI
#define REPLAY_PLUGIN_ABI KVT_POLICY_ABI
#endif

static void score_nan(const void *params, float *out, bool *pinned, const kvt_lane *lane)
{
    (void)params, (void)pinned;
    for (int64_t s = 0; s < lane->n_slot; s++)
        out[s] = s == 5 ? (float)NAN : 1;
}

static void keep_all(const void *params, bool *const *keep, const kvt_lane *lane, int n_lane,
                     const float *const *score, const bool *const *pinned,
                     const int64_t *budget)
{
    (void)params, (void)score, (void)pinned, (void)budget;
    for (int i = 0; i < n_lane; i++)
        for (int64_t s = 0; s < lane[i].n_slot; s++)
            keep[i][s] = true;
}

static void pin_six(const void *params, float *out, bool *pinned, const kvt_lane *lane)
{
    (void)params, (void)out;
    for (int64_t s = 0; s < 6 && s < lane->n_slot; s++)
        pinned[s] = true;
}

/* Different for every lane and token, and no order of its own. */
static void score_mixed(const void *params, float *out, bool *pinned, const kvt_lane *lane)
{
    (void)params, (void)pinned;
    for (int64_t s = 0; s < lane->n_slot; s++)
        out[s] = (float)((lane->pos[s] * 7919 + lane->layer * 131 + lane->group * 37) % 101);
}

/* The best of all lanes together, one of each lane first. */
static void best_of_model(const void *params, bool *const *keep, const kvt_lane *lane,
                          int n_lane, const float *const *score, const bool *const *pinned,
                          const int64_t *budget)
{
    int64_t left = 0;
    (void)params, (void)pinned;
    for (int i = 0; i < n_lane; i++)
        left += budget[i];
    for (int64_t round = 0; left > 0; round++, left--) {
        int at = -1;
        int64_t best = 0;
        for (int i = 0; i < n_lane; i++) {
            if (round < n_lane && i != round)
                continue;
            for (int64_t s = 0; s < lane[i].n_slot; s++)
                if (!keep[i][s] && (at < 0 || score[i][s] > score[at][best]))
                    at = i, best = s;
        }
        if (at < 0)
            return;
        keep[at][best] = true;
    }
}

#define TEXTS(name_, title_) \
    .abi = REPLAY_PLUGIN_ABI, .name = (name_), .title = (title_), .paper = "test", .differs = ""

static const kvt_policy nan_policy = {
    TEXTS("test-nan", "scores one token with NaN"),
    .traits = {.phases = KVT_PREFILL | KVT_DECODE, .one_ranking = true},
    .score = score_nan,
};
static const kvt_policy greedy_policy = {
    TEXTS("test-greedy", "keeps more than it may"),
    .traits = {.phases = KVT_PREFILL},
    .select = keep_all,
};
static const kvt_policy pin_policy = {
    TEXTS("test-pin", "always keeps the first six"),
    .traits = {.phases = KVT_PREFILL | KVT_DECODE, .one_ranking = true},
    .score = pin_six,
};
static const kvt_policy model_policy = {
    TEXTS("test-model", "the best of all lanes together"),
    .traits = {.phases = KVT_PREFILL | KVT_DECODE, .scope = KVT_BY_MODEL, .one_ranking = true},
    .score = score_mixed,
    .select = best_of_model,
};
static const kvt_policy late_policy = {
    TEXTS("test-model-first", "the same, dropping before a row attends"),
    .traits = {.phases = KVT_PREFILL | KVT_DECODE, .scope = KVT_BY_MODEL, .drop_first = true},
    .score = score_mixed,
    .select = best_of_model,
};
static const kvt_policy never_policy = {
    TEXTS("test-never", "cannot be told from a trace"),
    .traits = {.phases = KVT_PREFILL, .exactness = KVT_NOT_REPLAYABLE},
    .score = score_mixed,
};

KVT_API extern const kvt_policy *const kvt_plugin[];
const kvt_policy *const kvt_plugin[] = {
    &nan_policy, &greedy_policy, &pin_policy, &model_policy, &late_policy, &never_policy, NULL};
