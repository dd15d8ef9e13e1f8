/* look_plugin - policies that only tests use, as a plug-in that calls nothing of kvt: they read
 * probes, weights, decisions and whole layers, keep by a threshold, join slots. */
#include "kvt/policy.h"
#include "kvt/share.h"

#include <math.h>

#define TEXTS(name_) \
    .abi = KVT_POLICY_ABI, .name = (name_), .title = "test", .paper = "test", .differs = ""

static const float *at(const kvt_view *v, int64_t i, int64_t j)
{
    return (const float *)v->data + i * v->stride[0] + j * v->stride[1];
}

/* The sum over the probe's rows. */
static void score_rows(const void *params, float *out, bool *pinned, const kvt_lane *lane)
{
    (void)params, (void)pinned;
    const kvt_view *v = &lane->probe->attn;
    for (int64_t h = 0; h < v->dim[0]; h++)
        for (int64_t q = 0; q < v->dim[1]; q++)
            for (int64_t s = 0; s < lane->n_slot; s++)
                out[s] += at(v, h, q)[s];
}

/* The first query of a draft on the prompt's keys; NaN where rows are there that must not be.
 */
static void score_draft(const void *params, float *out, bool *pinned, const kvt_lane *lane)
{
    (void)params, (void)pinned;
    const kvt_probe *p = lane->probe;
    for (int64_t s = 0; s < lane->n_slot; s++) {
        const float *key = at(&lane->keys, s, 0), *query = at(&p->queries, 0, 0);
        for (int64_t d = 0; d < lane->keys.dim[1]; d++)
            out[s] += p->attn.data ? (float)NAN : query[d] * key[d];
    }
}

/* Tokens of later chunks first. */
static void score_chunks(const void *params, float *out, bool *pinned, const kvt_lane *lane)
{
    (void)params, (void)pinned;
    const kvt_probe *p = lane->probe;
    for (int64_t s = 0; s < lane->n_slot; s++)
        for (int r = 0; r < p->n_segment; r++)
            if (p->begin[r] <= lane->pos[s] && lane->pos[s] < p->end[r])
                out[s] = (float)(r * 1000) + (float)p->from[r];
}

/* The sum of what the lane gets of each tensor, the same for all slots; the first is kept. */
static void score_weights(const void *params, float *out, bool *pinned, const kvt_lane *lane)
{
    (void)params, (void)pinned;
    const kvt_view *w = lane->weights; /* [K W], [K], [] */
    bool right = w[0].rank == 2 && w[1].rank == 1 && w[2].rank == 0;
    for (int64_t s = 0; s < lane->n_slot; s++)
        out[s] = right ? *at(&w[0], s % w[0].dim[0], s % w[0].dim[1]) +
                             ((const float *)w[1].data)[s % w[1].dim[0]] +
                             *(const float *)w[2].data
                       : (float)NAN;
}

static void score_columns(const void *params, float *out, bool *pinned, const kvt_lane *lane)
{
    (void)params;
    for (int64_t s = 0; s < lane->n_slot; s++) {
        out[s] = at(&lane->col_sum, 0, 0)[s];
        pinned[s] = lane->pos[s] < 2;
    }
}

/* What the last rows look at, read where it is scored; NaN where no rows are there. */
static void score_seen(const void *params, float *out, bool *pinned, const kvt_lane *lane)
{
    (void)params, (void)pinned;
    const kvt_view *v = &lane->attn;
    for (int64_t s = 0; s < lane->n_slot; s++) {
        out[s] = v->data ? 0 : (float)NAN;
        for (int64_t h = 0; v->data && h < v->dim[0]; h++)
            for (int64_t q = 0; q < v->dim[1]; q++)
                out[s] += at(v, h, q)[s];
    }
}

/* Of all lanes of the model, the one that looks most at the first token gives four slots to the
 * one that looks least at it. */
static void split_extremes(const void *params, int64_t *budget, const kvt_lane *lane,
                           int n_lane, const float *const *score, const int64_t *n_pinned,
                           int64_t total)
{
    int most = 0, least = 0;
    (void)params, (void)lane, (void)n_pinned;
    for (int i = 0; i < n_lane; i++) {
        budget[i] = total / n_lane;
        most = score[i][0] > score[most][0] ? i : most;
        least = score[i][0] < score[least][0] ? i : least;
    }
    budget[most] -= 4;
    budget[least] += 4;
}

