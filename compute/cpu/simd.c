/* simd.c - which vector code runs. */
#include "compute/simd.h"

#include <stdlib.h>
#include <string.h>

#include "kvt/backend.h"

bool simd_avx2(void)
{
#if SIMD_X86
    const char *forced = getenv("KVT_SIMD");
    if (forced && strcmp(forced, "baseline") == 0)
        return false;
    /* What has AVX2 has F16C, which not every compiler can be asked for. */
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return false;
#endif
}

const char *kvt_simd_name(void)
{
    return simd_avx2() ? "avx2" : "baseline";
}
