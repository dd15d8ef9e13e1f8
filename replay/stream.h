/* stream.h - the random numbers of a lane: keyed by names, so that nothing but them decides. */
#ifndef REPLAY_STREAM_H
#define REPLAY_STREAM_H

#include <stdio.h>

#include "base/rng.h"
#include "kvt/policy.h"

/* model_layer: a trace of some layers draws as the whole model does. */
static inline void stream_start(uint64_t rng[KVT_RNG_WORDS], uint64_t seed,
                                const char *trace_digest, const char *policy, int model_layer,
                                int lane)
{
    char key[256];
    int n = snprintf(key, sizeof key, "%llu|%s|%s|%d|%d", (unsigned long long)seed,
                     trace_digest, policy, model_layer, lane);
    rng_init(rng, key, (size_t)n);
}

#endif
