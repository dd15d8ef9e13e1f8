/* calibrate.c - constants of a machine from a user's measured points. */
#include "replay/cost/calibrate_priv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "kvt/arena.h"

/* ---- residuals and bands -------------------------------------------------------------------
 */

static double root_mean_square(const double *x, int64_t n)
{
    double sum = 0;
    int64_t n_known = 0;
    for (int64_t i = 0; i < n; i++)
        if (!isnan(x[i])) {
            sum += x[i] * x[i];
            n_known++;
        }
    return n_known ? sqrt(sum / (double)n_known) : (double)NAN;
}

/* What every point is missed by on the machine as it is now. */
static void put_residuals(cal *c)
{
    for (int64_t i = 0; i < c->out->n_point; i++) {
        kvt_cost_point *p = &c->out->point[i];
        p->predicted_s = cal_predict(c, &c->out->machine, i);
        p->residual_frac = p->predicted_s / p->measured_s - 1;
    }
}

/* The half width that these points bear out, at least the stated one; at most what a machine's
 * file can say. */
static double band_of(kvt_machine_field field, double stated, double rms, double left_out)
{
    double band = fmax(stated, fmax(2 * rms, left_out)); /* fmax passes over NAN */
    return fmin(band, kvt_machine_fields()[field].most);
}

static void set_band(kvt_machine *m, kvt_machine_field field, double stated, double rms,
                     double left_out)
{
    cal_set_field(m, field, band_of(field, stated, rms, left_out));
}

static void put_band(cal *c, cal_quantity q, double rms, double left_out)
{
    kvt_machine *m = &c->out->machine;
    switch (q) {
    case CAL_PREFILL:
        c->out->rms_prefill = rms;
        set_band(m, KVT_MACHINE_band_prefill, 0.03, rms, left_out);
        break;
    case CAL_DECODE:
        c->out->rms_decode = rms;
        set_band(m, KVT_MACHINE_band_decode_lo, 0.07, rms, left_out);
        set_band(m, KVT_MACHINE_band_decode_hi, 0.07, rms, left_out);
        break;
    default:
        c->out->rms_evict = rms;
        set_band(m, KVT_MACHINE_band_evict, 0.05, rms, left_out);
        break;
    }
}

/* A draft is a prefill and steps of a model. */
static void put_draft_band(cal *c)
{
    kvt_machine *m = &c->out->machine;
    if (c->fitted[CAL_PREFILL] && c->fitted[CAL_DECODE])
        cal_set_field(m, KVT_MACHINE_band_draft,
                      fmax(0.12, fmax(m->band_prefill, m->band_decode_hi)));
}

/* ---- one quantity --------------------------------------------------------------------------
 */

typedef kvt_code (*fit_function)(cal *c, const int64_t *at, int64_t n, double *left,
                                 kvt_err *err);
static const fit_function fit_functions[CAL_QUANTITIES] = {cal_prefill, cal_decode, cal_evict};

static int64_t points_of(const cal *c, cal_quantity q, int64_t *at)
{
    int64_t n = 0;
    for (int64_t i = 0; i < c->out->n_point; i++)
        if (c->quantity[i] == q)
            at[n++] = i;
    return n;
}

/* The bands come last: residuals are of all constants together. */
static kvt_code fit_quantity(cal *c, cal_quantity q, int64_t *at, double *left, kvt_err *err)
{
    int64_t n = points_of(c, q, at);
    for (int64_t i = 0; i < n; i++)
        left[i] = (double)NAN;
    if (n && fit_functions[q](c, at, n, left, err))
        return err->code;
    for (int64_t i = 0; i < n; i++)
        c->out->point[at[i]].left_out_frac = left[i];
    return KVT_OK;
}

static void judge_quantity(cal *c, cal_quantity q, int64_t *at, double *x)
{
    int64_t n = points_of(c, q, at);
    if (!c->fitted[q])
        return;
    for (int64_t i = 0; i < n; i++)
        x[i] = c->out->point[at[i]].residual_frac;
    double rms = root_mean_square(x, n);
    for (int64_t i = 0; i < n; i++)
        x[i] = c->out->point[at[i]].left_out_frac;
    put_band(c, q, rms, root_mean_square(x, n));
}

/* ---- what it is valid for, where it is from ------------------------------------------------
 */

/* Of the prefill's points where that was fitted, else of the decode's, else of the evictions.
 */
static void put_range(cal *c)
{
    kvt_machine *m = &c->out->machine;
    cal_quantity q = c->fitted[CAL_PREFILL]  ? CAL_PREFILL
                     : c->fitted[CAL_DECODE] ? CAL_DECODE
                                             : CAL_EVICT;
    double from = (double)INFINITY, to = 0, head_dim = 0;
    for (int64_t i = 0; i < c->out->n_point; i++) {
        if (c->quantity[i] != q)
            continue;
        double d = (double)cal_geometry(c, i)->g.head_dim;
        head_dim = to == 0 || d == head_dim ? d : -1;
        from = fmin(from, (double)c->out->point[i].prompt_tokens);
        to = fmax(to, (double)c->out->point[i].prompt_tokens);
    }
    cal_set_field(m, KVT_MACHINE_range_from, from);
    cal_set_field(m, KVT_MACHINE_range_to, to);
    cal_set_field(m, KVT_MACHINE_range_head_dim, fmax(head_dim, 0)); /* 0: several */
}

