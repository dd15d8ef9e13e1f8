/* test_cost_memory - memory phase by phase against published peaks (G4, G20 to G23), hand
 * arithmetic for every layout, and what must hold whatever the numbers are. */
#include "tests/check.h"

#include <math.h>
#include <time.h>

#include "kvt/cost.h"
#include "replay/cost/cost_priv.h"

static const double KI = 1024.0, MI = 1024.0 * 1024, GI = 1024.0 * 1024 * 1024;
static kvt_err err;

static kvt_cost_geometry model(const char *name)
{
    kvt_cost_geometry g;
    CHECK_OK(kvt_cost_geometry_find(&g, name, &err), &err);
    return g;
}

/* Exact allocations, no runtime: what formulae say and nothing else. */
static kvt_machine bare(kvt_engine_kind engine)
{
    return (kvt_machine){.engine = engine,
                         .peak_flops_16 = 1e15,
                         .mem_bw = 3e12,
                         .mem_bytes = 85e9,
                         .kv_traffic = 1};
}

/* Policies as their descriptors are. */
static const kvt_cost_work full = {.when = KVT_WHEN_NEVER};
static const kvt_cost_work snapkv = {.when = KVT_WHEN_IN_LAYER,
                                     .score = KVT_SCORE_ROWS,
                                     .rows = 32,
                                     .k_passes = 1,
                                     .selects = true};
static const kvt_cost_work norms = {.when = KVT_WHEN_IN_LAYER, .score = KVT_SCORE_KEYS};
static const kvt_cost_work late = {
    .when = KVT_WHEN_AFTER_PREFILL, .score = KVT_SCORE_ROWS, .rows = 32};
static const kvt_cost_work ring = {
    .when = KVT_WHEN_IN_LAYER, .in_decode = true, .every = 1, .in_place = true};
static const kvt_cost_work h2o = {.when = KVT_WHEN_IN_LAYER,
                                  .in_decode = true,
                                  .every = 1,
                                  .in_place = true,
                                  .score = KVT_SCORE_COLUMNS,
                                  .whole_rows = true,
                                  .state_slot = 4};
static const kvt_cost_work laq = {.when = KVT_WHEN_AFTER_PREFILL,
                                  .score = KVT_SCORE_ROWS,
                                  .rows = 8,
                                  .draft = KVT_DRAFT_SELF,
                                  .draft_tokens = 8,
                                  .first_stage = true};
static const kvt_cost_work speckv = {.when = KVT_WHEN_IN_LAYER,
                                     .score = KVT_SCORE_ROWS,
                                     .rows = 64,
                                     .draft = KVT_DRAFT_MODEL,
                                     .draft_tokens = 32,
                                     .extra_tokens = 32};

/* A case with all that it points to. */
typedef struct bench {
    kvt_cost_geometry g, draft;
    kvt_published k;
    kvt_cost_work w;
    kvt_cost_setting s;
    kvt_cost_load load;
    kvt_cost_case c;
    kvt_cost out;
} bench;

static void predict(bench *b, int64_t n, int64_t m, int64_t budget)
{
    kvt_cost_load_assume(&b->load, NULL, &b->w, &b->g, &b->s, n, m, budget);
    b->c = (kvt_cost_case){.geometry = &b->g,
                           .draft = b->draft.g.n_layer ? &b->draft : NULL,
                           .constants = &b->k,
                           .work = &b->w,
                           .load = &b->load,
                           .setting = &b->s,
                           .n_prompt = n,
                           .n_response = m,
                           .budget = budget};
    b->out = (kvt_cost){0};
    cost_memory(&b->out, &b->c);
    cost_capacity(&b->out, &b->c);
}

static bench on(const char *name, const kvt_cost_work *w, kvt_engine_kind engine)
{
    return (bench){.g = model(name), .w = *w, .k = {.machine = bare(engine)}};
}

static void within(const char *what, double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance * fabs(want)))
        fail_msg("%s: expected %.7g +-%g %%, got %.7g (%+.2f %%)", what, want, 100 * tolerance,
                 got, 100 * (got / want - 1));
}

static double sum_of(const kvt_memory_cost *m)
{
    double sum = 0;
#define X(name, help) sum += m->name;
    KVT_MEMORY_PARTS(X)
#undef X
    return sum;
}

/* ---- published -----------------------------------------------------------------------------
 */

/* G4: FastDMS README, 16-bit pools of pages of 16. */
static void pools(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        int64_t n;
        double gib;
    } rows[] = {{"llama-3.2-1b", 10240, 0.3125},
                {"llama-3.2-1b", 67584, 2.0625},
                {"qwen3-8b", 10240, 1.40625},
                {"qwen3-8b", 67584, 9.28125}};
    for (int i = 0; i < CHECK_COUNT(rows); i++) {
        bench b = on(rows[i].model, &full, KVT_ENGINE_FUSED);
        b.s = (kvt_cost_setting){.page_tokens = 16, .shared_pages = true};
        predict(&b, rows[i].n, 0, rows[i].n);
        CHECK_NEAR(b.out.steady.kv / GI, rows[i].gib, 0);
    }
}

