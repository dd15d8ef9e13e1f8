/* speckv - keep what a smaller model's draft and the prompt's end look at.
 *
 *   Galim et al., "Draft-based Approximate Inference for LLMs" (SpecKV), ICLR 2026,
 *   arXiv:2506.08373; furiosa-ai/draft-based-approx-llm d79e404.
 *
 * A draft model continues the prompt greedily by m tokens (the probe); the target runs over
 * prompt and draft once. With A its causal softmax over all N + m keys, and the last W' = 33 +
 * m rows i, which are the prompt's last 33 and the draft,
 *
 *   score[j] = max over the query heads h of the lane and the rows i of A[h, i, j],  j < N - 33
 *   keep     = top-(B - 33) of maxpool_7(score) and the last 33
 *
 * reduce=mean takes the mean over heads and rows instead (here their sum: a constant factor).
 * tokens=m reads the first m draft tokens of a longer probe: the rows are the same numbers.
 * Where the prompt is not longer than 33 tokens, the latest are kept.
 *
 * Differs: the code keeps B - 32 and positions N-33..N-2, drops the last prompt token and feeds
 * it again, one slot on top of B; here that token holds one of the B slots, so that B - 33 are
 * selected. Fed again, its own keys and values differ above layer 0; here they are the
 * prompt's. The sparse prefill of prompts above 4096 tokens is left out. Cost for each lane,
 * once: O(H (33 + m) S) time, 3 S floats, beside the draft model's pass and the probe's m rows.
 */
#include "kvt/pieces.h"

#include <stdio.h>
#include <string.h>

typedef struct speckv {
    int64_t tokens, pool;
    int reduce, kind;
} speckv;

enum { WINDOW = 33 };
enum { REDUCE_MAX, REDUCE_MEAN };

static const kvt_choice reduces[] = {
    [REDUCE_MAX] = {"max", "", "the largest attention of any head and row"},
    [REDUCE_MEAN] = {"mean", "", "the mean over heads and rows"},
};

static const kvt_choice kinds[] = {
    [KVT_POOL_MAX] = {"max", "", "the largest value nearby"},
    [KVT_POOL_AVG] = {"avg", "", "the mean value nearby; what lies outside counts as 0"},
};

static const kvt_param params[] = {
    KVT_PARAM(speckv, tokens, 0, 0, 4096, "tokens",
              "m, draft tokens that count, at most those of the probe; 0: all"),
    KVT_PARAM_CHOICE(speckv, reduce, REDUCE_MAX, reduces, "what heads and rows are reduced to"),
    KVT_PARAM(speckv, pool, 7, 0, 255, "tokens", "width of the pool, odd; 0: none"),
    KVT_PARAM_CHOICE(speckv, kind, KVT_POOL_MAX, kinds, "what the pool takes"),
    {0},
};

static bool fits(const void *params_, int64_t budget, int64_t n_token, char *why, size_t cap)
{
    const speckv *p = params_;
    kvt_reduction pool = {.pool = p->pool};
    if (!kvt_reduction_fits(&pool, budget, n_token, why, cap))
        return false;
    if (budget >= n_token || n_token <= WINDOW || budget > WINDOW)
        return true;
    snprintf(why, cap,
             "the last %d tokens are kept and one more: needs a budget of %d, got %lld", WINDOW,
             WINDOW + 1, (long long)budget);
    return false;
}

static int64_t window(const void *params_, int64_t n_prompt)
{
    (void)params_;
    return kvt_min(WINDOW, n_prompt);
}

/* out[s] becomes the maximum of itself and of column s of the first n_row rows. */
static void raise_to(float *out, const kvt_view *rows, int64_t n_row, int64_t n)
{
    for (int64_t h = 0; h < rows->dim[0]; h++)
        for (int64_t q = 0; q < n_row; q++) {
            const float *row = kvt_head_row(rows, h, q);
            for (int64_t s = 0; s < n; s++)
                out[s] = row[s] > out[s] ? row[s] : out[s];
        }
}

static void take(float *out, const speckv *p, const kvt_view *rows, int64_t n_row, int64_t n)
{
    kvt_view part = *rows;
    part.dim[1] = n_row;
    part.dim[2] = n;
    if (p->reduce == REDUCE_MAX)
        raise_to(out, rows, n_row, n);
    else
        kvt_add_rows(out, &part);
}

static void step(const void *params_, kvt_lane *lane)
{
    take(lane->mark, params_, &lane->attn, lane->attn.dim[1], lane->n_slot);
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const speckv *p = params_;
    const kvt_view *draft = &lane->probe->attn;
    int64_t m = p->tokens > 0 ? kvt_min(p->tokens, draft->dim[1]) : draft->dim[1];
    int64_t n = kvt_pin_window(out, pinned, lane->n_slot, WINDOW);
    float *sum = kvt_arena_array(lane->scratch, n + 1, sizeof *sum);
    if (!sum)
        kvt_no_score(out, n);
    if (!sum || n == 0)
        return;
    memcpy(sum, lane->mark, (size_t)n * sizeof *sum);
    take(sum, p, draft, m, n);
    kvt_pool(out, sum, n, p->pool, p->kind);
}

static void work(const void *params_, kvt_work *work)
{
    const speckv *p = params_;
    work->draft_tokens =
        p->tokens > 0 ? p->tokens : 32; /* of the probe, unless asked for others */
    work->draft_model = true;
    work->extra_tokens = work->draft_tokens; /* the target reads the draft behind the prompt */
}

const kvt_policy kvt_policy_speckv = {
    .abi = KVT_POLICY_ABI,
    .name = "speckv",
    .title = "keep what a smaller model's draft looks at",
    .paper = "Galim et al., Draft-based Approximate Inference (SpecKV), ICLR 2026, "
             "arXiv:2506.08373",
    .about =
        "A smaller model of the same vocabulary answers first, and the large one asks with "
        "that answer; nothing is trained. The paper bounds the error of the scores by how "
        "far the draft's embeddings are from the true ones.\n\n"
        "The draft model continues the prompt greedily by m tokens. The target runs once "
        "over prompt and draft; score = the largest attention that a prompt token gets from "
        "any query head of the group and any of the last 33 + m rows (the prompt's last 33 "
        "and the draft), draft keys in the softmax; max pool of 7. The best tokens before "
        "the last 33 stay, and those 33; the draft is dropped. Decided in each layer, once, "
        "at the end of the prompt.\n\n"
        "Published pairs: Llama-3.2-1B for 3.1-8B, Qwen2.5-0.5B for 14B, B of 256, 512 and "
        "1,024. In LookaheadKV's measurement it reaches 45.45 on LongBench with Llama-3.1-8B "
        "at 128 kept (SnapKV 43.50, LAQ 46.61, full 49.88). The code "
        "(furiosa-ai/draft-based-approx-llm) uses the same ranking for a sparse prefill "
        "above 4,096 tokens.\n\n"
        "Here the probe is kvt capture --probe NAME=specdraft:...; a shorter draft is read "
        "from a longer probe (tokens=m).",
    .differs =
        "B holds: B - 33 selected and the last 33. The published code keeps B - 32 and "
        "positions N-33..N-2, drops the last prompt token and feeds it again on top, so that "
        "this token's own keys and values differ above layer 0. No sparse prefill",
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_ATTN | KVT_NEED_PROBE,
               .exactness = KVT_EXACT,
               .mass_scores = true,
               .one_ranking = true,
               .probe = "specdraft"},
    .slot_width = 1,
    .params_size = sizeof(speckv),
    .params = params,
    .fits = fits,
    .window = window,
    .step = step,
    .score = score,
    .work = work,
};
