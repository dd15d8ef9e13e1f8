/* test_train_triattention.c - the table of TriAttention: means over the tokens of all prompts
 * but their first 4, of traces of different length. */
#include "kvt/scorer.h"
#include "kvt/train.h"
#include "tests/check.h"
#include "tests/folder.h"
#include "tests/synth.h"

enum { FILES = 3 };

static void means_weigh_by_tokens(void **state)
{
    (void)state;
    static const int64_t length[FILES] = {40, 9, 3}; /* the last has no 4 to leave out */
    char name[FILES][1024];
    const char *path[FILES], *out = folder_path("table.h5");
    synth *s[FILES];
    kvt_err err;
    for (int i = 0; i < FILES; i++) {
        synth_spec spec = synth_default();
        spec.seed = (uint64_t)i + 1;
        spec.n_prompt = length[i];
        s[i] = synth_new(&spec);
        snprintf(name[i], sizeof name[i], "%s/t%d.h5", folder_name, i);
        path[i] = name[i];
        CHECK_OK(synth_write(s[i], path[i], &err), &err);
    }
    kvt_train_counts counts;
    kvt_ctx ctx = {.n_thread = 1};
    const kvt_train_spec spec = {
        .what = "triattention", .trace = path, .n_trace = FILES, .out = out};
    CHECK_OK(kvt_train(&spec, &counts, &ctx, &err), &err);
    kvt_scorer *table;
    CHECK_OK(kvt_scorer_open(&table, out, &err), &err);
    assert_string_equal(kvt_scorer_info_of(table)->kind, "triattention");
    assert_int_equal(kvt_scorer_count(table), 2);
    for (int i = 0; i < 2; i++) {
        const kvt_scorer_tensor *t = kvt_scorer_at(table, i);
        bool mean = strcmp(t->name, "mean") == 0;
        assert_string_equal(mean ? "mean" : "magnitude", t->name);
        assert_string_equal(t->view.axes, mean ? "LHD" : "LHF");
        int64_t n = kvt_view_count(&t->view), each = n / t->view.dim[0];
        for (int64_t k = 0; k < n; k++) {
            double want = 0;
            for (int f = 0; f < FILES; f++) {
                kvt_view v = synth_view(s[f], mean ? KVT_DS_QUERY_MEAN : KVT_DS_QUERY_FREQ,
                                        (int)(k / each));
                assert_int_equal(kvt_view_count(&v), each);
                want += (double)((const float *)v.data)[k % each] *
                        (double)(f == 2 ? 3 : length[f] - 4) / (36 + 5 + 3);
            }
            CHECK_NEAR((double)((const float *)t->view.data)[k], want, 1e-6);
        }
    }
    kvt_scorer_close(table);
    for (int i = 0; i < FILES; i++)
        synth_free(s[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(means_weigh_by_tokens)};
    folder_new();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    folder_end();
    return failed;
}
