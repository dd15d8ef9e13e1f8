/* test_cost_load_result - slots of lanes from a result that is built by hand: how it grows, on
 * another geometry, at another length, under windows. */
#include "tests/check.h"
#include "tests/unit/cost_load.h"

#include <stdio.h>

#include "kvt/arena.h"
#include "replay/cost/cost_priv.h"

static kvt_err err;

enum { L = 2, A = 2, N = 40, M = 6 };

static const int64_t lane_kept[L * A] = {12, 8, 20, 4};

/* A cell of two layers and lanes, 0 and 1 of the model. */
static kvt_result *result(const char *growth, bool steps)
{
    kvt_result *r = kvt_result_new();
    bool inside = strcmp(growth, "inside") == 0;
    snprintf(r->policy_text, sizeof r->policy_text, "toy");
    r->n_layer = L, r->n_lane = A, r->n_prompt = N, r->n_response = M;
    r->layer_id[1] = 1;
    r->n_cell = 1;
    r->cell = kvt_alloc(1, sizeof *r->cell);
    r->lane = kvt_alloc(L * A, sizeof *r->lane);
    snprintf(r->cell->status, sizeof r->cell->status, "ok");
    snprintf(r->cell->growth, sizeof r->cell->growth, "%s", growth);
    snprintf(r->cell->model, sizeof r->cell->model, "toy");
    r->kept_count = steps ? kvt_alloc(L * A * M, sizeof *r->kept_count) : NULL;
    for (int i = 0; i < L * A; i++) {
        r->lane[i].kept_prefill_tokens = lane_kept[i];
        r->lane[i].kept_end_tokens = lane_kept[i] + (inside ? 0 : M);
        r->lane[i].kept_max_tokens = lane_kept[i] + (inside ? 1 : M);
        for (int m = 0; steps && m < M; m++)
            r->kept_count[i * M + m] =
                (float)(lane_kept[i] + (inside ? 1 : m + 1) + i * (m == 3));
    }
    return r;
}

static kvt_cost_load load_of(const kvt_result *r, const kvt_cost_work *w,
                             const kvt_cost_geometry *g, const kvt_cost_setting *s, int64_t n,
                             int64_t m)
{
    static kvt_cost_load x;
    CHECK_OK(kvt_cost_load_result(&x, r, 0, w, g, s, n, m, &err), &err);
    return x;
}

static void a_result_on_top(void **state)
{
    (void)state;
    kvt_cost_geometry g = model(2, 0);
    kvt_result *r = result("on-top", false);
    kvt_cost_load x = load_of(r, &once, &g, &plain, N, M);
    double steps, slots, held;
    CHECK_NEAR(x.kept[0].slots, 20, 0);
    CHECK_NEAR(x.kept[0].most, 12, 0);
    CHECK_NEAR(x.kept[1].slots, 24, 0);
    assert_int_equal(x.n_run, M);
    sums(&x, &steps, &slots, &held);
    CHECK_NEAR(slots, 44 * M + 4 * (1 + 2 + 3 + 4 + 5 + 6), 1e-9);
    CHECK_NEAR(held, slots, 1e-9);
    CHECK_NEAR(x.first.slots, 48, 1e-9);
    CHECK_NEAR(x.first.busiest, 2 * 13 + 2 * 21, 1e-9);
    CHECK_NEAR(x.top.held, 44 + 4 * M, 1e-9);
    assert_true(!x.assumed && !x.mapped && !x.scaled);
    kvt_cost_setting pages = {.page_tokens = 8, .shared_pages = true};
    x = load_of(r, &once, &g, &pages, N, M);
    CHECK_NEAR(x.kept[0].held, 2 * 16, 0); /* the lane of 8 frees nothing beside that of 12 */
    CHECK_NEAR(x.kept[1].held, 2 * 24, 0);
    CHECK_NEAR(x.first.held, 2 * 16 + 2 * 24, 1e-9);
    pages.shared_pages = false;
    x = load_of(r, &once, &g, &pages, N, M);
    CHECK_NEAR(x.kept[0].held, 16 + 8, 0);
    CHECK_NEAR(x.kept[1].held, 24 + 8, 0);
    CHECK_NEAR(x.first.held, 2 * 16 + 24 + 8, 1e-9);
    kvt_result_free(r);
}

static void a_result_inside(void **state)
{
    (void)state;
    kvt_cost_geometry g = model(2, 0);
    kvt_result *r = result("inside", true);
    kvt_cost_load x = load_of(r, &ever, &g, &plain, N, M);
    double steps, slots, held;
    sums(&x, &steps, &slots, &held);
    CHECK_NEAR(slots, 48 * M + (0 + 1 + 2 + 3), 1e-9);
    CHECK_NEAR(x.top.held, 54, 1e-9);
    assert_int_equal(x.n_run, 3); /* three equal steps, one, two */
    CHECK_NEAR(x.run[0].steps, 3, 0);
    CHECK_NEAR(x.run[1].slots, 54, 1e-9);
    kvt_result_free(r);
    r = result("inside", false);
    x = load_of(r, &ever, &g, &plain, N, M);
    assert_int_equal(x.n_run, 1);
    CHECK_NEAR(x.run[0].slots, 48, 1e-9);
    r->lane[0].kept_max_tokens = 30; /* somewhere in between */
    x = load_of(r, &ever, &g, &plain, N, M);
    CHECK_NEAR(x.run[0].slots, 48, 1e-9);
    CHECK_NEAR(x.top.held, 48 + 30 - 13, 1e-9);
    kvt_result_free(r);
}

