/* lanes.h - a synthetic trace whose queries, keys, values and output matrices follow a rule
 * that Python can follow (lanes.py), so that golden files need no input data:
 *
 *   x(kind, i) = (mix((seed * 16 + kind) * 2^32 + i) mod 4001 - 2000) / 1024
 *
 * is number i of the queries [L H T D] (kind 0), keys (1) and values (2) [L G T D] after RoPE,
 * W_O [L H D E] (3), and of two learned files: filter [L G D] (4), mean query [L H D] (5) and,
 * plus 2, magnitude of a rotary pair [L H F] (6). Half precision holds each. Attention and the
 * rest are what synth.c computes from them, the rows of all queries included. */
#ifndef GOLDEN_LANES_H
#define GOLDEN_LANES_H

#include "tests/synth.h"

/* name is SEED/L/MODEL/H/G/N/M/D: of a model of MODEL layers the last L; with /W behind it
 * every second one sees W tokens only. */
synth *lanes_new(const char *name);
/* A file of that kind ("qfilters", "triattention") for it. */
KVT_CHECKED kvt_code lanes_scorer(const char *kind, const synth_spec *spec, const char *path,
                                  kvt_err *err);

#endif
