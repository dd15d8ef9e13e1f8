/* device_receive.c - from pinned memory into the caller's arrays, and the end of a recording
 * (capture/device_record.h). */
#include "capture/device_record_priv.h"

#include <string.h>

enum { PUT_ALONE = 1 << 18 }; /* bytes that one thread moves before others have begun */

/* Mean, covariance and pair magnitudes of one head from the sums around its pivot. */
static void moments_of(const device_record *r, const char *at, int64_t lane, int64_t h)
{
    const device_record_arrays *to = &r->spec.to;
    int64_t d = r->D;
    double n = (double)(r->N > DEVICE_RECORD_SKIP ? r->N - DEVICE_RECORD_SKIP : r->N);
    const float *pivot = (const float *)(const void *)(at + r->at_pivot) + h * d;
    const double *sum = (const double *)(const void *)(at + r->at_sum) + h * d;
    const double *pair = (const double *)(const void *)(at + r->at_magnitude) + h * d / 2;
    const float *square = (const float *)(const void *)(at + r->at_cov) + h * d * d;
    float *cov = to->cov + lane * d * d;
    double off[KVT_HEAD_DIM_MAX]; /* of the mean from the pivot */
    for (int64_t i = 0; i < d; i++) {
        off[i] = sum[i] / n;
        to->mean[lane * d + i] = (float)((double)pivot[i] + off[i]);
    }
    for (int64_t i = 0; i < d / 2; i++)
        to->freq[lane * d / 2 + i] = (float)(pair[i] / n);
    /* A product with itself may be rounded otherwise in its two halves. */
    for (int64_t i = 0; i < d; i++)
        for (int64_t c = 0; c <= i; c++) {
            double both = (double)square[i * d + c] + (double)square[c * d + i];
            cov[i * d + c] = cov[c * d + i] = (float)(both / (2 * n) - off[i] * off[c]);
        }
}

/* n rows of `bytes` each, one behind the other, to rows of `stride` bytes. */
static void put_rows(const device_record *r, void *to, int64_t stride, const void *from,
                     int64_t n, int64_t bytes)
{
#pragma omp parallel for schedule(static) num_threads(r->n_thread) if (n * bytes > PUT_ALONE)
    for (int64_t i = 0; i < n; i++)
        memcpy((char *)to + i * stride, (const char *)from + i * bytes, (size_t)bytes);
}

/* Row i of what came, at `at` rows of `bytes`, to row i of rows of `stride` bytes. */
static void put_row(void *to, int64_t stride, const char *at, int64_t i, int64_t bytes)
{
    memcpy((char *)to + i * stride, at + i * bytes, (size_t)bytes);
}

static void put_blocks(const device_record *r, uint16_t *to, const char *at, int64_t lane,
                       int64_t h)
{
    int64_t all = r->spec.block_prompt + r->spec.block_response, row = r->T * 2;
    put_row(to + lane * all * r->T, all * row, at, h, r->spec.block_prompt * row);
}

/* What came of query head h of the layer with head 0 at `lane`. */
static void put_head(const device_record *r, const char *at, int64_t lane, int64_t h)
{
    const device_record_spec *c = &r->spec;
    const device_record_arrays *to = &c->to;
    int64_t n = r->N, d = r->D, query = c->n_query + r->M;
    put_row(to->col_sum + lane * n, n * 8, at + r->at_col_sum, h, n * 8);
    put_row(to->col_max + lane * n, n * 4, at + r->at_col_max, h, n * 4);
    put_row(to->lse + lane * r->T, r->T * 4, at + r->at_lse, h, n * 4);
    if (c->queries) {
        moments_of(r, at, lane + h, h);
        put_row(to->q + lane * query * d, query * d * 2, at + r->at_q, h, c->n_query * d * 2);
    }
    if (c->blocks)
        put_blocks(r, to->block_sum, at + r->at_block_sum, lane, h);
    if (c->block_max)
        put_blocks(r, to->block_max, at + r->at_block_max, lane, h);
}

/* Keys (h < G) or values of a kv head. */
static void put_kv(const device_record *r, const char *at, int64_t l, int64_t h)
{
    bool keys = h < r->G;
    uint16_t *to = (keys ? r->spec.to.k : r->spec.to.v) + l * r->G * r->T * r->D;
    put_row(to, r->T * r->D * 2, at + (keys ? r->at_k : r->at_v), h % r->G, r->N * r->D * 2);
}

/* By several threads: the GPU runs the next layer meanwhile, and the one behind has to be
 * enqueued before that has ended; new memory of the host costs a fault a page. */
