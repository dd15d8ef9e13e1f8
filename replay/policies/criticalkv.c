/* criticalkv - half of the budget by a base's score, the rest by that score times the size of
 * what the value writes.
 *
 *   Feng et al., "Identify Critical KV Cache in LLM Inference from an Output Perturbation
 *   Perspective" (CriticalKV), 2025, arXiv:2502.03805.
 *
 * With a[s] the score of the base (base=snapkv), u[s] the mean over the query heads H of the
 * lane of |W_O v_s|_1, and b the lane's slots:
 *
 *   stage 1   the floor(share b) best a, at least 1, what the base pins first among them; with
 *             of=open the floor(share (b - p)) best, at least 1, beside the p that it pins
 *   stage 2   the best (a[s] + epsilon) u[s] of the others, until b are kept
 *
 * The lane's slots are what the allocator gives it: criticalkv/ada is CriticalAdaKV, whose
 * budgets follow the base's score. So score() is the base's, for allocators and for metrics of
 * ranking; which tokens stay depends on the budget, there is no one order.
 *
 * Differs: see `differs`. Cost for each lane, beside the base: O(H S) time, S floats. */
#include "kvt/pieces.h"

#include <string.h>

typedef struct criticalkv {
    double share, epsilon;
    int of, compat;
} criticalkv;

enum { OF_BUDGET, OF_OPEN };

enum { COMPAT_PAPER, COMPAT_KVPRESS };

static const kvt_choice compats[] = {
    [COMPAT_PAPER] =
        {"paper", "share=0.5,epsilon=0.0001",
         "stage 1 takes at least one token, as in NVIDIA/kvpress pull request 277"},
    [COMPAT_KVPRESS] = {"kvpress", "share=0.5,epsilon=0.0001",
                        "NVIDIA/kvpress 8bb29b9: stage 1 is rounded down and may be empty (its "
                        "base is base.compat=kvpress)"},
};

static const kvt_choice parts[] = {
    [OF_BUDGET] = {"budget", "", "share of all slots; what the base pins counts in stage 1"},
    [OF_OPEN] = {"open", "", "share of the slots beside what the base pins"},
};

static const kvt_param params[] = {
    KVT_PARAM_COMPAT(criticalkv, compats),
    KVT_PARAM(criticalkv, share, 0.5, 0, 1, "frac",
              "part of the budget that the base's score alone gives away"),
    KVT_PARAM_CHOICE(criticalkv, of, OF_BUDGET, parts, "what stage 1 has a share of"),
    KVT_PARAM(criticalkv, epsilon, 1e-4, 0, 1, "", "added to the base's score in stage 2"),
    {0},
};

static void step(const void *params_, kvt_lane *lane)
{
    (void)params_;
    kvt_mean_heads(lane->mark, &lane->wo_l1);
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    (void)params_;
    memcpy(out, lane->base_score, (size_t)lane->n_slot * sizeof *out);
    memcpy(pinned, lane->base_pinned, (size_t)lane->n_slot * sizeof *pinned);
}

/* Slots of stage 1, pinned ones included. */
static int64_t first_stage(const criticalkv *p, int64_t b, int64_t n_pinned)
{
    int64_t fixed = p->of == OF_OPEN ? n_pinned : 0;
    int64_t n = kvt_share_floor(p->share, b - fixed);
    bool one = p->compat == COMPAT_PAPER && p->share > 0;
    return kvt_min(fixed + (one ? kvt_max(n, 1) : n), b);
}

static bool choose(const criticalkv *p, bool *keep, const kvt_lane *lane, const float *a,
                   const bool *pinned, int64_t b)
{
    int64_t n = lane->n_slot, n_pinned = 0;
    bool *first = kvt_arena_array(lane->scratch, n, sizeof *first);
    float *worth = kvt_arena_array(lane->scratch, n, sizeof *worth);
    if (!first || !worth)
        return false;
    if (kvt_is_latest(a, pinned, n)) /* the base has nothing to say: its order */
        return kvt_keep_best(keep, a, pinned, n, b, lane->scratch) >= 0;
    for (int64_t s = 0; s < n; s++) {
        worth[s] = (float)(((double)a[s] + p->epsilon) * (double)lane->mark[s]);
        n_pinned += pinned[s];
    }
    int64_t k = kvt_max(first_stage(p, b, n_pinned) - n_pinned, 0);
    int64_t taken = kvt_keep_best(first, a, pinned, n, k, lane->scratch);
    return taken >= 0 && kvt_keep_best(keep, worth, first, n, b - taken, lane->scratch) >= 0;
}

/* Each lane by itself. */
static void select(const void *params_, bool *const *keep, const kvt_lane *lane, int n_lane,
                   const float *const *score, const bool *const *pinned, const int64_t *budget)
{
    for (int i = 0; i < n_lane; i++) {
        size_t start = kvt_arena_mark(lane[i].scratch);
        bool good = choose(params_, keep[i], &lane[i], score[i], pinned[i], budget[i]);
        kvt_keep_if(good, keep[i], lane[i].n_slot);
        kvt_arena_rewind(lane[i].scratch, start);
    }
}

const kvt_policy kvt_policy_criticalkv = {
    .abi = KVT_POLICY_ABI,
    .name = "criticalkv",
    .title = "what a base scores highest, then what also writes much",
    .paper = "Feng et al., CriticalKV, 2025, arXiv:2502.03805",
    .about =
        "Attention alone does not say how far the output moves when a token goes: what its "
        "value adds to the residual counts, too. A bound on that change leads to two stages. "
        "The first gives half of the budget to what a base policy scores highest; the second "
        "gives the rest to the largest (score + epsilon) times the L1 norm of the projected "
        "value, mean over the query heads of the group. The first stage is what makes the "
        "bound hold: it keeps most of the attention whatever the values are.\n\n"
        "The base is snapkv unless base=NAME says another one (base.window=16 sets its "
        "parameters). criticalkv/ada is CriticalAdaKV: head budgets by the base's score, then "
        "both stages inside each head. Where the window fills the first stage, at small "
        "budgets, nothing keeps a sink, whose value is small: of=open takes half of what the "
        "window leaves. It decides once, at the end of the prompt; nothing is trained. "
        "Published settings: half, epsilon = 1e-4.",
    .differs =
        "what the base pins is kept by rule and counts in the first stage, where kvpress "
        "ranks it again in the second; under ada kvpress's safe slots all stay, here each "
        "head's stages alone decide; a first stage of no token becomes one token, as in "
        "kvpress 0.5.5; metrics of ranking and allocators see the base's score, for there is "
        "no one order",
    .traits = {.phases = KVT_PREFILL, .needs = KVT_NEED_WO_NORM, .exactness = KVT_EXACT},
    .slot_width = 1,
    .params_size = sizeof(criticalkv),
    .params = params,
    .base = "snapkv",
    .step = step,
    .score = score,
    .select = select,
};
