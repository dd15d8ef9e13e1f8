/* test_golden_more.c - what policies keep while decoding, by geometry, and oracles, slot by
 * slot after every token: kvt_replay on the traces of lanes.h against numpy versions written
 * from the papers and the published code (make_decode.py, make_geometry.py, make_oracles.py).
 * Policies that skip slots run through the plain driver, which knows what a row reads. Every
 * cell of the CSV files is a test of its own. */
#include "tests/check.h"
#include "tests/runs.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cells.h"
#include "lanes.h"
#include "../mini.h"
#include "../toy_more.h"

enum { FIELDS = 8, KEY_FIELDS = 4, T_MAX = 512, TRACES_MAX = 16 };
/* lanes, policy as typed, budget, act; layer, lane, response tokens at the first set, sets */
enum { LANES, USE, BUDGET, ACT, LAYER, LANE, FIRST, KEPT };

typedef struct trace {
    const char *name;
    synth *s;
    char path[400], weights[2][400];
} trace;

/* of values: lanes, policy as typed, budget, column, from, to */
enum { COLUMN = 3, FROM, TO, VALUE_FIELDS };

static golden_cells cells = {.n_field = FIELDS, .n_key = KEY_FIELDS};
static golden_cells values = {.n_field = VALUE_FIELDS, .n_key = VALUE_FIELDS};
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

/* Gives the positions of "3-5 9", up to ';' or the end, that value; returns where it ends. */
static const char *read_runs(const char *c, uint8_t *mask, uint8_t value)
{
    while (*c && *c != ';') {
        char *end;
        long from = strtol(c, &end, 10), to = *end == '-' ? strtol(end + 1, &end, 10) : from;
        for (long j = from; j <= to; j++)
            mask[j] = value;
        c = end + (*end == ' ');
    }
    return c;
}

static void print_set(const char *what, const uint8_t *mask, int64_t n)
{
    printf("  %-9s", what);
    for (int64_t j = 0; j < n; j++)
        if (mask[j])
            printf(" %lld", (long long)j);
    printf("\n");
}

/* Compares what a lane holds after each token with its line: the first set, then what leaves
 * the one before and the new token, or each set whole. */
static void check_line(char *const *f, const trace *t, bool whole,
                       void (*held)(uint8_t *got, int64_t m, void *of), void *of)
{
    uint8_t want[T_MAX] = {0};
    int64_t N = t->s->spec.n_prompt, T = N + t->s->spec.n_response, m = atoll(f[FIRST]);
    const char *at = read_runs(f[KEPT], want, 1);
    for (;; m++) {
        uint8_t got[T_MAX] = {0};
        held(got, m, of);
        if (memcmp(want, got, (size_t)T) != 0) {
            print_set("expected", want, T);
            print_set("got", got, T);
            fail_msg("after %lld tokens, layer %s, lane %s", (long long)m, f[LAYER], f[LANE]);
        }
        if (!*at)
            return;
        if (whole)
            memset(want, 0, sizeof want);
        else
            want[N + m] = 1;
        at = read_runs(at + 1, want, whole);
    }
}

/* ---- policies that evict: a whole replay ---------------------------------------------------
 */

/* One policy at one budget; must be answered. */
static kvt_results *replay(const trace *t, const char *use, const char *budget, kvt_act act)
{
    const char *path = t->path, *weights[] = {t->weights[0], t->weights[1]};
    kvt_replay_spec spec = runs_spec(&path, use, budget);
    spec.weights = weights, spec.n_weights = 2;
    spec.act = act;
    spec.oracle = "none";
    kvt_results *found = runs_replay(&spec, NULL);
    assert_int_equal(found->n, 1);
    assert_int_equal(found->result[0]->n_cell, 1);
    if (strcmp(found->result[0]->cell[0].status, "ok") != 0)
        fail_msg("%s: %s", found->result[0]->cell[0].status, found->result[0]->cell[0].error);
    return found;
}

/* What a lane held, as a result or the driver has it. */
typedef struct lane_of {
    const kvt_result *r;
    const mini_result *plain;
    const toy *toy;
    int layer, lane;
    bool drop_first;
} lane_of;

static void held_by_result(uint8_t *got, int64_t m, void *of)
{
    const lane_of *x = of;
    for (int64_t j = 0; j < x->r->n_prompt + m; j++) {
        int32_t gone = kvt_result_evict_step(x->r, 0, x->layer, x->lane, j);
        /* with drop_first the decision in front of row m is that of step m - 1 */
        got[j] = gone < 0 || gone + x->drop_first > m;
    }
}

static void held_by_driver(uint8_t *got, int64_t m, void *of)
{
    const lane_of *x = of;
    memcpy(got, mini_held(x->plain, x->toy, m, x->layer, x->lane), (size_t)x->toy->T);
}

static void check_evicted(const golden_cell *c, const trace *t)
{
    char *const *f = c->line;
    bool prefill = strcmp(f[ACT], "prefill") == 0;
    kvt_results *found = replay(t, f[USE], f[BUDGET], prefill ? KVT_ACT_PREFILL : KVT_ACT_OWN);
    lane_of x = {.r = found->result[0], .drop_first = c->policy->traits.drop_first};
    assert_int_equal(c->n_line, x.r->n_layer * x.r->n_lane);
    for (int i = 0; i < c->n_line; i++, f += FIELDS) {
        x.layer = atoi(f[LAYER]), x.lane = atoi(f[LANE]);
        check_line(f, t, false, held_by_result, &x);
    }
    kvt_results_free(found);
}

