/* scorer_priv.h - what reader and writer of scorer files share: the rules of info and tensors,
 * and the digest. */
#ifndef TRACES_SCORER_PRIV_H
#define TRACES_SCORER_PRIV_H

#include "kvt/scorer.h"
#include "traces/dataset.h"

enum {
    SCORER_MAJOR = 1,
    SCORER_MINOR = 0,
    SCORER_TENSORS_MAX = 64,
    SCORER_BYTES_MAX = INT32_MAX /* of a tensor, as floats */
};

struct kvt_scorer {
    kvt_scorer_info info;
    kvt_scorer_tensor tensor[SCORER_TENSORS_MAX]; /* by name; their data is owned */
    int n;
};

/* Attributes of the root that are one value. */
typedef struct scorer_fact {
    const char *name;
    attr_kind kind; /* TEXT or INT */
    size_t offset, width;
    bool run; /* outside the digest */
} scorer_fact;
const scorer_fact *scorer_facts(int *n);

/* Sizes, heads, layers rising, digest and recipe. FORMAT. */
KVT_CHECKED kvt_code scorer_check_info(const kvt_scorer_info *info, kvt_err *err);
/* Extents that are known: L, H, G, D, E of info; a letter that no tensor had yet is -1. */
void scorer_extents(trace_extents *e, const kvt_scorer_info *info);
/* Name, letters, extents and size of a tensor; learns the extents of its other letters. */
KVT_CHECKED kvt_code scorer_check_shape(trace_extents *e, const char *name, const char *axes,
                                        int rank, const int64_t *dim, kvt_err *err);
/* NaN and infinity, by element. */
KVT_CHECKED kvt_code scorer_check_values(const char *name, const float *x, int64_t n,
                                         kvt_err *err);

/* XXH128 over "kvt-scorer 1", the facts that are no run facts, layer/id, and for each tensor,
 * in byte order of the names, its name, axes, stored type, extents and the XXH128 of its bytes
 * as stored (sum). */
KVT_CHECKED kvt_code scorer_digest(char out[KVT_DIGEST_TEXT], const kvt_scorer_info *info,
                                   const kvt_scorer_tensor *tensor,
                                   char (*sum)[KVT_DIGEST_TEXT], int n, kvt_err *err);

#endif
