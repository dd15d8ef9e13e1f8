/* foresightkv - drop what a network on key, value and attention statistics expects to be
 * useless.
 *
 *   Dong et al., "ForesightKV: Optimizing KV Cache Eviction for Reasoning Models by Learning
 *   Long-Term Contribution", 2026, arXiv:2602.03203.
 *
 * Every L_b = 256 tokens, with A the attention of that block's rows over what is left, R query
 * heads in the lane's group and a network of 16 hidden units for each lane,
 *
 *   x_t    = [k_t ; v_t ; for each query head: max, min and sum over the block's rows, sums of
 *             its last 16, 8 and 32 rows, sum of all rows so far, the same decayed by .9 a
 *             block]
 *   drop_t = a . GELU(W x_t + b) + b'        high: it goes; score = -drop_t
 *
 * The last L_b tokens are exempt; of the others those with the highest drop go until B are
 * left. Between decisions a lane grows to B + L_b.
 *
 * Supervised labels are the paper's golden eviction: the largest mean attention in any later
 * block. Chosen here: keys after RoPE; the statistics of one head stand together; at the end of
 * the prompt the block is its last L_b rows (needs kvt capture --queries all where these are
 * more than 64), the sums begin with it, and a row that comes before a token counts as 0 for
 * it. every=K other than the block leaves the blocks as they are.
 *
 * Differs: the paper goes on with reinforcement on the running model; the released inference
 * (RUCAIBox/ForesightKV fdb541f) overwrites the decayed sum, here it is the decayed sum. Cost
 * for each lane: O(R S) a token, O(K (D + R) S) a decision; 8 R floats a slot. */
#include "kvt/pieces.h"

#include <math.h>
#include <stdio.h>

typedef struct foresightkv {
    int64_t block;
} foresightkv;

/* Of one query head, in the order that the network reads; before that SO_FAR and DECAYED hold
 * what came before the running block. */
enum { MOST, LEAST, SUM, LAST_16, LAST_8, LAST_32, SO_FAR, DECAYED, N_STAT };
enum { TILE = 128 };
static const double decay = 0.9;

static const kvt_param params[] = {
    KVT_PARAM(foresightkv, block, 256, 1, 65536, "tokens",
              "L_b: tokens between decisions; so many of the newest are exempt"),
    {0},
};

static const kvt_weight weights[] = {
    {"in/weight", "LGKW", "hidden layer, of [k; v; eight statistics of each query head]"},
    {"in/bias", "LGK", "its bias"},
    {"out/weight", "LGK", "read-out: high is to be dropped"},
    {"out/bias", "LG", "its bias"},
    {0},
};

static void vary(const void *params_, kvt_traits *traits)
{
    const foresightkv *p = params_;
    traits->every = p->block;
}

static bool fits(const void *params_, int64_t budget, int64_t n_token, char *why, size_t cap)
{
    const foresightkv *p = params_;
    if (budget >= n_token || budget > p->block)
        return true;
    snprintf(why, cap, "a block of %lld needs a budget of %lld or more, got %lld",
             (long long)p->block, (long long)p->block + 1, (long long)budget);
    return false;
}

static int64_t window(const void *params_, int64_t n_prompt)
{
    const foresightkv *p = params_;
    return kvt_min(p->block, n_prompt);
}

static void size(const void *params_, const kvt_sequence *seq, int64_t budget, int *slot_width,
                 size_t *state_size)
{
    (void)params_, (void)budget;
    *slot_width = (int)(N_STAT * (seq->geometry->n_head / seq->geometry->n_kv_head));
    *state_size = sizeof(int64_t);
}

/* Adds what row i of a block of `block` rows gives a slot: stat [N_STAT] of one query head. */
static void add_row(float *stat, float a, int64_t i, int64_t block)
{
    static const struct {
        int64_t rows;
        int at;
    } lasts[] = {{16, LAST_16}, {8, LAST_8}, {32, LAST_32}};
    if (i == 0) {
        stat[SO_FAR] += stat[SUM];
        stat[DECAYED] = (float)(decay * (double)stat[DECAYED] + (double)stat[SUM]);
        stat[MOST] = stat[LEAST] = a;
        stat[SUM] = stat[LAST_16] = stat[LAST_8] = stat[LAST_32] = 0;
    }
    stat[MOST] = a > stat[MOST] ? a : stat[MOST];
    stat[LEAST] = a < stat[LEAST] ? a : stat[LEAST];
    stat[SUM] += a;
    for (size_t k = 0; k < sizeof lasts / sizeof lasts[0]; k++)
        if (i >= block - lasts[k].rows)
            stat[lasts[k].at] += a;
}

