/* test_metrics - every metric by hand or against its plain definition: pairs by a double loop,
 * ranks by counting, rows by sorting. Item numbers are those of the policy pages. */
#include "tests/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/half.h"
#include "base/rng.h"
#include "base/select.h"
#include "kvt/arena.h"
#include "kvt/metric.h"
#include "replay/replay_priv.h"

enum { MOST = 64 };

/* A lane with scores and masses, and what the engine would make of them. */
typedef struct lane {
    kvt_judged j;
    float score[MOST];
    double mass[MOST];
    bool rule[MOST];
    int32_t ranked[MOST], truth[MOST], hits[MOST + 1];
    uint8_t held[MOST];
} lane;

static void set_up(lane *l, int64_t n, int64_t budget)
{
    kvt_arena *work = kvt_arena_new((size_t)1 << 24);
    int64_t m = 0;
    l->j = (kvt_judged){.n_head = 1, .n_prompt = n, .n_response = 1, .budget = budget};
    assert_true(select_rank(l->ranked, l->score, n, work));
    assert_true(select_rank_double(l->truth, l->mass, n, work));
    kvt_arena_rewind(work, 0);
    for (int64_t i = 0; i < n; i++)
        if (!l->rule[l->ranked[i]])
            l->ranked[m++] = l->ranked[i];
    for (int64_t i = 0; i < n; i++) {
        l->hits[i + 1] = l->hits[i] + l->held[l->truth[i]];
        l->j.n_held += l->held[i];
    }
    l->j.n_arrived = n;
    l->j.ranking = l->score, l->j.ranked = l->ranked, l->j.n_ranked = m;
    l->j.remaining = l->mass, l->j.truth = l->truth;
    l->j.held = l->held, l->j.hits = l->hits;
    l->j.scratch = work;
}

static void tear_down(lane *l)
{
    kvt_arena_free(l->j.scratch);
    l->j.scratch = NULL;
}

static double of_lane(const char *metric, const kvt_judged *j)
{
    const kvt_metric *m = kvt_metric_find(metric);
    assert_non_null(m);
    double x = m->lane(j);
    kvt_arena_rewind(j->scratch, 0);
    return x;
}

static double of_ratio(kvt_ratio x)
{
    return x.below > 0 ? x.above / x.below : NAN;
}

/* Values from so few that ties are common on both sides; some tokens protected. */
static void random_lane(lane *l, uint64_t *rng, int64_t n)
{
    int64_t kinds = 1 + rng_below(rng, 7);
    *l = (lane){0};
    for (int64_t i = 0; i < n; i++) {
        l->score[i] = (float)rng_below(rng, kinds) - 3;
        l->mass[i] = (double)rng_below(rng, kinds + 2) / 8;
        l->rule[i] = rng_below(rng, 5) == 0;
        l->held[i] = rng_below(rng, 2) == 0;
    }
}

/* ---- rank agreement ------------------------------------------------------------------------
 */

static double plain_tau(const lane *l)
{
    int64_t pairs = 0, sum = 0, tied_s = 0, tied_m = 0;
    for (int64_t a = 0; a < l->j.n_prompt; a++) {
        for (int64_t b = a + 1; b < l->j.n_prompt; b++) {
            if (l->rule[a] || l->rule[b])
                continue;
            int s = (l->score[a] > l->score[b]) - (l->score[a] < l->score[b]);
            int m = (l->mass[a] > l->mass[b]) - (l->mass[a] < l->mass[b]);
            pairs++;
            sum += s * m;
            tied_s += s == 0;
            tied_m += m == 0;
        }
    }
    double below = sqrt((double)(pairs - tied_s) * (double)(pairs - tied_m));
    return below > 0 ? (double)sum / below : NAN;
}

/* 1-based mean rank of token a by falling value: those above it and half of its equals. */
static double plain_rank(const lane *l, int64_t a, bool mass)
{
    double rank = 1;
    for (int64_t b = 0; b < l->j.n_prompt; b++) {
        double x = mass ? l->mass[a] : (double)l->score[a];
        double y = mass ? l->mass[b] : (double)l->score[b];
        if (b != a && !l->rule[b])
            rank += y > x ? 1 : y == x ? 0.5 : 0;
    }
    return rank;
}

