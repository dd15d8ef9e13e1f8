/* test_gemm.c - products of the CUDA device through a fake cuBLAS against plain row-major sums:
 * all transpositions, padded and batched, in the three types (engine.md 11.7). */
#include "tests/check.h"

#include <stdlib.h>

#include "base/half.h"
#include "tests/gpu/fake.h"

enum { CASES = 200 };

static uint64_t state_;

static int64_t draw(int64_t low, int64_t high)
{
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return low + (int64_t)((state_ >> 33) % (uint64_t)(high - low + 1));
}

static float draw_value(void)
{
    return (float)draw(-1000, 1000) / 512.0f;
}

typedef struct product {
    dev_gemm_args a; /* host memory in its pointers */
    int64_t n_a, n_b, n_c;
    float *x, *y; /* the values of a and b as the type has them */
} product;

static float as_type(dev_type type, float x)
{
    return type == DEV_F16    ? half_to_float(half_from_float(x))
           : type == DEV_BF16 ? bf16_to_float(bf16_from_float(x))
                              : x;
}

/* n values, twice: as floats and as the type stores them. */
static float *values(void **typed, dev_type type, int64_t n)
{
    float *x = malloc((size_t)n * sizeof *x);
    uint16_t *h = malloc((size_t)(n * dev_type_size(type)));
    assert_true(x && h);
    for (int64_t i = 0; i < n; i++) {
        x[i] = as_type(type, draw_value());
        if (type == DEV_F32)
            memcpy((char *)h + 4 * i, &x[i], 4);
        else
            h[i] = type == DEV_F16 ? half_from_float(x[i]) : bf16_from_float(x[i]);
    }
    *typed = h;
    return x;
}

static void make(product *p, int seed)
{
    dev_gemm_args *a = &p->a;
    state_ = (uint64_t)seed + 1;
    for (int i = 0; i < 8; i++)
        draw(0, 1);
    memset(a, 0, sizeof *a);
    a->op = (dev_op)draw(0, 2);
    a->type = (dev_type)draw(0, 2);
    a->m = draw(1, 20);
    a->n = draw(1, 20);
    a->k = draw(1, 40);
    a->n_batch = draw(0, 2) ? 1 : draw(2, 5);
    a->lda = (a->op == DEV_TN ? a->m : a->k) + draw(0, 3);
    a->ldb = (a->op == DEV_NT ? a->k : a->n) + draw(0, 3);
    a->ldc = a->n + draw(0, 3);
    a->stride_a = (a->op == DEV_TN ? a->k : a->m) * a->lda + draw(0, 5);
    a->stride_b = draw(0, 3) ? (a->op == DEV_NT ? a->n : a->k) * a->ldb : 0; /* 0: shared */
    a->stride_c = a->m * a->ldc + draw(0, 5);
    a->alpha = draw(0, 1) ? 1 : draw_value();
    a->beta = draw(0, 1) ? 0 : draw_value();
    p->n_a = a->stride_a * a->n_batch;
    p->n_b = (a->op == DEV_NT ? a->n : a->k) * a->ldb * a->n_batch;
    p->n_c = a->stride_c * a->n_batch;
    void *typed;
    p->x = values(&typed, a->type, p->n_a);
    a->a = typed;
    p->y = values(&typed, a->type, p->n_b);
    a->b = typed;
    free(values(&typed, DEV_F32, p->n_c));
    a->c = typed;
}

static void drop(product *p)
{
    free(p->x), free(p->y);
    free((void *)(uintptr_t)p->a.a), free((void *)(uintptr_t)p->a.b), free(p->a.c);
}

/* The definition, and how large its terms are. */
static double wanted(const product *p, int64_t batch, int64_t i, int64_t j, double *size)
{
    const dev_gemm_args *a = &p->a;
    const float *x = p->x + batch * a->stride_a, *y = p->y + batch * a->stride_b;
    double sum = 0, terms = 0;
    for (int64_t e = 0; e < a->k; e++) {
        double term = (double)x[a->op == DEV_TN ? e * a->lda + i : i * a->lda + e] *
                      (double)y[a->op == DEV_NT ? j * a->ldb + e : e * a->ldb + j];
        sum += term;
        terms += term < 0 ? -term : term;
    }
    double old = (double)a->beta * (double)a->c[batch * a->stride_c + i * a->ldc + j];
    double alpha = (double)a->alpha;
    *size = (alpha < 0 ? -alpha : alpha) * terms + (old < 0 ? -old : old);
    return alpha * sum + old;
}

static void compare(const product *p, const float *got, int seed)
{
    const dev_gemm_args *a = &p->a;
    for (int64_t at = 0; at < p->n_c; at++) {
        int64_t b = at / a->stride_c, i = at % a->stride_c / a->ldc,
                j = at % a->stride_c % a->ldc;
        bool padding = i >= a->m || j >= a->n;
        double size = 0, want = padding ? (double)a->c[at] : wanted(p, b, i, j, &size);
        double gap = (double)got[at] - want;
        if (!((gap < 0 ? -gap : gap) <= 1e-6 * size))
            fail_msg("case %d: op %d type %d %lld x %lld x %lld, batch %lld, [%lld %lld]: "
                     "expected %.9g, got %.9g",
                     seed, (int)a->op, (int)a->type, (long long)a->m, (long long)a->n,
                     (long long)a->k, (long long)b, (long long)i, (long long)j, want,
                     (double)got[at]);
    }
}

static void *sent(kvt_device *d, const void *from, int64_t bytes)
{
    kvt_err err;
    void *p;
    CHECK_OK(d->alloc(d, &p, bytes, "operand", &err), &err);
    CHECK_OK(d->upload(d, p, from, bytes, &err), &err);
    return p;
}

