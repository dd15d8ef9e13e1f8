/* test_cost_laws_lanes - slots that a replay counted, lane by lane: pages that lanes share,
 * uneven lanes, other lengths, other models. Results are written down by hand. */
#include "tests/check.h"

#include <math.h>
#include <stdio.h>

#include "kvt/arena.h"
#include "tests/unit/cost_laws.h"

enum { LAYERS = 2, LANES = 4, PROMPT = 64, RESPONSE = 16, PAGE = 16 };

static kvt_cost_geometry geometry_of(int layers, int lanes)
{
    kvt_cost_geometry g;
    kvt_err err;
    kvt_geometry shape = {.name = "hand",
                          .arch = "llama",
                          .n_layer = layers,
                          .n_head = 2 * lanes,
                          .n_kv_head = lanes,
                          .head_dim = 64,
                          .n_hidden = 512,
                          .n_ff = 1024,
                          .n_vocab = 1000};
    CHECK_OK(kvt_cost_geometry_of(&g, &shape, &err), &err);
    return g;
}

/* One cell whose lanes keep those numbers of the prompt; what is decoded comes on top. */
static kvt_result *result_of(const int kept[LAYERS * LANES])
{
    kvt_result *r = kvt_result_new();
    assert_non_null(r);
    r->n_layer = LAYERS, r->n_lane = LANES;
    r->n_prompt = PROMPT, r->n_response = RESPONSE;
    r->n_cell = 1;
    r->cell = kvt_alloc(1, sizeof *r->cell);
    r->lane = kvt_alloc(LAYERS * LANES, sizeof *r->lane);
    assert_non_null(r->cell);
    assert_non_null(r->lane);
    *r->cell = (kvt_cell){.layers = LAYERS,
                          .kv_heads = LANES,
                          .q_heads = 2 * LANES,
                          .prompt_tokens = PROMPT,
                          .decode_steps = RESPONSE,
                          .status = "ok",
                          .growth = "on-top",
                          .act = "prefill"};
    for (int i = 0; i < LAYERS * LANES; i++) {
        r->layer_id[i / LANES] = i / LANES;
        r->lane[i] = (kvt_lane_row){.layer = i / LANES,
                                    .kv_head = i % LANES,
                                    .asked_tokens = kept[i],
                                    .kept_prefill_tokens = kept[i],
                                    .kept_end_tokens = kept[i] + RESPONSE,
                                    .kept_max_tokens = kept[i] + RESPONSE};
    }
    return r;
}

/* With what each row saw, as a replay's file has it. */
static bool with_rows = false;

static void add_rows(kvt_result *r)
{
    r->kept_count = kvt_alloc(LAYERS * LANES * RESPONSE, sizeof *r->kept_count);
    assert_non_null(r->kept_count);
    strcpy(r->cell->growth, "ragged"); /* else they are not looked at */
    for (int i = 0; i < LAYERS * LANES * RESPONSE; i++)
        r->kept_count[i] =
            (float)(r->lane[i / RESPONSE].kept_prefill_tokens + 1 + i % RESPONSE);
}

static kvt_cost_load load_of(const int kept[LAYERS * LANES], const kvt_cost_geometry *g,
                             kvt_cost_setting s, int64_t n_prompt)
{
    kvt_result *r = result_of(kept);
    if (with_rows)
        add_rows(r);
    kvt_cost_work w = {.when = KVT_WHEN_IN_LAYER, .ragged = true, .selects = true};
    kvt_cost_load load;
    kvt_err err;
    CHECK_OK(kvt_cost_load_result(&load, r, 0, &w, g, &s, n_prompt, RESPONSE, &err), &err);
    kvt_result_free(r);
    return load;
}

static const int full[] = {64, 64, 64, 64, 64, 64, 64, 64};
static const int half[] = {32, 32, 32, 32, 32, 32, 32, 32};
static const int one_holds[] = {64, 1, 1, 1, 1, 1, 1, 64};
static const int rising[] = {8, 16, 24, 32, 40, 48, 56, 64};

