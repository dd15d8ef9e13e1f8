/* weights.c - from the tensors of a GGUF file to f32 matrices.
 *
 * First every tensor is bound: found by its name, its shape compared with the geometry, its
 * place in one block of memory decided. Then all rows are dequantised, each by one thread, so
 * that the bytes do not depend on the number of threads. A converter stores q and k of
 * architecture llama with the rows of a head as pairs: new row 2i + s came from row s D/2 + i;
 * that is undone here, with the kv heads for k. */
#include "capture/weights.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "capture/keys.h"
#include "compute/quant.h"
#include "kvt/arena.h"

/* A tensor and where its weights go. */
typedef struct part {
    const gguf_tensor *t;
    kvt_matrix *matrix; /* of the kvt_weights, or */
    const float **vector;
    int64_t n_row, n_col; /* [out in]; a norm is one row */
    int64_t head_dim;     /* > 0: rows are un-permuted, a head at a time */
    int64_t at;           /* in floats, of the block */
} part;

enum { ROUND = 16, CHUNK = 1 << 16 }; /* floats: 64 bytes; work of one step of a thread */

/* The whole object: the block lies behind what a caller sees. */
typedef struct weights {
    kvt_weights seen;
    float *block;
    part *part;
    int64_t n_part;
} weights;

/* Binds one tensor, a vector of n_row weights where n_col is 0. */
static kvt_code bind(weights *w, const gguf *g, part to, tensor_id id, int64_t layer,
                     int64_t n_row, int64_t n_col, kvt_err *err)
{
    char name[KEY_TEXT];
    const gguf_tensor *t = gguf_find(g, key_tensor(name, id, layer));
    if (!t)
        return kvt_fail(err, KVT_FORMAT, "tensor '%s' is missing", name);
    if (n_col == 0 && (t->n_dim != 1 || t->dim[0] != n_row))
        return kvt_fail(err, KVT_FORMAT,
                        "tensor '%s': expected [%" PRId64 "], got %d dimensions [%" PRId64
                        " %" PRId64 "]",
                        name, n_row, t->n_dim, t->dim[1], t->dim[0]);
    if (n_col > 0 && (t->n_dim != 2 || t->dim[0] != n_col || t->dim[1] != n_row))
        return kvt_fail(err, KVT_FORMAT,
                        "tensor '%s': expected [%" PRId64 " %" PRId64 "] (out, in), got %d "
                        "dimensions [%" PRId64 " %" PRId64 "]",
                        name, n_row, n_col, t->n_dim, t->dim[1], t->dim[0]);
    part *p = &w->part[w->n_part++];
    bool permuted = w->seen.arch->is_permuted && (id == TENSOR_WQ || id == TENSOR_WK);
    *p = (part){.t = t,
                .matrix = to.matrix,
                .vector = to.vector,
                .n_row = n_col > 0 ? n_row : 1,
                .n_col = n_col > 0 ? n_col : n_row,
                .head_dim = permuted ? w->seen.geometry.head_dim : 0,
                .at = w->seen.bytes / (int64_t)sizeof(float)};
    w->seen.n_weight += t->n_weight;
    w->seen.file_bytes += t->n_byte;
    w->seen.bytes += (t->n_weight + ROUND - 1) / ROUND * ROUND * (int64_t)sizeof(float);
    return KVT_OK;
}

static kvt_code bind_vector(weights *w, const gguf *g, const float **to, tensor_id id,
                            int64_t layer, int64_t n, kvt_err *err)
{
    return bind(w, g, (part){.vector = to}, id, layer, n, 0, err);
}

static kvt_code bind_matrix(weights *w, const gguf *g, kvt_matrix *to, tensor_id id,
                            int64_t layer, int64_t n_row, int64_t n_col, kvt_err *err)
{
    return bind(w, g, (part){.matrix = to}, id, layer, n_row, n_col, err);
}

