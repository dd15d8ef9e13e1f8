/* test_golden_arch.c - every architecture against transformers (arch.py) and llama.cpp
 * (arch_llamacpp.py), on tiny models with random weights that are made here again: as a GGUF
 * file and as a folder with the config.json that transformers wrote; in prefill and in steps.
 *
 * Q and K after RoPE, V, rows of attention and log-probabilities 1e-5 of the largest value;
 * probabilities against llama.cpp 5e-6, for gemma3 1e-3 of each on top, because its GELU there
 * is a table of halves. */
#include <hdf5.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "capture/forward.h"
#include "tests/check.h"
#include "tests/folder.h"
#include "tests/model_make.h"

enum { T = 24, LAYERS = 3, POS = 4, TOP = 64, HEADS = 4, DIM_MAX = 16, V = 320 };

/* As in arch_models.py. */
static const struct row {
    const char *name, *arch;
    int layers, kv_heads, dim, tied, window;
    double theta, spread;
    const char *scaling;
    double factor, original;
    bool divisors, is_gguf;
} rows[] = {
    {"llama", "llama", 3, 2, 12, 1, 0, 1e4, 0.2, NULL, 0, 0, false, true},
    {"llama linear", "llama", 3, 2, 12, 0, 0, 1e4, 0.2, "linear", 4, 0, false, true},
    {"llama factors", "llama", 3, 2, 16, 1, 0, 1e4, 0.2, NULL, 0, 0, true, true},
    {"qwen2 yarn", "qwen2", 3, 2, 12, 1, 0, 1e6, 0.2, "yarn", 4, 64, false, true},
    {"qwen2 windows", "qwen2", 3, 2, 12, 0, 0, 1e6, 0.2, NULL, 0, 0, false, false},
    {"qwen3 yarn", "qwen3", 3, 2, 16, 0, 0, 1e6, 0.2, "yarn", 4, 64, false, true},
    {"gemma3", "gemma3", 7, 1, 16, 1, 5, 1e6, 0.1, "linear", 8, 0, false, true},
    {"gemma3 scalar", "gemma3", 4, 1, 16, 1, 5, 1e6, 0.2, NULL, 0, 0, false, false},
};

static hid_t transformers, llamacpp;
static float divisor[DIM_MAX / 2];

/* ---- golden values -------------------------------------------------------------------------
 */

static void *read_set(hid_t file, const struct row *r, const char *name, hid_t type,
                      size_t size, int64_t *n)
{
    char path[96];
    snprintf(path, sizeof path, "%s/%s", r->name, name);
    hid_t set = H5Dopen2(file, path, H5P_DEFAULT), space = H5Dget_space(set);
    *n = set < 0 ? -1 : (int64_t)H5Sget_simple_extent_npoints(space);
    void *out = malloc((size_t)(*n + 1) * size);
    if (*n < 1 || H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, out) < 0)
        fail_msg("golden '%s' cannot be read", path);
    H5Sclose(space);
    H5Dclose(set);
    return out;
}

static float *read_f32(hid_t file, const struct row *r, const char *name, int64_t want)
{
    int64_t n;
    float *x = read_set(file, r, name, H5T_NATIVE_FLOAT, sizeof *x, &n);
    if (n != want)
        fail_msg("golden '%s/%s': %lld values, expected %lld", r->name, name, (long long)n,
                 (long long)want);
    return x;
}

static int32_t *read_i32(hid_t file, const struct row *r, const char *name, int64_t want)
{
    int64_t n;
    int32_t *x = read_set(file, r, name, H5T_NATIVE_INT32, sizeof *x, &n);
    if (n != want)
        fail_msg("golden '%s/%s': %lld values, expected %lld", r->name, name, (long long)n,
                 (long long)want);
    return x;
}

/* ---- the model -----------------------------------------------------------------------------
 */

static model_make_options options_of(const struct row *r)
{
    model_make_options o = model_make_of(r->arch);
    o.n_layer = r->layers;
    o.n_kv_head = r->kv_heads;
    o.head_dim = r->dim;
    o.tied = r->tied;
    o.window = r->window;
    o.spread = (float)r->spread;
    o.n_context = 256;
    o.rope_theta = r->theta;
    o.rope_scaling = r->scaling;
    o.rope_factor = r->factor;
    o.rope_original = r->original;
    if (r->divisors) {
        float *x = read_f32(transformers, r, "divisor", r->dim / 2);
        memcpy(divisor, x, (size_t)(r->dim / 2) * sizeof *x);
        o.rope_divisor = divisor;
        free(x);
    }
    return o;
}

static kvt_weights *load(const char *path)
{
    kvt_err err;
    checkpoint *c;
    kvt_weights *w;
    CHECK_OK(checkpoint_open(&c, path, &err), &err);
    CHECK_OK(kvt_weights_load(&w, c, NULL, NULL, &err), &err);
    checkpoint_close(c);
    return w;
}

