/* cake - what the last prompt queries look at and change their mind about; more slots for
 * layers whose attention is spread and moves.
 *
 *   Qin et al., "CAKE: Cascading and Adaptive KV Cache Eviction with Layer Preferences", 2025,
 *   arXiv:2503.12491.
 *
 * With A the attention of the last `window` queries i and n slots in front of that window, mean
 * and var over these rows (var divides by window - 1; 0 for one row):
 *
 *   score[s] = mean over the `pool` slots around s < n, and over the query heads of the lane,
 *              of mean_i A[h, i, s] + gamma var_i A[h, i, s]
 *
 * The window is pinned. Layer l, over all its heads, i and s < n, has the preference
 *
 *   P_l = (- sum of A log(A + 1e-10))^(1/tau1) (sum over h, s of var)^(1/tau2)
 *
 * and each of its lanes selects c_l = floor(x P_l), at least 1 and at most n, with the largest
 * x at which the layers hold no more than what the budgets leave beside the windows; slots that
 * are over, where several layers would get one more at the same x, go to the first of them.
 * What a layer cannot take so goes to the others in proportion.
 *
 * Differs: see `differs`. Cost for each lane, once: O(H window S) time, S floats. */
#include "kvt/pieces.h"

#include <math.h>

typedef struct cake {
    int64_t window, pool;
    double gamma, tau1, tau2;
    int compat;
} cake;

typedef struct spread {
    double entropy, shift; /* a lane's part of its layer's sums */
} spread;

enum { COMPAT_PAPER, COMPAT_OFFICIAL };

static const kvt_choice compats[] = {
    [COMPAT_PAPER] = {"paper", "window=32,pool=5,gamma=200",
                      "numbers of antgroup/cakekv c4675ce, at the end of the prompt"},
    [COMPAT_OFFICIAL] = {"official", "window=32,pool=5,gamma=200",
                         "antgroup/cakekv c4675ce: nothing goes while the prompt is no longer "
                         "than budget and window together, so that more than B may be held"},
};

static const kvt_param params[] = {
    KVT_PARAM_COMPAT(cake, compats),
    KVT_PARAM_WINDOW(cake, 32),
    KVT_PARAM_POOL(cake, 5),
    KVT_PARAM(cake, gamma, 200, 0, 1e6, "", "weight of the variance in a token's score"),
    KVT_PARAM(cake, tau1, 1, 0.05, 100, "",
              "temperature of the spread of a layer (1.6 for Llama-3.1 at 1,024)"),
    KVT_PARAM(cake, tau2, 1, 0.05, 100, "",
              "temperature of the shift of a layer (0.4 for Llama-3.1 at 1,024)"),
    {0},
};

static void vary(const void *params_, kvt_traits *traits)
{
    const cake *p = params_;
    traits->may_exceed = p->compat == COMPAT_OFFICIAL;
}

/* One column of one head: its score, and its part of the layer's sums. */
static double column(const cake *p, spread *sum, const float *at, int64_t step, int64_t n_row)
{
    double mean = 0, var = 0;
    for (int64_t i = 0; i < n_row; i++) {
        double a = (double)at[i * step];
        mean += a / (double)n_row;
        sum->entropy -= a > 0 ? a * log(a + 1e-10) : 0;
    }
    for (int64_t i = 0; n_row > 1 && i < n_row; i++) {
        double d = (double)at[i * step] - mean;
        var += d * d / (double)(n_row - 1);
    }
    sum->shift += var;
    return mean + p->gamma * var;
}

static void step(const void *params_, kvt_lane *lane)
{
    const cake *p = params_;
    const kvt_view *A = &lane->attn;
    int64_t n = lane->n_slot - p->window;
    spread *sum = lane->state;
    *sum = (spread){0};
    for (int64_t s = 0; s < n; s++) {
        double x = 0;
        for (int64_t h = 0; h < A->dim[0]; h++)
            x += column(p, sum, (const float *)A->data + h * A->stride[0] + s, A->stride[1],
                        A->dim[1]);
        lane->mark[s] = (float)(x / (double)A->dim[0]);
    }
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const cake *p = params_;
    int64_t n = kvt_pin_window(out, pinned, lane->n_slot, p->window);
    if (n > 0)
        kvt_pool_mean(out, lane->mark, n, p->pool);
}

/* ---- layers --------------------------------------------------------------------------------
 */

