/* test_kernels.c - each kernel of the CPU against its formula in double, at odd sizes; the
 * vectorised and the portable code. */
#include "compute/backend.h"

#include <math.h>
#include <stdlib.h>

#include "compute/cpu/exp8.h"
#include "tests/check.h"

static const int64_t sizes[] = {1, 2, 7, 8, 31, 33, 257};
enum { N_SIZE = sizeof sizes / sizeof *sizes };

static float uniform(uint64_t *s)
{
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return (float)((double)(*s >> 11) / 4503599627370496.0 - 1.0);
}

static float *random_new(int64_t n, uint64_t seed)
{
    float *x = malloc((size_t)(n + 1) * sizeof *x);
    assert_non_null(x);
    for (int64_t i = 0; i < n; i++)
        x[i] = uniform(&seed);
    return x;
}

static void near(const char *what, double got, double want, double limit)
{
    if (!(fabs(got - want) <= limit))
        fail_msg("%s: expected %.9g, got %.9g (limit %.3g)", what, want, got, limit);
}

static void both(void (*test)(void))
{
    test();
    setenv("KVT_SIMD", "baseline", 1);
    test();
    unsetenv("KVT_SIMD");
}

/* ---- exp -----------------------------------------------------------------------------------
 */

static double ulps(float got, double want)
{
    float w = (float)want;
    double step = (double)nextafterf(fabsf(w), INFINITY) - (double)fabsf(w);
    return fabs((double)got - want) / step;
}

static void check_exp(const char *what, float x, float got)
{
    double want = exp((double)x);
    if (want > 3.4028234663852886e38) {
        if (!(isinf(got) || ulps(got, want) <= 2.0))
            fail_msg("%s(%.9g): expected infinity, got %.9g", what, (double)x, (double)got);
    } else if (ulps(got, want) > 2.0) {
        fail_msg("%s(%.9g): expected %.9g, got %.9g, %.2f ulp", what, (double)x, want,
                 (double)got, ulps(got, want));
    }
}

#if SIMD_X86
SIMD_AVX2 static void exp_eight(float out[8], const float x[8])
{
    _mm256_storeu_ps(out, exp8(_mm256_loadu_ps(x)));
}
#endif

/* A step of 1009 through all floats of both signs up to 110: 2.1 million of them. */
static void exp_is_within_two_ulp(void **state)
{
    (void)state;
    uint32_t end;
    float most = 110.0f;
    memcpy(&end, &most, sizeof end);
    float x[8], out[8];
    int n = 0;
    for (uint32_t bits = 0; bits < end; bits += 1009)
        for (int sign = 0; sign < 2; sign++) {
            uint32_t b = bits | (uint32_t)sign << 31;
            memcpy(&x[n], &b, sizeof b);
            check_exp("exp1", x[n], exp1(x[n]));
            if (++n < 8)
                continue;
            n = 0;
#if SIMD_X86
            if (simd_avx2()) {
                exp_eight(out, x);
                for (int i = 0; i < 8; i++)
                    check_exp("exp8", x[i], out[i]);
            }
#endif
        }
    (void)out;
}

static void exp_has_its_limits(void **state)
{
    const float in[8] = {-INFINITY, INFINITY, NAN, 0.0f, -0.0f, -200.0f, 200.0f, -1e30f};
    const float want[8] = {0, INFINITY, NAN, 1, 1, 0, INFINITY, 0};
    float out[8];
    (void)state;
    for (int i = 0; i < 8; i++)
        out[i] = exp1(in[i]);
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < 8; i++)
            if (!(isnan(want[i]) ? isnan(out[i]) : out[i] == want[i]))
                fail_msg("exp(%g): expected %g, got %g", (double)in[i], (double)want[i],
                         (double)out[i]);
#if SIMD_X86
        if (simd_avx2())
            exp_eight(out, in);
#endif
    }
}

/* ---- products ------------------------------------------------------------------------------
 */

