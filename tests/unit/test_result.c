/* test_result.c - results in memory and in files: rows, arrays, columns that come and go, sets
 * of results, files that are cut, edited or too large for their size. pandas and h5py read them
 * in tests/cli. */
#include "tests/check.h"
#include "tests/folder.h"

#include <hdf5.h>

#include "base/file.h"

#include <math.h>

#include "kvt/arena.h"
#include "kvt/result.h"

static kvt_err err;
static kvt_schema cells, lanes;

static void add(kvt_schema *s, kvt_column c)
{
    s->column[s->n++] = c;
}

static void make_schemas(void)
{
    add(&cells, (kvt_column)KVT_COLUMN(kvt_cell, run_id, "", "hash of the cell"));
    add(&cells, (kvt_column)KVT_COLUMN(kvt_cell, policy, "", "name"));
    add(&cells, (kvt_column)KVT_COLUMN(kvt_cell, budget_tokens, "tokens", "slots of a lane"));
    add(&cells, (kvt_column)KVT_COLUMN(kvt_cell, worst_step, "", "step that lost most"));
    add(&cells, (kvt_column){.name = "lost_mass_mean_frac",
                             .unit = "frac",
                             .help = "a metric",
                             .type = KVT_COL_REAL,
                             .offset = offsetof(kvt_cell, value[0]),
                             .width = 8});
    add(&lanes, (kvt_column)KVT_COLUMN(kvt_lane_row, run_id, "", "hash of the cell"));
    add(&lanes, (kvt_column)KVT_COLUMN(kvt_lane_row, layer, "", "layer of the model"));
    add(&lanes, (kvt_column)KVT_COLUMN(kvt_lane_row, worst_lost_frac, "frac", "largest loss"));
}

enum { L = 2, A = 3, N = 20, M = 4, T = N + M, CELLS = 2 };

static kvt_result *make(const char *trace, const char *policy, bool steps)
{
    kvt_result *r = kvt_result_new();
    snprintf(r->pass_id, sizeof r->pass_id, "%s-%s", trace, policy);
    snprintf(r->trace_path, sizeof r->trace_path, "%s.h5", trace);
    snprintf(r->trace_id, sizeof r->trace_id, "%s", trace);
    snprintf(r->trace_digest, sizeof r->trace_digest, "%032d", 5);
    snprintf(r->policy_text, sizeof r->policy_text, "%s", policy);
    snprintf(r->policy_title, sizeof r->policy_title, "a policy");
    r->is_control = policy[0] == 'f';
    r->n_layer = L;
    r->n_lane = A;
    r->n_prompt = N;
    r->n_response = M;
    r->layer_id[0] = 3;
    r->layer_id[1] = 29;
    r->n_cell = CELLS;
    r->plan_note = kvt_copy_text("acted 9 times");
    r->cell = kvt_alloc(CELLS, sizeof *r->cell);
    r->lane = kvt_alloc(CELLS * L * A, sizeof *r->lane);
    for (int c = 0; c < CELLS; c++) {
        kvt_cell *x = &r->cell[c];
        memset(x->run_id, 'x', sizeof x->run_id); /* what lies behind the NUL is not stored */
        snprintf(x->run_id, sizeof x->run_id, "run%d", c);
        snprintf(x->policy, sizeof x->policy, "%s", policy);
        x->budget_tokens = 8 * (c + 1);
        x->worst_step = c ? KVT_EMPTY_INT : 3;
        x->value[0] = c ? NAN : 0.125;
    }
    for (int i = 0; i < CELLS * L * A; i++) {
        r->lane[i].layer = r->layer_id[i / A % L];
        r->lane[i].worst_lost_frac = i / 16.0;
    }
    r->score = kvt_alloc(L * A * N, sizeof *r->score);
    r->lost = kvt_alloc(CELLS * L * A * M, sizeof *r->lost);
    for (int i = 0; i < L * A * N; i++)
        r->score[i] = (float)i / 7;
    for (int i = 0; i < CELLS * L * A * M; i++)
        r->lost[i] = (float)i / 64;
    if (steps) {
        r->evict_step = kvt_alloc(CELLS * L * A * T, sizeof *r->evict_step);
        for (int i = 0; i < CELLS * L * A * T; i++)
            r->evict_step[i] = i % (M + 2) - 1;
        return r;
    }
    r->rank = kvt_alloc(L * A * N, sizeof *r->rank);
    r->cut = kvt_alloc(CELLS * L * A, sizeof *r->cut);
    for (int i = 0; i < L * A * N; i++)
        r->rank[i] = (i * 7) % N; /* 7 and 20 have no common factor: a permutation */
    for (int i = 0; i < CELLS * L * A; i++)
        r->cut[i] = 8 * (i / (L * A) + 1);
    return r;
}

