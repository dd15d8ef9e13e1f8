/* r-kv - keep what the last queries look at and no other key repeats.
 *
 *   Cai et al., "R-KV: Redundancy-aware KV Cache Compression for Reasoning Models", 2025,
 *   arXiv:2505.24133.
 *
 * With z the logits of the last W queries, n slots in front of the last W, and u the keys after
 * RoPE divided by their length + 1e-8,
 *
 *   m[Q s] = maximum over H of z[H Q s]
 *   imp[s] = max pool over `pool` slots of mean over Q of (softmax over s < n of m[Q s])
 *   c[i s] = u_i . u_s, 0 for i = s, and 0 for the last s with c[i s] > similar in each row i
 *   red[s] = softmax over all slots of mean over i of c[i s]
 *   score  = lambda imp - (1 - lambda) red
 *
 * and the last W slots are pinned: of a group of keys that repeat each other the latest is not
 * redundant. It decides at the end of the prompt and every 128 tokens. Where the prompt is not
 * longer than the window, the latest tokens are kept.
 *
 *   compat=official  a row without a similar key has column 0 set to 0 instead, as the code's
 *                    index starts there; lambda = 0.07
 *   compat=snapkv    lambda = 1: the baseline of that repository, no redundancy
 *
 * Differs: the default lambda is the README's 0.1; sums stay in f32. Not here: retaining a
 * percentage of the similar keys. Cost for each lane: O(H S) a row; O(D S^2) a decision in
 * tiles, D S + 20 S floats, at the end of the prompt once for all budgets; W floats a slot. */
#include "kvt/pieces.h"

#include <math.h>
#include <string.h>

typedef struct r_kv {
    int64_t window, pool;
    double lambda, similar;
    int retain, compat;
} r_kv;

enum { IS_PAPER, IS_OFFICIAL, IS_SNAPKV };
enum { RETAIN_LAST, RETAIN_FIRST };

static const kvt_choice compats[] = {
    [IS_PAPER] = {"paper", "window=8,pool=7,lambda=0.1,retain=last",
                  "the README's lambda; a row without a similar key is left as it is"},
    [IS_OFFICIAL] = {"official", "window=8,pool=7,lambda=0.07,retain=last",
                     "Zefan-Cai/R-KV d15c976: lambda of the code; a row without a similar key "
                     "has column 0 set to 0"},
    [IS_SNAPKV] = {"snapkv", "window=8,pool=7,lambda=1,retain=last",
                   "the same, its SnapKV: importance alone"},
};

static const kvt_choice retains[] = {
    [RETAIN_LAST] = {"last", "", "the latest of the keys that are similar to a key"},
    [RETAIN_FIRST] = {"first", "", "the earliest of them"},
};

/* Of a lane. */
typedef struct state {
    int64_t rows;        /* so far */
    bool failed;         /* no memory for the prompt's redundancy */
    double redundancy[]; /* [N] of the prompt's keys: the same at every budget */
} state;

static const kvt_param params[] = {
    KVT_PARAM_COMPAT(r_kv, compats),
    KVT_PARAM(r_kv, window, 8, 1, 4096, "tokens", "last queries that vote, always kept"),
    KVT_PARAM_POOL(r_kv, 7),
    KVT_PARAM(r_kv, lambda, 0.1, 0, 1, "frac", "weight of importance; the rest is redundancy"),
    KVT_PARAM(r_kv, similar, 0.5, -1, 1, "", "cosine above which two keys are similar"),
    KVT_PARAM_CHOICE(r_kv, retain, RETAIN_LAST, retains, "which similar key is not redundant"),
    {0},
};

static void size(const void *params_, const kvt_sequence *seq, int64_t budget, int *slot_width,
                 size_t *state_size)
{
    const r_kv *p = params_;
    (void)budget;
    *slot_width = (int)p->window;
    *state_size = sizeof(state) + (size_t)seq->n_prompt * sizeof(double);
}

static bool find_redundancy(const r_kv *p, double *red, const kvt_lane *lane)
{
    kvt_redundancy_rule rule = {.similar = p->similar,
                                .spare_first = p->retain == RETAIN_FIRST,
                                .column_zero = p->compat == IS_OFFICIAL};
    return kvt_redundancy(red, &lane->keys, &rule, lane->scratch);
}

/* Marks are [S W], the largest logit of the heads; row i lies at i mod W. */
static void step(const void *params_, kvt_lane *lane)
{
    const r_kv *p = params_;
    const kvt_view *z = &lane->logits;
    state *t = lane->state;
    if (lane->step == 0 && p->lambda < 1)
        t->failed = !find_redundancy(p, t->redundancy, lane);
    for (int64_t q = 0; q < z->dim[1]; q++, t->rows++)
        for (int64_t s = 0; s < lane->n_slot; s++) {
            const float *at = kvt_head_row(z, 0, q) + s;
            float most = at[0];
            for (int64_t h = 1; h < z->dim[0]; h++)
                most = at[h * z->stride[0]] > most ? at[h * z->stride[0]] : most;
            lane->mark[s * p->window + t->rows % p->window] = most;
        }
}

