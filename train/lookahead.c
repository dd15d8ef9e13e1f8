/* lookahead.c - a pass over the soft tokens' rows: memory and the order of a layer; forward,
 * and backward in the opposite order. */
#include "train/lookahead_priv.h"

#include <assert.h>
#include <math.h>
#include <omp.h>
#include <string.h>

#include "compute/backend.h"
#include "kvt/arena.h"

void look_layout_of(look_layout *out, const kvt_geometry *g, int64_t n_token, int64_t rank,
                    unsigned maps, double scale)
{
    int64_t at = n_token * g->n_hidden;
    *out = (look_layout){.n_token = n_token, .rank = rank, .scale = scale};
    for (int l = 0; l < g->n_layer; l++)
        for (int m = 0; m < ADAPTER_MAPS; m++) {
            bool dead = l == g->n_layer - 1 && m != ADAPTER_Q && m != ADAPTER_K;
            int64_t in, n_out;
            out->a[l][m] = out->b[l][m] = -1;
            if (dead || rank < 1 || !(maps >> m & 1))
                continue;
            adapter_map_shape(g, (adapter_map_id)m, &in, &n_out);
            out->a[l][m] = at;
            out->b[l][m] = at + rank * in;
            at += rank * (in + n_out);
        }
    out->n_param = at;
}

/* Hands out parts of one block; with base NULL it only counts. */
typedef struct carver {
    char *base;
    int64_t at;
} carver;

static void *take(carver *c, int64_t n, size_t size)
{
    void *out = c->base ? c->base + c->at : NULL;
    c->at += (n * (int64_t)size + 63) / 64 * 64;
    return out;
}

static real *reals(carver *c, int64_t n)
{
    return take(c, n, sizeof(real));
}

static void carve_saved(carver *c, look_saved *s, const look_model *m,
                        const look_layout *layout, const look_room *room)
{
    const kvt_geometry *g = m->geometry;
    int64_t n = layout->n_token, r = room->n_sample * n, hd = g->n_head * g->head_dim,
            gd = g->n_kv_head * g->head_dim, most = room->n_sample * room->n_prompt;
    s->x = reals(c, r * g->n_hidden);
    s->y = reals(c, r * g->n_hidden);
    s->q = reals(c, r * hd);
    s->k = reals(c, r * gd);
    s->v = reals(c, r * gd);
    s->q_in = m->arch->qk_norm ? reals(c, r * hd) : s->q;
    s->k_in = m->arch->qk_norm ? reals(c, r * gd) : s->k;
    s->o = reals(c, r * hd);
    s->mid = reals(c, r * g->n_hidden);
    s->attn = m->arch->post_norm ? reals(c, r * g->n_hidden) : NULL;
    s->ffn = m->arch->post_norm ? reals(c, r * g->n_hidden) : NULL;
    s->y2 = reals(c, r * g->n_hidden);
    s->gate = reals(c, r * g->n_ff);
    s->up = reals(c, r * g->n_ff);
    s->act = reals(c, r * g->n_ff);
    for (int i = 0; i < ADAPTER_MAPS; i++)
        s->xa[i] = reals(c, r * layout->rank);
    s->prob = reals(c, g->n_head * n * (most + r));
    s->coef = reals(c, g->n_head * most);
}

static void carve_own(carver *c, look_own *own, const kvt_geometry *g,
                      const look_layout *layout, const look_room *room)
{
    int64_t n = layout->n_token, n_key = room->n_prompt + n, d = g->head_dim,
            rows = g->n_head / g->n_kv_head * n;
    own->k = reals(c, n_key * d);
    own->v = reals(c, n_key * d);
    own->q = reals(c, rows * d);
    own->t = reals(c, rows * d);
    own->z = reals(c, rows * n_key);
    own->own = reals(c, n * d);
}