static double plain_rho(const lane *l)
{
    double n = 0, sx = 0, sy = 0, sxy = 0, sxx = 0, syy = 0;
    for (int64_t a = 0; a < l->j.n_prompt; a++) {
        if (l->rule[a])
            continue;
        double x = plain_rank(l, a, false), y = plain_rank(l, a, true);
        n++, sx += x, sy += y, sxy += x * y, sxx += x * x, syy += y * y;
    }
    double vx = n * sxx - sx * sx, vy = n * syy - sy * sy;
    return vx > 0 && vy > 0 ? (n * sxy - sx * sy) / sqrt(vx) / sqrt(vy) : NAN;
}

static void same(double got, double want, const char *what, int run)
{
    if (!(fabs(got - want) <= 1e-12) && !(isnan(got) && isnan(want)))
        fail_msg("%s in run %d: %.17g, expected %.17g", what, run, got, want);
}

static void rank_agreement_is_that_of_plain_loops(void **state)
{
    uint64_t rng[RNG_WORDS];
    int undefined = 0;
    (void)state;
    rng_init(rng, "ranks", 5);
    for (int run = 0; run < 2000; run++) {
        lane l;
        int64_t n = rng_below(rng, 40);
        random_lane(&l, rng, n);
        set_up(&l, n, 8);
        double tau = of_lane("kendall_tau", &l.j);
        same(tau, plain_tau(&l), "tau-b", run);
        same(of_lane("spearman", &l.j), plain_rho(&l), "rho", run);
        undefined += isnan(tau) != 0;
        tear_down(&l);
    }
    assert_true(undefined > 20 && undefined < 1000);
}

/* By hand: scores 3 2 2 1 and masses 4 1 3 2. Pairs: (a b) (a c) (a d) agree, (b c) tied, (b d)
 * disagrees, (c d) agrees: (4 - 1) / sqrt(5 * 6). Ranks 1 2.5 2.5 4 and 1 4 2 3: centred
 * -1.5 0 0 1.5 and -1.5 1.5 -0.5 0.5: 3 / sqrt(4.5 * 5). */
static void four_tokens_by_hand(void **state)
{
    (void)state;
    lane l = {.score = {3, 2, 2, 1}, .mass = {4, 1, 3, 2}};
    set_up(&l, 4, 2);
    CHECK_NEAR(of_lane("kendall_tau", &l.j), 3 / sqrt(30), 1e-15);
    CHECK_NEAR(of_lane("spearman", &l.j), 3 / sqrt(22.5), 1e-15);
    /* k = 2: rank 1 is a, rank 2 is b or c: 4 + (1 + 3) / 2 / log2(3), at best 4 + 3 / log2(3)
     */
    CHECK_NEAR(of_lane("ndcg", &l.j), (4 + 2 / log2(3)) / (4 + 3 / log2(3)), 1e-15);
    l.j.step = 1; /* the scores are those of the prompt's end */
    assert_true(isnan(of_lane("kendall_tau", &l.j)) && isnan(of_lane("spearman", &l.j)) &&
                isnan(of_lane("ndcg", &l.j)));
    tear_down(&l);
}

/* A protected token is out of k, too: with token 0 pinned one slot of two is left. */
static void protected_tokens_are_out_of_ndcg(void **state)
{
    (void)state;
    lane l = {.score = {3, 2, 2, 1}, .mass = {4, 1, 3, 2}, .rule = {true}};
    set_up(&l, 4, 2);
    CHECK_NEAR(of_lane("ndcg", &l.j), 2.0 / 3, 1e-15);
    l.j.budget = 1;
    assert_true(isnan(of_lane("ndcg", &l.j)) != 0);
    tear_down(&l);
}

