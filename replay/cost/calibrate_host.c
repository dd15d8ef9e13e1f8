/* calibrate_host.c - decode steps that the host's time hides: they do not follow the context.
 */
#include "replay/cost/calibrate_priv.h"

#include <math.h>

enum { CONTEXTS_APART = 2 };
#define FLAT         0.05 /* steps that differ by less are as long */
#define ABOVE_DEVICE 1.3  /* of what the device is predicted to take */

static bool same_group(const cal *c, int64_t a, int64_t b)
{
    const kvt_cost_point *p = &c->out->point[a], *q = &c->out->point[b];
    return c->of[a] == c->of[b] && p->batch == q->batch && p->kv_bits == q->kv_bits &&
           p->weight_bits == q->weight_bits;
}

static bool is_shortest(const cal *c, const int64_t *at, int64_t n, int64_t i)
{
    for (int64_t k = 0; k < n; k++) {
        int64_t x = c->out->point[at[k]].prompt_tokens;
        int64_t y = c->out->point[at[i]].prompt_tokens;
        if (same_group(c, at[k], at[i]) && (x < y || (x == y && k < i)))
            return false;
    }
    return true;
}

static bool is_flat(const cal *c, int64_t point, int64_t shortest)
{
    double share = c->out->point[point].measured_s / c->out->point[shortest].measured_s;
    return same_group(c, point, shortest) && fabs(share - 1) <= FLAT;
}

/* The step of the device alone, on the machine as it came. */
static double device_time(const cal *c, int64_t point)
{
    kvt_machine m = c->out->machine;
    kvt_decode_cost cost;
    m.host_floor_layer = m.host_floor_step = 0;
    cal_step(&cost, c, &m, point);
    return cost.total;
}

/* The longest point that takes as long as the shortest of its group; -1: the device explains
 * the time, or the contexts are too near. */
static int64_t longest_flat(const cal *c, const int64_t *at, int64_t n, int64_t shortest)
{
    int64_t best = shortest;
    for (int64_t k = 0; k < n; k++)
        if (is_flat(c, at[k], shortest) &&
            c->out->point[at[k]].prompt_tokens > c->out->point[best].prompt_tokens)
            best = at[k];
    const kvt_cost_point *p = &c->out->point[best];
    bool far = p->prompt_tokens >= CONTEXTS_APART * c->out->point[shortest].prompt_tokens;
    return far && p->measured_s > ABOVE_DEVICE * device_time(c, best) ? best : -1;
}

/* The host's time behind a step: that of the smooth maximum with the device's. */
static double host_time(const cal *c, int64_t point)
{
    double step = c->out->point[point].measured_s, s = c->out->machine.host_smooth;
    double device = device_time(c, point);
    return s > 0 ? step * pow(1 - pow(device / step, s), 1 / s) : step;
}

bool cal_host(cal *c, const int64_t *at, int64_t n)
{
    double up = 0, down = 0; /* relative least squares of layers x floor */
    for (int64_t i = 0; i < n; i++) {
        if (!is_shortest(c, at, n, i) || longest_flat(c, at, n, at[i]) < 0)
            continue;
        for (int64_t k = 0; k < n; k++) {
            double step = c->out->point[at[k]].measured_s;
            double share = (double)cal_geometry(c, at[k])->g.n_layer / step;
            if (!is_flat(c, at[k], at[i]))
                continue;
            up += share * host_time(c, at[k]) / step;
            down += share * share;
        }
    }
    if (!(down > 0))
        return false;
    cal_set_field(&c->out->machine, KVT_MACHINE_host_floor_layer, up / down);
    cal_set_field(&c->out->machine, KVT_MACHINE_host_floor_step, 0);
    cal_note(c,
             "decode does not follow the context: a host floor of %.4g us a layer; e_w, e_kv "
             "and t_layer left as they were",
             up / down * 1e6);
    c->out->host_bound = c->fitted[CAL_DECODE] = true;
    return true;
}
