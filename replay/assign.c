/* assign.c - the best schedule of irreversible eviction: the problem of a lane, and what is
 * read from its solution. assign_search.c solves it.
 *
 * A key that stays from its birth until column t collects V_j(t). Columns are drop times: 0,
 * the end of the prompt, takes N - B keys; 1 .. C - 1 take K each; C takes the rest: never
 * dropped, or dropped behind the last row, which costs nothing. Dropping less often never
 * gains, since mass is not negative. So the best schedule is the best assignment of keys to
 * columns, each no earlier than its birth.
 *
 * Periods: the rows between two drop times are one block, whose masses are added; the K keys
 * that are born in it are all there until its end, and what they collect in it is collected by
 * every schedule. drop_first: the row of a token attends behind the drop, so that rows move by
 * one against births; in front of them stands a row that looks at nothing.
 *
 * At B = 0 there is one schedule: prompt keys go at the end of the prompt, each other key at
 * the end of the block of its birth. Cost: O(H N M) to read, O(N C + M C) memory. */
#include "replay/assign_priv.h"

#include <math.h>
#include <string.h>

#include "base/half.h"

/* ---- extents -------------------------------------------------------------------------------
 */

int64_t assign_columns(const assign_lane *l)
{
    return (l->n_response + l->drop_first + l->every - 1) / l->every;
}

static int count_lists(int64_t n_column)
{
    int n = 1;
    while ((INT64_C(1) << (n - 1)) < n_column)
        n++;
    return n;
}

int64_t assign_bytes(const assign_lane *l)
{
    int64_t N = l->n_prompt, C = assign_columns(l), slots = (C - 1) * l->every;
    int64_t each = 256; /* alignment and red zones of an array, of which there are 32 */
    return N * C * 8 + slots * (C + 1) * 8 + slots * (8 + 4 + 8) + (C + 1) * 80 +
           (N + l->n_response) * 8 + N + count_lists(C) * (N * 16 + (int64_t)sizeof(key_list)) +
           32 * each + (int64_t)sizeof(assign);
}

/* ---- memory --------------------------------------------------------------------------------
 */

static bool make_search(path_search *s, int64_t n_column, int64_t n_slot, kvt_arena *work)
{
    double **line[] = {&s->by_path, &s->by_key, &s->open, &s->label, &s->key};
    bool ok = true;
    for (size_t i = 0; i < sizeof line / sizeof line[0]; i++)
        ok = ok && (*line[i] = kvt_arena_array(work, n_column + 1, sizeof(double))) != NULL;
    s->base = kvt_arena_array(work, n_slot + 1, sizeof *s->base);
    s->settled = kvt_arena_array(work, n_column + 1, sizeof *s->settled);
    return ok && s->base && s->settled;
}

static bool make_lists(assign *a, kvt_arena *work)
{
    int64_t N = a->lane.n_prompt, C = a->n_column;
    a->n_list = count_lists(C);
    a->list = kvt_arena_array(work, a->n_list, sizeof *a->list);
    for (int i = 0; a->list && i < a->n_list; i++) {
        int64_t anchor = INT64_C(1) << i < C ? INT64_C(1) << i : C;
        a->list[i].mass = a->prompt + (anchor - 1) * N;
        a->list[i].key = kvt_arena_array(work, N, sizeof *a->list[i].key);
        if (!a->list[i].key)
            return false;
    }
    return a->list != NULL;
}

static assign *make(const assign_lane *l, kvt_arena *work)
{
    int64_t N = l->n_prompt, T = N + l->n_response, C = assign_columns(l);
    assign *a = kvt_arena_array(work, 1, sizeof *a);
    if (!a)
        return NULL;
    *a = (assign){.lane = *l, .n_column = C, .n_slot = (C - 1) * l->every, .first = 1};
    a->prompt = kvt_arena_array(work, N * C, sizeof *a->prompt);
    a->late = kvt_arena_array(work, a->n_slot * (C + 1) + 1, sizeof *a->late);
    a->held = kvt_arena_array(work, a->n_slot + 1, sizeof *a->held);
    a->who = kvt_arena_array(work, a->n_slot + 1, sizeof *a->who);
    a->n_held = kvt_arena_array(work, C + 1, sizeof *a->n_held);
    a->stays = kvt_arena_array(work, T, sizeof *a->stays);
    a->left = kvt_arena_array(work, N, sizeof *a->left);
    a->potential = kvt_arena_array(work, C + 1, sizeof *a->potential);
    a->best = kvt_arena_array(work, C + 1, sizeof *a->best);
    a->best_key = kvt_arena_array(work, C + 1, sizeof *a->best_key);
    bool ok = a->prompt && a->late && a->held && a->who && a->n_held && a->stays && a->left &&
              a->potential && a->best && a->best_key;
    return ok && make_lists(a, work) && make_search(&a->search, C, a->n_slot, work) ? a : NULL;
}

/* ---- reading -------------------------------------------------------------------------------
 */

/* The block, from 0, whose masses response row m belongs to; keys are born in block s / K. */
static int64_t block_of(const assign_lane *l, int64_t m)
{
    return (m + l->drop_first) / l->every;
}

static void read_row(const assign_lane *l, float *out, int h, int64_t m)
{
    half_to_floats(out,
                   l->rows.data + (l->head + h) * l->rows.head_stride + m * l->rows.row_stride,
                   l->n_prompt + m + 1);
}

static bool is_mass(const float *x, int64_t n)
{
    int bad = 0;
    for (int64_t i = 0; i < n; i++)
        bad |= !(x[i] >= 0 && x[i] < INFINITY);
    return !bad;
}

