/* share.h - how a total of slots is shared out over lanes (an allocator). */
#ifndef KVT_SHARE_H
#define KVT_SHARE_H

#include "kvt/policy.h"

typedef struct kvt_share {
    uint32_t abi; /* KVT_POLICY_ABI */
    const char *name, *title, *paper, *differs;
    kvt_scope scope; /* what it sees together */
    bool may_exceed; /* published arithmetic may give out more than `total` */
    size_t params_size;
    const kvt_param *params; /* ends with {0}; NULL: none */

    /* Shares `total` slots out over budget [n_lane]; each lane gets at least 1 and at most its
     * n_slot. Lanes know their layer of the model and how many it has, so that a trace of some
     * layers gets the budgets that the whole model would. `n_pinned` is what each lane's rule
     * keeps in any case. score[i] is NULL where the policy has no score yet. */
    void (*split)(const void *params, int64_t *budget, const kvt_lane *lane, int n_lane,
                  const float *const *score, const int64_t *n_pinned, int64_t total);
} kvt_share;

/* Those that policies name as their own. */
extern KVT_API const kvt_share kvt_share_even, kvt_share_pyramid;

KVT_API const kvt_share *const *kvt_shares(void);          /* by name, ends with NULL */
KVT_API const kvt_share *kvt_share_find(const char *name); /* or NULL */

#endif