static kvt_code bind_layer(weights *w, const gguf *g, int64_t l, kvt_err *err)
{
    const kvt_geometry *o = &w->seen.geometry;
    kvt_weights_layer *y = &w->seen.layer[l];
    int64_t e = o->n_hidden, q = o->n_head * o->head_dim, k = o->n_kv_head * o->head_dim;
    int64_t f = o->n_ff;
    const arch *a = w->seen.arch;
    int64_t d = o->head_dim;
    if (bind_vector(w, g, &y->attn_norm, TENSOR_ATTN_NORM, l, e, err) ||
        bind_matrix(w, g, &y->wq, TENSOR_WQ, l, q, e, err) ||
        (a->qkv_bias && bind_vector(w, g, &y->bq, TENSOR_BQ, l, q, err)) ||
        bind_matrix(w, g, &y->wk, TENSOR_WK, l, k, e, err) ||
        (a->qkv_bias && bind_vector(w, g, &y->bk, TENSOR_BK, l, k, err)) ||
        bind_matrix(w, g, &y->wv, TENSOR_WV, l, k, e, err) ||
        (a->qkv_bias && bind_vector(w, g, &y->bv, TENSOR_BV, l, k, err)) ||
        (a->qk_norm && bind_vector(w, g, &y->q_norm, TENSOR_Q_NORM, l, d, err)) ||
        (a->qk_norm && bind_vector(w, g, &y->k_norm, TENSOR_K_NORM, l, d, err)) ||
        bind_matrix(w, g, &y->wo, TENSOR_WO, l, e, q, err) ||
        (a->post_norm && bind_vector(w, g, &y->post_attn_norm, TENSOR_ATTN_POST, l, e, err)) ||
        bind_vector(w, g, &y->ffn_norm, TENSOR_FFN_NORM, l, e, err) ||
        bind_matrix(w, g, &y->gate, TENSOR_GATE, l, f, e, err) ||
        bind_matrix(w, g, &y->up, TENSOR_UP, l, f, e, err) ||
        bind_matrix(w, g, &y->down, TENSOR_DOWN, l, e, f, err) ||
        (a->post_norm && bind_vector(w, g, &y->post_ffn_norm, TENSOR_FFN_POST, l, e, err)))
        return err->code;
    return KVT_OK;
}

/* A tensor that is in the file but has no place here would change what the model computes: it
 * is refused by its name. */
static kvt_code all_used(const weights *w, const gguf *g, kvt_err *err)
{
    char name[KEY_TEXT], shown[96];
    int64_t known = w->n_part + (gguf_find(g, key_tensor(name, TENSOR_ROPE_FREQS, 0)) != NULL);
    if (gguf_n_tensor(g) == known)
        return KVT_OK;
    for (int64_t i = 0, p = 0; i < gguf_n_tensor(g); i++) {
        const gguf_tensor *t = gguf_tensor_at(g, i);
        for (p = 0; p < w->n_part && w->part[p].t != t;)
            p++;
        if (p < w->n_part || strcmp(t->name, name) == 0)
            continue;
        text_safe_cut(shown, sizeof shown, (const uint8_t *)t->name, strlen(t->name), 64, true);
        return kvt_fail(
            err, KVT_FORMAT, "tensor '%s' is not supported in architecture %s%s", shown,
            w->seen.arch->name,
            strstr(t->name, "attn_qkv") ? ": q, k and v must be tensors of their own" : "");
    }
    return KVT_OK;
}

static kvt_code bind_all(weights *w, const gguf *g, kvt_err *err)
{
    kvt_weights *s = &w->seen;
    const kvt_geometry *o = &s->geometry;
    if (gguf_find(g, "blk.0.attn_qkv.weight"))
        return kvt_fail(err, KVT_FORMAT,
                        "tensor 'blk.0.attn_qkv.weight': fused q, k and v are not "
                        "supported");
    if (bind_matrix(w, g, &s->embed, TENSOR_EMBED, 0, o->n_vocab, o->n_hidden, err))
        return err->code;
    for (int64_t l = 0; l < o->n_layer; l++)
        if (bind_layer(w, g, l, err))
            return err->code;
    if (bind_vector(w, g, &s->out_norm, TENSOR_OUT_NORM, 0, o->n_hidden, err))
        return err->code;
    if (!o->tied &&
        bind_matrix(w, g, &s->lm_head, TENSOR_LM_HEAD, 0, o->n_vocab, o->n_hidden, err))
        return err->code;
    return all_used(w, g, err);
}

/* Rows [first, last) of a part: at once, or one by one where they change places. */
static void decode_rows(float *block, const part *p, int64_t first, int64_t last)
{
    const quant_info *q = quant_find(p->t->type);
    int64_t stride = p->n_col / q->n_weight * q->n_byte, half = p->head_dim / 2;
    float *out = block + p->at;
    if (half == 0) {
        quant_decode(out + first * p->n_col, p->t->type, p->t->data + first * stride,
                     (last - first) * p->n_col);
        return;
    }
    for (int64_t r = first; r < last; r++) { /* row 2i + s of a head goes to s D/2 + i */
        int64_t in_head = r % p->head_dim;
        int64_t to = r - in_head + in_head % 2 * half + in_head / 2;
        quant_decode(out + to * p->n_col, p->t->type, p->t->data + r * stride, p->n_col);
    }
}

