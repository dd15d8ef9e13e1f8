/* select.c - the best k of n, and whole rankings, by radix on order-preserving keys.
 *
 * A score becomes an unsigned key that rises as the score falls: NaN is the largest, -0 is 0.
 * Lower index wins among equal keys: the ranking sorts stably from the least significant digit,
 * the selection finds the k-th key and takes its ties from the left. Both are O(n) for any
 * input; nothing compares floats, so that no input is unlucky. The upper bits alone are sorted
 * so where that leaves little to put right. */
#include "base/select.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { DIGIT_MAX = 11, N_BUCKET = 1 << DIGIT_MAX, FEW = 48 };
/* More keys than MANY are sorted by one digit more before a few moves each put them right. */
enum { MANY = 8192, MOVES = 4 };

/* Bits of a digit: for few keys, clearing and adding up many buckets would cost more than a
 * pass. */
static int digit_for(int64_t n)
{
    return n > 768 ? DIGIT_MAX : 8;
}

/* Best first: the largest float has the smallest key. Without branches, for vector code. */
static uint32_t key_of(float score)
{
    uint32_t u;
    memcpy(&u, &score, sizeof u);
    uint32_t magnitude = u & 0x7fffffffu, sign = 0u - (u >> 31);
    uint32_t key = 0x7fffffffu ^ (magnitude ^ sign); /* negative: 0x80000000 + magnitude */
    key = magnitude == 0 ? 0x7fffffffu : key;
    return magnitude > 0x7f800000u ? 0xffffffffu : key;
}

static uint64_t key_of_double(double score)
{
    uint64_t u;
    memcpy(&u, &score, sizeof u);
    uint64_t magnitude = u & UINT64_C(0x7fffffffffffffff);
    if (magnitude > UINT64_C(0x7ff0000000000000))
        return UINT64_MAX;
    if (magnitude == 0)
        u = 0;
    return u >> 63 ? u : ~(u | UINT64_C(0x8000000000000000));
}

/* Sorts indices 0..n-1 by key[index], equal ones by index, into out [n]. */
static void insert_sort(int32_t *out, const uint64_t *key, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t j = i;
        for (; j > 0 && key[out[j - 1]] > key[i]; j--)
            out[j] = out[j - 1];
        out[j] = (int32_t)i;
    }
}

/* The same by the bits first_bit .. n_bit - 1 alone, in stable passes from the lowest digit;
 * those whose digit is the same everywhere are left out. other: [n] scratch. */
static void radix_sort(int32_t *out, const uint64_t *key, int64_t n, int first_bit, int n_bit,
                       int32_t *other)
{
    int32_t *from = other, *to = out;
    int digit = digit_for(n);
    int64_t n_bucket = INT64_C(1) << digit;
    uint64_t mask = (uint64_t)n_bucket - 1;
    for (int64_t i = 0; i < n; i++)
        from[i] = (int32_t)i;
    for (int shift = first_bit; shift < n_bit; shift += digit) {
        int32_t start[N_BUCKET + 1];
        memset(start, 0, (size_t)(n_bucket + 1) * sizeof *start);
        for (int64_t i = 0; i < n; i++)
            start[((key[i] >> shift) & mask) + 1]++;
        if (start[((key[0] >> shift) & mask) + 1] == n)
            continue;
        for (int64_t b = 0; b < n_bucket; b++)
            start[b + 1] += start[b];
        for (int64_t i = 0; i < n; i++)
            to[start[(key[from[i]] >> shift) & mask]++] = from[i];
        int32_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != out)
        memcpy(out, from, (size_t)n * sizeof *out);
}

/* Puts indices right whose keys differ in bits that were not sorted by. False: more than a few
 * moves for each, so that all bits are to be sorted by. */
static bool put_right(int32_t *out, const uint64_t *key, int64_t n)
{
    int64_t left = MOVES * n;
    for (int64_t i = 1; i < n; i++) {
        int32_t at = out[i];
        int64_t j = i;
        for (; j > 0 && key[out[j - 1]] > key[at] && left > 0; j--, left--)
            out[j] = out[j - 1];
        out[j] = at;
    }
    return left > 0;
}

/* Keys become what they are above the least one. Returns how many bits that takes. */
static int lower_keys(uint64_t *key, int64_t n)
{
    uint64_t least = key[0], most = key[0];
    int n_bit = 0;
    for (int64_t i = 1; i < n; i++) {
        least = key[i] < least ? key[i] : least;
        most = key[i] > most ? key[i] : most;
    }
    for (int64_t i = 0; i < n; i++)
        key[i] -= least;
    for (most -= least; most; most >>= 1)
        n_bit++;
    return n_bit;
}

/* By the highest two or three digits first, which leave little to put right. */
static void rank_keys(int32_t *out, uint64_t *key, int64_t n, int32_t *other)
{
    if (n <= FEW) {
        insert_sort(out, key, n);
        return;
    }
    int n_bit = lower_keys(key, n), some = n_bit - (n > MANY ? 3 : 2) * digit_for(n);
    if (some > 0) {
        radix_sort(out, key, n, some, n_bit, other);
        if (put_right(out, key, n))
            return;
    }
    radix_sort(out, key, n, 0, n_bit, other);
}

