/* channels.c - policies that drop channels of the keys (ThinK; arXiv 2407.21018,
 * policies-training-free.md 7).
 *
 * At the end of the prompt the D channels of each lane's keys are ranked, once. A budget of B
 * slots means the bytes of B slots. All N slots and all values stay, so that the keys hold
 *
 *   k = floor(D (2 B - N) / N) channels, at most D
 *
 * and a budget below N / 2 leaves none. The response's rows are made again from the stored
 * queries and keys: a channel that went counts as 0 in every prompt key (but those of the last
 * traits.whole_recent tokens), keys of the response are whole, scale and values are as ever. No
 * token is evicted, so that mass lost, recall and regret mean nothing: bytes and the output
 * error are all that is measured. */
#include "replay/pass_priv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kvt/arena.h"
#include "kvt/pieces.h"
#include "replay/stream.h"
#include "replay/use_priv.h"

/* Channels of N keys of D that are left where they and N values take the bytes of B slots. */
static int64_t channels_of(int64_t budget, int64_t n_prompt, int64_t n_dim)
{
    int64_t over = 2 * budget - n_prompt;
    return over > 0 ? kvt_min(n_dim * over / n_prompt, n_dim) : 0;
}

void channels_check(pass *x, int64_t n_dim)
{
    int64_t N = x->n_prompt, least = (N + (N + n_dim - 1) / n_dim + 1) / 2;
    for (int c = 0; x->channels && !x->reason[0] && c < x->n_cell; c++) {
        pass_cell *cell = &x->cell[c];
        if (cell->reason[0] || channels_of(cell->tokens, N, n_dim) > 0)
            continue;
        snprintf(cell->reason, sizeof cell->reason,
                 "policy %s: keys are half of the bytes, and values stay: %lld slots of %lld "
                 "leave no channel of %lld, which need a budget of %lld or more",
                 x->use->name, (long long)cell->tokens, (long long)N, (long long)n_dim,
                 (long long)least);
    }
}

/* One lane at a time, with memory of its own. */
typedef struct dropper {
    const run *r;
    pass *p;
    const layer_feed *f;
    const desk *d;
    int layer, lane;
    int64_t n_dim;
    const kvt_sequence *seq;
    kvt_lane view;
    int64_t *identity;   /* [T] */
    float *score, *mark; /* [D], [N width] */
    void *state;         /* [state_size] */
    int width;
    size_t state_size;
    uint64_t rng[KVT_RNG_WORDS];
    bool *pinned, *keep; /* [D] */
    float *key;          /* f32 [T D] with what went at 0 */
    made_row made;
    kvt_arena *hook;
} dropper;

/* Rows from..from + n - 1 of the second axis of [X Y D], of the first axis' first..first + m.
 */
static kvt_view part_of(const kvt_view *v, const char *axes, int64_t first, int64_t m,
                        int64_t from, int64_t n)
{
    kvt_view out = *v;
    if (!v->data)
        return out;
    out.data = kvt_head_row(v, first, from);
    out.dim[0] = m, out.dim[1] = n;
    snprintf(out.axes, sizeof out.axes, "%s", axes);
    return out;
}

/* What score() sees: the prompt's keys and values, and the last window() queries. */
static void fill_view(dropper *j)
{
    const pass *p = j->p;
    const kvt_feed *f = &j->f->all;
    unsigned needs = p->use->traits.needs;
    int64_t N = p->n_prompt, per = p->n_head / p->n_lane, n_query;
    int64_t group = j->lane * (int64_t)j->r->info->facts.model.n_kv_head / p->n_lane;
    n_query = kvt_min(kvt_use_window(p->use, N), j->f->n_before);
    j->view = (kvt_lane){.layer = j->layer,
                         .group = j->lane,
                         .n_layer = (int)j->r->info->facts.model.n_layer,
                         .model_layer = j->r->info->layer_id[j->layer],
                         .now = N - 1,
                         .n_slot = N,
                         .pos = j->identity,
                         .mark = j->mark,
                         .state = j->state,
                         .rng = j->rng,
                         .seq = j->seq,
                         .decision_gamma = 1,
                         .scratch = j->hook};
    if (needs & KVT_NEED_KEYS)
        j->view.keys = part_of(&f->keys, "GSD", group, 1, 0, N);
    if (needs & KVT_NEED_VALUES)
        j->view.values = part_of(&f->values, "GSD", group, 1, 0, N);
    if (needs & KVT_NEED_QUERIES)
        j->view.queries =
            part_of(&f->queries, "HQD", j->lane * per, per, j->f->n_before - n_query, n_query);
    if (j->view.keys.data)
        j->view.keys = kvt_view_at(&j->view.keys, 0);
    if (j->view.values.data)
        j->view.values = kvt_view_at(&j->view.values, 0);
}

