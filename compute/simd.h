/* simd.h - which vector code runs: chosen when a kernel is entered, never when kvt is built.
 *
 * KVT_SIMD=baseline in the environment forces the portable code, KVT_SIMD=avx2 holds it at AVX2
 * (tests; bits differ then). */
#ifndef COMPUTE_SIMD_H
#define COMPUTE_SIMD_H

#include "kvt/api.h"

#if defined(__x86_64__)
#define SIMD_X86    1
#define SIMD_AVX2   __attribute__((target("avx2,fma,f16c")))
#define SIMD_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx2,fma,f16c")))
#else
#define SIMD_X86 0
#endif

/* The processor has AVX2, FMA and F16C, and the environment allows them. */
bool simd_avx2(void);

/* All that, and AVX-512 F, BW and VL. */
bool simd_avx512(void);

#endif
