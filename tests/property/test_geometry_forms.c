/* test_geometry_forms.c - policies of moments, solves and rotations, against plain double
 * loops: leverage, noncausal, compactor, expected-attention, capkv, triattention. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "laws.h"

enum {
    LAYERS = 2,
    HEADS = 4,
    GROUPS = 2,
    EACH = HEADS / GROUPS,
    N = 45,
    M = 5,
    D = 8,
    F = D / 2
};
static toy *trace;

#define FOR_EACH_LANE(l, g)          \
    for (int l = 0; l < LAYERS; l++) \
        for (int g = 0; g < GROUPS; g++)

static double key(int l, int g, int64_t s, int64_t d)
{
    return laws_at(&trace->more[l].keys, g, s, d);
}

static double value(int l, int g, int64_t s, int64_t d)
{
    return laws_at(&trace->more[l].values, g, s, d);
}

static double query(int l, int h, int64_t s, int64_t d)
{
    return laws_at(&trace->more[l].queries, h, s, d);
}

static double value_norm(int l, int g, int64_t s, int p)
{
    double sum = 0;
    for (int d = 0; d < D; d++)
        sum += p == 1 ? fabs(value(l, g, s, d)) : value(l, g, s, d) * value(l, g, s, d);
    return p == 1 ? sum : sqrt(sum);
}

/* The second world: cos and sin carry a factor (YaRN), and the last layer has a window and a
 * base of its own, without a factor. */
static bool turned;

static double factor_of(int l)
{
    return turned && l < LAYERS - 1 ? 1.25 : 1;
}

static double freq_of(int l, int f)
{
    return turned && l == LAYERS - 1 ? pow(50, -2.0 * f / D) : trace->geometry.rope_freq[f];
}

static void turn_the_world(void)
{
    turned = true;
    trace->geometry.rope_attn_factor = 1.25;
    trace->geometry.rope_theta_local = 50;
    trace->geometry.window[trace->layer_id[LAYERS - 1]] = 20;
}

/* Key before RoPE: pairs (i, i + D/2) turned back. */
static void before_rope(double out[D], int l, int g, int64_t s)
{
    for (int f = 0; f < F; f++) {
        double a = (double)s * freq_of(l, f);
        double x = key(l, g, s, f) / factor_of(l), y = key(l, g, s, f + F) / factor_of(l);
        out[f] = x * cos(a) + y * sin(a);
        out[f + F] = y * cos(a) - x * sin(a);
    }
}

/* x^T A^-1 x by elimination with the largest pivot. */
static double form(double A[D][D], const double x[D])
{
    double a[D][D + 1], y[D], sum = 0;
    for (int i = 0; i < D; i++) {
        memcpy(a[i], A[i], sizeof A[i]);
        a[i][D] = x[i];
    }
    for (int c = 0; c < D; c++) {
        int most = c;
        for (int i = c + 1; i < D; i++)
            most = fabs(a[i][c]) > fabs(a[most][c]) ? i : most;
        for (int k = 0; k <= D; k++) {
            double t = a[c][k];
            a[c][k] = a[most][k], a[most][k] = t;
        }
        for (int i = c + 1; i < D; i++)
            for (int k = D; k >= c; k--)
                a[i][k] -= a[i][c] / a[c][c] * a[c][k];
    }
    for (int i = D - 1; i >= 0; i--) {
        y[i] = a[i][D];
        for (int k = i + 1; k < D; k++)
            y[i] -= a[i][k] * y[k];
        y[i] /= a[i][i];
        sum += x[i] * y[i];
    }
    return sum;
}

/* Over the tokens from..from + n - 1: keys before RoPE, less their mean, no sketch. */
static void leverages(double *out, int l, int g, int from, int n)
{
    double x[N][D], mean[D] = {0}, A[D][D] = {{0}};
    for (int s = 0; s < n; s++) {
        before_rope(x[s], l, g, from + s);
        for (int d = 0; d < D; d++)
            mean[d] += x[s][d] / n;
    }
    for (int s = 0; s < n; s++)
        for (int d = 0; d < D; d++)
            x[s][d] -= mean[d];
    for (int i = 0; i < D; i++) {
        A[i][i] = 0.01;
        for (int k = 0; k < D; k++)
            for (int s = 0; s < n; s++)
                A[i][k] += x[s][i] * x[s][k];
    }
    for (int s = 0; s < n; s++)
        out[s] = form(A, x[s]);
}

