/* geometry.h - the fields of a model's geometry: /model of a trace, cost data files, loaders.
 */
#ifndef KVT_GEOMETRY_H
#define KVT_GEOMETRY_H

#include <math.h>

#include "kvt/err.h"

enum { KVT_LAYERS_MAX = 256, KVT_HEAD_DIM_MAX = 512 };

/* What an architecture stores beside matrices and two norms a layer. X(name, bits). */
enum {
    KVT_QKV_BIAS = 1 << 0, /* q, k and v have a bias */
    KVT_QK_NORM = 1 << 1,  /* RMS norm of q and k, a head at a time */
    KVT_POST_NORM = 1 << 2 /* norms behind attention and feed-forward as well */
};
/* clang-format off */
#define KVT_ARCHITECTURES(X)                                                                      \
    X(llama,  0)                                                                                  \
    X(qwen2,  KVT_QKV_BIAS)                                                                       \
    X(qwen3,  KVT_QK_NORM)                                                                        \
    X(gemma3, KVT_QK_NORM | KVT_POST_NORM)
/* clang-format on */
enum {
#define X(name, bits) KVT_VECTORS_##name = (bits),
    KVT_ARCHITECTURES(X)
#undef X
};

/* X(kind, field, unit, help): kind is TEXT (char [64]), INT (int64_t) or REAL (double). From
 * these lines come the struct, the attributes of /model, and `kvt info`. */
/* clang-format off */
#define KVT_GEOMETRY_FIELDS(X)                                                                    \
    X(TEXT, name,           "",       "name of the model, as its file gives it")                  \
    X(TEXT, arch,           "",       "architecture: llama, qwen2, qwen3, gemma3")                \
    X(INT,  n_layer,        "1",      "layers of the whole model")                                \
    X(INT,  n_head,         "1",      "query heads of a layer")                                   \
    X(INT,  n_kv_head,      "1",      "kv heads of a layer")                                      \
    X(INT,  head_dim,       "1",      "channels of a head")                                       \
    X(INT,  n_hidden,       "1",      "width of the residual stream")                             \
    X(INT,  n_ff,           "1",      "width of the feed-forward layer")                          \
    X(INT,  n_vocab,        "1",      "rows of the embedding")                                    \
    X(INT,  n_context,      "tokens", "longest sequence the model was trained for")               \
    X(INT,  tied,           "",       "1 where the output matrix is the embedding")               \
    X(REAL, norm_eps,       "1",      "epsilon of the RMS norms")                                 \
    X(REAL, attn_scale,     "1",      "factor of q.k before the softmax")                         \
    X(REAL, embed_scale,    "1",      "factor of the embedding")                                  \
    X(TEXT, rope_type,      "",       "none, linear, llama3 or yarn")                             \
    X(TEXT, rope_layout,    "",       "half: pairs are (i, i + d/2), as in Hugging Face")         \
    X(REAL, rope_theta,     "1",      "base of the rotary frequencies")                           \
    X(REAL, rope_theta_local, "1",    "base of layers with a sliding window; 0: the same")        \
    X(REAL, rope_factor,    "1",      "factor of the frequency scaling; 1: none")                 \
    X(REAL, rope_attn_factor, "1",    "factor of cos and sin (yarn); 1: none")                    \
    X(INT,  rope_original,  "tokens", "original context of the frequency scaling; 0: none")
/* clang-format on */

#define KVT_GEOMETRY_TEXT(field) char field[64];
#define KVT_GEOMETRY_INT(field)  int64_t field;
#define KVT_GEOMETRY_REAL(field) double field;

typedef struct kvt_geometry {
#define X(kind, field, unit, help) KVT_GEOMETRY_##kind(field)
    KVT_GEOMETRY_FIELDS(X)
#undef X
    /* Beside the fields, as arrays of /model. */
    int32_t window[KVT_LAYERS_MAX];         /* tokens, the query itself included; 0: all */
    double rope_freq[KVT_HEAD_DIM_MAX / 2]; /* radians a position, of each rotary pair */
} kvt_geometry;

/* Whether a query at position q of that layer sees the key at position k: causal, and within
 * the layer's sliding window (the current token counts). */
static inline bool kvt_geometry_sees(const kvt_geometry *g, int layer, int64_t q, int64_t k)
{
    return k <= q && (g->window[layer] == 0 || q - k < g->window[layer]);
}

/* First key that a query at position q of that layer sees. */
static inline int64_t kvt_geometry_first(const kvt_geometry *g, int layer, int64_t q)
{
    int64_t w = g->window[layer];
    return w == 0 || q < w ? 0 : q - w + 1;
}

/* Whether a layer turns its keys by the local base: one with a sliding window, where the model
 * has a base for those. */
static inline bool kvt_geometry_is_local(const kvt_geometry *g, int layer)
{
    return g->window[layer] > 0 && g->rope_theta_local > 0;
}

/* Rotary frequencies of a layer, radians a position of each pair, to freq [head_dim / 2];
 * returns the factor of its cosines and sines. The local base knows no scaling. */
static inline double kvt_geometry_rope(double *freq, const kvt_geometry *g, int layer)
{
    bool local = kvt_geometry_is_local(g, layer);
    for (int64_t i = 0; i < g->head_dim / 2; i++)
        freq[i] = local ? pow(g->rope_theta_local, -2.0 * (double)i / (double)g->head_dim)
                        : g->rope_freq[i];
    return local || g->rope_attn_factor <= 0 ? 1 : g->rope_attn_factor;
}

#endif