static void ndcg_does_not_see_the_order_of_ties(void **state)
{
    uint64_t rng[RNG_WORDS];
    (void)state;
    rng_init(rng, "ties", 4);
    for (int run = 0; run < 500; run++) {
        lane l, other;
        int64_t n = 2 + rng_below(rng, 30), to[MOST];
        random_lane(&l, rng, n);
        for (int64_t i = 0; i < n; i++)
            to[i] = i;
        for (int64_t i = n - 1; i > 0; i--) {
            int64_t k = rng_below(rng, i + 1), x = to[i];
            to[i] = to[k], to[k] = x;
        }
        other = (lane){0};
        for (int64_t i = 0; i < n; i++) {
            other.score[to[i]] = l.score[i];
            other.mass[to[i]] = l.mass[i];
            other.rule[to[i]] = l.rule[i];
        }
        set_up(&l, n, 1 + run % 9);
        set_up(&other, n, 1 + run % 9);
        double x = of_lane("ndcg", &l.j);
        same(of_lane("ndcg", &other.j), x, "ndcg", run);
        assert_true(isnan(x) || (x >= 0 && x <= 1 + 1e-12));
        tear_down(&l);
        tear_down(&other);
    }
}

static void constant_sides_have_no_agreement(void **state)
{
    static const char *const names[] = {"kendall_tau", "spearman", "ndcg"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        lane flat = {.score = {1, 1, 1}, .mass = {3, 2, 1}};
        set_up(&flat, 3, 2);
        assert_true(isnan(of_lane(names[i], &flat.j)) != 0);
        tear_down(&flat);
        lane even = {.score = {-1, -2, -3}, .mass = {1, 1, 1}};
        set_up(&even, 3, 2);
        assert_true(isnan(of_lane(names[i], &even.j)) != 0);
        even.j.ranking = NULL;
        assert_true(isnan(of_lane(names[i], &even.j)) != 0);
        tear_down(&even);
        lane good = {.score = {-1, -2, -3}, .mass = {3, 2, 1}};
        set_up(&good, 3, 2);
        CHECK_NEAR(of_lane(names[i], &good.j), 1, 1e-15);
        tear_down(&good);
    }
}

/* ---- sets ----------------------------------------------------------------------------------
 */

/* Held 0 2 5 of masses 9 8 7 6 5 4: the true top two are 0 and 1, of which 0 is there. */
static void sets_by_hand(void **state)
{
    (void)state;
    lane l = {.score = {0}, .mass = {9, 8, 7, 6, 5, 4}, .held = {1, 0, 1, 0, 0, 1}};
    set_up(&l, 6, 2);
    CHECK_NEAR(of_ratio(kvt_metric_find("recall")->ratio(&l.j)), 1.0 / 2, 0);
    CHECK_NEAR(of_ratio(kvt_metric_find("precision")->ratio(&l.j)), 1.0 / 3, 0);
    /* fewer than 32, 128, 512 have arrived: the share that is held */
    CHECK_NEAR(of_ratio(kvt_metric_find("topk_recall")->ratio(&l.j)), 0.5, 0);
    CHECK_NEAR(of_ratio(kvt_metric_find("topk_recall_128")->ratio(&l.j)), 0.5, 0);
    CHECK_NEAR(of_ratio(kvt_metric_find("topk_recall_512")->ratio(&l.j)), 0.5, 0);
    uint8_t pinned[6] = {0, 0, 0, 0, 0, 1};
    l.j.pinned = pinned; /* k is 1, token 5 is out: the best of the others is 0 */
    CHECK_NEAR(of_ratio(kvt_metric_find("recall_unprotected")->ratio(&l.j)), 1, 0);
    l.j.budget = 1;
    assert_true(isnan(of_ratio(kvt_metric_find("recall_unprotected")->ratio(&l.j))) != 0);
    l.j.budget = 0;
    assert_true(isnan(of_ratio(kvt_metric_find("recall")->ratio(&l.j))) != 0);
    l.j.n_held = 0;
    assert_true(isnan(of_ratio(kvt_metric_find("precision")->ratio(&l.j))) != 0);
    tear_down(&l);
}

