/* mini_cut.c - see mini_cut.h. Axes are those of kvt_feed and kvt_lane. */
#include "mini_cut.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const float *floats(const kvt_view *v)
{
    return v->data;
}

/* [X T D] of which the lane has the heads first..first + n - 1 and the slots: [n S D], or
 * without the axis of heads where n is 0. */
static kvt_view slots_of(const mini_cut *c, const kvt_view *in, int first, int n,
                         const kvt_lane *v)
{
    int64_t T = c->toy->T;
    int64_t D = in->axes[in->rank - 1] == 'T' ? 1 : in->dim[in->rank - 1];
    int count = n ? n : 1;
    float *out = kvt_arena_array(c->a, count * v->n_slot * D + 1, sizeof *out);
    for (int i = 0; i < count; i++)
        for (int64_t s = 0; s < v->n_slot; s++)
            for (int64_t d = 0; d < D; d++)
                out[(i * v->n_slot + s) * D + d] =
                    floats(in)[((first + i) * T + v->pos[s]) * D + d];
    if (n)
        return D > 1 ? kvt_view_of(out, KVT_F32, KVT_SHAPE("GSD", n, v->n_slot, D))
                     : kvt_view_of(out, KVT_F32, KVT_SHAPE("HS", n, v->n_slot));
    if (D == 1)
        return kvt_view_of(out, KVT_F32, KVT_SHAPE("S", v->n_slot));
    return kvt_view_of(out, KVT_F32,
                       KVT_SHAPE(in->axes[in->rank - 1] == 'E' ? "SE" : "SD", v->n_slot, D));
}

/* [H T D] at the positions of the queries, of some heads: [H Q D]. */
static kvt_view queries_of(const mini_cut *c, const kvt_view *in, int first, int n)
{
    int64_t T = in->dim[1], D = in->dim[2];
    float *out = kvt_arena_array(c->a, n * c->n_query * D + 1, sizeof *out);
    for (int h = 0; h < n; h++)
        memcpy(out + h * c->n_query * D, floats(in) + ((first + h) * T + c->first) * D,
               (size_t)(c->n_query * D) * sizeof *out);
    return kvt_view_of(out, KVT_F32, KVT_SHAPE("HQD", n, c->n_query, D));
}

/* Rows of the queries over the slots, as they were in the full cache. */
static kvt_view logits_of(const mini_cut *c, const kvt_view *in, const kvt_lane *v)
{
    int64_t T = in->dim[1];
    float *out = kvt_arena_array(c->a, c->n_head * c->n_query * v->n_slot + 1, sizeof *out);
    for (int h = 0; h < c->n_head; h++)
        for (int64_t q = 0; q < c->n_query; q++)
            for (int64_t s = 0; s < v->n_slot; s++)
                out[(h * c->n_query + q) * v->n_slot + s] =
                    floats(in)[((c->head + h) * T + c->first + q) * T + v->pos[s]];
    return kvt_view_of(out, KVT_F32, KVT_SHAPE("HQS", c->n_head, c->n_query, v->n_slot));
}

/* A lane's heads of [H ...]: they lie together. */
static kvt_view heads_of(const mini_cut *c, const kvt_view *in)
{
    kvt_view out = *in;
    out.data = floats(in) + c->head * in->stride[0];
    out.dim[0] = c->n_head;
    return out;
}

static void give_prompt(kvt_lane *v, const mini_cut *c, const kvt_feed *f)
{
    if (c->needs & KVT_NEED_BLOCKS) {
        v->blocks = heads_of(c, &f->blocks);
        v->blocks.axes[2] = 'S';
    }
}

/* Keys or values; of slots that the policy says it does not read, NaN. */
static kvt_view tokens_of(const mini_cut *c, const kvt_view *in, const kvt_lane *v, bool prompt)
{
    kvt_view out = slots_of(c, in, c->group, 0, v);
    float *x = (float *)(uintptr_t)out.data;
    for (int64_t i = 0; c->new_slots_only && !prompt && i < (v->n_slot - 1) * out.dim[1]; i++)
        x[i] = NAN;
    return out;
}

