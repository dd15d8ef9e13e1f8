/* measure.c - the registry of metrics, which of them are asked for, and quantiles. */
#include "replay/replay_priv.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define KVT_METRIC(id) extern const kvt_metric kvt_metric_##id;
#include "replay/metrics/metrics.def"
#undef KVT_METRIC

static const kvt_metric *const metrics[] = {
#define KVT_METRIC(id) &kvt_metric_##id,
#include "replay/metrics/metrics.def"
#undef KVT_METRIC
    NULL,
};
static_assert(sizeof metrics / sizeof metrics[0] <= 64, "a set of metrics is 64 bits");

const kvt_metric *const *kvt_metrics(void)
{
    return metrics;
}

const kvt_metric *kvt_metric_find(const char *name)
{
    for (int i = 0; metrics[i]; i++)
        if (strcmp(metrics[i]->name, name) == 0)
            return metrics[i];
    return NULL;
}

int kvt_metric_value(const char *column)
{
    int at = 0;
    for (int i = 0; metrics[i]; i++)
        for (const kvt_metric_column *c = metrics[i]->column; c->column; c++, at++)
            if (strcmp(c->column, column) == 0)
                return at;
    return -1;
}

bool measure_is_lane(const kvt_metric *m)
{
    return m->lane || m->ratio || m->turn;
}

int measure_lane_metrics(int out[LANE_METRICS_MAX])
{
    int n = 0;
    for (int i = 0; metrics[i]; i++) {
        assert(n < LANE_METRICS_MAX);
        if (measure_is_lane(metrics[i]))
            out[n++] = i;
    }
    return n;
}

/* ---- which are asked for -------------------------------------------------------------------
 */

/* Every metric, or those that need not be asked for. */
static uint64_t every_metric(bool extra)
{
    uint64_t set = 0;
    for (int i = 0; metrics[i]; i++)
        if (extra || !metrics[i]->extra)
            set |= UINT64_C(1) << i;
    return set;
}

static kvt_code add_named(uint64_t *set, const char *name, kvt_err *err)
{
    const char *known[64 + 3] = {"all", "default"};
    for (int i = 0; metrics[i]; i++) {
        if (strcmp(metrics[i]->name, name) == 0) {
            *set |= UINT64_C(1) << i;
            return KVT_OK;
        }
        known[i + 2] = metrics[i]->name;
    }
    const char *near = text_nearest(name, known);
    return kvt_fail(err, KVT_USAGE, "no metric '%.60s'%s%s%s", name,
                    near ? ", did you mean '" : " (kvt help --doc metrics lists them)",
                    near ? near : "", near ? "'?" : "");
}

kvt_code kvt_metrics_parse(uint64_t *set, const char *text, kvt_err *err)
{
    *set = every_metric(false);
    for (const char *at = text; at; at = *at ? at + 1 : NULL) {
        char name[64];
        size_t n = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", (int)(n < 63 ? n : 63), at);
        at += n;
        if (strcmp(name, "all") == 0)
            *set = every_metric(true);
        else if (strcmp(name, "default") != 0 && add_named(set, name, err))
            return err->code;
    }
    return KVT_OK;
}

/* ---- quantiles -----------------------------------------------------------------------------
 */

static void swap(double *a, double *b)
{
    double x = *a;
    *a = *b;
    *b = x;
}

/* Puts the k-th smallest of x [n] at its place, smaller ones before it (Hoare's selection with
 * the median of three). */
static void place(double *x, int64_t n, int64_t k)
{
    int64_t from = 0, to = n - 1;
    while (from < to) {
        int64_t mid = from + (to - from) / 2, i = from, j = to;
        if (x[mid] < x[from])
            swap(&x[mid], &x[from]);
        if (x[to] < x[from])
            swap(&x[to], &x[from]);
        if (x[to] < x[mid])
            swap(&x[to], &x[mid]);
        double pivot = x[mid];
        while (i <= j) {
            while (x[i] < pivot)
                i++;
            while (x[j] > pivot)
                j--;
            if (i <= j)
                swap(&x[i++], &x[j--]);
        }
        if (k <= j)
            to = j;
        else if (k >= i)
            from = i;
        else
            return;
    }
}

double measure_quantile(double *x, int64_t n, double q)
{
    if (n == 0)
        return NAN;
    double at = q * (double)(n - 1);
    int64_t k = (int64_t)floor(at);
    place(x, n, k);
    if (k + 1 >= n || at <= (double)k)
        return x[k];
    double next = x[k + 1];
    for (int64_t i = k + 2; i < n; i++)
        next = x[i] < next ? x[i] : next;
    return isinf(next) ? next : x[k] + (at - (double)k) * (next - x[k]);
}
