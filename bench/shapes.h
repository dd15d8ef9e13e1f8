/* shapes.h - some layers of known models, with random weights: what the speed of a prefill
 * depends on is there, the vocabulary is not. */
#ifndef BENCH_SHAPES_H
#define BENCH_SHAPES_H

#include <stdbool.h>

/* The i-th name, NULL behind the last. */
const char *shape_name(int i);
/* Writes n_layer layers as a GGUF file (0: two, of gemma3 six, the last of which has no
 * window); `type` of the matrices as in GGUF. False: no such name, or the file could not be
 * written. */
bool shape_write(const char *path, const char *name, int n_layer, int type);

#endif