/* Adds scale times the softmax of x [n] to out. */
static void add_softmax(double *out, const double *x, int64_t n, double scale)
{
    double most = -INFINITY, sum = 0;
    for (int64_t s = 0; s < n; s++)
        most = x[s] > most ? x[s] : most;
    if (isinf(most)) /* a row of a sliding window that sees none of them */
        return;
    for (int64_t s = 0; s < n; s++)
        sum += exp(x[s] - most);
    for (int64_t s = 0; s < n; s++)
        out[s] += scale * exp(x[s] - most) / sum;
}

/* Importance of n slots, into out; mean [2 n]. */
static void find_importance(const r_kv *p, float *out, const kvt_lane *lane, int64_t n,
                            double *mean, float *flat)
{
    int64_t W = p->window, rows = kvt_min(((const state *)lane->state)->rows, W);
    for (int64_t q = 0; q < rows; q++) {
        for (int64_t s = 0; s < n; s++)
            mean[n + s] = (double)lane->mark[s * W + q];
        add_softmax(mean, mean + n, n, 1 / (double)rows);
    }
    for (int64_t s = 0; s < n; s++)
        flat[s] = (float)mean[s];
    kvt_pool_max(out, flat, n, p->pool);
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const r_kv *p = params_;
    int64_t S = lane->n_slot, n = kvt_pin_window(out, pinned, S, p->window);
    double *mean = kvt_arena_array(lane->scratch, 2 * S, sizeof *mean);
    double *red = kvt_arena_array(lane->scratch, S, sizeof *red);
    float *flat = kvt_arena_array(lane->scratch, S, sizeof *flat);
    if (n == 0)
        return; /* the latest are kept */
    const state *t = lane->state;
    bool good = mean && red && flat && !t->failed;
    if (good && p->lambda < 1 && lane->step > 0)
        good = find_redundancy(p, red, lane);
    else if (good && p->lambda < 1)
        memcpy(red, t->redundancy, (size_t)S * sizeof *red);
    if (good)
        find_importance(p, out, lane, n, mean, flat);
    for (int64_t s = 0; s < n; s++) /* NaN, which is refused: no memory */
        out[s] = good ? (float)(p->lambda * (double)out[s] - (1 - p->lambda) * red[s]) : NAN;
}

/* The code keeps the window's queries, not their rows: two bytes a number. */
static void work(const void *params_, kvt_work *work)
{
    const r_kv *p = params_;
    work->state_bytes_lane = work->lane_heads * p->window * work->head_dim * 2;
    /* Every key with every other one: as the whole square for one of the lane's heads. */
    work->rows_frac = 1 / (double)work->lane_heads;
}

const kvt_policy kvt_policy_r_kv = {
    .abi = KVT_POLICY_ABI,
    .name = "r-kv",
    .title = "keep what the last queries look at and no other key repeats",
    .paper = "Cai et al., R-KV, NeurIPS 2025, arXiv:2505.24133",
    .about =
        "Reasoning models repeat themselves, and what is repeated gets attention again and "
        "again, so that attention alone keeps the same thought many times. R-KV subtracts a "
        "redundancy from the importance: the mean cosine of a token's key with all others, "
        "where the latest of similar keys is spared, so that one of them stays.\n\n"
        "Importance is the attention of the last 8 queries over what lies before them "
        "(logits, the maximum over the query heads of the group, softmax, mean, pooled over 7 "
        "tokens). The score is lambda importance - (1 - lambda) redundancy, both softmaxes. It "
        "decides at the end of the prompt and every 128 tokens, so that a lane grows to B + "
        "128. Reported: the quality of the full cache with 10 to 34 % of it on math. Nothing "
        "is trained.",
    .differs =
        "lambda 0.1 (README; the code has 0.07); a row of cosines without a similar key is "
        "left "
        "as it is, where the code sets its column 0 to 0 (compat=official); it decides at the "
        "end of the prompt, too; sums stay in f32",
    .traits = {.phases = KVT_PREFILL | KVT_DECODE,
               .needs = KVT_NEED_LOGITS | KVT_NEED_KEYS,
               .exactness = KVT_EXACT,
               .every = 128,
               .one_ranking = true},
    .params_size = sizeof(r_kv),
    .params = params,
    .fits = kvt_window_held,
    .window = kvt_window_rows,
    .size = size,
    .step = step,
    .score = score,
    .work = work,
};
