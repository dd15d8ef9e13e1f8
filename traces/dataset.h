/* dataset.h - the lists of the trace format as tables: datasets, axes, attributes, and the
 * extents that belong to each axis letter. */
#ifndef TRACES_DATASET_H
#define TRACES_DATASET_H

#include "kvt/trace.h"

typedef struct trace_axis {
    char letter;
    const char *name, *help;
} trace_axis;

const trace_axis *trace_axis_of(char letter); /* NULL: no such axis */

typedef enum attr_kind {
    ATTR_TEXT,
    ATTR_INT,
    ATTR_U64,
    ATTR_BOOL,
    ATTR_LEVEL,
    ATTR_REAL
} attr_kind;

typedef struct trace_attr {
    const char *group, *name; /* group "" is the root */
    attr_kind kind;
    size_t offset, width; /* in kvt_trace_facts */
    bool run;             /* outside the content digest */
    const char *unit, *help;
} trace_attr;

const trace_attr *trace_attrs(int *n);

/* Whether that level holds the dataset at all, and whether a file of that level, with so many
 * response tokens, must have it. What a response would give is not asked for without one. */
bool dataset_in_level(kvt_ds ds, kvt_level level);
bool dataset_required(kvt_ds ds, const kvt_trace_facts *facts);
bool dataset_has_layers(kvt_ds ds); /* its first axis is L */

/* Extent of each axis letter, -1 where it is not known. */
typedef struct trace_extents {
    int64_t n[26];
} trace_extents;

void extents_init(trace_extents *e, const kvt_trace_facts *facts);
#define extents_at(e, letter) ((e)->n[(letter) - 'A'])

/* dim [rank] of a dataset by its letters (one of them -1: not known) and the product of what
 * lies behind the axis L; -1 where that overflows. */
int extents_dims(const trace_extents *e, kvt_ds ds, int64_t dim[KVT_RANK_MAX]);
int64_t dims_slab(kvt_ds ds, int rank, const int64_t *dim);

/* Whether the facts are possible: heads, lengths, ranges. FORMAT. */
KVT_CHECKED kvt_code facts_check(const kvt_trace_facts *facts, kvt_err *err);

/* ---- the digest of the content --------------------------------------------------------------
 */

/* XXH128 over, in this order: the word "kvt-trace 1"; every attribute that is no run fact, in
 * the order of the lists (those of /decision only where they name a policy); the arrays of
 * /model and the spans; and for each dataset, in the
 * order of datasets.def, its path, type, axes, extents and the XXH128 of each of its slabs;
 * attn/rows is left out, a cache that follows from the rest. It does not depend on layout,
 * compression or the order of writing. */
typedef struct trace_content {
    const kvt_trace_facts *facts;
    int64_t dim[KVT_DS_COUNT][KVT_RANK_MAX];
    int64_t n_slab[KVT_DS_COUNT];                /* 0: not there */
    char (*slab[KVT_DS_COUNT])[KVT_DIGEST_TEXT]; /* [n_slab] */
} trace_content;

KVT_CHECKED kvt_code content_digest(char out[KVT_DIGEST_TEXT], const trace_content *c,
                                    kvt_err *err);

#endif
