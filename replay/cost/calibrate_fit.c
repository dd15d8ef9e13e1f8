/* calibrate_fit.c - linear fits to measured points: columns, bounds, points left out.
 *
 * The columns are what the model itself gives for a constant of 1 when nothing else limits it,
 * so that a fit and the prediction that is made with it never differ in what they count. */
#include "replay/cost/calibrate_priv.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kvt/arena.h"

#define ENDLESS 1e300 /* a rate that limits nothing */

/* ---- fields of a machine -------------------------------------------------------------------
 */

static double *place(kvt_machine *m, kvt_machine_field field)
{
    return (double *)((char *)m + kvt_machine_fields()[field].offset);
}

double cal_get(const kvt_machine *m, kvt_machine_field field)
{
    double x;
    memcpy(&x, (const char *)m + kvt_machine_fields()[field].offset, sizeof x);
    return x;
}

void cal_set_field(kvt_machine *m, kvt_machine_field field, double value)
{
    *place(m, field) = value;
    m->origin[field] = KVT_ORIGIN_CALIBRATED;
}

static bool is_share(kvt_machine_field f)
{
    return f == KVT_MACHINE_e_lin || f == KVT_MACHINE_e_att || f == KVT_MACHINE_e_w ||
           f == KVT_MACHINE_e_kv;
}

/* Of the unknown itself: the inverse of a share in [0.02, 1], a time from 0. */
static fit_bound bound_of(kvt_machine_field f)
{
    return is_share(f) ? (fit_bound){1, 50} : (fit_bound){0, kvt_machine_fields()[f].most};
}

void cal_note(cal *c, const char *fmt, ...)
{
    char *note = c->out->note;
    size_t at = strlen(note), cap = sizeof c->out->note;
    va_list list;
    va_start(list, fmt);
    if (at && at + 2 < cap)
        at += (size_t)snprintf(note + at, cap - at, "; ");
    if (at < cap)
        vsnprintf(note + at, cap - at, fmt, list);
    va_end(list);
}

/* ---- predictions ---------------------------------------------------------------------------
 */

const kvt_cost_geometry *cal_geometry(const cal *c, int64_t point)
{
    return &c->geometry[c->of[point]];
}

static kvt_cost_setting setting_of(const kvt_cost_point *p)
{
    return (kvt_cost_setting){
        .batch = p->batch, .kv_bits = p->kv_bits, .weight_bits = p->weight_bits};
}

void cal_step(kvt_decode_cost *out, const cal *c, const kvt_machine *m, int64_t point)
{
    const kvt_cost_point *p = &c->out->point[point];
    const kvt_cost_geometry *g = cal_geometry(c, point);
    kvt_cost_setting s = setting_of(p);
    kvt_published constants = {.machine = *m};
    double slots = cost_tokens(g, &s, (double)p->prompt_tokens) * (double)g->g.n_kv_head;
    kvt_cost_run run = {.steps = 1, .slots = slots, .busiest = slots, .held = slots};
    kvt_cost_case of = {.geometry = g,
                        .constants = &constants,
                        .setting = &s,
                        .n_prompt = p->prompt_tokens,
                        .n_response = 1,
                        .budget = p->prompt_tokens};
    kvt_cost_step(out, &of, &run);
}

static void prefill(kvt_prefill_cost *out, const cal *c, const kvt_machine *m, int64_t point)
{
    const kvt_cost_point *p = &c->out->point[point];
    kvt_cost_setting s = setting_of(p);
    kvt_cost_prefill(out, cal_geometry(c, point), m, &s, p->prompt_tokens);
}

double cal_eager(const cal *c, const kvt_machine *m, int64_t point)
{
    const kvt_cost_point *p = &c->out->point[point];
    return kvt_cost_eager_score(cal_geometry(c, point), m, c->rows[point], p->prompt_tokens) *
           (double)p->batch;
}

double cal_predict(const cal *c, const kvt_machine *m, int64_t point)
{
    if (c->quantity[point] == CAL_EVICT)
        return fmax(m->evict_factor * cal_eager(c, m, point), m->evict_floor);
    if (c->quantity[point] == CAL_PREFILL) {
        kvt_prefill_cost cost;
        prefill(&cost, c, m, point);
        return cost.total;
    }
    kvt_decode_cost cost;
    cal_step(&cost, c, m, point);
    return cost.total;
}

/* ---- columns -------------------------------------------------------------------------------
 */

/* Every unknown at 1 (a share) or 0 (a time). */
static void set_plain(kvt_machine *m, const cal_unknowns *u)
{
    for (int k = 0; k < u->n; k++)
        *place(m, u->field[k]) = is_share(u->field[k]) ? 1 : 0;
}

/* What of a time is linear in an unknown, and what is known of it. */
static void prefill_row(fit_row *row, const cal_set *s, const cal_unknowns *u, int64_t point)
{
    kvt_machine m = s->machine;
    kvt_prefill_cost cost;
    set_plain(&m, u);
    m.mem_bw = ENDLESS; /* math alone */
    m.launches_layer = 0;
    prefill(&cost, s->c, &m, point);
    for (int k = 0; k < u->n; k++)
        row->x[k] = u->field[k] == KVT_MACHINE_e_lin   ? cost.linear
                    : u->field[k] == KVT_MACHINE_e_att ? cost.attention
                                                       : 1;
    row->y -= cost.total - cost.linear - cost.attention;
}