/* Column sums of every chunk's whole softmax. pad: the last one is filled up. */
static void chunk_sums(double *out, int l, int g, int from, int n, int chunk, bool pad)
{
    double raw[N + 2] = {0};
    for (int at = 0; at < n; at += chunk) {
        int m = at + chunk < n ? chunk : n - at, room = pad ? chunk : m;
        for (int h = g * EACH; h < (g + 1) * EACH; h++) {
            for (int q = 0; q < m; q++) {
                double e[64], sum = (room - m) * exp(-1e-9);
                for (int j = 0; j < m; j++) {
                    double z = 0;
                    for (int d = 0; d < D; d++)
                        z += query(l, h, from + at + q, d) * key(l, g, from + at + j, d);
                    sum += e[j] = exp(z);
                }
                for (int j = 0; j < m; j++)
                    raw[1 + at + j] += e[j] / sum / EACH;
            }
            for (int j = 0; j < m; j++)
                raw[1 + at + j] += (double)(room - m) / room / EACH;
        }
    }
    for (int j = 0; j < n; j++)
        raw[1 + j] *= value_norm(l, g, from + j, 2);
    for (int j = 0; j < n; j++)
        out[j] = (raw[j] + raw[j + 1] + raw[j + 2]) / 3;
}

/* z over the layer's heads: x [GROUPS n]. */
static void z_scores(double *x, int n)
{
    double mean = 0, square = 0;
    for (int i = 0; i < n; i++)
        mean += x[i] / n;
    for (int i = 0; i < n; i++)
        square += (x[i] - mean) * (x[i] - mean) / (n - 1);
    for (int i = 0; i < n; i++)
        x[i] = (x[i] - mean) / sqrt(square);
}

/* ---- leverage ------------------------------------------------------------------------------
 */

static void leverage_of_centred_keys(void **state)
{
    (void)state;
    static const char *const wide[] = {"", "sketch=0", "sketch=8"}; /* D = 8: no sketch */
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
        mini_result r = laws_run(trace, "leverage", wide[i], 14, true);
        FOR_EACH_LANE(l, g)
        {
            double want[N];
            leverages(want, l, g, 0, N);
            laws_scores(trace, &r, l, g, want, NULL, false);
            laws_holds(trace, &r, 0, l, g, want, NULL, N, 14);
        }
    }
    mini_result r = laws_run(trace, "leverage", "compat=kvpress", 14, true);
    for (int l = 0; l < LAYERS; l++) {
        double want[GROUPS * N];
        for (int g = 0; g < GROUPS; g++)
            leverages(want + g * N, l, g, 0, N);
        z_scores(want, GROUPS * N);
        for (int g = 0; g < GROUPS; g++)
            laws_scores(trace, &r, l, g, want + g * N, NULL, false);
    }
}

