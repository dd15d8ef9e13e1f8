/* weights.c - from the tensors of a model's files to what the forward pass reads.
 *
 * First every tensor is bound: found by its name, its shape compared with the geometry, its
 * place in one block of memory decided. Then all rows are copied or decoded, each by one
 * thread, so that the bytes do not depend on the number of threads; pages of the file that were
 * copied are let go, so that the model is not in memory twice. A converter stores q and k of
 * architecture llama with the rows of a head as pairs: new row 2i + s came from row s D/2 + i;
 * that is undone here, with the kv heads for k. Gains that a folder holds as w become 1 + w. */
#include "capture/weights.h"

#include <inttypes.h>
#include <omp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/pages.h"
#include "base/text.h"
#include "kvt/arena.h"

/* A tensor and where its weights go. */
typedef struct part {
    const checkpoint_tensor *t; /* NULL once loaded: the files may be closed */
    kvt_matrix *matrix;         /* of the kvt_weights, or */
    const float **vector;
    int64_t n_row, n_col; /* [out in]; a vector is one row */
    int64_t head_dim;     /* > 0: rows are un-permuted, a head at a time */
    bool add_one;         /* a gain that lies as w */
    int type;             /* in memory */
    int64_t row_bytes;    /* in memory */
    int64_t at;           /* bytes into the block */
} part;

enum { ROUND = 64, STEP_BYTES = 1 << 20 }; /* alignment; what a thread copies at a time */

/* The whole object: the block lies behind what a caller sees. */
typedef struct weights {
    kvt_weights seen;
    const checkpoint *files; /* while it is loaded */
    bool f32;
    char *block;
    part *part;
    int64_t n_part;
} weights;

static int64_t row_bytes(int type, int64_t n_col)
{
    const quant_info *q = quant_find(type);
    return n_col / q->n_weight * q->n_byte;
}

static kvt_code check_shape(const checkpoint_tensor *t, int64_t n_row, int64_t n_col,
                            kvt_err *err)
{
    if (t->type < 0)
        return kvt_fail(err, KVT_FORMAT,
                        "tensor '%.100s': expected f32, f16 or bf16 of at most %d dimensions",
                        t->name, (int)GGUF_DIMS_MAX);
    if (n_col == 0 && (t->n_dim != 1 || t->dim[0] != n_row))
        return kvt_fail(err, KVT_FORMAT,
                        "tensor '%.100s': expected [%" PRId64 "], got %d dimensions [%" PRId64
                        " %" PRId64 "]",
                        t->name, n_row, t->n_dim, t->dim[1], t->dim[0]);
    if (n_col > 0 && (t->n_dim != 2 || t->dim[0] != n_col || t->dim[1] != n_row))
        return kvt_fail(err, KVT_FORMAT,
                        "tensor '%.100s': expected [%" PRId64 " %" PRId64
                        "] (out, in), got %d dimensions [%" PRId64 " %" PRId64 "]",
                        t->name, n_row, n_col, t->n_dim, t->dim[1], t->dim[0]);
    return KVT_OK;
}

/* Some converters write q, k and v as one tensor: then it is that which is not supported. */
static kvt_code missing(const checkpoint *files, tensor_id id, int64_t layer, const char *name,
                        kvt_err *err)
{
    char fused[64];
    snprintf(fused, sizeof fused, "blk.%" PRId64 ".attn_qkv.weight", layer);
    for (int64_t i = 0; id == TENSOR_WQ && i < checkpoint_n_tensor(files); i++)
        if (strcmp(checkpoint_tensor_at(files, i)->name, fused) == 0)
            return kvt_fail(err, KVT_FORMAT, "tensor '%s': fused q, k and v are not supported",
                            fused);
    return kvt_fail(err, KVT_FORMAT, "tensor '%s' is missing", name);
}

/* Binds one tensor, a vector of n_row weights where n_col is 0. */
static kvt_code bind(weights *w, part to, tensor_id id, int64_t layer, int64_t n_row,
                     int64_t n_col, kvt_err *err)
{
    char name[CHECKPOINT_NAME];
    const checkpoint_tensor *t = checkpoint_find(w->files, id, layer, name);
    if (!t)
        return missing(w->files, id, layer, name, err);
    if (check_shape(t, n_row, n_col, err))
        return err->code;
    part *p = &w->part[w->n_part++];
    bool qk = id == TENSOR_WQ || id == TENSOR_WK; /* no architecture is permuted and biased */
    bool bias = id == TENSOR_BQ || id == TENSOR_BK || id == TENSOR_BV;
    *p = (part){.t = t,
                .matrix = to.matrix,
                .vector = to.vector,
                .n_row = n_col > 0 ? n_row : 1,
                .n_col = n_col > 0 ? n_col : n_row,
                .head_dim =
                    qk && checkpoint_is_permuted(w->files) ? w->seen.geometry.head_dim : 0,
                .add_one = n_col == 0 && !bias && checkpoint_lacks_one(w->files),
                .type = n_col == 0 || w->f32 ? QUANT_F32 : t->type,
                .at = w->seen.bytes};
    p->row_bytes = row_bytes(p->type, p->n_col);
    w->seen.n_weight += t->n_weight;
    w->seen.file_bytes += t->n_byte;
    w->seen.bytes += (p->n_row * p->row_bytes + ROUND - 1) / ROUND * ROUND;
    return KVT_OK;
}

