/* test_lookahead_laws.c - policies that score the prompt by extra rows, against their papers'
 * formulae in double: lookaheadkv, judgeq, suffix, lookahead-oracle, laq, laq-plus, speckv,
 * kvzip. Two query heads a kv head, so that reductions differ. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "laws.h"

enum { LAYERS = 2, HEADS = 4, GROUPS = 2, EACH = HEADS / GROUPS, N = 50, M = 6, CAP = 160 };
static toy *trace;

/* ---- rows ----------------------------------------------------------------------------------
 */

static const kvt_probe_feed *feed_of(const toy *t, int layer, kvt_probe_kind kind,
                                     int64_t budget)
{
    const kvt_feed *f = &t->more[layer];
    const kvt_probe_feed *found = NULL;
    for (int i = 0; i < f->n_probe; i++)
        if (t->probe_kind[i] == kind && (!found || f->probe[i].budget == budget))
            found = &f->probe[i];
    assert_non_null(found);
    return found;
}

/* Attention of a probe's row on a prompt token: what the engine hands in. */
static double attn(const kvt_probe_feed *p, int head, int64_t i, int64_t j)
{
    return laws_at(&p->attn, head, i, j);
}

static double dot(const float *a, const float *b, int64_t n)
{
    double sum = 0;
    for (int64_t d = 0; d < n; d++)
        sum += (double)a[d] * (double)b[d];
    return sum;
}

static double scale_of(const toy *t)
{
    return t->geometry.attn_scale;
}

static const float *prompt_key(const toy *t, int layer, int head, int64_t j)
{
    const kvt_view *k = &t->more[layer].keys;
    return (const float *)k->data + (head / EACH * k->dim[1] + j) * k->dim[2];
}

static const float *probe_query(const kvt_probe_feed *p, int head, int64_t i)
{
    return (const float *)p->queries.data + (head * p->queries.dim[1] + i) * p->queries.dim[2];
}

static const float *prompt_query(const toy *t, int layer, int head, int64_t i)
{
    const kvt_view *q = &t->more[layer].queries;
    return (const float *)q->data + (head * q->dim[1] + i) * q->dim[2];
}

/* ---- lookaheadkv and those with its form
 * -----------------------------------------------------
 */

typedef struct reduction {
    bool max, pool_first;
    int64_t width;
} reduction;

/* s_j: mean over rows; then the heads of a group and the pool, in either order. */
static void reduce(double out[CAP], const kvt_probe_feed *p, int group, const reduction *how)
{
    double pooled[EACH][CAP], one[CAP];
    int64_t P = p->queries.dim[1];
    for (int h = 0; h < EACH; h++) {
        for (int64_t j = 0; j < N; j++) {
            one[j] = 0;
            for (int64_t i = 0; i < P; i++)
                one[j] += attn(p, group * EACH + h, i, j) / (double)P;
        }
        memcpy(pooled[h], one, sizeof one);
        if (how->pool_first)
            laws_pool(pooled[h], one, N, how->width);
    }
    for (int64_t j = 0; j < N; j++) {
        one[j] = how->max ? -INFINITY : 0;
        for (int h = 0; h < EACH; h++)
            one[j] = how->max ? fmax(one[j], pooled[h][j]) : one[j] + pooled[h][j] / EACH;
    }
    memcpy(out, one, N * sizeof *out);
    if (!how->pool_first)
        laws_pool(out, one, N, how->width);
}

static void extra_rows_reduce_as_published(void **state)
{
    (void)state;
    static const struct {
        const char *policy;
        kvt_probe_kind kind;
    } with[] = {{"lookaheadkv", KVT_PROBE_LOOKAHEADKV},
                {"judgeq", KVT_PROBE_JUDGEQ},
                {"suffix", KVT_PROBE_SUFFIX}};
    static const struct {
        const char *params;
        reduction how;
    } forms[] = {
        {"pool=0", {.width = 1}},
        {"pool=7", {.width = 7}},
        {"pool=3,reduce=max", {.width = 3, .max = true}},
        {"pool=5,order=pool-reduce", {.width = 5, .pool_first = true}},
        {"pool=5,order=pool-reduce,reduce=max", {.width = 5, .pool_first = true, .max = true}},
        {"pool=49", {.width = 49}},
    };
    for (size_t w = 0; w < sizeof with / sizeof *with; w++)
        for (size_t f = 0; f < sizeof forms / sizeof *forms; f++)
            for (int64_t B = 1; B < N; B += 12) {
                mini_result r = laws_run(trace, with[w].policy, forms[f].params, B, true);
                for (int l = 0; l < LAYERS; l++)
                    for (int g = 0; g < GROUPS; g++) {
                        double s[CAP];
                        reduce(s, feed_of(trace, l, with[w].kind, 0), g, &forms[f].how);
                        laws_scores(trace, &r, l, g, s, NULL, true);
                        laws_holds(trace, &r, 0, l, g, s, NULL, N, B);
                    }
            }
}

