/* recorder_write.c - from the recorder's memory into a trace file, layer by layer. */
#include "capture/recorder_priv.h"

#include <omp.h>
#include <string.h>

#include "base/clock.h"
#include "base/half.h"
#include "compute/rows.h"
#include "traces/dataset.h"
#include "traces/writer.h"

typedef struct job {
    recorder *r;
    const forward *f;
    kvt_writer *w;
    int64_t n_prompt, n_token, n_query, n_response, n_block;
    int layer; /* of the trace */
    double computing;
    int at;              /* the half of temp that room() gave last */
    int64_t used_by[2];  /* the put that reads each half */
    int64_t last, norms; /* the last put; the one that reads l1 and l2 */
} job;

/* Memory for one dataset, while the one before is written. Its next user waits for that put. */
static kvt_code room(job *j, void **out, kvt_err *err)
{
    j->used_by[j->at] = j->last;
    j->at = !j->at;
    *out = j->r->temp + j->at * j->r->temp_bytes;
    return writer_wait(j->w, j->used_by[j->at], err);
}

static kvt_code put(job *j, kvt_ds ds, const void *data, kvt_dtype dtype, const char *axes,
                    size_t rank, const int64_t *dim, kvt_err *err)
{
    if (!dataset_in_level(ds, j->r->spec.level))
        return KVT_OK;
    kvt_view v = kvt_view_of(data, dtype, axes, rank, dim);
    return writer_put_later(j->w, ds, j->layer, &v, &j->last, err);
}

/* Keys or values of a kv head of the layer as halves, [T D]: those that a device has brought,
 * or the engine's own, which cannot fail. */
static void halves(const job *j, bool keys, int64_t kv_head, uint16_t *out)
{
    const recorder *r = j->r;
    kvt_err never;
    int64_t n = j->n_token * r->g->head_dim, lane = j->layer * r->g->n_kv_head + kv_head;
    if (r->device)
        memcpy(out, (keys ? r->k : r->v) + lane * r->spec.n_token * r->g->head_dim,
               (size_t)n * sizeof *out);
    else
        (void)!forward_halves(j->f, keys, r->spec.layer_id[j->layer], kv_head, 0, j->n_token,
                              out, &never);
}

/* Rows [H T], packed where the memory of a longest sequence is wider. */
static kvt_code put_packed(job *j, kvt_ds ds, const float *from, kvt_err *err)
{
    void *out;
    int64_t h = j->r->g->n_head, n = j->n_token;
    if (room(j, &out, err))
        return err->code;
    for (int64_t i = 0; i < h; i++)
        memcpy((float *)out + i * n, from + i * j->r->spec.n_token, (size_t)n * sizeof *from);
    return put(j, ds, out, KVT_F32, KVT_SHAPE("HT", h, n), err);
}

/* One head's attention rows, from halves (compute/rows.h). */
static void rows_of(const job *j, uint16_t *out, int64_t head, const int32_t *pos)
{
    recorder *r = j->r;
    const kvt_geometry *g = r->g;
    int64_t d = g->head_dim, n = j->n_token, lane = j->layer * g->n_head + head;
    int model_layer = r->spec.layer_id[j->layer];
    float *k = r->scratch + omp_get_thread_num() * r->stride, *q = k + n * d;
    /* Through a half and back: what a reader of the file will have. */
    uint16_t *half = (uint16_t *)(void *)(q + j->n_query * d);
    halves(j, true, head / (g->n_head / g->n_kv_head), half);
    half_to_floats(k, half, n * d);
    half_to_floats(q, r->q + lane * r->n_query * d, j->n_query * d);
    rows_head(out + head * j->n_query * n, q, k, pos, j->n_query, n, d, (float)g->attn_scale,
              g->window[model_layer], half);
}

