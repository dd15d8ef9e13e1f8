/* check_priv.h - what one run of a policy held: check_run.c runs it, the laws of check.c look
 * at it. */
#ifndef REPLAY_CHECK_PRIV_H
#define REPLAY_CHECK_PRIV_H

#include "replay/check_toy.h"

/* Budgets that laws are tried at: the last one is above every length. */
enum { N_BUDGET = 8, ALL = N_BUDGET - 1, TEXT = 256, L = TOY_LAYERS };
extern const int64_t check_budgets[N_BUDGET];

typedef struct held {
    const check_toy *toy;
    int n_lane;
    int64_t n_step; /* 1, or 1 + M where it decodes */
    uint8_t *kept;  /* [budget step L A T] after that many response tokens */
    bool *pinned;   /* [budget L A N] at the end of the prompt */
    bool refused[N_BUDGET], failed[N_BUDGET], latest[N_BUDGET];
    bool tied; /* two lanes have an equal score, and their allocator compares scores */
    char why[N_BUDGET][TEXT];
    int64_t most; /* slots of the fullest row above its lane's budget */
} held;

static inline uint8_t *kept_at(const held *h, int budget, int64_t step, int layer, int lane)
{
    return h->kept + (((budget * h->n_step + step) * L + layer) * h->n_lane + lane) * h->toy->T;
}

static inline bool *pinned_at(const held *h, int budget, int layer, int lane)
{
    return h->pinned + ((int64_t)(budget * L + layer) * h->n_lane + lane) * h->toy->N;
}

/* Runs a use on a toy, by its habit while decoding or on the prompt only; arrays from memory.
 */
KVT_CHECKED kvt_code check_run(held *out, const kvt_use *use, const check_toy *toy, bool decode,
                               uint64_t seed, kvt_arena *memory, kvt_err *err);
int64_t check_period(const kvt_use *use); /* steps between two decisions */

#endif
