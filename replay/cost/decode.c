/* decode.c - decode steps: weights, keys and values, what the policy adds, the host beside it.
 *
 *   device   t_step + L t_layer + batch t_req
 *            + max(bytes of the matrices, 2 batch (theta_lin + theta_head))
 *            + kv_traffic x bytes of keys and values, of the longest lane where lanes differ
 *            + scoring, state and selection of a decision, and its copies, over its period
 *   step     (device^s + host^s)^(1/s); the larger one where s is 0
 *
 * Time that drawing a token takes is in t_step: 14 bytes for each row of the vocabulary and
 * request are below a per mille of a step, save with the smallest models at large batches. */
#include "replay/cost/time_priv.h"

/* Bytes of a score that is written by a framework's operators; of a slot in a search for the
 * least one, and in a selection of many (evict.c). */
enum { EAGER_BYTES = 24, LEAST_BYTES = 4, SELECT_BYTES = 28, DECISION_LAUNCHES = 8 };

/* ---- what the policy adds ------------------------------------------------------------------
 */

typedef struct place {
    const kvt_cost_case *c;
    const kvt_machine *m;
    double mem_bw;
    double slot;         /* bytes of a slot on this device, of all requests */
    double lanes, heads; /* lanes of all layers; query heads of one that is ranked */
} place;

static double every(const kvt_cost_work *w)
{
    return w->every > 1 ? (double)w->every : 1;
}

/* Rows of queries, or products as long, that a decision takes with the keys beside the step's
 * own attention. */
static double rows_anew(const kvt_cost_case *c)
{
    const kvt_cost_work *w = c->work;
    if (w->decode_rows > 1) /* one row is the step's own: its scores are there already */
        return (double)w->decode_rows;
    return w->score == KVT_SCORE_MOMENTS ? (double)c->geometry->g.head_dim : 0;
}

/* Of each slot that a decision ranks. */
static double rank_slot(const place *p)
{
    const kvt_cost_work *w = p->c->work;
    const kvt_cost_setting *s = p->c->setting;
    double device = (double)cost_batch(s) / cost_kv_split(p->c->geometry, s);
    double moves = p->mem_bw * p->m->e_m, rows = rows_anew(p->c), time = 0;
    cost_bound by = {0};
    double passes = (w->decode_reads_keys || rows > 0) + w->decode_reads_values;
    if (passes > 0)
        time += cost_rows_time(&by, p->c, p->mem_bw, 1, p->heads, rows, passes);
    if (p->m->engine == KVT_ENGINE_EAGER)
        time += EAGER_BYTES * (double)w->decode_rows * p->heads * device / moves;
    double bytes = w->decode_state_moves;
    if (w->selects)
        bytes += w->every > 1 ? SELECT_BYTES : LEAST_BYTES;
    return (time + bytes * device / moves) / every(w);
}

/* Of each step. */
static double step_token(const place *p)
{
    const kvt_cost_work *w = p->c->work;
    const kvt_cost_setting *s = p->c->setting;
    double moves = p->mem_bw * p->m->e_m, time = 0;
    if (w->network_flops > 0) {
        double math =
            w->network_flops * p->lanes * (double)cost_batch(s) / cost_dense_rate(p->m, s);
        double memory = w->network_params * p->lanes * cost_act_bytes(p->m) /
                        (double)cost_tensor(s) / moves;
        time += math > memory ? math : memory;
    }
    if (w->joins)
        time += 2 * p->slot * p->lanes / moves;
    /* a lane's own state, once each way between two decisions */
    time += 2 * w->state_lane * p->lanes * (double)cost_batch(s) /
            cost_kv_split(p->c->geometry, s) / moves / every(w);
    if (w->every > 1) /* a decision of its own, not a part of the step's kernels */
        time +=
            DECISION_LAUNCHES * (double)p->c->geometry->g.n_layer * p->m->t_launch / every(w);
    return time;
}

static void add_policy(cost_step_rates *out, const place *p)
{
    const kvt_cost_work *w = p->c->work;
    out->rank = rank_slot(p);
    out->token = step_token(p);
    bool stays = w->in_place || w->joins || w->keeps_all || p->c->setting->masked;
    out->move = stays ? 0 : 2 * p->slot / (p->mem_bw * p->m->e_m) / every(w);
}

/* ---- a step --------------------------------------------------------------------------------
 */

static void rates_of(cost_step_rates *out, const place *p, double weight_bytes)
{
    const kvt_cost_case *c = p->c;
    double matrices = (double)(c->geometry->theta_lin + c->geometry->theta_head);
    double math = 2 * (double)cost_batch(c->setting) * matrices /
                  cost_linear_rate(p->m, c->geometry, c->setting);
    double memory = weight_bytes / (p->mem_bw * p->m->e_w);
    double traffic = p->m->kv_traffic > 0 ? p->m->kv_traffic : 1;
    *out = (cost_step_rates){.weights = math > memory ? math : memory,
                             .math = math > memory,
                             .kv = traffic * p->slot / (p->mem_bw * p->m->e_kv)};
    if (c->work && c->work->in_decode)
        add_policy(out, p);
}

