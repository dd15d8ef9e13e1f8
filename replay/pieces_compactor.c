/* pieces_compactor.c - leverage of keys, and attention without order (kvt/pieces.h). */
#include <math.h>
#include <string.h>

#include "kvt/pieces.h"

enum { TRIES = 5 };

kvt_view kvt_heads_of(const kvt_view *layer, int64_t first, int64_t count)
{
    kvt_view v = *layer;
    v.data = (const float *)layer->data + first * layer->stride[0];
    v.dim[0] = count;
    return v;
}

void kvt_standardize(double *x, int64_t n)
{
    double mean = 0, square = 0;
    for (int64_t i = 0; i < n; i++)
        mean += x[i] / (double)n;
    for (int64_t i = 0; i < n; i++)
        square += (x[i] - mean) * (x[i] - mean);
    double deviation = fmax(n > 1 ? sqrt(square / (double)(n - 1)) : 0, 1e-6);
    for (int64_t i = 0; i < n; i++)
        x[i] = (x[i] - mean) / deviation;
}

/* ---- leverage ------------------------------------------------------------------------------
 */

/* x [n D] = the keys before RoPE, less their mean. */
static bool centred(double *x, const kvt_view *keys, const kvt_lane *lane, int64_t from,
                    int64_t n)
{
    int64_t D = keys->dim[1];
    double *freq = kvt_arena_array(lane->scratch, D / 2 + 1, sizeof *freq);
    double *mean = kvt_arena_array(lane->scratch, D, sizeof *mean);
    float *key = kvt_arena_array(lane->scratch, D, sizeof *key);
    if (!freq || !mean || !key)
        return false;
    double factor = kvt_rope_freq(freq, lane->seq->geometry, lane->model_layer);
    for (int64_t i = 0; i < n; i++) {
        kvt_unrotate(key, kvt_row(keys, from + i), freq, D, lane->pos[from + i], factor);
        for (int64_t d = 0; d < D; d++) {
            x[i * D + d] = (double)key[d];
            mean[d] += x[i * D + d] / (double)n;
        }
    }
    for (int64_t i = 0; i < n * D; i++)
        x[i] -= mean[i % D];
    return true;
}

/* x [n D] becomes x sketch [n k]. */
static bool squeeze(double *x, int64_t n, int64_t D, int64_t k, const kvt_lane *lane)
{
    double *sketch = kvt_arena_array(lane->scratch, D * k, sizeof *sketch);
    double *row = kvt_arena_array(lane->scratch, k, sizeof *row);
    if (!sketch || !row)
        return false;
    kvt_random_normal(sketch, D * k, lane->rng);
    for (int64_t i = 0; i < n; i++) {
        memset(row, 0, (size_t)k * sizeof *row);
        for (int64_t d = 0; d < D; d++)
            for (int64_t c = 0; c < k; c++)
                row[c] += x[i * D + d] * sketch[d * k + c];
        for (int64_t c = 0; c < k; c++) /* in place: k < D, so row i + 1 is not touched yet */
            x[i * k + c] = row[c] / sqrt((double)k);
    }
    return true;
}

/* factor [k k] of x^T x + ridge I; gram [k k] holds x^T x. */
static bool factored(double *factor, const double *gram, int64_t k)
{
    double ridge = 0.01;
    for (int t = 0; t < TRIES; t++, ridge *= 10) {
        memcpy(factor, gram, (size_t)(k * k) * sizeof *factor);
        for (int64_t c = 0; c < k; c++)
            factor[c * k + c] += ridge;
        if (kvt_cholesky(factor, k))
            return true;
    }
    return false;
}

static bool leverage(double *out, const kvt_view *keys, const kvt_lane *lane, int64_t from,
                     int64_t n, int64_t sketch)
{
    int64_t D = keys->dim[1], k = sketch > 0 && sketch < D ? sketch : D;
    double *x = kvt_arena_array(lane->scratch, n * D, sizeof *x);
    double *gram = kvt_arena_array(lane->scratch, D * D, sizeof *gram);
    double *factor = kvt_arena_array(lane->scratch, D * D, sizeof *factor);
    if (!x || !gram || !factor || !centred(x, keys, lane, from, n) ||
        (k < D && !squeeze(x, n, D, k, lane)))
        return false;
    for (int64_t i = 0; i < n; i++)
        for (int64_t a = 0; a < k; a++)
            for (int64_t b = 0; b <= a; b++)
                gram[a * k + b] += x[i * k + a] * x[i * k + b];
    bool good = factored(factor, gram, k);
    for (int64_t i = 0; i < n; i++) /* a square: never below 0 */
        out[i] = good ? kvt_cholesky_form(factor, x + i * k, k) : 0;
    return true;
}

