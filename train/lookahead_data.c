/* lookahead_data.c - prompts from traces, and where training begins. */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "capture/model.h"
#include "kvt/arena.h"
#include "train/lookahead_train.h"

static int64_t n_kv(const kvt_geometry *g)
{
    return g->n_layer * g->n_kv_head * g->head_dim;
}

int64_t look_data_bytes(const kvt_geometry *g, int64_t n_prompt)
{
    return n_prompt * (4 * n_kv(g) + 8 * g->n_layer * g->n_head);
}

kvt_code look_data_new(look_data *d, const look_run *r, int64_t n, kvt_err *err)
{
    const kvt_geometry *g = r->geometry;
    d->k = kvt_alloc(n * n_kv(g), sizeof *d->k);
    d->v = kvt_alloc(n * n_kv(g), sizeof *d->v);
    d->target = kvt_alloc(n * g->n_layer * g->n_head, sizeof *d->target);
    d->mean = kvt_alloc(n * g->n_layer * g->n_head, sizeof *d->mean);
    d->cap = n;
    if (!d->k || !d->v || !d->target || !d->mean)
        return kvt_fail_memory(err, look_data_bytes(g, n));
    return KVT_OK;
}

void look_data_free(look_data *d)
{
    kvt_free(d->k);
    kvt_free(d->v);
    kvt_free(d->target);
    kvt_free(d->mean);
}

/* The prompt's part of a layer's halves [G T D]. */
static kvt_code read_kv(kvt_trace *t, kvt_ds ds, int layer, const kvt_geometry *g, int64_t n,
                        uint16_t *out, kvt_err *err)
{
    kvt_view v;
    kvt_code code = kvt_trace_read_raw(t, ds, layer, &v, err);
    if (code)
        return code;
    for (int64_t h = 0; h < g->n_kv_head; h++)
        memcpy(out + (layer * g->n_kv_head + h) * n * g->head_dim,
               (const uint16_t *)v.data + h * v.stride[0],
               (size_t)(n * g->head_dim) * sizeof *out);
    kvt_trace_done(t, &v);
    return KVT_OK;
}

static kvt_code read_future(kvt_trace *t, kvt_ds ds, int layer, const kvt_geometry *g,
                            int64_t n, float *out, kvt_err *err)
{
    kvt_view v;
    kvt_code code = kvt_trace_read(t, ds, layer, &v, err);
    if (code)
        return code;
    memcpy(out + layer * g->n_head * n, v.data, (size_t)(g->n_head * n) * sizeof *out);
    kvt_trace_done(t, &v);
    return KVT_OK;
}

kvt_code look_data_read(look_data *d, const look_run *r, const train_trace *t, bool heldout,
                        kvt_err *err)
{
    const kvt_geometry *g = r->geometry;
    kvt_ds ds = r->params->target == LOOK_TARGET_MAX ? KVT_DS_FUTURE_MAX : KVT_DS_FUTURE_MEAN;
    kvt_trace *file;
    int64_t n = t->n_prompt;
    kvt_code code = kvt_trace_open(&file, t->path, 1 << 20, err);
    if (code)
        return code;
    if (strcmp(kvt_trace_info_of(file)->digest, t->digest) != 0)
        code = kvt_fail(err, KVT_FORMAT, "'%s' changed while it was trained on", t->path);
    for (int l = 0; !code && l < g->n_layer; l++) {
        code = read_kv(file, KVT_DS_KEYS, l, g, n, d->k, err);
        if (!code)
            code = read_kv(file, KVT_DS_VALUES, l, g, n, d->v, err);
        if (!code)
            code = read_future(file, ds, l, g, n, d->target, err);
        if (!code && heldout)
            code = read_future(file, KVT_DS_FUTURE_MEAN, l, g, n, d->mean, err);
    }
    kvt_trace_close(file);
    d->sample = (look_sample){.n_prompt = n, .k = d->k, .v = d->v, .target = d->target};
    return code ? kvt_within(err, "'%s'", t->path) : KVT_OK;
}

/* The first training trace (by digest) whose response fills the tokens, else the first. */
static const train_trace *longest(const look_run *r)
{
    for (int i = 0; i < r->run->spec->n_trace; i++)
        if (r->run->trace[i].n_response >= r->layout.n_token)
            return &r->run->trace[i];
    return r->run->trace;
}

/* Embeddings of the first tokens of one response, from its beginning again where it is short.
 */
static kvt_code from_response(look_run *r, kvt_err *err)
{
    const kvt_geometry *g = r->geometry;
    const kvt_weights *w = model_weights(r->run->spec->model);
    const train_trace *t = longest(r);
    kvt_trace *file;
    kvt_view id;
    kvt_code code = kvt_trace_open(&file, t->path, 1 << 20, err);
    if (code)
        return code;
    code = kvt_trace_read(file, KVT_DS_TOKEN_ID, 0, &id, err);
    for (int64_t i = 0; !code && i < r->layout.n_token; i++) {
        int32_t token = ((const int32_t *)id.data)[t->n_prompt + i % t->n_response];
        if (token < 0 || token >= g->n_vocab)
            code = kvt_fail(err, KVT_FORMAT, "'%s': token %d is outside the vocabulary of %lld",
                            t->path, (int)token, (long long)g->n_vocab);
        for (int64_t e = 0; !code && e < g->n_hidden; e++)
            r->param[i * g->n_hidden + e] =
                matrix_floats(&w->embed)[token * g->n_hidden + e] * (float)g->embed_scale;
    }
    kvt_trace_close(file);
    return code;
}

static void from_noise(look_run *r)
{
    uint64_t rng[RNG_WORDS];
    train_stream(r->run, "embeddings", rng);
    for (int64_t i = 0; i < r->layout.n_token * r->geometry->n_hidden; i++) {
        double u = 1 - rng_real(rng), angle = 2 * acos(-1.0) * rng_real(rng);
        r->param[i] = (float)(0.02 * r->geometry->embed_scale * sqrt(-2 * log(u)) * cos(angle));
    }
}

kvt_code look_begin(look_run *r, kvt_err *err)
{
    uint64_t rng[RNG_WORDS];
    train_stream(r->run, "lora", rng);
    for (int l = 0; l < r->geometry->n_layer; l++)
        for (int m = 0; m < ADAPTER_MAPS; m++) {
            int64_t in, out, at = r->layout.a[l][m];
            adapter_map_shape(r->geometry, (adapter_map_id)m, &in, &out);
            for (int64_t i = 0; at >= 0 && i < r->layout.rank * in; i++)
                r->param[at + i] = (float)((2 * rng_real(rng) - 1) / sqrt((double)in));
        }
    if (r->params->init == LOOK_INIT_RESPONSE)
        return from_response(r, err);
    from_noise(r);
    return KVT_OK;
}
