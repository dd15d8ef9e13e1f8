/* test_golden_more.c - what policies keep while decoding, by geometry, and oracles, slot by
 * slot after every token: kvt_replay on the traces of lanes.h against numpy versions written
 * from the papers and the published code (make_decode.py, make_geometry.py). Policies that skip
 * slots run through the plain driver, which knows what a row reads. Every cell of
 * lanes/NAME.csv is a test of its own. */
#include "tests/check.h"
#include "tests/runs.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cells.h"
#include "lanes.h"
#include "../mini.h"
#include "../toy_more.h"

enum { FIELDS = 8, KEY_FIELDS = 4, T_MAX = 512, TRACES_MAX = 16 };
/* lanes, policy as typed, budget, act; tokens, layer, lane, kept */
enum { LANES, USE, BUDGET, ACT, TOKENS, LAYER, LANE, KEPT };

typedef struct trace {
    const char *name;
    synth *s;
    char path[400], weights[2][400];
} trace;

static golden_cells cells = {.n_field = FIELDS, .n_key = KEY_FIELDS};
static kvt_arena *memory;
static trace traces[TRACES_MAX];

/* The trace of that name, and weights for it; written once. */
static const trace *trace_of(const char *name)
{
    static const char *const kinds[] = {"qfilters", "triattention"};
    int i = 0;
    kvt_err err;
    while (i < TRACES_MAX && traces[i].name && strcmp(traces[i].name, name) != 0)
        i++;
    assert_true(i < TRACES_MAX);
    trace *t = &traces[i];
    if (t->name)
        return t;
    t->s = lanes_new(name);
    snprintf(t->path, sizeof t->path, "%s/lanes%d.h5", runs_dir, i);
    CHECK_OK(synth_write(t->s, t->path, &err), &err);
    for (int k = 0; k < 2; k++) {
        snprintf(t->weights[k], sizeof t->weights[k], "%s/%s%d.h5", runs_dir, kinds[k], i);
        CHECK_OK(lanes_scorer(kinds[k], &t->s->spec, t->weights[k], &err), &err);
    }
    t->name = name;
    return t;
}

/* "3-5 9" */
static void read_runs(const char *text, uint8_t *mask)
{
    for (const char *c = text; *c;) {
        char *end;
        long from = strtol(c, &end, 10), to = *end == '-' ? strtol(end + 1, &end, 10) : from;
        for (long j = from; j <= to; j++)
            mask[j] = 1;
        c = end + (*end == ' ');
    }
}

static void print_set(const char *what, const uint8_t *mask, int64_t n)
{
    printf("  %-9s", what);
    for (int64_t j = 0; j < n; j++)
        if (mask[j])
            printf(" %lld", (long long)j);
    printf("\n");
}

static void check_set(char *const *f, const uint8_t *got, int64_t T)
{
    uint8_t want[T_MAX] = {0};
    read_runs(f[KEPT], want);
    if (memcmp(want, got, (size_t)T) == 0)
        return;
    print_set("expected", want, T);
    print_set("got", got, T);
    fail_msg("after %s tokens, layer %s, lane %s", f[TOKENS], f[LAYER], f[LANE]);
}

/* ---- policies that evict: a whole replay ---------------------------------------------------
 */