static void test_a_page_is_held_by_its_last_lane(void **state)
{
    kvt_cost_geometry g = geometry_of(LAYERS, LANES);
    (void)state;
    kvt_cost_setting own = {.page_tokens = PAGE}, shared = own, exact = {0};
    shared.shared_pages = true;
    kvt_cost_load load = load_of(one_holds, &g, shared, PROMPT);
    kvt_cost_load all = load_of(full, &g, shared, PROMPT);
    for (int l = 0; l < LAYERS; l++) {
        CHECK_NEAR(load.kept[l].slots, 64 + 3, 1e-9);
        CHECK_NEAR(load.kept[l].held, LANES * 64, 1e-9); /* nothing was freed */
        CHECK_NEAR(load.kept[l].held, all.kept[l].held, 1e-9);
    }
    CHECK_NEAR(load.last.held, all.last.held, 1e-9);
    CHECK_NEAR(load.mean_held, all.mean_held, 1e-9);
    load = load_of(one_holds, &g, own, PROMPT); /* by themselves: 64 + 3 pages of 16 */
    CHECK_NEAR(load.kept[0].held, 64 + 3 * PAGE, 1e-9);
    load = load_of(one_holds, &g, exact, PROMPT);
    CHECK_NEAR(load.kept[0].held, 64 + 3, 1e-9);
    CHECK_NEAR(load.kept[0].most, 64, 1e-9);
    load = load_of(half, &g, shared, PROMPT); /* all let go of it: it is free */
    CHECK_NEAR(load.kept[0].held, LANES * 32, 1e-9);
    assert_false(load.assumed || load.mapped || load.scaled);
}

/* Every step sees what is kept and what was decoded before it, and its own token. */
static void test_steps_of_uneven_lanes(void **state)
{
    kvt_cost_geometry g = geometry_of(LAYERS, LANES);
    kvt_cost_setting exact = {0};
    (void)state;
    kvt_cost_load load = load_of(rising, &g, exact, PROMPT);
    double steps = 0, slots = 0;
    for (int i = 0; i < load.n_run; i++) {
        steps += load.run[i].steps;
        slots += load.run[i].steps * load.run[i].slots;
    }
    CHECK_NEAR(steps, RESPONSE, 1e-9);
    CHECK_NEAR(load.kept[0].slots, 8 + 16 + 24 + 32, 1e-9);
    CHECK_NEAR(load.kept[1].slots, 40 + 48 + 56 + 64, 1e-9);
    CHECK_NEAR(load.kept[1].most, 64, 1e-9);
    double kept = 8 * (1 + 2 + 3 + 4 + 5 + 6 + 7 + 8), lanes = LAYERS * LANES;
    CHECK_NEAR(load.first.slots, kept + lanes, 1e-9);
    CHECK_NEAR(load.last.slots, kept + lanes * RESPONSE, 1e-9);
    CHECK_NEAR(load.first.busiest, LANES * (32 + 64 + 2), 1e-9);
    CHECK_NEAR(slots, RESPONSE * (kept + lanes * (1 + RESPONSE) / 2.0), 1e-6);
    /* Equal lanes are as long as they are busy. */
    load = load_of(half, &g, exact, PROMPT);
    CHECK_NEAR(load.first.busiest, load.first.slots, 1e-9);
    CHECK_NEAR(load.last.busiest, load.last.slots, 1e-9);
}

/* Another length keeps the same share; another model gets its layers by depth, its lanes by
 * rank: every layer of this one twice, every lane twice, is the same share again. */
static void test_other_lengths_and_models(void **state)
{
    kvt_cost_geometry same = geometry_of(LAYERS, LANES);
    kvt_cost_geometry deeper = geometry_of(2 * LAYERS, LANES);
    kvt_cost_geometry wider = geometry_of(LAYERS, 2 * LANES);
    kvt_cost_setting exact = {0};
    (void)state;
    kvt_cost_load load = load_of(rising, &same, exact, 10 * PROMPT);
    assert_true(load.scaled && !load.mapped);
    CHECK_NEAR(load.kept[0].slots, 10 * (8 + 16 + 24 + 32), 1e-6);
    CHECK_NEAR(load.kept[1].most, 10 * 64, 1e-6);
    load = load_of(rising, &deeper, exact, PROMPT);
    assert_true(load.mapped && !load.scaled);
    assert_int_equal(load.n_layer, 2 * LAYERS);
    for (int l = 0; l < 2 * LAYERS; l++)
        CHECK_NEAR(load.kept[l].slots, l < LAYERS ? 80 : 208, 1e-6);
    load = load_of(rising, &wider, exact, PROMPT);
    assert_true(load.mapped);
    assert_int_equal(load.n_lane, 2 * LANES);
    CHECK_NEAR(load.kept[0].slots, 160, 1e-6);
    CHECK_NEAR(load.kept[1].slots, 416, 1e-6);
    CHECK_NEAR(load.kept[1].most, 64, 1e-6);
}

/* What each row saw says the same as the lanes' first and last numbers. */
static void test_counted_rows(void **state)
{
    with_rows = true;
    test_a_page_is_held_by_its_last_lane(state);
    test_steps_of_uneven_lanes(state);
    test_other_lengths_and_models(state);
    with_rows = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_page_is_held_by_its_last_lane),
        cmocka_unit_test(test_steps_of_uneven_lanes),
        cmocka_unit_test(test_other_lengths_and_models),
        cmocka_unit_test(test_counted_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
