/* test_train_model.c - training at full size, on the model of the argument: the gradient in
 * float, its rows beside a probe's and the response's, a loss that falls. Skipped without the
 * model. */
#include "tests/check.h"
#include "tests/folder.h"
#include "tests/model_path.h"
#include "tests/train_rows.h"

static kvt_model *model;
static char path[1024];
static train_rows *rows;

static int setup(void **state)
{
    kvt_ctx ctx = {0};
    kvt_err err;
    kvt_capture_spec spec;
    kvt_capture_counts counts;
    (void)state;
    kvt_capture_defaults(&spec);
    spec.prompt =
        "The lamp of the light house on the cape was trimmed every day by two keepers, "
        "who wrote down the ships that passed, the weather, and the oil that was left. "
        "On the third day of the month they counted eleven ships and a whale. What "
        "did the keepers write down?";
    spec.out = path;
    spec.level = KVT_TRAIN;
    spec.delay = 16;
    spec.max_new = 16;
    CHECK_OK(kvt_capture(model, &spec, &counts, &ctx, &err), &err);
    rows = train_rows_open(model, path, 0.04);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    train_rows_close(rows);
    return 0;
}

static void test_direction(void **state)
{
    (void)state;
    train_rows_direction(rows);
}

static void test_probe(void **state)
{
    (void)state;
    train_rows_probe(rows);
}

static void test_begin(void **state)
{
    (void)state;
    train_rows_begin(rows);
}

static void test_response(void **state)
{
    (void)state;
    train_rows_response(rows, 1e-6);
}

static void test_descent(void **state)
{
    (void)state;
    train_rows_descent(rows, 1e-2);
}

int main(int argc, char **argv)
{
    char file[1024];
    kvt_ctx ctx = {0};
    kvt_err err;
    bool found = argc > 2 ? model_path_of(file, sizeof file, argv[2], argv[1]) != NULL
                          : model_path(file, sizeof file) != NULL;
    if (!found)
        return TEST_SKIPPED;
    if (kvt_model_open(&model, file, &(kvt_model_options){.device = "cpu", .f32 = true}, &ctx,
                       &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_direction), cmocka_unit_test(test_probe),
        cmocka_unit_test(test_begin),     cmocka_unit_test(test_response),
        cmocka_unit_test(test_descent),
    };
    folder_new();
    snprintf(path, sizeof path, "%s", folder_path("t.h5"));
    int failed = cmocka_run_group_tests(tests, setup, teardown);
    folder_end();
    kvt_model_close(model);
    return failed;
}
