/* lane_view.c - one lane of one cell, prepared for drawing. */
#include "tui/lane_view.h"

#include <stdio.h>
#include <string.h>

#include "base/select.h"
#include "kvt/arena.h"

/* Screens say "90% of the regret". */
static const double regret_share = 0.9;

void lane_view_fini(lane_view *v)
{
    kvt_free(v->evict);
    kvt_free(v->judged);
    kvt_free(v->pinned);
    kvt_free(v->regretted);
    kvt_free(v->mass);
    kvt_free(v->worst);
    kvt_free(v->held_before);
    kvt_free(v->regret_before);
    *v = (lane_view){.step = -1, .top_regret = -1};
}

static kvt_code get_memory(lane_view *v, kvt_err *err)
{
    int64_t T = v->n_token, N = v->n_prompt;
    v->evict = kvt_alloc(T, sizeof *v->evict);
    v->judged = kvt_alloc(T, sizeof *v->judged);
    v->pinned = kvt_alloc(T, sizeof *v->pinned);
    v->regretted = kvt_alloc(T, sizeof *v->regretted);
    v->mass = kvt_alloc(T, sizeof *v->mass);
    v->worst = kvt_alloc(v->n_response, sizeof *v->worst);
    v->held_before = kvt_alloc(N + 1, sizeof *v->held_before);
    v->regret_before = kvt_alloc(N + 1, sizeof *v->regret_before);
    if (v->evict && v->judged && v->pinned && v->regretted && v->mass && v->worst &&
        v->held_before && v->regret_before)
        return KVT_OK;
    return kvt_fail_memory(err, (size_t)T * 32);
}

static void read_sets(lane_view *v)
{
    const kvt_result *r = v->r;
    int64_t a = (int64_t)v->layer * r->n_lane + v->lane;
    for (int64_t t = 0; t < v->n_token; t++) {
        bool in_prompt = t < v->n_prompt;
        v->evict[t] = kvt_result_evict_step(r, v->cell, v->layer, v->lane, t);
        v->evicted_prefill += v->evict[t] == 0;
        v->evicted_decode += v->evict[t] > 0;
        v->pinned[t] = in_prompt && r->pinned && r->pinned[a * r->n_prompt + t];
        v->judged[t] = -1;
        if (!v->oracle || !in_prompt)
            continue;
        v->judged[t] =
            kvt_result_evict_step(v->oracle, v->oracle_cell, v->layer, v->lane, t) < 0;
        v->oracle_kept += v->judged[t];
        v->common += v->judged[t] && v->evict[t] < 0;
    }
}

static const float *lost_of(const kvt_result *r, int cell, int layer, int lane)
{
    if (!r || !r->lost)
        return NULL;
    return r->lost + (((int64_t)cell * r->n_layer + layer) * r->n_lane + lane) * r->n_response;
}

/* From rows exactly; from the sums of the trace where it has no rows, which counts what a token
 * that left later had already received. */
static kvt_code read_mass(lane_view *v, const tui_data *d, kvt_err *err)
{
    int64_t T = v->n_token, M = v->n_response;
    int layer_id = v->r->layer_id[v->layer];
    kvt_code code = KVT_NOTFOUND;
    if (d->source.rows && M > 0)
        code = d->source.rows(d->source.user, layer_id, v->lane, v->r->by_query_head, &v->rows,
                              err);
    if (code == KVT_OK) {
        for (int64_t m = 0; m < M; m++)
            for (int64_t t = 0; t < T; t++)
                if (m >= v->evict[t])
                    v->mass[t] += (double)v->rows[m * T + t];
        return KVT_OK;
    }
    v->rows = NULL;
    if (code != KVT_NOTFOUND)
        return code;
    if (!d->source.future)
        return KVT_OK;
    snprintf(v->note, sizeof v->note,
             "no attention rows in this trace: means over the response");
    return d->source.future(d->source.user, layer_id, v->lane, v->r->by_query_head, v->mass,
                            err);
}