/* G20: kvpress notebook, read off its figure; formula of section 8 E beside it. */
static void kvpress_peaks(void **state)
{
    (void)state;
    static const struct {
        double keep;
        int64_t n;
        double published, formula;
    } rows[] = {
        {1, 8000, 16.85, 16.819},   {1, 16000, 18.7, 18.681},   {1, 32000, 22.45, 22.404},
        {1, 64000, 29.9, 29.850},   {1, 128000, 44.8, 44.743},  {.5, 32000, 20.5, 20.451},
        {.5, 64000, 26, 25.944},    {.5, 128000, 37, 36.930},   {.2, 32000, 19.3, 19.279},
        {.2, 64000, 23.65, 23.600}, {.2, 128000, 32.35, 32.243}};
    for (int i = 0; i < CHECK_COUNT(rows); i++) {
        bench b = on("llama-3.1-8b", rows[i].keep < 1 ? &norms : &full, KVT_ENGINE_EAGER);
        double n = (double)rows[i].n;
        predict(&b, rows[i].n, 100, (int64_t)(n * rows[i].keep + 0.5));
        within("published", b.out.peak.total / GI, rows[i].published, 0.01);
        within("formula", b.out.peak.total / GI, rows[i].formula, 5e-5);
        assert_int_equal(b.out.peak_phase, KVT_PHASE_FFN);
        assert_int_equal(b.out.peak_layer, 31);
    }
}

/* G21: KVCache-Factory issue 49: 9k prompt, logits of all positions. */
static void factory_layouts(void **state)
{
    (void)state;
    double total[2][2];
    for (int head = 0; head < 2; head++)
        for (int k = 0; k < 2; k++) {
            bench b = on("llama-3.1-8b", &snapkv, KVT_ENGINE_EAGER);
            b.w.by_query_head = head;
            b.s.all_logits = true;
            predict(&b, 9000, 0, k ? 128 : 2048);
            assert_int_equal(b.out.peak_phase, KVT_PHASE_LOGITS);
            total[head][k] = b.out.peak.total;
        }
    within("query heads", total[1][0] / GI, 22.49, 0.01);
    within("kv heads", total[0][0] / GI, 21.74, 0.01);
    CHECK_NEAR((total[1][0] - total[0][0]) / MI, 768, 1e-6);
    CHECK_NEAR((total[1][1] - total[0][1]) / MI, 48, 1e-6);
}

/* G22, G23: KVpop, Qwen3-8B, a framework's decode. */
static void kvpop_peaks(void **state)
{
    (void)state;
    static const struct {
        int64_t n;
        double formula;
    } rows[] = {{16384, 17.788}, {131072, 35.506}};
    double dense = 0;
    for (int i = 0; i < CHECK_COUNT(rows); i++) {
        bench b = on("qwen3-8b", &full, KVT_ENGINE_EAGER);
        predict(&b, 128, rows[i].n - 128, 128);
        within("dense", b.out.peak.total / GI, i ? 36 : 18, 0.02);
        within("formula", b.out.peak.total / GI, rows[i].formula, 2e-4);
        assert_int_equal(b.out.peak_phase, KVT_PHASE_DECODE);
        dense = b.out.peak.total / GI;
    }
    for (int64_t budget = 4096; budget <= 32768; budget += 28672) {
        bench b = on("qwen3-8b", &ring, KVT_ENGINE_EAGER);
        predict(&b, 128, 131072 - 128, budget);
        double got = b.out.peak.total / GI;
        if (got < 15.8 || got > 20.4)
            fail_msg("%lld slots: %.2f GiB", (long long)budget, got);
        if (got / dense < 0.44 || got / dense > 0.58)
            fail_msg("%lld slots: %.3f of the dense one", (long long)budget, got / dense);
    }
}

/* Rule 3 of section 6: half a page a lane is lost on average, 16 MiB of 256 slots. */
static void pages_waste_half(void **state)
{
    (void)state;
    double waste = 0;
    for (int64_t i = 0; i < 256; i++) {
        bench b = on("llama-3.1-8b", &snapkv, KVT_ENGINE_FUSED);
        predict(&b, 32768, 0, 1024 + i);
        double exact = b.out.steady.kv;
        b.w.page_tokens = 256;
        predict(&b, 32768, 0, 1024 + i);
        waste += (b.out.steady.kv - exact) / 256;
    }
    within("waste", waste / MI, 16, 0.005); /* (p - 1) / 2 slots */
}

