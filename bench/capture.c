/* capture.c - the engine's speed as ratios in one run:
 *
 *   prefill    matrix products of a prefill, done by plain OpenBLAS, beside the whole prefill
 *   record     a whole capture beside the same engine that records nothing
 *   memory     peak memory beside what --plan said
 *
 *   bench_capture MODEL [TOKENS [NEW [RUNS [THREADS]]]]             2048 64 11 (all)
 *   bench_capture --shape NAME|all [TOKENS [LAYERS [RUNS [THREADS [TYPE]]]]]   2048 0 7 (all) 0
 *                                prefill alone, on layers of a known model with random weights
 *                                of a type of GGUF (0 f32, 1 f16, 8 Q8_0, 12 Q4_K, ...)
 *   bench_capture --smoke        a tiny random model, once: that the program works
 *
 * CSV on stdout: what, median, lowest, highest, unit. The runs of two things that are compared
 * take turns, because a machine that others use changes its speed within seconds. */
#include <cblas.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/shapes.h"
#include "capture/capture_priv.h"
#include "compute/backend.h"
#include "kvt/arena.h"
#include "tests/model_make.h"

enum { RUNS_MAX = 64, TILE = FORWARD_TILE };

extern void openblas_set_num_threads(int n);

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void die(const char *what)
{
    fprintf(stderr, "bench_capture: %s\n", what);
    exit(1);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double print(const char *what, double *x, int n, const char *unit)
{
    qsort(x, (size_t)n, sizeof *x, by_size);
    printf("%s,%.4g,%.4g,%.4g,%s\n", what, x[n / 2], x[0], x[n - 1], unit);
    fflush(stdout);
    return x[n / 2];
}

/* ---- plain products ------------------------------------------------------------------------
 */

typedef struct plain {
    const kvt_weights *w;
    int64_t n;
    int n_thread;
    float *in, *out; /* [n widest] */
    float *kv;       /* [G n D] */
    float *score;    /* [n_thread TILE n] */
} plain;

static void product(const plain *p, const float *w, int64_t n, int64_t k, int64_t row,
                    int64_t m)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)m, (int)n, (int)k, 1,
                p->in + row * k, (int)k, w, (int)k, 0, p->out + row * n, (int)n);
}

/* The weights' products of one layer, rows row .. row + m. */
static void products(const plain *p, const kvt_weights_layer *l, bool out, int64_t row,
                     int64_t m)
{
    const kvt_geometry *g = &p->w->geometry;
    int64_t e = g->n_hidden, hd = g->n_head * g->head_dim, gd = g->n_kv_head * g->head_dim;
    if (!out) {
        product(p, matrix_floats(&l->wq), hd, e, row, m);
        product(p, matrix_floats(&l->wk), gd, e, row, m);
        product(p, matrix_floats(&l->wv), gd, e, row, m);
        return;
    }
    product(p, matrix_floats(&l->wo), e, hd, row, m);
    product(p, matrix_floats(&l->gate), g->n_ff, e, row, m);
    product(p, matrix_floats(&l->up), g->n_ff, e, row, m);
    product(p, matrix_floats(&l->down), e, g->n_ff, row, m);
}

/* q k^T and p v of one head and tile, over the keys that a window leaves. */
static void attention(const plain *p, int layer, int64_t tile, int64_t head)
{
    const kvt_geometry *g = &p->w->geometry;
    int64_t pos = tile * TILE, m = p->n - pos < TILE ? p->n - pos : TILE, d = g->head_dim;
    int64_t first = attend_first(pos, g->window[layer]), n_key = pos + m - first;
    float *score = p->score + omp_get_thread_num() * TILE * p->n;
    const float *kv = p->kv + (head % g->n_kv_head * p->n + first) * d;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)m, (int)n_key, (int)d, 1,
                p->in + pos * d, (int)d, kv, (int)d, 0, score, (int)n_key);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)m, (int)d, (int)n_key, 1, score,
                (int)n_key, kv, (int)d, 0, p->out + pos * g->n_head * d + head * d,
                (int)(g->n_head * d));
}

