/* test_stage_laws.c - policies that share out or select in two stages by what the last prompt
 * queries look at, against their formulae in double: cake, defensivekv, criticalkv, chunkkv. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "window_laws.h"

/* ---- cake ----------------------------------------------------------------------------------
 */

/* Score of each token of a lane; adds its part of the layer's two sums. */
static void cake_lane(double *out, double *entropy, double *shift, int layer, int group,
                      int64_t W, double gamma, int64_t width)
{
    double s[N] = {0};
    for (int h = group * EACH; h < (group + 1) * EACH; h++)
        for (int64_t j = 0; j < N - W; j++) {
            double mean = 0, square = 0;
            for (int64_t i = N - W; i < N; i++) {
                double a = attention(trace, layer, h, i, j);
                mean += a / (double)W;
                *entropy -= a * log(a + 1e-10);
            }
            for (int64_t i = N - W; i < N; i++) {
                double a = attention(trace, layer, h, i, j) - mean;
                square += a * a;
            }
            double var = W > 1 ? square / (double)(W - 1) : 0;
            *shift += var;
            s[j] += (mean + gamma * var) / EACH;
        }
    laws_pool_mean(out, s, N - W, width, false);
}

/* Slots of each layer: floor(x P) between 1 and room, the x found by bisection; what is over
 * goes to the first layers that are about to get one more. */
static void cake_shares(int64_t *c, const double *P, int64_t total, int64_t room)
{
    double low = 0, high = 1;
    int64_t sum = 0;
    for (int l = 0; l < LAYERS; l++)
        high = fmax(high, (double)(total + 1) / P[l]);
    for (int k = 0; k < 200; k++) {
        double x = (low + high) / 2;
        sum = 0;
        for (int l = 0; l < LAYERS; l++) {
            c[l] = (int64_t)fmin(fmax(floor(x * P[l]), 1), (double)room);
            sum += c[l];
        }
        if (sum > total)
            high = x;
        else
            low = x;
    }
    for (int l = 0; l < LAYERS; l++)
        c[l] = (int64_t)fmin(fmax(floor(low * P[l]), 1), (double)room);
}

static void cake_is(int64_t W, int64_t B, double tau1, double tau2)
{
    char params[96];
    double s[LAYERS][GROUPS][N], P[LAYERS];
    int64_t c[LAYERS];
    bool pinned[N];
    snprintf(params, sizeof params, "window=%lld,pool=3,gamma=50,tau1=%g,tau2=%g", (long long)W,
             tau1, tau2);
    mini_result r = laws_run(trace, "cake", params, B, true);
    for (int l = 0; l < LAYERS; l++) {
        double entropy = 0, shift = 0;
        for (int g = 0; g < GROUPS; g++)
            cake_lane(s[l][g], &entropy, &shift, l, g, W, 50, 3);
        P[l] = pow(entropy, 1 / tau1) * pow(shift, 1 / tau2);
    }
    cake_shares(c, P, (B - W) * LAYERS, N - W);
    assert_int_equal(c[0] + c[1], (B - W) * LAYERS);
    pin_last(pinned, W);
    for (int l = 0; l < LAYERS; l++)
        for (int g = 0; g < GROUPS; g++)
            laws_holds(trace, &r, 0, l, g, s[l][g], pinned, N, W + c[l]);
}

static void cake_shares_out_by_preference(void **state)
{
    (void)state;
    for (int64_t B = 10; B < N; B += 7) {
        cake_is(8, B, 1, 1);
        cake_is(8, B, 1.6, 0.4);
        cake_is(3, B, 1, 0.2); /* one layer at its cap, or at 1 */
    }
}

/* One row has no variance: no layer is preferred, and nothing is NaN. */
static void cake_of_one_row(void **state)
{
    (void)state;
    mini_result r = laws_run(trace, "cake", "window=1", 20, true);
    assert_false(r.infinite);
    for (int l = 0; l < LAYERS; l++)
        for (int g = 0; g < GROUPS; g++)
            assert_int_equal(mini_count(&r, trace, 0, l, g), 20);
}