/* Rule 14: 2.30 GiB of Llama-3.2-1B, and 1 GiB of its cache at 32K. */
static void a_draft_model(void **state)
{
    (void)state;
    bench b = on("llama-3.1-8b", &speckv, KVT_ENGINE_FUSED);
    predict(&b, 32768, 0, 128);
    assert_true(isnan(b.out.peak.total) && isnan(b.out.short_bytes)); /* of what model? */
    b.draft = model("llama-3.2-1b");
    predict(&b, 32768, 16, 128);
    within("weights", b.out.peak.draft / GI, 2.30, 0.005);
    CHECK_NEAR(b.out.peak.draft_kv, (32768 + 32) * 32 * KI, 0);
    CHECK_NEAR(b.out.steady.kv / MI, 16 * (128.0 + 16) / 128, 1e-9);
    CHECK_NEAR(b.out.steady.draft_kv, 0, 0); /* freed when the prompt is cut */
    CHECK_NEAR(b.out.steady.draft, b.out.peak.draft, 0);
}

/* 9b.11: whole rows of H2O at 32K, 16 bits and 32 bits a number. */
static void whole_rows_do_not_fit(void **state)
{
    (void)state;
    bench b = on("llama-3.1-8b", &h2o, KVT_ENGINE_EAGER);
    predict(&b, 32768, 0, 128);
    double matrix = 32.0 * 32768 * 32768 * 6;
    CHECK_NEAR(matrix / 1e9, 206, 0.5);
    within("scratch", b.out.peak.scratch, matrix, 0.005);
    assert_int_equal(b.out.peak_phase, KVT_PHASE_ATTENTION);
    CHECK_NEAR(b.out.short_bytes, b.out.peak.total - 85e9, 1);
    assert_int_equal(b.out.max_batch, 0);
    b.s.chunk = 512; /* queries at a time */
    predict(&b, 32768, 0, 128);
    within("chunk", b.out.peak.scratch, matrix / 64 + 2.0 * 32768 * 32 * 128 * 2, 0.05);
    b.s.chunk = 0, b.k.machine.engine = KVT_ENGINE_FUSED;
    predict(&b, 32768, 0, 128);
    CHECK_NEAR(b.out.short_bytes, 0, 0);
    /* table 7.4: sums of 32 bits of every slot that is kept */
    CHECK_NEAR(b.out.steady.state, 4.0 * 128 * 8 * 32, 0);
}

/* ---- hand arithmetic -----------------------------------------------------------------------
 */

enum { L = 3, H = 4, G = 2, D = 8, E = 32, I = 64, V = 100, N = 64, B = 16 };

/* 2 x G x D x 2 bytes a token and layer: 64. */
static bench small(const kvt_cost_work *w, kvt_engine_kind engine)
{
    bench b = {.w = *w, .k = {.machine = bare(engine)}};
    kvt_geometry g = {.name = "small",
                      .arch = "llama",
                      .n_layer = L,
                      .n_head = H,
                      .n_kv_head = G,
                      .head_dim = D,
                      .n_hidden = E,
                      .n_ff = I,
                      .n_vocab = V};
    CHECK_OK(kvt_cost_geometry_of(&b.g, &g, &err), &err);
    return b;
}

static const kvt_memory_cost *row_of(const kvt_phase_row *rows, int n, kvt_memory_phase phase,
                                     int layer)
{
    for (int i = 0; i < n; i++)
        if (rows[i].phase == phase && rows[i].layer == layer)
            return &rows[i].memory;
    fail_msg("no row of phase %d, layer %d", (int)phase, layer);
    return NULL;
}

static void in_layer_by_hand(void **state)
{
    (void)state;
    kvt_phase_row rows[KVT_COST_PHASES_MAX];
    bench b = small(&snapkv, KVT_ENGINE_FUSED);
    predict(&b, N, 4, B);
    int n = kvt_cost_timeline(rows, &b.c);
    const kvt_memory_cost *a = row_of(rows, n, KVT_PHASE_ATTENTION, 1);
    CHECK_NEAR(a->kv, 64 * (B + N), 0);
    CHECK_NEAR(a->scratch, 4 * N * G + 64 * B, 0);
    a = row_of(rows, n, KVT_PHASE_FFN, 1);
    CHECK_NEAR(a->kv, 64 * 2 * B, 0);
    CHECK_NEAR(a->activations, N * 2 * (3 * I + 4 * E), 0);
    CHECK_NEAR(a->scratch, 0, 0);
    CHECK_NEAR(a->weights, 2 * (double)b.g.theta_all, 0);
    CHECK_NEAR(row_of(rows, n, KVT_PHASE_LOGITS, -1)->activations, V * 6, 0);
    CHECK_NEAR(row_of(rows, n, KVT_PHASE_DECODE, -1)->kv, 64 * L * (B + 1), 0);
    CHECK_NEAR(b.out.steady.kv, 64 * L * (B + 4), 0);
    CHECK_NEAR(b.out.kv_mean, 64 * L * (B + 2.5), 1e-9);
    b.k.machine.engine = KVT_ENGINE_EAGER;
    predict(&b, N, 4, B);
    n = kvt_cost_timeline(rows, &b.c);
    CHECK_NEAR(row_of(rows, n, KVT_PHASE_ATTENTION, 1)->scratch,
               32 * N * H * 6 + 2 * N * H * D * 2 + 64 * B, 0);
    CHECK_NEAR(b.out.steady.scratch, (B + 4) * (G * D * 2 + 2 * H * D * 2), 1e-9);
}

