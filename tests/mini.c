/* mini.c - the policy contract in its plainest form: see mini.h. */
#include "mini_cut.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct cell {
    const mini_spec *spec;
    const toy *t;
    const kvt_policy *p;
    const kvt_share *share;
    void *params, *share_params;
    kvt_traits traits;
    mini_result *out;
    kvt_sequence seq;
    kvt_lane *lane; /* [L lane] */
    int64_t **pos;  /* [L lane][T] */
    int64_t *given; /* [L lane] slots once they are shared out; 0: not yet */
    int n_lane, n_head, n_all, slot_width;
    mini_base base;
    kvt_arena *a;
} cell;

static kvt_view view3(const float *data, const char *axes, int64_t h, int64_t q, int64_t s)
{
    return kvt_view_of(data, KVT_F32, KVT_SHAPE(axes, h, q, s));
}

/* The query head that is head h of lane i. */
static int head_of(const cell *c, int lane, int h)
{
    return lane % c->n_lane * c->n_head + h;
}

/* Rows of the queries first..first + n - 1 over the lane's slots. */
static kvt_view rows_of(const cell *c, int lane, int64_t first, int64_t n)
{
    const kvt_lane *v = &c->lane[lane];
    float *data = kvt_arena_array(c->a, c->n_head * n * v->n_slot, sizeof *data);
    for (int h = 0; h < c->n_head; h++)
        for (int64_t q = 0; q < n; q++)
            toy_row(data + (h * n + q) * v->n_slot, c->t, v->layer, head_of(c, lane, h),
                    first + q, v->pos, v->n_slot);
    return view3(data, "HQS", c->n_head, n, v->n_slot);
}

static void give_columns(const cell *c, int lane)
{
    kvt_lane *v = &c->lane[lane];
    float *sum = kvt_arena_array(c->a, c->n_head * c->t->N, sizeof *sum);
    float *max = kvt_arena_array(c->a, c->n_head * c->t->N, sizeof *max);
    for (int h = 0; h < c->n_head; h++)
        toy_columns(sum + h * c->t->N, max + h * c->t->N, c->t, v->layer, head_of(c, lane, h));
    v->col_sum = kvt_view_of(sum, KVT_F32, KVT_SHAPE("HS", c->n_head, c->t->N));
    v->col_max = kvt_view_of(max, KVT_F32, KVT_SHAPE("HS", c->n_head, c->t->N));
}

/* Rows of the full cache: future queries see all tokens, not only those that are left. */
static void give_future(const cell *c, int lane)
{
    kvt_lane *v = &c->lane[lane];
    int64_t first = v->now + 1, T = c->t->T, n = T - first, rows = c->n_head * n;
    float *all = kvt_arena_array(c->a, rows * T + 1, sizeof *all);
    float *held = kvt_arena_array(c->a, rows * v->n_slot + 1, sizeof *held);
    float *late = kvt_arena_array(c->a, rows * n + 1, sizeof *late);
    int64_t *pos = kvt_arena_array(c->a, T, sizeof *pos);
    for (int64_t j = 0; j < T; j++)
        pos[j] = j;
    for (int64_t i = 0; i < rows; i++) {
        float *row = all + i * T;
        toy_row(row, c->t, v->layer, head_of(c, lane, (int)(i / n)), first + i % n, pos, T);
        for (int64_t s = 0; s < v->n_slot; s++)
            held[i * v->n_slot + s] = row[v->pos[s]];
        memcpy(late + i * n, row + first, (size_t)n * sizeof *late);
    }
    v->future_all = view3(all, "HQT", c->n_head, n, T);
    v->future_late = view3(late, "HQT", c->n_head, n, n);
    if (!c->traits.future_by_position)
        v->future = view3(held, "HQS", c->n_head, n, v->n_slot);
}

/* All that the policy may read of the lane as it is now; the queries first..first + n - 1. */
static void give(const cell *c, int lane, int64_t first, int64_t n)
{
    kvt_lane *v = &c->lane[lane];
    bool prompt = v->now < c->t->N;
    mini_cut cut = {.toy = c->t,
                    .a = c->a,
                    .needs = c->traits.needs,
                    .new_slots_only = c->traits.new_slots_only,
                    .group = lane % c->n_lane * c->t->n_group / c->n_lane,
                    .head = head_of(c, lane, 0),
                    .n_head = c->n_head,
                    .first = first,
                    .n_query = n};
    if (c->traits.needs & KVT_NEED_ATTN)
        v->attn = rows_of(c, lane, first, n);
    if (c->traits.needs & KVT_NEED_COLUMNS && prompt)
        give_columns(c, lane);
    if (c->traits.needs & KVT_NEED_FUTURE)
        give_future(c, lane);
    if (c->t->more)
        mini_give(v, &cut, prompt);
}

