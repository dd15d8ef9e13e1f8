/* merger.h - joining neighbours of a text, the lowest rank first, the leftmost among equals.
 *
 *   merger_begin(&m, n_symbol_at_most, &err);
 *   merger_add(&m, id, at, size);                   ... from left to right
 *   merger_run(&m, text, rules, find);
 *   for (int32_t i = m.n ? 0 : -1; i >= 0; i = m.sym[i].next) ... m.sym[i].id, m.sym[i].size
 *
 * What a pair joins to is the caller's: a table of merges by rank (bpe.c), a look-up of the
 * joined text by score (spm.c). O(n log n) for n symbols, no recursion. For one thread. */
#ifndef CAPTURE_MERGER_H
#define CAPTURE_MERGER_H

#include "kvt/err.h"

/* A piece of the text; its fields lie together, as a merge touches all of its neighbours'. */
typedef struct merge_symbol {
    int32_t id;         /* -1: of no token yet */
    int32_t at, size;   /* its bytes of the text; size 0: joined into another */
    int32_t prev, next; /* -1: none */
} merge_symbol;

typedef struct merge_rule {
    int32_t rank; /* 0 or more; lower is sooner */
    int32_t id;   /* of both together */
} merge_rule;

/* Whether two neighbours join. The answer may depend on ids and text of the two only. */
typedef bool merge_find(const void *rules, const char *text, const merge_symbol *left,
                        const merge_symbol *right, merge_rule *out);

typedef struct merger {
    merge_symbol *sym; /* [n] from left to right, linked */
    int32_t n;
    int64_t cap;    /* symbols of the longest text so far */
    uint64_t *heap; /* [2 cap] */
    int64_t n_heap;
} merger;

/* Empties m and makes room for n symbols. A zeroed merger is an empty one. NOMEM; FORMAT where
 * n is 2^30 or more. */
KVT_CHECKED kvt_code merger_begin(merger *m, size_t n, kvt_err *err);
void merger_fini(merger *m);
void merger_add(merger *m, int32_t id, int32_t at, int32_t size);
void merger_run(merger *m, const char *text, const void *rules, merge_find *find);

#endif
