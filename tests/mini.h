/* mini.h - the engine's contract (kvt/policy.h) in its plainest form: one policy, one budget, a
 * toy trace, every hook called as the header says. Slow, and independent of replay/: golden and
 * property tests run policies through it, and the engine is compared with it. */
#ifndef TESTS_MINI_H
#define TESTS_MINI_H

#include "kvt/share.h"
#include "toy.h"

typedef struct mini_spec {
    const toy *trace;
    const kvt_policy *policy;
    const kvt_share *share; /* NULL: the policy's own */
    const char *params;     /* "compat=kvpress,base=h2o,base.window=8", "" */
    const char *share_params;
    int64_t budget;
    bool prefill_only; /* --act prefill */
    bool no_fits;      /* does not ask fits() */
    bool show_budget;  /* lane->budget is set under one_ranking, too */
    uint64_t seed;
    const float *position_mass;
    double threshold; /* under by_threshold */
    bool matched;     /* it stands for the budget, which must hold what is pinned */
} mini_spec;

typedef struct mini_result {
    bool skipped;
    bool lacks; /* the toy has no such probe, weights or array */
    char why[160];
    kvt_traits traits; /* after vary() */
    bool decodes;
    int n_lane;     /* lanes of a layer */
    int64_t n_step; /* 1, or 1 + M where it decodes */
    uint8_t
        *held; /* [step L lane T] after that many response tokens; under SKIP what was read */
    int64_t *budget; /* [step L lane] as the allocator gave it; 0: no decision */
    float *score;    /* [L lane N] of step 0 */
    bool *pinned;    /* [L lane N] */
    int64_t most;    /* slots that the fullest response row saw */
    bool infinite;   /* a score of a slot that is not pinned is not finite */
} mini_result;

/* Runs it; memory from a. Fails with USAGE on parameters that cannot be read. */
KVT_CHECKED kvt_code mini_run(mini_result *out, const mini_spec *spec, kvt_arena *a,
                              kvt_err *err);

uint8_t *mini_held(const mini_result *r, const toy *t, int64_t step, int layer, int lane);
int64_t mini_count(const mini_result *r, const toy *t, int64_t step, int layer, int lane);

#endif
