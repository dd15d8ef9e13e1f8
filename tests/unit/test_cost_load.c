/* test_cost_load - slots of lanes: by a policy's own rule and from replays, against sums made
 * step by step and numbers that stand elsewhere. */
#include "tests/check.h"
#include "tests/runs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kvt/arena.h"
#include "kvt/cost.h"
#include "replay/cost/cost_priv.h"

static kvt_err err;

/* 4 layers of 8 query heads on 2 kv heads; odd ones may have a window. */
static kvt_cost_geometry model(int n_layer, int32_t window)
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

static kvt_use *policy(const char *text)
{
    kvt_use *u;
    CHECK_OK(kvt_use_parse(&u, NULL, text, &err), &err);
    return u;
}

static const kvt_cost_setting plain;
static const kvt_cost_work full = {.when = KVT_WHEN_NEVER};
static const kvt_cost_work once = {.when = KVT_WHEN_IN_LAYER, .score = KVT_SCORE_ROWS};
static const kvt_cost_work ever = {.when = KVT_WHEN_IN_LAYER, .in_decode = true, .every = 1};

/* Runs are in order, and add up to the steps. */
static void sums(const kvt_cost_load *x, double *steps, double *slots, double *held)
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

/* ---- by its own rule -----------------------------------------------------------------------
 */

/* What a lane is, told again, one step after the other. */
typedef struct rule {
    const char *name;
    const char *policy;
    kvt_cost_work work;
    int64_t N, M, B, page;
    int32_t window;
    bool shared, dense, bounded, drop_first;
    double slope;
} rule;

static const rule rules[] = {
    {"full", "full", {.when = KVT_WHEN_NEVER}, 100, 37, 100, .slope = 1},
    {"full, window", "full", {.when = KVT_WHEN_NEVER}, 50, 200, 50, .window = 64, .slope = 1},
    {"full, pages", "full", {.when = KVT_WHEN_NEVER}, 100, 77, 100, 16, .slope = 1},
    {"on top", "l2norm", {.when = KVT_WHEN_IN_LAYER}, 100, 300, 30, .slope = 1},
    {"on top, pages, window",
     "l2norm",
     {.when = KVT_WHEN_IN_LAYER},
     100,
     300,
     30,
     16,
     48,
     true,
     .slope = 1},
    {"inside",
     "tova",
     {.when = KVT_WHEN_IN_LAYER, .in_decode = true, .every = 1},
     100,
     50,
     30,
     .bounded = true,
     .slope = 1},
    {"inside, every 7",
     "tova",
     {.when = KVT_WHEN_IN_LAYER, .in_decode = true, .every = 7},
     100,
     50,
     30,
     .bounded = true,
     .slope = 1},
    {"inside, every 7, pages",
     "tova",
     {.when = KVT_WHEN_IN_LAYER, .in_decode = true, .every = 7},
     100,
     500,
     30,
     16,
     .bounded = true,
     .slope = 1},
    {"inside, short prompt",
     "tova",
     {.when = KVT_WHEN_IN_LAYER, .in_decode = true, .every = 4},
     10,
     90,
     31,
     .bounded = true,
     .slope = 1},
    {"inside, not at the prompt",
     "tova",
     {.when = KVT_WHEN_NEVER, .in_decode = true, .every = 4},
     100,
     90,
     31,
     .bounded = true,
     .slope = 1},
    {"drops first",
     "streaming",
     {.when = KVT_WHEN_IN_LAYER, .in_decode = true, .every = 1},
     100,
     50,
     30,
     .bounded = true,
     .drop_first = true,
     .slope = 1},
    {"threshold",
     "dms",
     {.when = KVT_WHEN_IN_LAYER, .in_decode = true, .every = 1},
     100,
     50,
     25,
     .slope = 0.25},
    {"threshold, pages",
     "dms",
     {.when = KVT_WHEN_IN_LAYER, .in_decode = true, .every = 1},
     100,
     50,
     25,
     8,
     .slope = 0.25},
    {"skips",
     "quest",
     {.when = KVT_WHEN_NEVER, .in_decode = true, .keeps_all = true},
     100,
     50,
     25,
     .dense = true,
     .slope = 1},
};

