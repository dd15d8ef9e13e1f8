/* pareto.c - points that no other one beats in both cost and loss. */
#include "kvt/analyze.h"

#include <math.h>
#include <stdlib.h>

#include "kvt/arena.h"

typedef struct point {
    double cost, loss;
    int64_t at;
} point;

static int by_cost(const void *a_, const void *b_)
{
    const point *a = a_, *b = b_;
    int c = (a->cost > b->cost) - (a->cost < b->cost);
    return c ? c : (a->loss > b->loss) - (a->loss < b->loss);
}

/* By rising cost a point is on the front where it loses less than all that are cheaper; of
 * equal cost only those that lose least, all of them. */
static void sweep(bool *on_front, const point *p, int64_t n)
{
    double least = 0;
    for (int64_t i = 0; i < n;) {
        double cost = p[i].cost, loss = p[i].loss;
        bool better = i == 0 || loss < least;
        for (; i < n && p[i].cost == cost; i++)
            on_front[p[i].at] = better && p[i].loss == loss;
        if (better)
            least = loss;
    }
}

kvt_code kvt_pareto(bool *on_front, const double *cost, const double *loss, int64_t n,
                    kvt_err *err)
{
    point *p = kvt_alloc(n, sizeof *p);
    int64_t n_known = 0;
    if (!p)
        return kvt_fail_memory(err, (size_t)n * sizeof *p);
    for (int64_t i = 0; i < n; i++) {
        on_front[i] = false;
        if (!isnan(cost[i]) && !isnan(loss[i]))
            p[n_known++] = (point){cost[i], loss[i], i};
    }
    qsort(p, (size_t)n_known, sizeof *p, by_cost);
    sweep(on_front, p, n_known);
    kvt_free(p);
    return KVT_OK;
}
