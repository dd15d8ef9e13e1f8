/* lookahead.h - soft tokens behind a stored prompt, and the gradient of what they look at.
 *
 *   look_pass *p;
 *   look_new(&p, &model, &layout, &room, &err);
 *   double loss = look_forward(p, sample, n, param, 1.0 / n_batch);
 *   look_backward(p, param, grad);              adds to grad
 *   look_mass(p, layer, s, head, mass);         what the forward pass saw
 *   look_free(p);
 *
 * LookaheadKV (arXiv 2603.10899): n learned embeddings run behind the prompt through the frozen
 * layers, with LoRA on the linear maps of these rows only; the mean attention of the n rows to
 * the prompt, normalised over it, is fitted to that of the response. The prompt's keys and
 * values are constants (the stored halves), so a step is a forward and a backward pass over n
 * rows a sample; nothing is T x T.
 *
 * Compiled in f32, and with TRAIN_DOUBLE in f64 (train/real.h). The rows of all samples are
 * stacked for the linear maps. Same bytes for any number of threads: products are cut by grids
 * that depend on shapes only, gradients are added in a fixed order.
 *
 * Letters: E n_hidden, H n_head, G n_kv_head, D head_dim, F n_ff, N prompt tokens of a sample,
 * n soft tokens, S samples of a pass, r rank. */
#ifndef TRAIN_LOOKAHEAD_H
#define TRAIN_LOOKAHEAD_H

#include "capture/adapter.h"
#include "capture/arch.h"
#include "train/real.h"

#define look_layout_of TRAIN_REAL(look_layout_of)
#define look_new       TRAIN_REAL(look_new)
#define look_free      TRAIN_REAL(look_free)
#define look_bytes     TRAIN_REAL(look_bytes)
#define look_forward   TRAIN_REAL(look_forward)
#define look_backward  TRAIN_REAL(look_backward)
#define look_mass      TRAIN_REAL(look_mass)
#define look_blas_s    TRAIN_REAL(look_blas_s)
#define look_flops     TRAIN_REAL(look_flops)

/* The frozen layers; row-major [out in], rows of q and k in the Hugging Face order. Borrowed.
 * The soft tokens are in units of the residual: where a model scales its embeddings, they are
 * scaled. */
typedef struct look_layer {
    const real *attn_norm, *ffn_norm;           /* [E] in front */
    const real *post_attn_norm, *post_ffn_norm; /* [E] behind, where arch->post_norm; or NULL */
    const real *q_norm, *k_norm;                /* [D] where arch->qk_norm; or NULL */
    const real *bq, *bk, *bv;                   /* [HD], [GD], [GD], or NULL */
    const real *w[ADAPTER_MAPS];
} look_layer;

typedef struct look_model {
    const kvt_geometry *geometry;
    const arch *arch;        /* its norms and its gate */
    const look_layer *layer; /* [n_layer] */
} look_model;

/* Where each tensor lies in the flat vector of parameters: the embeddings [n E] first, then for
 * each layer and map A [r in] and B [out r]. */
typedef struct look_layout {
    int64_t n_token, rank;
    double scale; /* alpha / r */
    int64_t n_param;
    int64_t a[KVT_LAYERS_MAX][ADAPTER_MAPS], b[KVT_LAYERS_MAX][ADAPTER_MAPS]; /* -1: none */
} look_layout;

typedef enum look_loss {
    LOOK_KL, /* KL(target || estimate), both normalised over the prompt */
    LOOK_MSE /* mean over tokens of the squared difference of masses divided by their mean */
} look_loss;

typedef struct look_room {
    int n_sample;     /* most samples of a pass */
    int64_t n_prompt; /* most tokens of one's prompt */
    int n_thread;
    look_loss loss;
    bool prompt_only; /* rows as a softmax over the prompt alone */
} look_room;

/* One prompt. */
typedef struct look_sample {
    int64_t n_prompt;
    const uint16_t *k, *v; /* halves [L G N D]: keys after RoPE, values */
    const float *target;   /* f32 [L H N] attention of the response, any scale */
} look_sample;

typedef struct look_pass look_pass;

/* maps: bit i is adapter_map_id i; in the last layer q and k only, as nothing else of it
 * reaches a score. rank 0: embeddings only. */
void look_layout_of(look_layout *out, const kvt_geometry *g, int64_t n_token, int64_t rank,
                    unsigned maps, double scale);

KVT_CHECKED kvt_code look_new(look_pass **out, const look_model *m, const look_layout *layout,
                              const look_room *room, kvt_err *err);
void look_free(look_pass *p); /* NULL is fine */
int64_t look_bytes(const look_model *m, const look_layout *layout, const look_room *room);

/* Sum over the samples of weight * (mean over layers and query heads of the loss). `each` [n]
 * (NULL: not wanted) gets the samples' losses without the weight. */
double look_forward(look_pass *p, const look_sample *sample, int n, const real *param,
                    double weight, double *each);
/* Adds the gradient of what look_forward returned to grad [n_param]. Once after each forward.
 */
void look_backward(look_pass *p, const real *param, real *grad);
/* mass [N] = mean over the n rows of a query head's attention to each prompt token. Between
 * look_forward and look_backward. */
void look_mass(const look_pass *p, int layer, int sample, int64_t head, real *mass);

/* Seconds inside matrix products so far, summed over threads. */
double look_blas_s(const look_pass *p);
/* Floating-point operations of a step for a sample of n_prompt tokens, its linear maps and its
 * attention. */
void look_flops(const kvt_geometry *g, const look_layout *layout, int64_t n_prompt,
                double *linear, double *attention);

#endif
