/* test_device_host.c - the definitions of a device's kernels against the kernels of the CPU,
 * the recorder's sums and the sampler, which have tests of their own; the memory of the host
 * device. */
#include "compute/backend.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>

#include "base/half.h"
#include "capture/future.h"
#include "capture/sample.h"
#include "compute/cpu/device_typed.h"
#include "kvt/arena.h"
#include "tests/check.h"

static kvt_device *device;
static kvt_err err;

static int open_host(void **state)
{
    (void)state;
    return device_open_host(&device, &err) != KVT_OK;
}

static int close_host(void **state)
{
    (void)state;
    device->close(device);
    return 0;
}

static double uniform(double low, double high)
{
    static uint64_t s = 7;
    s = s * 6364136223846793005u + 1442695040888963407u;
    return low + (high - low) * (double)(s >> 11) * 0x1p-53;
}

static float *random_new(int64_t n, double scale)
{
    float *x = kvt_alloc(n + 1, sizeof *x);
    assert_non_null(x);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)uniform(-scale, scale);
    return x;
}

static float *copy_of(const float *x, int64_t n)
{
    float *y = random_new(n, 0);
    memcpy(y, x, (size_t)n * sizeof *y);
    return y;
}

static void near(const char *what, int64_t i, double got, double want, double limit)
{
    if (!(fabs(got - want) <= limit) && got != want)
        fail_msg("%s %lld: expected %.9g, got %.9g", what, (long long)i, want, got);
}

static const int64_t widths[] = {1, 2, 31, 33, 257};

static void norms_are_the_cpus(void **state)
{
    (void)state;
    enum { R = 3 };
    for (int k = 0; k < CHECK_COUNT(widths); k++) {
        int64_t n = widths[k];
        float *x = random_new(R * n, 3), *gain = random_new(n, 2), *out = random_new(R * n, 1);
        float *want = random_new(R * n, 1), length[R], l1[R], l2[R], w1[R], w2[R];
        dev_rmsnorm_args a = {out, DEV_F32, x, gain, length, R, n, 1e-5f};
        CHECK_OK(device->rmsnorm(device, &a, &err), &err);
        cpu_rmsnorm(want, x, gain, R, n, (double)1e-5f);
        for (int64_t i = 0; i < R * n; i++)
            near("rmsnorm", i, (double)out[i], (double)want[i], 1e-6 * fabs((double)want[i]));
        dev_norms_args b = {x, l1, l2, R, n};
        CHECK_OK(device->norms(device, &b, &err), &err);
        cpu_norms(w1, w2, x, n, R, n);
        for (int r = 0; r < R; r++) {
            near("l1", r, (double)l1[r], (double)w1[r], 1e-6 * (double)w1[r]);
            near("l2", r, (double)l2[r], (double)w2[r], 1e-6 * (double)w2[r]);
            near("length", r, (double)length[r], (double)w2[r], 1e-6 * (double)w2[r]);
        }
        kvt_free(x), kvt_free(gain), kvt_free(out), kvt_free(want);
    }
}

/* Norm, rotation and layout are three functions of the CPU. */
static void rope_is_the_cpus(void **state)
{
    (void)state;
    enum { R = 5, H = 3, D = 12, LD = H * D + 2 };
    double freq[D / 2];
    float table[R * D];
    for (int i = 0; i < D / 2; i++)
        freq[i] = pow(100, -i / 6.0);
    rope_table(table, freq, 1.25, 11, R, D);
    float *x = random_new(R * LD, 3), *gain = random_new(D, 2), *normed = copy_of(x, R * LD);
    float *turned, *out = random_new(H * R * D, 0);
    for (int64_t r = 0; r < R; r++)
        cpu_rmsnorm(normed + r * LD, normed + r * LD, gain, 1, D, (double)1e-6f);
    for (int64_t r = 0; r < R; r++)
        for (int64_t h = 1; h < H; h++)
            cpu_rmsnorm(normed + r * LD + h * D, normed + r * LD + h * D, gain, 1, D,
                        (double)1e-6f);
    turned = copy_of(normed, R * LD);
    cpu_rope(turned, LD, table, R, H, D);
    dev_rope_args a = {x, gain, table, out, DEV_F32, LD, R * D, D, R, H, D, 1e-6f};
    CHECK_OK(device->rope(device, &a, &err), &err);
    for (int64_t i = 0; i < R * LD; i++)
        near("normed", i, (double)x[i], (double)normed[i], 1e-6 * fabs((double)normed[i]));
    for (int64_t h = 0; h < H; h++)
        for (int64_t r = 0; r < R; r++)
            for (int64_t i = 0; i < D; i++)
                near("turned", i, (double)out[(h * R + r) * D + i],
                     (double)turned[r * LD + h * D + i], 1e-5);
    kvt_free(x), kvt_free(gain), kvt_free(normed), kvt_free(turned), kvt_free(out);
}

