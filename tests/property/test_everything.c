/* test_everything.c - every policy, allocator and oracle on traces that are hard on them: one
 * token, windows around the prompt's length, flat lanes, masses of exactly 0, equal keys, odd
 * groups of heads, poor traces. Whatever comes, a cell is done or skipped with one line, its
 * numbers are numbers, and any number of threads gives the same bytes.
 *
 *   test_everything          a sample of the grid, the same every time
 *   test_everything 1        all of it, by hand (minutes); 7: a seventh of it */
#include "tests/check.h"
#include "tests/property/hard_traces.h"
#include "tests/runs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kvt/arena.h"
#include "kvt/metric.h"
#include "kvt/pieces.h"

enum { TEXT = 192, GROUP = 24, SAMPLE = 40 };

/* One in so many of the uses beside the defaults. */
static int64_t sparse = SAMPLE;
static int64_t n_cell, n_ok, n_run;

/* ---- what is run ---------------------------------------------------------------------------
 */

typedef struct uses {
    char (*text)[TEXT];
    int64_t n, cap;
} uses;

/* Those that read other traces of a set, or match a threshold on them, run with a second one.
 */
enum { LONE, TOGETHER, N_LIST };

/* A number that depends on the texts only. */
static uint64_t hash_of(const char *a, const char *b)
{
    uint64_t h = 1469598103934665603u;
    for (; *a; a++)
        h = (h ^ (unsigned char)*a) * 1099511628211u;
    for (; *b; b++)
        h = (h ^ (unsigned char)*b) * 1099511628211u;
    return h ^ h >> 29;
}

/* A use that the parser takes; what it refuses, it refuses as a mistake of the user. */
static void add(uses *u, const hard_trace *t, const char *text, bool always)
{
    kvt_use *use;
    kvt_err err;
    if (!always && hash_of(t->name, text) % (uint64_t)sparse != 0)
        return;
    kvt_code code = kvt_use_parse(&use, NULL, text, &err);
    if (code) {
        assert_int_equal(code, KVT_USAGE);
        assert_null(strchr(err.text, '\n'));
        return;
    }
    bool others = use->traits.by_threshold || (use->traits.needs & KVT_NEED_OTHERS);
    u += others ? TOGETHER : LONE;
    kvt_use_free(use);
    if (u->n == u->cap) {
        int64_t cap = 2 * u->cap + 64;
        u->text = kvt_resize(u->text, u->cap, cap, sizeof *u->text);
        assert_non_null(u->text);
        u->cap = cap;
    }
    snprintf(u->text[u->n++], TEXT, "%s", text);
}

static void add_number(uses *u, const hard_trace *t, const char *policy, const kvt_param *q,
                       double x)
{
    char text[TEXT];
    if (x < q->min || x > q->max)
        return;
    snprintf(text, sizeof text, "%s:%s=%.9g", policy, q->name, x);
    add(u, t, text, false);
}

/* A parameter at its bounds, and around the length of the prompt. */
static void add_values(uses *u, const hard_trace *t, const char *policy, const kvt_param *q)
{
    char text[TEXT];
    double N = (double)t->spec.n_prompt;
    for (int i = 0; q->choices && i <= (int)q->max; i++) {
        snprintf(text, sizeof text, "%s:%s=%s", policy, q->name, q->choices[i].name);
        add(u, t, text, false);
    }
    if (q->type == KVT_BOOL) {
        snprintf(text, sizeof text, "%s:%s=%s", policy, q->name, q->def > 0 ? "false" : "true");
        add(u, t, text, false);
    } else if (q->type == KVT_INT || q->type == KVT_REAL) {
        const double some[] = {q->min, q->max, 1, 2, 0.5, N - 1, N, N + 1};
        for (int i = 0; i < CHECK_COUNT(some); i++)
            if (q->type == KVT_REAL || floor(some[i]) == some[i])
                add_number(u, t, policy, q, some[i]);
    }
}

