/* test_summed_laws.c - policies that add up what queries looked at, against their formulae in
 * double, decision by decision: h2o and its variants, observed, scissorhands, keyformer, nacl,
 * morphkv, r-kv. What a lane held before a decision is taken from the run itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "laws.h"

enum { LAYERS = 2, HEADS = 4, GROUPS = 2, EACH = HEADS / GROUPS, N = 50, M = 130 };
enum { T = N + M, D = 8 };
static toy *trace;

/* One lane: what it holds before the decision, what its rule remembers by position. */
typedef struct lane {
    int layer, group;
    bool there[T];
    int64_t now;
    double sum[T];
    bool low[T][EACH][T]; /* row, head, position: less than 1 / t */
    double length[T];     /* |v| */
} lane;

typedef struct rule {
    const char *policy, *params;
    int64_t budget;
    void (*row)(lane *c, int64_t i); /* row i was made, over what is there */
    void (*score)(const lane *c, const struct rule *r, double *score, bool *pinned);
    int64_t first, every, drop;  /* first prompt row; at once while decoding, 0: 1 */
    int64_t newest, sinks, rows; /* pinned; rows that count */
    double lambda;
    bool official, most;
} rule;

static double at_logit(const lane *c, int h, int64_t i, int64_t j)
{
    return laws_at(&trace->more[c->layer].logits, c->group * EACH + h, i, j);
}

/* Row i of head h over what is there, by position. */
static void attention(const lane *c, int h, int64_t i, double *a)
{
    int64_t pos[T] = {0}, n = 0;
    float row[T];
    memset(a, 0, T * sizeof *a);
    for (int64_t j = 0; j <= i; j++)
        if (c->there[j])
            pos[n++] = j;
    toy_row(row, trace, c->layer, c->group * EACH + h, i, pos, n);
    for (int64_t s = 0; s < n; s++)
        a[pos[s]] = (double)row[s];
}

static int64_t count_there(const lane *c)
{
    int64_t n = 0;
    for (int64_t j = 0; j <= c->now; j++)
        n += c->there[j];
    return n;
}

static void pin(const lane *c, int64_t sinks, int64_t newest, bool *pinned)
{
    int64_t n = count_there(c), at = 0;
    for (int64_t j = 0; j <= c->now; j++) {
        pinned[j] = c->there[j] && (j < sinks || at >= n - newest);
        at += c->there[j];
    }
}

/* ---- following a run -----------------------------------------------------------------------
 */

static void start(lane *c, int layer, int group)
{
    memset(c, 0, sizeof *c);
    *c = (lane){.layer = layer, .group = group};
    for (int64_t j = 0; j < T; j++) {
        for (int d = 0; d < D; d++)
            c->length[j] += pow(laws_at(&trace->more[layer].values, group, j, d), 2);
        c->length[j] = sqrt(c->length[j]);
    }
}

static void check(const lane *c, const rule *r, const mini_result *run, int64_t m)
{
    double score[T];
    bool pinned[T] = {0};
    int64_t n = count_there(c), due = m % (r->every ? r->every : 1) == 0;
    int64_t left = m > 0 && r->drop > 0 ? r->budget + 1 - r->drop : r->budget;
    for (int64_t j = 0; j < T; j++)
        score[j] = -INFINITY;
    if (due && n > r->budget)
        r->score(c, r, score, pinned);
    for (int64_t j = 0; j <= c->now; j++)
        score[j] = c->there[j] ? score[j] : -INFINITY;
    laws_holds(trace, run, m, c->layer, c->group, score, pinned, c->now + 1,
               due && n > r->budget ? left : n);
}

