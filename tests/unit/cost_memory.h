/* cost_memory.h - what tests of the cost model's memory share: a case with all that it points
 * to, and policies beside those of cost_case.h. */
#ifndef TESTS_UNIT_COST_MEMORY_H
#define TESTS_UNIT_COST_MEMORY_H

#include "tests/unit/cost_case.h"

extern const double KI, MI, GI; /* 1024, its square, its cube */

/* Exact allocations, no runtime: what formulae say and nothing else. */
kvt_machine bare(kvt_engine_kind engine);

extern const kvt_cost_work norms, late, ring, h2o;

/* A case with all that it points to. */
typedef struct bench {
    kvt_cost_geometry g, draft;
    kvt_published k;
    kvt_cost_work w;
    kvt_cost_setting s;
    kvt_cost_load load;
    kvt_cost_case c;
    kvt_cost out;
} bench;

bench on(const char *name, const kvt_cost_work *w, kvt_engine_kind engine);
/* Peak, steady and capacity into `out`, of n tokens of the prompt and m decoded. */
void predict(bench *b, int64_t n, int64_t m, int64_t budget);

#endif
