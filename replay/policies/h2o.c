/* h2o - keep the heavy hitters of all attention so far, and the newest tokens.
 *
 *   Zhang et al., "H2O: Heavy-Hitter Oracle for Efficient Generative Inference of Large
 * Language Models", 2023, arXiv:2306.14048. The default is the authors' real-drop code.
 *
 * With A the attention of every query i so far, of the prompt over the full causal matrix and
 * of the response over what is left in the cache,
 *
 *   acc[s]   = sum over H, i of A[H i s]
 *   score[s] = acc[s] / d[s], the last R slots are pinned; R = recent x budget, or `window`
 *
 * d is 1, the queries that can see s (divide=seen) or those since it came, of the prompt's
 * tokens since its end (divide=lifetime). With values=true a row is weighted first:
 *
 *   A[H i s] |v_s| H / sum over H, s of the same;  the prompt's column sums as one row, times N
 *
 * What was accumulated for an evicted token is gone. Without newest tokens (recent=0, window=0)
 * a new token starts at its own row's attention and mostly leaves at once: the set freezes.
 *
 * Differs: see `differs`. Cost for each lane: O(H S) for each query, S floats; as published
 * the whole matrix. */
#include "kvt/pieces.h"

#include <math.h>
#include <stdio.h>

typedef struct h2o {
    double recent;
    int64_t window;
    int compat, divide;
    bool values;
} h2o;

enum {
    COMPAT_PAPER,
    COMPAT_FLEXGEN,
    COMPAT_COOKBOOK,
    COMPAT_KVCF,
    COMPAT_KVPRESS,
    COMPAT_KEYS_VALUES,
    COMPAT_FORESIGHTKV
};
enum { DIVIDE_NONE, DIVIDE_SEEN, DIVIDE_LIFETIME };

static const kvt_choice compats[] = {
    [COMPAT_PAPER] = {"paper", "recent=0.5,window=0,divide=none",
                      "FMInference/H2O ac75c2a, h2o_hf real-drop, reduced to kv heads"},
    [COMPAT_FLEXGEN] =
        {"flexgen", "recent=0.5,window=0,divide=none",
         "the same, h2o_flexgen: hh = (budget + 1) / 2, the newest hh - 1 at the end of "
         "the prompt and hh while decoding (recent is not read); an even budget holds one "
         "heavy hitter more"},
    [COMPAT_COOKBOOK] =
        {"cookbook", "recent=0.5,window=0,divide=none",
         "meta-llama/llama-cookbook HHCache: the first query head of each kv head decides"},
    [COMPAT_KVCF] =
        {"kvcf", "recent=0,window=8,divide=none",
         "Zefan-Cai/KVCache-Factory c97f9d7, run scripts: on the prompt, by query head"},
    [COMPAT_KVPRESS] =
        {"kvpress", "recent=0,window=0,divide=seen",
         "NVIDIA/kvpress 8bb29b9 ObservedAttention: on the prompt, mean over the queries "
         "that see a token"},
    [COMPAT_KEYS_VALUES] =
        {"keys-values", "recent=0,window=0,divide=lifetime",
         "awslabs/keys_values a34f07d, normalised scores; window is its grace period, values "
         "its variant with the length of v"},
    [COMPAT_FORESIGHTKV] =
        {"foresightkv", "recent=0,window=128,divide=none",
         "RUCAIBox/ForesightKV fdb541f, its baseline: decides every 128 tokens, which stay"},
};

static const kvt_choice divides[] = {
    [DIVIDE_NONE] = {"none", "", "the sum itself, which favours early tokens"},
    [DIVIDE_SEEN] = {"seen", "", "the mean over all queries that can see a token"},
    [DIVIDE_LIFETIME] = {"lifetime", "",
                         "the sum over queries since a token came, or since the prompt's end"},
};

static const kvt_param params[] = {
    KVT_PARAM_COMPAT(h2o, compats),
    KVT_PARAM(h2o, recent, 0.5, 0, 1, "frac",
              "share of the budget for the newest tokens; 0: none, new tokens leave at once"),
    KVT_PARAM(h2o, window, 0, 0, 1048576, "tokens",
              "newest tokens that are always kept; 0: recent decides"),
    KVT_PARAM_CHOICE(h2o, divide, DIVIDE_NONE, divides, "what the sums are divided by"),
    KVT_PARAM(h2o, values, 0, 0, 1, "", "attention is weighted by the length of the value"),
    {0},
};

static void vary(const void *params_, kvt_traits *traits)
{
    const h2o *p = params_;
    traits->every = p->compat == COMPAT_FORESIGHTKV ? 128 : 0;
    if (!p->values)
        traits->needs &= ~(unsigned)KVT_NEED_VALUES;
    else
        traits->mass_scores = false;
    if (p->compat != COMPAT_KVCF && p->compat != COMPAT_KVPRESS)
        return;
    traits->phases = KVT_PREFILL;
    traits->needs &= ~(unsigned)KVT_NEED_ATTN;
    traits->by_query_head = p->compat == COMPAT_KVCF;
}