/* P of the layer of these lanes. */
static double prefer(const cake *p, const kvt_lane *lane, int n_lane)
{
    spread sum = {0};
    for (int i = 0; i < n_lane; i++) {
        sum.entropy += ((const spread *)lane[i].state)->entropy;
        sum.shift += ((const spread *)lane[i].state)->shift;
    }
    return pow(fmax(sum.entropy, 0), 1 / p->tau1) * pow(fmax(sum.shift, 0), 1 / p->tau2);
}

/* Slots of each lane's layer beside the window: c [n_lane]. */
static bool plan(const cake *p, int64_t *c, const kvt_lane *lane, int n_lane, int64_t total,
                 int64_t room)
{
    double *P = kvt_arena_array(lane->scratch, n_lane, sizeof *P);
    int64_t *part = kvt_arena_array(lane->scratch, n_lane, sizeof *part);
    int n_layer = 0, each = kvt_layer_lanes(lane, n_lane);
    if (!P || !part)
        return false;
    for (int i = 0; i < n_lane; i += each)
        P[n_layer++] = prefer(p, lane + i, each);
    kvt_share_floors(part, P, n_layer, total / each, room);
    for (int i = 0; i < n_lane; i++)
        c[i] = part[i / each];
    return true;
}

static void select(const void *params_, bool *const *keep, const kvt_lane *lane, int n_lane,
                   const float *const *score, const bool *const *pinned, const int64_t *budget)
{
    const cake *p = params_;
    int64_t S = lane->n_slot, W = S > p->window ? p->window : 0, total = 0;
    size_t start = kvt_arena_mark(lane->scratch);
    int64_t *c = kvt_arena_array(lane->scratch, n_lane, sizeof *c);
    for (int i = 0; i < n_lane; i++)
        total += budget[i] - W;
    bool all = p->compat == COMPAT_OFFICIAL && W > 0 && S <= total / n_lane + W + p->window;
    all = all || !c || !plan(p, c, lane, n_lane, total, S - W); /* no memory: refused */
    for (int i = 0; i < n_lane; i++)
        (void)kvt_keep_budget(keep[i], score[i], pinned[i], S,
                              all ? S
                              : W ? W + c[i]
                                  : budget[i],
                              lane[i].scratch);
    kvt_arena_rewind(lane->scratch, start);
}

static void work(const void *params_, kvt_work *work)
{
    (void)params_;
    /* Published as a cascade: a layer is cut when its prompt is through, and once more when
     * later ones turn out to need more. */
    work->cuts_at_once = true;
    work->even_lanes = true;
}

const kvt_policy kvt_policy_cake = {
    .abi = KVT_POLICY_ABI,
    .name = "cake",
    .title = "what the last prompt queries look at, more for layers that spread and shift",
    .paper = "Qin et al., CAKE, 2025, arXiv:2503.12491",
    .about =
        "Layers differ in how widely their attention is spread (entropy of the last W rows) "
        "and in how much it moves from row to row (variance). A layer that does both needs a "
        "longer cache: its preference is the product of the two, each with a temperature, and "
        "the slots of all layers are shared out in proportion. Within a lane a token's score "
        "is its mean attention plus gamma times its variance over the last W rows, so that "
        "tokens that come up now and then stay, pooled over neighbours.\n\n"
        "The published run does it in a cascade: each layer that is read has the earlier ones "
        "cut again, which ends in the same sets (budgets only fall), with a lower peak of "
        "memory. Published settings: W = 32, pool of 5, gamma = 200, temperatures by model and "
        "budget from a table (Llama-3.1 at 1,024: 1.6 and 0.4), else 1. Nothing is trained.",
    .differs =
        "one set for each kv head; decides at the end of the prompt only, decoded tokens come "
        "on top, where the code drops one a step by the newest query; layers add up to the "
        "budget exactly, a preference times the largest number that fits, rounded down, where "
        "it rounds shares of the total down and adjusts, and what one cannot take goes to the "
        "others in proportion; one row has variance 0, where the code has none; a trace of "
        "some layers shares out among those; the total is exact also where the prompt is no "
        "longer than budget and window, which the code leaves whole (compat=official)",
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_ATTN,
               .scope = KVT_BY_MODEL,
               .exactness = KVT_EXACT,
               .one_ranking = true,
               .may_exceed = true},
    .slot_width = 1,
    .state_size = sizeof(spread),
    .params_size = sizeof(cake),
    .params = params,
    .vary = vary,
    .fits = kvt_window_held,
    .window = kvt_window_rows,
    .step = step,
    .score = score,
    .select = select,
    .work = work,
};
