/* calibrate_decode.c - t_layer, t_step, e_w and e_kv from measured decode steps. */
#include "replay/cost/calibrate_priv.h"

enum { POINTS_LEAST = 4 };

typedef struct kinds {
    int models, contexts, batches; /* 2 stands for more, too */
} kinds;

static kinds kinds_of(const cal *c, const int64_t *at, int64_t n)
{
    kinds k = {1, 1, 1};
    for (int64_t i = 1; i < n; i++) {
        const kvt_cost_point *p = &c->out->point[at[i]], *first = &c->out->point[at[0]];
        k.models = c->of[at[i]] != c->of[at[0]] ? 2 : k.models;
        k.contexts = p->prompt_tokens != first->prompt_tokens ? 2 : k.contexts;
        k.batches = p->batch != first->batch ? 2 : k.batches;
    }
    return k;
}

/* One model tells the time of its layers not from that of its weights: both are the same in all
 * of its steps. Then the fixed times stay. */
static void choose_unknowns(cal_unknowns *u, cal_set *s, const kinds *k)
{
    *u = (cal_unknowns){.field = {KVT_MACHINE_e_w, KVT_MACHINE_e_kv}, .n = 2};
    cal_set_field(&s->machine, KVT_MACHINE_host_floor_layer, 0);
    cal_set_field(&s->machine, KVT_MACHINE_host_floor_step, 0);
    if (k->models < 2)
        return;
    u->field[u->n++] = KVT_MACHINE_t_layer;
    cal_set_field(&s->machine, KVT_MACHINE_t_step, 0); /* inside the fit, or found by it */
    cal_set_field(&s->machine, KVT_MACHINE_t_req, 0);
}

kvt_code cal_decode(cal *c, const int64_t *at, int64_t n, double *left, kvt_err *err)
{
    cal_set s = {.c = c, .machine = c->out->machine, .quantity = CAL_DECODE, .at = at, .n = n};
    cal_unknowns u;
    double rms;
    fit made;
    if (cal_host(c, at, n))
        return KVT_OK;
    kinds k = kinds_of(c, at, n);
    if (n < POINTS_LEAST || (k.models < 2 && (k.contexts < 2 || k.batches < 2))) {
        cal_note(c,
                 "decode left as it was: expected %d points over two models, or two contexts "
                 "and two batch sizes",
                 POINTS_LEAST);
        return KVT_OK;
    }
    choose_unknowns(&u, &s, &k);
    if (cal_condition(&s, &u, err))
        return err->code;
    if (k.models > 1 && cal_try(&u, KVT_MACHINE_t_step, &s, err))
        return err->code;
    if (k.models < 2)
        cal_note(c, "one model: t_layer and t_step left as they were");
    if (cal_leave_out(&rms, left, &s, &u, err) || cal_fit(&s, &u, -1, &made, err))
        return err->code;
    cal_note_clamped(c, &s, &u, &made);
    c->out->machine = s.machine;
    c->fitted[CAL_DECODE] = true;
    return KVT_OK;
}
