/* pieces_together.c - lanes that keep the same slots, and the order of a prompt that is no
 * longer than its window. */
#include "kvt/pieces.h"

void kvt_keep_together(bool *const *keep, const kvt_lane *lane, int n_lane,
                       const float *const *score, const bool *const *pinned,
                       const int64_t *budget)
{
    kvt_arena *a = lane[0].scratch;
    size_t start = kvt_arena_mark(a);
    int64_t n = lane[0].n_slot, k = 0;
    float *sum = kvt_arena_array(a, n, sizeof *sum);
    for (int i = 0; i < n_lane; i++)
        k += budget[i];
    k /= n_lane;
    for (int64_t s = 0; s < n; s++)
        k -= pinned[0][s];
    for (int64_t s = 0; sum && s < n; s++) {
        double x = 0;
        for (int i = 0; i < n_lane; i++)
            x += (double)score[i][s];
        sum[s] = (float)x;
    }
    bool good = sum && kvt_keep_best(keep[0], sum, pinned[0], n, k, a) >= 0;
    for (int i = 0; i < n_lane; i++)
        for (int64_t s = 0; s < n; s++)
            keep[i][s] = !good || keep[0][s];
    kvt_arena_rewind(a, start);
}

bool kvt_is_latest(const float *score, const bool *pinned, int64_t n_slot)
{
    for (int64_t s = 0; s < n_slot; s++)
        if (pinned[s] || score[s] != (float)(s - n_slot))
            return false;
    return true;
}
