/* What a reader keeps: a layer of a compressed trace is decompressed once, however many of its
 * rows are looked at (C056: holding a key over 1,000 rows must not decompress a chunk a row),
 * and the limit on memory is kept. */
#include "tests/check.h"

#include "kvt/trace.h"
#include "tests/folder.h"
#include "tests/synth.h"

static const char *make(bool compress)
{
    kvt_err err;
    synth_spec spec = synth_default();
    spec.n_prompt = 120;
    spec.n_response = 40;
    spec.last_queries = -1;
    spec.compress = compress;
    spec.force = true;
    const char *path = folder_path(compress ? "packed.h5" : "plain.h5");
    CHECK_OK(synth_file(&spec, path, &err), &err);
    return path;
}

static void a_layer_is_decoded_once(void **state)
{
    (void)state;
    for (int compress = 0; compress < 2; compress++) {
        kvt_err err;
        kvt_trace *t;
        const void *first = NULL;
        CHECK_OK(kvt_trace_open(&t, make(compress), 0, &err), &err);
        for (int row = 0; row < 1000; row++) {
            kvt_view rows;
            CHECK_OK(kvt_trace_read_raw(t, KVT_DS_ROWS, 1, &rows, &err), &err);
            if (first == NULL)
                first = rows.data;
            assert_ptr_equal(rows.data, first); /* the slab that was decoded the first time */
            kvt_trace_done(t, &rows);
        }
        kvt_trace_close(t);
    }
}

/* With room for one layer only, two in turn are both right: the cache gives up what nobody
 * holds. */
static void a_small_cache_still_answers(void **state)
{
    (void)state;
    kvt_err err;
    kvt_trace *wide, *narrow;
    const char *path = make(true);
    CHECK_OK(kvt_trace_open(&wide, path, 0, &err), &err);
    CHECK_OK(kvt_trace_open(&narrow, path, 1, &err), &err);
    for (int turn = 0; turn < 6; turn++) {
        kvt_view a, b;
        CHECK_OK(kvt_trace_read(wide, KVT_DS_KEYS, turn % 2, &a, &err), &err);
        CHECK_OK(kvt_trace_read(narrow, KVT_DS_KEYS, turn % 2, &b, &err), &err);
        assert_memory_equal(a.data, b.data, (size_t)kvt_view_count(&a) * sizeof(float));
        kvt_trace_done(wide, &a);
        kvt_trace_done(narrow, &b);
    }
    kvt_trace_close(wide);
    kvt_trace_close(narrow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_layer_is_decoded_once),
        cmocka_unit_test(a_small_cache_still_answers),
    };
    folder_new();
    int failed = cmocka_run_group_tests_name("what a reader keeps", tests, NULL, NULL);
    folder_end();
    return failed;
}
