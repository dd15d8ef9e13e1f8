/* test_quant.c - dequantisers: the published blocks of cases C033 and C034, blocks decoded
 * by the gguf package, every half and brain float, AVX2 and AVX-512 against the definition,
 * exact sizes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "compute/quant.h"
#include "kvt/arena.h"
#include "tests/check.h"

enum { WEIGHTS_MAX = 256, BYTES_MAX = 256 };

/* C033: byte i is (37 i + 11) mod 256, then d = 1.0 and the minimum's scale 0.5 as halves at
 * these offsets (-1: none). Sizes, sums and first values were computed with ggml d99724f2 (its
 * src/ggml-quants.c); the sum of index-weighted outputs counts from 1. */
static const struct row {
    const char *name;
    int type, n_byte, n_weight, d, m;
    double sum, weighted;
    struct {
        int i;
        double y;
    } value[3];
    int n_value;
} rows[] = {
    {"Q4_0", QUANT_Q4_0, 18, 32, 0, -1, -21, -518, {{0, 0}}, 0},
    {"Q4_1", QUANT_Q4_1, 20, 32, 0, 2, 261, 4247, {{0, 0}}, 0},
    {"Q5_0", QUANT_Q5_0, 22, 32, 0, -1, 15, 112, {{0, 0}}, 0},
    {"Q5_1", QUANT_Q5_1, 24, 32, 0, 2, 521, 8165, {{0, 0}}, 0},
    {"Q8_0", QUANT_Q8_0, 34, 32, 0, -1, -176, -8080, {{0, 0}}, 0},
    {"Q2_K", QUANT_Q2_K, 84, 256, 80, 82, 2059, 243130, {{0, 33}, {16, -1.5}}, 2},
    {"Q3_K", QUANT_Q3_K, 110, 256, 108, -1, 958, 177145, {{0, 81}, {1, -108}}, 2},
    {"Q4_K",
     QUANT_Q4_K,
     144,
     256,
     0,
     2,
     54440,
     7572840,
     {{0, 315.5}, {1, -25.5}, {255, 48.5}},
     3},
    {"Q5_K", QUANT_Q5_K, 176, 256, 0, 2, 116216, 16027448, {{0, 811.5}}, 1},
    {"Q6_K",
     QUANT_Q6_K,
     210,
     256,
     208,
     -1,
     4612,
     784420,
     {{0, -1431}, {1, 1696}, {255, -60}},
     3},
};

static void published_block(uint8_t *b, const struct row *r)
{
    for (int i = 0; i < r->n_byte; i++)
        b[i] = (uint8_t)(37 * i + 11);
    b[r->d] = 0x00;
    b[r->d + 1] = 0x3c; /* 1.0 */
    if (r->m >= 0) {
        b[r->m] = 0x00;
        b[r->m + 1] = 0x38; /* 0.5 */
    }
}

static void published_values_hold(void **state)
{
    const struct row *r = *state;
    uint8_t b[2 * BYTES_MAX];
    float y[2 * WEIGHTS_MAX];
    const quant_info *info = quant_find(r->type);
    assert_non_null(info);
    assert_string_equal(info->name, r->name);
    assert_int_equal(info->n_byte, r->n_byte);
    assert_int_equal(info->n_weight, r->n_weight);
    published_block(b, r);
    published_block(b + r->n_byte, r);
    quant_decode_plain(y, r->type, b, 2 * r->n_weight);
    double sum = 0, weighted = 0;
    for (int i = 0; i < r->n_weight; i++) {
        sum += (double)y[i];
        weighted += (i + 1) * (double)y[i];
    }
    assert_true(sum == r->sum);
    assert_true(weighted == r->weighted);
    for (int i = 0; i < r->n_value; i++)
        assert_true((double)y[r->value[i].i] == r->value[i].y);
    assert_memory_equal(y, y + r->n_weight, (size_t)r->n_weight * sizeof *y);
}

/* C034: the 12 scale bytes and their pairs. */
static void six_bit_scales_are_unpacked(void **state)
{
    static const uint8_t s[12] = {0xC1, 0x82, 0x43, 0x04, 0xC5, 0x86,
                                  0x47, 0x08, 0x9A, 0xBC, 0xDE, 0xF0};
    static const int want[8][2] = {{1, 5},   {2, 6},   {3, 7},   {4, 8},
                                   {58, 57}, {44, 43}, {30, 29}, {0, 15}};
    (void)state;
    for (int g = 0; g < 8; g++) {
        int scale, min;
        quant_scale_min(s, g, &scale, &min);
        assert_int_equal(scale, want[g][0]);
        assert_int_equal(min, want[g][1]);
    }
}

static bool same(const float *a, const float *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i])))
            return false;
    return true;
}

static const char *const levels[] = {"the processor", "avx2", "baseline"};

/* quant_decode by the code of a level. */
static void decode_at(const char *level, float *out, int type, const void *in, int64_t n)
{
    setenv("KVT_SIMD", level, 1);
    quant_decode(out, type, in, n);
    unsetenv("KVT_SIMD");
}

