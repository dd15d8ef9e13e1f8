/* test_far.c - rows that lie more than 2^31 values apart: sizes are 64 bits wide
 * everywhere. The memory is address space of which a few pages are touched, so that these run
 * in the shim only. */
#include "tests/check.h"
#include "tests/gpu/device.h"

#include <math.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "compute/quant.h"

static kvt_device *device, *host;
static kvt_err err;

static const int64_t far_apart = ((int64_t)1 << 31) + 8; /* values */

/* Zeros, of which nothing is there until it is touched: a file with holes. */
static void *space_new(int64_t bytes)
{
    FILE *file = tmpfile();
    void *p = MAP_FAILED;
    if (file && ftruncate(fileno(file), (off_t)bytes) == 0)
        p = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    if (file)
        fclose(file);
    if (p == MAP_FAILED) {
        print_message("skipped: no file of %lld bytes with holes\n", (long long)bytes);
        skip();
    }
    return p;
}

static void space_free(void *p, int64_t bytes)
{
    munmap(p, (size_t)bytes);
}

static int open_devices(void **state)
{
    (void)state;
    device = test_device_open();
    test_order(0);
    return device_open_host(&host, &err) != KVT_OK;
}

static int close_devices(void **state)
{
    (void)state;
    device->close(device);
    host->close(host);
    return 0;
}

static void softmax_and_record_reach_it(void **state)
{
    (void)state;
    enum { N = 40 };
    int64_t bytes = (far_apart + N) * 4;
    float *p = space_new(bytes), *second = p + far_apart, lse[2], max[2 * N] = {0};
    double sum[2 * N] = {0}, late[2 * N] = {0};
    for (int t = 0; t < N; t++)
        second[t] = (float)t;
    dev_softmax_args a = {.p = p,
                          .lse = lse,
                          .n_head = 2,
                          .n_row = 1,
                          .ld = far_apart,
                          .ld_lse = 1,
                          .pos = N - 1,
                          .n_key = N};
    CHECK_OK(device->softmax(device, &a, &err), &err);
    CHECK_NEAR((double)lse[0], log(N), 1e-5);
    CHECK_NEAR((double)lse[1], N - 1 + log(1 / (1 - exp(-1))), 1e-5);
    CHECK_NEAR((double)second[N - 1], 1 - exp(-1), 1e-5);
    dev_record_args r = {.p = p,
                         .ld = far_apart,
                         .n_head = 2,
                         .n_row = 1,
                         .pos = N - 1,
                         .n_key = N,
                         .n_prompt = N,
                         .n_token = N,
                         .delay = 0,
                         .sum = sum,
                         .max = max,
                         .late = late,
                         .block = 64};
    CHECK_OK(device->record(device, &r, &err), &err);
    CHECK_NEAR(sum[0], 1.0 / N, 1e-6);
    CHECK_NEAR(sum[2 * N - 1], (double)second[N - 1], 0);
    CHECK_NEAR(late[2 * N - 1], (double)second[N - 1], 0);
    space_free(p, bytes);
}

/* Token 239,674 of 8,960 channels is the first whose values begin behind 2^31. */
static void embedding_reaches_it(void **state)
{
    (void)state;
    enum { E = 8960 };
    const int32_t ids[2] = {239674, 239675};
    int64_t bytes = (int64_t)(ids[1] + 1) * E * 4;
    float *table = space_new(bytes);
    static float x[2 * E];
    for (int r = 0; r < 2; r++)
        for (int64_t e = 0; e < E; e++)
            table[ids[r] * (int64_t)E + e] = (float)(r + 1) * (float)e;
    dev_embed_args a = {x, ids, table, QUANT_F32, 2, E, E * 4, 1};
    CHECK_OK(device->embed(device, &a, &err), &err);
    for (int i = 0; i < 2 * E; i++)
        CHECK_NEAR((double)x[i], (i / E + 1.0) * (i % E), 0);
    space_free(table, bytes);
}

static void products_and_logits_reach_it(void **state)
{
    (void)state;
    enum { N = 64 };
    int64_t bytes = (far_apart + N) * 4;
    float *w = space_new(bytes), x[N], y[2], top[2 * DEV_TOP], lse[2], entropy[2];
    int32_t id[2 * DEV_TOP];
    for (int i = 0; i < N; i++) {
        w[far_apart + i] = (float)i;
        x[i] = 1;
    }
    dev_gemv_args g = {y, w, QUANT_F32, x, DEV_F32, 2, N, far_apart * 4};
    CHECK_OK(device->gemv(device, &g, &err), &err);
    CHECK_NEAR((double)y[0], 0, 0);
    CHECK_NEAR((double)y[1], N * (N - 1) / 2, 0);
    dev_top_args t = {w, id, top, lse, entropy, 2, far_apart, N};
    CHECK_OK(device->top(device, &t, &err), &err);
    assert_int_equal(id[0], 0);
    assert_int_equal(id[DEV_TOP], N - 1);
    CHECK_NEAR((double)entropy[0], log(N), 1e-5);
    space_free(w, bytes);
}

/* Rows of x, and heads of a cache. */
static void rotation_and_moments_reach_it(void **state)
{
    (void)state;
    enum { D = 8 };
    int64_t bytes = (far_apart + 2 * D) * 4;
    float *x = space_new(bytes), *out = space_new(bytes), pivot[D] = {0}, centred[2 * D];
    double sum[D] = {0}, magnitude[D / 2] = {0};
    for (int i = 0; i < D; i++)
        x[far_apart + i] = (float)(i + 1);
    dev_rope_args a = {.x = x,
                       .out = out,
                       .type = DEV_F32,
                       .ld = far_apart,
                       .head_stride = D,
                       .row_stride = far_apart,
                       .n_row = 2,
                       .n_head = 1,
                       .head_dim = D};
    CHECK_OK(device->rope(device, &a, &err), &err);
    assert_memory_equal(out + far_apart, x + far_apart, D * sizeof *x);
    dev_moments_args m = {x, pivot, centred, sum, magnitude, far_apart, 2, 1, D};
    CHECK_OK(device->moments(device, &m, &err), &err);
    CHECK_NEAR(sum[D - 1], D, 0);
    CHECK_NEAR(magnitude[0], sqrt(1 + 25), 1e-6);
    space_free(x, bytes);
    space_free(out, bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(softmax_and_record_reach_it),
        cmocka_unit_test(embedding_reaches_it),
        cmocka_unit_test(products_and_logits_reach_it),
        cmocka_unit_test(rotation_and_moments_reach_it),
    };
    return cmocka_run_group_tests_name("kernels: far", tests, open_devices, close_devices);
}