static kvt_code write_rows(job *j, const int32_t *pos, kvt_err *err)
{
    const kvt_geometry *g = j->r->g;
    void *out;
    if (!recorder_has_rows(&j->r->spec, j->n_token))
        return KVT_OK;
    if (room(j, &out, err))
        return err->code;
    double begin = clock_now();
#pragma omp parallel for schedule(dynamic, 1) num_threads(j->r->n_thread)
    for (int64_t h = 0; h < g->n_head; h++)
        rows_of(j, out, h, pos);
    j->computing += clock_now() - begin;
    return put(j, KVT_DS_ROWS, out, KVT_F16,
               KVT_SHAPE("HQT", g->n_head, j->n_query, j->n_token), err);
}

/* W_O v of every token and query head, tile by tile: never all of it. */
static void norms_of(const job *j, const float *wo, int64_t head, int64_t begin)
{
    recorder *r = j->r;
    const kvt_geometry *g = r->g;
    int model_layer = r->spec.layer_id[j->layer];
    int64_t d = g->head_dim, e = g->n_hidden;
    int64_t m = j->n_token - begin < 128 ? j->n_token - begin : 128;
    float *product = r->scratch + omp_get_thread_num() * r->stride;
    const float *v = forward_values(j->f, model_layer, head / (g->n_head / g->n_kv_head));
    r->spec.backend->gemm(GEMM_NT, &(gemm_args){.c = product,
                                                .a = v + begin * d,
                                                .b = wo + head * d,
                                                .m = m,
                                                .n = e,
                                                .k = d,
                                                .lda = d,
                                                .ldb = g->n_head * d,
                                                .ldc = e,
                                                .alpha = 1.0f});
    r->spec.backend->norms(r->l1 + head * j->n_token + begin, r->l2 + head * j->n_token + begin,
                           product, e, m, e);
}

/* A device has made those of all layers. */
static kvt_code put_device_norms(job *j, kvt_err *err)
{
    const recorder *r = j->r;
    int64_t at = j->layer * r->g->n_head * r->spec.n_token;
    kvt_code code = put_packed(j, KVT_DS_WO_L1, r->l1 + at, err);
    return code ? code : put_packed(j, KVT_DS_WO_L2, r->l2 + at, err);
}

static kvt_code write_norms(job *j, kvt_err *err)
{
    const kvt_geometry *g = j->r->g;
    if (!j->r->norms)
        return KVT_OK;
    if (j->r->device)
        return put_device_norms(j, err);
    if (writer_wait(j->w, j->norms, err)) /* of the layer before */
        return err->code;
    double begin = clock_now();
    int64_t tiles = (j->n_token + 127) / 128;
    int model_layer = j->r->spec.layer_id[j->layer];
    const float *wo = forward_matrix(j->f, &j->r->spec.weights->layer[model_layer].wo);
#pragma omp parallel for schedule(dynamic, 1) num_threads(j->r->n_thread)
    for (int64_t i = 0; i < tiles * g->n_head; i++)
        norms_of(j, wo, i / tiles, i % tiles * 128);
    j->computing += clock_now() - begin;
    kvt_code code =
        put(j, KVT_DS_WO_L1, j->r->l1, KVT_F32, KVT_SHAPE("HT", g->n_head, j->n_token), err);
    if (!code)
        code = put(j, KVT_DS_WO_L2, j->r->l2, KVT_F32, KVT_SHAPE("HT", g->n_head, j->n_token),
                   err);
    j->norms = j->last;
    return code;
}

static kvt_code write_kv(job *j, kvt_err *err)
{
    const kvt_geometry *g = j->r->g;
    if (!dataset_in_level(KVT_DS_KEYS, j->r->spec.level))
        return KVT_OK;
    for (int keys = 1; keys >= 0; keys--) {
        void *out;
        if (room(j, &out, err))
            return err->code;
        for (int64_t h = 0; h < g->n_kv_head; h++)
            halves(j, keys, h, (uint16_t *)out + h * j->n_token * g->head_dim);
        if (put(j, keys ? KVT_DS_KEYS : KVT_DS_VALUES, out, KVT_F16,
                KVT_SHAPE("GTD", g->n_kv_head, j->n_token, g->head_dim), err))
            return err->code;
    }
    return KVT_OK;
}

