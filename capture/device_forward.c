/* device_forward.c - memory of a model that runs on a device, passes, logits
 * (capture/device_forward.h). The layers are in device_layer.c. */
#include "capture/device_forward_priv.h"

#include <math.h>
#include <string.h>

#include "compute/layer.h"
#include "kvt/arena.h"

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

int64_t device_tile(const kvt_geometry *g, int64_t n_token)
{
    const int64_t scores = 40 << 20; /* 160 MiB of f32: at 32 heads 128 rows of 8K tokens */
    int64_t tile = DEVICE_TILE;
    while (tile < DEVICE_TILE_MOST && 2 * tile * g->n_head * n_token <= scores)
        tile *= 2;
    return tile;
}

/* Everything but the pointers. */
static void layout(device_forward *f, const device_forward_spec *s)
{
    const kvt_geometry *g = s->weights->geometry;
    *f = (device_forward){.w = s->weights,
                          .g = g,
                          .d = s->weights->device,
                          .record = s->record,
                          .ctx = s->ctx,
                          .L = g->n_layer,
                          .H = g->n_head,
                          .G = g->n_kv_head,
                          .D = g->head_dim,
                          .E = g->n_hidden,
                          .F = g->n_ff,
                          .V = g->n_vocab,
                          .cap = s->n_token,
                          .rows = s->n_row,
                          .chunk = least(s->n_row, DEVICE_CHUNK),
                          .tile =
                              least(s->n_row, s->tile ? s->tile : device_tile(g, s->n_token)),
                          .logits = least(s->n_row, DEVICE_LOGITS),
                          .n_vocab = s->n_vocab ? s->n_vocab : g->n_vocab,
                          .size = dev_type_size(s->weights->type)};
    f->padded = (s->n_token + DEVICE_TILE - 1) / DEVICE_TILE * DEVICE_TILE;
    for (int l = 0; l < g->n_layer; l++)
        f->has_local = f->has_local || kvt_geometry_is_local(g, l);
    f->pinned_bytes = most(f->V * 4, f->logits * (2 * DEV_TOP + 2) * 4);
    f->pinned_bytes = most(f->pinned_bytes, DEVICE_HALVES * f->D * 2);
}

int64_t device_forward_bytes(const device_forward_spec *spec, int64_t *pinned)
{
    device_forward plan, *f = &plan;
    layout(f, spec);
    int64_t sum = 0;
#define X(member, name, bytes) sum += (bytes);
    FORWARD_DEVICE_MEMORY(X)
#undef X
    if (pinned)
        *pinned = f->pinned_bytes;
    return sum;
}

static kvt_code take(device_forward *f, kvt_err *err)
{
    kvt_device *d = f->d;
#define X(member, name, bytes)                                      \
    if ((bytes) > 0 && d->alloc(d, &f->member, (bytes), name, err)) \
        return err->code;
    FORWARD_DEVICE_MEMORY(X)
#undef X
    void *pinned;
    if (d->host_alloc(d, &pinned, f->pinned_bytes, err))
        return err->code;
    f->pinned = pinned;
    return KVT_OK;
}

/* The two tables of the rotation, in pieces through memory of the host. */
static kvt_code fill_table(device_forward *f, void *to, int layer, kvt_err *err)
{
    double freq[KVT_HEAD_DIM_MAX / 2], factor = kvt_geometry_rope(freq, f->g, layer);
    int64_t fit = f->pinned_bytes / (f->D * 4);
    for (int64_t pos = 0; pos < f->cap; pos += fit) {
        int64_t n = least(fit, f->cap - pos);
        float *rows = (float *)(void *)f->pinned;
        rope_table(rows, freq, factor, pos, n, f->D);
        if (f->d->upload(f->d, (float *)to + pos * f->D, rows, n * f->D * 4, err))
            return err->code;
    }
    return KVT_OK;
}

static kvt_code start(device_forward *f, kvt_err *err)
{
    bool done[2] = {false, false};
    for (int l = 0; l < f->L; l++) {
        bool local = kvt_geometry_is_local(f->g, l);
        if (!done[local] && fill_table(f, local ? f->local : f->table, l, err))
            return err->code;
        done[local] = true;
    }
    return KVT_OK;
}

kvt_code device_forward_new(device_forward **out, const device_forward_spec *spec, kvt_err *err)
{
    *out = NULL;
    device_forward *f = kvt_alloc(1, sizeof *f);
    if (!f)
        return kvt_fail_memory(err, sizeof *f);
    layout(f, spec);
    if (take(f, err) || start(f, err)) {
        device_forward_free(f);
        return err->code;
    }
    *out = f;
    return KVT_OK;
}

