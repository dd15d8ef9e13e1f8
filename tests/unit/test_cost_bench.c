/* test_cost_bench - this machine as a machine of the cost model: constants from times, a file
 * that reads back, points of a tiny model's passes, the same of the host's device, and what
 * cannot be measured. No time is asserted: machines are busy. */
#include "tests/check.h"

#include <math.h>
#include <unistd.h>

#include "kvt/arena.h"
#include "live/bench_priv.h"
#include "tests/folder.h"
#include "tests/model_make.h"

static kvt_model *model;
static char model_file[1024];
static const double QUICK = 2e-4; /* s of each measurement */

static double field_of(const kvt_machine *m, int i)
{
    double x;
    memcpy(&x, (const char *)m + kvt_machine_fields()[i].offset, sizeof x);
    return x;
}

/* Every number is one that a file may hold, and says where it is from. */
static void check_machine(const kvt_machine *m)
{
    const kvt_machine_field_info *info = kvt_machine_fields();
    for (int i = 0; i < KVT_MACHINE_N; i++) {
        double x = field_of(m, i);
        if (!(x >= info[i].least && x <= info[i].most))
            fail_msg("%s: %g is not within %g .. %g", info[i].name, x, info[i].least,
                     info[i].most);
        assert_true(m->origin[i] == KVT_ORIGIN_CALIBRATED ||
                    m->origin[i] == KVT_ORIGIN_DEFAULT);
    }
    assert_true(m->peak_flops_32 > 0 && m->mem_bw > 1 && m->e_lin > 0 && m->e_att > 0);
    assert_true(m->e_w > 0 && m->e_kv > 0 && m->e_m > 0 && m->t_launch > 0);
    assert_int_equal(m->engine, KVT_ENGINE_FUSED);
    assert_int_equal(m->origin[KVT_MACHINE_mem_bw], KVT_ORIGIN_CALIBRATED);
    assert_int_equal(m->origin[KVT_MACHINE_link_bw], KVT_ORIGIN_DEFAULT);
    assert_true(m->range_from > 0 && m->range_to > m->range_from);
    assert_true(strlen(m->calibrated_on) > 20 && strlen(m->title) > 10);
}

static void check_rows(const kvt_bench_row *row, int n)
{
    assert_in_range(n, 10, KVT_BENCH_ROWS_MAX);
    for (int i = 0; i < n; i++) {
        assert_true(row[i].name[0] && row[i].unit[0]);
        assert_true(isfinite(row[i].value) && row[i].value > 0);
        assert_true(isfinite(row[i].spread_frac) && row[i].spread_frac >= 0);
    }
}

/* ---- constants from times ------------------------------------------------------------------
 *
 * Times that a machine of round constants takes; what each line gives stands beside it. */

static bench_task took(double amount, double seconds)
{
    return (bench_task){.amount = amount, .best = seconds, .median = seconds};
}

