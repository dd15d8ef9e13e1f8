/* cost_choose.h - kvt cost --slo, --axis: which policy and budget to take. */
#ifndef CLI_COST_CHOOSE_H
#define CLI_COST_CHOOSE_H

#include "cli/cli.h"
#include "kvt/analyze.h"

/* Prints what each policy loses and costs, group by group (machine, profile, batch, length),
 * and what follows: the winner within the limits, its margin, the front. `costs` must come from
 * `results`. slo_text: "ttft=2s,lost=5%"; NULL: no limits, the front alone. axis: a name
 * of kvt_cost_axis_names(); NULL: "request". csv: a folder
 * that gets selection.csv, too; NULL: none. With --json one object of rows and winners.
 * USAGE: limits or axis; NOTFOUND: no row of the costs has a replayed cell; NO: nothing meets
 * the limits in any group (all is printed). */
KVT_CHECKED kvt_code cli_cost_choose(cli *c, const kvt_results *results,
                                     const kvt_cost_table *costs, const char *slo_text,
                                     const char *axis, const char *csv, kvt_err *err);

#endif
