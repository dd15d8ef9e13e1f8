/* test_engine_again - every=K of a policy of the prompt only: every decision against plain
 * loops over the trace's rows and keys; what cannot decide anew. */
#include "tests/check.h"
#include "tests/runs.h"

#include <math.h>
#include <stdio.h>

#include "base/half.h"
#include "kvt/arena.h"
#include "kvt/pieces.h"

static const char *const plugin = STAGE_PLUGIN;

enum { L = 2, H = 4, G = 2, D = 8, N = 30, M = 20, T = N + M };

static synth_spec shape(void)
{
    synth_spec s = synth_default();
    s.n_layer = L, s.n_head = H, s.n_kv_head = G, s.head_dim = D;
    s.n_prompt = N, s.n_response = M, s.seed = 11, s.sharpness = 2, s.last_queries = 12;
    return s;
}

/* ---- the same by plain loops ---------------------------------------------------------------
 */

/* What the trace holds, as doubles: rows by position of their query. */
static double row[L][H][T][T], key[L][G][T][D];

static void read_trace(const char *path)
{
    kvt_trace *t;
    kvt_rows *rows;
    kvt_err err;
    CHECK_OK(kvt_trace_open(&t, path, 0, &err), &err);
    CHECK_OK(kvt_rows_open(&rows, t, &err), &err);
    int64_t first = T - kvt_trace_info_of(t)->n_query; /* the last ones are stored */
    memset(row, 0, sizeof row);
    for (int l = 0; l < L; l++) {
        for (int h = 0; h < H; h++) {
            const uint16_t *half;
            CHECK_OK(kvt_rows_head(rows, l, h, &half, &err), &err);
            for (int64_t q = first; q < T; q++)
                for (int64_t j = 0; j <= q; j++)
                    row[l][h][q][j] = (double)half_to_float(half[(q - first) * T + j]);
        }
        kvt_view k;
        CHECK_OK(kvt_trace_read(t, KVT_DS_KEYS, l, &k, &err), &err);
        for (int g = 0; g < G; g++)
            for (int64_t j = 0; j < T; j++)
                for (int64_t d = 0; d < D; d++)
                    key[l][g][j][d] =
                        (double)((const float *)k.data)[g * k.stride[0] + j * k.stride[1] + d];
        kvt_trace_done(t, &k);
    }
    kvt_rows_close(rows);
    kvt_trace_close(t);
}

/* Attention that the last `window` queries give token j among those that are held. */
static double window_score(int l, int g, int64_t window, int64_t n, const bool *held, int64_t j)
{
    double sum = 0;
    for (int h = g * H / G; h < (g + 1) * H / G; h++)
        for (int64_t q = n - window; q < n; q++) {
            double all = 0;
            for (int64_t i = 0; i < n; i++)
                all += held[i] ? row[l][h][q][i] : 0;
            bool whole = true;
            for (int64_t i = 0; i < n; i++)
                whole &= held[i];
            sum += whole ? row[l][h][q][j] : all > 0 ? row[l][h][q][j] / all : 0;
        }
    return sum;
}

static double key_score(int l, int g, int64_t j)
{
    double sum = 0;
    for (int d = 0; d < D; d++)
        sum -= key[l][g][j][d] * key[l][g][j][d];
    return sum;
}

/* windows {0}: by keys, else by the sum over both windows. gone [T]: the step at which a token
 * leaves, -1: never. */
static int64_t plain(int64_t gone[T], int l, int g, const int64_t windows[2], int64_t budget,
                     int64_t every)
{
    bool held[T] = {false};
    int64_t acted = 0;
    for (int64_t j = 0; j < T; j++)
        gone[j] = -1;
    for (int64_t n = N; n <= T; n++) {
        int64_t count = 0;
        double score[T];
        for (int64_t j = 0; j < n; j++)
            held[j] = gone[j] < 0;
        for (int64_t j = 0; j < n; j++) {
            score[j] = windows[0] ? 0 : key_score(l, g, j);
            for (int w = 0; w < 2; w++)
                if (windows[w])
                    score[j] += window_score(l, g, windows[w], n, held, j);
            count += held[j];
        }
        if ((n - N) % every != 0)
            continue;
        acted += count > budget;
        for (; count > budget; count--) {
            int64_t worst = -1; /* of equal ones the latest goes */
            for (int64_t j = 0; j < n; j++)
                if (gone[j] < 0 && (worst < 0 || score[j] <= score[worst]))
                    worst = j;
            gone[worst] = n - N;
        }
    }
    return acted;
}

/* ---- decisions -----------------------------------------------------------------------------
 */