/* Recent tokens that are forced come out of the budget. */
static void forced_tokens_are_in_the_budget(void **state)
{
    (void)state;
    mini_result r = laws_run(trace, "lookaheadkv", "pool=0,recent=5", 12, true);
    for (int l = 0; l < LAYERS; l++)
        for (int g = 0; g < GROUPS; g++) {
            double s[CAP];
            bool pinned[CAP];
            reduce(s, feed_of(trace, l, KVT_PROBE_LOOKAHEADKV, 0), g, &(reduction){.width = 1});
            for (int64_t j = 0; j < N; j++)
                pinned[j] = j >= N - 5;
            laws_holds(trace, &r, 0, l, g, s, pinned, N, 12);
        }
}

/* A toy whose probe of that kind is the true response: its rows are those of the response. */
static toy *with_response_rows(kvt_probe_kind kind)
{
    toy *t = kvt_arena_get(laws_memory, sizeof *t);
    kvt_feed *more = kvt_arena_array(laws_memory, LAYERS, sizeof *more);
    *t = *trace;
    t->more = more;
    for (int l = 0; l < LAYERS; l++) {
        more[l] = trace->more[l];
        kvt_probe_feed *p = kvt_arena_array(laws_memory, more[l].n_probe, sizeof *p);
        memcpy(p, more[l].probe, (size_t)more[l].n_probe * sizeof *p);
        more[l].probe = p;
        for (int i = 0; i < more[l].n_probe; i++) {
            if (t->probe_kind[i] != kind)
                continue;
            float *rows = kvt_arena_array(laws_memory, HEADS * M * N, sizeof *rows);
            int64_t pos[N + M];
            float row[N + M];
            for (int64_t j = 0; j < N + M; j++)
                pos[j] = j;
            for (int h = 0; h < HEADS; h++)
                for (int64_t m = 0; m < M; m++) {
                    toy_row(row, trace, l, h, N + m, pos, N + M);
                    memcpy(rows + (h * M + m) * N, row, N * sizeof *row);
                }
            p[i].attn = kvt_view_of(rows, KVT_F32, KVT_SHAPE("HPN", HEADS, M, N));
            p[i].queries.dim[1] = p[i].lse.dim[1] = M; /* not read beside attn */
        }
    }
    return t;
}

static void perfect_prediction_is_the_oracle(void **state)
{
    (void)state;
    static const char *const params[] = {"pool=0", "pool=7", "pool=3,reduce=max",
                                         "pool=5,order=pool-reduce"};
    toy *t = with_response_rows(KVT_PROBE_LOOKAHEADKV);
    for (int64_t B = 1; B <= N; B++) {
        mini_result best = laws_run(t, "oracle", "", B, true);
        for (int i = 0; i < 4; i++) {
            mini_result r = laws_run(t, "lookaheadkv", params[i], B, true);
            mini_result bound = laws_run(t, "lookahead-oracle", params[i], B, true);
            size_t n = LAYERS * GROUPS * (N + M);
            assert_memory_equal(r.held, bound.held, n);
            if (i == 0)
                assert_memory_equal(bound.held, best.held, n);
        }
    }
}

static void even_pools_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"lookaheadkv", "laq", "laq-plus", "speckv"};
    for (int i = 0; i < 4; i++) {
        char text[64];
        kvt_use *use;
        kvt_err err;
        snprintf(text, sizeof text, "%s:pool=4", names[i]);
        kvt_code code = kvt_use_parse(&use, NULL, text, &err);
        if (!code) { /* or where the rule is asked: at a budget */
            mini_result r = laws_try(trace, names[i], "pool=4", 40, true);
            kvt_use_free(use);
            if (!r.skipped || !strstr(r.why, "odd"))
                fail_msg("%s is taken (%s)", text, r.why);
        }
    }
}