/* One region for all parts, without a barrier behind each: on a machine that others use too, a
 * barrier spins for as long as one of the threads is put aside. */
static kvt_code decode_all(weights *w, const kvt_ctx *ctx, kvt_err *err)
{
    kvt_code code = KVT_OK;
    atomic_bool stopped;
    atomic_init(&stopped, false);
#pragma omp parallel num_threads(kvt_threads(ctx))
    for (int64_t i = 0; i < w->n_part; i++) {
        const part *p = &w->part[i];
        int64_t rows = CHUNK / p->n_col > 0 ? CHUNK / p->n_col : 1;
        int64_t n_step = (p->n_row + rows - 1) / rows;
#pragma omp for schedule(dynamic) nowait
        for (int64_t s = 0; s < n_step; s++) {
            int64_t last = (s + 1) * rows < p->n_row ? (s + 1) * rows : p->n_row;
            if (!atomic_load(&stopped))
                decode_rows(w->block, p, s * rows, last);
        }
#pragma omp master
        if (!code) {
            code = kvt_progress(ctx, "weights", i + 1, w->n_part, err);
            atomic_store(&stopped, code != KVT_OK);
        }
    }
    return code;
}

static kvt_code fill(weights *w, const gguf *g, const kvt_ctx *ctx, kvt_err *err)
{
    /* Every float is written but the gaps between tensors, so the block need not be zeroed. */
    w->block = kvt_resize(NULL, 0, w->seen.bytes, 1);
    if (!w->block)
        return kvt_fail_memory(err, w->seen.bytes);
    if (decode_all(w, ctx, err))
        return err->code;
    for (int64_t i = 0; i < w->n_part; i++) {
        const part *p = &w->part[i];
        if (p->vector)
            *p->vector = w->block + p->at;
        else
            *p->matrix = matrix_of_floats(w->block + p->at, p->n_row, p->n_col);
    }
    if (w->seen.geometry.tied)
        w->seen.lm_head = w->seen.embed;
    gguf_digest(g, w->seen.digest);
    return KVT_OK;
}

kvt_code kvt_weights_load(kvt_weights **out, const gguf *g, const kvt_weights_options *options,
                          const kvt_ctx *ctx, kvt_err *err)
{
    bool header_only = options && options->header_only;
    double start = clock_now();
    weights *w = kvt_alloc(1, sizeof *w);
    *out = NULL;
    if (!w)
        return kvt_fail_memory(err, sizeof *w);
    if (arch_of(&w->seen.arch, g, err) ||
        arch_geometry(&w->seen.geometry, w->seen.arch, g, err))
        goto failed;
    int64_t n_layer = w->seen.geometry.n_layer, n_part = n_layer * TENSOR_COUNT + TENSOR_COUNT;
    w->seen.layer = kvt_alloc(n_layer, sizeof *w->seen.layer);
    w->part = kvt_alloc(n_part, sizeof *w->part);
    if (!w->seen.layer || !w->part) {
        kvt_fail_memory(err, (size_t)n_part * sizeof *w->part);
        goto failed;
    }
    if (bind_all(w, g, err) || (!header_only && fill(w, g, ctx, err)))
        goto failed;
    gguf_summary(g, w->seen.types, sizeof w->seen.types);
    if (header_only) {
        kvt_free(w->seen.layer);
        w->seen.layer = NULL;
    }
    w->seen.seconds = clock_now() - start;
    *out = &w->seen;
    return KVT_OK;

failed:
    kvt_weights_free(&w->seen);
    return err->code;
}

void kvt_weights_free(kvt_weights *seen)
{
    weights *w = (weights *)(void *)seen; /* its first member */
    if (!w)
        return;
    kvt_free(w->seen.layer);
    kvt_free(w->block);
    kvt_free(w->part);
    kvt_free(w);
}

kvt_code kvt_weights_digest(const kvt_weights *seen, char out[DIGEST_TEXT], kvt_err *err)
{
    const weights *w = (const weights *)(const void *)seen;
    digest *d = digest_new();
    if (!d)
        return kvt_fail_memory(err, 1);
    for (int64_t i = 0; i < w->n_part; i++) {
        const part *p = &w->part[i];
        digest_add(d, w->block + p->at, (size_t)(p->n_row * p->n_col) * sizeof(float));
    }
    digest_get(d, out);
    digest_free(d);
    return KVT_OK;
}