static kvt_code write_queries(job *j, kvt_err *err)
{
    recorder *r = j->r;
    int64_t h = r->g->n_head, d = r->g->head_dim, lane = j->layer * h;
    if (!r->queries)
        return KVT_OK;
    void *q;
    if (room(j, &q, err))
        return err->code;
    for (int64_t i = 0; i < h; i++)
        memcpy((uint16_t *)q + i * j->n_query * d, r->q + (lane + i) * r->n_query * d,
               (size_t)(j->n_query * d) * sizeof *r->q);
    if (put(j, KVT_DS_QUERIES, q, KVT_F16, KVT_SHAPE("HQD", h, j->n_query, d), err) ||
        put(j, KVT_DS_QUERY_MEAN, r->mean + lane * d, KVT_F32, KVT_SHAPE("HD", h, d), err) ||
        put(j, KVT_DS_QUERY_COV, r->cov + lane * d * d, KVT_F32, KVT_SHAPE("HDD", h, d, d),
            err))
        return err->code;
    return put(j, KVT_DS_QUERY_FREQ, r->freq + lane * d / 2, KVT_F32, KVT_SHAPE("HF", h, d / 2),
               err);
}

static kvt_code write_prompt_sums(job *j, kvt_err *err)
{
    const recorder *r = j->r;
    const future *f = r->future;
    int64_t h = r->g->n_head, n = j->n_prompt, lane = j->layer * h;
    void *out;
    if (room(j, &out, err))
        return err->code;
    for (int64_t i = 0; i < h * n; i++)
        ((float *)out)[i] = (float)f->col_sum[lane * n + i];
    if (put(j, KVT_DS_COL_SUM, out, KVT_F32, KVT_SHAPE("HN", h, n), err))
        return err->code;
    return put(j, KVT_DS_COL_MAX, f->col_max + lane * n, KVT_F32, KVT_SHAPE("HN", h, n), err);
}

static kvt_code write_future(job *j, kvt_err *err)
{
    const recorder *r = j->r;
    const future *f = r->future;
    int64_t h = r->g->n_head, n = j->n_prompt, t = j->n_token, lane = j->layer * h;
    void *out;
    if (j->n_response) {
        if (room(j, &out, err))
            return err->code;
        future_mean(f, j->layer, t, out);
        if (put(j, KVT_DS_FUTURE_MEAN, out, KVT_F32, KVT_SHAPE("HN", h, n), err) ||
            put(j, KVT_DS_FUTURE_MAX, f->future_max + lane * n, KVT_F32, KVT_SHAPE("HN", h, n),
                err))
            return err->code;
    }
    if (room(j, &out, err))
        return err->code;
    future_delayed(f, j->layer, t, out);
    return put(j, KVT_DS_FUTURE_DELAYED, out, KVT_F32, KVT_SHAPE("HT", h, t), err);
}

static kvt_code write_sums(job *j, kvt_err *err)
{
    const recorder *r = j->r;
    const future *f = r->future;
    int64_t h = r->g->n_head, lane = j->layer * h;
    void *out;
    if (write_prompt_sums(j, err) || write_future(j, err) ||
        put_packed(j, KVT_DS_LSE, r->lse + lane * r->spec.n_token, err))
        return err->code;
    for (int max = 0; f->spec.blocks && max <= f->spec.block_max; max++) {
        if (room(j, &out, err))
            return err->code;
        future_block_rows(f, max, j->layer, j->n_token, out);
        if (put(j, max ? KVT_DS_BLOCK_MAX : KVT_DS_BLOCK_SUM, out, KVT_F16,
                KVT_SHAPE("HJT", h, j->n_block, j->n_token), err))
            return err->code;
    }
    return KVT_OK;
}