static void run(kvt_device *d, const product *p, float *got)
{
    kvt_err err;
    dev_gemm_args a = p->a;
    void *x = sent(d, a.a, p->n_a * dev_type_size(a.type));
    void *y = sent(d, a.b, p->n_b * dev_type_size(a.type));
    float *c = sent(d, a.c, p->n_c * (int64_t)sizeof *c);
    a.a = x;
    a.b = y;
    a.c = c;
    CHECK_OK(d->gemm(d, &a, &err), &err);
    CHECK_OK(d->copy_begin(d, 0, &err), &err);
    CHECK_OK(d->download(d, got, c, p->n_c * (int64_t)sizeof *got, &err), &err);
    CHECK_OK(d->copy_end(d, 0, &err), &err);
    CHECK_OK(d->copy_wait(d, 0, &err), &err);
    d->free(d, x), d->free(d, y), d->free(d, c);
}

static void random_products_agree(void **state)
{
    kvt_device *d = *state;
    for (int i = 0; i < CASES; i++) {
        product p;
        make(&p, i);
        float *got = malloc((size_t)p.n_c * sizeof *got);
        assert_non_null(got);
        run(d, &p, got);
        compare(&p, got, i);
        free(got);
        drop(&p);
    }
    assert_int_equal(fake_products(), CASES);
}

/* C may be anything where beta is 0. */
static void beta_of_zero_reads_nothing(void **state)
{
    kvt_device *d = *state;
    kvt_err err;
    float x = 1024.5f, one = 1, got = 0; /* TF32 makes 1025 of it: cases.md C074 */
    void *a = sent(d, &x, 4), *b = sent(d, &one, 4), *c;
    CHECK_OK(d->alloc(d, &c, 4, "result", &err), &err); /* a NaN */
    dev_gemm_args g = {.op = DEV_NN,
                       .type = DEV_F32,
                       .a = a,
                       .b = b,
                       .c = c,
                       .m = 1,
                       .n = 1,
                       .k = 1,
                       .lda = 1,
                       .ldb = 1,
                       .ldc = 1,
                       .n_batch = 1,
                       .alpha = 1};
    CHECK_OK(d->gemm(d, &g, &err), &err);
    CHECK_OK(d->download(d, &got, c, 4, &err), &err);
    CHECK_OK(d->sync(d, &err), &err);
    CHECK_NEAR((double)got, 1024.5, 0);
    g.m = 0; /* nothing to do, and cuBLAS is not asked */
    int64_t n = fake_products();
    CHECK_OK(d->gemm(d, &g, &err), &err);
    assert_int_equal(fake_products(), n);
    d->free(d, a), d->free(d, b), d->free(d, c);
}

static const struct wrong {
    const char *name;
    dev_op op;
    int64_t m, n, k, lda, ldb, ldc, n_batch;
    const char *part;
} wrongs[] = {
    {"lda below k", DEV_NN, 3, 4, 5, 4, 4, 4, 1, "unsupported value"},
    {"lda below m", DEV_TN, 3, 4, 5, 2, 4, 4, 1, "unsupported value"},
    {"ldb below n", DEV_NN, 3, 4, 5, 5, 3, 4, 1, "unsupported value"},
    {"ldb below k", DEV_NT, 3, 4, 5, 5, 4, 4, 1, "unsupported value"},
    {"ldc below n", DEV_NT, 3, 4, 5, 5, 5, 3, 1, "unsupported value"},
    {"batched ldc below n", DEV_NT, 3, 4, 5, 5, 5, 3, 2, "cublasGemmStridedBatchedEx"},
    {"m beyond 2^31", DEV_NT, 1LL << 31, 4, 5, 5, 5, 4, 1, "beyond 2^31 - 1"},
    {"lda beyond 2^31", DEV_NT, 3, 4, 5, 1LL << 31, 5, 4, 1, "beyond 2^31 - 1"},
};

static void wrong_leading_dimension_is_refused(void **state)
{
    const struct wrong *w = *state;
    kvt_device *d;
    kvt_err err;
    static float memory[1024];
    CHECK_OK(fake_device_open(&d, &err), &err);
    dev_gemm_args a = {.op = w->op,
                       .type = DEV_F32,
                       .a = memory,
                       .b = memory,
                       .c = memory,
                       .m = w->m,
                       .n = w->n,
                       .k = w->k,
                       .lda = w->lda,
                       .ldb = w->ldb,
                       .ldc = w->ldc,
                       .n_batch = w->n_batch,
                       .alpha = 1};
    CHECK_FAILS(d->gemm(d, &a, &err), KVT_DEVICE, w->part, &err);
    assert_int_equal(fake_products(), 0);
    d->close(d);
    assert_int_equal(fake_held(), 0);
}

static int open_device(void **state)
{
    kvt_err err;
    kvt_device *d;
    CHECK_OK(fake_device_open(&d, &err), &err);
    *state = d;
    return 0;
}

static int close_device(void **state)
{
    kvt_device *d = *state;
    d->close(d);
    return fake_held() != 0;
}

int main(void)
{
    struct CMUnitTest tests[16] = {
        cmocka_unit_test_setup_teardown(random_products_agree, open_device, close_device),
        cmocka_unit_test_setup_teardown(beta_of_zero_reads_nothing, open_device, close_device),
    };
    int n = 2;
    CHECK_ROWS(tests, &n, wrongs, wrong_leading_dimension_is_refused);
    return CHECK_RUN("gemm", tests, n);
}
