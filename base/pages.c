/* pages.c - madvise, which POSIX has under a name that does less. */
#define _DEFAULT_SOURCE
#include "base/pages.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* A hint: that it fails changes nothing. */
static void advise(const void *p, size_t n, int advice)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)p, end = begin + n;
    begin = (begin + page - 1) / page * page;
    end = end / page * page;
    if (begin < end)
        (void)madvise((void *)begin, end - begin, advice);
}

void pages_drop(const void *p, size_t n)
{
    advise(p, n, MADV_DONTNEED);
}

void pages_large(void *p, size_t n)
{
#ifdef MADV_HUGEPAGE
    advise(p, n, MADV_HUGEPAGE);
#else
    (void)p, (void)n;
#endif
}
