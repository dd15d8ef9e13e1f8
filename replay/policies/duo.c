/* duo - some heads keep everything, the others the first tokens and the newest.
 *
 *   Xiao et al., "DuoAttention: Efficient Long-Context LLM Inference with Retrieval and
 *   Streaming Heads", 2024, arXiv:2410.10819.
 *
 * With a gate of each kv head from a file (tensor gate LG: near 1 it retrieves, near 0 it
 * streams), B the budget and n lanes of N slots, lanes are ordered by falling gate, of equal
 * ones the first; the first of them keep all N slots, the others stream:
 *
 *   S = floor(sink B), R = floor(recent B)     1 slot at least together
 *
 * As few stream as can hold S + R slots each within n B. What is then left of n B goes to the
 * streaming lanes evenly (the first one more): each holds its first S slots and the last ones.
 *
 * With `ratio` of 0 or more round(n ratio) lanes stream (half to even) and hold `sinks` first
 * and `window` last tokens: a share of heads, not of memory, which is kept to
 *
 *   1 - ratio (1 - min(S + R, N) / N)          never below 0, never above 1
 *
 * and may exceed the budget. Cost for each lane, once: O(S). */
#include "kvt/pieces.h"

#include <math.h>
#include <stdio.h>

typedef struct duo {
    double sink, recent, ratio;
    int64_t sinks, window;
    int compat;
} duo;

enum { IS_PAPER, IS_OFFICIAL, IS_KVPRESS };

static const kvt_choice compats[] = {
    [IS_PAPER] = {"paper", "sink=0.1,recent=0.4,sinks=0,window=0,ratio=-1",
                  "as many streaming heads as the budget needs, parts as 64 to 256"},
    [IS_OFFICIAL] =
        {"official", "sinks=64,window=256,ratio=0.5",
         "mit-han-lab/duo-attention 03dca84, defaults of its code: half of the heads "
         "stream, 64 + 256 tokens"},
    [IS_KVPRESS] = {"kvpress", "sinks=128,window=256,ratio=0.5",
                    "NVIDIA/kvpress 8bb29b9: round(heads x ratio) stream, 128 + 256 tokens of "
                    "the shipped patterns"},
};

static const kvt_param params[] = {
    KVT_PARAM_COMPAT(duo, compats),
    KVT_PARAM(duo, sink, 0.1, 0, 1, "frac",
              "share of the budget for the first tokens of a streaming head"),
    KVT_PARAM(duo, recent, 0.4, 0, 1, "frac",
              "share of the budget for the last tokens of a streaming head"),
    KVT_PARAM(duo, sinks, 0, 0, 65536, "tokens",
              "first tokens of a streaming head; 0: sink decides"),
    KVT_PARAM(duo, window, 0, 0, 1048576, "tokens",
              "last tokens of a streaming head; 0: recent decides"),
    KVT_PARAM(duo, ratio, -1, -1, 1, "frac",
              "share of the heads that stream; below 0: as many as the budget needs"),
    {0},
};

static const kvt_weight weights[] = {
    {"gate", "LG", "how much each kv head needs the whole context, from 0 to 1"}, {0}};

static void vary(const void *params_, kvt_traits *traits)
{
    const duo *p = params_;
    traits->may_exceed = p->ratio >= 0;
    traits->one_ranking = p->ratio >= 0; /* else who streams follows the budget */
}

/* First and last tokens of a streaming head. */
static int64_t first(const duo *p, int64_t budget)
{
    return p->sinks > 0 ? p->sinks : kvt_share_floor(p->sink, budget);
}

static int64_t last(const duo *p, int64_t budget)
{
    return p->window > 0 ? p->window : kvt_share_floor(p->recent, budget);
}

