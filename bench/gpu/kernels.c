/* kernels.c - each kernel at the shapes of an 8B model, as a share of the device's limits. */
#include <stdlib.h>
#include <string.h>

#include "bench/gpu/bench.h"
#include "compute/quant.h"

/* The geometry: rows of a chunk, rows of a tile, keys. */
typedef struct shapes {
    int64_t n, m, keys, e, f, heads, kv, d, vocab;
} shapes;

static shapes shapes_of(const bench *b)
{
    if (b->is_smoke)
        return (shapes){64, 16, 128, 64, 96, 4, 2, 16, 300};
    return (shapes){2048, 64, 8192, 4096, 14336, 32, 8, 128, 128256};
}

#define CALL(name)                                                             \
    static kvt_code call_##name(kvt_device *d, const void *args, kvt_err *err) \
    {                                                                          \
        return d->name(d, (const dev_##name##_args *)args, err);               \
    }
#define DEVICE_KERNEL(name) CALL(name)
#include "compute/device.def"
#undef DEVICE_KERNEL

typedef struct copied {
    void *to, *from;
    int64_t bytes;
} copied;

static kvt_code call_copy(kvt_device *d, const void *args, kvt_err *err)
{
    const copied *c = args;
    return d->copy(d, c->to, c->from, c->bytes, err);
}

static dev_gemm_args square(const bench *b, int64_t n, dev_type type, float *c, void *x,
                            void *y)
{
    (void)b;
    return (dev_gemm_args){.op = DEV_NT,
                           .type = type,
                           .c = c,
                           .a = x,
                           .b = y,
                           .m = n,
                           .n = n,
                           .k = n,
                           .lda = n,
                           .ldb = n,
                           .ldc = n,
                           .n_batch = 1,
                           .alpha = 1};
}

void bench_limits(bench *b)
{
    int64_t bytes = b->is_smoke ? 1 << 16 : (int64_t)1 << 30, n = b->is_smoke ? 32 : 8192;
    void *x = bench_take(b, bytes, "copy from"), *y = bench_take(b, bytes, "copy to");
    float *c = bench_take(b, n * n * 4, "product");
    copied copy = {y, x, bytes};
    b->stream = 2 * (double)bytes / bench_seconds(b, call_copy, &copy);
    dev_gemm_args g = square(b, n, b->d->has_bf16 ? DEV_BF16 : DEV_F16, c, x, y);
    double half = 2.0 * (double)n * (double)n * (double)n, f32;
    b->product = half / bench_seconds(b, call_gemm, &g);
    g = square(b, n, DEV_F32, c, x, y);
    f32 = half / bench_seconds(b, call_gemm, &g);
    fprintf(b->out,
            "\nLimits measured in this run: copy %.0f GB/s (read and write), product of %lld^3 "
            "%.1f TFLOP/s in %s, %.1f in f32.\n",
            b->stream / 1e9, (long long)n, b->product / 1e12, b->d->has_bf16 ? "bf16" : "f16",
            f32 / 1e12);
    b->d->free(b->d, x);
    b->d->free(b->d, y);
    b->d->free(b->d, c);
}

/* One line: the share of the larger of what its bytes and its operations take at the limits. */
static void line(bench *b, const char *name, const char *shape, double bytes, double flops,
                 bench_fn *fn, const void *args)
{
    double s = bench_seconds(b, fn, args), least = bytes / b->stream;
    if (flops / b->product > least)
        least = flops / b->product;
    fprintf(b->out, "| %s | %s | %.1f | %.0f | %.1f | %.0f %% |\n", name, shape, s * 1e6,
            bytes / s / 1e9, flops / s / 1e12, 100 * least / s);
}

static void products(bench *b, const shapes *s, dev_type type, float *c, void *x, void *w)
{
    double n = (double)s->n, e = (double)s->e, f = (double)s->f;
    dev_gemm_args g = {.op = DEV_NT,
                       .type = type,
                       .c = c,
                       .a = x,
                       .b = w,
                       .m = s->n,
                       .n = s->f,
                       .k = s->e,
                       .lda = s->e,
                       .ldb = s->e,
                       .ldc = s->f,
                       .n_batch = 1,
                       .alpha = 1};
    line(b, "gemm", "gate: n x F x E", 2 * (n * e + f * e) + 4 * n * f, 2 * n * e * f,
         call_gemm, &g);
    int64_t group = s->heads / s->kv * s->m;
    double scores = (double)(s->heads * s->m * s->keys);
    g = (dev_gemm_args){.op = DEV_NT,
                        .type = type,
                        .c = c,
                        .a = x,
                        .b = w,
                        .m = group,
                        .n = s->keys,
                        .k = s->d,
                        .lda = s->d,
                        .ldb = s->d,
                        .ldc = s->keys,
                        .n_batch = s->kv,
                        .stride_a = group * s->d,
                        .stride_b = s->keys * s->d,
                        .stride_c = group * s->keys,
                        .alpha = 1};
    line(b, "gemm", "scores of a tile", 4 * scores, 2 * scores * (double)s->d, call_gemm, &g);
    g = (dev_gemm_args){.op = DEV_NN,
                        .type = type,
                        .c = c,
                        .a = w,
                        .b = x,
                        .m = group,
                        .n = s->d,
                        .k = s->keys,
                        .lda = s->keys,
                        .ldb = s->d,
                        .ldc = s->d,
                        .n_batch = s->kv,
                        .stride_a = group * s->keys,
                        .stride_b = s->keys * s->d,
                        .stride_c = group * s->d,
                        .alpha = 1};
    line(b, "gemm", "mixing of a tile", 2 * scores, 2 * scores * (double)s->d, call_gemm, &g);
    const int quants[] = {QUANT_BF16, QUANT_Q8_0, QUANT_Q4_0, QUANT_Q4_K};
    for (int i = 0; i < (int)(sizeof quants / sizeof *quants); i++) {
        const quant_info *q = quant_find(quants[i]);
        if (s->e % q->n_weight)
            continue;
        char shape[64];
        dev_gemv_args v = {.y = c,
                           .w = w,
                           .quant = q->type,
                           .x = x,
                           .type = type,
                           .n_row = s->f,
                           .n_col = s->e,
                           .row_bytes = s->e / q->n_weight * q->n_byte};
        double bytes = (double)(v.row_bytes * s->f);
        snprintf(shape, sizeof shape, "gate, %s: F x E", q->name);
        line(b, "gemv", shape, bytes, 2 * e * f, call_gemv, &v);
        dev_dequant_args d = {
            .out = c, .type = type, .in = w, .quant = q->type, .n = s->e * s->f};
        line(b, "dequant", shape, bytes + 2 * e * f, 0, call_dequant, &d);
    }
}

static void attention(bench *b, const shapes *s, dev_type type, float *p, void *cast,
                      void *sums)
{
    double values = (double)(s->heads * s->m * s->keys);
    dev_softmax_args x = {.p = p,
                          .cast = cast,
                          .type = type,
                          .lse = sums,
                          .n_head = s->heads,
                          .n_row = s->m,
                          .ld = s->keys,
                          .ld_lse = s->m,
                          .pos = s->keys - s->m,
                          .n_key = s->keys};
    line(b, "softmax", "a tile, H m T", values * 10, 0, call_softmax, &x);
    int64_t lanes = s->heads * s->keys;
    double *sum = sums;
    float *max = (float *)(sum + 2 * lanes);
    dev_record_args r = {.p = p,
                         .ld = s->keys,
                         .n_head = s->heads,
                         .n_row = s->m,
                         .pos = s->keys - s->m,
                         .n_key = s->keys,
                         .n_prompt = s->keys,
                         .n_token = s->keys,
                         .delay = s->keys / 8,
                         .sum = sum,
                         .late = sum + lanes,
                         .max = max,
                         .open_sum = max + lanes,
                         .block_sum = (uint16_t *)(max + 2 * lanes),
                         .block = s->keys,
                         .n_block = 1,
                         .prompt_blocks = 1,
                         .scale = 1};
    line(b, "record", "a tile, H m T", values * 4 + (double)lanes * 50, 0, call_record, &r);
}

static void rows(bench *b, const shapes *s, dev_type type, float *x, void *y, float *z)
{
    double n = (double)s->n, e = (double)s->e, f = (double)s->f;
    dev_rmsnorm_args norm = {.out = y,
                             .type = type,
                             .x = x,
                             .gain = z,
                             .n_row = s->n,
                             .n_hidden = s->e,
                             .eps = 1e-5f};
    line(b, "rmsnorm", "n x E", n * e * 6, 0, call_rmsnorm, &norm);
    dev_rope_args rope = {.x = x,
                          .table = z,
                          .out = y,
                          .type = type,
                          .ld = s->heads * s->d,
                          .head_stride = s->n * s->d,
                          .row_stride = s->d,
                          .n_row = s->n,
                          .n_head = s->heads,
                          .head_dim = s->d};
    double q = (double)(s->n * s->heads * s->d);
    line(b, "rope", "queries", q * 6, 0, call_rope, &rope);
    dev_add_args add = {.x = x, .y = z, .n = s->n * s->e, .period = s->n * s->e};
    line(b, "add", "n x E", n * e * 12, 0, call_add, &add);
    dev_act_args act = {.out = y, .type = type, .gate = x, .up = z, .n = s->n * s->f};
    line(b, "act", "n x F", n * f * 10, 0, call_act, &act);
    dev_merge_args merge = {.out = y,
                            .type = type,
                            .x = x,
                            .n_row = s->m,
                            .n_head = s->heads,
                            .head_dim = s->d,
                            .ld = s->heads * s->d};
    line(b, "merge", "a tile", (double)(s->m * s->heads * s->d) * 6, 0, call_merge, &merge);
    dev_cast_args cast = {.out = y, .in = x, .to = type, .from = DEV_F32, .n = s->n * s->f};
    line(b, "cast", "n x F", n * f * 6, 0, call_cast, &cast);
    dev_norms_args norms = {.x = x, .l1 = z, .l2 = z + s->n, .n_row = s->n, .n_hidden = s->e};
    line(b, "norms", "n x E", n * e * 4, 0, call_norms, &norms);
    double *sum = y;
    dev_moments_args moments = {.q = x,
                                .pivot = z,
                                .centred = z + s->heads * s->d,
                                .sum = sum,
                                .magnitude = sum + s->heads * s->d,
                                .ld = s->heads * s->d,
                                .n_row = s->n,
                                .n_head = s->heads,
                                .head_dim = s->d};
    line(b, "moments", "queries", q * 8, 0, call_moments, &moments);
}

static void vocabulary(bench *b, const shapes *s, float *logit, void *table, int32_t *id)
{
    float *top = (float *)(id + DEV_TOP);
    dev_top_args t = {.logit = logit,
                      .id = id,
                      .top = top,
                      .lse = top + DEV_TOP,
                      .entropy = top + DEV_TOP + 1,
                      .n_row = 1,
                      .ld = s->vocab,
                      .n_vocab = s->vocab};
    line(b, "top", "one row of V", (double)s->vocab * 4, 0, call_top, &t);
    kvt_err err;
    bench_check(b->d->clear(b->d, id, s->n * 4, &err), &err, "ids");
    dev_embed_args e = {.x = logit,
                        .id = id,
                        .table = table,
                        .quant = QUANT_BF16,
                        .n_row = s->n,
                        .n_hidden = s->e,
                        .row_bytes = 2 * s->e,
                        .scale = 1};
    line(b, "embed", "n x E, bf16", (double)(s->n * s->e) * 6, 0, call_embed, &e);
}

void bench_kernels(bench *b)
{
    shapes s = shapes_of(b);
    dev_type type = b->d->has_bf16 ? DEV_BF16 : DEV_F16;
    int64_t wide = s.n * s.f, tile = s.heads * s.m * s.keys, many = wide > tile ? wide : tile;
    many = many > s.e * s.f ? many : s.e * s.f;
    float *c = bench_take(b, many * 4, "results"), *z = bench_take(b, many * 4, "values");
    void *x = bench_take(b, many * 4, "activations");
    fprintf(b->out,
            "\nKernels, n = %lld rows, tiles of %lld, %lld keys. The share is of the "
            "larger of the times that their bytes and operations need at the limits.\n\n"
            "| kernel | shape | us | GB/s | TFLOP/s | of the limit |\n"
            "|---|---|---|---|---|---|\n",
            (long long)s.n, (long long)s.m, (long long)s.keys);
    products(b, &s, type, c, x, z);
    rows(b, &s, type, c, x, z);
    vocabulary(b, &s, c, z, x);
    attention(b, &s, type, c, x, z);
    b->d->free(b->d, c);
    b->d->free(b->d, z);
    b->d->free(b->d, x);
}
