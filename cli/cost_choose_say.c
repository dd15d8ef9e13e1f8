/* cost_choose_say.c - what follows from a choice, in sentences. */
#include "cli/cost_choose_say.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyze/choose.h"

/* What the winner's loss is worth, where that is not all. */
static void print_class(const kvt_selection_row *r)
{
    for (int e = KVT_EXACT + 1; e <= KVT_NOT_REPLAYABLE; e++)
        if (!strcmp(r->exactness, kvt_exactness_name((kvt_exactness)e)))
            printf("class     %s: %s\n", r->exactness, kvt_exactness_help((kvt_exactness)e));
}

static void print_margin(const kvt_selection *c, const kvt_winner *w)
{
    const kvt_difference *d = &w->margin;
    const kvt_selection_row *u;
    if (w->runner_up < 0) {
        printf("margin    no other policy meets the limits\n");
        return;
    }
    u = &c->row[w->runner_up];
    /* Over the traces that both have; the means above may be of more. */
    printf("margin    %s at %s (%s) loses %.4f %s", u->policy_label, u->budget_asked, u->growth,
           fabs(d->mean), d->mean < 0 ? "less over the traces of both" : "more");
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
    print_class(r);
    print_margin(c, w);
    if (!isnan(w->headroom_frac))
        printf("headroom  %.3g %% below the nearest limit\n", 100 * w->headroom_frac);
    if (!isnan(r->oracle_lost_mass_mean_frac))
        printf("oracle    the best choice of as many slots would lose %.4f\n",
               r->oracle_lost_mass_mean_frac);
}

/* Passes its limits by less; of what memory does not hold, the smaller one. */
static bool is_nearer(const kvt_selection_row *a, const kvt_selection_row *b,
                      const kvt_slo *slo)
{
    double x = slo_excess(a, slo), y = slo_excess(b, slo);
    return x < y || (isinf(x) && isinf(y) && a->peak_bytes < b->peak_bytes);
}

static void print_nearest(const kvt_selection_row *row, int64_t n, const kvt_slo *slo)
{
    const kvt_selection_row *best = NULL;
    for (int64_t i = 0; i < n; i++)
        if (choose_candidate(&row[i]) && (!best || is_nearer(&row[i], best, slo)))
            best = &row[i];
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
    printf("front     * of loss and %s, no other one has less of both:", axis);
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
            printf("note      +: decoded tokens come on top of this budget; elsewhere they "
                   "count in it (inside)\n");
            return;
        }
}

/* A policy that some traces had no cell of is judged by other prompts than the rest. */
static void print_traces(const kvt_selection_row *row, int64_t n)
{
    int64_t most = 0, fewer = 0;
    const kvt_selection_row *first = NULL;
    for (int64_t i = 0; i < n; i++)
        most = row[i].traces_count > most ? row[i].traces_count : most;
    for (int64_t i = 0; i < n; i++)
        if (choose_candidate(&row[i]) && row[i].traces_count < most) {
            first = first ? first : &row[i];
            fewer++;
        }
    if (first)
        printf(
            "note      %lld %s over fewer traces than the %lld of the others, first %s at %s "
            "(%lld): the losses are of other prompts\n",
            (long long)fewer, fewer == 1 ? "row is" : "rows are", (long long)most,
            first->policy_label, first->budget_asked, (long long)first->traces_count);
}

void cli_choose_say(const kvt_selection *c, const kvt_winner *w, int64_t first, int64_t next,
                    const kvt_slo *limits, const char *axis)
{
    const kvt_selection_row *row = &c->row[first];
    int64_t n = next - first;
    if (limits && w->row >= 0)
        print_winner(c, w);
    else if (limits)
        print_nearest(row, n, limits);
    if (limits)
        print_full(row, n);
    print_front(row, n, axis);
    print_growths(row, n);
    print_traces(row, n);
}