/* Nothing borrowed stays but what is the lane's as long as it lives. */
static void take_back(const cell *c, int lane)
{
    kvt_lane *v = &c->lane[lane];
    *v = (kvt_lane){.layer = v->layer,
                    .group = v->group,
                    .n_layer = v->n_layer,
                    .model_layer = v->model_layer,
                    .now = v->now,
                    .budget = v->budget,
                    .threshold = v->threshold,
                    .n_slot = v->n_slot,
                    .step = v->step,
                    .pos = v->pos,
                    .mark = v->mark,
                    .state = v->state,
                    .seq = v->seq,
                    .probe = v->probe,
                    .weights = v->weights,
                    .share_weights = v->share_weights,
                    .decision_gamma = v->decision_gamma,
                    .scratch = v->scratch,
                    .rng = v->rng};
}

static int64_t window_of(const cell *c)
{
    return c->p->window ? c->p->window(c->params, c->t->N) : 0;
}

/* What the base learns, or (score not NULL) what it scores and pins. */
static void run_base(const cell *c, int lane, int64_t budget, float *score, bool *pinned)
{
    int64_t n = mini_base_window(&c->base, c->t->N);
    give(c, lane, c->t->N - n, n);
    kvt_lane v = c->lane[lane];
    v.budget = budget;
    mini_base_run(&c->base, lane, &v, score, pinned);
    take_back(c, lane);
}

static void learn_prompt(const cell *c, int lane)
{
    int64_t n = window_of(c);
    if (c->base.policy)
        run_base(c, lane, 0, NULL, NULL);
    if (!c->p->step)
        return;
    give(c, lane, c->t->N - n, n);
    c->p->step(c->params, &c->lane[lane]);
    take_back(c, lane);
}

/* "Another program": a token's largest attention in the lane's first query head; token 0
 * pinned. */
static void give_scores(const cell *c, int lane)
{
    kvt_lane *v = &c->lane[lane];
    float *sum = kvt_arena_array(c->a, c->t->N, sizeof *sum);
    float *max = kvt_arena_array(c->a, c->t->N, sizeof *max);
    uint8_t *pinned = kvt_arena_array(c->a, c->t->N, sizeof *pinned);
    toy_columns(sum, max, c->t, v->layer, head_of(c, lane, 0));
    pinned[0] = 1;
    v->scores = kvt_view_of(max, KVT_F32, KVT_SHAPE("S", c->t->N));
    v->scores_pinned = kvt_view_of(pinned, KVT_U8, KVT_SHAPE("S", c->t->N));
}

static void score_lane(const cell *c, int lane, float *score, bool *pinned, int64_t budget)
{
    kvt_lane *v = &c->lane[lane];
    bool prompt = v->now < c->t->N;
    int64_t n_query = prompt ? window_of(c) : 1;
    if (c->base.policy) {
        float *base = kvt_arena_array(c->a, v->n_slot, sizeof *base);
        bool *fixed = kvt_arena_array(c->a, v->n_slot, sizeof *fixed);
        run_base(c, lane, budget, base, fixed);
        v->base_score = base, v->base_pinned = fixed;
    }
    give(c, lane, v->now + 1 - n_query, n_query);
    if (!prompt && c->traits.drop_first) /* the row has not attended yet */
        v->attn = (kvt_view){0};
    v->budget = c->traits.one_ranking && !c->out->decodes && !c->spec->show_budget ? 0 : budget;
    if (c->traits.needs & KVT_NEED_SCORES)
        give_scores(c, lane);
    if (c->p->score)
        c->p->score(c->params, score, pinned, v);
}