static void endless_math(kvt_machine *m)
{
    double *rate[] = {&m->peak_flops_16, &m->peak_flops_32, &m->peak_flops_w4};
    for (int i = 0; i < 3; i++)
        *rate[i] = *rate[i] > 0 ? ENDLESS : 0;
}

static void decode_row(fit_row *row, const cal_set *s, const cal_unknowns *u, int64_t point)
{
    kvt_machine m = s->machine;
    kvt_decode_cost cost;
    set_plain(&m, u);
    endless_math(&m);
    m.host_floor_layer = m.host_floor_step = 0;
    cal_step(&cost, s->c, &m, point);
    for (int k = 0; k < u->n; k++)
        row->x[k] = u->field[k] == KVT_MACHINE_e_w    ? cost.weights
                    : u->field[k] == KVT_MACHINE_e_kv ? cost.kv
                    : u->field[k] == KVT_MACHINE_t_layer
                        ? (double)cal_geometry(s->c, point)->g.n_layer
                        : 1;
    row->y -= cost.total - cost.weights - cost.kv;
}

static fit_row *rows_of(const cal_set *s, const cal_unknowns *u)
{
    fit_row *row = kvt_alloc(s->n, sizeof *row);
    for (int64_t i = 0; row && i < s->n; i++) {
        double measured = s->c->out->point[s->at[i]].measured_s;
        row[i] = (fit_row){.y = measured, .scale = measured};
        if (s->quantity == CAL_PREFILL)
            prefill_row(&row[i], s, u, s->at[i]);
        else
            decode_row(&row[i], s, u, s->at[i]);
    }
    return row;
}

/* ---- fits ----------------------------------------------------------------------------------
 */

kvt_code cal_fit(cal_set *s, const cal_unknowns *u, int64_t skip, fit *made, kvt_err *err)
{
    fit_row *row = rows_of(s, u);
    if (!row)
        return kvt_fail_memory(err, (size_t)s->n * sizeof *row);
    int64_t n = s->n;
    if (skip >= 0)
        row[skip] = row[--n];
    fit_bound bound[FIT_MAX] = {{0}};
    for (int k = 0; k < u->n; k++)
        bound[k] = bound_of(u->field[k]);
    fit_solve(made, row, n, u->n, bound);
    for (int k = 0; k < u->n; k++)
        cal_set_field(&s->machine, u->field[k],
                      is_share(u->field[k]) ? 1 / made->value[k] : made->value[k]);
    kvt_free(row);
    return KVT_OK;
}

kvt_code cal_condition(const cal_set *s, const cal_unknowns *u, kvt_err *err)
{
    cal_set trial = *s;
    fit made;
    if (cal_fit(&trial, u, -1, &made, err))
        return err->code;
    if (made.condition <= CAL_CONDITION_MOST)
        return KVT_OK;
    return kvt_fail(err, KVT_NO,
                    "%s: the points do not tell its constants apart: condition number %.3g, "
                    "expected at most %g; lengths further apart would",
                    cal_quantity_name(s->quantity), made.condition, CAL_CONDITION_MOST);
}

kvt_code cal_leave_out(double *rms, double *left, const cal_set *s, const cal_unknowns *u,
                       kvt_err *err)
{
    double sum = 0;
    for (int64_t i = 0; i < s->n; i++) {
        cal_set trial = *s;
        const kvt_cost_point *p = &s->c->out->point[s->at[i]];
        fit made;
        left[i] = (double)NAN;
        if (s->n > u->n) {
            if (cal_fit(&trial, u, i, &made, err))
                return err->code;
            if (made.condition <= CAL_CONDITION_MOST)
                left[i] = cal_predict(s->c, &trial.machine, s->at[i]) / p->measured_s - 1;
        }
        sum += left[i] * left[i];
    }
    *rms = sqrt(sum / (double)s->n);
    return KVT_OK;
}

kvt_code cal_try(cal_unknowns *u, kvt_machine_field field, const cal_set *s, kvt_err *err)
{
    double without, with, *left = kvt_alloc(s->n, sizeof *left);
    cal_unknowns more = *u;
    more.field[more.n++] = field;
    if (!left)
        return kvt_fail_memory(err, (size_t)s->n * sizeof *left);
    kvt_code code = cal_leave_out(&without, left, s, u, err);
    if (!code)
        code = cal_leave_out(&with, left, s, &more, err);
    kvt_free(left);
    if (code)
        return code;
    /* What is left of rounding earns nothing. */
    if (with < without && without > 1e-9)
        *u = more;
    return KVT_OK;
}

void cal_note_clamped(cal *c, const cal_set *s, const cal_unknowns *u, const fit *made)
{
    for (int k = 0; k < u->n; k++)
        if (made->clamped[k])
            cal_note(c, "%s clamped to %g", kvt_machine_fields()[u->field[k]].name,
                     cal_get(&s->machine, u->field[k]));
}
