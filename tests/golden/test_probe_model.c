/* test_probe_model.c - the first real model: its own answer as a probe gives the rows that the
 * capture recorded, and a draft on a full cache is that answer. */
#include "kvt/arena.h"
#include "kvt/live.h"
#include "tests/check.h"
#include "tests/folder.h"
#include "tests/model_path.h"

#include <math.h>

enum { ROWS = 8 };

static const char prompt[] =
    "The keeper of the lighthouse wrote down every ship that passed: four on the first of "
    "March, "
    "eleven on the second, none on the third. How many ships passed on the second of March?";

static const float *read_probe(kvt_trace *t, const char *name, kvt_probe_set set, int layer)
{
    kvt_err err;
    kvt_view v;
    CHECK_OK(kvt_trace_read_probe(t, kvt_trace_probe_find(t, name), set, layer, &v, &err),
             &err);
    return v.data;
}

static void test_own_answer(void **state)
{
    kvt_err err;
    kvt_capture_spec s;
    kvt_capture_counts counts;
    kvt_trace *t;
    kvt_probes *p;
    const char *what[] = {"own=suffix:response,tokens=8", "all=draft:tokens=8@100%"};
    kvt_model *m = *state;
    kvt_capture_defaults(&s);
    s.prompt = prompt;
    s.max_new = 12;
    s.out = folder_path("real.h5");
    CHECK_OK(kvt_probes_open(&p, m, what, 2, NULL, &err), &err);
    s.probes = kvt_probes_capture;
    s.probes_user = p;
    CHECK_OK(kvt_capture(m, &s, &counts, NULL, &err), &err);
    kvt_probes_close(p);
    CHECK_OK(kvt_trace_open(&t, counts.path, 0, &err), &err);
    const kvt_trace_info *info = kvt_trace_info_of(t);
    const kvt_geometry *g = &info->facts.model;
    int64_t N = info->facts.token.n_prompt, T = info->n_token, n_wide = ROWS * g->head_dim;
    kvt_view id, lse, q;
    CHECK_OK(kvt_trace_read(t, KVT_DS_TOKEN_ID, 0, &id, &err), &err);
    const void *ids = read_probe(t, "all", KVT_PROBE_SET_ID, 0);
    assert_memory_equal(ids, (const int32_t *)id.data + N, ROWS * sizeof(int32_t));
    kvt_free((void *)(uintptr_t)ids);
    kvt_trace_done(t, &id);
    for (int l = 0; l < info->n_layer; l++) {
        const float *own = read_probe(t, "own", KVT_PROBE_SET_LSE, l);
        const float *rows = read_probe(t, "own", KVT_PROBE_SET_Q, l);
        CHECK_OK(kvt_trace_read(t, KVT_DS_LSE, l, &lse, &err), &err);
        CHECK_OK(kvt_trace_read(t, KVT_DS_QUERIES, l, &q, &err), &err);
        double gap = 0, size = 0;
        for (int64_t h = 0; h < g->n_head; h++) {
            const float *want = (const float *)q.data + h * q.stride[0] +
                                (info->n_query - info->facts.token.n_response) * q.stride[1];
            for (int64_t i = 0; i < n_wide; i++) {
                gap += pow((double)want[i] - (double)rows[h * n_wide + i], 2);
                size += pow((double)want[i], 2);
            }
            for (int64_t r = 0; r < ROWS; r++) /* halves of the prompt's keys and values */
                CHECK_NEAR(own[h * ROWS + r], ((const float *)lse.data)[h * T + N + r], 0.02);
        }
        assert_true(sqrt(gap / size) < 2e-3);
        kvt_trace_done(t, &lse);
        kvt_trace_done(t, &q);
        kvt_free((void *)(uintptr_t)own);
        kvt_free((void *)(uintptr_t)rows);
    }
    kvt_trace_close(t);
}

int main(void)
{
    char path[1024];
    kvt_err err;
    kvt_model *m;
    if (!model_path(path, sizeof path))
        return TEST_SKIPPED;
    if (kvt_model_open(&m, path, NULL, NULL, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(test_own_answer, m)};
    folder_new();
    int code = cmocka_run_group_tests_name("probe_model", tests, NULL, NULL);
    folder_end();
    kvt_model_close(m);
    return code;
}