/* 13, table of section 12: T <= B + W is left whole there, B < T holds here. */
static void cake_at_its_limit(void **state)
{
    (void)state;
    mini_result whole = laws_run(trace, "cake", "compat=official,window=8", N - 8, true);
    mini_result cut = laws_run(trace, "cake", "compat=official,window=8", N - 9, true);
    mini_result paper = laws_run(trace, "cake", "window=8", N - 8, true);
    int64_t n[3] = {0};
    for (int i = 0; i < LANES; i++) {
        n[0] += mini_count(&whole, trace, 0, i / GROUPS, i % GROUPS);
        n[1] += mini_count(&cut, trace, 0, i / GROUPS, i % GROUPS);
        n[2] += mini_count(&paper, trace, 0, i / GROUPS, i % GROUPS);
    }
    assert_int_equal(n[0], LANES * N);
    assert_int_equal(n[1], LANES * (N - 9));
    assert_int_equal(n[2], LANES * (N - 8));
}

/* ---- defensivekv ---------------------------------------------------------------------------
 */

/* a, m of a lane; the attention on the window (or the W slots before it), mean over rows. */
static void defensive_lane(double *a, double *m, double *bias, int layer, int group, int64_t W,
                           int64_t width, bool official)
{
    int64_t n = N - W;
    double mean = 0;
    for (int64_t s = 0; s < n; s++)
        a[s] = m[s] = 0;
    *bias = 0;
    for (int h = group * EACH; h < (group + 1) * EACH; h++)
        for (int64_t i = N - W; i < N; i++) {
            double row[N], pooled[N], before = 0, after = 0;
            for (int64_t s = 0; s < N; s++)
                row[s] = attention(trace, layer, h, i, s);
            if (official)
                laws_pool_mean(pooled, row, n, width, false);
            else
                laws_pool(pooled, row, n, width);
            for (int64_t s = 0; s < n; s++) {
                before += row[s];
                after += pooled[s];
            }
            for (int64_t s = 0; s < n; s++) {
                a[s] += row[s] / (double)(EACH * W);
                m[s] = fmax(m[s], pooled[s] / after * before);
            }
            for (int64_t s = official ? n - W : n; s < (official ? n : N); s++)
                *bias += row[s] / (double)(EACH * W);
        }
    for (int64_t s = 0; s < n; s++)
        mean += m[s] / (double)n;
    for (int64_t s = 0; s < n; s++)
        m[s] = fmax(m[s], mean);
}

/* The largest a before their share reaches `until`, at most `most`: score raised above all. */
static int64_t defensive_first(double *f, const double *a, int64_t n, double until,
                               int64_t most)
{
    uint8_t best[N];
    double all = 0, sum = 0;
    int64_t k = 0;
    for (int64_t s = 0; s < n; s++)
        all += a[s];
    for (; k < most; k++) {
        int64_t at = -1;
        laws_best(best, a, n, k + 1);
        sum = 0;
        for (int64_t s = 0; s < n; s++)
            sum += best[s] ? a[s] / all : 0;
        if (sum >= until)
            break;
        for (int64_t s = 0; s < n; s++)
            if (best[s] && f[s] < 1e6 && (at < 0 || a[s] < a[at]))
                at = s;
        f[at] = 1e6;
    }
    return k;
}

