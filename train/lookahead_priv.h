/* lookahead_priv.h - what the files of the pass share.
 *
 *   lookahead.c         memory, the order of a layer, norms, gates
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
#define look_rope            TRAIN_REAL(look_rope)

/* What the backward pass needs of a layer; R = S n rows. */
typedef struct look_saved {
    real *x;                /* [R E] the residual that came in */
    real *y;                /* [R E] after the norm */
    real *q, *k, *v;        /* [R HD], [R GD]: rotated; values */
    real *o;                /* [R HD] */
    real *mid;              /* [R E] the residual behind attention */
    real *y2;               /* [R E] */
    real *gate, *up;        /* [R F] */
    real *act;              /* [R F] silu(gate) up */
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
    real *table;       /* [R D] cosines, sines */
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

/* q, k, v of the layer to prob, coef, o and the loss; last: no values, no o. */
void look_attend_forward(look_pass *p, int layer);
/* d_o (not in the last layer) to d_q, d_k, d_v, still rotated. */
void look_attend_backward(look_pass *p, int layer);

#endif
