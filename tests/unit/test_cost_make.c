/* test_cost_make - the table of costs: lengths as people type them, which rows there are and in
 * which order, what is skipped and why, and that the parts of every total sum to it. */
#include "tests/check.h"
#include "tests/runs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kvt/arena.h"
#include "kvt/cost.h"

/* ---- lengths -------------------------------------------------------------------------------
 */

static const struct length_row {
    const char *in, *want; /* lengths, or a part of the message */
    kvt_code code;
} lengths[] = {
    {"4096", "4096", KVT_OK},
    {"4Ki,8192,1K", "1000 4096 8192", KVT_OK},
    {"1.5Ki", "1536", KVT_OK},
    {"1M,1Mi", "1000000 1048576", KVT_OK},
    {"4Ki..32Kix2", "4096 8192 16384 32768", KVT_OK},
    {"4Ki..32Ki", "4096 8192 16384 32768", KVT_OK},
    {"8Ki,4Ki..8Ki", "4096 8192", KVT_OK}, /* each once, rising */
    {"100..250x1.5", "100 150 225", KVT_OK},
    {"1..4x1.1", "1 2 3 4", KVT_OK}, /* a factor near 1 still moves on */
    {"1Gi", "1073741824", KVT_OK},
    {"0", "from 1 to", KVT_USAGE},
    {"4Kb", "'4Kb'", KVT_USAGE},
    {"4KiB", "whole number of tokens", KVT_USAGE},
    {"4ki", "whole number of tokens", KVT_USAGE},
    {"1.0001Ki", "whole number of tokens", KVT_USAGE},
    {"-3", "whole number of tokens", KVT_USAGE},
    {"2Gi", "from 1 to", KVT_USAGE},
    {"1e3", "whole number of tokens", KVT_USAGE},
    {"Ki", "whole number of tokens", KVT_USAGE},
    {"", "at least one", KVT_USAGE},
    {"4Ki,,8Ki", "whole number of tokens", KVT_USAGE},
    {"8Ki..4Ki", "smaller one first", KVT_USAGE},
    {"4Ki..8Kix1", "factor above 1", KVT_USAGE},
    {"4Ki..8Kix", "factor above 1", KVT_USAGE},
    {"1..20x1.01", "more than 16", KVT_USAGE},
};

static void is_read(void **state)
{
    const struct length_row *r = *state;
    int64_t length[16];
    char got[256] = "";
    kvt_err err;
    int n;
    kvt_code code = kvt_lengths_parse(length, 16, &n, r->in, &err);
    if (code != r->code)
        fail_msg("'%s': expected %s, got %s (%s)", r->in, kvt_code_name(r->code),
                 kvt_code_name(code), code ? err.text : "");
    for (int i = 0; !code && i < n; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%lld", i ? " " : "",
                 (long long)length[i]);
    if (!code)
        assert_string_equal(got, r->want);
    else if (!strstr(err.text, r->want))
        fail_msg("'%s': expected '%s' in '%s'", r->in, r->want, err.text);
}

/* ---- columns -------------------------------------------------------------------------------
 */

static void columns_have_names_of_their_own(void **state)
{
    const kvt_column *c = kvt_cost_columns();
    int n = kvt_table_columns(c);
    (void)state;
    assert_true(n > 60 && n <= KVT_COLUMNS_MAX);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++)
            if (strcmp(c[i].name, c[k].name) == 0)
                fail_msg("two columns '%s'", c[i].name);
}

/* Columns of a total and how its parts are called. */
static const struct sum_row {
    const char *name, *total, *prefix, *suffix;
    int n_part;
} sums[] = {
    {"prefill", "prefill_s", "prefill_", "_s", 6},
    {"eviction", "evict_s", "evict_", "_s", 7},
    {"decode step", "tpot_mean_s", "tpot_", "_s", 7},
    {"peak", "peak_bytes", "peak_", "_bytes", 10},
    {"steady", "steady_bytes", "steady_", "_bytes", 10},
};

