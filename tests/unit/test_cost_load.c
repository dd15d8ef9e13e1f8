/* test_cost_load - slots of lanes by a policy's own rule, against sums made step by step and
 * numbers that stand elsewhere. */
#include "tests/check.h"
#include "tests/unit/cost_load.h"

#include <math.h>

#include "replay/cost/cost_priv.h"

static const kvt_cost_work full = {.when = KVT_WHEN_NEVER};

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
    };
    for (int i = 0; i < CHECK_COUNT(more); i++)
        tests[n++] = more[i];
    return CHECK_RUN("cost load", tests, n);
}
