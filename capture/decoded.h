/* decoded.h - matrices as f32, for products of many rows: where they lie, or decoded by all
 * threads into memory of the caller. A block gives the same bits wherever it is decoded, so
 * that such a product has those of a model that was loaded as f32. */
#ifndef CAPTURE_DECODED_H
#define CAPTURE_DECODED_H

#include "compute/matrix.h"

/* Floats of room that the n matrices need together; 0 where all are f32. */
int64_t decoded_floats(const kvt_matrix *const *m, int n);
/* out[i] = f32 [n_row n_col] of m[i]. */
void decoded_fill(const float **out, float *room, const kvt_matrix *const *m, int n,
                  int n_thread);

#endif
