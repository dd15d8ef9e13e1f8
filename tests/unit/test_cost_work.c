/* test_cost_work - the descriptors of policies, beside the policy table of the cost model (its
 * 7.4 and 9b, written from there by hand), and the published sizes of LookaheadKV. */
#include "tests/check.h"

#include <math.h>
#include <stdio.h>

#include "kvt/cost.h"

/* ---- geometries (section 5 of the cost model) ----------------------------------------------
 */

static kvt_cost_geometry geometry(int64_t L, int64_t E, int64_t H, int64_t G, int64_t D,
                                  int64_t I)
{
    return (kvt_cost_geometry){.g = {.n_layer = L,
                                     .n_hidden = E,
                                     .n_head = H,
                                     .n_kv_head = G,
                                     .head_dim = D,
                                     .n_ff = I}};
}

static kvt_cost_geometry llama_8b(void)
{
    return geometry(32, 4096, 32, 8, 128, 14336);
}

static kvt_cost_work describe(const char *text, const kvt_cost_geometry *g, int64_t n,
                              int64_t budget, kvt_act act)
{
    kvt_use *use;
    kvt_err err;
    kvt_cost_work w;
    CHECK_OK(kvt_use_parse(&use, NULL, text, &err), &err);
    kvt_cost_work_of(&w, use, g, n, budget, act);
    kvt_use_free(use);
    return w;
}

/* ---- the policy table ----------------------------------------------------------------------
 */

enum { N = 32768, B = 4096 };
enum { NEVER = KVT_WHEN_NEVER, LAYER = KVT_WHEN_IN_LAYER, AFTER = KVT_WHEN_AFTER_PREFILL };

