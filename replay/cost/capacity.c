/* capacity.c - how many requests, and how long a prompt, fit into the machine's memory.
 *
 * Both are the largest whole number whose peak fits: of requests, at the case's lengths; of
 * tokens of the prompt, with the share of it that the case keeps. Peaks are nearly straight
 * lines in both (rounding of allocations, windows, whole attention rows and a bound on the
 * prompts that are read together bend them), so that a line through two points finds the number
 * in a few tries. */
#include "replay/cost/memory_priv.h"

#include <math.h>

static const double MOST = 1099511627776.0; /* 2^40: nothing limits it */
enum { STRAIGHT = 12, TRIES = 96 };

static void see_most(void *user, kvt_memory_phase phase, int layer, const kvt_memory_cost *row)
{
    double *most = user;
    (void)phase, (void)layer;
    if (!(row->total <= *most))
        *most = row->total;
}

static double peak(const kvt_cost_case *c, double n, double batch)
{
    memory_case x;
    double most = 0;
    memory_case_of(&x, c, n, batch);
    x.peak_only = true;
    memory_walk(&x, see_most, &most);
    return most;
}

typedef struct search {
    const kvt_cost_case *c;
    bool of_batch;
    double fits, fails; /* what is known: the peak fits at `fits`, not at `fails` */
} search;

static double peak_at(const search *s, double at)
{
    const kvt_cost_case *c = s->c;
    return s->of_batch ? peak(c, (double)c->n_prompt, at)
                       : peak(c, at, (double)cost_batch(c->setting));
}

/* From two points of the line, `at` the later one. */
static int64_t find(search *s, double from, double low, double at, double value)
{
    double all = s->c->constants->machine.mem_bytes;
    for (int i = 0; s->fails - s->fits > 1 && i < TRIES; i++) {
        double slope = (value - low) / (at - from), next = floor(at + (all - value) / slope);
        if (i >= STRAIGHT || !(slope > 0))
            next = floor((s->fits + s->fails) / 2);
        next = fmin(fmax(next, s->fits + 1), s->fails - 1);
        from = at, low = value;
        at = next, value = peak_at(s, at);
        if (value <= all)
            s->fits = at;
        else
            s->fails = at;
    }
    return (int64_t)s->fits;
}

/* From the case's own number, `value` bytes at it. */
static int64_t find_from(search *s, double own, double value, double fixed)
{
    bool fit = value <= s->c->constants->machine.mem_bytes;
    s->fits = fit ? own : 0;
    s->fails = fit ? MOST : own;
    return find(s, 0, fixed, own, value);
}

/* Requests. Everything but rounding is so much a request: the peak's own phase without it gives
 * a number that cannot be exceeded, and that is it unless rounding takes the difference. */
static int64_t largest_batch(const kvt_cost_case *c, const kvt_memory_cost *p, double fixed)
{
    double own = (double)cost_batch(c->setting), all = c->constants->machine.mem_bytes;
    if (c->setting->prefill_batch > 0) /* a request more is not always one prompt more */
        return find_from(&(search){.c = c, .of_batch = true}, own, p->total, fixed);
    double some = p->total - fixed - p->slack;
    double each = some * (1 + c->setting->fragmentation) / own;
    double most = fixed > all ? 0 : floor((all - fixed) / each);
    if (most < 1 || c->constants->machine.alloc_round <= 0)
        return (int64_t)most;
    double value = peak(c, (double)c->n_prompt, most);
    if (value <= all)
        return (int64_t)most;
    search s = {.c = c, .of_batch = true, .fits = p->total <= all ? own : 0, .fails = most};
    return find(&s, 0, fixed, most, value);
}

/* Tokens of the prompt. */
static int64_t longest_prompt(const kvt_cost_case *c, double value, double fixed)
{
    double own = c->n_prompt > 0 ? (double)c->n_prompt : 1;
    search s = {.c = c};
    if (c->n_prompt <= 0)
        value = peak_at(&s, own);
    return find_from(&s, own, value, fixed);
}

void cost_capacity(kvt_cost *out, const kvt_cost_case *c)
{
    const kvt_memory_cost *p = &out->peak;
    out->max_batch = out->max_context = -1;
    if (!(c->constants->machine.mem_bytes > 0) || isnan(p->total))
        return;
    double fixed = p->weights + p->adapter + p->draft + p->runtime;
    out->max_batch = largest_batch(c, p, fixed);
    out->max_context = longest_prompt(c, p->total, fixed);
}