static void products(void)
{
    for (int i = 0; i < N_SIZE; i++)
        for (int j = 0; j < N_SIZE; j++) {
            int64_t n = sizes[i], k = sizes[j], m = 5;
            float *a = random_new(m * k, 1), *b = random_new(n * k, 2),
                  *c = random_new(m * n, 3);
            float *y = random_new(n, 4);
            cpu_gemm(GEMM_NT, &(gemm_args){.c = c,
                                           .a = a,
                                           .b = b,
                                           .m = m,
                                           .n = n,
                                           .k = k,
                                           .lda = k,
                                           .ldb = k,
                                           .ldc = n,
                                           .alpha = 0.5f});
            cpu_gemv(y, b, a, n, k);
            for (int64_t r = 0; r < n; r++) {
                double sum = 0, size = 0;
                for (int64_t e = 0; e < k; e++) {
                    sum += (double)a[e] * (double)b[r * k + e];
                    size += fabs((double)a[e] * (double)b[r * k + e]);
                }
                near("gemv", (double)y[r], sum, 1e-6 * size);
                near("gemm", (double)c[r], 0.5 * sum, 1e-6 * size);
            }
            /* mix: y += a^T rows of b, rows of n */
            float *p = random_new(k, 5), *v = random_new(k * n, 6), *o = random_new(n, 7);
            float *before = random_new(n, 7);
            cpu_mix(o, p, v, k, n);
            for (int64_t d = 0; d < n; d++) {
                double sum = (double)before[d], size = fabs(sum);
                for (int64_t t = 0; t < k; t++) {
                    sum += (double)p[t] * (double)v[t * n + d];
                    size += fabs((double)p[t] * (double)v[t * n + d]);
                }
                near("mix", (double)o[d], sum, 1e-6 * size);
            }
            free(a), free(b), free(c), free(y), free(p), free(v), free(o), free(before);
        }
}

static void products_follow_the_formula(void **state)
{
    (void)state;
    both(products);
}

/* C074: 1024.5 x 1 is 1024.5, and a random product keeps 6 digits: no reduced mantissa. */
static void products_keep_all_bits(void **state)
{
    float a = 1024.5f, b = 1.0f, c = 0;
    enum { N = 512 };
    (void)state;
    cpu_gemm(GEMM_NT, &(gemm_args){.c = &c,
                                   .a = &a,
                                   .b = &b,
                                   .m = 1,
                                   .n = 1,
                                   .k = 1,
                                   .lda = 1,
                                   .ldb = 1,
                                   .ldc = 1,
                                   .alpha = 1});
    assert_true(c == 1024.5f);
    float *x = random_new(N * N, 8), *y = random_new(N * N, 9), *z = random_new(N * N, 10);
    cpu_gemm(GEMM_NN, &(gemm_args){.c = z,
                                   .a = x,
                                   .b = y,
                                   .m = N,
                                   .n = N,
                                   .k = N,
                                   .lda = N,
                                   .ldb = N,
                                   .ldc = N,
                                   .alpha = 1});
    double wrong = 0, size = 0;
    for (int i = 0; i < N; i += 37)
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int k = 0; k < N; k++)
                sum += (double)x[i * N + k] * (double)y[k * N + j];
            wrong += ((double)z[i * N + j] - sum) * ((double)z[i * N + j] - sum);
            size += sum * sum;
        }
    near("512^3", sqrt(wrong / size), 0, 1e-6);
    free(x), free(y), free(z);
}

/* A count that was forced from outside is put back. */
extern void openblas_set_num_threads(int n);
extern int openblas_get_num_threads(void);

static void blas_has_one_thread(void **state)
{
    char name[96];
    (void)state;
    openblas_set_num_threads(2);
    assert_true(gemm_one_thread());
    assert_int_equal(openblas_get_num_threads(), 1);
    assert_non_null(strstr(kvt_blas_name(name, sizeof name), "OpenBLAS"));
}

/* ---- layer ---------------------------------------------------------------------------------
 */

