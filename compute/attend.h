/* attend.h - attention of one head over a tile of queries that are neighbours.
 *
 *   z[r, t]   = scale * sum over d of q[r, d] k[t, d]
 *   lse[r]    = ln sum over visible t of exp(z[r, t])
 *   p[r, t]   = exp(z[r, t] - lse[r]), 0 where row r does not see t
 *   out[r, d] = sum over t of p[r, t] v[t, d]
 *
 * Row r is the query at pos + r; it sees t <= pos + r and, with a window, pos + r - t < window.
 * Only the keys that some row sees are touched: first = attend_first(), n_key = pos + n_row -
 * first. A tile holds its whole rows, so that lse and p are final in one pass; memory is O(tile
 * x T). A row that sees no key gets p = 0, out = 0, lse = -inf (never here: a token sees
 * itself).
 *
 * Tolerance: 1e-5 relative. */
#ifndef COMPUTE_ATTEND_H
#define COMPUTE_ATTEND_H

#include "kvt/api.h"

typedef struct attend_args {
    const float *q;     /* f32 [n_row D], rotated */
    const float *k, *v; /* f32 [T D] of the kv head, from position 0 */
    float *p;           /* f32 [n_row n_key], written */
    float *lse;         /* f32 [n_row], written */
    float *out;         /* row r at out + r * ld_out, f32 [D], written */
    int64_t ld_out, n_row, pos, head_dim, window;
    float scale;
} attend_args;

typedef void attend_fn(const attend_args *a);

/* In place over one row: x[lo..hi) become probabilities, the rest of [0, n) becomes 0. Returns
 * the lse; -inf and all 0 where lo >= hi or everything visible is -inf. */
typedef float softmax_fn(float *x, int64_t n, int64_t lo, int64_t hi);

/* First key that the query at pos sees. */
static inline int64_t attend_first(int64_t pos, int64_t window)
{
    return window == 0 || pos < window ? 0 : pos - window + 1;
}

#endif
