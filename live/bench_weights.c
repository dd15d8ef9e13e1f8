/* bench_weights.c - weights of a shape, all values alike: times of products depend on shapes
 * and types, not on values. */
#include "live/bench_priv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kvt/arena.h"

enum { ALIGN = 64 };

void bench_default_geometry(kvt_geometry *g)
{
    *g = (kvt_geometry){.name = "smollm2-135m",
                        .arch = "llama",
                        .n_layer = 30,
                        .n_head = 9,
                        .n_kv_head = 3,
                        .head_dim = 64,
                        .n_hidden = 576,
                        .n_ff = 1536,
                        .n_vocab = 49152,
                        .n_context = 8192,
                        .tied = 1,
                        .norm_eps = 1e-5,
                        .attn_scale = 0.125,
                        .embed_scale = 1};
}

void bench_narrow_geometry(kvt_geometry *out, const kvt_geometry *g, int64_t n_layer)
{
    enum { WIDTH = 32, DIM = 16 };
    *out = *g;
    out->n_layer = n_layer;
    out->head_dim = DIM;
    out->n_hidden = out->n_ff = out->n_vocab = WIDTH;
    out->attn_scale = 0.25;
    memset(out->window, 0, sizeof out->window);
}

typedef struct place {
    const bench_weights *b;
    int type;
    int64_t byte, value; /* taken so far */
} place;

static kvt_matrix matrix(place *p, int64_t n_row, int64_t n_col)
{
    const quant_info *q = quant_find(p->type);
    kvt_matrix m = {.type = p->type, .n_row = n_row, .n_col = n_col};
    m.row_bytes = n_col / q->n_weight * q->n_byte;
    if (p->b->bytes)
        m.data = (const char *)p->b->bytes + p->byte;
    p->byte += (n_row * m.row_bytes + ALIGN - 1) / ALIGN * ALIGN;
    return m;
}

static const float *vector(place *p, int64_t n, bool there)
{
    if (!there)
        return NULL;
    const float *out = p->b->vector ? p->b->vector + p->value : NULL;
    p->value += n;
    return out;
}

/* Gives every tensor its place; without memory it only counts. */
static void lay_out(bench_weights *b, place *p)
{
    const kvt_geometry *g = &b->w.geometry;
    const arch *a = b->w.arch;
    int64_t e = g->n_hidden, d = g->head_dim, hd = g->n_head * d, gd = g->n_kv_head * d;
    for (int64_t l = 0; l < g->n_layer; l++) {
        kvt_weights_layer *y = &b->w.layer[l];
        *y = (kvt_weights_layer){.attn_norm = vector(p, e, true),
                                 .ffn_norm = vector(p, e, true),
                                 .post_attn_norm = vector(p, e, a->post_norm),
                                 .post_ffn_norm = vector(p, e, a->post_norm),
                                 .q_norm = vector(p, d, a->qk_norm),
                                 .k_norm = vector(p, d, a->qk_norm),
                                 .bq = vector(p, hd, a->qkv_bias),
                                 .bk = vector(p, gd, a->qkv_bias),
                                 .bv = vector(p, gd, a->qkv_bias)};
        y->wq = matrix(p, hd, e);
        y->wk = matrix(p, gd, e);
        y->wv = matrix(p, gd, e);
        y->wo = matrix(p, e, hd);
        y->gate = matrix(p, g->n_ff, e);
        y->up = matrix(p, g->n_ff, e);
        y->down = matrix(p, e, g->n_ff);
    }
    b->w.out_norm = vector(p, e, true);
    b->w.embed = b->w.lm_head = matrix(p, g->n_vocab, e);
    b->w.bytes = p->byte + p->value * (int64_t)sizeof(float);
}

static void fill(bench_weights *b, const place *p)
{
    float *f = b->bytes;
    if (p->type == QUANT_F32)
        for (int64_t i = 0; i < p->byte / (int64_t)sizeof *f; i++)
            f[i] = 0.01f;
    else
        memset(b->bytes, 0x11, (size_t)p->byte); /* as scales: small normal numbers */
    for (int64_t i = 0; i < p->value; i++)
        b->vector[i] = 1;
}

kvt_code bench_weights_new(bench_weights **out, const kvt_geometry *g, int type, kvt_err *err)
{
    *out = NULL;
    bench_weights *b = kvt_alloc(1, sizeof *b);
    if (!b)
        return kvt_fail_memory(err, sizeof *b);
    place count = {.b = b, .type = type}, p = count;
    b->w.geometry = *g;
    b->w.arch = arch_find(g->arch, strlen(g->arch));
    b->w.layer = kvt_alloc(g->n_layer, sizeof *b->w.layer);
    if (!b->w.arch || !b->w.layer) {
        kvt_code code =
            b->w.arch ? kvt_fail_memory(err, sizeof *b->w.layer)
                      : kvt_fail(err, KVT_USAGE, "architecture '%s' is not known", g->arch);
        bench_weights_free(b);
        return code;
    }
    lay_out(b, &count);
    b->bytes = kvt_alloc(count.byte, 1);
    b->vector = kvt_alloc(count.value, sizeof *b->vector);
    if (!b->bytes || !b->vector) {
        bench_weights_free(b);
        return kvt_fail_memory(err, (size_t)count.byte);
    }
    lay_out(b, &p);
    fill(b, &p);
    *out = b;
    return KVT_OK;
}

void bench_weights_free(bench_weights *b)
{
    if (!b)
        return;
    kvt_free(b->w.layer);
    kvt_free(b->bytes);
    kvt_free(b->vector);
    kvt_free(b);
}
