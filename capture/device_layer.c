/* device_layer.c - one layer on a device, for any number of rows (capture/device_forward.h). */
#include "capture/device_forward_priv.h"

typedef struct pass {
    device_forward *f;
    kvt_device *d;
    int layer;
    const kvt_weights_layer *w;
    int64_t n;        /* rows of the pass; row r is position f->length + r */
    int64_t out_from; /* rows in front of it end at the layer's keys */
} pass;

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static char *typed_at(const device_forward *f, void *base, int64_t i)
{
    return (char *)base + i * f->size;
}

static float *float_at(void *base, int64_t i)
{
    return (float *)base + i;
}

kvt_code device_product(device_forward *f, float *c, const void *a, const kvt_matrix *w,
                        int64_t m, kvt_err *err)
{
    kvt_device *d = f->d;
    dev_type type = f->w->type;
    bool direct = w->type == device_quant(type);
    if (m == 1)
        return d->gemv(d,
                       &(dev_gemv_args){.y = c,
                                        .w = w->data,
                                        .quant = w->type,
                                        .x = a,
                                        .type = type,
                                        .n_row = w->n_row,
                                        .n_col = w->n_col,
                                        .row_bytes = w->row_bytes},
                       err);
    int64_t fit = direct ? w->n_row : f->w->widest / w->n_col;
    for (int64_t row = 0; row < w->n_row; row += fit) {
        const void *b = (const char *)w->data + row * w->row_bytes;
        int64_t n = least(fit, w->n_row - row);
        if (!direct) {
            dev_dequant_args copy = {
                .out = f->copy, .type = type, .in = b, .quant = w->type, .n = n * w->n_col};
            if (d->dequant(d, &copy, err))
                return err->code;
            b = f->copy;
        }
        dev_gemm_args g = {.op = DEV_NT,
                           .type = type,
                           .c = c + row,
                           .a = a,
                           .b = b,
                           .m = m,
                           .n = n,
                           .k = w->n_col,
                           .lda = w->n_col,
                           .ldb = w->n_col,
                           .ldc = w->n_row,
                           .n_batch = 1,
                           .alpha = 1.0f};
        if (d->gemm(d, &g, err))
            return err->code;
    }
    return KVT_OK;
}

static kvt_code norm(const pass *p, void *out, dev_type type, const float *x, const float *gain,
                     float *length, int64_t m, kvt_err *err)
{
    return p->d->rmsnorm(p->d,
                         &(dev_rmsnorm_args){.out = out,
                                             .type = type,
                                             .x = x,
                                             .gain = gain,
                                             .length = length,
                                             .n_row = m,
                                             .n_hidden = p->f->E,
                                             .eps = (float)p->f->g->norm_eps},
                         err);
}

static kvt_code add(const pass *p, float *x, const float *y, int64_t n, int64_t period,
                    kvt_err *err)
{
    return p->d->add(p->d, &(dev_add_args){.x = x, .y = y, .n = n, .period = period}, err);
}

static const float *table_of(const pass *p, int64_t pos)
{
    const device_forward *f = p->f;
    void *table = kvt_geometry_is_local(f->g, p->layer) ? f->local : f->table;
    return float_at(table, pos * f->D);
}

/* The layer's cache, [G cap D]. */
static char *cache_of(const pass *p, void *all)
{
    const device_forward *f = p->f;
    return typed_at(f, all, p->layer * f->G * f->cap * f->D);
}

static kvt_code project(const pass *p, void *to, const kvt_matrix *w, const float *bias,
                        int64_t m, kvt_err *err)
{
    kvt_code code = device_product(p->f, to, p->f->y, w, m, err);
    return code || !bias ? code : add(p, to, bias, m * w->n_row, w->n_row, err);
}

/* Rows of k or v from their projection to the cache. */
static kvt_code store(const pass *p, void *rows, const float *gain, const float *table,
                      void *cache, int64_t pos, int64_t m, kvt_err *err)
{
    const device_forward *f = p->f;
    return p->d->rope(p->d,
                      &(dev_rope_args){.x = rows,
                                       .gain = gain,
                                       .table = table,
                                       .out = typed_at(f, cache_of(p, cache), pos * f->D),
                                       .type = f->w->type,
                                       .ld = f->G * f->D,
                                       .head_stride = f->cap * f->D,
                                       .row_stride = f->D,
                                       .n_row = m,
                                       .n_head = f->G,
                                       .head_dim = f->D,
                                       .eps = (float)f->g->norm_eps},
                      err);
}

