/* test_shim.c - the shim runs right kernels in every order, and reports wrong ones. Bugs that
 * show as a wrong value or to a sanitizer are in bugs/. */
#include "tests/gpu/shim.h"

#include "tests/check.h"
#include "tests/gpu/shim_try.h"

enum { N = 96, BLOCKS = 7 };

static float in[N * BLOCKS], out[N * BLOCKS];

static int set_up(void **state)
{
    (void)state;
    shim_clear();
    shim_set_order(SHIM_ASCENDING, 0);
    for (int i = 0; i < N * BLOCKS; i++) {
        in[i] = (float)(i * 7 % 23);
        out[i] = -1;
    }
    return 0;
}

/* The three orders, and five permutations more. */
static void orders(int i)
{
    shim_set_order(i < 2 ? (shim_order)i : SHIM_RANDOM, (uint64_t)i);
}

static void sums_are_right(void **state)
{
    (void)state;
    kvt_err err;
    for (int i = 0; i < 8; i++) {
        orders(i);
        try_args a = {out, in, N, TRY_SUM};
        CHECK_OK(try_launch(&a, BLOCKS, 1, 64, 1, 2 * (int64_t)sizeof(float), &err), &err);
        for (int b = 0; b < BLOCKS; b++) {
            double want = 0;
            for (int e = 0; e < N; e++)
                want += (double)in[b * N + e];
            CHECK_NEAR((double)out[b], want, 0);
        }
    }
}

static void shared_memory_passes_values(void **state)
{
    (void)state;
    kvt_err err;
    for (int i = 0; i < 8; i++) {
        orders(i);
        try_args a = {out, in, N, TRY_REVERSE};
        CHECK_OK(try_launch(&a, BLOCKS, 1, N, 1, N * (int64_t)sizeof(float), &err), &err);
        for (int e = 0; e < N * BLOCKS; e++)
            CHECK_NEAR((double)out[e], (double)in[e / N * N + N - 1 - e % N], 0);
    }
}

static void shuffles_are_those_of_cuda(void **state)
{
    (void)state;
    kvt_err err;
    for (int i = 0; i < 8; i++) {
        orders(i);
        try_args a = {out, in, N, TRY_SHUFFLES};
        CHECK_OK(try_launch(&a, 1, 1, N, 1, 0, &err), &err);
        for (int e = 0; e < N; e++) {
            int down = e % 32 + 3 < 32 ? e + 3 : e; /* beyond the warp: its own */
            CHECK_NEAR((double)out[e], (double)(in[e ^ 1] + in[down]), 0);
        }
    }
}

static void threads_know_their_place(void **state)
{
    (void)state;
    kvt_err err;
    try_args a = {out, in, N, TRY_PLACE};
    CHECK_OK(try_launch(&a, 2, 3, 16, 6, 0, &err), &err);
    for (int e = 0; e < 6 * N; e++)
        CHECK_NEAR((double)out[e], e / N * 1000 + e % N, 0);
}

static void shared_memory_begins_as_nan(void **state)
{
    (void)state;
    kvt_err err;
    try_args a = {out, in, N, TRY_SHARED};
    CHECK_OK(try_launch(&a, 1, 1, N, 1, N * (int64_t)sizeof(float), &err), &err);
    for (int e = 0; e < N; e++)
        CHECK_NEAR((double)out[e], 1, 0);
}

static const struct wrong {
    const char *name;
    try_what what;
    const char *part;
} wrongs[] = {
    {"divergent barrier", TRY_DIVERGENT, "thread 32 has returned"},
    {"two barriers", TRY_TWO, "thread 32 is at the barrier of shim_try.cu:"},
    {"barrier behind a return", TRY_RETURNED, "thread 5 has returned"},
    {"shuffle of lanes that returned", TRY_ABSENT, "reads lane 1, which has returned"},
    {"warp at a shuffle and a barrier", TRY_MIXED, "thread 31 is at the barrier of"},
};

static void wrong_kernel_is_reported(void **state)
{
    const struct wrong *w = *state;
    kvt_err err;
    for (int i = 0; i < 8; i++) {
        orders(i);
        shim_clear();
        try_args a = {out, in, N, (int)w->what};
        CHECK_FAILS(try_launch(&a, 1, 1, 64, 1, 0, &err), KVT_DEVICE, w->part, &err);
        assert_string_equal(shim_report(), err.text);
    }
    shim_clear();
    assert_null(shim_report());
    sums_are_right(NULL); /* what was given up leaves nothing behind */
}

static const struct launch_row {
    const char *name;
    int64_t grid_x, grid_y, x, y, shared;
    const char *part;
} launches[] = {
    {"no threads", 1, 1, 0, 1, 0, "blocks of 0 x 1 x 1 threads"},
    {"1025 threads", 1, 1, 1025, 1, 0, "blocks of 1025 x 1 x 1 threads"},
    {"33 x 32 threads", 1, 1, 33, 32, 0, "blocks of 33 x 32 x 1 threads"},
    {"no blocks", 0, 1, 64, 1, 0, "grid of 0 x 1 x 1"},
    {"2^31 blocks", 1LL << 31, 1, 64, 1, 0, "grid of 2147483648 x 1 x 1"},
    {"65536 blocks of y", 1, 65536, 64, 1, 0, "grid of 1 x 65536 x 1"},
    {"shared memory", 1, 1, 64, 1, (48 << 10) + 1, "49153 bytes of shared memory"},
};

static void impossible_launch_is_reported(void **state)
{
    const struct launch_row *l = *state;
    kvt_err err;
    try_args a = {out, in, N, TRY_PLACE};
    CHECK_FAILS(try_launch(&a, l->grid_x, l->grid_y, l->x, l->y, l->shared, &err), KVT_DEVICE,
                l->part, &err);
}

int main(void)
{
    struct CMUnitTest tests[32] = {
        cmocka_unit_test(sums_are_right),
        cmocka_unit_test(shared_memory_passes_values),
        cmocka_unit_test(shuffles_are_those_of_cuda),
        cmocka_unit_test(threads_know_their_place),
        cmocka_unit_test(shared_memory_begins_as_nan),
    };
    int n = 5;
    CHECK_ROWS(tests, &n, wrongs, wrong_kernel_is_reported);
    CHECK_ROWS(tests, &n, launches, impossible_launch_is_reported);
    for (int i = 0; i < n; i++)
        tests[i].setup_func = set_up;
    return CHECK_RUN("shim", tests, n);
}
