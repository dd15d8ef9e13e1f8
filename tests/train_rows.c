/* train_rows.c - the trainer's rows beside a probe's and the response's (tests/train_rows.h).
 */
#include "tests/train_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/half.h"
#include "base/rng.h"
#include "capture/model.h"
#include "capture/probe.h"
#include "tests/check.h"
#include "train/lookahead_train.h"

enum { TOKENS = 8, RANK = 2, ALL = (1 << ADAPTER_MAPS) - 1, RESPONSE_MAX = 64 };

struct train_rows {
    kvt_model *model;
    const kvt_geometry *g;
    kvt_ctx ctx;
    kvt_err err;
    const char *path;
    double size;
    look_layer layer[KVT_LAYERS_MAX];
    look_model frozen;
    look_layout layout;
    look_pass *pass;
    look_data data;
    float *param, *grad; /* [n_param] */
    float *one, *two;    /* [N] */
    int32_t id[RESPONSE_MAX];
    int64_t n_response;
};

static void *get(int64_t n, size_t size)
{
    void *out = calloc((size_t)n, size);
    assert_non_null(out);
    return out;
}

static void read_trace(train_rows *r)
{
    kvt_trace *t;
    kvt_view id;
    static const lookahead_params params = {.target = LOOK_TARGET_MEAN};
    look_run run = {.geometry = r->g, .params = &params};
    train_trace *trace = get(1, sizeof *trace);
    CHECK_OK(kvt_trace_open(&t, r->path, 0, &r->err), &r->err);
    const kvt_trace_info *i = kvt_trace_info_of(t);
    snprintf(trace->path, sizeof trace->path, "%s", r->path);
    snprintf(trace->digest, sizeof trace->digest, "%s", i->digest);
    trace->n_prompt = i->facts.token.n_prompt;
    CHECK_OK(kvt_trace_read(t, KVT_DS_TOKEN_ID, 0, &id, &r->err), &r->err);
    r->n_response = i->facts.token.n_response;
    assert_in_range(r->n_response, 1, RESPONSE_MAX);
    memcpy(r->id, (const int32_t *)id.data + trace->n_prompt,
           (size_t)r->n_response * sizeof *r->id);
    kvt_trace_close(t);
    CHECK_OK(look_data_new(&r->data, &run, trace->n_prompt, &r->err), &r->err);
    CHECK_OK(look_data_read(&r->data, &run, trace, true, &r->err), &r->err);
    free(trace);
}

static look_pass *pass_of(train_rows *r, const look_layout *l)
{
    look_pass *out;
    look_room room = {.n_sample = 1, .n_prompt = r->data.cap, .n_thread = kvt_threads(&r->ctx)};
    CHECK_OK(look_new(&out, &r->frozen, l, &room, &r->err), &r->err);
    return out;
}

train_rows *train_rows_open(kvt_model *model, const char *trace, double size)
{
    train_rows *r = get(1, sizeof *r);
    r->model = model;
    r->g = kvt_model_geometry(model);
    r->path = trace;
    r->size = size;
    look_model_of(&r->frozen, r->layer, model_weights(model));
    read_trace(r);
    look_layout_of(&r->layout, r->g, TOKENS, RANK, ALL, 4);
    r->pass = pass_of(r, &r->layout);
    r->param = get(r->layout.n_param, sizeof *r->param);
    r->grad = get(r->layout.n_param, sizeof *r->grad);
    r->one = get(r->data.cap, sizeof *r->one);
    r->two = get(r->data.cap, sizeof *r->two);
    return r;
}

void train_rows_close(train_rows *r)
{
    look_free(r->pass);
    look_data_free(&r->data);
    free(r->param);
    free(r->grad);
    free(r->one);
    free(r->two);
    free(r);
}

static void embed(const train_rows *r, const int32_t *id, int64_t n, float *out)
{
    int64_t e = r->g->n_hidden;
    const float *table = matrix_floats(&model_weights(r->model)->embed);
    for (int64_t i = 0; i < n * e; i++)
        out[i] = table[id[i / e] * e + i % e] * (float)r->g->embed_scale;
}

static void some_ids(const train_rows *r, int32_t *id, int64_t n)
{
    for (int i = 0; i < n; i++)
        id[i] = (int32_t)((1000 + 37 * i) % r->g->n_vocab);
}

/* Embeddings of some tokens, and a LoRA that is at work. */
static void make_param(train_rows *r)
{
    uint64_t rng[RNG_WORDS];
    int32_t id[TOKENS];
    rng_init(rng, "train model", 11);
    for (int64_t i = 0; i < r->layout.n_param; i++)
        r->param[i] = (float)(r->size * (rng_real(rng) - 0.5));
    some_ids(r, id, TOKENS);
    embed(r, id, TOKENS, r->param);
}

