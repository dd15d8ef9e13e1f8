/* pieces_geometry.c - what policies of keys, values and moments of queries share
 * (kvt/pieces.h).
 */
#include "kvt/pieces.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TILE = 256 };

double kvt_norm(const float *x, int64_t n)
{
    double sum = 0;
    for (int64_t d = 0; d < n; d++)
        sum += (double)x[d] * (double)x[d];
    return sqrt(sum);
}

double kvt_dot(const float *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t d = 0; d < n; d++)
        sum += (double)a[d] * b[d];
    return sum;
}

bool kvt_pinned_fits(int64_t pinned, const char *what, int64_t budget, int64_t n_token,
                     char *why, size_t cap)
{
    int64_t need = kvt_min(pinned, n_token);
    if (budget >= need)
        return true;
    snprintf(why, cap, "%lld %s need a budget of %lld or more, got %lld", (long long)need, what,
             (long long)need, (long long)budget);
    return false;
}

/* ---- queries to come -----------------------------------------------------------------------
 */

/* The mean of factor exp(i w p) over the next positions, for each rotary pair. */
typedef struct turning {
    double *re, *im; /* [D / 2] */
} turning;

static bool open_turning(turning *t, const kvt_lane *lane, int64_t future)
{
    int64_t D = lane->keys.dim[1];
    double *freq = kvt_arena_array(lane->scratch, D, sizeof *freq);
    t->re = kvt_arena_array(lane->scratch, D, sizeof *t->re);
    t->im = kvt_arena_array(lane->scratch, D, sizeof *t->im);
    if (!freq || !t->re || !t->im)
        return false;
    double factor = kvt_rope_freq(freq, lane->seq->geometry, lane->model_layer);
    for (int64_t f = 0; f < D / 2; f++) {
        for (int64_t p = lane->now + 1; p <= lane->now + future; p++) {
            t->re[f] += cos((double)p * freq[f]);
            t->im[f] += sin((double)p * freq[f]);
        }
        t->re[f] *= factor / (double)future;
        t->im[f] *= factor / (double)future;
    }
    return true;
}

/* x [D], `ld` apart, is turned. */
static void turn(double *x, const turning *t, int64_t D, int64_t ld)
{
    for (int64_t f = 0, half = D / 2; f < half; f++) {
        double a = x[f * ld], b = x[(f + half) * ld];
        x[f * ld] = t->re[f] * a - t->im[f] * b;
        x[(f + half) * ld] = t->im[f] * a + t->re[f] * b;
    }
}

static void take_mean(double *q, const kvt_lane *lane, int64_t head, const turning *t)
{
    const float *mean = kvt_view_at(&lane->query_mean, head).data;
    for (int64_t d = 0; d < lane->keys.dim[1]; d++)
        q[d] = (double)mean[d];
    turn(q, t, lane->keys.dim[1], 1);
}

bool kvt_expected_query(double *q, const kvt_lane *lane, int64_t head, int64_t future)
{
    size_t start = kvt_arena_mark(lane->scratch);
    turning t;
    bool good = open_turning(&t, lane, future);
    if (good)
        take_mean(q, lane, head, &t);
    kvt_arena_rewind(lane->scratch, start);
    return good;
}

/* cov [D D] = scale R C R^T. */
static bool take_cov(float *cov, const kvt_lane *lane, int64_t head, const turning *t,
                     double scale)
{
    int64_t D = lane->keys.dim[1];
    kvt_view from = kvt_view_at(&lane->query_cov, head);
    double *x = kvt_arena_array(lane->scratch, D * D, sizeof *x);
    for (int64_t i = 0; x && i < D; i++) { /* C R^T, row by row */
        for (int64_t d = 0; d < D; d++)
            x[i * D + d] = scale * (double)kvt_row(&from, i)[d];
        turn(x + i * D, t, D, 1);
    }
    for (int64_t i = 0; x && i < D; i++) /* R of that, column by column */
        turn(x + i, t, D, D);
    for (int64_t i = 0; x && i < D * D; i++)
        cov[i] = (float)x[i];
    return x != NULL;
}

