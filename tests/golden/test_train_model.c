/* test_train_model.c - training at full size: the gradient in float against a difference of the
 * loss along it, the rows' attention against that of a probe with the same adapter (the other
 * implementation of the same rows), B = 0 against the frozen model, and a loss that falls.
 * Skipped without the model. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/rng.h"
#include "capture/model.h"
#include "capture/probe.h"
#include "kvt/arena.h"
#include "tests/check.h"
#include "tests/folder.h"
#include "tests/model_path.h"
#include "train/lookahead_train.h"

enum { TOKENS = 8, RANK = 2, ALL = (1 << ADAPTER_MAPS) - 1 };

static kvt_model *model;
static const kvt_geometry *g;
static kvt_ctx ctx;
static kvt_err err;
static char path[1024];
static look_layer layer[KVT_LAYERS_MAX];
static look_layout layout;
static look_pass *pass;
static look_data data;
static float *param, *grad;

static void capture(void)
{
    kvt_capture_spec spec;
    kvt_capture_counts counts;
    kvt_capture_defaults(&spec);
    spec.prompt =
        "The lamp of the light house on the cape was trimmed every day by two keepers, "
        "who wrote down the ships that passed, the weather, and the oil that was left. "
        "On the third day of the month they counted eleven ships and a whale. What "
        "did the keepers write down?";
    spec.out = path;
    spec.level = KVT_TRAIN;
    spec.delay = 16;
    spec.max_new = 16;
    assert_int_equal(kvt_capture(model, &spec, &counts, &ctx, &err), KVT_OK);
}

static void read_trace(void)
{
    kvt_trace *t;
    train_trace trace;
    static const lookahead_params params = {.target = LOOK_TARGET_MEAN};
    look_run run = {.geometry = g, .params = &params};
    assert_int_equal(kvt_trace_open(&t, path, 0, &err), KVT_OK);
    const kvt_trace_info *i = kvt_trace_info_of(t);
    memset(&trace, 0, sizeof trace);
    snprintf(trace.path, sizeof trace.path, "%s", path);
    snprintf(trace.digest, sizeof trace.digest, "%s", i->digest);
    trace.n_prompt = i->facts.token.n_prompt;
    kvt_trace_close(t);
    assert_int_equal(look_data_new(&data, &run, trace.n_prompt, &err), KVT_OK);
    assert_int_equal(look_data_read(&data, &run, &trace, true, &err), KVT_OK);
}

/* Embeddings of some tokens, and a LoRA that is at work. */
static void make_param(void)
{
    const kvt_weights *w = model_weights(model);
    uint64_t rng[RNG_WORDS];
    rng_init(rng, "train model", 11);
    for (int64_t i = 0; i < layout.n_param; i++)
        param[i] = (float)(0.04 * (rng_real(rng) - 0.5));
    for (int64_t i = 0; i < TOKENS; i++)
        memcpy(param + i * g->n_hidden,
               matrix_floats(&w->embed) + (1000 + 37 * i) * g->n_hidden,
               (size_t)g->n_hidden * sizeof *param);
}

static int setup(void **state)
{
    (void)state;
    const kvt_weights *w = model_weights(model);
    g = kvt_model_geometry(model);
    for (int i = 0; i < g->n_layer; i++) {
        const kvt_weights_layer *l = &w->layer[i];
        layer[i] = (look_layer){.attn_norm = l->attn_norm,
                                .ffn_norm = l->ffn_norm,
                                .w = {matrix_floats(&l->wq), matrix_floats(&l->wk),
                                      matrix_floats(&l->wv), matrix_floats(&l->wo),
                                      matrix_floats(&l->gate), matrix_floats(&l->up),
                                      matrix_floats(&l->down)}};
    }
    snprintf(path, sizeof path, "%s", folder_path("t.h5"));
    capture();
    read_trace();
    look_layout_of(&layout, g, TOKENS, RANK, ALL, 4);
    look_room room = {.n_sample = 1, .n_prompt = data.cap, .n_thread = kvt_threads(&ctx)};
    look_model m = {.geometry = g, .layer = layer};
    param = kvt_alloc(layout.n_param, sizeof *param);
    grad = kvt_alloc(layout.n_param, sizeof *grad);
    return look_new(&pass, &m, &layout, &room, &err) || !param || !grad;
}