/* What the columns of a row say. `state`: 0 where the table says none; D = 128. */
static const struct expected {
    const char *name;
    int when; /* kvt_when */
    kvt_score_kind score;
    int64_t rows, extra, draft_tokens, every; /* every 0: it does nothing while decoding */
    int64_t decode_rows, page;
    kvt_draft_kind draft;
    int k_passes;
    double state_slot, state_lane, moves;
    bool selects, query_heads, ragged, in_place, joins, keeps_all, values, whole, bound;
} expected[] = {
    {"full", NEVER, KVT_SCORE_NONE, .k_passes = 1},
    /* "in layer; ring", score none, copy only, overwritten in place */
    {"streaming", LAYER, KVT_SCORE_NONE, .every = 1, .in_place = true, .k_passes = 1},
    {"window", LAYER, KVT_SCORE_NONE, .every = 1, .in_place = true, .k_passes = 1},
    /* Column sum of full attention, then every step; accumulate 8 c G L, state 4 c G L bytes;
     * H N^2 is materialised as published. */
    {"h2o", LAYER, KVT_SCORE_COLUMNS, .rows = N, .every = 1, .decode_rows = 1, .k_passes = 1,
     .state_slot = 4, .moves = 8, .selects = true, .in_place = true, .whole = true},
    /* Last row only, one set for all heads of a layer, no state. */
    {"tova", LAYER, KVT_SCORE_ROWS, .rows = 1, .every = 1, .decode_rows = 1, .k_passes = 1,
     .selects = true, .in_place = true, .whole = true},
    {"snapkv", LAYER, KVT_SCORE_ROWS, .rows = 32, .k_passes = 1, .selects = true},
    {"pyramidkv:compat=paper,window=32", LAYER, KVT_SCORE_ROWS, .rows = 32, .k_passes = 1,
     .selects = true},
    /* Ragged, offsets 4 G L. */
    {"adakv", LAYER, KVT_SCORE_ROWS, .rows = 32, .k_passes = 1, .state_lane = 4,
     .selects = true, .ragged = true},
    {"snapkv/ada", LAYER, KVT_SCORE_ROWS, .rows = 32, .k_passes = 1, .state_lane = 4,
     .selects = true, .ragged = true},
    {"snapkv/global", AFTER, KVT_SCORE_ROWS, .rows = 32, .k_passes = 1, .state_lane = 4,
     .selects = true, .ragged = true},
    {"snapkv/pyramid", LAYER, KVT_SCORE_ROWS, .rows = 32, .k_passes = 1, .selects = true},
    /* m = 8 draft rows (and a window of 8), by query head; two passes over the keys. */
    {"laq", AFTER, KVT_SCORE_ROWS, .rows = 8, .draft_tokens = 8, .draft = KVT_DRAFT_SELF,
     .k_passes = 2, .selects = true, .query_heads = true},
    {"laq-plus", AFTER, KVT_SCORE_ROWS, .rows = 16, .draft_tokens = 8, .draft = KVT_DRAFT_SELF,
     .k_passes = 2, .selects = true, .query_heads = true},
    /* In layer of the target pass; m draft rows and 33 of the prompt (policies-learned 3.1). */
    {"speckv", LAYER, KVT_SCORE_ROWS, .rows = 65, .extra = 32, .draft_tokens = 32,
     .draft = KVT_DRAFT_MODEL, .k_passes = 1, .selects = true},
    {"speckv:tokens=8", LAYER, KVT_SCORE_ROWS, .rows = 41, .extra = 8, .draft_tokens = 8,
     .draft = KVT_DRAFT_MODEL, .k_passes = 1, .selects = true},
    {"lookaheadkv", LAYER, KVT_SCORE_ROWS, .rows = 32, .extra = 32, .k_passes = 1,
     .selects = true},
    {"judgeq", LAYER, KVT_SCORE_ROWS, .rows = 32, .extra = 32, .k_passes = 1, .selects = true},
    /* Every step; a spare neuron, free; ragged, paged 256; table of pages, a bit of each token
     * that waits (window 256), positions; the table is read at each step. */
    {"dms", LAYER, KVT_SCORE_NONE, .every = 1, .page = 256, .k_passes = 1,
     .state_slot = 4 + 4.0 / 256, .state_lane = 256 / 8, .moves = 4.0 / 256, .ragged = true,
     .in_place = true},
    /* Spare neurons, the last slot merged, 4 G L of running weights; pages of 256 (6.1). */
    {"dmc", LAYER, KVT_SCORE_NONE, .every = 1, .page = 256, .k_passes = 1,
     .state_slot = 4.0 / 256, .state_lane = 4, .moves = 4.0 / 256, .ragged = true,
     .joins = true},
    /* Fixed B, dense; 4 k priorities, 4 B positions, d_k' (d_v + 1) 4 with d_k' = D, d_v = D/2;
     * nothing of that is moved but what a selection reads. */
    {"kvpop", LAYER, KVT_SCORE_NETWORK, .every = 1, .k_passes = 1, .state_slot = 8,
     .state_lane = 128 * (64 + 1) * 4, .selects = true, .in_place = true, .values = true},
    {"quest", NEVER, KVT_SCORE_KEYS, .every = 1, .decode_rows = 1, .k_passes = 1,
     .state_slot = 32, .moves = 32, .selects = true, .query_heads = true, .keeps_all = true},
    {"think", LAYER, KVT_SCORE_KEYS, .k_passes = 1, .selects = true, .query_heads = true},
    {"kvzip", AFTER, KVT_SCORE_REPEAT, .k_passes = 1, .selects = true},
    {"keydiff", LAYER, KVT_SCORE_KEYS, .k_passes = 1, .selects = true},
    {"expected-attention", LAYER, KVT_SCORE_MOMENTS, .k_passes = 1, .selects = true,
     .values = true},
    {"oracle", LAYER, KVT_SCORE_NONE, .k_passes = 1, .selects = true, .bound = true},
    {"oracle:scope=model", AFTER, KVT_SCORE_NONE, .k_passes = 1, .state_lane = 4,
     .selects = true, .ragged = true, .bound = true},
    /* Every 128 steps, window 8; each key with each other one: for each of the decisions the
     * budget and 128 more, a quarter of a row of the four heads of a lane. */
    {"r-kv", LAYER, KVT_SCORE_COLUMNS, .rows = 8, .every = 128,
     .decode_rows = 8 + (B + 128) / 4, .k_passes = 1, .state_lane = 4 * 8 * 128 * 2,
     .selects = true},
    {"random", LAYER, KVT_SCORE_NONE, .k_passes = 1, .selects = true},
    /* Sums start at zero behind the prompt; noise makes the softmax its own. */
    {"keyformer", LAYER, KVT_SCORE_ROWS, .every = 1, .decode_rows = 1, .k_passes = 1,
     .state_slot = 4, .moves = 8, .selects = true, .in_place = true, .whole = true},
    /* The last prompt row, or the first of the response. */
    {"simlayerkv:compat=official", AFTER, KVT_SCORE_ROWS, .rows = 1, .k_passes = 1,
     .selects = true},
    /* Bounded decode variants: again every k steps, by the window's rows. */
    {"snapkv:every=64", LAYER, KVT_SCORE_ROWS, .rows = 32, .every = 64, .decode_rows = 32,
     .k_passes = 1, .selects = true},
    /* A second stage on top of the base's rows: lengths of W_O v. */
    {"criticalkv", LAYER, KVT_SCORE_ROWS, .rows = 32, .k_passes = 1, .selects = true,
     .values = true},
    {"criticalkv:base=laq", AFTER, KVT_SCORE_ROWS, .rows = 8, .draft_tokens = 8,
     .draft = KVT_DRAFT_SELF, .k_passes = 2, .selects = true, .query_heads = true,
     .values = true},
};