void device_forward_free(device_forward *f)
{
    kvt_err ignored;
    if (!f)
        return;
    (void)f->d->sync(f->d, &ignored);
#define X(member, name, bytes) f->d->free(f->d, f->member);
    FORWARD_DEVICE_MEMORY(X)
#undef X
    f->d->host_free(f->d, f->pinned);
    kvt_free(f);
}

int64_t device_forward_length(const device_forward *f)
{
    return f->length;
}

/* ---- passes ---- */

static kvt_code embed(device_forward *f, const int32_t *id, int64_t n, kvt_err *err)
{
    if (n < 1 || n > f->rows || f->length + n > f->cap)
        return kvt_fail(err, KVT_USAGE, "%lld tokens behind %lld do not fit a sequence of %lld",
                        (long long)n, (long long)f->length, (long long)f->cap);
    for (int64_t r = 0; r < n; r++)
        if (id[r] < 0 || id[r] >= f->V)
            return kvt_fail(err, KVT_USAGE,
                            "token %d at position %lld: the vocabulary has %lld", id[r],
                            (long long)(f->length + r), (long long)f->V);
    if (f->d->upload(f->d, f->id, id, n * 4, err))
        return err->code;
    return f->d->embed(f->d,
                       &(dev_embed_args){.x = f->x,
                                         .id = f->id,
                                         .table = f->w->embed.data,
                                         .quant = f->w->embed.type,
                                         .n_row = n,
                                         .n_hidden = f->E,
                                         .row_bytes = f->w->embed.row_bytes,
                                         .scale = (float)f->g->embed_scale},
                       err);
}

/* Logits of n rows of the residual, at most f->logits, and the best of them. */
static kvt_code logits(device_forward *f, int64_t row, int64_t n, kvt_err *err)
{
    kvt_device *d = f->d;
    dev_rmsnorm_args norm = {.out = f->y,
                             .type = f->w->type,
                             .x = (float *)f->x + row * f->E,
                             .gain = f->w->out_norm,
                             .n_row = n,
                             .n_hidden = f->E,
                             .eps = (float)f->g->norm_eps};
    dev_top_args top = {.logit = f->logit,
                        .id = f->top_id,
                        .top = f->top,
                        .lse = f->top_lse,
                        .entropy = f->entropy,
                        .n_row = n,
                        .ld = f->V,
                        .n_vocab = f->n_vocab};
    f->has_top = false;
    f->row = n - 1;
    if (d->rmsnorm(d, &norm, err) || device_product(f, f->logit, f->y, &f->w->lm_head, n, err))
        return err->code;
    return d->top(d, &top, err);
}

static kvt_code pass(device_forward *f, const int32_t *id, int64_t n, int64_t out_from,
                     kvt_err *err)
{
    if (embed(f, id, n, err) || device_layers(f, n, out_from, err))
        return err->code;
    f->length += n;
    return KVT_OK;
}

kvt_code device_forward_prefill(device_forward *f, const int32_t *id, int64_t n, kvt_err *err)
{
    return pass(f, id, n, n - 1, err) || logits(f, n - 1, 1, err) ? err->code : KVT_OK;
}

kvt_code device_forward_step(device_forward *f, int32_t id, kvt_err *err)
{
    return device_forward_prefill(f, &id, 1, err);
}

/* ---- what comes to the host ---- */

/* Up to two pieces, one behind the other in pinned memory, when all in front has run. */
static kvt_code bring(device_forward *f, const void *const *from, const int64_t *bytes, int n,
                      kvt_err *err)
{
    int64_t at = 0;
    if (f->d->copy_begin(f->d, 0, err))
        return err->code;
    for (int i = 0; i < n; at += bytes[i++])
        if (f->d->download(f->d, f->pinned + at, from[i], bytes[i], err))
            return err->code;
    return f->d->copy_end(f->d, 0, err) || f->d->copy_wait(f->d, 0, err) ? err->code : KVT_OK;
}

/* What the best of n rows are, into pinned memory: ids, logits, lse, entropy. */
static kvt_code bring_top(device_forward *f, int64_t n, kvt_err *err)
{
    const void *from[] = {f->top_id, f->top, f->top_lse, f->entropy};
    const int64_t bytes[] = {n * DEV_TOP * 4, n * DEV_TOP * 4, n * 4, n * 4};
    return bring(f, from, bytes, 4, err);
}

