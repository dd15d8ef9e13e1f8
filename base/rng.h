/* rng.h - random streams that depend on names, not on the order of work (xoshiro256**). */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include "kvt/api.h"

enum { RNG_WORDS = 4 };

/* A stream keyed by everything in `key` (bytes; e.g. "seed 7|digest|policy|3|1"). */
void rng_init(uint64_t rng[RNG_WORDS], const void *key, size_t n_byte);
uint64_t rng_bits(uint64_t rng[RNG_WORDS]);
double rng_real(uint64_t rng[RNG_WORDS]);              /* [0, 1), 53 bits */
int64_t rng_below(uint64_t rng[RNG_WORDS], int64_t n); /* [0, n), without bias */

#endif
