/* rng.c - random streams (xoshiro256**).
 *
 *   Blackman and Vigna, "Scrambled Linear Pseudorandom Number Generators", ACM TOMS 47 (2021);
 *   the state is filled by SplitMix64 from a 64-bit hash of the key, as its authors advise. */
#include "base/rng.h"

#include "base/digest.h"

#include <assert.h>

static uint64_t rotate(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

static uint64_t splitmix(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void rng_init(uint64_t rng[RNG_WORDS], const void *key, size_t n_byte)
{
    uint64_t state = digest_64(key, n_byte);
    for (int i = 0; i < RNG_WORDS; i++)
        rng[i] = splitmix(&state);
}

uint64_t rng_bits(uint64_t rng[RNG_WORDS])
{
    uint64_t out = rotate(rng[1] * 5, 7) * 9;
    uint64_t t = rng[1] << 17;
    rng[2] ^= rng[0];
    rng[3] ^= rng[1];
    rng[1] ^= rng[2];
    rng[0] ^= rng[3];
    rng[2] ^= t;
    rng[3] = rotate(rng[3], 45);
    return out;
}

double rng_real(uint64_t rng[RNG_WORDS])
{
    return (double)(rng_bits(rng) >> 11) * 0x1p-53;
}

int64_t rng_below(uint64_t rng[RNG_WORDS], int64_t n)
{
    assert(n > 0);
    /* 2^64 mod n values at the bottom would make the small remainders more likely. */
    uint64_t un = (uint64_t)n, x;
    do
        x = rng_bits(rng);
    while (x < un && x < (0 - un) % un); /* a division only where it may matter */
    return (int64_t)(x % un);
}
