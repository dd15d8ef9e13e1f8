/* test_engine_share - what the engine does for an allocator: learn() once a lane whose views
 * are there, its marks in split() and gap(), a table of its own, the mean of its gaps. */
#include "tests/check.h"

#include <math.h>

#include "kvt/arena.h"
#include "kvt/engine.h"
#include "kvt/pieces.h"

enum { L = 3, G = 2, H = 4, N = 20, M = 6, T = N + M, D = 4, WIDTH = 2, FIRST = 8 };

/* ---- an allocator that tells what it was shown ---------------------------------------------
 */

static struct seen {
    int learned[L][G], split, gaps;
    int64_t n_slot; /* of the lanes that were learned */
    bool table, no_score;
} seen;

/* Marks: the position of each slot and its score; keys must be there. */
static void learn(const void *params, float *mark, const kvt_lane *lane, const float *score,
                  const bool *pinned)
{
    (void)params, (void)pinned;
    seen.learned[lane->layer][lane->group]++;
    seen.n_slot = lane->n_slot;
    seen.no_score |= !score;
    assert_non_null(lane->keys.data);
    assert_int_equal(lane->keys.dim[0], lane->n_slot);
    for (int64_t s = 0; s < lane->n_slot; s++) {
        assert_true(mark[s * WIDTH] == 0 && mark[s * WIDTH + 1] == 0);
        mark[s * WIDTH] = (float)lane->pos[s];
        mark[s * WIDTH + 1] = score ? score[s] : -1;
    }
}

/* One more for the lanes of kv head 0, one less for the others. */
static void split(const void *params, int64_t *budget, const kvt_lane *lane, int n_lane,
                  const float *const *score, const int64_t *n_pinned, int64_t total)
{
    (void)params, (void)n_pinned;
    seen.split++;
    seen.table |= lane->share_weights != NULL;
    for (int i = 0; i < n_lane; i++) {
        seen.no_score |= !score[i];
        for (int64_t s = 0; s < lane[i].n_slot; s++) {
            assert_true(lane[i].share_mark[s * WIDTH] == (float)lane[i].pos[s]);
            if (score[i])
                assert_true(lane[i].share_mark[s * WIDTH + 1] == score[i][s]);
        }
        budget[i] = total / n_lane + (lane[i].group == 0 ? 1 : -1);
    }
}

/* 0.25 times the layer of the group's first lane; of layer 2 it knows nothing. */
static double gap(const void *params, const int64_t *budget, const kvt_lane *lane, int n_lane,
                  const float *const *score, const int64_t *n_pinned, int64_t total)
{
    (void)params, (void)score, (void)n_pinned, (void)total;
    seen.gaps++;
    assert_true(n_lane == 1 || budget[0] > budget[1]);
    assert_true(lane[0].share_mark[WIDTH] == (float)lane[0].pos[1]);
    return lane[0].layer == 2 ? NAN : 0.25 * lane[0].layer;
}

static kvt_share telling(kvt_scope scope)
{
    return (kvt_share){.abi = KVT_POLICY_ABI,
                       .name = "telling",
                       .scope = scope,
                       .needs = KVT_NEED_KEYS,
                       .mark_width = WIDTH,
                       .split = split,
                       .learn = learn,
                       .gap = gap};
}

/* ---- a run ---------------------------------------------------------------------------------
 */

static float keys[G][T][D], rows[H][FIRST][T];
static const kvt_geometry geometry = {.n_layer = L, .n_head = H, .n_kv_head = G, .head_dim = D};
static const int32_t layer_id[L] = {0, 1, 2};

static int fill_arrays(void **state)
{
    (void)state;
    for (int64_t i = 0; i < G * T * D; i++)
        (&keys[0][0][0])[i] = (float)(i * 7919 % 101) / 50 - 1;
    for (int64_t i = 0; i < H * FIRST * T; i++)
        (&rows[0][0][0])[i] = (float)(1 + i * 104729 % 997) / 20000;
    return 0;
}