void mini_give(kvt_lane *v, const mini_cut *c, bool prompt)
{
    const kvt_feed *f = &c->toy->more[v->layer];
    if (prompt)
        give_prompt(v, c, f);
    if (c->needs & KVT_NEED_KEYS)
        v->keys = tokens_of(c, &f->keys, v, prompt);
    if (c->needs & KVT_NEED_VALUES)
        v->values = tokens_of(c, &f->values, v, prompt);
    if (c->needs & KVT_NEED_QUERIES)
        v->queries = queries_of(c, &f->queries, c->head, c->n_head);
    if (c->needs & KVT_NEED_LOGITS)
        v->logits = logits_of(c, &f->logits, v);
    if (c->needs & KVT_NEED_MOMENTS) {
        v->query_mean = heads_of(c, &f->query_mean);
        v->query_cov = heads_of(c, &f->query_cov);
        v->query_freq_abs = heads_of(c, &f->query_freq_abs);
    }
    if (c->needs & KVT_NEED_WO_NORM) {
        v->wo_l1 = slots_of(c, &f->wo_l1, c->head, c->n_head, v);
        v->wo_l2 = slots_of(c, &f->wo_l2, c->head, c->n_head, v);
    }
    if (c->needs & KVT_NEED_HIDDEN)
        v->hidden = slots_of(c, &f->hidden, 0, 0, v);
    if (c->needs & KVT_NEED_DECISION) {
        v->decision = slots_of(c, &f->decision, c->group, 0, v);
        v->decision_weight = slots_of(c, &f->decision_weight, c->group, 0, v);
    }
    if (c->needs & KVT_NEED_LAYER) {
        v->layer_queries = queries_of(c, &f->queries, 0, c->toy->n_head);
        v->layer_keys = slots_of(c, &f->keys, 0, c->toy->n_group, v);
        v->layer_values = slots_of(c, &f->values, 0, c->toy->n_group, v);
    }
}

/* ---- as long as the lane lives -------------------------------------------------------------
 */

/* One kv head of [G P D]. */
static kvt_view group_of(const mini_cut *c, const kvt_view *in)
{
    return kvt_view_at(in, c->group);
}

static const kvt_probe *probe_of(const kvt_lane *v, const mini_cut *c, const char *kind,
                                 int64_t budget)
{
    const kvt_feed *f = &c->toy->more[v->layer];
    const kvt_probe_feed *found = NULL;
    for (int i = 0; i < f->n_probe; i++) {
        bool is = strcmp(kvt_probe_kind_name(c->toy->probe_kind[i]), kind) == 0;
        if (is && (!found || f->probe[i].budget == budget))
            found = &f->probe[i];
    }
    kvt_probe *p = found ? kvt_arena_get(c->a, sizeof *p) : NULL;
    if (!found)
        return NULL;
    *p = (kvt_probe){.queries = heads_of(c, &found->queries),
                     .keys = group_of(c, &found->keys),
                     .lse = heads_of(c, &found->lse),
                     .pos = found->pos,
                     .h_norm = found->norm,
                     .budget = found->budget,
                     .n_segment = found->n_segment,
                     .segment = found->segment,
                     .begin = found->begin,
                     .end = found->end,
                     .from = found->from};
    p->queries.axes[1] = p->lse.axes[1] = p->keys.axes[0] = 'Q';
    p->pos.axes[0] = p->h_norm.axes[0] = 'Q';
    if (found->attn.data) {
        p->attn = heads_of(c, &found->attn);
        memcpy(p->attn.axes, "HQS", 4);
    }
    return p;
}

/* The lane's part of a tensor: the axes L and G go, H is its heads. A lane of the swapped toy
 * reads what its head was called before. */
static kvt_view tensor_of(const kvt_lane *v, const mini_cut *c, const kvt_view *in)
{
    const toy *t = c->toy;
    kvt_view out = *in;
    int group = t->swapped ? t->n_group - 1 - c->group : c->group;
    int each = t->n_head / t->n_group;
    int head = t->swapped ? group * each + c->head % each : c->head;
    if (out.axes[0] == 'L')
        out = kvt_view_at(&out, v->layer);
    if (out.axes[0] == 'G')
        out = kvt_view_at(&out, group);
    if (out.axes[0] == 'H') {
        out.data = floats(&out) + head * out.stride[0];
        out.dim[0] = c->n_head;
    }
    return out;
}

/* Tensors of a kind's file, as the list names them; NULL: the toy lacks one. */
static const kvt_view *tensors(const kvt_lane *v, const mini_cut *c, const kvt_weight *list,
                               const char *kind)
{
    const toy_weights *from = NULL;
    int n = 0;
    for (int i = 0; i < c->toy->n_weights; i++)
        if (strcmp(c->toy->weights[i].kind, kind) == 0)
            from = &c->toy->weights[i];
    while (list && list[n].name)
        n++;
    kvt_view *view = kvt_arena_array(c->a, n + 1, sizeof *view);
    for (int i = 0; from && i < n; i++)
        for (int k = 0; k < from->n; k++)
            if (strcmp(from->tensor[k].name, list[i].name) == 0)
                view[i] = tensor_of(v, c, &from->tensor[k].view);
    for (int i = 0; i < n; i++)
        if (!view[i].data)
            return NULL;
    return from ? view : NULL;
}

bool mini_open_table(kvt_lane *v, const mini_cut *c, const kvt_share *share)
{
    const char *kind = share->weights_kind ? share->weights_kind : share->name;
    v->share_weights = tensors(v, c, share->weights, kind);
    return v->share_weights != NULL;
}

