/* join.c - policies that average tokens into the slot before them (DMC; arXiv 2403.09636,
 * policies-learned.md 6).
 *
 * What a model decided is replayed token by token: a slot is the weighted mean of its members'
 * keys before RoPE and of their values,
 *
 *   join:  k <- (k z + k_t w_t) / (z + w_t),  the same for v;  z <- z + w_t
 *   else:  a new slot with z = w_t
 *
 * and its key is turned by the position of its newest member. Of a run longer than 12 the last
 * 12 members count (the published code's window). A slot of one member is the stored key
 * itself. No token is evicted, so that mass lost, recall and regret mean nothing: slots and
 * output error are all that is measured. */
#include "replay/pass_priv.h"

#include <math.h>
#include <string.h>

#include "kvt/arena.h"
#include "kvt/pieces.h"

enum { RUN = 12 }; /* members that a slot averages at most: the last ones */

/* A lane that grows by tokens. */
typedef struct joined {
    int64_t n_dim, n;   /* D; slots */
    int64_t *newest;    /* [n] position of the newest member */
    float *key, *value; /* f32 [n D] as they are attended to */
    double *mean;       /* f64 [2 D] of the last slot: key before RoPE, value */
    double *member;     /* f64 [RUN 2 D] of the same, the newest at (n_member - 1) % RUN */
    double weight[RUN]; /* w of each */
    int64_t n_member;
    double *turn;  /* f64 [D / 2] radians a position */
    double factor; /* of cos and sin */
} joined;

/* ---- turning -------------------------------------------------------------------------------
 */

/* out [D] = in turned by `position`, times factor; a negative position turns back. */
static void turn(double *out, const double *in, const joined *j, int64_t position,
                 double factor)
{
    int64_t half = j->n_dim / 2;
    for (int64_t i = 0; i < half; i++) {
        double angle = (double)position * j->turn[i], c = cos(angle), s = sin(angle);
        out[i] = factor * (in[i] * c - in[i + half] * s);
        out[i + half] = factor * (in[i] * s + in[i + half] * c);
    }
}

/* ---- a token -------------------------------------------------------------------------------
 */

static void take_apart(double *out, const joined *j, const float *key, const float *value,
                       int64_t position, double *scratch)
{
    for (int64_t d = 0; d < j->n_dim; d++) {
        scratch[d] = (double)key[d];
        out[j->n_dim + d] = (double)value[d];
    }
    turn(out, scratch, j, -position, 1 / j->factor);
}

/* The weighted mean of the last members of the last slot. */
static void average(joined *j)
{
    int64_t D = j->n_dim, n = kvt_min(j->n_member, RUN);
    double z = 0;
    memset(j->mean, 0, (size_t)(2 * D) * sizeof *j->mean);
    for (int64_t i = j->n_member - n; i < j->n_member; i++) {
        const double *member = j->member + i % RUN * 2 * D;
        z += j->weight[i % RUN];
        for (int64_t d = 0; d < 2 * D; d++)
            j->mean[d] += member[d] * j->weight[i % RUN];
    }
    for (int64_t d = 0; d < 2 * D; d++)
        j->mean[d] /= z;
}

/* scratch f64 [2 D]. */
static void add_token(joined *j, bool join, double weight, const float *key, const float *value,
                      int64_t position, double *scratch)
{
    int64_t D = j->n_dim;
    bool begin = !join || j->n == 0;
    j->n_member = begin ? 1 : j->n_member + 1;
    int64_t at = (j->n_member - 1) % RUN;
    take_apart(j->member + at * 2 * D, j, key, value, position, scratch);
    j->weight[at] = weight;
    if (begin) {
        memcpy(j->key + j->n * D, key, (size_t)D * sizeof *key);
        memcpy(j->value + j->n * D, value, (size_t)D * sizeof *value);
        j->newest[j->n++] = position;
        return;
    }
    average(j);
    turn(scratch, j->mean, j, position, j->factor);
    for (int64_t d = 0; d < D; d++) {
        j->key[(j->n - 1) * D + d] = (float)scratch[d];
        j->value[(j->n - 1) * D + d] = (float)j->mean[D + d];
    }
    j->newest[j->n - 1] = position;
}

/* ---- a lane --------------------------------------------------------------------------------
 */

typedef struct joiner {
    const run *r;
    pass *p;
    const layer_feed *f;
    const desk *d;
    int layer, lane;
    joined slots;
    int64_t *identity; /* [T] */
    double *scratch;   /* f64 [2 D] */
    made_row made;
    kvt_arena *hook;
} joiner;

/* Decisions of the first n tokens of the lane's kv head; data NULL: the trace has none. */
static kvt_view first_of(const kvt_view *v, int group, int64_t n)
{
    if (!v->data)
        return (kvt_view){0};
    kvt_view out = kvt_view_at(v, group);
    out.axes[0] = 'S';
    out.dim[0] = n;
    return out;
}

static void feed_one(joiner *j, int64_t t)
{
    const kvt_policy *policy = j->p->use->policy;
    const kvt_feed *f = &j->f->all;
    float weight = 1;
    kvt_lane view = {.layer = j->layer,
                     .group = j->lane,
                     .n_layer = (int)j->r->info->facts.model.n_layer,
                     .model_layer = j->r->info->layer_id[j->layer],
                     .now = t,
                     .n_slot = t + 1,
                     .step = kvt_max(0, t + 1 - j->p->n_prompt),
                     .pos = j->identity,
                     .decision = first_of(&f->decision, j->lane, t + 1),
                     .decision_weight = first_of(&f->decision_weight, j->lane, t + 1),
                     .decision_gamma = 1,
                     .scratch = j->hook};
    bool join = policy->join(j->p->use->params, &view, &weight);
    kvt_arena_rewind(j->hook, 0);
    if (!f->keys.data) { /* slots are all that is asked for */
        j->slots.n += !join || j->slots.n == 0;
        return;
    }
    add_token(&j->slots, join, (double)weight, kvt_head_row(&f->keys, j->lane, t),
              kvt_head_row(&f->values, j->lane, t), t, j->scratch);
}

