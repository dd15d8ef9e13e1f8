/* support.c - how many keys hold most of a row, and which are heavy.
 *
 * Halves from 0 to 1 sort as their bits do: two histograms, by the upper and by the lower bits,
 * find the key at which a share is reached without sorting the row. */
#include "replay/replay_priv.h"

#include <math.h>

#include "base/half.h"

enum { LOW_BITS = 7, LOWS = 1 << LOW_BITS, HIGHS = (0x3c00 >> LOW_BITS) + 1 };

/* How many of the row's largest values in one upper bin it takes from `sum` to `want`. */
static int64_t within(const uint16_t *row, int64_t n, int high, double sum, double want)
{
    int64_t count[LOWS] = {0}, taken = 0;
    for (int64_t i = 0; i < n; i++)
        if (row[i] >> LOW_BITS == high)
            count[row[i] & (LOWS - 1)]++;
    for (int low = LOWS - 1; low >= 0; low--) {
        double value = (double)half_to_float((uint16_t)(high << LOW_BITS | low));
        for (int64_t k = 0; k < count[low] && sum < want; k++, taken++)
            sum += value;
    }
    return taken;
}

void support_of(float *out, const uint16_t *row, int64_t n)
{
    static const double share[KVT_SUPPORTS] = {0.9, 0.95, 0.99};
    double sum[HIGHS] = {0}, all = 0;
    int64_t count[HIGHS] = {0};
    for (int64_t i = 0; i < n; i++) {
        int high = row[i] >> LOW_BITS;
        high =
            high < HIGHS ? high : HIGHS - 1; /* a row that is no softmax: counted, not told */
        sum[high] += (double)half_to_float(row[i]);
        count[high]++;
    }
    for (int b = 0; b < HIGHS; b++)
        all += sum[b];
    for (int k = 0; k < KVT_SUPPORTS; k++) {
        double want = share[k] * all, have = 0;
        int64_t taken = 0;
        int b = HIGHS - 1;
        for (; b > 0 && have + sum[b] < want; b--) {
            have += sum[b];
            taken += count[b];
        }
        out[k] = all > 0 ? (float)(taken + within(row, n, b, have, want)) : NAN;
    }
}

void support_heavy(int32_t *token, const uint16_t *row, int64_t n)
{
    int64_t found = 0;
    for (int64_t i = 0; i < n && found < HEAVY_MAX; i++)
        if ((double)half_to_float(row[i]) > 0.05)
            token[found++] = (int32_t)i;
    while (found < HEAVY_MAX)
        token[found++] = -1;
}