static void follow(const rule *r)
{
    size_t mark = kvt_arena_mark(laws_memory);
    mini_result run = laws_run(trace, r->policy, r->params, r->budget, false);
    lane *c = kvt_arena_array(laws_memory, 1, sizeof *c);
    for (int l = 0; l < LAYERS; l++)
        for (int g = 0; g < GROUPS; g++) {
            start(c, l, g);
            for (int64_t i = 0; i < T; i++) {
                const uint8_t *held = i >= N ? mini_held(&run, trace, i - N, l, g) : NULL;
                for (int64_t j = 0; j < i && held; j++)
                    c->there[j] = held[j];
                c->there[i] = true;
                c->now = i;
                if (r->row && i >= r->first)
                    r->row(c, i);
                if (i >= N - 1)
                    check(c, r, &run, i - N + 1);
            }
        }
    kvt_arena_rewind(laws_memory, mark);
}

/* ---- h2o -----------------------------------------------------------------------------------
 */

static void add_attention(lane *c, int64_t i)
{
    double a[T];
    for (int h = 0; h < EACH; h++) {
        attention(c, h, i, a);
        for (int64_t j = 0; j <= i; j++)
            c->sum[j] += a[j];
    }
}

static void plain_sum(const lane *c, const rule *r, double *score, bool *pinned)
{
    memcpy(score, c->sum, sizeof c->sum);
    pin(c, r->sinks, r->newest, pinned);
}

static void by_seen(const lane *c, const rule *r, double *score, bool *pinned)
{
    plain_sum(c, r, score, pinned);
    for (int64_t j = 0; j <= c->now; j++)
        score[j] /= (double)(c->now + 1 - j);
}

static void by_lifetime(const lane *c, const rule *r, double *score, bool *pinned)
{
    plain_sum(c, r, score, pinned);
    for (int64_t j = 0; j <= c->now; j++)
        score[j] /= (double)(c->now + 1 - (j < N - 1 ? N - 1 : j));
}

/* The prompt's sums as one row worth N, then each row worth one; all by the length of v. */
static void add_lengths(lane *c, int64_t i)
{
    double before[T], all = 0;
    memcpy(before, c->sum, sizeof before);
    add_attention(c, i);
    if (i < N - 1)
        return;
    for (int64_t j = 0; j <= i; j++) {
        c->sum[j] = (i < N ? c->sum[j] : c->sum[j] - before[j]) * c->length[j];
        all += c->there[j] ? c->sum[j] : 0;
    }
    for (int64_t j = 0; j <= i; j++)
        c->sum[j] = c->sum[j] / all * EACH * (i < N ? N : 1) + (i < N ? 0 : before[j]);
}