static kvt_feed feed_of(int64_t n_seen, int64_t n_query)
{
    kvt_feed f = {.rows = kvt_view_of(rows, KVT_F32, KVT_SHAPE("HQT", H, FIRST, T)),
                  .keys = kvt_view_of(keys, KVT_F32, KVT_SHAPE("GTD", G, T, D))};
    f.rows.dim[1] = n_query, f.rows.dim[2] = n_seen;
    f.keys.dim[1] = n_seen;
    return f;
}

/* Policy text, allocator's scope, budget, whether it decodes. What it kept is in `e`. */
static kvt_engine *run(kvt_use **u, const char *text, const kvt_share *share, int64_t budget,
                       bool decode)
{
    kvt_err err;
    CHECK_OK(kvt_use_parse(u, NULL, text, &err), &err);
    (*u)->share = share;
    (*u)->traits.scope = (kvt_scope)kvt_max((*u)->traits.scope, share->scope);
    (*u)->traits.needs |= share->needs;
    kvt_sequence seq = {.n_prompt = N,
                        .n_response = M,
                        .n_layer = L,
                        .layer_id = layer_id,
                        .geometry = &geometry};
    kvt_engine_spec spec = {
        .use = *u, .seq = &seq, .budget = &budget, .n_budget = 1, .decode = decode, .every = 1};
    kvt_engine *e;
    memset(&seen, 0, sizeof seen);
    CHECK_OK(kvt_engine_new(&e, &spec, &err), &err);
    for (int l = 0; l < L; l++) {
        kvt_feed f = feed_of(N, FIRST);
        CHECK_OK(kvt_engine_prompt(e, l, &f, &err), &err);
        if (share->scope == KVT_BY_MODEL && !decode)
            kvt_engine_forget(e, l);
    }
    CHECK_OK(kvt_engine_decide(e, -1, &err), &err);
    for (int64_t m = 0; decode && m < M; m++) {
        for (int l = 0; l < L; l++) {
            kvt_feed f = feed_of(N + m + 1, 1);
            CHECK_OK(kvt_engine_token(e, l, &f, &err), &err);
        }
        CHECK_OK(kvt_engine_decide(e, -1, &err), &err);
    }
    return e;
}

static void expect_learned(int times)
{
    for (int l = 0; l < L; l++)
        for (int g = 0; g < G; g++)
            assert_int_equal(seen.learned[l][g], times);
}

static void expect_held(const kvt_engine *e, int64_t budget)
{
    bool failed;
    for (int l = 0; l < L; l++) {
        const char *why = kvt_engine_refused(e, 0, l, &failed);
        if (why)
            fail_msg("%s", why);
        for (int g = 0; g < G; g++) {
            const int64_t *pos;
            int64_t n;
            kvt_engine_held(e, 0, l, g, &pos, &n);
            assert_int_equal(n, budget + (g == 0 ? 1 : -1));
        }
    }
}

/* ---- tests ---------------------------------------------------------------------------------
 */

/* Ranked once; at each budget; a lane scored when its layer comes; while decoding. */
static const struct kind {
    const char *policy;
    kvt_scope scope;
    bool decode;
} kinds[] = {
    {"snapkv:window=4", KVT_BY_LAYER, false},
    {"snapkv:window=4", KVT_BY_MODEL, false},
    {"h2o", KVT_BY_LAYER, false},
    {"h2o", KVT_BY_LAYER, true},
    {"h2o", KVT_BY_MODEL, true},
};