/* Points everything of p into the block, or counts its bytes. */
static int64_t carve(look_pass *p, char *base, const look_model *m, const look_layout *layout,
                     const look_room *room)
{
    const kvt_geometry *g = m->geometry;
    carver c = {.base = base};
    look_saved saved;
    look_own own;
    int64_t r = room->n_sample * layout->n_token, hd = g->n_head * g->head_dim,
            gd = g->n_kv_head * g->head_dim;
    p->saved = take(&c, g->n_layer, sizeof *p->saved);
    p->own = take(&c, room->n_thread, sizeof *p->own);
    p->loss = take(&c, g->n_layer * room->n_sample * g->n_head, sizeof *p->loss);
    for (int l = 0; l < g->n_layer; l++)
        carve_saved(&c, base ? &p->saved[l] : &saved, m, layout, room);
    for (int t = 0; t < room->n_thread; t++)
        carve_own(&c, base ? &p->own[t] : &own, g, layout, room);
    for (int i = 0; i < 2; i++)
        p->table[i] = reals(&c, r * g->head_dim);
    p->d_x = reals(&c, r * g->n_hidden);
    p->d_y = reals(&c, r * g->n_hidden);
    p->d_mid = reals(&c, r * g->n_hidden);
    p->d_q = reals(&c, r * hd);
    p->d_k = reals(&c, r * gd);
    p->d_v = reals(&c, r * gd);
    p->d_o = reals(&c, r * hd);
    p->d_gate = reals(&c, r * g->n_ff);
    p->d_up = reals(&c, r * g->n_ff);
    p->d_act = reals(&c, r * g->n_ff);
    for (int i = 0; i < 3; i++)
        p->lora[i] = reals(&c, r * layout->rank);
    return c.at;
}

int64_t look_bytes(const look_model *m, const look_layout *layout, const look_room *room)
{
    look_pass p;
    return carve(&p, NULL, m, layout, room);
}

kvt_code look_new(look_pass **out, const look_model *m, const look_layout *layout,
                  const look_room *room, kvt_err *err)
{
    look_pass *p = *out = kvt_alloc(1, sizeof *p);
    if (!p)
        return kvt_fail_memory(err, sizeof *p);
    assert(room->n_sample >= 1 &&
           room->n_sample <= (int)(sizeof p->sample / sizeof *p->sample));
    p->model = *m;
    p->layout = *layout;
    p->room = *room;
    int64_t bytes = look_bytes(m, layout, room);
    p->memory = kvt_alloc(bytes, 1);
    if (!p->memory) {
        look_free(p);
        *out = NULL;
        return kvt_fail_memory(err, bytes);
    }
    carve(p, p->memory, m, layout, room);
    return KVT_OK;
}

void look_free(look_pass *p)
{
    if (!p)
        return;
    kvt_free(p->memory);
    kvt_free(p);
}

double look_blas_s(const look_pass *p)
{
    double sum = 0;
    for (int t = 0; t < p->room.n_thread; t++)
        sum += p->own[t].blas_s;
    return sum;
}

void look_flops(const kvt_geometry *g, const look_layout *layout, int64_t n_prompt,
                double *linear, double *attention)
{
    double weights = 0, n = (double)layout->n_token, all = (double)(n_prompt + layout->n_token);
    for (int l = 0; l < g->n_layer; l++)
        for (int m = 0; m < ADAPTER_MAPS; m++) {
            int64_t in, out;
            adapter_map_shape(g, (adapter_map_id)m, &in, &out);
            if (l < g->n_layer - 1 || m == ADAPTER_Q || m == ADAPTER_K)
                weights += (double)(in * out);
        }
    *linear = 4 * n * weights + 6 * n * (double)(layout->n_param);
    *attention = 8 * n * all * (double)(g->head_dim * g->n_head * g->n_layer);
}

static look_linear linear(const look_pass *p, int layer, adapter_map_id map, const real *param,
                          real *grad)
{
    look_linear l = {.w = p->model.layer[layer].w[map], .map = (int)map};
    int64_t a = p->layout.a[layer][map], b = p->layout.b[layer][map];
    adapter_map_shape(p->model.geometry, map, &l.in, &l.out);
    if (a >= 0) {
        l.a = param + a;
        l.b = param + b;
        l.grad_a = grad ? grad + a : NULL;
        l.grad_b = grad ? grad + b : NULL;
    }
    return l;
}

