/* pieces_share.c - arithmetic of allocators: bounds, rounding to a total, counting what each
 * lane has among the best of all. */
#include "kvt/pieces.h"

#include <math.h>
#include <string.h>

#include "base/select.h"

bool kvt_share_begin(kvt_shares_out *out, int64_t *budget, const kvt_lane *lane, int n_lane,
                     const int64_t *n_pinned, int64_t total)
{
    kvt_arena *a = lane->scratch;
    int64_t need = 0, room = 0, fixed = 0;
    *out = (kvt_shares_out){.n = n_lane,
                            .n_pinned = n_pinned,
                            .least = kvt_arena_array(a, n_lane, sizeof *out->least),
                            .most = kvt_arena_array(a, n_lane, sizeof *out->most),
                            .want = kvt_arena_array(a, n_lane, sizeof *out->want)};
    if (!out->least || !out->most || !out->want) {
        memset(budget, 0, (size_t)n_lane * sizeof *budget); /* refused by the engine */
        return false;
    }
    for (int i = 0; i < n_lane; i++) {
        out->most[i] = kvt_max(lane[i].n_slot, 1);
        out->least[i] = kvt_min(kvt_max(n_pinned[i], 1), out->most[i]);
        fixed += n_pinned[i];
        need += out->least[i];
        room += out->most[i];
    }
    out->total = kvt_min(total, room);
    out->free = out->total - fixed;
    for (int i = 0; need > out->total && i < n_lane; i++) /* below what a rule keeps: refused */
        budget[i] = kvt_min(kvt_max(total / n_lane, 1), out->most[i]);
    return need <= out->total;
}

/* The lane to change next: the one whose budget is farthest below (above) what it wants. */
static int next(const kvt_shares_out *s, const int64_t *budget, bool up)
{
    int best = -1;
    double most = 0;
    for (int i = 0; i < s->n; i++) {
        double gap = s->want[i] - (double)budget[i];
        if (up ? budget[i] >= s->most[i] : budget[i] <= s->least[i])
            continue;
        if (best < 0 || (up ? gap > most + 1e-9 : gap < most - 1e-9))
            best = i, most = gap;
    }
    return best;
}

void kvt_share_round(int64_t *budget, const kvt_shares_out *s)
{
    int64_t sum = 0;
    for (int i = 0; i < s->n; i++) {
        double want = floor(s->want[i] + 1e-9);
        int64_t n = want > (double)s->most[i] ? s->most[i] : (int64_t)want;
        budget[i] = kvt_max(n, s->least[i]);
        sum += budget[i];
    }
    while (sum != s->total) {
        int i = next(s, budget, sum < s->total);
        if (i < 0)
            return;
        budget[i] += sum < s->total ? 1 : -1;
        sum += sum < s->total ? 1 : -1;
    }
}

/* What the lanes get together at a factor; it grows with it. */
static double filled(const kvt_shares_out *s, const double *part, double factor)
{
    double sum = 0;
    for (int i = 0; i < s->n; i++)
        sum +=
            fmin(fmax(s->want[i] + factor * part[i], (double)s->least[i]), (double)s->most[i]);
    return sum;
}

void kvt_share_fill(kvt_shares_out *s, const double *part)
{
    double low = 0, high = 1, total = (double)s->total;
    for (int k = 0; k < 100 && filled(s, part, high) < total; k++)
        high *= 2;
    for (int k = 0; k < 100; k++) {
        double middle = low + (high - low) / 2;
        *(filled(s, part, middle) < total ? &low : &high) = middle;
    }
    for (int i = 0; i < s->n; i++)
        s->want[i] =
            fmin(fmax(s->want[i] + high * part[i], (double)s->least[i]), (double)s->most[i]);
}

/* Open slots of all lanes, one after the other: scores, and lane of each. The first[i] best of
 * a lane come before everything else. -1: no memory. */
static int64_t gather(float *open, int32_t *of, const kvt_lane *lane, int n_lane,
                      const float *const *score, const float *factor, const int64_t *first)
{
    kvt_arena *a = lane->scratch;
    int64_t n = 0;
    for (int i = 0; i < n_lane; i++) {
        int64_t from = n;
        for (int64_t s = 0; s < lane[i].n_slot; s++) {
            if (lane[i].share_pinned && lane[i].share_pinned[s])
                continue;
            of[n] = i;
            open[n++] = factor ? score[i][s] * factor[i] : score[i][s];
        }
        if (!first || first[i] <= 0)
            continue;
        size_t mark = kvt_arena_mark(a);
        bool *best = kvt_arena_array(a, n - from, sizeof *best);
        if (!best || !select_best(best, open + from, n - from, kvt_min(first[i], n - from), a))
            return -1;
        for (int64_t k = from; k < n; k++)
            open[k] = best[k - from] ? INFINITY : open[k];
        kvt_arena_rewind(a, mark);
    }
    return n;
}

