/* test_golden_capture.c - a whole capture of SmolLM2: its answer is the known one, its trace
 * passes every check of kvt verify, its memory is what was planned, its bytes do not depend on
 * threads, nor on a thread count that the host program gave OpenBLAS. Skipped without the
 * model. */
#include "kvt/capture.h"

#include <stdlib.h>

#include "base/buf.h"
#include "tests/check.h"
#include "tests/folder.h"
#include "tests/model_path.h"

extern void openblas_set_num_threads(int n);

static kvt_model *model;
static kvt_ctx ctx;

static void each(void *user, const kvt_finding *f)
{
    int *n = user;
    (*n)++;
    if (!f->ok)
        fail_msg("%s: %s", f->check, f->text);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool is_sanitized = true;
#else
static const bool is_sanitized = false;
#endif

static void long_prompt(buf *text)
{
    buf_init(text, 1 << 16);
    for (int i = 0; i < 90; i++)
        buf_printf(text, "Day %d: %d ships passed the light, and the lamp was %s. ", i,
                   i * 37 % 11, i % 3 ? "trimmed" : "filled");
    buf_text(text, "How many ships passed on day 3?");
}

/* First: the peak is that of the process. */
static void memory_is_what_was_planned(void **state)
{
    kvt_err err;
    kvt_capture_plan plan;
    kvt_capture_counts c;
    kvt_capture_spec s;
    buf prompt;
    (void)state;
    long_prompt(&prompt);
    kvt_capture_defaults(&s);
    s.prompt = buf_get(&prompt);
    s.out = folder_path("long.h5");
    s.max_new = 4;
    CHECK_OK(kvt_capture_planned(model, &s, &plan, &ctx, &err), &err);
    CHECK_OK(kvt_capture(model, &s, &c, &ctx, &err), &err);
    assert_true(c.n_prompt > 1500);
    if (!is_sanitized) /* a sanitizer's own memory is not planned */
        CHECK_NEAR((double)plan.memory_bytes / (double)c.peak_bytes, 1.0, 0.1);
    CHECK_NEAR((double)plan.file_bytes / (double)c.file_bytes, 1.0, 0.001);
    kvt_trace *t;
    int n = 0;
    CHECK_OK(kvt_trace_open(&t, s.out, 0, &err), &err);
    CHECK_OK(kvt_trace_check(t, each, &n, &err), &err);
    assert_true(n > 8);
    kvt_trace_close(t);
    buf_fini(&prompt);
}

static void the_answer_is_known_and_the_bytes_are_the_same(void **state)
{
    static const int threads[] = {1, 2, 8};
    char first[KVT_DIGEST_TEXT];
    (void)state;
    for (int i = 0; i < 3; i++) {
        kvt_err err;
        kvt_trace *t;
        kvt_capture_counts c;
        kvt_capture_spec s;
        kvt_capture_defaults(&s);
        s.prompt = "What is the capital of France?";
        s.out = folder_path("paris.h5");
        s.force = true;
        ctx.n_thread = threads[i];
        openblas_set_num_threads(1 + i);
        CHECK_OK(kvt_capture(model, &s, &c, &ctx, &err), &err);
        assert_string_equal(c.text, "The capital of France is Paris.<|im_end|>");
        CHECK_OK(kvt_trace_open(&t, s.out, 0, &err), &err);
        const kvt_trace_info *info = kvt_trace_info_of(t);
        assert_string_equal(info->facts.token.stop_reason, "stop-token");
        assert_string_equal(info->facts.token.template_name, "smollm2");
        /* Every generated token is fed forward, the stop token included. */
        assert_int_equal(info->n_token, c.n_prompt + c.n_response);
        if (i == 0)
            snprintf(first, sizeof first, "%s", info->digest);
        assert_string_equal(info->digest, first);
        kvt_trace_close(t);
    }
    ctx.n_thread = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_what_was_planned),
        cmocka_unit_test(the_answer_is_known_and_the_bytes_are_the_same),
    };
    char path[1024];
    kvt_err err;
    if (!model_path(path, sizeof path))
        return TEST_SKIPPED;
    if (kvt_model_open(&model, path, NULL, &ctx, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    folder_new();
    int failed = cmocka_run_group_tests_name("capture", tests, NULL, NULL);
    folder_end();
    kvt_model_close(model);
    return failed;
}