#define SAME(field, want)                                                             \
    do {                                                                              \
        if ((double)(w.field) != (double)(want))                                      \
            fail_msg("%s: %s is %g, expected %g", e->name, #field, (double)(w.field), \
                     (double)(want));                                                 \
    } while (0)

static void is_described(void **state)
{
    const struct expected *e = *state;
    kvt_cost_geometry g = llama_8b();
    kvt_cost_work w = describe(e->name, &g, N, B, KVT_ACT_OWN);
    SAME(when, e->when);
    SAME(score, e->score);
    SAME(rows, e->rows);
    SAME(extra_tokens, e->extra);
    SAME(draft_tokens, e->draft_tokens);
    SAME(draft, e->draft);
    SAME(first_stage, e->draft == KVT_DRAFT_SELF);
    SAME(k_passes, e->k_passes);
    SAME(in_decode, e->every > 0);
    if (e->every > 0)
        SAME(every, e->every);
    SAME(decode_rows, e->decode_rows);
    SAME(page_tokens, e->page);
    SAME(state_slot, e->state_slot);
    SAME(state_lane, e->state_lane);
    SAME(decode_state_moves, e->moves);
    SAME(selects, e->selects);
    SAME(by_query_head, e->query_heads);
    SAME(ragged, e->ragged);
    SAME(in_place, e->in_place);
    SAME(joins, e->joins);
    SAME(keeps_all, e->keeps_all);
    SAME(reads_values, e->values);
    SAME(whole_rows, e->whole);
    SAME(is_bound, e->bound);
}

/* ---- sizes ---------------------------------------------------------------------------------
 */

