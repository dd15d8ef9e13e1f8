/* bench_device.c - a device as its layers use it (capture/device_layer.c): products with what
 * decodes their weights, attention tile by tile, rows, weights and keys of a decode step,
 * copies and launches. Every task ends when the device has done it. (Memory and the list of
 * tasks: bench_device_new.c.) */
#include "live/bench_device_priv.h"

static kvt_code done(const bench_device *b, kvt_err *err)
{
    return b->d->sync(b->d, err);
}

/* ---- products ---- */

static kvt_code multiply(bench_device *b, const kvt_matrix *w, kvt_err *err)
{
    bool direct = w->type == device_quant(b->type);
    int64_t fit = direct ? w->n_row : b->w->widest / w->n_col;
    for (int64_t row = 0; row < w->n_row; row += fit) {
        int64_t n = w->n_row - row < fit ? w->n_row - row : fit;
        const void *at = (const char *)w->data + row * w->row_bytes;
        dev_dequant_args copy = {b->copy, b->type, at, w->type, n * w->n_col};
        if (!direct && b->d->dequant(b->d, &copy, err))
            return err->code;
        dev_gemm_args g = {.op = DEV_NT,
                           .type = b->type,
                           .c = b->sums,
                           .a = b->a,
                           .b = direct ? at : b->copy,
                           .m = b->n_row,
                           .n = n,
                           .k = w->n_col,
                           .lda = w->n_col,
                           .ldb = w->n_col,
                           .ldc = w->n_row,
                           .n_batch = 1,
                           .alpha = 1.0f};
        if (b->d->gemm(b->d, &g, err))
            return err->code;
    }
    return KVT_OK;
}

kvt_code bench_device_product(void *arg, kvt_err *err)
{
    const device_product_task *t = arg;
    for (int i = 0; i < t->n; i++)
        if (multiply(t->b, t->matrix[i], err))
            return err->code;
    return done(t->b, err);
}

static kvt_code square(bench_device *b, dev_type type, kvt_err *err)
{
    int64_t n = b->side;
    dev_gemm_args g = {.op = DEV_NT,
                       .type = type,
                       .c = b->square,
                       .a = (char *)b->square + n * n * 4,
                       .b = (char *)b->square + n * n * 8,
                       .m = n,
                       .n = n,
                       .k = n,
                       .lda = n,
                       .ldb = n,
                       .ldc = n,
                       .n_batch = 1,
                       .alpha = 1.0f};
    return b->d->gemm(b->d, &g, err) ? err->code : done(b, err);
}

kvt_code bench_device_square(void *arg, kvt_err *err)
{
    bench_device *b = arg;
    return square(b, b->type, err);
}

kvt_code bench_device_square_32(void *arg, kvt_err *err)
{
    return square(arg, DEV_F32, err);
}

/* ---- attention ---- */

static kvt_code attend(const device_attention *t, int64_t pos, int64_t m, char *k, kvt_err *err)
{
    bench_device *b = t->b;
    kvt_device *d = b->d;
    int64_t heads = b->c.g->n_head, groups = b->c.g->n_kv_head, dim = t->head_dim,
            first = t->window == 0 || pos < t->window ? 0 : pos - t->window + 1,
            n_key = pos + m - first, rows = heads / groups * m,
            ld = (n_key + DEVICE_TILE - 1) / DEVICE_TILE * DEVICE_TILE;
    char *v = k + groups * t->n * dim * b->size;
    dev_rope_args turn = {.x = b->q,
                          .table = b->table,
                          .out = b->turned,
                          .type = b->type,
                          .ld = heads * dim,
                          .head_stride = m * dim,
                          .row_stride = dim,
                          .n_row = m,
                          .n_head = heads,
                          .head_dim = dim};
    dev_gemm_args score = {.op = DEV_NT,
                           .type = b->type,
                           .c = b->p,
                           .a = b->turned,
                           .b = k + first * dim * b->size,
                           .m = rows,
                           .n = n_key,
                           .k = dim,
                           .lda = dim,
                           .ldb = dim,
                           .ldc = ld,
                           .n_batch = groups,
                           .stride_a = rows * dim,
                           .stride_b = t->n * dim,
                           .stride_c = rows * ld,
                           .alpha = 0.125f};
    dev_softmax_args soft = {.p = b->p,
                             .cast = b->size == 4 ? NULL : b->cast,
                             .type = b->type,
                             .lse = b->lse,
                             .n_head = heads,
                             .n_row = m,
                             .ld = ld,
                             .ld_lse = m,
                             .pos = pos,
                             .first = first,
                             .n_key = n_key,
                             .window = t->window};
    dev_gemm_args mix = score;
    mix.op = DEV_NN;
    mix.c = b->o;
    mix.a = soft.cast ? soft.cast : b->p;
    mix.b = v + first * dim * b->size;
    mix.n = mix.ldc = dim;
    mix.k = n_key;
    mix.lda = ld;
    mix.stride_a = rows * ld;
    mix.stride_c = rows * dim;
    mix.alpha = 1.0f;
    dev_merge_args merge = {.out = b->turned,
                            .type = b->type,
                            .x = b->o,
                            .n_row = m,
                            .n_head = heads,
                            .head_dim = dim,
                            .ld = heads * dim};
    return d->rope(d, &turn, err) || d->gemm(d, &score, err) || d->softmax(d, &soft, err) ||
                   d->gemm(d, &mix, err) || d->merge(d, &merge, err)
               ? err->code
               : KVT_OK;
}

