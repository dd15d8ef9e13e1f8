/* cost_load.c - a small model, policies and sums for tests of slots. */
#include "tests/unit/cost_load.h"

#include "tests/check.h"

const kvt_cost_setting plain;
const kvt_cost_work once = {.when = KVT_WHEN_IN_LAYER, .score = KVT_SCORE_ROWS};
const kvt_cost_work ever = {.when = KVT_WHEN_IN_LAYER, .in_decode = true, .every = 1};

kvt_cost_geometry model(int n_layer, int32_t window)
{
    kvt_cost_geometry g = {.g = {.name = "toy",
                                 .n_layer = n_layer,
                                 .n_head = 8,
                                 .n_kv_head = 2,
                                 .head_dim = 16,
                                 .n_hidden = 128,
                                 .n_ff = 256,
                                 .n_vocab = 1000}};
    for (int l = 1; l < n_layer; l += 2)
        g.g.window[l] = window;
    return g;
}

kvt_use *policy(const char *text)
{
    kvt_use *u;
    kvt_err err;
    CHECK_OK(kvt_use_parse(&u, NULL, text, &err), &err);
    return u;
}

void sums(const kvt_cost_load *x, double *steps, double *slots, double *held)
{
    *steps = *slots = *held = 0;
    assert_true(x->n_run <= KVT_COST_RUNS_MAX);
    for (int r = 0; r < x->n_run; r++) {
        assert_true(x->run[r].steps >= 1);
        *steps += x->run[r].steps;
        *slots += x->run[r].steps * x->run[r].slots;
        *held += x->run[r].steps * x->run[r].held;
    }
}
