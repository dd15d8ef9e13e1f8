/* memory_case.c - what all phases of a case's memory have in common. */
#include "replay/cost/memory_priv.h"

#include <math.h>

#include "replay/cost/time_priv.h"

enum { FP32 = 4, LORA_BYTES = 2, FFN_WIDTHS = 3, HIDDEN_WIDTHS = 4 };

static double cache_bytes(const kvt_cost_geometry *g, const memory_case *x, double n)
{
    const kvt_cost_setting *s = x->c->setting;
    return cost_tokens(g, s, n) * cost_slot_bytes(g, x->m, s) * (double)g->g.n_kv_head *
           x->batch / cost_kv_split(g, s);
}

static void add_draft(memory_case *x)
{
    const kvt_cost_geometry *d = x->c->draft;
    double m = (double)cost_draft_tokens(x->c);
    if (x->work->draft == KVT_DRAFT_MODEL) {
        x->base.draft = d ? cost_all_bytes(d, x->c->setting) : NAN;
        x->draft_kv = d ? cache_bytes(d, x, x->n + m) : NAN;
    } else if (x->work->draft == KVT_DRAFT_SELF) {
        double heads = (double)x->g->g.n_head / (double)cost_tensor(x->c->setting);
        x->queries = m * heads * (double)(x->g->g.head_dim * x->g->g.n_layer) *
                     cost_act_bytes(x->m) * x->batch;
        for (int l = 0; x->work->first_stage && l < x->shape.n_layer; l++)
            x->draft_kv +=
                (fmin(x->load->kept[l].held * x->scale,
                      cost_layer_tokens(x->g, x->c->setting, l, x->n) * x->shape.n_lane) +
                 m * x->shape.n_lane) *
                x->slot;
    }
}

/* Scores of one layer. Eager code has 16-bit scores and their copy in 32 bits of each query
 * head, and expands keys and values to those heads; a fused kernel leaves one sum a slot. */
static double score_bytes(const memory_case *x)
{
    const kvt_cost_work *w = x->work;
    double heads = (double)x->g->g.n_head / (double)cost_tensor(x->c->setting);
    double lanes = x->shape.n_lane / cost_kv_split(x->g, x->c->setting);
    double b = cost_act_bytes(x->m), n = x->pass, rows = cost_scoring_rows(x->c);
    if (x->m->engine == KVT_ENGINE_EAGER && w->whole_rows)
        rows = x->alive;
    else if (!x->evicts || w->score == KVT_SCORE_NONE)
        return 0;
    if (x->m->engine == KVT_ENGINE_EAGER && rows > 0)
        return (rows * n * heads * (b + FP32) + 2 * n * heads * (double)x->g->g.head_dim * b) *
               x->batch;
    return FP32 * n * lanes * x->batch;
}

/* How much longer than after the prompt a lane is when it is longest: by every decoded token
 * where none is dropped, else by what the longest step says of lanes that may grow at all. */
static double growth(const memory_case *x)
{
    const kvt_cost_load *load = x->load;
    double kept = 0;
    int n = 0;
    if (load->n_run == 0)
        return 0;
    if (!x->work->in_decode || x->work->keeps_all || x->c->setting->masked)
        return (double)x->c->n_response;
    for (int l = 0; l < x->shape.n_layer; l++) {
        double most = load->kept[l].held / x->shape.n_lane;
        kept += load->kept[l].held;
        n += cost_layer_tokens(x->g, x->c->setting, l, INFINITY) > most;
    }
    return n > 0 ? fmax(load->top.held - kept, 0) / n / x->shape.n_lane : 0;
}

static void set_lengths(memory_case *x, double n)
{
    const kvt_cost_case *c = x->c;
    double chunk = (double)c->setting->chunk;
    x->n = n;
    x->scale = c->n_prompt > 0 ? n / (double)c->n_prompt : 1;
    x->pass = n + cost_extra_tokens(c);
    x->alive = chunk > 0 && chunk < x->pass ? chunk : x->pass;
    x->last = chunk > 0 && chunk < n ? n - chunk * (ceil(n / chunk) - 1) : 0;
    x->evicts = x->work->when != KVT_WHEN_NEVER && c->budget < c->n_prompt;
    x->copies = x->evicts && !c->setting->masked && !x->work->keeps_all;
}

void memory_case_of(memory_case *out, const kvt_cost_case *c, double n, double batch)
{
    const kvt_cost_geometry *g = c->geometry;
    const kvt_cost_setting *s = c->setting;
    const kvt_machine *m = &c->constants->machine;
    double b = cost_act_bytes(m), tensor = (double)cost_tensor(s), lanes = cost_kv_split(g, s);
    *out = (memory_case){.c = c,
                         .g = g,
                         .load = c->load,
                         .work = c->work,
                         .m = m,
                         .shape = load_shape_of(g, c->work, s),
                         .batch = batch,
                         .slot = cost_slot_bytes(g, m, s) * batch / lanes,
                         .state_slot = c->work->state_slot * batch / lanes,
                         .state_lane = c->work->state_lane * batch / lanes};
    set_lengths(out, n);
    double E = (double)g->g.n_hidden, I = (double)g->g.n_ff;
    out->token_attention = b * HIDDEN_WIDTHS * E * batch;
    out->token_ffn = b * (FFN_WIDTHS * I / tensor + HIDDEN_WIDTHS * E) * batch;
    out->base =
        (kvt_memory_cost){.weights = cost_all_bytes(g, s),
                          .adapter = cost_adapter_params(g, c->work) * LORA_BYTES / tensor,
                          .runtime = m->runtime_bytes};
    out->score = score_bytes(out);
    out->growth = growth(out);
    add_draft(out);
}