/* Seconds of all products of a prefill: those of weights whole, by OpenBLAS's own threads, or
 * in row tiles on one thread each; those of heads always on one thread each (its threads are
 * slower there by far). */
static double plain_run(const plain *p, bool tiled)
{
    const kvt_geometry *g = &p->w->geometry;
    int64_t tiles = (p->n + TILE - 1) / TILE;
    double begin = now();
    for (int l = 0; l < g->n_layer; l++)
        for (int part = 0; part < 3; part++) {
            bool last = l == g->n_layer - 1 && part == 2;
            int64_t from = last ? (p->n - 1) / TILE : 0; /* rows that end at the last keys */
            if (part == 1) {
                openblas_set_num_threads(1);
#pragma omp parallel for schedule(dynamic, 1) num_threads(p->n_thread)
                for (int64_t i = tiles * g->n_head - 1; i >= 0; i--)
                    attention(p, l, i / g->n_head, i % g->n_head);
            } else if (tiled) {
                openblas_set_num_threads(1);
#pragma omp parallel for schedule(dynamic, 1) num_threads(p->n_thread)
                for (int64_t i = from; i < tiles; i++)
                    products(p, &p->w->layer[l], part == 2, i * TILE,
                             p->n - i * TILE < TILE ? p->n - i * TILE : TILE);
            } else {
                openblas_set_num_threads(p->n_thread);
                products(p, &p->w->layer[l], part == 2, from * TILE, p->n - from * TILE);
            }
        }
    openblas_set_num_threads(1);
    return now() - begin;
}

static void plain_new(plain *p, const kvt_weights *w, int64_t n, int n_thread)
{
    const kvt_geometry *g = &w->geometry;
    int64_t widest = g->n_ff > g->n_head * g->head_dim ? g->n_ff : g->n_head * g->head_dim;
    widest = g->n_hidden > widest ? g->n_hidden : widest;
    *p = (plain){.w = w, .n = n, .n_thread = n_thread};
    p->in = malloc((size_t)(n * widest) * sizeof *p->in);
    p->out = malloc((size_t)(n * widest) * sizeof *p->out);
    p->kv = malloc((size_t)(g->n_kv_head * n * g->head_dim) * sizeof *p->kv);
    p->score = malloc((size_t)(n_thread * TILE * n) * sizeof *p->score);
    if (!p->in || !p->out || !p->kv || !p->score)
        die("out of memory");
    for (int64_t i = 0; i < n * widest; i++)
        p->in[i] = (float)(i % 1009) / 1009.0f - 0.5f;
    for (int64_t i = 0; i < g->n_kv_head * n * g->head_dim; i++)
        p->kv[i] = (float)(i % 1013) / 1013.0f - 0.5f;
}

static void plain_free(plain *p)
{
    free(p->in);
    free(p->out);
    free(p->kv);
    free(p->score);
}

/* ---- the engine ----------------------------------------------------------------------------
 */

/* A text of about n tokens behind the template's own. */
static char *text_of(const kvt_model *m, int64_t n)
{
    static const char *const words[] = {"river",  "seven", "of",     "the",   "lamp",
                                        "turned", "and",   "slowly", "north", "old",
                                        "paper",  "in",    "a",      "box"};
    size_t cap = (size_t)n * 16, used = 0;
    char *text = calloc(cap, 1);
    kvt_err err;
    unsigned x = 1;
    for (int64_t have = 0, step = n; text && have < n - 40 && step > 0; step = n - 40 - have) {
        for (int64_t i = 0; i < step && used + 32 < cap; i++) {
            x = x * 1103515245u + 12345u;
            used += (size_t)snprintf(text + used, cap - used, "%s ", words[(x >> 16) % 14]);
        }
        int32_t *id;
        if (kvt_model_tokenize(m, text, used, false, &id, &have, &err))
            die(err.text);
        kvt_free(id);
    }
    return text;
}