static void comes_back(void **state)
{
    bool steps = *(const bool *)*state;
    kvt_result *r = make("a", "snapkv:window=32", steps), *b;
    const char *path = folder_path("new/a-00000000/p.kvt-results.h5"); /* folders are made */
    CHECK_OK(kvt_result_write(r, &cells, &lanes, path, &err), &err);
    CHECK_OK(kvt_result_open(&b, &cells, &lanes, path, true, &err), &err);
    assert_string_equal(b->path, path);
    assert_string_equal(b->pass_id, r->pass_id);
    assert_string_equal(b->trace_digest, r->trace_digest);
    assert_string_equal(b->policy_text, r->policy_text);
    assert_string_equal(b->plan_note, "acted 9 times");
    assert_int_equal(b->n_cell, CELLS);
    assert_int_equal(b->layer_id[1], 29);
    assert_string_equal(b->cell[1].run_id, "run1");
    assert_true(b->cell[0].value[0] == 0.125);
    assert_true(isnan(b->cell[1].value[0]));
    assert_true(isnan(b->cell[0].value[1])); /* no column has it */
    assert_int_equal(b->cell[0].worst_step, 3);
    assert_int_equal(b->cell[1].worst_step, KVT_EMPTY_INT);
    assert_int_equal(b->lane[CELLS * L * A - 1].layer, 29);
    assert_memory_equal(b->score, r->score, L * A * N * sizeof(float));
    assert_memory_equal(b->lost, r->lost, CELLS * L * A * M * sizeof(float));
    assert_null(b->pinned);
    for (int c = 0; c < CELLS; c++)
        for (int l = 0; l < L; l++)
            for (int a = 0; a < A; a++)
                for (int t = 0; t < T; t++) {
                    int at = (c * L + l) * A + a, want;
                    if (steps)
                        want = (at * T + t) % (M + 2) - 1;
                    else /* the best 8 or 16 of the prompt; the response stays */
                        want = t >= N || (((l * A + a) * N + t) * 7) % N < 8 * (c + 1) ? -1 : 0;
                    assert_int_equal(kvt_result_evict_step(b, c, l, a, t), want);
                }
    kvt_result_free(b);
    CHECK_OK(kvt_result_open(&b, &cells, &lanes, path, false, &err), &err);
    assert_null(b->score);
    assert_int_equal(b->n_cell, CELLS);
    kvt_result_free(b);
    kvt_result_free(r);
}

/* A file of fewer and of other columns: absent ones are undefined, unknown ones are passed
 * over. */
static void columns_are_matched_by_name(void **state)
{
    (void)state;
    kvt_result *r = make("a", "h2o", false), *b;
    const char *path = folder_path("c.kvt-results.h5");
    kvt_schema other = {0};
    add(&other, cells.column[4]);
    add(&other, cells.column[0]);
    add(&other,
        (kvt_column)KVT_COLUMN(kvt_cell, kept_bytes, "bytes", "not known to the reader"));
    CHECK_OK(kvt_result_write(r, &other, &lanes, path, &err), &err);
    CHECK_OK(kvt_result_open(&b, &cells, &lanes, path, true, &err), &err);
    assert_string_equal(b->cell[0].run_id, "run0");
    assert_true(b->cell[0].value[0] == 0.125);
    assert_string_equal(b->cell[0].policy, "");
    assert_true(isnan(b->cell[0].budget_tokens));
    assert_int_equal(b->cell[0].worst_step, KVT_EMPTY_INT);
    kvt_result_free(b);
    kvt_result_free(r);
}

static void same_result_same_digest(void **state)
{
    (void)state;
    kvt_result *r = make("a", "h2o", false);
    buf one, two;
    buf_init(&one, 1 << 24);
    buf_init(&two, 1 << 24);
    const char *path = folder_path("s.kvt-results.h5");
    CHECK_OK(kvt_result_write(r, &cells, &lanes, path, &err), &err);
    CHECK_OK(file_read(&one, path, 1 << 24, &err), &err);
    memset(r->cell[0].policy + 8, 'z', 20); /* behind the NUL */
    CHECK_OK(kvt_result_write(r, &cells, &lanes, path, &err), &err);
    CHECK_OK(file_read(&two, path, 1 << 24, &err), &err);
    assert_int_equal(one.n, two.n);
    assert_memory_equal(one.data, two.data, one.n);
    buf_fini(&one);
    buf_fini(&two);
    kvt_result_free(r);
}

static void sets_are_sorted(void **state)
{
    (void)state;
    static const char *const name[][2] = {
        {"b", "h2o"}, {"a", "snapkv"}, {"b", "full"}, {"a", "h2o"}};
    kvt_results *s;
    for (int i = 0; i < 4; i++) {
        char path[1024];
        kvt_result *r = make(name[i][0], name[i][1], false);
        snprintf(path, sizeof path, "%s/%s/%d.kvt-results.h5", folder_path("set"), name[i][0],
                 i);
        CHECK_OK(kvt_result_write(r, &cells, &lanes, path, &err), &err);
        kvt_result_free(r);
    }
    FILE *f = fopen(folder_path("set/notes.txt"), "w"); /* what is no result is passed over */
    fputs("x", f);
    fclose(f);
    CHECK_OK(kvt_results_load(&s, &cells, &lanes, folder_path("set"), false, &err), &err);
    assert_int_equal(s->n, 4);
    for (int i = 0; i < 4; i++) {
        static const int want[] = {3, 1, 2, 0};
        assert_string_equal(s->result[i]->trace_id, name[want[i]][0]);
        assert_string_equal(s->result[i]->policy_text, name[want[i]][1]);
    }
    kvt_results_free(s);
    CHECK_OK(
        kvt_results_load(&s, &cells, &lanes, folder_path("set/b/0.kvt-results.h5"), true, &err),
        &err);
    assert_int_equal(s->n, 1);
    kvt_results_free(s);
    CHECK_FAILS(kvt_results_load(&s, &cells, &lanes, folder_path("none"), true, &err),
                KVT_NOTFOUND, "none", &err);
    assert_true(kvt_is_result_path("x/a.kvt-results.h5"));
    assert_false(kvt_is_result_path("x/a.h5"));
    assert_false(kvt_is_result_path(".kvt-results.h5"));
}

