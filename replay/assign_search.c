/* assign_search.c - one slot more for the best schedule of a lane: the longest path.
 *
 * From budget B to B + 1 a prompt key moves from column 0 to column t1, a key of t1 moves on
 * to t2 (later, or earlier but not before its birth), ..., the last one to column C, never
 * dropped. No path enters column 0 or leaves column C: what is never dropped grows, what is
 * dropped at the end of the prompt shrinks, by one key a slot. Beyond B = N nothing is dropped
 * at the end of the prompt; then the first middle columns lose their places one by one, and the
 * path starts at a key of such a column.
 *
 * A* by the potential g, an upper bound of what moving a key away from a column can gain:
 * label L(t) is the gain of the best path to t; columns settle by falling L + g until C, with
 * the gain theta, is first; then g(t) falls to theta - L(t) where that is less. Every key's
 * V + g is largest at its own column, so that g and theta prove each budget (assign_bound).
 * Several keys share a column when K > 1: each is a way on.
 *
 * best(t), the largest V_j(t) over column 0, is a stale bound, made exact when it decides:
 * keys by falling V_j(anchor), anchor the next power of two from t, until that is no more than
 * the best found, for V_j(t) <= V_j(anchor).
 *
 * Settled columns never come back, whatever rounding says: sums of other than halves could go
 * round in circles. Cost: at most B (C - 1) settled columns of K C each, and the scans. */
#include "replay/assign_priv.h"

#include <math.h>
#include <string.h>

enum { SMALL = 12 };

/* ---- lists: incremental quicksort ----------------------------------------------------------
 */

static inline bool is_above(ranked_key a, ranked_key b)
{
    return a.mass > b.mass || (a.mass == b.mass && a.key < b.key);
}

static ranked_key middle_of(ranked_key a, ranked_key b, ranked_key c)
{
    if (is_above(a, b))
        return is_above(b, c) ? b : is_above(a, c) ? c : a;
    return is_above(a, c) ? a : is_above(b, c) ? c : b;
}

/* Splits [lo, hi) into larger keys and others; returns where the others begin, in between. */
static int64_t split(ranked_key *x, int64_t lo, int64_t hi)
{
    ranked_key pivot = middle_of(x[lo], x[lo + (hi - lo) / 2], x[hi - 1]);
    int64_t i = lo, k = hi - 1;
    for (;; i++, k--) {
        while (is_above(x[i], pivot))
            i++;
        while (is_above(pivot, x[k]))
            k--;
        if (i >= k)
            return i;
        ranked_key swap = x[i];
        x[i] = x[k], x[k] = swap;
    }
}

static void insertion_sort(ranked_key *x, int64_t lo, int64_t hi)
{
    for (int64_t i = lo + 1; i < hi; i++) {
        ranked_key one = x[i];
        int64_t k = i;
        for (; k > lo && is_above(one, x[k - 1]); k--)
            x[k] = x[k - 1];
        x[k] = one;
    }
}

static void begin(key_list *l, int64_t n)
{
    for (int64_t j = 0; j < n; j++)
        l->key[j] = (ranked_key){l->mass[j], (int32_t)j};
    l->end[l->n_end++] = n;
    l->begun = true;
}

/* Sorts a few more. */
static void sort_more(key_list *l)
{
    int64_t lo = l->n, hi = l->end[l->n_end - 1];
    while (hi - lo > SMALL && l->n_end < LIST_STACK)
        l->end[l->n_end++] = hi = split(l->key, lo, hi);
    insertion_sort(l->key, lo, hi);
    l->n = hi;
    l->n_end--;
}

int64_t list_at(key_list *l, int64_t rank, int64_t n)
{
    if (!l->begun)
        begin(l, n);
    while (rank >= l->n) {
        if (rank >= n)
            return -1;
        sort_more(l);
    }
    return l->key[rank].key;
}

/* ---- column 0 ------------------------------------------------------------------------------
 */

/* Moves the keys that left out of the part [head, end) of a list. */
static void squeeze(key_list *l, const bool *left, int64_t end)
{
    int64_t to = end;
    for (int64_t i = end - 1; i >= l->head; i--)
        if (!left[l->key[i].key])
            l->key[--to] = l->key[i];
    l->head = to;
}

