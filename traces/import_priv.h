/* import_priv.h - parts of an import from a manifest. */
#ifndef TRACES_IMPORT_PRIV_H
#define TRACES_IMPORT_PRIV_H

#include "base/json.h"
#include "kvt/trace.h"

typedef struct import_target {
    kvt_writer *writer;
    const kvt_trace_facts *facts;
    int n_layer;        /* of the trace */
    const char *folder; /* of the manifest */
} import_target;

/* Every probe of the member "probes" (NULL: there is none), into the trace that is written. */
KVT_CHECKED kvt_code import_probes(const import_target *to, const json_t *probes, kvt_err *err);

#endif
