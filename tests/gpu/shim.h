/* shim.h - runs a kernel of compute/cuda/ on this processor (compute/cuda/kernel.h includes it
 * through KVT_SHIM).
 *
 *   gcc -x c -std=gnu17 -ffp-contract=off -DKVT_SHIM='"tests/gpu/shim.h"' -c compute/cuda/x.cu
 *
 * Every CUDA thread is a fiber. A barrier or a warp operation gives the processor back to a
 * scheduler, which lets all other threads come as far before it goes on. Dynamic shared memory
 * has exactly the bytes of the launch and holds NaN. What is wrong with a kernel (threads at
 * different barriers, a barrier that threads returned in front of, a shuffle that reads a lane
 * which takes no part, a launch that no device would take) is a report: the launch returns
 * DEVICE with its text, and shim_report() says it again. Built with -fsanitize=address the
 * bounds of all memory are checked, with -fsanitize=thread (the kernel's file only; SHIM_TSAN
 * for shim.c) races between threads and blocks. What it cannot see: engine.md 5.3. */
#ifndef TESTS_GPU_SHIM_H
#define TESTS_GPU_SHIM_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/half.h"
#include "compute/device.h"

typedef struct shim_dim {
    int64_t x, y, z;
} shim_dim;

/* What a thread knows of itself. */
typedef struct shim_place {
    shim_dim thread, block, block_dim, grid_dim;
    void *shared;
} shim_place;

extern _Thread_local const shim_place *shim_here;

/* clang-format off */
#define LAUNCHERS_BEGIN
#define LAUNCHERS_END
#define KERNEL(name, type)  SHIM_KERNEL(name, type)
#define KERNEL_WIDE(name, type) KERNEL(name, type)
#define DEVICE_FN           __attribute__((unused)) static inline
#define DEVICE_TABLE        static const
#define SHARED(type, name)  type *name = (type *)shim_here->shared
#define BARRIER()           shim_barrier(__FILE__, __LINE__)
#define WARP_BARRIER()      shim_warp_barrier(__FILE__, __LINE__)
#define SHUFFLE_XOR(x, n)   SHIM_SHUFFLE((x), SHIM_XOR, (n))
#define SHUFFLE_DOWN(x, n)  SHIM_SHUFFLE((x), SHIM_DOWN, (n))
#define THREAD_X            ((int)shim_here->thread.x)
#define THREAD_Y            ((int)shim_here->thread.y)
#define BLOCK_X             (shim_here->block.x)
#define BLOCK_Y             (shim_here->block.y)
#define BLOCK_Z             (shim_here->block.z)
#define BLOCK_DIM_X         ((int)shim_here->block_dim.x)
#define BLOCK_DIM_Y         ((int)shim_here->block_dim.y)
#define GRID_DIM_X          (shim_here->grid_dim.x)

/* The kernel, and a function that calls it with arguments of any type. */
#define SHIM_KERNEL(name, type)                                       \
    static void name(const type a);                                   \
    static void name##_call(const void *args)                         \
    {                                                                 \
        name(*(const type *)args);                                    \
    }                                                                 \
    static inline const void *name##_args(const type *args)           \
    {                                                                 \
        return args;                                                  \
    }                                                                 \
    static void name(const type a)

#define LAUNCH(d, kernel, args, grid, threads, shared, err)           \
    SHIM_LAUNCH(d, kernel, args, grid, threads, shared, err)
#define SHIM_LAUNCH(d, kernel, args, grid, threads, shared, err)      \
    shim_launch((d), #kernel, kernel##_call, kernel##_args(&(args)), (grid), \
                SHIM_DIM(threads), (int64_t)(shared), (err))
/* A number of threads is a row of them. */
#define SHIM_DIM(n) _Generic((n), shim_dim: shim_same, default: shim_row)(n)

#define SHIM_SHUFFLE(x, how, n)                                       \
    _Generic((x), float: shim_shuffle_float, double: shim_shuffle_double, \
             int: shim_shuffle_int, unsigned: shim_shuffle_unsigned,  \
             int64_t: shim_shuffle_int64)(x, how, n, __FILE__, __LINE__)
/* clang-format on */

static inline shim_dim shim_same(shim_dim n)
{
    return n;
}

static inline shim_dim shim_row(int64_t n)
{
    shim_dim d = {n, 1, 1};
    return d;
}

static inline shim_dim grid3(int64_t x, int64_t y, int64_t z)
{
    shim_dim d = {x, y, z};
    return d;
}

DEVICE_FN float half_of(uint16_t x)
{
    return half_to_float(x);
}

DEVICE_FN uint16_t to_half(float x)
{
    return half_from_float(x);
}

DEVICE_FN float bf16_of(uint16_t x)
{
    return bf16_to_float(x);
}

DEVICE_FN uint16_t to_bf16(float x)
{
    return bf16_from_float(x);
}

typedef enum shim_how { SHIM_XOR, SHIM_DOWN } shim_how;

void shim_barrier(const char *file, int line);
void shim_warp_barrier(const char *file, int line);
float shim_shuffle_float(float x, shim_how how, int n, const char *file, int line);
double shim_shuffle_double(double x, shim_how how, int n, const char *file, int line);
int shim_shuffle_int(int x, shim_how how, int n, const char *file, int line);
unsigned shim_shuffle_unsigned(unsigned x, shim_how how, int n, const char *file, int line);
int64_t shim_shuffle_int64(int64_t x, shim_how how, int n, const char *file, int line);

kvt_code shim_launch(kvt_device *d, const char *name, void (*kernel)(const void *),
                     const void *args, shim_dim grid, shim_dim threads, int64_t shared,
                     kvt_err *err);

/* For tests. */

/* The order in which ready threads run, and blocks; a new permutation each time with RANDOM. */
typedef enum shim_order { SHIM_ASCENDING, SHIM_DESCENDING, SHIM_RANDOM } shim_order;
void shim_set_order(shim_order order, uint64_t seed);

/* The first report since the last shim_clear(), or NULL. */
const char *shim_report(void);
void shim_clear(void);

int64_t shim_launches(void); /* since the program began */
bool shim_tsan(void);        /* races are looked for: small shapes only, it is slow */

/* What a whole device does around a launch: device memory can be touched between the two, and
 * `after` says what the launch returns. */
typedef struct shim_hooks {
    void (*before)(void);
    kvt_code (*after)(kvt_device *d, const char *kernel, kvt_err *err);
} shim_hooks;
void shim_set_hooks(const shim_hooks *hooks); /* NULL: none */

#endif
