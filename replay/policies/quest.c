/* quest - read the pages of the cache that could hold the largest logits of this query.
 *
 *   Tang et al., "Quest: Query-Aware Sparsity for Efficient Long-Context LLM Inference", ICML
 *   2024, arXiv:2406.10774.
 *
 * The cache is cut into pages of `page` tokens; of each page the least and the largest value of
 * every channel of its keys are kept, m_d and M_d. At every step of the response, with q after
 * RoPE,
 *
 *   score of a page = sum over D of max(q_d m_d, q_d M_d)
 *
 * an upper bound of q k over the page's keys, and the floor(B / page) best pages are read, each
 * whole, for this query only. Nothing is evicted: B is what is read; in memory is the whole
 * cache and two vectors a page.
 *
 *   paper            every query head by itself, every page competes, all layers
 *   official         kernel: the last page is always read, and counts
 *   official-eval    at least 3 pages, the first 2 layers read all
 *   sparse-frontier  page scores are summed over the query heads of a kv head, the page of the
 *                    query is read in any case
 *
 * A part of a page at the end is a page; with --act prefill only the prompt is cut into pages,
 * and the tokens of the response are read as well.
 *
 * Differs: nothing in what is read. The published eval code counts layers from 32, so that
 * models of another depth leave out other layers than the first 2; here it is the first 2.
 * Cost for each lane and query: O(S D / page), and O(D) for a new token; 2 D / page floats
 * a token. */
#include "kvt/pieces.h"

#include <math.h>
#include <stdio.h>

typedef struct quest {
    int64_t page, least, dense;
    bool last;
    int compat;
} quest;

enum { COMPAT_PAPER, COMPAT_OFFICIAL, COMPAT_EVAL, COMPAT_FRONTIER };

static const kvt_choice compats[] = {
    [COMPAT_PAPER] = {"paper", "page=16,last=false,least=1,dense=0",
                      "by query head; every page competes"},
    [COMPAT_OFFICIAL] =
        {"official", "page=16,last=true,least=1,dense=0",
         "mit-han-lab/Quest 01c1623, kernel: the last page is always read, and counts"},
    [COMPAT_EVAL] =
        {"official-eval", "page=16,last=false,least=3,dense=2",
         "mit-han-lab/Quest 01c1623, evaluation: 3 pages or more, the first 2 layers read "
         "all"},
    [COMPAT_FRONTIER] = {"sparse-frontier", "page=16,last=true,least=1,dense=0",
                         "PiotrNawrot/sparse-frontier: scores of a page are summed over the "
                         "group, the current page is read in any case"},
};

static const kvt_param params[] = {
    KVT_PARAM_COMPAT(quest, compats),
    KVT_PARAM(quest, page, 16, 1, 4096, "tokens", "tokens of a page"),
    KVT_PARAM(quest, last, 0, 0, 1, "", "the last page is always read, and counts"),
    KVT_PARAM(quest, least, 1, 1, 4096, "pages",
              "pages that are read in any case, however small the budget"),
    KVT_PARAM(quest, dense, 0, 0, KVT_LAYERS_MAX, "layers",
              "first layers of the model that read everything"),
    {0},
};

static void vary(const void *params_, kvt_traits *traits)
{
    const quest *p = params_;
    traits->by_query_head = p->compat != COMPAT_FRONTIER;
    traits->may_exceed = p->least > 1 || p->dense > 0;
}

static bool fits(const void *params_, int64_t budget, int64_t n_token, char *why, size_t cap)
{
    const quest *p = params_;
    if (budget >= n_token || p->least > 1 || budget >= p->page)
        return true;
    snprintf(why, cap, "a page of %lld needs a budget of %lld or more, got %lld",
             (long long)p->page, (long long)p->page, (long long)budget);
    return false;
}

/* What a row may read, its own token left out where the budget was widened by it. */
static int64_t n_read(const quest *p, const kvt_lane *lane)
{
    bool inside = lane->n_slot > lane->seq->n_prompt;
    return kvt_max((lane->budget - inside) / p->page, p->least);
}

/* ---- pages ---------------------------------------------------------------------------------
 */

/* Of a lane: least and largest value of each channel of each page's keys. */
typedef struct state {
    int64_t seen; /* tokens that are in them */
    float page[]; /* [2 D K] */
} state;

/* K: pages that a lane may come to hold. */
static int64_t n_pages(const quest *p, const kvt_sequence *seq)
{
    return (seq->n_prompt + seq->n_response + p->page - 1) / p->page;
}

static void size(const void *params_, const kvt_sequence *seq, int64_t budget, int *slot_width,
                 size_t *state_size)
{
    const quest *p = params_;
    size_t channels = (size_t)seq->geometry->head_dim;
    (void)budget;
    *slot_width = 0;
    *state_size = sizeof(state) + 2 * channels * (size_t)n_pages(p, seq) * sizeof(float);
}

