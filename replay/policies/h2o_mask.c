/* h2o-mask - H2O as the authors simulated it: evicted tokens may come back.
 *
 *   Zhang et al., "H2O: Heavy-Hitter Oracle for Efficient Generative Inference of Large
 *   Language Models", 2023, arXiv:2306.14048; FMInference/H2O ac75c2a, h2o_hf, the masks of the
 *   paper's generation runs.
 *
 * Nothing leaves the cache: before each row a mask says what it sees. With n tokens that have
 * attended, acc[s] what each has got, R = recent x B and hh = B - R, fixed for the whole run,
 * and n > hh + R,
 *
 *   the next row sees  its own token and the R - 1 before it, and the hh best acc of [0, n - R)
 *   then               acc[s] <- 0 for every s < n - R that it does not see
 *
 * and the softmax runs over what is seen; acc of the prompt is the sum over its full causal
 * rows. Token n - R is in neither part: that row is blind to it, but what it has got stays, so
 * that it may come back as a heavy hitter one row later. A row sees B tokens, itself included.
 *
 * Without newest tokens (recent=0) the code's slice "the last 0" takes everything: nothing is
 * set to 0, every token stays a candidate, and a row does not see its own token.
 *
 * Differs: see `differs`. Accumulates in f32.
 * Cost for each lane and query: O(H S), 2 S floats; nothing is saved, as published. */
#include "kvt/pieces.h"

#include <math.h>

typedef struct h2o_mask {
    double recent;
    int compat;
} h2o_mask;

typedef struct memo {
    int64_t budget; /* what a row may see */
} memo;

enum { COMPAT_PAPER, COMPAT_OFFICIAL };

static const kvt_choice compats[] = {
    [COMPAT_PAPER] = {"paper", "recent=0.5", "the masks, reduced to kv heads"},
    [COMPAT_OFFICIAL] = {"official", "recent=0.5",
                         "FMInference/H2O ac75c2a, h2o_hf: a set for each query head (script: "
                         "heavy and recent 0.1 of the prompt each)"},
};

static const kvt_param params[] = {
    KVT_PARAM_COMPAT(h2o_mask, compats),
    KVT_PARAM(h2o_mask, recent, 0.5, 0, 1, "frac",
              "share of the budget for the newest tokens; 0: nothing is ever set to 0"),
    {0},
};

static void vary(const void *params_, kvt_traits *traits)
{
    const h2o_mask *p = params_;
    traits->by_query_head = p->compat == COMPAT_OFFICIAL;
}

static int64_t newest(const h2o_mask *p, int64_t budget)
{
    return kvt_share_floor(p->recent, budget);
}

static bool fits(const void *params_, int64_t budget, int64_t n_token, char *why, size_t cap)
{
    const h2o_mask *p = params_;
    return kvt_recent_fits(p->recent, budget, n_token, why, cap);
}

/* A row of an evicting policy sees B and its own token, which is B here. */
static void begin(const void *params_, kvt_lane *lane)
{
    (void)params_;
    ((memo *)lane->state)->budget = lane->budget - 1;
}

/* What the newest row sees, by what the n tokens before it have got. */
static void mask(const h2o_mask *p, kvt_lane *lane)
{
    int64_t B = ((const memo *)lane->state)->budget, R = newest(p, B), n = lane->n_slot - 1;
    float *acc = kvt_arena_array(lane->scratch, lane->n_slot, sizeof *acc);
    bool *best = kvt_arena_array(lane->scratch, lane->n_slot, sizeof *best);
    kvt_mask *m = kvt_masks(lane);
    bool good = acc && best;
    for (int64_t s = 0; s <= n; s++)
        m[s].seen = 1;
    if (n <= B)
        return;
    for (int64_t s = 0; good && s < n - R; s++)
        acc[s] = m[s].sum;
    good = good && kvt_keep_best(best, acc, NULL, n - R, B - R, lane->scratch) >= 0;
    for (int64_t s = 0; s <= n; s++) /* NaN, which is refused: no memory */
        m[s].seen = !good ? NAN : s < n - R ? best[s] : s > n - R;
    for (int64_t s = 0; R > 0 && s < n - R; s++)
        if (m[s].seen == 0)
            m[s].sum = 0;
}

/* acc += the softmax of the row over what it sees. */
static void accumulate(kvt_lane *lane)
{
    const kvt_view *a = &lane->attn;
    kvt_mask *m = kvt_masks(lane);
    for (int64_t h = 0; h < a->dim[0]; h++) {
        const float *row = kvt_head_row(a, h, a->dim[1] - 1);
        double sum = 0;
        for (int64_t s = 0; s < lane->n_slot; s++)
            sum += m[s].seen == 1 ? (double)row[s] : 0;
        for (int64_t s = 0; sum > 0 && s < lane->n_slot; s++)
            if (m[s].seen == 1)
                m[s].sum += (float)((double)row[s] / sum);
    }
}

static void step(const void *params_, kvt_lane *lane)
{
    if (lane->now >= lane->seq->n_prompt) {
        mask(params_, lane);
        accumulate(lane);
        return;
    }
    kvt_mask_add(lane, &lane->col_sum);
}

const kvt_policy kvt_policy_h2o_mask = {
    .abi = KVT_POLICY_ABI,
    .name = "h2o-mask",
    .title = "heavy hitters by masks over the full cache, which may come back",
    .paper = "Zhang et al., H2O (mask simulation), 2023, arXiv:2306.14048",
    .about =
        "H2O's published generation runs evict nothing: before each token a mask hides all but "
        "the heavy hitters and the newest, and the softmax runs over what is left. Since keys "
        "and values stay, a token that was hidden may be seen again.\n\n"
        "Two things follow that the real cache (h2o) does not have. The token that leaves the "
        "newest ones is blind for exactly one row: it is in neither part, but what it has "
        "gathered stays, and it may return as a heavy hitter. And what a hidden token had "
        "gathered is set to 0, so that it comes back only where fewer others have anything.\n\n"
        "Published setting: a tenth of the prompt for each of the two parts, fixed at the end "
        "of the prompt. Memory is that of the full cache; the budget is what a row sees.",
    .differs =
        "one set for each kv head instead of each query head (compat=official); with recent=0 "
        "a row does not see its own token, and nothing is set to 0",
    .traits = {.phases = KVT_DECODE,
               .needs = KVT_NEED_ATTN | KVT_NEED_COLUMNS,
               .effect = KVT_SKIP,
               .exactness = KVT_OPEN_LOOP,
               .by_query_head = true},
    .slot_width = KVT_MASK_WIDTH,
    .state_size = sizeof(memo),
    .params_size = sizeof(h2o_mask),
    .params = params,
    .vary = vary,
    .fits = fits,
    .begin = begin,
    .step = step,
    .score = kvt_mask_score,
    .select = kvt_select_pinned,
    .work = kvt_sums_work,
};
