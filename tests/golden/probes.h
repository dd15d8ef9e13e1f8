/* probes.h - lanes with a probe, from a rule that Python can follow (probes.py), so that golden
 * files need no input data.
 *
 *   x(kind, l, h, i, d) = (mix((((seed * 64 + l) * 64 + h) * 4096 + i) * 4096 + 512 kind + d)
 *                          mod 33 - 16) / 8
 *
 * gives keys and queries of prompt and probe, D = 8, one draw a channel; h is the kv head for
 * keys, the query head for queries. Norms are 2.125 + x. Rows of attention are the softmax in
 * double over the prompt and the probe's own keys up to itself, rounded to half. Segments, for
 * `repeat`: 3 rows of instruction and the chunk's own 16 tokens again, all of which count; all
 * chunks together are the prompt. The first 5 tokens are the template's. */
#ifndef TESTS_GOLDEN_PROBES_H
#define TESTS_GOLDEN_PROBES_H

#include "kvt/pieces.h"

enum { PROBES_DIM = 8, PROBES_CHUNK = 16, PROBES_LEAD = 3, PROBES_PREFIX = 5 };

typedef struct probes {
    uint64_t seed;
    int n_layer, n_head, n_group;
    int64_t N, M;
    kvt_geometry geometry;
    kvt_sequence seq;
} probes;

/* "SEED/L/H/G/N/M": M rows of the probe; for `repeat` the rule gives their number. */
probes *probes_new(kvt_arena *a, const char *name);
/* All lanes [L A] as the hooks see them at the end of the prompt, with the last `window`
 * queries and their rows. */
kvt_lane *probes_lanes(kvt_arena *a, probes *p, const kvt_traits *traits, int64_t window,
                       int *n_lane);

#endif