/* ---- laq
 * -------------------------------------------------------------------------------------
 */

/* Softmax rows over the prompt: the last w2 prompt queries, then the draft's; the draft's keys
 * are left out. official: the triangle of the last R columns as if the rows were the last R
 * prompt positions. row [R N]; returns R. */
static int64_t laq_rows(double row[][CAP], const toy *t, int layer, int head, int64_t budget,
                        int64_t w2, bool official)
{
    const kvt_probe_feed *p = feed_of(t, layer, KVT_PROBE_DRAFT, budget);
    int64_t m = p->queries.dim[1], R = w2 + m, D = p->queries.dim[2];
    for (int64_t r = 0; r < R; r++) {
        const float *q =
            r < w2 ? prompt_query(t, layer, head, N - w2 + r) : probe_query(p, head, r - w2);
        double sum = 0;
        for (int64_t j = 0; j < N; j++) {
            bool sees = official ? j < N - R || j - (N - R) <= r : r >= w2 || j <= N - w2 + r;
            double z = scale_of(t) * dot(q, prompt_key(t, layer, head, j), D);
            sum += row[r][j] = sees ? exp(z) : 0;
        }
        for (int64_t j = 0; j < N; j++)
            row[r][j] /= sum;
    }
    return R;
}

static void laq_score(double s[CAP], bool pinned[CAP], int layer, int head, int64_t budget,
                      int64_t w2, bool official, int64_t width)
{
    double row[32][CAP], sum[CAP] = {0};
    int64_t R = laq_rows(row, trace, layer, head, budget, w2, official);
    for (int64_t r = 0; r < R; r++)
        for (int64_t j = 0; j < N; j++)
            sum[j] += row[r][j];
    laws_pool(s, sum, N - w2, width);
    for (int64_t j = 0; j < N; j++)
        pinned[j] = j >= N - w2;
}

static void laq_is_its_code(void **state)
{
    (void)state;
    static const int64_t at[] = {8, 17, 33, 49};
    for (int plus = 0; plus < 2; plus++)
        for (int official = 0; official < 2; official++)
            for (int64_t width = 1; width <= 7; width += 6)
                for (int b = 0; b < 4; b++) {
                    char params[64];
                    snprintf(params, sizeof params, "mask=%s,pool=%d",
                             official ? "official" : "causal", width == 1 ? 0 : 7);
                    mini_result r =
                        laws_run(trace, plus ? "laq-plus" : "laq", params, at[b], true);
                    assert_int_equal(r.n_lane, HEADS);
                    for (int l = 0; l < LAYERS; l++)
                        for (int h = 0; h < HEADS; h++) {
                            double s[CAP];
                            bool pinned[CAP];
                            laq_score(s, pinned, l, h, at[b], plus ? 8 : 0, official, width);
                            laws_scores(trace, &r, l, h, s, pinned, false);
                            laws_holds(trace, &r, 0, l, h, s, pinned, N, at[b]);
                        }
                }
}

/* A row of either mask is the other's times one factor on columns 0..N - R - 1; with one row
 * that is the score. */
static void laq_masks_differ_by_a_factor(void **state)
{
    (void)state;
    toy *t = kvt_arena_get(laws_memory, sizeof *t);
    kvt_feed *more = kvt_arena_array(laws_memory, LAYERS, sizeof *more);
    *t = *trace;
    t->more = more;
    for (int l = 0; l < LAYERS; l++) { /* drafts of one row: their last */
        more[l] = trace->more[l];
        kvt_probe_feed *p = kvt_arena_array(laws_memory, more[l].n_probe, sizeof *p);
        memcpy(p, more[l].probe, (size_t)more[l].n_probe * sizeof *p);
        more[l].probe = p;
        for (int i = 0; i < more[l].n_probe; i++) {
            int64_t P = p[i].queries.dim[1], D = p[i].queries.dim[2];
            float *q = kvt_arena_array(laws_memory, HEADS * D, sizeof *q);
            if (t->probe_kind[i] != KVT_PROBE_DRAFT)
                continue;
            for (int h = 0; h < HEADS; h++)
                memcpy(q + h * D, (const float *)p[i].queries.data + (h * P + P - 1) * D,
                       (size_t)D * sizeof *q);
            p[i].queries = kvt_view_of(q, KVT_F32, KVT_SHAPE("HPD", HEADS, 1, D));
            p[i].lse = kvt_view_of(q, KVT_F32, KVT_SHAPE("HP", HEADS, 1));
            p[i].pos.dim[0] = p[i].norm.dim[0] = p[i].keys.dim[1] = 1;
        }
    }
    mini_result official = laws_run(t, "laq", "mask=official,pool=0", 17, true);
    mini_result causal = laws_run(t, "laq", "mask=causal,pool=0", 17, true);
    double least = INFINITY, most = 0;
    for (int i = 0; i < LAYERS * HEADS; i++) {
        const float *a = official.score + i * N, *b = causal.score + i * N;
        for (int64_t j = 0; j < N - 1; j++)
            if (fabs((double)a[j] * (double)b[0] - (double)a[0] * (double)b[j]) >
                2e-6 * (double)a[0] * (double)b[j])
                fail_msg("lane %d token %lld: another factor", i, (long long)j);
        least = fmin(least, (double)a[0] / (double)b[0]);
        most = fmax(most, (double)a[0] / (double)b[0]);
    }
    assert_true(least >= 1 - 1e-6); /* one row is no prompt position's: it sees its column */
    assert_true(most < 2);
}