static double value(const kvt_cost_row *r, const char *column)
{
    const kvt_column *c = kvt_column_find(kvt_cost_columns(), column);
    if (!c || c->type != KVT_COL_REAL)
        fail_msg("no number '%s'", column);
    return *(const double *)(const void *)((const char *)r + c->offset);
}

static bool is_part(const char *name, const struct sum_row *s)
{
    static const char *const others[] = {"tpot_first_s", "tpot_mean_s", "tpot_last_s"};
    size_t n = strlen(name), head = strlen(s->prefix), tail = strlen(s->suffix);
    for (int i = 0; i < CHECK_COUNT(others); i++)
        if (strcmp(name, others[i]) == 0)
            return false;
    return strcmp(name, s->total) != 0 && n > head + tail &&
           strncmp(name, s->prefix, head) == 0 && strcmp(name + n - tail, s->suffix) == 0;
}

static void check_sums(const kvt_cost_row *r)
{
    for (int i = 0; i < CHECK_COUNT(sums); i++) {
        double sum = 0, total = value(r, sums[i].total);
        int n = 0;
        for (const kvt_column *c = kvt_cost_columns(); c->name; c++)
            if (is_part(c->name, &sums[i]))
                sum += value(r, c->name), n++;
        assert_int_equal(n, sums[i].n_part);
        if (!(fabs(sum - total) <= 1e-9 * fabs(total)))
            fail_msg("%s %s %s: parts of the %s sum to %.17g, total %.17g", r->policy,
                     r->machine, r->profile, sums[i].name, sum, total);
    }
}

/* ---- tables --------------------------------------------------------------------------------
 */

static const kvt_cost_profile both[] = {KVT_PROFILE_FUSED, KVT_PROFILE_AS_PUBLISHED};
static kvt_machine machine[2];
static kvt_cost_geometry llama, smol;

/* 2 lengths, 2 batches, 2 machines, 2 profiles. */
static kvt_cost_spec spec_of(const char *policies, const char *budgets)
{
    static const int64_t length[] = {1280, 8192}, batch[] = {1, 4};
    kvt_err err;
    CHECK_OK(kvt_machine_find(&machine[0], "h100", &err), &err);
    CHECK_OK(kvt_machine_find(&machine[1], "rtx-4090", &err), &err);
    CHECK_OK(kvt_cost_geometry_find(&llama, "llama-3.1-8b", &err), &err);
    CHECK_OK(kvt_cost_geometry_find(&smol, "smollm2-135m", &err), &err);
    return (kvt_cost_spec){.geometry = &llama,
                           .machine = machine,
                           .n_machine = 2,
                           .profile = both,
                           .n_profile = 2,
                           .batch = batch,
                           .n_batch = 2,
                           .length = length,
                           .n_length = 2,
                           .n_response = -1,
                           .policies = policies,
                           .budgets = budgets};
}

static kvt_cost_table make(const kvt_cost_spec *spec)
{
    kvt_cost_table t;
    kvt_err err;
    CHECK_OK(kvt_cost_make(&t, spec, NULL, &err), &err);
    return t;
}

static void rows_stand_in_order(void **state)
{
    kvt_cost_spec spec = spec_of("streaming,snapkv", "256,10%");
    kvt_cost_table t = make(&spec);
    const kvt_cost_row *r = t.row;
    (void)state;
    /* length x batch x (full + 2 budgets x 2 policies) x machine x profile */
    assert_int_equal(t.n, 2 * 2 * 5 * 2 * 2);
    /* 10 % of 1280 is 128, below 256; of 8192 it is 819. */
    static const struct {
        const char *policy;
        double budget;
    } want[2][5] = {
        {{"full", 1280},
         {"streaming", 128},
         {"snapkv", 128},
         {"streaming", 256},
         {"snapkv", 256}},
        {{"full", 8192},
         {"streaming", 256},
         {"snapkv", 256},
         {"streaming", 819},
         {"snapkv", 819}},
    };
    for (int n = 0; n < 2; n++)
        for (int b = 0; b < 2; b++)
            for (int i = 0; i < 5; i++)
                for (int m = 0; m < 2; m++)
                    for (int p = 0; p < 2; p++, r++) {
                        assert_int_equal(r->prompt_tokens, n ? 8192 : 1280);
                        assert_int_equal(r->batch, b ? 4 : 1);
                        assert_string_equal(r->policy, want[n][i].policy);
                        assert_true(r->budget_tokens == want[n][i].budget);
                        assert_string_equal(r->machine, machine[m].name);
                        assert_string_equal(r->profile, p ? "as-published" : "fused");
                        assert_string_equal(r->status, "ok");
                        assert_int_equal(r->response_tokens, 256);
                        assert_string_equal(r->run_id, "");
                    }
    kvt_cost_table_free(&t);
}

