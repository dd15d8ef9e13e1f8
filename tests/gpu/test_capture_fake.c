/* test_capture_fake.c - whole captures on the CUDA device, with its kernels in the shim and a
 * fake runtime and cuBLAS: the trace is that of the processor, and each call may fail. */
#include "tests/check.h"

#include <unistd.h>

#include "kvt/arena.h"
#include "tests/device_pair.h"
#include "tests/folder.h"
#include "tests/gpu/fake.h"
#include "tests/gpu/shim.h"

static const char text[] = "Four ships on the first of March, eleven on the second, none on "
                           "the third; the keeper wrote "
                           "down every one of them.";

static const struct one {
    const char *name, *arch;
    kvt_level level;
    shim_order order;
} ones[] = {
    {"llama", "llama", KVT_REPLAY, SHIM_ASCENDING},
    {"qwen2", "qwen2", KVT_REPLAY, SHIM_DESCENDING},
    {"qwen3, all of it", "qwen3", KVT_FULL, SHIM_RANDOM},
    {"gemma3, all of it", "gemma3", KVT_FULL, SHIM_RANDOM},
};

static void the_same_trace(void **state)
{
    const struct one *one = *state;
    model_make_options o = model_make_of(one->arch);
    kvt_device *d;
    kvt_err err;
    pair p;
    CHECK_OK(fake_device_open(&d, &err), &err);
    shim_set_order(one->order, 3);
    const int64_t before = shim_launches();
    pair_open(&p, &o, d);
    kvt_capture_spec s = pair_spec(text, 4);
    s.level = one->level;
    pair_compare(&p, &s, &pair_f32);
    assert_true(shim_launches() - before > 100);
    assert_true(fake_products() > 20);
    pair_close(&p);
    assert_int_equal(fake_held(), 0);
    assert_null(shim_report());
}

/* The calls from opening the device to closing the model, `fails` (0: none) made to fail. */
static kvt_code whole(const char *path, const char *out, int64_t fails, kvt_err *err)
{
    kvt_model *m;
    const kvt_model_options o = {.device = "cuda:0"};
    const kvt_ctx ctx = {0};
    kvt_capture_counts counts;
    kvt_capture_spec s = pair_spec("Four ships", 2);
    s.level = KVT_FULL;
    s.out = out;
    fake_reset(NULL);
    fake_fail_at(fails);
    kvt_code code = kvt_model_open(&m, path, &o, &ctx, err);
    if (code)
        return code;
    code = kvt_capture(m, &s, &counts, &ctx, err);
    kvt_model_close(m);
    return code;
}

static void each_call_may_fail(void **state)
{
    model_make_options o = model_make_of("llama");
    kvt_err err;
    (void)state;
    shim_set_order(SHIM_ASCENDING, 0);
    o.n_layer = 1;
    const char *path = folder_path("faults.gguf"), *out = folder_path("faults.h5");
    assert_true(model_make_gguf(path, &o));
    CHECK_OK(whole(path, out, 0, &err), &err);
    assert_int_equal(access(out, F_OK), 0);
    assert_int_equal(fake_held(), 0);
    const int64_t n_call = fake_calls();
    assert_true(n_call > 100);
    int ignored = 0;
    for (int64_t n = 1; n <= n_call; n += n < 80 ? 1 : 1 + n / 25) {
        unlink(out);
        kvt_code code = whole(path, out, n, &err);
        if (code == KVT_OK) {
            ignored++; /* of close(), behind the file */
            continue;
        }
        if (code != KVT_DEVICE && code != KVT_NOMEM)
            fail_msg("call %lld (%s): %s: %s", (long long)n, fake_failed(), kvt_code_name(code),
                     err.text);
        assert_null(strchr(err.text, '\n'));
        if (access(out, F_OK) == 0)
            fail_msg("call %lld (%s): there is a file", (long long)n, fake_failed());
        if (fake_held())
            fail_msg("call %lld (%s): %lld things are held", (long long)n, fake_failed(),
                     (long long)fake_held());
    }
    assert_true(ignored <= 2);
}

int main(void)
{
    struct CMUnitTest tests[8] = {cmocka_unit_test(each_call_may_fail)};
    int n = 1;
    CHECK_ROWS(tests, &n, ones, the_same_trace);
    folder_new();
    n = CHECK_RUN("capture on the fake", tests, n);
    folder_end();
    return n;
}
