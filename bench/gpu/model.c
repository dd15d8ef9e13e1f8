/* model.c - prefill and decode of an 8B geometry with random weights, recording what a trace of
 * the standard level keeps against not recording. The clock stops when the last copy is in the
 * host's memory; nothing is written. */
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "bench/gpu/bench.h"
#include "capture/device_forward.h"
#include "compute/quant.h"
#include "kvt/arena.h"

enum { RUNS = 15, BLOCK_BYTES = 512 << 20, QUERIES = 64, DELAY = 256 };

static const arch llama = {.name = "llama"};

typedef struct host_weights {
    kvt_weights w;
    kvt_weights_layer layer[KVT_LAYERS_MAX];
    void *shared; /* every matrix reads the same random values */
} host_weights;

static void *need(void *p, const char *what)
{
    if (!p) {
        fprintf(stderr, "bench_gpu: out of memory: %s\n", what);
        exit(1);
    }
    return p;
}

/* Beside the embedding, the head and what a run of 8K tokens takes. */
static int64_t layers_that_fit(const bench *b, const kvt_geometry *g)
{
    const int64_t run = b->is_smoke ? 0 : (int64_t)4 << 30;
    int64_t hd = g->n_head * g->head_dim, gd = g->n_kv_head * g->head_dim;
    int64_t each = 2 * g->n_hidden * (2 * hd + 2 * gd + 3 * g->n_ff);
    int64_t rest = 4 * g->n_vocab * g->n_hidden + run;
    int64_t fit = b->d->memory > rest ? (b->d->memory - rest) / each : 0;
    return fit < 1 ? 1 : fit < g->n_layer ? fit : g->n_layer;
}

static kvt_geometry geometry_of(const bench *b)
{
    kvt_geometry g = {.arch = "llama",
                      .rope_type = "none",
                      .n_layer = 32,
                      .n_head = 32,
                      .n_kv_head = 8,
                      .head_dim = 128,
                      .n_hidden = 4096,
                      .n_ff = 14336,
                      .n_vocab = 128256,
                      .n_context = 131072,
                      .norm_eps = 1e-5,
                      .rope_theta = 500000,
                      .rope_factor = 1,
                      .rope_attn_factor = 1,
                      .embed_scale = 1};
    if (b->is_smoke) {
        g.n_layer = 2;
        g.n_head = 4;
        g.n_kv_head = 2;
        g.head_dim = 16;
        g.n_hidden = 64;
        g.n_ff = 96;
        g.n_vocab = 300;
    }
    g.n_layer = layers_that_fit(b, &g);
    g.attn_scale = 1 / sqrt((double)g.head_dim);
    for (int64_t i = 0; i < g.head_dim / 2; i++)
        g.rope_freq[i] = pow(g.rope_theta, -2.0 * (double)i / (double)g.head_dim);
    return g;
}

static kvt_matrix matrix(const host_weights *h, int type, int64_t n_row, int64_t n_col)
{
    return (kvt_matrix){.type = type,
                        .n_row = n_row,
                        .n_col = n_col,
                        .row_bytes = 2 * n_col,
                        .data = h->shared};
}

/* bf16, or f16 where the device has none; values of about 1 / 50, as trained ones are. */
static host_weights *weights_new(const bench *b)
{
    host_weights *h = need(calloc(1, sizeof *h), "weights");
    kvt_geometry g = geometry_of(b);
    int type = b->d->has_bf16 ? QUANT_BF16 : QUANT_F16;
    int64_t q = g.n_head * g.head_dim, k = g.n_kv_head * g.head_dim;
    int64_t widest = g.n_vocab * g.n_hidden;
    uint16_t *random = need(malloc((size_t)(widest + 32) * 2), "weights");
    float *gain = need(malloc((size_t)g.n_hidden * sizeof *gain), "weights");
    uint64_t s = 1;
    for (int64_t i = 0; i < widest + 32; i++) {
        s = s * 6364136223846793005u + 1442695040888963407u;
        float x = ((float)(s >> 40) / (float)(1 << 24) - 0.5f) * 0.07f;
        random[i] = type == QUANT_BF16 ? bf16_from_float(x) : half_from_float(x);
    }
    for (int64_t i = 0; i < g.n_hidden; i++)
        gain[i] = 1;
    h->shared = random;
    h->w = (kvt_weights){.geometry = g,
                         .arch = &llama,
                         .layer = h->layer,
                         .out_norm = gain,
                         .embed = matrix(h, type, g.n_vocab, g.n_hidden),
                         .lm_head = matrix(h, type, g.n_vocab, g.n_hidden)};
    h->w.lm_head.data = random + 32; /* not the embedding: a matrix of its own */
    for (int64_t l = 0; l < g.n_layer; l++)
        h->layer[l] = (kvt_weights_layer){.attn_norm = gain,
                                          .ffn_norm = gain,
                                          .wq = matrix(h, type, q, g.n_hidden),
                                          .wk = matrix(h, type, k, g.n_hidden),
                                          .wv = matrix(h, type, k, g.n_hidden),
                                          .wo = matrix(h, type, g.n_hidden, q),
                                          .gate = matrix(h, type, g.n_ff, g.n_hidden),
                                          .up = matrix(h, type, g.n_ff, g.n_hidden),
                                          .down = matrix(h, type, g.n_hidden, g.n_ff)};
    return h;
}