static double prefill(const kvt_model *m, const kvt_ctx *ctx, int64_t n)
{
    kvt_err err;
    forward *f;
    int32_t *id = malloc((size_t)n * sizeof *id);
    forward_spec spec = {
        .weights = m->weights, .backend = m->backend, .ctx = ctx, .n_token = n, .n_row = n};
    for (int64_t i = 0; i < n; i++)
        id[i] = (int32_t)(i * 7919 % m->weights->geometry.n_vocab);
    if (forward_new(&f, &spec, &err))
        die(err.text);
    double begin = now();
    if (forward_prefill(f, id, n, &err))
        die(err.text);
    double seconds = now() - begin;
    forward_free(f);
    free(id);
    return seconds;
}

static double capture(kvt_model *m, const kvt_ctx *ctx, const kvt_capture_spec *spec,
                      kvt_capture_counts *c)
{
    kvt_err err;
    double begin = now();
    if (kvt_capture(m, spec, c, ctx, &err))
        die(err.text);
    return now() - begin;
}

static void bench_record(kvt_model *m, const kvt_ctx *ctx, int64_t n, int64_t n_new, int runs)
{
    double with[RUNS_MAX], without[RUNS_MAX], decode[RUNS_MAX];
    char *text = text_of(m, n), out[64];
    kvt_err err;
    kvt_capture_plan plan;
    kvt_capture_counts c = {0};
    kvt_capture_spec spec;
    snprintf(out, sizeof out, "bench-capture-%ld.h5", (long)getpid());
    kvt_capture_defaults(&spec);
    spec.prompt = text;
    spec.max_new = n_new;
    spec.out = out;
    spec.force = true;
    if (kvt_capture_planned(m, &spec, &plan, ctx, &err))
        die(err.text);
    for (int i = 0; i < runs; i++) {
        spec.record = true;
        with[i] = capture(m, ctx, &spec, &c);
        decode[i] = c.decode_s / (double)(c.n_response ? c.n_response : 1) * 1e3;
        spec.record = false;
        kvt_capture_counts none;
        without[i] = capture(m, ctx, &spec, &none);
    }
    double ratio[RUNS_MAX];
    for (int i = 0; i < runs; i++)
        ratio[i] = with[i] / without[i];
    printf("prompt,%lld,,,tokens\n", (long long)c.n_prompt);
    printf("response,%lld,,,tokens\n", (long long)c.n_response);
    print("capture", with, runs, "s");
    print("engine without recording", without, runs, "s");
    print("capture / engine (goal 1.5 at most)", ratio, runs, "1");
    print("decode", decode, runs, "ms a token");
    printf("memory at the peak,%.4g,,,MiB\n", (double)c.peak_bytes / 1048576);
    printf("memory planned,%.4g,,,MiB\n", (double)plan.memory_bytes / 1048576);
    printf("planned / peak (goal 0.9 to 1.1),%.4g,,,1\n",
           (double)plan.memory_bytes / (double)c.peak_bytes);
    printf("seconds planned,%.4g,,,s\n", plan.seconds);
    unlink(out);
    free(text);
}

/* `plain_weights`: those of m as f32. */
static void bench_prefill(const kvt_model *m, const kvt_weights *plain_weights,
                          const kvt_ctx *ctx, int64_t n, int runs)
{
    double engine[RUNS_MAX], whole[RUNS_MAX], tiled[RUNS_MAX], a[RUNS_MAX], b[RUNS_MAX];
    double flops = forward_flops(&m->weights->geometry, n, TILE) * 1e-9;
    plain p;
    plain_new(&p, plain_weights, n, kvt_threads(ctx));
    for (int i = 0; i < runs; i++) {
        whole[i] = plain_run(&p, false);
        engine[i] = prefill(m, ctx, n);
        tiled[i] = plain_run(&p, true);
        a[i] = whole[i] / engine[i];
        b[i] = tiled[i] / engine[i];
        engine[i] = flops / engine[i];
        whole[i] = flops / whole[i];
        tiled[i] = flops / tiled[i];
    }
    plain_free(&p);
    print("prefill", engine, runs, "GFLOP/s");
    print("plain sgemm, own threads", whole, runs, "GFLOP/s");
    print("plain sgemm, tiles", tiled, runs, "GFLOP/s");
    print("prefill / plain, own threads (goal 0.8 at least)", a, runs, "1");
    print("prefill / plain, tiles", b, runs, "1");
}

