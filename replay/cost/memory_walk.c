/* memory_walk.c - the phases of a request, and the memory in each.
 *
 *   load              weights, adapters, a draft's weights
 *   draft             of a second model: before the prompt; of the model itself: behind it
 *   attention, ffn    layer by layer (memory_layers.c)
 *   logits            of the last token, or of all
 *   eviction          of a policy that waits for all layers: the dense cache and the copy
 *   decode            the first step, the one that holds most, the last
 *
 * Where prompts are read a few at a time, the phases between load and decode are of those few;
 * every other request holds what it holds in its decode step that holds most. */
#include "replay/cost/memory_priv.h"

#include <math.h>

enum { FP32 = 4, TENSORS = 2 };

/* All layers: what the prompt leaves, dense or cut. */
static double all_slots(const memory_case *x, bool cut, double *slack)
{
    double sum = 0, slots = 0;
    memory_held h = {0};
    *slack = 0;
    for (int l = 0; l < x->shape.n_layer; l++) {
        if (!memory_same_layer(x, l)) {
            slots = cut ? memory_kept(x, l) : memory_dense(x, l, x->n);
            h = memory_held_of(x, slots);
        }
        sum += slots;
        *slack += h.slack;
    }
    return sum;
}

/* The cache and the state that the prompt leaves. */
static void add_prompt(kvt_memory_cost *row, const memory_case *x, bool cut)
{
    double slack, slots = all_slots(x, cut, &slack);
    row->kv += slots * x->slot;
    row->slack += slack;
    row->state += memory_state(x, slots, x->shape.n_layer);
}

static double logits(const memory_case *x, double rows)
{
    double vocab = (double)x->g->g.n_vocab / (double)cost_tensor(x->c->setting);
    return rows * vocab * (cost_act_bytes(x->m) + FP32) * x->batch;
}

static void walk_logits(const memory_case *x, memory_see *see, void *user)
{
    bool cut = x->work->when != KVT_WHEN_AFTER_PREFILL;
    kvt_memory_cost row = x->base;
    add_prompt(&row, x, cut);
    row.draft_kv = x->work->draft == KVT_DRAFT_MODEL ? x->draft_kv : 0;
    row.activations = logits(x, x->c->setting->all_logits ? x->n : 1);
    memory_row(x, see, user, KVT_PHASE_LOGITS, -1, &row);
}

/* ---- drafts and late evictions
 * ----------------------------------------------------------------
 */

static void walk_draft_model(const memory_case *x, memory_see *see, void *user)
{
    const kvt_cost_geometry *d = x->c->draft;
    kvt_memory_cost row = x->base;
    row.draft_kv = x->draft_kv;
    if (d)
        row.activations = cost_act_bytes(x->m) * x->n * x->batch *
                          (3 * (double)d->g.n_ff / (double)cost_tensor(x->c->setting) +
                           4 * (double)d->g.n_hidden);
    memory_row(x, see, user, KVT_PHASE_DRAFT, -1, &row);
}

static void walk_late(const memory_case *x, memory_see *see, void *user)
{
    bool draft = x->work->draft == KVT_DRAFT_SELF;
    kvt_memory_cost row = x->base;
    double slack;
    add_prompt(&row, x, false);
    row.draft_kv = draft ? x->draft_kv : row.draft_kv;
    row.scratch = x->queries;
    kvt_memory_cost evict = row;
    if (draft)
        memory_row(x, see, user, KVT_PHASE_DRAFT, -1, &row);
    if (x->work->when != KVT_WHEN_AFTER_PREFILL || !(x->evicts || draft))
        return;
    evict.scratch += x->score + (x->copies ? all_slots(x, true, &slack) * x->slot : 0);
    memory_row(x, see, user, KVT_PHASE_EVICT, -1, &evict);
}

/* ---- decoding ------------------------------------------------------------------------------
 */

/* What all decode steps have in common at these lengths. */
typedef struct steps {
    double stretch; /* of what a run holds */
    double lane;    /* slots of the longest lane, when most is held */
    double layer;   /* slots of the largest layer after the prompt */
} steps;