/* Many steps become few runs with the same sums. */
static void many_steps_keep_their_sum(void **state)
{
    (void)state;
    enum { LONG = 1000 };
    kvt_cost_geometry g = model(2, 0);
    kvt_result *r = result("ragged", false);
    double want = 0, steps, slots, held;
    r->n_response = LONG;
    r->kept_count = kvt_alloc(L * A * LONG, sizeof *r->kept_count);
    for (int i = 0; i < L * A * LONG; i++) {
        r->kept_count[i] = (float)(20 + i * 7 % 13);
        want += (double)r->kept_count[i];
    }
    kvt_cost_load x = load_of(r, &ever, &g, &plain, N, LONG);
    sums(&x, &steps, &slots, &held);
    CHECK_NEAR(steps, LONG, 0);
    CHECK_NEAR(slots / want, 1, 1e-9);
    CHECK_NEAR(x.mean_held * LONG / want, 1, 1e-9);
    kvt_result_free(r);
}

static void another_geometry_is_mapped(void **state)
{
    (void)state;
    kvt_cost_geometry g = model(4, 0);
    kvt_result *r = result("on-top", false);
    snprintf(r->cell->model, sizeof r->cell->model, "another");
    g.g.n_kv_head = 4;
    kvt_cost_load x = load_of(r, &once, &g, &plain, N, M);
    assert_true(x.mapped && !x.scaled);
    CHECK_NEAR(x.kept[0].slots, 12 + 12 + 8 + 8, 0); /* by relative depth, by rank */
    CHECK_NEAR(x.kept[1].slots, 40, 0);
    CHECK_NEAR(x.kept[2].slots, 20 + 20 + 4 + 4, 0);
    CHECK_NEAR(x.kept[3].most, 20, 0);
    g.g.n_kv_head = 3;
    x = load_of(r, &once, &g, &plain, N, M);
    CHECK_NEAR(x.kept[0].slots, 12 + 8 + 8, 0);
    kvt_result_free(r);
}

static void missing_layers_take_the_nearest(void **state)
{
    (void)state;
    kvt_cost_geometry g = model(8, 0);
    kvt_result *r = result("on-top", false);
    r->layer_id[0] = 2, r->layer_id[1] = 7;
    kvt_cost_load x = load_of(r, &once, &g, &plain, N, M);
    assert_true(x.mapped);
    for (int l = 0; l < 8; l++)
        CHECK_NEAR(x.kept[l].slots, l <= 4 ? 20 : 24, 0);
    kvt_result_free(r);
}

static void another_length_is_scaled(void **state)
{
    (void)state;
    kvt_cost_geometry g = model(2, 0);
    kvt_result *r = result("on-top", false);
    kvt_cost_load x = load_of(r, &once, &g, &plain, 10 * N, 2 * M);
    assert_true(x.scaled && !x.mapped);
    CHECK_NEAR(x.kept[0].slots, 200, 1e-9);
    CHECK_NEAR(x.last.slots, 440 + 4 * 2 * M, 1e-9);
    kvt_result_free(r);
    r = result("inside", true);
    x = load_of(r, &ever, &g, &plain, 10 * N, M);
    CHECK_NEAR(x.first.slots, 440 + 4, 1e-9);
    kvt_result_free(r);
}

static void windows_cut_a_result(void **state)
{
    (void)state;
    kvt_cost_geometry g = model(2, 10);
    kvt_cost_setting whole = {.full_windows = true};
    kvt_result *r = result("on-top", false);
    kvt_cost_load x = load_of(r, &once, &g, &plain, N, M);
    CHECK_NEAR(x.kept[1].slots, 10 + 4, 0);
    CHECK_NEAR(x.last.slots, 20 + 2 * M + 10 + 10, 1e-9);
    x = load_of(r, &once, &g, &whole, N, M);
    CHECK_NEAR(x.kept[1].slots, 24, 0);
    kvt_result_free(r);
}

static void skipped_cells_say_why(void **state)
{
    (void)state;
    kvt_cost_geometry g = model(2, 0);
    kvt_result *r = result("on-top", false);
    kvt_cost_load x;
    snprintf(r->cell->status, sizeof r->cell->status, "skipped");
    snprintf(r->cell->error, sizeof r->cell->error, "no probe was run");
    CHECK_FAILS(kvt_cost_load_result(&x, r, 0, &once, &g, &plain, N, M, &err), KVT_NOTFOUND,
                "no probe was run", &err);
    CHECK_FAILS(kvt_cost_load_result(&x, r, 1, &once, &g, &plain, N, M, &err), KVT_USAGE,
                "cell 1", &err);
    kvt_result_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_result_on_top),
        cmocka_unit_test(a_result_inside),
        cmocka_unit_test(many_steps_keep_their_sum),
        cmocka_unit_test(another_geometry_is_mapped),
        cmocka_unit_test(missing_layers_take_the_nearest),
        cmocka_unit_test(another_length_is_scaled),
        cmocka_unit_test(windows_cut_a_result),
        cmocka_unit_test(skipped_cells_say_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