static void parts_sum_to_their_totals(void **state)
{
    kvt_cost_spec spec = spec_of("lookaheadkv,snapkv,laq,speckv,h2o,kvpop,streaming", "512");
    kvt_cost_table t = make(&spec);
    (void)state;
    for (int64_t i = 0; i < t.n; i++)
        check_sums(&t.row[i]);
    kvt_cost_table_free(&t);
}

/* The theory of a paper knows times of prefill and eviction only: the rest is empty, not 0. */
static void what_is_not_known_is_empty(void **state)
{
    static const kvt_cost_profile paper[] = {KVT_PROFILE_PAPER_LKV};
    kvt_cost_spec spec = spec_of("lookaheadkv", "128");
    (void)state;
    spec.profile = paper;
    spec.n_profile = 1;
    kvt_cost_table t = make(&spec);
    for (int64_t i = 0; i < t.n; i++) {
        const kvt_cost_row *r = &t.row[i];
        assert_true(r->cost.ttft > 0 && r->cost.ttft_band.lo >= 0);
        assert_true(isnan(r->cost.peak.total) && isnan(r->cost.memory_band.hi));
        assert_true(isnan(r->cost.step_mean.total) && isnan(r->cost.step_band.lo));
        assert_true(r->peak_layer == KVT_EMPTY_INT && r->fits == KVT_EMPTY_INT);
        assert_string_equal(r->peak_phase, "");
        assert_string_equal(r->step_bottleneck, "");
    }
    kvt_cost_table_free(&t);
}

static void the_dense_cache_is_not_assumed(void **state)
{
    kvt_cost_spec spec = spec_of("snapkv", "128");
    kvt_cost_table t = make(&spec);
    (void)state;
    for (int64_t i = 0; i < t.n; i++) {
        const kvt_cost_row *r = &t.row[i];
        bool full = strcmp(r->policy, "full") == 0;
        assert_int_equal(r->assumed, !full);
        assert_int_equal(r->mapped + r->scaled, 0);
        assert_int_equal(r->is_control, full);
        assert_true(r->cost.evict.total > 0 || full);
        assert_true(r->cost.evict.total == 0 || !full);
        assert_true(r->kept_tokens_mean == (full ? (double)r->prompt_tokens : 128));
        /* 256 tokens are decoded on top; the last step sees all but itself, or itself, too. */
        assert_true(r->end_slots_mean_tokens >= r->kept_tokens_mean + 255 &&
                    r->end_slots_mean_tokens <= r->kept_tokens_mean + 256);
        assert_true(r->seed == KVT_EMPTY_INT);
    }
    kvt_cost_table_free(&t);
}

/* Rows of Quest skip slots, one set for each of the model's query heads: all of the prompt
 * stays, a row sees the budget, and the scores are paid for where the prompt ends. */
static void skipped_slots_stay(void **state)
{
    kvt_cost_spec spec = spec_of("quest,h2o-mask,oracle-step", "128");
    kvt_cost_table t = make(&spec);
    (void)state;
    for (int64_t i = 0; i < t.n; i++) {
        const kvt_cost_row *r = &t.row[i];
        if (strcmp(r->policy, "full") == 0)
            continue;
        assert_true(r->kept_tokens_mean == (double)r->prompt_tokens);
        assert_true(r->end_slots_mean_tokens == 128);
        assert_int_equal(r->cost.evict.total > 0, strcmp(r->policy, "oracle-step") != 0);
        assert_true(r->cost.evict.copy == 0 && r->cost.evict.select == 0);
    }
    kvt_cost_table_free(&t);
}