static void put_stamp(cal *c)
{
    kvt_machine *m = &c->out->machine;
    const char *slash = strrchr(c->path, '/'), *file = slash ? slash + 1 : c->path;
    time_t now = time(NULL);
    struct tm day = {0};
    gmtime_r(&now, &day);
    snprintf(m->calibrated_on, sizeof m->calibrated_on,
             "%04d-%02d-%02d, engine %s, %lld points of %.100s", day.tm_year + 1900,
             day.tm_mon + 1, day.tm_mday, kvt_engine_name(m->engine),
             (long long)c->out->n_point, file);
    /* Another name than the built-in one's, whose published figures are not of this one. */
    snprintf(m->name, sizeof m->name, "%.50s-calibrated", c->base->name);
}

/* ---- all of it -----------------------------------------------------------------------------
 */

static kvt_code fit_all(cal *c, kvt_err *err)
{
    int64_t n = c->out->n_point;
    int64_t *at = kvt_alloc(n, sizeof *at);
    double *x = kvt_alloc(n, sizeof *x);
    kvt_code code = at && x ? KVT_OK : kvt_fail_memory(err, (size_t)n * sizeof *x);
    for (int q = 0; q < CAL_QUANTITIES && !code; q++)
        code = fit_quantity(c, (cal_quantity)q, at, x, err);
    bool any = c->fitted[CAL_PREFILL] || c->fitted[CAL_DECODE] || c->fitted[CAL_EVICT];
    if (!code && !any)
        code = kvt_fail(err, KVT_NO, "'%s': nothing can be fitted: %s", c->path, c->out->note);
    if (!code) {
        put_residuals(c);
        for (int q = 0; q < CAL_QUANTITIES; q++)
            judge_quantity(c, (cal_quantity)q, at, x);
        put_draft_band(c);
        put_range(c);
        put_stamp(c);
    }
    kvt_free(at);
    kvt_free(x);
    return code;
}

kvt_code kvt_calibrate(kvt_calibration *out, const kvt_machine *base, const char *csv_path,
                       kvt_err *err)
{
    cal c = {.out = out, .base = base, .path = csv_path};
    *out = (kvt_calibration){.machine = *base,
                             .rms_prefill = (double)NAN,
                             .rms_decode = (double)NAN,
                             .rms_evict = (double)NAN};
    if (base->engine == KVT_ENGINE_PAPER)
        return kvt_fail(err, KVT_USAGE,
                        "machine %s: its constants are a paper's conventions, not to be fitted",
                        base->name);
    kvt_code code = cal_read(&c, err);
    if (!code)
        code = fit_all(&c, err);
    cal_free(&c);
    if (code)
        kvt_calibration_free(out);
    return code;
}

void kvt_calibration_free(kvt_calibration *c)
{
    kvt_free(c->point);
    c->point = NULL;
    c->n_point = 0;
}

/* clang-format off */
static const kvt_column columns[] = {
    KVT_COLUMN(kvt_cost_point, line, "", "line of the file"),
    KVT_COLUMN(kvt_cost_point, quantity, "", "prefill, decode or evict"),
    KVT_COLUMN(kvt_cost_point, geometry, "", "model"),
    KVT_COLUMN(kvt_cost_point, policy, "", "policy of an eviction"),
    KVT_COLUMN(kvt_cost_point, prompt_tokens, "tokens", "prompt; of a decode step the slots of a lane that it reads"),
    KVT_COLUMN(kvt_cost_point, batch, "requests", "requests together"),
    KVT_COLUMN(kvt_cost_point, rows, "rows", "scoring queries of an eviction; 0: the policy's own"),
    KVT_COLUMN(kvt_cost_point, kv_bits, "bits", "of keys and values"),
    KVT_COLUMN(kvt_cost_point, weight_bits, "bits", "of weights; 0: 16, or the model file's own"),
    KVT_COLUMN(kvt_cost_point, measured_s, "s", "as measured"),
    KVT_COLUMN(kvt_cost_point, predicted_s, "s", "on the calibrated machine"),
    KVT_COLUMN(kvt_cost_point, residual_frac, "frac", "predicted over measured, minus 1"),
    KVT_COLUMN(kvt_cost_point, left_out_frac, "frac", "the same, fitted without this point"),
    {0},
};
/* clang-format on */

kvt_table kvt_calibration_table(const kvt_calibration *c)
{
    return (kvt_table){.name = "calibration",
                       .title = "one row a measured point",
                       .columns = columns,
                       .rows = c->point,
                       .n_row = c->n_point,
                       .row_size = sizeof *c->point};
}