/* With a sketch of 3 channels: the draws of the stream, in double; they sum to less than 3. */
static void leverage_of_a_sketch(void **state)
{
    (void)state;
    enum { K = 3 };
    uint64_t rng[KVT_RNG_WORDS] = {1, 2, 3, 4}, again[KVT_RNG_WORDS] = {1, 2, 3, 4};
    int64_t pos[N];
    for (int s = 0; s < N; s++)
        pos[s] = s;
    kvt_lane lane = {.now = N - 1,
                     .n_slot = N,
                     .pos = pos,
                     .seq = &trace->seq,
                     .rng = rng,
                     .scratch = laws_memory};
    kvt_view keys = kvt_view_of(trace->more[0].keys.data, KVT_F32, KVT_SHAPE("SD", N, D));
    double got[N], sketch[D * K], A[D][D] = {{0}}, y[N][D] = {{0}}, mean[D] = {0}, sum = 0;
    assert_true(kvt_leverage(got, &keys, &lane, 0, N, K));
    kvt_random_normal(sketch, D * K, again);
    assert_memory_equal(rng, again, sizeof rng);
    for (int s = 0; s < N; s++) {
        double x[D];
        before_rope(x, 0, 0, s);
        for (int k = 0; k < K; k++)
            for (int d = 0; d < D; d++)
                y[s][k] += x[d] * sketch[d * K + k] / sqrt(K);
        for (int k = 0; k < K; k++)
            mean[k] += y[s][k] / N;
    }
    for (int i = 0; i < D; i++)
        A[i][i] = i < K ? 0.01 : 1;
    for (int s = 0; s < N; s++)
        for (int i = 0; i < K; i++)
            for (int k = 0; k < K; k++)
                A[i][k] += (y[s][i] - mean[i]) * (y[s][k] - mean[k]);
    for (int s = 0; s < N; s++) {
        double x[D] = {0};
        for (int k = 0; k < K; k++)
            x[k] = y[s][k] - mean[k];
        double want = form(A, x);
        assert_true(fabs(got[s] - want) < 1e-6 * (want + 1e-3));
        sum += got[s];
    }
    assert_true(sum < K && sum > K - 0.5);
    /* both variants draw the same for the lane's own head */
    mini_result r = laws_run(trace, "leverage", "sketch=3", 14, true);
    mini_result z = laws_run(trace, "leverage", "sketch=3,compat=kvpress", 14, true);
    FOR_EACH_LANE(l, g)
    assert_memory_equal(mini_held(&r, trace, 0, l, g), mini_held(&z, trace, 0, l, g),
                        (size_t)trace->T);
}

/* Numerical Recipes' example of a positive definite matrix and what is none. */
static void a_matrix_is_factored(void **state)
{
    (void)state;
    double a[9] = {4, 0, 0, 12, 37, 0, -16, -43, 98}, b[4] = {1, 0, 2, 1};
    const double want[] = {2, 6, 1, -8, 5, 3};
    double x[3] = {2, 7, -3};
    assert_true(kvt_cholesky(a, 3));
    for (int i = 0, n = 0; i < 3; i++)
        for (int k = 0; k <= i; k++, n++)
            assert_true(fabs(a[i * 3 + k] - want[n]) < 1e-12);
    assert_true(fabs(kvt_cholesky_form(a, x, 3) - 2) < 1e-12); /* L^-1 x = (1, 1, 0) */
    assert_false(kvt_cholesky(b, 2));
}

/* ---- noncausal, compactor ------------------------------------------------------------------
 */

static void chunks_look_both_ways(void **state)
{
    (void)state;
    for (int chunk = 1; chunk <= 64; chunk += 9) {
        char params[60];
        snprintf(params, sizeof params, "chunk=%d", chunk);
        mini_result r = laws_run(trace, "noncausal", params, 14, true);
        snprintf(params, sizeof params, "chunk=%d,compat=kvpress", chunk);
        mini_result k = laws_run(trace, "noncausal", params, 14, true);
        for (int l = 0; l < LAYERS; l++) {
            double want[GROUPS * N];
            for (int g = 0; g < GROUPS; g++) {
                chunk_sums(want + g * N, l, g, 0, N, chunk, false);
                laws_scores(trace, &r, l, g, want + g * N, NULL, false);
                laws_holds(trace, &r, 0, l, g, want + g * N, NULL, N, 14);
                chunk_sums(want + g * N, l, g, 0, N, chunk, true);
            }
            z_scores(want, GROUPS * N);
            for (int g = 0; g < GROUPS; g++)
                laws_scores(trace, &k, l, g, want + g * N, NULL, false);
        }
    }
}

