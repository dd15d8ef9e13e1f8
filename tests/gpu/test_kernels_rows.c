/* test_kernels_rows.c - kernels that work row by row: rmsnorm, norms, rope, softmax. */
#include "tests/gpu/lab.h"

#include <math.h>

static bool left_out(bool tiny)
{
    return test_tiny() && !tiny;
}

typedef struct norm_row {
    const char *name;
    int64_t n_row, n_hidden;
    double scale;
    bool tiny;
} norm_row;

static const norm_row norms[] = {
    {"no rows", 0, 64, 1, false},     {"one value", 1, 1, 1, false},
    {"31 wide", 3, 31, 1, false},     {"33 wide, large", 2, 33, 1e4, true},
    {"576 wide", 7, 576, 3, false},   {"1024 wide, small", 2, 1024, 1e-4, false},
    {"4097 wide", 3, 4097, 1, false}, {"33 rows of 640", 33, 640, 20, false},
};

static void rows_are_normed(void **state)
{
    const norm_row *s = *state;
    if (left_out(s->tiny))
        skip();
    for (int k = 0; k < (test_tiny() ? 1 : 6); k++) { /* each type, with lengths and without */
        dev_type type = (dev_type)(k / 2);
        lab *l = lab_open();
        float *x = lab_floats(l, s->n_row * s->n_hidden, s->scale);
        float *gain = lab_floats(l, s->n_hidden, 2);
        float *length = lab_floats(l, s->n_row, 1);
        void *out = lab_memory(l, s->n_row * s->n_hidden * dev_type_size(type));
        dev_rmsnorm_args a = {.out = out,
                              .type = type,
                              .x = x,
                              .gain = gain,
                              .length = k % 2 ? length : NULL,
                              .n_row = s->n_row,
                              .n_hidden = s->n_hidden,
                              .eps = 1e-6f};
        if (type == DEV_F32)
            a.out = x; /* in place */
        lab_near(l, a.out, (int)type, 1e-5, 0);
        lab_near(l, length, DEV_F32, 1e-5, 0);
        LAB_RUN(l, rmsnorm, a, P(out) P(x) P(gain) P(length));
        lab_close(l);
    }
}

static void rows_are_measured(void **state)
{
    const norm_row *s = *state;
    if (left_out(s->tiny))
        skip();
    lab *l = lab_open();
    float *x = lab_floats(l, s->n_row * s->n_hidden, s->scale);
    float *l1 = lab_floats(l, s->n_row, 1), *l2 = lab_floats(l, s->n_row, 1);
    lab_near(l, l1, DEV_F32, 1e-5, 0);
    lab_near(l, l2, DEV_F32, 1e-5, 0);
    dev_norms_args a = {x, l1, l2, s->n_row, s->n_hidden};
    LAB_RUN(l, norms, a, P(x) P(l1) P(l2));
    lab_close(l);
}

typedef struct rope_row {
    const char *name;
    int64_t n_row, n_head, head_dim;
    int64_t gap; /* behind the heads of a row */
    bool gain, table, out, cache;
    bool tiny;
} rope_row;

static const rope_row ropes[] = {
    {"no rows", 0, 2, 16, 0, true, true, true, true, false},
    {"one pair", 1, 1, 2, 0, false, true, true, true, false},
    {"all", 3, 2, 16, 0, true, true, true, true, true},
    {"values: no norm, no rotation", 3, 3, 31, 2, false, false, true, true, false},
    {"norm only", 5, 2, 33, 0, true, false, false, false, false},
    {"norm, stored unturned", 5, 2, 33, 3, true, false, true, false, false},
    {"64 wide, 9 heads", 33, 9, 64, 64, false, true, true, true, false},
    {"80 wide", 31, 4, 80, 1, true, true, true, false, false},
    {"128 wide", 17, 8, 128, 0, true, true, true, true, false},
    {"256 wide", 4, 4, 256, 512, true, true, true, false, false},
};

static void heads_turn(void **state)
{
    const rope_row *s = *state;
    if (left_out(s->tiny))
        skip();
    int64_t d = s->head_dim, ld = s->n_head * d + s->gap, room = s->n_row + 2;
    for (int type = DEV_F32; type <= (test_tiny() ? DEV_F32 : DEV_BF16); type++) {
        lab *l = lab_open();
        float *x = lab_floats(l, s->n_row * ld, 3);
        float *gain = lab_floats(l, d, 2);
        float *table = lab_floats(l, s->n_row * d, 1);
        void *out = lab_memory(l, s->n_head * room * d * dev_type_size((dev_type)type));
        for (int64_t i = 0; s->table && i < s->n_row * d; i++) {
            double angle = lab_uniform(l, 0, 7);
            int64_t at = i / d * d + i % d % (d / 2);
            table[at] = (float)cos(angle);
            table[at + d / 2] = (float)sin(angle);
        }
        /* The cache: a head's rows side by side. Else a row's heads. */
        dev_rope_args a = {.x = x,
                           .gain = s->gain ? gain : NULL,
                           .table = s->table ? table : NULL,
                           .out = s->out ? out : NULL,
                           .type = (dev_type)type,
                           .ld = ld,
                           .head_stride = s->cache ? room * d : d,
                           .row_stride = s->cache ? d : s->n_head * d,
                           .n_row = s->n_row,
                           .n_head = s->n_head,
                           .head_dim = d,
                           .eps = 1e-6f};
        lab_near(l, x, DEV_F32, s->gain ? 1e-5 : 0, 0);
        lab_near(l, out, type, 1e-5, 1e-5); /* the difference of two products */
        LAB_RUN(l, rope, a, P(x) P(gain) P(table) P(out));
        lab_close(l);
    }
}

