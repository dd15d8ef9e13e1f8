/* recorder.c - the tap that keeps what a trace holds (capture/recorder.h). */
#include "capture/recorder_priv.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "base/half.h"
#include "compute/rows.h"
#include "kvt/arena.h"
#include "traces/dataset.h"

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t query_begin(const recorder_spec *s)
{
    return s->queries_all || s->n_prompt < RECORDER_QUERIES ? 0
                                                            : s->n_prompt - RECORDER_QUERIES;
}

bool recorder_has_rows(const recorder_spec *s, int64_t n_token)
{
    const kvt_geometry *g = &s->weights->geometry;
    int64_t n_query = n_token - query_begin(s);
    return dataset_in_level(KVT_DS_ROWS, s->level) &&
           s->n_layer * g->n_head * n_query * n_token * 2 <= s->rows_limit;
}

void recorder_extents(kvt_writer_spec *out, const recorder_spec *s, int64_t n_token)
{
    int64_t block = future_block(s->n_layer, s->weights->geometry.n_head, s->n_prompt,
                                 s->n_token, s->block_limit);
    out->n_layer = s->n_layer;
    memcpy(out->layer_id, s->layer_id, sizeof out->layer_id);
    out->n_query = n_token - query_begin(s);
    out->n_block = future_blocks(block, s->n_prompt, n_token - s->n_prompt);
    out->facts.block_tokens = block;
    out->facts.delay = s->delay;
    out->facts.level = s->level;
}

static future_spec future_of(const recorder_spec *s)
{
    const kvt_geometry *g = &s->weights->geometry;
    future_spec f = {
        .backend = s->backend,
        .n_layer = s->n_layer,
        .n_head = (int)g->n_head,
        .n_prompt = s->n_prompt,
        .n_token = s->n_token,
        .tile = s->tile,
        .block = future_block(s->n_layer, g->n_head, s->n_prompt, s->n_token, s->block_limit),
        .delay = s->delay,
        .blocks = dataset_in_level(KVT_DS_BLOCK_SUM, s->level),
        .block_max = dataset_in_level(KVT_DS_BLOCK_MAX, s->level),
        .n_thread = kvt_threads(s->ctx),
        .on_device = s->device != NULL};
    for (int l = 0; l < s->n_layer; l++)
        f.window[l] = g->window[s->layer_id[l]];
    return f;
}

/* Everything but the pointers. */
static void layout(recorder *r, const recorder_spec *s)
{
    const kvt_geometry *g = &s->weights->geometry;
    *r = (recorder){.spec = *s, .g = g, .n_thread = kvt_threads(s->ctx)};
    r->queries = dataset_in_level(KVT_DS_QUERIES, s->level);
    r->moments = dataset_in_level(KVT_DS_QUERY_MEAN, s->level);
    r->norms = dataset_in_level(KVT_DS_HIDDEN_NORM, s->level);
    r->hidden = dataset_in_level(KVT_DS_HIDDEN, s->level);
    r->query_begin = query_begin(s);
    r->n_query = s->n_token - r->query_begin;
    r->n_response = s->n_token - s->n_prompt;
    kvt_writer_spec w;
    recorder_extents(&w, s, s->n_token);
    int64_t d = g->head_dim, t = s->n_token, q = r->n_query;
    r->temp_bytes = most(g->n_head * t * 4, (w.n_block + 1) * 4);
    if (dataset_in_level(KVT_DS_BLOCK_SUM, s->level))
        r->temp_bytes = most(r->temp_bytes, g->n_head * w.n_block * t * 2);
    if (dataset_in_level(KVT_DS_KEYS, s->level))
        r->temp_bytes = most(r->temp_bytes, g->n_kv_head * t * d * 2);
    if (r->queries)
        r->temp_bytes = most(r->temp_bytes, g->n_head * q * d * 2);
    r->stride = 128 * d + 3 * d * d + 2 * d; /* moments: a tile, its product, sums in double */
    r->stride = most(r->stride, 128 * g->n_hidden);
    /* A shorter response may make rows fit that would not at the greatest length. */
    for (int64_t n = s->n_token; r->queries && n > s->n_prompt - 1; n--)
        if (recorder_has_rows(s, n)) {
            q = n - r->query_begin;
            r->temp_bytes = most(r->temp_bytes, g->n_head * q * n * 2);
            r->stride = most(r->stride, (int64_t)(rows_scratch_bytes(n, d) / 4) + (q + n) * d);
            break;
        }
    r->temp_bytes = (r->temp_bytes + 63) / 64 * 64;
    r->stride = (r->stride + 15) / 16 * 16;
}