static kvt_weights *load_gguf_form(const struct row *r)
{
    model_make_options o = options_of(r);
    const char *path = folder_path("model.gguf");
    assert_true(model_make_gguf(path, &o));
    return load(path);
}

static kvt_weights *load_folder_form(const struct row *r)
{
    model_make_options o = options_of(r);
    const char *path = folder_path(r->name);
    char config[1100];
    kvt_err err;
    int64_t n;
    o.rope_divisor = NULL;
    assert_true(model_make_folder(path, &o, &(model_make_folder_options){.no_config = true}));
    char *text = read_set(transformers, r, "config", H5T_NATIVE_UINT8, 1, &n);
    snprintf(config, sizeof config, "%s/config.json", path);
    CHECK_OK(file_write(config, text, (size_t)n, &err), &err);
    free(text);
    return load(path);
}

/* ---- a run ---------------------------------------------------------------------------------
 */

/* What a tap sees of all layers. */
typedef struct seen {
    float q[8][HEADS][T][DIM_MAX], p[8][HEADS][T][T], logit[T][V];
    int64_t dim;
} seen;

static void on_tile(void *user, const tap_tile *t)
{
    seen *s = user;
    for (int64_t r = 0; r < t->n_row; r++) {
        memcpy(s->q[t->layer][t->head][t->pos + r], t->q + r * s->dim,
               (size_t)s->dim * sizeof(float));
        memcpy(s->p[t->layer][t->head][t->pos + r] + t->first, t->p + r * t->n_key,
               (size_t)t->n_key * sizeof(float));
    }
}

static void on_logits(void *user, int64_t pos, const float *logit)
{
    seen *s = user;
    memcpy(s->logit[pos], logit, V * sizeof *logit);
}

/* All at once, or the first token and then one by one. */
static forward *run(seen *s, const kvt_weights *w, const kvt_backend *b, const int32_t *id,
                    bool steps)
{
    static const kvt_ctx ctx = {.n_thread = 2};
    static tap listen = {.tile = on_tile, .logits = on_logits};
    kvt_err err;
    forward *f;
    memset(s, 0, sizeof *s);
    s->dim = w->geometry.head_dim;
    listen.user = s;
    forward_spec spec = {
        .weights = w, .backend = b, .tap = &listen, .ctx = &ctx, .n_token = T, .n_row = T};
    CHECK_OK(forward_new(&f, &spec, &err), &err);
    CHECK_OK(forward_force(f, id, steps ? 1 : T, &err), &err);
    for (int t = 1; steps && t < T; t++)
        CHECK_OK(forward_step(f, id[t], &err), &err);
    return f;
}

/* ---- comparison ----------------------------------------------------------------------------
 */

/* got and want f32 [n], beside the largest of want */
static void compare(const struct row *r, const char *what, double limit, const float *got,
                    const float *want, int64_t n)
{
    double gap = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = fabs((double)got[i] - (double)want[i]);
        gap = d > gap || isnan(d) ? d : gap;
        size = fmax(size, fabs((double)want[i]));
    }
    if (!(gap <= limit * size))
        fail_msg("%s: %s: relative difference %.3g, limit %.3g", r->name, what, gap / size,
                 limit);
}

static double log_sum(const float *logit)
{
    double top = -INFINITY, sum = 0;
    for (int v = 0; v < V; v++)
        top = fmax(top, (double)logit[v]);
    for (int v = 0; v < V; v++)
        sum += exp((double)logit[v] - top);
    return top + log(sum);
}

static void compare_attention(const struct row *r, const seen *s, const forward *f,
                              const int32_t *layer, const int32_t *pos)
{
    int64_t D = r->dim, G = r->kv_heads, n = LAYERS * POS;
    float *q = read_f32(transformers, r, "q", n * HEADS * D);
    float *k = read_f32(transformers, r, "k", n * G * D);
    float *v = read_f32(transformers, r, "v", n * G * D);
    float *p = read_f32(transformers, r, "rows", n * HEADS * T);
    for (int64_t i = 0; i < n; i++) {
        int64_t l = layer[i / POS], t = pos[i % POS];
        for (int64_t h = 0; h < HEADS; h++) {
            compare(r, "Q", 1e-5, s->q[l][h][t], q + (i * HEADS + h) * D, D);
            compare(r, "rows", 1e-5, s->p[l][h][t], p + (i * HEADS + h) * T, T);
        }
        for (int64_t h = 0; h < G; h++) {
            compare(r, "K", 1e-5, forward_keys(f, (int)l, h) + t * D, k + (i * G + h) * D, D);
            compare(r, "V", 1e-5, forward_values(f, (int)l, h) + t * D, v + (i * G + h) * D, D);
        }
    }
    free(q), free(k), free(v), free(p);
}