/* ---- bad files -----------------------------------------------------------------------------
 */

static void cut_and_edited_files_are_refused(void **state)
{
    (void)state;
    kvt_result *r = make("a", "h2o", true), *b;
    const char *path = folder_path("bad.kvt-results.h5");
    buf good;
    CHECK_OK(kvt_result_write(r, &cells, &lanes, path, &err), &err);
    buf_init(&good, 1 << 24);
    CHECK_OK(file_read(&good, path, 1 << 24, &err), &err);
    for (size_t n = 0; n < good.n; n += 211) {
        CHECK_OK(file_write(path, good.data, n, &err), &err);
        CHECK_FAILS(kvt_result_open(&b, &cells, &lanes, path, true, &err), KVT_FORMAT,
                    "bad.kvt", &err);
    }
    int n_same = 0, n_other = 0;
    for (size_t i = 0; i < good.n; i += 149) {
        good.data[i] ^= 0x20;
        CHECK_OK(file_write(path, good.data, good.n, &err), &err);
        good.data[i] ^= 0x20;
        kvt_code code = kvt_result_open(&b, &cells, &lanes, path, true, &err);
        n_other += code != KVT_OK;
        if (code && code != KVT_FORMAT && code != KVT_NOMEM)
            fail_msg("byte %zu: %s: %s", i, kvt_code_name(code), err.text);
        if (code)
            continue;
        n_same++; /* then it is the same result */
        assert_memory_equal(b->evict_step, r->evict_step, CELLS * L * A * T * sizeof(int32_t));
        assert_memory_equal(b->score, r->score, L * A * N * sizeof(float));
        assert_true(b->cell[0].value[0] == 0.125 && b->lane[5].worst_lost_frac == 5 / 16.0);
        kvt_result_free(b);
    }
    print_message("%d edits refused, %d without effect\n", n_other, n_same);
    assert_true(n_other > 30);
    buf_fini(&good);
    kvt_result_free(r);
}

static void steps_are_checked(void **state)
{
    (void)state;
    kvt_result *r = make("a", "h2o", true);
    const char *path = folder_path("steps.kvt-results.h5");
    r->evict_step[5] = M + 1;
    CHECK_FAILS(kvt_result_write(r, &cells, &lanes, path, &err), KVT_FORMAT,
                "keep/evict_step: expected -1 to 4, got 5", &err);
    assert_int_equal(access(path, F_OK), -1);
    kvt_result_free(r);
}

static void other_files_are_told(void **state)
{
    (void)state;
    kvt_result *b;
    const char *path = folder_path("other.kvt-results.h5");
    CHECK_FAILS(kvt_result_open(&b, &cells, &lanes, path, true, &err), KVT_NOTFOUND, "other",
                &err);
    hid_t f = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    H5Fclose(f);
    CHECK_FAILS(kvt_result_open(&b, &cells, &lanes, path, true, &err), KVT_FORMAT,
                "is no result file", &err);
    kvt_result *r = make("a", "h2o", true);
    CHECK_OK(kvt_result_write(r, &cells, &lanes, path, &err), &err);
    f = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    hid_t a = H5Aopen(f, "version", H5P_DEFAULT);
    H5Awrite(a, H5T_NATIVE_INT32, (int32_t[]){3, 1});
    H5Aclose(a);
    H5Fclose(f);
    CHECK_FAILS(kvt_result_open(&b, &cells, &lanes, path, true, &err), KVT_FORMAT,
                "has format 3.1, this program reads up to 1.x", &err);
    kvt_result_free(r);
}

int main(void)
{
    static const bool yes = true, no = false;
    const struct CMUnitTest t[] = {
        cmocka_unit_test_prestate(comes_back, (void *)(uintptr_t)&no),
        cmocka_unit_test_prestate(comes_back, (void *)(uintptr_t)&yes),
        cmocka_unit_test(columns_are_matched_by_name),
        cmocka_unit_test(same_result_same_digest),
        cmocka_unit_test(sets_are_sorted),
        cmocka_unit_test(cut_and_edited_files_are_refused),
        cmocka_unit_test(steps_are_checked),
        cmocka_unit_test(other_files_are_told),
    };
    H5dont_atexit(); /* see traces/io.c: damaged files */
    make_schemas();
    folder_new();
    int failed = cmocka_run_group_tests_name("result", t, NULL, NULL);
    folder_end();
    return failed;
}
