/* simd.c - which vector code runs. */
#include "compute/simd.h"

#include <stdlib.h>
#include <string.h>

#include "kvt/backend.h"

#if SIMD_X86
static bool has_avx2(void)
{
    /* What has AVX2 has F16C, which not every compiler can be asked for. */
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}

static bool is(const char *forced, const char *name)
{
    return forced && strcmp(forced, name) == 0;
}
#endif

bool simd_avx2(void)
{
#if SIMD_X86
    return has_avx2() && !is(getenv("KVT_SIMD"), "baseline");
#else
    return false;
#endif
}

bool simd_avx512(void)
{
#if SIMD_X86
    if (!has_avx512())
        return false;
    const char *forced =
        getenv("KVT_SIMD"); /* read once: a step of decode asks thousands of times */
    return !is(forced, "baseline") && !is(forced, "avx2");
#else
    return false;
#endif
}

const char *kvt_simd_name(void)
{
    return simd_avx512() ? "avx512" : simd_avx2() ? "avx2" : "baseline";
}