static void compare_transformers(const struct row *r, const seen *s, const int32_t *pos)
{
    int32_t *id = read_i32(transformers, r, "top_id", POS * TOP);
    float *logp = read_f32(transformers, r, "top_logp", POS * TOP), got[TOP];
    for (int64_t i = 0; i < POS; i++) {
        const float *z = s->logit[pos[i]];
        double sum = log_sum(z);
        for (int64_t j = 0; j < TOP; j++)
            got[j] = (float)((double)z[id[i * TOP + j]] - sum);
        compare(r, "log-probabilities", 1e-5, got, logp + i * TOP, TOP);
    }
    free(id), free(logp);
}

static void compare_llamacpp(const struct row *r, const seen *s)
{
    int32_t *id = read_i32(llamacpp, r, "top_id", T * TOP);
    float *logp = read_f32(llamacpp, r, "top_logp", T * TOP);
    double relative = strcmp(r->arch, "gemma3") == 0 ? 1e-3 : 0;
    for (int64_t t = 0; t < T; t++) {
        double sum = log_sum(s->logit[t]);
        for (int64_t j = t * TOP; j < (t + 1) * TOP; j++) {
            double want = exp((double)logp[j]), got = exp((double)s->logit[t][id[j]] - sum);
            if (!(fabs(got - want) <= 5e-6 + relative * want))
                fail_msg("%s: llama.cpp, position %d, token %d: expected probability %.9g, got "
                         "%.9g",
                         r->name, (int)t, id[j], want, got);
        }
    }
    free(id), free(logp);
}

static void agrees(void **state)
{
    const struct row *r = *state;
    int32_t *id = read_i32(transformers, r, "id", T);
    int32_t *layer = read_i32(transformers, r, "layer", LAYERS);
    int32_t *pos = read_i32(transformers, r, "pos", POS);
    kvt_err err;
    kvt_backend *b;
    seen *s = malloc(2 * sizeof *s);
    CHECK_OK(kvt_backend_open(&b, "cpu", NULL, &err), &err);
    for (int folder = r->is_gguf ? 0 : 1; folder < 2; folder++) {
        kvt_weights *w = folder ? load_folder_form(r) : load_gguf_form(r);
        for (int steps = 0; steps < 2; steps++) {
            forward *f = run(s, w, b, id, steps);
            compare_attention(r, s, f, layer, pos);
            compare_transformers(r, s, pos);
            if (r->is_gguf)
                compare_llamacpp(r, s);
            forward_free(f);
        }
        kvt_weights_free(w);
    }
    kvt_backend_close(b);
    free(s), free(id), free(layer), free(pos);
}

/* The two forms of llama and qwen hold the same values, in another order of rows, and give the
 * same bytes; their frequencies come from different fields. */
static void forms_are_one(void **state)
{
    const struct row *r = *state;
    int32_t *id = read_i32(transformers, r, "id", T);
    kvt_err err;
    kvt_backend *b;
    seen *s = malloc(2 * sizeof *s);
    CHECK_OK(kvt_backend_open(&b, "cpu", NULL, &err), &err);
    kvt_weights *w[2] = {load_gguf_form(r), load_folder_form(r)};
    for (int64_t i = 0; i < r->dim / 2; i++)
        CHECK_NEAR(w[1]->geometry.rope_freq[i] / w[0]->geometry.rope_freq[i], 1,
                   r->divisors ? 1e-6 : 1e-12); /* divisors are f32 */
    bool exact = !r->divisors && strcmp(r->arch, "gemma3") != 0;
    for (int i = 0; i < 2; i++)
        forward_free(run(&s[i], w[i], b, id, false));
    if (exact)
        assert_memory_equal(&s[0], &s[1], sizeof *s);
    else
        compare(r, "logits", 1e-5, s[1].logit[0], s[0].logit[0], T * V);
    kvt_weights_free(w[0]);
    kvt_weights_free(w[1]);
    kvt_backend_close(b);
    free(s), free(id);
}

int main(void)
{
    static struct CMUnitTest tests[32];
    int n = 0;
    folder_new();
    transformers = H5Fopen(KVT_SOURCE_DIR "/tests/golden/arch.h5", H5F_ACC_RDONLY, H5P_DEFAULT);
    llamacpp =
        H5Fopen(KVT_SOURCE_DIR "/tests/golden/arch_llamacpp.h5", H5F_ACC_RDONLY, H5P_DEFAULT);
    if (transformers < 0 || llamacpp < 0)
        return 1;
    CHECK_ROWS(tests, &n, rows, agrees);
    for (int i = 0; i < CHECK_COUNT(rows); i++)
        if (rows[i].is_gguf)
            tests[n++] = (struct CMUnitTest){.name = rows[i].name,
                                             .test_func = forms_are_one,
                                             .initial_state = (void *)(uintptr_t)&rows[i]};
    int failed = CHECK_RUN("golden_arch", tests, n);
    H5Fclose(transformers);
    H5Fclose(llamacpp);
    folder_end();
    return failed;
}