/* ---- policies that skip: the plain driver --------------------------------------------------
 */

/* A whole replay has rows that saw as many slots, with the attention of those that the driver
 * read. */
static void check_rows(const golden_cell *c, const trace *t, const lane_of *x)
{
    kvt_results *found = replay(t, c->line[USE], c->line[BUDGET], KVT_ACT_OWN);
    const kvt_result *r = found->result[0];
    int n_head = t->s->spec.n_head / r->n_lane;
    for (int64_t i = 0; i < (int64_t)r->n_layer * r->n_lane * r->n_response; i++) {
        int64_t m = i % r->n_response, at = i / r->n_response;
        int layer = (int)(at / r->n_lane), lane = (int)(at % r->n_lane);
        const uint8_t *read = mini_held(x->plain, x->toy, m + 1, layer, lane);
        double lost = 0;
        for (int64_t j = 0; j <= r->n_prompt + m; j++)
            for (int h = 0; h < n_head && !read[j]; h++)
                lost += synth_attn(t->s, layer, lane * n_head + h, r->n_prompt + m, j) / n_head;
        if (fabs(lost - (double)r->lost[i]) > 1e-3)
            fail_msg("row %lld, layer %d, lane %d lost %g, expected %g", (long long)m, layer,
                     lane, (double)r->lost[i], lost);
        assert_int_equal((int64_t)r->kept_count[i],
                         mini_count(x->plain, x->toy, m + 1, layer, lane));
    }
    kvt_results_free(found);
}

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
    lane_of x = {.plain = &r, .toy = plain};
    assert_int_equal(c->n_line, plain->n_layer * r.n_lane);
    for (int i = 0; i < c->n_line; i++, f += FIELDS) {
        x.layer = atoi(f[LAYER]), x.lane = atoi(f[LANE]);
        check_line(f, t, true, held_by_driver, &x);
    }
    check_rows(c, t, &x);
    kvt_arena_rewind(memory, mark);
}

static void keeps_what_the_paper_says(void **state)
{
    const golden_cell *c = *state;
    const trace *t = trace_of(c->line[LANES]);
    (c->policy->traits.effect == KVT_SKIP ? check_skipped : check_evicted)(c, t);
}

static void gives_the_published_number(void **state)
{
    const golden_cell *c = *state;
    char *const *f = c->line;
    kvt_results *found = replay(trace_of(f[LANES]), f[USE], f[BUDGET], KVT_ACT_OWN);
    double got = runs_value(&found->result[0]->cell[0], f[COLUMN]);
    double from = atof(f[FROM]), to = atof(f[TO]), near = 2e-4 * to;
    if (!(got >= from - near && got <= to + near))
        fail_msg("%s is %.9g, expected %s to %s", f[COLUMN], got, f[FROM], f[TO]);
    kvt_results_free(found);
}

static void name_cell(golden_cell *c)
{
    char policy[64];
    char *const *f = c->line;
    snprintf(policy, sizeof policy, "%.*s", (int)strcspn(f[USE], ":/"), f[USE]);
    snprintf(c->name, sizeof c->name, "%s at %s %s %s", f[USE], f[BUDGET], f[ACT], f[LANES]);
    c->policy = kvt_policy_find(policy);
    if (!c->policy) {
        fprintf(stderr, "no policy %s\n", policy);
        exit(1);
    }
}

/* From FOLDER/NAME.csv for every NAME there is. */
static void read_folder(const char *folder)
{
    char name[300];
    snprintf(name, sizeof name, "%s/tests/golden/%s", KVT_SOURCE_DIR, folder);
    DIR *d = opendir(name);
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        const char *end = strstr(e->d_name, ".csv");
        int from = cells.n;
        if (!end)
            continue;
        snprintf(name, sizeof name, "%s/%.*s", folder, (int)(end - e->d_name), e->d_name);
        golden_read(&cells, NULL, name);
        for (golden_cell *c = cells.cell + from; c < cells.cell + cells.n; c++)
            name_cell(c);
    }
    if (!d || cells.n == 0) {
        fprintf(stderr, "%s: no cells\n", folder);
        exit(1);
    }
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
    cells.memory = values.memory = memory = kvt_arena_new((size_t)1 << 30);
    read_folder("decode");
    read_folder("geometry");
    read_folder("oracles");
    golden_read(&values, NULL, "values/think");
    golden_read(&values, NULL, "values/oracle_budget");
    static struct CMUnitTest tests[2 * GOLDEN_CELLS_MAX];
    int n = 0;
    for (int i = 0; i < cells.n; i++)
        tests[n++] = (struct CMUnitTest){.name = cells.cell[i].name,
                                         .test_func = keeps_what_the_paper_says,
                                         .initial_state = &cells.cell[i]};
    for (int i = 0; i < values.n; i++) {
        golden_cell *c = &values.cell[i];
        snprintf(c->name, sizeof c->name, "%s of %s at %s %s", c->line[COLUMN], c->line[USE],
                 c->line[BUDGET], c->line[LANES]);
        tests[n++] = (struct CMUnitTest){
            .name = c->name, .test_func = gives_the_published_number, .initial_state = c};
    }
    int failed =
        _cmocka_run_group_tests("kept slots", tests, (size_t)n, runs_open, close_traces);
    kvt_arena_free(memory);
    return failed;
}
