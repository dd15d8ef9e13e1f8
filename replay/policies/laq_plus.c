/* laq-plus - keep what a draft and the last prompt queries look at (LAQ++).
 *
 *   Wang et al., "Lookahead Q-Cache: Achieving More Consistent KV Cache Eviction via Pseudo
 *   Query" (LAQ++), EMNLP 2025, arXiv:2505.20334; noforit/Lookahead_Q-Cache 74612bd.
 *
 * Stage 1 is the probe, as for `laq`: m = 8 tokens that the model writes on a cache that
 * SnapKV cut to B. Stage 2, on the full cache: the rows are the last w2 = 8 prompt queries and
 * the m draft queries, R = w2 + m, over the N prompt keys, the draft's own keys left out,
 *
 *   P[i, j]  = softmax over the j < N that row i sees of scale q_i.k_j
 *   score[j] = sum over i of P[i, j],  j < N - w2
 *   keep     = top-(B - w2) of maxpool_7(score) and the last w2
 *
 * mask=official: row i does not see the last R - 1 - i prompt tokens, a triangle aligned as if
 * all rows were the prompt's last; mask=causal: a prompt row sees what lies up to itself, a
 * draft row the whole prompt. One set and one cache for each query head, R_g times the memory
 * (group=query); group=mean|max, a set for each kv head, is another policy.
 *
 * Where the prompt is not longer than w2, the latest tokens are kept. Differs: P stays f32. A
 * probe serves its own budget only. Cost for each lane, each budget: O(R N D) time, R N
 * floats, beside m decoding steps. */
#include "kvt/pieces.h"

#include <string.h>

typedef struct laq_plus {
    int64_t window;
    int mask, group;
    int64_t pool;
} laq_plus;

enum { MASK_OFFICIAL, MASK_CAUSAL };
enum { GROUP_QUERY, GROUP_MEAN, GROUP_MAX };

static const kvt_choice masks[] = {
    [MASK_OFFICIAL] = {"official", "",
                       "a triangle hides the prompt's end from early rows, as the code does"},
    [MASK_CAUSAL] = {"causal", "", "rows see what lies before them"},
};

static const kvt_choice groups[] = {
    [GROUP_QUERY] = {"query", "", "a set for each query head, as published"},
    [GROUP_MEAN] = {"mean", "", "a set for each kv head, by the mean: not the paper's"},
    [GROUP_MAX] = {"max", "", "a set for each kv head, by the maximum: not the paper's"},
};

static const kvt_param params[] = {
    KVT_PARAM(laq_plus, window, 8, 1, 16, "tokens",
              "w2, last prompt queries that vote, always kept"),
    KVT_PARAM_CHOICE(laq_plus, mask, MASK_OFFICIAL, masks, "what rows see of the prompt"),
    KVT_PARAM_CHOICE(laq_plus, group, GROUP_QUERY, groups, "whose votes make a set"),
    KVT_PARAM(laq_plus, pool, 7, 0, 255, "tokens", "width of the max pool, odd; 0: none"),
    {0},
};

static void vary(const void *params_, kvt_traits *traits)
{
    const laq_plus *p = params_;
    traits->by_query_head = p->group == GROUP_QUERY;
}

static kvt_reduction reduction(const laq_plus *p)
{
    return (kvt_reduction){.reduce = p->group == GROUP_MAX ? KVT_REDUCE_MAX : KVT_REDUCE_MEAN,
                           .pool = p->pool};
}

static bool fits(const void *params_, int64_t budget, int64_t n_token, char *why, size_t cap)
{
    const laq_plus *p = params_;
    kvt_reduction r = reduction(p);
    return kvt_reduction_fits(&r, budget, n_token, why, cap) &&
           kvt_window_fits(p->window, budget, n_token, why, cap);
}

static int64_t window(const void *params_, int64_t n_prompt)
{
    const laq_plus *p = params_;
    return kvt_min(p->window, n_prompt);
}

/* The rows' queries, [H R D]: the last w2 of the prompt, then the draft's. False: no room, or
 * fewer prompt queries than w2. */