/* Table 1 of LookaheadKV, in millions (arXiv:2603.10899); test G10: half a per cent. */
static void lookahead_has_its_published_size(void **state)
{
    static const struct {
        const char *name;
        int64_t L, E, H, G, D, I;
        double millions;
    } models[] = {
        {"llama-3.2-1b", 16, 2048, 32, 8, 64, 8192, 5.4},
        {"llama-3.2-3b", 28, 3072, 24, 8, 128, 8192, 11.9},
        {"llama-3.1-8b", 32, 4096, 32, 8, 128, 14336, 20.6},
        {"qwen3-1.7b", 28, 2048, 16, 8, 128, 6144, 8.5},
        {"qwen3-4b", 36, 2560, 32, 8, 128, 9728, 16.2},
        {"qwen3-8b", 36, 4096, 32, 8, 128, 12288, 21.5},
    };
    (void)state;
    for (int i = 0; i < CHECK_COUNT(models); i++) {
        kvt_cost_geometry g = geometry(models[i].L, models[i].E, models[i].H, models[i].G,
                                       models[i].D, models[i].I);
        kvt_cost_work w = describe("lookaheadkv", &g, N, B, KVT_ACT_OWN);
        double got = (w.lora_params + w.embed_params) / 1e6;
        if (!(fabs(got / models[i].millions - 1) <= 0.005))
            fail_msg("%s: %g million weights, published are %g", models[i].name, got,
                     models[i].millions);
    }
    /* Llama-3.1-8B in full (policies-learned 1.1). */
    kvt_cost_geometry g = llama_8b();
    kvt_cost_work w = describe("lookaheadkv", &g, N, B, KVT_ACT_OWN);
    assert_true(w.lora_params == 31 * 655360.0 + 106496 && w.embed_params == 131072);
    w = describe("judgeq", &g, N, B, KVT_ACT_OWN);
    assert_true(w.lora_params == 0 && w.embed_params == 131072);
}

/* Widths that papers fix, by hand for E = 4096, H = 32, G = 8, D = 128, a lane of eight. */
static void scorers_have_their_published_sizes(void **state)
{
    static const struct {
        const char *name;
        double params;
    } rows[] = {
        {"kvzap", 4096 + 1},                              /* linear map of h */
        {"fast-kvzip", 16 * 4096 * 5 + 16 * 4 + 256 + 4}, /* W_q W_k; b; 16 keys of 16; b_u */
        {"locret", 6 * 128 * 1024 + 1025 + 1024 / 8.0},   /* H D + 2 G D -> 1024 -> G */
        {"foresightkv", 16 * (256 + 8 * 4) + 2 * 16 + 1},
        {"kvp-supervised", 256 * 257 + 2 * 256 + 1},
        {"wg-kv", 256 * 512 + 2 * 512 + 1},  /* 2 D -> 4 D -> 1 */
        {"trim-kv", 513 + 512 * 4097 / 8.0}, /* h -> 512 -> G */
        {"kvpop",
         3 * 64 * 257 + 2 * 257 + 64 + 64 + 1}, /* three maps to D/2, gates, read-out */
        {"dms", 0},
        {"dmc", 0},
        {"quest", 0},
    };
    (void)state;
    kvt_cost_geometry g = llama_8b();
    for (int i = 0; i < CHECK_COUNT(rows); i++) {
        kvt_cost_work w = describe(rows[i].name, &g, N, B, KVT_ACT_OWN);
        if (w.network_params != rows[i].params || w.network_flops != 2 * rows[i].params)
            fail_msg("%s: %.17g weights and %.17g FLOP, expected %.17g", rows[i].name,
                     w.network_params, w.network_flops, rows[i].params);
    }
    /* W_O v of four query heads for its length: the model's own matrix, D x E each. */
    kvt_cost_work w = describe("criticalkv", &g, N, B, KVT_ACT_OWN);
    assert_true(w.network_params == 0 && w.network_flops == 2.0 * 4 * 128 * 4096);
}

/* ---- decode --------------------------------------------------------------------------------
 */

/* --act prefill stops what has done its work on the prompt, as replay does. */
static void act_decides_as_in_replay(void **state)
{
    (void)state;
    kvt_cost_geometry g = llama_8b();
    kvt_cost_work h2o = describe("h2o", &g, N, B, KVT_ACT_PREFILL);
    assert_true(!h2o.in_decode && !h2o.in_place && h2o.decode_rows == 0);
    assert_true(h2o.state_slot == 0 && h2o.decode_state_moves == 0);
    assert_int_equal(h2o.when, KVT_WHEN_IN_LAYER);
    kvt_cost_work only = describe("h2o-mask", &g, N, B, KVT_ACT_PREFILL);
    assert_true(only.in_decode); /* it has nothing to do on the prompt */
    kvt_cost_work again = describe("snapkv:every=16", &g, N, B, KVT_ACT_PREFILL);
    assert_true(!again.in_decode);
}

