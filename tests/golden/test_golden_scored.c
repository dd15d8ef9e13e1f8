/* test_golden_scored.c - what policies with a learned score keep, token by token, against numpy
 * versions in double, written from the papers (make_scorers.py), and KVzap and Fast KVzip
 * against kvpress itself (make_kvpress_kvzap.py, make_kvpress_fast.py). Every cell of the CSV
 * files is a test of its own. */
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

enum { FIELDS = 8, KEY_FIELDS = 4, T_MAX = 256 };
/* toy, params, budget (or threshold), act; tokens, layer, lane, kept */
enum { TOY, PARAMS, LIMIT, ACT, TOKENS, LAYER, LANE, KEPT };

static const char *const policies[] = {
    "kvpop",  "kvpop-mlp",  "dms",         "kvzap", "kvp-supervised",
    "locret", "fast-kvzip", "foresightkv", "wg-kv", "trim-kv"};

typedef golden_cell cell;

static golden_cells cells = {.n_field = FIELDS, .n_key = KEY_FIELDS};
static kvt_arena *memory;

/* From NAME.csv, or from the file that is named. */
static void read_cells(const kvt_policy *p, const char *name)
{
    int from = cells.n;
    golden_read(&cells, p, name);
    for (golden_cell *c = cells.cell + from; c < cells.cell + cells.n; c++)
        snprintf(c->name, sizeof c->name, "%s:%s at %s %s %s", p->name, c->line[PARAMS],
                 c->line[LIMIT], c->line[ACT], c->line[TOY]);
}

static void keeps_what_the_paper_says(void **state)
{
    const cell *c = *state;
    size_t mark = kvt_arena_mark(memory);
    bool by_threshold = c->policy->traits.by_threshold;
    toy *t = scored_new(memory, c->line[TOY]);
    mini_result r;
    kvt_err err;
    assert_non_null(t);
    mini_spec spec = {.trace = t,
                      .policy = c->policy,
                      .params = c->line[PARAMS],
                      .budget = by_threshold ? t->T : atoll(c->line[LIMIT]),
                      .threshold = by_threshold ? atof(c->line[LIMIT]) : 0,
                      .prefill_only = strcmp(c->line[ACT], "prefill") == 0};
    if (mini_run(&r, &spec, memory, &err))
        fail_msg("%s", err.text);
    if (r.skipped || r.lacks)
        fail_msg("skipped: %s", r.why);
    for (int i = 0; i < c->n_line; i++) {
        char *const *f = c->line + i * FIELDS;
        uint8_t want[T_MAX] = {0};
        const uint8_t *got = mini_held(&r, t, atoi(f[TOKENS]), atoi(f[LAYER]), atoi(f[LANE]));
        golden_runs(f[KEPT], want);
        if (memcmp(want, got, (size_t)t->T) != 0) {
            golden_print("expected", want, t->T);
            golden_print("got", got, t->T);
            fail_msg("after %s tokens, layer %s, lane %s", f[TOKENS], f[LAYER], f[LANE]);
        }
    }
    kvt_arena_rewind(memory, mark);
}

int main(void)
{
    cells.memory = memory = kvt_arena_new((size_t)1 << 30);
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++)
        read_cells(kvt_policy_find(policies[i]), NULL);
    read_cells(kvt_policy_find("kvzap"), "kvpress_kvzap");
    read_cells(kvt_policy_find("fast-kvzip"), "kvpress_fast");
    static struct CMUnitTest tests[GOLDEN_CELLS_MAX];
    for (int i = 0; i < cells.n; i++)
        tests[i] = (struct CMUnitTest){.name = cells.cell[i].name,
                                       .test_func = keeps_what_the_paper_says,
                                       .initial_state = &cells.cell[i]};
    int failed = _cmocka_run_group_tests("learned scores", tests, (size_t)cells.n, NULL, NULL);
    kvt_arena_free(memory);
    return failed;
}
