/* oracle-output - keep the slots without which the attention output changes most.
 *
 * Greedy backward elimination, by the identity of one key less: with p the row's weights over
 * what is left and o its output, the mean of the values v by p,
 *
 *   o' - o = p_j / (1 - p_j) (o - v_j)
 *
 * where j goes. So with e = o - o_full, what all earlier removals did to the row,
 *
 *   cost[j] = sum over the query heads H and response queries m of |e + a (o - v_j)|^2,
 *             a = p_j / (1 - p_j)
 *
 * and the slot of the least cost goes, o and p are updated, and so on until one is left. The
 * score is the turn in which a slot went: one elimination is a ranking for all budgets. The
 * response's own tokens stay, with their part of each output. Where that is not known
 * (kvt_lane.future_rest) rows are those of the prompt alone, weighed by the square of the
 * attention that they give it. The objective is per query head, before W_O.
 *
 * The subset problem is hard, and this is greedy: exhaustive search of small cases says how
 * often it is optimal (tests). In turns of `batch` slots: o and p are updated between turns
 * only. It knows the response. Products v_j o are kept for all rows, so that a removal costs
 * O((H M + D) S), all of them O((H M + D) S^2), and a turn O(H M (S + D)); memory O(H M S). */
#include "kvt/pieces.h"

#include <math.h>
#include <string.h>

typedef struct oracle_output {
    int64_t batch;
} oracle_output;

enum { ONE_BY_ONE = 256, TURNS = 96 };
static const double renew = 1e-3; /* of what is left: differences have lost so many digits */

static const kvt_param params[] = {
    KVT_PARAM(oracle_output, batch, 0, 0, 1048576, "tokens",
              "slots that go in a turn; 0: one by one up to 256 of them, else 96 turns"),
    {0},
};

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
            open_row(t, h * A->dim[1] + m,
                     (const float *)A->data + h * A->stride[0] + m * A->stride[1]);
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

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const oracle_output *p = params_;
    int64_t S = lane->n_slot, batch = p->batch, turn = 0;
    state t;
    (void)pinned;
    if (!make(&t, lane)) {
        for (int64_t s = 0; s < S; s++)
            out[s] = NAN; /* refused: no memory */
        return;
    }
    if (batch == 0)
        batch = S <= ONE_BY_ONE ? 1 : (S + TURNS - 1) / TURNS;
    open_rows(&t, &lane->future);
    while (turn < S) {
        memset(t.cost, 0, (size_t)S * sizeof *t.cost);
        for (int64_t r = 0; r < t.n_row; r++)
            add_cost(&t, r);
        for (int64_t i = 0; i < batch && turn < S; i++) {
            int64_t j = cheapest(&t);
            out[j] = (float)turn++;
            take_out(&t, j);
        }
    }
}

const kvt_policy kvt_policy_oracle_output = {
    .abi = KVT_POLICY_ABI,
    .name = "oracle-output",
    .title = "drop the slots whose absence changes the output least, one after the other",
    .paper = "bound by greedy search, no paper",
    .about =
        "Slots go one after the other: always the one whose absence changes the attention "
        "output of the response's rows least, beside what all removals before it changed. "
        "Mass that is evicted does no harm where its mean value is that of what stays, so "
        "that this set may lose more mass than the oracle and less output. One elimination "
        "order serves all budgets.\n\n"
        "The exact best subset is hard to find; this is the standard greedy search. The "
        "error is squared, summed over rows and query heads, before the output projection.",
    .differs = "above 256 slots they go in 96 turns (batch)",
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_FUTURE | KVT_NEED_ATTN | KVT_NEED_VALUES,
               .exactness = KVT_EXACT,
               .one_ranking = true,
               .control = true},
    .params_size = sizeof(oracle_output),
    .params = params,
    .score = score,
};
