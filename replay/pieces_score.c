/* pieces_score.c - arithmetic that policies with a learned score for each token share. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "kvt/pieces.h"

/* Rows of a hidden layer at a time, so that memory does not grow with the prompt. */
enum { TILE = 256 };

static const float *row_at(const kvt_view *v, int64_t i)
{
    return (const float *)v->data + i * v->stride[0];
}

void kvt_key_value(float *x, const kvt_lane *lane, int64_t from, int64_t n)
{
    int64_t d = lane->keys.dim[1];
    for (int64_t i = 0; i < n; i++, x += 2 * d) {
        memcpy(x, row_at(&lane->keys, from + i), (size_t)d * sizeof *x);
        memcpy(x + d, row_at(&lane->values, from + i), (size_t)d * sizeof *x);
    }
}

float kvt_weight_number(const kvt_lane *lane, int i)
{
    return *(const float *)lane->weights[i].data;
}

int64_t kvt_slot_from(const kvt_lane *lane, int64_t position)
{
    int64_t s = lane->n_slot;
    while (s > 0 && lane->pos[s - 1] >= position)
        s--;
    return s;
}

static void read_out(float *out, const float *hidden, int64_t n, int64_t width,
                     const float *weight, float bias)
{
    for (int64_t i = 0; i < n; i++, hidden += width) {
        double sum = (double)bias;
        for (int64_t k = 0; k < width; k++)
            sum += (double)weight[k] * (double)hidden[k];
        out[i] = (float)sum;
    }
}

void kvt_network(float *out, const float *x, int64_t n, const kvt_view *weight,
                 void (*unit)(float *x, int64_t n), kvt_arena *scratch)
{
    int64_t width = weight[0].dim[0], n_in = weight[0].dim[1];
    size_t start = kvt_arena_mark(scratch);
    float *hidden = kvt_arena_array(scratch, kvt_min(n, TILE) * width + 1, sizeof *hidden);
    for (int64_t at = 0; hidden && at < n; at += TILE) {
        int64_t m = kvt_min(TILE, n - at);
        kvt_affine(hidden, x + at * n_in, n_in, m, n_in, weight[0].data, weight[1].data, width);
        unit(hidden, m * width);
        read_out(out + at, hidden, m, width, weight[2].data, *(const float *)weight[3].data);
    }
    for (int64_t i = 0; !hidden && i < n; i++)
        out[i] = NAN;
    kvt_arena_rewind(scratch, start);
}

void kvt_network_new(kvt_lane *lane, int64_t *seen)
{
    int64_t from = kvt_slot_from(lane, *seen), width = 2 * lane->keys.dim[1];
    size_t start = kvt_arena_mark(lane->scratch);
    int64_t room =
        kvt_min(TILE, lane->n_slot - from); /* one token, once the prompt is through */
    float *x = kvt_arena_array(lane->scratch, room * width + 1, sizeof *x);
    for (int64_t at = from; at < lane->n_slot; at += TILE) {
        int64_t n = kvt_min(TILE, lane->n_slot - at);
        if (x) {
            kvt_key_value(x, lane, at, n);
            kvt_network(lane->mark + at, x, n, lane->weights, kvt_silu, lane->scratch);
        }
        for (int64_t i = 0; !x && i < n; i++)
            lane->mark[at + i] = NAN;
    }
    *seen = lane->now + 1;
    kvt_arena_rewind(lane->scratch, start);
}

/* r_t(q), or what orders tokens as it does at every q. */
static double priority(const kvt_pop *p, double r, int64_t position, int64_t now)
{
    if (p->step == 1)
        return r - (double)position * p->log_gamma;
    return r + (double)((now - position) / p->step) * p->log_gamma;
}

/* The slot that row q drops: of those that are left and out of the window the least, of equal
 * ones the later; -1: none. */
