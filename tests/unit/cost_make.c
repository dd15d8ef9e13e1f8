/* cost_make.c - specs, tables and sums for tests of the table of costs. */
#include "tests/unit/cost_make.h"

#include <math.h>

#include "tests/check.h"

kvt_machine machine[2];
kvt_cost_geometry llama, smol;

static const kvt_cost_profile both[] = {KVT_PROFILE_FUSED, KVT_PROFILE_AS_PUBLISHED};

kvt_cost_spec spec_of(const char *policies, const char *budgets)
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

kvt_cost_table make(const kvt_cost_spec *spec)
{
    kvt_cost_table t;
    kvt_err err;
    CHECK_OK(kvt_cost_make(&t, spec, NULL, &err), &err);
    return t;
}

void refuses(const kvt_cost_spec *spec, kvt_code want, const char *text)
{
    kvt_cost_table t;
    kvt_err err;
    CHECK_FAILS(kvt_cost_make(&t, spec, NULL, &err), want, text, &err);
    assert_int_equal(t.n, 0);
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

double value(const kvt_cost_row *r, const char *column)
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

void check_sums(const kvt_cost_row *r)
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