static double loss_at(train_rows *r, const float *x, float *d)
{
    double loss = look_forward(r->pass, &r->data.sample, 1, x, 1, NULL);
    if (d) {
        memset(d, 0, (size_t)r->layout.n_param * sizeof *d);
        look_backward(r->pass, x, d);
    }
    return loss;
}

static double square(const train_rows *r)
{
    double sum = 0;
    for (int64_t i = 0; i < r->layout.n_param; i++)
        sum += (double)r->grad[i] * (double)r->grad[i];
    return sum;
}

void train_rows_direction(train_rows *r)
{
    const double h = 2e-3; /* along the gradient's direction */
    double at[2];
    make_param(r);
    loss_at(r, r->param, r->grad);
    double norm = sqrt(square(r));
    float *x = get(r->layout.n_param, sizeof *x);
    for (int side = 0; side < 2; side++) {
        for (int64_t i = 0; i < r->layout.n_param; i++)
            x[i] = r->param[i] + (float)((side ? h : -h) / norm) * r->grad[i];
        at[side] = loss_at(r, x, NULL);
    }
    free(x);
    double by_h = (at[1] - at[0]) / (2 * h);
    if (!(fabs(by_h - norm) <= 1e-2 * norm))
        fail_msg("slope %g, the gradient says %g", by_h, norm);
}

/* ---- beside a probe ------------------------------------------------------------------------
 */

/* Mean attention of the probe's rows, from its queries and lse and the stored keys. */
static void probe_mass(const train_rows *r, const probe_out *o, int l, int64_t h, float *mass)
{
    const kvt_geometry *g = r->g;
    int64_t d = g->head_dim, n = r->data.sample.n_prompt, kv = h / (g->n_head / g->n_kv_head);
    const uint16_t *k = r->data.k + (l * g->n_kv_head + kv) * n * d,
                   *q = o->q + (l * g->n_head + h) * o->n_row * d;
    for (int64_t j = 0; j < n; j++) {
        double sum = 0;
        for (int64_t i = 0; i < o->n_row; i++) {
            double z = 0;
            if (!kvt_geometry_sees(g, l, n + i, j))
                continue;
            for (int64_t c = 0; c < d; c++)
                z += (double)half_to_float(q[i * d + c]) * (double)half_to_float(k[j * d + c]);
            sum += exp(z * g->attn_scale - (double)o->lse[(l * g->n_head + h) * o->n_row + i]);
        }
        mass[j] = (float)(sum / (double)o->n_row);
    }
}

/* The rows by the engine, on the stored prompt; ids, or the embeddings of param; adapter: with
 * its LoRA. */
static void run_probe(train_rows *r, probe_out *out, const int32_t *id, bool with_adapter)
{
    static adapter_map maps[KVT_LAYERS_MAX][ADAPTER_MAPS];
    kvt_trace *t;
    kvt_prompt prompt;
    memset(maps, 0, sizeof maps);
    for (int l = 0; l < r->g->n_layer; l++)
        for (int m = 0; m < ADAPTER_MAPS; m++)
            if (r->layout.a[l][m] >= 0)
                maps[l][m] =
                    (adapter_map){r->param + r->layout.a[l][m], r->param + r->layout.b[l][m]};
    adapter a = {.n_token = TOKENS,
                 .rank = RANK,
                 .alpha = r->layout.scale * RANK,
                 .token = r->param,
                 .layer = maps,
                 .n_layer = (int)r->g->n_layer};
    CHECK_OK(kvt_trace_open(&t, r->path, 0, &r->err), &r->err);
    CHECK_OK(probe_prompt_open(&prompt, t, &r->err), &r->err);
    probe_pass p = {.prompt = &prompt,
                    .weights = model_weights(r->model),
                    .backend = model_backend(r->model),
                    .ctx = &r->ctx,
                    .n_row = TOKENS,
                    .id = id,
                    .embed = id ? NULL : r->param,
                    .adapter = with_adapter ? &a : NULL};
    CHECK_OK(probe_run(out, &p, false, &r->err), &r->err);
    probe_prompt_close(&prompt);
    kvt_trace_close(t);
}

static double apart(const float *a, const float *b, int64_t n)
{
    double sum = 0;
    for (int64_t j = 0; j < n; j++)
        sum += fabs((double)a[j] - (double)b[j]);
    return sum;
}

