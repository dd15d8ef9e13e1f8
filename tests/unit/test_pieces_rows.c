/* test_pieces_rows.c - rows over keys, linear maps and reductions against their plain
 * definitions in double; what a value is does not depend on what else is in the call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/pieces.h"
#include "../toy.h"

static kvt_arena *memory;

/* From -2 to 2. */
static float *fill(int64_t n, uint64_t seed)
{
    float *x = kvt_arena_array(memory, n, sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(toy_mix(seed * 1000003 + (uint64_t)i) % 4001) / 1000 - 2;
    return x;
}

static double dot(const float *a, const float *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

static void check_softmax(const float *got, const float *q, const float *key, int64_t first,
                          int64_t end, int64_t n_key, int64_t n_dim, double scale)
{
    double sum = 0;
    for (int64_t s = first; s < end; s++)
        sum += exp(scale * dot(q, key + s * n_dim, n_dim));
    for (int64_t s = 0; s < n_key; s++) {
        bool seen = s >= first && s < end;
        double want = seen ? exp(scale * dot(q, key + s * n_dim, n_dim)) / sum : 0;
        if (seen ? fabs((double)got[s] - want) > 1e-6 : got[s] != 0)
            fail_msg("key %lld of %lld is %.9g, expected %.9g", (long long)s, (long long)n_key,
                     (double)got[s], want);
    }
}

static void softmax_rows_are_their_definition(void **state)
{
    (void)state;
    static const int64_t dims[] = {1, 7, 8, 64, 80}, sizes[] = {1, 2, 15, 16, 33, 200};
    enum { Q = 5 };
    for (size_t a = 0; a < sizeof dims / sizeof *dims; a++)
        for (size_t b = 0; b < sizeof sizes / sizeof *sizes; b++) {
            size_t mark = kvt_arena_mark(memory);
            int64_t d = dims[a], n = sizes[b], ld = d + 3;
            float *q = fill(Q * ld, a), *key = fill(n * d, b + 10);
            float *out = kvt_arena_array(memory, Q * n, sizeof *out);
            float *one = kvt_arena_array(memory, n, sizeof *one);
            const int64_t see[Q] = {n, 0, 1, n / 2 + 1, n + 5};
            const float scale = 0.3f;
            kvt_softmax_rows(out, q, ld, Q, key, n, d, scale, see);
            for (int i = 0; i < Q; i++) {
                check_softmax(out + i * n, q + i * ld, key, 0, kvt_min(see[i], n), n, d,
                              (double)scale);
                kvt_softmax_rows(one, q + i * ld, 0, 1, key, n, d, scale, see + i);
                assert_memory_equal(one, out + i * n, (size_t)n * sizeof *one);
            }
            kvt_softmax_rows(out, q, ld, Q, key, n, d, scale, NULL);
            check_softmax(out + n, q + ld, key, 0, n, n, d, (double)scale);
            kvt_arena_rewind(memory, mark);
        }
}

/* Logits far apart: what is far below underflows to 0, nothing becomes NaN. */
static void softmax_of_large_logits(void **state)
{
    (void)state;
    const float q[1] = {1}, key[4] = {1e4f, -1e4f, 1e4f, 0};
    float out[4];
    kvt_softmax_rows(out, q, 1, 1, key, 4, 1, 1, NULL);
    assert_true(out[0] == 0.5f && out[2] == 0.5f && out[1] == 0 && out[3] == 0);
}

static void heads_see_ranges_of_strided_keys(void **state)
{
    (void)state;
    enum { H = 2, Q = 3, S = 20, D = 8, PAD = 11 };
    float *q = fill(H * Q * D, 1), *padded = fill(S * PAD, 2), key[S * D], out[H * Q * S];
    for (int s = 0; s < S; s++)
        memcpy(key + s * D, padded + s * PAD, D * sizeof *key);
    kvt_view queries = kvt_view_of(q, KVT_F32, KVT_SHAPE("HQD", H, Q, D));
    kvt_view keys = kvt_view_of(padded, KVT_F32, KVT_SHAPE("SD", S, D));
    keys.stride[0] = PAD;
    const int64_t first[Q] = {0, 4, 19}, end[Q] = {1, 13, 25};
    assert_true(kvt_softmax_heads(out, &queries, &keys, 0.5f, first, end, memory));
    for (int i = 0; i < H * Q; i++)
        check_softmax(out + i * S, q + i * D, key, first[i % Q], kvt_min(end[i % Q], S), S, D,
                      0.5);
    kvt_arena *tight = kvt_arena_new(64);
    assert_false(kvt_softmax_heads(out, &queries, &keys, 0.5f, first, end, tight));
    kvt_arena_free(tight);
}

static void affine_is_its_definition(void **state)
{
    (void)state;
    static const int64_t ins[] = {1, 5, 31, 32, 129}, outs[] = {1, 2, 16, 65};
    enum { N = 7 };
    for (size_t a = 0; a < sizeof ins / sizeof *ins; a++)
        for (size_t b = 0; b < sizeof outs / sizeof *outs; b++) {
            size_t mark = kvt_arena_mark(memory);
            int64_t w = ins[a], k = outs[b], ld = w + 2;
            float *x = fill(N * ld, a), *weight = fill(k * w, b), *bias = fill(k, 3);
            float *out = kvt_arena_array(memory, N * k, sizeof *out);
            float *one = kvt_arena_array(memory, k, sizeof *one);
            for (int with = 0; with < 2; with++) {
                kvt_affine(out, x, ld, N, w, weight, with ? bias : NULL, k);
                for (int64_t i = 0; i < N * k; i++) {
                    double want = dot(x + i / k * ld, weight + i % k * w, w) +
                                  (with ? (double)bias[i % k] : 0);
                    assert_true(fabs((double)out[i] - want) < 2e-6 * (double)(w + 1) * 4);
                }
                kvt_affine(one, x + 3 * ld, ld, 1, w, weight, with ? bias : NULL, k);
                assert_memory_equal(one, out + 3 * k, (size_t)k * sizeof *one);
            }
            kvt_arena_rewind(memory, mark);
        }
}

static void activations_are_their_definition(void **state)
{
    (void)state;
    enum { N = 700 };
    float x[N], silu[N], gelu[N], part[N];
    for (int i = 0; i < N; i++)
        x[i] = ((float)i - N / 2) / 20;
    memcpy(silu, x, sizeof x);
    memcpy(gelu, x, sizeof x);
    kvt_silu(silu, N);
    kvt_gelu(gelu, N);
    for (int i = 0; i < N; i++) {
        double v = (double)x[i], s = v / (1 + exp(-v)), g = v * 0.5 * (1 + erf(v / sqrt(2)));
        assert_true(fabs((double)silu[i] - s) < 1e-6 * (1 + fabs(s)));
        assert_true(fabs((double)gelu[i] - g) < 1e-6 * (1 + fabs(g)));
    }
    for (int n = 1; n < 40; n++) { /* wherever it stands */
        memcpy(part, x + 300, sizeof part - 300 * sizeof *part);
        kvt_silu(part, n);
        assert_memory_equal(part, silu + 300, (size_t)n * sizeof *part);
    }
    float far[2] = {-200, 200};
    kvt_silu(far, 2);
    assert_true(far[0] <= 0 && far[0] > -1e-6f && far[1] == 200);
}

/* ---- reductions ----------------------------------------------------------------------------
 */

/* Two heads [3,0,0] and [0,0,3]: every order and reduction gives another score. */
static void orders_and_reductions(void **state)
{
    (void)state;
    static const struct {
        kvt_reduction r;
        float want[3];
    } rows[] = {
        {{.reduce = KVT_REDUCE_MEAN, .pool = 0}, {1.5f, 0, 1.5f}},
        {{.reduce = KVT_REDUCE_MEAN, .pool = 1}, {1.5f, 0, 1.5f}},
        {{.reduce = KVT_REDUCE_MAX, .pool = 0}, {3, 0, 3}},
        {{.reduce = KVT_REDUCE_MEAN, .pool = 3}, {1.5f, 1.5f, 1.5f}},
        {{.reduce = KVT_REDUCE_MEAN, .pool = 3, .order = KVT_ORDER_POOL_REDUCE},
         {1.5f, 3, 1.5f}},
        {{.reduce = KVT_REDUCE_MAX, .pool = 3}, {3, 3, 3}},
        {{.reduce = KVT_REDUCE_MAX, .pool = 3, .order = KVT_ORDER_POOL_REDUCE}, {3, 3, 3}},
        {{.reduce = KVT_REDUCE_MEAN, .pool = 3, .kind = KVT_POOL_AVG}, {0.5f, 1, 0.5f}},
        {{.reduce = KVT_REDUCE_MAX, .pool = 3, .kind = KVT_POOL_AVG}, {1, 2, 1}},
        {{.reduce = KVT_REDUCE_MAX,
          .pool = 3,
          .kind = KVT_POOL_AVG,
          .order = KVT_ORDER_POOL_REDUCE},
         {1, 1, 1}},
    };
    /* two rows each, of which the sums are those above; rows lie 5 apart */
    const float attn[2][2][5] = {{{1, 0, 0, 9, 9}, {2, 0, 0, 9, 9}},
                                 {{0, 0, 3, 9, 9}, {0, 0, 0, 9, 9}}};
    kvt_view v = kvt_view_of(attn, KVT_F32, KVT_SHAPE("HQS", 2, 2, 5));
    v.dim[2] = 3;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        float score[3];
        bool pinned[3] = {0};
        kvt_reduce_rows(score, pinned, &v, &rows[i].r, memory);
        for (int s = 0; s < 3; s++)
            if (score[s] != rows[i].want[s] || pinned[s])
                fail_msg("row %d: score[%d] is %g, expected %g", (int)i, s, (double)score[s],
                         (double)rows[i].want[s]);
    }
}

static void recent_slots_are_pinned(void **state)
{
    (void)state;
    const float attn[4] = {1, 2, 3, 4};
    kvt_view v = kvt_view_of(attn, KVT_F32, KVT_SHAPE("HQS", 1, 1, 4));
    for (int recent = 0; recent < 7; recent++) {
        float score[4];
        bool pinned[4] = {0};
        kvt_reduction r = {.recent = recent};
        kvt_reduce_rows(score, pinned, &v, &r, memory);
        for (int s = 0; s < 4; s++)
            assert_true(pinned[s] == (s >= 4 - recent) && score[s] == attn[s]);
    }
}

/* 16.12: what lies outside is left out of the maximum, not 0; even widths are refused. */
static void pools_have_a_middle(void **state)
{
    (void)state;
    const float low[4] = {-5, -2, -3, -9}, want[4] = {-2, -2, -2, -3};
    float out[4];
    char why[160] = "";
    kvt_pool(out, low, 4, 3, KVT_POOL_MAX);
    assert_memory_equal(out, want, sizeof want);
    for (int width = 0; width < 20; width++) {
        kvt_reduction r = {.pool = width};
        assert_int_equal(kvt_reduction_fits(&r, 4, 10, why, sizeof why),
                         width == 0 || width % 2 == 1);
    }
    assert_non_null(strstr(why, "18"));
    kvt_reduction recent = {.recent = 5};
    assert_false(kvt_reduction_fits(&recent, 4, 10, why, sizeof why));
    assert_true(kvt_reduction_fits(&recent, 5, 10, why, sizeof why));
    assert_true(kvt_reduction_fits(&recent, 4, 4, why, sizeof why));
}

static void no_room_is_no_score(void **state)
{
    (void)state;
    static float attn[1000], score[1000];
    static bool pinned[1000];
    kvt_view v = kvt_view_of(attn, KVT_F32, KVT_SHAPE("HQS", 1, 1, 1000));
    kvt_arena *tight = kvt_arena_new(64);
    kvt_reduction r = {.pool = 3};
    kvt_reduce_rows(score, pinned, &v, &r, tight);
    assert_true(isnan(score[0]) && isnan(score[999]));
    kvt_arena_free(tight);
}

int main(void)
{
    memory = kvt_arena_new((size_t)64 << 20);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(softmax_rows_are_their_definition),
        cmocka_unit_test(softmax_of_large_logits),
        cmocka_unit_test(heads_see_ranges_of_strided_keys),
        cmocka_unit_test(affine_is_its_definition),
        cmocka_unit_test(activations_are_their_definition),
        cmocka_unit_test(orders_and_reductions),
        cmocka_unit_test(recent_slots_are_pinned),
        cmocka_unit_test(pools_have_a_middle),
        cmocka_unit_test(no_room_is_no_score),
    };
    int failed = cmocka_run_group_tests_name("rows", tests, NULL, NULL);
    kvt_arena_free(memory);
    return failed;
}