static void equal_budgets_are_one(void **state)
{
    kvt_cost_spec spec = spec_of("snapkv", "128,10%,1/10");
    spec.n_length = 1; /* 1280 tokens */
    kvt_cost_table t = make(&spec);
    (void)state;
    assert_int_equal(t.n, 2 * 2 * 2 * 2);
    assert_string_equal(t.row[4].budget_asked, "128");
    kvt_cost_table_free(&t);
}

/* "all" has everything that some trace could answer, what reads weights or a probe, too. */
static void all_is_every_policy(void **state)
{
    kvt_cost_spec spec = spec_of("all", "50%");
    spec.n_length = spec.n_machine = spec.n_profile = spec.n_batch = 1;
    kvt_cost_table t = make(&spec);
    int n = 1;
    (void)state;
    for (const kvt_policy *const *p = kvt_policies(); *p; p++) {
        bool found = false;
        for (int64_t i = 1; i < t.n; i++)
            found |= strcmp(t.row[i].policy, (*p)->name) == 0;
        bool want = !(*p)->traits.control && !((*p)->traits.needs & KVT_NEED_SCORES) &&
                    ((*p)->traits.exactness != KVT_NOT_REPLAYABLE || !(*p)->why_not);
        if (found != want)
            fail_msg("%s: %s", (*p)->name, found ? "is there" : "is missing");
        n += found;
    }
    assert_int_equal(t.n, n);
    kvt_cost_table_free(&t);
}

/* ---- what is skipped -----------------------------------------------------------------------
 */

static const struct skip_row {
    const char *name, *policy, *budget, *why;
    bool small; /* on smollm2-135m, of which no draft model is known */
} skips[] = {
    {"sinks that do not fit", "streaming", "2", "4 sinks need a budget of 4 or more", false},
    {"kvpop's sinks and window", "kvpop:from=decisions", "260", "a budget of 261 or more",
     false},
    {"kvpop with one slot more", "kvpop:from=decisions", "261", NULL, false},
    {"no channel is left", "think", "10%", "leave no channel of 128", false},
    {"a draft model that is known", "speckv", "128", NULL, false},
    {"and one that is not", "speckv", "128", "none is known for smollm2-135m", true},
};

static void is_skipped(void **state)
{
    const struct skip_row *s = *state;
    kvt_cost_spec spec = spec_of(s->policy, s->budget);
    if (s->small)
        spec.geometry = &smol;
    kvt_cost_table t = make(&spec);
    const kvt_cost_row *r = &t.row[4]; /* behind full on two machines under two profiles */
    assert_true(strncmp(r->policy, s->policy, strlen(r->policy)) == 0);
    assert_string_equal(r->status, s->why ? "skipped" : "ok");
    if (s->why && !strstr(r->error, s->why))
        fail_msg("expected '%s' in '%s'", s->why, r->error);
    assert_true((s->why != NULL) == isnan(r->cost.ttft));
    assert_true((s->why != NULL) == isnan(value(r, "peak_kv_bytes")));
    assert_true((s->why != NULL) == (r->fits == KVT_EMPTY_INT));
    kvt_cost_table_free(&t);
}

static void a_draft_may_be_named(void **state)
{
    kvt_cost_spec spec = spec_of("speckv", "128");
    kvt_cost_geometry draft;
    kvt_err err;
    (void)state;
    CHECK_OK(kvt_cost_geometry_find(&draft, "smollm2-360m", &err), &err);
    spec.draft = &draft;
    kvt_cost_table t = make(&spec);
    assert_string_equal(t.row[4].draft_geometry, "smollm2-360m");
    assert_true(t.row[4].cost.draft_tokens > 0);
    kvt_cost_table_free(&t);
}

/* ---- what is refused -----------------------------------------------------------------------
 */