void train_rows_probe(train_rows *r)
{
    probe_out out, plain;
    make_param(r);
    run_probe(r, &out, NULL, true);
    run_probe(r, &plain, NULL, false);
    loss_at(r, r->param, NULL);
    double most = 0, of_lora = 0;
    for (int l = 0; l < r->g->n_layer; l++)
        for (int64_t h = 0; h < r->g->n_head; h++) {
            look_mass(r->pass, l, 0, h, r->one);
            probe_mass(r, &out, l, h, r->two);
            most = fmax(most, apart(r->one, r->two, r->data.sample.n_prompt));
            probe_mass(r, &plain, l, h, r->two);
            of_lora = fmax(of_lora, apart(r->one, r->two, r->data.sample.n_prompt));
        }
    if (!(most <= 5e-3))
        fail_msg("masses of a layer differ by %g from the probe's", most);
    if (!(of_lora > 4 * most))
        fail_msg("the LoRA moves masses by %g, beside a difference of %g", of_lora, most);
    probe_out_free(&out);
    probe_out_free(&plain);
}

static void same_bytes(const train_rows *r, const probe_out *a, const probe_out *b)
{
    int64_t d = r->g->head_dim, own = a->n_row * r->g->n_layer, rows = own * r->g->n_head;
    assert_int_equal(a->n_row, b->n_row);
    assert_memory_equal(a->q, b->q, (size_t)(rows * d) * sizeof *a->q);
    assert_memory_equal(a->k, b->k, (size_t)(own * r->g->n_kv_head * d) * sizeof *a->k);
    assert_memory_equal(a->lse, b->lse, (size_t)rows * sizeof *a->lse);
}

static void without_b(train_rows *r)
{
    make_param(r);
    for (int l = 0; l < r->g->n_layer; l++)
        for (int m = 0; m < ADAPTER_MAPS; m++) {
            int64_t in, out;
            adapter_map_shape(r->g, (adapter_map_id)m, &in, &out);
            if (r->layout.b[l][m] >= 0)
                memset(r->param + r->layout.b[l][m], 0,
                       (size_t)(RANK * out) * sizeof *r->param);
        }
}

void train_rows_begin(train_rows *r)
{
    look_layout bare;
    probe_out zero, plain, tokens;
    int32_t id[TOKENS];
    without_b(r);
    look_layout_of(&bare, r->g, TOKENS, 0, 0, 4);
    look_pass *without = pass_of(r, &bare);
    double loss = look_forward(without, &r->data.sample, 1, r->param, 1, NULL);
    assert_true(loss == loss_at(r, r->param, NULL));
    for (int l = 0; l < r->g->n_layer; l++)
        for (int64_t h = 0; h < r->g->n_head; h++) {
            look_mass(r->pass, l, 0, h, r->one);
            look_mass(without, l, 0, h, r->two);
            assert_memory_equal(r->one, r->two,
                                (size_t)r->data.sample.n_prompt * sizeof *r->one);
        }
    look_free(without);
    some_ids(r, id, TOKENS);
    run_probe(r, &zero, NULL, true);
    run_probe(r, &plain, NULL, false);
    run_probe(r, &tokens, id, false);
    same_bytes(r, &zero, &plain);
    same_bytes(r, &tokens, &plain);
    probe_out_free(&zero);
    probe_out_free(&plain);
    probe_out_free(&tokens);
}

void train_rows_response(train_rows *r, double limit)
{
    look_layout l;
    look_layout_of(&l, r->g, r->n_response, 0, 0, 1);
    look_pass *pass = pass_of(r, &l);
    float *x = get(l.n_param, sizeof *x);
    embed(r, r->id, r->n_response, x);
    double loss = look_forward(pass, &r->data.sample, 1, x, 1, NULL), far;
    some_ids(r, r->id, r->n_response);
    embed(r, r->id, r->n_response, x);
    far = look_forward(pass, &r->data.sample, 1, x, 1, NULL);
    print_message("%s: loss %g of the response, %g of other tokens\n", r->g->arch, loss, far);
    if (!(loss <= limit && far > 10 * limit))
        fail_msg("the response's own tokens lose %g, others %g", loss, far);
    look_free(pass);
    free(x);
}

void train_rows_descent(train_rows *r, double share)
{
    make_param(r);
    double before = loss_at(r, r->param, r->grad);
    for (int step = 0; step < 11; step++) {
        float rate = (float)(share * before / square(r));
        for (int64_t i = 0; i < r->layout.n_param; i++)
            r->param[i] -= rate * r->grad[i];
        double loss = loss_at(r, r->param, r->grad);
        if (!(loss < before))
            fail_msg("step %d: %g, then %g", step, before, loss);
        before = loss;
    }
}