static void h2o_is_its_formula(void **state)
{
    (void)state;
    const rule rules[] = {
        {"h2o", "", 16, add_attention, plain_sum, .newest = 8},
        {"h2o", "window=3", 17, add_attention, plain_sum, .newest = 3},
        {"h2o", "recent=0.5,divide=seen", 16, add_attention, by_seen, .newest = 8},
        {"h2o", "compat=keys-values", 16, add_attention, by_lifetime, .newest = 0},
        /* grace period (13.28): the last 4 are exempt */
        {"h2o", "compat=keys-values,window=4", 16, add_attention, by_lifetime, .newest = 4},
        {"h2o", "values=true", 16, add_lengths, plain_sum, .newest = 8},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        follow(&rules[i]);
}

/* 13.17 and ForesightKV's baseline: every 128 tokens, the last 128 stay. */
static void h2o_in_chunks(void **state)
{
    (void)state;
    const rule r = {
        "h2o",       "compat=foresightkv,window=20", 30, add_attention, plain_sum, .newest = 20,
        .every = 128};
    follow(&r);
    mini_result short_of = laws_try(trace, "h2o", "compat=foresightkv", 60, false);
    assert_true(short_of.skipped);
    assert_string_equal(short_of.why, "128 newest tokens need a budget of 128 or more, got 60");
}

static void observed_is_its_formula(void **state)
{
    (void)state;
    mini_result run = laws_run(trace, "observed", "", 20, false);
    assert_int_equal(run.n_step, 1);
    for (int l = 0; l < LAYERS; l++)
        for (int g = 0; g < GROUPS; g++) {
            double score[N] = {0};
            float sum[N], max[N];
            for (int h = 0; h < EACH; h++) {
                toy_columns(sum, max, trace, l, g * EACH + h);
                for (int64_t j = 0; j < N; j++)
                    score[j] += (double)sum[j] / EACH / (double)(N - j);
            }
            laws_scores(trace, &run, l, g, score, NULL, false);
            laws_holds(trace, &run, 0, l, g, score, NULL, N, 20);
        }
}

/* ---- scissorhands --------------------------------------------------------------------------
 */

static void note_low(lane *c, int64_t i)
{
    double a[T];
    for (int h = 0; h < EACH; h++) {
        attention(c, h, i, a);
        for (int64_t j = 0; j <= i; j++)
            c->low[i][h][j] = a[j] * (double)count_there(c) < 1;
    }
}

static void low_count(const lane *c, const rule *r, double *score, bool *pinned)
{
    for (int64_t j = 0; j <= c->now; j++) {
        double n = 0, seen = 0;
        for (int64_t i = c->now; i > c->now - r->rows && i >= r->first; i--) {
            seen += i >= j;
            for (int h = 0; i >= j && h < EACH; h++)
                n += c->low[i][h][j];
        }
        score[j] = r->most ? -n / (fmax(seen, 1) * EACH) : -n;
    }
    pin(c, r->sinks, r->newest, pinned);
}

static void add_decayed(lane *c, int64_t i)
{
    for (int64_t j = 0; j < i; j++)
        c->sum[j] *= 0.75;
    add_attention(c, i);
}

static void scissorhands_is_its_formula(void **state)
{
    (void)state;
    const rule rules[] = {
        {"scissorhands", "rows=20", 24, note_low, low_count, .rows = 20, .first = N - 20,
         .newest = 10, .drop = 12},
        {"scissorhands", "rows=40,recent=3,drop=0.25", 16, note_low, low_count, .rows = 40,
         .first = N - 40, .newest = 3, .drop = 4},
        /* a window as long as the prompt: all rows but the first, which sees itself */
        {"scissorhands", "", 24, note_low, low_count, .rows = 64, .first = 1, .newest = 10,
         .drop = 12},
        {"scissorhands", "compat=cold-compress,rows=20", 24, note_low, low_count, .rows = 20,
         .first = N - 20, .newest = 10, .sinks = 4, .drop = 1, .most = true},
        {"scissorhands", "compat=kvcf,rows=20,decay=0.75", 24, add_decayed, plain_sum,
         .first = N - 20, .newest = 10, .sinks = 4},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        follow(&rules[i]);
}

/* ---- keyformer -----------------------------------------------------------------------------
 */

static double rise_of = 0, start_of = 1; /* tau = start_of + rise_of t */

static void add_flat(lane *c, int64_t i)
{
    double tau = start_of + (i < N ? 0 : rise_of * (double)(i - N + 1));
    for (int h = 0; h < EACH; h++) {
        double sum = 0;
        for (int64_t j = 0; j <= i; j++)
            sum += c->there[j] ? exp(at_logit(c, h, i, j) / tau) : 0;
        for (int64_t j = 0; j <= i; j++)
            c->sum[j] += c->there[j] ? exp(at_logit(c, h, i, j) / tau) / sum : 0;
    }
}

static void blind_sum(const lane *c, const rule *r, double *score, bool *pinned)
{
    bool newest[T];
    memcpy(score, c->sum, sizeof c->sum);
    pin(c, 0, r->newest - 1, pinned);
    pin(c, 0, r->newest, newest);
    for (int64_t j = 0; j <= c->now; j++)
        if (newest[j] && !pinned[j])
            score[j] = 0;
}

static void keyformer_is_its_formula(void **state)
{
    (void)state;
    const rule paper = {"keyformer", "noise=false", 20,         add_flat,
                        plain_sum,   .first = N,    .newest = 6};
    const rule rows = {"keyformer", "noise=false,rows=12,tau_start=0.5",
                       20,          add_flat,
                       plain_sum,   .first = N - 12,
                       .newest = 6};
    const rule official = {
        "keyformer", "noise=false,compat=official", 20, add_flat, blind_sum, .first = 1,
        .newest = 6};
    rise_of = 1.0 / M;
    follow(&paper);
    rise_of = 1.5 / M, start_of = 0.5;
    follow(&rows);
    rise_of = 0.01, start_of = 1;
    follow(&official);
}

/* ---- morphkv -------------------------------------------------------------------------------
 */

/* The largest over the heads of the softmax of row i over the n tokens of `old`. */
static void best_of_heads(const lane *c, int64_t i, const int64_t *old, int64_t n, double *best)
{
    for (int64_t s = 0; s < n; s++)
        best[s] = 0;
    for (int h = 0; h < EACH; h++) {
        double sum = 0;
        for (int64_t s = 0; s < n; s++)
            sum += exp(at_logit(c, h, i, old[s]));
        for (int64_t s = 0; s < n; s++)
            best[s] = fmax(best[s], exp(at_logit(c, h, i, old[s])) / sum);
    }
}

static int64_t older(const lane *c, int64_t window, int64_t *old)
{
    int64_t n = 0, all = count_there(c);
    for (int64_t j = 0; j <= c->now && n < all - window; j++)
        if (c->there[j])
            old[n++] = j;
    return n;
}

static void window_votes(const lane *c, const rule *r, double *score, bool *pinned)
{
    int64_t old[T], n = older(c, r->newest, old);
    double best[T];
    for (int64_t s = 0; s < n; s++)
        score[old[s]] = 0;
    for (int64_t i = c->now - r->newest + 1; i <= c->now; i++) {
        best_of_heads(c, i, old, n, best);
        for (int64_t s = 0; s < n; s++)
            score[old[s]] = r->most ? fmax(score[old[s]], best[s]) : score[old[s]] + best[s];
    }
    pin(c, 0, r->newest, pinned);
}

static void morphkv_is_its_formula(void **state)
{
    (void)state;
    const rule sum = {"morphkv", "window=8", 20, NULL, window_votes, .newest = 8};
    const rule max = {"morphkv",    "window=8,fuse=max", 20,          NULL,
                      window_votes, .newest = 8,         .most = true};
    const rule whole = {"morphkv", "", 40, NULL, window_votes, .newest = 32};
    follow(&sum);
    follow(&max);
    follow(&whole);
}

/* evict_after = 1.5 at B = 20: a lane grows to 30 and is cut when the next would make 31.5. */
static void morphkv_evicts_in_bursts(void **state)
{
    (void)state;
    mini_result r = laws_run(trace, "morphkv", "window=8,evict_after=1.5", 20, false);
    assert_true(r.traits.may_exceed);
    for (int64_t m = 0, want = 20; m <= M; m++) {
        if (m > 0)
            want = want + 1 == 31 ? 20 : want + 1;
        assert_int_equal(mini_count(&r, trace, m, 0, 0), want);
    }
}

/* ---- r-kv ----------------------------------------------------------------------------------
 */

static void cosines(const lane *c, const int64_t *pos, int64_t n, double (*out)[T])
{
    const kvt_view *k = &trace->more[c->layer].keys;
    for (int64_t a = 0; a < n; a++)
        for (int64_t b = 0; b < n; b++) {
            double dot = 0, x = 0, y = 0;
            for (int d = 0; d < D; d++) {
                double u = laws_at(k, c->group, pos[a], d), v = laws_at(k, c->group, pos[b], d);
                dot += u * v, x += u * u, y += v * v;
            }
            out[a][b] = a == b ? 0 : dot / (sqrt(x) + 1e-8) / (sqrt(y) + 1e-8);
        }
}

/* Softmax over n of the mean over rows, each with its last similar key (or, as published,
 * column 0) put to 0. */
static void redundancy(const lane *c, const rule *r, const int64_t *pos, int64_t n, double *red)
{
    static double cosine[T][T];
    double sum = 0;
    cosines(c, pos, n, cosine);
    for (int64_t a = 0; a < n; a++) {
        int64_t last = r->official ? 0 : -1;
        for (int64_t b = 0; b < n; b++)
            last = cosine[a][b] > 0.5 ? b : last;
        if (last >= 0)
            cosine[a][last] = 0;
    }
    for (int64_t b = 0; b < n; b++) {
        red[b] = 0;
        for (int64_t a = 0; a < n; a++)
            red[b] += cosine[a][b] / (double)n;
        sum += red[b] = exp(red[b]);
    }
    for (int64_t b = 0; b < n; b++)
        red[b] /= sum;
}

static void less_redundant(const lane *c, const rule *r, double *score, bool *pinned)
{
    int64_t all[T], n_all = older(c, 0, all), n = n_all - r->newest;
    double mean[T] = {0}, best[T], pooled[T], red[T];
    for (int64_t i = c->now - r->newest + 1; i <= c->now; i++) {
        double sum = 0;
        for (int64_t s = 0; s < n; s++) {
            best[s] = -INFINITY;
            for (int h = 0; h < EACH; h++)
                best[s] = fmax(best[s], at_logit(c, h, i, all[s]));
            sum += exp(best[s]);
        }
        for (int64_t s = 0; s < n; s++)
            mean[s] += exp(best[s]) / sum / (double)r->newest;
    }
    laws_pool(pooled, mean, n, 7);
    redundancy(c, r, all, n_all, red);
    for (int64_t s = 0; s < n; s++)
        score[all[s]] = r->lambda * pooled[s] - (1 - r->lambda) * red[s];
    pin(c, 0, r->newest, pinned);
}

/* 13.38: in tiles of 16 rows it is the whole matrix, which this test makes; lambda is stated.
 */
static void r_kv_is_its_formula(void **state)
{
    (void)state;
    const rule rules[] = {
        {"r-kv", "", 20, NULL, less_redundant, .newest = 8, .every = 128, .lambda = 0.1},
        {"r-kv", "compat=official", 20, NULL, less_redundant, .newest = 8, .every = 128,
         .lambda = 0.07, .official = true},
        {"r-kv", "compat=snapkv", 20, NULL, less_redundant, .newest = 8, .every = 128,
         .lambda = 1},
        {"r-kv", "window=5,lambda=0.9", 33, NULL, less_redundant, .newest = 5, .every = 128,
         .lambda = 0.9},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        follow(&rules[i]);
}

/* 13.24: what a row sees at most is said, not only what is left: B + 128 here. */
static void r_kv_grows_between(void **state)
{
    (void)state;
    mini_result r = laws_run(trace, "r-kv", "", 20, false);
    assert_int_equal(r.most, 20 + 128);
    assert_int_equal(mini_count(&r, trace, 127, 0, 0), 20 + 127);
    assert_int_equal(mini_count(&r, trace, 128, 0, 0), 20);
}

/* ---- nacl ----------------------------------------------------------------------------------
 */

/* The last `rows` queries of the prompt: causal, or over all keys. */
static void proxy_scores(int layer, int head, int64_t rows, bool causal, double *score)
{
    lane c = {.layer = layer, .group = head / EACH};
    memset(score, 0, N * sizeof *score);
    for (int64_t i = N - rows; i < N; i++) {
        double sum = 0;
        for (int64_t j = 0; j < N; j++)
            sum += j <= i || !causal ? exp(at_logit(&c, head % EACH, i, j)) : 0;
        for (int64_t j = 0; j < N; j++)
            score[j] += j <= i || !causal ? exp(at_logit(&c, head % EACH, i, j)) / sum : 0;
    }
}

/* All logits, also of keys behind the query, from queries and keys. */
static double dot(int layer, int head, int64_t i, int64_t j)
{
    double z = 0;
    for (int d = 0; d < D; d++)
        z += laws_at(&trace->more[layer].queries, head, i, d) *
             laws_at(&trace->more[layer].keys, head / EACH, j, d);
    return z / sqrt(D);
}

static void open_scores(int layer, int head, int64_t rows, double *score)
{
    memset(score, 0, N * sizeof *score);
    for (int64_t i = N - rows; i < N; i++) {
        double sum = 0;
        for (int64_t j = 0; j < N; j++)
            sum += exp(dot(layer, head, i, j));
        for (int64_t j = 0; j < N; j++)
            score[j] += exp(dot(layer, head, i, j)) / sum;
    }
}

/* Sinks, newest, the top and as many drawn as there should be. */
static void check_nacl(const mini_result *r, int layer, int at, double *score)
{
    uint8_t top[N];
    int64_t n_top = 0, n_drawn = 0;
    bool pinned[N] = {0};
    for (int64_t j = 0; j < N; j++)
        pinned[j] = j < 2 || j >= N - 4;
    laws_scores(trace, r, layer, at, score, pinned, false);
    for (int64_t j = 0; j < N; j++)
        score[j] = pinned[j] ? -INFINITY : score[j];
    laws_best(top, score, N, 20 - 6 - 7);
    for (int64_t j = 0; j < N; j++) {
        bool held = mini_held(r, trace, 0, layer, at)[j];
        assert_true(held || !pinned[j]);
        n_top += top[j] && held;
        n_drawn += held && !top[j] && !pinned[j];
    }
    assert_int_equal(n_top, 7);
    assert_int_equal(n_drawn, 7);
}

static void nacl_is_its_formula(void **state)
{
    (void)state;
    static const char shares[] = "proxies=0.1,sinks=0.1,recent=0.2,random=0.35";
    char params[128];
    for (int v = 0; v < 3; v++) {
        static const char *const compats[] = {"paper", "official", "kvcf"};
        snprintf(params, sizeof params, "compat=%s,%s", compats[v], shares);
        mini_result r = laws_run(trace, "nacl", params, 20, false);
        assert_int_equal(r.n_lane, v == 0 ? GROUPS : HEADS);
        for (int l = 0; l < LAYERS; l++)
            for (int a = 0; a < r.n_lane; a++) {
                double score[N] = {0}, one[N];
                for (int h = 0; h < HEADS / r.n_lane; h++) {
                    if (v == 1)
                        open_scores(l, a, 5, one);
                    else
                        proxy_scores(l, a * HEADS / r.n_lane + h, 5, true, one);
                    for (int64_t j = 0; j < N; j++)
                        score[j] += one[j];
                }
                check_nacl(&r, l, a, score);
            }
    }
}

int main(void)
{
    laws_memory = kvt_arena_new((size_t)1 << 30);
    trace = toy_rich(laws_memory, LAYERS, 5, HEADS, GROUPS, N, M, false);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(h2o_is_its_formula),
        cmocka_unit_test(h2o_in_chunks),
        cmocka_unit_test(observed_is_its_formula),
        cmocka_unit_test(scissorhands_is_its_formula),
        cmocka_unit_test(keyformer_is_its_formula),
        cmocka_unit_test(morphkv_is_its_formula),
        cmocka_unit_test(morphkv_evicts_in_bursts),
        cmocka_unit_test(r_kv_is_its_formula),
        cmocka_unit_test(r_kv_grows_between),
        cmocka_unit_test(nacl_is_its_formula),
    };
    int failed = cmocka_run_group_tests_name("laws of summed attention", tests, NULL, NULL);
    toy_close(trace);
    kvt_arena_free(laws_memory);
    return failed;
}
