/* test_golden_presses.c - what policies keep under compat=kvpress, slot by slot, against the
 * presses of kvpress themselves (make_kvpress_more.py). Where kvt means to keep another set,
 * the file names the slots exchanged and quotes why; the quote must stand in what kvt says of
 * the policy. Every cell is a test of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/replay.h"
#include "../mini.h"
#include "cells.h"
#include "presses.h"

enum { FIELDS = 12, KEY_FIELDS = 6, T_MAX = 256 };
enum { TOY, POLICY, PARAMS, SHARE, SHARE_PARAMS, BUDGET, LAYER, LANE, KEPT, LOST, GAINED, WHY };
enum { RULE_TOKENS, RULE_SHARE, RULE_KEPT, RULE_FIELDS };

typedef golden_cell cell;

static golden_cells cells = {.n_field = FIELDS, .n_key = KEY_FIELDS};
static kvt_arena *memory;
static int n_same, n_explained, n_unexplained;

/* "3-5 9": these become `value`, and were the other one before. */
static void put_runs(const char *text, uint8_t *mask, uint8_t value)
{
    for (const char *c = text; *c;) {
        char *end;
        long from = strtol(c, &end, 10), to = *end == '-' ? strtol(end + 1, &end, 10) : from;
        for (long j = from; j <= to; j++) {
            assert_int_equal(mask[j], !value);
            mask[j] = value;
        }
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

/* Whether kvt itself says so of the policy: in `differs`, or of one of its variants. */
static bool says(const kvt_policy *p, const char *why)
{
    if (strstr(p->differs, why))
        return true;
    const kvt_param *compat = p->params ? kvt_param_find(p->params, "compat") : NULL;
    for (int i = 0; compat && i <= (int)compat->max; i++)
        if (strstr(compat->choices[i].help, why))
            return true;
    return false;
}

/* The set that kvt should keep: kvpress's, but for the slots that are explained. */
static void check_lane(const kvt_policy *p, char *const *f, const uint8_t *got, int64_t n)
{
    uint8_t want[T_MAX] = {0};
    bool other = *f[LOST] || *f[GAINED];
    put_runs(f[KEPT], want, 1);
    put_runs(f[LOST], want, 0);
    put_runs(f[GAINED], want, 1);
    if (memcmp(want, got, (size_t)n) != 0) {
        n_unexplained++;
        print_set("kvpress", want, n);
        print_set("got", got, n);
        fail_msg("layer %s, lane %s: another set", f[LAYER], f[LANE]);
    }
    assert_int_equal(other, *f[WHY] != 0);
    if (other && !says(p, f[WHY])) {
        n_unexplained++;
        fail_msg("%s says nowhere: %s", p->name, f[WHY]);
    }
    *(other ? &n_explained : &n_same) += 1;
}

/* kvt says why it does nothing, where the press keeps all. */
static void check_refusal(const cell *c, const mini_result *r, int64_t n)
{
    for (int i = 0; i < c->n_line; i++) {
        char *const *f = c->line + i * FIELDS;
        uint8_t all[T_MAX] = {0};
        if (!*f[WHY] || !strstr(r->why, f[WHY]))
            fail_msg("skipped: %s", r->why);
        put_runs(f[KEPT], all, 1);
        for (int64_t j = 0; j < n; j++)
            assert_true(all[j]);
        n_explained++;
    }
}

static void keeps_what_the_press_keeps(void **state)
{
    const cell *c = *state;
    char *const *f = c->line;
    size_t mark = kvt_arena_mark(memory);
    toy *t = presses_new(memory, f[TOY]);
    mini_result r;
    kvt_err err;
    assert_non_null(t);
    mini_spec spec = {.trace = t,
                      .policy = kvt_policy_find(f[POLICY]),
                      .share = *f[SHARE] ? kvt_share_find(f[SHARE]) : NULL,
                      .params = f[PARAMS],
                      .share_params = *f[SHARE_PARAMS] ? f[SHARE_PARAMS] : NULL,
                      .budget = atoll(f[BUDGET]),
                      .prefill_only = true};
    assert_non_null(spec.policy);
    if (mini_run(&r, &spec, memory, &err))
        fail_msg("%s", err.text);
    if (r.skipped)
        check_refusal(c, &r, t->N);
    for (int i = 0; !r.skipped && i < c->n_line; i++, f += FIELDS)
        check_lane(spec.policy, f, mini_held(&r, t, 0, atoi(f[LAYER]), atoi(f[LANE])), t->T);
    kvt_arena_rewind(memory, mark);
}

/* ThinK: channels of a lane's keys instead of slots. */
static void keeps_the_channels(void **state)
{
    const cell *c = *state;
    size_t mark = kvt_arena_mark(memory);
    toy *t = presses_new(memory, c->line[TOY]);
    const kvt_policy *p = kvt_policy_find(c->line[POLICY]);
    kvt_err err;
    _Alignas(max_align_t) char params[256];
    assert_true(p->params_size <= sizeof params);
    kvt_param_defaults(p->params, params);
    if (kvt_param_parse(p->params, params, c->line[PARAMS], &err))
        fail_msg("%s", err.text);
    int64_t R = t->n_head / t->n_group, W = p->window(params, t->N), D = PRESSES_D;
    for (int i = 0; i < c->n_line; i++) {
        char *const *f = c->line + i * FIELDS;
        const kvt_feed *feed = &t->more[atoi(f[LAYER])];
        int g = atoi(f[LANE]);
        kvt_lane lane = {
            .n_slot = t->N, .scratch = memory, .keys = kvt_view_at(&feed->keys, g)};
        lane.keys.dim[0] = t->N;
        lane.queries = feed->queries;
        lane.queries.data = (const float *)feed->queries.data +
                            g * R * feed->queries.stride[0] +
                            (t->N - W) * feed->queries.stride[1];
        lane.queries.dim[0] = R, lane.queries.dim[1] = W;
        float score[PRESSES_D] = {0};
        bool pinned[PRESSES_D] = {0}, keep[PRESSES_D] = {0};
        p->score(params, score, pinned, &lane);
        p->select(params, &(bool *){keep}, &lane, 1, &(const float *){score},
                  &(const bool *){pinned}, &D);
        uint8_t got[PRESSES_D];
        for (int d = 0; d < PRESSES_D; d++)
            got[d] = keep[d];
        check_lane(p, f, got, D);
    }
    kvt_arena_rewind(memory, mark);
}

/* As many slots as compute_n_kept() gives: the IEEE product, at least 1. */
static void counts_as_kvpress(void **state)
{
    (void)state;
    static golden_cells rule = {.n_field = RULE_FIELDS, .n_key = RULE_FIELDS};
    rule.memory = memory;
    golden_read(&rule, NULL, "kvpress_rule");
    assert_true(rule.n > 50);
    for (int i = 0; i < rule.n; i++) {
        char *const *f = rule.cell[i].line;
        kvt_budget b[KVT_BUDGETS_MAX];
        int n;
        kvt_err err;
        if (kvt_budgets_parse(b, &n, f[RULE_SHARE], &err))
            fail_msg("%s", err.text);
        int64_t N = atoll(f[RULE_TOKENS]), kept = atoll(f[RULE_KEPT]);
        assert_int_equal(kvt_budget_tokens(b, KVT_RULE_FLOOR_MIN1, N, 1, 1), kept);
        int64_t plain = kvt_budget_tokens(b, KVT_RULE_FLOOR_IEEE, N, 1, 1);
        assert_true(plain == kept || (plain == 0 && kept == 1));
    }
}

int main(void)
{
    cells.memory = memory = kvt_arena_new((size_t)1 << 30);
    golden_read(&cells, NULL, "kvpress_more");
    static struct CMUnitTest tests[GOLDEN_CELLS_MAX + 1];
    int n = 0;
    for (golden_cell *c = cells.cell; c < cells.cell + cells.n; c++) {
        char *const *f = c->line;
        snprintf(c->name, sizeof c->name, "%s%s%s:%s%s%s b=%s %s", f[POLICY],
                 *f[SHARE] ? "/" : "", f[SHARE], f[PARAMS], *f[SHARE_PARAMS] ? "," : "",
                 f[SHARE_PARAMS], f[BUDGET], f[TOY]);
        bool slots = strcmp(f[POLICY], "think") != 0;
        tests[n++] = (struct CMUnitTest){.name = c->name,
                                         .test_func = slots ? keeps_what_the_press_keeps
                                                            : keeps_the_channels,
                                         .initial_state = c};
    }
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(counts_as_kvpress);
    int failed = _cmocka_run_group_tests("kvpress", tests, (size_t)n, NULL, NULL);
    printf("%d lanes as kvpress, %d with explained differences, unexplained differences: %d\n",
           n_same, n_explained, n_unexplained);
    kvt_arena_free(memory);
    return failed + n_unexplained;
}