static void gates_are_the_cpus(void **state)
{
    (void)state;
    enum { N = 1000 };
    float *gate = random_new(N, 12), *up = random_new(N, 3), *out = random_new(N, 0);
    for (int gelu = 0; gelu < 2; gelu++) {
        float *want = copy_of(gate, N);
        (gelu ? cpu_gelu_mul : cpu_silu_mul)(want, up, N);
        dev_act_args a = {out, DEV_F32, gate, up, N, gelu};
        CHECK_OK(device->act(device, &a, &err), &err);
        for (int64_t i = 0; i < N; i++)
            near("act", i, (double)out[i], (double)want[i],
                 2e-6 * fabs((double)gate[i] * (double)up[i]));
        kvt_free(want);
    }
    dev_add_args b = {gate, up, N, 10};
    float *before = copy_of(gate, N);
    CHECK_OK(device->add(device, &b, &err), &err);
    for (int64_t i = 0; i < N; i++)
        near("add", i, (double)gate[i], (double)(before[i] + up[i % 10]), 0);
    kvt_free(gate), kvt_free(up), kvt_free(out), kvt_free(before);
}

static void softmax_is_the_cpus(void **state)
{
    (void)state;
    enum { H = 2, R = 9, LD = 60 };
    const int64_t positions[] = {0, 40}, windows[] = {0, 1, 7, 100};
    for (int k = 0; k < 8; k++) {
        int64_t pos = positions[k / 4], window = windows[k % 4];
        int64_t first = attend_first(pos, window), n_key = pos + R - first;
        float *p = random_new(H * R * LD, 30), lse[H * (R + 1)];
        uint16_t *cast = kvt_alloc(H * R * LD, sizeof *cast);
        p[2] = p[LD + 1] = -INFINITY;
        float *want = copy_of(p, H * R * LD);
        dev_softmax_args a = {p,  cast,  DEV_F16, lse,   H,     R,
                              LD, R + 1, pos,     first, n_key, window};
        CHECK_OK(device->softmax(device, &a, &err), &err);
        for (int64_t i = 0; i < H * R; i++) {
            int64_t lo = attend_first(pos + i % R, window) - first,
                    hi = pos + i % R + 1 - first;
            float l = cpu_softmax(want + i * LD, n_key, lo, hi);
            near("lse", i, (double)lse[i / R * (R + 1) + i % R], (double)l, 1e-5);
            for (int64_t t = 0; t < n_key; t++) {
                near("p", t, (double)p[i * LD + t], (double)want[i * LD + t],
                     1e-5 * (double)want[i * LD + t] + 1e-37);
                assert_int_equal(cast[i * LD + t], half_from_float(p[i * LD + t]));
            }
        }
        kvt_free(p), kvt_free(want), kvt_free(cast);
    }
}

static void products_are_the_cpus(void **state)
{
    (void)state;
    enum { M = 7, N = 5, K = 33, B = 3 };
    for (int op = DEV_NN; op <= DEV_TN; op++)
        for (int beta = 0; beta < 2; beta++) {
            int64_t lda = (op == DEV_TN ? M : K) + 2, ldb = (op == DEV_NT ? K : N) + 1;
            float *a = random_new(B * K * (M + 4) * 2, 1),
                  *b = random_new(B * K * (N + 4) * 2, 1);
            int64_t sa = K * (M + 4), sb = K * (N + 4), sc = M * (N + 3);
            float *c = random_new(B * sc, 1), *want = copy_of(c, B * sc);
            if (!beta)
                c[1] = NAN; /* is not read */
            dev_gemm_args g = {(dev_op)op,
                               DEV_F32,
                               c,
                               a,
                               b,
                               M,
                               N,
                               K,
                               lda,
                               ldb,
                               N + 3,
                               B,
                               sa,
                               sb,
                               sc,
                               0.5f,
                               (float)beta * 0.25f};
            CHECK_OK(device->gemm(device, &g, &err), &err);
            for (int64_t i = 0; i < B; i++)
                cpu_gemm((gemm_op)op, &(gemm_args){.c = want + i * sc,
                                                   .a = a + i * sa,
                                                   .b = b + i * sb,
                                                   .m = M,
                                                   .n = N,
                                                   .k = K,
                                                   .lda = lda,
                                                   .ldb = ldb,
                                                   .ldc = N + 3,
                                                   .alpha = 0.5f,
                                                   .beta = (float)beta * 0.25f});
            for (int64_t i = 0; i < B * sc; i++)
                near("gemm", i, (double)c[i], (double)want[i], 2e-6 * K);
            kvt_free(a), kvt_free(b), kvt_free(c), kvt_free(want);
        }
}