static void refuses(const kvt_cost_spec *spec, kvt_code want, const char *text)
{
    kvt_cost_table t;
    kvt_err err;
    CHECK_FAILS(kvt_cost_make(&t, spec, NULL, &err), want, text, &err);
    assert_int_equal(t.n, 0);
}

static void wrong_specs_are_refused(void **state)
{
    kvt_cost_spec spec = spec_of("snapvk", "128");
    (void)state;
    refuses(&spec, KVT_USAGE, "did you mean 'snapkv'?");
    /* A slot of every lane of llama-3.1-8b: 32 layers x 8 heads x 2 x 128 channels x 2 bytes */
    spec = spec_of("snapkv", "131071B");
    refuses(&spec, KVT_USAGE, "takes 131072 bytes");
    spec = spec_of("snapkv", "10%");
    spec.rule = KVT_RULE_ABS;
    refuses(&spec, KVT_USAGE, "takes tokens only");
    spec = spec_of("snapkv", "128");
    spec.geometry = NULL;
    refuses(&spec, KVT_USAGE, "geometry must be named");
    spec = spec_of("snapkv", "128");
    spec.n_length = 0;
    refuses(&spec, KVT_USAGE, "length must be given");
    spec = spec_of("snapkv", "128");
    spec.n_machine = 0;
    refuses(&spec, KVT_USAGE, "machine must be named");
}

/* 70 553 706 496 weights of 2 bytes are 141.1 GB. */
static void weights_that_do_not_fit_are_an_error(void **state)
{
    kvt_cost_spec spec = spec_of("snapkv", "128");
    kvt_err err;
    (void)state;
    CHECK_OK(kvt_cost_geometry_find(&llama, "llama-3.1-70b", &err), &err);
    spec.weights_must_fit = true;
    refuses(&spec, KVT_NO, "GiB) short");
    spec.setting.weight_bits = 4; /* 36 GB: on one of the two */
    kvt_cost_table t = make(&spec);
    assert_int_equal(t.row[0].fits, 1);
    assert_int_equal(t.row[2].fits, 0);
    assert_true(t.row[2].cost.short_bytes > 0);
    kvt_cost_table_free(&t);
}

/* ---- bytes as budgets, threads, allocations ------------------------------------------------
 */

static void bytes_are_shared_by_all_lanes(void **state)
{
    kvt_cost_spec spec = spec_of("snapkv", "16MiB"); /* / 131072 bytes a slot of every lane */
    kvt_cost_table t = make(&spec);
    (void)state;
    assert_true(t.row[4].budget_tokens == 128);
    kvt_cost_table_free(&t);
    spec.setting.kv_bits = 8; /* half the bytes */
    t = make(&spec);
    assert_true(t.row[4].budget_tokens == 256);
    kvt_cost_table_free(&t);
}

static void print_row(char *out, size_t cap, const kvt_table *t, int64_t row)
{
    size_t n = 0;
    for (const kvt_column *c = t->columns; c->name && n < cap; c++) {
        n += kvt_cell_print(t, row, c, out + n, cap - n);
        n += (size_t)snprintf(out + (n < cap ? n : cap), n < cap ? cap - n : 0, ";");
    }
    assert_true(n < cap);
}

static void threads_change_nothing(void **state)
{
    kvt_cost_spec spec = spec_of("all", "5%..40%x2");
    kvt_cost_table a, b;
    kvt_err err;
    char one[8192], four[8192];
    (void)state;
    CHECK_OK(kvt_cost_make(&a, &spec, &(kvt_ctx){.n_thread = 1}, &err), &err);
    CHECK_OK(kvt_cost_make(&b, &spec, &(kvt_ctx){.n_thread = 4}, &err), &err);
    assert_int_equal(a.n, b.n);
    const kvt_table ta = kvt_cost_table_of(&a), tb = kvt_cost_table_of(&b);
    for (int64_t i = 0; i < a.n; i++) {
        print_row(one, sizeof one, &ta, i);
        print_row(four, sizeof four, &tb, i);
        assert_string_equal(one, four);
    }
    kvt_cost_table_free(&a);
    kvt_cost_table_free(&b);
}