static int teardown(void **state)
{
    (void)state;
    look_free(pass);
    look_data_free(&data);
    kvt_free(param);
    kvt_free(grad);
    return 0;
}

static double loss_at(const float *x, float *d)
{
    double loss = look_forward(pass, &data.sample, 1, x, 1, NULL);
    if (d) {
        memset(d, 0, (size_t)layout.n_param * sizeof *d);
        look_backward(pass, x, d);
    }
    return loss;
}

static void test_direction(void **state)
{
    (void)state;
    make_param();
    loss_at(param, grad);
    float *x = kvt_alloc(layout.n_param, sizeof *x);
    double square = 0, at[2];
    for (int64_t i = 0; i < layout.n_param; i++)
        square += (double)grad[i] * (double)grad[i];
    double norm = sqrt(square), h = 2e-3; /* along the gradient's direction */
    for (int side = 0; side < 2; side++) {
        for (int64_t i = 0; i < layout.n_param; i++)
            x[i] = param[i] + (float)((side ? h : -h) / norm) * grad[i];
        at[side] = loss_at(x, NULL);
    }
    double by_h = (at[1] - at[0]) / (2 * h);
    if (!(fabs(by_h - norm) <= 1e-2 * norm))
        fail_msg("slope %g, the gradient says %g", by_h, norm);
    kvt_free(x);
}

/* Mean attention of the probe's rows, from its queries and lse and the stored keys. */
static void probe_mass(const probe_out *o, int l, int64_t h, float *mass)
{
    int64_t d = g->head_dim, n = data.sample.n_prompt, kv = h / (g->n_head / g->n_kv_head);
    const uint16_t *k = data.k + (l * g->n_kv_head + kv) * n * d,
                   *q = o->q + (l * g->n_head + h) * o->n_row * d;
    for (int64_t j = 0; j < n; j++) {
        double sum = 0;
        for (int64_t i = 0; i < o->n_row; i++) {
            double z = 0;
            for (int64_t c = 0; c < d; c++)
                z += (double)half_to_float(q[i * d + c]) * (double)half_to_float(k[j * d + c]);
            sum += exp(z * g->attn_scale - (double)o->lse[(l * g->n_head + h) * o->n_row + i]);
        }
        mass[j] = (float)(sum / (double)o->n_row);
    }
}

/* The rows by the engine, on the stored prompt; adapter: with the LoRA of param. */
static void run_probe(probe_out *out, bool with_adapter)
{
    static adapter_map maps[KVT_LAYERS_MAX][ADAPTER_MAPS];
    kvt_trace *t;
    kvt_prompt prompt;
    for (int l = 0; l < g->n_layer; l++)
        for (int m = 0; m < ADAPTER_MAPS; m++)
            if (layout.a[l][m] >= 0)
                maps[l][m] = (adapter_map){param + layout.a[l][m], param + layout.b[l][m]};
    adapter a = {.n_token = TOKENS,
                 .rank = RANK,
                 .alpha = layout.scale * RANK,
                 .token = param,
                 .layer = maps,
                 .n_layer = (int)g->n_layer};
    assert_int_equal(kvt_trace_open(&t, path, 0, &err), KVT_OK);
    assert_int_equal(probe_prompt_open(&prompt, t, &err), KVT_OK);
    probe_pass p = {.prompt = &prompt,
                    .weights = model_weights(model),
                    .backend = model_backend(model),
                    .ctx = &ctx,
                    .n_row = TOKENS,
                    .embed = param,
                    .adapter = with_adapter ? &a : NULL};
    assert_int_equal(probe_run(out, &p, false, &err), KVT_OK);
    probe_prompt_close(&prompt);
    kvt_trace_close(t);
}

