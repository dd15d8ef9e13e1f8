/* fill.c - what a policy gets to see: the views of a kvt_lane.
 *
 * While nothing was evicted a view points into what was fed. Afterwards it is a copy gathered
 * over the slots that are left. What a policy did not declare stays NULL, so that an undeclared
 * use fails instead of passing unseen. */
#include "replay/engine_priv.h"

#include <math.h>
#include <string.h>

/* Which part of a fed array belongs to a lane, and which slots of it. */
typedef struct part {
    const int64_t *pos;
    int64_t n_slot, from; /* slots before `from` are left as they are */
    bool whole;           /* slots 0..n_slot-1 hold positions 0..n_slot-1 */
    int first, count;     /* of the outermost axis */
    bool drop;            /* the outermost axis goes */
    kvt_arena *work;
} part;

static const char *bytes_at(const kvt_view *v, int64_t element)
{
    return (const char *)v->data + element * (int64_t)kvt_dtype_size(v->dtype);
}

/* Copies [outer, token, inner] to [outer, slot, inner]. */
static void gather(char *out, const kvt_view *v, int axis, const part *p)
{
    int64_t size = (int64_t)kvt_dtype_size(v->dtype), outer = 1, inner = 1;
    for (int i = 0; i < axis; i++)
        outer *= v->dim[i];
    for (int i = axis + 1; i < v->rank; i++)
        inner *= v->dim[i];
    /* Only the last axis may lie behind the token's: [S D], [S E]. */
    int64_t inner_step = (axis + 1 < v->rank ? v->stride[axis + 1] : 1) * size;
    int64_t step = v->stride[axis] * size;
    for (int64_t o = 0; o < outer; o++) {
        int64_t at = 0, rest = o;
        for (int i = axis - 1; i >= 0; i--) {
            at += rest % v->dim[i] * v->stride[i];
            rest /= v->dim[i];
        }
        const char *from = bytes_at(v, at);
        out += p->from * inner * size;
        for (int64_t s = p->from; s < p->n_slot; s++) {
            const char *token = from + p->pos[s] * step;
            if (inner_step == size) {
                memcpy(out, token, (size_t)(inner * size));
                out += inner * size;
                continue;
            }
            for (int64_t i = 0; i < inner; i++, out += size)
                memcpy(out, token + i * inner_step, (size_t)size);
        }
    }
}

/* The lane's part of a fed array; `token` is the letter of the axis that becomes S. */
static kvt_code cut(kvt_view *out, const kvt_view *in, char token, const part *p, kvt_err *err)
{
    *out = (kvt_view){0};
    if (!in->data)
        return KVT_OK;
    kvt_view v = *in;
    if (p->count >= 0) {
        v.data = bytes_at(in, p->first * in->stride[0]);
        v.dim[0] = p->count;
        if (p->drop)
            v = kvt_view_at(&v, 0);
    }
    const char *found = strchr(v.axes, token);
    if (!found) { /* an axis of its own name only: statistics of the queries */
        *out = v;
        return KVT_OK;
    }
    int axis = (int)(found - v.axes);
    v.axes[axis] = 'S';
    if (p->whole) {
        v.dim[axis] = p->n_slot;
        *out = v;
        return KVT_OK;
    }
    kvt_view copy = v;
    copy.dim[axis] = p->n_slot;
    int64_t n = kvt_view_count(&copy);
    char *data = kvt_arena_array(p->work, n ? n : 1, kvt_dtype_size(v.dtype));
    if (!data)
        return kvt_fail_memory(err, n);
    gather(data, &v, axis, p);
    *out = kvt_view_of(data, v.dtype, v.axes, (size_t)v.rank, copy.dim);
    return KVT_OK;
}

bool engine_one_probe(const kvt_engine *e)
{
    for (int b = 1; e->probe_of && b < e->n_budget; b++)
        if (e->probe_of[b] != e->probe_of[0])
            return false;
    return true;
}

/* The lane's part of a probe. Its rows hold slots; its other axes are its own tokens. */
static kvt_code fill_probe(const kvt_engine *e, kvt_lane *out, int budget, int layer,
                           const part *heads, const part *one, kvt_err *err)
{
    const kvt_feed *f = &e->layer[layer].feed;
    int which = e->probe_of ? e->probe_of[budget < 0 ? 0 : budget] : 0;
    if (which < 0 || which >= f->n_probe || (budget < 0 && !engine_one_probe(e)))
        return KVT_OK;
    const kvt_probe_feed *from = &f->probe[which];
    kvt_probe *p = kvt_arena_array(heads->work, 1, sizeof *p);
    if (!p)
        return kvt_fail_memory(err, sizeof *p);
    *p = (kvt_probe){.pos = from->pos,
                     .h_norm = from->norm,
                     .budget = from->budget,
                     .n_segment = from->n_segment,
                     .segment = from->segment,
                     .begin = from->begin,
                     .end = from->end,
                     .from = from->from};
    if (cut(&p->attn, &from->attn, 'N', heads, err) ||
        cut(&p->queries, &from->queries, '-', heads, err) ||
        cut(&p->keys, &from->keys, '-', one, err) || cut(&p->lse, &from->lse, '-', heads, err))
        return err->code;
    /* What a policy calls Q is P in the file. */
    kvt_view *own[] = {&p->attn, &p->queries, &p->keys, &p->lse, &p->pos, &p->h_norm};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        for (char *at = own[i]->axes; *at; at++)
            if (*at == 'P')
                *at = 'Q';
    out->probe = p;
    return KVT_OK;
}