static void layer(void)
{
    for (int i = 0; i < N_SIZE; i++) {
        int64_t n = sizes[i];
        float *x = random_new(2 * n, 1), *g = random_new(n, 2), *out = random_new(2 * n, 3);
        cpu_rmsnorm(out, x, g, 2, n, 1e-5);
        for (int64_t e = 0; e < 2 * n; e++) {
            double square = 0;
            for (int64_t f = 0; f < n; f++)
                square += (double)x[e / n * n + f] * (double)x[e / n * n + f];
            double want = (double)x[e] / sqrt(square / (double)n + 1e-5) * (double)g[e % n];
            near("rmsnorm", (double)out[e], want, 1e-6 * fabs(want));
        }
        float *gate = random_new(n, 4), *up = random_new(n, 5);
        for (int64_t e = 0; e < n; e++)
            gate[e] *= e % 3 ? 8.0f : 120.0f;
        memcpy(out, gate, (size_t)n * sizeof *out);
        cpu_silu_mul(gate, up, n);
        for (int64_t e = 0; e < n; e++) {
            double z = (double)out[e], want = z / (1 + exp(-z)) * (double)up[e];
            near("silu", (double)gate[e], want, 1e-6 * fabs(want) + 1e-37);
        }
        memcpy(gate, out, (size_t)n * sizeof *out);
        cpu_gelu_mul(gate, up, n);
        for (int64_t e = 0; e < n; e++) {
            double z = (double)out[e], u = sqrt(2 / acos(-1)) * (z + 0.044715 * z * z * z);
            double want = 0.5 * z * (1 + tanh(u)) * (double)up[e];
            near("gelu", (double)gate[e], want, 1e-6 * fabs(z * (double)up[e]) + 1e-37);
        }
        free(x), free(g), free(out), free(gate), free(up);
    }
}

/* What lies so far out that its cube or its exponential is infinite, and what is no number. */
static void gates_have_their_limits(void)
{
    const float in[8] = {3e38f, -3e38f, 1e15f, -1e15f, 0, NAN, 60, -60};
    for (int gelu = 0; gelu < 2; gelu++) {
        float gate[8], up[8] = {1, 1, 1, 1, 1, 1, 1, 1};
        memcpy(gate, in, sizeof gate);
        if (gelu)
            cpu_gelu_mul(gate, up, 8);
        else
            cpu_silu_mul(gate, up, 8);
        for (int i = 0; i < 8; i++)
            if (isnan(in[i]))
                assert_true(isnan(gate[i]));
            else
                near("far gate", (double)gate[i], in[i] > 0 ? (double)in[i] : 0, 1e-20);
    }
}

static void gates_are_right_far_out(void **state)
{
    (void)state;
    both(gates_have_their_limits);
}

static void layer_follows_the_formula(void **state)
{
    (void)state;
    both(layer);
}

/* Pairs (i, i + D/2) turn by pos * freq; the table is computed in double. */
static void rope_turns_pairs(void **state)
{
    enum { D = 12, H = 3, N = 5, POS = 8000 };
    double freq[D / 2];
    float table[N * D], x[N * H * D], was[N * H * D];
    uint64_t seed = 3;
    (void)state;
    for (int i = 0; i < D / 2; i++)
        freq[i] = pow(10000.0, -2.0 * i / D);
    for (int i = 0; i < N * H * D; i++)
        x[i] = was[i] = uniform(&seed);
    rope_table(table, freq, 1.5, POS, N, D);
    cpu_rope(x, H * D, table, N, H, D);
    for (int r = 0; r < N; r++)
        for (int h = 0; h < H; h++)
            for (int i = 0; i < D / 2; i++) {
                int a = (r * H + h) * D + i, b = a + D / 2;
                double t = (POS + r) * freq[i], c = 1.5 * cos(t), s = 1.5 * sin(t);
                near("rope", (double)x[a], (double)was[a] * c - (double)was[b] * s, 1e-6);
                near("rope", (double)x[b], (double)was[b] * c + (double)was[a] * s, 1e-6);
            }
}

/* ---- attention -----------------------------------------------------------------------------
 */

