/* weights.h - a model's weights as the forward pass wants them.
 *
 *   kvt_weights *w;
 *   if (kvt_weights_load(&w, files, NULL, ctx, &err)) ...
 *   y = x * rows of layer->wq ^T                   row-major, [n E] x [HD E]^T
 *   kvt_weights_free(w);
 *
 * A matrix stays in its file's type (f32, f16, bf16 or blocks of compute/quants.def) unless the
 * options ask for f32; vectors are always f32. Rows of q and k are put into Hugging Face's
 * order, so that a rotary pair of a head is always (i, i + D/2), and the gains of norms hold
 * what is multiplied (Gemma's 1 + w). The bytes do not depend on the number of threads. The
 * file may be closed afterwards.
 *
 * Letters: E n_hidden, H n_head, G n_kv_head, D head_dim, F n_ff, V n_vocab. */
#ifndef CAPTURE_WEIGHTS_H
#define CAPTURE_WEIGHTS_H

#include "capture/checkpoint.h"
#include "compute/matrix.h"
#include "kvt/ctx.h"

/* Vectors are f32, 64-byte aligned; all of it is owned by the kvt_weights. NULL: the
 * architecture has none. With header_only no vector and no data is there, but matrices have
 * their types and shapes. */
typedef struct kvt_weights_layer {
    const float *attn_norm, *ffn_norm;           /* [E] in front */
    const float *post_attn_norm, *post_ffn_norm; /* [E] behind (gemma3), or NULL */
    const float *q_norm, *k_norm;                /* [D] (qwen3, gemma3), or NULL */
    const float *bq, *bk, *bv;                   /* [HD], [GD], [GD] (qwen2), or NULL */
    kvt_matrix wq;                               /* [HD E] */
    kvt_matrix wk, wv;                           /* [GD E] */
    kvt_matrix wo;                               /* [E HD] */
    kvt_matrix gate, up;                         /* [F E] */
    kvt_matrix down;                             /* [E F] */
} kvt_weights_layer;

typedef struct kvt_weights {
    kvt_geometry geometry;
    const arch *arch;
    kvt_weights_layer *layer; /* [n_layer] */
    kvt_matrix embed;         /* [V E] */
    const float *out_norm;    /* [E] */
    kvt_matrix lm_head;       /* [V E]; equals embed where the model is tied */
    int64_t n_weight;         /* parameters, a tied matrix once */
    int64_t bytes;            /* memory of all of it, also with header_only */
    int64_t file_bytes;       /* the same tensors as they lie in the file */
    char types[128];          /* "Q4_1 210, F32 61, Q8_0 1" */
    char digest[DIGEST_TEXT]; /* XXH128 of the file, checkpoint_digest(); "" with header_only */
    double seconds;           /* that loading took */
} kvt_weights;

typedef struct kvt_weights_options {
    bool header_only; /* checks names and shapes, reads no weight */
    bool f32;         /* every matrix is decoded to f32 when loaded */
} kvt_weights_options;

/* FORMAT names the tensor that is missing or of a wrong shape, with expected and got. options
 * NULL: weights as in the file. */
KVT_CHECKED kvt_code kvt_weights_load(kvt_weights **out, const checkpoint *s,
                                      const kvt_weights_options *options, const kvt_ctx *ctx,
                                      kvt_err *err);
void kvt_weights_free(kvt_weights *w); /* NULL is fine */

/* XXH128 of the canonical weights, so that two files with the same values are the same model,
 * whatever their formats and types. Of each tensor in the order of keys.c (layer by layer), cut
 * into tiles of WEIGHTS_TILE values from its start, the XXH128 of each tile's f32 values; the
 * hex digits of these digests one behind the other are what the result is the XXH128 of. q and
 * k as in Hugging Face's files, gains as they are multiplied, a tied matrix once. Decodes
 * everything on all threads. Not with header_only. */
enum { WEIGHTS_TILE = 1 << 16 };
KVT_CHECKED kvt_code kvt_weights_digest(const kvt_weights *w, char out[DIGEST_TEXT],
                                        const kvt_ctx *ctx, kvt_err *err);

#endif