bool select_rank(int32_t *out, const float *score, int64_t n, kvt_arena *work)
{
    assert(n >= 0 && n < INT32_MAX);
    size_t mark = kvt_arena_mark(work);
    uint64_t *key = kvt_arena_array(work, n, sizeof *key);
    int32_t *other = kvt_arena_array(work, n, sizeof *other);
    if (key && other) {
        for (int64_t i = 0; i < n; i++)
            key[i] = key_of(score[i]);
        rank_keys(out, key, n, other);
    }
    kvt_arena_rewind(work, mark);
    return key && other;
}

bool select_rank_double(int32_t *out, const double *score, int64_t n, kvt_arena *work)
{
    assert(n >= 0 && n < INT32_MAX);
    size_t mark = kvt_arena_mark(work);
    uint64_t *key = kvt_arena_array(work, n, sizeof *key);
    int32_t *other = kvt_arena_array(work, n, sizeof *other);
    if (key && other) {
        for (int64_t i = 0; i < n; i++)
            key[i] = key_of_double(score[i]);
        rank_keys(out, key, n, other);
    }
    kvt_arena_rewind(work, mark);
    return key && other;
}

/* The key that is the k-th smallest of key [n], k from 1 to n; *before: how many are smaller.
 * Digit by digit from the top; after the first digit only its bucket is looked at.
 * rest: [n] scratch. */
static uint32_t find_key(const uint32_t *key, int64_t n, int64_t k, uint32_t *rest,
                         int64_t *before)
{
    uint32_t prefix = 0;
    *before = 0;
    const uint32_t *in = key;
    for (int left = 32; left > 0;) {
        int digit = digit_for(n) < left ? digit_for(n) : left;
        int shift = left - digit;
        uint32_t mask = (1u << digit) - 1, bucket = 0;
        uint32_t count[N_BUCKET];
        memset(count, 0, ((size_t)mask + 1) * sizeof *count);
        for (int64_t i = 0; i < n; i++)
            count[(in[i] >> shift) & mask]++;
        while (*before + count[bucket] < k)
            *before += count[bucket++];
        int64_t m = 0;
        for (int64_t i = 0; i < n;
             i++) { /* no branch: rest[m] is written over if it is not taken */
            rest[m] = in[i];
            m += ((in[i] >> shift) & mask) == bucket;
        }
        prefix |= bucket << shift;
        in = rest;
        n = m;
        left = shift;
    }
    return prefix;
}

/* All but one are kept, as at each step of decode: the worst goes, of equal ones the last. */
static void drop_worst(bool *keep, const float *score, int64_t n)
{
    int64_t worst = 0;
    uint32_t worst_key = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t key = key_of(score[i]);
        worst = key >= worst_key ? i : worst;
        worst_key = key >= worst_key ? key : worst_key;
    }
    memset(keep, true, (size_t)n);
    keep[worst] = false;
}

bool select_best(bool *keep, const float *score, int64_t n, int64_t k, kvt_arena *work)
{
    assert(n >= 0 && n < INT32_MAX);
    if (k <= 0 || k >= n) {
        memset(keep, k > 0, (size_t)n);
        return true;
    }
    if (k == n - 1) {
        drop_worst(keep, score, n);
        return true;
    }
    size_t mark = kvt_arena_mark(work);
    uint32_t *key = kvt_arena_array(work, n, sizeof *key);
    uint32_t *rest = kvt_arena_array(work, n, sizeof *rest);
    if (key && rest) {
        for (int64_t i = 0; i < n; i++)
            key[i] = key_of(score[i]);
        int64_t before;
        uint32_t last = find_key(key, n, k, rest, &before);
        for (int64_t i = 0; i < n; i++)
            keep[i] = key[i] < last;
        int64_t ties = k - before;
        for (int64_t i = 0; ties > 0; i++) {
            if (key[i] == last) {
                keep[i] = true;
                ties--;
            }
        }
    }
    kvt_arena_rewind(work, mark);
    return key && rest;
}

/* a before b: the definition that everything above must agree with. */
static bool is_better(const float *score, int64_t a, int64_t b)
{
    if (isnan(score[a]) || isnan(score[b]))
        return isnan(score[a]) && isnan(score[b]) ? a < b : isnan(score[b]);
    return score[a] != score[b] ? score[a] > score[b] : a < b;
}

void select_best_plain(bool *keep, const float *score, int64_t n, int64_t k)
{
    memset(keep, 0, (size_t)n);
    for (int64_t taken = 0; taken < k && taken < n; taken++) {
        int64_t best = -1;
        for (int64_t i = 0; i < n; i++)
            if (!keep[i] && (best < 0 || is_better(score, i, best)))
                best = i;
        keep[best] = true;
    }
}