static void constants_come_out(void **state)
{
    (void)state;
    const bench_task product = took(1e9, 0.01), slow = took(1e9, 0.02); /* 1e11, 5e10 FLOP/s */
    const bench_task decoding = took(1e6, 0.01);
    const bench_task near = took(1e9, 0.01 / 8 * 10 * 1.25), /* 8e10 / (1 + 128 / 512) */
        far = took(1e10, 0.125 * 1.03125),                   /* 8e10 / (1 + 128 / 4096) */
        other = took(1e9, 0.0106250),                        /* 1e11 / (1 + 128 / 2048) */
        windowed = took(1e9, 0.0125 * 1.03125 * 1.25);       /* 512 / (512 + 128) */
    const bench_task rows = took(1e9, 0.0625), read = took(4e8, 0.02), copy = took(3.2e8, 0.02),
                     launch = took(1, 4e-6), round = took(100, 2e-4);
    const bench_task weights = took(1e8, 0.0102), kv = took(4e7, 0.0042),
                     shallow = took(64, 64 * 30e-6), deep = took(64, 64 * 70e-6);
    const bench_times t = {.product = {&product, &slow, &product, &product},
                           .decoding = &decoding,
                           .near = &near,
                           .far = &far,
                           .other = &other,
                           .windowed = &windowed,
                           .rows = &rows,
                           .read = &read,
                           .copy = &copy,
                           .weights = &weights,
                           .kv = &kv,
                           .round = &round,
                           .shallow = &shallow,
                           .deep = &deep,
                           .launch = &launch,
                           .near_tokens = 512,
                           .far_tokens = 4096,
                           .other_dim = 128,
                           .window = 512,
                           .weight_rounds = 100,
                           .kv_rounds = 100,
                           .shallow_layers = 2,
                           .deep_layers = 10,
                           .launches_layer = 5,
                           .act_bytes = 4,
                           .mem_bytes = 8e9};
    const kvt_geometry g = {.head_dim = 64};
    kvt_machine m;
    memset(&m, 0, sizeof m);
    bench_fields(&m, &t, &g);
    CHECK_NEAR(m.peak_flops_16, 0, 0);
    CHECK_NEAR(m.peak_flops_32, 1e11, 1);
    CHECK_NEAR(m.e_lin, 0.8, 1e-9); /* 4 GFLOP in 50 ms */
    CHECK_NEAR(m.t_ttft, 0.01, 1e-12);
    CHECK_NEAR(m.n_half, 128, 1e-6);
    CHECK_NEAR(m.hd64_factor, 0.8, 1e-9);
    CHECK_NEAR(m.e_att, 1, 1e-9); /* heads of 128: 1e11 */
    CHECK_NEAR(m.window_half, 128, 1e-6);
    CHECK_NEAR(m.mem_bw, 2e10, 1);
    CHECK_NEAR(m.e_m, 0.8, 1e-9);  /* rows and copies at 1.6e10 */
    CHECK_NEAR(m.e_w, 0.5, 1e-9);  /* 0.2 ms of rounds are not reading: 1e10 */
    CHECK_NEAR(m.e_kv, 0.5, 1e-9); /* 4e7 in 4 ms */
    CHECK_NEAR(m.t_layer, 5e-6, 1e-12);
    CHECK_NEAR(m.t_step, 20e-6, 1e-12);
    CHECK_NEAR(m.t_launch, 4e-6, 1e-12);
    CHECK_NEAR(m.band_prefill, 0.15, 1e-12);
}

/* With heads of 128 or more the other size is the one of 64; and noise that would bring a
 * negative constant brings 0. */
static void constants_are_clamped(void **state)
{
    (void)state;
    const bench_task product = took(1e9, 0.01), near = took(1e9, 0.01), far = took(1e9, 0.02),
                     other = took(1e9, 0.04), windowed = took(1e9, 0.001),
                     memory = took(1e9, 0.1), shallow = took(1, 9e-6), deep = took(1, 2e-6);
    const bench_times t = {.product = {&product, &product, &product, &product},
                           .near = &near,
                           .far = &far,
                           .other = &other,
                           .windowed = &windowed,
                           .rows = &memory,
                           .read = &memory,
                           .copy = &memory,
                           .weights = &product,
                           .kv = &memory,
                           .shallow = &shallow,
                           .deep = &deep,
                           .launch = &shallow,
                           .near_tokens = 512,
                           .far_tokens = 4096,
                           .window = 512,
                           .shallow_layers = 2,
                           .deep_layers = 10,
                           .act_bytes = 4};
    const kvt_geometry g = {.head_dim = 128};
    kvt_machine m;
    memset(&m, 0, sizeof m);
    bench_fields(&m, &t, &g);
    CHECK_NEAR(m.n_half, 0, 0);
    CHECK_NEAR(m.e_att, 0.5, 1e-9);       /* the long one's rate */
    CHECK_NEAR(m.hd64_factor, 0.5, 1e-9); /* 2.5e10 of 5e10 */
    CHECK_NEAR(m.window_half, 0, 0);
    CHECK_NEAR(m.e_w, 1, 0); /* ten times mem_bw: no share of it is above 1 */
    CHECK_NEAR(m.t_layer, 0, 0);
    CHECK_NEAR(m.t_step, 9e-6, 1e-15);
}

/* ---- a tiny model --------------------------------------------------------------------------
 */

static void machine_reads_back(void **state)
{
    kvt_err err;
    kvt_machine m, back;
    kvt_bench_row row[KVT_BENCH_ROWS_MAX];
    int n;
    const kvt_ctx ctx = {.n_thread = 2};
    const char *path = folder_path("here.json");
    (void)state;
    CHECK_OK(kvt_bench_machine(&m, row, &n, &(kvt_bench_spec){-1, QUICK, model}, &ctx, &err),
             &err);
    check_machine(&m);
    check_rows(row, n);
    assert_string_equal(m.name, "here");
    CHECK_NEAR(m.peak_flops_16, 0, 0); /* activations are f32 */
    assert_true(m.mem_bytes > 1e8);
    CHECK_NEAR(m.range_head_dim, (double)kvt_model_geometry(model)->head_dim, 0);
    CHECK_OK(kvt_machine_save(&m, path, &err), &err);
    CHECK_OK(kvt_machine_find(&back, path, &err), &err);
    assert_string_equal(back.calibrated_on, m.calibrated_on);
    for (int i = 0; i < KVT_MACHINE_N; i++) {
        CHECK_NEAR(field_of(&back, i), field_of(&m, i), 0);
        assert_int_equal(back.origin[i], m.origin[i]);
    }
}

