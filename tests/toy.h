/* toy.h - a small attention tensor from a rule that Python can follow (golden/toy.py), so that
 * golden files need no input data.
 *
 * Attention is w / sum(w) over what a row sees, of whole numbers w:
 *
 *   mix(x)         splitmix64's output for state x
 *   r(l,h,i,j)     mix((((seed * 64 + l) * 64 + h) * 4096 + i) * 4096 + j)
 *   boost(l,h,j)   16 for j = 0, 8 where r(l,h,4095,j) mod 8 = 0, else 1
 *   prompt row i   w[j] = (r mod 4) boost for j < i; w[i] fills up to the next power of two
 *   response row   w[j] = (1 + r mod 1000003) boost for j <= i
 *
 * Prompt attention is therefore exact in f32, with many equal and many zero scores, and so is
 * every sum of it; response rows have no ties. */
#ifndef TESTS_TOY_H
#define TESTS_TOY_H

#include "kvt/engine.h"
#include "kvt/pieces.h"

/* A scorer of that kind, for this toy's model. */
typedef struct toy_weights {
    const char *kind;
    const kvt_scorer_tensor *tensor; /* [n] */
    int n;
    kvt_scorer *file;
} toy_weights;

typedef struct toy {
    uint64_t seed;
    kvt_geometry geometry;
    kvt_sequence seq;
    int32_t layer_id[8];
    int n_layer, n_head, n_group;
    int64_t N, M, T;
    double *w; /* [L H T T] */
    bool swapped;
    /* What policies may read beside attention (toy_more.h), NULL: nothing. A layer each; over
     * all positions, queries and logits of every position; rows, future and columns are left
     * out. */
    const kvt_feed *more;             /* [n_layer] */
    const kvt_probe_kind *probe_kind; /* of more->probe */
    const toy_weights *weights;
    int n_weights;
} toy;

uint64_t toy_mix(uint64_t x);

/* n_layer of the trace, at most 8: the first, the last and those between of n_model_layer.
 * swap_heads: the groups of each layer in falling order, to see that names do not matter. */
toy *toy_new(kvt_arena *a, uint64_t seed, int n_layer, int n_model_layer, int n_head,
             int n_group, int64_t N, int64_t M, bool swap_heads);

/* Attention of row i over the n positions in pos (rising): row [n]. A row that sees none is 0.
 */
void toy_row(float *row, const toy *t, int layer, int head, int64_t i, const int64_t *pos,
             int64_t n);

/* Sum and maximum over the prompt's rows: [N]. */
void toy_columns(float *sum, float *max, const toy *t, int layer, int head);

#endif
