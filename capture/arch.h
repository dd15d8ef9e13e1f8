/* arch.h - what makes one architecture differ from another, and a model's geometry from its
 * file.
 *
 *   const arch *a;
 *   kvt_geometry geometry;
 *   if (arch_of(&a, g, &err) || arch_geometry(&geometry, a, g, &err)) ...
 *
 * The architecture is decided first, so that a file of another kind is refused by that name and
 * never as a file that lacks tensors. */
#ifndef CAPTURE_ARCH_H
#define CAPTURE_ARCH_H

#include "capture/gguf.h"
#include "kvt/geometry.h"

/* The rows of the table in arch.c. */
typedef struct arch {
    const char *name;   /* as general.architecture and as /model says it */
    bool qkv_bias;      /* q, k and v have a bias */
    bool qk_norm;       /* RMS norm of q and k, a head at a time, before the rotation */
    bool is_permuted;   /* rows of q and k lie as rotary pairs (2i, 2i + 1) in a GGUF */
    bool post_norm;     /* norms behind attention and feed-forward as well */
    bool gelu;          /* tanh GELU in place of SiLU */
    bool embed_scaled;  /* the embedding is multiplied by sqrt(n_hidden) */
    int global_every;   /* layer l sees everything iff l % this == this - 1; 0: all layers do */
    bool window_all;    /* a window is one of all layers: mistral */
    double theta_local; /* rotary base of layers with a window; 0: the common one */
} arch;

/* NULL: not in the table: not supported. */
const arch *arch_find(const char *name, size_t n_byte);

/* The architecture that general.architecture names. FORMAT:
 * "architecture qwen3moe is not supported; supported: llama, qwen2, qwen3, gemma3". */
KVT_CHECKED kvt_code arch_of(const arch **out, const gguf *g, kvt_err *err);

/* gguf_open() that refuses another architecture before it looks at a tensor, so that a file
 * with tensors of unknown types is called by its architecture. */
KVT_CHECKED kvt_code arch_open(gguf **out, const char *path, kvt_err *err);

/* Every field of the geometry, rotary frequencies (computed in double) and windows included.
 * n_vocab is the rows of the embedding, which may be more than the tokenizer's tokens. FORMAT
 * names the key with what was expected and got. */
KVT_CHECKED kvt_code arch_geometry(kvt_geometry *out, const arch *a, const gguf *g,
                                   kvt_err *err);

/* Rotary scaling, as a file describes it. */
typedef struct arch_rope {
    const char *type;            /* none, linear, llama3 (divisors given) or yarn */
    double theta, factor;        /* base; 1: no scaling */
    double original;             /* tokens, yarn: original context */
    double beta_fast, beta_slow; /* yarn: 32 and 1 */
    bool unrounded;              /* yarn: the limits are not rounded to whole pairs */
    const float *divisor;        /* f32 [head_dim / 2] for llama3, else NULL */
} arch_rope;

/* freq [head_dim / 2]: radians a position of pair i, theta^(-2i/d) with the scaling applied, in
 * double. */
void arch_rope_freq(double *freq, const arch_rope *r, int64_t head_dim);

/* divisor [head_dim / 2] of llama3's scaling from the fields of config.json, rounded to f32 as
 * a GGUF's rope_freqs.weight holds it: 1 for wavelengths below original / high, factor above
 * original / low, between them a mix. `r` gives theta, factor and original. */
void arch_rope_llama3(float *divisor, const arch_rope *r, double low, double high,
                      int64_t head_dim);

/* Yarn's factor of cos and sin, 1 + 0.1 scale ln(factor); 1 where factor is not above 1. */
double arch_yarn_scale(double factor, double scale);

/* What holds for heads whatever the file: kv_key and dim_key are their keys' names. */
KVT_CHECKED kvt_code arch_check_heads(const kvt_geometry *o, const char *kv_key,
                                      const char *dim_key, kvt_err *err);

enum { ARCH_WIDTH_MAX = 1 << 24 }; /* of any layer */

#endif
