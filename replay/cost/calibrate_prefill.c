/* calibrate_prefill.c - e_lin, e_att and the constant of a prefill from measured lengths. */
#include "replay/cost/calibrate_priv.h"

#include <math.h>

enum { LENGTHS_APART = 4 };
#define BAND 0.03 /* of a calibrated prefill */

/* What a fit of two shares has inside: the model must not count it once more. */
static void take_inside(cal_set *s)
{
    cal_set_field(&s->machine, KVT_MACHINE_n_half, 0);
    cal_set_field(&s->machine, KVT_MACHINE_elementwise, 0);
    cal_set_field(&s->machine, KVT_MACHINE_t_ttft, 0);
    for (int64_t i = 0; i < s->n; i++)
        if (cal_geometry(s->c, s->at[i])->g.head_dim <= 64)
            cal_set_field(&s->machine, KVT_MACHINE_hd64_factor, 1);
}

static double lengths_apart(const cal_set *s)
{
    double least = (double)INFINITY, most = 0;
    for (int64_t i = 0; i < s->n; i++) {
        double n = (double)s->c->out->point[s->at[i]].prompt_tokens;
        least = fmin(least, n);
        most = fmax(most, n);
    }
    return most / least;
}

/* Three points leave nothing to judge a constant by: it is taken where two shares alone miss a
 * point by more than the band that is stated of them. */
static kvt_code try_third(cal_unknowns *u, const cal_set *s, kvt_err *err)
{
    cal_set trial = *s;
    cal_unknowns more = *u;
    fit made;
    bool missed = false;
    if (cal_fit(&trial, u, -1, &made, err))
        return err->code;
    for (int64_t i = 0; i < s->n; i++) {
        double measured = s->c->out->point[s->at[i]].measured_s;
        missed |= fabs(cal_predict(s->c, &trial.machine, s->at[i]) / measured - 1) > BAND;
    }
    more.field[more.n++] = KVT_MACHINE_t_ttft;
    trial = *s;
    if (missed && !cal_fit(&trial, &more, -1, &made, err) &&
        made.condition <= CAL_CONDITION_MOST)
        *u = more;
    return KVT_OK;
}

kvt_code cal_prefill(cal *c, const int64_t *at, int64_t n, double *left, kvt_err *err)
{
    cal_set s = {.c = c, .machine = c->out->machine, .quantity = CAL_PREFILL, .at = at, .n = n};
    cal_unknowns u = {.field = {KVT_MACHINE_e_lin, KVT_MACHINE_e_att}, .n = 2};
    double rms;
    fit made;
    if (n < 2) {
        cal_note(c, "prefill left as it was: %lld point, expected 2", (long long)n);
        return KVT_OK;
    }
    take_inside(&s);
    if (cal_condition(&s, &u, err))
        return err->code;
    if (lengths_apart(&s) < LENGTHS_APART) {
        cal_note(c, "prefill left as it was: lengths a factor %.2g apart, expected %d",
                 lengths_apart(&s), LENGTHS_APART);
        return KVT_OK;
    }
    kvt_code code = KVT_OK;
    if (n == 3)
        code = try_third(&u, &s, err);
    else if (n > 3)
        code = cal_try(&u, KVT_MACHINE_t_ttft, &s, err);
    if (!code && n >= CAL_LEAVE_OUT_LEAST)
        code = cal_leave_out(&rms, left, &s, &u, err);
    if (!code)
        code = cal_fit(&s, &u, -1, &made, err);
    if (code)
        return code;
    cal_note_clamped(c, &s, &u, &made);
    c->out->machine = s.machine;
    c->fitted[CAL_PREFILL] = true;
    return KVT_OK;
}
