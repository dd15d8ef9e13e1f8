/* cost_choose.c - kvt cost --slo, --axis: limits, the winner and the front. */
#include "cli/cost_choose.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyze/choose.h"
#include "cli/cost_choose_json.h"
#include "cli/cost_choose_say.h"
#include "cli/cost_table.h"
#include "cli/table.h"

enum { CELL = 192 };

/* ---- the table -----------------------------------------------------------------------------
 */

static void print_heading(const kvt_selection_row *r)
{
    printf("%s on %s, %s, batch %lld, ", r->geometry, r->machine, r->profile,
           (long long)r->batch);
    if (r->prompt_tokens == KVT_EMPTY_INT)
        printf("several lengths (costs of the worst)\n");
    else
        printf("%lld tokens\n", (long long)r->prompt_tokens);
}

static bool is_dense(const kvt_selection_row *r)
{
    return strcmp(r->policy, "full") == 0;
}

/* Limits are nothing to an oracle and to a control; the dense cache could be taken. */
static bool is_apart(const kvt_selection_row *r)
{
    return (r->is_bound || r->is_control) && !is_dense(r);
}

/* Whether it may be taken, and why not. */
static const char *verdict(const kvt_selection_row *r, bool limits)
{
    if (r->is_winner)
        return "take";
    if (is_apart(r))
        return r->is_bound ? "bound" : "control";
    return !r->meets ? "no" : limits ? "yes" : "";
}

/* An end of an interval, without the 0 in front of its point. */
static const char *end_of(char *out, double x)
{
    snprintf(out, CELL, "%.3f", x);
    return out + (out[0] == '0');
}

/* "0.0123 [.010 .015]" */
static const char *with_interval(char out[CELL], const kvt_selection_row *r)
{
    char lo[CELL], hi[CELL];
    if (isnan(r->lost_mass_mean_frac))
        snprintf(out, CELL, "-");
    else if (isnan(r->lost_mass_ci_lo_frac))
        snprintf(out, CELL, "%.4f", r->lost_mass_mean_frac);
    else
        snprintf(out, CELL, "%.4f [%.20s %.20s]", r->lost_mass_mean_frac,
                 end_of(lo, r->lost_mass_ci_lo_frac), end_of(hi, r->lost_mass_ci_hi_frac));
    return out;
}

/* What a table shows of its rows: costs that a limit or the front is about. */
typedef struct shown {
    bool limits, request, steady, grows, misses;
} shown;

/* "expected-attention *": on the front. */
static const char *label_of(char out[CELL], const kvt_selection_row *r)
{
    snprintf(out, CELL, "%.180s%s", r->policy_label, r->on_front ? " *" : "");
    return out;
}

/* "10%+": decoded tokens come on top. The dense cache has no budget. */
static const char *budget_of(char out[CELL], const kvt_selection_row *r, bool grows)
{
    bool on_top = grows && strcmp(r->growth, "on-top") == 0;
    snprintf(out, CELL, "%s%s", is_dense(r) ? "all" : r->budget_asked,
             on_top && !is_dense(r) ? "+" : "");
    return out;
}

static kvt_code add_row(cli_table *t, const kvt_selection_row *r, const shown *o, kvt_err *err)
{
    char text[8][CELL];
    const char *cell[12] = {label_of(text[0], r), budget_of(text[1], r, o->grows),
                            with_interval(text[2], r),
                            slo_print(SLO_TIME, r->ttft_s, text[3], CELL),
                            slo_print(SLO_TIME, r->tpot_s, text[4], CELL)};
    int n = 5;
    if (o->request)
        cell[n++] = slo_print(SLO_TIME, r->request_s, text[5], CELL);
    cell[n++] = slo_print(SLO_BYTES, r->peak_bytes, text[6], CELL);
    if (o->steady)
        cell[n++] = slo_print(SLO_BYTES, r->steady_bytes, text[7], CELL);
    cell[n++] = verdict(r, o->limits);
    cell[n++] = !o->misses ? NULL : is_apart(r) ? "" : r->missed;
    return cli_table_row(t, cell, err);
}

