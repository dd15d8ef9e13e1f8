/* test_pieces.c - pools, sums and the best k against their plain definitions, and the vectors
 * of the policy page, 1.4 and 1.5. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "kvt/pieces.h"
#include "../toy.h"

static kvt_arena *memory;

/* Whole numbers from 0 to 6: sums are exact, ties are common. */
static void fill(float *x, int64_t n, uint64_t seed)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(toy_mix(seed * 1000 + (uint64_t)i) % 7);
}

static void pools_are_their_definition(void **state)
{
    (void)state;
    enum { N_MAX = 700 };
    static float in[N_MAX], mean[N_MAX], max[N_MAX];
    static const int64_t sizes[] = {1, 2, 3, 7, 8, 31, 255, 256, 257, 700};
    static const int64_t widths[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 64, 255};
    for (size_t a = 0; a < sizeof sizes / sizeof *sizes; a++)
        for (size_t b = 0; b < sizeof widths / sizeof *widths; b++) {
            int64_t n = sizes[a], r = widths[b] / 2;
            fill(in, n, a * 31 + b);
            kvt_pool_mean(mean, in, n, widths[b]);
            kvt_pool_max(max, in, n, widths[b]);
            for (int64_t i = 0; i < n; i++) {
                double sum = 0;
                float most = 0;
                for (int64_t m = kvt_max(i - r, 0); m <= kvt_min(i + r, n - 1); m++) {
                    sum += (double)in[m];
                    most = in[m] > most ? in[m] : most;
                }
                if (max[i] != most || mean[i] != (float)(sum / (double)(2 * r + 1)))
                    fail_msg("n %lld width %lld at %lld: mean %g max %g, expected %g %g",
                             (long long)n, (long long)widths[b], (long long)i, (double)mean[i],
                             (double)max[i], sum / (double)(2 * r + 1), (double)most);
            }
        }
}

static void pools_of_negative_values(void **state)
{
    (void)state;
    float in[4] = {-5, -2, -3, -9}, out[4];
    const float want[4] = {-2, -2, -2, -3};
    kvt_pool_max(out, in, 4, 3);
    assert_memory_equal(out, want, sizeof want);
    kvt_pool_max(out, in, 0, 3); /* nothing to do, nothing touched */
    kvt_pool_mean(out, in, 0, 3);
    assert_memory_equal(out, want, sizeof want);
}

/* s = [1,0,0,0,...], k = 5: mean [.2,.2,.2,0,...], the edge is divided by 5 too; max
 * [1,1,1,0,...]. */
static void pool_of_a_peak_at_the_edge(void **state)
{
    (void)state;
    const float in[6] = {1, 0, 0, 0, 0, 0};
    float out[6];
    kvt_pool_mean(out, in, 6, 5);
    for (int i = 0; i < 6; i++)
        assert_true(out[i] == (i < 3 ? 0.2f : 0));
    kvt_pool_max(out, in, 6, 5);
    for (int i = 0; i < 6; i++)
        assert_true(out[i] == (i < 3 ? 1 : 0));
}

/* Two heads [3,0,0] and [0,0,3], max pool of 3: pool then mean is [1.5,3,1.5], mean then pool
 * [1.5,1.5,1.5]; through snapkv with a window of one query. */
static void order_of_pool_and_heads(void **state)
{
    (void)state;
    static const struct {
        const char *params;
        float want[3];
    } rows[] = {{"window=1,pool=3,order=pool", {1.5f, 3, 1.5f}},
                {"window=1,pool=3,order=sum", {3, 3, 3}}};
    const kvt_policy *p = kvt_policy_find("snapkv");
    const float attn[2 * 4] = {3, 0, 0, 1, 0, 0, 3, 1};
    kvt_geometry geometry = {.n_head = 2, .n_kv_head = 1};
    kvt_sequence seq = {.n_prompt = 4, .geometry = &geometry};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        kvt_err err;
        float mark[8] = {0}, score[4] = {0};
        bool pinned[4] = {0};
        void *params = kvt_arena_get(memory, p->params_size);
        kvt_param_defaults(p->params, params);
        assert_int_equal(kvt_param_parse(p->params, params, rows[i].params, &err), KVT_OK);
        kvt_lane lane = {.n_slot = 4,
                         .now = 3,
                         .mark = mark,
                         .seq = &seq,
                         .scratch = memory,
                         .attn = kvt_view_of(attn, KVT_F32, KVT_SHAPE("HQS", 2, 1, 4))};
        p->step(params, &lane);
        p->score(params, score, pinned, &lane);
        for (int s = 0; s < 3; s++)
            if (score[s] != rows[i].want[s])
                fail_msg("%s: score[%d] is %g, expected %g", rows[i].params, s,
                         (double)score[s], (double)rows[i].want[s]);
        assert_true(pinned[3] && !pinned[0] && !pinned[1] && !pinned[2]);
    }
}