/* ---- speckv
 * ----------------------------------------------------------------------------------
 */

enum { WINDOW = 33 }; /* prompt rows, N - 33 to N - 1 */

static double prompt_row(int layer, int head, int64_t i, int64_t j)
{
    return trace->w[((layer * HEADS + head) * (N + M) + i) * (N + M) + j];
}

static void speckv_score(double out[CAP], int layer, int group, bool max, int64_t m,
                         int64_t width)
{
    const kvt_probe_feed *p = feed_of(trace, layer, KVT_PROBE_SPECDRAFT, 0);
    double s[CAP];
    for (int64_t j = 0; j < N - WINDOW; j++) {
        s[j] = 0;
        for (int h = group * EACH; h < (group + 1) * EACH; h++)
            for (int64_t i = N - WINDOW; i < N + m; i++) {
                double a = i < N ? prompt_row(layer, h, i, j) : attn(p, h, i - N, j);
                s[j] = max ? fmax(s[j], a) : s[j] + a / (double)(EACH * (WINDOW + m));
            }
    }
    laws_pool(out, s, N - WINDOW, width);
}

static void speckv_is_its_code(void **state)
{
    (void)state;
    static const struct {
        const char *params;
        bool max;
        int64_t m, width;
    } forms[] = {{"pool=0", true, 5, 1},
                 {"", true, 5, 7},
                 {"reduce=mean,pool=0", false, 5, 1},
                 {"tokens=2,pool=0", true, 2, 1},
                 {"tokens=1,reduce=mean,pool=5", false, 1, 5}};
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++)
        for (int64_t B = 34; B < N; B += 5) {
            mini_result r = laws_run(trace, "speckv", forms[f].params, B, true);
            for (int l = 0; l < LAYERS; l++)
                for (int g = 0; g < GROUPS; g++) {
                    double s[CAP] = {0};
                    bool pinned[CAP];
                    for (int64_t j = 0; j < N; j++)
                        pinned[j] = j >= N - WINDOW;
                    speckv_score(s, l, g, forms[f].max, forms[f].m, forms[f].width);
                    laws_scores(trace, &r, l, g, s, pinned, !forms[f].max);
                    laws_holds(trace, &r, 0, l, g, s, pinned, N, B);
                }
        }
}

static void speckv_keeps_the_suffix(void **state)
{
    (void)state;
    for (int64_t B = 1; B <= N + 1; B++) {
        mini_result r = laws_try(trace, "speckv", "", B, true);
        if (B <= WINDOW) { /* 33 of the suffix, and at least one that was selected */
            assert_true(r.skipped);
            assert_true(strlen(r.why) > 0);
            continue;
        }
        assert_false(r.skipped);
        for (int l = 0; l < LAYERS; l++)
            for (int g = 0; g < GROUPS; g++) {
                const uint8_t *held = mini_held(&r, trace, 0, l, g);
                assert_int_equal(mini_count(&r, trace, 0, l, g), B < N ? B : N);
                for (int64_t j = N - WINDOW; j < N - 1; j++)
                    assert_true(held[j]);
            }
    }
}

/* ---- kvzip
 * -----------------------------------------------------------------------------------
 */

/* Largest weight of any head and repeating row on each token of its chunk, in the softmax over
 * sinks, chunk and the segment's own rows up to itself. */
