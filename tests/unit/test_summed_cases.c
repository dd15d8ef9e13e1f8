/* test_summed_cases.c - what went wrong elsewhere, for policies that add up what queries looked
 * at: observed, scissorhands, keyformer, nacl, morphkv, r-kv. C0xx are the project's case
 * numbers, 13.x rows of the policy page's list of reported bugs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../mini.h"
#include "../toy_more.h"

static kvt_arena *memory;

static mini_result run(const char *policy, const char *params, const toy *t, int64_t budget,
                       bool prefill_only)
{
    mini_spec spec = {.trace = t,
                      .policy = kvt_policy_find(policy),
                      .params = params,
                      .budget = budget,
                      .prefill_only = prefill_only,
                      .seed = 3};
    mini_result r;
    kvt_err err;
    assert_non_null(spec.policy);
    if (mini_run(&r, &spec, memory, &err))
        fail_msg("%s:%s: %s", policy, params, err.text);
    if (r.lacks)
        fail_msg("%s: the toy lacks what it needs", policy);
    return r;
}

/* ---- hooks by hand -------------------------------------------------------------------------
 */

enum { SLOT_MAX = 16, WIDTH_MAX = 512, DIM = 4 };

/* A lane of one head at the end of its prompt; rows of logits and attention are given. */
typedef struct hand {
    const kvt_policy *p;
    void *params;
    kvt_geometry geometry;
    kvt_sequence seq;
    kvt_lane lane;
    int64_t pos[SLOT_MAX], state[8 + SLOT_MAX];
    float mark[SLOT_MAX * WIDTH_MAX], row[SLOT_MAX * SLOT_MAX], key[SLOT_MAX * DIM];
    uint64_t rng[KVT_RNG_WORDS];
    float score[SLOT_MAX];
    bool pinned[SLOT_MAX], keep[SLOT_MAX];
} hand;

static hand *hand_of(const char *policy, const char *params, int64_t n, int64_t n_row,
                     float value, int64_t budget)
{
    hand *h = kvt_arena_array(memory, 1, sizeof *h);
    kvt_err err;
    int width = 0;
    size_t size = 0;
    h->p = kvt_policy_find(policy);
    h->params = kvt_arena_get(memory, h->p->params_size + 1);
    kvt_param_defaults(h->p->params, h->params);
    if (kvt_param_parse(h->p->params, h->params, params, &err))
        fail_msg("%s", err.text);
    h->geometry = (kvt_geometry){.n_head = 1, .n_kv_head = 1, .head_dim = DIM};
    h->seq = (kvt_sequence){.n_prompt = n, .n_response = 10, .geometry = &h->geometry};
    if (h->p->size)
        h->p->size(h->params, &h->seq, budget, &width, &size);
    assert_true(width <= WIDTH_MAX && size <= sizeof h->state);
    for (int64_t i = 0; i < n * n_row; i++)
        h->row[i] = value;
    for (int64_t i = 0; i < n; i++)
        h->pos[i] = i, h->key[i * DIM] = 1;
    for (int i = 0; i < KVT_RNG_WORDS; i++)
        h->rng[i] = toy_mix((uint64_t)i);
    h->lane = (kvt_lane){.n_slot = n,
                         .now = n - 1,
                         .budget = budget,
                         .pos = h->pos,
                         .mark = h->mark,
                         .state = h->state,
                         .rng = h->rng,
                         .seq = &h->seq,
                         .scratch = memory};
    h->lane.attn = h->lane.logits = kvt_view_of(h->row, KVT_F32, KVT_SHAPE("HQS", 1, n_row, n));
    h->lane.keys = kvt_view_of(h->key, KVT_F32, KVT_SHAPE("SD", n, DIM));
    return h;
}

static void choose(hand *h)
{
    int64_t n = h->lane.n_slot, open = h->lane.budget;
    memset(h->score, 0, sizeof h->score);
    memset(h->pinned, 0, sizeof h->pinned);
    memset(h->keep, 0, sizeof h->keep);
    h->p->score(h->params, h->score, h->pinned, &h->lane);
    for (int64_t s = 0; s < n; s++)
        open -= h->pinned[s];
    if (h->p->select)
        h->p->select(h->params, (bool *const[]){h->keep}, &h->lane, 1,
                     (const float *const[]){h->score}, (const bool *const[]){h->pinned},
                     &h->lane.budget);
    else
        assert_true(kvt_keep_best(h->keep, h->score, h->pinned, n, open, memory) >= 0);
}

/* ---- cases ---------------------------------------------------------------------------------
 */

