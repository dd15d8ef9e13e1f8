/* oracle-budget - bound: the best budgets for a ranking as it is.
 *
 *   after Tang et al., "Predicting Future Utility: Global Combinatorial Optimization for
 *   Task-Agnostic KV Cache Eviction" (LU-KV), 2026, arXiv:2602.08585.
 *
 * With m_i[s] the attention that the response gives slot s of lane i (mean over its query
 * heads, sum over rows) and a lane's slots taken in the policy's own order, what it keeps of
 * the future with k slots is
 *
 *   U_i(k) = sum of m_i over what is pinned and the best others, k in all
 *
 * and budgets maximise sum over i of U_i(k_i) at the total: steps of the upper concave hulls by
 * falling slope while they fit; what is left goes where the next slots gain most each. Where
 * an even share keeps more, it is taken. Best where the curves are concave; else
 *
 *   gap = sum of hulls at the total (no sharing out keeps more) - what is kept, >= 0
 *
 * as a share of all future mass. What the allocation of a policy costs is seen against it. A
 * lane that first grows too long while decoding has no such curve: then slots are even. Cost:
 * O(S log S) a lane, memory 40 bytes a slot. */
#include "kvt/pieces.h"
#include "kvt/share.h"

#include <math.h>
#include <string.h>

enum { LOOK = 256 }; /* slots ahead that what is left is tried on */

/* U_i [0..n], its hull behind `from` slots. */
typedef struct curve {
    int64_t from, n, n_corner;
    double *kept, *slope;
    int32_t *corner;
} curve;

static void learn(const void *params, float *mark, const kvt_lane *lane, const float *score,
                  const bool *pinned)
{
    (void)params, (void)score, (void)pinned;
    kvt_add_rows(mark, &lane->future);
    for (int64_t s = 0; s < lane->n_slot; s++)
        mark[s] /= (float)kvt_max(lane->future.dim[0], 1);
}

static bool draw(curve *c, const kvt_lane *lane, const float *score, int64_t least,
                 kvt_arena *a)
{
    int64_t n = lane->n_slot, at = 0;
    *c = (curve){.from = least,
                 .n = n,
                 .kept = kvt_arena_array(a, n + 1, sizeof *c->kept),
                 .slope = kvt_arena_array(a, n + 1, sizeof *c->slope),
                 .corner = kvt_arena_array(a, n + 1, sizeof *c->corner)};
    size_t mark = kvt_arena_mark(a);
    int32_t *order = kvt_arena_array(a, n, sizeof *order);
    if (!c->kept || !c->slope || !c->corner || !order || !kvt_rank(order, score, n, a))
        return false;
    for (int k = 0; k < 2; k++) /* pinned ones first */
        for (int64_t i = 0; i < n; i++) {
            bool fixed = lane->share_pinned && lane->share_pinned[order[i]];
            if (fixed == (k == 0)) {
                c->kept[at + 1] = c->kept[at] + (double)lane->share_mark[order[i]];
                at++;
            }
        }
    kvt_arena_rewind(a, mark);
    c->n_corner = kvt_hull(c->corner, c->slope, c->kept, c->from, n);
    return true;
}

/* Steps of all hulls by falling slope. */
typedef struct steps {
    double *slope;
    int32_t *lane, *length, *order;
    int64_t n;
} steps;

static bool sort_steps(steps *t, const curve *c, int n_lane, kvt_arena *a)
{
    int64_t n = 0;
    for (int i = 0; i < n_lane; i++)
        n += c[i].n_corner - 1;
    *t = (steps){.slope = kvt_arena_array(a, n, sizeof *t->slope),
                 .lane = kvt_arena_array(a, n, sizeof *t->lane),
                 .length = kvt_arena_array(a, n, sizeof *t->length),
                 .order = kvt_arena_array(a, n, sizeof *t->order)};
    if (!t->slope || !t->lane || !t->length || !t->order)
        return false;
    for (int i = 0; i < n_lane; i++)
        for (int64_t k = 0; k + 1 < c[i].n_corner; k++, t->n++) {
            t->slope[t->n] = c[i].slope[k];
            t->lane[t->n] = i;
            t->length[t->n] = c[i].corner[k + 1] - c[i].corner[k];
        }
    return kvt_rank_double(t->order, t->slope, t->n, a);
}