/* Makes best(t) exact. */
static void refresh(assign *a, int64_t t)
{
    int64_t N = a->lane.n_prompt, rank, j, n_gone = 0;
    int i = 0;
    while (i < a->n_list - 1 && INT64_C(1) << i < t)
        i++;
    key_list *l = &a->list[i];
    const double *v = a->prompt + (t - 1) * N;
    double best = -INFINITY;
    int32_t who = -1;
    for (rank = l->head; (j = list_at(l, rank, N)) >= 0 && l->key[rank].mass > best; rank++) {
        if (a->left[j])
            n_gone++;
        else if (v[j] > best)
            best = v[j], who = (int32_t)j;
    }
    if (n_gone)
        squeeze(l, a->left, rank);
    a->best[t] = best;
    a->best_key[t] = who;
    a->search.by_key[t] = best + a->potential[t];
}

/* The key of column 0 with the largest total, or -1. */
static int64_t best_total(assign *a)
{
    key_list *l = &a->list[a->n_list - 1];
    int64_t j;
    while ((j = list_at(l, l->head, a->lane.n_prompt)) >= 0 && a->left[j])
        l->head++;
    return j;
}

/* ---- the search ----------------------------------------------------------------------------
 */

/* The largest of max(x[i], y[i]) for lo <= i < hi that exceeds *most, which it becomes; -1:
 * none. Two chains, so that a comparison need not wait for the one before it. */
static inline int64_t largest(const double *x, const double *y, int64_t lo, int64_t hi,
                              double *most)
{
    double m0 = *most, m1 = *most;
    int64_t a0 = -1, a1 = -1, i = lo;
    for (; i + 1 < hi; i += 2) {
        double k0 = x[i] > y[i] ? x[i] : y[i], k1 = x[i + 1] > y[i + 1] ? x[i + 1] : y[i + 1];
        a0 = k0 > m0 ? i : a0, m0 = k0 > m0 ? k0 : m0;
        a1 = k1 > m1 ? i + 1 : a1, m1 = k1 > m1 ? k1 : m1;
    }
    for (; i < hi; i++) {
        double k = x[i] > y[i] ? x[i] : y[i];
        a0 = k > m0 ? i : a0, m0 = k > m0 ? k : m0;
    }
    if (m1 > m0)
        m0 = m1, a0 = a1;
    *most = m0;
    return a0;
}

/* The column of the largest key; column C wins ties. */
static inline int64_t first_column(const assign *a)
{
    const path_search *s = &a->search;
    double most = s->by_path[a->n_column];
    int64_t c = largest(s->by_path, s->by_key, 1, a->n_column, &most);
    return c < 0 ? a->n_column : c;
}

/* by_path[t] = max(itself, base + v[t] + open[t]), t >= 1. */
static void relax(double *restrict by_path, const double *restrict v,
                  const double *restrict open, double base, int64_t n)
{
#pragma omp simd
    for (int64_t t = 1; t <= n; t++) {
        double x = base + v[t] + open[t];
        by_path[t] = x > by_path[t] ? x : by_path[t];
    }
}

/* Any key of a settled column may move on to any column that is open. */
static void settle(assign *a, int64_t c, double label, double key)
{
    path_search *s = &a->search;
    int64_t from = (c - 1) * a->lane.every;
    s->label[c] = label, s->key[c] = key;
    s->settled[s->n_settled++] = c;
    s->by_path[c] = s->by_key[c] = s->open[c] = -INFINITY;
    for (int64_t i = from; i < from + a->n_held[c]; i++) {
        s->base[i] = label - a->held[i][c];
        relax(s->by_path, a->held[i], s->open, s->base[i], a->n_column);
    }
}

static void start_search(assign *a, double direct, bool from_prompt)
{
    path_search *s = &a->search;
    int64_t C = a->n_column;
    s->n_settled = 0;
    for (int64_t c = 1; c < C; c++) {
        s->by_path[c] = -INFINITY;
        s->open[c] = c < a->first ? -INFINITY : a->potential[c];
        s->by_key[c] = from_prompt ? a->best[c] + a->potential[c] : -INFINITY;
    }
    s->by_path[C] = direct;
    s->open[C] = 0;
}

