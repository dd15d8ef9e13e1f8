/* test_train_arch.c - lookahead rows are trained by a pass of their own, which is that of
 * llama: a model of another architecture is refused by what it has more. */
#include "kvt/capture.h"
#include "kvt/train.h"
#include "tests/check.h"
#include "tests/folder.h"
#include "tests/model_make.h"

static const struct row {
    const char *arch, *lacks;
} rows[] = {
    {"qwen2", "it has biases of q, k and v"},
    {"qwen3", "it has norms of q and k"},
    {"gemma3", "it has norms of q and k"},
};

static void is_refused(void **state)
{
    const struct row *r = *state;
    kvt_err err;
    kvt_model *model;
    kvt_capture_spec spec;
    kvt_capture_counts counts;
    kvt_train_counts trained;
    kvt_ctx ctx = {.n_thread = 1};
    model_make_options o = model_make_of(r->arch);
    const char *file = folder_path("tiny.gguf"), *trace = folder_path("trace.h5");
    const char *out = folder_path("adapter");
    assert_true(model_make_gguf(file, &o));
    CHECK_OK(kvt_model_open(&model, file, &(kvt_model_options){.f32 = true}, &ctx, &err), &err);
    kvt_capture_defaults(&spec);
    spec.prompt = "the keeper counted ships";
    spec.out = trace;
    spec.force = true;
    spec.level = KVT_TRAIN;
    spec.max_new = 4;
    CHECK_OK(kvt_capture(model, &spec, &counts, &ctx, &err), &err);
    const kvt_train_spec train = {.what = "lookaheadkv:steps=1",
                                  .trace = &trace,
                                  .n_trace = 1,
                                  .model = model,
                                  .out = out};
    CHECK_FAILS(kvt_train_plan(&train, &trained, &ctx, &err), KVT_FORMAT, r->lacks, &err);
    CHECK_FAILS(kvt_train(&train, &trained, &ctx, &err), KVT_FORMAT, r->arch, &err);
    assert_int_equal(access(out, F_OK), -1);
    kvt_model_close(model);
}

int main(void)
{
    struct CMUnitTest tests[8];
    int n = 0;
    folder_new();
    CHECK_ROWS(tests, &n, rows, is_refused);
    int failed = CHECK_RUN("train_arch", tests, n);
    folder_end();
    return failed;
}