static void weights_free(host_weights *h)
{
    free(h->shared);
    free((void *)(uintptr_t)h->w.out_norm);
    free(h);
}

/* ---- what a recorder would have on the host ------------------------------------------------
 */

typedef struct arrays {
    device_record_spec spec;
    int32_t id[KVT_LAYERS_MAX];
} arrays;

/* clang-format off */
#define ARRAYS(X)                                                          \
    X(lse, lanes * t) X(col_sum, lanes * n) X(future_sum, lanes * n)       \
    X(col_max, lanes * n) X(future_max, lanes * n) X(late, lanes * t)      \
    X(open_sum, lanes * t) X(block_sum, lanes * blocks * t)                \
    X(k, pairs * t * d) X(v, pairs * t * d) X(q, lanes * queries * d)      \
    X(mean, lanes * d) X(cov, lanes * d * d) X(freq, lanes * d / 2)        \
    X(norm, g->n_layer * t) X(l1, lanes * t) X(l2, lanes * t)
/* clang-format on */

static void arrays_new(arrays *a, const device_weights *w, int64_t n, int64_t t)
{
    const kvt_geometry *g = w->geometry;
    int64_t d = g->head_dim, lanes = g->n_layer * g->n_head, pairs = g->n_layer * g->n_kv_head;
    int64_t block = 64, queries = (n < QUERIES ? n : QUERIES) + t - n;
    while (block < n && (n / block + 1) * lanes * t * 2 > BLOCK_BYTES)
        block *= 2;
    memset(a, 0, sizeof *a);
    for (int32_t l = 0; l < g->n_layer; l++)
        a->id[l] = l;
    a->spec = (device_record_spec){.weights = w,
                                   .n_layer = (int)g->n_layer,
                                   .layer_id = a->id,
                                   .n_prompt = n,
                                   .n_token = t,
                                   .n_query = n < QUERIES ? n : QUERIES,
                                   .block = block,
                                   .block_prompt = (n + block - 1) / block,
                                   .block_response = (t - n + block - 1) / block,
                                   .delay = DELAY,
                                   .scale = 1024,
                                   .n_thread = omp_get_max_threads(),
                                   .blocks = true,
                                   .kv = true,
                                   .queries = true,
                                   .norms = true};
    int64_t blocks = a->spec.block_prompt + a->spec.block_response;
    device_record_arrays *to = &a->spec.to;
#define X(member, count) to->member = need(kvt_alloc((count), sizeof *to->member), #member);
    ARRAYS(X)
#undef X
}

static void arrays_free(arrays *a)
{
#define X(member, count) kvt_free(a->spec.to.member);
    ARRAYS(X)
#undef X
}

/* ---- one run --------------------------------------------------------------------------------
 */

typedef struct run {
    double prefill, decode; /* seconds, each token of decode with its 64 best ids */
    double end;             /* what a recording still takes then: value norms, the response */
    int64_t device_bytes;
} run;

static run once(bench *b, const device_weights *w, const int32_t *id, int64_t n, int64_t m,
                int64_t tile, const device_record_spec *spec)
{
    kvt_err err;
    device_record *r = NULL;
    device_forward *f;
    if (spec)
        bench_check(device_record_new(&r, spec, &err), &err, "recorder");
    device_forward_spec fs = {
        .weights = w, .record = r, .n_token = n + m, .n_row = n, .tile = tile};
    bench_check(device_forward_new(&f, &fs, &err), &err, "memory of a run");
    run out = {.device_bytes = b->d->taken};
    bench_check(b->d->sync(b->d, &err), &err, "sync");
    double begin = bench_now();
    bench_check(device_forward_prefill(f, id, n, &err), &err, "prefill");
    bench_check(b->d->sync(b->d, &err), &err, "sync");
    out.prefill = bench_now() - begin;
    begin = bench_now();
    for (int64_t i = 0; i < m; i++) {
        device_top top;
        bench_check(device_forward_step(f, id[i], &err), &err, "decode");
        bench_check(device_forward_top(f, &top, &err), &err, "best ids");
    }
    bench_check(b->d->sync(b->d, &err), &err, "sync");
    out.decode = bench_now() - begin;
    begin = bench_now();
    if (r)
        bench_check(device_forward_finish(f, &err), &err, "end of a recording");
    out.end = bench_now() - begin;
    device_forward_free(f);
    device_record_free(r);
    return out;
}

