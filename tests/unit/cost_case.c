/* cost_case.c - models, policies and a comparison for tests of the cost model. */
#include "tests/unit/cost_case.h"

#include <math.h>

#include "tests/check.h"

kvt_cost_geometry model(const char *name)
{
    kvt_cost_geometry g;
    kvt_err err;
    CHECK_OK(kvt_cost_geometry_find(&g, name, &err), &err);
    return g;
}

double prefill_time(const kvt_machine *m, const char *name, int64_t n)
{
    kvt_cost_geometry g = model(name);
    kvt_prefill_cost cost;
    kvt_cost_prefill(&cost, &g, m, &(kvt_cost_setting){0}, n);
    return cost.total;
}

const kvt_cost_work full = {.when = KVT_WHEN_NEVER};
const kvt_cost_work snapkv = {.when = KVT_WHEN_IN_LAYER,
                              .score = KVT_SCORE_ROWS,
                              .rows = 32,
                              .k_passes = 1,
                              .selects = true};
const kvt_cost_work laq = {.when = KVT_WHEN_AFTER_PREFILL,
                           .score = KVT_SCORE_ROWS,
                           .rows = 8,
                           .k_passes = 2,
                           .selects = true,
                           .draft = KVT_DRAFT_SELF,
                           .draft_tokens = 8,
                           .first_stage = true};
const kvt_cost_work speckv = {.when = KVT_WHEN_IN_LAYER,
                              .score = KVT_SCORE_ROWS,
                              .rows = 64,
                              .k_passes = 1,
                              .selects = true,
                              .draft = KVT_DRAFT_MODEL,
                              .draft_tokens = 32,
                              .extra_tokens = 32};

void within(const char *what, double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance * fabs(want)))
        fail_msg("%s: expected %.7g +-%g %%, got %.7g (%+.2f %%)", what, want, 100 * tolerance,
                 got, 100 * (got / want - 1));
}
