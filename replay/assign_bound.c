/* assign_bound.c - what stands beside the best schedule of a lane and knows nothing of its
 * search: a bound from any prices, the greedy schedule, and what a schedule collects.
 *
 * All of them go through the rows block by block, as blocks are in assign.c, and need O(N + M)
 * memory. Cost of each: O(H N M). */
#include "replay/assign.h"

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "base/select.h"
#include "kvt/pieces.h"

/* ---- rows and blocks -----------------------------------------------------------------------
 */

static const uint16_t *half_row(const assign_lane *l, int h, int64_t m)
{
    return l->rows.data + (l->head + h) * l->rows.head_stride + m * l->rows.row_stride;
}

/* The rows of a block, from 0, are [first_row(b), first_row(b + 1)). */
static int64_t first_row(const assign_lane *l, int64_t block)
{
    int64_t m = block * l->every - l->drop_first;
    return m < 0 ? 0 : kvt_min(m, l->n_response);
}

/* Tokens of the response that came before the block. */
static int64_t born_before(const assign_lane *l, int64_t block)
{
    return kvt_min(block * l->every, l->n_response);
}

/* ---- the bound -----------------------------------------------------------------------------
 */

/* Of each key: mass less prices since its birth, and the most that this was. */
typedef struct stretch {
    double *run, *most; /* [N + M] */
    double own;         /* what keys collect in the block of their birth */
    float *row;
} stretch;

static bool make_stretch(stretch *s, int64_t n, kvt_arena *work)
{
    *s = (stretch){.run = kvt_arena_array(work, n, sizeof *s->run),
                   .most = kvt_arena_array(work, n, sizeof *s->most),
                   .row = kvt_arena_array(work, n, sizeof *s->row)};
    return s->run && s->most && s->row;
}

static void stretch_block(stretch *s, const assign_lane *l, int64_t block, double price)
{
    int64_t old = l->n_prompt + born_before(l, block);
    for (int64_t j = 0; j < old; j++)
        s->run[j] -= price;
    for (int64_t m = first_row(l, block); m < first_row(l, block + 1); m++) {
        for (int h = 0; h < l->n_head; h++) {
            int64_t n = l->n_prompt + m + 1;
            half_to_floats(s->row, half_row(l, h, m), n);
            for (int64_t j = 0; j < kvt_min(old, n); j++)
                s->run[j] += (double)s->row[j];
            for (int64_t j = old; j < n; j++)
                s->own += (double)s->row[j];
        }
    }
    for (int64_t j = 0; j < old; j++)
        s->most[j] = s->run[j] > s->most[j] ? s->run[j] : s->most[j];
}

kvt_code assign_bound(double *out, const assign_lane *l, int64_t budget, const double *price,
                      kvt_arena *work, kvt_err *err)
{
    int64_t C = assign_columns(l), T = l->n_prompt + l->n_response;
    stretch s;
    if (!make_stretch(&s, T, work))
        return kvt_fail_memory(err, T * (int64_t)sizeof *s.run);
    double slots = 0, keys = 0;
    for (int64_t b = 0; b < C; b++) {
        stretch_block(&s, l, b, price[b]);
        slots += (double)budget * price[b];
    }
    for (int64_t j = 0; j < T; j++)
        keys += s.most[j];
    *out = slots + s.own + keys;
    return KVT_OK;
}

/* ---- the greedy schedule -------------------------------------------------------------------
 */

typedef struct greedy {
    const assign_lane *lane;
    double *left;   /* [N + M] mass still to come */
    int32_t *alive; /* [n] positions, rising */
    int64_t n;
    int32_t *order; /* scratch [N] */
    float *row;
    int32_t *drop;
} greedy;

static bool make_greedy(greedy *g, const assign_lane *l, int32_t *drop, kvt_arena *work)
{
    int64_t T = l->n_prompt + l->n_response;
    *g = (greedy){.lane = l,
                  .left = kvt_arena_array(work, T, sizeof *g->left),
                  .alive = kvt_arena_array(work, T, sizeof *g->alive),
                  .order = kvt_arena_array(work, l->n_prompt, sizeof *g->order),
                  .row = kvt_arena_array(work, T, sizeof *g->row),
                  .drop = drop};
    return g->left && g->alive && g->order && g->row;
}

/* Adds rows [from, to) times sign to what is left. */
static void add_rows(greedy *g, int64_t from, int64_t to, double sign)
{
    const assign_lane *l = g->lane;
    for (int64_t m = from; m < to; m++)
        for (int h = 0; h < l->n_head; h++) {
            int64_t n = l->n_prompt + m + 1;
            half_to_floats(g->row, half_row(l, h, m), n);
            for (int64_t j = 0; j < n; j++)
                g->left[j] += sign * (double)g->row[j];
        }
}

/* At the end of the prompt; returns the largest mass that went. */
static double drop_many(greedy *g, int64_t budget, kvt_arena *work)
{
    int64_t N = g->lane->n_prompt, n = 0;
    double most = 0;
    if (!select_rank_double(g->order, g->left, N, work))
        return -1;
    for (int64_t i = 0; i < N; i++)
        g->drop[g->order[i]] = i < budget ? ASSIGN_NEVER : 0;
    if (budget < N)
        most = g->left[g->order[budget]];
    for (int64_t j = 0; j < N; j++)
        if (g->drop[j])
            g->alive[n++] = (int32_t)j;
    g->n = n;
    return most;
}