/* Takes the tokens that are new into their pages. */
static void step(const void *params_, kvt_lane *lane)
{
    const quest *p = params_;
    const kvt_view *k = &lane->keys;
    int64_t D = k->dim[1], K = n_pages(p, lane->seq);
    state *t = lane->state;
    for (; t->seen < lane->n_slot; t->seen++) {
        const float *key = kvt_row(k, t->seen);
        float *least = t->page + t->seen / p->page, *most = least + D * K;
        bool first = t->seen % p->page == 0;
        for (int64_t d = 0; d < D; d++, least += K, most += K) {
            *least = first || key[d] < *least ? key[d] : *least;
            *most = first || key[d] > *most ? key[d] : *most;
        }
    }
}

/* sum [n] of n pages, channel by channel, so that pages are next to each other. */
static void score_pages(double *restrict sum, const quest *p, const kvt_lane *lane, int64_t n)
{
    const kvt_view *q = &lane->queries;
    const state *t = lane->state;
    int64_t D = lane->keys.dim[1], K = n_pages(p, lane->seq);
    for (int64_t d = 0; d < D; d++) {
        const float *restrict least = t->page + d * K, *restrict most = least + D * K;
        for (int64_t h = 0; h < q->dim[0]; h++) {
            double x = (double)kvt_head_row(q, h, q->dim[1] - 1)[d];
            for (int64_t k = 0; k < n; k++) {
                double low = x * (double)least[k], high = x * (double)most[k];
                sum[k] += low > high ? low : high;
            }
        }
    }
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const quest *p = params_;
    int64_t n = (lane->n_slot + p->page - 1) / p->page;
    double *sum = kvt_arena_array(lane->scratch, n, sizeof *sum);
    if (sum)
        score_pages(sum, p, lane, n);
    for (int64_t s = 0; s < lane->n_slot; s++) {
        bool is_last = p->last && s / p->page == n - 1;
        out[s] = sum ? (float)sum[s / p->page] : NAN; /* which is refused: no memory */
        pinned[s] = is_last || lane->model_layer < p->dense;
    }
}

/* Pages are read whole: the best of them, those that are pinned first. */
static void choose(const void *params_, bool *const *keep, const kvt_lane *lane, int n_lane,
                   const float *const *scores, const bool *const *pinned, const int64_t *budget)
{
    const quest *p = params_;
    (void)budget; /* the lane's own says how many pages */
    for (int i = 0; i < n_lane; i++) {
        int64_t n = lane[i].n_slot, n_page = (n + p->page - 1) / p->page, read = 0;
        kvt_arena *scratch = lane[i].scratch;
        float *score = kvt_arena_array(scratch, n_page, sizeof *score);
        bool *fixed = kvt_arena_array(scratch, n_page, sizeof *fixed);
        bool *best = kvt_arena_array(scratch, n_page, sizeof *best);
        bool good = score && fixed && best;
        for (int64_t k = 0; good && k < n_page; k++) {
            score[k] = scores[i][k * p->page];
            fixed[k] = pinned[i][k * p->page];
            read += fixed[k];
        }
        good = good && kvt_keep_best(best, score, fixed, n_page, n_read(p, &lane[i]) - read,
                                     scratch) >= 0;
        for (int64_t s = 0; s < n; s++) /* without memory: all, which is refused as too many */
            keep[i][s] = !good || best[s / p->page];
    }
}

/* Two vectors of halves a page. */
static void work(const void *params_, kvt_work *work)
{
    const quest *p = params_;
    work->state_bytes_slot = (4 * work->head_dim + p->page - 1) / p->page;
    work->state_moves = work->state_bytes_slot; /* bounds are read; a page's change is small */
}

const kvt_policy kvt_policy_quest = {
    .abi = KVT_POLICY_ABI,
    .name = "quest",
    .title = "read the pages that could hold the largest logits of each query",
    .paper = "Tang et al., Quest, ICML 2024, arXiv:2406.10774",
    .about =
        "Retrieval, not eviction: all keys and values stay in memory, and each query of the "
        "response reads a few pages of 16 tokens. For every page the least and the largest "
        "value of each key channel are kept; with them the query has an upper bound of its "
        "logits on the page, and the pages with the largest bounds are read whole. The next "
        "query chooses anew. Nothing is trained.\n\n"
        "The budget is what a row reads. Memory is the full cache and two vectors a page "
        "(an eighth of the keys for pages of 16); time is what it saves. Published settings: "
        "pages of "
        "16, budgets of 256 to 4,096 tokens, the prompt and the first two layers dense. It is "
        "to be compared with oracle-step, which reads the best tokens.",
    .differs = "nothing in what is read; the eval code's layer counter, which starts at 32, is "
               "not reproduced: the first 2 layers are dense",
    .traits = {.phases = KVT_PREFILL | KVT_DECODE,
               .needs = KVT_NEED_KEYS | KVT_NEED_QUERIES,
               .effect = KVT_SKIP,
               .exactness = KVT_OPEN_LOOP,
               .by_query_head = true,
               .may_exceed = true},
    .params_size = sizeof(quest),
    .params = params,
    .vary = vary,
    .fits = fits,
    .size = size,
    .step = step,
    .score = score,
    .select = choose,
    .work = work,
};
