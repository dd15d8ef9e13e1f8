/* memory_layers.c - the prompt on its way through the layers.
 *
 * At each of them: what earlier layers hold, this one's dense cache, and later ones' where
 * chunks were there before. A policy that cuts in the layer scores and copies there. */
#include "replay/cost/memory_priv.h"

#include <math.h>

/* What a layer holds before its (last) pass, during it and after it. */
typedef struct passing {
    double enter, full, leave;
} passing;

static passing pass_layer(const memory_case *x, int layer)
{
    double kept = memory_kept(x, layer), full = memory_dense(x, layer, x->pass);
    double stays = memory_dense(x, layer, x->n);
    bool in_layer = x->work->when == KVT_WHEN_IN_LAYER;
    if (x->last > 0 && in_layer && x->work->in_decode) {
        /* cut behind each chunk, when all layers are through */
        double lanes = x->shape.n_lane, chunk = (double)x->c->setting->chunk;
        double more = fmin(full, load_held(&x->shape, kept / lanes + chunk) * lanes);
        return (passing){.enter = kept, .full = more, .leave = more};
    }
    return (passing){.enter = x->last > 0 ? memory_dense(x, layer, x->n - x->last) : 0,
                     .full = full,
                     .leave = in_layer ? kept : stays};
}

/* A layer's part of the timeline; most models have many that are equal. */
typedef struct layer_part {
    memory_held enter, full, leave;
    double stays, scratch; /* slots; bytes of scores and the copy */
} layer_part;

static void part_of(layer_part *out, const memory_case *x, int l)
{
    if (memory_same_layer(x, l))
        return;
    bool in_layer = x->work->when == KVT_WHEN_IN_LAYER;
    passing p = pass_layer(x, l);
    out->enter = memory_held_of(x, p.enter);
    out->full = memory_held_of(x, p.full);
    out->leave = memory_held_of(x, p.leave);
    out->stays = in_layer ? memory_kept(x, l) : memory_dense(x, l, x->n);
    out->scratch = in_layer || x->work->whole_rows ? x->score : 0;
    out->scratch += in_layer && x->copies ? out->stays * x->slot : 0;
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
        memory_row(w->x, w->see, w->user, phase, l, row);
        return;
    }
    double most = row->kv + row->state + row->scratch;
    most += row->slack + w->x->c->setting->fragmentation * most +
            memory_rounding(w->x, row->scratch) +
            (row->state > 0 ? memory_rounding(w->x, row->state) : 0);
    if (!(most > w->most[k]))
        return;
    w->most[k] = most;
    w->at[k] = l;
    w->row[k].kv = row->kv;
    w->row[k].slack = row->slack;
    w->row[k].state = row->state;
    w->row[k].scratch = row->scratch;
    w->row[k].activations = row->activations;
}

/* The end of the chunk before the last one: nothing is cut, and every layer has all of it. */
static void offer_chunk(layer_walk *w, const kvt_memory_cost *base, const memory_held *all)
{
    kvt_memory_cost row = *base;
    row.kv += all->bytes, row.slack += all->slack;
    row.activations = w->x->token_ffn * w->x->alive;
    offer(w, KVT_PHASE_FFN, -1, &row);
}

void memory_walk_layers(const memory_case *x, memory_see *see, void *user)
{
    layer_walk w = {.x = x, .see = see, .user = user, .most = {-1, -1}};
    int L = x->shape.n_layer;
    layer_part p = {0};
    memory_held before = {0}, later = {0};
    double slots = 0;
    kvt_memory_cost row = x->base;
    bool stays =
        x->work->draft == KVT_DRAFT_MODEL; /* a draft's cache, till the prompt is cut */
    row.draft_kv = stays ? x->draft_kv : 0;
    w.row[0] = w.row[1] = row;
    for (int l = 0; x->last > 0 && l < L; l++) {
        part_of(&p, x, l);
        later.bytes += p.enter.bytes, later.slack += p.enter.slack;
    }
    if (x->last > 0)
        offer_chunk(&w, &row, &later);
    for (int l = 0; l < L; l++) {
        part_of(&p, x, l);
        later.bytes -= p.enter.bytes, later.slack -= p.enter.slack;
        row.kv = x->base.kv + before.bytes + p.full.bytes + later.bytes;
        row.slack = x->base.slack + before.slack + p.full.slack + later.slack;
        row.state = x->base.state + memory_state(x, slots, l);
        row.scratch = p.scratch;
        row.activations = x->token_attention * x->alive;
        offer(&w, KVT_PHASE_ATTENTION, l, &row);
        before.bytes += p.leave.bytes, before.slack += p.leave.slack;
        slots += p.stays;
        row.kv = x->base.kv + before.bytes + later.bytes;
        row.slack = x->base.slack + before.slack + later.slack;
        row.state = x->base.state + memory_state(x, slots, l + 1);
        row.scratch = 0;
        row.activations = x->token_ffn * x->alive;
        offer(&w, KVT_PHASE_FFN, l, &row);
    }
    for (int k = 0; x->peak_only && k < 2; k++)
        memory_row(x, see, user, k ? KVT_PHASE_FFN : KVT_PHASE_ATTENTION, w.at[k], &w.row[k]);
}
