/* device_record.c - what is gathered of each layer while it runs (capture/device_record.h). */
#include "capture/device_record_priv.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "kvt/arena.h"

enum { ALIGN = 256, PINNED_MIN = 1 << 20 };

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t aligned(int64_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

/* Everything but the pointers: extents, and where each part of a stage lies. */
static void layout(device_record *r, const device_record_spec *s)
{
    const kvt_geometry *g = s->weights->geometry;
    *r = (device_record){.spec = *s, .w = s->weights, .d = s->weights->device, .g = g};
    r->H = g->n_head;
    r->G = g->n_kv_head;
    r->D = g->head_dim;
    r->E = g->n_hidden;
    r->N = s->n_prompt;
    r->T = s->n_token;
    r->M = s->n_token - s->n_prompt;
    r->chunk = r->N < DEVICE_CHUNK ? r->N : DEVICE_CHUNK;
    r->norm_rows = NORM_VALUES / r->E > r->T ? r->T : most(NORM_VALUES / r->E, 1);
    r->is_half = s->weights->type == DEV_F16;
    r->n_thread = s->n_thread > 0 ? s->n_thread : 1;
    int64_t at = 0;
#define X(member, type, n) \
    r->at_##member = at;   \
    at += aligned((n) * (int64_t)sizeof(type));
    RECORD_STAGE(X)
    r->stage_bytes = at;
    RECORD_STAGE_KV(X)
#undef X
    if (!r->is_half) /* halves are made on the device first */
        r->stage_bytes = at;
    /* Any lane of what comes at the end fits into a slot, too. */
    int64_t lane = most(r->T * 8, r->M * r->D * 2);
    lane = most(most(lane, r->M * r->E * 2), s->blocks ? s->block_response * r->T * 2 : 0);
    r->pinned_bytes = most(most(at, lane), PINNED_MIN);
    memset(r->index, -1, sizeof r->index);
    for (int l = 0; l < s->n_layer; l++)
        r->index[s->layer_id[l]] = l;
}

int64_t device_record_bytes(const device_record_spec *spec, int64_t *pinned)
{
    device_record plan, *r = &plan;
    layout(r, spec);
    int64_t bytes = RECORD_SLOTS * r->stage_bytes, lanes = spec->n_layer * r->H;
#define X(member, what, n) bytes += (n) * (int64_t)sizeof *r->member;
    RECORD_RESIDENT(X)
#undef X
    if (pinned)
        *pinned = RECORD_SLOTS * r->pinned_bytes;
    return bytes;
}

static kvt_code take(device_record *r, kvt_err *err)
{
    kvt_device *d = r->d;
    int64_t lanes = r->spec.n_layer * r->H;
#define X(member, what, n)                                                             \
    if ((n) > 0 &&                                                                     \
        d->alloc(d, (void **)&r->member, (n) * (int64_t)sizeof *r->member, what, err)) \
        return err->code;
    RECORD_RESIDENT(X)
#undef X
    for (int i = 0; i < RECORD_SLOTS; i++)
        if (d->alloc(d, &r->slot[i].stage, r->stage_bytes, "what is recorded of a layer",
                     err) ||
            d->host_alloc(d, &r->slot[i].pinned, r->pinned_bytes, err))
            return err->code;
    return KVT_OK;
}

/* What is added to begins at zero; so does what a window never reaches. */
static kvt_code start(device_record *r, kvt_err *err)
{
    kvt_device *d = r->d;
    int64_t lanes = r->spec.n_layer * r->H;
#define X(member, what, n)                                                          \
    if (r->member && d->clear(d, r->member, (n) * (int64_t)sizeof *r->member, err)) \
        return err->code;
    RECORD_RESIDENT(X)
#undef X
    float one[256];
    for (int i = 0; i < 256; i++)
        one[i] = 1.0f;
    for (int64_t i = 0; r->ones && i < r->chunk; i += 256)
        if (d->upload(d, r->ones + i, one,
                      (r->chunk - i < 256 ? r->chunk - i : 256) * (int64_t)sizeof *one, err))
            return err->code;
    return KVT_OK;
}

kvt_code device_record_new(device_record **out, const device_record_spec *spec, kvt_err *err)
{
    *out = NULL;
    device_record *r = kvt_alloc(1, sizeof *r);
    if (!r)
        return kvt_fail_memory(err, sizeof *r);
    layout(r, spec);
    for (int i = 0; i < RECORD_SLOTS; i++)
        r->slot[i].layer = -1;
    if (take(r, err) || start(r, err)) {
        device_record_free(r);
        return err->code;
    }
    *out = r;
    return KVT_OK;
}

void device_record_free(device_record *r)
{
    kvt_err ignored;
    if (!r)
        return;
    (void)r->d->sync(r->d, &ignored); /* nothing may be on its way into what goes */
#define X(member, what, n) r->d->free(r->d, r->member);
    RECORD_RESIDENT(X)
#undef X
    for (int i = 0; i < RECORD_SLOTS; i++) {
        r->d->free(r->d, r->slot[i].stage);
        r->d->host_free(r->d, r->slot[i].pinned);
    }
    kvt_free(r);
}

/* ---- a layer ---- */

bool device_record_wants(const device_record *r, int layer)
{
    return r && r->index[layer] >= 0;
}

static bool is_prompt(const device_record *r, int64_t pos)
{
    return pos < r->N;
}

static record_slot *slot_of(device_record *r, int l)
{
    return &r->slot[l % RECORD_SLOTS];
}

#define STAGE(r, l, member) ((void *)((char *)slot_of(r, l)->stage + (r)->at_##member))

kvt_code device_record_begin(device_record *r, int layer, int64_t pos, kvt_err *err)
{
    if (!device_record_wants(r, layer) || !is_prompt(r, pos))
        return KVT_OK;
    int l = r->index[layer];
    kvt_device *d = r->d;
    assert(pos == 0); /* a prompt is one pass */
    /* What was in this stage before has been received. Sums and maxima lie first. */
    return d->clear(d, slot_of(r, l)->stage, r->at_lse, err);
}

float *device_record_lengths(device_record *r, int layer, int64_t pos)
{
    if (!device_record_wants(r, layer) || !r->spec.norms)
        return NULL;
    int l = r->index[layer];
    return is_prompt(r, pos) ? (float *)STAGE(r, l, norm) + pos
                             : r->late_norm + l * r->M + pos - r->N;
}

float *device_record_lse(device_record *r, int layer, int64_t pos, int64_t *ld)
{
    if (!device_record_wants(r, layer))
        return NULL;
    int l = r->index[layer];
    *ld = is_prompt(r, pos) ? r->N : r->M;
    return is_prompt(r, pos) ? (float *)STAGE(r, l, lse) + pos
                             : r->late_lse + l * r->H * r->M + pos - r->N;
}

kvt_code device_record_hidden(device_record *r, int layer, int64_t pos, int64_t n,
                              const void *y, kvt_err *err)
{
    if (!device_record_wants(r, layer) || !r->spec.hidden)
        return KVT_OK;
    int l = r->index[layer];
    uint16_t *to = is_prompt(r, pos) ? (uint16_t *)STAGE(r, l, x) + pos * r->E
                                     : r->late_x + (l * r->M + pos - r->N) * r->E;
    return r->d->cast(
        r->d,
        &(dev_cast_args){.out = to, .in = y, .to = DEV_F16, .from = r->w->type, .n = n * r->E},
        err);
}

/* Sums and products of queries before the rotation, around a pivot near their mean, so that
 * what is squared is small: the mean of the first rows that come. */
static kvt_code moments(device_record *r, int l, int64_t pos, int64_t n, const float *q,
                        kvt_err *err)
{
    kvt_device *d = r->d;
    int64_t hd = r->H * r->D, skip = r->N > DEVICE_RECORD_SKIP ? DEVICE_RECORD_SKIP : 0;
    int64_t from = skip > pos ? skip - pos : 0, m = n - from;
    bool first = pos + from == skip;
    if (m <= 0)
        return KVT_OK;
    q += from * hd;
    float *pivot = STAGE(r, l, pivot), *product = STAGE(r, l, cov);
    dev_gemm_args mean = {.op = DEV_NN,
                          .type = DEV_F32,
                          .c = pivot,
                          .a = r->ones,
                          .b = q,
                          .m = 1,
                          .n = hd,
                          .k = m,
                          .lda = m,
                          .ldb = hd,
                          .ldc = hd,
                          .n_batch = 1,
                          .alpha = 1.0f / (float)m};
    dev_moments_args a = {.q = q,
                          .pivot = pivot,
                          .centred = r->centred,
                          .sum = STAGE(r, l, sum),
                          .magnitude = STAGE(r, l, magnitude),
                          .ld = hd,
                          .n_row = m,
                          .n_head = r->H,
                          .head_dim = r->D};
    dev_gemm_args square = {.op = DEV_TN,
                            .type = DEV_F32,
                            .c = product,
                            .a = r->centred,
                            .b = r->centred,
                            .m = r->D,
                            .n = r->D,
                            .k = m,
                            .lda = hd,
                            .ldb = hd,
                            .ldc = r->D,
                            .n_batch = r->H,
                            .stride_a = r->D,
                            .stride_b = r->D,
                            .stride_c = r->D * r->D,
                            .alpha = 1.0f,
                            .beta = first ? 0.0f : 1.0f};
    if ((first && d->gemm(d, &mean, err)) || d->moments(d, &a, err) || d->gemm(d, &square, err))
        return err->code;
    return KVT_OK;
}

kvt_code device_record_queries(device_record *r, int layer, int64_t pos, int64_t n, float *q,
                               const float *table, kvt_err *err)
{
    if (!device_record_wants(r, layer) || !r->spec.queries)
        return KVT_OK;
    int l = r->index[layer];
    int64_t hd = r->H * r->D, begin = is_prompt(r, pos) ? r->N - r->spec.n_query : r->N;
    if (is_prompt(r, pos) && moments(r, l, pos, n, q, err))
        return err->code;
    int64_t skip = begin > pos ? begin - pos : 0, row = pos + skip - begin; /* first kept */
    int64_t cap = is_prompt(r, pos) ? r->spec.n_query : r->M;
    uint16_t *to = is_prompt(r, pos) ? STAGE(r, l, q) : r->late_q + l * r->H * r->M * r->D;
    if (skip >= n)
        return KVT_OK;
    return r->d->rope(r->d,
                      &(dev_rope_args){.x = q + skip * hd,
                                       .table = table + skip * r->D,
                                       .out = to + row * r->D,
                                       .type = DEV_F16,
                                       .ld = hd,
                                       .head_stride = cap * r->D,
                                       .row_stride = r->D,
                                       .n_row = n - skip,
                                       .n_head = r->H,
                                       .head_dim = r->D},
                      err);
}

kvt_code device_record_rows(device_record *r, int layer, const dev_record_args *rows,
                            kvt_err *err)
{
    if (!device_record_wants(r, layer))
        return KVT_OK;
    const device_record_spec *s = &r->spec;
    int l = r->index[layer];
    bool prompt = is_prompt(r, rows->pos);
    int64_t lane = l * r->H, n_block = prompt ? s->block_prompt : s->block_response;
    dev_record_args a = *rows;
    a.n_head = r->H;
    a.n_prompt = r->N;
    a.n_token = r->T;
    a.delay = s->delay;
    a.sum = prompt ? STAGE(r, l, col_sum) : r->future_sum + lane * r->N;
    a.max = prompt ? STAGE(r, l, col_max) : r->future_max + lane * r->N;
    a.late = r->late + lane * r->T;
    if (s->blocks) {
        a.open_sum = r->open_sum + lane * r->T;
        a.block_sum = prompt ? STAGE(r, l, block_sum) : r->late_sum + lane * n_block * r->T;
    }
    if (s->block_max) {
        a.open_max = r->open_max + lane * r->T;
        a.block_max = prompt ? STAGE(r, l, block_max) : r->late_max + lane * n_block * r->T;
    }
    a.block = s->block;
    a.n_block = n_block;
    a.block_first = prompt ? 0 : s->block_prompt;
    a.prompt_blocks = s->block_prompt;
    a.scale = s->scale;
    return r->d->record(r->d, &a, err);
}

/* Keys or values of the prompt into the slot's pinned memory: halves as they lie, or by way of
 * the stage. */
static kvt_code send_kv(device_record *r, const record_slot *s, const void *cache, int64_t cap,
                        int64_t at, kvt_err *err)
{
    kvt_device *d = r->d;
    int64_t n = r->N * r->D;
    for (int64_t h = 0; h < r->G; h++)
        if (d->download(d, (char *)s->pinned + at + h * n * 2,
                        (const char *)cache + h * cap * r->D * 2, n * 2, err))
            return err->code;
    return KVT_OK;
}

static kvt_code halve_kv(device_record *r, const record_slot *s, const void *cache, int64_t cap,
                         int64_t at, kvt_err *err)
{
    int64_t n = r->N * r->D, size = dev_type_size(r->w->type);
    for (int64_t h = 0; h < r->G; h++)
        if (r->d->cast(r->d,
                       &(dev_cast_args){.out = (char *)s->stage + at + h * n * 2,
                                        .in = (const char *)cache + h * cap * r->D * size,
                                        .to = DEV_F16,
                                        .from = r->w->type,
                                        .n = n},
                       err))
            return err->code;
    return KVT_OK;
}

kvt_code device_record_end(device_record *r, int layer, int64_t pos, const void *k,
                           const void *v, int64_t cap, kvt_err *err)
{
    if (!device_record_wants(r, layer) || !is_prompt(r, pos))
        return KVT_OK;
    int l = r->index[layer], i = l % RECORD_SLOTS;
    record_slot *s = slot_of(r, l);
    kvt_device *d = r->d;
    bool half = r->spec.kv && r->is_half, made = r->spec.kv && !r->is_half;
    if (made && (halve_kv(r, s, k, cap, r->at_k, err) || halve_kv(r, s, v, cap, r->at_v, err)))
        return err->code;
    if (d->copy_begin(d, i, err) || d->download(d, s->pinned, s->stage, r->stage_bytes, err))
        return err->code;
    if (half && (send_kv(r, s, k, cap, r->at_k, err) || send_kv(r, s, v, cap, r->at_v, err)))
        return err->code;
    if (d->copy_end(d, i, err))
        return err->code;
    s->layer = l;
    /* The layer before has long been on its way: its slot is free when the next one ends. */
    record_slot *before = &r->slot[(i + 1) % RECORD_SLOTS];
    return before->layer >= 0 && before->layer < l ? record_receive(r, before, err) : KVT_OK;
}

kvt_code device_record_flush(device_record *r, kvt_err *err)
{
    for (int i = 0; r && i < RECORD_SLOTS; i++)
        if (r->slot[i].layer >= 0 && record_receive(r, &r->slot[i], err))
            return err->code;
    return KVT_OK;
}
