/* cost_calibrate.h - kvt cost --calibrate: constants of a machine from measured points. */
#ifndef CLI_COST_CALIBRATE_H
#define CLI_COST_CALIBRATE_H

#include "cli/cli.h"
#include "kvt/cost.h"

/* Fits `base` to the points of `csv` and prints the constants before and after, with where they
 * come from, and the residual of each point; with --json as one object. `save`: the machine is
 * written there as a data file for --machine; NULL: says how. Codes of kvt_calibrate() and
 * kvt_machine_save(). */
KVT_CHECKED kvt_code cli_cost_calibrate(cli *c, const kvt_machine *base, const char *csv,
                                        const char *save, kvt_err *err);

#endif
