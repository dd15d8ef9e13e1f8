/* kernel.h - how a kernel of compute/cuda/ is written, so that nvcc compiles it for the GPU and
 * a C compiler runs it on the host (tests/gpu/shim.h).
 *
 *   KERNEL(add_kernel, dev_add_args)                     one struct of arguments, named a
 *   {
 *       SHARED(float, part);                             dynamic shared memory, its only kind
 *       int64_t i = BLOCK_X * BLOCK_DIM_X + THREAD_X;
 *       BARRIER();
 *   }
 *   kvt_code cuda_add(kvt_device *d, const dev_add_args *a, kvt_err *err)     (in LAUNCHERS)
 *   {
 *       return LAUNCH(d, add_kernel, *a, grid3(blocks, 1, 1), 256, bytes, err);
 *   }                     threads: a number, or grid3(x, y, 1); bytes: up to 48 KiB; blocks:
 * not 0; of more than 256 threads: KERNEL_WIDE
 *
 * The source is C17 that is C++17 as well: casts of void pointers are written, no compound
 * literals, no designated initialisers, no `restrict`, no return in front of a barrier, no
 * templates. Halves are uint16_t. Intrinsics are those below and no others. */
#ifndef COMPUTE_CUDA_KERNEL_H
#define COMPUTE_CUDA_KERNEL_H

#include <stdint.h>

#ifdef __CUDACC__

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define LAUNCHERS_BEGIN    extern "C" {
#define LAUNCHERS_END      }
#define KERNEL(name, type) static __global__ void name(const type a)
/* Of blocks of up to 1024 threads: any compiler keeps to 64 registers, or no GPU takes them. */
#define KERNEL_WIDE(name, type) \
    static __global__ void __launch_bounds__(1024) name(const type a)
#define DEVICE_FN    static __device__ __forceinline__
#define DEVICE_TABLE static __device__ const
#define SHARED(type, name)                                         \
    extern __shared__ __align__(16) unsigned char shared_bytes_[]; \
    type *name = (type *)(void *)shared_bytes_
#define BARRIER()          __syncthreads()
#define WARP_BARRIER()     __syncwarp()
#define SHUFFLE_XOR(x, n)  __shfl_xor_sync(0xffffffffu, (x), (n))
#define SHUFFLE_DOWN(x, n) __shfl_down_sync(0xffffffffu, (x), (n))
#define THREAD_X           ((int)threadIdx.x)
#define THREAD_Y           ((int)threadIdx.y)
#define BLOCK_X            ((int64_t)blockIdx.x)
#define BLOCK_Y            ((int64_t)blockIdx.y)
#define BLOCK_Z            ((int64_t)blockIdx.z)
#define BLOCK_DIM_X        ((int)blockDim.x)
#define BLOCK_DIM_Y        ((int)blockDim.y)
#define GRID_DIM_X         ((int64_t)gridDim.x)

DEVICE_FN float half_of(uint16_t x)
{
    return __half2float(__ushort_as_half(x));
}

DEVICE_FN uint16_t to_half(float x)
{
    return __half_as_ushort(__float2half_rn(x));
}

DEVICE_FN float bf16_of(uint16_t x)
{
    return __uint_as_float((unsigned)x << 16);
}

DEVICE_FN uint16_t to_bf16(float x)
{
    return __bfloat16_as_ushort(__float2bfloat16_rn(x));
}

#define LAUNCH(d, kernel, args, grid, threads, shared, err)                               \
    (kernel<<<(grid), (threads), (size_t)(shared), (cudaStream_t)cuda_stream(d)>>>(args), \
     cuda_launched((d), #kernel, (err)))

static inline dim3 grid3(int64_t x, int64_t y, int64_t z)
{
    const int64_t most = 0x7fffffff; /* 0 of what is beyond, so that the launch is refused */
    return dim3(x > most ? 0u : (unsigned)x, y > most ? 0u : (unsigned)y,
                z > most ? 0u : (unsigned)z);
}

#else
#include KVT_SHIM /* tests/gpu/shim.h, by the build of the tests */
#endif

#include "compute/cuda/device_priv.h"

#endif
