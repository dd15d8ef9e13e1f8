/* test_matvec.c - rows of blocks times a vector: every type, by AVX-512, AVX2 and the portable
 * code, against sums in double of what the definition decodes. */
#include "compute/backend.h"

#include <math.h>
#include <stdlib.h>

#include "base/half.h"
#include "compute/cpu/matvec_priv.h"
#include "compute/simd.h"
#include "tests/check.h"

enum { HALVES_MAX = 2, ROWS_MAX = 17, BLOCKS_MAX = 17 };

/* Every type, and where the halves of its blocks lie (-1: none). */
static const struct row {
    const char *name;
    int type, half[HALVES_MAX];
} rows[] = {
    {"F32", QUANT_F32, {-1, -1}},    {"F16", QUANT_F16, {0, -1}},
    {"BF16", QUANT_BF16, {-1, -1}},  {"Q4_0", QUANT_Q4_0, {0, -1}},
    {"Q4_1", QUANT_Q4_1, {0, 2}},    {"Q5_0", QUANT_Q5_0, {0, -1}},
    {"Q5_1", QUANT_Q5_1, {0, 2}},    {"Q8_0", QUANT_Q8_0, {0, -1}},
    {"Q2_K", QUANT_Q2_K, {80, 82}},  {"Q3_K", QUANT_Q3_K, {108, -1}},
    {"Q4_K", QUANT_Q4_K, {0, 2}},    {"Q5_K", QUANT_Q5_K, {0, 2}},
    {"Q6_K", QUANT_Q6_K, {208, -1}}, {"IQ4_NL", QUANT_IQ4_NL, {0, -1}},
};

static const char *const levels[] = {"", "avx2", "baseline"};

static uint32_t seed;

static uint32_t draw(void)
{
    seed = seed * 1664525 + 1013904223;
    return seed >> 8;
}

static float uniform(void) /* [-1, 1) */
{
    return (float)(int32_t)(draw() - (1u << 23)) / (float)(1 << 23);
}

/* Random bits, with scales in [-1, 1). */
static void block(uint8_t *b, const struct row *r, const quant_info *q)
{
    for (int i = 0; i < q->n_byte; i++)
        b[i] = (uint8_t)draw();
    for (int i = 0; i < HALVES_MAX && r->half[i] >= 0; i++) {
        uint16_t h = half_from_float(uniform());
        memcpy(b + r->half[i], &h, sizeof h);
    }
    float f = uniform();
    uint16_t h = bf16_from_float(f);
    if (r->type == QUANT_F32)
        memcpy(b, &f, sizeof f);
    if (r->type == QUANT_BF16)
        memcpy(b, &h, sizeof h);
}

/* A matrix and a vector in memory of exactly their size, beginning `start` bytes (floats)
 * behind where they are allocated. */
typedef struct input {
    uint8_t *bytes;
    float *floats;
    kvt_matrix w;
    const float *x;
} input;

static void input_init(input *in, const struct row *r, int64_t n_row, int64_t n_block,
                       int start)
{
    const quant_info *q = quant_find(r->type);
    int64_t row_bytes = n_block * q->n_byte, n_col = n_block * q->n_weight;
    start = r->type == QUANT_F32 ? 4 * start : start;
    in->bytes = malloc((size_t)(n_row * row_bytes + start));
    in->floats = malloc((size_t)(n_col + start) * sizeof(float));
    assert_true(in->bytes && in->floats);
    for (int64_t i = 0; i < n_row * n_block; i++)
        block(in->bytes + start + i * q->n_byte, r, q);
    for (int64_t i = 0; i < n_col; i++)
        in->floats[start + i] = uniform();
    in->w = (kvt_matrix){r->type, n_row, n_col, row_bytes, in->bytes + start};
    in->x = in->floats + start;
}

static void input_fini(input *in)
{
    free(in->bytes);
    free(in->floats);
}

static void check(const struct row *r, const input *in, const float *y, const char *level)
{
    const kvt_matrix *w = &in->w;
    float *row = malloc((size_t)w->n_col * sizeof *row);
    assert_non_null(row);
    for (int64_t i = 0; i < w->n_row; i++) {
        double sum = 0, size = 0;
        quant_decode_plain(row, w->type, (const char *)w->data + i * w->row_bytes, w->n_col);
        for (int64_t k = 0; k < w->n_col; k++) {
            sum += (double)row[k] * (double)in->x[k];
            size += fabs((double)row[k] * (double)in->x[k]);
        }
        if (!(fabs((double)y[i] - sum) <= 1e-6 * size))
            fail_msg("%s, %s, row %d of %d, %d columns: expected %.9g, got %.9g (limit %.3g)",
                     r->name, level, (int)i, (int)w->n_row, (int)w->n_col, sum, (double)y[i],
                     1e-6 * size);
    }
    free(row);
}