static void after_prefill_by_hand(void **state)
{
    (void)state;
    kvt_phase_row rows[KVT_COST_PHASES_MAX];
    bench b = small(&late, KVT_ENGINE_FUSED);
    predict(&b, N, 0, B);
    int n = kvt_cost_timeline(rows, &b.c);
    CHECK_NEAR(row_of(rows, n, KVT_PHASE_FFN, 1)->kv, 64 * 2 * N, 0);
    CHECK_NEAR(row_of(rows, n, KVT_PHASE_EVICT, -1)->kv, 64 * L * N, 0);
    CHECK_NEAR(row_of(rows, n, KVT_PHASE_EVICT, -1)->scratch, 4 * N * G + 64 * L * B, 0);
    CHECK_NEAR(b.out.steady.kv, 64 * L * B, 0);
    b.w.state_slot = 4, b.w.state_lane = 3; /* beside all slots until they go */
    predict(&b, N, 0, B);
    n = kvt_cost_timeline(rows, &b.c);
    CHECK_NEAR(row_of(rows, n, KVT_PHASE_FFN, 0)->state, 4 * G * N + 3 * G, 0);
    CHECK_NEAR(row_of(rows, n, KVT_PHASE_EVICT, -1)->state, L * (4 * G * N + 3 * G), 0);
    CHECK_NEAR(b.out.steady.state, L * (4 * G * B + 3 * G), 0);
    b = small(&laq, KVT_ENGINE_FUSED);
    predict(&b, N, 0, B);
    n = kvt_cost_timeline(rows, &b.c);
    CHECK_NEAR(row_of(rows, n, KVT_PHASE_DRAFT, -1)->draft_kv, 64 * L * (B + 8), 0);
    CHECK_NEAR(row_of(rows, n, KVT_PHASE_DRAFT, -1)->scratch, 8 * H * D * 2 * L, 0);
    b.k.draft_tokens = 32; /* what was measured */
    predict(&b, N, 0, B);
    n = kvt_cost_timeline(rows, &b.c);
    CHECK_NEAR(row_of(rows, n, KVT_PHASE_EVICT, -1)->draft_kv, 64 * L * (B + 32), 0);
}

static void chunks_by_hand(void **state)
{
    (void)state;
    kvt_phase_row rows[KVT_COST_PHASES_MAX];
    bench b = small(&ring, KVT_ENGINE_FUSED);
    b.s.chunk = 24;
    predict(&b, N, 0, B);
    int n = kvt_cost_timeline(rows, &b.c);
    CHECK_NEAR(row_of(rows, n, KVT_PHASE_FFN, L - 1)->kv, 64 * L * (B + 24), 0);
    CHECK_NEAR(row_of(rows, n, KVT_PHASE_FFN, 0)->activations, 24 * 2 * (3 * I + 4 * E), 0);
    b.w = snapkv; /* cut once, when the last chunk (16 tokens) comes through */
    predict(&b, N, 0, B);
    n = kvt_cost_timeline(rows, &b.c);
    CHECK_NEAR(row_of(rows, n, KVT_PHASE_ATTENTION, 1)->kv, 64 * (B + N + (N - 16)), 0);
}

static void layers_may_differ(void **state)
{
    (void)state;
    kvt_phase_row rows[KVT_COST_PHASES_MAX];
    bench b = small(&snapkv, KVT_ENGINE_FUSED);
    predict(&b, N, 0, B);
    b.load.kept[1] = (kvt_cost_layer){.slots = 2 * 24, .most = 30, .held = 2 * 24};
    cost_memory(&b.out, &b.c);
    CHECK_NEAR(b.out.steady.kv, 64 * (B + 24 + B), 0);
    int n = kvt_cost_timeline(rows, &b.c);
    CHECK_NEAR(row_of(rows, n, KVT_PHASE_ATTENTION, 2)->kv, 64 * (B + 24 + N), 0);
    CHECK_NEAR(row_of(rows, n, KVT_PHASE_FFN, 2)->kv, 64 * (B + 24 + B), 0);
    b.k.machine.engine = KVT_ENGINE_EAGER;
    predict(&b, N, 4, B);
    b.load.kept[1].most = 30; /* the longest lane is what is expanded */
    cost_memory(&b.out, &b.c);
    CHECK_NEAR(b.out.steady.scratch, (30 + 4) * (G * D * 2 + 2 * H * D * 2), 1e-9);
}

/* What a decision in decode moves together, and lanes that still grow. */
/* Five requests, two prompts at a time: the other three hold what they hold in their last step.
 */