static void rows_and_heads_add_up(void **state)
{
    (void)state;
    enum { H = 3, Q = 2, S = 300, PAD = 310 }; /* rows lie apart by more than their length */
    static float rows[H * Q * PAD], mark[S], mean[S];
    fill(rows, H * Q * PAD, 5);
    kvt_view v = kvt_view_of(rows, KVT_F32, KVT_SHAPE("HQS", H, Q, S));
    v.stride[1] = PAD;
    v.stride[0] = Q * PAD;
    for (int s = 0; s < S; s++)
        mark[s] = 2;
    kvt_add_rows(mark, &v);
    kvt_view first = kvt_view_of(rows, KVT_F32, KVT_SHAPE("HS", H, S));
    first.stride[0] = Q * PAD;
    kvt_mean_heads(mean, &first);
    for (int s = 0; s < S; s++) {
        double sum = 2, heads = 0;
        for (int h = 0; h < H; h++) {
            heads += (double)rows[h * Q * PAD + s];
            for (int q = 0; q < Q; q++)
                sum += (double)rows[(h * Q + q) * PAD + s];
        }
        assert_true(mark[s] == (float)sum);
        assert_true(mean[s] == (float)(heads / H));
    }
}

static void best_leaves_pinned_out(void **state)
{
    (void)state;
    enum { N = 9 };
    const float score[N] = {1, 5, 5, NAN, 5, -1, 0, 9, 2};
    bool pinned[N] = {[5] = true, [7] = true}, keep[N];
    const bool want[N] = {false, true, true, false, false, true, false, true, false};
    assert_int_equal(kvt_keep_best(keep, score, pinned, N, 2, memory), 4);
    assert_memory_equal(keep, want, sizeof want);
    assert_int_equal(kvt_keep_best(keep, score, pinned, N, -3, memory), 2);
    assert_int_equal(kvt_keep_best(keep, score, NULL, N, 8, memory), 8);
    assert_false(keep[3]); /* NaN is last */
    assert_int_equal(kvt_keep_best(keep, score, pinned, N, 100, memory), N);
}

static void best_says_when_there_is_no_room(void **state)
{
    (void)state;
    kvt_arena *tight = kvt_arena_new(64);
    static float score[1000];
    static bool keep[1000];
    assert_int_equal(kvt_keep_best(keep, score, NULL, 1000, 3, tight), -1);
    kvt_arena_free(tight);
}

/* Case C005: where no slot lies before the window, the latest are best and none is pinned. */
static void window_longer_than_the_prompt(void **state)
{
    (void)state;
    float score[5] = {0};
    bool pinned[5] = {0};
    assert_int_equal(kvt_pin_window(score, pinned, 5, 5), 0);
    for (int s = 0; s < 5; s++)
        assert_true(!pinned[s] && (s == 0 || score[s] > score[s - 1]));
    assert_int_equal(kvt_pin_window(score, pinned, 5, 2), 3);
    assert_true(pinned[4] && pinned[3] && !pinned[2]);
}

static void random_numbers_fill_the_unit(void **state)
{
    (void)state;
    uint64_t rng[KVT_RNG_WORDS] = {1, 2, 3, 4};
    double sum = 0;
    int n = 20000, low = 0;
    for (int i = 0; i < n; i++) {
        double x = kvt_random(rng);
        assert_true(x >= 0 && x < 1);
        sum += x;
        low += x < 0.1;
    }
    /* standard errors 0.29 / sqrt(n) and 0.3 / sqrt(n); five of them */
    assert_true(fabs(sum / n - 0.5) < 5 * 0.29 / sqrt(n));
    assert_true(fabs((double)low / n - 0.1) < 5 * 0.3 / sqrt(n));
    assert_true(kvt_random_bits(rng) != kvt_random_bits(rng));
}

int main(void)
{
    memory = kvt_arena_new((size_t)64 << 20);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pools_are_their_definition),
        cmocka_unit_test(pools_of_negative_values),
        cmocka_unit_test(pool_of_a_peak_at_the_edge),
        cmocka_unit_test(order_of_pool_and_heads),
        cmocka_unit_test(rows_and_heads_add_up),
        cmocka_unit_test(best_leaves_pinned_out),
        cmocka_unit_test(best_says_when_there_is_no_room),
        cmocka_unit_test(window_longer_than_the_prompt),
        cmocka_unit_test(random_numbers_fill_the_unit),
    };
    int failed = cmocka_run_group_tests_name("pieces", tests, NULL, NULL);
    kvt_arena_free(memory);
    return failed;
}
