/* train_rows.h - the trainer's rows on a model and a prompt captured from it, beside those of a
 * probe with the same adapter (the other implementation of the same rows) and beside the
 * response itself: on tiny models of every architecture, and on real ones.
 *
 *   train_rows *r = train_rows_open(model, "t.h5", 0.04);
 *   train_rows_response(r); ...                            each fails the test by itself
 *   train_rows_close(r); */
#ifndef TESTS_TRAIN_ROWS_H
#define TESTS_TRAIN_ROWS_H

#include "kvt/capture.h"

typedef struct train_rows train_rows;

/* The model's weights are f32; the trace is of level train. size: width of the numbers that a
 * LoRA is made of, so that it is at work and not all that is. */
train_rows *train_rows_open(kvt_model *model, const char *trace, double size);
void train_rows_close(train_rows *r);

/* The gradient in float against a difference of the loss along it, 1e-2 relative. */
void train_rows_direction(train_rows *r);
/* Masses of all heads against the probe's, summed differences below 5e-3: its queries are
 * halves. */
void train_rows_probe(train_rows *r);
/* B = 0 is the frozen model bit for bit, in the trainer's rows and in the engine's; and a row
 * of a token's embedding is that token's. */
void train_rows_begin(train_rows *r);
/* The response's own tokens as soft tokens: their mean is the target, the loss below limit. */
void train_rows_response(train_rows *r, double limit);
/* Eleven steps down the gradient, each of which takes `share` off the loss to first order. */
void train_rows_descent(train_rows *r, double share);

#endif