/* C017: a row that sees nothing is 0, flagged by its lse, and its neighbours are untouched. */
static void softmax_of_nothing(void)
{
    float x[24];
    for (int i = 0; i < 24; i++)
        x[i] = -INFINITY;
    assert_true(cpu_softmax(x, 24, 0, 24) == -INFINITY);
    for (int i = 0; i < 24; i++)
        assert_true(x[i] == 0.0f);
    x[3] = NAN; /* not visible, so never looked at */
    x[4] = 2.0f;
    assert_true(cpu_softmax(x, 24, 5, 5) == -INFINITY);
    assert_true(x[3] == 0.0f && x[4] == 0.0f);
    x[3] = NAN;
    x[4] = 2.0f;
    x[5] = -INFINITY;
    assert_true(cpu_softmax(x, 24, 4, 6) == 2.0f);
    assert_true(x[3] == 0.0f && x[4] == 1.0f && x[5] == 0.0f);
}

static void softmax(void)
{
    for (int i = 0; i < N_SIZE; i++)
        for (int extreme = 0; extreme < 2; extreme++) {
            int64_t n = sizes[i], lo = n / 5, hi = n - n / 7;
            float *x = random_new(n, 3);
            double *want = malloc((size_t)n * sizeof *want), sum = 0, top = -INFINITY, mass = 0;
            for (int64_t t = 0; t < n; t++)
                x[t] *= extreme ? 3e4f : 5.0f;
            for (int64_t t = lo; t < hi; t++)
                top = (double)x[t] > top ? (double)x[t] : top;
            for (int64_t t = lo; t < hi; t++)
                sum += want[t] = exp((double)x[t] - top);
            double lse = (double)cpu_softmax(x, n, lo, hi);
            near("lse", lse, top + log(sum), 1e-6 * (1 + fabs(top)));
            for (int64_t t = 0; t < n; t++) {
                bool seen = t >= lo && t < hi;
                near("softmax", (double)x[t], seen ? want[t] / sum : 0,
                     seen ? 1e-6 * want[t] / sum + 1e-38 : 0);
                mass += (double)x[t];
            }
            near("mass", mass, 1, 1e-6);
            free(x), free(want);
        }
    softmax_of_nothing();
}

static void softmax_follows_the_formula(void **state)
{
    (void)state;
    both(softmax);
}

/* Attention of n queries cut into tiles, against rows in double. */
static void tiles(int64_t n, int64_t d, int64_t window, int64_t tile, double limit)
{
    float *q = random_new(n * d, 1), *k = random_new(n * d, 2), *v = random_new(n * d, 3);
    float *p = random_new(tile * n, 4), *lse = random_new(tile, 5), *out = random_new(n * d, 6);
    double *w = malloc((size_t)n * sizeof *w);
    for (int64_t i = 0; i < n * d; i++)
        q[i] *= 6.0f;
    for (int64_t pos = 0; pos < n; pos += tile) {
        int64_t m = n - pos < tile ? n - pos : tile, first = attend_first(pos, window);
        int64_t n_key = pos + m - first;
        cpu_attend(&(attend_args){.q = q + pos * d,
                                  .k = k,
                                  .v = v,
                                  .p = p,
                                  .lse = lse,
                                  .out = out + pos * d,
                                  .ld_out = d,
                                  .n_row = m,
                                  .pos = pos,
                                  .head_dim = d,
                                  .window = window,
                                  .scale = 0.7f});
        for (int64_t r = 0; r < m; r++) {
            double sum = 0;
            for (int64_t t = first; t < pos + m; t++) {
                double z = 0;
                for (int64_t e = 0; e < d; e++)
                    z += (double)q[(pos + r) * d + e] * (double)k[t * d + e];
                bool seen = t <= pos + r && (window == 0 || pos + r - t < window);
                sum += w[t] = seen ? exp(0.7f * z) : 0;
            }
            near("lse", (double)lse[r], log(sum), limit * (1 + fabs(log(sum))));
            for (int64_t t = first; t < pos + m; t++)
                near("p", (double)p[r * n_key + t - first], w[t] / sum, limit);
            for (int64_t e = 0; e < d; e++) {
                double o = 0;
                for (int64_t t = first; t < pos + m; t++)
                    o += w[t] / sum * (double)v[t * d + e];
                near("out", (double)out[(pos + r) * d + e], o, limit);
            }
        }
    }
    free(q), free(k), free(v), free(p), free(lse), free(out), free(w);
}

