/* judge.c - does a score keep what its targets would keep? (train/judge.h) */
#include "train/judge.h"

#include <math.h>

#include "base/select.h"

static const double judge_share = 0.1;

bool judge_best(const double *rank, const double *mass, const double *score, int64_t n,
                fit_sum *sum, kvt_arena *work)
{
    int64_t keep = (int64_t)floor(judge_share * (double)n + 0.5);
    if (n < 2)
        return true;
    keep = keep < 1 ? 1 : keep;
    size_t mark = kvt_arena_mark(work);
    int32_t *best = kvt_arena_array(work, 2 * n, sizeof *best), *mine = best + n;
    bool *in = kvt_arena_array(work, n, sizeof *in);
    bool ok = best && in && select_rank_double(best, rank, n, work) &&
              select_rank_double(mine, score, n, work);
    double hits = 0, all = 0, got = 0;
    for (int64_t i = 0; ok && i < n; i++)
        all += mass[i];
    for (int64_t i = 0; ok && i < keep; i++)
        in[best[i]] = true;
    for (int64_t i = 0; ok && i < keep; i++) {
        hits += in[mine[i]];
        got += mass[mine[i]];
    }
    if (ok && all > 0) {
        sum->recall += hits / (double)keep;
        sum->lost += 1 - got / all;
        sum->n_recall += 1;
    }
    kvt_arena_rewind(work, mark);
    return ok;
}