static int64_t least_at(const kvt_pop *p, const float *r, const bool *gone,
                        const kvt_lane *lane, int64_t q)
{
    int64_t at = -1;
    double least = INFINITY;
    for (int64_t s = 0; s < lane->n_slot && q - lane->pos[s] >= p->window; s++) {
        if (gone[s] || lane->pos[s] < p->sinks)
            continue;
        double now = priority(p, (double)r[s], lane->pos[s], q);
        if (now <= least)
            least = now, at = s;
    }
    return at;
}

/* With steps the order changes with q, so that the prompt's rows drop one after the other, as
 * those of the response do. What went is put below all that is left. */
static void drop_by_row(const kvt_pop *p, const float *r, float *score, const kvt_lane *lane)
{
    bool *gone = kvt_arena_array(lane->scratch, lane->n_slot, sizeof *gone);
    for (int64_t s = 0; !gone && s < lane->n_slot; s++) /* NaN, which is refused: no memory */
        score[s] = NAN;
    for (int64_t n = lane->budget; gone && n < lane->n_slot; n++) {
        int64_t at = least_at(p, r, gone, lane, lane->pos[n]);
        if (at >= 0)
            gone[at] = true, score[at] = -FLT_MAX;
    }
}

void kvt_pop_score(const kvt_pop *p, const float *r, float *score, bool *pinned,
                   const kvt_lane *lane)
{
    int64_t best = -1;
    for (int64_t s = 0; s < lane->n_slot; s++) {
        int64_t t = lane->pos[s];
        pinned[s] = t < p->sinks || lane->now - t < p->window;
        score[s] = pinned[s] ? 0 : (float)priority(p, (double)r[s], t, lane->now);
        if (!pinned[s] && (best < 0 || score[s] > score[best]))
            best = s;
    }
    if (best >= 0 && lane->budget > 0 && lane->budget <= p->sinks + p->window)
        pinned[best] = true;
    else if (p->step > 1 && lane->step == 0 && lane->budget > 0)
        drop_by_row(p, r, score, lane);
}

/* Beside what is pinned the best slot of a lane that pins none: no lane is left empty (C007).
 * It is among the best of all wherever the lane would not be empty. */
static void fix_one(bool *fixed, const float *score, int64_t n)
{
    int64_t best = 0;
    for (int64_t s = 0; s < n; s++) {
        if (fixed[s])
            return;
        best = score[s] > score[best] ? s : best;
    }
    if (n > 0)
        fixed[best] = true;
}

void kvt_keep_best_of_all(bool *const *keep, const kvt_lane *lane, int n_lane,
                          const float *const *score, const bool *const *pinned,
                          const int64_t *budget)
{
    kvt_arena *a = lane->scratch;
    size_t start = kvt_arena_mark(a);
    int64_t n = 0, open = 0, at = 0;
    for (int i = 0; i < n_lane; i++) {
        n += lane[i].n_slot;
        open += budget[i];
    }
    float *all = kvt_arena_array(a, n, sizeof *all);
    bool *fixed = kvt_arena_array(a, n, sizeof *fixed);
    bool *best = kvt_arena_array(a, n, sizeof *best);
    for (int i = 0; all && fixed && best && i < n_lane; at += lane[i++].n_slot) {
        size_t size = (size_t)lane[i].n_slot;
        memcpy(all + at, score[i], size * sizeof *all);
        memcpy(fixed + at, pinned[i], size * sizeof *fixed);
        fix_one(fixed + at, all + at, lane[i].n_slot);
        for (int64_t s = 0; s < lane[i].n_slot; s++)
            open -= fixed[at + s];
    }
    bool good = all && fixed && best && kvt_keep_best(best, all, fixed, n, open, a) >= 0;
    for (int i = 0; good && i < n_lane; best += lane[i++].n_slot)
        memcpy(keep[i], best, (size_t)lane[i].n_slot * sizeof *best);
    kvt_arena_rewind(a, start);
}
