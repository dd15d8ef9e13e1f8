/* steps.h - what a layer does between its products. Where an architecture lacks a step, its
 * vector is NULL and nothing happens: that is all that tells one architecture from another.
 *
 *   q = x Wq^T  ->  steps_bias  ->  steps_head_norm  ->  RoPE
 *   x = x + steps_residual(o Wo^T)
 *   down(steps_gate(gate x, up x)) */
#ifndef CAPTURE_STEPS_H
#define CAPTURE_STEPS_H

#include "capture/weights.h"
#include "compute/backend.h"

/* x f32 [n width] += bias [width] (qwen2) */
static inline void steps_bias(const kvt_backend *b, float *x, const float *bias, int64_t n,
                              int64_t width)
{
    for (int64_t r = 0; bias && r < n; r++)
        b->add(x + r * width, bias, width);
}

/* RMS norm of n heads f32 [n D], each by itself, gain [D] (qwen3, gemma3) */
static inline void steps_head_norm(const kvt_backend *b, float *x, const float *gain, int64_t n,
                                   const kvt_geometry *g)
{
    if (gain)
        b->rmsnorm(x, x, gain, n, g->head_dim, g->norm_eps);
}

/* x f32 [n E] += y, behind its norm where there is one (gemma3); y is overwritten then. */
static inline void steps_residual(const kvt_backend *b, float *x, float *y,
                                  const float *post_norm, int64_t n, const kvt_geometry *g)
{
    if (post_norm)
        b->rmsnorm(y, y, post_norm, n, g->n_hidden, g->norm_eps);
    b->add(x, y, n * g->n_hidden);
}

/* gate f32 [n] = act(gate) * up */
static inline void steps_gate(const kvt_backend *b, const kvt_weights *w, float *gate,
                              const float *up, int64_t n)
{
    if (w->arch->gelu)
        b->gelu_mul(gate, up, n);
    else
        b->silu_mul(gate, up, n);
}

#endif
