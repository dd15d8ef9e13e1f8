/* test_kernels_logits.c - the end of a step: gemv over every type of block, top. */
#include "tests/gpu/lab.h"

#include <math.h>

#include "base/half.h"
#include "compute/quant.h"

/* clang-format off */
static const struct quant_row {
    const char *name;
    int quant;
} quants[] = {
#define QUANT(type, name, n_byte, n_weight, function) {#name, type},
#define QUANT_REFUSED(type, name)
#include "compute/quants.def"
#undef QUANT
#undef QUANT_REFUSED
};
/* clang-format on */

static double value(dev_type type, const void *x, int64_t i)
{
    if (type == DEV_F32)
        return (double)((const float *)x)[i];
    uint16_t h = ((const uint16_t *)x)[i];
    return (double)(type == DEV_F16 ? half_to_float(h) : bf16_to_float(h));
}

/* Within 1e-5 of the sum of absolute products. */
static void matrices_multiply(const struct quant_row *q, int64_t n_row, int64_t n_col, int type,
                              int64_t skew)
{
    const quant_info *info = quant_find(q->quant);
    lab *l = lab_open();
    void *w = lab_blocks(l, q->quant, n_row * n_col);
    char *x = lab_typed(l, (dev_type)type, n_col + skew, 3);
    float *y = lab_floats(l, n_row, 1);
    dev_gemv_args a = {.y = y,
                       .w = w,
                       .quant = q->quant,
                       .x = x + skew * dev_type_size((dev_type)type),
                       .type = (dev_type)type,
                       .n_row = n_row,
                       .n_col = n_col,
                       .row_bytes = n_col / info->n_weight * info->n_byte};
    double most = 0;
    for (int64_t r = 0; r < n_row; r++) {
        double sum = 0;
        for (int64_t k = 0; k < n_col; k += info->n_weight) {
            float values[256];
            quant_decode_plain(values, q->quant,
                               (const char *)w + r * a.row_bytes +
                                   k / info->n_weight * info->n_byte,
                               info->n_weight);
            for (int i = 0; i < info->n_weight; i++)
                sum += fabs((double)values[i] * value((dev_type)type, a.x, k + i));
        }
        most = sum > most ? sum : most;
    }
    lab_near(l, y, DEV_F32, 0, 1e-6 * most);
    LAB_RUN(l, gemv, a, P(y) P(w) P(x));
    lab_close(l);
}

static void blocks_multiply(void **state)
{
    const struct quant_row *q = *state;
    int64_t block = quant_find(q->quant)->n_weight;
    const int64_t rows[] = {0, 1, 2, 15, 16, 33}, cols[] = {1, 2, 3, 9};
    for (int i = 0; i < CHECK_COUNT(rows); i++)
        for (int k = 0; k < CHECK_COUNT(cols); k++) {
            int64_t n_col = cols[k] * (block == 1 ? 11 : block);
            if (!test_tiny() || (rows[i] == 2 && cols[k] == 3 && q->quant % 6 == 0))
                matrices_multiply(q, rows[i], n_col, (i + k) % 3, k % 2);
        }
}

/* Rows of more than one tile of x, and values in rows that are off 16 bytes. */
static void long_rows_multiply(void **state)
{
    const struct quant_row *q = *state;
    int64_t block = quant_find(q->quant)->n_weight;
    if (test_tiny())
        skip();
    matrices_multiply(q, 5, block == 1 ? 4097 : 4096 + block, DEV_F32, 0);
    matrices_multiply(q, 3, block == 1 ? 8200 : 8192 + 2 * 256, DEV_F16, 0);
    matrices_multiply(q, 17, 4096, DEV_BF16, 0);
}

typedef enum logits { SPREAD, TIES, PEAKED, HOLES, FALLING, ALL_EQUAL, NUMBERS_LACK } logits;

typedef struct top_row {
    const char *name;
    int64_t n_row, ld, n_vocab;
    logits logits;
    bool tiny;
} top_row;

static const top_row tops[] = {
    {"no rows", 0, 8, 8, SPREAD, false},
    {"one token", 1, 1, 1, SPREAD, false},
    {"31 tokens", 3, 33, 31, SPREAD, false},
    {"64 tokens", 1, 64, 64, TIES, false},
    {"65 tokens, few values", 1, 65, 65, TIES, true},
    {"all equal", 1, 300, 300, ALL_EQUAL, false},
    {"mostly -inf", 2, 500, 490, HOLES, false},
    {"one has nearly all", 2, 1000, 1000, PEAKED, false},
    {"4097 tokens", 3, 4100, 4097, SPREAD, false},
    {"4096 in 200 values", 1, 4096, 4096, TIES, false},
    {"falling: all of one thread's neighbours", 1, 9000, 9000, FALLING, false},
    {"49152 tokens", 1, 49152, 49152, SPREAD, false},
    {"no numbers", 1, 400, 400, NUMBERS_LACK, false},
};

static float logit(lab *l, const top_row *s, int64_t i)
{
    double u = lab_uniform(l, -20, 20);
    switch (s->logits) {
    case TIES: return bf16_to_float(bf16_from_float((float)(floor(u * 5) / 5)));
    case PEAKED: return i == 123 ? 40.0f : (float)u * 0.1f;
    case HOLES: return i % 11 ? -INFINITY : (float)u;
    case FALLING: return (float)-i * 0.01f;
    case ALL_EQUAL: return -3;
    case NUMBERS_LACK: return i % 50 == 7 ? NAN : (float)u;
    default: return (float)u;
    }
}

static void the_largest_are_found(void **state)
{
    const top_row *s = *state;
    if (test_tiny() && !s->tiny)
        skip();
    lab *l = lab_open();
    float *z = lab_floats(l, s->n_row * s->ld, 1);
    for (int64_t i = 0; i < s->n_row * s->ld; i++)
        z[i] = i % s->ld < s->n_vocab ? logit(l, s, i % s->ld) : 1e9f; /* padding */
    dev_top_args a = {.logit = z,
                      .id = lab_ints(l, s->n_row * DEV_TOP, 9),
                      .top = lab_floats(l, s->n_row * DEV_TOP, 1),
                      .lse = lab_floats(l, s->n_row, 1),
                      .entropy = lab_floats(l, s->n_row, 1),
                      .n_row = s->n_row,
                      .ld = s->ld,
                      .n_vocab = s->n_vocab};
    lab_near(l, a.lse, DEV_F32, 1e-5, 1e-6);
    lab_near(l, a.entropy, DEV_F32, 1e-4, 1e-12);
    LAB_RUN(l, top, a, P(logit) P(id) P(top) P(lse) P(entropy));
    lab_close(l);
}

int main(void)
{
    struct CMUnitTest tests[60];
    int n = 0;
    CHECK_ROWS(tests, &n, quants, blocks_multiply);
    CHECK_ROWS(tests, &n, quants, long_rows_multiply);
    CHECK_ROWS(tests, &n, tops, the_largest_are_found);
    return CHECK_RUN("kernels: logits", tests, n);
}