static kvt_code bind_vector(weights *w, const float **to, tensor_id id, int64_t layer,
                            int64_t n, kvt_err *err)
{
    return bind(w, (part){.vector = to}, id, layer, n, 0, err);
}

static kvt_code bind_matrix(weights *w, kvt_matrix *to, tensor_id id, int64_t layer,
                            int64_t n_row, int64_t n_col, kvt_err *err)
{
    return bind(w, (part){.matrix = to}, id, layer, n_row, n_col, err);
}

static kvt_code bind_layer(weights *w, int64_t l, kvt_err *err)
{
    const kvt_geometry *o = &w->seen.geometry;
    kvt_weights_layer *y = &w->seen.layer[l];
    int64_t e = o->n_hidden, q = o->n_head * o->head_dim, k = o->n_kv_head * o->head_dim;
    int64_t f = o->n_ff;
    const arch *a = w->seen.arch;
    int64_t d = o->head_dim;
    if (bind_vector(w, &y->attn_norm, TENSOR_ATTN_NORM, l, e, err) ||
        bind_matrix(w, &y->wq, TENSOR_WQ, l, q, e, err) ||
        (a->qkv_bias && bind_vector(w, &y->bq, TENSOR_BQ, l, q, err)) ||
        bind_matrix(w, &y->wk, TENSOR_WK, l, k, e, err) ||
        (a->qkv_bias && bind_vector(w, &y->bk, TENSOR_BK, l, k, err)) ||
        bind_matrix(w, &y->wv, TENSOR_WV, l, k, e, err) ||
        (a->qkv_bias && bind_vector(w, &y->bv, TENSOR_BV, l, k, err)) ||
        (a->qk_norm && bind_vector(w, &y->q_norm, TENSOR_Q_NORM, l, d, err)) ||
        (a->qk_norm && bind_vector(w, &y->k_norm, TENSOR_K_NORM, l, d, err)) ||
        bind_matrix(w, &y->wo, TENSOR_WO, l, e, q, err) ||
        (a->post_norm && bind_vector(w, &y->post_attn_norm, TENSOR_ATTN_POST, l, e, err)) ||
        bind_vector(w, &y->ffn_norm, TENSOR_FFN_NORM, l, e, err) ||
        bind_matrix(w, &y->gate, TENSOR_GATE, l, f, e, err) ||
        bind_matrix(w, &y->up, TENSOR_UP, l, f, e, err) ||
        bind_matrix(w, &y->down, TENSOR_DOWN, l, e, f, err) ||
        (a->post_norm && bind_vector(w, &y->post_ffn_norm, TENSOR_FFN_POST, l, e, err)))
        return err->code;
    return KVT_OK;
}

/* A tensor that is in the file but has no place here would change what the model computes: it
 * is refused by its name. */
static kvt_code all_used(const weights *w, kvt_err *err)
{
    char shown[128];
    int64_t n = checkpoint_n_tensor(w->files), n_left = 0;
    bool *used = kvt_alloc(n, sizeof *used);
    if (!used)
        return kvt_fail_memory(err, (size_t)n * sizeof *used);
    for (int64_t i = 0; i < w->n_part; i++)
        used[w->part[i].t - checkpoint_tensor_at(w->files, 0)] = true;
    for (int64_t i = n; i-- > 0;) {
        const checkpoint_tensor *t = checkpoint_tensor_at(w->files, i);
        if (used[i] || checkpoint_is_beside(w->files, t))
            continue;
        n_left++;
        text_safe_cut(shown, sizeof shown, (const uint8_t *)t->name, strlen(t->name), 100,
                      true);
    }
    kvt_free(used);
    if (n_left == 0)
        return KVT_OK;
    return kvt_fail(err, KVT_FORMAT, "tensor '%s' is not supported in architecture %s%s", shown,
                    w->seen.arch->name,
                    strstr(shown, "attn_qkv") || strstr(shown, "qkv_proj")
                        ? ": q, k and v must be tensors of their own"
                        : "");
}

