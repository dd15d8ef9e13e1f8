/* chunkkv - a base's score, whole chunks of neighbours, one set for all heads of a layer.
 *
 *   Liu et al., "ChunkKV: Semantic-Preserving KV Cache Compression for Efficient Long-Context
 *   LLM Inference", 2025, arXiv:2502.00299.
 *
 * Slots are cut into chunks of `chunk` from the first one on; the last may be shorter. With a
 * the score of the base (base=snapkv) in each lane of the layer,
 *
 *   worth[c] = mean, or with reduce=sum the sum, of a over the lanes and the slots of chunk c
 *              that the base does not pin
 *
 * What the base pins stays. Chunks are taken by falling worth, whole, until the budget is
 * reached: of the last one its first tokens, as many as are left.
 *
 * compat=kvpress: a pinned slot's score is the layer's largest plus 1, so that it lifts its
 * chunk instead of staying by rule; max(1, floor(chunks B / S)) chunks are kept, whole, so that
 * a lane holds up to a chunk more or less than B; a prompt shorter than one chunk is the
 * base's.
 *
 * Differs: see `differs`. Cost for each layer, beside the base: O(lanes S) time, S floats. */
#include "kvt/pieces.h"

typedef struct chunkkv {
    int64_t chunk;
    int reduce, compat;
} chunkkv;

enum { REDUCE_MEAN, REDUCE_SUM };
enum { COMPAT_PAPER, COMPAT_KVPRESS };

static const kvt_choice reduces[] = {
    [REDUCE_MEAN] = {"mean", "", "a short last chunk counts as its tokens do"},
    [REDUCE_SUM] = {"sum", "", "a short last chunk counts less"},
};

static const kvt_choice compats[] = {
    [COMPAT_PAPER] = {"paper", "chunk=10,reduce=mean", "chunks of 10, exactly B slots"},
    [COMPAT_KVPRESS] = {"kvpress", "chunk=20,reduce=mean",
                        "NVIDIA/kvpress 8bb29b9: whole chunks only, as many as the kept share "
                        "of all, pinned tokens by their score (its base is "
                        "base.compat=kvpress)"},
};

static const kvt_param params[] = {
    KVT_PARAM_COMPAT(chunkkv, compats),
    KVT_PARAM(chunkkv, chunk, 10, 1, 65536, "tokens", "neighbours that stay or go together"),
    KVT_PARAM_CHOICE(chunkkv, reduce, REDUCE_MEAN, reduces, "what a chunk is worth"),
    {0},
};

static void vary(const void *params_, kvt_traits *traits)
{
    const chunkkv *p = params_;
    traits->may_exceed = p->compat == COMPAT_KVPRESS;
}

/* Marks remember what the base pins, where that is no rule here. */
static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const chunkkv *p = params_;
    for (int64_t s = 0; s < lane->n_slot; s++) {
        bool fixed = lane->base_pinned[s];
        out[s] = fixed ? 0 : lane->base_score[s];
        pinned[s] = fixed && p->compat != COMPAT_KVPRESS;
        lane->mark[s] = fixed;
    }
}

/* worth [chunks], of the slots that are ranked. */
static void weigh(const chunkkv *p, float *worth, const kvt_lane *lane, int n_lane,
                  const float *const *score, const bool *const *pinned, double top)
{
    int64_t n = lane->n_slot;
    for (int64_t c = 0, from = 0; from < n; c++, from += p->chunk) {
        double sum = 0, count = 0;
        for (int i = 0; i < n_lane; i++)
            for (int64_t s = from; s < kvt_min(from + p->chunk, n); s++) {
                sum += pinned[i][s] ? 0 : lane[i].mark[s] > 0 ? top : (double)score[i][s];
                count += !pinned[i][s];
            }
        worth[c] = (float)(p->reduce == REDUCE_MEAN && count > 0 ? sum / count : sum);
    }
}

/* Chunks in their order, each slot that is not pinned, until the lane's budget is reached. */
static void take(const chunkkv *p, bool *keep, const bool *pinned, const int32_t *order,
                 int64_t n_chunk, int64_t n, int64_t budget)
{
    for (int64_t s = 0; s < n; s++) {
        keep[s] = pinned[s];
        budget -= pinned[s];
    }
    for (int64_t c = 0; c < n_chunk; c++) {
        int64_t from = order[c] * p->chunk;
        for (int64_t s = from; s < kvt_min(from + p->chunk, n) && budget > 0; s++)
            if (!keep[s]) {
                keep[s] = true;
                budget--;
            }
    }
}

