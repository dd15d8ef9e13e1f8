/* pages.h - hints about pages of memory. They change how fast something is and how much memory
 * is held, never what is read; a system that does not know them ignores them. */
#ifndef BASE_PAGES_H
#define BASE_PAGES_H

#include <stddef.h>

/* Lets go of the whole pages of [p, p + n) of a mapped file: they are read from the file again
 * when somebody looks. Never for memory of kvt_alloc(), which would lose what it holds. */
void pages_drop(const void *p, size_t n);

/* [p, p + n) will be filled at once: large pages, where there are such, take a 500th of the
 * faults. */
void pages_large(void *p, size_t n);

#endif
