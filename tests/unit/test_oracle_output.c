/* test_oracle_output - greedy elimination by output against all subsets of small lanes, the
 * identity that it rests on, and its order against plain recomputation. */
#include "tests/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kvt/arena.h"
#include "kvt/param.h"
#include "kvt/policy.h"
#include "tests/toy.h"

enum { N = 10, H = 2, M = 3, R = H * M, D = 4, LANES = 300 };

static kvt_arena *work;
static const kvt_policy *policy;

typedef struct one_lane {
    float row[R * N], value[N * D];
    float rest[R * D]; /* what the response's own tokens add */
    bool alone;        /* that is not known */
    float score[N];
} one_lane;

static double number(uint64_t *seed)
{
    *seed += 1;
    return (double)(toy_mix(*seed) >> 11) * 0x1p-53;
}

/* Rows give some of their attention to tokens that are not there. */
static void draw(one_lane *x, uint64_t *seed)
{
    for (int r = 0; r < R; r++) {
        double p[N], sum = number(seed);
        for (int s = 0; s < N; s++) {
            p[s] = number(seed);
            p[s] *= p[s] * p[s]; /* cubed; halves have none smaller than 2^-24 */
            p[s] = p[s] < 0x1p-24 ? 0x1p-24 : p[s];
            sum += p[s];
        }
        for (int s = 0; s < N; s++)
            x->row[r * N + s] = (float)(p[s] / sum);
    }
    for (int i = 0; i < N * D; i++)
        x->value[i] = (float)(2 * number(seed) - 1);
    x->alone = number(seed) < 0.3;
    for (int r = 0; r < R; r++) {
        double g = 0;
        for (int s = 0; s < N; s++)
            g += (double)x->row[r * N + s];
        for (int d = 0; d < D; d++)
            x->rest[r * D + d] = (float)((1 - g) * (2 * number(seed) - 1));
    }
}

static void run(one_lane *x, const char *params)
{
    char *p = kvt_alloc(1, policy->params_size);
    bool pinned[N] = {false};
    kvt_err err;
    kvt_param_defaults(policy->params, p);
    CHECK_OK(kvt_param_parse(policy->params, p, params, &err), &err);
    kvt_lane lane = {.n_slot = N,
                     .now = N - 1,
                     .future = kvt_view_of(x->row, KVT_F32, KVT_SHAPE("HQS", H, M, N)),
                     .values = kvt_view_of(x->value, KVT_F32, KVT_SHAPE("SD", N, D)),
                     .scratch = work};
    if (!x->alone)
        lane.future_rest = kvt_view_of(x->rest, KVT_F32, KVT_SHAPE("HQD", H, M, D));
    memset(x->score, 0, sizeof x->score);
    policy->score(p, x->score, pinned, &lane);
    kvt_arena_rewind(work, 0);
    kvt_free(p);
}

/* Mean of the values over the slots of a set by a row's weights; returns the weights' sum. */
static double mean_of(double out[D], const one_lane *x, int r, unsigned set)
{
    double sum = 0;
    memset(out, 0, D * sizeof *out);
    for (int s = 0; s < N; s++)
        if (set >> s & 1) {
            sum += (double)x->row[r * N + s];
            for (int d = 0; d < D; d++)
                out[d] += (double)x->row[r * N + s] * (double)x->value[s * D + d];
        }
    for (int d = 0; d < D; d++)
        out[d] /= sum;
    return sum;
}

/* Adds the response's own tokens to a mean over the prompt. */
static void add_rest(double out[D], const one_lane *x, int r, double mass, double own)
{
    for (int d = 0; d < D; d++)
        out[d] = (mass * out[d] + (double)x->rest[r * D + d]) / (mass + own);
}

/* Squared change of the output of all rows where only a set stays beside the response's own
 * tokens; without those, times the square of what rows give to the prompt. */
static double error_of(const one_lane *x, unsigned set)
{
    double error = 0;
    for (int r = 0; r < R; r++) {
        double full[D], kept[D], all = mean_of(full, x, r, (1U << N) - 1);
        double mass = mean_of(kept, x, r, set), g = x->alone ? all : 1;
        if (!x->alone) {
            add_rest(full, x, r, all, 1 - all);
            add_rest(kept, x, r, mass, 1 - all);
        }
        for (int d = 0; d < D; d++)
            error += g * g * (kept[d] - full[d]) * (kept[d] - full[d]);
    }
    return error;
}

/* Output minus full output is (1 - kept share) (mean of the kept - mean of the evicted). */
static void the_identity_holds(void **state)
{
    uint64_t seed = 3;
    (void)state;
    for (int i = 0; i < 200; i++) {
        one_lane x;
        draw(&x, &seed);
        unsigned all = (1U << N) - 1, set = 1 + (unsigned)(number(&seed) * (all - 1));
        for (int r = 0; r < R; r++) {
            double full[D], kept[D], gone[D], g = mean_of(full, &x, r, all);
            double share = mean_of(kept, &x, r, set) / g;
            mean_of(gone, &x, r, all & ~set);
            for (int d = 0; d < D; d++)
                assert_true(fabs(kept[d] - full[d] - (1 - share) * (kept[d] - gone[d])) <
                            1e-12);
        }
    }
}