/* A row that comes is seen once, whatever the window; without a window all of them count. */
static void rows_between_decisions_count(void **state)
{
    (void)state;
    kvt_cost_geometry g = llama_8b();
    assert_int_equal(describe("h2o:every=16", &g, N, B, KVT_ACT_OWN).decode_rows, 16);
    assert_int_equal(describe("tova:every=16", &g, N, B, KVT_ACT_OWN).decode_rows, 1);
    /* What decides anew sees its whole window again, however often. */
    assert_int_equal(describe("snapkv:every=16", &g, N, B, KVT_ACT_OWN).decode_rows, 32);
    assert_int_equal(describe("scissorhands", &g, N, B, KVT_ACT_OWN).decode_rows, 1);
    kvt_cost_work f = describe("foresightkv", &g, N, B, KVT_ACT_OWN);
    assert_true(f.every == 256 && f.decode_rows == 256 && f.decode_reads_keys &&
                f.decode_reads_values && !f.in_place);
    /* Thirty-two rows of logits of four heads are read, one is written. */
    kvt_cost_work m = describe("morphkv", &g, N, B, KVT_ACT_OWN);
    assert_true(m.state_slot == 4 * 32 * 4 && m.decode_state_moves == 4 * 33 * 4);
}

static void keys_are_read_again_where_scores_change(void **state)
{
    static const struct {
        const char *name;
        bool keys, values;
    } rows[] = {
        {"r-kv", true, false},
        {"triattention", true, false},
        {"keydiff:every=8", true, false},
        {"lagkv:every=8", true, true},
        {"h2o", false, false},
        {"kvpop", false, false}, /* scored once, when it comes */
        {"kvpop-mlp", false, false},
        {"dms", false, false},
        {"quest", false, false}, /* bounds of pages are its state */
        {"snapkv:every=8", false, false},
    };
    (void)state;
    kvt_cost_geometry g = llama_8b();
    for (int i = 0; i < CHECK_COUNT(rows); i++) {
        kvt_cost_work w = describe(rows[i].name, &g, N, B, KVT_ACT_OWN);
        if (w.decode_reads_keys != rows[i].keys || w.decode_reads_values != rows[i].values)
            fail_msg("%s reads keys %d, values %d in decode", rows[i].name, w.decode_reads_keys,
                     w.decode_reads_values);
    }
}

/* Of the whole model, and yet no layer waits; or its lanes are of one length. */
static void tables_do_not_wait(void **state)
{
    static const struct {
        const char *name;
        int when;
        bool ragged;
    } rows[] = {
        {"headkv", LAYER, true},
        {"duo", LAYER, true},
        {"lukv", LAYER, true},
        {"cake", LAYER, false},
        {"simlayerkv", AFTER, false},
        {"simlayerkv:compat=kvpress", LAYER, false},
        {"fast-kvzip", AFTER, true},
        {"defensivekv", LAYER, true},
        {"snapkv/table", LAYER, true},
        {"snapkv/oracle-budget", AFTER, true},
        {"chunkkv", LAYER, false},
        {"finch", LAYER, false},
        {"kvzip:scope=model", AFTER, true},
        {"kvzap", LAYER, true},
    };
    (void)state;
    kvt_cost_geometry g = llama_8b();
    for (int i = 0; i < CHECK_COUNT(rows); i++) {
        kvt_cost_work w = describe(rows[i].name, &g, N, B, KVT_ACT_OWN);
        if ((int)w.when != rows[i].when || w.ragged != rows[i].ragged)
            fail_msg("%s: when %d, ragged %d", rows[i].name, w.when, w.ragged);
    }
}

int main(void)
{
    struct CMUnitTest tests[CHECK_COUNT(expected) + 6];
    int n = 0;
    CHECK_ROWS(tests, &n, expected, is_described);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(lookahead_has_its_published_size);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(scorers_have_their_published_sizes);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(act_decides_as_in_replay);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(rows_between_decisions_count);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(keys_are_read_again_where_scores_change);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(tables_do_not_wait);
    return CHECK_RUN("cost work", tests, n);
}
