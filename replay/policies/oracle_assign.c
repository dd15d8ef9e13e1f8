/* oracle-assign - the best schedule of irreversible eviction: the bound of policies that stay
 * inside their budget.
 *
 *   No paper: kvt. Belady's question, asked of attention mass.
 *
 * With A the attention of the response's rows, summed over the query heads of the lane, a token
 * that is dropped at step t has collected its mass of rows before t. Of all ways to drop down
 * to B tokens at the end of the prompt and then at every step, the one that collects most is an
 * assignment of tokens to drop times (replay/assign.c solves it, with a proof). Here
 *
 *   score[s] = the step at which that schedule drops the token of slot s
 *
 * so that those whose time has come score least. Drop times are those of every=K or
 * --shrink-every. The mass is unique, the schedule is not: this is one of the best.
 *
 * It knows the response. No policy that evicts for good, at the same times and budgets, keeps
 * more of the rows of the full cache. Cost: a solver for each lane (O(N M) memory), O(S) here.
 */
#include "kvt/pieces.h"

#include <math.h>

typedef struct oracle_assign {
    int heads;
} oracle_assign;

enum { HEADS_KV, HEADS_QUERY };

static const kvt_choice heads[] = {
    [HEADS_KV] = {"kv", "", "one set for the query heads that share a kv head"},
    [HEADS_QUERY] = {"query", "", "a set for each query head: what sharing costs"},
};

static const kvt_param params[] = {
    KVT_PARAM_CHOICE(oracle_assign, heads, HEADS_KV, heads, "whose sets are chosen"),
    {0},
};

static void vary(const void *params_, kvt_traits *traits)
{
    const oracle_assign *p = params_;
    traits->by_query_head = p->heads == HEADS_QUERY;
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const int32_t *drop = lane->drop_step.data;
    (void)params_, (void)pinned;
    for (int64_t s = 0; s < lane->n_slot; s++)
        out[s] = drop ? (float)drop[s] : NAN; /* refused: nobody solved it */
}

const kvt_policy kvt_policy_oracle_assign = {
    .abi = KVT_POLICY_ABI,
    .name = "oracle-assign",
    .title = "bound: the best schedule of eviction while decoding",
    .paper = "bound, no paper",
    .about =
        "Of all schedules that drop tokens for good, down to the budget at the end of the "
        "prompt and then at every step, the one whose tokens get most of the response's "
        "attention. Tokens are assigned to drop times; the assignment is solved exactly, for "
        "every lane and budget, and proved by prices of slots.\n\n"
        "The regret of policies that act in decode is measured against it, at the drop times "
        "and budgets of their own lanes. Where a lane needs more memory than --oracle-limit "
        "the greedy schedule stands in, and the note says how far below the best it may be.",
    .differs = "",
    .traits = {.phases = KVT_DECODE,
               .needs = KVT_NEED_PLAN,
               .exactness = KVT_EXACT,
               .control = true},
    .params_size = sizeof(oracle_assign),
    .params = params,
    .vary = vary,
    .score = score,
};
