/* cost_memory.c - cases for tests of the cost model's memory. */
#include "tests/unit/cost_memory.h"

#include "replay/cost/cost_priv.h"

const double KI = 1024.0, MI = 1024.0 * 1024, GI = 1024.0 * 1024 * 1024;

kvt_machine bare(kvt_engine_kind engine)
{
    return (kvt_machine){.engine = engine,
                         .peak_flops_16 = 1e15,
                         .mem_bw = 3e12,
                         .mem_bytes = 85e9,
                         .kv_traffic = 1};
}

const kvt_cost_work norms = {.when = KVT_WHEN_IN_LAYER, .score = KVT_SCORE_KEYS};
const kvt_cost_work late = {
    .when = KVT_WHEN_AFTER_PREFILL, .score = KVT_SCORE_ROWS, .rows = 32};
const kvt_cost_work ring = {
    .when = KVT_WHEN_IN_LAYER, .in_decode = true, .every = 1, .in_place = true};
const kvt_cost_work h2o = {.when = KVT_WHEN_IN_LAYER,
                           .in_decode = true,
                           .every = 1,
                           .in_place = true,
                           .score = KVT_SCORE_COLUMNS,
                           .whole_rows = true,
                           .state_slot = 4};

bench on(const char *name, const kvt_cost_work *w, kvt_engine_kind engine)
{
    return (bench){.g = model(name), .w = *w, .k = {.machine = bare(engine)}};
}

void predict(bench *b, int64_t n, int64_t m, int64_t budget)
{
    kvt_cost_load_assume(&b->load, NULL, &b->w, &b->g, &b->s, n, m, budget);
    b->c = (kvt_cost_case){.geometry = &b->g,
                           .draft = b->draft.g.n_layer ? &b->draft : NULL,
                           .constants = &b->k,
                           .work = &b->w,
                           .load = &b->load,
                           .setting = &b->s,
                           .n_prompt = n,
                           .n_response = m,
                           .budget = budget};
    b->out = (kvt_cost){0};
    cost_memory(&b->out, &b->c);
    cost_capacity(&b->out, &b->c);
}