/* Halves and brain floats are the numbers that they stand for. */
static void typed_products_are_of_their_values(void **state)
{
    (void)state;
    enum { M = 3, N = 4, K = 9 };
    for (int type = DEV_F16; type <= DEV_BF16; type++) {
        uint16_t a[M * K], b[N * K];
        float c[M * N];
        for (int i = 0; i < M * K; i++)
            typed_put((dev_type)type, a, i, (float)uniform(-2, 2));
        for (int i = 0; i < N * K; i++)
            typed_put((dev_type)type, b, i, (float)uniform(-2, 2));
        dev_gemm_args g = {DEV_NT, (dev_type)type, c, a, b, M, N, K, K, K, N, 1, 0, 0, 0, 1, 0};
        CHECK_OK(device->gemm(device, &g, &err), &err);
        for (int i = 0; i < M * N; i++) {
            double sum = 0;
            for (int k = 0; k < K; k++) {
                uint16_t u = a[i / N * K + k], w = b[i % N * K + k];
                sum += (double)(type == DEV_F16 ? half_to_float(u) : bf16_to_float(u)) *
                       (double)(type == DEV_F16 ? half_to_float(w) : bf16_to_float(w));
            }
            near("typed gemm", i, (double)c[i], sum, 1e-6 * K);
        }
    }
}

static void gemv_is_the_cpus(void **state)
{
    (void)state;
    enum { R = 9, C = 512 };
    unsigned char *w = kvt_alloc(R * C * 4, 1);
    float *x = random_new(C, 1), y[R], want[R];
    for (int64_t i = 0; i < R * C * 4; i++) /* scales of halves below 2 */
        w[i] = (unsigned char)((int)uniform(0, 256) & (i % 2 ? 0x3f : 0xff));
    const int types[] = {QUANT_F16,  QUANT_Q4_0, QUANT_Q8_0,
                         QUANT_Q4_K, QUANT_Q6_K, QUANT_IQ4_NL};
    for (int k = 0; k < CHECK_COUNT(types); k++) {
        const quant_info *info = quant_find(types[k]);
        kvt_matrix m = {types[k], R, C, C / info->n_weight * info->n_byte, w};
        dev_gemv_args a = {y, w, types[k], x, DEV_F32, R, C, m.row_bytes};
        CHECK_OK(device->gemv(device, &a, &err), &err);
        cpu_matvec(want, &m, 0, R, x);
        for (int r = 0; r < R; r++) {
            float row[C];
            double size = 0;
            quant_decode_plain(row, types[k], w + r * m.row_bytes, C);
            for (int i = 0; i < C; i++)
                size += fabs((double)row[i] * (double)x[i]);
            near("gemv", r, (double)y[r], (double)want[r], 2e-6 * size);
        }
    }
    kvt_free(w), kvt_free(x);
}