static void shapes_without_a_model(void **state)
{
    kvt_err err;
    kvt_machine m;
    kvt_bench_row row[KVT_BENCH_ROWS_MAX];
    int n;
    const kvt_ctx ctx = {.n_thread = 2};
    (void)state;
    CHECK_OK(kvt_bench_machine(&m, row, &n, &(kvt_bench_spec){-1, QUICK, NULL}, &ctx, &err),
             &err);
    check_machine(&m);
    check_rows(row, n);
    CHECK_NEAR(m.range_head_dim, 64, 0);
}

static void passes_are_predicted(void **state)
{
    kvt_err err;
    kvt_machine m;
    kvt_bench_row row[KVT_BENCH_ROWS_MAX];
    kvt_bench_point p[8];
    const kvt_ctx ctx = {.n_thread = 2};
    const int64_t length[] = {16, 40, 1 << 20}; /* the last one beyond any context */
    int n;
    (void)state;
    CHECK_OK(kvt_bench_machine(&m, row, &n, &(kvt_bench_spec){-1, QUICK, model}, &ctx, &err),
             &err);
    CHECK_OK(kvt_bench_model(p, 8, &n, model, &m, length, 3, &ctx, &err), &err);
    assert_int_equal(n, 4);
    for (int i = 0; i < n; i++) {
        assert_string_equal(p[i].quantity, i < 2 ? "prefill" : "decode");
        assert_true(isfinite(p[i].predicted_s) && p[i].predicted_s > 0);
        assert_true(isfinite(p[i].measured_s) && p[i].measured_s > 0);
        CHECK_NEAR(p[i].error_frac, p[i].predicted_s / p[i].measured_s - 1, 1e-12);
        assert_true(p[i].band.lo > 0 && p[i].band.hi > 0);
    }
    assert_int_equal(p[0].tokens, 16);
    assert_int_equal(p[1].tokens, 40);
    assert_true(p[2].tokens > 16 && p[3].tokens > 40);
    assert_true(p[1].predicted_s >= p[0].predicted_s); /* equal: calls of the threads */
    assert_true(p[3].predicted_s > p[2].predicted_s);
    CHECK_OK(kvt_bench_model(p, 3, &n, model, &m, length, 2, &ctx, &err), &err);
    assert_int_equal(n, 2); /* room for one length */
    CHECK_FAILS(kvt_bench_model(p, 8, &n, model, &m, length + 2, 1, &ctx, &err), KVT_USAGE,
                "no prompt length fits", &err);
    assert_int_equal(n, 0);
}

/* Every byte of a step's weights and of its f32 keys and values is in its prediction. */
static void a_step_is_bytes(void **state)
{
    kvt_err err;
    kvt_machine m = {.mem_bw = 1e6,
                     .e_w = 1,
                     .e_kv = 1,
                     .peak_flops_32 = 1e18,
                     .e_lin = 1,
                     .e_att = 1,
                     .hd64_factor = 1,
                     .e_m = 1,
                     .cache_gain = 1,
                     .kv_traffic = 1};
    const kvt_geometry *g = kvt_model_geometry(model);
    const kvt_ctx ctx = {.n_thread = 1};
    kvt_bench_point p[2];
    int64_t layers, head, all, length = 16;
    int n;
    (void)state;
    kvt_model_bytes(model, &layers, &head, &all);
    int64_t matrices =
        g->n_layer * g->n_hidden *
        (2 * g->n_head * g->head_dim + 2 * g->n_kv_head * g->head_dim + 3 * g->n_ff);
    assert_int_equal(layers, 4 * matrices); /* the tiny model is f32 */
    assert_int_equal(head, 4 * g->n_vocab * g->n_hidden);
    assert_true(all > layers + head && all < layers + 2 * head + 65536);
    CHECK_OK(kvt_bench_model(p, 2, &n, model, &m, &length, 1, &ctx, &err), &err);
    double kv = (double)(p[1].tokens * g->n_layer * g->n_kv_head * 2 * g->head_dim * 4);
    CHECK_NEAR(p[1].predicted_s, ((double)(layers + head) + kv) / 1e6, 1e-9);
}

/* ---- a device ------------------------------------------------------------------------------
 */

