/* test_policies_decided.c - policies that read a model's own decisions, through the engine:
 * DMS's bits, what age flips and what it does not, gates. */
#include "scored_run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- DMS -----------------------------------------------------------------------------------
 */

static void set_bits(lanes *l, float logit)
{
    for (int g = 0; g < G; g++)
        for (int64_t t = 0; t < T; t++)
            l->decision[g][t] = logit;
}

static void bits_of_dms(void **state)
{
    (void)state;
    lanes *l = make_lanes(10);
    static run r;
    for (int bit = 0; bit < 3; bit++) { /* a logit of 0 marks nothing */
        set_bits(l, (float)(bit - 1));
        l->shift = bit % 2;
        r = (run){.policy = "dms:from=decisions,window=6", .n_prompt = N, .budget = T};
        run_on(&r, l);
        for (int64_t at = 0; at <= T - N; at++)
            for (int g = 0; g < G; g++)
                assert_int_equal(run_count(&r, at, g), bit == 2 ? 6 : N + at);
    }
}

/* A token goes when its logit is above minus the threshold: one that equals it stays, at 0 and
 * everywhere else. */
static void bit_at_the_threshold_is_kept(void **state)
{
    (void)state;
    static const float logits[] = {-0.75F, 0, 2};
    lanes *l = make_lanes(12);
    static run r;
    for (int i = 0; i < 3; i++) {
        set_bits(l, logits[i]);
        for (int above = 0; above < 2; above++) {
            float threshold = above ? nextafterf(-logits[i], INFINITY) : -logits[i];
            r = (run){.policy = "dms:from=decisions,window=6", .n_prompt = N, .budget = T};
            r.threshold = (double)threshold;
            run_on(&r, l);
            for (int g = 0; g < G; g++)
                assert_int_equal(run_count(&r, T - N, g), above ? 6 : T);
        }
    }
}

/* The bit that comes with t + 1 decides about t, and about nothing else. */
static void bit_belongs_to_the_token_before(void **state)
{
    (void)state;
    enum { W = 6 };
    static run with, without;
    for (int64_t t = 0; t + 1 < T; t += 7) {
        lanes *l = make_lanes(11);
        l->shift = 1;
        without = (run){.policy = "dms:from=decisions,window=6", .n_prompt = N, .budget = T};
        run_on(&without, l);
        l->decision[1][t + 1] = -l->decision[1][t + 1];
        with = (run){.policy = without.policy, .n_prompt = N, .budget = T};
        run_on(&with, l);
        for (int64_t at = 0; at <= T - N; at++)
            for (int g = 0; g < G; g++)
                for (int64_t j = 0; j < T; j++) {
                    int64_t q = N - 1 + at;
                    bool changes = g == 1 && j == t && q >= t + W;
                    if ((with.held[at][g][j] != without.held[at][g][j]) != changes)
                        fail_msg("bit of token %d: lane %d, query %d, token %d", (int)t + 1, g,
                                 (int)q, (int)j);
                    if (j <= q && q < j + W)
                        assert_true(with.held[at][g][j]);
                }
    }
}

/* ---- order and age -------------------------------------------------------------------------
 */

/* Which of tokens 0 and 5 a budget of one beside the newest keeps, at the end of n tokens. */
static int64_t winner(const char *policy, const lanes *l, int64_t n, int64_t budget)
{
    static run r;
    r = (run){.policy = policy, .n_prompt = n, .budget = budget};
    run_on(&r, l);
    assert_string_equal(r.why, "");
    assert_int_equal(r.held[0][0][0] + r.held[0][0][5], 1);
    return r.held[0][0][0] ? 0 : 5;
}

static void age_flips_trim_and_not_kvpop(void **state)
{
    (void)state;
    lanes *l = make_lanes(12);
    set_bits(l, -30);
    l->decision[0][0] = l->decision[1][0] = 2.25f; /* log beta -0.1 */
    l->decision[0][5] = l->decision[1][5] = 1.05f; /* log beta -0.3 */
    assert_int_equal(winner("trim-kv", l, 7, 1), 5);
    assert_int_equal(winner("trim-kv", l, 16, 1), 0);
    for (int g = 0; g < G; g++)
        l->gamma[g] = 0.7f; /* older tokens lose, all alike */
    const char *pop = "kvpop:from=decisions,sinks=0,window=1";
    int64_t first = winner(pop, l, 8, 2);
    for (int64_t n = 8; n <= N; n++)
        assert_int_equal(winner(pop, l, n, 2), first);
    assert_int_equal(first, 5); /* 1.05 - 5 log 0.7 > 2.25 */
    for (int g = 0; g < G; g++)
        l->gamma[g] = 0.999f;
    assert_int_equal(winner(pop, l, 8, 2), 0);
}

/* ---- admission -----------------------------------------------------------------------------
 */

static void gate_admits_above_its_threshold(void **state)
{
    (void)state;
    enum { W = 4 };
    const lanes *l = make_lanes(13);
    static run r;
    r = (run){.policy = "wg-kv:window=4,threshold=0.1", .n_prompt = N, .budget = 1};
    r.threshold = 0.1;
    run_on(&r, l);
    for (int64_t at = 0; at <= T - N; at++)
        for (int g = 0; g < G; g++)
            for (int64_t j = 0; j < N + at; j++) {
                bool admitted = 1 / (1 + exp(-(double)l->decision[g][j])) > 0.1;
                assert_int_equal(r.held[at][g][j], admitted || N - 1 + at - j < W);
            }
}

/* Lanes of all layers compete once their layers are gone: scores are learned with the prompt.
 */
static void gate_of_all_lanes_needs_no_feed(void **state)
{
    (void)state;
    const lanes *l = make_lanes(15);
    kvt_scorer *s = make_gate();
    static run with, without;
    with = (run){.policy = "fast-kvzip", .weights = s, .n_prompt = N, .budget = 9};
    without = with;
    without.forgets = true;
    run_on(&with, l);
    run_on(&without, l);
    assert_string_equal(without.why, "");
    assert_memory_equal(with.held, without.held, sizeof with.held);
    assert_int_equal(run_count(&with, 0, 0) + run_count(&with, 0, 1), 2 * 9);
    assert_true(with.ranked && with.score[0][5] > 0 && with.score[0][5] < 1);
    kvt_scorer_close(s);
}

/* An engine that evicts cannot run a policy that joins. */
static void joining_is_refused(void **state)
{
    (void)state;
    kvt_err err;
    kvt_use *use;
    kvt_engine *e;
    const lanes *l = make_lanes(14);
    int64_t budget = 8;
    kvt_sequence seq = {.n_prompt = N, .geometry = &l->geometry, .n_layer = 1};
    assert_int_equal(kvt_use_parse(&use, NULL, "dmc", &err), KVT_OK);
    kvt_engine_spec spec = {
        .use = use, .seq = &seq, .budget = &budget, .n_budget = 1, .every = 1};
    assert_int_equal(kvt_engine_new(&e, &spec, &err), KVT_USAGE);
    assert_null(e);
    kvt_use_free(use);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_of_dms),
        cmocka_unit_test(bit_at_the_threshold_is_kept),
        cmocka_unit_test(bit_belongs_to_the_token_before),
        cmocka_unit_test(age_flips_trim_and_not_kvpop),
        cmocka_unit_test(gate_admits_above_its_threshold),
        cmocka_unit_test(gate_of_all_lanes_needs_no_feed),
        cmocka_unit_test(joining_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