static void values_are_converted(void **state)
{
    (void)state;
    unsigned char block[144];
    float plain[256], out[256], embedded[256], heads[2 * 3 * 4];
    uint16_t brain[256], merged[3 * 9];
    int32_t id = 0;
    for (int i = 0; i < 144; i++)
        block[i] = (unsigned char)((int)uniform(0, 256) & (i % 2 ? 0x3f : 0xff));
    quant_decode_plain(plain, QUANT_Q4_K, block, 256);
    dev_dequant_args a = {out, DEV_F32, block, QUANT_Q4_K, 256};
    CHECK_OK(device->dequant(device, &a, &err), &err);
    assert_memory_equal(out, plain, sizeof plain);
    a.out = brain;
    a.type = DEV_BF16;
    CHECK_OK(device->dequant(device, &a, &err), &err);
    dev_embed_args e = {embedded, &id, block, QUANT_Q4_K, 1, 256, 144, 0.5f};
    CHECK_OK(device->embed(device, &e, &err), &err);
    for (int i = 0; i < 256; i++) {
        assert_int_equal(brain[i], bf16_from_float(plain[i]));
        near("embed", i, (double)embedded[i], (double)(0.5f * plain[i]), 0);
    }
    for (int i = 0; i < 24; i++)
        heads[i] = (float)i;
    dev_merge_args m = {merged, DEV_F16, heads, 3, 2, 4, 9};
    CHECK_OK(device->merge(device, &m, &err), &err);
    for (int r = 0; r < 3; r++)
        for (int h = 0; h < 2; h++)
            for (int i = 0; i < 4; i++)
                near("merge", i, (double)half_to_float(merged[r * 9 + h * 4 + i]),
                     (double)(h * 12 + r * 4 + i), 0);
}

static void moments_are_sums(void **state)
{
    (void)state;
    enum { R = 33, H = 2, D = 6, LD = H * D + 1 };
    float *q = random_new(R * LD, 3), *pivot = random_new(H * D, 3);
    float *centred = random_new(R * H * D, 0);
    double sum[H * D] = {1}, magnitude[H * D / 2] = {2}; /* is added to */
    dev_moments_args a = {q, pivot, centred, sum, magnitude, LD, R, H, D};
    CHECK_OK(device->moments(device, &a, &err), &err);
    for (int c = 0; c < H * D; c++) {
        double want = c == 0, size = c == 0 ? 2 : 0;
        for (int r = 0; r < R; r++) {
            want += (double)q[r * LD + c] - (double)pivot[c];
            near("centred", r, (double)centred[r * H * D + c],
                 (double)(q[r * LD + c] - pivot[c]), 0);
            if (c % D < D / 2)
                size += hypot((double)q[r * LD + c], (double)q[r * LD + c + D / 2]);
        }
        near("sum", c, sum[c], want, 1e-5);
        if (c % D < D / 2)
            near("magnitude", c, magnitude[c / D * (D / 2) + c % D], size, 1e-9);
    }
    kvt_free(q), kvt_free(pivot), kvt_free(centred);
}

static void top_is_the_samplers(void **state)
{
    (void)state;
    const int64_t sizes[] = {1, 63, 64, 65, 1000};
    for (int k = 0; k < 2 * CHECK_COUNT(sizes); k++) {
        int64_t n = sizes[k / 2];
        float *logit = random_new(n + 3, 20), top[DEV_TOP], lse, entropy;
        int32_t id[DEV_TOP];
        for (int64_t i = 0; k % 2 && i < n; i++)
            logit[i] = (float)floor((double)logit[i] / 4); /* ties */
        if (n > 1)
            logit[n - 1] = -INFINITY;
        sampler *s;
        sample_row row;
        CHECK_OK(sampler_new(&s, &(sample_spec){.top_p = 1}, n, &err), &err);
        CHECK_OK(sampler_describe(s, &row, logit, 0, &err), &err);
        dev_top_args a = {logit, id, top, &lse, &entropy, 1, n + 3, n};
        CHECK_OK(device->top(device, &a, &err), &err);
        near("entropy", k, (double)entropy, (double)row.entropy, 1e-6);
        for (int i = 0; i < DEV_TOP; i++) {
            assert_int_equal(id[i], row.id[i]);
            near("logp", i, (double)top[i] - (double)lse, (double)row.logp[i], 1e-5);
        }
        sampler_free(s);
        kvt_free(logit);
    }
}

typedef struct future_row {
    const char *name;
    int64_t n_prompt, n_token, tile, block, delay, window;
} future_row;

static const future_row futures[] = {
    {"tiles shorter than blocks", 200, 210, 32, 64, 16, 0},
    {"tiles longer than blocks", 333, 350, 128, 64, 40, 0},
    {"a window", 300, 320, 64, 64, 8, 50},
    {"a short prompt", 10, 80, 32, 64, 3, 0},
};

enum { HEADS = 2 };

/* Sums of one sequence by the device, as recorder and device share them. */
typedef struct kept {
    double *sum[2], *late;
    float *max[2], *open_sum, *open_max;
    uint16_t *block_sum, *block_max;
} kept;