/* Values of the halves of keys that come from a device. */
static int64_t device_kv(const recorder *r)
{
    const recorder_spec *s = &r->spec;
    if (!s->device || !dataset_in_level(KVT_DS_KEYS, s->level))
        return 0;
    return s->n_layer * r->g->n_kv_head * s->n_token * r->g->head_dim;
}

/* What is kept on a device, and the memory that it is brought to. */
static device_record_spec device_spec(const recorder *r, const future_spec *f)
{
    const recorder_spec *s = &r->spec;
    int64_t m = r->n_response, prompt = future_blocks(f->block, s->n_prompt, 0);
    return (device_record_spec){.weights = s->device,
                                .n_layer = s->n_layer,
                                .layer_id = r->spec.layer_id,
                                .n_prompt = s->n_prompt,
                                .n_token = s->n_token,
                                .n_query = s->n_prompt - r->query_begin,
                                .block = f->block,
                                .block_prompt = prompt,
                                .block_response =
                                    future_blocks(f->block, s->n_prompt, m) - prompt,
                                .delay = f->delay,
                                .scale = FUTURE_SCALE,
                                .n_thread = r->n_thread,
                                .blocks = f->blocks,
                                .block_max = f->block_max,
                                .kv = dataset_in_level(KVT_DS_KEYS, s->level),
                                .queries = r->queries,
                                .norms = r->norms,
                                .hidden = r->hidden};
}

static device_record_arrays device_arrays(const recorder *r)
{
    const future *f = r->future;
    return (device_record_arrays){.lse = r->lse,
                                  .col_sum = f->col_sum,
                                  .future_sum = f->future_sum,
                                  .col_max = f->col_max,
                                  .future_max = f->future_max,
                                  .late = f->late,
                                  .open_sum = f->open_sum,
                                  .open_max = f->open_max,
                                  .block_sum = f->block_sum,
                                  .block_max = f->block_max,
                                  .k = r->k,
                                  .v = r->v,
                                  .q = r->q,
                                  .mean = r->mean,
                                  .cov = r->cov,
                                  .freq = r->freq,
                                  .norm = r->norm,
                                  .x = r->x,
                                  .l1 = r->l1,
                                  .l2 = r->l2};
}

/* One list for the allocation and the plan: X(member, number of values). */
/* clang-format off */
#define RECORDER_MEMORY(X)                                                              \
    X(lse,      lanes * s->n_token)                                                     \
    X(q,        r->queries ? lanes * r->n_query * r->g->head_dim : 0)                   \
    X(mean,     r->moments ? lanes * r->g->head_dim : 0)                                \
    X(cov,      r->moments ? lanes * r->g->head_dim * r->g->head_dim : 0)               \
    X(freq,     r->moments ? lanes * r->g->head_dim / 2 : 0)                            \
    X(norm,     r->norms ? s->n_layer * s->n_token : 0)                                 \
    X(x,        r->hidden ? s->n_layer * s->n_token * r->g->n_hidden : 0)               \
    X(logit_id, r->n_response * SAMPLE_TOP)                                             \
    X(logp,     r->n_response * SAMPLE_TOP)                                             \
    X(nll,      r->n_response)                                                          \
    X(entropy,  r->n_response)                                                          \
    X(pos,      r->n_query)                                                             \
    X(temp,     2 * r->temp_bytes)                                                      \
    X(l1,       r->norms ? (s->device ? lanes : r->g->n_head) * s->n_token : 0)         \
    X(l2,       r->norms ? (s->device ? lanes : r->g->n_head) * s->n_token : 0)         \
    X(k,        device_kv(r))                                                           \
    X(v,        device_kv(r))                                                           \
    X(scratch,  r->n_thread * r->stride)
/* clang-format on */

void recorder_device_spec(device_record_spec *out, const recorder_spec *s)
{
    recorder plan;
    future_spec fs = future_of(s);
    layout(&plan, s);
    *out = device_spec(&plan, &fs);
    out->layer_id = s->layer_id;
}

int64_t recorder_bytes(const recorder_spec *s, int64_t *on_device)
{
    recorder plan, *r = &plan;
    layout(r, s);
    future_spec fs = future_of(s);
    int64_t lanes = s->n_layer * r->g->n_head, bytes = future_bytes(&fs);
#define X(member, n) bytes += (n) * (int64_t)sizeof *r->member;
    RECORDER_MEMORY(X)
#undef X
    int64_t device = 0, pinned = 0;
    if (s->device) {
        device_record_spec ds;
        recorder_device_spec(&ds, s);
        device = device_record_bytes(&ds, &pinned);
    }
    if (on_device)
        *on_device = device;
    return bytes + pinned;
}