static void defensive_is(bool official, bool model, int64_t B, double cover, bool *engaged)
{
    enum { W = 8, n = N - W };
    char params[96];
    double f[LANES][N], all[LANES * N];
    bool fixed[LANES * N];
    uint8_t best[LANES * N];
    snprintf(params, sizeof params, "compat=%s,window=8,scope=%s,cover=%g",
             official ? "official" : "paper", model ? "model" : "layer", cover);
    mini_result r = laws_run(trace, "defensivekv", params, B, true);
    for (int l = 0; l < LAYERS; l++) {
        double a[GROUPS][N], m[GROUPS][N], bias[GROUPS], mean = 0;
        for (int g = 0; g < GROUPS; g++) {
            defensive_lane(a[g], m[g], &bias[g], l, g, W, 5, official);
            mean += bias[g] / GROUPS;
        }
        for (int g = 0; g < GROUPS; g++) {
            for (int64_t s = 0; s < n; s++) {
                double sum = 0;
                for (int k = 0; k < GROUPS; k++)
                    sum += size_of(l, k, s);
                f[l * GROUPS + g][s] = m[g][s] * size_of(l, g, s) / sum;
            }
            int64_t k = defensive_first(f[l * GROUPS + g], a[g], n, cover - mean, B - W);
            *engaged |= k > 0 && k < B - W;
        }
    }
    int each = model ? LANES : GROUPS;
    for (int from = 0; from < LANES; from += each) {
        int64_t differ = 0;
        for (int i = 0; i < each; i++)
            for (int64_t s = 0; s < N; s++) {
                fixed[i * N + s] = s >= n;
                all[i * N + s] = s >= n ? INFINITY : f[from + i][s];
            }
        laws_best(best, all, each * N, B * each);
        for (int i = 0; i < each * N; i++)
            differ += best[i] != mini_held(&r, trace, 0, (from + i / N) / GROUPS,
                                           (from + i / N) % GROUPS)[i % N];
        assert_true(fixed[N - 1]);
        assert_int_equal(differ, 0);
    }
}

static void defensivekv_is_its_two_stages(void **state)
{
    (void)state;
    bool engaged = false;
    for (int64_t B = 9; B < N; B += 8)
        for (int i = 0; i < 4; i++) {
            defensive_is(i & 1, i & 2, B, 0.9, &engaged);
            defensive_is(i & 1, i & 2, B, 0.6, &engaged);
        }
    assert_true(engaged);
    assert_true(laws_try(trace, "defensivekv", "window=8", 7, true).skipped); /* 13 g */
}

/* ---- criticalkv, chunkkv -------------------------------------------------------------------
 */

static void critical_is(int64_t B, double share, bool floor_only, bool open)
{
    char params[96];
    snprintf(params, sizeof params, "compat=%s,share=%g,of=%s",
             floor_only ? "kvpress" : "paper", share, open ? "open" : "budget");
    mini_result r = laws_run(trace, "criticalkv", params, B, true);
    for (int l = 0; l < LAYERS; l++)
        for (int g = 0; g < GROUPS; g++) {
            /* base=snapkv with its defaults: a window of 32 */
            double a[N], worth[N];
            bool pinned[N];
            uint8_t first[N];
            snap(a, l, g, 32, 7);
            pin_last(pinned, 32);
            int64_t k = (int64_t)floor(share * (double)(open ? B - 32 : B) + 1e-9);
            if (!floor_only && k < 1)
                k = 1;
            k += open ? 32 : 0;
            k = k < B ? k : B;
            laws_scores(trace, &r, l, g, a, pinned, false);
            laws_best(first, a, N - 32, k > 32 ? k - 32 : 0);
            for (int64_t s = 0; s < N; s++) {
                worth[s] = s < N - 32 ? (a[s] + 1e-4) * size_of(l, g, s) : 0;
                pinned[s] |= s < N - 32 && first[s];
            }
            laws_holds(trace, &r, 0, l, g, worth, pinned, N, B);
        }
}

static void criticalkv_is_its_two_stages(void **state)
{
    (void)state;
    for (int64_t B = 32; B < N; B += 3) {
        critical_is(B, 0.5, false, false);
        critical_is(B, 0.5, true, false);
        critical_is(B, 0.5, false, true);
        critical_is(B, 0.1, true, true);
        critical_is(B, 0.85, false, false);
        critical_is(B, 1, false, false); /* the base alone */
    }
    mini_result base = laws_run(trace, "snapkv", "", 40, true);
    mini_result all = laws_run(trace, "criticalkv", "share=1", 40, true);
    mini_result half = laws_run(trace, "criticalkv", "", 40, true);
    assert_true(same_sets(&base, &all));
    assert_false(same_sets(&base, &half));
}