/* How many of the newest tokens a budget holds in any case. */
static int64_t newest(const h2o *p, int64_t budget, bool prompt)
{
    if (p->window > 0)
        return p->window;
    if (p->compat == COMPAT_FLEXGEN)
        return (budget + 1) / 2 - prompt;
    return kvt_share_floor(p->recent, budget);
}

static bool fits(const void *params_, int64_t budget, int64_t n_token, char *why, size_t cap)
{
    const h2o *p = params_;
    int64_t R = newest(p, budget, true);
    if (R > 0)
        return kvt_pinned_fits(R, "newest tokens", budget, n_token, why, cap);
    if (p->compat != COMPAT_FLEXGEN || budget >= n_token)
        return kvt_recent_fits(p->recent, budget, n_token, why, cap);
    snprintf(why, cap, "flexgen needs a budget of 3 or more (hh of 2), got %lld",
             (long long)budget);
    return false;
}

static void step(const void *params_, kvt_lane *lane)
{
    const h2o *p = params_;
    bool prompt = lane->now < lane->seq->n_prompt;
    kvt_view rows = prompt ? lane->col_sum : lane->attn; /* [H S] or [H Q S] */
    if (p->compat == COMPAT_COOKBOOK)
        rows.dim[0] = 1;
    if (prompt) { /* as rows [H 1 S] */
        rows.dim[2] = rows.dim[1], rows.dim[1] = 1;
        rows.stride[1] = 0;
    }
    if (!p->values)
        kvt_add_rows(lane->mark, &rows);
    else if (!kvt_add_by_length(lane->mark, &rows, &lane->values,
                                prompt ? lane->seq->n_prompt : 1, lane->scratch))
        lane->mark[0] = NAN; /* which is refused: no memory */
}

/* Queries that a slot's sum is divided by. */
static int64_t divisor(const h2o *p, const kvt_lane *lane, int64_t s)
{
    int64_t last = lane->seq->n_prompt - 1, at = lane->pos[s];
    if (p->divide == DIVIDE_LIFETIME)
        at = kvt_max(at, last);
    return p->divide == DIVIDE_NONE ? 1 : lane->now + 1 - at;
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const h2o *p = params_;
    int64_t R = newest(p, lane->budget, lane->now < lane->seq->n_prompt);
    for (int64_t s = 0; s < lane->n_slot; s++) {
        out[s] = lane->mark[s] / (float)divisor(p, lane, s);
        pinned[s] = s >= lane->n_slot - R;
    }
}

static void work(const void *params_, kvt_work *work)
{
    const h2o *p = params_;
    bool prompt = p->compat == COMPAT_KVCF || p->compat == COMPAT_KVPRESS;
    work->state_bytes_slot = prompt ? 0 : p->compat == COMPAT_FLEXGEN ? 2 : 4;
    work->whole_rows = true;
}

const kvt_policy kvt_policy_h2o = {
    .abi = KVT_POLICY_ABI,
    .name = "h2o",
    .title = "keep the heavy hitters of all attention so far, and the newest",
    .paper = "Zhang et al., H2O, 2023, arXiv:2306.14048",
    .about =
        "A few tokens, the heavy hitters, get most of all attention. H2O keeps those with the "
        "largest sum of attention so far, and the newest. The sum runs over every query of the "
        "prompt (the full causal matrix) and, while decoding, over the rows of what is left in "
        "the cache; what an evicted token had gathered is gone. After each token the lane is "
        "cut to B again. Nothing is trained.\n\n"
        "Sums favour early tokens, which more queries have seen; a new token starts at 0 and "
        "would leave at once if the newest were not kept. Published settings: half of the "
        "budget for heavy hitters, half for the newest; the default here is the authors' "
        "real-drop code.",
    .differs =
        "one set for each kv head (sum over its query heads) instead of each query head, and "
        "one sequence (the authors add scores over the batch); accumulates in f32; "
        "keys-values decides at the end of the prompt instead of within it; h2o-mask and "
        "h2o-lm-eval keep other sets and are policies of their own; not here: flexgen's f16 "
        "sums, blocks of tokens (OpenVINO, whose NORM_SUM is divide=seen), the authors' form "
        "for several tokens at once, which may keep fewer newest",
    .traits = {.phases = KVT_PREFILL | KVT_DECODE,
               .needs = KVT_NEED_ATTN | KVT_NEED_COLUMNS | KVT_NEED_VALUES,
               .exactness = KVT_EXACT,
               .mass_scores = true},
    .slot_width = 1,
    .params_size = sizeof(h2o),
    .params = params,
    .vary = vary,
    .fits = fits,
    .step = step,
    .score = score,
    .work = work,
};