/* Row 60 of a prompt of 5 saw 1 2 64 and itself (65), row 59 saw 1 3 and itself (64): without
 * their own tokens {1 2 64} and {1 3}, one of four. */
static void overlap_by_hand(void **state)
{
    (void)state;
    uint64_t now[2] = {1 << 1 | 1 << 2, 1 << 0 | 1 << 1}, before[2] = {1 << 1 | 1 << 3, 1 << 0},
             none[2] = {0, 0};
    kvt_judged j = {.n_prompt = 5, .row = 60, .saw = now, .saw_before = before, .n_word = 2};
    CHECK_NEAR(of_ratio(kvt_metric_find("step_overlap")->turn(&j)), 0.25, 0);
    j.saw = j.saw_before = none;
    assert_true(isnan(of_ratio(kvt_metric_find("step_overlap")->turn(&j))) != 0);
}

/* Of 0.5 0.0625 0.04 0.4 three are heavy; a row without any says nothing. */
static void heavy_keys_by_hand(void **state)
{
    (void)state;
    static const float value[4] = {0.5F, 0.0625F, 0.04F, 0.4F};
    const kvt_metric *m = kvt_metric_find("heavy_recall");
    uint16_t row[4];
    int32_t token[HEAVY_MAX];
    for (int i = 0; i < 4; i++)
        row[i] = half_from_float(value[i]);
    support_heavy(token, row, 4);
    assert_true(token[0] == 0 && token[1] == 1 && token[2] == 3 && token[3] == -1);
    support_heavy(token, row + 2, 1);
    assert_int_equal(token[0], -1);
    kvt_judged j = {.n_heavy = 3, .had_heavy = 2};
    CHECK_NEAR(m->row(&j), 2.0 / 3, 1e-15);
    assert_true(m->weight(&j) == 3);
    j.n_heavy = 0;
    assert_true(isnan(m->row(&j)) && m->weight(&j) == 0);
    j.n_heavy = -1;
    assert_true(isnan(m->row(&j)) != 0);
}

/* 3 rows are left, their mass on the tokens that had arrived is 2.25. */
static void unavailable_by_hand(void **state)
{
    (void)state;
    double mass[3] = {1, 1, 0.25};
    kvt_judged j = {
        .n_prompt = 2, .n_response = 4, .step = 1, .n_arrived = 3, .remaining = mass};
    CHECK_NEAR(of_ratio(kvt_metric_find("unavailable")->ratio(&j)), 0.25, 0);
    mass[0] = 2; /* halves of a row may add up to more than 1 */
    CHECK_NEAR(of_ratio(kvt_metric_find("unavailable")->ratio(&j)), 0, 0);
    j.step = 4;
    assert_true(isnan(of_ratio(kvt_metric_find("unavailable")->ratio(&j))) != 0);
}

static void against_the_oracle_by_hand(void **state)
{
    (void)state;
    const kvt_metric *m = kvt_metric_find("kept_to_oracle"), *w = kvt_metric_find("whole_rows");
    kvt_judged j = {.oracle_lost = 0.2, .regret = 0.2, .n_response = 4, .n_whole = 1};
    CHECK_NEAR(of_ratio(m->end(&j)), 0.75, 1e-15);
    CHECK_NEAR(of_ratio(w->end(&j)), 0.25, 0);
    j.oracle_lost = 1, j.regret = 0, j.n_whole = -1;
    assert_true(isnan(of_ratio(m->end(&j))) && isnan(of_ratio(w->end(&j))));
    j.oracle_lost = 0.2, j.regret = NAN;
    assert_true(isnan(of_ratio(m->end(&j))) != 0);
}

/* ---- effective support ---------------------------------------------------------------------
 */

static int down(const void *a, const void *b)
{
    uint16_t x = *(const uint16_t *)a, y = *(const uint16_t *)b;
    return (x < y) - (x > y);
}