/* Chunks by falling worth; of the last one the first tokens. */
static void chunk_is(int64_t chunk, bool sum_only, int64_t B)
{
    enum { n = N - 32, MOST = N };
    char params[64];
    snprintf(params, sizeof params, "chunk=%lld,reduce=%s", (long long)chunk,
             sum_only ? "sum" : "mean");
    mini_result r = laws_run(trace, "chunkkv", params, B, true);
    for (int l = 0; l < LAYERS; l++) {
        double a[GROUPS][N], worth[MOST];
        int64_t n_chunk = (n + chunk - 1) / chunk, left = B - 32;
        uint8_t want[N] = {0};
        for (int g = 0; g < GROUPS; g++)
            snap(a[g], l, g, 32, 7);
        for (int64_t c = 0; c < n_chunk; c++) {
            int64_t count = 0;
            worth[c] = 0;
            for (int64_t s = c * chunk; s < n && s < (c + 1) * chunk; s++, count++)
                for (int g = 0; g < GROUPS; g++)
                    worth[c] += a[g][s];
            worth[c] /= sum_only ? 1 : (double)count;
        }
        for (int64_t s = n; s < N; s++)
            want[s] = 1;
        while (left > 0) {
            int64_t best = 0;
            for (int64_t c = 1; c < n_chunk; c++)
                if (worth[c] > worth[best])
                    best = c;
            for (int64_t s = best * chunk; s < n && s < (best + 1) * chunk && left > 0; s++) {
                want[s] = 1;
                left--;
            }
            worth[best] = -1;
        }
        for (int g = 0; g < GROUPS; g++)
            assert_memory_equal(mini_held(&r, trace, 0, l, g), want, N);
    }
}

/* 35: 18 tokens lie before the window, which 4, 5 and 7 do not divide. */
static void chunkkv_keeps_neighbours(void **state)
{
    (void)state;
    for (int64_t chunk = 1; chunk < 24; chunk += 3)
        for (int64_t B = 32; B < N; B += 5) {
            chunk_is(chunk, false, B);
            chunk_is(chunk, true, B);
        }
}

/* kvpress: 50 tokens are 3 chunks of 20, the last of 10; what the base pins lifts its chunk. */
static void chunkkv_of_kvpress_keeps_whole_chunks(void **state)
{
    (void)state;
    static const struct {
        int64_t budget, chunks;
    } rows[] = {{32, 1}, {33, 1}, {34, 2}, {49, 2}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        mini_result r = laws_run(trace, "chunkkv", "compat=kvpress", rows[i].budget, true);
        for (int l = 0; l < LAYERS; l++)
            for (int g = 0; g < GROUPS; g++) {
                const uint8_t *held = mini_held(&r, trace, 0, l, g);
                int64_t whole = 0;
                for (int64_t c = 0; c < 3; c++) {
                    int64_t size = c < 2 ? 20 : 10, got = 0;
                    for (int64_t s = 20 * c; s < 20 * c + size; s++)
                        got += held[s];
                    assert_true(got == 0 || got == size);
                    whole += got == size;
                }
                assert_int_equal(whole, rows[i].chunks);
                /* the window of 32 fills chunks 1 and 2 altogether: they come first */
                assert_false(held[0]);
            }
    }
}

int main(void)
{
    laws_memory = kvt_arena_new((size_t)2 << 30);
    trace = toy_rich(laws_memory, LAYERS, 5, HEADS, GROUPS, N, M, false);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cake_shares_out_by_preference),
        cmocka_unit_test(cake_of_one_row),
        cmocka_unit_test(cake_at_its_limit),
        cmocka_unit_test(defensivekv_is_its_two_stages),
        cmocka_unit_test(criticalkv_is_its_two_stages),
        cmocka_unit_test(chunkkv_keeps_neighbours),
        cmocka_unit_test(chunkkv_of_kvpress_keeps_whole_chunks),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    toy_close(trace);
    kvt_arena_free(laws_memory);
    return failed;
}