/* The dense cache is one row, whatever the budgets of the replay. */
static kvt_code add_rows(cli_table *t, const kvt_selection_row *row, int64_t n, const shown *o,
                         kvt_err *err)
{
    bool dense = false;
    for (int64_t i = 0; i < n; i++) {
        if (!(dense && is_dense(&row[i])) && add_row(t, &row[i], o, err))
            return err->code;
        dense |= is_dense(&row[i]);
    }
    return KVT_OK;
}

static kvt_code print_table(cli *c, const kvt_selection_row *row, int64_t n, const shown *o,
                            kvt_err *err)
{
    const char *names[12] = {"policy", "budget", "lost mass", "ttft", "tpot"};
    cli_align align[12] = {CLI_LEFT, CLI_RIGHT, CLI_LEFT, CLI_RIGHT, CLI_RIGHT};
    int k = 5;
    if (o->request)
        names[k] = "request", align[k++] = CLI_RIGHT;
    names[k] = "peak", align[k++] = CLI_RIGHT;
    if (o->steady)
        names[k] = "steady", align[k++] = CLI_RIGHT;
    names[k] = o->limits ? "meets" : "", align[k++] = CLI_LEFT;
    int head = k;
    names[k] = o->misses ? "misses" : NULL, align[k++] = CLI_LEFT;
    cli_table *t = cli_table_new(c, names, align);
    kvt_code code = t ? add_rows(t, row, n, o, err) : kvt_fail_memory(err, sizeof names);
    if (t)
        cli_table_narrow(t, head);
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
    shown shown;
} choice;

static bool grows_apart(const kvt_selection_row *row, int64_t n)
{
    for (int64_t i = 1; i < n; i++)
        if (strcmp(row[i].growth, row[0].growth) != 0)
            return true;
    return false;
}

static bool any_misses(const kvt_selection_row *row, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (row[i].missed[0] && !is_apart(&row[i]))
            return true;
    return false;
}

static kvt_code print_group(cli *c, const choice *o, const kvt_winner *w, int64_t first,
                            int64_t next, kvt_err *err)
{
    const kvt_selection_row *row = &o->made.row[first];
    int64_t n = next - first;
    shown s = o->shown;
    s.grows = grows_apart(row, n);
    s.misses = any_misses(row, n);
    print_heading(row);
    if (print_table(c, row, n, &s, err))
        return err->code;
    printf("brackets  %s\n", row->interval);
    cli_choose_say(&o->made, w, first, next, s.limits ? &o->slo : NULL, o->axis);
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
    if (!code && o->shown.limits && !any)
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

/* A request's time and the steady memory stand in the table where something is about them. */
static void show_costs(shown *out, const kvt_slo *slo, kvt_cost_axis axis, bool asked)
{
    out->request =
        !isnan(slo->request_s) || (axis == KVT_AXIS_REQUEST && (asked || !out->limits));
    out->steady = !isnan(slo->steady_bytes) || axis == KVT_AXIS_STEADY;
}

kvt_code cli_cost_choose(cli *c, const kvt_results *results, const kvt_cost_table *costs,
                         const char *slo_text, const char *axis_name, const char *csv,
                         kvt_err *err)
{
    choice o = {.results = results,
                .axis = axis_name ? axis_name : "request",
                .shown.limits = slo_text != NULL};
    kvt_cost_axis axis = KVT_AXIS_REQUEST;
    if (find_axis(&axis, o.axis, err))
        return err->code;
    slo_none(&o.slo);
    if (o.shown.limits && kvt_slo_parse(&o.slo, slo_text, err))
        return err->code;
    show_costs(&o.shown, &o.slo, axis, axis_name != NULL);
    if (kvt_selection_make(&o.made, results, costs, &o.slo, axis, c->ctx.seed, err))
        return err->code;
    kvt_table table = kvt_selection_table(&o.made);
    kvt_code code = csv ? cli_cost_csv(c, &table, csv, err) : KVT_OK;
    if (!code)
        code = print_all(c, &o, err);
    kvt_selection_free(&o.made);
    return code;
}