static const kvt_share extremes = {
    .abi = KVT_POLICY_ABI,
    .name = "extremes",
    .title = "test",
    .paper = "test",
    .differs = "",
    .scope = KVT_BY_MODEL,
    .split = split_extremes,
};

/* How far the softmax of `scale` times the logits is from the row that comes with them. */
static double softmax_error(const kvt_lane *lane, int64_t h, int64_t q, float scale)
{
    const float *z = at(&lane->logits, h, q), *row = at(&lane->attn, h, q);
    double top = -INFINITY, sum = 0, worst = 0;
    for (int64_t s = 0; s < lane->n_slot; s++)
        top = fmax(top, (double)(scale * z[s]));
    for (int64_t s = 0; s < lane->n_slot; s++)
        sum += exp((double)(scale * z[s]) - top);
    for (int64_t s = 0; s < lane->n_slot; s++) {
        double p = exp((double)(scale * z[s]) - top) / sum;
        worst = fmax(worst, fabs(p - (double)row[s]));
    }
    return worst;
}

/* Remembers whether any row was not the softmax of its logits. */
static void see_logits(kvt_lane *lane, float scale)
{
    bool *wrong = lane->state;
    bool same = lane->logits.data && lane->attn.data &&
                lane->logits.dim[0] == lane->attn.dim[0] &&
                lane->logits.dim[1] == lane->attn.dim[1] && lane->logits.dim[2] == lane->n_slot;
    *wrong |= !same;
    for (int64_t h = 0; same && h < lane->attn.dim[0]; h++)
        for (int64_t q = 0; q < lane->attn.dim[1]; q++)
            *wrong |= softmax_error(lane, h, q, scale) > 2e-3;
}

static void step_logits(const void *params, kvt_lane *lane)
{
    (void)params;
    see_logits(lane, 1);
}

static void step_wrong_logits(const void *params, kvt_lane *lane)
{
    (void)params;
    see_logits(lane, 2);
}

/* The first tokens; NaN, which is refused, once a row was wrong. */
static void score_logits(const void *params, float *out, bool *pinned, const kvt_lane *lane)
{
    const bool *wrong = lane->state;
    (void)params, (void)pinned;
    for (int64_t s = 0; s < lane->n_slot; s++)
        out[s] = *wrong ? (float)NAN : -(float)lane->pos[s];
}

static int64_t window_logits(const void *params, int64_t n_prompt)
{
    (void)params;
    return n_prompt < 4 ? n_prompt : 4;
}

/* Keys of the other kv head. */
static void score_layer(const void *params, float *out, bool *pinned, const kvt_lane *lane)
{
    (void)params, (void)pinned;
    const kvt_view *k = &lane->layer_keys;
    for (int64_t s = 0; s < lane->n_slot; s++)
        out[s] = k->dim[0] < 2 || lane->layer_values.dim[1] != lane->n_slot
                     ? (float)NAN
                     : *at(k, (lane->group + 1) % k->dim[0], s);
}

/* What the model decided; what it has not yet is kept. */
static void score_decision(const void *params, float *out, bool *pinned, const kvt_lane *lane)
{
    (void)params;
    for (int64_t s = 0; s < lane->n_slot; s++) {
        float x = *((const float *)lane->decision.data + s * lane->decision.stride[0]);
        pinned[s] = isnan(x);
        out[s] = isnan(x) ? 0 : -x;
    }
}

static bool join_decided(const void *params, const kvt_lane *lane, float *weight)
{
    (void)params;
    int64_t s = lane->n_slot - 1;
    *weight = ((const float *)lane->decision_weight.data)[s];
    return ((const float *)lane->decision.data)[s] > 0;
}

static void work_state(const void *params, kvt_work *work)
{
    (void)params;
    work->state_bytes_slot = 4;
    work->state_bytes_lane = 64;
}