static kvt_code write_hidden(job *j, kvt_err *err)
{
    recorder *r = j->r;
    int64_t at = j->layer * r->spec.n_token, e = r->g->n_hidden;
    if (r->norms &&
        put(j, KVT_DS_HIDDEN_NORM, r->norm + at, KVT_F32, KVT_SHAPE("T", j->n_token), err))
        return err->code;
    if (!r->hidden)
        return KVT_OK;
    return put(j, KVT_DS_HIDDEN, r->x + at * e, KVT_F16, KVT_SHAPE("TE", j->n_token, e), err);
}

/* Datasets without layers. pos: i32, room for the stored queries. */
static kvt_code write_rest(job *j, int32_t *pos, kvt_err *err)
{
    recorder *r = j->r;
    int64_t m = j->n_response, block = r->future->spec.block;
    void *room_of;
    if (room(j, &room_of, err))
        return err->code;
    int32_t *start = room_of;
    for (int64_t i = 0; i < j->n_block; i++)
        start[i] = (int32_t)(i < r->future->prompt_blocks
                                 ? i * block
                                 : j->n_prompt + (i - r->future->prompt_blocks) * block);
    start[j->n_block] = (int32_t)j->n_token;
    if (put(j, KVT_DS_BLOCK_START, start, KVT_I32, KVT_SHAPE("I", j->n_block + 1), err) ||
        put(j, KVT_DS_LAYER_ID, r->spec.layer_id, KVT_I32, KVT_SHAPE("L", r->spec.n_layer),
            err) ||
        put(j, KVT_DS_LOGIT_ID, r->logit_id, KVT_I32, KVT_SHAPE("MX", m, KVT_TOP), err) ||
        put(j, KVT_DS_LOGIT_LOGP, r->logp, KVT_F32, KVT_SHAPE("MX", m, KVT_TOP), err) ||
        put(j, KVT_DS_LOGIT_NLL, r->nll, KVT_F32, KVT_SHAPE("M", m), err) ||
        put(j, KVT_DS_LOGIT_ENTROPY, r->entropy, KVT_F32, KVT_SHAPE("M", m), err))
        return err->code;
    return put(j, KVT_DS_QUERY_POS, pos, KVT_I32, KVT_SHAPE("Q", j->n_query), err);
}

static kvt_code write_layer(job *j, const int32_t *pos, kvt_err *err)
{
    if (write_sums(j, err) || write_kv(j, err) || write_queries(j, err) ||
        write_norms(j, err) || write_hidden(j, err))
        return err->code;
    return j->r->queries ? write_rows(j, pos, err) : KVT_OK;
}

kvt_code recorder_write(recorder *r, const forward *f, kvt_writer *w, double *seconds,
                        kvt_err *err)
{
    if (r->failed.code) {
        *err = r->failed;
        return err->code;
    }
    if (r->device && forward_finish(f, err))
        return err->code;
    job j = {
        .r = r, .f = f, .w = w, .n_prompt = r->spec.n_prompt, .n_token = forward_length(f)};
    j.n_query = j.n_token - r->query_begin;
    j.n_response = j.n_token - j.n_prompt;
    j.n_block = future_blocks(r->future->spec.block, j.n_prompt, j.n_response);
    int32_t *pos = r->pos;
    for (int64_t i = 0; i < j.n_query; i++)
        pos[i] = (int32_t)(r->query_begin + i);
    future_close(r->future, j.n_token);
    kvt_code code = write_rest(&j, pos, err);
    for (j.layer = 0; !code && j.layer < r->spec.n_layer; j.layer++) {
        code = kvt_progress(r->spec.ctx, "write", j.layer, r->spec.n_layer, err);
        if (!code)
            code = write_layer(&j, pos, err);
        if (code && code != KVT_STOPPED && !strstr(err->text, "layer")) /* the writer's own */
            kvt_within(err, "layer %d", r->spec.layer_id[j.layer]);
    }
    if (!code)
        code = writer_wait(w, j.last, err);
    if (seconds)
        *seconds = j.computing;
    return code;
}
