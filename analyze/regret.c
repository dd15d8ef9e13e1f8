/* regret.c - the smallest set of evicted tokens that carries most of the regret. */
#include "analyze/regret.h"

#include <math.h>
#include <string.h>

#include "base/select.h"
#include "kvt/arena.h"

kvt_code regret_mark(bool *marked, regret_sum *sum, const bool *held, const bool *judged,
                     const double *mass, int64_t n, double share, kvt_err *err)
{
    memset(marked, 0, (size_t)n * sizeof *marked);
    *sum = (regret_sum){0};
    kvt_arena *work = kvt_arena_new((size_t)n * 64 + (1 << 20));
    double *missing = work ? kvt_arena_array(work, n, sizeof *missing) : NULL;
    int32_t *order = work ? kvt_arena_array(work, n, sizeof *order) : NULL;
    if (missing == NULL || order == NULL)
        goto no_memory;
    for (int64_t t = 0; t < n; t++) {
        bool is_missing = judged[t] && !held[t] && mass[t] > 0;
        missing[t] = is_missing ? mass[t] : 0;
        sum->missing += judged[t] && !held[t];
        sum->mass += judged[t] && !held[t] ? mass[t] : 0;
        sum->mass -= held[t] && !judged[t] ? mass[t] : 0;
    }
    if (!select_rank_double(order, missing, n, work))
        goto no_memory;
    double wanted = share * fmax(sum->mass, 0), carried = 0;
    for (int64_t i = 0; i < n && carried < wanted && missing[order[i]] > 0; i++) {
        marked[order[i]] = true;
        carried += missing[order[i]];
        sum->regretted++;
    }
    kvt_arena_free(work);
    return KVT_OK;

no_memory:
    kvt_arena_free(work);
    return kvt_fail_memory(err, (size_t)n * 64);
}
