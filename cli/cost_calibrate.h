/* cost_calibrate.h - kvt cost --calibrate and --save. */
#ifndef CLI_COST_CALIBRATE_H
#define CLI_COST_CALIBRATE_H

#include "cli/cli.h"
#include "kvt/cost.h"

/* Fits one machine (as typed; NULL: the default one) to the points of a file and prints what
 * changed, the residual of each point and the bands; `save`: writes the machine there, too,
 * before anything is printed. csv NULL: writes it as it is. With --json one object. */
KVT_CHECKED kvt_code cli_cost_machine(cli *c, const char *name, const char *csv,
                                      const char *save, kvt_err *err);

#endif