/* Identity, clock and the slots themselves. */
static void fill_place(const kvt_engine *e, kvt_lane *out, int budget, int layer, int lane,
                       const int64_t *pos, int64_t n_slot)
{
    const engine_layer *l = &e->layer[layer];
    const kvt_view *gamma = &l->feed.decision_gamma;
    int group = lane * e->n_kv / e->n_lane;
    *out = (kvt_lane){.layer = layer,
                      .group = lane,
                      .n_layer = (int)e->geometry.n_layer,
                      .model_layer = e->seq.layer_id ? e->seq.layer_id[layer] : layer,
                      .now = l->n_arrived - 1,
                      .n_slot = n_slot,
                      .step = l->step,
                      .pos = pos,
                      .seq = &e->seq,
                      .threshold = e->threshold && budget >= 0 ? e->threshold[budget] : NAN,
                      .decision_gamma = gamma->data ? ((const float *)gamma->data)[group] : 1,
                      .scratch = l->hook};
}

/* Which query heads and which kv head a lane reads: one of each where it is a query head's. */
typedef struct parts {
    part heads, one, own; /* its query heads; its kv head; what is the lane's own */
    part all;             /* of the layer */
    part fresh; /* keys and values: those of the newest slot, where no other is read */
} parts;

static parts parts_of(const kvt_engine *e, int layer, int lane, const int64_t *pos,
                      int64_t n_slot)
{
    const engine_layer *l = &e->layer[layer];
    parts p = {.heads = {.pos = pos,
                         .n_slot = n_slot,
                         .whole = n_slot == 0 || pos[n_slot - 1] == n_slot - 1,
                         .first = lane * e->n_head,
                         .count = e->n_head,
                         .work = l->work}};
    p.one = p.own = p.all = p.heads;
    p.one.first = lane * e->n_kv / e->n_lane, p.one.count = 1, p.one.drop = true;
    p.own.first = lane, p.own.count = 1, p.own.drop = true;
    p.all.count = -1;
    p.fresh = p.one;
    if (e->traits.new_slots_only && l->n_arrived > e->n_prompt && n_slot > 0)
        p.fresh.from = n_slot - 1;
    return p;
}

/* Views that are a part of one fed array. */
static kvt_code fill_views(const kvt_engine *e, kvt_lane *out, int layer, const parts *p,
                           kvt_err *err)
{
    const engine_layer *l = &e->layer[layer];
    const kvt_feed *f = &l->feed;
    const struct {
        unsigned need;
        kvt_view *to;
        const kvt_view *from;
        char token;
        const part *part;
    } lines[] = {
        {KVT_NEED_ATTN, &out->attn, &f->rows, 'T', &p->heads},
        {KVT_NEED_LOGITS, &out->logits, &f->logits, 'T', &p->heads},
        {KVT_NEED_KEYS, &out->keys, &f->keys, 'T', &p->fresh},
        {KVT_NEED_VALUES, &out->values, &f->values, 'T', &p->fresh},
        {KVT_NEED_QUERIES, &out->queries, &f->queries, '-', &p->heads},
        {KVT_NEED_COLUMNS, &out->col_sum, &f->col_sum, 'N', &p->heads},
        {KVT_NEED_COLUMNS, &out->col_max, &f->col_max, 'N', &p->heads},
        {KVT_NEED_BLOCKS, &out->blocks, &f->blocks, 'N', &p->heads},
        {KVT_NEED_MOMENTS, &out->query_mean, &f->query_mean, '-', &p->heads},
        {KVT_NEED_MOMENTS, &out->query_cov, &f->query_cov, '-', &p->heads},
        {KVT_NEED_MOMENTS, &out->query_freq_abs, &f->query_freq_abs, '-', &p->heads},
        {KVT_NEED_WO_NORM, &out->wo_l1, &f->wo_l1, 'T', &p->heads},
        {KVT_NEED_WO_NORM, &out->wo_l2, &f->wo_l2, 'T', &p->heads},
        {KVT_NEED_HIDDEN, &out->hidden, &f->hidden, 'T', &p->all},
        {KVT_NEED_DECISION, &out->decision, &f->decision, 'T', &p->one},
        {KVT_NEED_DECISION, &out->decision_weight, &f->decision_weight, 'T', &p->one},
        {KVT_NEED_LAYER, &out->layer_queries, &f->queries, '-', &p->all},
        {KVT_NEED_LAYER, &out->layer_keys, &f->keys, 'T', &p->all},
        {KVT_NEED_LAYER, &out->layer_values, &f->values, 'T', &p->all},
        {KVT_NEED_SCORES, &out->scores, &f->scores, 'N', &p->own},
        {KVT_NEED_SCORES, &out->scores_pinned, &f->scores_pinned, 'N', &p->own},
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        /* Columns and blocks of the prompt say nothing of slots that came later. */
        bool prompt_only = lines[i].token == 'N' && l->n_arrived > e->n_prompt;
        if ((e->traits.needs & lines[i].need) && !prompt_only &&
            cut(lines[i].to, lines[i].from, lines[i].token, lines[i].part, err))
            return err->code;
    }
    return KVT_OK;
}

