/* test_golden_attention.c - what policies of the prompt that read attention keep, token by
 * token, against numpy versions in double, written from the papers and the published code
 * (make_attention.py). Every cell of attention/NAME.csv is a test of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../mini.h"
#include "cells.h"
#include "scored.h"

enum { FIELDS = 9, KEY_FIELDS = 5, T_MAX = 512, TOYS_MAX = 8 };
/* toy, params, allocator (its parameters, or another one: "/ada:floor=0.5"), budget, act;
 * tokens, layer, lane, kept (">=" in front: these, and others up to the budget) */
enum { TOY, PARAMS, SHARE, BUDGET, ACT, TOKENS, LAYER, LANE, KEPT };

static const char *const policies[] = {
    "snapkv", "pyramidkv", "adakv",    "criticalkv", "defensivekv", "dropkv", "cake", "finch",
    "nacl",   "chunkkv",   "observed", "simlayerkv", "h2o",         "headkv", "duo",  "lukv"};

typedef golden_cell cell;

static golden_cells cells = {.n_field = FIELDS, .n_key = KEY_FIELDS};
static kvt_arena *memory;
static struct {
    const char *name;
    toy *toy;
} toys[TOYS_MAX];

static void read_cells(const kvt_policy *p)
{
    char name[64];
    int from = cells.n;
    snprintf(name, sizeof name, "attention/%s", p->name);
    golden_read(&cells, p, name);
    for (golden_cell *c = cells.cell + from; c < cells.cell + cells.n; c++)
        snprintf(c->name, sizeof c->name, "%s:%s%s%s b=%s %s %s", p->name, c->line[PARAMS],
                 *c->line[SHARE] ? " " : "", c->line[SHARE], c->line[BUDGET], c->line[ACT],
                 c->line[TOY]);
}

static toy *toy_of(const char *name)
{
    int i = 0;
    while (i < TOYS_MAX && toys[i].name && strcmp(toys[i].name, name) != 0)
        i++;
    assert_true(i < TOYS_MAX);
    if (!toys[i].name) {
        toys[i].toy = scored_new(memory, name);
        toys[i].name = name;
    }
    assert_non_null(toys[i].toy);
    return toys[i].toy;
}

static void check_line(char *const *f, const mini_result *r, const toy *t)
{
    uint8_t want[T_MAX] = {0};
    bool least = strncmp(f[KEPT], ">=", 2) == 0;
    const uint8_t *got = mini_held(r, t, atoi(f[TOKENS]), atoi(f[LAYER]), atoi(f[LANE]));
    int64_t other = 0, kept = 0;
    golden_runs(f[KEPT] + 2 * least, want);
    for (int64_t j = 0; j < t->T; j++) {
        other += least ? want[j] && !got[j] : want[j] != got[j];
        kept += got[j];
    }
    if (other == 0 && (!least || kept == atoll(f[BUDGET])))
        return;
    golden_print("expected", want, t->T);
    golden_print("got", got, t->T);
    fail_msg("after %s tokens, layer %s, lane %s", f[TOKENS], f[LAYER], f[LANE]);
}

/* "/ada:floor=0.5" */
static void choose_share(mini_spec *spec, const char *text)
{
    char name[32] = "";
    if (*text != '/') {
        spec->share_params = text;
        return;
    }
    size_t n = strcspn(text + 1, ":");
    snprintf(name, sizeof name, "%.*s", (int)n, text + 1);
    spec->share = kvt_share_find(name);
    spec->share_params = text[1 + n] ? text + 2 + n : "";
    assert_non_null(spec->share);
}

static void keeps_what_the_paper_says(void **state)
{
    const cell *c = *state;
    toy *t = toy_of(c->line[TOY]);
    size_t mark = kvt_arena_mark(memory);
    mini_result r;
    kvt_err err;
    mini_spec spec = {.trace = t,
                      .policy = c->policy,
                      .params = c->line[PARAMS],
                      .budget = atoll(c->line[BUDGET]),
                      .prefill_only = strcmp(c->line[ACT], "prefill") == 0};
    choose_share(&spec, c->line[SHARE]);
    if (mini_run(&r, &spec, memory, &err))
        fail_msg("%s", err.text);
    if (r.skipped || r.lacks)
        fail_msg("skipped: %s", r.lacks ? "the toy lacks something" : r.why);
    for (int i = 0; i < c->n_line; i++)
        check_line(c->line + i * FIELDS, &r, t);
    kvt_arena_rewind(memory, mark);
}

int main(void)
{
    cells.memory = memory = kvt_arena_new((size_t)1 << 31);
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++)
        read_cells(kvt_policy_find(policies[i]));
    for (int i = 0; i < cells.n; i++) /* the arena is rewound behind them */
        toy_of(cells.cell[i].line[TOY]);
    static struct CMUnitTest tests[GOLDEN_CELLS_MAX];
    for (int i = 0; i < cells.n; i++)
        tests[i] = (struct CMUnitTest){.name = cells.cell[i].name,
                                       .test_func = keeps_what_the_paper_says,
                                       .initial_state = &cells.cell[i]};
    int failed = _cmocka_run_group_tests("policies that read attention", tests, (size_t)cells.n,
                                         NULL, NULL);
    kvt_arena_free(memory);
    return failed;
}