static void record_rows(const future *f, kept *k, const future_row *s, int64_t pos,
                        int64_t n_row, int64_t first, float *p)
{
    int64_t n_key = pos + n_row - first;
    dev_record_args a = {.p = p,
                         .ld = n_key,
                         .n_head = HEADS,
                         .n_row = n_row,
                         .pos = pos,
                         .first = first,
                         .n_key = n_key,
                         .n_prompt = s->n_prompt,
                         .n_token = s->n_token,
                         .delay = s->delay,
                         .sum = k->sum[pos >= s->n_prompt],
                         .max = k->max[pos >= s->n_prompt],
                         .late = k->late,
                         .open_sum = k->open_sum,
                         .open_max = k->open_max,
                         .block_sum = k->block_sum,
                         .block_max = k->block_max,
                         .block = s->block,
                         .n_block = f->n_block,
                         .prompt_blocks = f->prompt_blocks,
                         .scale = FUTURE_SCALE};
    CHECK_OK(device->record(device, &a, &err), &err);
}

/* The same rows to the recorder's sums. */
static void tell_rows(future *f, int64_t pos, int64_t n_row, int64_t first, const float *p,
                      bool step)
{
    int64_t n_key = pos + n_row - first;
    for (int h = 0; h < HEADS; h++) {
        tap_tile t = {.head = h,
                      .step = step,
                      .pos = pos,
                      .n_row = n_row,
                      .first = first,
                      .n_key = n_key,
                      .p = p + h * n_row * n_key};
        future_tile(f, 0, &t);
    }
    if (!step)
        future_wave(f, 0, pos, n_row);
}

static void both_get(future *f, kept *k, const future_row *s, int64_t pos, int64_t n_row)
{
    int64_t first = attend_first(pos, s->window), n_key = pos + n_row - first;
    float *p = random_new(HEADS * n_row * n_key, 1);
    for (int64_t i = 0; i < HEADS * n_row * n_key; i++) {
        int64_t at = pos + i / n_key % n_row, t = first + i % n_key;
        p[i] = t <= at && (!s->window || at - t < s->window) ? fabsf(p[i]) : 0;
    }
    record_rows(f, k, s, pos, n_row, first, p);
    tell_rows(f, pos, n_row, first, p, pos >= s->n_prompt);
    kvt_free(p);
}

static void same(const char *what, const void *got, const void *want, size_t bytes)
{
    if (memcmp(got, want, bytes) != 0)
        fail_msg("%s: not the recorder's bits", what);
}

static void record_is_the_recorders(void **state)
{
    const future_row *s = *state;
    kvt_backend *backend;
    future *f;
    CHECK_OK(kvt_backend_open(&backend, "cpu", NULL, &err), &err);
    future_spec spec = {.backend = backend,
                        .n_layer = 1,
                        .n_head = HEADS,
                        .window = {(int32_t)s->window},
                        .n_prompt = s->n_prompt,
                        .n_token = s->n_token,
                        .tile = s->tile,
                        .block = s->block,
                        .delay = s->delay,
                        .blocks = true,
                        .block_max = true,
                        .n_thread = 1};
    CHECK_OK(future_new(&f, &spec, &err), &err);
    int64_t n = HEADS * s->n_prompt, lanes = HEADS * s->n_token, blocks = lanes * f->n_block;
    kept k = {{kvt_alloc(n, 8), kvt_alloc(n, 8)},
              kvt_alloc(lanes, 8),
              {kvt_alloc(n, 4), kvt_alloc(n, 4)},
              kvt_alloc(lanes, 4),
              kvt_alloc(lanes, 4),
              kvt_alloc(blocks, 2),
              kvt_alloc(blocks, 2)};
    for (int64_t pos = 0; pos < s->n_prompt; pos += s->tile)
        both_get(f, &k, s, pos, pos + s->tile < s->n_prompt ? s->tile : s->n_prompt - pos);
    for (int64_t pos = s->n_prompt; pos < s->n_token; pos++)
        both_get(f, &k, s, pos, 1);
    same("col_sum", k.sum[0], f->col_sum, (size_t)n * 8);
    same("future_sum", k.sum[1], f->future_sum, (size_t)n * 8);
    same("col_max", k.max[0], f->col_max, (size_t)n * 4);
    same("future_max", k.max[1], f->future_max, (size_t)n * 4);
    same("late", k.late, f->late, (size_t)lanes * 8);
    same("open_sum", k.open_sum, f->open_sum, (size_t)lanes * 4);
    same("open_max", k.open_max, f->open_max, (size_t)lanes * 4);
    same("block_sum", k.block_sum, f->block_sum, (size_t)blocks * 2);
    same("block_max", k.block_max, f->block_max, (size_t)blocks * 2);
    assert_true(k.late[0] > 0 && f->block_sum[0] > 0);
    for (int i = 0; i < 2; i++)
        kvt_free(k.sum[i]), kvt_free(k.max[i]);
    kvt_free(k.late), kvt_free(k.open_sum), kvt_free(k.open_max);
    kvt_free(k.block_sum), kvt_free(k.block_max);
    future_free(f);
    kvt_backend_close(backend);
}

