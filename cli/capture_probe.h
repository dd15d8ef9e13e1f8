/* capture_probe.h - probes of kvt capture: opened once, run while capturing or on traces. */
#ifndef CLI_CAPTURE_PROBE_H
#define CLI_CAPTURE_PROBE_H

#include "cli/cli.h"
#include "kvt/live.h"

typedef struct capture_probe {
    cli *c;
    bool force, plan;
    kvt_probes *probes; /* NULL: none were asked for */
    kvt_probe_counts counts;
    int n_probe;
    int64_t failed;
} capture_probe;

KVT_CHECKED kvt_code capture_probe_open(capture_probe *p, kvt_model *m, const cli_list *text,
                                        kvt_err *err);
void capture_probe_close(capture_probe *p);
/* Lets a capture run them. USAGE: it cannot. */
KVT_CHECKED kvt_code capture_probe_hook(capture_probe *p, kvt_capture_spec *spec, kvt_err *err);
/* Adds them to traces and to those in folders; prints what was done. One trace that fails is
 * the command's failure; of several each is reported and the rest go on: PARTLY. */
KVT_CHECKED kvt_code capture_probe_add(capture_probe *p, const cli_list *trace, int n_arg,
                                       char **arg, kvt_err *err);

#endif
