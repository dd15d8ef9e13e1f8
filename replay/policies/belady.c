/* belady - drop what is looked at farthest in the future: the rule of caches, as a heuristic.
 *
 *   Belady, "A study of replacement algorithms for a virtual-storage computer", 1966,
 *   doi:10.1147/sj.52.0078
 *
 * With A the attention of the response queries m = 1, 2, ... that come after the decision, mean
 * over the query heads of the lane,
 *
 *   next[s]  = the first m with A[m s] > theta; M + 1 of M rows where there is none
 *   score[s] = -next[s]
 *
 * Differs: a page that is needed is fetched again, and every use counts as one; a token that is
 * evicted is gone, and its attention is a weight. So the rule is optimal for neither, and no
 * bound: readers expect it, therefore it is here. theta = 0.05 is kvt's. It knows the response.
 * The row of the next use stays beside its slot until it has come. Cost for each lane: O(H M S)
 * at the end of the prompt, then O(S) a row and O(H) for each row that is looked through once
 * more; 1 float a slot. */
#include "kvt/pieces.h"

typedef struct belady {
    double theta;
} belady;

static const kvt_param params[] = {
    KVT_PARAM(belady, theta, 0.05, 0, 1, "frac", "attention above which a token is used"),
    {0},
};

/* Whether the row m of the later ones looks at a position. */
static bool is_used(const kvt_view *A, int64_t m, int64_t t, double theta)
{
    return kvt_heads_sum(A, m, t) / (double)A->dim[0] > theta;
}

/* A mark is the row of the next use, counted from 1; of a slot that is new it is 0. */
static void step(const void *params_, kvt_lane *lane)
{
    const belady *p = params_;
    const kvt_view *A = &lane->future_all;
    for (int64_t s = 0; s < lane->n_slot; s++) {
        int64_t m = 0;
        if (lane->mark[s] > (float)lane->step)
            continue;
        while (m < A->dim[1] && !is_used(A, m, lane->pos[s], p->theta))
            m++;
        lane->mark[s] = (float)(lane->step + m + 1);
    }
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    (void)params_, (void)pinned;
    for (int64_t s = 0; s < lane->n_slot; s++)
        out[s] = (float)lane->step - lane->mark[s];
}

const kvt_policy kvt_policy_belady = {
    .abi = KVT_POLICY_ABI,
    .name = "belady",
    .title = "drop what is looked at farthest in the future, a heuristic",
    .paper = "Belady, A study of replacement algorithms, 1966, doi:10.1147/sj.52.0078",
    .about =
        "Belady's rule drops the page whose next use is farthest away, and no rule has fewer "
        "misses. Here a token is used by a row that gives it more than theta of its "
        "attention, mean over the query heads of the lane. It acts at the end of the prompt "
        "and after each token, and knows the response.\n\n"
        "It is no bound: an evicted token cannot be fetched again, and attention is a weight, "
        "not a count. oracle-assign is the optimum of that question.",
    .differs = "nothing is fetched again and uses have a threshold, so that the rule's "
               "optimality is lost; theta is kvt's choice",
    .traits = {.phases = KVT_PREFILL | KVT_DECODE,
               .needs = KVT_NEED_FUTURE | KVT_NEED_ATTN,
               .exactness = KVT_EXACT,
               .future_by_position = true,
               .control = true},
    .slot_width = 1,
    .params_size = sizeof(belady),
    .params = params,
    .step = step,
    .score = score,
};
