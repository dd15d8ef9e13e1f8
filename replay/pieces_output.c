/* pieces_output.c - which slots the attention output misses least: greedy elimination. */
#include "kvt/pieces.h"

#include <math.h>
#include <string.h>

static const double renew = 1e-3; /* of what is left: differences have lost so many digits */

/* R rows of all heads over S slots of D channels. */
typedef struct state {
    int64_t n_row, n_slot, n_dim;
    const float *v; /* [S D] */
    int64_t v_step;
    double *p;         /* [R S] weights of the slots that are left */
    double *dot;       /* [R S] v_s * sum over what is left of p v */
    double *dot_full;  /* [R S] v_s * that output */
    double *sum;       /* [R D] sum over what is left of p v */
    double *full;      /* [R D] the output at the start */
    double *fresh;     /* [R] left when the sums were last added up */
    double *left;      /* [R] weight that is left, the response's own included */
    double *own;       /* [R] that of the response's own tokens */
    double *g2;        /* [R] what the row counts */
    const float *rest; /* [R D] what those add to the output, or NULL */
    double *size;      /* [S] |v|^2 */
    double *cross;     /* [S] v_s v_j of the slot j that goes */
    double *cost;      /* [S] */
    bool *gone;        /* [S] */
} state;

static double dot_of(const float *a, const float *b, int64_t n)
{
    double sum = 0;
    for (int64_t d = 0; d < n; d++)
        sum += (double)a[d] * (double)b[d];
    return sum;
}

static bool make(state *t, const kvt_lane *lane)
{
    const kvt_view *A = &lane->future, *V = &lane->values;
    kvt_arena *a = lane->scratch;
    int64_t R = A->dim[0] * A->dim[1], S = lane->n_slot, D = V->dim[1];
    *t = (state){.n_row = R,
                 .n_slot = S,
                 .n_dim = D,
                 .v = V->data,
                 .v_step = V->stride[0],
                 .rest = lane->future_rest.data, /* contiguous, as future's rows are */
                 .own = kvt_arena_array(a, R, sizeof *t->own),
                 .p = kvt_arena_array(a, R * S, sizeof *t->p),
                 .dot = kvt_arena_array(a, R * S, sizeof *t->dot),
                 .dot_full = kvt_arena_array(a, R * S, sizeof *t->dot_full),
                 .sum = kvt_arena_array(a, R * D, sizeof *t->sum),
                 .full = kvt_arena_array(a, R * D, sizeof *t->full),
                 .left = kvt_arena_array(a, R, sizeof *t->left),
                 .g2 = kvt_arena_array(a, R, sizeof *t->g2),
                 .fresh = kvt_arena_array(a, R, sizeof *t->fresh),
                 .size = kvt_arena_array(a, S, sizeof *t->size),
                 .cross = kvt_arena_array(a, S, sizeof *t->cross),
                 .cost = kvt_arena_array(a, S, sizeof *t->cost),
                 .gone = kvt_arena_array(a, S, sizeof *t->gone)};
    return t->p && t->dot && t->dot_full && t->sum && t->full && t->left && t->g2 && t->own &&
           t->fresh && t->size && t->cross && t->cost && t->gone;
}

/* Sums over what is left, from its weights. */
static void add_up(state *t, int64_t r)
{
    int64_t S = t->n_slot, D = t->n_dim;
    double *sum = t->sum + r * D, left = t->own[r];
    for (int64_t d = 0; d < D; d++)
        sum[d] = t->rest ? (double)t->rest[r * D + d] : 0;
    for (int64_t s = 0; s < S; s++) {
        double p = t->p[r * S + s];
        left += p;
        for (int64_t d = 0; p > 0 && d < D; d++)
            sum[d] += p * (double)t->v[s * t->v_step + d];
    }
    for (int64_t s = 0; s < S; s++) {
        double x = 0;
        for (int64_t d = 0; !t->gone[s] && d < D; d++)
            x += sum[d] * (double)t->v[s * t->v_step + d];
        t->dot[r * S + s] = x;
    }
    t->left[r] = t->fresh[r] = left;
}

