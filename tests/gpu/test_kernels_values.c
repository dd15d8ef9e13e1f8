/* test_kernels_values.c - kernels that work value by value: cast, add, act, merge, dequant,
 * embed. Of cast, merge, dequant and embed every bit is the definition's. */
#include "tests/gpu/lab.h"

#include <math.h>

#include "base/half.h"
#include "compute/quant.h"

typedef struct size_row {
    const char *name;
    int64_t n;
    int skew; /* elements that pointers are off a multiple of 16 bytes */
    bool tiny;
} size_row;

static const size_row sizes[] = {
    {"none", 0, 0, false},    {"1", 1, 0, false},       {"31", 31, 0, false},
    {"33", 33, 1, true},      {"256", 256, 0, false},   {"1023", 1023, 0, false},
    {"1024", 1024, 1, false}, {"4097", 4097, 0, false}, {"4100", 4100, 3, false},
};

static bool left_out(bool tiny)
{
    return test_tiny() && !tiny;
}

/* Case k of a loop inside of a row. */
static bool too_many(int k)
{
    return test_tiny() && k > 0;
}

static void casts(void **state)
{
    const size_row *s = *state;
    if (left_out(s->tiny))
        skip();
    for (int from = DEV_F32; from <= DEV_BF16; from++)
        for (int to = DEV_F32; to <= DEV_BF16; to++) {
            if (too_many(from + to))
                continue;
            lab *l = lab_open();
            char *in = lab_typed(l, (dev_type)from, s->n + s->skew, 70000);
            char *out = lab_memory(l, (s->n + s->skew) * dev_type_size((dev_type)to));
            lab_near(l, out, to, 0, 0);
            dev_cast_args a = {.out = out + s->skew * dev_type_size((dev_type)to),
                               .in = in + s->skew * dev_type_size((dev_type)from),
                               .to = (dev_type)to,
                               .from = (dev_type)from,
                               .n = s->n};
            if (s->n == 0) {
                a.out = out;
                a.in = in;
            }
            LAB_RUN(l, cast, a, P(out) P(in));
            lab_close(l);
        }
}

/* Every half and every brain float to f32, and floats around every step of halves back. */
static void every_half(void **state)
{
    (void)state;
    if (test_tiny())
        skip();
    for (int type = DEV_F16; type <= DEV_BF16; type++) {
        lab *l = lab_open();
        uint16_t *in = lab_memory(l, 65536 * 2);
        for (int i = 0; i < 65536; i++)
            in[i] = (uint16_t)i;
        float *out = lab_floats(l, 65536, 1);
        lab_near(l, out, DEV_F32, 0, 0);
        dev_cast_args a = {
            .out = out, .in = in, .to = DEV_F32, .from = (dev_type)type, .n = 65536};
        LAB_RUN(l, cast, a, P(out) P(in));
        lab_close(l);

        l = lab_open();
        float *x = lab_floats(l, 3 * 65535, 1);
        uint16_t *back = lab_memory(l, 3 * 65535 * 2);
        for (int i = 0; i < 65535; i++) {
            float u = type == DEV_F16 ? half_to_float((uint16_t)i) : bf16_to_float((uint16_t)i);
            float w = type == DEV_F16 ? half_to_float((uint16_t)(i + 1))
                                      : bf16_to_float((uint16_t)(i + 1));
            x[3 * i] = u;
            x[3 * i + 1] = (float)(0.5 * ((double)u + (double)w)); /* ties */
            x[3 * i + 2] = nextafterf(x[3 * i + 1], w);
        }
        lab_near(l, back, type, 0, 0);
        dev_cast_args b = {
            .out = back, .in = x, .to = (dev_type)type, .from = DEV_F32, .n = 3 * 65535};
        LAB_RUN(l, cast, b, P(out) P(in));
        lab_close(l);
    }
}

