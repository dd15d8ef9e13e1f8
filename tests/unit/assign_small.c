#include "assign_small.h"

#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "tests/toy.h"

double small_number(uint64_t *state)
{
    *state += 1;
    return (double)(toy_mix(*state) >> 11) * 0x1p-53;
}

static double draw(uint64_t *state, small_kind kind, int64_t m)
{
    double x = small_number(state);
    switch (kind) {
    case SMALL_TIES: return (double)(int)(4 * x) / 4;
    case SMALL_ZEROS: return x < 0.7 ? 0 : x;
    case SMALL_ALIKE: return 1.0 / (double)(1 + m);
    default: return x * x * x;
    }
}

void small_draw(small *s, uint64_t *state, small_kind kind, int64_t n_prompt,
                int64_t n_response, int n_head)
{
    int64_t T = n_prompt + n_response;
    memset(s, 0, sizeof *s);
    s->lane = (assign_lane){.rows = {.data = s->half,
                                     .n_head = n_head,
                                     .n_query = n_response,
                                     .n_token = T,
                                     .head_stride = n_response * T,
                                     .row_stride = T},
                            .n_head = n_head,
                            .n_prompt = n_prompt,
                            .n_response = n_response,
                            .every = 1};
    for (int h = 0; h < n_head; h++)
        for (int64_t m = 0; m < n_response; m++) {
            double x[SMALL_TOKENS], sum = 0;
            for (int64_t j = 0; j <= n_prompt + m; j++)
                sum += x[j] = draw(state, kind, m);
            for (int64_t j = 0; j <= n_prompt + m; j++)
                s->half[(h * n_response + m) * T + j] =
                    half_from_float((float)(kind == SMALL_ROWS ? x[j] / sum : x[j]));
        }
}

double small_at(const small *s, int64_t m, int64_t j)
{
    double sum = 0;
    for (int h = 0; h < s->lane.n_head; h++)
        sum += (double)half_to_float(
            s->half[h * s->lane.rows.head_stride + m * s->lane.rows.row_stride + j]);
    return sum;
}

/* ---- all schedules -------------------------------------------------------------------------
 */

typedef struct attempt {
    const small *s;
    int64_t budget;
    double *known; /* [M + 1, 2^T] what is still to be had before token m, -1: not known */
} attempt;

static double from_token(attempt *t, int64_t m, unsigned alive);

/* The best of all ways to drop to the budget, then row m (late) or token m + 1. */
static double drop(attempt *t, int64_t m, unsigned alive, bool row_follows);

static double row_of(attempt *t, int64_t m, unsigned alive)
{
    double sum = 0;
    for (int64_t j = 0; j <= t->s->lane.n_prompt + m; j++)
        if (alive >> j & 1)
            sum += small_at(t->s, m, j);
    return sum;
}

static double after_drop(attempt *t, int64_t m, unsigned alive, bool row_follows)
{
    return (row_follows ? row_of(t, m, alive) : 0) + from_token(t, m + 1, alive);
}

static double drop(attempt *t, int64_t m, unsigned alive, bool row_follows)
{
    double best = -1;
    if (__builtin_popcount(alive) <= t->budget)
        return after_drop(t, m, alive, row_follows);
    for (unsigned part = alive;; part = (part - 1) & alive) {
        if (__builtin_popcount(part) == t->budget) {
            double x = after_drop(t, m, part, row_follows);
            best = x > best ? x : best;
        }
        if (part == 0)
            return best;
    }
}

static double from_token(attempt *t, int64_t m, unsigned alive)
{
    const assign_lane *l = &t->s->lane;
    if (m >= l->n_response)
        return 0;
    double *known = &t->known[(m << SMALL_TOKENS) + alive];
    if (*known >= 0)
        return *known;
    bool due = (m + 1) % l->every == 0;
    unsigned now = alive | 1U << (l->n_prompt + m);
    double x;
    if (due && l->drop_first)
        x = drop(t, m, now, true);
    else if (due)
        x = row_of(t, m, now) + drop(t, m, now, false);
    else
        x = after_drop(t, m, now, true);
    return *known = x;
}

double small_best(const small *s, int64_t budget)
{
    size_t n = (size_t)(s->lane.n_response + 1) << SMALL_TOKENS;
    attempt t = {.s = s, .budget = budget, .known = malloc(n * sizeof(double))};
    if (!t.known)
        abort();
    for (size_t i = 0; i < n; i++)
        t.known[i] = -1;
    double best = drop(&t, -1, (1U << s->lane.n_prompt) - 1, false);
    free(t.known);
    return best;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

double small_step_bound(const small *s, int64_t budget)
{
    double sum = 0, x[SMALL_TOKENS];
    for (int64_t m = 0; m < s->lane.n_response; m++) {
        int64_t n = s->lane.n_prompt + m + 1;
        for (int64_t j = 0; j < n; j++)
            x[j] = small_at(s, m, j);
        qsort(x, (size_t)n, sizeof *x, by_size);
        for (int64_t j = 0; j < n && j < budget + s->lane.every; j++)
            sum += x[j];
    }
    return sum;
}