static void support_is_that_of_sorting(void **state)
{
    static const double share[] = {0.9, 0.95, 0.99};
    enum { N = 300 };
    uint64_t rng[RNG_WORDS];
    (void)state;
    rng_init(rng, "rows", 4);
    for (int run = 0; run < 300; run++) {
        uint16_t row[N], sorted[N];
        int64_t n = 1 + rng_below(rng, N);
        float got[KVT_SUPPORTS];
        double all = 0;
        for (int64_t i = 0; i < n; i++) { /* flat rows, peaked rows, many equal values */
            double x = (double)rng_below(rng, run % 3 ? 1000 : 5) / 1000;
            row[i] = sorted[i] = half_from_float((float)(run % 2 ? x * x * x : x / 300));
            all += (double)half_to_float(row[i]);
        }
        qsort(sorted, (size_t)n, sizeof *sorted, down);
        support_of(got, row, n);
        for (int k = 0; k < KVT_SUPPORTS; k++) {
            double sum = 0;
            int64_t taken = 0;
            while (taken < n && sum < share[k] * all)
                sum += (double)half_to_float(sorted[taken++]);
            if (all > 0 && (int64_t)got[k] != taken)
                fail_msg("run %d: %g keys hold %g, expected %d", run, (double)got[k], share[k],
                         (int)taken);
            assert_true(all > 0 || isnan(got[k]));
        }
    }
}

/* One key holds all; halves of 0.5 0.25 0.125 0.125 hold 0.9 only together with the last. */
static void support_by_hand(void **state)
{
    (void)state;
    float value[4] = {0.125F, 0.5F, 0.125F, 0.25F}, got[KVT_SUPPORTS];
    uint16_t row[4], one[3] = {0, 0x3c00, 0};
    for (int i = 0; i < 4; i++)
        row[i] = half_from_float(value[i]);
    support_of(got, row, 4);
    assert_true(got[0] == 4 && got[1] == 4 && got[2] == 4);
    support_of(got, one, 3);
    assert_true(got[0] == 1 && got[2] == 1);
    support_of(got, one, 1);
    assert_true(isnan(got[0]) != 0);
}

/* ---- the registry --------------------------------------------------------------------------
 */

/* Golden vector 7: p = [.5 .2 .15 .1 .05], K = {0 1 4}. Total variation, Hellinger and
 * Jensen-Shannon are functions of the kept mass, so that they are no metrics of their own. */
static void divergences_are_functions_of_kept_mass(void **state)
{
    (void)state;
    static const double p[5] = {.5, .2, .15, .1, .05};
    static const bool keep[5] = {true, true, false, false, true};
    double kept = 0, kl = 0, tv = 0, js = 0, overlap = 0;
    for (int i = 0; i < 5; i++)
        kept += keep[i] ? p[i] : 0;
    for (int i = 0; i < 5; i++) {
        double q = keep[i] ? p[i] / kept : 0, m = (p[i] + q) / 2;
        kl += q > 0 ? q * log(q / p[i]) : 0;
        tv += fabs(p[i] - q) / 2;
        js += p[i] * log(p[i] / m) / 2 + (q > 0 ? q * log(q / m) / 2 : 0);
        overlap += sqrt(p[i] * q);
    }
    kvt_judged j = {.lost = 1 - kept, .kept = kept};
    CHECK_NEAR(kept, 0.75, 1e-15);
    CHECK_NEAR(kvt_metric_find("attn_kl")->row(&j), kl, 1e-12);
    CHECK_NEAR(kl, 0.287682, 5e-7);
    CHECK_NEAR(kvt_metric_find("lost_mass")->row(&j), tv, 1e-12);
    CHECK_NEAR(log(2) + kept / 2 * log(kept) - (1 + kept) / 2 * log(1 + kept), js, 1e-12);
    CHECK_NEAR(js, 0.095603, 5e-7);
    CHECK_NEAR(1 - sqrt(kept), 1 - overlap, 1e-12);
    CHECK_NEAR(1 - sqrt(kept), 0.133975, 5e-7);
    assert_null(kvt_metric_find("hellinger"));
    assert_null(kvt_metric_find("js"));
}

