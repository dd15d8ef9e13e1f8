/* forward.c - memory and bookkeeping of a running model; the passes are in prefill.c, decode.c.
 */
#include "capture/forward_priv.h"

#include <omp.h>

#include "base/half.h"
#include "capture/decoded.h"
#include "kvt/arena.h"

static const tap nobody;

/* What forward_new takes, in f32 values; one list for the allocation and for --plan. */
typedef struct sizes {
    int64_t kv, x, q, table, local, decoded, logit, part, stride;
} sizes;

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static bool has_local(const kvt_geometry *g)
{
    for (int l = 0; l < g->n_layer; l++)
        if (kvt_geometry_is_local(g, l))
            return true;
    return false;
}

/* The larger of the two rounds that read matrices, over all layers. */
static int64_t decoded_most(const kvt_weights *w)
{
    int64_t sum = 0;
    for (int64_t l = 0; l < w->geometry.n_layer; l++) {
        const kvt_weights_layer *y = &w->layer[l];
        const kvt_matrix *in[] = {&y->wq, &y->wk, &y->wv};
        const kvt_matrix *out[] = {&y->wo, &y->gate, &y->up, &y->down};
        sum = most(sum, most(decoded_floats(in, 3), decoded_floats(out, 4)));
    }
    return sum;
}

static sizes sizes_of(const forward_spec *s, int64_t tile)
{
    const kvt_geometry *g = &s->weights->geometry;
    int64_t hd = g->n_head * g->head_dim, gd = g->n_kv_head * g->head_dim;
    int64_t chunks = (s->n_token + DECODE_KEYS - 1) / DECODE_KEYS;
    /* A thread's scratch: a tile of attention (queries, lse, probabilities), or a row tile's
     * way through projections (norm, k, v) and feed-forward (norm, out, gate, up). */
    int64_t rows = forward_long_tiles(s->n_row) ? FORWARD_LONG : FORWARD_SHORT;
    int64_t attention = tile * (g->head_dim + 1 + s->n_token);
    int64_t layer = rows * (2 * g->n_hidden + most(2 * gd, 2 * g->n_ff));
    int64_t decode = 2 * g->n_hidden + g->n_ff;
    int64_t vocab = FORWARD_VOCAB * g->n_hidden; /* rows of the output matrix, decoded */
    sizes z = {.kv = g->n_layer * gd * s->n_token,
               .x = s->n_row * g->n_hidden,
               .q = s->n_row * hd,
               .table = s->n_token * g->head_dim,
               .local = has_local(g) ? s->n_token * g->head_dim : 0,
               .decoded = decoded_most(s->weights),
               .logit = g->n_vocab,
               .part = g->n_head * (chunks * g->head_dim + s->n_token + 1),
               .stride = (most(most(attention, layer), most(decode, vocab)) + 15) / 16 * 16};
    return z;
}

int64_t forward_bytes(const forward_spec *spec)
{
    if (spec->device)
        return forward_device_bytes(spec);
    sizes z = sizes_of(spec, spec->tile ? spec->tile : FORWARD_TILE);
    return (int64_t)sizeof(float) * (2 * z.kv + z.x + 2 * z.q + z.table + z.local + z.decoded +
                                     z.logit + z.part + kvt_threads(spec->ctx) * z.stride);
}

static bool take(forward *f, const sizes *z)
{
    f->k = kvt_alloc(z->kv, sizeof(float));
    f->v = kvt_alloc(z->kv, sizeof(float));
    f->x = kvt_alloc(z->x, sizeof(float));
    f->q = kvt_alloc(z->q, sizeof(float));
    f->o = kvt_alloc(z->q, sizeof(float));
    f->table = kvt_alloc(z->table, sizeof(float));
    f->local = kvt_alloc(z->local, sizeof(float));
    f->decoded = kvt_alloc(z->decoded, sizeof(float));
    f->logit = kvt_alloc(z->logit, sizeof(float));
    f->part = kvt_alloc(z->part, sizeof(float));
    return f->k && f->v && f->x && f->q && f->o && f->table && f->local && f->decoded &&
           f->logit && f->part;
}

static void tables(forward *f)
{
    double freq[KVT_HEAD_DIM_MAX / 2];
    bool done[2] = {false, false};
    for (int l = 0; l < f->g->n_layer; l++) {
        bool local = kvt_geometry_is_local(f->g, l);
        if (done[local])
            continue;
        double factor = kvt_geometry_rope(freq, f->g, l);
        rope_table(local ? f->local : f->table, freq, factor, 0, f->cap, f->g->head_dim);
        done[local] = true;
    }
}