/* C001, 13.1: all scores equal, 10 keys, the last 2 protected: they stay and the rest is filled
 * from below, also at B = W + 1 and where a larger number would round to the same. */
static void flat_scores_keep_the_newest(void **state)
{
    (void)state;
    static const struct {
        const char *policy, *params;
    } rows[] = {{"morphkv", "window=2"},
                {"morphkv", "window=2,fuse=max"},
                {"r-kv", "window=2"},
                {"r-kv", "window=2,compat=official"},
                {"scissorhands", "recent=2"},
                {"scissorhands", "compat=cold-compress,sinks=0,recent=2"},
                {"scissorhands", "compat=kvcf,sinks=0,recent=2"},
                {"keyformer", "recent=0.4,noise=false"}};
    static const float values[] = {0.1f, 0, FLT_MAX / 64};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t v = 0; v < sizeof values / sizeof *values; v++)
            for (int64_t B = 3; B <= 5; B += 2) {
                if (B == 3 && strcmp(rows[i].policy, "keyformer") == 0)
                    continue; /* its newest are a share of B */
                hand *h = hand_of(rows[i].policy, rows[i].params, 10, 2, values[v], B);
                h->p->step(h->params, &h->lane);
                choose(h);
                for (int64_t s = 0; s < 10; s++)
                    if (h->keep[s] != (s >= 8 || s < B - 2))
                        fail_msg("%s:%s of %g at %lld: slot %lld", rows[i].policy,
                                 rows[i].params, (double)values[v], (long long)B, (long long)s);
            }
}

/* C005, C006: prompts of 1 to 65 tokens, a window of 64, budgets of 8 and 1000. */
static void window_longer_than_the_prompt(void **state)
{
    (void)state;
    static const char *const policies[] = {"morphkv", "r-kv"};
    static const int64_t lengths[] = {1, 2, 8, 63, 64, 65};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        toy *t = toy_rich(memory, 1, 1, 4, 2, lengths[i], 1, false);
        for (size_t k = 0; k < sizeof policies / sizeof *policies; k++) {
            mini_result all = run(policies[k], "window=64", t, 1000, true);
            mini_result r = run(policies[k], "window=64", t, 8, true);
            assert_int_equal(mini_count(&all, t, 0, 0, 0), t->N);
            if (t->N > 64) {
                assert_true(r.skipped);
                assert_string_equal(r.why,
                                    "a window of 64 needs a budget of 64 or more, got 8");
                continue;
            }
            for (int64_t j = 0; j < t->N; j++)
                assert_int_equal(mini_held(&r, t, 0, 0, 0)[j], j >= t->N - 8);
        }
        toy_close(t);
    }
}

/* C013: prompts shorter than the group of query heads, 8:1 and 7:1. */
static void prompt_shorter_than_the_group(void **state)
{
    (void)state;
    static const struct {
        const char *policy, *params;
    } rows[] = {{"h2o", "compat=keys-values"},
                {"observed", ""},
                {"scissorhands", "recent=1"},
                {"scissorhands", "compat=cold-compress,sinks=0,recent=1"},
                {"keyformer", "recent=0.5"},
                {"keyformer", "recent=0.5,compat=official"},
                {"nacl", ""},
                {"nacl", "compat=official"},
                {"morphkv", "window=1"},
                {"r-kv", "window=1"},
                {"r-kv", "window=1,compat=official"}};
    for (int heads = 7; heads <= 8; heads++)
        for (int64_t n = 1; n <= 3; n++) {
            toy *t = toy_rich(memory, 1, 1, heads, 1, n, 2, false);
            for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                mini_result r = run(rows[i].policy, rows[i].params, t, 2, false);
                if (r.skipped)
                    fail_msg("%s:%s: %s", rows[i].policy, rows[i].params, r.why);
                assert_false(r.infinite);
                assert_int_equal(mini_count(&r, t, 0, 0, 0), n < 2 ? n : 2);
            }
            toy_close(t);
        }
}

/* C009, 13.28, 13.34: 43 steps; newest tokens and sinks stay all the time, whatever they got.
 */
