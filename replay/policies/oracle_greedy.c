/* oracle-greedy - drop what has the least attention still to come, at every step.
 *
 * With A the attention of the response queries m that come after the decision,
 *
 *   score[s] = sum over the query heads H of the lane and m of A[H m s]
 *
 * the remaining mass. Cheap, near the best schedule, and not the best: a new token may get its
 * attention soon and be dropped for one that gets a little more much later (oracle-assign is
 * the optimum). It is no bound: other policies may keep more. At the end of the prompt alone it
 * is `oracle`. It knows the response.
 *
 * The mass stays beside its slot and each row takes its own part away; sums of halves are exact
 * in doubles, so that it is the sum over the rows that are left, to the last bit. Cost for each
 * lane: O(H M S) at the end of the prompt, O(H (S + M)) a row, 4 floats a slot. */
#include "kvt/pieces.h"

#include <string.h>

/* What a mark of 4 floats holds. */
typedef struct memory {
    double mass, next; /* what remains, and what of it the next row takes */
} memory;

enum { WIDTH = sizeof(memory) / sizeof(float) };

static void step(const void *params, kvt_lane *lane)
{
    const kvt_view *A = &lane->future_all;
    (void)params;
    for (int64_t s = 0; A->data && s < lane->n_slot; s++) {
        memory x;
        memcpy(&x, lane->mark + s * WIDTH, sizeof x);
        x.mass -= x.next;
        bool is_new = lane->step == 0 || lane->pos[s] == lane->now;
        for (int64_t m = 0; is_new && m < A->dim[1]; m++)
            x.mass += kvt_heads_sum(A, m, lane->pos[s]);
        x.next = A->dim[1] > 0 ? kvt_heads_sum(A, 0, lane->pos[s]) : 0;
        memcpy(lane->mark + s * WIDTH, &x, sizeof x);
    }
}

static void score(const void *params, float *out, bool *pinned, const kvt_lane *lane)
{
    (void)params, (void)pinned;
    for (int64_t s = 0; s < lane->n_slot; s++) {
        memory x;
        memcpy(&x, lane->mark + s * WIDTH, sizeof x);
        out[s] = (float)x.mass;
    }
}

const kvt_policy kvt_policy_oracle_greedy = {
    .abi = KVT_POLICY_ABI,
    .name = "oracle-greedy",
    .title = "drop at every step what the rest of the response looks at least",
    .paper = "heuristic that knows the response, no paper",
    .about =
        "At the end of the prompt and after each token the slots go that have the least "
        "attention still to come. Near the best schedule (oracle-assign), which it is not: "
        "its regret is the gap. For responses so long that the best schedule takes more "
        "memory than --oracle-limit.",
    .differs = "",
    .traits = {.phases = KVT_DECODE,
               .needs = KVT_NEED_FUTURE | KVT_NEED_ATTN,
               .exactness = KVT_EXACT,
               .mass_scores = true,
               .future_by_position = true,
               .control = true},
    .slot_width = WIDTH,
    .step = step,
    .score = score,
};
