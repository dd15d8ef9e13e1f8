/* test_golden_policies.c - what policies keep, slot by slot, against numpy versions written
 * from the papers and the published code (make_policies.py) and against kvpress's own presses
 * (make_kvpress.py). Every cell of the CSV files is a test of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cells.h"
#include "../mini.h"

enum { TOY, PARAMS, SHARE, BUDGET, ACT, TOKENS, LAYER, LANE, KEPT, FIELDS };
/* of kvpress.csv, behind its policy, which makes the columns up to the budget those above */
enum { OF_LAYER = 5, OF_LANE, OF_COUNT, OF_KEPT, OF_TIED, OF_FIELDS };

static golden_cells papers = {.n_field = FIELDS, .n_key = ACT + 1};
static golden_cells presses = {.n_field = OF_FIELDS, .n_key = OF_LAYER};
static kvt_arena *memory;

static void read_papers(const kvt_policy *p)
{
    int from = papers.n;
    golden_read(&papers, p, NULL);
    for (golden_cell *c = papers.cell + from; c < papers.cell + papers.n; c++) {
        char *const *f = c->line;
        snprintf(c->name, sizeof c->name, "%s:%s%s%s b=%s %s N=%s", p->name, f[PARAMS],
                 *f[SHARE] ? "," : "", f[SHARE], f[BUDGET], f[ACT], f[TOY]);
    }
}

static void read_presses(void)
{
    golden_read(&presses, NULL, "kvpress");
    for (golden_cell *c = presses.cell; c < presses.cell + presses.n; c++) {
        char *const *f = c->line + 1;
        c->policy = kvt_policy_find(f[TOY]);
        snprintf(c->name, sizeof c->name, "kvpress %s:%s%s%s b=%s N=%s", f[TOY], f[PARAMS],
                 *f[SHARE] ? "," : "", f[SHARE], f[BUDGET], c->line[TOY]);
    }
}

static toy *toy_of(kvt_arena *a, const char *name)
{
    unsigned long long seed;
    int n_layer, n_model, n_head, n_group;
    long long N, M;
    assert_int_equal(sscanf(name, "%llu/%d/%d/%d/%d/%lld/%lld", &seed, &n_layer, &n_model,
                            &n_head, &n_group, &N, &M),
                     7);
    return toy_new(a, seed, n_layer, n_model, n_head, n_group, N, M, false);
}

static void fail_set(const golden_cell *c, char *const *at, const uint8_t *want,
                     const uint8_t *got, int64_t n)
{
    golden_print("expected", want, n);
    golden_print("got", got, n);
    fail_msg("%s: line %s,%s,%s: another set", c->name, at[5], at[6], at[7]);
}

/* `f`: where PARAMS, SHARE and BUDGET of the cell's lines are. */
static mini_result run_cell(const golden_cell *c, char *const *f, const toy *t, bool prefill)
{
    float *mass =
        kvt_arena_array(memory, t->n_layer * t->n_group * KVT_POSITION_BINS, sizeof *mass);
    for (int l = 0; l < t->n_layer; l++)
        for (int g = 0; g < t->n_group; g++)
            for (int b = 0; b < KVT_POSITION_BINS; b++)
                mass[(l * t->n_group + g) * KVT_POSITION_BINS + b] =
                    (float)((7 * l + 5 * g + 3 * b) % 11) / 16;
    mini_spec spec = {.trace = t,
                      .policy = c->policy,
                      .params = f[PARAMS],
                      .share_params = *f[SHARE] ? f[SHARE] : NULL,
                      .budget = atoll(f[BUDGET]),
                      .prefill_only = prefill,
                      .position_mass = mass};
    mini_result r;
    kvt_err err;
    assert_non_null(spec.policy);
    if (mini_run(&r, &spec, memory, &err))
        fail_msg("%s: %s", c->name, err.text);
    if (r.skipped)
        fail_msg("%s: skipped: %s", c->name, r.why);
    return r;
}

static void keeps_the_published_set(void **state)
{
    const golden_cell *c = *state;
    size_t mark = kvt_arena_mark(memory);
    const char *act = c->line[ACT];
    toy *t = toy_of(memory, c->line[TOY]);
    mini_result r = run_cell(c, c->line, t, strcmp(act, "prefill") == 0);
    if (r.decodes != (strcmp(act, "decode") == 0))
        fail_msg("%s: acts at the wrong time", c->name);
    for (int i = 0; i < c->n_line; i++) {
        char *const *at = c->line + i * FIELDS;
        uint8_t want[512] = {0};
        golden_runs(at[KEPT], want);
        const uint8_t *got =
            mini_held(&r, t, atoi(at[TOKENS]), atoi(at[LAYER]), atoi(at[LANE]));
        if (memcmp(want, got, (size_t)t->T) != 0)
            fail_set(c, at, want, got, t->T);
    }
    kvt_arena_rewind(memory, mark);
}