static void drop(const cell *c, int lane, const bool *keep)
{
    kvt_lane *v = &c->lane[lane];
    int64_t n = 0;
    for (int64_t s = 0; s < v->n_slot; s++) {
        if (!keep[s])
            continue;
        c->pos[lane][n] = c->pos[lane][s];
        memmove(v->mark + n * c->slot_width, v->mark + s * c->slot_width,
                (size_t)c->slot_width * sizeof *v->mark);
        n++;
    }
    memset(v->mark + n * c->slot_width, 0,
           (size_t)((v->n_slot - n) * c->slot_width) * sizeof *v->mark);
    v->n_slot = n;
}

static int group_size(const cell *c, kvt_scope scope)
{
    return scope == KVT_BY_LANE ? 1 : scope == KVT_BY_LAYER ? c->n_lane : c->n_all;
}

static void best_of(const cell *c, int lane, bool *keep, const float *score, const bool *pinned,
                    int64_t budget)
{
    const kvt_lane *v = &c->lane[lane];
    int64_t left = budget;
    for (int64_t s = 0; s < v->n_slot; s++) {
        keep[s] = pinned[s];
        left -= pinned[s];
    }
    for (; left > 0; left--) {
        int64_t best = -1;
        for (int64_t s = 0; s < v->n_slot; s++)
            if (!keep[s] && (best < 0 || score[s] > score[best]))
                best = s;
        if (best < 0)
            return;
        keep[best] = true;
    }
}

static void note_scores(const cell *c, int lane, const float *score, const bool *pinned)
{
    const kvt_lane *v = &c->lane[lane];
    for (int64_t s = 0; s < v->n_slot; s++)
        c->out->infinite |= !pinned[s] && !isfinite(score[s]);
    if (v->now < c->t->N)
        for (int64_t s = 0; s < v->n_slot; s++) {
            c->out->score[lane * c->t->N + s] = score[s];
            c->out->pinned[lane * c->t->N + s] = pinned[s];
        }
}

/* Keeps what is pinned and what reaches the threshold. */
static void keep_at_least(const cell *c, int lane, bool *keep, const float *score,
                          const bool *pinned)
{
    for (int64_t s = 0; s < c->lane[lane].n_slot; s++)
        keep[s] = pinned[s] || (double)score[s] >= c->spec->threshold;
    take_back(c, lane);
    drop(c, lane, keep);
}

static bool is_too_many(const cell *c, int64_t n_pinned, int64_t budget)
{
    if (n_pinned <= budget)
        return false;
    snprintf(c->out->why, sizeof c->out->why, "%lld pinned, budget %lld", (long long)n_pinned,
             (long long)budget);
    return true;
}

static bool keep_by_threshold(const cell *c, bool *const *keep, float *const *score,
                              bool *const *pinned, const int64_t *n_pinned, int64_t nominal)
{
    for (int i = 0; c->spec->matched && !c->traits.own_threshold && i < c->n_all; i++)
        if (is_too_many(c, n_pinned[i], nominal))
            return false;
    for (int i = 0; i < c->n_all; i++)
        keep_at_least(c, i, keep[i], score[i], pinned[i]);
    return true;
}

/* What the allocator writes on a lane's slots. */
static void look(const cell *c, int lane, const float *score, const bool *pinned)
{
    kvt_lane *v = &c->lane[lane];
    int64_t n = v->n_slot * c->share->mark_width;
    if (!c->share->learn)
        return;
    float *mark = kvt_arena_array(c->a, n + 1, sizeof *mark);
    c->share->learn(c->share_params, mark, v, c->p->score ? score : NULL, pinned);
    v->share_mark = mark;
}

/* Lanes that a decision takes together: those of the policy's scope, or of its allocator's. */
static int seen_together(const cell *c)
{
    kvt_scope p = c->traits.scope, s = c->share->scope;
    return group_size(c, c->traits.effect == KVT_SKIP || p > s ? p : s);
}

/* Whether one of the lanes that select() sees together has too many. */
static bool any_over(const cell *c, int lane, const int64_t *budget)
{
    for (int i = lane; i < lane + group_size(c, c->traits.scope); i++)
        if (c->lane[i].n_slot > budget[i])
            return true;
    return false;
}

/* Slots are shared out once, when a lane of those that are seen together first has too many. */
static void give_once(const cell *c, int64_t *budget, int64_t nominal)
{
    int scope = seen_together(c);
    for (int i = 0; i < c->n_all && c->traits.effect != KVT_SKIP; i += scope) {
        bool over = false, given = true;
        for (int k = i; k < i + scope; k++) {
            over |= c->lane[k].n_slot > (c->given[k] > 0 ? c->given[k] : nominal);
            given &= c->given[k] > 0;
        }
        for (int k = i; k < i + scope; k++)
            if (given)
                budget[k] = c->given[k];
            else if (over)
                c->given[k] = budget[k];
    }
}

