/* defensivekv - the worst case of the last prompt queries, times the size of what the value
 * writes, over all heads of a layer or of the model.
 *
 *   Feng et al., "Taming the Fragility of KV Cache Eviction in LLM Inference" (DefensiveKV),
 *   2025, arXiv:2510.13334.
 *
 * With A the attention of the last `window` queries i and n slots in front of that window,
 *
 *   r[h, i, s] = maximum or mean of A[h, i] over the `pool` slots around s < n, scaled so that
 *                the row sums to what it summed to before
 *   m[s]       = maximum of r over the query heads of the lane and the rows; at least its mean
 *                over s
 *   f[s]       = m[s] u[s] / (sum of u[s] over the lanes of the layer)
 *
 * with u[s] the mean over the query heads of |W_O v_s|_1. The window is pinned. First, in each
 * lane, with a[s] the mean of A over heads and rows, divided by its sum over s < n:
 *
 *   stage 1    the largest a before their sum reaches cover - bias (the one that reaches it
 *              is not among them), at most b - window; b the lane's even share
 *   bias       mean attention of the rows on the window, over all heads of the layer
 *
 * Then the largest f of the layer (scope=layer) or of the model (scope=model) fill what is left
 * of the total, so that lanes differ in length.
 *
 * Differs: see `differs`. score() is m u, the order but for the sum over lanes. Cost for each
 * lane, once: O(H window S log pool) time, 3 S floats. */
#include "kvt/pieces.h"

#include <string.h>

typedef struct defensivekv {
    int64_t window, pool;
    double cover;
    int kind, scope, compat;
} defensivekv;

typedef struct biases {
    double window, before; /* mean attention on the window, and on as many slots before it */
} biases;

enum { MEAN, WORST, SIZE, WIDTH }; /* a, m, u of each slot */
enum { SCOPE_LAYER, SCOPE_MODEL };
enum { COMPAT_PAPER, COMPAT_OFFICIAL };

static const kvt_choice scopes[] = {
    [SCOPE_LAYER] = {"layer", "", "lanes of a layer compete (DefensiveKV)"},
    [SCOPE_MODEL] = {"model", "", "lanes of all layers compete (Layer-DefensiveKV)"},
};

static const kvt_choice compats[] = {
    [COMPAT_PAPER] = {"paper", "window=32,pool=5,kind=max",
                      "the bias is what the window gets; maximum pool"},
    [COMPAT_OFFICIAL] = {"official", "window=32,pool=5,kind=mean",
                         "FFY0/DefensiveKV 9251b95: mean pool, and the bias is taken after the "
                         "window was cut off, so that it is that of the tokens in front of it"},
};

static const kvt_param params[] = {
    KVT_PARAM_COMPAT(defensivekv, compats),
    KVT_PARAM_WINDOW(defensivekv, 32),
    KVT_PARAM_POOL(defensivekv, 5),
    KVT_PARAM_KIND(defensivekv, KVT_POOL_MAX),
    KVT_PARAM(defensivekv, cover, 0.9, 0, 1, "frac",
              "share of the attention that stage 1 takes in each lane"),
    KVT_PARAM_CHOICE(defensivekv, scope, SCOPE_LAYER, scopes, "which lanes compete"),
    {0},
};

static void vary(const void *params_, kvt_traits *traits)
{
    const defensivekv *p = params_;
    if (p->scope == SCOPE_LAYER)
        traits->scope = KVT_BY_LAYER;
}

static double sum_of(const float *x, int64_t from, int64_t to)
{
    double sum = 0;
    for (int64_t s = from; s < to; s++)
        sum += (double)x[s];
    return sum;
}

/* One row into mean and worst [n]. */
static void add_row(const defensivekv *p, double *mean, float *worst, const float *row,
                    float *pooled, int64_t n)
{
    kvt_pool(pooled, row, n, p->pool, p->kind);
    double sum = sum_of(pooled, 0, n), scale = sum > 0 ? sum_of(row, 0, n) / sum : 0;
    for (int64_t s = 0; s < n; s++) {
        float r = (float)((double)pooled[s] * scale);
        mean[s] += (double)row[s];
        worst[s] = r > worst[s] ? r : worst[s];
    }
}

static void step(const void *params_, kvt_lane *lane)
{
    const defensivekv *p = params_;
    const kvt_view *A = &lane->attn;
    int64_t S = lane->n_slot, W = p->window, n = S - W, rows = A->dim[0] * A->dim[1];
    biases *bias = lane->state;
    double *mean = kvt_arena_array(lane->scratch, S, sizeof *mean);
    float *work = kvt_arena_array(lane->scratch, 3 * S, sizeof *work);
    if (!mean || !work)
        kvt_no_score(lane->mark, S * WIDTH);
    if (n <= 0 || !mean || !work)
        return;
    float *worst = work, *pooled = work + S, *size = work + 2 * S;
    *bias = (biases){0};
    for (int64_t i = 0; i < rows; i++) {
        const float *row = kvt_head_row(A, i / A->dim[1], i % A->dim[1]);
        add_row(p, mean, worst, row, pooled, n);
        bias->window += sum_of(row, n, S) / (double)rows;
        bias->before += sum_of(row, kvt_max(n - W, 0), n) / (double)rows;
    }
    kvt_mean_heads(size, &lane->wo_l1);
    float least = (float)(sum_of(worst, 0, n) / (double)n);
    for (int64_t s = 0; s < n; s++) {
        float *mark = lane->mark + s * WIDTH;
        mark[MEAN] = (float)(mean[s] / (double)rows);
        mark[WORST] = worst[s] > least ? worst[s] : least;
        mark[SIZE] = size[s];
    }
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const defensivekv *p = params_;
    int64_t n = kvt_pin_window(out, pinned, lane->n_slot, p->window);
    for (int64_t s = 0; s < n; s++)
        out[s] = lane->mark[s * WIDTH + WORST] * lane->mark[s * WIDTH + SIZE];
}

