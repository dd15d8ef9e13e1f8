/* morphkv - keep what the queries of a moving window look at among what is older.
 *
 *   Ghadia et al., "Dialogue Without Limits: Constant-Sized KV Caches for Extended Responses in
 *   LLMs" (MorphKV), 2025, arXiv:2503.00979.
 *
 * With z the logits of the last W queries over the n slots in front of the last W,
 *
 *   p[H Q s] = softmax over s < n of z[H Q s]
 *   score[s] = sum or maximum over Q of (maximum over H of p[H Q s])
 *
 * and the last W slots are pinned. The rows stay beside the slots and go with them: the softmax
 * is over what is left. They stay as e = exp(z - largest z of the row), so that a decision adds
 * and divides but needs no exp; what is 1e-38 of its row's largest is 0, and a row of which
 * nothing is left says nothing. A lane is cut to B as soon as the next token would make it (1 +
 * B) evict_after or more; above 1 it grows so far between. Where the prompt is not longer than
 * the window, the latest tokens are kept.
 *
 * Differs: W = 32 (the paper tries several). The code decides when the next token is there and
 * leaves that one's query out; here the decision follows the row, which is the same set. Sums
 * stay in f32. Cost for each lane: O(H S) a row, O(H W S) a decision, H W floats a slot. */
#include "kvt/pieces.h"

#include <math.h>
#include <string.h>

typedef struct morphkv {
    int64_t window;
    double evict_after;
    int fuse;
} morphkv;

enum { FUSE_SUM, FUSE_MAX };

static const kvt_choice fuses[] = {
    [FUSE_SUM] = {"sum", "", "ghadiaravi13/MorphKV 8903d2a, sum_fused: summed over the window"},
    [FUSE_MAX] = {"max", "", "the same, max_fused: the largest of the window"},
};

static const kvt_param params[] = {
    KVT_PARAM(morphkv, window, 32, 1, 4096, "tokens", "last queries that vote, always kept"),
    KVT_PARAM_CHOICE(morphkv, fuse, FUSE_SUM, fuses, "how the window's queries become one"),
    KVT_PARAM(morphkv, evict_after, 1, 1, 1000, "",
              "a lane is cut when it would reach so many times the budget and one"),
    {0},
};

static void vary(const void *params_, kvt_traits *traits)
{
    const morphkv *p = params_;
    traits->may_exceed = p->evict_after > 1;
}

static void size(const void *params_, const kvt_sequence *seq, int64_t budget, int *slot_width,
                 size_t *state_size)
{
    const morphkv *p = params_;
    (void)budget;
    *slot_width = (int)(p->window * kvt_lane_heads(seq));
    *state_size = sizeof(int64_t); /* rows so far */
}

/* Marks are [S H W]; row i lies at i mod W. */
static void step(const void *params_, kvt_lane *lane)
{
    const morphkv *p = params_;
    const kvt_view *z = &lane->logits;
    int64_t *row = lane->state, H = z->dim[0], W = p->window;
    for (int64_t q = 0; q < z->dim[1]; q++, ++*row)
        for (int64_t h = 0; h < H; h++) {
            const float *x = kvt_head_row(z, h, q);
            float most = -INFINITY;
            for (int64_t s = 0; s < lane->n_slot; s++)
                most = x[s] > most ? x[s] : most;
            for (int64_t s = 0; s < lane->n_slot; s++)
                lane->mark[(s * H + h) * W + *row % W] =
                    isinf(x[s]) ? 0 : (float)exp((double)x[s] - (double)most);
        }
}

/* scale [R] = 1 / the sum of each row over n slots; 0 where nothing is left of it. */
static void find_scales(double *scale, const float *mark, int64_t n, int64_t R)
{
    for (int64_t s = 0; s < n; s++)
        for (int64_t r = 0; r < R; r++)
            scale[r] += (double)mark[s * R + r];
    for (int64_t r = 0; r < R; r++)
        scale[r] = scale[r] > 0 ? 1 / scale[r] : 0;
}