static kvt_code bind_all(weights *w, kvt_err *err)
{
    kvt_weights *s = &w->seen;
    const kvt_geometry *o = &s->geometry;
    if (bind_matrix(w, &s->embed, TENSOR_EMBED, 0, o->n_vocab, o->n_hidden, err))
        return err->code;
    for (int64_t l = 0; l < o->n_layer; l++)
        if (bind_layer(w, l, err))
            return err->code;
    if (bind_vector(w, &s->out_norm, TENSOR_OUT_NORM, 0, o->n_hidden, err))
        return err->code;
    if (!o->tied &&
        bind_matrix(w, &s->lm_head, TENSOR_LM_HEAD, 0, o->n_vocab, o->n_hidden, err))
        return err->code;
    return all_used(w, err);
}

/* Values in the order of memory: as they lie, or f32. */
static void put(const part *p, char *to, const uint8_t *from, int64_t n_row)
{
    if (p->type == p->t->type)
        memcpy(to, from, (size_t)(n_row * p->row_bytes));
    else
        quant_decode((float *)(void *)to, p->t->type, from, n_row * p->n_col);
}

/* Rows [first, last) of a part: at once, or one by one where they change places. */
static void load_rows(const weights *w, const part *p, int64_t first, int64_t last)
{
    int64_t stride = row_bytes(p->t->type, p->n_col), half = p->head_dim / 2;
    const uint8_t *from = p->t->data + first * stride;
    char *to = w->block + p->at;
    if (half == 0)
        put(p, to + first * p->row_bytes, from, last - first);
    for (int64_t r = first; half > 0 && r < last; r++) { /* row 2i + s of a head: s D/2 + i */
        int64_t in_head = r % p->head_dim;
        int64_t place = r - in_head + in_head % 2 * half + in_head / 2;
        put(p, to + place * p->row_bytes, from + (r - first) * stride, 1);
    }
    float *gain = (float *)(void *)to;
    for (int64_t i = 0; p->add_one && i < p->n_col; i++)
        gain[i] = 1 + gain[i];
    checkpoint_drop(w->files, from, (last - first) * stride);
}

/* One region for all parts, without a barrier behind each: on a machine that others use too, a
 * barrier spins for as long as one of the threads is put aside. One thread takes the digest of
 * the file meanwhile. */
static kvt_code load_all(weights *w, const kvt_ctx *ctx, kvt_err *err)
{
    kvt_code code = KVT_OK, digest_code = KVT_OK;
    kvt_err digest_err;
    atomic_bool stopped;
    atomic_init(&stopped, false);
#pragma omp parallel num_threads(kvt_threads(ctx))
    {
#pragma omp single nowait
        digest_code = checkpoint_digest(w->files, w->seen.digest, &digest_err);
        for (int64_t i = 0; i < w->n_part; i++) {
            const part *p = &w->part[i];
            int64_t stride = row_bytes(p->t->type, p->n_col);
            int64_t rows = STEP_BYTES / stride > 0 ? STEP_BYTES / stride : 1;
            int64_t n_step = (p->n_row + rows - 1) / rows;
#pragma omp for schedule(dynamic) nowait
            for (int64_t s = 0; s < n_step; s++) {
                int64_t last = (s + 1) * rows < p->n_row ? (s + 1) * rows : p->n_row;
                if (!atomic_load(&stopped))
                    load_rows(w, p, s * rows, last);
            }
#pragma omp master
            if (!code) {
                code = kvt_progress(ctx, "weights", i + 1, w->n_part, err);
                atomic_store(&stopped, code != KVT_OK);
            }
        }
    }
    if (!code && digest_code)
        return kvt_fail(err, digest_code, "%s", digest_err.text);
    return code;
}

static kvt_code fill(weights *w, const kvt_ctx *ctx, kvt_err *err)
{
    /* Every byte is written but the gaps between tensors, so the block need not be zeroed. */
    w->block = kvt_resize(NULL, 0, w->seen.bytes, 1);
    if (!w->block)
        return kvt_fail_memory(err, (size_t)w->seen.bytes);
    pages_large(w->block, (size_t)w->seen.bytes);
    return load_all(w, ctx, err);
}

/* What a caller sees: where everything lies, or with the header alone what there is. */
static void show(weights *w)
{
    for (int64_t i = 0; i < w->n_part; i++) {
        part *p = &w->part[i];
        char *at = w->block ? w->block + p->at : NULL;
        if (p->vector)
            *p->vector = (const float *)(void *)at;
        else
            *p->matrix = (kvt_matrix){p->type, p->n_row, p->n_col, p->row_bytes, at};
        p->t = NULL;
    }
    if (w->seen.geometry.tied)
        w->seen.lm_head = w->seen.embed;
}