static void add_row(assign *a, const float *row, int64_t m)
{
    const assign_lane *l = &a->lane;
    int64_t N = l->n_prompt, C = a->n_column, block = block_of(l, m);
    double *prompt = a->prompt + block * N;
    for (int64_t j = 0; j < N; j++)
        prompt[j] += (double)row[j];
    for (int64_t s = 0; s <= m; s++) {
        double x = (double)row[N + s];
        if (s / l->every == block)
            a->kept += x;
        else
            a->late[s * (C + 1) + block + 1] += x;
    }
}

static kvt_code read_lane(assign *a, kvt_arena *work, kvt_err *err)
{
    const assign_lane *l = &a->lane;
    float *row = kvt_arena_array(work, l->n_prompt + l->n_response, sizeof *row);
    if (!row)
        return kvt_fail_memory(err, (l->n_prompt + l->n_response) * (int64_t)sizeof *row);
    for (int64_t m = 0; m < l->n_response; m++)
        for (int h = 0; h < l->n_head; h++) {
            read_row(l, row, h, m);
            if (!is_mass(row, l->n_prompt + m + 1))
                return kvt_fail(err, KVT_FORMAT,
                                "attention of response row %lld, query head %d: expected "
                                "finite numbers of 0 or more",
                                (long long)m, l->head + h);
            add_row(a, row, m);
        }
    return KVT_OK;
}

/* ---- the schedule of budget 0 --------------------------------------------------------------
 */

/* Sums from birth; keys of the middle columns at home. */
static void settle_homes(assign *a)
{
    int64_t N = a->lane.n_prompt, C = a->n_column, K = a->lane.every;
    for (int64_t t = 1; t < C; t++)
        for (int64_t j = 0; j < N; j++)
            a->prompt[t * N + j] += a->prompt[(t - 1) * N + j];
    for (int64_t s = 0; s < a->n_slot; s++) {
        double *v = a->held[s] = a->late + s * (C + 1);
        int64_t home = s / K + 1;
        a->who[s] = (int32_t)(N + s);
        a->n_held[home]++;
        for (int64_t t = 0; t < home; t++)
            v[t] = -INFINITY;
        for (int64_t t = home + 1; t <= C; t++)
            v[t] += v[t - 1];
    }
    for (int64_t s = a->n_slot; s < a->lane.n_response; s++) /* born in the last block */
        a->stays[a->n_stays++] = (int32_t)(N + s);
}

/* At B = 0 keys only move on to later columns: the potential is the longest way to the end. */
static void first_potential(assign *a)
{
    int64_t C = a->n_column, K = a->lane.every;
    for (int64_t c = C - 1; c >= 1; c--) {
        double most = 0;
        for (int64_t s = (c - 1) * K; s < c * K; s++)
            for (int64_t t = c + 1; t <= C; t++)
                if (a->held[s][t] + a->potential[t] > most)
                    most = a->held[s][t] + a->potential[t];
        a->potential[c] = most;
    }
}

kvt_code assign_new(assign **out, const assign_lane *l, kvt_arena *work, kvt_err *err)
{
    assign *a = make(l, work);
    *out = a;
    if (!a)
        return kvt_fail_memory(err, assign_bytes(l));
    if (read_lane(a, work, err))
        return err->code;
    settle_homes(a);
    first_potential(a);
    key_list *last = &a->list[a->n_list - 1];
    int64_t first = list_at(last, 0, l->n_prompt);
    double most = last->mass[first];
    a->most = most + (a->n_column > 1 ? a->potential[1] : 0);
    for (int64_t c = 1; c < a->n_column; c++)
        a->best[c] = most, a->best_key[c] = -1;
    return KVT_OK;
}

/* ---- the solution --------------------------------------------------------------------------
 */

bool assign_to(assign *a, int64_t budget)
{
    if (budget < a->budget)
        return false;
    int64_t useful = a->lane.n_prompt + a->n_slot;
    while (a->budget < budget && a->budget < useful) {
        assign_grow(a);
        a->kept += a->gain;
        a->budget++;
    }
    a->budget = budget;
    return true;
}

double assign_kept(const assign *a)
{
    return a->kept;
}

static int32_t step_of(const assign_lane *l, int64_t column)
{
    return (int32_t)(column * l->every - l->drop_first);
}

void assign_drop_steps(const assign *a, int32_t *drop)
{
    int64_t K = a->lane.every;
    memset(drop, 0, (size_t)a->lane.n_prompt * sizeof *drop);
    for (int64_t c = 1; c < a->n_column; c++)
        for (int64_t i = 0; i < a->n_held[c]; i++)
            drop[a->who[(c - 1) * K + i]] = step_of(&a->lane, c);
    for (int64_t i = 0; i < a->n_stays; i++)
        drop[a->stays[i]] = ASSIGN_NEVER;
}

/* The fall of the potential from one drop time to the next. Columns that drop nothing any more
 * are as good as the first that does. */
void assign_prices(const assign *a, double *price)
{
    int64_t C = a->n_column, lo = a->first;
    double open = lo < C ? a->potential[lo] : 0, start = open;
    if (a->budget == 0)
        start = a->most;
    else if (a->budget < a->lane.n_prompt)
        start = a->gain;
    for (int64_t c = 0; c < C; c++) {
        double here = c == 0 ? start : c < lo ? open : a->potential[c];
        double next = c + 1 < lo ? open : a->potential[c + 1];
        price[c] = here > next ? here - next : 0;
    }
}