static void every_metric_says_what_it_is(void **state)
{
    (void)state;
    int index[LANE_METRICS_MAX], n = 0;
    for (; kvt_metrics()[n]; n++) {
        const kvt_metric *m = kvt_metrics()[n];
        int hooks = (m->row != NULL) + (m->lane != NULL) + (m->ratio != NULL) +
                    (m->turn != NULL) + (m->end != NULL);
        assert_int_equal(hooks, 1);
        assert_true(m->title && m->formula && m->hides && m->range && m->absent && m->unit);
        assert_true(m->column[0].column && m->column[0].over == KVT_MEAN);
        for (const kvt_metric_column *c = m->column; c->column; c++) {
            bool micro = c->over == KVT_MICRO;
            assert_int_equal(strstr(c->column, "_micro_") != NULL, micro);
            assert_true(strncmp(c->column, m->name, strlen(m->name)) == 0);
            assert_int_equal(strstr(c->column, "_absent_") != NULL, c->over == KVT_ABSENT);
            assert_true(!micro || m->ratio || m->turn || m->end || m->weight);
            assert_true(m->row || c->over == KVT_MEAN || micro);
            assert_null(strstr(c->column, "hit_rate"));
        }
    }
    assert_true(measure_lane_metrics(index) <= LANE_METRICS_MAX);
    kvt_schema schema;
    kvt_cell_schema(&schema);
    assert_true(schema.n < KVT_COLUMNS_MAX);
}

static void metrics_are_asked_for_by_name(void **state)
{
    (void)state;
    uint64_t none, all, some, again;
    kvt_err err;
    CHECK_OK(kvt_metrics_parse(&none, NULL, &err), &err);
    CHECK_OK(kvt_metrics_parse(&again, "default", &err), &err);
    CHECK_OK(kvt_metrics_parse(&all, "all", &err), &err);
    CHECK_OK(kvt_metrics_parse(&some, "ndcg,kendall_tau", &err), &err);
    assert_true(none == again && (some & none) == none && (all & some) == some);
    for (int i = 0; kvt_metrics()[i]; i++) {
        const char *name = kvt_metrics()[i]->name;
        bool named = strcmp(name, "ndcg") == 0 || strcmp(name, "kendall_tau") == 0;
        assert_int_equal(none >> i & 1, !kvt_metrics()[i]->extra);
        assert_int_equal(some >> i & 1, named || !kvt_metrics()[i]->extra);
        assert_true(all >> i & 1);
    }
    CHECK_FAILS(kvt_metrics_parse(&some, "ndgc", &err), KVT_USAGE,
                "no metric 'ndgc', did you mean 'ndcg'?", &err);
    CHECK_FAILS(kvt_metrics_parse(&some, "ndcg,,spearman", &err), KVT_USAGE, "no metric ''",
                &err);
    CHECK_FAILS(kvt_metrics_parse(&some, "", &err), KVT_USAGE, "no metric ''", &err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rank_agreement_is_that_of_plain_loops),
        cmocka_unit_test(four_tokens_by_hand),
        cmocka_unit_test(protected_tokens_are_out_of_ndcg),
        cmocka_unit_test(ndcg_does_not_see_the_order_of_ties),
        cmocka_unit_test(constant_sides_have_no_agreement),
        cmocka_unit_test(sets_by_hand),
        cmocka_unit_test(overlap_by_hand),
        cmocka_unit_test(heavy_keys_by_hand),
        cmocka_unit_test(unavailable_by_hand),
        cmocka_unit_test(against_the_oracle_by_hand),
        cmocka_unit_test(support_is_that_of_sorting),
        cmocka_unit_test(support_by_hand),
        cmocka_unit_test(divergences_are_functions_of_kept_mass),
        cmocka_unit_test(every_metric_says_what_it_is),
        cmocka_unit_test(metrics_are_asked_for_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