/* Ranks the lane's channels; false: a score is no number. */
static bool rank(dropper *j)
{
    const kvt_policy *policy = j->p->use->policy;
    const void *params = j->p->use->params;
    uint64_t before[KVT_RNG_WORDS];
    fill_view(j);
    stream_start(j->rng, j->p->seed, j->r->info->digest, policy->name, j->view.model_layer,
                 j->lane);
    memcpy(before, j->rng, sizeof before);
    memset(j->state, 0, j->state_size);
    memset(j->score, 0, (size_t)j->n_dim * sizeof *j->score);
    memset(j->pinned, 0, (size_t)j->n_dim * sizeof *j->pinned);
    memset(j->mark, 0, (size_t)(j->p->n_prompt * j->width) * sizeof *j->mark);
    if (policy->step)
        policy->step(params, &j->view);
    kvt_arena_rewind(j->hook, 0);
    policy->score(params, j->score, j->pinned, &j->view);
    kvt_arena_rewind(j->hook, 0);
    if (memcmp(before, j->rng, sizeof before) != 0)
        j->p->layer_drew[j->layer] = true;
    for (int64_t d = 0; d < j->n_dim; d++)
        if (!j->pinned[d] && !isfinite(j->score[d]))
            return false;
    return true;
}

/* Which channels a cell keeps; returns how many, -1: no memory. */
static int64_t choose(dropper *j, const pass_cell *cell)
{
    const kvt_policy *policy = j->p->use->policy;
    int64_t budget = channels_of(cell->tokens, j->p->n_prompt, j->n_dim), n = 0;
    const float *score = j->score;
    const bool *pinned = j->pinned;
    memset(j->keep, 0, (size_t)j->n_dim * sizeof *j->keep);
    if (policy->select)
        policy->select(j->p->use->params, &j->keep, &j->view, 1, &score, &pinned, &budget);
    else if (kvt_keep_best(j->keep, score, pinned, j->n_dim, budget, j->hook) < 0)
        n = -1;
    kvt_arena_rewind(j->hook, 0);
    for (int64_t d = 0; n >= 0 && d < j->n_dim; d++)
        n += j->keep[d];
    return n;
}

/* ---- rows ----------------------------------------------------------------------------------
 */

static void copy_keys(dropper *j)
{
    int64_t T = j->p->n_prompt + j->p->n_response, D = j->n_dim;
    int64_t whole = kvt_max(0, j->p->n_prompt - j->p->use->traits.whole_recent);
    int64_t group = j->lane * (int64_t)j->r->info->facts.model.n_kv_head / j->p->n_lane;
    for (int64_t t = 0; t < T; t++) {
        const float *from = kvt_head_row(&j->f->all.keys, group, t);
        for (int64_t d = 0; d < D; d++)
            j->key[t * D + d] = t >= whole || j->keep[d] ? from[d] : 0;
    }
}

static void judge_again(dropper *j, int cell, int head, int64_t m)
{
    const kvt_geometry *g = &j->r->info->facts.model;
    const kvt_view *V = &j->f->all.values;
    int64_t now = j->p->n_prompt + m, group = head * g->n_kv_head / g->n_head;
    int64_t first = kvt_geometry_first(g, j->view.model_layer, now);
    made_slots slots = {.query = kvt_head_row(&j->f->all.queries, head, j->f->n_before + m),
                        .key = j->key + first * j->n_dim,
                        .value = kvt_head_row(V, group, first),
                        .pos = j->identity,
                        .value_stride = V->stride[1],
                        .n = now + 1 - first};
    judge_made(&j->made, j->p, cell, j->layer, head, m, &slots, g, &j->d->whole);
}

/* ---- a lane --------------------------------------------------------------------------------
 */