/* The ends take no part: the inner tokens are cut into chunks and centred by themselves. */
static void compactor_adds_two_views(void **state)
{
    (void)state;
    enum { FIRST = 8, LAST = 4, IN = N - FIRST - LAST };
    static const struct {
        const char *params;
        double blend;
        bool pad;
    } with[] = {{"chunk=10", 1 - 20.0 / N, false},
                {"chunk=10,blend=0.35", 0.35, false},
                {"chunk=10,compat=kvpress", 1 - 20.0 / N, true}};
    for (size_t i = 0; i < sizeof with / sizeof *with; i++) {
        mini_result r = laws_run(trace, "compactor", with[i].params, 20, true);
        for (int l = 0; l < LAYERS; l++) {
            double lev[GROUPS * IN], att[GROUPS * IN];
            for (int g = 0; g < GROUPS; g++) {
                leverages(lev + g * IN, l, g, FIRST, IN);
                chunk_sums(att + g * IN, l, g, FIRST, IN, 10, with[i].pad);
            }
            z_scores(lev, GROUPS * IN);
            z_scores(att, GROUPS * IN);
            for (int g = 0; g < GROUPS; g++) {
                double want[N] = {0};
                bool pinned[N];
                for (int s = 0; s < N; s++) {
                    pinned[s] = s < FIRST || s >= N - LAST;
                    int at = g * IN + s - FIRST;
                    want[s] = pinned[s] ? 0 : with[i].blend * lev[at] + att[at];
                }
                laws_scores(trace, &r, l, g, want, pinned, false);
                laws_holds(trace, &r, 0, l, g, want, pinned, N, 20);
            }
        }
    }
}

/* ---- expected-attention, capkv -------------------------------------------------------------
 */

/* Mean of the rotation matrices of `future` positions behind the prompt. */
static void mean_rotation(double R[D][D], int l, int future)
{
    memset(R, 0, D * sizeof R[0]);
    for (int64_t p = N; p < N + future; p++)
        for (int f = 0; f < F; f++) {
            double a = (double)p * freq_of(l, f), part = factor_of(l) / future;
            R[f][f] += cos(a) * part;
            R[f][f + F] -= sin(a) * part;
            R[f + F][f] += sin(a) * part;
            R[f + F][f + F] += cos(a) * part;
        }
}

/* Softmax over the tokens behind the sinks of log E exp(q.k / sqrt(D)). */
static void expectations(double *p, int l, int h, int future, int sinks, bool covariance)
{
    double R[D][D], m[D] = {0}, T[D][D] = {{0}}, C[D][D] = {{0}}, sum = 0;
    const kvt_feed *x = &trace->more[l];
    mean_rotation(R, l, future);
    for (int i = 0; i < D; i++)
        for (int k = 0; k < D; k++) {
            m[i] += R[i][k] * laws_at(&x->query_mean, h, k, 0);
            for (int d = 0; d < D; d++)
                T[i][k] += R[i][d] * laws_at(&x->query_cov, h, d, k);
        }
    for (int i = 0; i < D; i++)
        for (int k = 0; k < D; k++)
            for (int d = 0; d < D; d++)
                C[i][k] += T[i][d] * R[k][d];
    for (int s = sinks; s < N; s++) {
        double e = 0;
        for (int i = 0; i < D; i++) {
            e += m[i] * key(l, h / EACH, s, i) / sqrt(D);
            for (int k = 0; covariance && k < D; k++)
                e += key(l, h / EACH, s, i) * C[i][k] * key(l, h / EACH, s, k) / (2 * D);
        }
        sum += p[s] = exp(e);
    }
    for (int s = sinks; s < N; s++)
        p[s] /= sum;
}

