/* stage_plugin - policies that only tests use, as a plug-in that calls nothing of kvt: they
 * score behind a base, or check what a base gets to see. */
#include "kvt/policy.h"

#include <math.h>

#define TEXTS(name_) \
    .abi = KVT_POLICY_ABI, .name = (name_), .title = "test", .paper = "test", .differs = ""

/* ---- what the base says, and nothing else --------------------------------------------------
 */

enum { WIDTH = 3 };

/* Marks of its own, which move beside the base's: how often it saw the slot, the slot's
 * position, and the newest token when it came. */
static void count_steps(const void *params, kvt_lane *lane)
{
    (void)params;
    for (int64_t s = 0; s < lane->n_slot; s++) {
        float *mark = lane->mark + s * WIDTH;
        if (mark[0] == 0)
            mark[1] = (float)lane->pos[s], mark[2] = (float)lane->now;
        mark[0]++;
    }
}

static void echo(const void *params, float *out, bool *pinned, const kvt_lane *lane)
{
    (void)params;
    for (int64_t s = 0; s < lane->n_slot; s++) {
        bool moved =
            lane->mark[s * WIDTH] > 0 && lane->mark[s * WIDTH + 1] == (float)lane->pos[s];
        out[s] = moved ? lane->base_score[s] : (float)NAN;
        pinned[s] = lane->base_pinned[s];
    }
}

/* ---- windows -------------------------------------------------------------------------------
 */

typedef struct window_params {
    int64_t window;
} window_params;

static const kvt_param window_table[] = {
    KVT_PARAM(window_params, window, 5, 1, 64, "tokens", "last prompt queries"),
    {0},
};

static int64_t window_of(const void *params, int64_t n_prompt)
{
    const window_params *p = params;
    return p->window < n_prompt ? p->window : n_prompt;
}

/* NAN unless it gets its own window, and no other one. */
static void sum_window(const void *params, kvt_lane *lane)
{
    bool mine = lane->attn.dim[1] == window_of(params, lane->now + 1);
    for (int64_t s = 0; s < lane->n_slot; s++) {
        double sum = 0;
        for (int64_t h = 0; h < lane->attn.dim[0]; h++)
            for (int64_t q = 0; q < lane->attn.dim[1]; q++)
                sum += (double)((const float *)lane->attn.data)[h * lane->attn.stride[0] +
                                                                q * lane->attn.stride[1] + s];
        lane->mark[s] = mine ? (float)sum : (float)NAN;
    }
}

static void score_window(const void *params, float *out, bool *pinned, const kvt_lane *lane)
{
    (void)params, (void)pinned;
    for (int64_t s = 0; s < lane->n_slot; s++)
        out[s] = lane->mark[s];
}

/* The base's score on top of its own. */
static void score_both(const void *params, float *out, bool *pinned, const kvt_lane *lane)
{
    (void)params;
    for (int64_t s = 0; s < lane->n_slot; s++) {
        out[s] = lane->mark[s] + lane->base_score[s];
        pinned[s] = lane->base_pinned[s];
    }
}

/* ---- keys ----------------------------------------------------------------------------------
 */

static void score_keys(const void *params, float *out, bool *pinned, const kvt_lane *lane)
{
    (void)params, (void)pinned;
    for (int64_t s = 0; s < lane->n_slot; s++) {
        const float *key = (const float *)lane->keys.data + s * lane->keys.stride[0];
        double sum = 0;
        for (int64_t d = 0; d < lane->keys.dim[1]; d++)
            sum += (double)key[d] * (double)key[d];
        out[s] = (float)-sum;
    }
}

/* ---- channels -----------------------------------------------------------------------------
 */

typedef struct channel_params {
    bool odd;
} channel_params;

static const kvt_param channel_table[] = {
    KVT_PARAM(channel_params, odd, 0, 0, 1, "", "scores that are no numbers"),
    {0},
};

/* More than the descriptor says. */
static void channel_size(const void *params, const kvt_sequence *seq, int64_t budget,
                         int *slot_width, size_t *state_size)
{
    (void)params, (void)seq, (void)budget;
    *slot_width = WIDTH;
    *state_size = 1000 * sizeof(double);
}

static void fill_channels(const void *params, kvt_lane *lane)
{
    (void)params;
    for (int64_t i = 0; i < lane->n_slot * WIDTH; i++)
        lane->mark[i]++;
    for (int i = 0; i < 1000; i++)
        ((double *)lane->state)[i]++;
}

/* Random, and NAN where marks or state were not 0 at the start or are not there any more. */
static void draw_channels(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const channel_params *params = params_;
    bool good = !params->odd || lane->model_layer == 0;
    (void)pinned;
    for (int64_t i = 0; i < lane->n_slot * WIDTH; i++)
        good = good && lane->mark[i] == 1;
    for (int i = 0; i < 1000; i++)
        good = good && ((const double *)lane->state)[i] == 1;
    for (int64_t d = 0; d < lane->keys.dim[1]; d++) {
        lane->rng[0] = lane->rng[0] * 6364136223846793005u + 1442695040888963407u;
        out[d] = good ? (float)(lane->rng[0] >> 40) : (float)NAN;
    }
}