/* The row's attention to the slots, and what the output lost. */
static void put_error(joiner *j, int head, int64_t m)
{
    const kvt_geometry *g = &j->r->info->facts.model;
    const joined *s = &j->slots;
    int64_t D = s->n_dim, first = 0;
    int64_t seen = kvt_geometry_first(g, j->r->info->layer_id[j->layer], j->p->n_prompt + m);
    while (first < s->n - 1 && s->newest[first] < seen)
        first++;
    made_slots slots = {.query = kvt_head_row(&j->f->all.queries, head, j->f->n_before + m),
                        .key = s->key + first * D,
                        .value = s->value + first * D,
                        .pos = j->identity,
                        .value_stride = D,
                        .n = s->n - first};
    judge_made(&j->made, j->p, 0, j->layer, head, m, &slots, g, &j->d->whole);
}

static void run_lane(joiner *j)
{
    pass *p = j->p;
    int64_t N = p->n_prompt, M = p->n_response, per = p->n_head / p->n_lane;
    int64_t at = pass_lane(p, 0, j->layer, j->lane);
    j->slots.n = 0;
    for (int64_t t = 0; t < N; t++)
        feed_one(j, t);
    p->count[at].kept = j->slots.n;
    for (int64_t m = 0; m < M; m++) {
        feed_one(j, N + m);
        if (p->seen)
            p->seen[at * M + m] = (float)j->slots.n;
        for (int64_t h = j->lane * per; p->out_err && h < (j->lane + 1) * per; h++)
            put_error(j, (int)h, m);
    }
    p->count[at].most = p->end[at] = j->slots.n;
}

/* Every budget holds the same: what the model decided. */
static void repeat(pass *p, int layer)
{
    int64_t M = p->n_response, rows = p->n_head * M;
    for (int64_t i = 0; p->lost && i < p->n_cell * rows; i++)
        p->lost[pass_head(p, (int)(i / rows), layer, 0) * M + i % rows] = NAN;
    for (int c = 0; c < p->n_cell; c++) {
        for (int a = 0; a < p->n_lane; a++) {
            int64_t from = pass_lane(p, 0, layer, a), to = pass_lane(p, c, layer, a);
            p->count[to] = p->count[from];
            p->count[to].budget = p->cell[c].tokens;
            p->end[to] = p->end[from];
            if (p->seen && c > 0)
                memcpy(p->seen + to * M, p->seen + from * M, (size_t)M * sizeof *p->seen);
        }
        if (p->out_err && c > 0)
            memcpy(p->out_err + pass_head(p, c, layer, 0) * M,
                   p->out_err + pass_head(p, 0, layer, 0) * M,
                   (size_t)rows * sizeof *p->out_err);
        if (p->out_more && c > 0)
            memcpy(p->out_more + pass_head(p, c, layer, 0) * M * OUT_MORE,
                   p->out_more + pass_head(p, 0, layer, 0) * M * OUT_MORE,
                   (size_t)(rows * OUT_MORE) * sizeof *p->out_more);
    }
}

/* ---- a layer -------------------------------------------------------------------------------
 */

static bool make_joiner(joiner *j, kvt_arena *work)
{
    int64_t T = j->p->n_prompt + j->p->n_response, D = j->r->info->facts.model.head_dim;
    joined *s = &j->slots;
    s->n_dim = D;
    s->newest = kvt_arena_array(work, T, sizeof *s->newest);
    s->key = kvt_arena_array(work, T * D, sizeof *s->key);
    s->value = kvt_arena_array(work, T * D, sizeof *s->value);
    s->mean = kvt_arena_array(work, 2 * D, sizeof *s->mean);
    s->member = kvt_arena_array(work, RUN * 2 * D, sizeof *s->member);
    s->turn = kvt_arena_array(work, D / 2, sizeof *s->turn);
    j->identity = kvt_arena_array(work, T, sizeof *j->identity);
    j->scratch = kvt_arena_array(work, 2 * D, sizeof *j->scratch);
    j->hook = kvt_arena_new((size_t)1 << 40);
    if (!s->newest || !s->key || !s->value || !s->mean || !s->member || !s->turn ||
        !j->identity || !j->scratch || !j->hook || !made_row_new(&j->made, T, D, work))
        return false;
    for (int64_t t = 0; t < T; t++)
        j->identity[t] = t;
    s->factor =
        kvt_rope_freq(s->turn, &j->r->info->facts.model, j->r->info->layer_id[j->layer]);
    return true;
}

kvt_code join_layer(const run *r, const layer_feed *f, desk *d, int layer, kvt_err *err)
{
    kvt_code code = KVT_OK;
    for (int i = 0; !code && i < r->n; i++) {
        pass *p = r->list[i];
        if (!runs(p) || !p->joins)
            continue;
        joiner j = {.r = r, .p = p, .f = f, .d = d, .layer = layer};
        size_t mark = kvt_arena_mark(d->work);
        if (make_joiner(&j, d->work))
            for (j.lane = 0; j.lane < p->n_lane; j.lane++)
                run_lane(&j);
        else
            code = kvt_fail_memory(err, (p->n_prompt + p->n_response) * 8);
        repeat(p, layer);
        kvt_arena_free(j.hook);
        kvt_arena_rewind(d->work, mark);
    }
    return code;
}