static unsigned kept_set(const one_lane *x, int budget)
{
    unsigned set = 0;
    for (int s = 0; s < N; s++)
        if (x->score[s] >= (float)(N - budget))
            set |= 1U << s;
    return set;
}

/* Each removal is the one that changes the output least, by recomputing it. */
static void each_removal_is_the_cheapest(void **state)
{
    uint64_t seed = 17;
    (void)state;
    for (int i = 0; i < LANES; i++) {
        one_lane x;
        draw(&x, &seed);
        run(&x, "");
        for (int left = N; left > 1; left--) {
            unsigned before = kept_set(&x, left), after = kept_set(&x, left - 1);
            assert_int_equal(__builtin_popcount(before), left);
            assert_int_equal(__builtin_popcount(after), left - 1);
            double error = error_of(&x, after);
            for (int s = 0; s < N; s++)
                if (before >> s & 1) {
                    double other = error_of(&x, before & ~(1U << s));
                    if (error > other * (1 + 1e-6))
                        fail_msg("lane %d, %d left: %.9g, without slot %d %.9g", i, left, error,
                                 s, other);
                }
        }
    }
}

static double best_error(const one_lane *x, int budget)
{
    double best = INFINITY;
    for (unsigned set = 1; set < 1U << N; set++)
        if (__builtin_popcount(set) == budget)
            best = fmin(best, error_of(x, set));
    return best;
}

/* How often greedy is the best subset: it is not always, and it is near. */
static void greedy_is_near_the_best_subset(void **state)
{
    static const int budget[] = {2, 3, 5, 7, 9};
    uint64_t seed = 29;
    (void)state;
    for (int b = 0; b < CHECK_COUNT(budget); b++) {
        int best = 0;
        double more = 0;
        for (int i = 0; i < LANES; i++) {
            one_lane x;
            draw(&x, &seed);
            run(&x, "");
            double error = error_of(&x, kept_set(&x, budget[b])), least;
            least = best_error(&x, budget[b]);
            assert_true(error >= least * (1 - 1e-9));
            best += error <= least * (1 + 1e-6);
            more += error / least / LANES;
        }
        print_message("%d of %d slots: the best subset in %d of %d lanes, error x %.3f\n",
                      budget[b], N, best, LANES, more);
        assert_true(budget[b] < 9 || best == LANES); /* one removal is tried for all */
        assert_true(best > LANES / 10 && more < 2);
    }
}

/* Slots that go in turns: the first turn is the cheapest ones alone; no slot twice. */
static void batches_are_rankings(void **state)
{
    uint64_t seed = 41;
    (void)state;
    for (int i = 0; i < LANES; i++) {
        one_lane x;
        int seen = 0;
        draw(&x, &seed);
        run(&x, "batch=4");
        for (int s = 0; s < N; s++)
            seen |= 1 << (int)x.score[s];
        assert_int_equal(seen, (1 << N) - 1);
        double dearest = 0, cheapest = INFINITY;
        for (int s = 0; s < N; s++) {
            double error = error_of(&x, ((1U << N) - 1) & ~(1U << s));
            if (x.score[s] < 4)
                dearest = fmax(dearest, error);
            else
                cheapest = fmin(cheapest, error);
        }
        assert_true(dearest <= cheapest * (1 + 1e-5));
    }
}

/* Rows without attention to the prompt, one slot that has all of a row, equal slots: finite,
 * and of equal ones the lower position stays longer. */
static void odd_rows_are_fine(void **state)
{
    one_lane x = {0};
    (void)state;
    for (int s = 0; s < N; s++)
        for (int d = 0; d < D; d++)
            x.value[s * D + d] = 1;
    run(&x, "");
    for (int s = 0; s < N; s++)
        assert_true(x.score[s] == (float)(N - 1 - s));
    for (int r = 0; r < R; r++)
        x.row[r * N + 6] = 1;
    run(&x, "");
    assert_true(x.score[6] == (float)(N - 1));
    for (int s = 0; s < N; s++)
        assert_true(isfinite(x.score[s]));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_identity_holds),
        cmocka_unit_test(each_removal_is_the_cheapest),
        cmocka_unit_test(greedy_is_near_the_best_subset),
        cmocka_unit_test(batches_are_rankings),
        cmocka_unit_test(odd_rows_are_fine),
    };
    work = kvt_arena_new((size_t)1 << 26);
    policy = kvt_policy_find("oracle-output");
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    kvt_arena_free(work);
    return rc;
}