static bool join(kvt_view *out, const kvt_view *prompt, const kvt_view *draft, int64_t w2,
                 kvt_arena *scratch)
{
    int64_t n_head = draft->dim[0], m = draft->dim[1], n_dim = draft->dim[2];
    float *to = kvt_arena_array(scratch, n_head * (w2 + m) * n_dim, sizeof *to);
    int64_t skip = prompt->dim[1] - w2;
    if (!to || skip < 0)
        return false;
    *out = kvt_view_of(to, KVT_F32, KVT_SHAPE("HQD", n_head, w2 + m, n_dim));
    for (int64_t h = 0; h < n_head; h++)
        for (int64_t i = 0; i < w2 + m; i++, to += n_dim) {
            const kvt_view *v = i < w2 ? prompt : draft;
            int64_t row = i < w2 ? skip + i : i - w2;
            memcpy(to, kvt_head_row(v, h, row), (size_t)n_dim * sizeof *to);
        }
    return true;
}

/* What row i of R sees: first[i] <= j < end[i]. */
static void see(const laq_plus *p, const kvt_lane *lane, int64_t n_row, int64_t *first,
                int64_t *end)
{
    int64_t n = lane->n_slot;
    for (int64_t i = 0; i < n_row; i++) {
        int64_t pos = n - p->window + i; /* of the query: the draft follows the prompt */
        end[i] = kvt_min(p->mask == MASK_CAUSAL ? pos + 1 : kvt_max(n - n_row + i + 1, 1), n);
        first[i] = kvt_min(kvt_geometry_first(lane->seq->geometry, lane->model_layer, pos),
                           end[i] - 1);
    }
}

static bool votes(const laq_plus *p, float *out, bool *pinned, const kvt_lane *lane,
                  int64_t n_open)
{
    kvt_view q;
    int64_t n = lane->n_slot, n_row = p->window + lane->probe->queries.dim[1];
    int64_t n_head = lane->probe->queries.dim[0];
    float scale = (float)lane->seq->geometry->attn_scale;
    float *rows = kvt_arena_array(lane->scratch, n_head * n_row * n, sizeof *rows);
    int64_t *first = kvt_arena_array(lane->scratch, n_row, sizeof *first);
    int64_t *end = kvt_arena_array(lane->scratch, n_row, sizeof *end);
    if (!rows || !first || !end ||
        !join(&q, &lane->queries, &lane->probe->queries, p->window, lane->scratch))
        return false;
    see(p, lane, n_row, first, end);
    if (!kvt_softmax_heads(rows, &q, &lane->keys, scale, first, end, lane->scratch))
        return false;
    kvt_reduction r = reduction(p);
    kvt_view view = kvt_view_of(rows, KVT_F32, KVT_SHAPE("HQS", n_head, n_row, n));
    view.dim[2] = n_open; /* of the columns in front of the window */
    kvt_reduce_rows(out, pinned, &view, &r, lane->scratch);
    return true;
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const laq_plus *p = params_;
    int64_t n = kvt_pin_window(out, pinned, lane->n_slot, p->window);
    if (n > 0 && !votes(p, out, pinned, lane, n))
        kvt_no_score(out, n);
}

static void work(const void *params_, kvt_work *work)
{
    (void)params_;
    work->draft_tokens = 8; /* as published; fewer where the draft ends */
    work->draft_evicts = true;
    work->draft_window = 32;
}

const kvt_policy kvt_policy_laq_plus = {
    .abi = KVT_POLICY_ABI,
    .name = "laq-plus",
    .title = "keep what a draft and the prompt's last queries look at",
    .paper = "Wang et al., Lookahead Q-Cache (LAQ++), EMNLP 2025, arXiv:2505.20334",
    .about =
        "LAQ (kvt policy show laq) that does not trust its draft alone. Stage 1 is the same: "
        "up to 8 tokens, written greedily on a cache that SnapKV (window 32) cut to B.\n\n"
        "In stage 2 the rows of the last w2 = 8 prompt queries stand beside those of the "
        "draft: score = sum over all of them of the softmax over the prompt, draft keys left "
        "out; max pool of 7; the best B - w2 and the last w2 tokens stay.",
    .differs =
        "nothing in what is kept: a set for each query head and the mask of the published "
        "code (a triangle aligned as if all rows were the prompt's end); mask=causal is the "
        "right one. group=mean and group=max, a set for each kv head, are not the paper's. "
        "Sums stay in f32",
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_PROBE | KVT_NEED_KEYS | KVT_NEED_QUERIES,
               .exactness = KVT_BUDGET_EXACT,
               .mass_scores = true,
               .by_query_head = true,
               .probe = "draft"},
    .params_size = sizeof(laq_plus),
    .params = params,
    .vary = vary,
    .fits = fits,
    .window = window,
    .score = score,
    .work = work,
};