static bool fits(const void *params_, int64_t budget, int64_t n_token, char *why, size_t cap)
{
    const duo *p = params_;
    int64_t S = first(p, budget), R = last(p, budget);
    if (p->ratio < 0)
        return kvt_ends_fit(S, R, budget, n_token, why, cap);
    if (p->ratio == 0 || budget >= n_token || S + R < n_token)
        return true;
    snprintf(why, cap, "not engaged: a streaming head keeps %lld tokens, the prompt has %lld",
             (long long)(S + R), (long long)n_token);
    return false;
}

/* In a lane that streams the newest go last; the gate decides over lanes. */
static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    (void)params_, (void)pinned;
    for (int64_t s = 0; s < lane->n_slot; s++)
        out[s] = (float)(lane->pos[s] - lane->now);
}

/* How many lanes stream: round(n ratio), or as few as the total allows. */
static int count_streaming(const duo *p, const kvt_lane *lane, int n_lane, int64_t hold,
                           int64_t total, const int32_t *order)
{
    int n = 0;
    int64_t kept = 0;
    if (p->ratio >= 0)
        return (int)nearbyint(n_lane * p->ratio);
    for (int i = 0; i < n_lane; i++)
        kept += lane[i].n_slot;
    for (int i = n_lane - 1; i >= 0 && kept > total; i--, n++)
        kept -= lane[order[i]].n_slot - kvt_min(hold, lane[order[i]].n_slot);
    return n;
}

static void choose(const void *params_, bool *const *keep, const kvt_lane *lane, int n_lane,
                   const float *const *scores, const bool *const *pinned, const int64_t *budget)
{
    const duo *p = params_;
    int64_t total = 0;
    (void)scores, (void)pinned;
    float *gate = kvt_arena_array(lane->scratch, n_lane, sizeof *gate);
    int32_t *order = kvt_arena_array(lane->scratch, n_lane, sizeof *order);
    for (int i = 0; gate && i < n_lane; i++) {
        gate[i] = *(const float *)lane[i].weights[0].data;
        total += budget[i];
    }
    if (!gate || !order || !kvt_rank(order, gate, n_lane, lane->scratch))
        return; /* nothing kept: refused */
    int64_t S = first(p, total / n_lane), hold = kvt_max(S + last(p, total / n_lane), 1);
    int n_cut = count_streaming(p, lane, n_lane, hold, total, order);
    kvt_keep_ends(keep, lane, n_lane, order + n_lane - n_cut, n_cut, S,
                  p->ratio >= 0 ? hold : 0, total);
}

static void work(const void *params_, kvt_work *work)
{
    (void)params_;
    work->cuts_at_once = true; /* gates are a table */
}

const kvt_policy kvt_policy_duo = {
    .abi = KVT_POLICY_ABI,
    .name = "duo",
    .title = "some heads keep everything, the others the first tokens and the newest",
    .paper = "Xiao et al., DuoAttention, 2024, arXiv:2410.10819",
    .about =
        "Retrieval heads need the whole context, streaming heads only sinks and the newest "
        "tokens. A gate for each kv head is trained on passkey prompts, mixing full and "
        "streaming attention, and read from a file; heads below a threshold stream. Nothing is "
        "scored at run time.\n\n"
        "Published settings: half of the heads stream where query heads share a kv head, three "
        "quarters where each has its own; 64 first and 256 newest tokens, 128 and 256 in the "
        "shipped patterns. ratio is the share of heads, not of memory: the audit shows the "
        "share of slots that was kept.",
    .differs =
        "as few heads stream as the budget allows; streaming heads hold a tenth of it in first "
        "and four tenths in newest tokens (64 to 256), since 320 exceed short prompts, and "
        "share what is left of the total; equal gates are told apart by their order, not by "
        "noise; gates are those of the layers that the trace holds; decoded tokens come on top "
        "in every head, where the authors' window rolls on",
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_WEIGHTS,
               .scope = KVT_BY_MODEL,
               .exactness = KVT_EXACT,
               .one_ranking = true,
               .may_exceed = true},
    .params_size = sizeof(duo),
    .params = params,
    .weights = weights,
    .vary = vary,
    .fits = fits,
    .score = score,
    .select = choose,
    .work = work,
};