static const kvt_policy rows_policy = {
    TEXTS("test-rows"),
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_PROBE,
               .one_ranking = true,
               .probe = "lookaheadkv"},
    .score = score_rows,
};
static const kvt_policy heads_policy = {
    TEXTS("test-heads"),
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_PROBE,
               .one_ranking = true,
               .by_query_head = true,
               .probe = "lookaheadkv"},
    .score = score_rows,
};
static const kvt_policy draft_policy = {
    TEXTS("test-draft"),
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_PROBE | KVT_NEED_KEYS,
               .probe = "draft"},
    .score = score_draft,
};
static const kvt_policy chunks_policy = {
    TEXTS("test-chunks"),
    .traits = {.phases = KVT_PREFILL, .needs = KVT_NEED_PROBE, .probe = "repeat"},
    .score = score_chunks,
};
static const kvt_weight table[] = {{"in/weight", "LGKW", "layer 1"},
                                   {"in/bias", "LGK", "its bias"},
                                   {"out/bias", "LG", "the last bias"},
                                   {0}};
static const kvt_policy weights_policy = {
    TEXTS("test-weights"),
    .traits = {.phases = KVT_PREFILL, .needs = KVT_NEED_WEIGHTS, .one_ranking = true},
    .weights = table,
    .weights_kind = "kvpop-mlp",
    .score = score_weights,
};
static const kvt_policy threshold_policy = {
    TEXTS("test-threshold"),
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_COLUMNS,
               .one_ranking = true,
               .by_threshold = true},
    .score = score_columns,
};
static const kvt_policy layer_policy = {
    TEXTS("test-layer"),
    .traits = {.phases = KVT_PREFILL, .needs = KVT_NEED_LAYER, .one_ranking = true},
    .score = score_layer,
};
static const kvt_policy decision_policy = {
    TEXTS("test-decision"),
    .traits = {.phases = KVT_PREFILL | KVT_DECODE,
               .needs = KVT_NEED_DECISION,
               .decision = "dms",
               .may_exceed = true},
    .score = score_decision,
};
static const kvt_policy join_policy = {
    TEXTS("test-join"),
    .traits = {.phases = KVT_PREFILL | KVT_DECODE,
               .needs = KVT_NEED_DECISION,
               .decision = "dmc",
               .effect = KVT_JOIN},
    .score = score_decision,
    .join = join_decided,
};
/* Controls: "all" does not hold them. */
static const kvt_policy seen_policy = {
    TEXTS("test-seen"),
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_ATTN,
               .one_ranking = true,
               .control = true},
    .window = window_logits,
    .score = score_seen,
};
static const kvt_policy seen_model_policy = {
    TEXTS("test-seen-model"),
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_ATTN,
               .one_ranking = true,
               .control = true},
    .share = &extremes,
    .window = window_logits,
    .score = score_seen,
};
static const kvt_policy seen_budget_policy = {
    TEXTS("test-seen-budget"),
    .traits = {.phases = KVT_PREFILL, .needs = KVT_NEED_ATTN, .control = true},
    .share = &extremes,
    .window = window_logits,
    .score = score_seen,
};
static const kvt_policy logits_policy = {
    TEXTS("test-logits"),
    .traits = {.phases = KVT_PREFILL | KVT_DECODE,
               .needs = KVT_NEED_ATTN | KVT_NEED_LOGITS,
               .control = true},
    .state_size = sizeof(bool),
    .window = window_logits,
    .step = step_logits,
    .score = score_logits,
};
static const kvt_policy wrong_logits_policy = {
    TEXTS("test-logits-wrong"),
    .traits = {.phases = KVT_PREFILL | KVT_DECODE,
               .needs = KVT_NEED_ATTN | KVT_NEED_LOGITS,
               .control = true},
    .state_size = sizeof(bool),
    .window = window_logits,
    .step = step_wrong_logits,
    .score = score_logits,
};
static const kvt_policy fair_policy = {
    TEXTS("test-fair"),
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_COLUMNS,
               .one_ranking = true,
               .by_query_head = true},
    .score = score_columns,
    .work = work_state,
};

KVT_API extern const kvt_policy *const kvt_plugin[];
const kvt_policy *const kvt_plugin[] = {
    &rows_policy,    &heads_policy,      &draft_policy,       &chunks_policy,
    &weights_policy, &layer_policy,      &decision_policy,    &join_policy,
    &fair_policy,    &threshold_policy,  &logits_policy,      &wrong_logits_policy,
    &seen_policy,    &seen_model_policy, &seen_budget_policy, NULL};