/* One decision over all lanes. `read` [n_all T]: what is read under SKIP. False: skipped. */
static bool decide(const cell *c, int64_t step, int64_t nominal, uint8_t *read)
{
    float **score = kvt_arena_array(c->a, c->n_all, sizeof *score);
    bool **pinned = kvt_arena_array(c->a, c->n_all, sizeof *pinned);
    bool **keep = kvt_arena_array(c->a, c->n_all, sizeof *keep);
    int64_t *n_pinned = kvt_arena_array(c->a, c->n_all, sizeof *n_pinned);
    int64_t *budget = kvt_arena_array(c->a, c->n_all, sizeof *budget);
    for (int i = 0; i < c->n_all; i++) {
        int64_t n = c->lane[i].n_slot;
        score[i] = kvt_arena_array(c->a, n, sizeof **score);
        pinned[i] = kvt_arena_array(c->a, n, sizeof **pinned);
        keep[i] = kvt_arena_array(c->a, n, sizeof **keep);
        score_lane(c, i, score[i], pinned[i], nominal);
        note_scores(c, i, score[i], pinned[i]);
        for (int64_t s = 0; s < n; s++)
            n_pinned[i] += pinned[i][s];
    }
    if (c->traits.by_threshold)
        return keep_by_threshold(c, keep, score, pinned, n_pinned, nominal);
    int each = group_size(c, c->share->scope);
    for (int i = 0; i < c->n_all; i++) {
        c->lane[i].share_pinned = pinned[i];
        look(c, i, score[i], pinned[i]);
    }
    for (int i = 0; i < c->n_all; i += each)
        c->share->split(c->share_params, budget + i, c->lane + i, each,
                        (const float *const *)score + i, n_pinned + i, nominal * each);
    give_once(c, budget, nominal);
    for (int i = 0; i < c->n_all; i++) /* the rule leaves the lane whole */
        if (c->traits.may_exceed && n_pinned[i] == c->lane[i].n_slot)
            budget[i] = c->lane[i].n_slot;
    int scope = group_size(c, c->traits.scope);
    for (int i = 0; i < c->n_all; i += scope) {
        bool over = any_over(c, i, budget);
        for (int k = i; k < i + scope; k++) {
            c->out->budget[step * c->n_all + k] = budget[k];
            bool reads_all = c->traits.effect == KVT_SKIP && c->traits.may_exceed;
            if (!reads_all && is_too_many(c, n_pinned[k], budget[k]))
                return false;
        }
        if (c->p->select && over)
            c->p->select(c->params, keep + i, c->lane + i, scope,
                         (const float *const *)score + i, (const bool *const *)pinned + i,
                         budget + i);
        else
            for (int k = i; k < i + scope; k++)
                best_of(c, k, keep[k], score[k], pinned[k], budget[k]);
    }
    for (int i = 0; i < c->n_all; i++)
        take_back(c, i);
    for (int i = 0; i < c->n_all; i++)
        if (c->traits.effect != KVT_SKIP)
            drop(c, i, keep[i]);
        else
            for (int64_t s = 0; s < c->lane[i].n_slot; s++)
                read[i * c->t->T + c->lane[i].pos[s]] = keep[i][s];
    return true;
}

static void note_held(const cell *c, int64_t step, const uint8_t *read)
{
    uint8_t *held = c->out->held + step * c->n_all * c->t->T;
    for (int i = 0; i < c->n_all; i++)
        for (int64_t s = 0; s < c->lane[i].n_slot; s++)
            held[i * c->t->T + c->lane[i].pos[s]] = 1;
    if (read && step > 0)
        memcpy(held, read, (size_t)(c->n_all * c->t->T));
}

static int64_t every_of(const cell *c)
{
    return c->traits.every > 0 ? c->traits.every : 1;
}