static void newest_and_sinks_stay(void **state)
{
    (void)state;
    static const struct {
        const char *policy, *params;
        int64_t sinks, newest;
    } rows[] = {{"h2o", "compat=keys-values,window=7", 0, 7},
                {"scissorhands", "recent=7,rows=16", 0, 7},
                {"scissorhands", "compat=cold-compress,recent=7,rows=16", 4, 7},
                {"scissorhands", "compat=kvcf,recent=7,rows=16,temperature=0.5", 4, 7},
                {"keyformer", "recent=0.5", 0, 7},
                {"morphkv", "window=7", 0, 7}};
    toy *t = toy_rich(memory, 2, 2, 4, 2, 60, 43, false);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        mini_result r = run(rows[i].policy, rows[i].params, t, 14, false);
        for (int64_t m = 0; m <= t->M; m++)
            for (int64_t j = 0; j < t->N + m; j++)
                if ((j < rows[i].sinks || j >= t->N + m - rows[i].newest) &&
                    !mini_held(&r, t, m, 1, 1)[j])
                    fail_msg("%s:%s: %lld is gone after %lld", rows[i].policy, rows[i].params,
                             (long long)j, (long long)m);
    }
    toy_close(t);
}

/* The half that goes at once: 16 of 16 + 1 leave 9, which grow to 16 again. */
static void scissorhands_breathes(void **state)
{
    (void)state;
    toy *t = toy_rich(memory, 1, 1, 4, 2, 60, 30, false);
    mini_result r = run("scissorhands", "recent=4", t, 16, false);
    int64_t want = 16;
    for (int64_t m = 0; m <= t->M; m++) {
        if (m > 0)
            want = want == 16 ? 16 + 1 - 8 : want + 1;
        assert_int_equal(mini_count(&r, t, m, 0, 1), want);
    }
    toy_close(t);
}

/* ---- draws ---------------------------------------------------------------------------------
 */

/* Three slots with logits 0, 1 and 2 at almost no temperature: what is added is the argmax of
 * the noisy logits, which falls on each as often as their softmax says. */
static void keyformer_noise_is_gumbel(void **state)
{
    (void)state;
    enum { MANY = 20000 };
    hand *h = hand_of("keyformer", "tau_start=0.001", 3, 1, 0, 2);
    double sum = 0, p[3];
    for (int s = 0; s < 3; s++) {
        h->row[s] = (float)s;
        sum += p[s] = exp(s);
    }
    for (int i = 0; i < MANY; i++)
        h->p->step(h->params, &h->lane);
    for (int s = 0; s < 3; s++)
        assert_true(fabs((double)h->mark[s] / MANY - p[s] / sum) < 0.015);
}

/* Of four slots the best is the top; one of the others is drawn with weight exp(score). */
static void nacl_draws_with_the_scores(void **state)
{
    (void)state;
    enum { MANY = 20000 };
    static const float scores[] = {0.5f, 3, 0, 1.5f};
    hand *h = hand_of("nacl", "random=0.5,sinks=0,recent=0", 4, 1, 0, 2);
    double sum = exp(0.5) + 1 + exp(1.5);
    int64_t count[4] = {0};
    memcpy(h->row, scores, sizeof scores);
    h->p->step(h->params, &h->lane);
    for (int i = 0; i < MANY; i++) {
        choose(h);
        for (int s = 0; s < 4; s++)
            count[s] += h->keep[s];
    }
    assert_int_equal(count[1], MANY);
    assert_int_equal(count[0] + count[2] + count[3], MANY);
    for (int s = 0; s < 4; s++)
        if (s != 1)
            assert_true(fabs((double)count[s] / MANY - exp((double)scores[s]) / sum) < 0.015);
}

/* The same for KVCache-Factory's Scissorhands: softmax(score / temperature). */
static void scissorhands_draws_with_the_sums(void **state)
{
    (void)state;
    enum { MANY = 20000 };
    static const float scores[] = {0.5f, 0, 1};
    hand *h =
        hand_of("scissorhands", "compat=kvcf,sinks=0,recent=0,temperature=0.5", 3, 1, 0, 1);
    double sum = exp(1) + 1 + exp(2);
    int64_t count[3] = {0};
    memcpy(h->row, scores, sizeof scores);
    h->p->step(h->params, &h->lane);
    for (int i = 0; i < MANY; i++) {
        choose(h);
        for (int s = 0; s < 3; s++)
            count[s] += h->keep[s];
    }
    for (int s = 0; s < 3; s++)
        assert_true(fabs((double)count[s] / MANY - exp((double)scores[s] / 0.5) / sum) < 0.015);
}

/* ---- r-kv by hand --------------------------------------------------------------------------
 */

/* Keys a, b, a, a, c, w: rows of a spare the last a before the window; nothing repeats b and c,
 * whose rows the default leaves alone and the code's index puts column 0 to 0 in. */