kvt_code forward_new(forward **out, const forward_spec *spec, kvt_err *err)
{
    *out = NULL;
    forward *f = kvt_alloc(1, sizeof *f);
    if (!f)
        return kvt_fail_memory(err, sizeof *f);
    f->w = spec->weights;
    f->g = &spec->weights->geometry;
    f->b = spec->backend;
    f->tap = spec->tap ? spec->tap : &nobody;
    f->ctx = spec->ctx;
    if (spec->device) {
        kvt_code code = forward_device_new(f, spec, err);
        if (code)
            forward_free(f);
        else
            *out = f;
        return code;
    }
    f->cap = spec->n_token;
    f->rows = spec->n_row;
    f->tile = spec->tile ? spec->tile : FORWARD_TILE;
    f->n_thread = kvt_threads(spec->ctx);
    sizes z = sizes_of(spec, f->tile);
    bool ok = take(f, &z);
    if (ok)
        f->scratch = kvt_alloc(f->n_thread * z.stride, sizeof(float));
    f->stride = z.stride;
    if (!f->scratch) {
        forward_free(f);
        return kvt_fail(
            err, KVT_NOMEM,
            "out of memory: a sequence of %lld tokens needs %lld MiB besides the weights",
            (long long)spec->n_token, (long long)(forward_bytes(spec) >> 20));
    }
    tables(f);
    gemm_one_thread();
    *out = f;
    return KVT_OK;
}

void forward_free(forward *f)
{
    if (!f)
        return;
    device_forward_free(f->device);
    kvt_free(f->k);
    kvt_free(f->v);
    kvt_free(f->x);
    kvt_free(f->q);
    kvt_free(f->o);
    kvt_free(f->table);
    kvt_free(f->local);
    kvt_free(f->decoded);
    kvt_free(f->logit);
    kvt_free(f->many);
    kvt_free(f->part);
    kvt_free(f->scratch);
    kvt_free(f);
}

bool forward_poll(forward *f)
{
    kvt_err err;
    if (omp_get_thread_num() == 0 && !atomic_load(&f->stopped) &&
        kvt_progress(f->ctx, f->doing, f->done, f->total, &err))
        atomic_store(&f->stopped, true);
    return atomic_load(&f->stopped);
}

kvt_code forward_check(forward *f, kvt_err *err)
{
    if (!forward_poll(f))
        return KVT_OK;
    return kvt_fail(err, KVT_STOPPED, "stopped while running the model");
}

kvt_code forward_embed(forward *f, const int32_t *id, int64_t n, kvt_err *err)
{
    int64_t n_hidden = f->g->n_hidden;
    if (n < 1 || n > f->rows || f->length + n > f->cap)
        return kvt_fail(err, KVT_USAGE, "%lld tokens behind %lld do not fit a sequence of %lld",
                        (long long)n, (long long)f->length, (long long)f->cap);
    for (int64_t r = 0; r < n; r++) {
        if (id[r] < 0 || id[r] >= f->g->n_vocab)
            return kvt_fail(err, KVT_USAGE,
                            "token %d at position %lld: the vocabulary has %lld", id[r],
                            (long long)(f->length + r), (long long)f->g->n_vocab);
        float *to = f->x + r * n_hidden, scale = (float)f->g->embed_scale;
        const float *from = matrix_rows(&f->w->embed, id[r], 1, to);
        for (int64_t e = 0; e < n_hidden; e++)
            to[e] = from[e] * scale;
    }
    return KVT_OK;
}

const float *forward_logit(const forward *f)
{
    return f->logit;
}

int64_t forward_length(const forward *f)
{
    return f->device ? device_forward_length(f->device) : f->length;
}

kvt_code forward_halves(const forward *f, bool keys, int layer, int64_t kv_head, int64_t first,
                        int64_t n, uint16_t *out, kvt_err *err)
{
    if (f->device) { /* which one thread uses at a time */
        kvt_code code;
#pragma omp critical(forward_device)
        code = device_forward_halves(f->device, keys, layer, kv_head, first, n, out, err);
        return code;
    }
    const float *from = keys ? forward_k(f, layer, kv_head) : forward_v(f, layer, kv_head);
    half_from_floats(out, from + first * f->g->head_dim, n * f->g->head_dim);
    return KVT_OK;
}

const float *forward_keys(const forward *f, int layer, int64_t kv_head)
{
    return forward_k(f, layer, kv_head);
}

const float *forward_values(const forward *f, int layer, int64_t kv_head)
{
    return forward_v(f, layer, kv_head);
}

const float *forward_matrix(const forward *f, const kvt_matrix *m)
{
    const float *out;
    decoded_fill(&out, f->decoded, &m, 1, f->n_thread);
    return out;
}

double forward_flops(const kvt_geometry *g, int64_t n, int64_t tile)
{
    double hd = (double)(g->n_head * g->head_dim), gd = (double)(g->n_kv_head * g->head_dim);
    double e = (double)g->n_hidden, rows = (double)n, attention = 0;
    double last =
        (double)(n - forward_tile_begin(
                         n, forward_tile_of(n, n - 1))); /* rows of the last layer that go on */
    for (int l = 0; l < g->n_layer; l++)
        for (int64_t pos = 0; pos < n; pos += tile) {
            int64_t m = n - pos < tile ? n - pos : tile;
            attention += 4 * (double)(m * (pos + m - attend_first(pos, g->window[l]))) * hd;
        }
    double in = 2 * e * (hd + 2 * gd), out = 2 * e * hd + 6 * e * (double)g->n_ff;
    return (double)g->n_layer * rows * in + attention +
           ((double)(g->n_layer - 1) * rows + last) * out;
}
