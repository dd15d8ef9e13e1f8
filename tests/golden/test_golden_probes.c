/* test_golden_probes.c - what policies with a probe keep, token by token, against numpy
 * versions written from the papers and the published code (make_probes.py), and KVzip against
 * kvpress itself (make_kvpress_kvzip.py). Every cell of the CSV files is a test of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cells.h"
#include "probes.h"

enum { N_MAX = 512, FIELDS = 6 }; /* rule, params, budget, layer, lane, kept */

typedef golden_cell cell;

static golden_cells cells = {.n_field = FIELDS, .n_key = 3};
static kvt_arena *memory;

/* From NAME.csv, or from the file that is named. */
static void read_cells(const kvt_policy *p, const char *name)
{
    int from = cells.n;
    golden_read(&cells, p, name);
    for (golden_cell *c = cells.cell + from; c < cells.cell + cells.n; c++)
        snprintf(c->name, sizeof c->name, "%s:%s b=%s %s%s", p->name, c->line[1], c->line[2],
                 c->line[0], name ? " kvpress" : "");
}

/* The rule of the engine: pinned ones, then the best, of equals the lower position. */
static void keep_best(bool *keep, const float *score, const bool *pinned, int64_t n, int64_t k)
{
    for (int64_t s = 0; s < n; s++)
        k -= keep[s] = pinned[s];
    for (; k > 0; k--) {
        int64_t best = -1;
        for (int64_t s = 0; s < n; s++)
            if (!keep[s] && (best < 0 || score[s] > score[best]))
                best = s;
        keep[best] = true;
    }
}

static void run(bool **keep, const cell *c, const void *params, probes *p, kvt_lane *lane,
                int n_lane, const kvt_traits *traits)
{
    const kvt_policy *policy = c->policy;
    int64_t budget = atoll(c->line[2]);
    float **score = kvt_arena_array(memory, n_lane, sizeof *score);
    bool **pinned = kvt_arena_array(memory, n_lane, sizeof *pinned);
    int64_t *share = kvt_arena_array(memory, n_lane, sizeof *share);
    for (int i = 0; i < n_lane; i++) {
        score[i] = kvt_arena_array(memory, p->N, sizeof **score);
        pinned[i] = kvt_arena_array(memory, p->N, sizeof **pinned);
        keep[i] = kvt_arena_array(memory, p->N, sizeof **keep);
        share[i] = budget;
        if (policy->step)
            policy->step(params, &lane[i]);
        policy->score(params, score[i], pinned[i], &lane[i]);
    }
    int each = traits->scope == KVT_BY_MODEL ? n_lane : 1;
    for (int i = 0; i < n_lane; i += each) {
        if (policy->select)
            policy->select(params, keep + i, lane + i, each, (const float *const *)score + i,
                           (const bool *const *)pinned + i, share + i);
        else
            keep_best(keep[i], score[i], pinned[i], p->N, budget);
    }
}

static void check_line(char *const *f, const bool *keep, int64_t n)
{
    bool want[N_MAX] = {0};
    for (const char *c = f[5]; *c;) {
        char *end;
        long from = strtol(c, &end, 10), to = *end == '-' ? strtol(end + 1, &end, 10) : from;
        for (long j = from; j <= to; j++)
            want[j] = true;
        c = end + (*end == ' ');
    }
    for (int64_t j = 0; j < n; j++)
        if (want[j] != keep[j])
            fail_msg("layer %s, lane %s: token %lld is %s", f[3], f[4], (long long)j,
                     keep[j] ? "kept, expected to go" : "gone, expected to be kept");
}

static void keeps_the_published_set(void **state)
{
    const cell *c = *state;
    const kvt_policy *policy = c->policy;
    size_t mark = kvt_arena_mark(memory);
    kvt_err err;
    char why[160];
    probes *p = probes_new(memory, c->line[0]);
    void *params = kvt_arena_get(memory, policy->params_size);
    kvt_traits traits = policy->traits;
    kvt_param_defaults(policy->params, params);
    if (*c->line[1])
        assert_int_equal(kvt_param_parse(policy->params, params, c->line[1], &err), KVT_OK);
    if (policy->vary)
        policy->vary(params, &traits);
    assert_true(!policy->fits ||
                policy->fits(params, atoll(c->line[2]), p->N, why, sizeof why));
    int n_lane;
    int64_t window = policy->window ? policy->window(params, p->N) : 0;
    kvt_lane *lane = probes_lanes(memory, p, &traits, window, &n_lane);
    bool **keep = kvt_arena_array(memory, n_lane, sizeof *keep);
    run(keep, c, params, p, lane, n_lane, &traits);
    assert_int_equal(c->n_line, n_lane);
    for (int i = 0; i < n_lane; i++)
        check_line(c->line + i * FIELDS, keep[i], p->N);
    kvt_arena_rewind(memory, mark);
}

int main(void)
{
    cells.memory = memory = kvt_arena_new((size_t)1 << 30);
    for (int i = 0; kvt_policies()[i]; i++)
        if (kvt_policies()[i]->traits.needs & KVT_NEED_PROBE)
            read_cells(kvt_policies()[i], NULL);
    read_cells(kvt_policy_find("kvzip"), "kvpress_kvzip");
    static struct CMUnitTest tests[GOLDEN_CELLS_MAX];
    for (int i = 0; i < cells.n; i++)
        tests[i] = (struct CMUnitTest){.name = cells.cell[i].name,
                                       .test_func = keeps_the_published_set,
                                       .initial_state = &cells.cell[i]};
    int failed =
        _cmocka_run_group_tests("policies with a probe", tests, (size_t)cells.n, NULL, NULL);
    kvt_arena_free(memory);
    return failed;
}
