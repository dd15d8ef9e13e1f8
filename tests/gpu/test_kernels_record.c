/* test_kernels_record.c - what a trace keeps of a layer: record, moments. Sums of attention
 * have the definition's bits: both add rows in their order. */
#include "tests/gpu/lab.h"

#include <math.h>

typedef struct record_row {
    const char *name;
    int64_t n_head, n_prompt, n_token;
    int64_t pos, n_row, window;
    int64_t block, delay;
    int64_t block_first;
    bool blocks, maxima, tiny;
} record_row;

static const record_row rows[] = {
    {"no rows", 2, 8, 12, 0, 0, 0, 64, 4, 0, true, true, false},
    {"one row of one", 1, 1, 1, 0, 1, 0, 64, 1, 0, true, true, false},
    {"a prompt of 31 in one tile", 2, 31, 40, 0, 31, 0, 64, 8, 0, true, true, false},
    {"blocks of 4, rows 3 to 14", 2, 33, 40, 3, 11, 0, 4, 5, 0, true, true, true},
    {"the prompt's last block is short", 1, 33, 40, 28, 5, 0, 8, 1, 0, true, true, false},
    {"no blocks", 3, 20, 30, 8, 12, 0, 64, 3, 0, false, false, false},
    {"sums of blocks only", 1, 20, 30, 8, 12, 0, 4, 3, 0, true, false, false},
    {"a window: columns that left it close", 2, 60, 70, 32, 28, 9, 16, 6, 0, true, true, true},
    {"a step of the response", 4, 33, 50, 40, 1, 0, 8, 2, 0, true, true, false},
    {"the step that ends a block", 4, 33, 50, 40, 1, 0, 4, 2, 9, true, true, true},
    {"a step that sees a window", 2, 33, 50, 44, 1, 5, 4, 2, 9, true, true, false},
    {"rows behind the prompt", 2, 33, 66, 33, 33, 0, 8, 40, 5, true, true, false},
    {"64 rows over 300 keys", 3, 300, 320, 236, 64, 0, 64, 32, 2, true, true, false},
    {"128 rows, blocks of 64", 2, 700, 710, 512, 128, 0, 64, 100, 8, true, true, false},
    {"33 rows, blocks of 512, far", 1, 4097, 4100, 4064, 33, 0, 512, 16, 7, true, true, false},
    {"a window of 64 over 1000", 2, 1000, 1010, 640, 128, 64, 64, 16, 0, true, true, false},
};

/* p as softmax leaves it: rows add up to 1 over what they see. */
static float *attention(lab *l, const record_row *s, int64_t first, int64_t n_key, int64_t ld)
{
    float *p = lab_floats(l, s->n_head * s->n_row * ld, 1);
    for (int64_t i = 0; i < s->n_head * s->n_row; i++) {
        int64_t pos = s->pos + i % s->n_row;
        double sum = 0;
        for (int64_t t = 0; t < n_key; t++) {
            bool seen = first + t <= pos && (!s->window || pos - first - t < s->window);
            float z = (float)lab_uniform(l, 0, 1);
            p[i * ld + t] = seen ? z * z * z : 0;
            sum += (double)p[i * ld + t];
        }
        for (int64_t t = 0; t < n_key; t++)
            p[i * ld + t] = (float)((double)p[i * ld + t] / (sum > 0 ? sum : 1));
    }
    return p;
}

static void sum_is(const char *what, double got, double want)
{
    if (fabs(got - want) > 1e-5 * (want > 1 ? want : 1))
        fail_msg("mass of %s: expected %.9g, got %.9g", what, want, got);
}

/* Mass is conserved: every row gave 1. */
static void check_mass(lab *l, const record_row *s, const dev_record_args *a)
{
    const double *sum = lab_got(l, a->sum), *before = a->sum;
    double got = 0, behind = 0;
    for (int64_t i = 0; i < s->n_head * s->n_prompt; i++)
        got += sum[i] - before[i];
    for (int64_t i = 0; i < s->n_head * s->n_row; i++) /* keys that are not of the prompt */
        for (int64_t t = s->n_prompt > a->first ? s->n_prompt - a->first : 0; t < a->n_key; t++)
            behind += (double)a->p[i * a->ld + t];
    sum_is("the columns", got + behind, (double)(s->n_head * s->n_row));
}

