/* train_toy.c - tests/train_toy.h in both precisions (train/real.h). */
#include "tests/train_toy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"

#define toy_run TRAIN_REAL(toy_train_run)

enum { HIDDEN = 24, FF = 40, KV_HEADS = 2, DIM = 6, SECOND = 11 };

#ifndef TRAIN_DOUBLE
double toy_number(uint32_t k, uint32_t i)
{
    uint32_t h = (i + 1) * 2654435761u + k * 40503u;
    h ^= h >> 16;
    h *= 0x45d9f3bu;
    h ^= h >> 16;
    return (double)h / 4294967296.0 - 0.5;
}

void toy_train_start(double *param, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        param[i] = toy_number(7, (uint32_t)i);
}

const char *const toy_train_names[TOY_ARCHS] = {"qwen2", "qwen3", "gemma3"};

toy_train toy_train_of(int i)
{
    static const toy_train toys[TOY_ARCHS] = {
        {.arch = {.qkv_bias = true}},
        {.arch = {.qk_norm = true}},
        {.arch = {.qk_norm = true, .post_norm = true, .gelu = true},
         .theta_local = 7,
         .window = 9},
    };
    toy_train t = toys[i];
    t.n_sample = 2;
    t.n_thread = 1;
    t.rank = 1;
    t.maps = (1 << ADAPTER_MAPS) - 1;
    return t;
}

void toy_train_geometry(kvt_geometry *out, const toy_train *t)
{
    *out = (kvt_geometry){.n_layer = TOY_LAYERS,
                          .n_head = TOY_HEADS,
                          .n_kv_head = KV_HEADS,
                          .head_dim = DIM,
                          .n_hidden = HIDDEN,
                          .n_ff = FF,
                          .n_vocab = 1,
                          .norm_eps = 1e-5,
                          .attn_scale = 0.40625,
                          .rope_theta_local = t->theta_local,
                          .rope_attn_factor = 1,
                          .embed_scale = 1,
                          .rope_freq = {1, 0.25, 0.0625},
                          .window = {0, t->window, 0}};
}
#endif

static real *filled(uint32_t stream, int64_t n, double factor, double shift)
{
    real *out = calloc((size_t)n, sizeof *out);
    for (int64_t i = 0; i < n; i++)
        out[i] = (real)(toy_number(stream, (uint32_t)i) * factor + shift);
    return out;
}

static void make_layer(look_layer *l, const kvt_geometry *g, const arch *a, uint32_t stream)
{
    *l = (look_layer){.attn_norm = filled(stream, HIDDEN, 0.5, 1),
                      .ffn_norm = filled(stream + 1, HIDDEN, 0.5, 1)};
    for (int m = 0; m < ADAPTER_MAPS; m++) {
        int64_t in, out;
        adapter_map_shape(g, (adapter_map_id)m, &in, &out);
        l->w[m] = filled(stream + 2 + (uint32_t)m, in * out, 0.75, 0);
    }
    if (a->post_norm) {
        l->post_attn_norm = filled(stream + 9, HIDDEN, 0.5, 1);
        l->post_ffn_norm = filled(stream + 10, HIDDEN, 0.5, 1);
    }
    if (a->qk_norm) {
        l->q_norm = filled(stream + 11, DIM, 0.5, 1);
        l->k_norm = filled(stream + 12, DIM, 0.5, 1);
    }
    if (a->qkv_bias) {
        l->bq = filled(stream + 13, TOY_HEADS * DIM, 2, 0);
        l->bk = filled(stream + 14, KV_HEADS * DIM, 2, 0);
        l->bv = filled(stream + 15, KV_HEADS * DIM, 2, 0);
    }
}

static void free_layer(look_layer *l)
{
    const real *const vectors[] = {l->attn_norm,
                                   l->ffn_norm,
                                   l->post_attn_norm,
                                   l->post_ffn_norm,
                                   l->q_norm,
                                   l->k_norm,
                                   l->bq,
                                   l->bk,
                                   l->bv};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        free((void *)(uintptr_t)vectors[i]);
    for (int m = 0; m < ADAPTER_MAPS; m++)
        free((void *)(uintptr_t)l->w[m]);
}

