/* look.c - what the engine holds, found and refused, for those who drive it. */
#include "replay/engine_priv.h"

#include <math.h>

void kvt_engine_held(const kvt_engine *e, int budget, int layer, int lane, const int64_t **pos,
                     int64_t *n)
{
    const engine_layer *l = &e->layer[layer];
    if (l->lane) {
        const engine_lane *at = engine_lane_at(e, budget, layer, lane);
        *pos = at->pos;
        *n = at->n_slot;
        return;
    }
    const uint64_t *kept = l->kept + (int64_t)lane * e->n_prompt;
    int64_t count = 0;
    for (int64_t s = 0; s < e->n_prompt; s++)
        if (kept[s] >> budget & 1)
            l->held[count++] = s;
    for (int64_t t = e->n_prompt; t < l->n_arrived; t++)
        l->held[count++] = t;
    *pos = l->held;
    *n = count;
}

void kvt_engine_ranking(const kvt_engine *e, int budget, int layer, int lane,
                        const float **score, const bool **pinned)
{
    const engine_layer *l = &e->layer[layer];
    bool there = l->ranked && l->ranked[e->ranking ? 0 : budget];
    *score = there ? l->score + engine_score_at(e, budget, lane) : NULL;
    *pinned = there ? l->pinned + engine_score_at(e, budget, lane) : NULL;
}

const uint8_t *kvt_engine_pinned(const kvt_engine *e, int budget, int layer, int lane)
{
    bool skip = e->traits.effect == KVT_SKIP;
    return e->layer[layer].lane && !skip ? engine_lane_at(e, budget, layer, lane)->pinned
                                         : NULL;
}

const int32_t *kvt_engine_evict_step(const kvt_engine *e, int budget, int layer, int lane)
{
    return e->layer[layer].lane ? engine_lane_at(e, budget, layer, lane)->evict_step : NULL;
}

const uint64_t *kvt_engine_kept(const kvt_engine *e, int layer, int lane)
{
    return e->layer[layer].kept ? e->layer[layer].kept + lane * e->n_prompt : NULL;
}

kvt_engine_count kvt_engine_counts(const kvt_engine *e, int budget, int layer, int lane)
{
    kvt_engine_count n = *engine_count_at(e, budget, layer, lane);
    if (n.budget == 0) /* it never had too many */
        n.budget = e->budget[budget];
    return n;
}

const char *kvt_engine_refused(const kvt_engine *e, int budget, int layer, bool *failed)
{
    const engine_layer *l = &e->layer[layer];
    if (!l->refusal || !l->refusal[budget][0])
        return NULL;
    *failed = l->failed[budget];
    return l->refusal[budget];
}

double kvt_engine_gap(const kvt_engine *e, int budget)
{
    double sum = 0;
    int n = 0;
    for (int i = 0; i < e->n_layer; i++) {
        const engine_gap *gap = e->layer[i].gap;
        sum += gap ? gap[budget].sum : 0;
        n += gap ? gap[budget].n : 0;
    }
    return n > 0 ? sum / n : NAN;
}

bool kvt_engine_kept_latest(const kvt_engine *e, int budget, int layer)
{
    return e->layer[layer].recent && e->layer[layer].recent[budget];
}

bool kvt_engine_drew(const kvt_engine *e, int layer)
{
    return e->layer[layer].drew;
}
