/* cost_choose.c - kvt cost --slo, --axis: limits, the winner and the front. */
#include "cli/cost_choose.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyze/choose.h"
#include "cli/cost_choose_json.h"
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

static kvt_code add_row(cli_table *t, const kvt_selection_row *r, bool limits, kvt_err *err)
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
        limits_of(r, limits),
    };
    return cli_table_row(t, cell, err);
}

static kvt_code print_table(cli *c, const kvt_selection_row *row, int64_t n, bool limits,
                            kvt_err *err)
{
    const char *const names[] = {"policy",  "growth", "budget", "lost mass", "ttft",   "tpot",
                                 "request", "peak",   "steady", "front",     "limits", NULL};
    static const cli_align align[] = {CLI_LEFT,  CLI_LEFT,  CLI_RIGHT, CLI_LEFT,
                                      CLI_RIGHT, CLI_RIGHT, CLI_RIGHT, CLI_RIGHT,
                                      CLI_RIGHT, CLI_LEFT,  CLI_LEFT};
    cli_table *t = cli_table_new(c, names, align);
    kvt_code code = t ? KVT_OK : kvt_fail_memory(err, sizeof names);
    for (int64_t i = 0; i < n && !code; i++)
        code = add_row(t, &row[i], limits, err);
    if (!code)
        code = cli_table_print(t, stdout, err);
    cli_table_free(t);
    return code;
}

/* ---- sentences -----------------------------------------------------------------------------
 */

static void print_margin(const kvt_selection *c, const kvt_winner *w)
{
    const kvt_difference *d = &w->margin;
    const kvt_selection_row *u;
    if (w->runner_up < 0) {
        printf("margin    no other policy meets the limits\n");
        return;
    }
    u = &c->row[w->runner_up];
    printf("margin    %s at %s (%s) loses %.4f more", u->policy_label, u->budget_asked,
           u->growth, d->mean);
    if (!isnan(d->lo))
        printf(" [%.4f %.4f]", d->lo, d->hi);
    if (d->separable)
        printf(": separable (p %.2g, %lld prompts)\n", d->p_value, (long long)d->n_trace);
    else if (d->kind == KVT_INTERVAL_PROMPTS && d->n_needed != KVT_EMPTY_INT)
        printf("; they cannot be told apart (p %.2g): about %lld prompts would be needed\n",
               d->p_value, (long long)d->n_needed);
    else
        printf("; %lld %s nothing\n", (long long)d->n_trace,
               d->n_trace == 1 ? "trace separates" : "traces separate");
}

static void print_winner(const kvt_selection *c, const kvt_winner *w)
{
    const kvt_selection_row *r = &c->row[w->row];
    printf("take      %s at %s (%s): of %lld that meet the limits it loses least, %.4f of the "
           "mass\n",
           r->policy_label, r->budget_asked, r->growth, (long long)w->n_meet,
           r->lost_mass_mean_frac);
    print_margin(c, w);
    if (!isnan(w->headroom_frac))
        printf("headroom  %.3g %% to the nearest limit\n", 100 * w->headroom_frac);
    if (!isnan(r->oracle_lost_mass_mean_frac))
        printf("limit     the best choice of as many slots would lose %.4f\n",
               r->oracle_lost_mass_mean_frac);
}

static void print_nearest(const kvt_selection_row *row, int64_t n, const kvt_slo *slo)
{
    const kvt_selection_row *best = NULL;
    double least = (double)INFINITY;
    for (int64_t i = 0; i < n; i++)
        if (choose_candidate(&row[i]) && (!best || slo_excess(&row[i], slo) < least)) {
            best = &row[i];
            least = slo_excess(best, slo);
        }
    if (best)
        printf("take      nothing meets the limits; nearest is %s at %s (%s): %s\n",
               best->policy_label, best->budget_asked, best->growth, best->missed);
    else
        printf("take      nothing: there are only bounds and controls\n");
}

/* The dense cache needs no policy. */
static void print_full(const kvt_selection_row *row, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (strcmp(row[i].policy, "full") == 0 && row[i].meets) {
            printf(
                "note      the full cache meets the limits, too: nothing has to be evicted\n");
            return;
        }
}

static void print_front(const kvt_selection_row *row, int64_t n, const char *axis)
{
    const char *comma = "";
    printf("front     of loss and %s:", axis);
    for (int64_t i = 0; i < n; i++)
        if (row[i].on_front) {
            printf("%s %s at %s", comma, row[i].policy_label, row[i].budget_asked);
            comma = ",";
        }
    printf("%s\n", *comma ? "" : " nothing");
}

/* Of rows that are ranked together one may hold more than its budget says. */
static void print_growths(const kvt_selection_row *row, int64_t n)
{
    for (int64_t i = 1; i < n; i++)
        if (strcmp(row[i].growth, row[0].growth) != 0) {
            printf("note      growth differs: on-top policies hold the decoded tokens beside "
                   "their budget, inside ones within it\n");
            return;
        }
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
    if (o->limits && w->row >= 0)
        print_winner(&o->made, w);
    else if (o->limits)
        print_nearest(row, n, &o->slo);
    if (o->limits)
        print_full(row, n);
    print_front(row, n, o->axis);
    print_growths(row, n);
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