/* Settles columns until C is first; returns the gain. */
static double run_search(assign *a)
{
    path_search *s = &a->search;
    int64_t c;
    while ((c = first_column(a)) < a->n_column) {
        int32_t key = a->best_key[c];
        if (s->by_path[c] > s->by_key[c])
            settle(a, c, s->by_path[c] - a->potential[c], s->by_path[c]);
        else if (key >= 0 && !a->left[key])
            settle(a, c, a->best[c], INFINITY);
        else
            refresh(a, c);
    }
    return s->by_path[a->n_column];
}

/* ---- the path ------------------------------------------------------------------------------
 */

/* The slot of settled column number i whose key reaches column `to` with exactly that key of
 * the search, or -1: the same sum gives the same bits. */
static int64_t reaches(const assign *a, int64_t i, int64_t to, double key)
{
    const path_search *s = &a->search;
    int64_t c = s->settled[i], from = (c - 1) * a->lane.every;
    double open = to < a->n_column ? a->potential[to] : 0;
    for (int64_t k = from; k < from + a->n_held[c]; k++)
        if (s->base[k] + a->held[k][to] + open == key)
            return k;
    return -1;
}

/* Moves the keys along the path that ends in column C, last first; returns the slot that is
 * free then, in the path's first column, and the row of the key that stays for good. */
static int64_t move_keys(assign *a, double gain, double **row)
{
    const path_search *s = &a->search;
    int64_t i = s->n_settled, to = a->n_column, free_slot = -1;
    double key = gain;
    do {
        int64_t slot = -1;
        while (slot < 0 && i > 0) /* what settled earlier */
            slot = reaches(a, --i, to, key);
        if (free_slot < 0) {
            a->stays[a->n_stays++] = a->who[slot];
            *row = a->held[slot];
        } else {
            a->who[free_slot] = a->who[slot];
            a->held[free_slot] = a->held[slot];
        }
        free_slot = slot;
        to = s->settled[i];
        key = s->key[to];
    } while (key < INFINITY);
    return free_slot;
}

/* The prompt key that was best for that column takes the slot. */
static void enter(assign *a, int64_t slot, double *row)
{
    int64_t N = a->lane.n_prompt, c = slot / a->lane.every + 1;
    int32_t j = a->best_key[c];
    a->who[slot] = j;
    a->held[slot] = row;
    a->left[j] = true;
    row[0] = 0;
    for (int64_t t = 1; t <= a->n_column; t++)
        row[t] = a->prompt[(t - 1) * N + j];
}

/* The column has one place less: the last of its keys moves up. */
static void close_slot(assign *a, int64_t slot)
{
    int64_t last = (a->first - 1) * a->lane.every + --a->n_held[a->first];
    a->who[slot] = a->who[last];
    a->held[slot] = a->held[last];
    if (a->n_held[a->first] == 0)
        a->first++;
}

static void lower_potentials(assign *a, double gain)
{
    const path_search *s = &a->search;
    for (int64_t i = 0; i < s->n_settled; i++) {
        int64_t c = s->settled[i];
        if (gain - s->label[c] < a->potential[c])
            a->potential[c] = gain - s->label[c];
    }
    a->most = -INFINITY;
    for (int64_t c = 1; c < a->n_column; c++)
        if (a->best[c] + a->potential[c] > a->most)
            a->most = a->best[c] + a->potential[c];
}

/* ---- one slot more -------------------------------------------------------------------------
 */

/* Beyond B = N: a key of the first column that still drops moves on. */
static void grow_by_closing(assign *a)
{
    double *row;
    start_search(a, -INFINITY, false);
    settle(a, a->first, 0, INFINITY);
    a->gain = run_search(a);
    int64_t slot = move_keys(a, a->gain, &row);
    lower_potentials(a, a->gain);
    close_slot(a, slot);
}

void assign_grow(assign *a)
{
    int64_t j = a->budget < a->lane.n_prompt ? best_total(a) : -1;
    if (j < 0) {
        grow_by_closing(a);
        return;
    }
    const key_list *l = &a->list[a->n_list - 1];
    double direct = l->key[l->head].mass, *row;
    a->gain = direct;
    if (a->most > direct) {
        start_search(a, direct, true);
        a->gain = run_search(a);
        int64_t slot = a->gain > direct ? move_keys(a, a->gain, &row) : -1;
        if (slot >= 0)
            enter(a, slot, row);
        lower_potentials(a, a->gain);
        if (slot >= 0)
            return;
    }
    a->stays[a->n_stays++] = (int32_t)j;
    a->left[j] = true;
}