/* The three maps of a layer's input; the last layer has no use for values. */
static void queries_keys_values(const look_pass *p, int i, const real *param, real *grad,
                                look_linear out[3])
{
    out[0] = linear(p, i, ADAPTER_Q, param, grad);
    out[1] = linear(p, i, ADAPTER_K, param, grad);
    out[2] = linear(p, i, ADAPTER_V, param, grad);
}

static void attention_forward(look_pass *p, int i, const real *param)
{
    const look_layer *w = &p->model.layer[i];
    const kvt_geometry *g = p->model.geometry;
    look_saved *s = &p->saved[i];
    bool last = i == g->n_layer - 1;
    int64_t d = g->head_dim, n = p->n_row;
    look_linear qkv[3];
    queries_keys_values(p, i, param, NULL, qkv);
    look_norm(p, s->y, s->x, w->attn_norm, n, g->n_hidden);
    look_linear_forward(p, s, qkv, last ? 2 : 3, s->y, (real *[]){s->q_in, s->k_in, s->v});
    look_bias(p, s->q_in, w->bq, g->n_head * d);
    look_bias(p, s->k_in, w->bk, g->n_kv_head * d);
    if (!last)
        look_bias(p, s->v, w->bv, g->n_kv_head * d);
    look_norm(p, s->q, s->q_in, w->q_norm, n * g->n_head, d);
    look_norm(p, s->k, s->k_in, w->k_norm, n * g->n_kv_head, d);
    look_rope(p, i, s->q, g->n_head, false);
    look_rope(p, i, s->k, g->n_kv_head, false);
    look_attend_forward(p, i);
}

static void layer_forward(look_pass *p, int i, const real *param)
{
    const look_layer *w = &p->model.layer[i];
    const kvt_geometry *g = p->model.geometry;
    look_saved *s = &p->saved[i];
    attention_forward(p, i, param);
    if (i == g->n_layer - 1)
        return;
    look_linear o = linear(p, i, ADAPTER_O, param, NULL),
                down = linear(p, i, ADAPTER_DOWN, param, NULL);
    look_linear gate_up[] = {linear(p, i, ADAPTER_GATE, param, NULL),
                             linear(p, i, ADAPTER_UP, param, NULL)};
    real *next = p->saved[i + 1].x, *attn = s->attn ? s->attn : s->mid,
         *ffn = s->ffn ? s->ffn : next;
    look_linear_forward(p, s, &o, 1, s->o, &attn);
    look_residual(p, s->mid, s->x, attn, w->post_attn_norm);
    look_norm(p, s->y2, s->mid, w->ffn_norm, p->n_row, g->n_hidden);
    look_linear_forward(p, s, gate_up, 2, s->y2, (real *[]){s->gate, s->up});
    look_gates(p, s);
    look_linear_forward(p, s, &down, 1, s->act, &ffn);
    look_residual(p, next, s->mid, ffn, w->post_ffn_norm);
}

/* The gradient of a branch, from that of the sum that it is part of; d_y is free then. */
static const real *branch_back(look_pass *p, const real *d_sum, const real *branch,
                               const real *gain)
{
    look_norm_back(p, p->d_y, NULL, branch, gain, d_sum, p->n_row, p->model.geometry->n_hidden);
    return gain ? p->d_y : d_sum;
}

