/* test_device_faults.c - each call of the runtime and of cuBLAS, and each allocation of ours,
 * is made to fail in turn: one clear line, nothing held, and the next try works. */
#include "tests/check.h"

#include "kvt/arena.h"
#include "tests/gpu/fake.h"
#include "tests/gpu/shim.h"

enum { N = 64, BYTES = N * (int)sizeof(float) };

static kvt_code work_on(kvt_device *d, float *host, kvt_err *err)
{
    void *x = NULL, *y = NULL, *locked = NULL;
    kvt_code code = d->alloc(d, &x, BYTES, "x", err);
    if (!code)
        code = d->alloc(d, &y, BYTES, "y", err);
    if (!code)
        code = d->host_alloc(d, &locked, BYTES, err);
    if (!code)
        code = d->upload(d, x, host, BYTES, err);
    if (!code)
        code = d->clear(d, y, BYTES, err);
    if (!code)
        code = d->copy(d, y, x, BYTES, err);
    if (!code)
        code = d->add(d, &(dev_add_args){.x = y, .y = x, .n = N, .period = N}, err);
    dev_gemm_args g = {.op = DEV_NT,
                       .type = DEV_F32,
                       .a = x,
                       .b = x,
                       .c = y,
                       .m = 1,
                       .n = 1,
                       .k = N,
                       .lda = N,
                       .ldb = N,
                       .ldc = 1,
                       .n_batch = 1,
                       .alpha = 1};
    if (!code)
        code = d->gemm(d, &g, err);
    g.n_batch = 2; /* the same twice */
    if (!code)
        code = d->gemm(d, &g, err);
    if (!code)
        code = d->copy_begin(d, 1, err);
    if (!code)
        code = d->download(d, locked, y, BYTES, err);
    if (!code)
        code = d->copy_end(d, 1, err);
    if (!code)
        code = d->copy_hold(d, 1, err);
    if (!code)
        code = d->copy_wait(d, 1, err);
    if (!code)
        code = d->sync(d, err);
    if (!code)
        memcpy(host, locked, BYTES);
    d->host_free(d, locked);
    d->free(d, x), d->free(d, y);
    return code;
}

/* Everything that a device does. */
static kvt_code whole(float *host, kvt_err *err)
{
    kvt_device *d;
    for (int i = 0; i < N; i++)
        host[i] = 1;
    kvt_code code = device_open_cuda(&d, 0, NULL, err);
    if (code)
        return code;
    code = work_on(d, host, err);
    d->close(d);
    return code;
}

static void check_line(const kvt_err *err, kvt_code code, int64_t n)
{
    if (code != KVT_DEVICE && code != KVT_NOMEM)
        fail_msg("call %lld (%s): expected DEVICE or NOMEM, got %s: %s", (long long)n,
                 fake_failed(), kvt_code_name(code), err->text);
    if (strchr(err->text, '\n') || strlen(err->text) < 12)
        fail_msg("call %lld: not one line: '%s'", (long long)n, err->text);
}

static void each_call_may_fail(void **state)
{
    (void)state;
    kvt_err err;
    float host[N];
    fake_reset(NULL);
    CHECK_OK(whole(host, &err), &err);
    CHECK_NEAR((double)host[0], N, 0);
    CHECK_NEAR((double)host[1], 2, 0);
    const int64_t n_call = fake_calls();
    assert_true(n_call > 40);
    int ignored = 0; /* those of close() */
    for (int64_t n = 1; n <= n_call; n++) {
        fake_reset(NULL);
        fake_fail_at(n);
        kvt_code code = whole(host, &err);
        assert_non_null(fake_failed());
        if (code)
            check_line(&err, code, n);
        else
            ignored++;
        if (fake_held())
            fail_msg("call %lld (%s) failed: %lld things are held", (long long)n, fake_failed(),
                     (long long)fake_held());
    }
    assert_int_equal(ignored, 2); /* close() waits for two streams, whatever they say */
    fake_reset(NULL);
    CHECK_OK(whole(host, &err), &err);
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    kvt_err err;
    float host[N];
    fake_reset(NULL);
    kvt_alloc_fail_at(0, false);
    CHECK_OK(whole(host, &err), &err);
    const int64_t n_alloc = kvt_alloc_count();
    assert_true(n_alloc >= 6);
    for (int64_t n = 1; n <= n_alloc; n++) {
        fake_reset(NULL);
        kvt_alloc_fail_at(n, false);
        kvt_code code = whole(host, &err);
        kvt_alloc_fail_at(0, false);
        CHECK_FAILS(code, KVT_NOMEM, "out of memory", &err);
        assert_int_equal(fake_held(), 0);
    }
}

static void memory_short_at_each_allocation(void **state)
{
    (void)state;
    kvt_err err;
    float host[N];
    fake_options o = fake_plain;
    fake_reset(NULL);
    CHECK_OK(whole(host, &err), &err);
    o.memory = fake_peak();
    fake_reset(&o);
    CHECK_OK(whole(host, &err), &err);
    for (int64_t lacks = 1; lacks < 600; lacks += 13) {
        o.memory = (32 << 20) + 2 * BYTES - lacks;
        fake_reset(&o);
        CHECK_FAILS(whole(host, &err), KVT_NOMEM, "MiB short", &err);
        assert_int_equal(fake_held(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_call_may_fail),
        cmocka_unit_test(each_allocation_may_fail),
        cmocka_unit_test(memory_short_at_each_allocation),
    };
    return cmocka_run_group_tests_name("device faults", tests, NULL, NULL);
}
