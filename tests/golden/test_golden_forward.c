/* test_golden_forward.c - the engine on a real model against transformers in f32 on the same
 * dequantised weights (golden/forward.py): Q, K, V 1e-4 relative, rows and log-probabilities
 * 1e-3, greedy tokens equal where the two best logits differ by more than 1e-3. Skipped without
 * the model. Compiled for SmolLM2 and, with GOLDEN_GEMMA, for Gemma 3 270M, whose prompt is
 * longer than its windows. */
#include "capture/forward.h"

#include <hdf5.h>
#include <math.h>
#include <stdlib.h>

#include "tests/check.h"
#include "tests/model_load.h"
#include "tests/model_path.h"

#ifdef GOLDEN_GEMMA
#define GOLDEN_FILE "gemma.h5"
enum { N = 640, WIDTH = 256 };
#else
#define GOLDEN_FILE   "forward.h5"
#define GOLDEN_SECOND "llamacpp.h5"
enum { N = 256, WIDTH = 64 };
#endif
enum { LAYERS = 3, POS = 16, TOP = 64, STEPS = 64 };

static const char *golden_model(char *out, size_t cap)
{
#ifdef GOLDEN_GEMMA
    return model_path_of(out, cap, "KVT_GEMMA", "gemma3-270m");
#else
    return model_path(out, cap);
#endif
}

static hid_t file;
static kvt_weights *weights;
static kvt_backend *backend;
static int32_t id[N], layer_id[LAYERS], pos[POS];

static void *read_set(const char *name, hid_t type, int64_t n, size_t size)
{
    void *out = malloc((size_t)n * size);
    hid_t set = H5Dopen2(file, name, H5P_DEFAULT), space = H5Dget_space(set);
    if (set < 0 || H5Sget_simple_extent_npoints(space) != n ||
        H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, out) < 0)
        fail_msg(GOLDEN_FILE ": '%s' is not %lld values", name, (long long)n);
    H5Sclose(space);
    H5Dclose(set);
    return out;
}

static float *read_f32(const char *name, int64_t n)
{
    return read_set(name, H5T_NATIVE_FLOAT, n, sizeof(float));
}

/* What the tap keeps at the golden layers and positions. */
static float got_q[LAYERS][POS][16][WIDTH], got_rows[LAYERS][POS][16][N];

static void on_tile(void *user, const tap_tile *t)
{
    (void)user;
    for (int l = 0; l < LAYERS; l++)
        for (int i = 0; t->layer == layer_id[l] && i < POS; i++) {
            int64_t r = pos[i] - t->pos;
            if (r < 0 || r >= t->n_row)
                continue;
            memcpy(got_q[l][i][t->head], t->q + r * WIDTH, WIDTH * sizeof(float));
            memcpy(got_rows[l][i][t->head] + t->first, t->p + r * t->n_key,
                   (size_t)t->n_key * sizeof(float));
        }
}

/* Norm of the difference beside the norm of what is expected. */
static void check_vector(const char *what, int l, int i, int64_t h, const float *got,
                         const float *want, int64_t n, double limit)
{
    double gap = 0, size = 0;
    for (int64_t d = 0; d < n; d++) {
        gap += pow((double)got[d] - (double)want[d], 2);
        size += pow((double)want[d], 2);
    }
    if (!(sqrt(gap) <= limit * sqrt(size)))
        fail_msg("%s: layer %d position %d head %d: relative difference %.3g, limit %.3g", what,
                 layer_id[l], pos[i], (int)h, sqrt(gap / size), limit);
}

static forward *prefilled(const tap *tap_, const kvt_ctx *ctx)
{
    kvt_err err;
    forward *f;
    forward_spec spec = {.weights = weights,
                         .backend = backend,
                         .tap = tap_,
                         .ctx = ctx,
                         .n_token = N + STEPS,
                         .n_row = N};
    CHECK_OK(forward_new(&f, &spec, &err), &err);
    CHECK_OK(forward_prefill(f, id, N, &err), &err);
    return f;
}

static const kvt_ctx plain;

static void attention_is_that_of_transformers(void **state)
{
    const kvt_geometry *g = &weights->geometry;
    int64_t H = g->n_head, G = g->n_kv_head, D = WIDTH;
    (void)state;
    assert_true(g->head_dim == D && H <= 16);
    forward *f = prefilled(&(tap){.tile = on_tile}, &plain);
    float *q = read_f32("q", LAYERS * POS * H * D), *k = read_f32("k", LAYERS * POS * G * D);
    float *v = read_f32("v", LAYERS * POS * G * D), *p = read_f32("rows", LAYERS * POS * H * N);
    for (int l = 0; l < LAYERS; l++)
        for (int i = 0; i < POS; i++) {
            for (int64_t h = 0; h < H; h++) {
                int64_t at = (l * POS + i) * H + h;
                check_vector("Q", l, i, h, got_q[l][i][h], q + at * D, D, 1e-4);
                for (int t = 0; t < N; t++)
                    CHECK_NEAR((double)got_rows[l][i][h][t], (double)p[at * N + t], 1e-3);
            }
            for (int64_t h = 0; h < G; h++) {
                int64_t at = ((l * POS + i) * G + h) * D;
                check_vector("K", l, i, h, forward_keys(f, layer_id[l], h) + pos[i] * D, k + at,
                             D, 1e-4);
                check_vector("V", l, i, h, forward_values(f, layer_id[l], h) + pos[i] * D,
                             v + at, D, 1e-4);
            }
        }
    free(q), free(k), free(v), free(p);
    forward_free(f);
}

