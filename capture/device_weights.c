/* device_weights.c - from the host's weights to the device's (capture/device_weights.h). */
#include "capture/device_weights.h"

#include <stdio.h>

#include "kvt/arena.h"

enum { ALIGN = 256 };

/* The matrices of a layer, and its vectors with their lengths. */
/* clang-format off */
#define MATRICES(X) X(wq) X(wk) X(wv) X(wo) X(gate) X(up) X(down)
#define VECTORS(X)                                                              \
    X(attn_norm, g->n_hidden) X(ffn_norm, g->n_hidden)                          \
    X(post_attn_norm, g->n_hidden) X(post_ffn_norm, g->n_hidden)                \
    X(q_norm, g->head_dim) X(k_norm, g->head_dim)                               \
    X(bq, g->n_head * g->head_dim)                                              \
    X(bk, g->n_kv_head * g->head_dim) X(bv, g->n_kv_head * g->head_dim)
/* clang-format on */

/* Tensors that go into one piece of device memory, one behind the other: counted first, with
 * `base` NULL, then copied. */
typedef struct load {
    kvt_device *d;
    char *base;
    int64_t used;
    kvt_err *err;
} load;

static const void *place(load *u, const void *from, int64_t bytes)
{
    char *to = u->base ? u->base + u->used : NULL;
    if (!from)
        return NULL;
    u->used += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (to && !u->err->code)
        (void)u->d->upload(u->d, to, from, bytes, u->err); /* the code is in err */
    return to;
}

static void place_matrix(load *u, kvt_matrix *to, const kvt_matrix *from)
{
    *to = *from;
    to->data = place(u, from->data, from->n_row * from->row_bytes);
}

static void place_layer(load *u, kvt_weights_layer *to, const kvt_weights_layer *from,
                        const kvt_geometry *g)
{
#define X(member) place_matrix(u, &to->member, &from->member);
    MATRICES(X)
#undef X
#define X(member, n) to->member = place(u, from->member, (n) * (int64_t)sizeof(float));
    VECTORS(X)
#undef X
}

static void place_rest(load *u, device_weights *w, const kvt_weights *host)
{
    place_matrix(u, &w->embed, &host->embed);
    w->lm_head = w->embed;
    if (host->lm_head.data != host->embed.data)
        place_matrix(u, &w->lm_head, &host->lm_head);
    w->out_norm = place(u, host->out_norm, host->geometry.n_hidden * (int64_t)sizeof(float));
}

static bool has_type(const kvt_weights *w, int type)
{
    bool has = w->embed.type == type || w->lm_head.type == type;
    for (int64_t l = 0; l < w->geometry.n_layer; l++) {
        const kvt_weights_layer *y = &w->layer[l];
#define X(member) has = has || y->member.type == type;
        MATRICES(X)
#undef X
    }
    return has;
}

static int64_t widest_of(const kvt_weights *w, dev_type type)
{
    int64_t most = 0;
    for (int64_t l = 0; l < w->geometry.n_layer; l++) {
        const kvt_weights_layer *y = &w->layer[l];
#define X(member)                                                                         \
    if (y->member.type != device_quant(type) && y->member.n_row * y->member.n_col > most) \
        most = y->member.n_row * y->member.n_col;
        MATRICES(X)
#undef X
    }
    if (!most && w->lm_head.type != device_quant(type)) /* the head goes in pieces */
        most = w->geometry.n_hidden * (w->geometry.n_vocab < 4096 ? w->geometry.n_vocab : 4096);
    return most;
}

void device_weights_plan(device_weights *out, const kvt_weights *host, bool has_bf16)
{
    const kvt_geometry *g = &host->geometry;
    bool gemma = host->arch && host->arch->gelu;
    bool f32 = has_type(host, QUANT_F32), bf16 = gemma || has_type(host, QUANT_BF16);
    *out = (device_weights){.geometry = g, .gelu = gemma, .bytes = host->bytes};
    out->type = f32 || (bf16 && !has_bf16) ? DEV_F32 : bf16 ? DEV_BF16 : DEV_F16;
    out->widest = widest_of(host, out->type);
    if (!host->embed.data)
        return; /* only the header was read */
    load count = {0};
    kvt_weights_layer unused;
    device_weights rest;
    for (int64_t l = 0; l < g->n_layer; l++)
        place_layer(&count, &unused, &host->layer[l], g);
    place_rest(&count, &rest, host);
    out->bytes = count.used;
}

static kvt_code fill(device_weights *w, int64_t i, const kvt_weights *host, kvt_err *err)
{
    char name[48];
    const kvt_geometry *g = w->geometry;
    kvt_err failed = {0};
    load u = {.d = w->device, .err = &failed};
    bool rest = i == g->n_layer;
    for (int pass = 0; pass < 2; pass++) {
        u.used = 0;
        if (rest)
            place_rest(&u, w, host);
        else
            place_layer(&u, &w->layer[i], &host->layer[i], g);
        if (pass)
            break;
        if (rest)
            snprintf(name, sizeof name, "the embedding");
        else
            snprintf(name, sizeof name, "the weights of layer %lld", (long long)i);
        if (w->device->alloc(w->device, &w->block[i], u.used, name, err))
            return err->code;
        u.base = w->block[i];
    }
    if (failed.code)
        *err = failed;
    return failed.code;
}

kvt_code device_weights_new(device_weights **out, kvt_device *d, const kvt_weights *host,
                            kvt_err *err)
{
    *out = NULL;
    device_weights *w = kvt_alloc(1, sizeof *w);
    if (!w)
        return kvt_fail_memory(err, sizeof *w);
    int64_t n = host->geometry.n_layer;
    device_weights_plan(w, host, d->has_bf16);
    w->device = d;
    w->layer = kvt_alloc(n, sizeof *w->layer);
    w->block = kvt_alloc(n + 1, sizeof *w->block);
    kvt_code code =
        w->layer && w->block ? KVT_OK : kvt_fail_memory(err, (size_t)n * (sizeof *w->layer));
    for (int64_t i = 0; !code && i <= n; i++)
        code = fill(w, i, host, err);
    if (code) {
        device_weights_free(w);
        return code;
    }
    *out = w;
    return KVT_OK;
}

void device_weights_free(device_weights *w)
{
    if (!w)
        return;
    for (int64_t i = 0; w->block && i <= w->geometry->n_layer; i++)
        w->device->free(w->device, w->block[i]);
    kvt_free(w->block);
    kvt_free(w->layer);
    kvt_free(w);
}