static void adds(void **state)
{
    const size_row *s = *state;
    if (left_out(s->tiny))
        skip();
    const int64_t periods[] = {s->n, 1, 31, 64, 256};
    for (int i = 0; i < CHECK_COUNT(periods) && !too_many(i); i++) {
        lab *l = lab_open();
        float *x = lab_floats(l, s->n + s->skew, 3);
        float *y = lab_floats(l, periods[i] + s->skew, 3);
        lab_near(l, x, DEV_F32, 0, 0);
        dev_add_args a = {.x = x + s->skew, .y = y + s->skew, .n = s->n, .period = periods[i]};
        if (s->n == 0)
            a.x = x, a.y = y;
        LAB_RUN(l, add, a, P(x) P(y));
        lab_close(l);
    }
}

static void acts(void **state)
{
    const size_row *s = *state;
    if (left_out(s->tiny))
        skip();
    for (int k = 0; k < 6 && !too_many(k); k++) {
        dev_type type = (dev_type)(k / 2);
        lab *l = lab_open();
        float *gate = lab_floats(l, s->n + s->skew, 8);
        float *up = lab_floats(l, s->n + s->skew, 2);
        for (int64_t i = 0; i < s->n; i += 7) /* far out: no NAN, no infinity */
            gate[s->skew + i] = (float)lab_uniform(l, -200, 200);
        char *out = lab_memory(l, (s->n + s->skew) * dev_type_size(type));
        /* gelu: 1 + tanh loses its digits left of -3, where it is below 1e-3 */
        lab_near(l, out, (int)type, 1e-4, k % 2 ? 2e-6 : 1e-30);
        dev_act_args a = {
            .out = out, .type = type, .gate = gate, .up = up, .n = s->n, .gelu = k % 2};
        if (s->n > 0) {
            a.out = out + s->skew * dev_type_size(type);
            a.gate = gate + s->skew;
            a.up = up + s->skew;
        }
        LAB_RUN(l, act, a, P(out) P(gate) P(up));
        lab_close(l);
    }
}

typedef struct merge_row {
    const char *name;
    int64_t n_row, n_head, head_dim, ld;
    bool tiny;
} merge_row;

static const merge_row merges[] = {
    {"no rows", 0, 2, 64, 128, false},        {"one of one", 1, 1, 1, 1, false},
    {"3 x 2 x 8", 3, 2, 8, 16, true},         {"odd width", 5, 3, 31, 93, false},
    {"33 rows", 33, 9, 64, 576, false},       {"wider rows", 17, 4, 128, 515, false},
    {"wide and far", 31, 8, 80, 1024, false},
};

static void heads_merge(void **state)
{
    const merge_row *s = *state;
    if (left_out(s->tiny))
        skip();
    for (int type = DEV_F32; type <= DEV_BF16 && !too_many(type); type++) {
        lab *l = lab_open();
        float *x = lab_floats(l, s->n_row * s->n_head * s->head_dim, 3);
        void *out = lab_memory(l, s->n_row * s->ld * dev_type_size((dev_type)type));
        dev_merge_args a = {.out = out,
                            .type = (dev_type)type,
                            .x = x,
                            .n_row = s->n_row,
                            .n_head = s->n_head,
                            .head_dim = s->head_dim,
                            .ld = s->ld};
        LAB_RUN(l, merge, a, P(out) P(x));
        lab_close(l);
    }
}

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

static void blocks_decode(void **state)
{
    const struct quant_row *q = *state;
    const int64_t counts[] = {0, 1, 2, 17, 130}; /* blocks */
    int64_t width = quant_find(q->quant)->n_weight;
    for (int k = 0; k < 3 * CHECK_COUNT(counts); k++) {
        dev_type type = (dev_type)(k % 3);
        int64_t n = counts[k / 3] * width;
        if (test_tiny() && (k != 3 || q->quant != QUANT_Q4_K))
            continue;
        for (int skew = 0; skew < 2 && !too_many(skew); skew++) {
            lab *l = lab_open();
            void *in = lab_blocks(l, q->quant, n);
            char *out = lab_memory(l, (n + skew) * dev_type_size(type));
            lab_near(l, out, (int)type, 0, 0);
            dev_dequant_args a = {.out = n ? out + skew * dev_type_size(type) : out,
                                  .type = type,
                                  .in = in,
                                  .quant = q->quant,
                                  .n = n};
            LAB_RUN(l, dequant, a, P(out) P(in));
            lab_close(l);
        }
    }
}

