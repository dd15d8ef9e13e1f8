/* fiber.c - see fiber.h. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */

#include "tests/gpu/fiber.h"

#include <stdbool.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define FIBER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBER_ASAN 1
#endif
#endif

#ifdef FIBER_ASAN
void __sanitizer_start_switch_fiber(void **fake, const void *bottom, size_t size);
void __sanitizer_finish_switch_fiber(void *fake, const void **bottom, size_t *size);
void __asan_unpoison_memory_region(void const volatile *p, size_t n);
#endif
#ifdef SHIM_TSAN
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fiber);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
void __tsan_acquire(void *tag);
void __tsan_release(void *tag);
enum { NO_SYNC = 1 }; /* a switch orders nothing: only barriers do */
#endif

enum { GUARD = 4096 };

char *fiber_stacks(int n)
{
    size_t bytes = (size_t)n * FIBER_BYTES;
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    for (int i = 0; i < n; i++)
        if (mprotect(p + (size_t)i * FIBER_BYTES, GUARD, PROT_NONE) != 0) {
            munmap(p, bytes);
            return NULL;
        }
    return p;
}

void fiber_stacks_free(char *stacks, int n)
{
    if (stacks)
        munmap(stacks, (size_t)n * FIBER_BYTES);
}

#ifdef FIBER_UCONTEXT

static void set_up(fiber *f, void (*entry)(void))
{
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = f->stack + GUARD;
    f->context.uc_stack.ss_size = FIBER_BYTES - GUARD;
    f->context.uc_link = NULL;
    makecontext(&f->context, entry, 0);
}

static void change(fiber *from, fiber *to)
{
    swapcontext(&from->context, &to->context);
}

#else

/* fiber_change(void **save, void *load): callee-saved registers on the old stack, then the new
 * stack. */
void fiber_change(void **save, void *load);
__asm__(".text\n"
        ".globl fiber_change\n"
        ".type fiber_change, @function\n"
        "fiber_change:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size fiber_change, .-fiber_change\n");

static void set_up(fiber *f, void (*entry)(void))
{
    enum { SAVED = 6 };
    uintptr_t *top = (uintptr_t *)(void *)(f->stack + FIBER_BYTES);
    top[-1] = 0; /* entry() never returns; this ends a backtrace */
    top[-2] = (uintptr_t)entry;
    for (int i = 0; i < SAVED; i++)
        top[-3 - i] = 0;
    f->sp = top - 2 - SAVED;
}

static void change(fiber *from, fiber *to)
{
    fiber_change(&from->sp, to->sp);
}

#endif

void fiber_make(fiber *f, char *stack, void (*entry)(void))
{
    f->stack = stack;
    f->fake = NULL;
#ifdef FIBER_ASAN
    /* A fiber that was given up has left its frames marked. */
    __asan_unpoison_memory_region(stack + GUARD, FIBER_BYTES - GUARD);
#endif
#ifdef SHIM_TSAN
    f->tsan = __tsan_create_fiber(0);
#endif
    set_up(f, entry);
}

#ifdef SHIM_TSAN
enum { KEPT = 4096 }; /* of the 8128 that it can have */
static void *kept[KEPT];
static int64_t n_kept;
#endif

void fiber_forget(fiber *f)
{
#ifdef SHIM_TSAN
    void **at = &kept[n_kept % KEPT];
    if (n_kept >= KEPT)
        __tsan_destroy_fiber(*at);
    *at = f->tsan;
    n_kept++;
#endif
    f->tsan = NULL;
}

void fiber_forget_all(void)
{
#ifdef SHIM_TSAN
    for (int64_t i = 0; i < n_kept && i < KEPT; i++)
        __tsan_destroy_fiber(kept[i]);
    n_kept = 0;
#endif
}

void fiber_home(fiber *home)
{
    home->fake = NULL;
#ifdef SHIM_TSAN
    home->tsan = __tsan_get_current_fiber();
#endif
}

void fiber_enter(fiber *home, fiber *f)
{
#ifdef FIBER_ASAN
    __sanitizer_start_switch_fiber(&home->fake, f->stack + GUARD, FIBER_BYTES - GUARD);
#endif
#ifdef SHIM_TSAN
    __tsan_switch_to_fiber(f->tsan, NO_SYNC);
#endif
    change(home, f);
#ifdef FIBER_ASAN
    __sanitizer_finish_switch_fiber(home->fake, NULL, NULL);
#endif
}

void fiber_entered(fiber *f)
{
#ifdef FIBER_ASAN
    __sanitizer_finish_switch_fiber(f->fake, &f->under, &f->under_bytes);
#else
    (void)f;
#endif
}

void fiber_leave(fiber *home, fiber *f, int for_good)
{
#ifdef FIBER_ASAN
    __sanitizer_start_switch_fiber(for_good ? NULL : &f->fake, f->under, f->under_bytes);
#else
    (void)for_good;
#endif
#ifdef SHIM_TSAN
    __tsan_switch_to_fiber(home->tsan, NO_SYNC);
#endif
    change(f, home);
    fiber_entered(f);
}

void fiber_release(void *tag)
{
#ifdef SHIM_TSAN
    __tsan_release(tag);
#else
    (void)tag;
#endif
}

void fiber_acquire(void *tag)
{
#ifdef SHIM_TSAN
    __tsan_acquire(tag);
#else
    (void)tag;
#endif
}
