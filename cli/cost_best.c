/* cost_best.c - see cost_best.h. */
#include "cli/cost_best.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "cli/wrap.h"

enum { LABEL = 256, TEXT = 1 << 14, FEWEST = 2, INDENT = 9, WIDTH = 80 };

typedef double value_of(const cost_line *l);
typedef const char *print_value(char *out, double x);

static double eviction_of(const cost_line *l)
{
    return l->evict > 0 ? l->evict : (double)NAN; /* a mask evicts nothing */
}

static double step_of(const cost_line *l)
{
    return l->tpot;
}

static double peak_of(const cost_line *l)
{
    return l->worst->cost.peak.total;
}

static const char *print_gib(char *out, double bytes)
{
    snprintf(out + strlen(cost_gib(out, bytes)), 5, " GiB");
    return out;
}

/* One thing that is cheap where it is small. */
typedef struct quantity {
    const char *name;
    value_of *of;
    print_value *print;
    bool has_full; /* the dense cache has some of it, too */
} quantity;
static const quantity quantities[] = {{"eviction", eviction_of, cost_seconds, false},
                                      {"decode step", step_of, cost_seconds, true},
                                      {"peak", peak_of, print_gib, true}};

static bool takes_part(const cost_line *l)
{
    return l->n > 0 && !l->row->is_control && !l->row->is_bound && l->worst->fits != 0;
}

static const cost_line *least_of(const cost_block *b, const quantity *q)
{
    const cost_line *least = NULL;
    for (int64_t i = 0; i < b->n; i++) {
        const cost_line *l = &b->line[i];
        if (takes_part(l) && !isnan(q->of(l)) && (!least || q->of(l) < q->of(least)))
            least = l;
    }
    return least;
}

/* Lines that read the same as the least one, which is among them. */
static int64_t count_as(const cost_block *b, const quantity *q, const char *text)
{
    int64_t n = 0;
    char other[COST_CELL];
    for (int64_t i = 0; i < b->n; i++)
        n += takes_part(&b->line[i]) && !isnan(q->of(&b->line[i])) &&
             strcmp(q->print(other, q->of(&b->line[i])), text) == 0;
    return n;
}

static const cost_line *dense_of(const cost_block *b)
{
    for (int64_t i = 0; i < b->n; i++)
        if (b->line[i].n > 0 && strcmp(b->line[i].row->policy, "full") == 0)
            return &b->line[i];
    return NULL;
}

/* "decode step 6.37 ms (full 8.01 ms): snapkv at 128 and 3 more" */
static void add(buf *out, const cost_block *b, const quantity *q)
{
    char value[COST_CELL], full[COST_CELL], label[LABEL];
    const cost_line *least = least_of(b, q), *dense = q->has_full ? dense_of(b) : NULL;
    if (!least)
        return;
    q->print(value, q->of(least));
    buf_printf(out, "%s%s", *buf_get(out) ? "; " : "", q->name);
    if (dense) {
        q->print(full, q->of(dense));
        if (q->of(least) >= q->of(dense) || strcmp(value, full) == 0) {
            buf_printf(out, ": none below the %s of full", full);
            return;
        }
    }
    int64_t more = count_as(b, q, value) - 1;
    buf_printf(out, " %s", value);
    if (dense)
        buf_printf(out, " (full %s)", full);
    buf_printf(out, ": %s at %s", cost_label(label, sizeof label, b, least->row),
               least->row->budget_asked);
    if (more > 0)
        buf_printf(out, " and %lld more", (long long)more);
}

kvt_code cost_best_print(const cost_block *b, kvt_err *err)
{
    int64_t n = 0;
    buf text;
    for (int64_t i = 0; i < b->n; i++)
        n += b->line[i].n > 0 && !b->line[i].row->is_control && !b->line[i].row->is_bound;
    if (n < FEWEST)
        return KVT_OK;
    buf_init(&text, TEXT);
    for (size_t i = 0; i < sizeof quantities / sizeof *quantities; i++)
        add(&text, b, &quantities[i]);
    kvt_code code = buf_check(&text, err);
    if (!code && *buf_get(&text)) {
        printf("LEAST    ");
        cli_wrap(stdout, buf_get(&text), INDENT, INDENT, WIDTH);
    }
    buf_fini(&text);
    return code;
}