static run median(bench *b, const device_weights *w, const int32_t *id, int64_t n, int64_t m,
                  int64_t tile, const device_record_spec *spec)
{
    double prefill[RUNS], decode[RUNS], end[RUNS];
    run last = once(b, w, id, n, m, tile, spec); /* warms up */
    for (int i = 0; i < b->n_run; i++) {
        last = once(b, w, id, n, m, tile, spec);
        prefill[i] = last.prefill;
        decode[i] = last.decode;
        end[i] = last.end;
    }
    last.prefill = bench_median(prefill, b->n_run);
    last.decode = bench_median(decode, b->n_run);
    last.end = bench_median(end, b->n_run);
    return last;
}

static double flops_of(const kvt_geometry *g, double n)
{
    double hd = (double)(g->n_head * g->head_dim), gd = (double)(g->n_kv_head * g->head_dim);
    double e = (double)g->n_hidden, layer = 2 * e * (2 * hd + 2 * gd + 3 * (double)g->n_ff);
    return (double)g->n_layer * (n * layer + 2 * n * n * hd);
}

static int32_t *ids_new(const kvt_geometry *g, int64_t n)
{
    int32_t *id = need(malloc((size_t)n * sizeof *id), "ids");
    for (int64_t i = 0; i < n; i++)
        id[i] = (int32_t)((i * 7919 + 13) % g->n_vocab);
    return id;
}

/* What device_tile() chooses between. */
static void tiles(bench *b, const device_weights *w, int64_t n)
{
    const kvt_geometry *g = w->geometry;
    int32_t *id = ids_new(g, n);
    fprintf(b->out,
            "\nPrefill of %lld tokens by the rows of a tile of attention (%lld are taken):",
            (long long)n, (long long)device_tile(g, n));
    for (int64_t tile = DEVICE_TILE; tile <= DEVICE_TILE_MOST; tile *= 2)
        fprintf(b->out, "%s %lld: %.0f tok/s", tile > DEVICE_TILE ? "," : "", (long long)tile,
                (double)n / median(b, w, id, n, 1, tile, NULL).prefill);
    fprintf(b->out, ".\n");
    fflush(b->out);
    free(id);
}

static void length(bench *b, const device_weights *w, int64_t n, int64_t m)
{
    const kvt_geometry *g = w->geometry;
    int32_t *id = ids_new(g, n);
    arrays a;
    arrays_new(&a, w, n, n + m);
    run plain = median(b, w, id, n, m, 0, NULL), with = median(b, w, id, n, m, 0, &a.spec);
    fprintf(b->out, "| %lld | %.0f | %.0f | %.2f | %.0f %% | %.1f | %.1f | %.2f | %.2f |\n",
            (long long)n, (double)n / plain.prefill, (double)n / (with.prefill + with.end),
            (with.prefill + with.end) / plain.prefill,
            100 * flops_of(g, (double)n) / plain.prefill / b->product, (double)m / plain.decode,
            (double)m / with.decode, with.decode / plain.decode,
            (double)with.device_bytes / 1e9);
    fflush(b->out);
    arrays_free(&a);
    free(id);
}

void bench_model(bench *b)
{
    static const int64_t lengths[] = {512, 2048, 8192};
    kvt_err err;
    device_weights *w;
    host_weights *h = weights_new(b);
    bench_check(device_weights_new(&w, b->d, &h->w, &err), &err, "weights");
    const kvt_geometry *g = w->geometry;
    fprintf(
        b->out,
        "\nA model of %lld layers%s, %lld/%lld heads x %lld, E %lld, F %lld, V %lld; random "
        "weights, %.2f GB on the device. Recording: the standard level, everything on the "
        "host when the clock stops, value norms included. FLOP share: causal attention, of the "
        "product above.\n\n"
        "| tokens | prefill tok/s | recording tok/s | ratio | of the limit | decode tok/s | "
        "recording tok/s | ratio | device GB |\n|---|---|---|---|---|---|---|---|---|\n",
        (long long)g->n_layer, g->n_layer < (b->is_smoke ? 2 : 32) ? " (more do not fit)" : "",
        (long long)g->n_head, (long long)g->n_kv_head, (long long)g->head_dim,
        (long long)g->n_hidden, (long long)g->n_ff, (long long)g->n_vocab,
        (double)w->bytes / 1e9);
    for (int i = 0; i < (int)(sizeof lengths / sizeof *lengths); i++)
        length(b, w, b->is_smoke ? lengths[i] / 16 : lengths[i], b->is_smoke ? 3 : 64);
    for (int i = 0; i < (int)(sizeof lengths / sizeof *lengths); i++)
        tiles(b, w, b->is_smoke ? lengths[i] / 16 : lengths[i]);
    device_weights_free(w);
    weights_free(h);
}
