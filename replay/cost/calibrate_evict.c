/* calibrate_evict.c - evict_factor from the longest eviction, evict_floor from the shortest
 * where that takes longer than its traffic. */
#include "replay/cost/calibrate_priv.h"

#include <math.h>

#define FLOOR_USUAL 0.011 /* s: what holds where nothing is known, as in published.csv */
#define ABOVE       1.1   /* of what its traffic takes: more is the floor's */

/* The floor shows where the shortest eviction takes longer than its traffic; no floor is longer
 * than an eviction that was measured. Otherwise it stays, or is the usual one. */
static void fit_floor(const cal *c, kvt_machine *m, int64_t shortest)
{
    double measured = c->out->point[shortest].measured_s;
    bool known = m->evict_floor > 0;
    double floor = known ? m->evict_floor : FLOOR_USUAL;
    if (measured > ABOVE * m->evict_factor * cal_eager(c, m, shortest) || measured < floor) {
        cal_set_field(m, KVT_MACHINE_evict_floor, measured);
    } else if (!known) {
        m->evict_floor = floor;
        m->origin[KVT_MACHINE_evict_floor] = KVT_ORIGIN_DEFAULT;
    }
}

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
    fit_floor(c, m, shortest);
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
    if (m->origin[KVT_MACHINE_evict_floor] != KVT_ORIGIN_CALIBRATED)
        cal_note(c, "no eviction is short enough: evict_floor left at %g s", m->evict_floor);
    const char *policy = c->out->point[at[0]].policy;
    cal_note(c, "evict_factor%s%s counts for every policy%s", policy[0] ? " of " : "", policy,
             m->engine == KVT_ENGINE_EAGER ? "" : ", under as-published");
    c->fitted[CAL_EVICT] = true;
    return KVT_OK;
}