static void add_policy(uses *u, const hard_trace *t, const kvt_policy *p)
{
    static const char *const every[] = {"every=1", "every=7", "every=1000"};
    char text[TEXT];
    bool small = kvt_param_find(p->params ? p->params : kvt_use_table(), "window") != NULL;
    const char *window = small && t->spec.n_prompt < 64 ? ":window=4" : "";
    add(u, t, p->name, true);
    snprintf(text, sizeof text, "%s%s", p->name, window);
    add(u, t, text, *window != 0);
    for (const kvt_param *q = p->params; q && q->name; q++)
        add_values(u, t, p->name, q);
    for (const kvt_share *const *s = kvt_shares(); *s; s++) {
        snprintf(text, sizeof text, "%s/%s%s", p->name, (*s)->name, window);
        add(u, t, text, false);
        snprintf(text, sizeof text, "%s/%s", p->name, (*s)->name);
        for (const kvt_param *q = (*s)->params; q && q->name; q++)
            add_values(u, t, text, q);
    }
    for (int i = 0; i < CHECK_COUNT(every); i++) {
        snprintf(text, sizeof text, "%s%s%s%s", p->name, *window ? window : ":",
                 *window ? "," : "", every[i]);
        add(u, t, text, false);
    }
}

/* ---- laws of results -----------------------------------------------------------------------
 */

/* Broken laws of a trace, the first of each kind of message and policy. */
static struct {
    char text[64][400];
    int n;
} broken;

static void note(const kvt_cell *c, const char *fmt, ...) KVT_PRINTF(2, 3);
static void note(const kvt_cell *c, const char *fmt, ...)
{
    char *to = broken.text[kvt_min(broken.n, 63)];
    int n = snprintf(to, 400, "%s:%s at %s: ", c->policy, c->policy_params, c->budget_asked);
    va_list args;
    va_start(args, fmt);
    vsnprintf(to + n, 400 - (size_t)n, fmt, args);
    va_end(args);
    broken.n++;
}

#define EXPECT(is, ...)           \
    do {                          \
        if (!(is))                \
            note(c, __VA_ARGS__); \
    } while (0)

/* Sums over halves are exact; those over future/mean, in two orders, are not. */
static const double close = 1e-7;