static bool open_weights(kvt_lane *v, const mini_cut *c, const kvt_policy *p)
{
    v->weights = tensors(v, c, p->weights, p->weights_kind ? p->weights_kind : p->name);
    return v->weights != NULL;
}

bool mini_open(kvt_lane *v, const mini_cut *c, const kvt_policy *p, const kvt_traits *traits,
               int64_t budget)
{
    enum {
        MORE = KVT_NEED_KEYS | KVT_NEED_VALUES | KVT_NEED_QUERIES | KVT_NEED_MOMENTS |
               KVT_NEED_WO_NORM | KVT_NEED_HIDDEN | KVT_NEED_DECISION | KVT_NEED_PROBE |
               KVT_NEED_LOGITS | KVT_NEED_BLOCKS | KVT_NEED_WEIGHTS | KVT_NEED_LAYER
    };
    if (!c->toy->more)
        return !(c->needs & MORE);
    const kvt_feed *f = &c->toy->more[v->layer];
    if (c->needs & KVT_NEED_DECISION) {
        if (!f->decision.data)
            return false;
        v->decision_gamma = floats(&f->decision_gamma)[c->group];
    }
    if (c->needs & KVT_NEED_PROBE && !(v->probe = probe_of(v, c, traits->probe, budget)))
        return false;
    return !(c->needs & KVT_NEED_WEIGHTS) || open_weights(v, c, p);
}

/* ---- the base of a policy ------------------------------------------------------------------
 */

void mini_split(mini_text *out, const char *params)
{
    *out = (mini_text){0};
    for (const char *at = params ? params : ""; *at;) {
        int n = (int)strcspn(at, ",");
        char *to = out->own;
        size_t cap = sizeof out->own;
        if (strncmp(at, "base=", 5) == 0) {
            snprintf(out->name, sizeof out->name, "%.*s", n - 5, at + 5);
        } else {
            if (strncmp(at, "base.", 5) == 0)
                to = out->base, cap = sizeof out->base, at += 5, n -= 5;
            size_t used = strlen(to);
            snprintf(to + used, cap - used, "%s%.*s", used ? "," : "", n, at);
        }
        at += n + (at[n] == ',');
    }
}

kvt_code mini_base_open(mini_base *b, const kvt_policy *p, const mini_text *text,
                        kvt_traits *traits, kvt_arena *a, kvt_err *err)
{
    b->policy = kvt_policy_find(*text->name ? text->name : p->base);
    if (!b->policy || !b->policy->score || traits->phases != KVT_PREFILL)
        return kvt_fail(err, KVT_USAGE, "%s: no base for this driver", p->name);
    kvt_traits t = b->policy->traits;
    b->params = kvt_arena_get(a, b->policy->params_size + 1);
    if (b->policy->params)
        kvt_param_defaults(b->policy->params, b->params);
    if (*text->base && kvt_param_parse(b->policy->params, b->params, text->base, err))
        return err->code;
    if (b->policy->vary)
        b->policy->vary(b->params, &t);
    traits->needs |= t.needs;
    traits->by_query_head |= t.by_query_head;
    traits->one_ranking &= t.one_ranking;
    return KVT_OK;
}

void mini_base_lanes(mini_base *b, const kvt_sequence *seq, int64_t budget, int64_t n_token,
                     int n_lane, kvt_arena *a)
{
    if (!b->policy)
        return;
    int width = b->policy->slot_width;
    size_t size = b->policy->state_size;
    if (b->policy->size)
        b->policy->size(b->params, seq, budget, &width, &size);
    b->mark = kvt_arena_array(a, n_lane, sizeof *b->mark);
    b->state = kvt_arena_array(a, n_lane, sizeof *b->state);
    for (int i = 0; i < n_lane; i++) {
        b->mark[i] = kvt_arena_array(a, n_token * (width + 1), sizeof **b->mark);
        b->state[i] = kvt_arena_get(a, size + 1);
    }
}

bool mini_base_fits(const mini_base *b, int64_t budget, int64_t n_prompt, char *why, size_t cap)
{
    return !b->policy || !b->policy->fits ||
           b->policy->fits(b->params, budget, n_prompt, why, cap);
}

int64_t mini_base_window(const mini_base *b, int64_t n_prompt)
{
    return b->policy->window ? b->policy->window(b->params, n_prompt) : 0;
}

void mini_base_run(const mini_base *b, int lane, kvt_lane *v, float *score, bool *pinned)
{
    v->mark = b->mark[lane];
    v->state = b->state[lane];
    if (score)
        b->policy->score(b->params, score, pinned, v);
    else if (b->policy->step)
        b->policy->step(b->params, v);
}
