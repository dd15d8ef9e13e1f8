/* oracle-output - keep the slots without which the attention output changes most.
 *
 * Greedy backward elimination, by the identity of one key less: with p the row's weights over
 * what is left and o its output, the mean of the values v by p,
 *
 *   o' - o = p_j / (1 - p_j) (o - v_j)
 *
 * where j goes. So with e = o - o_full, what all earlier removals did to the row,
 *
 *   cost[j] = sum over the query heads H and response queries m of |e + a (o - v_j)|^2,
 *             a = p_j / (1 - p_j)
 *
 * and the slot of the least cost goes, o and p are updated, and so on until one is left. The
 * score is the turn in which a slot went: one elimination is a ranking for all budgets. The
 * response's own tokens stay, with their part of each output. Where that is not known
 * (kvt_lane.future_rest) rows are those of the prompt alone, weighed by the square of the
 * attention that they give it. The objective is per query head, before W_O.
 *
 * The subset problem is hard, and this is greedy: exhaustive search of small cases says how
 * often it is optimal (tests). In turns of `batch` slots: o and p are updated between turns
 * only. It knows the response. Products v_j o are kept for all rows, so that a removal costs
 * O((H M + D) S), all of them O((H M + D) S^2), and a turn O(H M (S + D)); memory O(H M S). */
#include "kvt/pieces.h"

typedef struct oracle_output {
    int64_t batch;
} oracle_output;

enum { ONE_BY_ONE = 256, TURNS = 96 };

static const kvt_param params[] = {
    KVT_PARAM(oracle_output, batch, 0, 0, 1048576, "tokens",
              "slots that go in a turn; 0: one by one up to 256 of them, else 96 turns"),
    {0},
};

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const oracle_output *p = params_;
    int64_t S = lane->n_slot, turns = S <= ONE_BY_ONE ? S : TURNS;
    (void)pinned;
    if (!kvt_eliminate(out, lane, p->batch > 0 ? p->batch : (S + turns - 1) / turns))
        kvt_no_score(out, S);
}

const kvt_policy kvt_policy_oracle_output = {
    .abi = KVT_POLICY_ABI,
    .name = "oracle-output",
    .title = "drop the slots whose absence changes the output least, one after the other",
    .paper = "bound by greedy search, no paper",
    .about =
        "Slots go one after the other: always the one whose absence changes the attention "
        "output of the response's rows least, beside what all removals before it changed. Mass "
        "that is evicted does no harm where its mean value is that of what stays, so that this "
        "set may lose more mass than the oracle and less output. One elimination order serves "
        "all budgets.\n\n"
        "The exact best subset is hard to find; this is the standard greedy search. The error "
        "is squared, summed over rows and query heads, before the output projection.",
    .differs = "above 256 slots they go in 96 turns (batch)",
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_FUTURE | KVT_NEED_ATTN | KVT_NEED_VALUES,
               .exactness = KVT_EXACT,
               .one_ranking = true,
               .control = true},
    .params_size = sizeof(oracle_output),
    .params = params,
    .score = score,
};
