/* running.c - the k best of a growing list (base/running.h). */
#include "base/running.h"

#include <math.h>
#include <string.h>

#include "base/select.h"

/* ---- online --------------------------------------------------------------------------------
 */

/* The order of base/select.h: of equal scores the higher token goes first, NaN before all. */
static bool is_worse(double a, int32_t token_a, double b, int32_t token_b)
{
    if (isnan(a) || isnan(b))
        return isnan(a) && (!isnan(b) || token_a > token_b);
    return a < b || (a == b && token_a > token_b);
}

static bool heap_less(const running_heap *h, int64_t i, int64_t j)
{
    return is_worse(h->score[i], h->token[i], h->score[j], h->token[j]);
}

static void heap_swap(running_heap *h, int64_t i, int64_t j)
{
    double score = h->score[i];
    int32_t token = h->token[i];
    h->score[i] = h->score[j];
    h->token[i] = h->token[j];
    h->score[j] = score;
    h->token[j] = token;
}

static void heap_rise(running_heap *h, int64_t i)
{
    for (int64_t up; i > 0 && heap_less(h, i, up = (i - 1) / 2); i = up)
        heap_swap(h, i, up);
}

static void heap_sink(running_heap *h)
{
    for (int64_t i = 0, child; (child = 2 * i + 1) < h->n; i = child) {
        if (child + 1 < h->n && heap_less(h, child + 1, child))
            child++;
        if (!heap_less(h, child, i))
            return;
        heap_swap(h, i, child);
    }
}

int32_t running_heap_push(running_heap *h, int32_t token, double score)
{
    if (h->n < h->size) {
        h->score[h->n] = score;
        h->token[h->n] = token;
        heap_rise(h, h->n++);
        return -1;
    }
    if (h->size <= 0 || is_worse(score, token, h->score[0], h->token[0]))
        return token;
    int32_t gone = h->token[0];
    h->score[0] = score;
    h->token[0] = token;
    heap_sink(h);
    return gone;
}

/* ---- whole sequence ------------------------------------------------------------------------
 */

bool running_tree_new(running_tree *out, const double *score, int64_t n, kvt_arena *work)
{
    *out = (running_tree){.n = n, .top = 1};
    out->place = kvt_arena_array(work, n, sizeof *out->place);
    out->order = kvt_arena_array(work, n, sizeof *out->order);
    out->count = kvt_arena_array(work, n + 1, sizeof *out->count);
    if (!out->place || !out->order || !out->count ||
        !select_rank_double(out->order, score, n, work))
        return false;
    for (int64_t i = 0; i < n; i++)
        out->place[out->order[i]] = (int32_t)i;
    while (out->top * 2 <= n)
        out->top *= 2;
    return true;
}

void running_tree_add(running_tree *r, int64_t token)
{
    for (int64_t i = r->place[token] + 1; i <= r->n; i += i & -i)
        r->count[i]++;
    r->n_in++;
}

int64_t running_tree_kth(const running_tree *r, int64_t k)
{
    if (k < 1 || k > r->n_in)
        return -1;
    int64_t at = 0;
    for (int64_t step = r->top; step > 0; step /= 2)
        if (at + step <= r->n && r->count[at + step] < k)
            k -= r->count[at += step];
    return r->order[at];
}

bool running_cutoffs(int32_t *cut, int32_t *place, const double *score, const running_spec *s,
                     kvt_arena *work)
{
    size_t mark = kvt_arena_mark(work);
    running_tree r;
    bool ok = running_tree_new(&r, score, s->n_token, work);
    for (int64_t q = 0; ok && q < s->n_token; q++) {
        int64_t leaving = q - s->window;
        if (leaving >= s->sinks)
            running_tree_add(&r, leaving);
        int64_t worst = running_tree_kth(&r, s->slots);
        cut[q] = (int32_t)(r.n_in <= s->slots ? s->n_token : worst < 0 ? -1 : r.place[worst]);
    }
    if (ok)
        memcpy(place, r.place, (size_t)s->n_token * sizeof *place);
    kvt_arena_rewind(work, mark);
    return ok;
}