/* f and stage 1 of the lanes of one layer. */
static bool weigh(const defensivekv *p, float *const *f, bool *const *first,
                  const kvt_lane *lane, int n_lane, const int64_t *budget)
{
    int64_t n = lane->n_slot - p->window;
    double bias = 0;
    float *mean = kvt_arena_array(lane->scratch, n, sizeof *mean);
    for (int i = 0; i < n_lane; i++) {
        const biases *b = lane[i].state;
        bias += p->compat == COMPAT_OFFICIAL ? b->before : b->window;
    }
    for (int64_t s = 0; s < n; s++) {
        double sum = 0;
        for (int i = 0; i < n_lane; i++)
            sum += (double)lane[i].mark[s * WIDTH + SIZE];
        for (int i = 0; i < n_lane; i++) {
            const float *mark = lane[i].mark + s * WIDTH;
            double share = sum > 0 ? (double)mark[SIZE] / sum : 1.0 / n_lane;
            f[i][s] = (float)((double)mark[WORST] * share);
        }
    }
    bool good = mean != NULL;
    for (int i = 0; good && i < n_lane; i++) {
        for (int64_t s = 0; s < n; s++)
            mean[s] = lane[i].mark[s * WIDTH + MEAN];
        good = kvt_keep_cover(first[i], mean, n, p->cover - bias / n_lane,
                              budget[i] - p->window, lane->scratch);
    }
    return good;
}

/* Without room nothing is marked, which is fewer than asked. */
static void select(const void *params_, bool *const *keep, const kvt_lane *lane, int n_lane,
                   const float *const *score, const bool *const *pinned, const int64_t *budget)
{
    const defensivekv *p = params_;
    int64_t S = lane->n_slot;
    float *all = kvt_arena_array(lane->scratch, n_lane * S, sizeof *all);
    float **f = kvt_arena_array(lane->scratch, n_lane, sizeof *f);
    bool *marks = kvt_arena_array(lane->scratch, n_lane * S, sizeof *marks);
    bool **first = kvt_arena_array(lane->scratch, n_lane, sizeof *first);
    bool good = all && f && marks && first;
    if (S <= p->window) { /* the latest */
        kvt_keep_best_of_all(keep, lane, n_lane, score, pinned, budget);
        return;
    }
    for (int i = 0; good && i < n_lane; i++) {
        f[i] = all + i * S;
        first[i] = memcpy(marks + i * S, pinned[i], (size_t)S * sizeof *marks);
    }
    for (int i = 0, m; good && i < n_lane; i += m) {
        m = kvt_layer_lanes(lane + i, n_lane - i);
        good = weigh(p, f + i, first + i, lane + i, m, budget + i);
    }
    if (good)
        kvt_keep_best_of_all(keep, lane, n_lane, (const float *const *)f,
                             (const bool *const *)first, budget);
}

const kvt_policy kvt_policy_defensivekv = {
    .abi = KVT_POLICY_ABI,
    .name = "defensivekv",
    .title = "the worst case of the last prompt queries times the value's size",
    .paper = "Feng et al., DefensiveKV, 2025, arXiv:2510.13334",
    .about =
        "A mean over the last queries trusts that importance is stable, and fails badly where "
        "it is not. DefensiveKV looks at the worst case: the largest attention that any query "
        "of the window, in any head of the group, gives a token, and never less than the mean "
        "token gets (a prior risk). That times the size of the projected value, as its share "
        "over the heads, is the score.\n\n"
        "As in CriticalKV a first stage keeps what carries nearly all of the mean attention "
        "(0.9) in each head; the rest goes to the best scores of the whole layer, as in "
        "Ada-KV, or of the whole model (scope=model, Layer-DefensiveKV). It decides once, at "
        "the end of the prompt; nothing is trained. Published settings: W = 32, pool of 5.",
    .differs =
        "one set for each kv head; the window is pinned by rule; the bias of the first stage "
        "is the attention on the window, where the code sums that on the tokens in front of it "
        "(compat=official), and its cap, budget less window, never falls below 0, for a budget "
        "below the window is refused; a pooled row is scaled to what it summed to; the pool is "
        "a maximum where the code has a mean; no lane has a floor but its first stage; a trace "
        "of some layers shares out among those; metrics of ranking see the score before the "
        "sum over heads",
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_ATTN | KVT_NEED_WO_NORM,
               .scope = KVT_BY_MODEL,
               .exactness = KVT_EXACT},
    .slot_width = WIDTH,
    .state_size = sizeof(biases),
    .params_size = sizeof(defensivekv),
    .params = params,
    .vary = vary,
    .fits = kvt_window_held,
    .window = kvt_window_rows,
    .step = step,
    .score = score,
    .select = select,
};