static void few_prompts_by_hand(void **state)
{
    (void)state;
    kvt_phase_row rows[KVT_COST_PHASES_MAX];
    bench b = small(&snapkv, KVT_ENGINE_FUSED);
    b.s = (kvt_cost_setting){.batch = 5, .prefill_batch = 2};
    double others = 3 * 64.0 * L * (B + 4);
    predict(&b, N, 4, B);
    int n = kvt_cost_timeline(rows, &b.c);
    CHECK_NEAR(row_of(rows, n, KVT_PHASE_LOAD, -1)->kv, 0, 0);
    const kvt_memory_cost *a = row_of(rows, n, KVT_PHASE_ATTENTION, 1);
    CHECK_NEAR(a->kv, 2 * 64 * (B + N) + others, 0);
    CHECK_NEAR(a->scratch, 2 * (4 * N * G + 64 * B), 0);
    a = row_of(rows, n, KVT_PHASE_FFN, 1);
    CHECK_NEAR(a->kv, 2 * 64 * 2 * B + others, 0);
    CHECK_NEAR(a->activations, 2 * N * 2 * (3 * I + 4 * E), 0);
    CHECK_NEAR(row_of(rows, n, KVT_PHASE_LOGITS, -1)->kv, 2 * 64 * L * B + others, 0);
    CHECK_NEAR(row_of(rows, n, KVT_PHASE_LOGITS, -1)->activations, 2 * V * 6, 0);
    CHECK_NEAR(row_of(rows, n, KVT_PHASE_DECODE, -1)->kv, 5 * 64 * L * (B + 1), 0);
    CHECK_NEAR(b.out.steady.kv, 5 * 64 * L * (B + 4), 0);
    CHECK_NEAR(b.out.kv_mean, 5 * 64 * L * (B + 2.5), 1e-9);
    /* one request more is one decoding request more, whatever the batch of the case */
    double few = 2 * (64 * L * B + N * 2 * (3 * I + 4 * E)), each = 64 * L * (B + 4);
    CHECK_NEAR(b.out.peak.total, 2 * (double)b.g.theta_all + few + others, 0);
    b.k.machine.mem_bytes = 2 * (double)b.g.theta_all + few + 9 * each;
    for (b.s.batch = 1; b.s.batch <= 16; b.s.batch += 5) {
        predict(&b, N, 4, B);
        assert_int_equal(b.out.max_batch, 11);
    }
    b.k.machine.mem_bytes -= 1;
    predict(&b, N, 4, B);
    assert_int_equal(b.out.max_batch, 10);
    predict(&b, N, 0, B); /* nothing is decoded: what the prompt leaves */
    n = kvt_cost_timeline(rows, &b.c);
    CHECK_NEAR(row_of(rows, n, KVT_PHASE_LOGITS, -1)->kv, (double)b.s.batch * 64 * L * B, 0);
}

/* State, drafts and rounding of the few beside the cache of the others. */
static void few_late_prompts_by_hand(void **state)
{
    (void)state;
    kvt_phase_row rows[KVT_COST_PHASES_MAX];
    bench b = small(&late, KVT_ENGINE_FUSED);
    b.s = (kvt_cost_setting){.batch = 5, .prefill_batch = 2};
    b.w.state_slot = 4, b.w.state_lane = 3;
    predict(&b, N, 4, B);
    int n = kvt_cost_timeline(rows, &b.c);
    double state_of_others = 3 * L * (4 * G * (B + 4) + 3 * G), others = 3 * 64 * L * (B + 4);
    const kvt_memory_cost *a = row_of(rows, n, KVT_PHASE_EVICT, -1);
    CHECK_NEAR(a->kv, 2 * 64 * L * N + others, 0);
    CHECK_NEAR(a->scratch, 2 * (4 * N * G + 64 * L * B), 0);
    CHECK_NEAR(a->state, 2 * L * (4 * G * N + 3 * G) + state_of_others, 0);
    CHECK_NEAR(row_of(rows, n, KVT_PHASE_FFN, 0)->state,
               2 * (4 * G * N + 3 * G) + state_of_others, 0);
    b.k.machine.alloc_round =
        1 << 20; /* keys and values of a layer, of the few, of the others */
    predict(&b, N, 4, B);
    n = kvt_cost_timeline(rows, &b.c);
    a = row_of(rows, n, KVT_PHASE_LOGITS, -1);
    CHECK_NEAR(a->slack + a->kv + a->state + a->activations, (2 * L + 2 * L + 1 + 1) * MI,
               1e-6);
    b = small(&laq, KVT_ENGINE_FUSED);
    b.s = (kvt_cost_setting){.batch = 5, .prefill_batch = 2};
    predict(&b, N, 4, B);
    n = kvt_cost_timeline(rows, &b.c);
    a = row_of(rows, n, KVT_PHASE_DRAFT, -1);
    CHECK_NEAR(a->draft_kv, 2 * 64 * L * (B + 8), 0);
    CHECK_NEAR(a->scratch, 2 * 8 * H * D * 2 * L, 0);
    b = small(&speckv, KVT_ENGINE_FUSED);
    b.draft = b.g;
    b.s = (kvt_cost_setting){.batch = 5, .prefill_batch = 2};
    predict(&b, N, 4, B);
    n = kvt_cost_timeline(rows, &b.c);
    a = row_of(rows, n, KVT_PHASE_DRAFT, -1);
    CHECK_NEAR(a->draft_kv, 2 * 64 * L * (N + 32), 0);
    CHECK_NEAR(a->kv, others, 0);
    CHECK_NEAR(row_of(rows, n, KVT_PHASE_DECODE, -1)->kv, 5 * 64 * L * (B + 1), 0);
}