static void kvzip_score(double s[CAP], const toy *t, int layer, int group, int64_t n_sink)
{
    const kvt_probe_feed *p = feed_of(t, layer, KVT_PROBE_REPEAT, 0);
    int64_t P = p->queries.dim[1], D = p->queries.dim[2];
    for (int64_t j = 0; j < N; j++)
        s[j] = 0;
    for (int r = 0; r < p->n_segment; r++)
        for (int64_t i = p->from[r]; i < P && p->segment[i] == r; i++)
            for (int h = group * EACH; h < (group + 1) * EACH; h++) {
                const float *q = probe_query(p, h, i);
                double z[CAP], sum = 0;
                for (int64_t j = 0; j < N; j++) {
                    bool sees = j < n_sink || (j >= p->begin[r] && j < p->end[r]);
                    z[j] =
                        sees ? exp(scale_of(trace) * dot(q, prompt_key(trace, layer, h, j), D))
                             : 0;
                    sum += z[j];
                }
                for (int64_t k = 0; k <= i; k++)
                    if (p->segment[k] == r)
                        sum +=
                            exp(scale_of(trace) *
                                dot(q, (const float *)p->keys.data + (group * P + k) * D, D));
                for (int64_t j = p->begin[r]; j < p->end[r]; j++)
                    s[j] = fmax(s[j], z[j] / sum);
            }
}

/* Tokens of the template in front of the first message. */
static int64_t prefix_of(const toy *t)
{
    int64_t n = 0;
    while (n < N && t->seq.flag[n] & KVT_TOKEN_TEMPLATE)
        n++;
    return n;
}

static void kvzip_is_its_code(void **state)
{
    (void)state;
    for (int four = 0; four < 2; four++)
        for (int64_t B = 9; B < N; B += 8) {
            mini_result r =
                laws_run(trace, "kvzip", four ? "sinks=four" : "sinks=prefix", B, true);
            for (int l = 0; l < LAYERS; l++)
                for (int g = 0; g < GROUPS; g++) {
                    double s[CAP];
                    bool *pinned = r.pinned + (l * GROUPS + g) * N;
                    kvzip_score(s, trace, l, g, four ? 4 : prefix_of(trace));
                    for (int64_t j = 0; four && j < 4; j++)
                        s[j] = 1;
                    laws_scores(trace, &r, l, g, s, pinned, false);
                    laws_holds(trace, &r, 0, l, g, s, pinned, N, B);
                }
        }
}

/* The score of the last token that fits. */
static double cut_of(const double *s, const bool *pinned, int64_t budget)
{
    double open[CAP];
    uint8_t best[CAP];
    int64_t n = 0, k = budget;
    for (int64_t j = 0; j < N; j++) {
        k -= pinned[j];
        if (!pinned[j])
            open[n++] = s[j];
    }
    double least = INFINITY;
    laws_best(best, open, n, k);
    for (int64_t i = 0; i < n; i++)
        least = best[i] ? fmin(least, open[i]) : least;
    return least;
}

/* The official threshold is strict: what equals the last score that fits goes. */
static void kvzip_drops_ties(void **state)
{
    (void)state;
    toy *t = kvt_arena_get(laws_memory, sizeof *t);
    kvt_feed *more = kvt_arena_array(laws_memory, LAYERS, sizeof *more);
    *t = *trace;
    t->more = more;
    for (int l = 0; l < LAYERS; l++) { /* queries of 0: every row is flat */
        more[l] = trace->more[l];
        kvt_probe_feed *p = kvt_arena_array(laws_memory, more[l].n_probe, sizeof *p);
        memcpy(p, more[l].probe, (size_t)more[l].n_probe * sizeof *p);
        for (int i = 0; i < more[l].n_probe; i++)
            p[i].queries.data =
                kvt_arena_array(laws_memory, kvt_view_count(&p[i].queries), sizeof(float));
        more[l].probe = p;
    }
    for (int64_t B = 4; B < N; B += 13) {
        mini_result drop = laws_run(t, "kvzip", "ties=drop", B, true);
        mini_result lower = laws_run(t, "kvzip", "ties=lower", B, true);
        for (int l = 0; l < LAYERS; l++)
            for (int g = 0; g < GROUPS; g++) {
                double s[CAP];
                const bool *pinned = drop.pinned + (l * GROUPS + g) * N;
                const uint8_t *held = mini_held(&drop, t, 0, l, g);
                kvzip_score(s, t, l, g, prefix_of(t));
                /* Chunks of one length and place score the same: the last that fits goes, too.
                 */
                double least = cut_of(s, pinned, B);
                for (int64_t j = 0; j < N; j++)
                    assert_true(held[j] == (pinned[j] || s[j] > least * (1 + 1e-6)));
                assert_int_equal(mini_count(&lower, t, 0, l, g), B);
            }
    }
}