/* C018: every window and tile from 1 to 16 is the untiled softmax to 1e-6. */
static void every_window_and_tile_agrees(void **state)
{
    (void)state;
    for (int64_t window = 1; window <= 16; window++)
        for (int64_t tile = 1; tile <= 16; tile++)
            tiles(37, 8, window, tile, 1e-6);
}

static void attention_follows_the_formula(void **state)
{
    (void)state;
    tiles(300, 64, 0, 64, 1e-5);
    tiles(300, 64, 0, 128, 1e-5);
    tiles(300, 33, 70, 256, 1e-5);
    tiles(1, 64, 0, 64, 1e-5);
}

/* ---- sums ----------------------------------------------------------------------------------
 */

static void sums(void)
{
    for (int i = 0; i < N_SIZE; i++) {
        int64_t n = sizes[i], m = 9, ld = n + 3;
        float *x = random_new(m * ld, 1), *s = random_new(n, 2), *top = random_new(n, 3);
        float l1[9], l2[9];
        cpu_columns(s, top, x, ld, m, n);
        cpu_norms(l1, l2, x, ld, m, n);
        for (int64_t t = 0; t < n; t++) {
            double sum = 0, max = -INFINITY;
            for (int64_t r = 0; r < m; r++) {
                double y = (double)x[r * ld + t];
                sum += y;
                max = y > max ? y : max;
            }
            near("column sum", (double)s[t], sum, 2e-6);
            near("column maximum", (double)top[t], max, 0);
        }
        for (int64_t r = 0; r < m; r++) {
            double a = 0, q = 0;
            for (int64_t t = 0; t < n; t++) {
                a += fabs((double)x[r * ld + t]);
                q += (double)x[r * ld + t] * (double)x[r * ld + t];
            }
            near("L1", (double)l1[r], a, 1e-6 * a);
            near("L2", (double)l2[r], sqrt(q), 1e-6 * sqrt(q));
        }
        cpu_columns(s, NULL, x, ld, 0, n);
        for (int64_t t = 0; t < n; t++)
            assert_true(s[t] == 0.0f);
        free(x), free(s), free(top);
    }
}

static void sums_follow_the_formula(void **state)
{
    (void)state;
    both(sums);
}

static void backend_says_what_it_has(void **state)
{
    kvt_err err;
    kvt_backend *b;
    char why[200];
    (void)state;
    CHECK_OK(kvt_backend_open(&b, "cpu", NULL, &err), &err);
    assert_string_equal(kvt_backend_name(b), "cpu");
    kvt_backend_close(b);
    if (strncmp(kvt_cuda_status(why, sizeof why), "no: ", 4) == 0) { /* no GPU here */
        CHECK_FAILS(kvt_backend_open(&b, "cuda:0", NULL, &err), KVT_DEVICE, why + 4, &err);
        CHECK_OK(kvt_backend_open(&b, NULL, NULL, &err), &err);
        assert_string_equal(kvt_backend_name(b), "cpu");
        kvt_backend_close(b);
    }
    assert_int_equal(kvt_backend_open(&b, "cuda:-1", NULL, &err), KVT_USAGE);
    assert_int_equal(kvt_backend_open(&b, "cuda:x", NULL, &err), KVT_USAGE);
    assert_int_equal(kvt_backend_open(&b, "tpu", NULL, &err), KVT_USAGE);
    assert_non_null(strstr(err.text, "'tpu'"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_within_two_ulp),
        cmocka_unit_test(exp_has_its_limits),
        cmocka_unit_test(products_follow_the_formula),
        cmocka_unit_test(products_keep_all_bits),
        cmocka_unit_test(blas_has_one_thread),
        cmocka_unit_test(gates_are_right_far_out),
        cmocka_unit_test(layer_follows_the_formula),
        cmocka_unit_test(rope_turns_pairs),
        cmocka_unit_test(softmax_follows_the_formula),
        cmocka_unit_test(every_window_and_tile_agrees),
        cmocka_unit_test(attention_follows_the_formula),
        cmocka_unit_test(sums_follow_the_formula),
        cmocka_unit_test(backend_says_what_it_has),
    };
    return cmocka_run_group_tests_name("kernels", tests, NULL, NULL);
}