/* What the scores are like. */
typedef enum scores { SMALL, EXTREME, LOST, EQUAL, NAN_ROW } scores;

typedef struct softmax_row {
    const char *name;
    int64_t n_head, n_row, pos, window, ld, pad;
    scores scores;
    bool tiny;
} softmax_row;

static const softmax_row softmaxes[] = {
    {"no rows", 2, 0, 0, 0, 8, 0, SMALL, false},
    {"one", 1, 1, 0, 0, 1, 0, SMALL, false},
    {"31 in front", 2, 31, 0, 0, 31, 0, SMALL, false},
    {"33 behind 10", 3, 33, 10, 0, 43, 1, EXTREME, false},
    {"a window of 7", 2, 32, 100, 7, 40, 0, SMALL, false},
    {"a window of 1", 2, 5, 9, 1, 8, 0, EXTREME, true},
    {"a window wider than all", 2, 16, 20, 64, 36, 0, LOST, false},
    {"equal scores", 1, 9, 200, 0, 212, 0, EQUAL, false},
    {"a row of minus infinity", 2, 8, 30, 0, 40, 2, LOST, false},
    {"a decode step", 9, 1, 700, 0, 704, 0, EXTREME, false},
    {"one row of 4097", 2, 1, 4096, 0, 4097, 0, EXTREME, false},
    {"aligned and long", 1, 6, 4090, 0, 4096, 0, SMALL, false},
    {"a window in a long cache", 4, 64, 3000, 512, 576, 1, EXTREME, false},
    {"no numbers", 1, 3, 12, 0, 16, 0, NAN_ROW, true},
};

static float score(lab *l, const softmax_row *s, int64_t i)
{
    switch (s->scores) {
    case EXTREME: return (float)lab_uniform(l, -12000, 12000);
    case LOST: return i / s->ld == 1 || i % 3 == 0 ? -INFINITY : (float)lab_uniform(l, -90, 90);
    case EQUAL: return 3.25f;
    case NAN_ROW: return i / s->ld == 1 && i % 5 == 2 ? NAN : (float)lab_uniform(l, -3, 3);
    default: return (float)lab_uniform(l, -10, 10);
    }
}

/* Rows of what the device made add up to 1, or to 0 where there was nothing. */
static void check_sums(lab *l, const softmax_row *s, const dev_softmax_args *a)
{
    const float *p = lab_got(l, a->p), *lse = lab_got(l, a->lse);
    for (int64_t i = 0; i < s->n_head * s->n_row && s->scores != NAN_ROW; i++) {
        double sum = 0;
        for (int64_t t = 0; t < a->n_key; t++)
            sum += (double)p[i * s->ld + t];
        bool some = lse[i / s->n_row * a->ld_lse + i % s->n_row] > -INFINITY;
        CHECK_NEAR(sum, some ? 1 : 0, 1e-5);
    }
}

static void scores_become_attention(void **state)
{
    const softmax_row *s = *state;
    if (left_out(s->tiny))
        skip();
    for (int k = -1; k < (test_tiny() ? 0 : 3); k++) { /* no copy, and one of each type */
        lab *l = lab_open();
        dev_type type = (dev_type)(k < 0 ? 0 : k);
        int64_t n = s->n_head * s->n_row * s->ld, first = 0;
        if (s->window && s->pos - s->window + 1 > 0)
            first = s->pos - s->window + 1;
        float *p = lab_floats(l, n, 1);
        for (int64_t i = 0; i < n; i++)
            p[i] = score(l, s, i);
        void *cast = lab_memory(l, n * dev_type_size(type));
        float *lse = lab_floats(l, s->n_head * (s->n_row + s->pad), 1);
        /* exp of the largest distance is exact in neither: 12000 has an ulp of 1e-3 */
        lab_near(l, p, DEV_F32, 1e-5, 1e-37);
        lab_near(l, cast, (int)type, 1e-5, 1e-37);
        lab_near(l, lse, DEV_F32, 1e-6, 1e-6);
        dev_softmax_args a = {.p = p,
                              .cast = k < 0 ? NULL : cast,
                              .type = type,
                              .lse = lse,
                              .n_head = s->n_head,
                              .n_row = s->n_row,
                              .ld = s->ld,
                              .ld_lse = s->n_row + s->pad,
                              .pos = s->pos,
                              .first = first,
                              .n_key = s->pos + s->n_row - first,
                              .window = s->window};
        if (s->n_row == 0)
            a.n_key = 0;
        assert_true(a.n_key <= s->ld);
        LAB_RUN(l, softmax, a, P(p) P(cast) P(lse));
        check_sums(l, s, &a);
        lab_close(l);
    }
}

int main(void)
{
    struct CMUnitTest tests[60];
    int n = 0;
    CHECK_ROWS(tests, &n, norms, rows_are_normed);
    CHECK_ROWS(tests, &n, norms, rows_are_measured);
    CHECK_ROWS(tests, &n, ropes, heads_turn);
    CHECK_ROWS(tests, &n, softmaxes, scores_become_attention);
    return CHECK_RUN("kernels: rows", tests, n);
}
