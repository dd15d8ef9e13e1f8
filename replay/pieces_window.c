/* pieces_window.c - what policies share that look at the last prompt queries, keep the ends of
 * lanes, or choose without memory. */
#include "kvt/pieces.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const kvt_choice kvt_pool_kinds[KVT_N_POOL_KIND] = {
    [KVT_POOL_MAX] = {"max", "", "the largest nearby"},
    [KVT_POOL_AVG] = {"mean", "", "the mean nearby"},
};

int64_t kvt_window_rows(const void *params, int64_t n_prompt)
{
    return kvt_min(*(const int64_t *)params, n_prompt);
}

bool kvt_window_held(const void *params, int64_t budget, int64_t n_prompt, char *why,
                     size_t cap)
{
    return kvt_window_fits(*(const int64_t *)params, budget, n_prompt, why, cap);
}

int64_t kvt_lane_heads(const kvt_sequence *seq)
{
    return seq->geometry->n_head / seq->geometry->n_kv_head;
}

int kvt_layer_lanes(const kvt_lane *lane, int n_lane)
{
    int n = 0;
    while (n < n_lane && lane[n].layer == lane[0].layer)
        n++;
    return n;
}

void kvt_no_score(float *score, int64_t n)
{
    for (int64_t s = 0; s < n; s++)
        score[s] = NAN;
}

/* ---- votes ---------------------------------------------------------------------------------
 */

static void largest(float *vote, const float *row, int64_t n)
{
    for (int64_t s = 0; s < n; s++)
        vote[s] = row[s] > vote[s] ? row[s] : vote[s];
}

/* vote [S], which is 0; work [S]. */
static void count_votes(float *vote, const kvt_view *rows, int how, float *work)
{
    int64_t n = rows->dim[2], n_row = rows->dim[0] * rows->dim[1];
    if (how == KVT_VOTE_SUM || how == KVT_VOTE_MEAN)
        kvt_add_rows(vote, rows);
    for (int64_t s = 0; s < n && how == KVT_VOTE_MEAN; s++)
        vote[s] /= (float)n_row;
    for (int64_t i = 0; i < n_row && how == KVT_VOTE_MAX; i++)
        largest(vote,
                (const float *)rows->data + i / rows->dim[1] * rows->stride[0] +
                    i % rows->dim[1] * rows->stride[1],
                n);
    for (int64_t h = 0; h < rows->dim[0] && how == KVT_VOTE_HEAD; h++) {
        kvt_view one = kvt_heads_of(rows, h, 1);
        memset(work, 0, (size_t)n * sizeof *work);
        kvt_add_rows(work, &one);
        largest(vote, work, n);
    }
}

void kvt_vote(kvt_lane *lane, int64_t n_set, int how)
{
    int64_t n = lane->n_slot;
    float *vote = kvt_arena_array(lane->scratch, 2 * n, sizeof *vote);
    if (!vote)
        kvt_no_score(lane->mark, n * n_set);
    for (int64_t h = 0; vote && h < n_set; h++) {
        kvt_view rows = n_set > 1 ? kvt_heads_of(&lane->attn, h, 1) : lane->attn;
        memset(vote, 0, (size_t)n * sizeof *vote);
        count_votes(vote, &rows, how, vote + n);
        for (int64_t s = 0; s < n; s++)
            lane->mark[s * n_set + h] = vote[s];
    }
}

void kvt_pool_votes(float *out, const kvt_lane *lane, int64_t n, int64_t n_set, int64_t width,
                    int kind, int64_t divisor)
{
    float *vote = kvt_arena_array(lane->scratch, 2 * n, sizeof *vote);
    if (!vote)
        kvt_no_score(out, n);
    for (int64_t h = 0; vote && h < n_set; h++) {
        for (int64_t s = 0; s < n; s++)
            vote[s] = lane->mark[s * n_set + h];
        kvt_pool(vote + n, vote, n, width, kind);
        for (int64_t s = 0; s < n; s++)
            out[s] += vote[n + s] / (float)divisor;
    }
}

/* ---- ends of lanes -------------------------------------------------------------------------
 */

bool kvt_ends_fit(int64_t first, int64_t last, int64_t budget, int64_t n_token, char *why,
                  size_t cap)
{
    if (budget >= n_token || budget >= first + last)
        return true;
    snprintf(why, cap,
             "%lld first and %lld newest tokens need a budget of %lld or more, got %lld",
             (long long)first, (long long)last, (long long)(first + last), (long long)budget);
    return false;
}

void kvt_keep_ends(bool *const *keep, const kvt_lane *lane, int n_lane, const int32_t *cut,
                   int n_cut, int64_t first, int64_t hold, int64_t total)
{
    for (int i = 0; i < n_lane; i++) {
        total -= lane[i].n_slot;
        for (int64_t s = 0; s < lane[i].n_slot; s++)
            keep[i][s] = true;
    }
    for (int i = 0; i < n_cut; i++)
        total += lane[cut[i]].n_slot;
    for (int i = 0; i < n_cut; i++) {
        int64_t n_left = n_cut - i, N = lane[cut[i]].n_slot;
        int64_t n = hold > 0 ? hold : (total + n_left - 1) / n_left, front = kvt_min(first, n);
        total -= n;
        for (int64_t s = front; s < N - (n - front); s++)
            keep[cut[i]][s] = false;
    }
}

/* ---- choosing ------------------------------------------------------------------------------
 */

bool kvt_keep_budget(bool *keep, const float *score, const bool *pinned, int64_t n,
                     int64_t budget, kvt_arena *scratch)
{
    for (int64_t s = 0; s < n; s++)
        budget -= pinned[s];
    bool good = kvt_keep_best(keep, score, pinned, n, kvt_max(budget, 0), scratch) >= 0;
    kvt_keep_if(good, keep, n);
    return good;
}

bool kvt_keep_cover(bool *keep, const float *mass, int64_t n, double cover, int64_t most,
                    kvt_arena *scratch)
{
    double all = 0, sum = 0;
    int32_t *order = kvt_arena_array(scratch, n, sizeof *order);
    if (!order || !kvt_rank(order, mass, n, scratch))
        return false;
    for (int64_t s = 0; s < n; s++)
        all += (double)mass[s];
    for (int64_t i = 0; i < kvt_min(most, n) && all > 0; i++) {
        sum += (double)mass[order[i]] / all;
        if (sum >= cover)
            break;
        keep[order[i]] = true;
    }
    return true;
}

void kvt_keep_if(bool good, bool *keep, int64_t n)
{
    for (int64_t s = 0; !good && s < n; s++)
        keep[s] = true;
}

void kvt_select_pinned(const void *params, bool *const *keep, const kvt_lane *lane, int n_lane,
                       const float *const *score, const bool *const *pinned,
                       const int64_t *budget)
{
    (void)params, (void)score, (void)budget;
    for (int i = 0; i < n_lane; i++)
        memcpy(keep[i], pinned[i], (size_t)lane[i].n_slot * sizeof **keep);
}

void kvt_select_together(const void *params, bool *const *keep, const kvt_lane *lane,
                         int n_lane, const float *const *score, const bool *const *pinned,
                         const int64_t *budget)
{
    (void)params;
    kvt_keep_together(keep, lane, n_lane, score, pinned, budget);
}
