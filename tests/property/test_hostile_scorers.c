/* test_hostile_scorers.c - scorers of every kind whose numbers make no sense: all 0, all below
 * 0, so large that sums overflow, so small that they vanish, one of them a giant. What reads
 * them is done, or skipped or failed with one line; no number that is none comes out, and
 * threads change nothing. */
#include "tests/check.h"
#include "tests/property/hard_traces.h"
#include "tests/runs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kvt/arena.h"

enum { TENSORS = 32 };

typedef struct hostile {
    const char *name;
    float (*number)(float x, int64_t i);
} hostile;

static float zero(float x, int64_t i)
{
    (void)x, (void)i;
    return 0;
}

static float below(float x, int64_t i)
{
    (void)i;
    return -fabsf(x) - 1;
}

static float large(float x, int64_t i)
{
    (void)i;
    return x < 0 ? -3e38F : 3e38F;
}

static float small(float x, int64_t i)
{
    (void)i;
    return x < 0 ? -1e-45F : 1e-45F;
}

static float giant(float x, int64_t i)
{
    return i == 0 ? 3e38F : x;
}

static float same(float x, int64_t i)
{
    (void)x, (void)i;
    return 0.5F;
}

static const hostile kinds[] = {{"all 0", zero},      {"below 0", below}, {"too large", large},
                                {"too small", small}, {"a giant", giant}, {"the same", same}};

static hard_files files;

/* The file again with other numbers in its tensors; those that are one number (sinks, window)
 * stay, or nothing would be left to run. */
static void rewrite(const char *from, const char *to, const hostile *h)
{
    kvt_scorer *s;
    kvt_err err;
    kvt_scorer_tensor tensor[TENSORS];
    CHECK_OK(kvt_scorer_open(&s, from, &err), &err);
    int n = kvt_scorer_count(s);
    assert_true(n <= TENSORS);
    for (int i = 0; i < n; i++) {
        tensor[i] = *kvt_scorer_at(s, i);
        kvt_view *v = &tensor[i].view;
        int64_t count = 1;
        for (int k = 0; k < v->rank; k++)
            count *= v->dim[k];
        float *x = kvt_alloc(count, sizeof *x);
        assert_non_null(x);
        for (int64_t j = 0; j < count; j++) {
            float was = ((const float *)v->data)[j];
            x[j] = v->rank > 0 ? h->number(was, j) : was;
        }
        v->data = x;
    }
    CHECK_OK(kvt_scorer_write(to, kvt_scorer_info_of(s), tensor, n, true, &err), &err);
    for (int i = 0; i < n; i++)
        kvt_free((void *)(uintptr_t)tensor[i].view.data);
    kvt_scorer_close(s);
}

static kvt_results *with(const kvt_replay_spec *spec, int n_thread)
{
    kvt_ctx ctx = {.n_thread = n_thread};
    kvt_err err;
    kvt_results *found;
    kvt_code code = kvt_replay(&found, NULL, spec, &ctx, &err);
    if (code != KVT_OK && code != KVT_NO && code != KVT_PARTLY)
        fail_msg("%s: %s", kvt_code_name(code), err.text);
    return found;
}

static void check_cell(const kvt_cell *c)
{
    if (strcmp(c->status, "ok") != 0) {
        if (!c->error[0] || strchr(c->error, '\n'))
            fail_msg("%s: %s '%s'", c->policy, c->status, c->error);
        return;
    }
    double lost = runs_value(c, "lost_mass_mean_frac");
    if (!(c->kept_tokens_min >= 1 && lost >= 0 && lost <= 1))
        fail_msg("%s at %s: kept %lld, lost %g", c->policy, c->budget_asked,
                 (long long)c->kept_tokens_min, lost);
}

static void nothing_breaks(void **state)
{
    const hostile *h = *state;
    static char path[HARD_SCORERS_MAX][400];
    const char *scorer[HARD_SCORERS_MAX];
    for (int i = 0; i < files.n_scorer; i++) {
        snprintf(path[i], sizeof path[i], "%s/%d.h5", runs_dir, i);
        rewrite(files.scorer[i], path[i], h);
        scorer[i] = path[i];
    }
    char policies[4096] = "keydiff/table";
    for (const kvt_policy *const *p = kvt_policies(); *p; p++) {
        size_t n = strlen(policies);
        if ((*p)->weights)
            snprintf(policies + n, sizeof policies - n, ",%s%s", (*p)->name,
                     (*p)->traits.by_threshold ? ":threshold=0" : "");
    }
    const char *trace = files.trace;
    kvt_replay_spec spec = {.trace = &trace,
                            .n_trace = 1,
                            .policies = policies,
                            .budgets = "2,8,16",
                            .weights = scorer,
                            .n_weights = files.n_scorer,
                            .no_controls = true,
                            .out_dir = ""};
    kvt_results *one = with(&spec, 1), *four = with(&spec, 4);
    assert_true(one->n > 10);
    for (int64_t i = 0; i < one->n; i++)
        for (int c = 0; c < one->result[i]->n_cell; c++)
            check_cell(&one->result[i]->cell[c]);
    char *a = runs_text(one), *b = runs_text(four);
    runs_same_text(a, b, "1 and 4 threads");
    assert_null(strstr(a, "=nan|"));
    free(a);
    free(b);
    kvt_results_free(one);
    kvt_results_free(four);
}

static int set_up(void **state)
{
    static hard_trace trace[HARD_TRACES_MAX];
    int n = hard_traces(trace);
    if (runs_open(state))
        return -1;
    for (int i = 0; i < n; i++)
        if (strcmp(trace[i].name, "one-kv-head") == 0)
            hard_files_make(&files, &trace[i]);
    return files.n_scorer > 0 ? 0 : -1;
}

int main(void)
{
    struct CMUnitTest tests[CHECK_COUNT(kinds)];
    int n = 0;
    CHECK_ROWS(tests, &n, kinds, nothing_breaks);
    return _cmocka_run_group_tests("hostile scorers", tests, (size_t)n, set_up, runs_close);
}