kvt_code record_receive(device_record *r, record_slot *s, kvt_err *err)
{
    const device_record_spec *c = &r->spec;
    const device_record_arrays *to = &c->to;
    const char *at = s->pinned;
    int64_t l = s->layer, lane = l * r->H, n_kv = c->kv ? 2 * r->G : 0;
    if (r->d->copy_wait(r->d, (int)(s - r->slot), err))
        return err->code;
    s->layer = -1;
#pragma omp parallel for schedule(dynamic, 1) num_threads(r->n_thread)
    for (int64_t i = 0; i < n_kv + r->H; i++)
        if (i < n_kv)
            put_kv(r, at, l, i);
        else
            put_head(r, at, lane, i - n_kv);
    if (c->norms)
        memcpy(to->norm + l * r->T, at + r->at_norm, (size_t)r->N * sizeof(float));
    if (c->hidden)
        put_rows(r, to->x + l * r->T * r->E, r->E * 2, at + r->at_x, r->N, r->E * 2);
    return KVT_OK;
}

/* ---- the end ---- */

/* Rows on their way: n of `bytes`, to rows of `stride`. */
typedef struct piece {
    char *to;
    int64_t n, bytes, stride;
} piece;

typedef struct fetch {
    device_record *r;
    piece on_way[RECORD_SLOTS]; /* n 0: none */
    int next;
} fetch;

static kvt_code fetch_take(fetch *f, int i, kvt_err *err)
{
    piece *p = &f->on_way[i];
    if (p->n == 0)
        return KVT_OK;
    if (f->r->d->copy_wait(f->r->d, i, err))
        return err->code;
    put_rows(f->r, p->to, p->stride, f->r->slot[i].pinned, p->n, p->bytes);
    p->n = 0;
    return KVT_OK;
}

/* Rows of the device, one behind the other, to rows of `stride` bytes at the host. A slot's
 * memory is read while the next one is filled. */
static kvt_code fetch_rows(fetch *f, void *to, int64_t stride, const void *from, int64_t n,
                           int64_t bytes, kvt_err *err)
{
    kvt_device *d = f->r->d;
    if (!to || !from || bytes == 0)
        return KVT_OK;
    int64_t fit = f->r->pinned_bytes / bytes;
    for (int64_t i = 0; i < n; i += fit) {
        int s = f->next;
        piece p = {(char *)to + i * stride, n - i < fit ? n - i : fit, bytes, stride};
        if (fetch_take(f, s, err) || d->copy_begin(d, s, err) ||
            d->download(d, f->r->slot[s].pinned, (const char *)from + i * bytes, p.n * bytes,
                        err) ||
            d->copy_end(d, s, err))
            return err->code;
        f->on_way[s] = p;
        f->next = (s + 1) % RECORD_SLOTS;
    }
    return KVT_OK;
}

static kvt_code fetch_end(fetch *f, kvt_err *err)
{
    for (int i = 0; i < RECORD_SLOTS; i++)
        if (fetch_take(f, i, err))
            return err->code;
    return KVT_OK;
}

static kvt_code fetch_sums(fetch *f, kvt_err *err)
{
    const device_record *r = f->r;
    const device_record_spec *c = &r->spec;
    const device_record_arrays *to = &c->to;
    int64_t lanes = c->n_layer * r->H, n = r->N, t = r->T, m = r->M, first = c->block_prompt;
    int64_t all = first + c->block_response, query = c->n_query + m, d = r->D;
    if (fetch_rows(f, to->future_sum, n * 8, r->future_sum, lanes, n * 8, err) ||
        fetch_rows(f, to->future_max, n * 4, r->future_max, lanes, n * 4, err) ||
        fetch_rows(f, to->late, t * 8, r->late, lanes, t * 8, err) ||
        fetch_rows(f, to->open_sum, t * 4, r->open_sum, lanes, t * 4, err) ||
        fetch_rows(f, to->open_max, t * 4, r->open_max, lanes, t * 4, err) ||
        fetch_rows(f, to->lse + n, t * 4, r->late_lse, lanes, m * 4, err))
        return err->code;
    if (c->blocks && fetch_rows(f, to->block_sum + first * t, all * t * 2, r->late_sum, lanes,
                                c->block_response * t * 2, err))
        return err->code;
    if (c->block_max && fetch_rows(f, to->block_max + first * t, all * t * 2, r->late_max,
                                   lanes, c->block_response * t * 2, err))
        return err->code;
    if (c->queries &&
        fetch_rows(f, to->q + c->n_query * d, query * d * 2, r->late_q, lanes, m * d * 2, err))
        return err->code;
    if (c->norms && fetch_rows(f, to->norm + n, t * 4, r->late_norm, c->n_layer, m * 4, err))
        return err->code;
    if (c->hidden &&
        fetch_rows(f, to->x + n * r->E, t * r->E * 2, r->late_x, c->n_layer, m * r->E * 2, err))
        return err->code;
    return KVT_OK;
}

