/* memory_walk.c - the phases of a request, and the memory in each.
 *
 *   load               weights, adapters, a draft's weights
 *   draft              of a second model, in front of the prompt; of the model itself, behind
 * it attention, ffn     layer by layer: what earlier layers hold, this one's dense cache, and
 *                      later ones' where chunks were there before; a policy that cuts in the
 *                      layer scores and copies here
 *   logits             of the last token, or of all
 *   eviction           of a policy that waits for all layers: the dense cache and the copy
 *   decode             the first step, the one that holds most, the last */
#include "replay/cost/memory_priv.h"

#include <math.h>
#include <string.h>

enum { FP32 = 4, TENSORS = 2 }; /* keys and values are tensors of their own */

/* What rounding adds to an allocation. Without ceil(), which is a call on old processors. */
static double rounding(const memory_case *x, double bytes)
{
    double r = x->m->alloc_round, n = bytes / r;
    if (!(r > 0) || !(n < 9e15))
        return 0;
    double whole = (double)(int64_t)n;
    return (whole < n ? whole + 1 : whole) * r - bytes;
}

/* Slots of a layer as bytes, with what rounding adds to its tensors. */
typedef struct held {
    double bytes, slack;
} held;

static held held_of(const memory_case *x, double slots)
{
    double bytes = slots * x->slot;
    return (held){bytes, TENSORS * rounding(x, bytes / TENSORS)};
}

/* Slots that memory holds of n tokens in a layer, and of what was kept there. */
static double dense_slots(const memory_case *x, int layer, double n)
{
    double lane = cost_layer_tokens(x->g, x->c->setting, layer, n);
    return load_held(&x->shape, lane) * x->shape.n_lane;
}

/* At another length the same share; a lane that its window cut short had the whole budget. */
static double kept_slots(const memory_case *x, int layer)
{
    double kept = x->load->kept[layer].held;
    if (x->scale == 1)
        return kept;
    double dense = dense_slots(x, layer, x->n);
    if (!x->copies)
        return dense;
    if (kept >= dense_slots(x, layer, INFINITY))
        kept = fmax(kept, (double)x->c->budget * x->shape.n_lane);
    return fmin(kept * x->scale, dense);
}

static void finish(kvt_memory_cost *row, const memory_case *x)
{
    double some = row->kv + row->state + row->scratch + row->activations + row->draft_kv;
    row->slack += rounding(x, row->state) + rounding(x, row->scratch) +
                  rounding(x, row->activations) + rounding(x, row->draft_kv) +
                  x->c->setting->fragmentation * some;
    row->total = row->weights + row->adapter + row->draft + row->runtime + row->slack + some;
}

static void see_row(const memory_case *x, memory_see *see, void *user, kvt_memory_phase phase,
                    int layer, kvt_memory_cost *row)
{
    finish(row, x);
    see(user, phase, layer, row);
}

/* ---- the prompt ----------------------------------------------------------------------------
 */

/* What a layer holds before its (last) pass, during it and after it. */
typedef struct passing {
    double enter, full, leave;
} passing;

static passing pass_layer(const memory_case *x, int layer)
{
    double kept = kept_slots(x, layer), full = dense_slots(x, layer, x->pass);
    double stays = dense_slots(x, layer, x->n);
    bool in_layer = x->work->when == KVT_WHEN_IN_LAYER;
    if (x->last > 0 && in_layer && x->work->in_decode) {
        /* cut behind each chunk, when all layers are through */
        double lanes = x->shape.n_lane, chunk = (double)x->c->setting->chunk;
        double more = fmin(full, load_held(&x->shape, kept / lanes + chunk) * lanes);
        return (passing){.enter = kept, .full = more, .leave = more};
    }
    return (passing){.enter = x->last > 0 ? dense_slots(x, layer, x->n - x->last) : 0,
                     .full = full,
                     .leave = in_layer ? kept : stays};
}

/* State beside the slots of layers that have been cut. */
static double state_of(const memory_case *x, double slots, int layers)
{
    return x->state_slot * slots + x->state_lane * (double)(layers * x->shape.n_lane);
}

/* A layer's part of the timeline; most models have many that are equal. */
typedef struct layer_part {
    held enter, full, leave;
    double kept, scratch; /* slots; bytes of scores and the copy */
} layer_part;

static bool same_layer(const memory_case *x, int l)
{
    return l > 0 && x->g->g.window[l] == x->g->g.window[l - 1] &&
           x->load->kept[l].held == x->load->kept[l - 1].held;
}

static void part_of(layer_part *out, const memory_case *x, int l)
{
    if (same_layer(x, l))
        return;
    bool in_layer = x->work->when == KVT_WHEN_IN_LAYER;
    passing p = pass_layer(x, l);
    out->enter = held_of(x, p.enter);
    out->full = held_of(x, p.full);
    out->leave = held_of(x, p.leave);
    out->kept = in_layer ? kept_slots(x, l) : 0;
    out->scratch = in_layer || x->work->whole_rows ? x->score : 0;
    out->scratch += in_layer && x->copies ? out->kept * x->slot : 0;
}