static void it_learns_of_each_lane_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        kvt_share share = telling(kinds[i].scope);
        kvt_use *u;
        kvt_engine *e = run(&u, kinds[i].policy, &share, 10, kinds[i].decode);
        expect_learned(1);
        assert_int_equal(seen.n_slot, N);
        assert_int_equal(seen.split, kinds[i].scope == KVT_BY_MODEL ? 1 : L);
        assert_int_equal(seen.gaps, seen.split);
        assert_false(seen.no_score);
        expect_held(e, 10);
        /* groups by layer: 0, 0.25, not known; the model is one group, whose first layer is 0
         */
        CHECK_NEAR(kvt_engine_gap(e, 0), kinds[i].scope == KVT_BY_MODEL ? 0 : 0.125, 1e-15);
        kvt_engine_free(e);
        kvt_use_free(u);
    }
}

/* A prompt that fits: the lanes are shared out when they first grow too long. */
static void a_lane_that_grows_is_learned_then(void **state)
{
    (void)state;
    kvt_share share = telling(KVT_BY_LAYER);
    kvt_use *u;
    kvt_engine *e = run(&u, "h2o", &share, N + 2, true);
    expect_learned(1);
    assert_int_equal(seen.n_slot, N + 3);
    expect_held(e, N + 2);
    kvt_engine_free(e);
    kvt_use_free(u);
}

static void nothing_is_known_of_what_fits(void **state)
{
    (void)state;
    kvt_share share = telling(KVT_BY_LAYER);
    kvt_use *u;
    kvt_engine *e = run(&u, "snapkv:window=4", &share, N, false);
    assert_int_equal(seen.split, 0);
    assert_true(isnan(kvt_engine_gap(e, 0)) != 0);
    kvt_engine_free(e);
    kvt_use_free(u);
}

static const struct text {
    const char *in, *want;
    kvt_code code;
} texts[] = {
    {"streaming/ada", "", KVT_OK},
    {"full/ada", "allocator ada compares scores, and the policy has none", KVT_USAGE},
    {"snapkv/table:table=x.h5", "table=x.h5", KVT_OK},
    {"snapkv/ada:table=x.h5", "no parameter 'table'", KVT_USAGE},
    {"snapkv/oracle-budget", "snapkv/oracle-budget", KVT_OK},
};

static void texts_are_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        kvt_use *u;
        kvt_err err;
        kvt_code code = kvt_use_parse(&u, NULL, texts[i].in, &err);
        const char *got = code ? err.text : u->text;
        if (code != texts[i].code || !strstr(got, texts[i].want))
            fail_msg("'%s': expected %s with '%s', got %s: '%s'", texts[i].in,
                     kvt_code_name(texts[i].code), texts[i].want, kvt_code_name(code), got);
        if (!code) {
            bool oracle = u->share->needs & KVT_NEED_FUTURE;
            assert_true((u->traits.needs & u->share->needs) == u->share->needs);
            assert_true(u->traits.control == oracle); /* it knows the response */
            kvt_use_free(u);
        }
    }
}

/* A missing table is said when the engine is made. */
static void a_table_must_be_there(void **state)
{
    (void)state;
    kvt_use *u;
    kvt_engine *e;
    kvt_err err;
    int64_t budget = 8;
    CHECK_OK(kvt_use_parse(&u, NULL, "snapkv/table", &err), &err);
    kvt_sequence seq = {
        .n_prompt = N, .n_layer = L, .layer_id = layer_id, .geometry = &geometry};
    kvt_engine_spec spec = {
        .use = u, .seq = &seq, .budget = &budget, .n_budget = 1, .every = 1};
    assert_int_equal(kvt_engine_new(&e, &spec, &err), KVT_USAGE);
    assert_non_null(strstr(err.text, "allocator table needs table=FILE"));
    kvt_use_free(u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(it_learns_of_each_lane_once),
                                       cmocka_unit_test(a_lane_that_grows_is_learned_then),
                                       cmocka_unit_test(nothing_is_known_of_what_fits),
                                       cmocka_unit_test(texts_are_read),
                                       cmocka_unit_test(a_table_must_be_there)};
    return cmocka_run_group_tests_name("engine_share", tests, fill_arrays, NULL);
}
