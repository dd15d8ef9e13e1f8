/* fiber.h - a stack to run a function on, and the switch to it and back.
 *
 * A switch saves what the calling convention keeps (x86-64; elsewhere ucontext, ten times
 * slower, because it makes system calls). The sanitizers are told of each one. A fiber is
 * entered by the thread that made it. */
#ifndef TESTS_GPU_FIBER_H
#define TESTS_GPU_FIBER_H

#include <stddef.h>
#include <stdint.h>

#if !defined(__x86_64__) || defined(SHIM_UCONTEXT)
#define FIBER_UCONTEXT 1
#include <ucontext.h>
#endif

enum { FIBER_BYTES = 64 << 10 }; /* of a stack, the page that guards it included */

typedef struct fiber {
#ifdef FIBER_UCONTEXT
    ucontext_t context;
#else
    void *sp;
#endif
    char *stack;
    void *fake;        /* of AddressSanitizer */
    void *tsan;        /* of ThreadSanitizer */
    const void *under; /* the stack of the thread, for AddressSanitizer */
    size_t under_bytes;
} fiber;

/* Stacks for n fibers, page-aligned; NULL where there is no memory. */
char *fiber_stacks(int n);
void fiber_stacks_free(char *stacks, int n);

/* f will run entry() on `stack` when it is entered; entry() must end with fiber_leave(..,
 * true).
 */
void fiber_make(fiber *f, char *stack, void (*entry)(void));
void fiber_forget(fiber *f); /* it is not entered again */
/* Between launches. ThreadSanitizer gives the number of a fiber that is gone to a new one and
 * takes the two for one: until then they are kept (the first ones of very many go earlier). */
void fiber_forget_all(void);

/* home: the thread itself. */
void fiber_enter(fiber *home, fiber *f);
void fiber_leave(fiber *home, fiber *f, int for_good);
void fiber_home(fiber *home);  /* before the first fiber_enter() of this thread */
void fiber_entered(fiber *f);  /* first line of entry() */
void fiber_release(void *tag); /* all before it in this fiber ... */
void fiber_acquire(void *tag); /* ... is seen behind this, for ThreadSanitizer */

#endif
