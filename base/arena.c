/* arena.c - heap memory that is counted, and arenas on top of it.
 *
 * An arena is a chain of blocks. A mark is a byte position in the whole arena: block b holds
 * the positions [b->start, b->start + b->used), and a new block starts where the last one
 * ended, so that a rewind to that position keeps the new block, empty. Zeroes are written when
 * memory is handed out, the unused rest of a block stays untouched by us and so costs no real
 * memory.
 *
 * Under AddressSanitizer each object has a red zone of 64 bytes before it and what was rewound
 * is poisoned. The zone also holds how many bytes of zones lie below, so that limit and peak
 * count the same bytes in every build. With KVT_ALLOC_PASS each object is a block of its own.
 *
 * The only state in base/ that is not the caller's is here: the countdown of failing
 * allocations for tests. It is zero in a program. */
#include "kvt/arena.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif

#ifdef WITH_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n)   ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

#if defined(KVT_ALLOC_PASS)
enum { PASS = 1, ZONE = 0 }; /* an allocation has the allocator's own red zones */
#elif defined(WITH_ASAN)
enum { PASS = 0, ZONE = 64 };
#else
enum { PASS = 0, ZONE = 0 };
#endif

enum { ALIGN = 64 };
#define FIRST_BLOCK ((size_t)64 << 10)
#define MOST_BYTES  ((size_t)PTRDIFF_MAX - 4096)

static atomic_int_fast64_t taken;   /* allocations since kvt_alloc_fail_at() */
static atomic_int_fast64_t fail_at; /* 0: none fails */
static atomic_bool fail_stays;

static bool must_fail(void)
{
    int64_t now = atomic_fetch_add_explicit(&taken, 1, memory_order_relaxed) + 1;
    int64_t at = atomic_load_explicit(&fail_at, memory_order_relaxed);
    return at > 0 && (now == at || (now > at && atomic_load(&fail_stays)));
}

static void *take(size_t bytes)
{
    void *p = NULL;
    if (must_fail() || bytes > MOST_BYTES || posix_memalign(&p, ALIGN, bytes ? bytes : 1))
        return NULL;
    return p;
}