static void steps_are_told_again(void **state)
{
    const rule *r = *state;
    kvt_cost_geometry g = model(4, r->window);
    kvt_cost_setting s = {.page_tokens = r->page, .shared_pages = r->shared};
    kvt_use *u = policy(r->policy);
    kvt_cost_load x;
    u->traits.drop_first = r->drop_first;
    kvt_cost_load_assume(&x, u, &r->work, &g, &s, r->N, r->M, r->B);
    double slots = 0, held = 0, top = 0, last_slots = 0, first_slots = 0, p = (double)r->page;
    double n = r->work.when == KVT_WHEN_NEVER || r->B >= r->N ? (double)r->N : (double)r->B;
    double every = r->work.every > 0 ? (double)r->work.every : 1;
    for (int64_t t = 1; t <= r->M; t++) {
        bool cut = r->bounded && fmod((double)t, every) == 0 && n + 1 > (double)r->B;
        n += r->slope;
        double see = cut && r->drop_first ? (double)r->B : n, now = 0;
        last_slots = 0;
        for (int l = 0; l < 4; l++) {
            double w = l % 2 && r->window ? r->window : 1e9;
            double in = fmin(see, w), rows = r->dense ? fmin(in, (double)r->B) : in;
            last_slots += 2 * rows;
            now += 2 * (p > 0 ? ceil(in / p - 1e-9) * p : in);
        }
        slots += last_slots, held += now;
        top = fmax(top, now);
        first_slots = t == 1 ? last_slots : first_slots;
        n = cut ? (double)r->B : n;
    }
    double got_steps, got_slots, got_held;
    sums(&x, &got_steps, &got_slots, &got_held);
    CHECK_NEAR(got_steps, (double)r->M, 0);
    CHECK_NEAR(got_slots / slots, 1, 1e-9);
    CHECK_NEAR(got_held / held, 1, 1e-9);
    CHECK_NEAR(x.mean_held * (double)r->M / held, 1, 1e-9);
    CHECK_NEAR(x.top.held, top, 1e-6);
    CHECK_NEAR(x.first.slots, first_slots, 1e-6);
    CHECK_NEAR(x.last.slots, last_slots, 1e-6);
    assert_true(x.assumed && !x.mapped && !x.scaled);
    kvt_use_free(u);
}

/* PyramidKV's own table (14.2 of the golden vectors): 128 slots, 8 of them pinned, 32 layers.
 */
static void pyramid_keeps_its_line(void **state)
{
    (void)state;
    kvt_cost_geometry g = model(32, 0);
    kvt_use *u = policy("snapkv/pyramid:window=8,form=kvcf");
    kvt_cost_load x;
    kvt_cost_load_assume(&x, u, &once, &g, &plain, 8192, 0, 128);
    assert_int_equal((int)x.kept[0].most, 242);
    assert_int_equal((int)x.kept[1].most, 235);
    assert_int_equal((int)x.kept[31].most, 25);
    double sum = 0;
    for (int l = 0; l < 32; l++)
        sum += x.kept[l].slots;
    CHECK_NEAR(sum, 2 * (4016 + 256), 0);
    kvt_use_free(u);
    u = policy("snapkv/pyramid:window=8");
    kvt_cost_load_assume(&x, u, &once, &g, &plain, 8192, 0, 128);
    sum = 0;
    for (int l = 0; l < 32; l++)
        sum += x.kept[l].slots;
    CHECK_NEAR(sum, 2 * 32 * 128, 0); /* exact: adds up */
    assert_true(x.kept[0].slots > 2 * x.kept[31].slots);
    kvt_use_free(u);
}

/* An allocator that needs scores shares nothing out without a trace. */
static void scores_are_not_invented(void **state)
{
    (void)state;
    kvt_cost_geometry g = model(4, 0);
    kvt_use *u = policy("snapkv/ada");
    kvt_cost_load x;
    kvt_cost_load_assume(&x, u, &once, &g, &plain, 1000, 10, 100);
    for (int l = 0; l < 4; l++) {
        CHECK_NEAR(x.kept[l].slots, 200, 0);
        CHECK_NEAR(x.kept[l].most, 100, 0);
    }
    CHECK_NEAR(x.run[0].busiest, x.run[0].slots, 1e-9);
    kvt_use_free(u);
}

static void a_budget_above_the_prompt_evicts_nothing(void **state)
{
    (void)state;
    kvt_cost_geometry g = model(4, 0);
    kvt_use *u = policy("snapkv"), *all = policy("full");
    kvt_cost_load x, y;
    kvt_cost_load_assume(&x, u, &once, &g, &plain, 100, 20, 500);
    kvt_cost_load_assume(&y, all, &full, &g, &plain, 100, 20, 100);
    CHECK_NEAR(x.kept[2].slots, 200, 0);
    CHECK_NEAR(x.last.slots, y.last.slots, 0);
    CHECK_NEAR(x.mean_held, y.mean_held, 0);
    kvt_use_free(u);
    kvt_use_free(all);
}

