/* arena.h - memory with three lifetimes: the process, the run (an arena), the call (scratch).
 *
 *   kvt_arena *a = kvt_arena_new(64 << 20);     at most 64 MiB, taken in blocks as needed
 *   size_t mark = kvt_arena_mark(a);
 *   float *x = kvt_arena_get(a, n * sizeof *x); zeroed, 64-byte aligned, or NULL
 *   kvt_arena_rewind(a, mark);                  everything since mark is gone
 *   kvt_arena_free(a);
 *
 * An arena is used by one thread. Debug builds poison what was rewound and put red zones
 * between objects; KVT_ALLOC_PASS makes each request an allocation of its own, for valgrind.
 * malloc appears in base/ only: everything else uses an arena or kvt_alloc(). */
#ifndef KVT_ARENA_H
#define KVT_ARENA_H

#include "kvt/api.h"

typedef struct kvt_arena kvt_arena;

KVT_API kvt_arena *kvt_arena_new(size_t limit_bytes); /* NULL: out of memory */
KVT_API void kvt_arena_free(kvt_arena *a);            /* NULL is fine */
KVT_API void *kvt_arena_get(kvt_arena *a, size_t bytes);
KVT_API void *kvt_arena_array(kvt_arena *a, int64_t n, size_t size); /* NULL on overflow, too */
KVT_API char *kvt_arena_text(kvt_arena *a, const char *text);        /* a copy, or NULL */
KVT_API size_t kvt_arena_mark(const kvt_arena *a);
KVT_API void kvt_arena_rewind(kvt_arena *a, size_t mark);
KVT_API size_t kvt_arena_peak(const kvt_arena *a); /* bytes, high-water mark */

/* Heap memory for objects with a new/free pair. n * size is checked; the memory is zeroed and
 * 64-byte aligned. n <= 0 gives a pointer that may be freed. NULL: out of memory. */
KVT_API void *kvt_alloc(int64_t n, size_t size);
/* Grows or shrinks to n objects; new bytes are not zeroed. On NULL the old memory stays. */
KVT_API void *kvt_resize(void *old, int64_t n_old, int64_t n, size_t size);
KVT_API void kvt_free(void *p);
KVT_API char *kvt_copy_text(const char *text); /* kvt_free() it; NULL: out of memory */

/* For tests: the n-th allocation from now on fails (0: none does), and so do those behind it
 * while `stays` is true. kvt_alloc_count() counts allocations since the last call of this. */
KVT_API void kvt_alloc_fail_at(int64_t n, bool stays);
KVT_API int64_t kvt_alloc_count(void);

#endif