static const struct decided {
    const char *policy;
    int64_t windows[2], every;
} decisions[] = {
    {"test-window:window=4,every=1", {4}, 1},
    {"test-window:window=4,every=3", {4}, 3},
    {"test-window:window=1,every=4", {1}, 4},
    {"test-window:window=12,every=5", {12}, 5}, /* all prompt queries that are stored */
    {"test-window:window=4,every=500", {4}, 500},
    {"test-keys:every=1", {0}, 1},
    {"test-keys:every=7", {0}, 7},
    {"test-keys/even:every=20", {0}, 20}, /* once more, with the last token */
    {"test-both:window=3,base.window=6,every=3", {3, 6}, 3},
    {"test-both:window=6,base.window=3,every=1", {6, 3}, 1},
};

static void decides_as_plain_loops_do(void **state)
{
    const struct decided *d = *state;
    synth_spec s = shape();
    const char *path = runs_trace("again", &s);
    static const int64_t budgets[] = {6, 13, 33};
    kvt_results *found = runs_plugin(plugin, path, d->policy, "6,13,33", KVT_ACT_OWN);
    const kvt_result *r = found->result[0];
    read_trace(path);
    for (int c = 0; c < 3; c++) {
        int64_t acted = 0;
        assert_string_equal(r->cell[c].status, "ok");
        assert_string_equal(r->cell[c].exactness, "open-loop");
        for (int l = 0; l < L; l++)
            for (int g = 0; g < G; g++) {
                int64_t gone[T];
                int64_t n = plain(gone, l, g, d->windows, budgets[c], d->every);
                acted = kvt_max(acted, n); /* of the lane that acted most */
                for (int64_t j = 0; j < T; j++) {
                    int32_t got = kvt_result_evict_step(r, c, l, g, j);
                    if (got != gone[j])
                        fail_msg("%s at %d, layer %d, lane %d: token %d leaves at %d, not %d",
                                 d->policy, (int)budgets[c], l, g, (int)j, (int)got,
                                 (int)gone[j]);
                }
                int64_t most = budgets[c] + kvt_min(d->every, M);
                assert_true(r->lane[(c * L + l) * G + g].kept_max_tokens <=
                            kvt_max(most, budgets[c] < N ? 0 : T));
            }
        assert_int_equal(r->cell[c].acted_count, acted);
    }
    kvt_results_free(found);
}

/* Other passes of the run still get one row at a time. */
static void wide_rows_leave_other_passes_alone(void **state)
{
    (void)state;
    synth_spec s = shape();
    s.last_queries = -1;
    const char *path = runs_trace("beside", &s);
    kvt_results *alone = runs_plugin(plugin, path, "h2o", "8", KVT_ACT_OWN);
    kvt_results *beside =
        runs_plugin(plugin, path, "snapkv:window=4,every=2,h2o", "8", KVT_ACT_OWN);
    const kvt_result *a = alone->result[0], *b = runs_result(beside, "h2o");
    for (int i = 0; i < L * G; i++)
        for (int64_t j = 0; j < T; j++)
            assert_int_equal(kvt_result_evict_step(a, 0, i / G, i % G, j),
                             kvt_result_evict_step(b, 0, i / G, i % G, j));
    CHECK_NEAR(runs_value(&a->cell[0], "lost_mass_mean_frac"),
               runs_value(runs_cell(beside, "h2o", "8"), "lost_mass_mean_frac"), 0);
    kvt_results_free(alone);
    kvt_results_free(beside);
}

/* On the prompt only (--act prefill) it is what it always was, and so is the first decision. */
static void the_first_decision_is_the_prompts(void **state)
{
    (void)state;
    synth_spec s = shape();
    const char *path = runs_trace("first", &s);
    kvt_results *plain_ = runs_plugin(plugin, path, "snapkv:window=4", "8", KVT_ACT_OWN);
    kvt_results *prefill =
        runs_plugin(plugin, path, "snapkv:window=4,every=3", "8", KVT_ACT_PREFILL);
    kvt_results *anew = runs_plugin(plugin, path, "snapkv:window=4,every=3", "8", KVT_ACT_OWN);
    for (int i = 0; i < L * G; i++)
        for (int64_t j = 0; j < N; j++) {
            int32_t want = kvt_result_evict_step(plain_->result[0], 0, i / G, i % G, j);
            int32_t later = kvt_result_evict_step(anew->result[0], 0, i / G, i % G, j);
            assert_int_equal(kvt_result_evict_step(prefill->result[0], 0, i / G, i % G, j),
                             want);
            assert_true(want == 0 ? later == 0 : later != 0);
        }
    assert_string_equal(plain_->result[0]->cell[0].exactness, "exact");
    assert_string_equal(prefill->result[0]->cell[0].exactness, "exact");
    kvt_results_free(plain_);
    kvt_results_free(prefill);
    kvt_results_free(anew);
}

/* A window that is as long as what is left says nothing of it (C005). */
static void short_lanes_keep_the_latest(void **state)
{
    (void)state;
    synth_spec s = shape();
    s.last_queries = -1;
    const char *path = runs_trace("short", &s);
    kvt_results *r = runs_plugin(plugin, path, "snapkv:window=64,every=2", "8", KVT_ACT_OWN);
    assert_string_equal(r->result[0]->cell[0].status, "ok");
    for (int64_t j = 0; j < T; j++)
        assert_int_equal(kvt_result_evict_step(r->result[0], 0, 0, 0, j) < 0, j >= T - 8);
    kvt_results_free(r);
}

