/* nacl - keep what the last queries look at, and a random sample of the rest.
 *
 *   Chen et al., "NACL: A General and Effective KV Cache Eviction Framework for LLMs at
 *   Inference Time", 2024, arXiv:2408.03675.
 *
 * With A the attention of the proxies, the last max(1, floor(proxies N)) prompt queries,
 *
 *   score[s] = sum over H, Q of A[H Q s]
 *
 * sinks x B first and recent x B newest tokens are pinned; of the others random x B (rounded
 * down, as they are) are drawn without replacement with weight exp(score) among those that are
 * not in the top that fills the rest of B. Drawn by Gumbel noise, one number for each slot.
 *
 *   compat=official  A is the softmax over all N keys, also those behind the query (its code
 *                    has no causal mask), by query head
 *
 * Differs: see `differs`. Cost for each lane, once: O(H proxies N S), 2 S floats. */
#include "kvt/pieces.h"

#include <math.h>
#include <stdio.h>

typedef struct nacl {
    double proxies, random, sinks, recent;
    int compat;
} nacl;

enum { IS_PAPER, IS_OFFICIAL, IS_KVCF };
enum { SUM, NOISE, N_MARK }; /* noise is drawn where scores are: select() may not draw */

static const kvt_choice compats[] = {
    [IS_PAPER] = {"paper", "", "causal rows, reduced to kv heads"},
    [IS_OFFICIAL] = {"official", "",
                     "PaddlePaddle/Research NLP/ACL2024-NACL: no causal mask, by query head"},
    [IS_KVCF] = {"kvcf", "",
                 "Zefan-Cai/KVCache-Factory c97f9d7 selector: causal rows, by query head"},
};

static const kvt_param params[] = {
    KVT_PARAM_COMPAT(nacl, compats),
    KVT_PARAM(nacl, proxies, 0.01, 0, 1, "frac",
              "share of the prompt whose last queries vote, at least one"),
    KVT_PARAM(nacl, random, 0.35, 0, 1, "frac", "share of the budget that is drawn"),
    KVT_PARAM(nacl, sinks, 0.025, 0, 1, "frac", "share of the budget for the first tokens"),
    KVT_PARAM(nacl, recent, 0.025, 0, 1, "frac", "share of the budget for the newest tokens"),
    {0},
};

static void vary(const void *params_, kvt_traits *traits)
{
    const nacl *p = params_;
    traits->by_query_head = p->compat != IS_PAPER;
    traits->needs = p->compat == IS_OFFICIAL ? KVT_NEED_QUERIES | KVT_NEED_KEYS : KVT_NEED_ATTN;
}

static bool fits(const void *params_, int64_t budget, int64_t n_token, char *why, size_t cap)
{
    const nacl *p = params_;
    int64_t part = kvt_share_floor(p->sinks, budget) + kvt_share_floor(p->recent, budget) +
                   kvt_share_floor(p->random, budget);
    if (budget >= n_token || part <= budget)
        return true;
    snprintf(why, cap, "sinks, recent and random are %lld tokens of a budget of %lld",
             (long long)part, (long long)budget);
    return false;
}

static int64_t window(const void *params_, int64_t n_prompt)
{
    const nacl *p = params_;
    /* query 0 sees itself only */
    return kvt_max(kvt_min(kvt_share_floor(p->proxies, n_prompt), n_prompt - 1), 1);
}

/* Rows of all keys, one query at a time. */
static void add_open_rows(kvt_lane *lane)
{
    const kvt_view *q = &lane->queries;
    int64_t first = 0, end = lane->n_slot;
    float *row = kvt_arena_array(lane->scratch, end, sizeof *row);
    float scale = (float)(1 / sqrt((double)q->dim[2]));
    bool good = row != NULL;
    for (int64_t h = 0; good && h < q->dim[0]; h++)
        for (int64_t i = 0; good && i < q->dim[1]; i++) {
            kvt_view one = *q;
            one.data = kvt_head_row(q, h, i);
            one.dim[0] = one.dim[1] = 1;
            good =
                kvt_softmax_heads(row, &one, &lane->keys, scale, &first, &end, lane->scratch);
            for (int64_t s = 0; good && s < end; s++)
                lane->mark[s * N_MARK + SUM] += row[s];
        }
    for (int64_t s = 0; !good && s < end; s++)
        lane->mark[s * N_MARK + SUM] = NAN; /* which is refused: no memory */
}