/* Mean, covariance and pair magnitudes of one head's queries before RoPE: the mean first, in
 * double, so that what is squared is centred; products of row tiles in f32, added in double. */
static void moments_of(const recorder *r, int64_t lane, int64_t head, int64_t n, const float *q)
{
    int64_t d = r->g->head_dim, ld = r->g->n_head * d, half = d / 2;
    int64_t skip = n > RECORDER_SKIP ? RECORDER_SKIP : 0, used = n - skip;
    float *mean = r->mean + lane * d, *cov = r->cov + lane * d * d,
          *freq = r->freq + lane * half;
    float *tile = r->scratch + omp_get_thread_num() * r->stride, *product = tile + 128 * d;
    double *total = (double *)(void *)(product + d * d), *sum = total; /* 128 d + d^2 is even */
    q += head * d + skip * ld;
    memset(sum, 0, (size_t)d * sizeof *sum);
    for (int64_t i = 0; i < used; i++)
        for (int64_t c = 0; c < d; c++)
            sum[c] += (double)q[i * ld + c];
    for (int64_t c = 0; c < d; c++)
        mean[c] = (float)(sum[c] / (double)used);
    memset(sum, 0, (size_t)half * sizeof *sum);
    for (int64_t i = 0; i < used; i++)
        for (int64_t c = 0; c < half; c++) {
            float a = q[i * ld + c], b = q[i * ld + half + c];
            sum[c] += (double)sqrtf(a * a + b * b);
        }
    for (int64_t c = 0; c < half; c++)
        freq[c] = (float)(sum[c] / (double)used);
    memset(total, 0, (size_t)(d * d) * sizeof *total);
    for (int64_t begin = 0; begin < used; begin += 128) {
        int64_t m = used - begin < 128 ? used - begin : 128;
        for (int64_t i = 0; i < m; i++)
            for (int64_t c = 0; c < d; c++)
                tile[i * d + c] = q[(begin + i) * ld + c] - mean[c];
        r->spec.backend->gemm(GEMM_TN, &(gemm_args){.c = product,
                                                    .a = tile,
                                                    .b = tile,
                                                    .m = d,
                                                    .n = d,
                                                    .k = m,
                                                    .lda = d,
                                                    .ldb = d,
                                                    .ldc = d,
                                                    .alpha = 1.0f});
        for (int64_t i = 0; i < d * d; i++)
            total[i] += (double)product[i];
    }
    /* A kernel may round the two halves of a product with itself otherwise. */
    for (int64_t i = 0; i < d; i++)
        for (int64_t c = 0; c < d; c++)
            cov[i * d + c] =
                (float)((total[i * d + c] + total[c * d + i]) / (2 * (double)used));
}

static void on_qk(void *user, int layer, int64_t pos, int64_t n, const float *q)
{
    recorder *r = user;
    int l = r->index[layer];
    if (l < 0 || pos != 0 || !r->moments)
        return; /* of the prompt only, which is one pass */
#pragma omp parallel for schedule(dynamic, 1) num_threads(r->n_thread)
    for (int64_t h = 0; h < r->g->n_head; h++)
        moments_of(r, l * r->g->n_head + h, h, n, q);
}

static void on_hidden(void *user, int layer, int64_t pos, int64_t n, const float *x,
                      const float *y)
{
    recorder *r = user;
    int64_t e = r->g->n_hidden, at = (int64_t)r->index[layer] * r->spec.n_token + pos;
    if (r->index[layer] < 0)
        return;
    for (int64_t i = 0; r->norms && i < n; i++) {
        double sum = 0;
        for (int64_t c = 0; c < e; c++)
            sum += (double)x[i * e + c] * (double)x[i * e + c];
        r->norm[at + i] = (float)sqrt(sum);
    }
    if (r->hidden)
        half_from_floats(r->x + at * e, y, n * e);
}

static void on_tile(void *user, const tap_tile *t)
{
    recorder *r = user;
    int l = r->index[t->layer];
    if (l < 0)
        return;
    int64_t d = r->g->head_dim, lane = l * r->g->n_head + t->head;
    memcpy(r->lse + lane * r->spec.n_token + t->pos, t->lse, (size_t)t->n_row * sizeof *t->lse);
    int64_t begin = most(t->pos, r->query_begin), n = t->pos + t->n_row - begin;
    if (r->queries && n > 0)
        half_from_floats(r->q + (lane * r->n_query + begin - r->query_begin) * d,
                         t->q + (begin - t->pos) * d, n * d);
    future_tile(r->future, l, t);
}

static void on_wave(void *user, int layer, int64_t pos, int64_t n)
{
    recorder *r = user;
    if (r->index[layer] >= 0)
        future_wave(r->future, r->index[layer], pos, n);
}