/* best [W] = maximum over H of mark [H W] times scale [H W]. */
static void find_best(float *best, const float *mark, const double *scale, int64_t H, int64_t W)
{
    memset(best, 0, (size_t)W * sizeof *best);
    for (int64_t h = 0; h < H; h++)
        for (int64_t q = 0; q < W; q++) {
            float a = (float)((double)mark[h * W + q] * scale[h * W + q]);
            best[q] = a > best[q] ? a : best[q];
        }
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const morphkv *p = params_;
    int64_t H = kvt_lane_heads(lane->seq), W = p->window;
    int64_t n = kvt_pin_window(out, pinned, lane->n_slot, W);
    double *scale = kvt_arena_array(lane->scratch, H * W, sizeof *scale);
    float *best = kvt_arena_array(lane->scratch, W, sizeof *best);
    if (scale && best)
        find_scales(scale, lane->mark, n, H * W);
    for (int64_t s = 0; s < n; s++) {
        if (!scale || !best) {
            out[s] = NAN; /* which is refused: no memory */
            continue;
        }
        find_best(best, lane->mark + s * H * W, scale, H, W);
        for (int64_t q = 0; q < W; q++) /* rows that have not come are 0 */
            out[s] = p->fuse == FUSE_SUM ? out[s] + best[q]
                     : best[q] > out[s]  ? best[q]
                                         : out[s];
    }
}

/* All stay until the lane is long enough; then the best of each. */
static void choose(const void *params_, bool *const *keep, const kvt_lane *lane, int n_lane,
                   const float *const *scores, const bool *const *pinned, const int64_t *budget)
{
    const morphkv *p = params_;
    for (int i = 0; i < n_lane; i++) {
        int64_t n = lane[i].n_slot;
        bool all = (double)(n + 1) < (double)(1 + budget[i]) * p->evict_after;
        (void)kvt_keep_budget(keep[i], scores[i], pinned[i], n, all ? n : budget[i],
                              lane[i].scratch);
    }
}

static void work(const void *params_, kvt_work *work)
{
    const morphkv *p = params_;
    work->state_bytes_slot = work->lane_heads * p->window * (int64_t)sizeof(float);
    /* All rows are read, one is written. */
    work->state_moves = work->lane_heads * (p->window + 1) * (int64_t)sizeof(float);
}

const kvt_policy kvt_policy_morphkv = {
    .abi = KVT_POLICY_ABI,
    .name = "morphkv",
    .title = "keep what the queries of a moving window look at among what is older",
    .paper = "Ghadia et al., MorphKV, ICML 2025, arXiv:2503.00979",
    .about =
        "A cache of constant size for long responses: the last W tokens, and of the older "
        "ones those that the last W queries look at. The window moves, so that a token's "
        "worth is always that of now; sums over everything (h2o) favour what is old. After "
        "each token the logits of the window's queries, softmax over the older tokens alone, "
        "the maximum over the query heads of the group, are summed (or the largest taken) and "
        "the best B - W stay.\n\n"
        "Reported for long responses: 52.9 % less memory than SnapKV and H2O at better "
        "quality. "
        "With evict_after the code evicts in bursts. Nothing is trained.",
    .differs =
        "W = 32, where the paper has several; it decides at the end of the prompt, too; the "
        "decision follows the row instead of preceding the next one, which keeps the same set",
    .traits = {.phases = KVT_PREFILL | KVT_DECODE,
               .needs = KVT_NEED_LOGITS,
               .exactness = KVT_EXACT,
               .may_exceed = true,
               .mass_scores = true},
    .params_size = sizeof(morphkv),
    .params = params,
    .vary = vary,
    .fits = kvt_window_held,
    .window = kvt_window_rows,
    .size = size,
    .step = step,
    .score = score,
    .select = choose,
    .work = work,
};