static void test_probe(void **state)
{
    (void)state;
    probe_out out;
    make_param();
    run_probe(&out, true);
    loss_at(param, NULL);
    float mine[1024], its[1024];
    assert_true(data.sample.n_prompt <= 1024);
    for (int l = 0; l < g->n_layer; l++)
        for (int64_t h = 0; h < g->n_head; h++) {
            double apart = 0;
            look_mass(pass, l, 0, h, mine);
            probe_mass(&out, l, h, its);
            for (int64_t j = 0; j < data.sample.n_prompt; j++)
                apart += fabs((double)mine[j] - (double)its[j]);
            if (!(apart <= 5e-3)) /* queries are stored as halves */
                fail_msg("layer %d, head %lld: masses differ by %g", l, (long long)h, apart);
        }
    probe_out_free(&out);
}

static void same_bytes(const probe_out *a, const probe_out *b)
{
    int64_t rows = a->n_row * g->n_layer * g->n_head, own = a->n_row * g->n_layer;
    assert_int_equal(a->n_row, b->n_row);
    assert_memory_equal(a->q, b->q, (size_t)(rows * g->head_dim) * sizeof *a->q);
    assert_memory_equal(a->k, b->k, (size_t)(own * g->n_kv_head * g->head_dim) * sizeof *a->k);
    assert_memory_equal(a->lse, b->lse, (size_t)rows * sizeof *a->lse);
}

/* B = 0 is the frozen model bit for bit: in the trainer's rows, whose layout has no LoRA else,
 * and in the engine's. */
static void test_begin(void **state)
{
    (void)state;
    look_layout bare;
    look_pass *without;
    look_model m = {.geometry = g, .layer = layer};
    look_room room = {.n_sample = 1, .n_prompt = data.cap, .n_thread = kvt_threads(&ctx)};
    probe_out zero, plain;
    float with[1024], base[1024];
    make_param();
    for (int l = 0; l < g->n_layer; l++)
        for (int k = 0; k < ADAPTER_MAPS; k++) {
            int64_t in, out;
            adapter_map_shape(g, (adapter_map_id)k, &in, &out);
            if (layout.b[l][k] >= 0)
                memset(param + layout.b[l][k], 0, (size_t)(RANK * out) * sizeof *param);
        }
    look_layout_of(&bare, g, TOKENS, 0, 0, 4);
    assert_int_equal(look_new(&without, &m, &bare, &room, &err), KVT_OK);
    double loss = look_forward(without, &data.sample, 1, param, 1, NULL);
    assert_true(loss == loss_at(param, NULL));
    for (int l = 0; l < g->n_layer; l++)
        for (int64_t h = 0; h < g->n_head; h++) {
            look_mass(pass, l, 0, h, with);
            look_mass(without, l, 0, h, base);
            assert_memory_equal(with, base, (size_t)data.sample.n_prompt * sizeof *with);
        }
    look_free(without);
    run_probe(&zero, true);
    run_probe(&plain, false);
    same_bytes(&zero, &plain);
    probe_out_free(&zero);
    probe_out_free(&plain);
}

static void test_descent(void **state)
{
    (void)state;
    make_param();
    double before = loss_at(param, grad);
    for (int step = 0; step < 11; step++) {
        for (int64_t i = 0; i < layout.n_param; i++)
            param[i] -= 1e-3f * grad[i];
        double loss = loss_at(param, grad);
        if (!(loss < before))
            fail_msg("step %d: %g, then %g", step, before, loss);
        before = loss;
    }
}

int main(void)
{
    char file[1024];
    if (!model_path(file, sizeof file))
        return TEST_SKIPPED;
    if (kvt_model_open(&model, file, &(kvt_model_options){.f32 = true}, &ctx, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_direction),
        cmocka_unit_test(test_probe),
        cmocka_unit_test(test_begin),
        cmocka_unit_test(test_descent),
    };
    folder_new();
    int failed = cmocka_run_group_tests(tests, setup, teardown);
    folder_end();
    kvt_model_close(model);
    return failed;
}