static void too_few_queries_are_said(void **state)
{
    (void)state;
    synth_spec s = shape();
    s.last_queries = 3;
    const char *path = runs_trace("few", &s);
    kvt_results *r =
        runs_plugin(plugin, path, "test-window:window=4,every=2", "8", KVT_ACT_OWN);
    const kvt_cell *c = &r->result[0]->cell[0];
    assert_string_equal(c->status, "skipped");
    assert_non_null(strstr(c->error, "needs the last 4 prompt rows, the trace holds 3"));
    kvt_results_free(r);
}

/* Wherever memory ends the run fails and gives everything back; a cell may fail for itself
 * where it is scored. */
static void memory_may_end_anywhere(void **state)
{
    (void)state;
    synth_spec s = shape();
    const char *path = runs_trace("memory", &s);
    kvt_replay_spec spec = runs_spec(&path,
                                     "test-both:window=3,base.window=6,every=4,"
                                     "test-echo:base=h2o,snapkv/oracle-budget:window=4",
                                     "8");
    spec.plugin = &plugin, spec.n_plugin = 1;
    spec.fail_fast = true;
    kvt_ctx ctx = {.n_thread = 1};
    kvt_code code = KVT_NOMEM;
    int n_failed = 0;
    for (int64_t n = 1; code != KVT_OK; n += 7, n_failed++) {
        kvt_results *found = NULL;
        kvt_err err;
        kvt_alloc_fail_at(n, false);
        code = kvt_replay(&found, NULL, &spec, &ctx, &err);
        kvt_alloc_fail_at(0, false);
        if (code && code != KVT_NOMEM && !strstr(err.text, "memory") &&
            !strstr(err.text, "score of token"))
            fail_msg("allocation %lld: %s", (long long)n, err.text);
        kvt_results_free(found);
    }
    assert_true(n_failed > 10);
}

/* ---- the text form -------------------------------------------------------------------------
 */

static const struct text {
    const char *in, *want;
    kvt_code code;
} texts[] = {
    {"snapkv:every=8", "snapkv:compat=paper", KVT_OK},
    {"snapkv:every=0", "snapkv:compat=paper", KVT_OK},
    {"h2o:every=8", "h2o:compat=paper", KVT_OK}, /* as ever */
    {"snapkv:every=-1", "every: -1 is not a whole number from 0", KVT_USAGE},
    {"full:every=8", "it scores nothing", KVT_USAGE},
    {"position:every=8", "it reads what other traces looked at", KVT_USAGE},
    {"scores:every=8", "it reads scores of the prompt that another program", KVT_USAGE},
    {"kvzip:every=8", "it reads a probe that ran on the prompt", KVT_USAGE},
    {"test-select:every=8", "it scores nothing", KVT_USAGE},
    {"test-together:every=8", "it selects over lanes that hold the same slots", KVT_USAGE},
};

static void is_read(void **state)
{
    const struct text *r = *state;
    kvt_registry *registry;
    kvt_use *u;
    kvt_err err;
    CHECK_OK(kvt_registry_new(&registry, &err), &err);
    CHECK_OK(kvt_registry_plugin(registry, plugin, &err), &err);
    kvt_code code = kvt_use_parse(&u, registry, r->in, &err);
    assert_int_equal(code, r->code);
    const char *got = code ? err.text : u->text;
    if (!strstr(got, r->want))
        fail_msg("'%s': expected '%s' in '%s'", r->in, r->want, got);
    if (!code)
        kvt_use_free(u);
    kvt_registry_free(registry);
}

int main(void)
{
    enum {
        N_DECIDED = sizeof decisions / sizeof *decisions,
        N_TEXT = sizeof texts / sizeof *texts
    };
    struct CMUnitTest tests[N_DECIDED + N_TEXT + 5] = {
        cmocka_unit_test(wide_rows_leave_other_passes_alone),
        cmocka_unit_test(the_first_decision_is_the_prompts),
        cmocka_unit_test(short_lanes_keep_the_latest),
        cmocka_unit_test(too_few_queries_are_said), cmocka_unit_test(memory_may_end_anywhere)};
    for (int i = 0; i < N_DECIDED; i++)
        tests[5 + i] = (struct CMUnitTest){.name = decisions[i].policy,
                                           .test_func = decides_as_plain_loops_do,
                                           .initial_state = (void *)(uintptr_t)&decisions[i]};
    for (int i = 0; i < N_TEXT; i++)
        tests[5 + N_DECIDED + i] =
            (struct CMUnitTest){.name = texts[i].in,
                                .test_func = is_read,
                                .initial_state = (void *)(uintptr_t)&texts[i]};
    return cmocka_run_group_tests_name("engine_again", tests, runs_open, runs_close);
}
