/* scorer.h - scorers of cached tokens: forward and hand-written backward.
 *
 * Inputs are constants: gradients stop at them. Everything is of one unit (a lane, or a layer),
 * on the calling thread; parameters of a unit are one vector, gradients are added to one of the
 * same layout. One source, scorer_body.h, is compiled in f32 (training) and in f64 (the second
 * opinion that finite differences need): names end with _f32 and _f64. */
#ifndef TRAIN_SCORER_H
#define TRAIN_SCORER_H

#include "kvt/api.h"

/* ---- two layers ----------------------------------------------------------------------------
 * score[n, o] = out[o, :] . act(in x[n] + b) + b[o]
 * Parameters: in/weight [K W], in/bias [K], out/weight [O K], out/bias [O]. */

typedef enum mlp_act { MLP_LINEAR, MLP_SILU, MLP_GELU } mlp_act;

typedef struct mlp_shape {
    int64_t n_in, width, n_out;
    mlp_act act;
} mlp_shape;

static inline int64_t mlp_in_bias(const mlp_shape *s)
{
    return s->n_in * s->width;
}
static inline int64_t mlp_out(const mlp_shape *s)
{
    return mlp_in_bias(s) + s->width;
}
static inline int64_t mlp_out_bias(const mlp_shape *s)
{
    return mlp_out(s) + s->n_out * s->width;
}
static inline int64_t mlp_count(const mlp_shape *s)
{
    return mlp_out_bias(s) + s->n_out;
}

/* Weights of deviation 1 / sqrt(inputs); biases stay as they are. */
void mlp_begin(const mlp_shape *s, float *param, uint64_t rng[4]);

/* ---- mLSTM ---------------------------------------------------------------------------------
 * KVpop's scorer with a memory (arXiv 2607.05061, appendix E):
 *
 *   q, k = [softmax(u); softmax(-u)] of u = W_q x, W_k x      v = W_v x
 *   C_q = f C_(q-1) + i k v^T,  z_q = f z_(q-1) + i k,        f = sigma(a_f), i = exp(a_i)
 *   y = (q_t^T C_q) / (q_t^T z_q) at q = t + delay            r_t = out . SiLU(rms(y) gain) + b
 *
 * stabilised: mu_q = max(log f + mu_(q-1), a_i) is taken out of C and z; it cancels in y, so
 * that it is a constant to the backward. Parameters: W_q, W_k, W_v [O W] each, w_i [W], w_f
 * [W]; their biases [3 O + 2]; gain [O], out/weight [O], out/bias. */

typedef struct mlstm_shape {
    int64_t n_in, inner, delay;
} mlstm_shape;

static inline int64_t mlstm_rows(const mlstm_shape *s)
{
    return 3 * s->inner + 2;
}
static inline int64_t mlstm_bias(const mlstm_shape *s)
{
    return mlstm_rows(s) * s->n_in;
}
static inline int64_t mlstm_gain(const mlstm_shape *s)
{
    return mlstm_bias(s) + mlstm_rows(s);
}
static inline int64_t mlstm_out(const mlstm_shape *s)
{
    return mlstm_gain(s) + s->inner;
}
static inline int64_t mlstm_out_bias(const mlstm_shape *s)
{
    return mlstm_out(s) + s->inner;
}
static inline int64_t mlstm_count(const mlstm_shape *s)
{
    return mlstm_out_bias(s) + 1;
}

/* Floats of `work` for n tokens of which n_read are read. */
static inline int64_t mlstm_work(const mlstm_shape *s, int64_t n, int64_t n_read)
{
    int64_t state = 2 * s->inner * s->inner + 2 * s->inner;
    return n * (2 * mlstm_rows(s) + 4 * s->inner + 2) + n_read * (state + s->inner + 2) +
           2 * state + 8 * s->inner;
}

/* ---- gate ----------------------------------------------------------------------------------
 * Fast KVzip (arXiv 2601.17668), of a layer:
 *
 *   q_u = rms(W_q x + b) g_q      k = rms(W_k x) g_k          u: query heads of the kv head's
 * group score = mean over u of 1 / (1 + sum over e of exp(a_e - a)), a = q_u.k / sqrt(O) + b_u,
 * a_e = q_u.base_e / sqrt(O)
 *
 * Parameters: W_q [H O E], W_k [G O E], b [H O], g_q [O], g_k [O], base [G K O], b_u [H]. */

typedef struct gate_shape {
    int64_t n_in, n_head, n_kv, inner, n_base;
} gate_shape;

static inline int64_t gate_rows(const gate_shape *s)
{
    return (s->n_head + s->n_kv) * s->inner;
}
static inline int64_t gate_bias(const gate_shape *s)
{
    return gate_rows(s) * s->n_in;
}
static inline int64_t gate_gain(const gate_shape *s)
{
    return gate_bias(s) + s->n_head * s->inner;
}
static inline int64_t gate_base(const gate_shape *s)
{
    return gate_gain(s) + 2 * s->inner;
}
static inline int64_t gate_logit(const gate_shape *s)
{
    return gate_base(s) + s->n_kv * s->n_base * s->inner;
}
static inline int64_t gate_count(const gate_shape *s)
{
    return gate_logit(s) + s->n_head;
}
static inline int64_t gate_work(const gate_shape *s, int64_t n)
{
    return 2 * n * gate_rows(s) + 4 * s->inner + s->n_base;
}

/* score [n n_kv]; work [gate_work] keeps what the backward reads. */
void gate_score_f32(const gate_shape *s, const float *param, const float *x, int64_t n,
                    float *score, float *work);
void gate_score_f64(const gate_shape *s, const double *param, const double *x, int64_t n,
                    double *score, double *work);
void gate_back_f32(const gate_shape *s, const float *param, const float *x, int64_t n,
                   const float *slope, float *grad, float *work);
void gate_back_f64(const gate_shape *s, const double *param, const double *x, int64_t n,
                   const double *slope, double *grad, double *work);

/* score [n n_out]; x [n n_in]; work [2 n width] keeps what the backward reads. */
void mlp_score_f32(const mlp_shape *s, const float *param, const float *x, int64_t n,
                   float *score, float *work);
void mlp_score_f64(const mlp_shape *s, const double *param, const double *x, int64_t n,
                   double *score, double *work);
/* slope [n n_out]: of the loss by the scores. */
void mlp_back_f32(const mlp_shape *s, const float *param, const float *x, int64_t n,
                  const float *slope, float *grad, float *work);
void mlp_back_f64(const mlp_shape *s, const double *param, const double *x, int64_t n,
                  const double *slope, double *grad, double *work);

/* score [n_read] of the tokens read [n_read], rising, each at most n - 1 - delay. `learns`: the
 * states that the backward reads are kept; without, work is that of n_read 0. */
void mlstm_score_f32(const mlstm_shape *s, const float *param, const float *x, int64_t n,
                     const int32_t *read, int64_t n_read, bool learns, float *score,
                     float *work);
void mlstm_score_f64(const mlstm_shape *s, const double *param, const double *x, int64_t n,
                     const int32_t *read, int64_t n_read, bool learns, double *score,
                     double *work);
void mlstm_back_f32(const mlstm_shape *s, const float *param, const float *x, int64_t n,
                    const int32_t *read, int64_t n_read, const float *slope, float *grad,
                    float *work);
void mlstm_back_f64(const mlstm_shape *s, const double *param, const double *x, int64_t n,
                    const int32_t *read, int64_t n_read, const double *slope, double *grad,
                    double *work);

#endif
