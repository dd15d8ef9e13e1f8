/* What a person feels: 500 steps through the response of a 32,768-token prompt, key to frame.
 * The median is held, because tests share a machine; bench prints the tail. */
#include "tests/check.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "kvt/arena.h"
#include "tui/model.h"

enum { T = 32768, M = 64, FRAMES = 500, FRAME_MS = 16, LAYOUT_MS = 60 };

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void make_text(tui_data *d)
{
    enum { EACH = 6 };
    d->n_token = T;
    d->n_prompt = T - M;
    d->n_response = M;
    d->text = kvt_alloc((int64_t)T * EACH, 1);
    d->offset = kvt_alloc(T + 1, sizeof *d->offset);
    d->id = kvt_alloc(T, sizeof *d->id);
    assert_true(d->text && d->offset && d->id);
    for (int i = 0; i < T; i++) {
        memcpy(d->text + (ptrdiff_t)i * EACH, i % 17 ? " token" : "line.\n", EACH);
        d->offset[i + 1] = (int64_t)(i + 1) * EACH;
    }
}

static void make_result(tui_data *d)
{
    kvt_err err;
    kvt_result *r = kvt_result_new();
    assert_non_null(r);
    r->n_layer = r->n_lane = r->n_cell = 1;
    r->n_prompt = d->n_prompt;
    r->n_response = M;
    r->cell = kvt_alloc(1, sizeof *r->cell);
    r->lane = kvt_alloc(1, sizeof *r->lane);
    r->evict_step = kvt_alloc(T, sizeof *r->evict_step);
    r->lost = kvt_alloc(M, sizeof *r->lost);
    d->results = kvt_alloc(1, sizeof *d->results);
    assert_true(r->cell && r->lane && r->evict_step && r->lost && d->results);
    snprintf(r->policy_text, sizeof r->policy_text, "h2o");
    snprintf(r->cell[0].policy, sizeof r->cell[0].policy, "h2o");
    snprintf(r->cell[0].status, sizeof r->cell[0].status, "ok");
    snprintf(r->cell[0].budget_asked, sizeof r->cell[0].budget_asked, "%s", "10%");
    for (int i = 0; i < T; i++)
        r->evict_step[i] = i % 10 == 0 ? -1 : i % 50;
    CHECK_OK(kvt_results_add(d->results, r, &err), &err);
    tui_data_index(d);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void scrubbing_is_smooth(void **state)
{
    (void)state;
    static double ms[FRAMES];
    tui_data d = {0};
    tui_model m;
    kvt_err err;
    grid g;
    tui_start s = {
        .layer = -1, .lane = -1, .step = -1, .token = T / 2, .screen = "lane", .colour = true};
    make_text(&d);
    make_result(&d);
    CHECK_OK(tui_model_init(&m, &d, &s, &err), &err);
    double began = now_ms();
    tui_resize(&m, 100, 30);
    double layout = now_ms() - began;
    CHECK_OK(grid_init(&g, 100, 30, false, &err), &err);
    for (int i = 0; i < FRAMES; i++) {
        began = now_ms();
        tui_update(&m, &(tui_command){.what = i % 128 < 64 ? TUI_STEP_ON : TUI_STEP_BACK});
        tui_draw(&m, &g);
        ms[i] = now_ms() - began;
    }
    qsort(ms, FRAMES, sizeof *ms, by_value);
    print_message("layout %.1f ms, frame median %.2f ms, 99th percentile %.2f ms\n", layout,
                  ms[FRAMES / 2], ms[FRAMES * 99 / 100]);
    assert_true(ms[FRAMES / 2] < FRAME_MS);
    assert_true(layout < LAYOUT_MS);
    grid_fini(&g);
    tui_model_fini(&m);
    tui_data_fini(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(scrubbing_is_smooth)};
    if (!setlocale(LC_ALL, "C.UTF-8"))
        return CHECK_SKIP;
    return cmocka_run_group_tests_name("speed", tests, NULL, NULL);
}