/* Multiples of 1/64 within 4, which are halves. */
static uint16_t *halves(uint32_t stream, int64_t n)
{
    uint16_t *out = calloc((size_t)n, sizeof *out);
    for (int64_t i = 0; i < n; i++)
        out[i] = half_from_float((float)(floor(toy_number(stream, (uint32_t)i) * 256) / 64));
    return out;
}

static float *targets(uint32_t stream, int64_t n)
{
    float *out = calloc((size_t)n, sizeof *out);
    for (int64_t i = 0; i < n; i++)
        out[i] = (float)((floor((toy_number(stream, (uint32_t)i) + 0.5) * 1024) + 1) / 1024);
    return out;
}

static void get_mass(const look_pass *p, const kvt_geometry *g, int64_t n, double *out)
{
    real one[64];
    for (int l = 0; l < g->n_layer; l++)
        for (int64_t h = 0; h < g->n_head; h++) {
            look_mass(p, l, 0, h, one);
            for (int64_t j = 0; j < n; j++)
                out[(l * g->n_head + h) * n + j] = (double)one[j];
        }
}

static double run(look_pass *p, const toy_train *t, const kvt_geometry *g, int64_t n_param,
                  const look_sample *sample, const double *param, double *grad, double *mass)
{
    real *x = calloc((size_t)n_param, sizeof *x), *d = calloc((size_t)n_param, sizeof *d);
    for (int64_t i = 0; i < n_param; i++)
        x[i] = (real)param[i];
    double loss = look_forward(p, sample, t->n_sample, x, 1.0 / t->n_sample, NULL);
    if (mass)
        get_mass(p, g, sample[0].n_prompt, mass);
    if (grad)
        look_backward(p, x, d);
    for (int64_t i = 0; grad && i < n_param; i++)
        grad[i] = (double)d[i];
    free(x);
    free(d);
    return loss;
}

double toy_run(const toy_train *t, const double *param, double *grad, double *mass)
{
    kvt_geometry g;
    look_layer layer[TOY_LAYERS];
    look_layout layout;
    look_sample sample[TOY_SAMPLES];
    look_pass *p;
    kvt_err err;
    double loss = NAN;
    toy_train_geometry(&g, t);
    for (int l = 0; l < TOY_LAYERS; l++)
        make_layer(&layer[l], &g, &t->arch, 100 * (uint32_t)(l + 1));
    for (int s = 0; s < TOY_SAMPLES; s++) {
        int64_t n = s ? SECOND : TOY_PROMPT;
        sample[s] =
            (look_sample){.n_prompt = n,
                          .k = halves(20 + (uint32_t)s, TOY_LAYERS * KV_HEADS * n * DIM),
                          .v = halves(30 + (uint32_t)s, TOY_LAYERS * KV_HEADS * n * DIM),
                          .target = targets(40 + (uint32_t)s, TOY_LAYERS * TOY_HEADS * n)};
    }
    const float *own = sample[0].target;
    if (t->target)
        sample[0].target = t->target;
    look_layout_of(&layout, &g, TOY_TOKENS, t->rank, t->maps, 1.5);
    look_room room = {.n_sample = t->n_sample,
                      .n_prompt = TOY_PROMPT,
                      .n_thread = t->n_thread,
                      .loss = t->mse ? LOOK_MSE : LOOK_KL,
                      .prompt_only = t->prompt_only};
    if (look_new(&p, &(look_model){&g, &t->arch, layer}, &layout, &room, &err) == KVT_OK) {
        loss = run(p, t, &g, layout.n_param, sample, param, grad, mass);
        look_free(p);
    }
    sample[0].target = own;
    for (int s = 0; s < TOY_SAMPLES; s++) {
        free((void *)(uintptr_t)sample[s].k);
        free((void *)(uintptr_t)sample[s].v);
        free((void *)(uintptr_t)sample[s].target);
    }
    for (int l = 0; l < TOY_LAYERS; l++)
        free_layer(&layer[l]);
    return loss;
}