static kvt_code read_top(const device_forward *f, int64_t row, int64_t n, int64_t pos,
                         device_top *out, kvt_err *err)
{
    const char *at = f->pinned;
    memcpy(out->id, at + row * DEV_TOP * 4, sizeof out->id);
    memcpy(out->logit, at + (n + row) * DEV_TOP * 4, sizeof out->logit);
    memcpy(&out->lse, at + 2 * n * DEV_TOP * 4 + row * 4, sizeof out->lse);
    memcpy(&out->entropy, at + 2 * n * DEV_TOP * 4 + (n + row) * 4, sizeof out->entropy);
    if (!isfinite(out->lse))
        return kvt_fail(err, KVT_FORMAT,
                        "logits behind position %lld: expected numbers, their lse is %g%s",
                        (long long)pos, (double)out->lse,
                        f->w->type == DEV_F16 ? "; activations are f16 here, which ends at "
                                                "65504: --weights f32 goes beyond"
                                              : "");
    return KVT_OK;
}

kvt_code device_forward_top(device_forward *f, device_top *out, kvt_err *err)
{
    if (!f->has_top) { /* of one row */
        if (bring_top(f, 1, err) || read_top(f, 0, 1, f->length - 1, &f->best, err))
            return err->code;
        f->has_top = true;
    }
    *out = f->best;
    return KVT_OK;
}

static kvt_code bring_logits(device_forward *f, int64_t first, int64_t n, float *out,
                             kvt_err *err)
{
    const void *from = (const float *)f->logit + f->row * f->V + first;
    int64_t bytes = n * 4;
    if (bring(f, &from, &bytes, 1, err))
        return err->code;
    memcpy(out, f->pinned, (size_t)bytes);
    return KVT_OK;
}

kvt_code device_forward_logits(device_forward *f, float *out, kvt_err *err)
{
    return bring_logits(f, 0, f->V, out, err);
}

kvt_code device_forward_logit(device_forward *f, int32_t id, float *out, kvt_err *err)
{
    return bring_logits(f, id, 1, out, err);
}

kvt_code device_forward_force(device_forward *f, const int32_t *id, int64_t n,
                              device_row_fn *each, void *user, kvt_err *err)
{
    device_top top[DEVICE_LOGITS];
    int64_t begin = f->length;
    if (pass(f, id, n, 0, err))
        return err->code;
    for (int64_t row = 0; row < n; row += f->logits) {
        int64_t m = least(f->logits, n - row);
        if (logits(f, row, m, err) || bring_top(f, m, err))
            return err->code;
        for (int64_t i = 0; i < m; i++)
            if (read_top(f, i, m, begin + row + i, &top[i], err))
                return err->code;
        for (f->row = 0; f->row < m; f->row++) /* `each` reads this row's logits */
            if (each && each(user, begin + row + f->row, &top[f->row], err))
                return err->code;
        f->row = m - 1;
        f->best = top[m - 1];
        f->has_top = true;
        if (kvt_progress(f->ctx, "prefill", f->L, f->L, err))
            return err->code;
    }
    return KVT_OK;
}

kvt_code device_forward_halves(device_forward *f, bool keys, int layer, int64_t kv_head,
                               int64_t first, int64_t n, uint16_t *out, kvt_err *err)
{
    const void *cache = keys ? f->kc : f->vc;
    for (int64_t row = 0; row < n; row += DEVICE_HALVES) {
        int64_t m = least(DEVICE_HALVES, n - row), bytes = m * f->D * 2;
        int64_t at = ((layer * f->G + kv_head) * f->cap + first + row) * f->D;
        const void *from = (const char *)cache + at * f->size;
        if (f->halves) {
            dev_cast_args a = {
                .out = f->halves, .in = from, .to = DEV_F16, .from = f->w->type, .n = m * f->D};
            if (f->d->cast(f->d, &a, err))
                return err->code;
            from = f->halves;
        }
        if (bring(f, &from, &bytes, 1, err))
            return err->code;
        memcpy(out + row * f->D, f->pinned, (size_t)bytes);
    }
    return KVT_OK;
}

kvt_code device_forward_finish(device_forward *f, kvt_err *err)
{
    if (!f->record)
        return KVT_OK;
    return device_record_finish(f->record, f->kc, f->vc, f->cap, f->length, f->copy, err);
}