static void decisions_in_decode(void **state)
{
    (void)state;
    bench b = small(&ring, KVT_ENGINE_FUSED);
    predict(&b, N, 20, B);
    CHECK_NEAR(b.out.steady.scratch, 0, 0);
    b.w.in_place = false, b.w.every = 4;
    predict(&b, N, 20, B);
    CHECK_NEAR(b.out.steady.scratch, 64 * B, 0);
    CHECK_NEAR(b.out.steady.kv, 64 * L * (B + 4), 0);
    b = small(&ring, KVT_ENGINE_EAGER);
    b.g.g.window[1] = 8; /* full from the start */
    predict(&b, 8, 20, B);
    CHECK_NEAR(b.out.steady.kv, 64 * (2 * (B + 1) + 8), 0);
    CHECK_NEAR(b.out.steady.scratch, (B + 1) * (G * D * 2 + 2 * H * D * 2), 1e-9);
}

static void bits_devices_and_adapters(void **state)
{
    (void)state;
    bench b = small(&snapkv, KVT_ENGINE_FUSED);
    b.k.machine.kv8_scale_bytes = 4;
    b.s.kv_bits = 8;
    predict(&b, N, 0, B);
    CHECK_NEAR(b.out.steady.kv, L * B * G * (2 * D + 4), 0);
    b.s.kv_bits = 4;
    predict(&b, N, 0, B);
    CHECK_NEAR(b.out.steady.kv, L * B * G * (D + 4), 0);
    b.s = (kvt_cost_setting){.batch = 5, .tensor = 2};
    predict(&b, N, 0, B);
    CHECK_NEAR(b.out.steady.kv, 5 * 64 * L * B / 2.0, 0);
    CHECK_NEAR(b.out.steady.weights, (double)b.g.theta_all, 0);
    b.s = (kvt_cost_setting){0};
    b.w.lora_params = 1000, b.w.embed_params = 24;
    predict(&b, N, 0, B);
    CHECK_NEAR(b.out.peak.adapter, 2048, 0);
}

static void allocations_are_rounded(void **state)
{
    (void)state;
    bench b = small(&snapkv, KVT_ENGINE_FUSED);
    b.k.machine.alloc_round = 2048;
    predict(&b, N, 0, B);
    CHECK_NEAR(b.out.steady.slack, L * 2 * (2048 - 32 * B), 1e-9); /* 512 bytes a tensor */
    b.k.machine.alloc_round = 0, b.s.fragmentation = 0.25;
    predict(&b, N, 0, B);
    CHECK_NEAR(b.out.steady.slack, 64 * L * B / 4.0, 1e-9);
}

/* ---- what must hold ------------------------------------------------------------------------
 */

static void parts_add_up(void **state)
{
    (void)state;
    static const kvt_cost_work *const works[] = {&full, &snapkv, &late,  &ring,
                                                 &h2o,  &laq,    &speckv};
    for (int i = 0; i < CHECK_COUNT(works); i++)
        for (int engine = 0; engine < 2; engine++) {
            kvt_phase_row rows[KVT_COST_PHASES_MAX];
            bench b = on("gemma-3-1b", works[i], engine ? KVT_ENGINE_EAGER : KVT_ENGINE_FUSED);
            b.draft = model("smollm2-135m");
            b.k.machine.alloc_round = 2 * MI;
            b.s = (kvt_cost_setting){.batch = 3, .fragmentation = 0.1, .page_tokens = 16};
            predict(&b, 4000, 300, 512);
            int n = kvt_cost_timeline(rows, &b.c);
            double most = 0;
            for (int k = 0; k < n; k++) {
                within("sum", sum_of(&rows[k].memory), rows[k].memory.total, 1e-9);
                most = fmax(most, rows[k].memory.total);
            }
            CHECK_NEAR(b.out.peak.total, most, 0);
            within("steady", sum_of(&b.out.steady), b.out.steady.total, 1e-9);
            assert_true(n <= KVT_COST_PHASES_MAX && rows[0].phase == KVT_PHASE_LOAD);
        }
}