/* Rows over machines and batches share what was made for them. */
static void rows_allocate_nothing(void **state)
{
    kvt_cost_spec spec = spec_of("snapkv,h2o,lookaheadkv", "128,256");
    (void)state;
    spec.n_profile = 1; /* constants of the other one are read from a table */
    kvt_alloc_fail_at(0, false);
    kvt_cost_table t = make(&spec);
    int64_t many = kvt_alloc_count();
    kvt_cost_table_free(&t);
    spec.n_machine = spec.n_batch = 1;
    kvt_alloc_fail_at(0, false);
    t = make(&spec);
    assert_int_equal(kvt_alloc_count(), many);
    kvt_cost_table_free(&t);
}

static void memory_that_runs_out_is_an_error(void **state)
{
    kvt_cost_spec spec = spec_of("snapkv", "128");
    kvt_code code = KVT_NOMEM;
    (void)state;
    for (int64_t n = 1; code == KVT_NOMEM; n++) {
        kvt_cost_table t;
        kvt_err err;
        kvt_alloc_fail_at(n, true);
        code = kvt_cost_make(&t, &spec, NULL, &err);
        kvt_alloc_fail_at(0, false);
        kvt_cost_table_free(&t);
        assert_true(n < 1000);
    }
    assert_int_equal(code, KVT_OK);
}

/* ---- of a replay ---------------------------------------------------------------------------
 */

static kvt_code geometry_of_trace(void *user, const char *path, kvt_cost_geometry *out,
                                  kvt_err *err)
{
    kvt_trace *t;
    int *calls = user;
    ++*calls;
    CHECK_OK(kvt_trace_open(&t, path, 0, err), err);
    kvt_geometry g = kvt_trace_info_of(t)->facts.model;
    kvt_trace_close(t);
    /* A random trace has no feed-forward and no vocabulary. */
    if (g.n_ff == 0)
        g.n_ff = 64;
    if (g.n_vocab == 0)
        g.n_vocab = 100;
    return kvt_cost_geometry_of(out, &g, err);
}

static kvt_results *replayed(void)
{
    synth_spec s = synth_default(); /* 2 layers, 4 heads on 2 kv heads of 8 channels, 24 + 6 */
    const char *path = runs_trace("cost", &s);
    kvt_replay_spec run = runs_spec(&path, "snapkv:window=4,streaming", "8,12");
    return runs_replay(&run, NULL);
}

static kvt_cost_spec spec_of_results(const kvt_results *results, int *calls)
{
    kvt_cost_spec spec = spec_of(NULL, NULL);
    spec.geometry = NULL;
    spec.n_machine = spec.n_profile = spec.n_batch = 1;
    spec.n_length = 0;
    spec.results = results;
    spec.trace_geometry = geometry_of_trace;
    spec.user = calls;
    return spec;
}

static void cells_of_a_replay_are_priced(void **state)
{
    int calls = 0;
    kvt_results *results = replayed();
    kvt_cost_spec spec = spec_of_results(results, &calls);
    kvt_cost_table t = make(&spec);
    (void)state;
    assert_int_equal(calls, 1);
    assert_int_equal(t.n, 1 + 2 * 2);
    assert_string_equal(t.row[0].policy, "full");
    assert_string_equal(t.row[0].run_id, "");
    for (int64_t i = 1; i < t.n; i++) {
        const kvt_cost_row *r = &t.row[i];
        const kvt_cell *c = runs_cell(results, r->policy, r->budget_asked);
        assert_string_equal(r->run_id, c->run_id);
        assert_string_equal(r->trace_id, "cost");
        assert_string_equal(r->exactness, c->exactness);
        assert_string_equal(r->policy_params, c->policy_params);
        assert_true(r->budget_tokens == c->budget_tokens);
        assert_true(i < 2 || t.row[i - 1].budget_tokens <= r->budget_tokens);
        CHECK_NEAR(r->kept_tokens_mean, c->kept_tokens_mean, 1e-9);
        CHECK_NEAR(r->end_slots_mean_tokens, c->end_slots_mean_tokens, 1 + 1e-9);
        assert_int_equal(r->assumed + r->mapped + r->scaled, 0);
        assert_int_equal(r->prompt_tokens, 24);
        assert_int_equal(r->response_tokens, 6);
        check_sums(r);
    }
    kvt_cost_table_free(&t);
    kvt_results_free(results);
}