/* Any bytes: scales that are denormal, infinite, no number. */
static void any_bytes_decode(void **state)
{
    const struct quant_row *q = *state;
    const quant_info *info = quant_find(q->quant);
    int64_t n_block = 4096 / info->n_weight;
    if (test_tiny())
        skip();
    lab *l = lab_open();
    unsigned char *in = lab_memory(l, n_block * info->n_byte);
    for (int64_t i = 0; i < n_block * info->n_byte; i++)
        in[i] = (unsigned char)lab_uniform(l, 0, 256);
    float *out = lab_floats(l, 4096, 1);
    lab_near(l, out, DEV_F32, 0, 0);
    dev_dequant_args a = {.out = out, .type = DEV_F32, .in = in, .quant = q->quant, .n = 4096};
    LAB_RUN(l, dequant, a, P(out) P(in));
    lab_close(l);
}

static void rows_embed(void **state)
{
    const struct quant_row *q = *state;
    const quant_info *info = quant_find(q->quant);
    const int64_t rows[] = {0, 1, 5, 33}, widths[] = {1, 2, 9};
    for (int k = 0; k < 12; k++) {
        int64_t n = rows[k / 3],
                e = widths[k % 3] * (info->n_weight == 1 ? 33 : info->n_weight);
        if (test_tiny() && (k != 3 || q->quant != QUANT_Q4_K))
            continue;
        lab *l = lab_open();
        void *table = lab_blocks(l, q->quant, 11 * e);
        int32_t *id = lab_ints(l, n, 11);
        float *x = lab_floats(l, n * e, 1);
        dev_embed_args a = {.x = x,
                            .id = id,
                            .table = table,
                            .quant = q->quant,
                            .n_row = n,
                            .n_hidden = e,
                            .row_bytes = e / info->n_weight * info->n_byte,
                            .scale = k % 2 ? 1.0f : 25.298221f};
        LAB_RUN(l, embed, a, P(x) P(id) P(table));
        lab_close(l);
    }
}

static void unknown_blocks_are_refused(void **state)
{
    (void)state;
    kvt_err err;
    kvt_device *d = test_device_open();
    dev_dequant_args a = {.quant = 99, .n = 32};
    CHECK_FAILS(d->dequant(d, &a, &err), KVT_FORMAT, "blocks of type 99", &err);
    dev_gemv_args g = {.quant = 99, .n_row = 1, .n_col = 32};
    CHECK_FAILS(d->gemv(d, &g, &err), KVT_FORMAT, "blocks of type 99", &err);
    dev_embed_args e = {.quant = 99, .n_row = 1, .n_hidden = 32};
    CHECK_FAILS(d->embed(d, &e, &err), KVT_FORMAT, "blocks of type 99", &err);
    d->close(d);
}

int main(void)
{
    struct CMUnitTest tests[100] = {cmocka_unit_test(every_half),
                                    cmocka_unit_test(unknown_blocks_are_refused)};
    int n = 2;
    CHECK_ROWS(tests, &n, sizes, casts);
    CHECK_ROWS(tests, &n, sizes, adds);
    CHECK_ROWS(tests, &n, sizes, acts);
    CHECK_ROWS(tests, &n, merges, heads_merge);
    CHECK_ROWS(tests, &n, quants, blocks_decode);
    CHECK_ROWS(tests, &n, quants, any_bytes_decode);
    CHECK_ROWS(tests, &n, quants, rows_embed);
    return CHECK_RUN("kernels: values", tests, n);
}
