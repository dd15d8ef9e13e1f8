/* cost_choose.c - kvt cost --slo, --axis: limits, the winner and the front. */
#include "cli/cost_choose.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyze/choose.h"
#include "cli/cost_choose_json.h"
#include "cli/cost_choose_say.h"
#include "cli/table.h"

enum { CELL = 192 };

/* ---- the table -----------------------------------------------------------------------------
 */

static void print_heading(const kvt_selection_row *r)
{
    printf("%s on %s, %s, batch %lld, ", r->geometry, r->machine, r->profile,
           (long long)r->batch);
    if (r->prompt_tokens == KVT_EMPTY_INT)
        printf("prompts of several lengths (costs: the worst)\n");
    else
        printf("%lld tokens\n", (long long)r->prompt_tokens);
}

static const char *front_of(const kvt_selection_row *r)
{
    return r->is_bound ? "bound" : r->is_control ? "control" : r->on_front ? "*" : "";
}

static const char *limits_of(const kvt_selection_row *r, bool limits)
{
    if (r->is_winner)
        return "take";
    return !r->meets ? r->missed : limits ? "meets" : "";
}

/* "0.0123 [0.0100 0.0150]" */
static const char *with_interval(char out[CELL], const kvt_selection_row *r)
{
    if (isnan(r->lost_mass_mean_frac))
        snprintf(out, CELL, "-");
    else if (isnan(r->lost_mass_ci_lo_frac))
        snprintf(out, CELL, "%.4f", r->lost_mass_mean_frac);
    else
        snprintf(out, CELL, "%.4f [%.4f %.4f]", r->lost_mass_mean_frac, r->lost_mass_ci_lo_frac,
                 r->lost_mass_ci_hi_frac);
    return out;
}

/* Without limits the last column is of rows that do not fit, where there are some. */
static bool says_more(const kvt_selection_row *row, int64_t n, bool limits)
{
    for (int64_t i = 0; i < n; i++)
        limits |= row[i].fits == 0;
    return limits;
}

static kvt_code add_row(cli_table *t, const kvt_selection_row *r, bool limits, bool more,
                        kvt_err *err)
{
    char lost[CELL], ttft[CELL], tpot[CELL], request[CELL], peak[CELL], steady[CELL];
    const char *cell[12] = {
        r->policy_label,
        r->growth,
        r->budget_asked,
        with_interval(lost, r),
        slo_print(SLO_TIME, r->ttft_s, ttft, CELL),
        slo_print(SLO_TIME, r->tpot_s, tpot, CELL),
        slo_print(SLO_TIME, r->request_s, request, CELL),
        slo_print(SLO_BYTES, r->peak_bytes, peak, CELL),
        slo_print(SLO_BYTES, r->steady_bytes, steady, CELL),
        front_of(r),
        more ? limits_of(r, limits) : NULL,
    };
    return cli_table_row(t, cell, err);
}

static kvt_code print_table(cli *c, const kvt_selection_row *row, int64_t n, bool limits,
                            kvt_err *err)
{
    bool more = says_more(row, n, limits);
    const char *const names[] = {"policy",
                                 "growth",
                                 "budget",
                                 "lost mass",
                                 "ttft",
                                 "tpot",
                                 "request",
                                 "peak",
                                 "steady",
                                 "front",
                                 more ? "limits" : NULL,
                                 NULL};
    static const cli_align align[] = {CLI_LEFT,  CLI_LEFT,  CLI_RIGHT, CLI_LEFT,
                                      CLI_RIGHT, CLI_RIGHT, CLI_RIGHT, CLI_RIGHT,
                                      CLI_RIGHT, CLI_LEFT,  CLI_LEFT};
    cli_table *t = cli_table_new(c, names, align);
    kvt_code code = t ? KVT_OK : kvt_fail_memory(err, sizeof names);
    for (int64_t i = 0; i < n && !code; i++)
        code = add_row(t, &row[i], limits, more, err);
    if (!code)
        code = cli_table_print(t, stdout, err);
    cli_table_free(t);
    return code;
}

/* ---- all groups ----------------------------------------------------------------------------
 */

typedef struct choice {
    const kvt_results *results;
    kvt_selection made;
    kvt_slo slo;
    const char *axis;
    bool limits;
} choice;

static kvt_code print_group(cli *c, const choice *o, const kvt_winner *w, int64_t first,
                            int64_t next, kvt_err *err)
{
    const kvt_selection_row *row = &o->made.row[first];
    int64_t n = next - first;
    print_heading(row);
    if (print_table(c, row, n, o->limits, err))
        return err->code;
    printf("brackets  %s\n", row->interval);
    cli_choose_say(&o->made, w, first, next, o->limits ? &o->slo : NULL, o->axis);
    printf("\n");
    return KVT_OK;
}

/* Every group; `any`: whether something meets the limits somewhere. */
static kvt_code each_group(cli *c, const choice *o, bool *any, kvt_err *err)
{
    for (int64_t first = 0, next; first < o->made.n; first = next) {
        kvt_winner w;
        if (kvt_selection_winner(&w, &next, &o->made, first, o->results, &o->slo, c->ctx.seed,
                                 err))
            return err->code;
        *any |= w.row >= 0;
        kvt_code code = c->json ? cli_choose_json_winner(&o->made, &w, first, err)
                                : print_group(c, o, &w, first, next, err);
        if (code)
            return code;
    }
    return KVT_OK;
}

static kvt_code print_all(cli *c, const choice *o, kvt_err *err)
{
    bool any = false;
    if (c->json)
        cli_choose_json_begin(&o->made, o->axis);
    kvt_code code = each_group(c, o, &any, err);
    if (c->json && !code)
        cli_choose_json_end();
    if (!code && o->limits && !any)
        code = kvt_fail(err, KVT_NO, "no policy meets the limits");
    return code;
}

static kvt_code find_axis(kvt_cost_axis *out, const char *name, kvt_err *err)
{
    const char *const *names = kvt_cost_axis_names();
    for (int i = 0; names[i]; i++)
        if (strcmp(names[i], name) == 0) {
            *out = (kvt_cost_axis)i;
            return KVT_OK;
        }
    return kvt_fail(err, KVT_USAGE, "cost '%s': expected request, ttft, tpot, peak or steady",
                    name);
}

kvt_code cli_cost_choose(cli *c, const kvt_results *results, const kvt_cost_table *costs,
                         const char *slo_text, const char *axis_name, kvt_err *err)
{
    choice o = {.results = results,
                .axis = axis_name ? axis_name : "request",
                .limits = slo_text && *slo_text};
    kvt_cost_axis axis = KVT_AXIS_REQUEST;
    if (find_axis(&axis, o.axis, err))
        return err->code;
    slo_none(&o.slo);
    if (o.limits && kvt_slo_parse(&o.slo, slo_text, err))
        return err->code;
    if (kvt_selection_make(&o.made, results, costs, &o.slo, axis, c->ctx.seed, err))
        return err->code;
    kvt_code code = print_all(c, &o, err);
    kvt_selection_free(&o.made);
    return code;
}
