/* train.c - the speed of LookaheadKV's training, as ratios in one run: a step (forward,
 * backward) beside its matrix products alone, done by plain OpenBLAS at the step's own shapes.
 *
 *   bench_train MODEL.gguf [TOKENS [BATCH [RUNS [THREADS]]]]        1024 4 11 (all)
 *   bench_train --smoke        a tiny random model, once: that the program works
 *
 * CSV on stdout: what, median, lowest, highest, unit. The prompts are noise: nothing of the
 * time depends on values. Step and products take turns, because a machine that others use
 * changes its speed within seconds. */
#include <cblas.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/half.h"
#include "base/rng.h"
#include "capture/model.h"
#include "kvt/arena.h"
#include "tests/model_make.h"
#include "train/lookahead_train.h"

enum {
    RUNS_MAX = 64,
    BATCH_MAX = 8,
    TOKENS = 32,
    RANK = 8,
    ALL_MAPS = (1 << ADAPTER_MAPS) - 1
};

extern void openblas_set_num_threads(int n);

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void die(const char *what)
{
    fprintf(stderr, "bench_train: %s\n", what);
    exit(1);
}

static void *get(int64_t n, size_t size)
{
    void *out = kvt_alloc(n, size);
    if (!out)
        die("out of memory");
    return out;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print(const char *what, double *x, int n, const char *unit)
{
    qsort(x, (size_t)n, sizeof *x, by_size);
    printf("%s,%.4g,%.4g,%.4g,%s\n", what, x[n / 2], x[0], x[n - 1], unit);
    fflush(stdout);
}

typedef struct bench {
    const kvt_weights *w;
    const kvt_geometry *g;
    int64_t n_prompt;
    int batch, n_thread;
    look_layout layout;
    look_layer *layer;
    look_pass *pass;
    look_sample sample[BATCH_MAX];
    float *param, *grad;
    float *in, *out;   /* of plain products: [rows widest] */
    float *own;        /* [n_thread], rows x (N + n) and keys */
    int64_t own_count; /* of one thread */
} bench;

static float noise(uint64_t rng[4])
{
    return (float)(rng_real(rng) - 0.5);
}

static void make_sample(bench *b, look_sample *s, uint64_t rng[4])
{
    int64_t kv = b->g->n_layer * b->g->n_kv_head * b->n_prompt * b->g->head_dim,
            masses = b->g->n_layer * b->g->n_head * b->n_prompt;
    uint16_t *k = get(kv, sizeof *k), *v = get(kv, sizeof *v);
    float *target = get(masses, sizeof *target);
    for (int64_t i = 0; i < kv; i++) {
        k[i] = half_from_float(noise(rng));
        v[i] = half_from_float(noise(rng));
    }
    for (int64_t i = 0; i < masses; i++)
        target[i] = noise(rng) + 0.5f;
    *s = (look_sample){.n_prompt = b->n_prompt, .k = k, .v = v, .target = target};
}

static void begin(bench *b, const kvt_model *m, int64_t n_prompt, int batch, int n_thread)
{
    uint64_t rng[RNG_WORDS];
    kvt_err err;
    rng_init(rng, "bench", 5);
    *b = (bench){.w = model_weights(m),
                 .g = kvt_model_geometry(m),
                 .n_prompt = n_prompt,
                 .batch = batch,
                 .n_thread = n_thread};
    look_layout_of(&b->layout, b->g, TOKENS, RANK, ALL_MAPS, 4);
    b->layer = get(b->g->n_layer, sizeof *b->layer);
    look_model model;
    look_model_of(&model, b->layer, b->w);
    look_room room = {.n_sample = batch, .n_prompt = n_prompt, .n_thread = n_thread};
    if (look_new(&b->pass, &model, &b->layout, &room, &err))
        die(err.text);
    b->param = get(b->layout.n_param, sizeof *b->param);
    b->grad = get(b->layout.n_param, sizeof *b->grad);
    for (int64_t i = 0; i < b->layout.n_param; i++)
        b->param[i] = 0.1f * noise(rng);
    for (int i = 0; i < batch; i++)
        make_sample(b, &b->sample[i], rng);
    int64_t rows = (int64_t)batch * TOKENS, widest = b->g->n_ff + b->g->n_hidden,
            head_rows = b->g->n_head / b->g->n_kv_head * TOKENS, key = n_prompt + TOKENS;
    b->in = get(rows * widest, sizeof *b->in);
    b->out = get(rows * widest, sizeof *b->out);
    b->own_count = head_rows * key + (key + head_rows) * b->g->head_dim;
    b->own = get(b->own_count * n_thread, sizeof *b->own);
}

static void end(bench *b)
{
    for (int i = 0; i < b->batch; i++) {
        kvt_free((void *)(uintptr_t)b->sample[i].k);
        kvt_free((void *)(uintptr_t)b->sample[i].v);
        kvt_free((void *)(uintptr_t)b->sample[i].target);
    }
    look_free(b->pass);
    kvt_free(b->layer);
    kvt_free(b->param);
    kvt_free(b->grad);
    kvt_free(b->in);
    kvt_free(b->out);
    kvt_free(b->own);
}

static double step(bench *b, double *blas)
{
    double from = now(), before = look_blas_s(b->pass);
    look_forward(b->pass, b->sample, b->batch, b->param, 1.0 / b->batch, NULL);
    look_backward(b->pass, b->param, b->grad);
    *blas = look_blas_s(b->pass) - before;
    return now() - from;
}

/* Forward and backward of one map over all rows, columns begin .. begin + n of each result. */
static void map_columns(const bench *b, const float *w, int64_t in, int64_t out, int64_t part,
                        int64_t parts)
{
    int rows = b->batch * TOKENS;
    int64_t from = out * part / parts, n = out * (part + 1) / parts - from;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, (int)n, (int)in, 1, b->in,
                (int)in, w + from * in, (int)in, 0, b->out + from, (int)out);
    from = in * part / parts;
    n = in * (part + 1) / parts - from;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, (int)n, (int)out, 1, b->in,
                (int)out, w + from, (int)in, 0, b->out + from, (int)in);
}