/* ---- reductions of a group
 * -------------------------------------------------------------------
 */

/* Five ways to make one score of two heads' rows; on this fixture they keep five sets, and each
 * policy keeps its own. */
static void reductions_are_told_apart(void **state)
{
    (void)state;
    enum { BEFORE, AFTER, JOINT, MEAN, SUM, WAYS, B = 12 };
    int n_apart = 0;
    for (int l = 0; l < LAYERS; l++)
        for (int g = 0; g < GROUPS; g++) {
            const kvt_probe_feed *p = feed_of(trace, l, KVT_PROBE_LOOKAHEADKV, 0);
            int64_t P = p->queries.dim[1], D = p->queries.dim[2];
            double s[WAYS][CAP] = {{0}};
            for (int64_t i = 0; i < P; i++) {
                double z[CAP], sum = 0;
                for (int64_t j = 0; j < N; j++) {
                    z[j] = -INFINITY;
                    for (int h = 0; h < EACH; h++)
                        z[j] = fmax(z[j], scale_of(trace) *
                                              dot(probe_query(p, g * EACH + h, i),
                                                  prompt_key(trace, l, g * EACH, j), D));
                    sum += exp(z[j]);
                }
                for (int64_t j = 0; j < N; j++) {
                    double a = attn(p, g * EACH, i, j), b = attn(p, g * EACH + 1, i, j);
                    s[BEFORE][j] += exp(z[j]) / sum;
                    s[AFTER][j] += fmax(a, b);
                    s[JOINT][j] = fmax(s[JOINT][j], fmax(a, b));
                    s[MEAN][j] += (a + b) / 2;
                    s[SUM][j] += a; /* the first head's own set */
                }
            }
            uint8_t set[WAYS][CAP];
            bool apart = true;
            for (int w = 0; w < WAYS; w++) {
                laws_best(set[w], s[w], N, B);
                for (int v = 0; v < w; v++)
                    apart &= memcmp(set[v], set[w], N) != 0;
            }
            n_apart += apart;
            mini_result r = laws_run(trace, "lookaheadkv", "pool=0", B, true);
            laws_holds(trace, &r, 0, l, g, s[MEAN], NULL, N, B);
        }
    assert_true(n_apart > 0);
}

/* ---- short prompts
 * ---------------------------------------------------------------------------
 */

static void nothing_is_dropped_that_fits(void **state)
{
    (void)state;
    static const char *const names[] = {"lookaheadkv", "judgeq",   "suffix", "lookahead-oracle",
                                        "laq",         "laq-plus", "speckv", "kvzip"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int64_t B = N; B <= N + 1; B++) {
            mini_result r = laws_run(trace, names[i], "", B, true);
            for (int l = 0; l < LAYERS; l++)
                for (int a = 0; a < r.n_lane; a++)
                    assert_int_equal(mini_count(&r, trace, 0, l, a), N);
        }
}

int main(void)
{
    laws_memory = kvt_arena_new((size_t)2 << 30);
    trace = toy_rich(laws_memory, LAYERS, 5, HEADS, GROUPS, N, M, false);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(extra_rows_reduce_as_published),
        cmocka_unit_test(forced_tokens_are_in_the_budget),
        cmocka_unit_test(perfect_prediction_is_the_oracle),
        cmocka_unit_test(even_pools_are_refused),
        cmocka_unit_test(laq_is_its_code),
        cmocka_unit_test(laq_masks_differ_by_a_factor),
        cmocka_unit_test(speckv_is_its_code),
        cmocka_unit_test(speckv_keeps_the_suffix),
        cmocka_unit_test(kvzip_is_its_code),
        cmocka_unit_test(kvzip_drops_ties),
        cmocka_unit_test(reductions_are_told_apart),
        cmocka_unit_test(nothing_is_dropped_that_fits),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    toy_close(trace);
    kvt_arena_free(laws_memory);
    return failed;
}