/* Phases of the layers: each of them, or the first of the largest of either kind. */
typedef struct layer_walk {
    const memory_case *x;
    memory_see *see;
    void *user;
    double most[2];
    int at[2];
    kvt_memory_cost row[2]; /* attention, feed-forward */
} layer_walk;

static void offer(layer_walk *w, kvt_memory_phase phase, int l, kvt_memory_cost *row)
{
    int k = phase == KVT_PHASE_FFN;
    if (!w->x->peak_only) {
        see_row(w->x, w->see, w->user, phase, l, row);
        return;
    }
    double most = row->kv + row->state + row->scratch;
    most += row->slack + w->x->c->setting->fragmentation * most + rounding(w->x, row->scratch) +
            (row->state > 0 ? rounding(w->x, row->state) : 0);
    if (l > 0 && !(most > w->most[k]))
        return;
    w->most[k] = most;
    w->at[k] = l;
    w->row[k].kv = row->kv;
    w->row[k].slack = row->slack;
    w->row[k].state = row->state;
    w->row[k].scratch = row->scratch;
    w->row[k].activations = row->activations;
}

static void walk_layers(const memory_case *x, memory_see *see, void *user)
{
    layer_walk w = {.x = x, .see = see, .user = user};
    int L = x->shape.n_layer, layers = x->work->when == KVT_WHEN_IN_LAYER;
    layer_part p = {0};
    held before = {0}, later = {0};
    double cut = 0;
    kvt_memory_cost row = x->base;
    bool stays =
        x->work->draft == KVT_DRAFT_MODEL; /* a draft's cache, till the prompt is cut */
    row.draft_kv = stays ? x->draft_kv : 0;
    w.row[0] = w.row[1] = row;
    for (int l = 0; x->last > 0 && l < L; l++) {
        part_of(&p, x, l);
        later.bytes += p.enter.bytes, later.slack += p.enter.slack;
    }
    for (int l = 0; l < L; l++) {
        part_of(&p, x, l);
        later.bytes -= p.enter.bytes, later.slack -= p.enter.slack;
        row.kv = before.bytes + p.full.bytes + later.bytes;
        row.slack = before.slack + p.full.slack + later.slack;
        row.state = state_of(x, cut, layers * l);
        row.scratch = p.scratch;
        row.activations = x->token_attention * x->alive;
        offer(&w, KVT_PHASE_ATTENTION, l, &row);
        before.bytes += p.leave.bytes, before.slack += p.leave.slack;
        cut += p.kept;
        row.kv = before.bytes + later.bytes;
        row.slack = before.slack + later.slack;
        row.state = state_of(x, cut, layers * (l + 1));
        row.scratch = 0;
        row.activations = x->token_ffn * x->alive;
        offer(&w, KVT_PHASE_FFN, l, &row);
    }
    for (int k = 0; x->peak_only && k < 2; k++)
        see_row(x, see, user, k ? KVT_PHASE_FFN : KVT_PHASE_ATTENTION, w.at[k], &w.row[k]);
}

/* All layers: what the prompt leaves, dense or cut. */
static double all_slots(const memory_case *x, bool cut, double *slack)
{
    double sum = 0, slots = 0;
    held h = {0};
    *slack = 0;
    for (int l = 0; l < x->shape.n_layer; l++) {
        if (!same_layer(x, l)) {
            slots = cut ? kept_slots(x, l) : dense_slots(x, l, x->n);
            h = held_of(x, slots);
        }
        sum += slots;
        *slack += h.slack;
    }
    return sum;
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
    double slots = all_slots(x, cut, &row.slack);
    row.kv = slots * x->slot;
    row.draft_kv = x->work->draft == KVT_DRAFT_MODEL ? x->draft_kv : 0;
    row.state = state_of(x, cut ? slots : 0, cut ? x->shape.n_layer : 0);
    row.activations = logits(x, x->c->setting->all_logits ? x->n : 1);
    see_row(x, see, user, KVT_PHASE_LOGITS, -1, &row);
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
    see_row(x, see, user, KVT_PHASE_DRAFT, -1, &row);
}

static void walk_late(const memory_case *x, memory_see *see, void *user)
{
    bool draft = x->work->draft == KVT_DRAFT_SELF;
    kvt_memory_cost row = x->base;
    double slack;
    row.kv = all_slots(x, false, &row.slack) * x->slot;
    row.draft_kv = draft ? x->draft_kv : row.draft_kv;
    row.scratch = x->queries;
    kvt_memory_cost evict = row;
    if (draft)
        see_row(x, see, user, KVT_PHASE_DRAFT, -1, &row);
    if (x->work->when != KVT_WHEN_AFTER_PREFILL || !(x->evicts || draft))
        return;
    evict.scratch += x->score + (x->copies ? all_slots(x, true, &slack) * x->slot : 0);
    see_row(x, see, user, KVT_PHASE_EVICT, -1, &evict);
}

