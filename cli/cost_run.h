/* cost_run.h - predictions as the command line asks for them: kvt cost, and kvt replay with a
 * model or a machine. */
#ifndef CLI_COST_RUN_H
#define CLI_COST_RUN_H

#include "base/buf.h"
#include "cli/cost_models.h"
#include "cli/cost_table.h"

enum { COST_LENGTHS_MAX = 256 };

/* Everything that a prediction needs, and its rows. */
typedef struct cost_request {
    kvt_cost_spec spec;
    kvt_cost_geometry geometry, draft;
    kvt_machine machine[CLI_MACHINES_MAX];
    kvt_cost_profile profile[3];
    int64_t length[COST_LENGTHS_MAX], batch[COST_LENGTHS_MAX];
    buf policies, budgets;
    char reference[96];
    kvt_registry *registry;
    kvt_results *results;
    kvt_cost_table table;
} cost_request;

KVT_CHECKED kvt_code cost_open(cost_request **out, kvt_err *err);
void cost_close(cost_request *r);
/* Names as typed; NULL: each trace's, the usual one, the default one. */
KVT_CHECKED kvt_code cost_read_models(cli *c, cost_request *r, const char *geometry,
                                      const char *draft, const char *machines, kvt_err *err);
KVT_CHECKED kvt_code cost_read_lengths(cost_request *r, const char *text, kvt_err *err);
/* Fills the table: of results below a folder, of traces, or of the named model alone. */
KVT_CHECKED kvt_code cost_predict(cli *c, cost_request *r, const char *results, int n_trace,
                                  char **trace, kvt_err *err);

/* Fills the table of a request whose models were read: of what was replayed, under both
 * profiles. `results` stay the caller's. */
KVT_CHECKED kvt_code cost_of_replay(cli *c, cost_request *r, kvt_results *results,
                                    kvt_err *err);

/* A list option as one text of commas. buf_fini() it. */
KVT_CHECKED kvt_code cli_join(buf *out, const cli_list *list, kvt_err *err);

#endif
