/* cost_columns.c - see cost_columns.h. */
#include "cli/cost_columns.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

char cost_mark_letter(int mark)
{
    static const char letters[] = {
#define X(id, letter, text) letter,
        COST_MARKS(X)
#undef X
    };
    return letters[mark];
}

#define LEAST 0.0005 /* less is 0 in three decimals */

/* ---- numbers -------------------------------------------------------------------------------
 */

/* Three digits or so. */
static int decimals(double x)
{
    double a = fabs(x);
    return a == 0 || a >= 100 ? 0 : a >= 10 ? 1 : a >= 0.1 ? 2 : 3;
}

static const char *number(char *out, double x, const char *unit)
{
    if (isnan(x))
        snprintf(out, COST_CELL, "-");
    else if (x > 0 && x < LEAST)
        snprintf(out, COST_CELL, "<0.001%s", unit);
    else
        snprintf(out, COST_CELL, "%.*f%s", decimals(x), x, unit);
    return out;
}

const char *cost_seconds(char *out, double s)
{
    return s >= 1 ? number(out, s, " s") : number(out, s * 1e3, " ms");
}

const char *cost_gib(char *out, double bytes)
{
    return number(out, bytes / (1 << 30), "");
}

/* "38.0 2.16%": milliseconds, and the share of the dense prefill. */
static const char *eviction(char *out, double s, double frac)
{
    char ms[COST_CELL], share[COST_CELL];
    if (isnan(s))
        snprintf(out, COST_CELL, "-");
    else if (s == 0)
        snprintf(out, COST_CELL, "0");
    else
        snprintf(out, COST_CELL, "%.20s %.20s", number(ms, s * 1e3, ""),
                 number(share, frac * 1e2, "%"));
    return out;
}

/* "10%=3277"; what was typed alone, where it is that number. */
static const char *budget(char *out, const cost_line *l)
{
    char slots[COST_CELL];
    const kvt_cost_row *r = l->row;
    snprintf(slots, sizeof slots, "%.0f", l->slots);
    if (strcmp(r->policy, "full") == 0)
        snprintf(out, COST_CELL, "all");
    else if (strcmp(slots, r->budget_asked) == 0)
        snprintf(out, COST_CELL, "%s", slots);
    else
        snprintf(out, COST_CELL, "%s=%.24s", r->budget_asked, slots);
    return out;
}

/* "batch 64"; "batch 8, 65.0 short" where the batch that was asked for does not fit. */
static const char *fits(char *out, const cost_line *l)
{
    char lack[COST_CELL];
    const kvt_cost_row *r = l->worst;
    if (r->fits == KVT_EMPTY_INT)
        snprintf(out, COST_CELL, "?");
    else if (r->fits)
        snprintf(out, COST_CELL, "batch %lld", (long long)r->max_batch);
    else if (r->max_batch > 0)
        snprintf(out, COST_CELL, "batch %lld, %.20s short", (long long)r->max_batch,
                 cost_gib(lack, r->cost.short_bytes));
    else
        snprintf(out, COST_CELL, "%.20s short", cost_gib(lack, r->cost.short_bytes));
    return out;
}

/* c math, m memory, h host, of prefill, eviction and decode. */
static const char *bounds(char *out, const kvt_cost_row *r)
{
    const char *name[] = {r->ttft_bottleneck, r->evict_bottleneck, r->step_bottleneck};
    for (int i = 0; i < 3; i++)
        out[i] = !name[i][0] ? '-' : strcmp(name[i], "math") == 0 ? 'c' : name[i][0];
    out[3] = 0;
    return out;
}

static const char *letters(char *out, unsigned set)
{
    int n = 0;
    for (int i = 0; i < COST_MARKS_N; i++)
        if (set >> i & 1)
            out[n++] = cost_mark_letter(i);
    out[n] = 0;
    return out;
}

/* ---- columns -------------------------------------------------------------------------------
 */

#define COLUMN(name)                                                           \
    static const char *name(char *out, const cost_line *l, const cost_view *v, \
                            const cost_block *b)
#define UNUSED (void)l, (void)v, (void)b

COLUMN(budget_cell)
{
    UNUSED;
    return budget(out, l);
}

COLUMN(fused_cell)
{
    UNUSED;
    return eviction(out, l->evict_of[0], l->frac_of[0]);
}

COLUMN(published_cell)
{
    UNUSED;
    return eviction(out, l->evict_of[1], l->frac_of[1]);
}

/* Under the profile whose times are shown, where that is neither of the two. */
COLUMN(theory_cell)
{
    UNUSED;
    return eviction(out, l->evict, l->evict / (l->ttft - l->evict));
}

/* The eviction beside that of the reference at the same budget. */
COLUMN(ratio_cell)
{
    for (int64_t i = 0; i < b->n; i++) {
        const cost_line *r = &b->line[i];
        if (strcmp(r->row->policy, v->reference) == 0 && r->evict > 0 && l->evict > 0 &&
            strcmp(r->row->budget_asked, l->row->budget_asked) == 0)
            return number(out, l->evict / r->evict, "x");
    }
    snprintf(out, COST_CELL, "-");
    return out;
}

COLUMN(ttft_cell)
{
    UNUSED;
    return cost_seconds(out, l->ttft);
}

COLUMN(tpot_cell)
{
    UNUSED;
    return cost_seconds(out, l->tpot);
}

COLUMN(bound_cell)
{
    UNUSED;
    return bounds(out, l->row);
}

COLUMN(mark_cell)
{
    UNUSED;
    return letters(out, l->marks & v->varied);
}

COLUMN(peak_cell)
{
    UNUSED;
    return cost_gib(out, l->worst->cost.peak.total);
}

COLUMN(steady_cell)
{
    UNUSED;
    return cost_gib(out, l->worst->cost.steady.total);
}

COLUMN(kv_cell)
{
    UNUSED;
    return cost_gib(out, l->worst->cost.kv_mean);
}

COLUMN(fits_cell)
{
    UNUSED;
    return fits(out, l);
}

COLUMN(phase_cell)
{
    UNUSED;
    const char *phase = l->worst->peak_phase, prefix[] = "prefill ";
    size_t n = strncmp(phase, prefix, strlen(prefix)) == 0 ? strlen(prefix) : 0;
    snprintf(out, COST_CELL, "%s", phase + n);
    return out;
}

#define X(id, title, side)                 \
    const cost_column cost_column_##id = { \
        .name = title, .align = CLI_##side, .cell = id##_cell};
COST_COLUMNS(X)
#undef X