/* The smallest one; of equal ones the last. */
static double drop_one(greedy *g, int32_t step)
{
    int64_t at = 0;
    for (int64_t i = 1; i < g->n; i++)
        if (g->left[g->alive[i]] <= g->left[g->alive[at]])
            at = i;
    int32_t j = g->alive[at];
    g->drop[j] = step;
    g->n--;
    memmove(g->alive + at, g->alive + at + 1, (size_t)(g->n - at) * sizeof *g->alive);
    return g->left[j];
}

/* Falling prices from the largest mass that went at each column, [C]. */
static void turn_into_prices(double *went, int64_t n_column)
{
    for (int64_t c = n_column - 2; c >= 0; c--)
        went[c] = went[c] > went[c + 1] ? went[c] : went[c + 1];
    for (int64_t c = 0; c + 1 < n_column; c++)
        went[c] -= went[c + 1];
}

kvt_code assign_greedy(int32_t *drop, double *price, const assign_lane *l, int64_t budget,
                       kvt_arena *work, kvt_err *err)
{
    int64_t N = l->n_prompt, C = assign_columns(l);
    greedy g;
    if (!make_greedy(&g, l, drop, work))
        return kvt_fail_memory(err, (N + l->n_response) * (int64_t)sizeof *g.left);
    add_rows(&g, 0, l->n_response, 1);
    price[0] = drop_many(&g, budget, work);
    if (price[0] < 0)
        return kvt_fail_memory(err, N * (int64_t)sizeof *g.left);
    for (int64_t b = 0; b < C; b++) {
        for (int64_t s = born_before(l, b); s < born_before(l, b + 1); s++) {
            g.alive[g.n++] = (int32_t)(N + s);
            drop[N + s] = ASSIGN_NEVER;
        }
        add_rows(&g, first_row(l, b), first_row(l, b + 1), -1);
        if (b + 1 == C)
            break;
        price[b + 1] = 0;
        while (g.n > budget) {
            double went = drop_one(&g, (int32_t)((b + 1) * l->every - l->drop_first));
            price[b + 1] = went > price[b + 1] ? went : price[b + 1];
        }
    }
    turn_into_prices(price, C);
    return KVT_OK;
}

/* ---- what a schedule collects --------------------------------------------------------------
 */

kvt_code assign_replay(assign_mass *out, const assign_lane *l, const int32_t *drop,
                       kvt_arena *work, kvt_err *err)
{
    int64_t T = l->n_prompt + l->n_response;
    float *row = kvt_arena_array(work, T, sizeof *row);
    *out = (assign_mass){0};
    if (!row)
        return kvt_fail_memory(err, T * (int64_t)sizeof *row);
    for (int64_t m = 0; m < l->n_response; m++)
        for (int h = 0; h < l->n_head; h++) {
            double kept = 0, lost = 0;
            half_to_floats(row, half_row(l, h, m), l->n_prompt + m + 1);
            for (int64_t j = 0; j < l->n_prompt + m + 1; j++)
                *(drop[j] > m ? &kept : &lost) += (double)row[j];
            out->kept += kept;
            out->lost += lost < 1 ? lost : 1;
        }
    return KVT_OK;
}

/* Positions by falling drop step, [T]: those that a row sees come first. */
static bool last_first(int32_t *order, const int32_t *drop, int64_t n, int64_t n_response,
                       kvt_arena *work)
{
    int64_t *count = kvt_arena_array(work, n_response + 3, sizeof *count);
    if (!count)
        return false;
    for (int64_t j = 0; j < n; j++)
        count[(drop[j] > n_response ? 0 : n_response - drop[j] + 1) + 1]++;
    for (int64_t i = 0; i < n_response + 2; i++)
        count[i + 1] += count[i];
    for (int64_t j = 0; j < n; j++)
        order[count[drop[j] > n_response ? 0 : n_response - drop[j] + 1]++] = (int32_t)j;
    return true;
}

/* Halves of a row may add up to a little more than 1. What stays is nearly always more than
 * that after the first token. */
kvt_code assign_excess(double *out, const assign_lane *l, const double *all,
                       const int32_t *drop, kvt_arena *work, kvt_err *err)
{
    int64_t T = l->n_prompt + l->n_response, M = l->n_response;
    int32_t *order = kvt_arena_array(work, T, sizeof *order);
    *out = 0;
    if (!order || !last_first(order, drop, T, M, work))
        return kvt_fail_memory(err, T * (int64_t)sizeof *order);
    for (int h = 0; h < l->n_head; h++)
        for (int64_t m = 0; m < M; m++) {
            double above = all[h * M + m] - 1;
            const uint16_t *row = half_row(l, h, m);
            for (int64_t i = 0; above > 0 && i < T && drop[order[i]] > m; i++)
                if (order[i] <= l->n_prompt + m)
                    above -= (double)half_to_float(row[order[i]]);
            *out += above > 0 ? above : 0;
        }
    return KVT_OK;
}