/* Whole steps while they fit. Returns what no sharing out of the total exceeds. */
static double climb(int64_t *budget, int64_t *left, const steps *t, const curve *c, int n_lane)
{
    double bound = 0;
    for (int i = 0; i < n_lane; i++) {
        budget[i] = c[i].from;
        *left -= c[i].from;
        bound += c[i].kept[c[i].from];
    }
    for (int64_t k = 0; k < t->n; k++) {
        int32_t s = t->order[k];
        int64_t take = kvt_min(t->length[s], *left);
        bound += t->slope[s] * (double)take;
        if (take < t->length[s])
            break;
        budget[t->lane[s]] += take;
        *left -= take;
    }
    return bound;
}

/* Gives the rest to the lane that gains most a slot. */
static void fill(int64_t *budget, int64_t left, const curve *c, int n_lane)
{
    while (left > 0) {
        int best = -1;
        int64_t most = 0;
        double gain = -1;
        for (int i = 0; i < n_lane; i++) {
            int64_t look = kvt_min(kvt_min(left, LOOK), c[i].n - budget[i]);
            for (int64_t k = 1; k <= look; k++) {
                double x = (c[i].kept[budget[i] + k] - c[i].kept[budget[i]]) / (double)k;
                if (x > gain)
                    gain = x, best = i, most = k;
            }
        }
        if (best < 0)
            return;
        budget[best] += most;
        left -= most;
    }
}

static double kept(const curve *c, const int64_t *budget, int n_lane)
{
    double sum = 0;
    for (int i = 0; i < n_lane; i++)
        sum += c[i].kept[kvt_min(budget[i], c[i].n)];
    return sum;
}

/* Curves and their steps; false: no memory. */
static bool prepare(curve **c, steps *t, const kvt_lane *lane, int n_lane,
                    const float *const *score, const kvt_shares_out *s)
{
    kvt_arena *a = lane->scratch;
    *c = kvt_arena_array(a, n_lane, sizeof **c);
    bool good = *c != NULL;
    for (int i = 0; good && i < n_lane; i++)
        good = draw(&(*c)[i], &lane[i], score[i], s->least[i], a);
    return good && sort_steps(t, *c, n_lane, a);
}

static bool has_marks(const kvt_lane *lane, int n_lane)
{
    for (int i = 0; i < n_lane; i++)
        if (!lane[i].share_mark)
            return false;
    return true;
}

static void split(const void *params, int64_t *budget, const kvt_lane *lane, int n_lane,
                  const float *const *score, const int64_t *n_pinned, int64_t total)
{
    curve *c;
    steps t;
    kvt_shares_out s;
    (void)params;
    if (!kvt_share_begin(&s, budget, lane, n_lane, n_pinned, total))
        return;
    kvt_share_even.split(NULL, budget, lane, n_lane, score, n_pinned, s.total);
    if (!has_marks(lane, n_lane))
        return;
    int64_t *best = kvt_arena_array(lane->scratch, n_lane, sizeof *best), left = s.total;
    if (!best || !prepare(&c, &t, lane, n_lane, score, &s)) {
        memset(budget, 0, (size_t)n_lane * sizeof *budget); /* refused by the engine */
        return;
    }
    climb(best, &left, &t, c, n_lane);
    fill(best, left, c, n_lane);
    if (kept(c, best, n_lane) >= kept(c, budget, n_lane))
        memcpy(budget, best, (size_t)n_lane * sizeof *budget);
}

static double gap(const void *params, const int64_t *budget, const kvt_lane *lane, int n_lane,
                  const float *const *score, const int64_t *n_pinned, int64_t total)
{
    curve *c;
    steps t;
    kvt_shares_out s;
    double all = 0;
    (void)params;
    int64_t *best = kvt_arena_array(lane->scratch, n_lane, sizeof *best);
    if (!best || !has_marks(lane, n_lane) ||
        !kvt_share_begin(&s, best, lane, n_lane, n_pinned, total) ||
        !prepare(&c, &t, lane, n_lane, score, &s))
        return NAN;
    int64_t left = s.total;
    double bound = climb(best, &left, &t, c, n_lane);
    for (int i = 0; i < n_lane; i++)
        all += c[i].kept[c[i].n];
    return all > 0 ? fmax(bound - kept(c, budget, n_lane), 0) / all : NAN;
}

const kvt_share kvt_share_oracle_budget = {
    .abi = KVT_POLICY_ABI,
    .name = "oracle-budget",
    .title = "bound: the best budgets for a ranking as it is",
    .paper = "after Tang et al., LU-KV, 2026, arXiv:2602.08585",
    .differs = "sees the response; hulls are not the best for any curves: what remains to a "
               "proven bound is printed (gap)",
    .scope = KVT_BY_MODEL,
    .by_score = true,
    .needs = KVT_NEED_FUTURE,
    .mark_width = 1,
    .split = split,
    .learn = learn,
    .gap = gap,
};
