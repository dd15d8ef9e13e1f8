/* calibrate_priv.h - what the files of the calibration share.
 *
 *   solve.c              relative least squares with bounds
 *   calibrate_read.c, calibrate_point.c   the points of a CSV file
 *   calibrate_fit.c      columns of the unknowns, the fit, points left out one by one
 *   calibrate_prefill.c, calibrate_decode.c, calibrate_host.c, calibrate_evict.c
 *   calibrate.c          all of it, bands, stamp, table */
#ifndef REPLAY_COST_CALIBRATE_PRIV_H
#define REPLAY_COST_CALIBRATE_PRIV_H

#include "replay/cost/cost_priv.h"

/* ---- solve.c ---- */

enum { FIT_MAX = 4 };

/* One equation: sum of x[k] a[k] should be y; its error counts as a share of `scale`. */
typedef struct fit_row {
    double x[FIT_MAX], y, scale;
} fit_row;

typedef struct fit_bound {
    double lo, hi; /* hi may be INFINITY */
} fit_bound;

typedef struct fit {
    double value[FIT_MAX];
    /* Of the normal equations with columns of length 1, so that no unit counts; INFINITY or
     * very large where the columns depend on each other. */
    double condition;
    bool clamped[FIT_MAX]; /* lies on a bound; the others were solved again */
} fit;

/* The least sum of squares of (x a - y) / scale within the bounds. n rows, k unknowns, at most
 * FIT_MAX. */
void fit_solve(fit *out, const fit_row *row, int64_t n, int k, const fit_bound *bound);

/* ---- points ---- */

typedef enum cal_quantity { CAL_PREFILL, CAL_DECODE, CAL_EVICT, CAL_QUANTITIES } cal_quantity;

/* A calibration at work: the points with what their names stand for. */
typedef struct cal {
    kvt_calibration *out;
    const kvt_machine *base;
    const char *path;
    kvt_cost_geometry *geometry; /* [n_geometry], each name once */
    int n_geometry;
    int *of;                /* [n_point] index into geometry */
    cal_quantity *quantity; /* [n_point] */
    int64_t *rows;          /* [n_point] scoring queries of an eviction */
    bool fitted[CAL_QUANTITIES];
} cal;

/* Reads the file into c->out->point and the arrays beside it. FORMAT. */
kvt_code cal_read(cal *c, kvt_err *err);
/* Appends a point when its names stand for something. FORMAT naming its line. */
kvt_code cal_add(cal *c, const kvt_cost_point *p, cal_quantity q, kvt_err *err);
void cal_free(cal *c); /* the arrays, not c->out */

const char *cal_quantity_name(cal_quantity q);
const kvt_cost_geometry *cal_geometry(const cal *c, int64_t point);

/* What machine m is predicted to take for a point, s. */
double cal_predict(const cal *c, const kvt_machine *m, int64_t point);
/* What an eager scoring pass of an eviction moves, s. */
double cal_eager(const cal *c, const kvt_machine *m, int64_t point);
/* Adds a sentence to the note; what does not fit is cut. */
void cal_note(cal *c, const char *fmt, ...) KVT_PRINTF(2, 3);
void cal_set_field(kvt_machine *m, kvt_machine_field field,
                   double value); /* origin calibrated */
double cal_get(const kvt_machine *m, kvt_machine_field field);

/* ---- linear fits ---- */

/* The unknowns of a fit: fields of the machine. A share stands for its inverse, which is what
 * a time is linear in. */
typedef struct cal_unknowns {
    kvt_machine_field field[FIT_MAX];
    int n;
} cal_unknowns;

/* The points that a fit is made to, and the machine that it is made on. */
typedef struct cal_set {
    const cal *c;
    kvt_machine machine;
    cal_quantity quantity;
    const int64_t *at; /* [n] of the points */
    int64_t n;
} cal_set;

/* Fits the unknowns to the points and sets them on s->machine. `skip`: an index into at[] that
 * is left out; -1: none. NOMEM. */
kvt_code cal_fit(cal_set *s, const cal_unknowns *u, int64_t skip, fit *made, kvt_err *err);
/* The condition number of that fit: NO above 1e4. */
kvt_code cal_condition(const cal_set *s, const cal_unknowns *u, kvt_err *err);
/* left[i]: what point at[i] is missed by, predicted over measured minus 1, in a fit without it;
 * NAN where the others do not determine the unknowns. rms: over those that are defined; NAN
 * where not all are. */
kvt_code cal_leave_out(double *rms, double *left, const cal_set *s, const cal_unknowns *u,
                       kvt_err *err);
/* Adds a constant to the unknowns where it earns its place: points that are left out are met
 * better with it. */
kvt_code cal_try(cal_unknowns *u, kvt_machine_field field, const cal_set *s, kvt_err *err);
/* Says of each unknown at a bound that it was clamped. */
void cal_note_clamped(cal *c, const cal_set *s, const cal_unknowns *u, const fit *made);

#define CAL_CONDITION_MOST 1e4
enum { CAL_LEAVE_OUT_LEAST = 4 }; /* points below which none is left out */

/* ---- one quantity each ----
 *
 * Set fields of c->out->machine; left [n] gets what points miss by that are left out (it comes
 * as NAN). Too few points are no failure: that is said in the note. NO, NOMEM. */

kvt_code cal_prefill(cal *c, const int64_t *at, int64_t n, double *left, kvt_err *err);
kvt_code cal_decode(cal *c, const int64_t *at, int64_t n, double *left, kvt_err *err);
kvt_code cal_evict(cal *c, const int64_t *at, int64_t n, double *left, kvt_err *err);
/* Fits a host floor where steps do not follow the context; false: they do, or it is not known.
 */
bool cal_host(cal *c, const int64_t *at, int64_t n);
/* Time of a decode step on machine m, split. */
void cal_step(kvt_decode_cost *out, const cal *c, const kvt_machine *m, int64_t point);

#endif