kvt_code kvt_weights_load(kvt_weights **out, const checkpoint *s,
                          const kvt_weights_options *options, const kvt_ctx *ctx, kvt_err *err)
{
    bool header_only = options && options->header_only;
    double start = clock_now();
    weights *w = kvt_alloc(1, sizeof *w);
    *out = NULL;
    if (!w)
        return kvt_fail_memory(err, sizeof *w);
    w->files = s;
    w->f32 = options && options->f32;
    w->seen.arch = checkpoint_arch(s);
    w->seen.geometry = *checkpoint_geometry(s);
    int64_t n_layer = w->seen.geometry.n_layer, n_part = n_layer * TENSOR_COUNT + TENSOR_COUNT;
    w->seen.layer = kvt_alloc(n_layer, sizeof *w->seen.layer);
    w->part = kvt_alloc(n_part, sizeof *w->part);
    if (!w->seen.layer || !w->part) {
        kvt_fail_memory(err, (size_t)n_part * sizeof *w->part);
        goto failed;
    }
    if (bind_all(w, err) || (!header_only && fill(w, ctx, err)))
        goto failed;
    checkpoint_summary(s, w->seen.types, sizeof w->seen.types);
    show(w);
    w->files = NULL;
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

/* ---- the canonical weights -----------------------------------------------------------------
 */

/* A tile of the canonical values: these of a part. */
typedef struct tile {
    const part *p;
    int64_t first, n;
    char digest[DIGEST_TEXT];
} tile;

/* Values [first, first + n) of a part; blocks of the ends are decoded whole. `room` has
 * WEIGHTS_TILE + 2 blocks. */
static const float *values(const char *block, const part *p, int64_t first, int64_t n,
                           float *room)
{
    const quant_info *q = quant_find(p->type);
    const char *at = block + p->at;
    if (p->type == QUANT_F32)
        return (const float *)(const void *)at + first;
    int64_t from = first / q->n_weight, to = (first + n + q->n_weight - 1) / q->n_weight;
    quant_decode(room, p->type, at + from * q->n_byte, (to - from) * q->n_weight);
    return room + first % q->n_weight;
}

static tile *tiles_of(const weights *w, int64_t *n_out, kvt_err *err)
{
    int64_t n = 0;
    for (int64_t i = 0; i < w->n_part; i++)
        n += (w->part[i].n_row * w->part[i].n_col + WEIGHTS_TILE - 1) / WEIGHTS_TILE;
    tile *t = kvt_alloc(n, sizeof *t);
    *n_out = n;
    if (!t) {
        kvt_fail_memory(err, (size_t)n * sizeof *t);
        return NULL;
    }
    for (int64_t i = 0, k = 0; i < w->n_part; i++) {
        int64_t all = w->part[i].n_row * w->part[i].n_col;
        for (int64_t at = 0; at < all; at += WEIGHTS_TILE)
            t[k++] = (tile){.p = &w->part[i],
                            .first = at,
                            .n = all - at < WEIGHTS_TILE ? all - at : WEIGHTS_TILE};
    }
    return t;
}

kvt_code kvt_weights_digest(const kvt_weights *seen, char out[DIGEST_TEXT], const kvt_ctx *ctx,
                            kvt_err *err)
{
    enum { ROOM = WEIGHTS_TILE + 512 };
    const weights *w = (const weights *)(const void *)seen;
    int64_t n = 0, n_thread = kvt_threads(ctx);
    tile *t = tiles_of(w, &n, err);
    if (!t)
        return err->code;
    float *room = kvt_alloc(n_thread, ROOM * sizeof *room);
    digest *d = digest_new();
    if (room && d) {
#pragma omp parallel for schedule(dynamic) num_threads((int)n_thread)
        for (int64_t i = 0; i < n; i++) {
            const float *x = values(w->block, t[i].p, t[i].first, t[i].n,
                                    room + (int64_t)omp_get_thread_num() * ROOM);
            digest_of(x, (size_t)t[i].n * sizeof *x, t[i].digest);
        }
        for (int64_t i = 0; i < n; i++)
            digest_add(d, t[i].digest, DIGEST_TEXT - 1);
        digest_get(d, out);
    } else {
        kvt_fail_memory(err, (size_t)n_thread * ROOM * sizeof *room);
    }
    kvt_code code = room && d ? KVT_OK : err->code;
    digest_free(d);
    kvt_free(room);
    kvt_free(t);
    return code;
}
