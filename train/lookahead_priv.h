/* lookahead_priv.h - what the files of the pass share.
 *
 *   lookahead.c         memory, the order of a layer
 *   lookahead_steps.c   norms, biases, rotation, gates, forward and backward
 *   lookahead_linear.c  linear maps with LoRA, forward and backward
 *   lookahead_attend.c  attention of a sample's heads, the loss, and both backward
 */
#ifndef TRAIN_LOOKAHEAD_PRIV_H
#define TRAIN_LOOKAHEAD_PRIV_H

#include "compute/gemm.h"
#include "train/lookahead.h"

#define look_product         TRAIN_REAL(look_product)
#define look_linear_forward  TRAIN_REAL(look_linear_forward)
#define look_linear_backward TRAIN_REAL(look_linear_backward)
#define look_attend_forward  TRAIN_REAL(look_attend_forward)
#define look_attend_backward TRAIN_REAL(look_attend_backward)
#define look_norm            TRAIN_REAL(look_norm)
#define look_norm_back       TRAIN_REAL(look_norm_back)
#define look_bias            TRAIN_REAL(look_bias)
#define look_residual        TRAIN_REAL(look_residual)
#define look_turns           TRAIN_REAL(look_turns)
#define look_rope            TRAIN_REAL(look_rope)
#define look_gates           TRAIN_REAL(look_gates)
#define look_gates_back      TRAIN_REAL(look_gates_back)

/* What the backward pass needs of a layer; R = S n rows. */
typedef struct look_saved {
    real *x;                /* [R E] the residual that came in */
    real *y;                /* [R E] after the norm */
    real *q, *k, *v;        /* [R HD], [R GD]: rotated; values */
    real *q_in, *k_in;      /* in front of their norms; q and k where there are none */
    real *o;                /* [R HD] */
    real *mid;              /* [R E] the residual behind attention */
    real *attn, *ffn;       /* [R E] in front of the norms behind them; NULL: there are none */
    real *y2;               /* [R E] */
    real *gate, *up;        /* [R F] */
    real *act;              /* [R F] act(gate) up */
    real *xa[ADAPTER_MAPS]; /* [R r] input A^T */
    real *prob;             /* [S H n (N + n)], a sample behind the other */
    real *coef; /* [S H N] d loss / d (attention of a row), the same for the n rows */
} look_saved;

typedef struct look_own {
    real *k, *v; /* [(N + n) D] of a kv head */
    real *q, *t; /* [rep n D] */
    real *z;     /* [rep n (N + n)] */
    real *own;   /* [n D] */
    double blas_s;
} look_own;

struct look_pass {
    look_model model;
    look_layout layout;
    look_room room;
    int64_t n_row; /* of the pass at hand: S n */
    int n_sample;
    look_sample sample[64];
    int64_t first[65]; /* sum of N of the samples before */
    double weight;
    look_saved *saved; /* [n_layer] */
    real *table[2];    /* [R D] cosines, sines; of layers with the local base */
    double *loss;      /* [n_layer S H] */
    real *d_x, *d_y, *d_mid, *d_q, *d_k, *d_v, *d_o, *d_gate, *d_up, *d_act;
    real *lora[3]; /* [R r] scale dY B */
    look_own *own; /* [n_thread] */
    void *memory;
};

/* One map and its place in the parameters. */
typedef struct look_linear {
    const real *w; /* [out in] */
    int64_t in, out;
    int map;
    const real *a, *b; /* NULL: no LoRA */
    real *grad_a, *grad_b;
} look_linear;

/* c = alpha op(a) op(b) + beta c, on the calling thread, which is `own`. */
void look_product(look_own *own, gemm_op op, real *c, int64_t ldc, const real *a, int64_t lda,
                  const real *b, int64_t ldb, int64_t m, int64_t n, int64_t k, real alpha,
                  real beta);
/* y[i] = x w^T + scale (x A^T) B^T for n maps that share their input; keeps x A^T in saved. */
void look_linear_forward(look_pass *p, look_saved *s, const look_linear *map, int n,
                         const real *x, real *const *y);
/* d_x = sum over the maps of what d_y [i] asks of the input; adds the gradients of A and B. */
void look_linear_backward(look_pass *p, const look_saved *s, const look_linear *map, int n,
                          const real *x, const real *const *d_y, real *d_x);

/* out [n_row width] = x / rms(x) gain; gain NULL: nothing happens, also below. */
void look_norm(const look_pass *p, real *out, const real *x, const real *gain, int64_t n_row,
               int64_t width);
/* out = skip + what d_y asks of x through the norm; out may be skip or d_y. skip NULL: zero. */
void look_norm_back(const look_pass *p, real *out, const real *skip, const real *x,
                    const real *gain, const real *d_y, int64_t n_row, int64_t width);
/* x [R width] += bias */
void look_bias(const look_pass *p, real *x, const real *bias, int64_t width);
/* out [R E] = x + y, behind y's norm where it has one; without, out may be y. */
void look_residual(const look_pass *p, real *out, const real *x, const real *y,
                   const real *gain);
/* Cosines and sines of all rows, for both bases. */
void look_turns(look_pass *p);
/* Turns rows [R n_head D] by their positions, or back. */
void look_rope(const look_pass *p, int layer, real *x, int64_t n_head, bool back);
/* gate, up to act; d_act to d_gate, d_up. */
void look_gates(const look_pass *p, look_saved *s);
void look_gates_back(look_pass *p, const look_saved *s);

/* q, k, v of the layer to prob, coef, o and the loss; last: no values, no o. */
void look_attend_forward(look_pass *p, int layer);
/* d_o (not in the last layer) to d_q, d_k, d_v, still rotated. */
void look_attend_backward(look_pass *p, int layer);

#endif