static void nothing_decoded_has_no_runs(void **state)
{
    (void)state;
    kvt_cost_geometry g = model(4, 0);
    kvt_use *u = policy("tova");
    kvt_cost_load x;
    kvt_cost_load_assume(&x, u, &ever, &g, &plain, 100, 0, 10);
    assert_int_equal(x.n_run, 0);
    assert_true(isnan(x.mean_held));
    CHECK_NEAR(x.kept[3].held, 20, 0);
    kvt_use_free(u);
}

static void equal_steps_are_one_run(void **state)
{
    (void)state;
    kvt_cost_geometry g = model(4, 0);
    kvt_use *u = policy("tova");
    kvt_cost_load x;
    kvt_cost_load_assume(&x, u, &ever, &g, &plain, 100, 1000, 10);
    assert_int_equal(x.n_run, 1);
    CHECK_NEAR(x.run[0].steps, 1000, 0);
    CHECK_NEAR(x.run[0].slots, 8 * 11, 1e-9);
    kvt_use_free(u);
}

static void layouts(void **state)
{
    (void)state;
    kvt_cost_geometry g = model(4, 0);
    kvt_use *u = policy("snapkv");
    kvt_cost_work w = once;
    kvt_cost_setting s = {.page_tokens = 16};
    kvt_cost_load x;
    w.by_query_head = true;
    kvt_cost_load_assume(&x, u, &w, &g, &plain, 1000, 10, 100);
    assert_int_equal(x.n_lane, 8);
    CHECK_NEAR(x.kept[0].slots, 800, 0);
    w = once;
    kvt_cost_load_assume(&x, u, &w, &g, &s, 1000, 10, 100);
    CHECK_NEAR(x.kept[0].held, 2 * 112, 0); /* 7 pages of 16 */
    CHECK_NEAR(x.first.held, 8 * 112, 0);
    kvt_cost_load_assume(&x, u, &w, &g, &s, 1000, 10, 96);
    CHECK_NEAR(x.kept[0].held, x.kept[0].slots, 0);
    w.page_tokens = 256; /* its own pages */
    kvt_cost_load_assume(&x, u, &w, &g, &s, 1000, 10, 100);
    CHECK_NEAR(x.kept[0].held, 512, 0);
    s = (kvt_cost_setting){.masked = true};
    kvt_cost_load_assume(&x, u, &once, &g, &s, 1000, 10, 100);
    CHECK_NEAR(x.kept[0].held, 2000, 0);
    CHECK_NEAR(x.last.held, 4 * 2 * 1010, 0);
    CHECK_NEAR(x.last.slots, 4 * 2 * 110, 0);
    kvt_use_free(u);
}

/* ---- from a replay -------------------------------------------------------------------------
 */

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

/* A replay of the engine, and the same policies by their own rules. */
static void a_replay_agrees_with_the_rule(void **state)
{
    (void)state;
    static const struct {
        const char *policy;
        bool exact;
    } rows[] = {{"full", true},
                {"streaming", true},
                {"tova", true},
                {"snapkv:window=4", true},
                {"snapkv/pyramid:window=4", true},
                {"snapkv/ada:window=4", false}};
    synth_spec spec = synth_default();
    spec.n_prompt = 48, spec.n_response = 9;
    const char *trace = runs_trace("load", &spec);
    for (int i = 0; i < CHECK_COUNT(rows); i++) {
        kvt_replay_spec ask = runs_spec(&trace, rows[i].policy, "12");
        kvt_results *found = runs_replay(&ask, NULL);
        const kvt_result *r = found->result[0];
        kvt_use *u = policy(rows[i].policy);
        kvt_cost_geometry g = model((int)r->n_layer, 0);
        kvt_cost_load x, y;
        kvt_cost_work w;
        g.g.n_head = spec.n_head, g.g.n_kv_head = spec.n_kv_head;
        kvt_cost_work_of(&w, u, &g, 48, 12, KVT_ACT_OWN);
        w.page_tokens = 0; /* pages and rounding differ by lane */
        int64_t budget = strcmp(rows[i].policy, "full") == 0 ? 48 : 12;
        kvt_cost_load_assume(&y, u, &w, &g, &plain, 48, 9, budget);
        CHECK_OK(kvt_cost_load_result(&x, r, 0, &w, &g, &plain, 48, 9, &err), &err);
        double got[3], want[3];
        sums(&x, &got[0], &got[1], &got[2]);
        sums(&y, &want[0], &want[1], &want[2]);
        for (int k = 0; k < 3; k++)
            CHECK_NEAR(got[k], want[k], 1e-6);
        for (int l = 0; l < r->n_layer; l++)
            CHECK_NEAR(x.kept[l].slots, y.kept[l].slots, 1e-9);
        CHECK_NEAR(x.first.slots, y.first.slots, 1e-9);
        CHECK_NEAR(x.top.held, y.top.held, 1e-9);
        if (!rows[i].exact)
            assert_true(x.run[0].busiest >= x.run[0].slots);
        kvt_use_free(u);
        kvt_results_free(found);
    }
}