/* own_threads: OpenBLAS's; else the columns cut into as many parts as there are threads. */
static void both(const bench *b, const float *w, int64_t in, int64_t out, bool own_threads)
{
    openblas_set_num_threads(own_threads ? b->n_thread : 1);
    if (own_threads) {
        map_columns(b, w, in, out, 0, 1);
        return;
    }
#pragma omp parallel for schedule(static, 1) num_threads(b->n_thread)
    for (int t = 0; t < b->n_thread; t++)
        map_columns(b, w, in, out, t, b->n_thread);
}

/* q k^T twice the shape of d_o v^T, a v that of d_z k: one kv head of a sample. */
static void head(const bench *b, bool last)
{
    int d = (int)b->g->head_dim, rows = (int)(b->g->n_head / b->g->n_kv_head) * TOKENS,
        key = (int)b->n_prompt + TOKENS;
    float *z = b->own + omp_get_thread_num() * b->own_count, *k = z + (int64_t)rows * key,
          *q = k + (int64_t)key * d;
    for (int i = 0; i < (last ? 1 : 2); i++) {
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, key, d, 1, q, d, k, d, 0, z,
                    key);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, d, key, 1, z, key, k, d, 0,
                    q, d);
    }
}

/* Seconds of the step's products, LoRA left out; heads on one thread each. */
static double products(const bench *b, bool own_threads)
{
    double from = now();
    for (int l = 0; l < b->g->n_layer; l++) {
        bool last = l == b->g->n_layer - 1;
        for (int m = 0; m < (last ? ADAPTER_V : ADAPTER_MAPS); m++) {
            int64_t in, out;
            adapter_map_shape(b->g, (adapter_map_id)m, &in, &out);
            both(b, b->layer[l].w[m], in, out, own_threads);
        }
        openblas_set_num_threads(1);
#pragma omp parallel for schedule(dynamic, 1) num_threads(b->n_thread)
        for (int64_t i = 0; i < b->batch * b->g->n_kv_head; i++)
            head(b, last);
    }
    return now() - from;
}