static void threads_change_no_bits(void **state)
{
    (void)state;
    enum { M = 37, N = 19, K = 65 };
    float *a = random_new(M * K, 1), *b = random_new(N * K, 1), c[2][M * N];
    for (int t = 0; t < 2; t++) {
        omp_set_num_threads(t + 1);
        dev_gemm_args g = {DEV_NT, DEV_F32, c[t], a, b, M, N, K, K, K, N, 1, 0, 0, 0, 1, 0};
        CHECK_OK(device->gemm(device, &g, &err), &err);
    }
    assert_memory_equal(c[0], c[1], sizeof c[0]);
    kvt_free(a), kvt_free(b);
}

static void memory_is_counted(void **state)
{
    (void)state;
    void *a, *b;
    CHECK_OK(device->alloc(device, &a, 1000, "a", &err), &err);
    CHECK_OK(device->alloc(device, &b, 24, "b", &err), &err);
    assert_int_equal(device->taken, 1024);
    assert_int_equal((uintptr_t)a % 256, 0);
    assert_int_equal((uintptr_t)b % 256, 0);
    assert_true(
        isnan(((const float *)a)[249])); /* contents are not defined, and do not look so */
    device->free(device, a);
    assert_int_equal(device->taken, 24);
    assert_int_equal(device->peak, 1024);
    CHECK_OK(device->clear(device, b, 24, &err), &err);
    assert_true(((const float *)b)[5] == 0);
    device->free(device, b);
    device->free(device, NULL);
    assert_int_equal(device->taken, 0);
    kvt_alloc_fail_at(1, false);
    kvt_code code = device->alloc(device, &a, 4096, "scores", &err);
    kvt_alloc_fail_at(0, false);
    CHECK_FAILS(code, KVT_NOMEM, "scores needs 4096 bytes", &err);
    assert_null(a);
    assert_int_equal(device->taken, 0);
}

static void nothing_is_nothing(void **state)
{
    (void)state;
    float *x = random_new(8, 1);
    dev_add_args add = {x, x, 0, 1};
    CHECK_OK(device->add(device, &add, &err), &err);
    dev_gemm_args g = {.op = DEV_NN,
                       .c = x,
                       .a = x,
                       .b = x,
                       .m = 1,
                       .n = 4,
                       .n_batch = 1,
                       .ldc = 4,
                       .beta = 0,
                       .alpha = 1};
    CHECK_OK(device->gemm(device, &g, &err), &err); /* k 0: zeros */
    for (int i = 0; i < 4; i++)
        assert_true(x[i] == 0);
    kvt_free(x);
}

int main(void)
{
    struct CMUnitTest tests[30] = {
        cmocka_unit_test(norms_are_the_cpus),
        cmocka_unit_test(rope_is_the_cpus),
        cmocka_unit_test(gates_are_the_cpus),
        cmocka_unit_test(softmax_is_the_cpus),
        cmocka_unit_test(products_are_the_cpus),
        cmocka_unit_test(typed_products_are_of_their_values),
        cmocka_unit_test(gemv_is_the_cpus),
        cmocka_unit_test(values_are_converted),
        cmocka_unit_test(moments_are_sums),
        cmocka_unit_test(top_is_the_samplers),
        cmocka_unit_test(threads_change_no_bits),
        cmocka_unit_test(memory_is_counted),
        cmocka_unit_test(nothing_is_nothing),
    };
    int n = 13;
    CHECK_ROWS(tests, &n, futures, record_is_the_recorders);
    return _cmocka_run_group_tests("device: host", tests, (size_t)n, open_host, close_host);
}