static void a_device_is_measured(void **state)
{
    kvt_err err;
    kvt_device *d;
    kvt_machine m;
    kvt_bench_row row[KVT_BENCH_ROWS_MAX];
    int n;
    const kvt_ctx ctx = {.n_thread = 1};
    (void)state;
    memset(&m, 0, sizeof m);
    CHECK_OK(device_open_host(&d, &err), &err);
    const bench_case c = {.backend = model_backend(model),
                          .weights = model_weights(model),
                          .g = kvt_model_geometry(model),
                          .ctx = &ctx,
                          .n_thread = 1,
                          .seconds = 1e-6};
    CHECK_OK(bench_measure(&m, row, &n, &c, d, &err), &err);
    check_machine(&m);
    check_rows(row, n);
    assert_true(m.launches_layer > 14);
    assert_int_equal(d->taken, 0); /* all of its memory is given back */
    d->close(d);
}

static void no_gpu_is_an_error(void **state)
{
    kvt_err err;
    kvt_machine m;
    kvt_bench_row row[KVT_BENCH_ROWS_MAX];
    int n = 9;
    const kvt_ctx ctx = {0};
    (void)state;
    CHECK_FAILS(
        kvt_bench_machine(&m, row, &n, &(kvt_bench_spec){4095, QUICK, NULL}, &ctx, &err),
        KVT_DEVICE, "cuda:4095", &err);
    assert_int_equal(n, 0);
}

/* ---- what cannot be ------------------------------------------------------------------------
 */

static bool stop(void *user, const char *what, int64_t done, int64_t total)
{
    (void)what;
    (void)done;
    (void)total;
    return --*(int *)user > 0;
}

static void stops_and_headers(void **state)
{
    kvt_err err;
    kvt_machine m;
    kvt_bench_row row[KVT_BENCH_ROWS_MAX];
    kvt_model *header;
    kvt_bench_point p[2];
    int n, left = 3;
    int64_t length = 16;
    const kvt_ctx ctx = {.progress = stop, .user = &left}, plain = {0};
    (void)state;
    CHECK_FAILS(kvt_bench_machine(&m, row, &n, &(kvt_bench_spec){-1, QUICK, model}, &ctx, &err),
                KVT_STOPPED, NULL, &err);
    assert_int_equal(n, 0);
    CHECK_OK(kvt_model_open(&header, model_file,
                            &(kvt_model_options){.device = "cpu", .header_only = true}, &plain,
                            &err),
             &err);
    CHECK_FAILS(
        kvt_bench_machine(&m, row, &n, &(kvt_bench_spec){-1, QUICK, header}, &plain, &err),
        KVT_USAGE, "needs its weights", &err);
    CHECK_FAILS(kvt_bench_model(p, 2, &n, header, &m, &length, 1, &plain, &err), KVT_USAGE,
                "needs its weights", &err);
    kvt_model_close(header);
}

static void memory_may_end(void **state)
{
    kvt_err err;
    kvt_machine m;
    kvt_bench_row row[KVT_BENCH_ROWS_MAX];
    int n;
    const kvt_ctx ctx = {.n_thread = 1};
    (void)state;
    for (int64_t at = 1; at <= 30; at++) {
        kvt_alloc_fail_at(at, true);
        kvt_code code =
            kvt_bench_machine(&m, row, &n, &(kvt_bench_spec){-1, QUICK, model}, &ctx, &err);
        kvt_alloc_fail_at(0, false);
        if (code != KVT_NOMEM)
            fail_msg("allocation %d: expected NOMEM, got %s", (int)at, kvt_code_name(code));
        assert_int_equal(n, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constants_come_out),   cmocka_unit_test(constants_are_clamped),
        cmocka_unit_test(machine_reads_back),   cmocka_unit_test(shapes_without_a_model),
        cmocka_unit_test(passes_are_predicted), cmocka_unit_test(a_step_is_bytes),
        cmocka_unit_test(a_device_is_measured), cmocka_unit_test(no_gpu_is_an_error),
        cmocka_unit_test(stops_and_headers),    cmocka_unit_test(memory_may_end)};
    kvt_err err;
    model_make_options o = model_make_defaults();
    o.n_context = 128;
    folder_new();
    snprintf(model_file, sizeof model_file, "%s", folder_path("tiny.gguf"));
    if (!model_make_gguf(model_file, &o) ||
        kvt_model_open(&model, model_file, &(kvt_model_options){.device = "cpu"}, NULL, &err))
        return 1;
    int failed = CHECK_RUN("cost_bench", tests, CHECK_COUNT(tests));
    kvt_model_close(model);
    folder_end();
    return failed;
}