static void check_evicted(const golden_cell *c, const trace *t)
{
    char *const *f = c->line;
    const char *path = t->path, *weights[] = {t->weights[0], t->weights[1]};
    kvt_replay_spec spec = {.trace = &path,
                            .n_trace = 1,
                            .policies = f[USE],
                            .budgets = f[BUDGET],
                            .weights = weights,
                            .n_weights = 2,
                            .act =
                                strcmp(f[ACT], "prefill") == 0 ? KVT_ACT_PREFILL : KVT_ACT_OWN,
                            .oracle = "none",
                            .no_controls = true,
                            .no_output_error = true,
                            .out_dir = "",
                            .keep_arrays = true};
    kvt_results *found = runs_replay(&spec, NULL);
    const kvt_result *r = found->result[0];
    int64_t N = t->s->spec.n_prompt, T = N + t->s->spec.n_response;
    assert_int_equal(found->n, 1);
    if (strcmp(r->cell[0].status, "ok") != 0)
        fail_msg("%s: %s", r->cell[0].status, r->cell[0].error);
    for (int i = 0; i < c->n_line; i++, f += FIELDS) {
        uint8_t got[T_MAX] = {0};
        int64_t m = atoll(f[TOKENS]);
        assert_true(atoi(f[LAYER]) < r->n_layer && atoi(f[LANE]) < r->n_lane);
        for (int64_t j = 0; j < N + m; j++) {
            int32_t gone = kvt_result_evict_step(r, 0, atoi(f[LAYER]), atoi(f[LANE]), j);
            /* with drop_first the decision in front of row m is that of step m - 1 */
            got[j] = gone < 0 || gone + c->policy->traits.drop_first > m;
        }
        check_set(f, got, T);
    }
    kvt_results_free(found);
}

/* ---- policies that skip: the plain driver --------------------------------------------------
 */

static void check_skipped(const golden_cell *c, const trace *t)
{
    char *const *f = c->line;
    const char *params = strchr(f[USE], ':');
    size_t mark = kvt_arena_mark(memory);
    toy *plain = toy_of_synth(memory, t->s, false);
    mini_spec spec = {.trace = plain,
                      .policy = c->policy,
                      .params = params ? params + 1 : "",
                      .budget = atoll(f[BUDGET])};
    mini_result r;
    kvt_err err;
    CHECK_OK(mini_run(&r, &spec, memory, &err), &err);
    if (r.skipped)
        fail_msg("skipped: %s", r.why);
    for (int i = 0; i < c->n_line; i++, f += FIELDS)
        check_set(f, mini_held(&r, plain, atoll(f[TOKENS]), atoi(f[LAYER]), atoi(f[LANE])),
                  plain->T);
    kvt_arena_rewind(memory, mark);
}

static void keeps_what_the_paper_says(void **state)
{
    const golden_cell *c = *state;
    const trace *t = trace_of(c->line[LANES]);
    (c->policy->traits.effect == KVT_SKIP ? check_skipped : check_evicted)(c, t);
}

/* From lanes/NAME.csv for every NAME there is. */
static void read_folder(void)
{
    DIR *d = opendir(KVT_SOURCE_DIR "/tests/golden/lanes");
    char name[128], policy[64];
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        const char *end = strstr(e->d_name, ".csv");
        int from = cells.n;
        if (!end)
            continue;
        snprintf(name, sizeof name, "lanes/%.*s", (int)(end - e->d_name), e->d_name);
        golden_read(&cells, NULL, name);
        for (golden_cell *c = cells.cell + from; c < cells.cell + cells.n; c++) {
            snprintf(policy, sizeof policy, "%.*s", (int)strcspn(c->line[USE], ":/"),
                     c->line[USE]);
            c->policy = kvt_policy_find(policy);
            snprintf(c->name, sizeof c->name, "%s at %s %s %s", c->line[USE], c->line[BUDGET],
                     c->line[ACT], c->line[LANES]);
            if (!c->policy) {
                fprintf(stderr, "%s: no policy %s\n", name, policy);
                exit(1);
            }
        }
    }
    if (d)
        closedir(d);
}

static int close_traces(void **state)
{
    for (int i = 0; i < TRACES_MAX; i++)
        synth_free(traces[i].s);
    return runs_close(state);
}

int main(void)
{
    cells.memory = memory = kvt_arena_new((size_t)1 << 30);
    read_folder();
    static struct CMUnitTest tests[GOLDEN_CELLS_MAX];
    for (int i = 0; i < cells.n; i++)
        tests[i] = (struct CMUnitTest){.name = cells.cell[i].name,
                                       .test_func = keeps_what_the_paper_says,
                                       .initial_state = &cells.cell[i]};
    int failed =
        _cmocka_run_group_tests("kept slots", tests, (size_t)cells.n, runs_open, close_traces);
    kvt_arena_free(memory);
    return failed || cells.n == 0;
}
