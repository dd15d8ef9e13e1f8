/* pieces_sums.c - arithmetic of policies that add up what queries looked at: shares of a
 * budget, draws, values' lengths, masks, keys that repeat each other. */
#include "kvt/pieces.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

int64_t kvt_share_floor(double share, int64_t n)
{
    return (int64_t)floor(share * (double)n + 1e-9);
}

bool kvt_recent_fits(double recent, int64_t budget, int64_t n_token, char *why, size_t cap)
{
    if (budget >= n_token || recent == 0 || kvt_share_floor(recent, budget) > 0)
        return true;
    snprintf(why, cap, "recent=%g of a budget of %lld is no token", recent, (long long)budget);
    return false;
}

double kvt_gumbel(uint64_t *rng)
{
    double u = ((double)(kvt_random_bits(rng) >> 11) + 0.5) * 0x1p-53;
    return -log(-log(u));
}

/* ---- values --------------------------------------------------------------------------------
 */

bool kvt_add_by_length(float *mark, const kvt_view *rows, const kvt_view *values,
                       int64_t n_query, kvt_arena *scratch)
{
    int64_t n = values->dim[0];
    float *w = kvt_arena_array(scratch, n, sizeof *w);
    double sum = 0;
    if (!w)
        return false;
    kvt_add_rows(w, rows);
    for (int64_t s = 0; s < n; s++) {
        w[s] = (float)((double)w[s] * kvt_norm(kvt_row(values, s), values->dim[1]));
        sum += (double)w[s];
    }
    double scale = sum > 0 ? (double)(rows->dim[0] * n_query) / sum : 0;
    for (int64_t s = 0; s < n; s++)
        mark[s] += (float)((double)w[s] * scale);
    return true;
}

void kvt_sums_work(const void *params, kvt_work *work)
{
    (void)params;
    work->state_bytes_slot = sizeof(float);
    work->whole_rows = true;
}

/* ---- masks ---------------------------------------------------------------------------------
 */

void kvt_mask_add(kvt_lane *lane, const kvt_view *rows)
{
    for (int64_t h = 0; h < rows->dim[0]; h++)
        for (int64_t s = 0; s < lane->n_slot; s++)
            kvt_masks(lane)[s].sum += kvt_row(rows, h)[s];
}

void kvt_mask_score(const void *params, float *score, bool *pinned, const kvt_lane *lane)
{
    (void)params;
    for (int64_t s = 0; s < lane->n_slot; s++) {
        score[s] = kvt_masks(lane)[s].seen;
        pinned[s] = score[s] == 1;
    }
}

/* ---- bits ----------------------------------------------------------------------------------
 */

enum { WORD = 32 };

int64_t kvt_bit_words(int64_t n_bit)
{
    return (n_bit + WORD - 1) / WORD;
}

void kvt_put_bit(float *row, int64_t bit, bool on)
{
    uint32_t word;
    row += bit / WORD;
    memcpy(&word, row, sizeof word);
    word = (word & ~((uint32_t)1 << bit % WORD)) | ((uint32_t)on << bit % WORD);
    memcpy(row, &word, sizeof word);
}

int64_t kvt_count_bits(const float *row, int64_t n_word)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n_word; i++) {
        uint32_t word;
        memcpy(&word, row + i, sizeof word);
        for (; word; word &= word - 1)
            count++;
    }
    return count;
}

/* ---- keys that repeat each other -----------------------------------------------------------
 */

/* unit [S D] = keys over their length + 1e-8. */
static void unit_keys(float *unit, const kvt_view *keys)
{
    int64_t D = keys->dim[1];
    for (int64_t s = 0; s < keys->dim[0]; s++) {
        const float *k = kvt_row(keys, s);
        double length = kvt_norm(k, D) + 1e-8;
        for (int64_t d = 0; d < D; d++)
            unit[s * D + d] = (float)((double)k[d] / length);
    }
}

/* Adds row i of the cosines, c [n], which it changes, to sum [n]. */
static void add_cosines(double *sum, float *c, int64_t i, int64_t n,
                        const kvt_redundancy_rule *rule)
{
    int64_t found = rule->column_zero ? 0 : -1;
    bool any = false;
    c[i] = 0;
    for (int64_t s = 0; s < n; s++) {
        bool is_similar = (double)c[s] > rule->similar;
        if (is_similar && !(rule->spare_first && any))
            found = s;
        any |= is_similar;
    }
    if (found >= 0)
        c[found] = 0;
    for (int64_t s = 0; s < n; s++)
        sum[s] += (double)c[s];
}

bool kvt_redundancy(double *out, const kvt_view *keys, const kvt_redundancy_rule *rule,
                    kvt_arena *scratch)
{
    enum { TILE = 16 };
    int64_t n = keys->dim[0], D = keys->dim[1];
    float *unit = kvt_arena_array(scratch, n * D, sizeof *unit);
    float *tile = kvt_arena_array(scratch, TILE * n, sizeof *tile);
    double sum = 0;
    if (!unit || !tile)
        return false;
    unit_keys(unit, keys);
    for (int64_t s = 0; s < n; s++)
        out[s] = 0;
    for (int64_t at = 0; at < n; at += TILE) {
        int64_t rows = kvt_min(TILE, n - at);
        kvt_affine(tile, unit + at * D, D, rows, D, unit, NULL, n);
        for (int64_t i = 0; i < rows; i++)
            add_cosines(out, tile + i * n, at + i, n, rule);
    }
    for (int64_t s = 0; s < n; s++) /* means of cosines: no need to take the largest off */
        sum += out[s] = exp(out[s] / (double)n);
    for (int64_t s = 0; s < n; s++)
        out[s] /= sum;
    return true;
}