static void r_kv_spares_the_last_copy(void **state)
{
    (void)state;
    static const int axis[] = {0, 1, 0, 0, 2, 3};
    hand *h = hand_of("r-kv", "window=1,pool=1,lambda=0", 6, 1, 0, 4);
    memset(h->key, 0, sizeof h->key);
    for (int s = 0; s < 6; s++)
        h->key[s * DIM + axis[s]] = 2;
    h->p->step(h->params, &h->lane);
    choose(h);
    /* mean cosines: slot 0: rows 2 and 3; slot 2: row 3 only; slot 3: none */
    double e[] = {exp(2.0 / 6), 1, exp(1.0 / 6), 1, 1, 1}, sum = 0;
    for (int s = 0; s < 6; s++)
        sum += e[s];
    for (int s = 0; s < 5; s++)
        assert_true(fabs((double)h->score[s] + e[s] / sum) < 1e-6);
    for (int s = 0; s < 6; s++)
        assert_int_equal(h->keep[s], s == 1 || s == 3 || s == 4 || s == 5);
}

/* A row without a similar key: the code's index stays at column 0, whatever stands there. */
static void r_kv_column_zero(void **state)
{
    (void)state;
    for (int official = 0; official < 2; official++) {
        hand *h = hand_of("r-kv",
                          official ? "compat=official,window=1,pool=1,lambda=0"
                                   : "window=1,pool=1,lambda=0",
                          3, 1, 0, 2);
        memset(h->key, 0, sizeof h->key);
        h->key[0] = 1, h->key[1] = 2; /* cosine 1 / sqrt 5 with the first axis: below 0.5 */
        h->key[DIM] = 1, h->key[2 * DIM + 2] = 1;
        h->p->step(h->params, &h->lane);
        choose(h);
        double c = 1 / sqrt(5) / 3, first = official ? 0 : c;
        double sum = exp(first) + exp(c) + 1;
        assert_true(fabs((double)h->score[0] + exp(first) / sum) < 1e-6);
        assert_true(fabs((double)h->score[1] + exp(c) / sum) < 1e-6);
    }
}

/* ---- what is refused -----------------------------------------------------------------------
 */

static void says_why_it_cannot(void **state)
{
    (void)state;
    static const struct {
        const char *policy, *params;
        int64_t budget;
        const char *why;
    } rows[] = {
        {"keyformer", "", 3, "recent=0.3 of a budget of 3 is no token"},
        {"scissorhands", "", 9,
         "0 first and 10 newest tokens need a budget of 10 or more, got 9"},
        {"scissorhands", "compat=cold-compress", 13,
         "4 first and 10 newest tokens need a budget of 14 or more, got 13"},
        {"scissorhands", "decay=0.5", 20, "decay=0.5 fades sums, which compat=kvcf has"},
        {"nacl", "random=0.9,sinks=0.2", 10,
         "sinks, recent and random are 11 tokens of a budget of 10"},
        /* 13.8: a budget below the window */
        {"morphkv", "", 31, "a window of 32 needs a budget of 32 or more, got 31"},
        {"r-kv", "", 7, "a window of 8 needs a budget of 8 or more, got 7"},
    };
    toy *t = toy_rich(memory, 1, 1, 4, 2, 40, 2, false);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        mini_result r = run(rows[i].policy, rows[i].params, t, rows[i].budget, false);
        assert_true(r.skipped);
        assert_string_equal(r.why, rows[i].why);
        if (strstr(rows[i].params, "decay"))
            continue;
        r = run(rows[i].policy, rows[i].params, t, 42, false); /* all fits */
        assert_false(r.skipped);
        assert_int_equal(mini_count(&r, t, r.n_step - 1, 0, 0), t->N + r.n_step - 1);
    }
    toy_close(t);
}

int main(void)
{
    memory = kvt_arena_new((size_t)2 << 30);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flat_scores_keep_the_newest),
        cmocka_unit_test(window_longer_than_the_prompt),
        cmocka_unit_test(prompt_shorter_than_the_group),
        cmocka_unit_test(newest_and_sinks_stay),
        cmocka_unit_test(scissorhands_breathes),
        cmocka_unit_test(keyformer_noise_is_gumbel),
        cmocka_unit_test(nacl_draws_with_the_scores),
        cmocka_unit_test(scissorhands_draws_with_the_sums),
        cmocka_unit_test(r_kv_spares_the_last_copy),
        cmocka_unit_test(r_kv_column_zero),
        cmocka_unit_test(says_why_it_cannot),
    };
    int failed = cmocka_run_group_tests_name("cases of summed attention", tests, NULL, NULL);
    kvt_arena_free(memory);
    return failed;
}