static float *seen_logit; /* [POS V] */

static void on_logits(void *user, int64_t at, const float *logit)
{
    (void)user;
    for (int i = 0; i < POS; i++)
        if (pos[i] == at)
            memcpy(seen_logit + i * weights->geometry.n_vocab, logit,
                   (size_t)weights->geometry.n_vocab * sizeof *logit);
}

/* Log-probabilities of the 64 best tokens behind each position, as `source` holds them. */
static void compare_distributions(hid_t source)
{
    int64_t V = weights->geometry.n_vocab;
    hid_t own = file;
    file = source;
    int32_t *top = read_set("top_id", H5T_NATIVE_INT32, POS * TOP, sizeof *top);
    float *logp = read_f32("top_logp", POS * TOP);
    file = own;
    for (int i = 0; i < POS; i++) {
        const float *z = seen_logit + i * V;
        double sum = 0, best = -INFINITY;
        for (int64_t j = 0; j < V; j++)
            best = (double)z[j] > best ? (double)z[j] : best;
        for (int64_t j = 0; j < V; j++)
            sum += exp((double)z[j] - best);
        for (int r = 0; r < TOP; r++) {
            double got = (double)z[top[i * TOP + r]] - best - log(sum);
            CHECK_NEAR(got, (double)logp[i * TOP + r], 1e-3);
        }
    }
    free(top), free(logp);
}

static void distributions_are_those_of_others(void **state)
{
    kvt_err err;
    forward *f;
    (void)state;
    seen_logit = malloc((size_t)(POS * weights->geometry.n_vocab) * sizeof *seen_logit);
    tap listen = {.logits = on_logits};
    forward_spec spec = {.weights = weights,
                         .backend = backend,
                         .tap = &listen,
                         .ctx = &plain,
                         .n_token = N,
                         .n_row = N};
    CHECK_OK(forward_new(&f, &spec, &err), &err);
    CHECK_OK(forward_force(f, id, N, &err), &err);
    compare_distributions(file);
#ifdef GOLDEN_SECOND
    hid_t second =
        H5Fopen(KVT_SOURCE_DIR "/tests/golden/" GOLDEN_SECOND, H5F_ACC_RDONLY, H5P_DEFAULT);
    assert_true(second >= 0);
    compare_distributions(second);
    H5Fclose(second);
#endif
    free(seen_logit);
    forward_free(f);
}

static void greedy_tokens_are_those_of_transformers(void **state)
{
    int32_t *want = read_set("greedy", H5T_NATIVE_INT32, STEPS, sizeof *want);
    float *gap = read_f32("gap", STEPS);
    int compared = 0;
    kvt_err err;
    (void)state;
    forward *f = prefilled(NULL, &plain);
    for (int s = 0; s < STEPS; s++) {
        const float *z = forward_logit(f);
        int32_t best = 0;
        for (int32_t j = 1; j < weights->geometry.n_vocab; j++)
            best = z[j] > z[best] ? j : best;
        if (gap[s] > 1e-3f) {
            if (best != want[s])
                fail_msg("step %d: expected token %d, got %d (gap %g)", s, want[s], best,
                         (double)gap[s]);
            compared++;
        }
        CHECK_OK(forward_step(f, want[s], &err), &err);
    }
    assert_true(compared > STEPS - 8);
    free(want), free(gap);
    forward_free(f);
}

/* A dataset of whole numbers into an array that is there. */
static void copy_ids(int32_t *out, const char *name, int64_t n)
{
    void *read = read_set(name, H5T_NATIVE_INT32, n, sizeof *out);
    memcpy(out, read, (size_t)n * sizeof *out);
    free(read);
}

static int open_all(void **state)
{
    kvt_err err;
    gguf *g;
    char path[1024];
    (void)state;
    file = H5Fopen(KVT_SOURCE_DIR "/tests/golden/" GOLDEN_FILE, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (file < 0)
        return -1;
    copy_ids(id, "id", N);
    copy_ids(layer_id, "layer", LAYERS);
    copy_ids(pos, "pos", POS);
    CHECK_OK(gguf_open(&g, golden_model(path, sizeof path), &err), &err);
    CHECK_OK(load_gguf(&weights, g, NULL, NULL, &err), &err);
    gguf_close(g);
    CHECK_OK(kvt_backend_open(&backend, "cpu", NULL, &err), &err);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    kvt_weights_free(weights);
    kvt_backend_close(backend);
    H5Fclose(file);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_is_that_of_transformers),
        cmocka_unit_test(distributions_are_those_of_others),
        cmocka_unit_test(greedy_tokens_are_those_of_transformers),
    };
    char path[1024];
    if (!golden_model(path, sizeof path))
        return TEST_SKIPPED;
    return cmocka_run_group_tests_name("forward", tests, open_all, close_all);
}