/* kvpress: the base alone, where there is no whole chunk. */
static bool take_tokens(bool *keep, const kvt_lane *lane, const float *score, int64_t budget)
{
    bool *pinned = kvt_arena_array(lane->scratch, lane->n_slot, sizeof *pinned);
    for (int64_t s = 0; pinned && s < lane->n_slot; s++)
        pinned[s] = lane->mark[s] > 0;
    return pinned && kvt_keep_budget(keep, score, pinned, lane->n_slot, budget, lane->scratch);
}

static double largest(const kvt_lane *lane, int n_lane, const float *const *score)
{
    double top = 0;
    for (int i = 0; i < n_lane; i++)
        for (int64_t s = 0; s < lane->n_slot; s++)
            if (!(lane[i].mark[s] > 0) && (double)score[i][s] > top)
                top = (double)score[i][s];
    return top;
}

static void select(const void *params_, bool *const *keep, const kvt_lane *lane, int n_lane,
                   const float *const *score, const bool *const *pinned, const int64_t *budget)
{
    chunkkv rule = *(const chunkkv *)params_, *p = &rule;
    bool whole = p->compat == COMPAT_KVPRESS;
    if (kvt_is_latest(score[0], pinned[0], lane->n_slot)) /* the base has nothing to say */
        rule.chunk = 1;
    int64_t n = lane->n_slot, n_chunk = (n + p->chunk - 1) / p->chunk;
    size_t start = kvt_arena_mark(lane->scratch);
    float *worth = kvt_arena_array(lane->scratch, n_chunk, sizeof *worth);
    int32_t *order = kvt_arena_array(lane->scratch, n_chunk, sizeof *order);
    bool good = worth && order;
    if (good)
        weigh(p, worth, lane, n_lane, score, pinned, largest(lane, n_lane, score) + 1);
    good = good && kvt_rank(order, worth, n_chunk, lane->scratch);
    for (int i = 0; i < n_lane; i++) {
        if (good && whole && n < p->chunk)
            good = take_tokens(keep[i], &lane[i], score[i], budget[i]);
        else if (good && whole)
            take(p, keep[i], pinned[i], order, kvt_max(n_chunk * budget[i] / n, 1), n, n);
        else if (good)
            take(p, keep[i], pinned[i], order, n_chunk, n, budget[i]);
        kvt_keep_if(good, keep[i], n);
    }
    kvt_arena_rewind(lane->scratch, start);
}

static void work(const void *params_, kvt_work *work)
{
    (void)params_;
    work->even_lanes = true; /* the same chunks in all heads of a layer */
}

const kvt_policy kvt_policy_chunkkv = {
    .abi = KVT_POLICY_ABI,
    .name = "chunkkv",
    .title = "whole chunks of neighbours by a base's score, one set a layer",
    .paper = "Liu et al., ChunkKV, 2025, arXiv:2502.00299",
    .about =
        "Tokens that stand alone lose their sense: a subject stays without its verb. So "
        "neighbours stay or go together. The prompt is cut into chunks, a chunk is worth what "
        "a base policy scores in it, over all heads of the layer, and the best chunks stay, "
        "the same in every head, with what the base always keeps.\n\n"
        "The base is snapkv unless base=NAME says another one (base.window=16 sets its "
        "parameters). Chunks of 10 in the paper, of 20 in kvpress. The paper's reuse of one "
        "layer's choice in the next one is not here. It decides once, at the end of the "
        "prompt; nothing is trained.",
    .differs =
        "the last chunk that is taken is cut, so that exactly B slots are kept: its first "
        "tokens stay; kvpress keeps whole chunks and may hold a chunk more or less than B "
        "(compat=kvpress; the number of chunks is taken from B in whole tokens)",
    .traits = {.phases = KVT_PREFILL,
               .scope = KVT_BY_LAYER,
               .exactness = KVT_EXACT,
               .one_ranking = true,
               .may_exceed = true},
    .slot_width = 1,
    .params_size = sizeof(chunkkv),
    .params = params,
    .base = "snapkv",
    .vary = vary,
    .score = score,
    .select = select,
    .work = work,
};