/* The prompt's last rows are one block, however few; after it a row at a time. */
static void step(const void *params_, kvt_lane *lane)
{
    const foresightkv *p = params_;
    int64_t *row = lane->state; /* rows of the running block */
    int64_t n_head = lane->attn.dim[0], n_row = lane->attn.dim[1];
    bool prompt = lane->now < lane->seq->n_prompt;
    int64_t block = prompt ? n_row : p->block;
    for (int64_t q = 0; q < n_row; q++) {
        *row = *row >= block ? 0 : *row;
        for (int64_t h = 0; h < n_head; h++) {
            const float *a = kvt_head_row(&lane->attn, h, q);
            for (int64_t s = 0; s < lane->n_slot; s++)
                add_row(lane->mark + (s * n_head + h) * N_STAT, a[s], *row, block);
        }
        ++*row;
    }
    if (prompt)
        *row = p->block;
}

/* The inputs of the slots at..at + n - 1. */
static void put_inputs(float *x, const float *kv, const kvt_lane *lane, int64_t at, int64_t n,
                       int64_t n_head)
{
    int64_t width = 2 * lane->keys.dim[1];
    for (int64_t i = 0; i < n; i++, kv += width) {
        const float *stat = lane->mark + (at + i) * n_head * N_STAT;
        for (int64_t d = 0; d < width; d++)
            *x++ = kv[d];
        for (int64_t h = 0; h < n_head; h++, stat += N_STAT) {
            for (int k = 0; k < SO_FAR; k++)
                *x++ = stat[k];
            *x++ = stat[SO_FAR] + stat[SUM];
            *x++ = (float)(decay * (double)stat[DECAYED] + (double)stat[SUM]);
        }
    }
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const foresightkv *p = params_;
    const kvt_geometry *g = lane->seq->geometry;
    int64_t n_head = g->n_head / g->n_kv_head, width = 2 * lane->keys.dim[1];
    float *kv = kvt_arena_array(lane->scratch, TILE * width, sizeof *kv);
    float *x = kvt_arena_array(lane->scratch, TILE * (width + N_STAT * n_head), sizeof *x);
    for (int64_t at = 0; kv && x && at < lane->n_slot; at += TILE) {
        int64_t n = kvt_min(TILE, lane->n_slot - at);
        kvt_key_value(kv, lane, at, n);
        put_inputs(x, kv, lane, at, n, n_head);
        kvt_network(out + at, x, n, lane->weights, kvt_gelu, lane->scratch);
    }
    for (int64_t s = 0; s < lane->n_slot; s++) {
        out[s] = kv && x ? -out[s] : NAN; /* NaN, which is refused: no memory */
        pinned[s] = lane->now - lane->pos[s] < p->block;
    }
}

static void work(const void *params_, kvt_work *work)
{
    (void)params_;
    work->state_bytes_slot = N_STAT * (int64_t)sizeof(float);
    work->whole_rows = true;
    const double K = 16; /* as published */
    double n_in = (double)(2 * work->head_dim + N_STAT * work->lane_heads);
    work->network_params = (n_in + 2) * K + 1;
}

const kvt_policy kvt_policy_foresightkv = {
    .abi = KVT_POLICY_ABI,
    .name = "foresightkv",
    .title = "drop what a network on key, value and attention finds useless",
    .paper = "Dong et al., ForesightKV, ICML 2026, arXiv:2602.03203",
    .about =
        "Which token can go is learned from what was looked at later. The golden eviction, "
        "with all attention known, ranks a token by the largest mean attention in any later "
        "block of queries and drops the least; a small network learns to imitate it.\n\n"
        "Every 256 tokens a network of 16 units (GELU) for each lane reads of each older "
        "token its key, its value and for each query head eight statistics of the attention "
        "in the last block (max, min and sum, sums of its last 16, 8 and 32 rows, sum so "
        "far, sum decayed by 0.9 a block) and says how much it should go; those with the "
        "most go until B are left. The block's own tokens are exempt, so that a lane grows "
        "to B + 256.\n\n"
        "Trained in two stages: a hinge over pairs (margin 0.01; Adam 1e-2, 1,000 steps of "
        "4) towards the golden eviction, then reinforcement (GRPO, 250 steps) on the running "
        "model, with the rise of the loss at uncertain tokens as cost. Reported for "
        "reasoning models with B = 1,024.",
    .differs =
        "the supervised stage only. Chosen here: keys after RoPE; at the end of the prompt "
        "the block is its last rows and the sums begin there; the decayed sum is one (the "
        "released inference overwrites it)",
    .traits = {.phases = KVT_PREFILL | KVT_DECODE,
               .needs = KVT_NEED_ATTN | KVT_NEED_KEYS | KVT_NEED_VALUES | KVT_NEED_WEIGHTS,
               .exactness = KVT_EXACT,
               .every = 256},
    .params_size = sizeof(foresightkv),
    .params = params,
    .weights = weights,
    .vary = vary,
    .fits = fits,
    .window = window,
    .size = size,
    .step = step,
    .score = score,
    .work = work,
};
