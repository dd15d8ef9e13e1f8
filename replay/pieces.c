/* pieces.c - arithmetic that policies, allocators and metrics share. */
#include "kvt/pieces.h"

#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "base/select.h"
#include "compute/slots.h"

/* Slots that are summed at a time, in doubles on the stack: one rounding a slot, and the same
 * one whatever lies around it, so that equal neighbourhoods stay equal. */
enum { BLOCK = 256 };

static int64_t pool_radius(int64_t width)
{
    return width > 0 ? width / 2 : 0;
}

void kvt_pool_mean(float *out, const float *in, int64_t n, int64_t width)
{
    int64_t r = pool_radius(width);
    for (int64_t at = 0; at < n; at += BLOCK) {
        double sum[BLOCK] = {0};
        int64_t end = kvt_min(at + BLOCK, n);
        for (int64_t d = -r; d <= r; d++) {
            int64_t from = kvt_max(at, -d), to = kvt_min(end, n - d);
            for (int64_t i = from; i < to; i++)
                sum[i - at] += (double)in[i + d];
        }
        for (int64_t i = at; i < end; i++)
            out[i] = (float)(sum[i - at] / (double)(2 * r + 1));
    }
}

static float larger(float a, float b)
{
    return a > b ? a : b;
}

/* out[i] becomes the maximum of itself and the one `step` to the right. */
static void fold_right(float *out, int64_t n, int64_t step)
{
    for (int64_t i = 0; i + step < n; i++)
        out[i] = larger(out[i], out[i + step]);
}

/* Windows that begin at each slot grow by doubling, then move half a width to the right; those
 * that would begin in front of slot 0 are taken from `in`. O(n log width), no memory. */
void kvt_pool_max(float *out, const float *in, int64_t n, int64_t width)
{
    int64_t r = pool_radius(width), full = 2 * r + 1, have = 1;
    if (n <= 0)
        return;
    memcpy(out, in, (size_t)n * sizeof *out);
    for (; 2 * have <= full; have *= 2)
        fold_right(out, n, have);
    if (full > have)
        fold_right(out, n, full - have);
    if (r < n)
        memmove(out + r, out, (size_t)(n - r) * sizeof *out);
    float head = in[0];
    for (int64_t i = 1; i < kvt_min(r, n); i++)
        head = larger(head, in[i]);
    for (int64_t i = 0; i < kvt_min(r, n); i++)
        out[i] = head = i + r < n ? larger(head, in[i + r]) : head;
}

void kvt_add_rows(float *mark, const kvt_view *attn)
{
    int64_t n = attn->dim[2];
    for (int64_t at = 0; at < n; at += BLOCK) {
        double sum[BLOCK];
        int64_t end = kvt_min(at + BLOCK, n);
        for (int64_t s = at; s < end; s++)
            sum[s - at] = (double)mark[s];
        for (int64_t h = 0; h < attn->dim[0]; h++)
            slots_pile(sum, kvt_head_row(attn, h, 0) + at, attn->stride[1], attn->dim[1],
                       end - at);
        for (int64_t s = at; s < end; s++)
            mark[s] = (float)sum[s - at];
    }
}

void kvt_mean_heads(float *out, const kvt_view *rows)
{
    int64_t n_head = rows->dim[0], n = rows->dim[1];
    for (int64_t at = 0; at < n; at += BLOCK) {
        double sum[BLOCK] = {0};
        int64_t end = kvt_min(at + BLOCK, n);
        for (int64_t h = 0; h < n_head; h++) {
            const float *row = kvt_head_row(rows, h, 0);
            for (int64_t s = at; s < end; s++)
                sum[s - at] += (double)row[s];
        }
        for (int64_t s = at; s < end; s++)
            out[s] = (float)(sum[s - at] / (double)n_head);
    }
}

int64_t kvt_pin_window(float *score, bool *pinned, int64_t n_slot, int64_t window)
{
    int64_t n = n_slot - window;
    if (n > 0) {
        for (int64_t s = n; s < n_slot; s++)
            pinned[s] = true;
        return n;
    }
    for (int64_t s = 0; s < n_slot; s++)
        score[s] = (float)(s - n_slot); /* below 0: it only ranks */
    return 0;
}

bool kvt_window_fits(int64_t window, int64_t budget, int64_t n_prompt, char *why, size_t cap)
{
    if (budget >= n_prompt || n_prompt <= window || budget >= window)
        return true;
    snprintf(why, cap, "a window of %lld needs a budget of %lld or more, got %lld",
             (long long)window, (long long)window, (long long)budget);
    return false;
}

int64_t kvt_keep_best(bool *keep, const float *score, const bool *pinned, int64_t n, int64_t k,
                      kvt_arena *scratch)
{
    size_t start = kvt_arena_mark(scratch);
    float *open = kvt_arena_array(scratch, n, sizeof *open);
    bool *best = kvt_arena_array(scratch, n, sizeof *best);
    int64_t n_open = 0, kept = -1;
    if (open && best) {
        for (int64_t s = 0; s < n; s++)
            if (!pinned || !pinned[s])
                open[n_open++] = score[s];
        if (select_best(best, open, n_open, kvt_min(kvt_max(k, 0), n_open), scratch)) {
            kept = 0;
            for (int64_t s = 0, at = 0; s < n; s++) {
                keep[s] = pinned && pinned[s] ? true : best[at++];
                kept += keep[s];
            }
        }
    }
    kvt_arena_rewind(scratch, start);
    return kept;
}

double kvt_random(uint64_t *rng)
{
    return rng_real(rng);
}
uint64_t kvt_random_bits(uint64_t *rng)
{
    return rng_bits(rng);
}
