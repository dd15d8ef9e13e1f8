/* pass_room.c - the arrays of a pass: which there are follows from what it is and from the
 * metrics that are asked for. */
#include "replay/pass_priv.h"

#include <math.h>
#include <string.h>

#include "kvt/arena.h"

/* Whether a metric that is asked for has some property. */
static bool measures(const pass *p, bool (*has)(const kvt_metric *m))
{
    for (int i = 0; kvt_metrics()[i]; i++)
        if (pass_measures(p, i) && has(kvt_metrics()[i]))
            return true;
    return false;
}

static bool is_more_output(const kvt_metric *m)
{
    return m->output && m->extra;
}
static bool reads_heavy(const kvt_metric *m)
{
    return m->by_heavy;
}
static bool reads_support(const kvt_metric *m)
{
    return m->by_support;
}
static bool has_turn(const kvt_metric *m)
{
    return m->turn != NULL;
}

bool pass_wants_support(const pass *p)
{
    return measures(p, reads_support);
}

bool pass_wants_heavy(const pass *p)
{
    return measures(p, reads_heavy);
}

/* Other errors of the output: not measured until a row says so where rows are made anew. */
static bool make_more(pass *p, int64_t heads)
{
    if (!p->output || !measures(p, is_more_output))
        return true;
    p->out_more = kvt_alloc(heads * OUT_MORE, sizeof *p->out_more);
    for (int64_t i = 0; p->out_more && pass_makes_rows(p) && i < heads * OUT_MORE; i++)
        p->out_more[i] = NAN;
    return p->out_more != NULL;
}

static bool make_saw(pass *p)
{
    bool live = (p->inside || p->skip) && !p->joins;
    if (!live || !(measures(p, has_turn) || pass_wants_heavy(p)))
        return true;
    p->saw = kvt_alloc(2 * pass_words(p) * p->n_cell * p->n_layer * p->n_lane, sizeof *p->saw);
    return p->saw != NULL;
}

/* Of policies whose rows lose keys. */
static bool make_heavy(pass *p, int64_t heads)
{
    if (pass_is_apart(p) || !pass_wants_heavy(p))
        return true;
    p->heavy = kvt_alloc(heads, sizeof *p->heavy);
    return p->heavy != NULL;
}

kvt_code pass_make(pass *p, const kvt_trace_info *info, kvt_err *err)
{
    int64_t L = p->n_layer, A = p->n_lane, H = p->n_head, N = p->n_prompt, M = p->n_response;
    int64_t lanes = p->n_cell * L * A, heads = p->n_cell * L * H * M;
    bool on_top = !p->inside && !p->skip, rows = feed_has_rows(info) && M > 0;
    bool ok = true;
    if (on_top)
        ok = (p->kept = kvt_alloc(L * A * N, sizeof *p->kept)) != NULL;
    if (!p->skip) {
        p->score = kvt_alloc(L * A * N, sizeof *p->score);
        p->pinned = kvt_alloc(L * A * N, sizeof *p->pinned);
        ok = ok && p->score && p->pinned;
    }
    if (p->ranked) {
        p->rank = kvt_alloc(L * A * N, sizeof *p->rank);
        p->cut = kvt_alloc(lanes, sizeof *p->cut);
        ok = ok && p->rank && p->cut;
    } else if (ok) {
        if (M >= STAYS)
            return kvt_fail(err, KVT_FORMAT,
                            "response: expected fewer than %d tokens, got %lld", STAYS,
                            (long long)M);
        ok = (p->evict_step = kvt_alloc(lanes * (N + M), sizeof *p->evict_step)) != NULL;
        if (ok)
            memset(p->evict_step, 0xff, (size_t)(lanes * (N + M)) * sizeof *p->evict_step);
    }
    if (ok && rows) {
        p->lost = kvt_alloc(heads, sizeof *p->lost);
        p->out_err = p->output ? kvt_alloc(heads, sizeof *p->out_err) : NULL;
        ok = make_more(p, heads) && make_saw(p) && make_heavy(p, heads);
        p->seen = kvt_alloc(lanes * M, sizeof *p->seen);
        ok = ok && p->lost && p->seen && (p->out_err || !p->output);
    }
    p->kept_mass = kvt_alloc(lanes, sizeof *p->kept_mass);
    p->measure = kvt_alloc(lanes * LANE_METRICS_MAX, sizeof *p->measure);
    p->measured = kvt_alloc(lanes * LANE_METRICS_MAX, sizeof *p->measured);
    p->part = kvt_alloc(lanes * LANE_METRICS_MAX, sizeof *p->part);
    p->count = kvt_alloc(lanes, sizeof *p->count);
    if (p->inside)
        ok = ok && (p->best_lost = kvt_alloc(lanes, sizeof *p->best_lost)) != NULL;
    for (int64_t i = 0; ok && p->best_lost && i < lanes; i++)
        p->best_lost[i] = NAN;
    p->end = kvt_alloc(lanes, sizeof *p->end);
    if (ok && p->channels) {
        p->lane_bytes = kvt_alloc(lanes, sizeof *p->lane_bytes);
        p->lane_channels = kvt_alloc(lanes, sizeof *p->lane_channels);
        ok = p->lane_bytes && p->lane_channels;
    }
    if (ok && p->kept_mass && p->measure && p->measured && p->part && p->count && p->end)
        return KVT_OK;
    return kvt_fail_memory(err, heads * (int64_t)sizeof *p->lost);
}

void pass_free(pass *p)
{
    if (!p)
        return;
    kvt_engine_free(p->engine);
    kvt_scores_close(p->scores);
    kvt_free(p->kept);
    kvt_free(p->score);
    kvt_free(p->pinned);
    kvt_free(p->rank);
    kvt_free(p->cut);
    kvt_free(p->evict_step);
    kvt_free(p->lost);
    kvt_free(p->out_err);
    kvt_free(p->out_more);
    kvt_free(p->heavy);
    kvt_free(p->seen);
    kvt_free(p->kept_mass);
    kvt_free(p->measure);
    kvt_free(p->measured);
    kvt_free(p->part);
    kvt_free(p->saw);
    kvt_free(p->count);
    kvt_free(p->best_lost);
    kvt_free(p->end);
    kvt_free(p->lane_bytes);
    kvt_free(p->lane_channels);
    kvt_free(p->cell);
    kvt_free(p);
}
