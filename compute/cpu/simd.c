/* simd.c - which vector code runs. */
#include "compute/simd.h"

#include <stdlib.h>
#include <string.h>

#include "kvt/backend.h"

#if SIMD_X86
static bool held_at(const char *name)
{
    const char *forced = getenv("KVT_SIMD");
    return forced && strcmp(forced, name) == 0;
}
#endif

bool simd_avx2(void)
{
#if SIMD_X86
    /* What has AVX2 has F16C, which not every compiler can be asked for. */
    return !held_at("baseline") && __builtin_cpu_supports("avx2") &&
           __builtin_cpu_supports("fma");
#else
    return false;
#endif
}

bool simd_avx512(void)
{
#if SIMD_X86
    return simd_avx2() && !held_at("avx2") && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
#else
    return false;
#endif
}

const char *kvt_simd_name(void)
{
    return simd_avx512() ? "avx512" : simd_avx2() ? "avx2" : "baseline";
}