static void columns_are_summed(void **state)
{
    const record_row *s = *state;
    if (test_tiny() && !s->tiny)
        skip();
    lab *l = lab_open();
    int64_t first = s->window && s->pos >= s->window ? s->pos - s->window + 1 : 0;
    int64_t n_key = s->n_row ? s->pos + s->n_row - first : 0, ld = n_key + 3;
    int64_t prompt_blocks = (s->n_prompt + s->block - 1) / s->block;
    int64_t n_block = prompt_blocks + (s->n_token - s->n_prompt + s->block - 1) / s->block;
    int64_t lanes = s->n_head * s->n_token;
    dev_record_args a = {.p = attention(l, s, first, n_key, ld),
                         .ld = ld,
                         .n_head = s->n_head,
                         .n_row = s->n_row,
                         .pos = s->pos,
                         .first = first,
                         .n_key = n_key,
                         .n_prompt = s->n_prompt,
                         .n_token = s->n_token,
                         .delay = s->delay,
                         .block = s->block,
                         .n_block = n_block - s->block_first,
                         .block_first = s->block_first,
                         .prompt_blocks = prompt_blocks,
                         .scale = 1024};
    a.sum = lab_doubles(l, s->n_head * s->n_prompt);
    a.max = lab_floats(l, s->n_head * s->n_prompt, 0.5);
    a.late = lab_doubles(l, lanes);
    if (s->blocks)
        a.open_sum = lab_floats(l, lanes, 1);
    if (s->maxima)
        a.open_max = lab_floats(l, lanes, 0.5);
    if (s->blocks)
        a.block_sum = lab_memory(l, lanes * a.n_block * 2);
    if (s->maxima)
        a.block_max = lab_memory(l, lanes * a.n_block * 2);
    for (int64_t i = 0; a.open_max && i < lanes; i++)
        a.open_max[i] = fabsf(a.open_max[i]);
    LAB_RUN(l, record, a,
            P(p) P(sum) P(max) P(late) P(open_sum) P(open_max) P(block_sum) P(block_max));
    check_mass(l, s, &a);
    lab_close(l);
}