static void another_model_is_mapped_and_another_length_scaled(void **state)
{
    static const int64_t length[] = {24, 4800};
    int calls = 0;
    kvt_results *results = replayed();
    kvt_cost_spec spec = spec_of_results(results, &calls);
    (void)state;
    spec.geometry = &llama;
    spec.length = length;
    spec.n_length = 2;
    kvt_cost_table t = make(&spec);
    assert_int_equal(calls, 0);
    assert_int_equal(t.n, 2 * (1 + 2 * 2));
    for (int64_t i = 0; i < t.n; i++) {
        const kvt_cost_row *r = &t.row[i];
        assert_string_equal(r->geometry, "llama-3.1-8b");
        assert_int_equal(r->prompt_tokens, length[i / 5]);
        if (i % 5 == 0)
            continue;
        const kvt_cell *c = runs_cell(results, r->policy, r->budget_asked);
        assert_int_equal(r->mapped, 1);
        assert_int_equal(r->scaled, i / 5);
        /* The kept share stays: 8 of 24 are 1600 of 4800. */
        CHECK_NEAR(r->kept_tokens_mean, c->kept_tokens_mean * (double)length[i / 5] / 24,
                   1e-6 * 4800);
        CHECK_NEAR(r->budget_frac, c->budget_tokens / 24, 1e-3);
    }
    kvt_cost_table_free(&t);
    kvt_results_free(results);
}

static void results_without_cells_are_refused(void **state)
{
    synth_spec s = synth_default();
    const char *path = runs_trace("none", &s);
    kvt_replay_spec run = runs_spec(&path, "streaming", "2");
    kvt_replay_counts counts;
    kvt_results *results = NULL;
    kvt_err err;
    int calls = 0;
    (void)state;
    assert_int_equal(kvt_replay(&results, &counts, &run, &(kvt_ctx){0}, &err), KVT_NO);
    kvt_cost_spec spec = spec_of_results(results, &calls);
    refuses(&spec, KVT_NOTFOUND, "no cell that was computed");
    kvt_results_free(results);
}

int main(void)
{
    struct CMUnitTest tests[CHECK_COUNT(lengths) + CHECK_COUNT(skips) + 32];
    int n = 0;
    CHECK_ROWS(tests, &n, lengths, is_read);
    CHECK_ROWS(tests, &n, skips, is_skipped);
    const struct CMUnitTest rest[] = {
        cmocka_unit_test(columns_have_names_of_their_own),
        cmocka_unit_test(rows_stand_in_order),
        cmocka_unit_test(parts_sum_to_their_totals),
        cmocka_unit_test(what_is_not_known_is_empty),
        cmocka_unit_test(the_dense_cache_is_not_assumed),
        cmocka_unit_test(skipped_slots_stay),
        cmocka_unit_test(equal_budgets_are_one),
        cmocka_unit_test(all_is_every_policy),
        cmocka_unit_test(a_draft_may_be_named),
        cmocka_unit_test(wrong_specs_are_refused),
        cmocka_unit_test(weights_that_do_not_fit_are_an_error),
        cmocka_unit_test(bytes_are_shared_by_all_lanes),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(rows_allocate_nothing),
        cmocka_unit_test(memory_that_runs_out_is_an_error),
        cmocka_unit_test(cells_of_a_replay_are_priced),
        cmocka_unit_test(another_model_is_mapped_and_another_length_scaled),
        cmocka_unit_test(results_without_cells_are_refused),
    };
    for (int i = 0; i < CHECK_COUNT(rest); i++)
        tests[n++] = rest[i];
    return _cmocka_run_group_tests("cost_make", tests, (size_t)n, runs_open, runs_close);
}