static bool decode_token(const cell *c, int64_t m)
{
    uint8_t *read = NULL;
    bool skip = c->traits.effect == KVT_SKIP, due = (m + 1) % every_of(c) == 0;
    for (int i = 0; i < c->n_all; i++) {
        kvt_lane *v = &c->lane[i];
        c->pos[i][v->n_slot++] = c->t->N + m;
        v->now = c->t->N + m;
        v->step = m + !c->traits.drop_first; /* after row m, or m - 1 */
    }
    if (due && c->traits.drop_first && !decide(c, m + 1, c->spec->budget, NULL))
        return false;
    for (int i = 0; i < c->n_all; i++) {
        kvt_lane *v = &c->lane[i];
        c->out->most = kvt_max(c->out->most, v->n_slot);
        give(c, i, v->now, 1);
        if (c->p->step)
            c->p->step(c->params, v);
        take_back(c, i);
    }
    if (skip) /* the row sees as many as it would inside the budget: B and its own */
        read = kvt_arena_array(c->a, c->n_all * c->t->T, 1);
    if (due && !c->traits.drop_first && !decide(c, m + 1, c->spec->budget + skip, read))
        return false;
    note_held(c, m + 1, read);
    return true;
}

static kvt_code set_up(cell *c, kvt_err *err)
{
    const mini_spec *s = c->spec;
    char text[256] = "";
    mini_text typed;
    mini_split(&typed, s->params);
    c->params = kvt_arena_get(c->a, s->policy->params_size + 1);
    c->share_params = kvt_arena_get(c->a, c->share->params_size + 1);
    kvt_code code = KVT_OK;
    if (c->p->params) {
        kvt_param_defaults(c->p->params, c->params);
        if (*typed.own)
            code = kvt_param_parse(c->p->params, c->params, typed.own, err);
    }
    if (c->share->params && !code) {
        kvt_param_defaults(c->share->params, c->share_params);
        if (c->p->share_params && c->share == c->p->share)
            c->p->share_params(c->params, text, sizeof text);
        if (*text)
            code = kvt_param_parse(c->share->params, c->share_params, text, err);
        if (s->share_params && !code)
            code = kvt_param_parse(c->share->params, c->share_params, s->share_params, err);
    }
    c->traits = c->p->traits;
    if (!code && c->p->vary)
        c->p->vary(c->params, &c->traits);
    if (!code && c->p->base)
        code = mini_base_open(&c->base, c->p, &typed, &c->traits, c->a, err);
    c->traits.needs |= c->share->needs;
    if (c->share->needs & KVT_NEED_FUTURE)
        c->traits.future_by_position = false;
    c->n_lane = c->traits.by_query_head ? c->t->n_head : c->t->n_group;
    c->n_head = c->t->n_head / c->n_lane;
    c->n_all = c->n_lane * c->t->n_layer;
    c->slot_width = c->p->slot_width;
    return code;
}

static void open_lanes(cell *c)
{
    size_t state_size = c->p->state_size;
    c->seq = c->t->seq;
    if (!(c->traits.needs & KVT_NEED_TOKENS))
        c->seq.id = NULL, c->seq.flag = NULL;
    if (c->traits.needs & KVT_NEED_OTHERS)
        c->seq.position_mass = c->spec->position_mass;
    if (c->p->size)
        c->p->size(c->params, &c->seq, c->spec->budget, &c->slot_width, &state_size);
    c->lane = kvt_arena_array(c->a, c->n_all, sizeof *c->lane);
    c->pos = kvt_arena_array(c->a, c->n_all, sizeof *c->pos);
    c->given = kvt_arena_array(c->a, c->n_all, sizeof *c->given);
    for (int i = 0; i < c->n_all; i++) {
        int l = i / c->n_lane;
        uint64_t *rng = kvt_arena_array(c->a, KVT_RNG_WORDS, sizeof *rng);
        for (int k = 0; k < KVT_RNG_WORDS; k++)
            rng[k] = toy_mix(c->spec->seed * 1000003 + (uint64_t)(i * KVT_RNG_WORDS + k));
        c->pos[i] = kvt_arena_array(c->a, c->t->T, sizeof **c->pos);
        for (int64_t j = 0; j < c->t->N; j++)
            c->pos[i][j] = j;
        c->lane[i] =
            (kvt_lane){.layer = l,
                       .group = i % c->n_lane,
                       .n_layer = (int)c->t->geometry.n_layer,
                       .model_layer = c->t->layer_id[l],
                       .now = c->t->N - 1,
                       .n_slot = c->t->N,
                       .pos = c->pos[i],
                       .threshold = c->spec->threshold,
                       .decision_gamma = 1,
                       .mark = kvt_arena_array(c->a, c->t->T * c->slot_width, sizeof(float)),
                       .state = kvt_arena_get(c->a, state_size + 1),
                       .seq = &c->seq,
                       .scratch = c->a,
                       .rng = rng};
    }
    mini_base_lanes(&c->base, &c->seq, c->spec->budget, c->t->T, c->n_all, c->a);
}

