/* load_book.c - runs of decode steps, filled with sums over layers and lanes.
 *
 * Steps are cut into pieces of about the same length, each of which stands with the mean of its
 * steps. Where slots grow by the same number a step that is the piece's middle step, and what
 * is linear in slots comes out exactly; sums over all steps are always exact. Neighbours that
 * are equal become one. */
#include "replay/cost/load_priv.h"

#include <math.h>
#include <string.h>

static void add_span(load_book *b, double from, double to, kvt_cost_run *run)
{
    b->from[b->n] = from;
    b->to[b->n] = to;
    b->run[b->n++] = run;
}

void load_open(load_book *b, kvt_cost_load *out, const load_shape *shape, int rows,
               int64_t steps, int pieces, double top)
{
    memset(out, 0, sizeof *out);
    *b = (load_book){
        .out = out, .shape = *shape, .rows = rows, .steps = (double)(steps > 0 ? steps : 0)};
    out->n_layer = shape->n_layer;
    out->n_lane = shape->n_lane;
    out->n_run = steps < pieces ? (int)b->steps : pieces;
    for (int r = 0; r < out->n_run; r++) {
        double from = floor(b->steps * r / out->n_run);
        double to = floor(b->steps * (r + 1) / out->n_run);
        out->run[r].steps = to - from;
        add_span(b, from, to, &out->run[r]);
    }
    if (out->n_run == 0)
        return;
    out->first.steps = out->last.steps = out->top.steps = 1;
    add_span(b, 0, 1, &out->first);
    add_span(b, b->steps - 1, b->steps, &out->last);
    if (top > 0)
        add_span(b, top - 1, top, &out->top);
}

/* Lanes that are stored, of those that rows read. */
static double stored_share(const load_book *b)
{
    return (double)b->shape.n_lane / b->rows;
}

void load_keep(load_book *b, int layer, const load_class *c, int n_class, double cap)
{
    kvt_cost_layer k = {0};
    double longest = 0, held = 0;
    for (int i = 0; i < n_class; i++) {
        double slots = fmin(c[i].seen.start, cap), stored = fmin(c[i].stored.start, cap);
        k.slots += slots * c[i].n * stored_share(b);
        k.most = fmax(k.most, slots);
        longest = fmax(longest, stored);
        held += load_held(&b->shape, stored) * c[i].n * stored_share(b);
    }
    /* A page of all lanes is free only when none of them has a slot in it. */
    k.held = b->shape.shared ? load_held(&b->shape, longest) * b->shape.n_lane : held;
    b->out->kept[layer] = b->kept = k;
}

/* A path's slots in each span, in whole pages; spans that follow each other share an end. */
static void span_sums(double *out, const load_book *b, const load_path *p, double cap,
                      double page)
{
    double done = 0;
    for (int r = 0; r < b->n; r++) {
        double from = r > 0 && b->from[r] == b->to[r - 1]
                          ? done
                          : load_path_sum(p, cap, page, b->from[r]);
        done = load_path_sum(p, cap, page, b->to[r]);
        out[r] = done - from;
    }
}

static void add_layer(load_book *b)
{
    for (int r = 0; r < b->n; r++) {
        b->run[r]->slots += b->layer[r].slots;
        b->run[r]->busiest += b->layer[r].busiest;
        b->run[r]->held += b->layer[r].held;
    }
}

void load_add(load_book *b, const load_class *c, int n_class, double cap)
{
    enum { SPANS = KVT_COST_RUNS_MAX + 3 };
    double seen[SPANS], stored[SPANS], longest[SPANS] = {0};
    memset(b->layer, 0, sizeof b->layer);
    for (int i = 0; i < n_class; i++) {
        span_sums(seen, b, &c[i].seen, fmin(cap, c[i].seen_cap), 0);
        span_sums(stored, b, &c[i].stored, cap, (double)b->shape.page);
        for (int r = 0; r < b->n; r++) {
            double steps = b->to[r] - b->from[r];
            kvt_cost_run *x = &b->layer[r];
            x->slots += seen[r] * c[i].n / steps;
            x->busiest = fmax(x->busiest, seen[r] * b->rows / steps);
            x->held += stored[r] * c[i].n * stored_share(b) / steps;
            longest[r] = fmax(longest[r], stored[r] / steps);
        }
    }
    for (int r = 0; b->shape.shared && r < b->n; r++)
        b->layer[r].held = longest[r] * b->shape.n_lane;
    add_layer(b);
}

void load_same(load_book *b, int layer)
{
    b->out->kept[layer] = b->kept;
    add_layer(b);
}

void load_step(load_book *b, double step, const kvt_cost_run *sum)
{
    kvt_cost_load *out = b->out;
    int r = 0;
    if (sum->held > out->top.held) {
        out->top = *sum;
        out->top.steps = 1;
    }
    r = (int)fmin(floor((step - 1) / b->steps * out->n_run), out->n_run - 1);
    while (r > 0 && step <= b->from[r])
        r--;
    while (step > b->to[r])
        r++;
    for (int i = 0; i < b->n; i++) {
        if (i != r && (i < out->n_run || step <= b->from[i] || step > b->to[i]))
            continue;
        double steps = b->to[i] - b->from[i];
        b->run[i]->slots += sum->slots / steps;
        b->run[i]->busiest += sum->busiest / steps;
        b->run[i]->held += sum->held / steps;
    }
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-12 * fmax(fabs(a), fabs(b));
}

void load_close(load_book *b)
{
    kvt_cost_load *out = b->out;
    int n = 0;
    double held = 0;
    for (int r = 0; r < out->n_run; r++) {
        kvt_cost_run *x = &out->run[r], *last = n > 0 ? &out->run[n - 1] : NULL;
        held += x->held * x->steps;
        if (last && near(last->slots, x->slots) && near(last->busiest, x->busiest) &&
            near(last->held, x->held))
            last->steps += x->steps;
        else
            out->run[n++] = *x;
    }
    out->n_run = n;
    out->mean_held = b->steps > 0 ? held / b->steps : NAN;
}
