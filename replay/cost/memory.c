/* memory.c - memory, phase by phase: the peak and the steady one. */
#include "replay/cost/memory_priv.h"

#include <math.h>

typedef struct rows {
    kvt_phase_row *out;
    int n;
} rows;

static void add_row(void *user, kvt_memory_phase phase, int layer, const kvt_memory_cost *row)
{
    rows *r = user;
    if (r->n < KVT_COST_PHASES_MAX)
        r->out[r->n++] = (kvt_phase_row){.phase = phase, .layer = layer, .memory = *row};
}

int kvt_cost_timeline(kvt_phase_row *out, const kvt_cost_case *c)
{
    memory_case x;
    rows r = {.out = out};
    memory_case_of(&x, c, (double)c->n_prompt, (double)cost_batch(c->setting));
    memory_walk(&x, add_row, &r);
    return r.n;
}

/* The first of the largest. What is not known stays so: nothing is larger than NAN. */
static void see_peak(void *user, kvt_memory_phase phase, int layer, const kvt_memory_cost *row)
{
    kvt_cost *out = user;
    if (phase != KVT_PHASE_LOAD && !(row->total > out->peak.total))
        return;
    out->peak = *row;
    out->peak_phase = phase;
    out->peak_layer = layer;
}

void cost_memory(kvt_cost *out, const kvt_cost_case *c)
{
    memory_case x;
    double all = c->constants->machine.mem_bytes;
    memory_case_of(&x, c, (double)c->n_prompt, (double)cost_batch(c->setting));
    x.peak_only = true;
    memory_walk(&x, see_peak, out);
    memory_steady(&out->steady, &x);
    out->kv_mean = c->load->mean_held * x.slot;
    out->short_bytes =
        all > 0 ? (isnan(out->peak.total) ? NAN : fmax(out->peak.total - all, 0)) : NAN;
}