static kvt_code mark_regret(lane_view *v, kvt_err *err)
{
    if (!v->oracle)
        return KVT_OK;
    bool *held = kvt_alloc(v->n_token, sizeof *held),
         *judged = kvt_alloc(v->n_token, sizeof *judged);
    kvt_code code = KVT_OK;
    if (!held || !judged)
        code = kvt_fail_memory(err, (size_t)v->n_token * 2);
    for (int64_t t = 0; !code && t < v->n_token; t++) {
        held[t] = v->evict[t] < 0;
        /* where the judge has no say (generated tokens), it agrees */
        judged[t] = v->judged[t] == 1 || (v->judged[t] < 0 && held[t]);
    }
    if (!code)
        code = regret_mark(v->regretted, &v->sum, held, judged, v->mass, v->n_token,
                           regret_share, err);
    kvt_free(held);
    kvt_free(judged);
    for (int64_t t = 0; !code && t < v->n_token; t++)
        if (v->regretted[t] && (v->top_regret < 0 || v->mass[t] > v->mass[v->top_regret]))
            v->top_regret = t;
    return code;
}

static kvt_code order_steps(lane_view *v, kvt_err *err)
{
    int64_t M = v->n_response;
    if (!v->lost || M == 0) {
        for (int64_t m = 0; m < M; m++)
            v->worst[m] = (int32_t)m;
        return KVT_OK;
    }
    kvt_arena *work = kvt_arena_new((size_t)M * 64 + (1 << 20));
    double *lost = work ? kvt_arena_array(work, M, sizeof *lost) : NULL;
    for (int64_t m = 0; lost && m < M; m++)
        lost[m] = (double)v->lost[m];
    bool ok = lost && select_rank_double(v->worst, lost, M, work);
    kvt_arena_free(work);
    return ok ? KVT_OK : kvt_fail_memory(err, (size_t)M * 64);
}

kvt_code lane_view_make(lane_view *v, const tui_data *d, const kvt_result *r, int cell,
                        int layer, int lane, kvt_err *err)
{
    lane_view_fini(v);
    if (!tui_data_shows(r, cell) || r->n_prompt + r->n_response != d->n_token)
        return KVT_OK;
    v->r = r;
    v->cell = cell;
    v->layer = layer;
    v->lane = lane;
    v->n_prompt = r->n_prompt;
    v->n_response = r->n_response;
    v->n_token = d->n_token;
    v->oracle = tui_data_oracle(d, r, cell, &v->oracle_cell);
    if (get_memory(v, err))
        goto failed;
    read_sets(v);
    v->lost = lost_of(r, cell, layer, lane);
    v->oracle_lost = v->oracle ? lost_of(v->oracle, v->oracle_cell, layer, lane) : NULL;
    if (read_mass(v, d, err) || mark_regret(v, err) || order_steps(v, err))
        goto failed;
    for (int64_t t = 0; t < v->n_prompt; t++)
        v->regret_before[t + 1] = v->regret_before[t] + v->regretted[t];
    return KVT_OK;

failed:
    lane_view_fini(v);
    return err->code;
}

void lane_view_at(lane_view *v, int64_t step)
{
    if (!v->r || v->step == step)
        return;
    v->step = step;
    for (int64_t t = 0; t < v->n_prompt; t++) {
        bool held = v->evict[t] < 0 || v->evict[t] > step;
        v->held_before[t + 1] = v->held_before[t] + held;
    }
}

mark lane_view_mark(const lane_view *v, int64_t token, int64_t step)
{
    mark_facts f = {.evict = v->evict[token],
                    .judged = v->judged[token],
                    .written = token <= v->n_prompt + step || token < v->n_prompt,
                    .pinned = v->pinned[token],
                    .regretted = v->regretted[token]};
    return mark_of(&f, step);
}

int64_t lane_view_next_regret(const lane_view *v, int64_t token, int dir)
{
    for (int64_t t = token + dir; v->r && t >= 0 && t < v->n_token; t += dir)
        if (v->regretted[t])
            return t;
    return -1;
}
