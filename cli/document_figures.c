/* document_figures.c - the parts of docs/cost.md that compare with other people's numbers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/document.h"
#include "kvt/arena.h"
#include "kvt/cost.h"

const char *document_number(char *out, size_t n, double x)
{
    int digits = 3;
    for (double size = fabs(x); size >= 10 && digits > 0; size /= 10)
        digits--;
    for (double size = fabs(x); size > 0 && size < 1 && digits < 8; size *= 10)
        digits++;
    snprintf(out, n, isnan(x) ? "-" : "%.*f", digits, x);
    return out;
}

/* As it was printed, or four digits of a quotient of what was. */
static const char *printed(char *out, size_t n, double x)
{
    snprintf(out, n, x < 1 ? "%.4g" : "%.6g", x);
    return out;
}

static double difference(const kvt_figure *f)
{
    return f->predicted / f->published - 1;
}

/* ---- the figures ---------------------------------------------------------------------------
 */

typedef struct figures {
    kvt_figure *at;
    int n;
} figures;

static bool open_figures(figures *out)
{
    out->n = kvt_cost_figures(NULL, 0);
    out->at = kvt_alloc(out->n, sizeof *out->at);
    if (out->at)
        kvt_cost_figures(out->at, out->n);
    return out->at != NULL;
}

/* A calculation beside a calculation: nobody measured it. */
static bool is_second(const kvt_figure *f)
{
    return !strcmp(f->id, "G28") || !strcmp(f->id, "G29");
}

static bool same_table(const kvt_figure *a, const kvt_figure *b)
{
    return !strcmp(a->id, b->id) && !strcmp(a->group, b->group) && !strcmp(a->unit, b->unit);
}

/* One past the rows of the table that begins at `first`. */
static int end_of(const figures *f, int first)
{
    int i = first + 1;
    while (i < f->n && same_table(&f->at[first], &f->at[i]))
        i++;
    return i;
}

static const char *percent(char *out, size_t n, double x)
{
    if (fabs(x) < 5e-5)
        snprintf(out, n, "0.00 %%");
    else
        snprintf(out, n, "%+.*f %%", fabs(x) < 0.0995 ? 2 : 1, 100 * x);
    return out;
}

/* "yes", "no" or "some": whether constants were fitted to these rows. */
static const char *fitted(const figures *f, int first, int end)
{
    int held = 0;
    if (is_second(&f->at[first]))
        return "-";
    for (int i = first; i < end; i++)
        held += f->at[i].held_out;
    return held == 0 ? "yes" : held == end - first ? "no" : "some";
}

void document_figures_summary(FILE *out)
{
    figures f;
    if (!open_figures(&f))
        return;
    document_header(out,
                    (const char *const[]){"figure", "what", "cells", "profile", "fitted to it",
                                          "mean difference", "largest"},
                    7);
    for (int i = 0, end; i < f.n; i = end) {
        double sum = 0, most = 0;
        char cells[16], mean[32], largest[32];
        end = end_of(&f, i);
        for (int k = i; k < end; k++) {
            double d = difference(&f.at[k]);
            sum += fabs(d);
            most = fabs(d) > fabs(most) ? d : most;
        }
        snprintf(cells, sizeof cells, "%d", end - i);
        snprintf(mean, sizeof mean, "%.2f %%", 100 * sum / (end - i));
        document_row(out,
                     (const char *const[]){f.at[i].id, f.at[i].group, cells, f.at[i].profile,
                                           fitted(&f, i, end), mean,
                                           percent(largest, sizeof largest, most)},
                     7);
    }
    kvt_free(f.at);
}

static bool one_source(const figures *f, int first, int end)
{
    for (int i = first; i < end; i++)
        if (strcmp(f->at[i].source, f->at[first].source))
            return false;
    return true;
}

static void put_table(FILE *out, const figures *f, int first, int end)
{
    const kvt_figure *head = &f->at[first];
    bool one = one_source(f, first, end), second = is_second(head);
    fprintf(out, "%s### %s: ", first ? "\n" : "", head->id);
    document_put(out, head->group);
    fputs("\n\n", out);
    document_line(out, "unit", head->unit);
    document_line(out, "profile", head->profile);
    if (one)
        document_line(out, "source", head->source);
    fputc('\n', out);
    document_header(out,
                    (const char *const[]){"what", second ? "calculated" : "published",
                                          "predicted", "difference", "allowed", "fitted to it",
                                          "source"},
                    one ? 6 : 7);
    for (int i = first; i < end; i++) {
        const kvt_figure *r = &f->at[i];
        char a[32], b[32], d[32], least[32], most[32], bounds[80];
        document_number(least, sizeof least, r->least);
        document_number(most, sizeof most, r->most);
        snprintf(bounds, sizeof bounds, r->least == r->most ? "exact" : "%s to %s", least,
                 most);
        document_row(out,
                     (const char *const[]){r->what, printed(a, sizeof a, r->published),
                                           document_number(b, sizeof b, r->predicted),
                                           percent(d, sizeof d, difference(r)), bounds,
                                           second        ? "-"
                                           : r->held_out ? "no"
                                                         : "yes",
                                           r->source},
                     one ? 6 : 7);
    }
}

void document_figures(FILE *out)
{
    figures f;
    if (!open_figures(&f))
        return;
    for (int i = 0, end; i < f.n; i = end) {
        end = end_of(&f, i);
        if (strcmp(f.at[i].id,
                   "G28")) /* 96 cells that nobody published: the summary has them */
            put_table(out, &f, i, end);
    }
    kvt_free(f.at);
}