static void expected_attention_is_gaussian(void **state)
{
    (void)state;
    static const struct {
        const char *params;
        int future, sinks, norm; /* 2, 1, -1 and -2 of W_O v, 0 */
        double eps;
        bool covariance;
    } with[] = {{"", 512, 4, 2, 0, true},
                {"compat=kvpress", 512, 4, 2, 0, true},
                {"compat=kvpress-adakv", 512, 4, 2, 0.01, true},
                {"compat=kvpress-lukv", 512, 4, 2, 0.02, true},
                {"norm=v1,future=7", 7, 4, 1, 0, true},
                {"norm=wo1,eps=0.1", 512, 4, -1, 0.1, true},
                {"norm=wo2,sinks=0", 512, 0, -2, 0, true},
                {"norm=none,covariance=false", 512, 4, 0, 0, false}};
    for (size_t i = 0; i < sizeof with / sizeof *with; i++) {
        mini_result r = laws_run(trace, "expected-attention", with[i].params, 13, true);
        assert_true(r.traits.mass_scores == (with[i].norm == 0));
        FOR_EACH_LANE(l, g)
        {
            double want[N] = {0};
            bool pinned[N] = {false};
            for (int s = 0; s < with[i].sinks; s++)
                pinned[s] = true;
            for (int h = g * EACH; h < (g + 1) * EACH; h++) {
                double p[N];
                expectations(p, l, h, with[i].future, with[i].sinks, with[i].covariance);
                for (int s = with[i].sinks; s < N; s++) {
                    int n = with[i].norm;
                    const kvt_view *wo =
                        n == -1 ? &trace->more[l].wo_l1 : &trace->more[l].wo_l2;
                    double norm = n > 0    ? value_norm(l, g, s, n)
                                  : n == 0 ? 1
                                           : laws_at(wo, h, s, 0);
                    want[s] += (p[s] + with[i].eps) * norm / EACH;
                }
            }
            laws_scores(trace, &r, l, g, want, pinned, false);
            laws_holds(trace, &r, 0, l, g, want, pinned, N, 13);
        }
    }
}

static void capkv_is_weighted_leverage(void **state)
{
    (void)state;
    enum { SINKS = 4 };
    double tau[] = {5, 1};
    for (int i = 0; i < 2; i++) {
        mini_result r = laws_run(trace, "capkv", i ? "tau=1" : "", 13, true);
        FOR_EACH_LANE(l, g)
        {
            double want[N] = {0};
            bool pinned[N] = {true, true, true, true};
            for (int h = g * EACH; h < (g + 1) * EACH; h++) {
                double R[D][D], a[D] = {0}, A[D][D] = {{0}}, w[N], most = -INFINITY, la = 0;
                mean_rotation(R, l, 512);
                for (int d = 0; d < D; d++) {
                    for (int k = 0; k < D; k++)
                        a[d] += R[d][k] * laws_at(&trace->more[l].query_mean, h, k, 0);
                    la += a[d] * a[d];
                    A[d][d] = 1;
                }
                for (int s = SINKS; s < N; s++) {
                    double lk = 0;
                    w[s] = 0;
                    for (int d = 0; d < D; d++) {
                        w[s] += a[d] * key(l, g, s, d);
                        lk += key(l, g, s, d) * key(l, g, s, d);
                    }
                    w[s] /= sqrt(la * lk);
                    most = fmax(most, w[s]);
                }
                for (int s = SINKS; s < N; s++) {
                    w[s] = exp(tau[i] * (w[s] - most));
                    for (int d = 0; d < D; d++)
                        for (int k = 0; k < D; k++)
                            A[d][k] += (w[s] + 1e-6) * value(l, g, s, d) * value(l, g, s, k);
                }
                for (int s = SINKS; s < N; s++) {
                    double v[D];
                    for (int d = 0; d < D; d++)
                        v[d] = value(l, g, s, d);
                    want[s] += w[s] * form(A, v) / EACH;
                }
            }
            laws_scores(trace, &r, l, g, want, pinned, false);
            laws_holds(trace, &r, 0, l, g, want, pinned, N, 13);
        }
    }
}

/* ---- triattention --------------------------------------------------------------------------
 */

static const float *tri_tensor(const char *name)
{
    for (int i = 0; i < trace->n_weights; i++)
        for (int k = 0; k < trace->weights[i].n; k++)
            if (strcmp(trace->weights[i].kind, "triattention") == 0 &&
                strcmp(trace->weights[i].tensor[k].name, name) == 0)
                return trace->weights[i].tensor[k].view.data;
    fail_msg("no tensor %s", name);
    return NULL;
}

