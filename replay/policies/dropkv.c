/* dropkv - keep what the attention output would miss most if it alone went.
 *
 *   NVIDIA/kvpress pull request 285 (DropKV), 2026; no paper.
 *
 * With p[i, s] the attention of query i of the last `window` and o_i = sum over s of p[i, s]
 * v_s over all slots, removing key s alone moves the output by p / (1 - p) (o_i - v_s), so that
 *
 *   drop[s]  = mean over the query heads H of the lane of
 *              sum over i of (p[i, s] / (1 - p[i, s] + epsilon))^2 |v_s - o_i|^2
 *   score[s] = mean of drop over the `pool` slots around s, what lies outside counts as 0
 *
 * over all slots, the window's included, which is pinned then: near it the drop of its own
 * tokens counts, too (snapkv does not pool what is pinned).
 *
 * Differs: |v - o|^2 is summed from differences in f64, not expanded. Cost for each lane, once:
 * O(H window S D) time, S + D doubles. */
#include "kvt/pieces.h"

#include <math.h>

typedef struct dropkv {
    int64_t window, pool;
    double epsilon;
} dropkv;

static const kvt_param params[] = {
    KVT_PARAM(dropkv, window, 32, 1, 4096, "tokens",
              "last prompt queries whose outputs count, always kept"),
    KVT_PARAM_POOL(dropkv, 7),
    KVT_PARAM(dropkv, epsilon, 1e-6, 0, 1, "", "added to 1 - p, which may be 0"),
    {0},
};

/* o [D] of one row. */
static void output(double *o, const float *row, const kvt_lane *lane, int64_t D)
{
    for (int64_t d = 0; d < D; d++)
        o[d] = 0;
    for (int64_t s = 0; s < lane->n_slot; s++) {
        const float *v = kvt_row(&lane->values, s);
        for (int64_t d = 0; row[s] != 0 && d < D; d++)
            o[d] += (double)row[s] * (double)v[d];
    }
}

/* The squared change of one row's output, added to drop [S]. Where p is 1 and epsilon 0 nothing
 * else is looked at: o is v, and removing it leaves no row. */
static void add_row(double *drop, const float *row, const double *o, const kvt_lane *lane,
                    int64_t D, double epsilon)
{
    for (int64_t s = 0; s < lane->n_slot; s++) {
        double p = (double)row[s], rest = fmax(1 - p, 0) + epsilon, square = 0;
        const float *v = kvt_row(&lane->values, s);
        if (p == 0 || rest == 0)
            continue;
        for (int64_t d = 0; d < D; d++)
            square += ((double)v[d] - o[d]) * ((double)v[d] - o[d]);
        drop[s] += p / rest * (p / rest) * square;
    }
}

static void step(const void *params_, kvt_lane *lane)
{
    const dropkv *p = params_;
    const kvt_view *A = &lane->attn;
    int64_t n = lane->n_slot, D = lane->values.dim[1];
    double *drop = kvt_arena_array(lane->scratch, n + D, sizeof *drop);
    for (int64_t h = 0; drop && h < A->dim[0]; h++)
        for (int64_t q = 0; q < A->dim[1]; q++) {
            const float *row = kvt_head_row(A, h, q);
            output(drop + n, row, lane, D);
            add_row(drop, row, drop + n, lane, D, p->epsilon);
        }
    for (int64_t s = 0; s < n; s++) /* NaN, which is refused: no memory */
        lane->mark[s] = drop ? (float)(drop[s] / (double)A->dim[0]) : NAN;
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const dropkv *p = params_;
    if (kvt_pin_window(out, pinned, lane->n_slot, p->window) > 0)
        kvt_pool_mean(out, lane->mark, lane->n_slot, p->pool);
}

const kvt_policy kvt_policy_dropkv = {
    .abi = KVT_POLICY_ABI,
    .name = "dropkv",
    .title = "keep what the attention output would miss most if it alone went",
    .paper = "NVIDIA/kvpress pull request 285 (DropKV), 2026, no paper",
    .about =
        "Attention says how much of a value is in the output, not how far the output moves "
        "without it: a value that equals the output may go unseen. Removing one key alone "
        "scales the others up, and the output moves by exactly p / (1 - p) (o - v). The "
        "squared length of that, summed over the last W queries and averaged over the query "
        "heads, is the score; then a mean over neighbours. It says nothing of keys that go "
        "together.\n\n"
        "It decides once, at the end of the prompt; nothing is trained. Settings there: W = "
        "32, mean pool of 7, epsilon = 1e-6.",
    .differs =
        "the difference of value and output is taken in f64, where it is expanded in f32 there",
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_ATTN | KVT_NEED_VALUES,
               .exactness = KVT_EXACT,
               .one_ranking = true},
    .slot_width = 1,
    .params_size = sizeof(dropkv),
    .params = params,
    .fits = kvt_window_held,
    .window = kvt_window_rows,
    .step = step,
    .score = score,
};
