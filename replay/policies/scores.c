/* scores - keep what another program scored highest.
 *
 *   No paper: the door for a policy that is written in another language. It computes
 *   f32 [L A N], one number for each layer, lane and prompt token, and `kvt import --scores`
 *   binds them to the trace that they belong to (docs/trace-format.md).
 *
 *   score[s] = the file's score of the token in slot s
 *   pinned[s] where the file says so
 *
 * Decides once, at the end of the prompt; one ranking gives all budgets. `lanes=query` reads
 * A = H: a set for each query head. The set is exact for these scores; what the scores are
 * worth is up to the program that made them.
 * Cost for each lane, once: O(S). */
#include <string.h>

#include "kvt/pieces.h"

typedef struct scores {
    int lanes;
} scores;

enum { LANES_KV, LANES_QUERY };

static const kvt_choice lanes[] = {
    {"kv", "", "one set for each kv head"},
    {"query", "", "one set for each query head; bytes are counted so"},
};

static const kvt_param params[] = {
    KVT_PARAM_CHOICE(scores, lanes, LANES_KV, lanes, "lanes that the file holds scores for"),
    {0},
};

static void vary(const void *params_, kvt_traits *traits)
{
    const scores *p = params_;
    traits->by_query_head = p->lanes == LANES_QUERY;
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    (void)params_;
    const uint8_t *pin = lane->scores_pinned.data;
    memcpy(out, lane->scores.data, (size_t)lane->n_slot * sizeof *out);
    for (int64_t s = 0; pin != NULL && s < lane->n_slot; s++)
        pinned[s] = pin[s] != 0;
}

const kvt_policy kvt_policy_scores = {
    .abi = KVT_POLICY_ABI,
    .name = "scores",
    .title = "keep what another program scored highest",
    .paper = "no paper",
    .about =
        "The door for a policy that is written in another language: it computes one number "
        "for each layer, lane and prompt token, kvt import --scores binds them to the trace "
        "that they belong to, and scores:file=FILE keeps the best. It decides once, at the "
        "end of the prompt; one ranking gives all budgets.",
    .differs = "",
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_SCORES,
               .exactness = KVT_EXACT,
               .one_ranking = true,
               .by_query_head = true},
    .params_size = sizeof(scores),
    .params = params,
    .vary = vary,
    .score = score,
};