kvt_code recorder_new(recorder **out, const recorder_spec *s, kvt_err *err)
{
    *out = NULL;
    recorder *r = kvt_alloc(1, sizeof *r);
    if (!r)
        return kvt_fail_memory(err, sizeof *r);
    layout(r, s);
    int64_t lanes = s->n_layer * r->g->n_head;
    bool ok = true;
#define X(member, n) ok = ok && (r->member = kvt_alloc((n), sizeof *r->member)) != NULL;
    RECORDER_MEMORY(X)
#undef X
    future_spec fs = future_of(s);
    kvt_code code =
        ok ? future_new(&r->future, &fs, err) : kvt_fail_memory(err, recorder_bytes(s, NULL));
    if (!code && s->device) {
        device_record_spec ds = device_spec(r, &fs);
        ds.to = device_arrays(r);
        code = device_record_new(&r->device, &ds, err);
    }
    if (code) {
        recorder_free(r);
        return code;
    }
    memset(r->index, -1, sizeof r->index);
    for (int l = 0; l < s->n_layer; l++)
        r->index[s->layer_id[l]] = l;
    r->tap =
        (tap){.user = r, .wave_rows = r->future->wave_rows, .tile = on_tile, .wave = on_wave};
    if (r->moments)
        r->tap.qk = on_qk;
    if (r->norms || r->hidden)
        r->tap.hidden = on_hidden;
    *out = r;
    return KVT_OK;
}

void recorder_free(recorder *r)
{
    if (!r)
        return;
#define X(member, n) kvt_free(r->member);
    RECORDER_MEMORY(X)
#undef X
    future_free(r->future);
    device_record_free(r->device);
    kvt_free(r);
}

/* The logit of one id: among the best, or asked for. */
static kvt_code logit_of(const forward *f, const device_top *top, int32_t id, float *out,
                         kvt_err *err)
{
    for (int i = 0; i < DEV_TOP; i++)
        if (top->id[i] == id) {
            *out = top->logit[i];
            return KVT_OK;
        }
    return forward_logit_of(f, id, out, err);
}

static kvt_code on_best(void *user, const forward *f, int64_t pos, const device_top *top,
                        kvt_err *err)
{
    recorder *r = user;
    float taken;
    int64_t m = pos + 1 - r->spec.n_prompt;
    if (m < 0 || m >= r->n_expected)
        return KVT_OK;
    if (logit_of(f, top, r->expected[m], &taken, err))
        return err->code;
    recorder_top(r, m, top, taken);
    return KVT_OK;
}

static void on_logits(void *user, int64_t pos, const float *logit)
{
    recorder *r = user;
    sample_row row;
    int64_t m = pos + 1 - r->spec.n_prompt;
    if (m < 0 || m >= r->n_expected || r->failed.code)
        return;
    if (sampler_describe(r->sampler, &row, logit, r->expected[m], &r->failed) == KVT_OK)
        recorder_logit(r, m, &row);
}

void recorder_expect(recorder *r, sampler *s, const int32_t *id, int64_t n)
{
    r->sampler = s;
    r->expected = id;
    r->n_expected = n;
    r->tap.logits = on_logits;
    r->tap.best = on_best;
}

const tap *recorder_tap(const recorder *r)
{
    return &r->tap;
}

device_record *recorder_device(const recorder *r)
{
    return r->device;
}

const uint16_t *recorder_queries(const recorder *r, int layer, int64_t head, int64_t *n)
{
    int l = r->index[layer];
    *n = r->spec.n_prompt - r->query_begin;
    if (!r->queries || l < 0)
        return NULL;
    return r->q + (l * r->g->n_head + head) * r->n_query * r->g->head_dim;
}

void recorder_logit(recorder *r, int64_t m, const sample_row *row)
{
    memcpy(r->logit_id + m * SAMPLE_TOP, row->id, sizeof row->id);
    memcpy(r->logp + m * SAMPLE_TOP, row->logp, sizeof row->logp);
    r->nll[m] = row->nll;
    r->entropy[m] = row->entropy;
}

void recorder_top(recorder *r, int64_t m, const device_top *top, float taken)
{
    sample_row row;
    _Static_assert((int)SAMPLE_TOP == (int)DEV_TOP, "rows of /logit");
    memcpy(row.id, top->id, sizeof row.id);
    for (int i = 0; i < SAMPLE_TOP; i++)
        row.logp[i] = top->logit[i] - top->lse;
    row.nll = top->lse - taken;
    row.entropy = top->entropy;
    recorder_logit(r, m, &row);
}