/* ---- decoding ------------------------------------------------------------------------------
 */

/* What a step holds at these lengths. */
static double run_slots(const memory_case *x, const kvt_cost_run *run)
{
    if (x->scale == 1)
        return run->held;
    const kvt_cost_load *load = x->load;
    double was = 0, is = 0;
    for (int l = 0; l < x->shape.n_layer; l++) {
        double most = cost_layer_tokens(x->g, x->c->setting, l, INFINITY) * x->shape.n_lane;
        double more = x->growth * x->shape.n_lane;
        was += fmin(load->kept[l].held + more, most);
        is += fmin(kept_slots(x, l) + more, most);
    }
    return was > 0 ? run->held * is / was : 0;
}

/* Slots of the longest lane of a step, and of the layer that it is in. */
static double longest(const memory_case *x, const kvt_cost_run *run, double *layer)
{
    const kvt_cost_load *load = x->load;
    double lane = 0, top = load->top.held > 0 ? run->held / load->top.held : 1;
    *layer = 0;
    for (int l = 0; l < x->shape.n_layer; l++) {
        if (same_layer(x, l) && load->kept[l].most <= load->kept[l - 1].most)
            continue;
        double cap = cost_layer_tokens(x->g, x->c->setting, l, INFINITY);
        double kept = kept_slots(x, l), most = kept / x->shape.n_lane;
        most = fmax(most, load->kept[l].most * x->scale);
        lane = fmax(lane, fmin(most + x->growth, cap) * top);
        *layer = fmax(*layer, kept);
    }
    return lane;
}

/* A framework's cache is made anew each step, one tensor at a time, and keys and values are
 * expanded to query heads; what a decision moves together is a copy of a layer's slots. */
static double step_scratch(const memory_case *x, const kvt_cost_run *run)
{
    const kvt_cost_work *w = x->work;
    double layer, lane = longest(x, run, &layer), sum = 0;
    double heads = (double)x->g->g.n_head / (double)cost_tensor(x->c->setting);
    if (x->m->engine == KVT_ENGINE_EAGER)
        sum = lane * x->shape.n_lane * x->slot / TENSORS +
              2 * lane * heads * (double)x->g->g.head_dim * cost_act_bytes(x->m) * x->batch;
    if (w->in_decode && !w->in_place && !w->keeps_all && !w->joins && !x->c->setting->masked)
        sum += layer * x->slot;
    return sum;
}

static void step_row(kvt_memory_cost *row, const memory_case *x, const kvt_cost_run *run)
{
    int L = x->shape.n_layer;
    double slots = run_slots(x, run);
    *row = x->base;
    row->kv = slots * x->slot;
    row->slack = x->m->alloc_round > 0 ? L * held_of(x, slots / L).slack : 0;
    row->state = state_of(x, slots, L);
    row->scratch = step_scratch(x, run);
    row->activations = x->token_ffn + logits(x, 1);
}

static void walk_decode(const memory_case *x, memory_see *see, void *user)
{
    const kvt_cost_load *load = x->load;
    const kvt_cost_run *run[] = {&load->first, &load->top, &load->last};
    kvt_memory_cost row;
    for (int i = 0; load->n_run > 0 && i < 3; i++) {
        bool again = (i == 1 && load->top.held == load->first.held) ||
                     (i == 2 && load->last.held == load->top.held);
        if (again)
            continue;
        step_row(&row, x, run[i]);
        see_row(x, see, user, KVT_PHASE_DECODE, -1, &row);
    }
}

void memory_steady(kvt_memory_cost *out, const memory_case *x)
{
    if (x->load->n_run > 0) {
        step_row(out, x, &x->load->last);
    } else {
        *out = x->base;
        double slots = all_slots(x, true, &out->slack);
        out->kv = slots * x->slot;
        out->state = state_of(x, slots, x->shape.n_layer);
    }
    finish(out, x);
}

void memory_walk(const memory_case *x, memory_see *see, void *user)
{
    kvt_memory_cost row = x->base;
    see_row(x, see, user, KVT_PHASE_LOAD, -1, &row);
    if (x->work->draft == KVT_DRAFT_MODEL)
        walk_draft_model(x, see, user);
    walk_layers(x, see, user);
    walk_logits(x, see, user);
    if (x->work->draft == KVT_DRAFT_SELF || x->work->when == KVT_WHEN_AFTER_PREFILL)
        walk_late(x, see, user);
    walk_decode(x, see, user);
}