static size_t round_up(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* n * size, or false where that is more than an object may have. */
static bool multiply(size_t *out, int64_t n, size_t size)
{
    if (n < 0)
        n = 0;
    if (size && (uint64_t)n > MOST_BYTES / size)
        return false;
    *out = (size_t)n * size;
    return true;
}

void *kvt_alloc(int64_t n, size_t size)
{
    size_t bytes;
    if (!multiply(&bytes, n, size))
        return NULL;
    void *p = take(bytes);
    if (p)
        memset(p, 0, bytes ? bytes : 1);
    return p;
}

void *kvt_resize(void *old, int64_t n_old, int64_t n, size_t size)
{
    size_t bytes, bytes_old;
    if (!multiply(&bytes, n, size) || !multiply(&bytes_old, old ? n_old : 0, size))
        return NULL;
    void *p = take(bytes);
    if (!p)
        return NULL;
    size_t kept = bytes < bytes_old ? bytes : bytes_old;
    if (kept)
        memcpy(p, old, kept);
    free(old);
    return p;
}

void kvt_free(void *p)
{
    free(p);
}

char *kvt_copy_text(const char *text)
{
    size_t n = strlen(text) + 1;
    char *copy = take(n);
    return copy ? memcpy(copy, text, n) : NULL;
}

void kvt_alloc_fail_at(int64_t n, bool stays)
{
    atomic_store(&fail_at, n);
    atomic_store(&fail_stays, stays);
    atomic_store(&taken, 0);
}

int64_t kvt_alloc_count(void)
{
    return atomic_load(&taken);
}

typedef struct block {
    struct block *below;
    size_t start;     /* position in the arena */
    size_t used, cap; /* bytes of data */
    unsigned char *data;
} block;

struct kvt_arena {
    block *top;
    block *spare; /* a block that a rewind emptied: loops that cross a border do not allocate */
    size_t limit, peak;
    size_t zones; /* bytes of red zones below the top */
};

enum { HEAD = (sizeof(block) + ALIGN - 1) / ALIGN * ALIGN };

static size_t position(const kvt_arena *a)
{
    return a->top ? a->top->start + a->top->used : 0;
}

static void free_block(block *b)
{
    if (!b)
        return;
    ASAN_UNPOISON_MEMORY_REGION(b->data, b->cap);
    free(b);
}

static bool push_block(kvt_arena *a, size_t need)
{
    block *b = a->spare;
    if (b && b->cap >= need) {
        a->spare = NULL;
    } else {
        size_t cap = a->top ? 2 * a->top->cap : FIRST_BLOCK;
        size_t most = round_up(a->limit);
        cap = PASS || cap < need ? need : cap;
        cap = cap > most && most >= need ? most : cap;
        b = take(HEAD + cap);
        if (!b)
            return false;
        b->cap = cap;
        b->data = (unsigned char *)b + HEAD;
        ASAN_POISON_MEMORY_REGION(b->data, b->cap);
    }
    b->start = position(a);
    b->used = 0;
    b->below = a->top;
    a->top = b;
    return true;
}

static void pop_block(kvt_arena *a)
{
    block *b = a->top;
    a->top = b->below;
    ASAN_POISON_MEMORY_REGION(b->data, b->cap);
    if (!PASS && (!a->spare || a->spare->cap < b->cap)) {
        free_block(a->spare);
        a->spare = b;
    } else {
        free_block(b);
    }
}

kvt_arena *kvt_arena_new(size_t limit_bytes)
{
    kvt_arena *a = kvt_alloc(1, sizeof *a);
    if (a)
        a->limit = limit_bytes < MOST_BYTES ? limit_bytes : MOST_BYTES;
    return a;
}

void kvt_arena_free(kvt_arena *a)
{
    if (!a)
        return;
    while (a->top) {
        block *b = a->top;
        a->top = b->below;
        free_block(b);
    }
    free_block(a->spare);
    free(a);
}

void *kvt_arena_get(kvt_arena *a, size_t bytes)
{
    if (bytes > MOST_BYTES)
        return NULL;
    size_t size = round_up(bytes ? bytes : 1); /* positions of objects differ */
    size_t spent = position(a) - a->zones;
    if (size > round_up(a->limit) - (spent < round_up(a->limit) ? spent : round_up(a->limit)))
        return NULL;
    size_t need = size + ZONE;
    if ((PASS || !a->top || a->top->cap - a->top->used < need) && !push_block(a, need))
        return NULL;
    block *b = a->top;
    unsigned char *p = b->data + b->used;
    if (ZONE) {
        ASAN_UNPOISON_MEMORY_REGION(p, sizeof a->zones);
        memcpy(p, &a->zones, sizeof a->zones);
        ASAN_POISON_MEMORY_REGION(p, ZONE);
        a->zones += ZONE;
    }
    p += ZONE;
    b->used += need;
    ASAN_UNPOISON_MEMORY_REGION(p, bytes);
    memset(p, 0, bytes);
    spent += size;
    a->peak = spent > a->peak ? spent : a->peak;
    return p;
}

void *kvt_arena_array(kvt_arena *a, int64_t n, size_t size)
{
    size_t bytes;
    return multiply(&bytes, n, size) ? kvt_arena_get(a, bytes) : NULL;
}

char *kvt_arena_text(kvt_arena *a, const char *text)
{
    size_t n = strlen(text) + 1;
    char *copy = kvt_arena_get(a, n);
    return copy ? memcpy(copy, text, n) : NULL;
}

size_t kvt_arena_mark(const kvt_arena *a)
{
    return position(a);
}

void kvt_arena_rewind(kvt_arena *a, size_t mark)
{
    assert(mark <= position(a));
    if (mark == position(a))
        return;
    while (a->top && (a->top->start > mark || (PASS && a->top->start == mark)))
        pop_block(a);
    block *b = a->top;
    if (PASS || !b)
        return;
    if (ZONE) {
        const unsigned char *zone = b->data + (mark - b->start);
        ASAN_UNPOISON_MEMORY_REGION(zone, sizeof a->zones);
        memcpy(&a->zones, zone, sizeof a->zones);
    }
    b->used = mark - b->start;
    ASAN_POISON_MEMORY_REGION(b->data + b->used, b->cap - b->used);
}

size_t kvt_arena_peak(const kvt_arena *a)
{
    return a->peak;
}
