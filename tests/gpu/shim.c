/* shim.c - the scheduler of the fibers that stand for CUDA threads (shim.h).
 *
 * A block is run in passes: each ready thread runs until it waits or ends; then every warp
 * whose threads wait at the same warp operation goes on, and the block where all wait at the
 * same barrier. Where nothing can go on, the places say what is wrong. Blocks are handed out by
 * OpenMP; a fiber stays with the thread that made it.
 *
 * For ThreadSanitizer: a launch begins behind all that the host did and ends in front of what
 * it does next; block and warp barriers order, shuffles do not; tags alternate, so that a
 * thread that goes on late takes nothing from threads which are already at the next barrier;
 * stacks are mapped anew for each block and shared memory lives until the launch ends, so that
 * reuse is neither a race nor an order. Blocks run on one thread then: fibers race all the
 * same. */
#include "tests/gpu/shim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/gpu/fiber.h"

enum {
    WARP = 32,
    MAX_THREADS = 1024,
    MAX_GRID_YZ = 65535,
    MAX_SHARED = 48 << 10, /* what a launch gets without asking */
    MAX_WARPS = MAX_THREADS / WARP
};

typedef enum state { READY, AT_BARRIER, AT_WARP_BARRIER, AT_SHUFFLE, DONE } state;
static const char *const state_text[] = {"runs", "is at the barrier", "is at the warp barrier",
                                         "is at the shuffle", "has returned"};

typedef struct lane {
    shim_place place;
    fiber fiber;
    state state;
    const char *file;
    int line;
    int source;         /* lane of the warp that a shuffle reads */
    uint64_t give, got; /* bits of its value */
} lane;

typedef struct block {
    lane lanes[MAX_THREADS];
    int order[MAX_THREADS];
    int n;
    lane *now;
    fiber home;
    char *stacks;
    int n_stack;
    void (*kernel)(const void *);
    const void *args;
    const char *name;
    bool failed;
    char tag[2], warp_tag[MAX_WARPS][2]; /* addresses for fiber_release() */
    int epoch, warp_epoch[MAX_WARPS];
} block;

_Thread_local const shim_place *shim_here;
static _Thread_local block *mine;

static shim_order order;
static uint64_t seed;
static shim_hooks hooks;
static int64_t n_launch;
static char report[400];
static char begin_tag, end_tag;

void shim_set_order(shim_order o, uint64_t s)
{
    order = o;
    seed = s;
}

void shim_set_hooks(const shim_hooks *h)
{
    hooks = h ? *h : (shim_hooks){NULL, NULL};
}

const char *shim_report(void)
{
    return report[0] ? report : NULL;
}

void shim_clear(void)
{
    report[0] = 0;
}

int64_t shim_launches(void)
{
    return n_launch;
}

bool shim_tsan(void)
{
#ifdef SHIM_TSAN
    return true;
#else
    return false;
#endif
}