/* d_x, of what the layer hands on, to d_mid and d_o. */
static void feed_forward_back(look_pass *p, int i, const real *param, real *grad)
{
    const look_layer *w = &p->model.layer[i];
    const look_saved *s = &p->saved[i];
    look_linear o = linear(p, i, ADAPTER_O, param, grad),
                down = linear(p, i, ADAPTER_DOWN, param, grad);
    look_linear gate_up[] = {linear(p, i, ADAPTER_GATE, param, grad),
                             linear(p, i, ADAPTER_UP, param, grad)};
    const real *d_branch = branch_back(p, p->d_x, s->ffn, w->post_ffn_norm);
    look_linear_backward(p, s, &down, 1, s->act, &d_branch, p->d_act);
    look_gates_back(p, s);
    look_linear_backward(p, s, gate_up, 2, s->y2, (const real *[]){p->d_gate, p->d_up}, p->d_y);
    look_norm_back(p, p->d_mid, p->d_x, s->mid, w->ffn_norm, p->d_y, p->n_row,
                   p->model.geometry->n_hidden);
    d_branch = branch_back(p, p->d_mid, s->attn, w->post_attn_norm);
    look_linear_backward(p, s, &o, 1, s->o, &d_branch, p->d_o);
}

/* d_x: gradient of what the layer hands on; becomes that of what came in. */
static void layer_backward(look_pass *p, int i, const real *param, real *grad)
{
    const look_layer *w = &p->model.layer[i];
    const kvt_geometry *g = p->model.geometry;
    const look_saved *s = &p->saved[i];
    bool last = i == g->n_layer - 1;
    int64_t d = g->head_dim, n = p->n_row;
    look_linear qkv[3];
    queries_keys_values(p, i, param, grad, qkv);
    if (!last)
        feed_forward_back(p, i, param, grad);
    look_attend_backward(p, i);
    look_rope(p, i, p->d_q, g->n_head, true);
    look_rope(p, i, p->d_k, g->n_kv_head, true);
    look_norm_back(p, p->d_q, NULL, s->q_in, w->q_norm, p->d_q, n * g->n_head, d);
    look_norm_back(p, p->d_k, NULL, s->k_in, w->k_norm, p->d_k, n * g->n_kv_head, d);
    look_linear_backward(p, s, qkv, last ? 2 : 3, s->y,
                         (const real *[]){p->d_q, p->d_k, p->d_v}, p->d_y);
    look_norm_back(p, p->d_x, last ? NULL : p->d_mid, s->x, w->attn_norm, p->d_y, n,
                   g->n_hidden);
}

double look_forward(look_pass *p, const look_sample *sample, int n, const real *param,
                    double weight, double *each)
{
    const kvt_geometry *g = p->model.geometry;
    int64_t tokens = p->layout.n_token * g->n_hidden;
    assert(n >= 1 && n <= p->room.n_sample);
    p->n_sample = n;
    p->n_row = n * p->layout.n_token;
    p->weight = weight;
    for (int i = 0; i < n; i++) {
        assert(sample[i].n_prompt >= 1 && sample[i].n_prompt <= p->room.n_prompt);
        p->sample[i] = sample[i];
        p->first[i + 1] = p->first[i] + sample[i].n_prompt;
        memcpy(p->saved[0].x + i * tokens, param, (size_t)tokens * sizeof *param);
    }
    look_turns(p);
    for (int l = 0; l < g->n_layer; l++)
        layer_forward(p, l, param);
    double loss = 0;
    for (int i = 0; i < n; i++) {
        double sum = 0;
        for (int l = 0; l < g->n_layer; l++)
            for (int64_t h = 0; h < g->n_head; h++)
                sum += p->loss[(l * n + i) * g->n_head + h];
        sum /= (double)(g->n_layer * g->n_head);
        if (each)
            each[i] = sum;
        loss += weight * sum;
    }
    return loss;
}

void look_backward(look_pass *p, const real *param, real *grad)
{
    int64_t tokens = p->layout.n_token * p->model.geometry->n_hidden;
    for (int l = (int)p->model.geometry->n_layer - 1; l >= 0; l--)
        layer_backward(p, l, param, grad);
    for (int s = 0; s < p->n_sample; s++)
        for (int64_t i = 0; i < tokens; i++)
            grad[i] += p->d_x[s * tokens + i];
}
