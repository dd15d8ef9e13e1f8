/* check_toy.h - a small prompt made of random numbers, in the form in which the engine takes
 * it: what the laws of kvt/check.h are tried on. */
#ifndef REPLAY_CHECK_TOY_H
#define REPLAY_CHECK_TOY_H

#include "kvt/engine.h"

enum {
    TOY_LAYERS = 3,
    TOY_HEADS = 4,
    TOY_GROUPS = 2,
    TOY_DIM = 16,
    TOY_HIDDEN = 24,
    TOY_RESPONSE = 12
};

/* What its attention looks like. */
typedef enum toy_kind {
    TOY_RANDOM, /* softmax of random queries and keys */
    TOY_FLAT,   /* every token that a row sees gets the same; keys and values are equal */
    TOY_ZERO    /* all attention is on the token itself, the rest exactly 0 */
} toy_kind;

typedef struct check_toy {
    kvt_arena *memory;
    kvt_geometry geometry;
    kvt_sequence seq;
    int64_t N, M, T;
    float *rows, *logits, *query, *key, *value, *column, *maximum, *wo, *block, *hidden,
        *decision, *score, *mean, *cov, *freq;
} check_toy;

/* exchange: kv heads and their query heads in falling order. NULL: no memory. */
check_toy *check_toy_new(uint64_t seed, int64_t n_prompt, toy_kind kind, bool exchange);
void check_toy_free(check_toy *t); /* NULL is fine */

/* A layer at the end of its prompt, and after response token m. by_head: scores are those of
 * query heads. */
kvt_feed check_toy_prompt(const check_toy *t, int layer, bool by_head);
kvt_feed check_toy_token(const check_toy *t, int layer, int64_t m, bool by_head);

#endif