static kvt_code norm_queries(const pass *p, int64_t m, kvt_err *err)
{
    const device_forward *f = p->f;
    return p->d->rope(p->d,
                      &(dev_rope_args){.x = f->q,
                                       .gain = p->w->q_norm,
                                       .ld = f->H * f->D,
                                       .n_row = m,
                                       .n_head = f->H,
                                       .head_dim = f->D,
                                       .eps = (float)f->g->norm_eps},
                      err);
}

/* Norm and projections of a chunk: q as f32, k and v into the cache. */
static kvt_code project_in(const pass *p, int64_t row, int64_t m, kvt_err *err)
{
    device_forward *f = p->f;
    const kvt_weights_layer *w = p->w;
    int64_t pos = f->length + row;
    float *length = device_record_lengths(f->record, p->layer, pos);
    const float *table = table_of(p, pos), *x = float_at(f->x, row * f->E);
    if (norm(p, f->y, f->w->type, x, w->attn_norm, length, m, err) ||
        device_record_hidden(f->record, p->layer, pos, m, f->y, err) ||
        project(p, f->q, &w->wq, w->bq, m, err) || project(p, f->k, &w->wk, w->bk, m, err) ||
        project(p, f->v, &w->wv, w->bv, m, err) ||
        store(p, f->k, w->k_norm, table, f->kc, pos, m, err) ||
        store(p, f->v, NULL, NULL, f->vc, pos, m, err) ||
        (w->q_norm && norm_queries(p, m, err)))
        return err->code;
    return device_record_queries(f->record, p->layer, pos, m, f->q, table, err);
}

/* Rows of a chunk, row `begin` of it being at `pos`, and the keys that they see. */
typedef struct tile {
    int64_t begin, pos, m, first, n_key, ld;
} tile;

static kvt_code turn(const pass *p, const tile *t, kvt_err *err)
{
    const device_forward *f = p->f;
    return p->d->rope(p->d,
                      &(dev_rope_args){.x = float_at(f->q, t->begin * f->H * f->D),
                                       .table = table_of(p, t->pos),
                                       .out = f->turned,
                                       .type = f->w->type,
                                       .ld = f->H * f->D,
                                       .head_stride = t->m * f->D,
                                       .row_stride = f->D,
                                       .n_row = t->m,
                                       .n_head = f->H,
                                       .head_dim = f->D},
                      err);
}

/* All query heads of a kv head, and all rows of the tile, are the rows of one product. */
static kvt_code score(const pass *p, const tile *t, kvt_err *err)
{
    const device_forward *f = p->f;
    int64_t m = f->H / f->G * t->m;
    return p->d->gemm(p->d,
                      &(dev_gemm_args){.op = DEV_NT,
                                       .type = f->w->type,
                                       .c = f->p,
                                       .a = f->turned,
                                       .b = typed_at(f, cache_of(p, f->kc), t->first * f->D),
                                       .m = m,
                                       .n = t->n_key,
                                       .k = f->D,
                                       .lda = f->D,
                                       .ldb = f->D,
                                       .ldc = t->ld,
                                       .n_batch = f->G,
                                       .stride_a = m * f->D,
                                       .stride_b = f->cap * f->D,
                                       .stride_c = m * t->ld,
                                       .alpha = (float)f->g->attn_scale},
                      err);
}

static kvt_code softmax(const pass *p, const tile *t, kvt_err *err)
{
    const device_forward *f = p->f;
    int64_t ld_lse = t->m;
    float *lse = device_record_lse(f->record, p->layer, t->pos, &ld_lse);
    return p->d->softmax(p->d,
                         &(dev_softmax_args){.p = f->p,
                                             .cast = f->cast,
                                             .type = f->w->type,
                                             .lse = lse ? lse : f->lse,
                                             .n_head = f->H,
                                             .n_row = t->m,
                                             .ld = t->ld,
                                             .ld_lse = ld_lse,
                                             .pos = t->pos,
                                             .first = t->first,
                                             .n_key = t->n_key,
                                             .window = f->g->window[p->layer]},
                         err);
}

static kvt_code mix(const pass *p, const tile *t, kvt_err *err)
{
    const device_forward *f = p->f;
    int64_t m = f->H / f->G * t->m, hd = f->H * f->D;
    dev_gemm_args g = {.op = DEV_NN,
                       .type = f->w->type,
                       .c = f->o,
                       .a = f->cast ? f->cast : f->p,
                       .b = typed_at(f, cache_of(p, f->vc), t->first * f->D),
                       .m = m,
                       .n = f->D,
                       .k = t->n_key,
                       .lda = t->ld,
                       .ldb = f->D,
                       .ldc = f->D,
                       .n_batch = f->G,
                       .stride_a = m * t->ld,
                       .stride_b = f->cap * f->D,
                       .stride_c = m * f->D,
                       .alpha = 1.0f};
    dev_merge_args merge = {.out = typed_at(f, f->merged, t->begin * hd),
                            .type = f->w->type,
                            .x = f->o,
                            .n_row = t->m,
                            .n_head = f->H,
                            .head_dim = f->D,
                            .ld = hd};
    return p->d->gemm(p->d, &g, err) || p->d->merge(p->d, &merge, err) ? err->code : KVT_OK;
}

