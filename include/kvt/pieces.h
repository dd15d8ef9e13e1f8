/* pieces.h - arithmetic that policies, allocators and metrics share (replay/pieces.c). The last
 * axis of a view has stride 1 here. */
#ifndef KVT_PIECES_H
#define KVT_PIECES_H

#include "kvt/policy.h"

/* Pools of stride 1 over `width` values around each; an even width counts as the next odd one.
 * The mean counts what lies outside as zero, the maximum leaves it out. out and in differ. */
KVT_API void kvt_pool_mean(float *out, const float *in, int64_t n, int64_t width);
KVT_API void kvt_pool_max(float *out, const float *in, int64_t n, int64_t width);
KVT_API void kvt_add_rows(float *mark, const kvt_view *attn); /* mark[s] += sum over H, Q */
KVT_API void kvt_mean_heads(float *out,
                            const kvt_view *rows); /* out[s] = mean over H of [H S] */

/* The rule of observation windows: pins the last `window` slots and returns how many lie before
 * them. Where none does there is nothing to score: nothing is pinned, the scores rise with the
 * position (the latest are kept), and it returns 0. */
KVT_API int64_t kvt_pin_window(float *score, bool *pinned, int64_t n_slot, int64_t window);

/* The fits() of observation windows: false, and why, where a prompt that is longer than both
 * the window and the budget has a budget below the window. */
KVT_API bool kvt_window_fits(int64_t window, int64_t budget, int64_t n_prompt, char *why,
                             size_t cap);

/* Softmax rows of queries over chosen keys, for probes whose rows the engine does not make:
 *
 *   z[q, s] = scale * sum over d of query[q, d] key[s, d],  s < n_key, and s < n_see[q]
 *   out[q, s] = exp(z - max) / sum over s, 0 where it is not seen
 *
 * in f32; queries [n_query D] with `ld` floats between them, keys [n_key D] contiguous, n_see
 * [n_query] or NULL: all. Tolerance 1e-6. */
KVT_API void kvt_softmax_rows(float *out, const float *query, int64_t ld, int64_t n_query,
                              const float *key, int64_t n_key, int64_t n_dim, float scale,
                              const int64_t *n_see);

/* out[i, o] = bias[o] + sum over j of x[i, j] weight[o, j]: x [n W] with `ld` floats between
 * rows, weight [n_out W], bias NULL: 0. Each out depends on its own row only, in a fixed order.
 */
KVT_API void kvt_affine(float *out, const float *x, int64_t ld, int64_t n, int64_t n_in,
                        const float *weight, const float *bias, int64_t n_out);
KVT_API void kvt_silu(float *x, int64_t n); /* x / (1 + exp(-x)), in place */
KVT_API void kvt_gelu(float *x, int64_t n); /* x Phi(x), the exact form, in place */

static inline int64_t kvt_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static inline int64_t kvt_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Marks the `k` best of n scores that are not pinned, beside all pinned ones (NULL: none): of
 * equal scores the lower index wins; NaN sorts last. Returns how many are marked, -1 where
 * scratch has no room for the work (keep is as it was then). */
KVT_API int64_t kvt_keep_best(bool *keep, const float *score, const bool *pinned, int64_t n,
                              int64_t k, kvt_arena *scratch);

/* A uniform number of [0, 1) from the lane's stream, and the next 64 bits of it. */
KVT_API double kvt_random(uint64_t *rng);
KVT_API uint64_t kvt_random_bits(uint64_t *rng);

#endif
