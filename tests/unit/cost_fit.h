/* cost_fit.h - what tests of calibrations share: a file of points in a folder of its own, and
 * times to put there. */
#ifndef TESTS_UNIT_COST_FIT_H
#define TESTS_UNIT_COST_FIT_H

#include <stdio.h>

#include "kvt/cost.h"

extern char dir[64], path[128]; /* of the folder, of points.csv in it */
int open_dir(void **state);     /* group set-up */
int close_dir(void **state);

/* The file with its header alone; a point more; closed and fitted, which must succeed. */
FILE *begin(void);
void add(FILE *f, const char *quantity, const char *geometry, int64_t tokens, int64_t batch,
         int kv_bits, double seconds);
void calibrate(kvt_calibration *out, const kvt_machine *base, FILE *f);

kvt_machine machine(const char *name); /* must be known */

/* T_layer L + t_step + W / (R e_w) + batch KV / (R e_kv), written out. */
double decode_time(const kvt_machine *m, const char *name, int64_t n, double batch);

#endif
