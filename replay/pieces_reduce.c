/* pieces_reduce.c - rows of attention become one score a slot: heads and neighbours, in either
 * order (kvt/pieces.h says the formula). */
#include "kvt/pieces.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const kvt_choice reduces[] = {
    [KVT_REDUCE_MEAN] = {"mean", "", "the mean over the query heads of the lane"},
    [KVT_REDUCE_MAX] = {"max", "", "the largest over the query heads of the lane"},
};

static const kvt_choice kinds[] = {
    [KVT_POOL_MAX] = {"max", "", "the largest value nearby"},
    [KVT_POOL_AVG] = {"avg", "", "the mean value nearby; what lies outside counts as 0"},
};

static const kvt_choice orders[] = {
    [KVT_ORDER_REDUCE_POOL] = {"reduce-pool", "", "heads are reduced, then pooled"},
    [KVT_ORDER_POOL_REDUCE] = {"pool-reduce", "", "each head is pooled, then reduced"},
};

const kvt_param kvt_reduction_params[] = {
    KVT_PARAM_CHOICE(kvt_reduction, reduce, KVT_REDUCE_MEAN, reduces,
                     "what the query heads of a lane are reduced to"),
    KVT_PARAM(kvt_reduction, pool, 7, 0, 255, "tokens", "width of the pool, odd; 0: none"),
    KVT_PARAM_CHOICE(kvt_reduction, kind, KVT_POOL_MAX, kinds, "what the pool takes"),
    KVT_PARAM_CHOICE(kvt_reduction, order, KVT_ORDER_REDUCE_POOL, orders,
                     "what comes first, heads or pool"),
    KVT_PARAM(kvt_reduction, recent, 0, 0, 4096, "tokens", "last tokens that are always kept"),
    {0},
};

bool kvt_reduction_fits(const void *reduction, int64_t budget, int64_t n_token, char *why,
                        size_t cap)
{
    const kvt_reduction *r = reduction;
    int64_t pinned = kvt_min(r->recent, n_token);
    if (r->pool > 0 && r->pool % 2 == 0) {
        snprintf(why, cap, "a pool of %lld has no middle: expected an odd width",
                 (long long)r->pool);
        return false;
    }
    if (pinned <= budget)
        return true;
    snprintf(why, cap, "%lld recent tokens need a budget of %lld or more, got %lld",
             (long long)pinned, (long long)pinned, (long long)budget);
    return false;
}

void kvt_pool(float *out, const float *in, int64_t n, int64_t width, int kind)
{
    if (width <= 1 && n > 0)
        memcpy(out, in, (size_t)n * sizeof *out);
    else if (kind == KVT_POOL_AVG)
        kvt_pool_mean(out, in, n, width);
    else
        kvt_pool_max(out, in, n, width);
}

/* mass [S] of one head. */
static void head_mass(float *mass, const kvt_view *rows, int64_t head)
{
    kvt_view one = *rows;
    one.data = (const float *)rows->data + head * rows->stride[0];
    one.dim[0] = 1;
    memset(mass, 0, (size_t)rows->dim[2] * sizeof *mass);
    kvt_add_rows(mass, &one);
}

/* All heads in one sum, rounded once: the arithmetic of `oracle`, bit for bit. */
static void mean_mass(float *out, const kvt_view *rows)
{
    memset(out, 0, (size_t)rows->dim[2] * sizeof *out);
    kvt_add_rows(out, rows);
    for (int64_t s = 0; s < rows->dim[2]; s++)
        out[s] /= (float)rows->dim[0];
}

/* out[s] = mean or maximum over heads of what `width` makes of each; two arrays of work. */
static void fold_heads(float *out, const kvt_view *rows, const kvt_reduction *r, int64_t width,
                       float *work)
{
    int64_t n = rows->dim[2];
    float *mass = work, *pooled = work + n;
    for (int64_t h = 0; h < rows->dim[0]; h++) {
        head_mass(mass, rows, h);
        kvt_pool(pooled, mass, n, width, r->kind);
        for (int64_t s = 0; s < n; s++) {
            if (r->reduce == KVT_REDUCE_MAX)
                out[s] = h && out[s] > pooled[s] ? out[s] : pooled[s];
            else
                out[s] = (h ? out[s] : 0) + pooled[s] / (float)rows->dim[0];
        }
    }
}

void kvt_reduce_rows(float *score, bool *pinned, const kvt_view *rows, const kvt_reduction *r,
                     kvt_arena *scratch)
{
    int64_t n = rows->dim[2];
    size_t start = kvt_arena_mark(scratch);
    float *work = kvt_arena_array(scratch, 3 * n + 1, sizeof *work);
    for (int64_t s = kvt_max(n - r->recent, 0); s < n; s++)
        pinned[s] = true;
    if (!work) {
        for (int64_t s = 0; s < n; s++)
            score[s] = NAN;
    } else if (r->order == KVT_ORDER_POOL_REDUCE && r->pool > 1) {
        fold_heads(score, rows, r, r->pool, work);
    } else {
        float *mass = work + 2 * n;
        if (r->reduce == KVT_REDUCE_MEAN)
            mean_mass(mass, rows);
        else
            fold_heads(mass, rows, r, 0, work);
        kvt_pool(score, mass, n, r->pool, r->kind);
    }
    kvt_arena_rewind(scratch, start);
}