/* A prefill's tiles, or the one row of a decode step in each layer. */
kvt_code bench_device_attention(void *arg, kvt_err *err)
{
    const device_attention *t = arg;
    bench_device *b = t->b;
    int64_t layer = 2 * b->c.g->n_kv_head * t->n * t->head_dim * b->size;
    for (int64_t l = 0; l < t->n_layer; l++)
        for (int64_t pos = t->m == 1 ? t->n - 1 : 0; pos < t->n; pos += t->m) {
            int64_t m = t->n - pos < t->m ? t->n - pos : t->m;
            if (attend(t, pos, m, (char *)b->kv + l * layer, err))
                return err->code;
        }
    return done(b, err);
}

/* ---- rows, weights of a step, memory, launches ---- */

kvt_code bench_device_rows(void *arg, kvt_err *err)
{
    bench_device *b = arg;
    kvt_device *d = b->d;
    const kvt_geometry *g = b->c.g;
    int64_t m = b->n_row, e = g->n_hidden;
    dev_rmsnorm_args norm = {.out = b->a,
                             .type = b->type,
                             .x = b->sums,
                             .gain = b->gain,
                             .n_row = m,
                             .n_hidden = e,
                             .eps = 1e-5f};
    dev_act_args act = {b->a, b->type, b->sums, b->up, m * g->n_ff, b->w->gelu};
    dev_add_args add = {b->sums, b->up, m * e, m * e};
    for (int i = 0; i < 2; i++) /* before attention and before the feed-forward */
        if (d->rmsnorm(d, &norm, err) || d->add(d, &add, err))
            return err->code;
    return d->act(d, &act, err) ? err->code : done(b, err);
}

static kvt_code vector(bench_device *b, const kvt_matrix *w, kvt_err *err)
{
    return b->d->gemv(b->d,
                      &(dev_gemv_args){.y = b->sums,
                                       .w = w->data,
                                       .quant = w->type,
                                       .x = b->a,
                                       .type = b->type,
                                       .n_row = w->n_row,
                                       .n_col = w->n_col,
                                       .row_bytes = w->row_bytes},
                      err);
}

kvt_code bench_device_weights(void *arg, kvt_err *err)
{
    bench_device *b = arg;
    for (int64_t l = 0; l < b->c.g->n_layer; l++) {
        const kvt_weights_layer *y = &b->w->layer[l];
        const kvt_matrix *m[] = {&y->wq, &y->wk, &y->wv, &y->wo, &y->gate, &y->up, &y->down};
        for (int i = 0; i < 7; i++)
            if (vector(b, m[i], err))
                return err->code;
    }
    return vector(b, &b->w->lm_head, err) ? err->code : done(b, err);
}

kvt_code bench_device_copy(void *arg, kvt_err *err)
{
    bench_device *b = arg;
    return b->d->copy(b->d, b->to, b->from, b->bytes, err) ? err->code : done(b, err);
}

kvt_code bench_device_launch(void *arg, kvt_err *err)
{
    bench_device *b = arg;
    for (int i = 0; i < BENCH_LAUNCHES; i++)
        if (b->d->add(b->d, &(dev_add_args){b->q, b->o, 1, 1}, err))
            return err->code;
    return done(b, err);
}