/* ---- wrong ones ----------------------------------------------------------------------------
 */

static void score_nan(const void *params, float *out, bool *pinned, const kvt_lane *lane)
{
    (void)params, (void)pinned;
    for (int64_t s = 0; s < lane->n_slot; s++)
        out[s] = s == 5 ? (float)NAN : 1;
}

static bool fits_eight(const void *params, int64_t budget, int64_t n_token, char *why,
                       size_t cap)
{
    static const char text[] = "eight or more";
    (void)params, (void)n_token;
    for (size_t i = 0; i < sizeof text && i < cap; i++)
        why[i] = text[i];
    return budget >= 8;
}

static void take_first(const void *params, bool *const *keep, const kvt_lane *lane, int n_lane,
                       const float *const *score, const bool *const *pinned,
                       const int64_t *budget)
{
    (void)params, (void)score, (void)pinned;
    for (int i = 0; i < n_lane; i++)
        for (int64_t s = 0; s < lane[i].n_slot; s++)
            keep[i][s] = s < budget[i];
}

/* ---- the list ------------------------------------------------------------------------------
 */

#define BOTH (KVT_PREFILL | KVT_DECODE)

static const kvt_policy echo_policy = {
    TEXTS("test-echo"),  .traits = {.phases = BOTH, .one_ranking = true},
    .base = "snapkv",    .slot_width = WIDTH,
    .step = count_steps, .score = echo,
};
static const kvt_policy head_policy = {
    TEXTS("test-head"),  .traits = {.phases = BOTH, .one_ranking = true, .by_query_head = true},
    .base = "snapkv",    .slot_width = WIDTH,
    .step = count_steps, .score = echo,
};
static const kvt_policy window_policy = {
    TEXTS("test-window"),
    .traits = {.phases = KVT_PREFILL, .needs = KVT_NEED_ATTN, .one_ranking = true},
    .slot_width = 1,
    .params_size = sizeof(window_params),
    .params = window_table,
    .window = window_of,
    .step = sum_window,
    .score = score_window,
};
static const kvt_policy both_policy = {
    TEXTS("test-both"),
    .traits = {.phases = KVT_PREFILL, .needs = KVT_NEED_ATTN, .one_ranking = true},
    .base = "test-window",
    .slot_width = 1,
    .params_size = sizeof(window_params),
    .params = window_table,
    .window = window_of,
    .step = sum_window,
    .score = score_both,
};
static const kvt_policy keys_policy = {
    TEXTS("test-keys"),
    .traits = {.phases = KVT_PREFILL, .needs = KVT_NEED_KEYS, .one_ranking = true},
    .score = score_keys,
};
static const kvt_policy nan_policy = {
    TEXTS("test-nan"),
    .traits = {.phases = BOTH, .one_ranking = true},
    .score = score_nan,
};
static const kvt_policy fits_policy = {
    TEXTS("test-fits"),
    .traits = {.phases = BOTH, .one_ranking = true, .needs = KVT_NEED_KEYS},
    .fits = fits_eight,
    .score = score_keys,
};
static const kvt_policy layer_policy = {
    TEXTS("test-layer"),
    .traits = {.phases = BOTH, .scope = KVT_BY_LAYER, .needs = KVT_NEED_KEYS},
    .score = score_keys,
    .select = take_first,
};
static const kvt_policy together_policy = {
    TEXTS("test-together"),
    .traits = {.phases = KVT_PREFILL, .scope = KVT_BY_LAYER, .needs = KVT_NEED_KEYS},
    .score = score_keys,
    .select = take_first,
};
static const kvt_policy select_policy = {
    TEXTS("test-select"),
    .traits = {.phases = KVT_PREFILL},
    .select = take_first,
};
static const kvt_policy decode_policy = {
    TEXTS("test-decode"),
    .traits = {.phases = KVT_DECODE, .needs = KVT_NEED_KEYS},
    .score = score_keys,
};
static const kvt_policy skip_policy = {
    TEXTS("test-skip"),
    .traits = {.phases = KVT_DECODE, .effect = KVT_SKIP, .needs = KVT_NEED_KEYS},
    .score = score_keys,
};
static const kvt_policy channel_policy = {
    TEXTS("test-channels"),
    .traits = {.phases = KVT_PREFILL, .effect = KVT_CHANNELS, .needs = KVT_NEED_KEYS},
    .params_size = sizeof(channel_params),
    .params = channel_table,
    .size = channel_size,
    .step = fill_channels,
    .score = draw_channels,
};

KVT_API extern const kvt_policy *const kvt_plugin[];
const kvt_policy *const kvt_plugin[] = {&echo_policy,     &window_policy,
                                        &both_policy,     &keys_policy,
                                        &nan_policy,      &fits_policy,
                                        &layer_policy,    &select_policy,
                                        &decode_policy,   &skip_policy,
                                        &together_policy, &head_policy,
                                        &channel_policy,  NULL};