/* `once`: the file was made for this run, and goes when it is open. */
static void run(const char *path, bool once, int64_t n_prompt, int batch, int runs,
                int n_thread)
{
    kvt_err err;
    kvt_model *m;
    char blas_name[96];
    kvt_ctx ctx = {.n_thread = n_thread};
    double whole[RUNS_MAX], plain[RUNS_MAX], own[RUNS_MAX], share[RUNS_MAX], ratio[RUNS_MAX],
        of_own[RUNS_MAX], blas, linear, attention;
    bench b;
    kvt_code code = kvt_model_open(&m, path, &(kvt_model_options){.device = "cpu", .f32 = true},
                                   &ctx, &err);
    if (once)
        unlink(path);
    if (code)
        die(err.text);
    begin(&b, m, n_prompt, batch, kvt_threads(&ctx));
    printf("what,median,lowest,highest,unit\n");
    printf("\"BLAS: %s; vectors: %s\",%d,,,threads\n",
           kvt_blas_name(blas_name, sizeof blas_name), kvt_simd_name(), b.n_thread);
    printf("prompt,%lld,,,tokens\nbatch,%d,,,prompts\n", (long long)n_prompt, batch);
    step(&b, &blas); /* memory is touched for the first time */
    for (int i = 0; i < runs; i++) {
        whole[i] = step(&b, &blas);
        plain[i] = products(&b, false);
        own[i] = products(&b, true);
        share[i] = blas / (whole[i] * b.n_thread);
        ratio[i] = whole[i] / plain[i];
        of_own[i] = whole[i] / own[i];
        whole[i] /= batch;
        plain[i] /= batch;
        own[i] /= batch;
    }
    look_flops(b.g, &b.layout, n_prompt, &linear, &attention);
    printf("arithmetic,%.4g,,,GFLOP a prompt\n", (linear + attention) * 1e-9);
    print("step", whole, runs, "s a prompt");
    print("its products, columns cut by threads", plain, runs, "s a prompt");
    print("its products, OpenBLAS's own threads", own, runs, "s a prompt");
    print("share of the step in OpenBLAS", share, runs, "1");
    print("step / products, columns cut by threads (goal 2 at most)", ratio, runs, "1");
    print("step / products, own threads", of_own, runs, "1");
    /* Sorted by now: what others on the machine cost weighs least on the fastest runs. */
    printf("fastest step / fastest products,%.4g,,,1\n",
           whole[0] / (plain[0] < own[0] ? plain[0] : own[0]));
    end(&b);
    kvt_model_close(m);
}

static void smoke(void)
{
    char model[64];
    model_make_options tiny = model_make_defaults();
    snprintf(model, sizeof model, "bench-train-%ld.gguf", (long)getpid());
    if (!model_make_gguf(model, &tiny))
        die("no model written");
    run(model, true, 50, 2, 1, 2);
}

static int64_t number(int argc, char **argv, int i, int64_t otherwise)
{
    return argc > i ? strtoll(argv[i], NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
    int64_t n = number(argc, argv, 2, 1024);
    int batch = (int)number(argc, argv, 3, 4), runs = (int)number(argc, argv, 4, 11);
    if (argc < 2 || n < 1 || batch < 1 || batch > BATCH_MAX || runs < 1 || runs > RUNS_MAX)
        die("usage: bench_train MODEL.gguf [TOKENS [BATCH [RUNS [THREADS]]]], or --smoke");
    if (argv[1][0] == '-')
        smoke();
    else
        run(argv[1], false, n, batch, runs, (int)number(argc, argv, 5, 0));
    return 0;
}
