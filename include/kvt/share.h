/* share.h - how a total of slots is shared out over lanes (an allocator). */
#ifndef KVT_SHARE_H
#define KVT_SHARE_H

#include "kvt/policy.h"

typedef struct kvt_share {
    uint32_t abi; /* KVT_POLICY_ABI */
    const char *name, *title, *paper, *differs;
    kvt_scope scope; /* what it sees together */
    bool may_exceed; /* published arithmetic may give out more than `total` */

    /* It reads scores and is refused for a policy that has none. They are compared between
     * lanes as they are. */
    bool by_score;
    unsigned needs; /* kvt_need, for learn(): what the lanes' views hold beside the policy's */

    /* A table of its own: with one, the allocator takes the engine's parameter table=FILE, a
     * scorer file of this kind that holds these tensors (as kvt_policy.weights). */
    const kvt_weight *weights;
    const char *weights_kind; /* NULL: the allocator's name */

    size_t params_size;
    const kvt_param *params; /* ends with {0}; NULL: none */

    /* Shares `total` slots out over budget [n_lane]; each lane gets at least 1 and at most its
     * n_slot. Lanes know their layer of the model and how many it has, so that a trace of some
     * layers gets the budgets that the whole model would. `n_pinned` is what each lane's rule
     * keeps in any case. score[i] is NULL where the policy has no score yet. */
    void (*split)(const void *params, int64_t *budget, const kvt_lane *lane, int n_lane,
                  const float *const *score, const int64_t *n_pinned, int64_t total);

    /* Optional. Once a lane, when it is scored at the end of the prompt (where it first grows
     * too long while decoding: then) and its views are there: writes what split() will want of
     * each slot, mark [S mark_width], zero before. `score` is NULL where the policy has none.
     */
    int mark_width;
    void (*learn)(const void *params, float *mark, const kvt_lane *lane, const float *score,
                  const bool *pinned);

    /* Optional. How much more than `budget` [n_lane] any sharing out of `total` could keep at
     * most, in the unit of learn()'s marks as a share of all of it; printed beside the result.
     * NAN: not known. */
    double (*gap)(const void *params, const int64_t *budget, const kvt_lane *lane, int n_lane,
                  const float *const *score, const int64_t *n_pinned, int64_t total);
} kvt_share;

/* Those that policies name as their own. */
extern KVT_API const kvt_share kvt_share_ada, kvt_share_even, kvt_share_pyramid;

KVT_API const kvt_share *const *kvt_shares(void);          /* by name, ends with NULL */
KVT_API const kvt_share *kvt_share_find(const char *name); /* or NULL */
KVT_API const char *kvt_share_kind(const kvt_share *s);    /* of the file that table= names */

#endif