/* Rows from `out` of the chunk on are mixed; those in front only where they are recorded. */
static kvt_code attend(const pass *p, int64_t row, int64_t m, int64_t out, kvt_err *err)
{
    device_forward *f = p->f;
    int64_t window = f->g->window[p->layer];
    for (int64_t begin = 0; begin < m; begin += f->tile) {
        tile t = {
            .begin = begin, .pos = f->length + row + begin, .m = least(f->tile, m - begin)};
        bool mixed = t.begin + t.m > out, seen = device_record_wants(f->record, p->layer);
        if (!mixed && !seen)
            continue;
        t.first = window == 0 || t.pos < window ? 0 : t.pos - window + 1;
        t.n_key = t.pos + t.m - t.first;
        t.ld = (t.n_key + DEVICE_TILE - 1) / DEVICE_TILE * DEVICE_TILE;
        dev_record_args rows = {.p = f->p,
                                .ld = t.ld,
                                .n_row = t.m,
                                .pos = t.pos,
                                .first = t.first,
                                .n_key = t.n_key};
        if (turn(p, &t, err) || score(p, &t, err) || softmax(p, &t, err) ||
            device_record_rows(f->record, p->layer, &rows, err) || (mixed && mix(p, &t, err)))
            return err->code;
    }
    return KVT_OK;
}

/* x rows += out rows, by way of a norm where the layer has one behind. */
static kvt_code add_out(const pass *p, float *x, const float *gain, int64_t m, kvt_err *err)
{
    device_forward *f = p->f;
    if (gain && norm(p, f->out, DEV_F32, f->out, gain, NULL, m, err))
        return err->code;
    return add(p, x, f->out, m * f->E, m * f->E, err);
}

/* Rows from `out` of a chunk: output projection and feed-forward. */
static kvt_code project_out(const pass *p, int64_t row, int64_t m, int64_t out, kvt_err *err)
{
    device_forward *f = p->f;
    const kvt_weights_layer *w = p->w;
    float *x = float_at(f->x, (row + out) * f->E);
    m -= out;
    dev_act_args act = {.out = f->act,
                        .type = f->w->type,
                        .gate = f->gate,
                        .up = f->up,
                        .n = m * f->F,
                        .gelu = f->w->gelu};
    if (device_product(f, f->out, typed_at(f, f->merged, out * f->H * f->D), &w->wo, m, err) ||
        add_out(p, x, w->post_attn_norm, m, err) ||
        norm(p, f->y, f->w->type, x, w->ffn_norm, NULL, m, err) ||
        device_product(f, f->gate, f->y, &w->gate, m, err) ||
        device_product(f, f->up, f->y, &w->up, m, err) || p->d->act(p->d, &act, err) ||
        device_product(f, f->out, f->act, &w->down, m, err))
        return err->code;
    return add_out(p, x, w->post_ffn_norm, m, err);
}

static kvt_code layer(const pass *p, kvt_err *err)
{
    device_forward *f = p->f;
    if (device_record_begin(f->record, p->layer, f->length, err))
        return err->code;
    for (int64_t row = 0; row < p->n; row += f->chunk) {
        int64_t m = least(f->chunk, p->n - row);
        /* A round number of rows, so that products of few rows are of few shapes. */
        int64_t out = p->out_from <= row ? 0 : (p->out_from - row) / DEVICE_TILE * DEVICE_TILE;
        if (project_in(p, row, m, err) || attend(p, row, m, out, err) ||
            (out < m && project_out(p, row, m, out, err)))
            return err->code;
    }
    return device_record_end(f->record, p->layer, f->length, cache_of(p, f->kc),
                             cache_of(p, f->vc), f->cap, err);
}

kvt_code device_layers(device_forward *f, int64_t n, int64_t out_from, kvt_err *err)
{
    pass p = {.f = f, .d = f->d, .n = n};
    for (p.layer = 0; p.layer < f->L; p.layer++) {
        p.w = &f->w->layer[p.layer];
        p.out_from = p.layer == f->L - 1 ? out_from : 0;
        if (n > 1 && kvt_progress(f->ctx, "prefill", p.layer, f->L, err))
            return err->code;
        if (layer(&p, err))
            return err->code;
    }
    return device_record_flush(f->record, err);
}