bool kvt_share_count(int64_t *count, const kvt_lane *lane, int n_lane,
                     const float *const *score, const float *factor, const int64_t *first,
                     int64_t n_best)
{
    kvt_arena *a = lane->scratch;
    size_t mark = kvt_arena_mark(a);
    int64_t n = 0;
    for (int i = 0; i < n_lane; i++) {
        n += lane[i].n_slot;
        count[i] = 0;
    }
    float *open = kvt_arena_array(a, n, sizeof *open);
    int32_t *of = kvt_arena_array(a, n, sizeof *of);
    bool *best = kvt_arena_array(a, n, sizeof *best);
    n = open && of && best ? gather(open, of, lane, n_lane, score, factor, first) : -1;
    bool good = n >= 0 && select_best(best, open, n, kvt_min(n_best, n), a);
    for (int64_t k = 0; good && k < n; k++)
        count[of[k]] += best[k];
    kvt_arena_rewind(a, mark);
    return good;
}

void kvt_keep_counts(bool *const *keep, const kvt_lane *lane, int n_lane,
                     const float *const *score, const bool *const *pinned, const int64_t *count)
{
    for (int i = 0; i < n_lane; i++)
        (void)kvt_keep_budget(keep[i], score[i], pinned[i], lane[i].n_slot, count[i],
                              lane->scratch);
}

void kvt_share_floors(int64_t *count, double *part, int n, int64_t total, int64_t most)
{
    double all = 0;
    int64_t given = 0, least = total >= n;
    for (int i = 0; i < n; i++)
        all += part[i];
    for (int i = 0; i < n; i++) {
        if (!(all > 0))
            part[i] = 1;
        double x = (double)kvt_max(total - n, 0) / (all > 0 ? all : n); /* no more than x */
        count[i] = kvt_min(kvt_max((int64_t)floor(x * part[i]), least), most);
        given += count[i];
    }
    for (; given < total; given++) {
        int best = -1;
        for (int i = 0; i < n; i++)
            if (count[i] < most && (best < 0 || part[i] / (double)(count[i] + 1) >
                                                    part[best] / (double)(count[best] + 1)))
                best = i;
        if (best < 0)
            return;
        count[best]++;
    }
}

bool kvt_share_open(kvt_shares_out *out, int64_t **count, double **part, bool *const *keep,
                    const kvt_lane *lane, int n_lane, const float *const *score,
                    const bool *const *pinned, const int64_t *budget)
{
    kvt_arena *a = lane->scratch;
    int64_t total = 0, *n_pinned = kvt_arena_array(a, n_lane, sizeof *n_pinned);
    *count = kvt_arena_array(a, n_lane, sizeof **count);
    *part = kvt_arena_array(a, n_lane, sizeof **part);
    if (!n_pinned || !*count || !*part)
        return false; /* nothing kept */
    for (int i = 0; i < n_lane; i++) {
        total += budget[i];
        for (int64_t s = 0; s < lane[i].n_slot; s++)
            n_pinned[i] += pinned[i][s];
    }
    if (kvt_share_begin(out, *count, lane, n_lane, n_pinned, total))
        return true;
    kvt_keep_counts(keep, lane, n_lane, score, pinned, n_pinned);
    return false;
}

bool kvt_rank(int32_t *out, const float *score, int64_t n, kvt_arena *scratch)
{
    return select_rank(out, score, n, scratch);
}

bool kvt_rank_double(int32_t *out, const double *score, int64_t n, kvt_arena *scratch)
{
    return select_rank_double(out, score, n, scratch);
}

/* ---- curves --------------------------------------------------------------------------------
 */

int64_t kvt_hull(int32_t *corner, double *slope, const double *kept, int64_t from, int64_t to)
{
    int64_t n = 1;
    corner[0] = (int32_t)from;
    for (int64_t k = from + 1; k <= to; k++) {
        double last = (kept[k] - kept[corner[n - 1]]) / (double)(k - corner[n - 1]);
        while (n > 1 && last >= slope[n - 2]) {
            n--;
            last = (kept[k] - kept[corner[n - 1]]) / (double)(k - corner[n - 1]);
        }
        slope[n - 1] = last;
        corner[n++] = (int32_t)k;
    }
    return n;
}