/* One head's score of a key, as the paper has it: cosines of distances. */
static double tri_head(int l, int h, int64_t s, int64_t now, int64_t reach)
{
    const float *mean = tri_tensor("mean") + (l * HEADS + h) * D;
    const float *size = tri_tensor("magnitude") + (l * HEADS + h) * F;
    double k[D], sum = 0, n = 0;
    before_rope(k, l, h / EACH, s);
    for (int64_t o = 1; o <= reach; o *= 2, n++)
        for (int f = 0; f < F; f++) {
            double x = (double)mean[f], y = (double)mean[f + F];
            double phase = atan2(y, x) - atan2(k[f + F], k[f]);
            double delta = (double)(now - s + o);
            sum += hypot(x, y) * hypot(k[f], k[f + F]) * cos(delta * freq_of(l, f) + phase);
        }
    sum /= n;
    for (int f = 0; f < F; f++)
        sum += ((double)size[f] - hypot((double)mean[f], (double)mean[f + F])) *
               hypot(k[f], k[f + F]);
    return sum * factor_of(l) * factor_of(l);
}

static void triattention_is_a_sum_of_cosines(void **state)
{
    (void)state;
    for (int z = 0; z < 2; z++) {
        mini_result r =
            laws_run(trace, "triattention", z ? "znorm=true" : "reach=64", 12, false);
        FOR_EACH_LANE(l, g)
        {
            double want[N], x[EACH][N];
            for (int h = 0; h < EACH; h++) {
                double mean = 0, square = 0;
                for (int s = 0; s < N; s++) {
                    x[h][s] = tri_head(l, g * EACH + h, s, N - 1, z ? 65536 : 64);
                    mean += x[h][s] / N;
                }
                for (int s = 0; s < N; s++)
                    square += (x[h][s] - mean) * (x[h][s] - mean) / N;
                for (int s = 0; z && s < N; s++)
                    x[h][s] = (x[h][s] - mean) / sqrt(square);
            }
            for (int s = 0; s < N; s++)
                want[s] = fmax(x[0][s], x[1][s]);
            laws_scores(trace, &r, l, g, want, NULL, false);
            laws_holds(trace, &r, 0, l, g, want, NULL, N, 12);
        }
    }
}

/* The prompt is kept whole; the response competes for the rest; nothing of it at N or below. */
static void triattention_keeps_the_prompt(void **state)
{
    (void)state;
    mini_spec spec = {.trace = trace,
                      .policy = kvt_policy_find("triattention"),
                      .params = "compat=official",
                      .budget = N + 2};
    kvt_err err;
    mini_result r;
    assert_int_equal(mini_run(&r, &spec, laws_memory, &err), KVT_OK);
    assert_false(r.skipped);
    FOR_EACH_LANE(l, g)
    for (int64_t step = 0; step < r.n_step; step++)
        for (int s = 0; s < N; s++)
            assert_true(mini_held(&r, trace, step, l, g)[s]);
    spec.budget = N - 1;
    assert_int_equal(mini_run(&r, &spec, laws_memory, &err), KVT_OK);
    assert_true(r.skipped);
}

int main(void)
{
    laws_memory = kvt_arena_new((size_t)2 << 30);
    trace = toy_rich(laws_memory, LAYERS, 5, HEADS, GROUPS, N, M, false);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_matrix_is_factored),
        cmocka_unit_test(leverage_of_centred_keys),
        cmocka_unit_test(leverage_of_a_sketch),
        cmocka_unit_test(chunks_look_both_ways),
        cmocka_unit_test(compactor_adds_two_views),
        cmocka_unit_test(expected_attention_is_gaussian),
        cmocka_unit_test(capkv_is_weighted_leverage),
        cmocka_unit_test(triattention_is_a_sum_of_cosines),
        cmocka_unit_test(triattention_keeps_the_prompt),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    turn_the_world();
    failed += cmocka_run_group_tests_name("turned", tests, NULL, NULL);
    toy_close(trace);
    kvt_arena_free(laws_memory);
    return failed;
}