static void check_lane(const kvt_result *r, int cell, const kvt_lane_row *row, int layer,
                       int lane, const kvt_traits *t)
{
    const kvt_cell *c = &r->cell[cell];
    double lost = row->value[kvt_metric_value("lost_mass_mean_frac")];
    int64_t here = 0;
    EXPECT(row->kept_prefill_tokens >= 1, "layer %d, lane %d is empty", layer, lane);
    EXPECT(row->kept_prefill_tokens <= r->n_prompt, "layer %d, lane %d: more than the prompt",
           layer, lane);
    bool over = row->kept_prefill_tokens > row->asked_tokens;
    if (t->effect == KVT_EVICT && over)
        EXPECT(strcmp(row->flag, "over") == 0, "lane %d holds %lld of %lld, flag %s", lane,
               (long long)row->kept_prefill_tokens, (long long)row->asked_tokens, row->flag);
    EXPECT(isnan(lost) || (lost >= 0 && lost <= 1), "lost %g", lost);
    EXPECT(isnan(row->regret_mean_frac) ||
               (row->regret_mean_frac >= 0 && !signbit(row->regret_mean_frac)),
           "regret %g", row->regret_mean_frac);
    EXPECT(isnan(row->oracle_lost_mass_mean_frac) ||
               lost >= row->oracle_lost_mass_mean_frac - close,
           "layer %d, lane %d loses %.9g, less than its oracle's %.9g", layer, lane, lost,
           row->oracle_lost_mass_mean_frac);
    if (t->effect != KVT_EVICT)
        return;
    for (int64_t s = 0; s < r->n_prompt; s++)
        here += kvt_result_evict_step(r, cell, layer, lane, s) != 0;
    /* Before the first row it may drop what the decision at the prompt's end kept. */
    EXPECT(t->drop_first ? here <= row->kept_prefill_tokens : here == row->kept_prefill_tokens,
           "layer %d, lane %d: %lld tokens stay by name, %lld by number", layer, lane,
           (long long)here, (long long)row->kept_prefill_tokens);
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* What the units promise: shares from 0 to 1, agreement from -1 to 1, nothing else below 0. */
static void check_values(const kvt_cell *c)
{
    kvt_schema schema;
    kvt_cell_schema(&schema);
    for (int i = 0; i < schema.n; i++) {
        const char *name = schema.column[i].name;
        int at = kvt_metric_value(name);
        if (at < 0 || isnan(c->value[at]))
            continue;
        double x = c->value[at], least = ends_with(name, "_1") ? -1 : 0;
        bool bounded = ends_with(name, "_frac") || ends_with(name, "_1");
        EXPECT(x >= least - close && (!bounded || x <= 1 + close), "%s is %g", name, x);
    }
}

static void check_sums(const kvt_result *r, int cell, const kvt_traits *t)
{
    const kvt_cell *c = &r->cell[cell];
    int n = r->n_layer * r->n_lane;
    int64_t kept = 0, asked = 0;
    for (int i = 0; i < n; i++) {
        const kvt_lane_row *row = &r->lane[(int64_t)cell * n + i];
        check_lane(r, cell, row, i / r->n_lane, i % r->n_lane, t);
        kept += row->kept_prefill_tokens;
        asked += row->asked_tokens;
    }
    EXPECT(fabs(c->kept_tokens_mean - (double)kept / n) < 1e-9, "mean %g of %lld",
           c->kept_tokens_mean, (long long)kept);
    if (t->effect == KVT_EVICT && !t->may_exceed && !t->by_threshold)
        EXPECT(kept <= asked, "%lld of %lld slots", (long long)kept, (long long)asked);
    if (r->n_response > 0 && t->effect != KVT_CHANNELS && c->decode_steps > 0)
        EXPECT(!isnan(c->value[kvt_metric_value("lost_mass_mean_frac")]), "%s", "no loss");
    EXPECT(isnan(c->regret_mean_frac) || !signbit(c->regret_mean_frac), "regret %g",
           c->regret_mean_frac);
}

static void check_cell(const kvt_result *r, int cell)
{
    const kvt_cell *c = &r->cell[cell];
    kvt_use *use;
    kvt_err err;
    bool skipped = strcmp(c->status, "skipped") == 0;
    n_cell++;
    EXPECT(skipped || strcmp(c->status, "ok") == 0, "%s: %s", c->status, c->error);
    if (skipped) {
        EXPECT(c->error[0] && !strchr(c->error, '\n') && !strstr(c->error, "nan"), "said '%s'",
               c->error);
        return;
    }
    if (strcmp(c->status, "ok") != 0)
        return;
    n_ok++;
    CHECK_OK(kvt_use_parse(&use, NULL, r->policy_text, &err), &err);
    check_sums(r, cell, &use->traits);
    check_values(c);
    kvt_use_free(use);
}

/* The text of a row has empty fields, never words for what is no number, and no -0. */
static void check_text(const char *text)
{
    static const char *const bad[] = {"=nan|", "=-nan|", "=-0|", "=-inf|", "=NaN|"};
    for (int i = 0; i < CHECK_COUNT(bad); i++) {
        const char *at = strstr(text, bad[i]);
        if (at)
            fail_msg("...%.100s", at - text > 60 ? at - 60 : text);
    }
}

/* ---- running -------------------------------------------------------------------------------
 */

static kvt_results *with(const kvt_replay_spec *spec, int n_thread)
{
    kvt_ctx ctx = {.n_thread = n_thread};
    kvt_err err;
    kvt_results *found;
    kvt_code code = kvt_replay(&found, NULL, spec, &ctx, &err);
    n_run++;
    if (code != KVT_OK && code != KVT_NO && code != KVT_PARTLY) /* cells say what failed */
        fail_msg("%s: %s: %s", kvt_code_name(code), err.text, spec->policies);
    return found;
}

static void run_group(const kvt_replay_spec *spec)
{
    kvt_results *one = with(spec, 1), *four = with(spec, 4);
    for (int64_t i = 0; i < one->n; i++)
        for (int c = 0; c < one->result[i]->n_cell; c++)
            check_cell(one->result[i], c);
    char *a = runs_text(one), *b = runs_text(four);
    check_text(a);
    runs_same_text(a, b, "1 and 4 threads");
    free(a);
    free(b);
    kvt_results_free(one);
    kvt_results_free(four);
}

static void run_uses(const uses *u, const kvt_replay_spec *like)
{
    char policies[GROUP * TEXT];
    kvt_replay_spec spec = *like;
    spec.policies = policies;
    for (int64_t i = 0; i < u->n; i += GROUP) {
        size_t n = 0;
        for (int64_t k = i; k < u->n && k < i + GROUP; k++)
            n += (size_t)snprintf(policies + n, sizeof policies - n, "%s%s", n ? "," : "",
                                  u->text[k]);
        /* Some groups on the prompt only, or from its end on, or by bytes. */
        uint64_t way = hash_of(u->text[i], like->trace[0] + strlen(runs_dir)) % 8;
        spec.act = way < 2 ? KVT_ACT_PREFILL : way == 2 ? KVT_ACT_DECODE : KVT_ACT_OWN;
        spec.fair = way == 3 ? KVT_FAIR_BYTES : KVT_FAIR_TOKENS;
        spec.shrink_every = way == 4 ? 3 : 0;
        run_group(&spec);
    }
}

static void run_trace(void **state)
{
    const hard_trace *t = *state;
    hard_files f;
    uses u[N_LIST] = {{0}};
    broken.n = 0;
    hard_files_make(&f, t);
    for (const kvt_policy *const *p = kvt_policies(); *p; p++)
        add_policy(u, t, *p);
    const char *trace[] = {f.trace, f.twin};
    kvt_replay_spec spec = {.trace = trace,
                            .budgets = "1,2,3,50%,100%,1000,1KiB",
                            .weights = f.scorer,
                            .n_weights = f.n_scorer,
                            .no_controls = true,
                            .keep_arrays = true,
                            .metrics = "all",
                            .out_dir = ""};
    for (int i = 0; i < N_LIST; i++) {
        spec.n_trace = 1 + (i == TOGETHER);
        run_uses(&u[i], &spec);
        kvt_free(u[i].text);
    }
    for (int i = 0; i < kvt_min(broken.n, 64); i++)
        print_error("  %s\n", broken.text[i]);
    if (broken.n)
        fail_msg("%d laws of results are broken", broken.n);
}

/* A grid that shrinks to refusals would pass. */
static void most_cells_are_done(void **state)
{
    (void)state;
    print_message("%lld replays, %lld cells, %lld done\n", (long long)n_run, (long long)n_cell,
                  (long long)n_ok);
    assert_true(n_cell > 5000 && n_ok > n_cell / 4);
}

int main(int argc, char **argv)
{
    static struct CMUnitTest tests[HARD_TRACES_MAX + 1];
    static hard_trace trace[HARD_TRACES_MAX];
    int n = hard_traces(trace), n_test = 0;
    if (argc > 1)
        sparse = kvt_max(1, atoi(argv[1]));
    for (int i = 0; i < n; i++)
        if (argc < 3 || strcmp(argv[2], trace[i].name) == 0)
            tests[n_test++] = (struct CMUnitTest){
                .name = trace[i].name, .test_func = run_trace, .initial_state = &trace[i]};
    if (argc < 3)
        tests[n_test++] = (struct CMUnitTest){.name = "most cells are done",
                                              .test_func = most_cells_are_done};
    return _cmocka_run_group_tests("everything", tests, (size_t)n_test, runs_open, runs_close);
}