static void count_lane(dropper *j, int cell, int64_t n_channel)
{
    pass *p = j->p;
    int64_t N = p->n_prompt, M = p->n_response, D = j->n_dim;
    int64_t at = pass_lane(p, cell, j->layer, j->lane);
    int64_t whole = kvt_min(p->use->traits.whole_recent, N);
    p->count[at] = (kvt_engine_count){.budget = p->cell[cell].tokens, .kept = N, .most = N + M};
    p->end[at] = N + M;
    p->lane_channels[at] = (int32_t)n_channel;
    p->lane_bytes[at] = 2 * ((N - whole) * (n_channel + D) + (whole + M) * 2 * D);
    for (int64_t m = 0; p->seen && m < M; m++)
        p->seen[at * M + m] = (float)(N + m + 1);
}

/* One cell of a lane; false: no memory. */
static bool run_cell(dropper *j, int cell)
{
    pass *p = j->p;
    int64_t M = p->n_response, per = p->n_head / p->n_lane, n = choose(j, &p->cell[cell]);
    if (n < 0)
        return false;
    count_lane(j, cell, n);
    for (int64_t i = 0; p->lost && i < per * M; i++)
        p->lost[pass_head(p, cell, j->layer, (int)(j->lane * per)) * M + i] = NAN;
    if (!p->out_err || n == j->n_dim) /* nothing went: the error is 0 */
        return true;
    copy_keys(j);
    for (int64_t h = j->lane * per; h < (j->lane + 1) * per; h++)
        for (int64_t m = 0; m < M; m++)
            judge_again(j, cell, (int)h, m);
    return true;
}

static bool run_lane(dropper *j)
{
    if (!rank(j)) {
        j->p->layer_odd[j->layer] = true;
        return true;
    }
    for (int c = 0; c < j->p->n_cell; c++)
        if (!j->p->cell[c].reason[0] && !run_cell(j, c))
            return false;
    return true;
}

/* ---- a layer -------------------------------------------------------------------------------
 */

static bool make_dropper(dropper *j, kvt_arena *work)
{
    int64_t N = j->p->n_prompt, T = N + j->p->n_response, D = j->n_dim;
    use_memory(j->p->use, j->seq, NULL, 0, &j->width, &j->state_size); /* no budget counts */
    j->identity = kvt_arena_array(work, T, sizeof *j->identity);
    j->score = kvt_arena_array(work, D, sizeof *j->score);
    j->mark = kvt_arena_array(work, N * j->width + 1, sizeof *j->mark);
    j->state = kvt_arena_get(work, j->state_size + 1);
    j->pinned = kvt_arena_array(work, D, sizeof *j->pinned);
    j->keep = kvt_arena_array(work, D, sizeof *j->keep);
    j->key = kvt_arena_array(work, T * D, sizeof *j->key);
    j->hook = kvt_arena_new((size_t)1 << 40);
    if (!j->identity || !j->score || !j->mark || !j->state || !j->pinned || !j->keep ||
        !j->key || !j->hook || !made_row_new(&j->made, T, D, work))
        return false;
    for (int64_t t = 0; t < T; t++)
        j->identity[t] = t;
    return true;
}

kvt_code channels_layer(const run *r, const layer_feed *f, desk *d, int layer, kvt_err *err)
{
    const kvt_geometry *g = &r->info->facts.model;
    bool good = true;
    for (int i = 0; good && i < r->n; i++) {
        pass *p = r->list[i];
        if (!runs(p) || !p->channels)
            continue;
        kvt_sequence seq = {.n_prompt = p->n_prompt,
                            .n_response = p->n_response,
                            .n_layer = p->n_layer,
                            .layer_id = r->info->layer_id,
                            .geometry = g};
        dropper j = {
            .r = r, .p = p, .f = f, .d = d, .layer = layer, .n_dim = g->head_dim, .seq = &seq};
        size_t mark = kvt_arena_mark(d->work);
        good = make_dropper(&j, d->work);
        for (j.lane = 0; good && j.lane < p->n_lane; j.lane++)
            good = run_lane(&j);
        kvt_arena_free(j.hook);
        kvt_arena_rewind(d->work, mark);
    }
    return good ? KVT_OK : kvt_fail_memory(err, g->head_dim * (int64_t)sizeof(float));
}