/* A sequence in tiles of any size: the sums of all calls are those of the whole rows. */
static void tiles_add_up(void **state)
{
    (void)state;
    if (test_tiny())
        skip();
    enum { H = 2, N = 37, T = 48, BLOCK = 8, DELAY = 6 };
    const int64_t ends[] = {5, 16, 17, 37, 38, 39, 47, 48};
    int64_t prompt_blocks = (N + BLOCK - 1) / BLOCK, pos = 0;
    static double sum[2][H * N], late[H * T], mine[2][H * N], delayed[H * T];
    static float max[2][H * N], open_sum[H * T], open_max[H * T];
    static uint16_t block_sum[H * 7 * T], block_max[H * 7 * T];
    memset(sum, 0, sizeof sum);
    memset(late, 0, sizeof late);
    memset(mine, 0, sizeof mine);
    memset(delayed, 0, sizeof delayed);
    memset(max, 0, sizeof max);
    for (int i = 0; i < CHECK_COUNT(ends); pos = ends[i++]) {
        lab *l = lab_open();
        record_row s = {.n_head = H, .pos = pos, .n_row = ends[i] - pos};
        int64_t n_key = ends[i];
        int behind = pos >= N;
        dev_record_args a = {.p = attention(l, &s, 0, n_key, n_key),
                             .ld = n_key,
                             .n_head = H,
                             .n_row = s.n_row,
                             .pos = pos,
                             .n_key = n_key,
                             .n_prompt = N,
                             .n_token = T,
                             .delay = DELAY,
                             .block = BLOCK,
                             .n_block = 7,
                             .prompt_blocks = prompt_blocks,
                             .scale = 1};
        void *const state_of[] = {sum[behind], max[behind], late,     open_sum,
                                  open_max,    block_sum,   block_max};
        const size_t bytes[] = {sizeof sum[0],   sizeof max[0],   sizeof late,
                                sizeof open_sum, sizeof open_max, sizeof block_sum,
                                sizeof block_max};
        void *memory[7];
        for (int k = 0; k < 7; k++) {
            memory[k] = lab_memory(l, (int64_t)bytes[k]);
            memcpy(memory[k], state_of[k], bytes[k]);
        }
        a.sum = memory[0];
        a.max = memory[1];
        a.late = memory[2];
        a.open_sum = memory[3];
        a.open_max = memory[4];
        a.block_sum = memory[5];
        a.block_max = memory[6];
        for (int64_t r = 0; r < H * s.n_row; r++)
            for (int64_t t = 0; t < n_key; t++) {
                int64_t h = r / s.n_row;
                if (t < N)
                    mine[behind][h * N + t] += (double)a.p[r * n_key + t];
                if (pos + r % s.n_row - t >= DELAY)
                    delayed[h * T + t] += (double)a.p[r * n_key + t];
            }
        LAB_RUN(l, record, a,
                P(p) P(sum) P(max) P(late) P(open_sum) P(open_max) P(block_sum) P(block_max));
        for (int k = 0; k < 7; k++)
            memcpy(state_of[k], lab_got(l, memory[k]), bytes[k]);
        lab_close(l);
    }
    for (int64_t i = 0; i < H * N; i++)
        for (int k = 0; k < 2; k++)
            CHECK_NEAR(sum[k][i], mine[k][i], 1e-5);
    for (int64_t i = 0; i < H * T; i++)
        CHECK_NEAR(late[i], delayed[i], 1e-5);
}

typedef struct moment_row {
    const char *name;
    int64_t n_row, n_head, head_dim, gap;
    bool tiny;
} moment_row;

static const moment_row moments[] = {
    {"no rows", 0, 1, 8, 0, false},
    {"one pair", 1, 1, 2, 0, false},
    {"7 rows of 2 x 16", 7, 2, 16, 3, true},
    {"31 rows of 3 x 80", 31, 3, 80, 0, false},
    {"33 rows of 9 x 64", 33, 9, 64, 128, false},
    {"4097 rows", 4097, 1, 32, 0, false},
    {"129 rows of 4 x 256", 129, 4, 256, 0, false},
};

static void queries_are_summed(void **state)
{
    const moment_row *s = *state;
    if (test_tiny() && !s->tiny)
        skip();
    lab *l = lab_open();
    int64_t all = s->n_head * s->head_dim, ld = all + s->gap;
    float *q = lab_floats(l, s->n_row * ld, 3), *pivot = lab_floats(l, all, 3);
    float *centred = lab_floats(l, s->n_row * all, 1);
    double *sum = lab_doubles(l, all), *magnitude = lab_doubles(l, all / 2);
    lab_near(l, sum, LAB_F64, 1e-9, 1e-9);
    lab_near(l, magnitude, LAB_F64, 1e-6, 1e-6);
    dev_moments_args a = {.q = q,
                          .pivot = pivot,
                          .centred = centred,
                          .sum = sum,
                          .magnitude = magnitude,
                          .ld = ld,
                          .n_row = s->n_row,
                          .n_head = s->n_head,
                          .head_dim = s->head_dim};
    LAB_RUN(l, moments, a, P(q) P(pivot) P(centred) P(sum) P(magnitude));
    lab_close(l);
}

int main(void)
{
    struct CMUnitTest tests[40] = {cmocka_unit_test(tiles_add_up)};
    int n = 1;
    CHECK_ROWS(tests, &n, rows, columns_are_summed);
    CHECK_ROWS(tests, &n, moments, queries_are_summed);
    return CHECK_RUN("kernels: record", tests, n);
}