/* torch's topk has no rule for equal scores: what is kept lies above the cut, or on it. */
static void check_press(const golden_cell *c, char *const *at, const mini_result *r,
                        const toy *t)
{
    uint8_t above[512] = {0}, tied[512] = {0};
    golden_runs(at[OF_KEPT], above);
    golden_runs(at[OF_TIED], tied);
    int layer = atoi(at[OF_LAYER]), lane = atoi(at[OF_LANE]);
    const uint8_t *got = mini_held(r, t, 0, layer, lane);
    for (int64_t j = 0; j < t->T; j++)
        if ((above[j] && !got[j]) || (got[j] && !above[j] && !tied[j]))
            fail_set(c, at, above, got, t->T);
    assert_int_equal(mini_count(r, t, 0, layer, lane), atoi(at[OF_COUNT]));
}

static void keeps_what_the_press_keeps(void **state)
{
    const golden_cell *c = *state;
    size_t mark = kvt_arena_mark(memory);
    toy *t = toy_of(memory, c->line[TOY]);
    mini_result r = run_cell(c, c->line + 1, t, true);
    for (int i = 0; i < c->n_line; i++)
        check_press(c, c->line + i * OF_FIELDS, &r, t);
    kvt_arena_rewind(memory, mark);
}

/* ---- nothing is missing silently ------------------------------------------------------------
 */

static const char *const folders[] = {"",          "attention/", "decode/",
                                      "geometry/", "oracles/",   "values/"};

/* Policies without a golden file, and what holds them instead. A policy that no trace can
 * answer keeps nothing. */
static const char *const without[][2] = {
    {"full", "keeps everything: property/test_policies.c"},
    {"random", "its draws are its own: property/test_policies.c"},
    {"scores", "keeps what another program says: unit/test_replay_cases.c"},
};

static bool has_file(const char *folder, const char *policy)
{
    char path[512];
    int at = snprintf(path, sizeof path, "%s/tests/golden/%s", KVT_SOURCE_DIR, folder);
    snprintf(path + at, sizeof path - (size_t)at, "%s.csv", policy);
    for (char *c = path + at; *c; c++)
        *c = *c == '-' ? '_' : *c;
    FILE *f = fopen(path, "rb");
    if (f)
        fclose(f);
    return f != NULL;
}

static bool is_anywhere(const char *policy)
{
    bool found = false;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        found |= has_file(folders[i], policy);
    return found;
}

static bool needs_none(const kvt_policy *p)
{
    bool none = p->traits.exactness == KVT_NOT_REPLAYABLE;
    for (size_t i = 0; i < sizeof without / sizeof *without; i++)
        none |= strcmp(p->name, without[i][0]) == 0;
    return none;
}

static void every_policy_has_a_golden_file_or_a_reason(void **state)
{
    (void)state;
    for (int i = 0; kvt_policies()[i]; i++) {
        const kvt_policy *p = kvt_policies()[i];
        if (is_anywhere(p->name) == needs_none(p))
            fail_msg("%s: expected tests/golden/.../*.csv of that name or a reason for none, "
                     "got %s",
                     p->name, needs_none(p) ? "both" : "neither");
    }
    for (size_t i = 0; i < sizeof without / sizeof *without; i++)
        assert_non_null(kvt_policy_find(without[i][0]));
}

static int add_tests(struct CMUnitTest *tests, golden_cells *of, CMUnitTestFunction check)
{
    for (int i = 0; i < of->n; i++)
        tests[i] = (struct CMUnitTest){
            .name = of->cell[i].name, .test_func = check, .initial_state = &of->cell[i]};
    return of->n;
}

int main(void)
{
    static struct CMUnitTest tests[2 * GOLDEN_CELLS_MAX + 1];
    int n = 0;
    memory = papers.memory = presses.memory = kvt_arena_new((size_t)1 << 30);
    for (int i = 0; kvt_policies()[i]; i++) {
        const kvt_policy *p = kvt_policies()[i];
        /* what runs behind the prompt and what was learned: test_golden_probes.c,
         * test_golden_scored.c */
        if (p->traits.needs & (KVT_NEED_PROBE | KVT_NEED_WEIGHTS | KVT_NEED_DECISION))
            continue;
        if (has_file("", p->name))
            read_papers(p);
    }
    read_presses();
    n += add_tests(tests + n, &papers, keeps_the_published_set);
    n += add_tests(tests + n, &presses, keeps_what_the_press_keeps);
    tests[n++] =
        (struct CMUnitTest)cmocka_unit_test(every_policy_has_a_golden_file_or_a_reason);
    int failed = _cmocka_run_group_tests("policies", tests, (size_t)n, NULL, NULL);
    kvt_arena_free(memory);
    return failed;
}
