/* memory_rows.c - what rows of the timeline are made of: slots of layers as bytes, rounding,
 * totals. */
#include "replay/cost/memory_priv.h"

#include <math.h>

enum { TENSORS = 2 }; /* keys and values are allocations of their own */

/* What rounding adds to an allocation. Without ceil(), which is a call on old processors. */
double memory_rounding(const memory_case *x, double bytes)
{
    double r = x->m->alloc_round;
    if (!(r > 0) || !(bytes < r * 9e15)) /* the latter: NAN, too */
        return 0;
    double n = bytes / r;
    double whole = (double)(int64_t)n;
    return (whole < n ? whole + 1 : whole) * r - bytes;
}

memory_held memory_held_of(const memory_case *x, double slots)
{
    double bytes = slots * x->slot;
    return (memory_held){bytes, TENSORS * memory_rounding(x, bytes / TENSORS)};
}

/* Slots that memory holds of n tokens in a layer, and of what was kept there. */
double memory_dense(const memory_case *x, int layer, double n)
{
    double lane = cost_layer_tokens(x->g, x->c->setting, layer, n);
    return load_held(&x->shape, lane) * x->shape.n_lane;
}

/* At another length the same share; a lane that its window cut short had the whole budget. */
double memory_kept(const memory_case *x, int layer)
{
    double kept = x->load->kept[layer].held;
    if (x->scale == 1)
        return kept;
    double dense = memory_dense(x, layer, x->n);
    if (!x->copies)
        return dense;
    if (kept >= memory_dense(x, layer, INFINITY))
        kept = fmax(kept, (double)x->c->budget * x->shape.n_lane);
    return fmin(kept * x->scale, dense);
}

void memory_finish(kvt_memory_cost *row, const memory_case *x)
{
    double some = row->kv + row->state + row->scratch + row->activations + row->draft_kv;
    row->slack += memory_rounding(x, row->state) + memory_rounding(x, row->scratch) +
                  memory_rounding(x, row->activations) + memory_rounding(x, row->draft_kv) +
                  x->c->setting->fragmentation * some;
    row->total = row->weights + row->adapter + row->draft + row->runtime + row->slack + some;
}

void memory_row(const memory_case *x, memory_see *see, void *user, kvt_memory_phase phase,
                int layer, kvt_memory_cost *row)
{
    memory_finish(row, x);
    see(user, phase, layer, row);
}

/* What a policy keeps beside the slots of layers that are through. */
double memory_state(const memory_case *x, double slots, int layers)
{
    return x->state_slot * slots + x->state_lane * (double)(layers * x->shape.n_lane);
}

bool memory_same_layer(const memory_case *x, int l)
{
    return l > 0 && x->g->g.window[l] == x->g->g.window[l - 1] &&
           x->load->kept[l].held == x->load->kept[l - 1].held;
}