/* Keys or values of the response, head by head. */
static kvt_code fetch_kv(fetch *f, uint16_t *to, const void *cache, int64_t cap, int64_t m,
                         kvt_err *err)
{
    device_record *r = f->r;
    int64_t d = r->D, size = dev_type_size(r->w->type);
    for (int64_t i = 0; i < r->spec.n_layer * r->G; i++) {
        int64_t at = r->spec.layer_id[i / r->G] * r->G + i % r->G;
        const void *from = (const char *)cache + (at * cap + r->N) * d * size;
        void *half = r->halves + f->next * r->M * d;
        if (!r->is_half) {
            dev_cast_args a = {
                .out = half, .in = from, .to = DEV_F16, .from = r->w->type, .n = m * d};
            /* The slot's last halves must have gone before new ones are made. */
            if (fetch_take(f, f->next, err) || r->d->cast(r->d, &a, err))
                return err->code;
            from = half;
        }
        if (fetch_rows(f, to + (i * r->T + r->N) * d, 0, from, 1, m * d * 2, err))
            return err->code;
    }
    return KVT_OK;
}

/* W_O v of a head, norm_rows tokens at a time, and its norms. */
static kvt_code norms_of(device_record *r, int64_t h, const void *v, const void *wo, float *l1,
                         float *l2, int64_t n_token, kvt_err *err)
{
    kvt_device *d = r->d;
    int64_t size = dev_type_size(r->w->type);
    for (int64_t t = 0; t < n_token; t += r->norm_rows) {
        int64_t m = n_token - t < r->norm_rows ? n_token - t : r->norm_rows;
        dev_gemm_args product = {.op = DEV_NT,
                                 .type = r->w->type,
                                 .c = r->product,
                                 .a = (const char *)v + t * r->D * size,
                                 .b = (const char *)wo + h * r->D * size,
                                 .m = m,
                                 .n = r->E,
                                 .k = r->D,
                                 .lda = r->D,
                                 .ldb = r->H * r->D,
                                 .ldc = r->E,
                                 .n_batch = 1,
                                 .alpha = 1.0f};
        dev_norms_args norms = {.x = r->product,
                                .l1 = l1 + h * r->T + t,
                                .l2 = l2 + h * r->T + t,
                                .n_row = m,
                                .n_hidden = r->E};
        if (d->gemm(d, &product, err) || d->norms(d, &norms, err))
            return err->code;
    }
    return KVT_OK;
}

static kvt_code fetch_norms(fetch *f, int l, const void *values, int64_t cap, int64_t n_token,
                            void *copy, kvt_err *err)
{
    device_record *r = f->r;
    const device_record_arrays *to = &r->spec.to;
    int64_t layer = r->spec.layer_id[l], size = dev_type_size(r->w->type), lanes = l * r->H;
    const kvt_matrix *wo = &r->w->layer[layer].wo;
    const void *w = wo->data;
    float *l1 = r->l1 + l % RECORD_SLOTS * r->H * r->T;
    float *l2 = r->l2 + l % RECORD_SLOTS * r->H * r->T;
    if (wo->type != device_quant(r->w->type)) {
        dev_dequant_args a = {.out = copy,
                              .type = r->w->type,
                              .in = wo->data,
                              .quant = wo->type,
                              .n = wo->n_row * wo->n_col};
        if (r->d->dequant(r->d, &a, err))
            return err->code;
        w = copy;
    }
    for (int64_t h = 0; h < r->H; h++) {
        int64_t kv_head = layer * r->G + h / (r->H / r->G);
        const char *v = (const char *)values + kv_head * cap * r->D * size;
        if (norms_of(r, h, v, w, l1, l2, n_token, err))
            return err->code;
    }
    if (fetch_rows(f, to->l1 + lanes * r->T, r->T * 4, l1, r->H, r->T * 4, err) ||
        fetch_rows(f, to->l2 + lanes * r->T, r->T * 4, l2, r->H, r->T * 4, err))
        return err->code;
    return KVT_OK;
}

kvt_code device_record_finish(device_record *r, const void *k, const void *v, int64_t cap,
                              int64_t n_token, void *copy, kvt_err *err)
{
    fetch f = {.r = r};
    const device_record_arrays *to = &r->spec.to;
    int64_t m = n_token - r->N;
    if (device_record_flush(r, err) || fetch_sums(&f, err))
        return err->code;
    if (r->spec.kv && m > 0 &&
        (fetch_kv(&f, to->k, k, cap, m, err) || fetch_kv(&f, to->v, v, cap, m, err)))
        return err->code;
    /* The two pieces of a layer are taken before the norms of the next but one are made. */
    for (int l = 0; r->spec.norms && l < r->spec.n_layer; l++)
        if (fetch_norms(&f, l, v, cap, n_token, copy, err))
            return err->code;
    return fetch_end(&f, err);
}
