/* weights.h - a model's weights as the forward pass wants them.
 *
 *   kvt_weights *w;
 *   if (kvt_weights_load(&w, g, false, ctx, &err)) ...
 *   y = x * layer->wq^T                            row-major, [n E] x [HD E]^T
 *   kvt_weights_free(w);
 *
 * All matrices are dequantised to f32 once, when loaded, by all threads; the result does not
 * depend on their number. Rows of q and k are put into Hugging Face's order, so that a rotary
 * pair of a head is always (i, i + D/2). The gguf may be closed afterwards.
 *
 * Letters: E n_hidden, H n_head, G n_kv_head, D head_dim, F n_ff, V n_vocab. */
#ifndef CAPTURE_WEIGHTS_H
#define CAPTURE_WEIGHTS_H

#include "capture/arch.h"
#include "kvt/ctx.h"

/* f32, row-major, [out in], 64-byte aligned; owned by the kvt_weights. */
typedef struct kvt_weights_layer {
    const float *attn_norm; /* [E] */
    const float *wq;        /* [HD E] */
    const float *wk, *wv;   /* [GD E] */
    const float *wo;        /* [E HD] */
    const float *ffn_norm;  /* [E] */
    const float *gate, *up; /* [F E] */
    const float *down;      /* [E F] */
} kvt_weights_layer;

typedef struct kvt_weights {
    kvt_geometry geometry;
    const arch *arch;
    kvt_weights_layer *layer; /* [n_layer]; NULL with header_only, as the next three */
    const float *embed;       /* [V E] */
    const float *out_norm;    /* [E] */
    const float *lm_head;     /* [V E]; equals embed where the model is tied */
    int64_t n_weight;         /* parameters, a tied matrix once */
    int64_t bytes;            /* memory of all matrices as f32, also with header_only */
    int64_t file_bytes;       /* the same tensors as they lie in the file */
    char types[128];          /* "Q4_1 210, F32 61, Q8_0 1" */
    char digest[DIGEST_TEXT]; /* XXH128 of the file; "" with header_only */
    double seconds;           /* that loading took */
} kvt_weights;

/* FORMAT names the tensor that is missing or of a wrong shape, with expected and got.
 * header_only checks all of that and reads no weight. */
KVT_CHECKED kvt_code kvt_weights_load(kvt_weights **out, const gguf *g, bool header_only,
                                      const kvt_ctx *ctx, kvt_err *err);
void kvt_weights_free(kvt_weights *w); /* NULL is fine */

/* XXH128 of the canonical weights: all f32 values in the order of keys.c, so that two files
 * with the same values are the same model. Not with header_only. */
KVT_CHECKED kvt_code kvt_weights_digest(const kvt_weights *w, char out[DIGEST_TEXT],
                                        kvt_err *err);

#endif