static int64_t number(int argc, char **argv, int i, int64_t otherwise)
{
    return argc > i ? strtoll(argv[i], NULL, 10) : otherwise;
}

static kvt_model *open_model(const char *path, bool f32, const kvt_ctx *ctx)
{
    kvt_err err;
    kvt_model *m;
    if (kvt_model_open(&m, path, &(kvt_model_options){.device = "cpu", .f32 = f32}, ctx, &err))
        die(err.text);
    return m;
}

/* n_new 0: prefill alone. */
static void bench(const char *model, int64_t n, int64_t n_new, int runs, int n_thread)
{
    char blas[96];
    kvt_ctx ctx = {.n_thread = n_thread};
    kvt_model *m = open_model(model, false, &ctx);
    printf("what,median,lowest,highest,unit\n");
    printf("\"BLAS: %s; vectors: %s\",%d,,,threads\n", kvt_blas_name(blas, sizeof blas),
           kvt_simd_name(), kvt_threads(&ctx));
    printf("layers,%lld,,,1\n", (long long)m->weights->geometry.n_layer);
    printf("\"weights: %s\",%.4g,,,MiB\n", m->weights->types,
           (double)m->weights->bytes / 1048576);
    if (n_new)
        bench_record(m, &ctx, n, n_new, runs); /* first: the peak is the process's */
    kvt_model *f32 = open_model(model, true, &ctx);
    bench_prefill(m, f32->weights, &ctx, n, runs);
    kvt_model_close(f32);
    kvt_model_close(m);
}

static void bench_shape(const char *name, int64_t n, int layers, int runs, int n_thread,
                        int type)
{
    char path[64];
    snprintf(path, sizeof path, "bench-capture-%ld.gguf", (long)getpid());
    printf("%s\n", name);
    if (!shape_write(path, name, layers, type))
        die("no such shape, or no file written");
    bench(path, n, 0, runs, n_thread);
    unlink(path);
}

static void bench_shapes(int argc, char **argv)
{
    bool all = strcmp(argv[2], "all") == 0;
    int64_t n = number(argc, argv, 3, 2048);
    int layers = (int)number(argc, argv, 4, 0), runs = (int)number(argc, argv, 5, 7);
    if (n < 64 || layers < 0 || runs < 1 || runs > RUNS_MAX)
        die("TOKENS of 64 at least, LAYERS of 0, RUNS of 1 to 64");
    for (int i = 0; shape_name(all ? i : 0) && (all || i == 0); i++)
        bench_shape(all ? shape_name(i) : argv[2], n, layers, runs,
                    (int)number(argc, argv, 6, 0), (int)number(argc, argv, 7, 0));
}

static void smoke(void)
{
    char model[64];
    model_make_options tiny = model_make_defaults();
    snprintf(model, sizeof model, "bench-capture-%ld.gguf", (long)getpid());
    if (!model_make_gguf(model, &tiny))
        die("no model written");
    bench(model, 200, 4, 1, 2);
    unlink(model);
    bench_shape("gemma3-270m", 128, 1, 1, 2, 8);
}

int main(int argc, char **argv)
{
    int64_t n = number(argc, argv, 2, 2048), n_new = number(argc, argv, 3, 64);
    int runs = (int)number(argc, argv, 4, 11);
    if (argc > 2 && strcmp(argv[1], "--shape") == 0) {
        bench_shapes(argc, argv);
        return 0;
    }
    if (argc < 2 || n < 64 || n_new < 1 || runs < 1 || runs > RUNS_MAX)
        die("usage: bench_capture MODEL [TOKENS [NEW [RUNS [THREADS]]]], --shape NAME, or "
            "--smoke");
    if (strcmp(argv[1], "--smoke") == 0)
        smoke();
    else
        bench(argv[1], n, n_new, runs, (int)number(argc, argv, 5, 0));
    return 0;
}