static double peak_of(const kvt_cost_work *w, int64_t n, int64_t budget)
{
    bench b = on("llama-3.1-8b", w, KVT_ENGINE_FUSED);
    predict(&b, n, 0, budget);
    return b.out.peak.total;
}

static void orders(void **state)
{
    (void)state;
    kvt_cost_work together = snapkv;
    together.when = KVT_WHEN_AFTER_PREFILL;
    double whole = 2.0 * (double)model("llama-3.1-8b").theta_all;
    for (int64_t n = 512; n <= 131072; n *= 4) {
        double in_layer = peak_of(&snapkv, n, 256), after = peak_of(&together, n, 256);
        assert_true(after >= in_layer);
        assert_true(in_layer - whole >= (double)n * 4096); /* one layer, dense */
        assert_true(peak_of(&snapkv, n, 512) >= in_layer); /* monotone in the budget */
        CHECK_NEAR(peak_of(&snapkv, n, n), peak_of(&full, n, n), 0); /* saves nothing */
        CHECK_NEAR(peak_of(&snapkv, n, 2 * n), peak_of(&full, n, n), 0);
    }
}

static double steady_of(const kvt_cost_work *w, const kvt_cost_setting *s, int64_t budget)
{
    bench b = on("llama-3.1-8b", w, KVT_ENGINE_FUSED);
    b.s = *s;
    predict(&b, 4096, 0, budget);
    return b.out.steady.kv;
}

static void layouts_are_ordered(void **state)
{
    (void)state;
    static const kvt_cost_setting exact, paged = {.page_tokens = 64}, masked = {.masked = true};
    kvt_cost_work heads = snapkv;
    heads.by_query_head = true;
    for (int64_t budget = 1; budget <= 1024; budget += 31) {
        double bytes = steady_of(&snapkv, &exact, budget);
        double pages = steady_of(&snapkv, &paged, budget);
        assert_true(pages >= bytes);
        assert_true((pages == bytes) == (budget % 64 == 0));
        CHECK_NEAR(steady_of(&heads, &exact, budget), 4 * bytes, 0);
        CHECK_NEAR(steady_of(&snapkv, &masked, budget), steady_of(&full, &exact, 4096), 0);
        CHECK_NEAR(steady_of(&heads, &masked, budget), steady_of(&full, &exact, 4096), 0);
    }
    CHECK_NEAR(steady_of(&snapkv, &paged, 128), steady_of(&snapkv, &exact, 128), 0);
}

static void windows_as_long_as_the_prompt_are_none(void **state)
{
    (void)state;
    bench b = small(&snapkv, KVT_ENGINE_EAGER), w = b;
    w.g.g.window[1] = N + 4;
    predict(&b, N, 4, B);
    predict(&w, N, 4, B);
    CHECK_NEAR(w.out.peak.total, b.out.peak.total, 0);
    w.g.g.window[1] = B / 2;
    predict(&w, N, 4, B);
    CHECK_NEAR(w.out.steady.kv, 64 * (2 * (B + 4) + B / 2), 1e-9);
    w.s.full_windows = true;
    predict(&w, N, 4, B);
    CHECK_NEAR(w.out.steady.kv, b.out.steady.kv, 0);
}

/* ---- what fits -----------------------------------------------------------------------------
 */

static double total_at(bench b, int64_t batch, int64_t n, int64_t budget)
{
    b.s.batch = batch;
    predict(&b, n, 64, budget);
    return b.out.peak.total;
}

/* The largest batch and prompt fit, one more does not. */
static void capacity_is_the_largest(void **state)
{
    (void)state;
    static const kvt_cost_work *const works[] = {&full, &snapkv, &late,  &ring,
                                                 &h2o,  &laq,    &speckv};
    for (int i = 0; i < CHECK_COUNT(works); i++)
        for (int k = 0; k < 4; k++) {
            bench b = on("llama-3.1-8b", works[i], k & 1 ? KVT_ENGINE_EAGER : KVT_ENGINE_FUSED);
            b.draft = model("llama-3.2-1b");
            b.k.machine.alloc_round = k & 2 ? 64 * MI : 0;
            int64_t n = 4096, budget = works[i] == &full ? n : n / 4;
            predict(&b, n, 64, budget);
            int64_t batch = b.out.max_batch, context = b.out.max_context;
            assert_true(batch > 0 && context > 0);
            assert_true(total_at(b, batch, n, budget) <= 85e9);
            assert_true(total_at(b, batch + 1, n, budget) > 85e9);
            /* whole slots only where the budget stays a quarter of the prompt */
            int64_t at = context / 4 * 4, over = at + 8;
            assert_true(total_at(b, 1, at, works[i] == &full ? at : at / 4) <= 85e9);
            assert_true(total_at(b, 1, over, works[i] == &full ? over : over / 4) > 85e9);
        }
}