static void KVT_PRINTF(1, 2) say(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
#pragma omp critical(shim_report)
    if (!report[0])
        vsnprintf(report, sizeof report, fmt, args);
    va_end(args);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* splitmix64 */
static uint64_t next(uint64_t *s)
{
    uint64_t z = (*s += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void permute(block *b, uint64_t *random)
{
    for (int i = 0; i < b->n; i++)
        b->order[i] = order == SHIM_DESCENDING ? b->n - 1 - i : i;
    if (order != SHIM_RANDOM)
        return;
    for (int i = b->n - 1; i > 0; i--) {
        int j = (int)(next(random) % (uint64_t)(i + 1)), keep = b->order[i];
        b->order[i] = b->order[j];
        b->order[j] = keep;
    }
}

/* ---- on a fiber ---- */

static void entry(void)
{
    block *b = mine;
    lane *l = b->now;
    fiber_entered(&l->fiber);
    fiber_acquire(&begin_tag);
    b->kernel(b->args);
    fiber_release(&end_tag);
    l->state = DONE;
    fiber_leave(&b->home, &l->fiber, true);
}

static void wait_at(state s, const char *file, int line)
{
    block *b = mine;
    lane *l = b->now;
    l->state = s;
    l->file = file;
    l->line = line;
    fiber_leave(&b->home, &l->fiber, false);
}

void shim_barrier(const char *file, int line)
{
    block *b = mine;
    void *tag = &b->tag[b->epoch & 1];
    fiber_release(tag);
    wait_at(AT_BARRIER, file, line);
    fiber_acquire(tag);
}

void shim_warp_barrier(const char *file, int line)
{
    block *b = mine;
    int w = (int)(b->now - b->lanes) / WARP;
    void *tag = &b->warp_tag[w][b->warp_epoch[w] & 1];
    fiber_release(tag);
    wait_at(AT_WARP_BARRIER, file, line);
    fiber_acquire(tag);
}

static uint64_t shuffle(uint64_t bits, shim_how how, int n, const char *file, int line)
{
    lane *l = mine->now;
    int at = (int)(l - mine->lanes) % WARP;
    l->give = bits;
    l->source = how == SHIM_XOR ? at ^ n : at + n;
    if (l->source < 0 || l->source >= WARP)
        l->source = at;
    wait_at(AT_SHUFFLE, file, line);
    return l->got;
}

#define SHUFFLE_OF(type, name)                                         \
    type name(type x, shim_how how, int n, const char *file, int line) \
    {                                                                  \
        uint64_t bits = 0;                                             \
        memcpy(&bits, &x, sizeof x);                                   \
        bits = shuffle(bits, how, n, file, line);                      \
        memcpy(&x, &bits, sizeof x);                                   \
        return x;                                                      \
    }
SHUFFLE_OF(float, shim_shuffle_float)
SHUFFLE_OF(double, shim_shuffle_double)
SHUFFLE_OF(int, shim_shuffle_int)
SHUFFLE_OF(unsigned, shim_shuffle_unsigned)
SHUFFLE_OF(int64_t, shim_shuffle_int64)

/* ---- the scheduler ---- */

static void say_block(block *b, const char *what, const lane *l, const lane *other)
{
    b->failed = true;
    const shim_dim *at = &l->place.block;
    say("%s: %s: in block %lld,%lld,%lld thread %d %s of %s:%d, thread %d %s%s%s:%d", b->name,
        what, (long long)at->x, (long long)at->y, (long long)at->z, (int)(l - b->lanes),
        state_text[l->state], base_name(l->file), l->line, (int)(other - b->lanes),
        state_text[other->state], other->state == DONE ? " behind " : " of ",
        other->file ? base_name(other->file) : "the start", other->line);
}

static bool same_place(const lane *x, const lane *y)
{
    return x->state == y->state && x->line == y->line && strcmp(x->file, y->file) == 0;
}

/* Values of a shuffle, where all lanes that are left are at it. */
static void exchange(block *b, int first, int last)
{
    for (int i = first; i < last; i++) {
        lane *l = &b->lanes[i];
        int from = first + l->source;
        if (l->state == DONE)
            continue;
        if (from >= last || b->lanes[from].state == DONE) {
            b->failed = true;
            say("%s: shuffle of %s:%d: lane %d of block %lld,%lld,%lld reads lane %d, which %s",
                b->name, base_name(l->file), l->line, i - first, (long long)l->place.block.x,
                (long long)l->place.block.y, (long long)l->place.block.z, l->source,
                from >= last ? "the block does not have" : "has returned");
            return;
        }
        l->got = b->lanes[from].give;
    }
}

/* True: the warp was let go. */
static bool warp_goes(block *b, int first)
{
    int last = first + WARP < b->n ? first + WARP : b->n;
    const lane *one = NULL;
    for (int i = first; i < last; i++) {
        const lane *l = &b->lanes[i];
        if (l->state == DONE)
            continue;
        if (l->state == READY || l->state == AT_BARRIER || (one && !same_place(one, l)))
            return false;
        one = l;
    }
    if (!one)
        return false;
    if (one->state == AT_SHUFFLE)
        exchange(b, first, last);
    else
        b->warp_epoch[first / WARP]++;
    for (int i = first; i < last; i++)
        if (b->lanes[i].state != DONE)
            b->lanes[i].state = READY;
    return true;
}

/* Lets go what can go. False: the block has ended, well or with a report. */
static bool release(block *b)
{
    bool gone = false;
    for (int first = 0; first < b->n; first += WARP)
        gone = warp_goes(b, first) || gone;
    for (int i = 0; i < b->n && !gone; i++)
        gone = b->lanes[i].state == READY;
    if (gone || b->failed)
        return !b->failed;
    const lane *one = NULL, *other = NULL;
    for (int i = 0; i < b->n && !one; i++)
        if (b->lanes[i].state != DONE)
            one = &b->lanes[i];
    if (!one)
        return false;
    for (int i = 0; i < b->n && !other; i++)
        if (!same_place(one, &b->lanes[i]))
            other = &b->lanes[i];
    if (other) {
        say_block(b, "threads wait at different places", one, other);
        return false;
    }
    b->epoch++;
    for (int i = 0; i < b->n; i++)
        b->lanes[i].state = READY;
    return true;
}

static void pass(block *b)
{
    int warp = -1;
    for (int i = 0; i < b->n; i++) {
        lane *l = &b->lanes[b->order[i]];
        if (l->state != READY || (warp >= 0 && warp != b->order[i] / WARP))
            continue;
        if (order != SHIM_RANDOM)
            warp = b->order[i] / WARP;
        b->now = l;
        shim_here = &l->place;
        fiber_enter(&b->home, &l->fiber);
    }
}

static void run_block(block *b, shim_dim at, const shim_place *place, uint64_t random)
{
    b->failed = false;
    b->epoch = 0;
    memset(b->warp_epoch, 0, sizeof b->warp_epoch);
    for (int i = 0; i < b->n; i++) {
        lane *l = &b->lanes[i];
        l->place = *place;
        l->place.block = at;
        l->place.thread.x = i % place->block_dim.x;
        l->place.thread.y = i / place->block_dim.x % place->block_dim.y;
        l->place.thread.z = i / place->block_dim.x / place->block_dim.y;
        l->state = READY;
        l->file = "the start";
        l->line = 0;
        fiber_make(&l->fiber, b->stacks + (size_t)i * FIBER_BYTES, entry);
    }
    do {
        permute(b, &random);
        pass(b);
    } while (release(b));
    for (int i = 0; i < b->n; i++)
        fiber_forget(&b->lanes[i].fiber);
}

/* ---- a launch ---- */

/* What cudaLaunchKernel() refuses as "invalid configuration argument". */
static bool launch_is_wrong(const char *name, shim_dim grid, shim_dim threads, int64_t shared)
{
    int64_t n = threads.x * threads.y * threads.z;
    if (threads.x < 1 || threads.y < 1 || threads.z < 1 || threads.x > MAX_THREADS ||
        threads.y > MAX_THREADS || threads.z > 64 || n > MAX_THREADS)
        say("%s: launch with blocks of %lld x %lld x %lld threads; a device takes 1 to %d",
            name, (long long)threads.x, (long long)threads.y, (long long)threads.z,
            MAX_THREADS);
    else if (grid.x < 1 || grid.x > INT32_MAX || grid.y < 1 || grid.y > MAX_GRID_YZ ||
             grid.z < 1 || grid.z > MAX_GRID_YZ)
        say("%s: launch with a grid of %lld x %lld x %lld blocks; a device takes 1 to "
            "2147483647 "
            "x 65535 x 65535",
            name, (long long)grid.x, (long long)grid.y, (long long)grid.z);
    else if (shared < 0 || shared > MAX_SHARED)
        say("%s: launch with %lld bytes of shared memory; a device takes 0 to %d", name,
            (long long)shared, MAX_SHARED);
    else
        return false;
    return true;
}

static block *my_block(int n)
{
    if (!mine)
        mine = calloc(1, sizeof *mine);
    block *b = mine;
    if (!b)
        return NULL;
    if (b->n_stack < n || shim_tsan()) {
        fiber_stacks_free(b->stacks, b->n_stack);
        b->stacks = fiber_stacks(n);
        b->n_stack = b->stacks ? n : 0;
    }
    b->n = n;
    fiber_home(&b->home);
    return b->stacks ? b : NULL;
}

typedef struct launch {
    const char *name;
    void (*kernel)(const void *);
    const void *args;
    shim_dim grid;
    shim_place place; /* block and thread left open */
    int64_t shared;
    void **kept; /* shared memory of each block, with ThreadSanitizer */
} launch;

static void one_block(launch *s, int64_t i)
{
    int64_t n_block = s->grid.x * s->grid.y * s->grid.z;
    int64_t at = order == SHIM_DESCENDING ? n_block - 1 - i : i;
    shim_dim where = {at % s->grid.x, at / s->grid.x % s->grid.y, at / s->grid.x / s->grid.y};
    block *b =
        my_block((int)(s->place.block_dim.x * s->place.block_dim.y * s->place.block_dim.z));
    void *shared = malloc((size_t)s->shared);
    if (!b || (!shared && s->shared)) {
        say("%s: the host has no memory for its threads", s->name);
        free(shared);
        return;
    }
    if (s->shared)
        memset(shared, 0xFF, (size_t)s->shared);
    b->kernel = s->kernel;
    b->args = s->args;
    b->name = s->name;
    shim_place place = s->place;
    place.shared = shared;
    run_block(b, where, &place, seed ^ (uint64_t)(at + 1) * 0xd1342543de82ef95u);
    if (s->kept)
        s->kept[at] = shared;
    else
        free(shared);
}

static void run(launch *s)
{
    int64_t n_block = s->grid.x * s->grid.y * s->grid.z;
    if (!shim_tsan()) {
#pragma omp parallel for schedule(dynamic)
        for (int64_t i = 0; i < n_block; i++)
            one_block(s, i);
        return;
    }
    s->kept = calloc((size_t)n_block, sizeof *s->kept);
    fiber_release(&begin_tag);
    for (int64_t i = 0; s->kept && i < n_block; i++)
        one_block(s, i);
    fiber_acquire(&end_tag);
    for (int64_t i = 0; s->kept && i < n_block; i++)
        free(s->kept[i]);
    free(s->kept);
    fiber_forget_all();
}

kvt_code shim_launch(kvt_device *d, const char *name, void (*kernel)(const void *),
                     const void *args, shim_dim grid, shim_dim threads, int64_t shared,
                     kvt_err *err)
{
    n_launch++;
    launch s = {name, kernel, args, grid, {{0}, {0}, threads, grid, NULL}, shared, NULL};
    if (hooks.before)
        hooks.before();
    if (!launch_is_wrong(name, grid, threads, shared))
        run(&s);
    kvt_code code = hooks.after ? hooks.after(d, name, err) : KVT_OK;
    if (code == KVT_OK && report[0])
        return kvt_fail(err, KVT_DEVICE, "%s", report);
    return code;
}