/* Policies that drop no token: rows that read a part of the slots, and channels of keys. */
static void nothing_leaves(void **state)
{
    (void)state;
    synth_spec spec = synth_default();
    spec.n_prompt = 48, spec.n_response = 9;
    const char *trace = runs_trace("whole", &spec);
    kvt_cost_geometry g = model(2, 0);
    g.g.n_head = spec.n_head, g.g.n_kv_head = spec.n_kv_head;
    kvt_use *u = policy("quest:page=4");
    kvt_cost_work w;
    kvt_cost_load x;
    kvt_replay_spec ask = runs_spec(&trace, "quest:page=4", "12");
    kvt_results *found = runs_replay(&ask, NULL);
    kvt_cost_work_of(&w, u, &g, 48, 12, KVT_ACT_OWN);
    w.page_tokens = 0;
    CHECK_OK(kvt_cost_load_result(&x, found->result[0], 0, &w, &g, &plain, 48, 9, &err), &err);
    CHECK_NEAR(x.last.held, 4 * (48 + 9), 1e-9); /* four lanes in all */
    CHECK_NEAR(x.kept[1].held, 2 * 48, 1e-9);
    /* a set for each of the 8 query heads, stored once for each kv head */
    assert_true(x.last.slots <= 8 * 12 && x.last.slots > 4 * 12);
    kvt_cost_load_assume(&x, u, &w, &g, &plain, 48, 9, 12);
    CHECK_NEAR(x.last.held, 4 * (48 + 9), 1e-9);
    CHECK_NEAR(x.last.slots, 8 * 12, 1e-9);
    CHECK_NEAR(x.last.busiest, 8 * 12, 1e-9);
    kvt_use_free(u);
    kvt_results_free(found);
    u = policy("think:window=8,recent=0");
    ask = runs_spec(&trace, "think:window=8,recent=0", "36");
    found = runs_replay(&ask, NULL);
    kvt_cost_work_of(&w, u, &g, 48, 36, KVT_ACT_OWN);
    CHECK_OK(kvt_cost_load_result(&x, found->result[0], 0, &w, &g, &plain, 48, 9, &err), &err);
    CHECK_NEAR(x.kept[0].slots, 4 * 36, 1e-6);    /* 4 of 8 channels: 3/4 of the bytes */
    CHECK_NEAR(x.last.slots, 8 * (36 + 9), 1e-6); /* sets of the 4 query heads */
    kvt_use_free(u);
    kvt_results_free(found);
}

int main(void)
{
    struct CMUnitTest tests[64];
    int n = 0;
    CHECK_ROWS(tests, &n, rules, steps_are_told_again);
    static const struct CMUnitTest more[] = {
        cmocka_unit_test(pyramid_keeps_its_line),
        cmocka_unit_test(scores_are_not_invented),
        cmocka_unit_test(a_budget_above_the_prompt_evicts_nothing),
        cmocka_unit_test(nothing_decoded_has_no_runs),
        cmocka_unit_test(equal_steps_are_one_run),
        cmocka_unit_test(layouts),
        cmocka_unit_test(a_result_on_top),
        cmocka_unit_test(a_result_inside),
        cmocka_unit_test(many_steps_keep_their_sum),
        cmocka_unit_test(another_geometry_is_mapped),
        cmocka_unit_test(missing_layers_take_the_nearest),
        cmocka_unit_test(another_length_is_scaled),
        cmocka_unit_test(windows_cut_a_result),
        cmocka_unit_test(skipped_cells_say_why),
        cmocka_unit_test(nothing_leaves),
        cmocka_unit_test(a_replay_agrees_with_the_rule),
    };
    for (int i = 0; i < CHECK_COUNT(more); i++)
        tests[n++] = more[i];
    return _cmocka_run_group_tests("cost load", tests, (size_t)n, runs_open, runs_close);
}