/* A row over the prompt; one that gives it nothing is left out (g = 0). */
static void open_row(state *t, int64_t r, const float *row)
{
    int64_t S = t->n_slot, D = t->n_dim;
    double g = 0;
    for (int64_t s = 0; s < S; s++)
        g += (double)row[s];
    t->own[r] = t->rest && g < 1 ? 1 - g : 0;
    t->g2[r] = t->rest && g > 0 ? 1 : g * g;
    for (int64_t s = 0; s < S; s++)
        t->p[r * S + s] = (double)row[s];
    add_up(t, r);
    for (int64_t d = 0; g > 0 && d < D; d++)
        t->full[r * D + d] = t->sum[r * D + d] / t->left[r];
    for (int64_t s = 0; g > 0 && s < S; s++)
        t->dot_full[r * S + s] = t->dot[r * S + s] / t->left[r];
}

static void open_rows(state *t, const kvt_view *A)
{
    for (int64_t h = 0; h < A->dim[0]; h++)
        for (int64_t m = 0; m < A->dim[1]; m++)
            open_row(t, h * A->dim[1] + m, kvt_head_row(A, h, m));
    for (int64_t s = 0; s < t->n_slot; s++)
        t->size[s] = dot_of(t->v + s * t->v_step, t->v + s * t->v_step, t->n_dim);
}

/* Adds what a row says to the cost of each slot. */
static void add_cost(state *t, int64_t r)
{
    const double *sum = t->sum + r * t->n_dim, *full = t->full + r * t->n_dim;
    const double *p = t->p + r * t->n_slot, *dot = t->dot + r * t->n_slot;
    const double *dot_full = t->dot_full + r * t->n_slot;
    double left = t->left[r], g2 = t->g2[r], ee = 0, eo = 0, oo = 0;
    if (!(g2 > 0 && left > 0))
        return;
    for (int64_t d = 0; d < t->n_dim; d++) {
        double o = sum[d] / left, e = o - full[d];
        ee += e * e, eo += e * o, oo += o * o;
    }
    for (int64_t s = 0; s < t->n_slot; s++) {
        double rest = left - p[s], a = rest > 0 ? p[s] / rest : 0, ov = dot[s] / left;
        double x = ee + 2 * a * (eo - (ov - dot_full[s])) + a * a * (oo - 2 * ov + t->size[s]);
        t->cost[s] += rest > 0 ? g2 * x : (double)INFINITY;
    }
}

static void take_out(state *t, int64_t j)
{
    int64_t S = t->n_slot, D = t->n_dim;
    const float *v = t->v + j * t->v_step;
    t->gone[j] = true;
    for (int64_t s = 0; s < S; s++)
        t->cross[s] = t->gone[s] ? 0 : dot_of(t->v + s * t->v_step, v, D);
    for (int64_t r = 0; r < t->n_row; r++) {
        double p = t->p[r * S + j], *dot = t->dot + r * S, *sum = t->sum + r * D;
        if (!(p > 0))
            continue;
        t->left[r] -= p;
        t->p[r * S + j] = 0;
        for (int64_t d = 0; d < D; d++)
            sum[d] -= p * (double)v[d];
        for (int64_t s = 0; s < S; s++)
            dot[s] -= p * t->cross[s];
        if (t->left[r] < renew * t->fresh[r])
            add_up(t, r);
    }
}

/* The slot of the least cost; of equal ones the last. */
static int64_t cheapest(const state *t)
{
    int64_t at = -1;
    for (int64_t s = 0; s < t->n_slot; s++)
        if (!t->gone[s] && (at < 0 || t->cost[s] <= t->cost[at]))
            at = s;
    return at;
}

bool kvt_eliminate(float *turn, const kvt_lane *lane, int64_t batch)
{
    int64_t S = lane->n_slot, n = 0;
    state t;
    if (!make(&t, lane))
        return false;
    open_rows(&t, &lane->future);
    while (n < S) {
        memset(t.cost, 0, (size_t)S * sizeof *t.cost);
        for (int64_t r = 0; r < t.n_row; r++)
            add_cost(&t, r);
        for (int64_t i = 0; i < batch && n < S; i++) {
            int64_t j = cheapest(&t);
            turn[j] = (float)n++;
            take_out(&t, j);
        }
    }
    return true;
}
