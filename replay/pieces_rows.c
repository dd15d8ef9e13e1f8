/* pieces_rows.c - rows of queries over keys, and small linear maps: what probes and learned
 * scorers compute for themselves.
 *
 * A value is one dot product of the compute library (gemv: its bits depend on its own row and
 * vector only), so that neither the number of rows in a call nor of threads changes any. */
#include "kvt/pieces.h"

#include <math.h>
#include <string.h>

#include "compute/backend.h"

void kvt_softmax_rows(float *out, const float *query, int64_t ld, int64_t n_query,
                      const float *key, int64_t n_key, int64_t n_dim, float scale,
                      const int64_t *n_see)
{
    for (int64_t q = 0; q < n_query; q++, out += n_key, query += ld) {
        int64_t n = n_see ? kvt_max(kvt_min(n_see[q], n_key), 0) : n_key;
        cpu_gemv(out, key, query, n, n_dim);
        for (int64_t s = 0; s < n; s++)
            out[s] *= scale;
        cpu_softmax(out, n_key, 0, n);
    }
}

/* The view's rows one behind the other: itself, or a copy; NULL: no room. */
static const float *dense_rows(const kvt_view *v, kvt_arena *scratch)
{
    int64_t n = v->dim[0], n_dim = v->dim[1];
    const float *from = v->data;
    if (v->stride[0] == n_dim)
        return from;
    float *copy = kvt_arena_array(scratch, n * n_dim, sizeof *copy);
    for (int64_t s = 0; copy && s < n; s++)
        memcpy(copy + s * n_dim, from + s * v->stride[0], (size_t)n_dim * sizeof *copy);
    return copy;
}

bool kvt_softmax_heads(float *out, const kvt_view *queries, const kvt_view *keys, float scale,
                       const int64_t *first, const int64_t *end, kvt_arena *scratch)
{
    int64_t n_query = queries->dim[1], n = keys->dim[0], n_dim = keys->dim[1];
    size_t start = kvt_arena_mark(scratch);
    const float *key = dense_rows(keys, scratch), *query = queries->data;
    for (int64_t i = 0; key && i < queries->dim[0] * n_query; i++, out += n) {
        int64_t h = i / n_query, q = i % n_query;
        int64_t from = kvt_min(first[q], n), n_see = kvt_max(kvt_min(end[q], n) - from, 0);
        memset(out, 0, (size_t)n * sizeof *out);
        kvt_softmax_rows(out + from, query + h * queries->stride[0] + q * queries->stride[1], 0,
                         1, key + from * n_dim, n_see, n_dim, scale, NULL);
    }
    kvt_arena_rewind(scratch, start);
    return key != NULL;
}

void kvt_affine(float *out, const float *x, int64_t ld, int64_t n, int64_t n_in,
                const float *weight, const float *bias, int64_t n_out)
{
    for (int64_t i = 0; i < n; i++, x += ld, out += n_out) {
        cpu_gemv(out, weight, x, n_out, n_in);
        for (int64_t o = 0; bias && o < n_out; o++)
            out[o] += bias[o];
    }
}

/* In blocks, the last one filled up: what a value becomes does not depend on its place. */
void kvt_silu(float *x, int64_t n)
{
    enum { BLOCK = 256 };
    float one[BLOCK], tail[BLOCK] = {0};
    int64_t at = 0;
    for (int i = 0; i < BLOCK; i++)
        one[i] = 1;
    for (; at + BLOCK <= n; at += BLOCK)
        cpu_silu_mul(x + at, one, BLOCK);
    if (at >= n)
        return;
    memcpy(tail, x + at, (size_t)(n - at) * sizeof *x);
    cpu_silu_mul(tail, one, BLOCK);
    memcpy(x + at, tail, (size_t)(n - at) * sizeof *x);
}

void kvt_gelu(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(0.5 * (double)x[i] * erfc(-(double)x[i] * 0.70710678118654752440));
}
