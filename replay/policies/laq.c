/* laq - keep what a draft looks at that the model wrote on a small cache.
 *
 *   Wang et al., "Lookahead Q-Cache: Achieving More Consistent KV Cache Eviction via Pseudo
 *   Query" (LAQ), EMNLP 2025, arXiv:2505.20334; noforit/Lookahead_Q-Cache 74612bd.
 *
 * Stage 1 is the probe: SnapKV (window 32, max pool 7) cuts the cache to B, and on that the
 * model writes m = 8 tokens greedily, fewer where it would stop; their queries are kept. Stage
 * 2 is here, on the full cache. With R = m rows over the N prompt keys, the draft's own keys
 * left out,
 *
 *   P[i, j]  = softmax over the j < N that row i sees of scale q_i.k_j
 *   score[j] = sum over i of P[i, j];  keep = top-B of maxpool_7(score)
 *
 * mask=official: row i does not see the last R - 1 - i prompt tokens, a triangle aligned as if
 * the rows were the prompt's last; mask=causal: all rows see the whole prompt. The code repeats
 * keys first: one set and one cache for each query head, R_g times the memory (group=query).
 * group=mean|max is another policy, one set for each kv head: the published code has none.
 *
 * Differs: P stays f32 where the code rounds it to the model's type. The draft knows B, so that
 * a probe serves its own budget only. Cost for each lane, each budget: O(R N D) time, R N
 * floats, beside m decoding steps. */
#include "kvt/pieces.h"

typedef struct laq {
    int mask, group;
    int64_t pool;
} laq;

enum { MASK_OFFICIAL, MASK_CAUSAL };
enum { GROUP_QUERY, GROUP_MEAN, GROUP_MAX };

static const kvt_choice masks[] = {
    [MASK_OFFICIAL] = {"official", "",
                       "a triangle hides the prompt's end from early rows, as the code does"},
    [MASK_CAUSAL] = {"causal", "", "draft rows see the whole prompt"},
};

static const kvt_choice groups[] = {
    [GROUP_QUERY] = {"query", "", "a set for each query head, as published"},
    [GROUP_MEAN] = {"mean", "", "a set for each kv head, by the mean: not the paper's"},
    [GROUP_MAX] = {"max", "", "a set for each kv head, by the maximum: not the paper's"},
};

static const kvt_param params[] = {
    KVT_PARAM_CHOICE(laq, mask, MASK_OFFICIAL, masks, "what draft rows see of the prompt"),
    KVT_PARAM_CHOICE(laq, group, GROUP_QUERY, groups, "whose votes make a set"),
    KVT_PARAM(laq, pool, 7, 0, 255, "tokens", "width of the max pool, odd; 0: none"),
    {0},
};

static void vary(const void *params_, kvt_traits *traits)
{
    const laq *p = params_;
    traits->by_query_head = p->group == GROUP_QUERY;
}

static kvt_reduction reduction(const laq *p)
{
    return (kvt_reduction){.reduce = p->group == GROUP_MAX ? KVT_REDUCE_MAX : KVT_REDUCE_MEAN,
                           .pool = p->pool};
}

static bool fits(const void *params_, int64_t budget, int64_t n_token, char *why, size_t cap)
{
    kvt_reduction r = reduction(params_);
    return kvt_reduction_fits(&r, budget, n_token, why, cap);
}

/* What row i of m sees: first[i] <= j < end[i]. */
static void see(const laq *p, const kvt_lane *lane, int64_t m, int64_t *first, int64_t *end)
{
    int64_t n = lane->n_slot;
    for (int64_t i = 0; i < m; i++) {
        end[i] = p->mask == MASK_CAUSAL ? n : kvt_max(n - m + i + 1, 1);
        first[i] = kvt_min(kvt_geometry_first(lane->seq->geometry, lane->model_layer, n + i),
                           end[i] - 1);
    }
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const laq *p = params_;
    const kvt_view *q = &lane->probe->queries;
    int64_t n = lane->n_slot, m = q->dim[1];
    float scale = (float)lane->seq->geometry->attn_scale;
    kvt_reduction r = reduction(p);
    float *rows = kvt_arena_array(lane->scratch, q->dim[0] * m * n, sizeof *rows);
    int64_t *first = kvt_arena_array(lane->scratch, m, sizeof *first);
    int64_t *end = kvt_arena_array(lane->scratch, m, sizeof *end);
    bool room = rows && first && end;
    if (room)
        see(p, lane, m, first, end);
    if (room && kvt_softmax_heads(rows, q, &lane->keys, scale, first, end, lane->scratch)) {
        kvt_view view = kvt_view_of(rows, KVT_F32, KVT_SHAPE("HQS", q->dim[0], m, n));
        kvt_reduce_rows(out, pinned, &view, &r, lane->scratch);
        return;
    }
    kvt_no_score(out, n);
}

static void work(const void *params_, kvt_work *work)
{
    (void)params_;
    work->draft_tokens = 8; /* as published; fewer where the draft ends */
    work->draft_evicts = true;
    work->draft_window = 32;
}

const kvt_policy kvt_policy_laq = {
    .abi = KVT_POLICY_ABI,
    .name = "laq",
    .title = "keep what a draft on a small cache looks at",
    .paper = "Wang et al., Lookahead Q-Cache (LAQ), EMNLP 2025, arXiv:2505.20334",
    .about =
        "The queries at the end of a prompt are not those that the response will ask with. "
        "LAQ lets the model write a short draft on a small cache and asks with the draft's "
        "queries; nothing is trained.\n\n"
        "Stage 1: SnapKV (window 32, max pool 7) cuts the cache to the budget B, and on it "
        "the model writes m = 8 tokens greedily, fewer where it stops; their queries are "
        "kept. Stage 2, on the full cache: score = sum over the draft's rows of their "
        "softmax over the prompt, the draft's own keys left out; max pool of 7; the best B "
        "stay. Draft and small cache are thrown away, decoding starts again from the first "
        "token.\n\n"
        "The published code (noforit/Lookahead_Q-Cache) repeats keys and values first, so "
        "that sets and memory are per query head, and aligns its causal mask as if the "
        "draft's rows were the prompt's last ones. The abstract claims 1 to 4 points of "
        "LongBench at tight budgets; the price is the draft's sequential steps.\n\n"
        "Here the probe is the draft (kvt capture --probe NAME=draft:...), once for each "
        "budget: it knows B, and serves no other.",
    .differs =
        "nothing in what is kept: a set for each query head and the mask of the published "
        "code; mask=causal is the right one. group=mean and group=max, a set for each kv "
        "head, are not the paper's. Sums stay in f32, where the code rounds to the model's "
        "type and has more ties",
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_PROBE | KVT_NEED_KEYS,
               .exactness = KVT_BUDGET_EXACT,
               .mass_scores = true,
               .by_query_head = true,
               .probe = "draft"},
    .params_size = sizeof(laq),
    .params = params,
    .vary = vary,
    .fits = fits,
    .score = score,
    .work = work,
};