/* out [S] += k^T cov k. */
static bool add_spread(double *out, const kvt_lane *lane, const float *cov)
{
    int64_t D = lane->keys.dim[1], n = lane->n_slot;
    float *y = kvt_arena_array(lane->scratch, TILE * D, sizeof *y);
    for (int64_t at = 0; y && at < n; at += TILE) {
        int64_t m = kvt_min(TILE, n - at);
        kvt_affine(y, kvt_row(&lane->keys, at), lane->keys.stride[0], m, D, cov, NULL, D);
        for (int64_t i = 0; i < m; i++)
            for (int64_t d = 0; d < D; d++)
                out[at + i] += (double)kvt_row(&lane->keys, at + i)[d] * (double)y[i * D + d];
    }
    return y != NULL;
}

static void softmax_of_open(double *x, const bool *pinned, int64_t n)
{
    double most = -INFINITY, sum = 0;
    for (int64_t s = 0; s < n; s++)
        most = pinned[s] ? most : fmax(most, x[s]);
    for (int64_t s = 0; s < n; s++)
        sum += x[s] = pinned[s] ? 0 : exp(x[s] - most);
    for (int64_t s = 0; s < n && sum > 0; s++)
        x[s] /= sum;
}

bool kvt_expected_attention(double *out, const kvt_lane *lane, int64_t head, const bool *pinned,
                            int64_t future, bool covariance)
{
    size_t start = kvt_arena_mark(lane->scratch);
    int64_t D = lane->keys.dim[1];
    double c = lane->seq->geometry->attn_scale;
    double *q = kvt_arena_array(lane->scratch, D, sizeof *q);
    float *cov = kvt_arena_array(lane->scratch, D * D, sizeof *cov);
    turning t;
    bool good = q && cov && open_turning(&t, lane, future);
    if (good) {
        take_mean(q, lane, head, &t);
        for (int64_t s = 0; s < lane->n_slot; s++) {
            out[s] = 0;
            for (int64_t d = 0; d < D; d++)
                out[s] += c * q[d] * (double)kvt_row(&lane->keys, s)[d];
        }
    }
    if (good && covariance)
        good = take_cov(cov, lane, head, &t, c * c / 2) && add_spread(out, lane, cov);
    if (good)
        softmax_of_open(out, pinned, lane->n_slot);
    kvt_arena_rewind(lane->scratch, start);
    return good;
}

/* ---- partitions ----------------------------------------------------------------------------
 */

/* Deviation over channels of one row between least and largest. */
static double deviation(const float *x, const float *least, const float *largest, int64_t D)
{
    double mean = 0, square = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t c = 0; c < D; c++) {
            double range = (double)largest[c] - (double)least[c];
            double u = range > 0 ? ((double)x[c] - (double)least[c]) / range : 0;
            if (pass == 0)
                mean += u / (double)D;
            else
                square += (u - mean) * (u - mean);
        }
    return D > 1 ? sqrt(square / (double)(D - 1)) : 0;
}

bool kvt_add_lag(double *out, const kvt_view *v, int64_t at, int64_t n, double weight,
                 kvt_arena *scratch)
{
    size_t start = kvt_arena_mark(scratch);
    int64_t D = v->dim[1];
    float *ends = kvt_arena_array(scratch, 2 * D, sizeof *ends);
    double *raw = kvt_arena_array(scratch, n, sizeof *raw), most = -INFINITY, sum = 0;
    bool good = ends && raw;
    for (int64_t c = 0; good && c < D; c++) {
        ends[c] = ends[D + c] = kvt_row(v, at + n)[c];
        for (int64_t i = 1; i < n; i++) {
            ends[c] = fminf(ends[c], kvt_row(v, at + n + i)[c]);
            ends[D + c] = fmaxf(ends[D + c], kvt_row(v, at + n + i)[c]);
        }
    }
    for (int64_t i = 0; good && i < n; i++) {
        raw[i] = deviation(kvt_row(v, at + i), ends, ends + D, D);
        most = fmax(most, raw[i]);
    }
    for (int64_t i = 0; good && i < n; i++)
        sum += raw[i] = exp(raw[i] - most);
    for (int64_t i = 0; good && i < n; i++)
        out[i] += weight * raw[i] / sum;
    kvt_arena_rewind(scratch, start);
    return good;
}
