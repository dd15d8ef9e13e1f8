/* test_cost_memory_hand - memory phase by phase of a small model, by hand arithmetic: every
 * layout, chunks, few prompts at a time, drafts, bits, devices, rounding, windows. */
#include "tests/check.h"
#include "tests/unit/cost_memory.h"

#include "replay/cost/cost_priv.h"

enum { L = 3, H = 4, G = 2, D = 8, E = 32, I = 64, V = 100, N = 64, B = 16 };

/* 2 x G x D x 2 bytes a token and layer: 64. */
static bench small(const kvt_cost_work *w, kvt_engine_kind engine)
{
    kvt_err err;
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

/* What a decision in decode moves together, and lanes that still grow. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_layer_by_hand),
        cmocka_unit_test(after_prefill_by_hand),
        cmocka_unit_test(chunks_by_hand),
        cmocka_unit_test(layers_may_differ),
        cmocka_unit_test(few_prompts_by_hand),
        cmocka_unit_test(few_late_prompts_by_hand),
        cmocka_unit_test(decisions_in_decode),
        cmocka_unit_test(bits_devices_and_adapters),
        cmocka_unit_test(allocations_are_rounded),
        cmocka_unit_test(windows_as_long_as_the_prompt_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
