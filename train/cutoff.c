/* cutoff.c - KVpop's loss at the boundary (train/cutoff.h). */
#include "train/cutoff.h"

#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "base/running.h"
#include "base/select.h"

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double softplus(double x)
{
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

double cutoff_gamma(double a, double *slope)
{
    const double low = log(0.999), high = log(0.999999);
    double s = sigmoid(a);
    if (slope)
        *slope = s * (1 - s) * (high - low);
    return low + s * (high - low);
}

void cutoff_effective(double *out, const double *score, int64_t first, int64_t end, int64_t q,
                      int64_t decay_step, double log_gamma)
{
    for (int64_t t = first; t < end; t++)
        out[t - first] = score[t] + (double)((q - t) / decay_step) * log_gamma;
}

/* ---- pairs ----------------------------------------------------------------------------------
 */

static int by_query(const void *a, const void *b)
{
    const cutoff_pair *p = a, *q = b;
    return p->query != q->query ? (p->query > q->query) - (p->query < q->query)
                                : (p->slots > q->slots) - (p->slots < q->slots);
}

static void draw_queries(const cutoff_spec *s, int64_t end, cutoff_pair *pair, int64_t n,
                         uint64_t rng[4])
{
    int64_t least = s->slots > 0 ? s->slots : 1, low = s->sinks + least;
    for (int64_t i = 0; i < n; i++) {
        double u = rng_real(rng), late = rng_real(rng), part = rng_real(rng);
        u = late < s->late ? sqrt(u) : u;
        int64_t fresh = low + (int64_t)(u * (double)(end - low));
        fresh = fresh < end ? fresh : end - 1;
        double left = (double)(fresh - s->sinks + 1);
        double k = s->slots > 0 ? (double)s->slots
                                : floor(left * s->least * pow(s->most / s->least, part) + 0.5);
        k = k < 1 ? 1 : k > left - 1 ? left - 1 : k;
        pair[i] = (cutoff_pair){.fresh = (int32_t)fresh,
                                .query = (int32_t)(fresh + s->window),
                                .slots = (int32_t)k,
                                .omega = 1};
    }
    qsort(pair, (size_t)n, sizeof *pair, by_query);
}

/* order: the tokens that left, from s->sinks on, best first. */
static void set_bound(const cutoff_spec *s, cutoff_pair *p, int32_t worst, int32_t next,
                      bool keeps)
{
    p->keeps = keeps;
    p->bound = worst == p->fresh ? next : worst;
    p->age = (int32_t)((p->query - p->fresh) / s->decay_step -
                       (p->query - p->bound) / s->decay_step);
}

/* With a decay step of 1 the order of all tokens is the same at every query. */
static bool bounds_static(const cutoff_spec *s, const double *target, int64_t end,
                          double log_gamma, cutoff_pair *pair, int64_t n, kvt_arena *work)
{
    running_tree tree;
    double *score = kvt_arena_array(work, end - s->sinks, sizeof *score);
    if (!score)
        return false;
    cutoff_effective(score, target, s->sinks, end, end, 1, log_gamma);
    if (!running_tree_new(&tree, score, end - s->sinks, work))
        return false;
    int64_t come = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t fresh = pair[i].fresh - s->sinks;
        while (come <= fresh)
            running_tree_add(&tree, come++);
        int64_t worst = running_tree_kth(&tree, pair[i].slots);
        int64_t next = running_tree_kth(&tree, pair[i].slots + 1);
        set_bound(s, &pair[i], (int32_t)(worst + s->sinks), (int32_t)(next + s->sinks),
                  tree.place[fresh] <= tree.place[worst]);
    }
    return true;
}

static bool bounds_stepped(const cutoff_spec *s, const double *target, double log_gamma,
                           cutoff_pair *p, kvt_arena *work)
{
    int64_t n = p->fresh - s->sinks + 1;
    double *score = kvt_arena_array(work, n, sizeof *score);
    int32_t *order = kvt_arena_array(work, n, sizeof *order);
    if (!score || !order)
        return false;
    cutoff_effective(score, target, s->sinks, p->fresh + 1, p->query, s->decay_step, log_gamma);
    if (!select_rank_double(order, score, n, work))
        return false;
    bool keeps = false;
    for (int64_t i = 0; i < p->slots; i++)
        keeps = keeps || order[i] == n - 1;
    set_bound(s, p, order[p->slots - 1] + (int32_t)s->sinks,
              order[p->slots] + (int32_t)s->sinks, keeps);
    return true;
}

static void weigh(const cutoff_spec *s, const double *target, double log_gamma,
                  cutoff_pair *pair, int64_t n)
{
    double kept = 0, sum = 0;
    for (int64_t i = 0; i < n; i++)
        kept += pair[i].keeps;
    for (int64_t i = 0; i < n; i++) {
        cutoff_pair *p = &pair[i];
        double gap = target[p->fresh] - target[p->bound] + p->age * log_gamma;
        gap = p->keeps ? gap : -gap;
        p->omega = s->margin + (1 - s->margin) * sigmoid(gap / s->margin_scale);
        double part = (p->keeps ? kept : (double)n - kept) / (double)n;
        if (s->balance)
            p->omega *= fmin(fmax(1 / (2 * part), s->balance_least), s->balance_most);
        sum += p->omega;
    }
    for (int64_t i = 0; i < n; i++)
        pair[i].omega *= (double)n / sum;
}

int64_t cutoff_draw(const cutoff_spec *s, const double *target, int64_t end, double log_gamma,
                    cutoff_pair *pair, int64_t n, uint64_t rng[4], kvt_arena *work)
{
    int64_t least = s->slots > 0 ? s->slots : 1;
    if (end - s->sinks < least + 1 || n < 1)
        return 0;
    draw_queries(s, end, pair, n, rng);
    size_t mark = kvt_arena_mark(work);
    bool ok =
        s->decay_step == 1 ? bounds_static(s, target, end, log_gamma, pair, n, work) : true;
    for (int64_t i = 0; ok && s->decay_step > 1 && i < n; i++) {
        size_t inner = kvt_arena_mark(work);
        ok = bounds_stepped(s, target, log_gamma, &pair[i], work);
        kvt_arena_rewind(work, inner);
    }
    kvt_arena_rewind(work, mark);
    if (!ok)
        return -1;
    weigh(s, target, log_gamma, pair, n);
    return n;
}

/* ---- loss -----------------------------------------------------------------------------------
 */

double cutoff_loss(const cutoff_spec *s, const cutoff_pair *pair, int64_t n, const int32_t *at,
                   const float *score, double log_gamma, double weight, float *slope,
                   double *slope_gamma)
{
    double sum = 0, by_gamma = 0;
    for (int64_t i = 0; i < n; i++) {
        const cutoff_pair *p = &pair[i];
        double y = p->keeps ? 1 : -1, age = s->effective ? p->age : 0;
        double gap = (double)score[at[p->fresh]] - (double)score[at[p->bound]];
        double z = -y * (gap + age * log_gamma) / s->tau;
        sum += p->omega * softplus(z);
        double by_gap = -weight * p->omega * y * sigmoid(z) / s->tau;
        by_gamma += by_gap * age;
        if (slope) {
            slope[at[p->fresh]] += (float)by_gap;
            slope[at[p->bound]] -= (float)by_gap;
        }
    }
    if (slope_gamma)
        *slope_gamma += by_gamma;
    return sum;
}