bool kvt_leverage(double *out, const kvt_view *keys, const kvt_lane *lane, int64_t from,
                  int64_t n, int64_t sketch)
{
    size_t start = kvt_arena_mark(lane->scratch);
    bool good = n < 1 || leverage(out, keys, lane, from, n, sketch);
    kvt_arena_rewind(lane->scratch, start);
    return good;
}

/* ---- attention without order ----------------------------------------------------------------
 */

/* Room of one chunk. */
typedef struct chunk_work {
    float *query, *key, *row; /* [C D], [C D], [C C] */
    double *sum;              /* [C] */
} chunk_work;

/* The queries of slots at..at + n - 1 that are there, to w->query; returns how many. */
static int64_t take_queries(const chunk_work *w, const kvt_view *queries, int64_t head,
                            const kvt_lane *lane, int64_t at, int64_t n)
{
    int64_t Q = queries->dim[1], D = queries->dim[2], count = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t q = lane->pos[at + i] - (lane->now + 1 - Q);
        if (q >= 0 && q < Q)
            memcpy(w->query + count++ * D,
                   (const float *)queries->data + head * queries->stride[0] +
                       q * queries->stride[1],
                   (size_t)D * sizeof *w->query);
    }
    return count;
}

/* w->sum [n] of the slots at..at + n - 1, of which `room` keys are looked at. */
static void attend(const chunk_work *w, const kvt_view *queries, const kvt_view *keys,
                   const kvt_lane *lane, int64_t at, int64_t n, int64_t room)
{
    int64_t D = keys->dim[1];
    memset(w->key, 0, (size_t)(room * D) * sizeof *w->key);
    for (int64_t i = 0; i < n; i++)
        memcpy(w->key + i * D, kvt_row(keys, at + i), (size_t)D * sizeof *w->key);
    memset(w->sum, 0, (size_t)n * sizeof *w->sum);
    for (int64_t h = 0; h < queries->dim[0]; h++) {
        int64_t count = take_queries(w, queries, h, lane, at, n);
        kvt_softmax_rows(w->row, w->query, D, count, w->key, room, D, 1, NULL);
        for (int64_t q = 0; q < count; q++)
            for (int64_t j = 0; j < n; j++)
                w->sum[j] += (double)w->row[q * room + j];
        for (int64_t j = 0; j < n; j++) /* queries of zeros look at all alike */
            w->sum[j] += (double)(room - n) / (double)room;
    }
}

static void pool(double *out, const double *in, int64_t n)
{
    for (int64_t j = 0; j < n; j++)
        out[j] = ((j > 0 ? in[j - 1] : 0) + in[j] + (j + 1 < n ? in[j + 1] : 0)) / 3;
}

bool kvt_chunk_attention(double *out, const kvt_view *queries, const kvt_view *keys,
                         const kvt_view *values, const kvt_lane *lane, int64_t from, int64_t n,
                         int64_t chunk, bool padded)
{
    kvt_arena *a = lane->scratch;
    int64_t D = keys->dim[1], C = padded ? chunk : kvt_max(kvt_min(chunk, n), 1);
    size_t start = kvt_arena_mark(a);
    double *raw = kvt_arena_array(a, n + 1, sizeof *raw);
    chunk_work w = {.query = kvt_arena_array(a, C * D, sizeof *w.query),
                    .key = kvt_arena_array(a, C * D, sizeof *w.key),
                    .row = kvt_arena_array(a, C * C, sizeof *w.row),
                    .sum = kvt_arena_array(a, C, sizeof *w.sum)};
    bool good = raw && w.query && w.key && w.row && w.sum;
    for (int64_t at = 0; good && at < n; at += chunk) {
        int64_t m = kvt_min(chunk, n - at);
        attend(&w, queries, keys, lane, from + at, m, padded ? chunk : m);
        for (int64_t j = 0; j < m; j++)
            raw[at + j] = w.sum[j] / (double)queries->dim[0] *
                          kvt_norm(kvt_row(values, from + at + j), values->dim[1]);
    }
    if (good)
        pool(out, raw, n);
    kvt_arena_rewind(a, start);
    return good;
}