static void what_never_fits(void **state)
{
    (void)state;
    bench b = on("llama-3.1-70b", &full, KVT_ENGINE_FUSED);
    predict(&b, 4096, 16, 4096);
    assert_int_equal(b.out.max_batch, 0);
    assert_int_equal(b.out.max_context, 0);
    assert_true(b.out.short_bytes > 55e9);
    b.k.machine.mem_bytes = 0;
    predict(&b, 4096, 16, 4096);
    assert_int_equal(b.out.max_batch, -1);
    assert_int_equal(b.out.max_context, -1);
    assert_true(isnan(b.out.short_bytes));
}

/* Windows bound what a long prompt holds. */
static void windows_count_at_other_lengths(void **state)
{
    (void)state;
    bench b = on("gemma-3-4b", &full, KVT_ENGINE_FUSED);
    predict(&b, 64, 16, 64);
    int64_t from_short = b.out.max_context;
    predict(&b, 65536, 16, 65536);
    CHECK_NEAR((double)from_short, (double)b.out.max_context, 64);
    b.k.machine.mem_bytes = b.out.peak.weights + 0.5 * GI; /* less than the prompt takes */
    predict(&b, 64, 16, 64);
    from_short = b.out.max_context;
    predict(&b, 65536, 16, 128); /* nothing is dropped, whatever the budget */
    assert_true(from_short > 1000 && from_short < 65536);
    CHECK_NEAR((double)from_short, (double)b.out.max_context, 64);
}

/* A share of the prompt, from a length whose windows are full and from one where none is. */
static void shares_count_at_other_lengths(void **state)
{
    (void)state;
    bench b = on("gemma-3-4b", &snapkv, KVT_ENGINE_FUSED);
    predict(&b, 16384, 16, 4096);
    b.k.machine.mem_bytes = b.out.peak.weights + 0.4 * GI;
    predict(&b, 16384, 16, 4096);
    int64_t from_long = b.out.max_context;
    predict(&b, 64, 16, 16);
    assert_true(from_long > 1024 && from_long < 4096);
    CHECK_NEAR((double)from_long, (double)b.out.max_context, 8);
}

/* A long generation: windows fill while it runs. */
static void generations_count_at_other_lengths(void **state)
{
    (void)state;
    bench b = on("gemma-3-4b", &full, KVT_ENGINE_EAGER);
    predict(&b, 64, 20000, 64);
    assert_int_equal(b.out.peak_phase, KVT_PHASE_DECODE);
    b.k.machine.mem_bytes = b.out.peak.total + 2000 * 1000.0;
    predict(&b, 64, 20000, 64);
    int64_t n = b.out.max_context;
    assert_true(n > 64);
    predict(&b, n, 20000, n);
    CHECK_NEAR(b.out.short_bytes, 0, 0);
    predict(&b, n + 1, 20000, n + 1);
    assert_true(b.out.short_bytes > 0);
}

/* 30,000 predictions are made at once by a choice. */
static void takes_microseconds(void **state)
{
    (void)state;
    enum { TIMES = 4000 };
    bench b = on("llama-3.1-8b", &snapkv, KVT_ENGINE_FUSED);
    b.k.machine.alloc_round = 512;
    predict(&b, 32768, 256, 1024);
    clock_t from = clock();
    for (int i = 0; i < TIMES; i++) {
        cost_memory(&b.out, &b.c);
        cost_capacity(&b.out, &b.c);
    }
    double each = (double)(clock() - from) / CLOCKS_PER_SEC / TIMES;
    print_message("memory and capacity: %.2f us\n", each * 1e6);
    assert_true(each < 1e-3); /* under a checker of memory, too */
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(pools),
        cmocka_unit_test(kvpress_peaks),
        cmocka_unit_test(factory_layouts),
        cmocka_unit_test(kvpop_peaks),
        cmocka_unit_test(pages_waste_half),
        cmocka_unit_test(a_draft_model),
        cmocka_unit_test(whole_rows_do_not_fit),
        cmocka_unit_test(in_layer_by_hand),
        cmocka_unit_test(after_prefill_by_hand),
        cmocka_unit_test(chunks_by_hand),
        cmocka_unit_test(layers_may_differ),
        cmocka_unit_test(few_prompts_by_hand),
        cmocka_unit_test(few_late_prompts_by_hand),
        cmocka_unit_test(decisions_in_decode),
        cmocka_unit_test(bits_devices_and_adapters),
        cmocka_unit_test(allocations_are_rounded),
        cmocka_unit_test(parts_add_up),
        cmocka_unit_test(orders),
        cmocka_unit_test(layouts_are_ordered),
        cmocka_unit_test(windows_as_long_as_the_prompt_are_none),
        cmocka_unit_test(capacity_is_the_largest),
        cmocka_unit_test(what_never_fits),
        cmocka_unit_test(windows_count_at_other_lengths),
        cmocka_unit_test(shares_count_at_other_lengths),
        cmocka_unit_test(generations_count_at_other_lengths),
        cmocka_unit_test(takes_microseconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