void cost_steps_of(cost_steps *out, const kvt_cost_case *c)
{
    const kvt_machine *m = &c->constants->machine;
    const kvt_cost_geometry *g = c->geometry;
    const kvt_cost_setting *s = c->setting;
    double batch = (double)cost_batch(s), layers = (double)g->g.n_layer;
    bool whole = c->work && c->work->keeps_all;
    double lanes = cost_lanes(g, c->work);
    place p = {.c = c,
               .m = m,
               .mem_bw = m->mem_bw,
               .slot = cost_slot_bytes(g, m, s) * batch / cost_kv_split(g, s),
               .lanes = lanes * layers,
               .heads = (double)g->g.n_head / cost_lanes(g, whole ? NULL : c->work)};
    double weights = cost_lin_bytes(g, s) + cost_head_bytes(g, s);
    *out = (cost_steps){.near_slots = -1, .smooth = m->host_smooth};
    rates_of(&out->far, &p, weights);
    if (weights < m->cache_bytes) {
        out->near_slots = (m->cache_bytes - weights) / p.slot;
        p.mem_bw *= m->cache_gain > 1 ? m->cache_gain : 1;
        rates_of(&out->near, &p, weights);
    }
    out->fixed = m->t_step + layers * m->t_layer + batch * m->t_req;
    out->exchange = cost_exchange(g, m, s, 1, 1);
    out->host = m->host_floor_step + layers * m->host_floor_layer;
    out->ranks_held = whole;
}

/* What a step takes where the host takes `host` beside it. */
static double beside(double device, double host, double smooth)
{
    double most = host > device ? host : device, least = host > device ? device : host;
    if (!(smooth > 0) || !(least > 0))
        return device >= host || device != device ? device : host;
    return most * pow(1 + pow(least / most, smooth), 1 / smooth);
}

void cost_step_at(kvt_decode_cost *out, const cost_steps *s, const kvt_cost_run *run)
{
    const cost_step_rates *r = run->slots <= s->near_slots ? &s->near : &s->far;
    double ranked = s->ranks_held ? run->held : run->slots;
    double read = run->busiest > run->slots ? run->busiest : run->slots;
    if (s->ranks_held && run->slots > run->held) /* query heads of a lane read together */
        read *= run->held / run->slots;
    out->fixed = s->fixed;
    out->weights = r->weights;
    out->kv = r->kv * read;
    out->policy = r->token + r->rank * ranked;
    out->copy = r->move * run->slots;
    out->exchange = s->exchange;
    double device =
        out->fixed + out->weights + out->kv + out->policy + out->copy + out->exchange;
    double total = beside(device, s->host, s->smooth);
    out->host = total > device ? total - device : 0;
    out->total = total;
}

void kvt_cost_step(kvt_decode_cost *out, const kvt_cost_case *c, const kvt_cost_run *run)
{
    cost_steps s;
    cost_steps_of(&s, c);
    cost_step_at(out, &s, run);
}

/* ---- all steps -----------------------------------------------------------------------------
 */

static const kvt_decode_cost nothing = {
#define X(name, help) .name = NAN,
    KVT_DECODE_PARTS(X)
#undef X
        .total = NAN};

static void add(kvt_decode_cost *sum, const kvt_decode_cost *d, double times)
{
#define X(name, help) sum->name += times * d->name;
    KVT_DECODE_PARTS(X)
#undef X
    sum->total += times * d->total;
}

static kvt_bottleneck step_bound(const kvt_decode_cost *d, bool math)
{
    cost_bound by = {.math = math ? d->weights : 0,
                     .memory =
                         (math ? 0 : d->weights) + d->kv + d->policy + d->copy + d->exchange,
                     .host = d->fixed + d->host};
    return cost_bound_name(&by);
}

void cost_decode(kvt_cost *out, const kvt_cost_case *c)
{
    const kvt_cost_load *load = c->load;
    out->step_first = out->step_mean = out->step_last = nothing;
    out->decode = 0;
    out->cache_resident = false;
    if (!load || load->n_run == 0)
        return;
    cost_steps s;
    kvt_decode_cost sum = {0}, one;
    double steps = 0;
    cost_steps_of(&s, c);
    cost_step_at(&out->step_first, &s, &load->first);
    cost_step_at(&out->step_last, &s, &load->last);
    for (int i = 0; i < load->n_run; i++) {
        cost_step_at(&one, &s, &load->run[i]);
        add(&sum, &one, load->run[i].steps);
        steps += load->run[i].steps;
    }
    out->decode = sum.total;
    if (!(steps > 0))
        return;
    out->step_mean = (kvt_decode_cost){0};
    add(&out->step_mean, &sum, 1 / steps);
    out->cache_resident = load->last.slots <= s.near_slots;
    out->step_bound =
        step_bound(&out->step_mean, out->cache_resident ? s.near.math : s.far.math);
}
