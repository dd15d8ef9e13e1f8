/* calibrate_evict.c - evict_factor from the longest eviction, evict_floor from the shortest. */
#include "replay/cost/calibrate_priv.h"

#include <math.h>

/* False: no point is left. */
static bool fit_evict(const cal *c, kvt_machine *m, const int64_t *at, int64_t n, int64_t skip)
{
    int64_t longest = -1, shortest = -1;
    for (int64_t i = 0; i < n; i++) {
        if (i == skip)
            continue;
        double moved = cal_eager(c, m, at[i]);
        if (longest < 0 || moved > cal_eager(c, m, longest))
            longest = at[i];
        if (shortest < 0 || moved < cal_eager(c, m, shortest))
            shortest = at[i];
    }
    if (longest < 0)
        return false;
    double most = kvt_machine_fields()[KVT_MACHINE_evict_factor].most;
    double factor = c->out->point[longest].measured_s / cal_eager(c, m, longest);
    cal_set_field(m, KVT_MACHINE_evict_factor, fmin(factor, most));
    if (shortest != longest)
        cal_set_field(m, KVT_MACHINE_evict_floor, c->out->point[shortest].measured_s);
    return true;
}

kvt_code cal_evict(cal *c, const int64_t *at, int64_t n, double *left, kvt_err *err)
{
    (void)err;
    for (int64_t i = 0; n >= CAL_LEAVE_OUT_LEAST && i < n; i++) {
        kvt_machine m = c->out->machine;
        if (fit_evict(c, &m, at, n, i))
            left[i] = cal_predict(c, &m, at[i]) / c->out->point[at[i]].measured_s - 1;
    }
    kvt_machine *m = &c->out->machine;
    if (!fit_evict(c, m, at, n, -1))
        return KVT_OK;
    if (n == 1)
        cal_note(c, "one eviction: evict_floor left at %g s", m->evict_floor);
    if (m->engine != KVT_ENGINE_EAGER)
        cal_note(c, "evict_factor counts under as-published");
    c->fitted[CAL_EVICT] = true;
    return KVT_OK;
}