/* Probe, weights, decay: what is the lane's as long as it lives. False: not there. */
static bool open_more(const cell *c, int lane)
{
    kvt_lane *v = &c->lane[lane];
    mini_cut cut = {.toy = c->t,
                    .a = c->a,
                    .needs = c->traits.needs,
                    .group = lane % c->n_lane * c->t->n_group / c->n_lane,
                    .head = head_of(c, lane, 0),
                    .n_head = c->n_head};
    return mini_open(v, &cut, c->p, &c->traits, c->spec->budget) &&
           (!c->share->weights || mini_open_table(v, &cut, c->share));
}

/* With the views of the prompt's end and the budget, as score() has them. */
static void begin_lane(const cell *c, int lane)
{
    int64_t n = window_of(c);
    bool hidden = c->traits.one_ranking && !c->out->decodes && !c->spec->show_budget;
    give(c, lane, c->t->N - n, n);
    c->lane[lane].budget =
        hidden ? 0 : c->spec->budget + (c->traits.effect == KVT_SKIP); /* its own token */
    c->p->begin(c->params, &c->lane[lane]);
    take_back(c, lane);
}

kvt_code mini_run(mini_result *out, const mini_spec *spec, kvt_arena *a, kvt_err *err)
{
    const kvt_share *own = spec->policy->share ? spec->policy->share : &kvt_share_even;
    cell c = {.spec = spec,
              .t = spec->trace,
              .p = spec->policy,
              .out = out,
              .a = a,
              .share = spec->share ? spec->share : own};
    *out = (mini_result){0};
    kvt_code code = set_up(&c, err);
    if (code)
        return code;
    const toy *t = c.t;
    out->traits = c.traits;
    out->n_lane = c.n_lane;
    out->decodes = c.traits.phases & KVT_DECODE && !spec->prefill_only;
    out->n_step = out->decodes ? t->M + 1 : 1;
    out->held = kvt_arena_array(a, out->n_step * c.n_all * t->T, 1);
    out->budget = kvt_arena_array(a, out->n_step * c.n_all, sizeof *out->budget);
    out->score = kvt_arena_array(a, c.n_all * t->N, sizeof *out->score);
    out->pinned = kvt_arena_array(a, c.n_all * t->N, sizeof *out->pinned);
    if (c.p->fits && !spec->no_fits &&
        !c.p->fits(c.params, spec->budget, out->decodes ? t->T : t->N, out->why,
                   sizeof out->why)) {
        out->skipped = true;
        return KVT_OK;
    }
    if (!spec->no_fits &&
        !mini_base_fits(&c.base, spec->budget, t->N, out->why, sizeof out->why)) {
        out->skipped = true;
        return KVT_OK;
    }
    open_lanes(&c);
    for (int i = 0; i < c.n_all; i++)
        if (!open_more(&c, i)) {
            out->lacks = out->skipped = true;
            return KVT_OK;
        }
    for (int i = 0; i < c.n_all; i++)
        learn_prompt(&c, i);
    for (int i = 0; i < c.n_all && c.p->begin; i++)
        begin_lane(&c, i);
    bool ok = c.traits.effect == KVT_SKIP || decide(&c, 0, spec->budget, NULL);
    if (ok)
        note_held(&c, 0, NULL);
    for (int64_t m = 0; ok && out->decodes && m < t->M; m++)
        ok = decode_token(&c, m);
    out->skipped = !ok;
    return KVT_OK;
}

uint8_t *mini_held(const mini_result *r, const toy *t, int64_t step, int layer, int lane)
{
    return r->held + ((step * t->n_layer + layer) * r->n_lane + lane) * t->T;
}

int64_t mini_count(const mini_result *r, const toy *t, int64_t step, int layer, int lane)
{
    const uint8_t *held = mini_held(r, t, step, layer, lane);
    int64_t n = 0;
    for (int64_t j = 0; j < t->T; j++)
        n += held[j];
    return n;
}