static steps steps_of(const memory_case *x)
{
    const kvt_cost_load *load = x->load;
    steps out = {.stretch = 1};
    double was = 0, is = 0, more_was = 0, more_is = 0;
    for (int l = 0; l < x->shape.n_layer; l++) {
        if (!memory_same_layer(x, l) || load->kept[l].most != load->kept[l - 1].most) {
            double cap = cost_layer_tokens(x->g, x->c->setting, l, INFINITY);
            double kept = memory_kept(x, l), lanes = x->shape.n_lane;
            double most = fmax(kept / lanes, load->kept[l].most * x->scale);
            out.lane = fmax(out.lane, fmin(most + x->growth, cap));
            out.layer = fmax(out.layer, kept);
            more_was = fmin(load->kept[l].held + x->growth * lanes, cap * lanes);
            more_is = fmin(kept + x->growth * lanes, cap * lanes);
        }
        was += more_was;
        is += more_is;
    }
    if (x->scale != 1)
        out.stretch = was > 0 ? is / was : 0;
    return out;
}

/* A framework's cache is made anew each step, one tensor at a time, and keys and values are
 * expanded to query heads; what a decision moves together is a copy of a layer's slots. */
static double step_scratch(const memory_case *x, const steps *all, const kvt_cost_run *run)
{
    const kvt_cost_work *w = x->work;
    double top = x->load->top.held > 0 ? run->held / x->load->top.held : 1;
    double lane = all->lane * top, sum = 0;
    double heads = (double)x->g->g.n_head / (double)cost_tensor(x->c->setting);
    if (x->m->engine == KVT_ENGINE_EAGER)
        sum = lane * x->shape.n_lane * x->slot / TENSORS +
              2 * lane * heads * (double)x->g->g.head_dim * cost_act_bytes(x->m) * x->batch;
    if (w->in_decode && !w->in_place && !w->keeps_all && !w->joins && !x->c->setting->masked)
        sum += all->layer * x->slot;
    return sum;
}

static void add_held(kvt_memory_cost *row, const memory_case *x, const steps *all,
                     const kvt_cost_run *run)
{
    int L = x->shape.n_layer;
    double slots = run->held * all->stretch;
    row->kv += slots * x->slot;
    row->slack += x->m->alloc_round > 0 ? L * memory_held_of(x, slots / L).slack : 0;
    row->state += memory_state(x, slots, L);
}

static void step_row(kvt_memory_cost *row, const memory_case *x, const steps *all,
                     const kvt_cost_run *run)
{
    *row = x->base;
    add_held(row, x, all, run);
    row->scratch = step_scratch(x, all, run);
    row->activations = fmax(x->token_ffn, logits(x, 1)); /* one after the other */
}

static void walk_decode(const memory_case *x, memory_see *see, void *user)
{
    const kvt_cost_load *load = x->load;
    const kvt_cost_run *run[] = {&load->first, &load->top, &load->last};
    kvt_memory_cost row;
    if (load->n_run == 0)
        return;
    steps all = steps_of(x);
    for (int i = 0; i < 3; i++) {
        bool again = (i == 1 && load->top.held == load->first.held) ||
                     (i == 2 && load->last.held == load->top.held);
        if (again)
            continue;
        step_row(&row, x, &all, run[i]);
        memory_row(x, see, user, KVT_PHASE_DECODE, -1, &row);
    }
}

void memory_steady(kvt_memory_cost *out, const memory_case *x)
{
    if (x->load->n_run > 0) {
        steps all = steps_of(x);
        step_row(out, x, &all, &x->load->last);
    } else {
        *out = x->base;
        add_prompt(out, x, true);
    }
    memory_finish(out, x);
}

/* The case of the prompts that are read together, beside the requests that decode meanwhile (or
 * have been read and decode nothing). */
static const memory_case *read_together(memory_case *few, const memory_case *x)
{
    double together = (double)x->c->setting->prefill_batch;
    memory_case others;
    if (!(together > 0 && together < x->batch))
        return x;
    memory_case_of(few, x->c, x->n, together);
    few->peak_only = x->peak_only;
    memory_case_of(&others, x->c, x->n, x->batch - together);
    if (x->load->n_run > 0) {
        steps all = steps_of(&others);
        add_held(&few->base, &others, &all, &x->load->top);
    } else {
        add_prompt(&few->base, &others, true);
    }
    return few;
}

void memory_walk(const memory_case *x, memory_see *see, void *user)
{
    memory_case few;
    const memory_case *p = read_together(&few, x);
    kvt_memory_cost row = x->base;
    memory_row(x, see, user, KVT_PHASE_LOAD, -1, &row);
    if (x->work->draft == KVT_DRAFT_MODEL)
        walk_draft_model(p, see, user);
    memory_walk_layers(p, see, user);
    walk_logits(p, see, user);
    if (x->work->draft == KVT_DRAFT_SELF || x->work->when == KVT_WHEN_AFTER_PREFILL)
        walk_late(p, see, user);
    walk_decode(x, see, user);
}