/* What queries after `now` look at, and add to their outputs. */
static kvt_code fill_future(const kvt_engine *e, kvt_lane *out, int layer, const part *heads,
                            kvt_err *err)
{
    const engine_layer *l = &e->layer[layer];
    const kvt_view *future = &l->feed.future;
    if (cut(&out->future_all, future, '-', heads, err) ||
        cut(&out->future_rest, &l->feed.future_rest, '-', heads, err))
        return err->code;
    if ((heads->whole || !e->traits.future_by_position) &&
        cut(&out->future, future, 'T', heads, err))
        return err->code;
    if (!future->data || future->dim[2] <= l->n_arrived)
        return KVT_OK;
    out->future_late = *future;
    out->future_late.data =
        bytes_at(future, heads->first * future->stride[0] + l->n_arrived * future->stride[2]);
    out->future_late.dim[0] = heads->count;
    out->future_late.dim[2] -= l->n_arrived;
    return KVT_OK;
}

kvt_code engine_fill(const kvt_engine *e, kvt_lane *out, int budget, int layer, int lane,
                     const int64_t *pos, int64_t n_slot, kvt_err *err)
{
    const engine_layer *l = &e->layer[layer];
    const kvt_view *plans = &l->feed.drop_step;
    unsigned needs = e->traits.needs;
    parts p = parts_of(e, layer, lane, pos, n_slot);
    fill_place(e, out, budget, layer, lane, pos, n_slot);
    if (fill_views(e, out, layer, &p, err) ||
        ((needs & KVT_NEED_FUTURE) && fill_future(e, out, layer, &p.heads, err)))
        return err->code;
    if ((needs & KVT_NEED_PLAN) && budget >= 0 && plans->data) {
        kvt_view plan = kvt_view_at(plans, budget);
        if (cut(&out->drop_step, &plan, 'T', &p.own, err))
            return err->code;
    }
    if ((needs & KVT_NEED_PROBE) && l->n_arrived == e->n_prompt &&
        fill_probe(e, out, budget, layer, &p.heads, &p.one, err))
        return err->code;
    if ((needs & KVT_NEED_WEIGHTS) &&
        engine_fill_tensors(e, &e->weights, &out->weights, layer, lane, err))
        return err->code;
    return engine_fill_tensors(e, &e->table, &out->share_weights, layer, lane, err);
}

static void gather_row(float *out, const float *row, const int64_t *pos, int64_t n_slot)
{
    double sum = 0;
    for (int64_t s = 0; s < n_slot; s++) {
        out[s] = row[pos[s]];
        sum += (double)out[s];
    }
    /* All that is left may have underflowed in halves, or lie behind the query: such a row says
     * nothing. */
    double scale = sum > 0 ? 1 / sum : 0;
    for (int64_t s = 0; s < n_slot; s++)
        out[s] = (float)((double)out[s] * scale);
}

void engine_rows(const kvt_engine *e, float *out, int layer, int lane, const int64_t *pos,
                 int64_t n_slot)
{
    const engine_layer *l = &e->layer[layer];
    const kvt_view *rows = &l->feed.rows;
    bool whole = n_slot == l->n_arrived;
    for (int h = 0; h < e->n_head; h++) {
        const float *row = (const float *)rows->data + (lane * e->n_head + h) * rows->stride[0];
        for (int64_t q = 0; q < rows->dim[1]; q++, out += n_slot, row += rows->stride[1]) {
            if (whole)
                memcpy(out, row, (size_t)n_slot * sizeof *out);
            else
                gather_row(out, row, pos, n_slot);
        }
    }
}