/* The same rows in pieces of 1, 2, .. rows: the same bits. */
static void check_cuts(const struct row *r, const input *in, const float *y)
{
    for (int64_t step = 1; step < in->w.n_row; step++) {
        float cut[ROWS_MAX];
        for (int64_t i = 0; i < in->w.n_row; i += step) {
            int64_t n = in->w.n_row - i < step ? in->w.n_row - i : step;
            cpu_matvec(cut + i, &in->w, i, n, in->x);
        }
        if (memcmp(cut, y, (size_t)in->w.n_row * sizeof *y) != 0)
            fail_msg("%s (%s), %d rows, %d columns: pieces of %d rows give other bits", r->name,
                     kvt_simd_name(), (int)in->w.n_row, (int)in->w.n_col, (int)step);
    }
}

static void products_follow_the_formula(void **state)
{
    static const int64_t n_rows[] = {1, 2, 3, 4, 5, 8, ROWS_MAX};
    static const int64_t blocks[] = {1, 2, 3, 9, BLOCKS_MAX};
    const struct row *r = *state;
    int64_t longer = quant_find(r->type)->n_weight == 1 ? 31 : 1;
    seed = 7;
    for (int i = 0; i < CHECK_COUNT(n_rows); i++)
        for (int j = 0; j < CHECK_COUNT(blocks); j++)
            for (int start = 0; start < 3; start++) {
                input in;
                float y[ROWS_MAX + 1] = {0};
                input_init(&in, r, n_rows[i], blocks[j] * (start ? longer : 1), start);
                for (int l = 0; l < CHECK_COUNT(levels); l++) {
                    setenv("KVT_SIMD", levels[l], 1);
                    y[n_rows[i]] = -7;
                    cpu_matvec(y, &in.w, 0, n_rows[i], in.x);
                    assert_true(y[n_rows[i]] == -7);
                    check(r, &in, y, kvt_simd_name());
                    check_cuts(r, &in, y);
                }
                unsetenv("KVT_SIMD");
                matvec_plain(y, &in.w, 0, n_rows[i], in.x);
                check(r, &in, y, "definition");
                input_fini(&in);
            }
}

/* A row that decodes to NaN is NaN, and its neighbours are what they are. */
static void nan_stays_in_its_row(void **state)
{
    const struct row *r = *state;
    input in;
    float y[6], before[6];
    if (r->half[0] < 0)
        return;
    seed = 11;
    input_init(&in, r, 6, 3, 0);
    for (int l = 0; l < CHECK_COUNT(levels); l++) {
        uint8_t *half = in.bytes + 2 * in.w.row_bytes + r->half[0], was[2];
        setenv("KVT_SIMD", levels[l], 1);
        cpu_matvec(before, &in.w, 0, 6, in.x);
        memcpy(was, half, sizeof was);
        memcpy(half, "\x01\x7e", sizeof was);
        cpu_matvec(y, &in.w, 0, 6, in.x);
        memcpy(half, was, sizeof was);
        assert_true(isnan(y[2]));
        y[2] = before[2];
        assert_memory_equal(y, before, sizeof y);
    }
    unsetenv("KVT_SIMD");
    input_fini(&in);
}

/* Types of one scale a block and many columns: f32 has the bits of gemv, whatever the cut. */
static void floats_are_those_of_gemv(void **state)
{
    input in;
    float y[ROWS_MAX], want[ROWS_MAX];
    (void)state;
    seed = 3;
    input_init(&in, &rows[0], ROWS_MAX, 577, 1);
    cpu_matvec(y, &in.w, 0, ROWS_MAX, in.x);
    cpu_gemv(want, matrix_floats(&in.w), in.x, ROWS_MAX, 577);
    assert_memory_equal(y, want, sizeof y);
    cpu_matvec(y, &in.w, 5, 3, in.x);
    assert_memory_equal(y, want + 5, 3 * sizeof *y);
    input_fini(&in);
}

/* What the environment asks for is what runs. */
static void levels_can_be_forced(void **state)
{
    (void)state;
    setenv("KVT_SIMD", "baseline", 1);
    assert_false(simd_avx2());
    assert_false(simd_avx512());
    assert_string_equal(kvt_simd_name(), "baseline");
    setenv("KVT_SIMD", "avx2", 1);
    assert_false(simd_avx512());
    assert_string_equal(kvt_simd_name(), simd_avx2() ? "avx2" : "baseline");
    unsetenv("KVT_SIMD");
    print_message("vectors of this machine: %s\n", kvt_simd_name());
    assert_true(!simd_avx512() || simd_avx2());
}

int main(void)
{
    struct CMUnitTest tests[40];
    int n = 0;
    CHECK_ROWS(tests, &n, rows, products_follow_the_formula);
    CHECK_ROWS(tests, &n, rows, nan_stays_in_its_row);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(floats_are_those_of_gemv);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(levels_can_be_forced);
    return CHECK_RUN("matvec", tests, n);
}