/* tests/golden/quant.py says what the file holds and where its values come from. */
static void gguf_package_agrees(void **state)
{
    kvt_err err;
    buf file;
    float want[WEIGHTS_MAX * 6], got[WEIGHTS_MAX * 6];
    int n_type = 0;
    (void)state;
    buf_init(&file, 1 << 20);
    CHECK_OK(file_read(&file, KVT_SOURCE_DIR "/tests/golden/quant.bin", 1 << 20, &err), &err);
    for (size_t at = 0; at < file.n; n_type++) {
        uint32_t head[2];
        memcpy(head, file.data + at, sizeof head);
        at += sizeof head;
        const quant_info *q = quant_find(head[0]);
        assert_non_null(q);
        int64_t n = (int64_t)head[1] * q->n_weight;
        assert_true(n <= WEIGHTS_MAX * 6);
        const char *blocks = file.data + at;
        at += head[1] * (size_t)q->n_byte;
        memcpy(want, file.data + at, (size_t)n * sizeof *want);
        at += (size_t)n * sizeof *want;
        quant_decode_plain(got, q->type, blocks, n);
        if (!same(got, want, n))
            fail_msg("%s: the definition differs from gguf", q->name);
        for (int l = 0; l < CHECK_COUNT(levels); l++) {
            decode_at(levels[l], got, q->type, blocks, n);
            if (!same(got, want, n))
                fail_msg("%s: the code of %s differs from gguf", q->name, levels[l]);
        }
    }
    assert_int_equal(n_type, 11);
    buf_fini(&file);
}

/* Every pattern, against sign x (1 + m / 1024) x 2^(e - 15) and the upper half of an f32. */
static void halves_and_brain_floats_are_exact(void **state)
{
    enum { ALL = 65536 };
    uint16_t *in = kvt_alloc(ALL, sizeof *in);
    float *f16 = kvt_alloc(ALL, sizeof *f16), *bf16 = kvt_alloc(ALL, sizeof *bf16);
    float *plain = kvt_alloc(ALL, sizeof *plain);
    (void)state;
    assert_true(in && f16 && bf16 && plain);
    for (int i = 0; i < ALL; i++)
        in[i] = (uint16_t)i;
    decode_at(levels[0], f16, QUANT_F16, in, ALL);
    decode_at(levels[0], bf16, QUANT_BF16, in, ALL);
    for (int i = 0; i < ALL; i++) {
        int e = i >> 10 & 31, m = i & 1023;
        double v = e == 31 ? (m ? (double)NAN : (double)INFINITY)
                   : e     ? ldexp(1024 + m, e - 25)
                           : ldexp(m, -24);
        float want = (float)(i >> 15 ? -v : v);
        uint32_t bits = (uint32_t)i << 16;
        if (!same(&f16[i], &want, 1))
            fail_msg("half %04x: expected %g, got %g", i, (double)want, (double)f16[i]);
        memcpy(&want, &bits, sizeof want);
        if (!same(&bf16[i], &want, 1))
            fail_msg("brain float %04x: expected %g, got %g", i, (double)want, (double)bf16[i]);
    }
    for (int l = 1; l < CHECK_COUNT(levels); l++) {
        decode_at(levels[l], plain, QUANT_F16, in, ALL);
        assert_true(same(plain, f16, ALL));
        decode_at(levels[l], plain, QUANT_BF16, in, ALL);
        assert_true(same(plain, bf16, ALL));
    }
    kvt_free(in);
    kvt_free(f16);
    kvt_free(bf16);
    kvt_free(plain);
}

/* Random bytes, scales included: NaN, infinite and denormal ones come up. 1, 2 and 17 blocks
 * from every start of 0 to 7, input and output in memory of exactly their size. */
static void fast_code_equals_the_definition(void **state)
{
    static const int counts[] = {1, 2, 17};
    uint32_t seed = 12345;
    int n_type = 0;
    (void)state;
    for (int type = 0; type < 64; type++) {
        const quant_info *q = quant_find(type);
        if (!q)
            continue;
        n_type++;
        for (int round = 0; round < 48; round++) {
            /* A type without blocks has odd lengths, too. */
            int64_t n_block = counts[round % 3] + (q->n_weight == 1 ? round : 0);
            int64_t n = n_block * q->n_weight;
            int64_t n_byte = n_block * q->n_byte, start = round / 3 % 8;
            uint8_t *in = malloc((size_t)(n_byte + start));
            float *plain = malloc((size_t)n * sizeof *plain);
            float *fast = malloc((size_t)n * sizeof *fast);
            assert_true(in && plain && fast);
            for (int64_t i = 0; i < n_byte + start; i++) {
                seed = seed * 1664525 + 1013904223;
                in[i] = (uint8_t)(seed >> 24);
            }
            quant_decode_plain(plain, type, in + start, n);
            for (int l = 0; l < CHECK_COUNT(levels); l++) {
                decode_at(levels[l], fast, type, in + start, n);
                if (!same(plain, fast, n))
                    fail_msg("%s by %s, %d blocks from byte %d: bits differ (round %d)",
                             q->name, levels[l], (int)n_block, (int)start, round);
            }
            free(in);
            free(plain);
            free(fast);
        }
    }
    assert_int_equal(n_type, 14);
}

/* C035: what is not read is still called by its name. */
static void other_types_have_names(void **state)
{
    static const struct {
        int type;
        const char *name;
    } other[] = {{16, "IQ2_XXS"},
                 {17, "IQ2_XS"},
                 {18, "IQ3_XXS"},
                 {19, "IQ1_S"},
                 {21, "IQ3_S"},
                 {22, "IQ2_S"},
                 {29, "IQ1_M"},
                 {34, "TQ1_0"},
                 {35, "TQ2_0"},
                 {4, "Q4_2 (removed)"},
                 {99, "type 99"},
                 {39, "MXFP4"},
                 {33, "Q4_0_8_8 (removed)"}};
    char name[32];
    (void)state;
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++) {
        assert_null(quant_find(other[i].type));
        assert_string_equal(quant_name(other[i].type, name, sizeof name), other[i].name);
    }
}

int main(void)
{
    struct CMUnitTest tests[32];
    int n = 0;
    CHECK_ROWS(tests, &n, rows, published_values_hold);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(six_bit_scales_are_unpacked);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(gguf_package_agrees);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(halves_and_brain_floats_are_exact);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(fast_code_equals_the_definition);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(other_types_have_names);
    return CHECK_RUN("quant", tests, n);
}
