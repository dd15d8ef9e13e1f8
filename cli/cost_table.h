/* cost_table.h - what a person reads of a table of costs. */
#ifndef CLI_COST_TABLE_H
#define CLI_COST_TABLE_H

#include "cli/cli.h"
#include "kvt/cost.h"

typedef struct cli_cost_view {
    kvt_cost_profile profile;        /* whose times and memory are shown */
    const char *reference;           /* policy that evictions are compared with; NULL: none */
    bool brief;                      /* one table, for a place below another one */
    const kvt_cost_setting *setting; /* said where it is another than usual; NULL: it is not */
} cli_cost_view;

/* For each machine, length and batch: the eviction as fused and as published side by side, then
 * times and memory under the profile of the view; what the marks mean; which drafts ran; what
 * was skipped. */
KVT_CHECKED kvt_code cli_cost_table(cli *c, const kvt_cost_table *t, const cli_cost_view *v,
                                    kvt_err *err);
/* DIR/NAME.csv of a table (cost, selection) with its metadata; "-": standard output. */
KVT_CHECKED kvt_code cli_cost_csv(cli *c, const kvt_table *table, const char *dir,
                                  kvt_err *err);
/* {"schema": "kvt-cost-1", "rows": [...]} */
void cli_cost_json(const kvt_cost_table *t);

/* Figures that were published, beside what the formulae give. (cost_published.c) */
KVT_CHECKED kvt_code cli_cost_figures(cli *c, kvt_err *err);
/* The built-in models, machines. (cost_lists.c) */
KVT_CHECKED kvt_code cli_cost_list_geometries(cli *c, kvt_err *err);
KVT_CHECKED kvt_code cli_cost_list_machines(cli *c, kvt_err *err);

#endif