static void step(const void *params_, kvt_lane *lane)
{
    const nacl *p = params_;
    if (p->compat == IS_OFFICIAL) {
        add_open_rows(lane);
        return;
    }
    float *sum = kvt_arena_array(lane->scratch, lane->n_slot, sizeof *sum);
    if (sum)
        kvt_add_rows(sum, &lane->attn);
    for (int64_t s = 0; s < lane->n_slot; s++)
        lane->mark[s * N_MARK + SUM] = sum ? sum[s] : NAN;
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const nacl *p = params_;
    int64_t n = lane->n_slot, first = kvt_share_floor(p->sinks, lane->budget);
    int64_t newest = kvt_share_floor(p->recent, lane->budget);
    for (int64_t s = 0; s < n; s++) {
        lane->mark[s * N_MARK + NOISE] = (float)kvt_gumbel(lane->rng);
        out[s] = lane->mark[s * N_MARK + SUM];
        pinned[s] = s < first || s >= n - newest;
    }
}

/* The top, and then the best of score + noise, which is a draw without replacement with weight
 * exp(score). False: no memory. */
static bool keep_lane(const nacl *p, bool *keep, const kvt_lane *lane, const float *score,
                      const bool *pinned, int64_t budget)
{
    int64_t n = lane->n_slot, open = budget;
    float *noisy = kvt_arena_array(lane->scratch, n, sizeof *noisy);
    bool *top = kvt_arena_array(lane->scratch, n, sizeof *top);
    for (int64_t s = 0; s < n; s++)
        open -= pinned[s];
    int64_t drawn = kvt_min(kvt_share_floor(p->random, budget), open);
    if (!noisy || !top || kvt_keep_best(top, score, pinned, n, open - drawn, lane->scratch) < 0)
        return false;
    for (int64_t s = 0; s < n; s++)
        noisy[s] = score[s] + lane->mark[s * N_MARK + NOISE];
    return kvt_keep_best(keep, noisy, top, n, drawn, lane->scratch) >= 0;
}

static void choose(const void *params_, bool *const *keep, const kvt_lane *lane, int n_lane,
                   const float *const *scores, const bool *const *pinned, const int64_t *budget)
{
    for (int i = 0; i < n_lane; i++) {
        bool good = keep_lane(params_, keep[i], &lane[i], scores[i], pinned[i], budget[i]);
        kvt_keep_if(good, keep[i], lane[i].n_slot);
    }
}

const kvt_policy kvt_policy_nacl = {
    .abi = KVT_POLICY_ABI,
    .name = "nacl",
    .title = "keep what the last queries look at, and a random sample of the rest",
    .paper = "Chen et al., NACL, ACL 2024, arXiv:2408.03675",
    .about =
        "Attention of a few queries at the end of the prompt, the proxies, stands for what "
        "will be needed; since any such score is biased, a part of the budget is drawn at "
        "random instead, with the scores as weights, so that what the scores miss has a "
        "chance. Sinks and the newest tokens are kept in any case.\n\n"
        "It acts once, at the end of the prompt. Published: proxies are the last 1 % of the "
        "prompt; 12 % of the prompt are kept as the top, 7 % drawn, 1 % protected (256 of them "
        "the first tokens), from 2,048 tokens on. Nothing is trained.",
    .differs =
        "shares of the budget in the published proportions (12 : 7 : 1), also on prompts "
        "below 2,048 tokens; half of the protected are first tokens, where the code keeps 256 "
        "and has a negative number of newest below 25,600 tokens; causal rows and one set for "
        "each kv head (compat=official: no causal mask, by query head); exact given the draws",
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_ATTN | KVT_NEED_QUERIES | KVT_NEED_KEYS,
               .exactness = KVT_EXACT,
               .by_query_head = true,
               .mass_scores = true},
    .slot_width = N_MARK,
    .params_size = sizeof(nacl),
    .params = params,
    .vary = vary,
    .fits = fits,
    .window = window,
    .step = step,
    .score = score,
    .select = choose,
};
