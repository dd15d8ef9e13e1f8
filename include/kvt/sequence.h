/* sequence.h - what a policy may know of the prompt besides attention. */
#ifndef KVT_SEQUENCE_H
#define KVT_SEQUENCE_H

#include "kvt/geometry.h"

/* Flags of a token, the bits of /token/flag. */
enum {
    KVT_TOKEN_SPECIAL = 1 << 0,  /* a control token of the vocabulary */
    KVT_TOKEN_TEMPLATE = 1 << 1, /* put there by the chat template */
    KVT_TOKEN_SYSTEM = 1 << 2,   /* part of the system prompt */
    KVT_TOKEN_RESPONSE = 1 << 3  /* generated or forced */
};

typedef struct kvt_span {
    char name[32];                /* "question", "context", "answer", ... */
    int64_t begin, end;           /* tokens, end is past the last */
    int64_t byte_begin, byte_end; /* of the tokenized text; equal: not known */
} kvt_span;

enum { KVT_POSITION_BINS = 32 };

typedef struct kvt_sequence {
    int64_t n_prompt, n_response; /* N, M */
    int64_t look_until;  /* last position a decision may have looked at; N in version 1 */
    const int32_t *id;   /* [T], NULL unless NEED_TOKENS */
    const uint8_t *flag; /* [T], NULL unless NEED_TOKENS */
    const kvt_span *span;
    int n_span;
    const kvt_geometry *geometry;
    const int32_t *layer_id; /* [L] which layer of the model each layer of the trace is */
    int n_layer;             /* layers of the trace */
    /* Mean future mass of the same relative position in the other traces of the set,
     * f32 [L G KVT_POSITION_BINS]; NULL unless NEED_OTHERS. */
    const float *position_mass;
} kvt_sequence;

/* The bin of prompt position j of n: positions 0-7 one each, the others by distance d = n - 1 -
 * j in bin 8 + min(23, floor(2 log2(1 + d))). */
KVT_API int kvt_position_bin(int64_t j, int64_t n_prompt);

#endif
