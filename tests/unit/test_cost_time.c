/* test_cost_time - times of the cost model against published tables (G5 to G19, G24, G25, G28
 * to G30), by constants that stand here, and the laws of its splits. */
#include "tests/check.h"

#include <math.h>
#include <stdlib.h>

#include "kvt/cost.h"
#include "replay/cost/cost_priv.h"

static kvt_cost_geometry model(const char *name)
{
    kvt_cost_geometry g;
    kvt_err err;
    CHECK_OK(kvt_cost_geometry_find(&g, name, &err), &err);
    return g;
}

/* A fused engine's defaults; nothing of the host. */
static kvt_machine machine(double peak, double mem_bw)
{
    return (kvt_machine){.engine = KVT_ENGINE_FUSED,
                         .peak_flops_16 = peak,
                         .mem_bw = mem_bw,
                         .cache_gain = 1,
                         .e_lin = 0.65,
                         .e_att = 0.55,
                         .n_half = 500,
                         .hd64_factor = 0.77,
                         .window_half = 700,
                         .e_w = 0.85,
                         .e_kv = 0.78,
                         .e_m = 0.87,
                         .t_layer = 30e-6,
                         .t_step = 126e-6,
                         .kv_traffic = 1};
}

static void within(const char *what, double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance * fabs(want)))
        fail_msg("%s: expected %.6g +-%g %%, got %.6g (%+.2f %%)", what, want, 100 * tolerance,
                 got, 100 * (got / want - 1));
}

/* Policies as their descriptors are. */
static const kvt_cost_work full = {.when = KVT_WHEN_NEVER};
static const kvt_cost_work snapkv = {.when = KVT_WHEN_IN_LAYER,
                                     .score = KVT_SCORE_ROWS,
                                     .rows = 32,
                                     .k_passes = 1,
                                     .selects = true};
static const kvt_cost_work laq = {.when = KVT_WHEN_AFTER_PREFILL,
                                  .score = KVT_SCORE_ROWS,
                                  .rows = 8,
                                  .k_passes = 2,
                                  .selects = true,
                                  .draft = KVT_DRAFT_SELF,
                                  .draft_tokens = 8,
                                  .first_stage = true};
static const kvt_cost_work speckv = {.when = KVT_WHEN_IN_LAYER,
                                     .score = KVT_SCORE_ROWS,
                                     .rows = 64,
                                     .k_passes = 1,
                                     .selects = true,
                                     .draft = KVT_DRAFT_MODEL,
                                     .draft_tokens = 32,
                                     .extra_tokens = 32};

static kvt_cost_work lookaheadkv(const kvt_cost_geometry *g)
{
    kvt_cost_work w;
    kvt_use *use;
    kvt_err err;
    CHECK_OK(kvt_use_parse(&use, NULL, "lookaheadkv", &err), &err);
    kvt_cost_work_of(&w, use, g, 32768, 128, KVT_ACT_OWN);
    kvt_use_free(use);
    return w;
}

/* ---- LookaheadKV, table 15: theory ---------------------------------------------------------
 */

enum { LENGTHS = 4 };
static const int64_t lengths[LENGTHS] = {4096, 8192, 16384, 32768};

static kvt_published paper(void)
{
    return (kvt_published){.machine = {.engine = KVT_ENGINE_PAPER,
                                       .peak_flops_16 = 756e12,
                                       .e_lin = 0.7,
                                       .e_att = 0.7,
                                       .hd64_factor = 1,
                                       .mem_bw = 2e12,
                                       .e_w = 0.9,
                                       .e_kv = 0.9,
                                       .e_m = 0.9}};
}

/* Printed: 2^40 FLOP, GiB, ms of overhead. */
static const struct theory_row {
    const char *name;
    double flops[LENGTHS], bytes[LENGTHS], ms[LENGTHS];
} theory[] = {
    {"full", {60, 136, 336, 928}, {13, 13, 13, 13}, {0, 0, 0, 0}},
    {"lookaheadkv", {60, 137, 337, 929}, {13, 13, 13, 13}, {.92, 1.03, 1.27, 1.74}},
    {"snapkv", {60, 136, 336, 928}, {13, 13, 13, 13}, {.01, .01, .01, .01}},
    {"speckv", {70, 159, 398, 1115}, {77, 81, 89, 106}, {52.10, 79.53, 157.05, 402.80}},
    {"laq", {61, 137, 337, 930}, {444, 445, 447, 451}, {233.81, 234.59, 236.15, 239.26}},
};

static kvt_cost_work by_name(const char *name, const kvt_cost_geometry *g)
{
    return !strcmp(name, "lookaheadkv") ? lookaheadkv(g)
           : !strcmp(name, "snapkv")    ? snapkv
           : !strcmp(name, "speckv")    ? speckv
           : !strcmp(name, "laq")       ? laq
                                        : full;
}

static void theory_is_reproduced(void **state)
{
    const struct theory_row *r = *state;
    kvt_cost_geometry g = model("llama-3.1-8b"), d = model("llama-3.2-1b");
    kvt_cost_work w = by_name(r->name, &g);
    kvt_published p = paper();
    kvt_cost_setting s = {0};
    for (int i = 0; i < LENGTHS; i++) {
        kvt_cost cost;
        kvt_cost_case c = {&g, &d, &p, &w, NULL, &s, lengths[i], 0, 128};
        kvt_cost_predict(&cost, &c);
        double ms = cost.evict.total * 1e3, room = r->bytes[i] == 106 ? 1.6 : 1;
        if (!strcmp(r->name, "snapkv") || !strcmp(r->name, "full"))
            CHECK_NEAR(ms, r->ms[i], 0.005);
        else
            within(r->name, ms, r->ms[i], 0.01);
        CHECK_NEAR(cost_paper_flops(&c) / 0x1p40, r->flops[i], 1);
        CHECK_NEAR(cost_paper_bytes(&c) / 0x1p30, r->bytes[i], room);
        assert_true(isnan(cost.step_mean.total) && isnan(cost.peak.total));
        assert_int_equal(cost.max_batch, -1);
    }
}

static void theory_of_the_forward_pass(void **state)
{
    (void)state;
    const double tera_ops[] = {60, 136, 336, 928}, ms[] = {113, 257, 635, 1754};
    kvt_cost_geometry g = model("llama-3.1-8b");
    kvt_published p = paper();
    for (int i = 0; i < LENGTHS; i++) {
        kvt_cost_setting s = {0};
        kvt_cost_case c = {&g, NULL, &p, &full, NULL, &s, lengths[i], 0, 128};
        kvt_prefill_cost pre;
        kvt_cost_prefill(&pre, &g, &p.machine, &s, lengths[i]);
        within("ms", pre.total * 1e3, ms[i], 0.005);
        /* 59.99995 and so on: what is printed is rounded */
        assert_true(round(cost_paper_flops(&c) / 0x1p40) == tera_ops[i]);
    }
}

static void theory_knows_no_other_policy(void **state)
{
    (void)state;
    kvt_cost_geometry g = model("llama-3.1-8b");
    kvt_published p = paper();
    kvt_cost_setting s = {0};
    kvt_cost_work h2o = {.when = KVT_WHEN_IN_LAYER,
                         .score = KVT_SCORE_COLUMNS,
                         .selects = true,
                         .in_decode = true};
    kvt_cost cost;
    kvt_cost_case c = {&g, NULL, &p, &h2o, NULL, &s, 4096, 0, 128};
    kvt_cost_predict(&cost, &c);
    assert_true(isnan(cost.evict.total) && isnan(cost.evict.copy) && isnan(cost.ttft));
    assert_true(isnan(cost_paper_flops(&c)) && isnan(cost_paper_bytes(&c)));
    assert_true(cost.prefill.total > 0);
    kvt_cost_work again = snapkv;
    again.in_decode = true;
    c.work = &again;
    kvt_cost_predict(&cost, &c);
    assert_true(isnan(cost.evict.total));
    c.work = &speckv; /* without the model that drafts */
    kvt_cost_predict(&cost, &c);
    assert_true(isnan(cost.evict.total));
}

static void theory_of_batches_and_short_prompts(void **state)
{
    (void)state;
    kvt_cost_geometry g = model("llama-3.1-8b"), d = model("llama-3.2-1b");
    kvt_published p = paper();
    kvt_cost_setting one = {0}, three = {.batch = 3};
    kvt_cost a, b;
    kvt_cost_case c = {&g, &d, &p, &speckv, NULL, &one, 4096, 0, 128};
    kvt_cost_predict(&a, &c);
    double flops = cost_paper_flops(&c);
    c.setting = &three;
    kvt_cost_predict(&b, &c);
    CHECK_NEAR(b.prefill.total, 3 * a.prefill.total, 1e-12);
    CHECK_NEAR(b.evict.prefill, 3 * a.evict.prefill, 1e-12);
    CHECK_NEAR(cost_paper_flops(&c), 3 * flops, 1e-9 * flops);
    assert_int_equal(b.draft_tokens, 32);
    c.work = &laq;
    kvt_cost_predict(&b, &c);
    assert_int_equal(b.draft_tokens, 32);
    assert_int_equal(b.evict_bound, KVT_BOUND_MEMORY);
    c.work = &snapkv;
    kvt_cost_predict(&b, &c);
    assert_int_equal(b.draft_tokens, 0);
    kvt_prefill_cost pre; /* 16 tokens: the weights take longer than the math */
    kvt_cost_prefill(&pre, &g, &p.machine, &one, 16);
    CHECK_NEAR(pre.total, 2 * (double)g.theta_lin / (1800 * 0x1p30), 1e-12);
    CHECK_NEAR(pre.linear + pre.attention, pre.total, 1e-15);
}

static void theory_ratios(void **state)
{
    (void)state;
    kvt_cost_geometry g = model("llama-3.1-8b");
    kvt_cost_work look = lookaheadkv(&g);
    kvt_published p = paper();
    kvt_cost_setting s = {0};
    kvt_cost a, b;
    kvt_cost_predict(&a, &(kvt_cost_case){&g, NULL, &p, &laq, NULL, &s, 32768, 0, 128});
    kvt_cost_predict(&b, &(kvt_cost_case){&g, NULL, &p, &look, NULL, &s, 32768, 0, 128});
    within("137 x", a.evict.total / b.evict.total, 137.5, 0.015);
    within("0.0993 %", b.evict_frac, 0.000993, 0.015);
}

/* Millions, section 4 of the paper: rank 8, 32 learned tokens. */
static const struct params_row {
    const char *name;
    double millions;
} params[] = {{"llama-3.2-1b", 5.4}, {"llama-3.2-3b", 11.9}, {"llama-3.1-8b", 20.6},
              {"qwen3-1.7b", 8.5},   {"qwen3-4b", 16.2},     {"qwen3-8b", 21.5}};

static void adapters_are_counted(void **state)
{
    const struct params_row *r = *state;
    kvt_cost_geometry g = model(r->name);
    kvt_cost_work w = lookaheadkv(&g);
    within(r->name, cost_adapter_params(&g, &w) / 1e6, r->millions, 0.005);
}

static void scorers_are_counted(void **state)
{
    (void)state;
    kvt_cost_geometry g = model("llama-3.1-8b");
    kvt_cost_work w = {.lora_params = 1000, .embed_params = 10, .network_params = 3};
    assert_true(cost_adapter_params(&g, &w) == 1000 + 10 + 3 * 32 * 8);
}

/* ---- the same table: measured --------------------------------------------------------------
 */

/* Appendix A, D of the page: two constants of the prefill, one factor for each policy. */
static kvt_published measured(double factor)
{
    kvt_published p = {.machine = machine(989e12, 3.35e12)};
    p.machine.engine = KVT_ENGINE_EAGER;
    p.machine.e_lin = 0.490;
    p.machine.e_att = 0.355;
    p.machine.n_half = 0;
    p.machine.t_launch = 10e-6;
    p.machine.launches_layer = 45;
    p.machine.evict_factor = factor;
    p.machine.evict_floor = 0.011;
    return p;
}

static double eviction(const kvt_published *p, const kvt_cost_work *w, int64_t n)
{
    kvt_cost_geometry g = model("llama-3.1-8b"), d = model("llama-3.2-1b");
    kvt_cost_setting s = {0};
    kvt_evict_cost e;
    cost_evict(&e, &(kvt_cost_case){&g, &d, p, w, NULL, &s, n, 0, 128}, NULL);
    CHECK_NEAR(e.extra + e.prefill + e.draft + e.score + e.select + e.copy + e.host, e.total,
               1e-9 * e.total);
    return e.total;
}

static void measured_is_reproduced(void **state)
{
    (void)state;
    const double forward[] = {130, 291, 658, 1760}, look[] = {11.38, 10.88, 18.50, 38.04};
    const double snap[] = {13.14, 20.17, 37.12, 77.67},
                 draft[] = {506.58, 509.38, 523.54, 553.68};
    const double spec[] = {92.42, 120.51, 207.31, 502.87};
    kvt_cost_geometry g = model("llama-3.1-8b");
    kvt_cost_work lookahead = lookaheadkv(&g);
    kvt_published p = measured(1.99), q = measured(4.05), a = p, b = p;
    a.draft_tokens = b.draft_tokens = 32;
    a.draft_step = 15.14e-3;
    b.draft_step = 1.903e-3;
    b.draft_step_tokens = 4096;
    for (int i = 0; i < LENGTHS; i++) {
        kvt_cost_setting s = {0};
        kvt_prefill_cost pre;
        kvt_cost_prefill(&pre, &g, &p.machine, &s, lengths[i]);
        within("G11 forward", pre.total * 1e3, forward[i], 0.03);
        within("G12 lookaheadkv", eviction(&p, &lookahead, lengths[i]) * 1e3, look[i], 0.05);
        within("G13 snapkv", eviction(&q, &snapkv, lengths[i]) * 1e3, snap[i], i ? 0.05 : 0.2);
        within("G14 laq", eviction(&a, &laq, lengths[i]) * 1e3, draft[i], 0.02);
        within("G15 speckv", eviction(&b, &speckv, lengths[i]) * 1e3, spec[i], 0.05);
    }
    double at = eviction(&p, &lookahead, 32768);
    CHECK_NEAR(at / 1.760, 0.0216, 0.001); /* G16 */
    within("G17 14.5 x", eviction(&a, &laq, 32768) / at, 14.555, 0.03);
}

/* ---- prefill elsewhere ---------------------------------------------------------------------
 */

static double prefill(const char *name, const kvt_machine *m, int64_t n)
{
    kvt_cost_geometry g = model(name);
    kvt_prefill_cost p;
    kvt_cost_prefill(&p, &g, m, &(kvt_cost_setting){0}, n);
    return p.total;
}

static void h20_is_reproduced(void **state)
{
    (void)state; /* DapQ, arXiv 2603.11564: fitted at 8K and 128K */
    const double s[] = {1.1106, 2.5607, 6.5718, 18.9441, 60.8399};
    kvt_machine m = machine(148e12, 4e12);
    m.e_lin = 0.830;
    m.e_att = 0.662;
    m.n_half = 0;
    for (int i = 0; i < CHECK_COUNT(s); i++)
        within("G19", prefill("llama-3.1-8b", &m, 8192LL << i), s[i], 0.01);
}

static void pro_6000_is_reproduced(void **state)
{
    (void)state; /* FastDMS README, tokens a second of the prefill */
    static const struct {
        const char *name;
        int64_t n;
        double rate;
    } rows[] = {{"llama-3.2-1b", 8192, 123098},
                {"qwen3-8b", 8192, 17143.6},
                {"llama-3.2-1b", 130944, 22906.4},
                {"qwen3-8b", 40832, 9614.8}};
    kvt_machine m = machine(467.8e12, 1.792e12);
    m.e_lin = 0.659;
    m.e_att = 0.482;
    m.n_half = 0;
    m.hd64_factor = 1;
    for (int i = 0; i < CHECK_COUNT(rows); i++)
        within("G25", prefill(rows[i].name, &m, rows[i].n), (double)rows[i].n / rows[i].rate,
               0.08);
}

/* ---- decode --------------------------------------------------------------------------------
 */

static kvt_cost_run slots(const kvt_cost_geometry *g, double n, double longest)
{
    double all = n * (double)(g->g.n_layer * g->g.n_kv_head);
    return (kvt_cost_run){.steps = 1, .slots = all, .busiest = all * longest, .held = all};
}

static double step(const kvt_cost_geometry *g, const kvt_machine *m, const kvt_cost_setting *s,
                   const kvt_cost_work *w, double n, double longest)
{
    kvt_published p = {.machine = *m};
    kvt_cost_run run = slots(g, n, longest);
    kvt_decode_cost d;
    kvt_cost_step(&d, &(kvt_cost_case){.geometry = g, .constants = &p, .work = w, .setting = s},
                  &run);
    CHECK_NEAR(d.fixed + d.weights + d.kv + d.policy + d.copy + d.exchange + d.host, d.total,
               1e-9 * d.total);
    return d.total;
}

static void fast_dms_is_reproduced(void **state)
{
    (void)state; /* FastDMS README: batch, context, bits of keys and values, tokens a second */
    static const struct {
        const char *name;
        int64_t batch;
        double n, kv_bits, rate;
    } rows[] = {
        {"llama-3.2-1b", 1, 8256, 16, 459.4},   {"llama-3.2-1b", 1, 8256, 8, 489.4},
        {"llama-3.2-1b", 8, 8256, 16, 2357.5},  {"llama-3.2-1b", 8, 8256, 8, 2888.7},
        {"qwen3-8b", 1, 8256, 16, 89.44},       {"qwen3-8b", 1, 8256, 8, 93.12},
        {"qwen3-8b", 8, 8256, 16, 444.59},      {"qwen3-8b", 8, 8256, 8, 583.39},
        {"llama-3.2-1b", 1, 131008, 16, 189.1}, {"llama-3.2-1b", 1, 131008, 8, 265.9},
        {"qwen3-8b", 1, 40896, 16, 69.24},      {"qwen3-8b", 1, 40896, 8, 79.46},
        {"qwen3-8b", 8, 40896, 16, 161.6},      {"qwen3-8b", 8, 40896, 8, 286.3},
    };
    kvt_machine m = machine(467.8e12, 1.792e12);
    m.t_step = 0;
    m.t_layer = 27.6e-6;
    m.e_w = 0.922;
    m.e_kv = 0.722;
    for (int i = 0; i < CHECK_COUNT(rows); i++) {
        kvt_cost_geometry g = model(rows[i].name);
        kvt_cost_setting s = {.batch = rows[i].batch, .kv_bits = rows[i].kv_bits};
        within("G24", step(&g, &m, &s, NULL, rows[i].n, 1),
               (double)rows[i].batch / rows[i].rate, 0.07);
    }
}

static void a_framework_is_reproduced(void **state)
{
    (void)state; /* kvpress's notebook, A100: seconds of 100 tokens */
    static const struct {
        double slots, s;
    } rows[] = {{8000, 3.0},   {16000, 3.1},  {32000, 3.35}, {64000, 5.0},
                {128000, 9.0}, {32000, 3.45}, {64000, 5.55}};
    kvt_cost_geometry g = model("llama-3.1-8b");
    kvt_machine m = machine(312e12, 2.039e12);
    m.engine = KVT_ENGINE_EAGER;
    m.t_step = m.t_layer = 0;
    m.e_w = m.e_kv = 0.73;
    m.kv_traffic = 7.09;
    m.host_floor_step = 0.030;
    m.host_smooth = 4;
    for (int i = 0; i < CHECK_COUNT(rows); i++)
        within("G30", 100 * step(&g, &m, &(kvt_cost_setting){0}, &full, rows[i].slots, 1),
               rows[i].s, 0.08);
}

static void order_at_131k(void **state)
{
    (void)state;
    kvt_cost_geometry g = model("qwen3-8b");
    kvt_machine m = machine(989e12, 3.35e12);
    kvt_cost_setting s = {0};
    kvt_cost_work dms = {.in_decode = true, .in_place = true, .ragged = true};
    kvt_cost_work kvpop = {.in_decode = true,
                           .in_place = true,
                           .selects = true,
                           .network_flops = 1e6,
                           .decode_state_moves = 4};
    within("G29 dense", step(&g, &m, &s, &full, 131072, 1), 13.9e-3, 0.02);
    within("G29 dms", step(&g, &m, &s, &dms, 32768, 1.5), 9.3e-3, 0.02);
    within("G29 kvpop", step(&g, &m, &s, &kvpop, 4096, 1), 6.75e-3, 0.02);
}

/* ---- regression vectors --------------------------------------------------------------------
 */

/* The page's second table of 7.6: ms at 512, 4K, 32K of the prompt, at 128, 4K, 32K slots. */
static const struct vector_row {
    const char *name;
    double peak, mem_bw, e_lin, e_att, e_w, e_kv;
    double ttft_1b[3], ttft_8b[3], step_1b[3], step_8b[3];
    bool is_gpu;
} vectors[] = {
    {"h200",
     989e12,
     4.8e12,
     .65,
     .55,
     .85,
     .78,
     {1.6321, 15.347, 269.78},
     {11.369, 98.015, 1236.9},
     {1.2129, 1.2476, 1.4985},
     {4.7692, 4.9081, 5.9119},
     true},
    {"h100-sxm",
     989e12,
     3.35e12,
     .65,
     .55,
     .85,
     .78,
     {1.6321, 15.347, 269.78},
     {11.369, 98.015, 1236.9},
     {1.4756, 1.5253, 1.8849},
     {6.3635, 6.5625, 8.0007},
     true},
    {"a100-sxm-80",
     312e12,
     2.039e12,
     .70,
     .55,
     .80,
     .70,
     {4.8223, 45.841, 832.7},
     {33.521, 290.56, 3759.7},
     {2.1241, 2.2152, 2.8734},
     {10.299, 10.664, 13.297},
     true},
    {"l40s",
     362e12,
     0.864e12,
     .60,
     .50,
     .85,
     .78,
     {4.8342, 45.558, 806.24},
     {33.661, 290.51, 3684.8},
     {3.9775, 4.1705, 5.5646},
     {21.548, 22.32, 27.897},
     true},
    {"l4",
     121e12,
     0.3e12,
     .60,
     .50,
     .85,
     .78,
     {14.463, 136.3, 2412},
     {100.71, 869.13, 11024},
     {10.316, 10.872, 14.887},
     {60.018, 62.24, 78.301},
     true},
    {"rtx4090",
     165.2e12,
     1.008e12,
     .70,
     .55,
     .85,
     .78,
     {9.1075, 86.576, 1572.7},
     {63.309, 548.75, 7100.6},
     {3.4959, 3.6613, 4.8562},
     {18.625, 19.287, 24.067},
     true},
    {"phone-sd8g3",
     1e12,
     0.0768e12,
     .118,
     .084,
     .62,
     .55,
     {8714.9, 84563, 1628428},
     {61395, 536910, 7227248},
     {52.004, 55.082, 77.325},
     {315.61, 327.93, 416.9},
     false},
    {"cpu-2core",
     110e9,
     13.5e9,
     .70,
     .50,
     .90,
     .80,
     {13354, 129501, 2489861},
     {94081, 822525, 11058115},
     {203.8, 215.84, 302.84},
     {1236.9, 1285, 1633},
     false},
};

static void vector_holds(void **state)
{
    const struct vector_row *r = *state;
    const int64_t prompt[] = {512, 4096, 32768};
    const double cache[] = {128, 4096, 32768};
    kvt_cost_geometry small = model("llama-3.2-1b"), large = model("llama-3.1-8b");
    kvt_cost_setting s = {0};
    kvt_machine m = machine(r->peak, r->mem_bw);
    m.e_lin = r->e_lin;
    m.e_att = r->e_att;
    m.e_w = r->e_w;
    m.e_kv = r->e_kv;
    m.t_launch = r->is_gpu ? 3e-6 : 0;
    m.launches_layer = 12;
    if (!r->is_gpu)
        m.n_half = m.t_layer = m.t_step = 0;
    for (int i = 0; i < 3; i++) {
        within("1B prefill", prefill("llama-3.2-1b", &m, prompt[i]) * 1e3, r->ttft_1b[i], 1e-3);
        within("8B prefill", prefill("llama-3.1-8b", &m, prompt[i]) * 1e3, r->ttft_8b[i], 1e-3);
        within("1B step", step(&small, &m, &s, &full, cache[i], 1) * 1e3, r->step_1b[i], 1e-3);
        within("8B step", step(&large, &m, &s, &full, cache[i], 1) * 1e3, r->step_8b[i], 1e-3);
    }
}

/* ---- laws ----------------------------------------------------------------------------------
 */

/* Everything that a prediction takes, of one policy on llama-3.1-8b. */
typedef struct bench {
    kvt_cost_geometry g, d;
    kvt_published p;
    kvt_cost_work w;
    kvt_cost_load load;
    kvt_cost_setting s;
    kvt_cost_case c;
} bench;

static void open_bench(bench *b, const kvt_cost_work *w, int64_t n, int64_t budget, int64_t m)
{
    *b = (bench){.g = model("llama-3.1-8b"),
                 .d = model("llama-3.2-1b"),
                 .p = {.machine = machine(989e12, 3.35e12)},
                 .w = *w};
    b->p.machine.t_launch = 3e-6;
    b->p.machine.launches_layer = 12;
    int64_t kept = w->when != KVT_WHEN_NEVER && budget < n ? budget : n;
    int lanes = (int)b->g.g.n_kv_head;
    b->load.n_layer = (int)b->g.g.n_layer;
    b->load.n_lane = lanes;
    for (int l = 0; l < b->load.n_layer; l++)
        b->load.kept[l] =
            (kvt_cost_layer){(double)(kept * lanes), (double)kept, (double)(kept * lanes)};
    for (int64_t t = 0; t < m; t++)
        b->load.run[t] = slots(&b->g, (double)(kept + t), 1);
    b->load.n_run = (int)m;
    b->load.first = b->load.run[0];
    b->load.last = b->load.run[m > 0 ? m - 1 : 0];
    b->load.top = b->load.last;
    b->c = (kvt_cost_case){&b->g, &b->d, &b->p, &b->w, &b->load, &b->s, n, m, budget};
}

static kvt_cost predict(const bench *b)
{
    kvt_cost cost;
    kvt_cost_case c = b->c;
    c.geometry = &b->g, c.draft = &b->d, c.constants = &b->p, c.work = &b->w;
    c.load = &b->load, c.setting = &b->s;
    kvt_cost_predict(&cost, &c);
    return cost;
}

static void full_evicts_nothing(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, &full, 4096, 128, 3);
    for (int engine = KVT_ENGINE_FUSED; engine <= KVT_ENGINE_EAGER; engine++) {
        b.p.machine.engine = (kvt_engine_kind)engine;
        b.p.machine.evict_floor = 0.011;
        kvt_cost cost = predict(&b);
        assert_true(cost.evict.total == 0 && cost.evict.host == 0 && cost.evict_frac == 0);
        assert_true(cost.ttft == cost.prefill.total);
    }
}

static void a_budget_of_the_whole_prompt_evicts_nothing(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, &snapkv, 4096, 4096, 3);
    assert_true(predict(&b).evict.total == 0);
    b.w = lookaheadkv(&b.g); /* its tokens ran before one knew */
    kvt_cost cost = predict(&b);
    assert_true(cost.evict.total > 0 && cost.evict.total == cost.evict.extra);
    b.w = laq;
    cost = predict(&b);
    assert_true(cost.evict.total > 0 && cost.evict.total == cost.evict.draft);
}

static void nothing_may_be_decoded(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, &snapkv, 4096, 128, 0);
    kvt_cost cost = predict(&b);
    assert_true(cost.decode == 0 && cost.request == cost.ttft);
    assert_true(isnan(cost.step_first.total) && isnan(cost.step_mean.kv) &&
                isnan(cost.step_last.total) && isnan(cost.step_band.hi));
}

static void steps_are_summed(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, &snapkv, 4096, 128, 5);
    kvt_cost one = predict(&b);
    double sum = 0;
    for (int t = 0; t < 5; t++)
        sum += step(&b.g, &b.p.machine, &b.s, &snapkv, 128 + t, 1);
    CHECK_NEAR(one.decode, sum, 1e-12 * sum);
    assert_true(one.request == one.ttft + one.decode && one.ttft > one.prefill.total);
    CHECK_NEAR(one.step_mean.total * 5, sum, 1e-12 * sum);
    CHECK_NEAR(one.step_first.total, step(&b.g, &b.p.machine, &b.s, &snapkv, 128, 1), 1e-15);
    b.load.run[0].steps = 7; /* a run of equal steps */
    b.load.n_run = 1;
    CHECK_NEAR(predict(&b).decode, 7 * one.step_first.total, 1e-12);
}

static void twice_the_bandwidth_halves_memory(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, &snapkv, 4096, 128, 3);
    b.w.in_decode = true;
    b.w.decode_state_moves = 8;
    kvt_cost one = predict(&b);
    b.p.machine.mem_bw *= 2;
    kvt_cost two = predict(&b);
    assert_true(two.step_mean.kv == one.step_mean.kv / 2);
    assert_true(two.step_mean.weights == one.step_mean.weights / 2);
    assert_true(two.step_mean.policy == one.step_mean.policy / 2);
    assert_true(two.step_mean.copy == one.step_mean.copy / 2);
    assert_true(two.step_mean.fixed == one.step_mean.fixed);
    assert_true(two.evict.copy == one.evict.copy / 2 && two.evict.host == one.evict.host);
    assert_true(two.prefill.linear == one.prefill.linear); /* bound by math */
}

static void eager_is_never_cheaper(void **state)
{
    (void)state;
    const kvt_score_kind kinds[] = {KVT_SCORE_NONE,  KVT_SCORE_ROWS,    KVT_SCORE_COLUMNS,
                                    KVT_SCORE_KEYS,  KVT_SCORE_MOMENTS, KVT_SCORE_NETWORK,
                                    KVT_SCORE_REPEAT};
    for (int i = 0; i < CHECK_COUNT(kinds); i++) {
        for (int64_t n = 512; n <= 131072; n *= 16) {
            bench b;
            open_bench(&b, &snapkv, n, 128, 1);
            b.w.score = kinds[i];
            b.w.in_decode = true;
            b.w.decode_rows = 1;
            b.w.network_flops = kinds[i] == KVT_SCORE_NETWORK ? 1e6 : 0;
            kvt_cost fused = predict(&b);
            b.p.machine.engine = KVT_ENGINE_EAGER;
            b.p.machine.evict_factor = 3;
            b.p.machine.evict_floor = 0.011;
            kvt_cost eager = predict(&b);
            assert_true(eager.evict.total >= fused.evict.total);
            assert_true(eager.step_mean.total >= fused.step_mean.total);
        }
    }
}

static void a_ring_pays_no_floor(void **state)
{
    (void)state;
    bench b;
    kvt_cost_work ring = {.when = KVT_WHEN_IN_LAYER};
    open_bench(&b, &ring, 4096, 128, 1);
    b.p.machine.engine = KVT_ENGINE_EAGER;
    b.p.machine.evict_factor = 3;
    b.p.machine.evict_floor = 0.011;
    kvt_cost cost = predict(&b);
    assert_true(cost.evict.total == cost.evict.copy + cost.evict.host);
    CHECK_NEAR(cost.evict.host, 2 * 32 * 3e-6, 1e-15);
    assert_true(kvt_cost_eager_score(&b.g, &b.p.machine, 0, 4096) == 0);
}

static void a_host_floor_never_lowers(void **state)
{
    (void)state;
    kvt_cost_geometry g = model("llama-3.2-1b");
    kvt_machine m = machine(989e12, 3.35e12);
    double bare = step(&g, &m, &(kvt_cost_setting){0}, &full, 4096, 1), last = bare;
    for (double smooth = 0; smooth <= 8; smooth += 4) {
        m.host_smooth = smooth;
        for (double floor = 0; floor < 0.01; floor += 0.0005) {
            m.host_floor_step = floor;
            double t = step(&g, &m, &(kvt_cost_setting){0}, &full, 4096, 1);
            assert_true(t >= bare && t >= floor && (floor == 0 || t >= last));
            last = t;
        }
    }
}

static void the_cache_is_faster(void **state)
{
    (void)state;
    kvt_cost_geometry g = model("smollm2-135m");
    kvt_machine m = machine(989e12, 1e12);
    m.t_step = m.t_layer = 0;
    double far = step(&g, &m, &(kvt_cost_setting){0}, &full, 100, 1);
    m.cache_bytes =
        2 * (double)(g.theta_lin + g.theta_head) + (double)kvt_cost_cache_bytes(&g, 100);
    m.cache_gain = 2;
    CHECK_NEAR(step(&g, &m, &(kvt_cost_setting){0}, &full, 100, 1), far / 2, 1e-12);
    assert_true(step(&g, &m, &(kvt_cost_setting){0}, &full, 101, 1) > far);
}

static void devices_want_a_link(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, &snapkv, 4096, 128, 2);
    kvt_cost one = predict(&b);
    b.s.tensor = 2;
    kvt_cost none = predict(&b);
    assert_true(isnan(none.prefill.total) && isnan(none.step_mean.total) && isnan(none.ttft));
    assert_true(isnan(none.ttft_band.lo));
    b.p.machine.link_bw = 450e9;
    kvt_cost two = predict(&b);
    assert_true(two.prefill.linear == one.prefill.linear / 2);
    CHECK_NEAR(two.step_mean.kv, one.step_mean.kv / 2, 1e-15);
    /* 64 all-reduces of 4096 x 4096 x 2 bytes, half of it twice, and their launches */
    CHECK_NEAR(two.prefill.exchange, 64 * (4096.0 * 4096 * 2 / 450e9 + 3e-6), 1e-12);
}

static void a_draft_wants_its_model(void **state)
{
    (void)state;
    bench b;
    kvt_evict_cost e;
    open_bench(&b, &speckv, 4096, 128, 2);
    kvt_cost_case c = {&b.g, NULL, &b.p, &b.w, &b.load, &b.s, 4096, 2, 128};
    cost_evict(&e, &c, NULL);
    assert_true(isnan(e.prefill) && isnan(e.draft) && isnan(e.total));
    assert_int_equal(predict(&b).draft_tokens, 32);
    b.p.draft_tokens = 8;
    assert_int_equal(predict(&b).draft_tokens, 8);
}

static void a_measured_step_is_of_its_model(void **state)
{
    (void)state; /* 15 ms were measured on 8B; weights of 70B alone take 49 ms to read */
    kvt_cost_geometry g = model("llama-3.1-70b");
    kvt_published p = measured(1.99);
    kvt_cost_setting s = {0};
    kvt_evict_cost e;
    double steps = 0;
    p.machine.evict_factor = p.machine.evict_floor = 0;
    p.draft_tokens = 32;
    p.draft_step = 15.14e-3;
    kvt_cost_work one_stage = laq;
    one_stage.first_stage = false;
    for (int i = 0; i < 32; i++)
        steps += step(&g, &p.machine, &s, NULL, 128 + i, 1);
    assert_true(steps > 32 * 49e-3);
    p.machine.kv_traffic = 5; /* and of the host nothing: it is what the device must do */
    p.machine.host_floor_step = 1;
    cost_evict(&e, &(kvt_cost_case){&g, NULL, &p, &one_stage, NULL, &s, 4096, 0, 128}, NULL);
    CHECK_NEAR(e.draft, steps, 1e-12 * steps);
    p.draft_step = 0.060;
    cost_evict(&e, &(kvt_cost_case){&g, NULL, &p, &one_stage, NULL, &s, 4096, 0, 128}, NULL);
    CHECK_NEAR(e.draft, 32 * 0.060, 1e-12);
}

static void layers_that_keep_all_cost_nothing(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, &snapkv, 4096, 128, 1);
    kvt_cost all = predict(&b);
    for (int l = 0; l < 16; l++)
        b.load.kept[l].slots = 4096 * 8;
    kvt_cost half = predict(&b);
    CHECK_NEAR(half.evict.score, all.evict.score / 2, 1e-15);
    CHECK_NEAR(half.evict.copy, all.evict.copy / 2, 1e-15);
    CHECK_NEAR(half.evict.host, all.evict.host / 2, 1e-15);
}

/* ---- bands and names -----------------------------------------------------------------------
 */

static void bands_follow_the_machine(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, &snapkv, 4096, 128, 1);
    kvt_machine *m = &b.p.machine;
    m->band_prefill = 0.03, m->band_evict = 0.05, m->band_draft = 0.12;
    m->band_decode_lo = 0.1, m->band_decode_hi = 0.36, m->band_bytes = 0.01;
    m->range_from = 4096, m->range_to = 32768, m->range_head_dim = 128;
    kvt_cost cost = predict(&b);
    assert_false(cost.out_of_range);
    assert_true(cost.ttft_band.lo == 0.03 && cost.evict_band.hi == 0.05);
    assert_true(cost.step_band.lo == 0.1 && cost.step_band.hi == 0.36);
    m->range_from = 4 * 4096 + 1; /* more than four times outside */
    cost = predict(&b);
    assert_true(cost.out_of_range && cost.ttft_band.lo == 0.06 && cost.step_band.hi == 0.72);
    m->band_decode_lo = 0.8; /* a time is not below zero */
    assert_true(predict(&b).step_band.lo == 1);
    m->range_from = 4 * 4096;
    assert_false(predict(&b).out_of_range);
    m->range_to = 1024;
    assert_false(predict(&b).out_of_range);
    m->range_to = 1023;
    assert_true(predict(&b).out_of_range);
    m->range_to = 32768;
    m->range_head_dim = 64;
    assert_true(predict(&b).out_of_range);
    m->range_from = 0; /* never calibrated */
    assert_false(predict(&b).out_of_range);
    b.w = laq;
    assert_true(predict(&b).evict_band.lo == 0.12);
}

static void bands_of_eager_evictions(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, &snapkv, 4096, 128, 1);
    b.p.machine.engine = KVT_ENGINE_EAGER;
    b.p.machine.band_evict = 0.05;
    b.p.machine.evict_factor = 1.99;
    b.p.machine.evict_floor = 0.011;
    assert_true(predict(&b).evict_band.lo == 0.20); /* the floor is what it takes */
    b.p.machine.evict_floor = 0.001;
    assert_true(predict(&b).evict_band.lo == 0.05);
    b.p.is_default = true;
    CHECK_NEAR(predict(&b).evict_band.hi, 1.0 / 3, 1e-15);
}

static void what_binds(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, &snapkv, 8192, 128, 1);
    kvt_cost cost = predict(&b);
    assert_int_equal(cost.ttft_bound, KVT_BOUND_MATH);
    assert_int_equal(cost.step_bound, KVT_BOUND_MEMORY);
    b.w = laq; /* its steps read the weights */
    assert_int_equal(predict(&b).evict_bound, KVT_BOUND_MEMORY);
    b.w = snapkv;
    b.s.batch = 4000;
    cost = predict(&b);
    assert_int_equal(cost.step_bound, KVT_BOUND_MATH);
    within("math of a batch", cost.step_mean.weights,
           2 * 4000.0 * (6979321856.0 + 128256.0 * 4096) / (989e12 * 0.65), 1e-12);
    b.s.batch = 0;
    b.p.machine.host_floor_step = 1;
    b.p.machine.launches_layer = 1e4;
    b.p.machine.t_launch = 1e-4;
    cost = predict(&b);
    assert_int_equal(cost.ttft_bound, KVT_BOUND_HOST);
    assert_int_equal(cost.step_bound, KVT_BOUND_HOST);
    assert_int_equal(cost.evict_bound, KVT_BOUND_HOST);
    assert_string_equal(kvt_bottleneck_name(KVT_BOUND_MEMORY), "memory");
    assert_string_equal(kvt_memory_phase_name(KVT_PHASE_FFN), "prefill feed-forward");
    assert_string_equal(kvt_cost_profile_name(KVT_PROFILE_AS_PUBLISHED), "as-published");
    assert_string_equal(kvt_bottleneck_name((kvt_bottleneck)3), "");
    assert_string_equal(kvt_memory_phase_name((kvt_memory_phase)7), "");
    assert_string_equal(kvt_cost_profile_name((kvt_cost_profile)3), "");
}

int main(void)
{
    struct CMUnitTest tests[64] = {
        cmocka_unit_test(theory_of_the_forward_pass),
        cmocka_unit_test(theory_knows_no_other_policy),
        cmocka_unit_test(theory_of_batches_and_short_prompts),
        cmocka_unit_test(theory_ratios),
        cmocka_unit_test(scorers_are_counted),
        cmocka_unit_test(measured_is_reproduced),
        cmocka_unit_test(h20_is_reproduced),
        cmocka_unit_test(pro_6000_is_reproduced),
        cmocka_unit_test(fast_dms_is_reproduced),
        cmocka_unit_test(a_framework_is_reproduced),
        cmocka_unit_test(order_at_131k),
        cmocka_unit_test(full_evicts_nothing),
        cmocka_unit_test(a_budget_of_the_whole_prompt_evicts_nothing),
        cmocka_unit_test(nothing_may_be_decoded),
        cmocka_unit_test(steps_are_summed),
        cmocka_unit_test(twice_the_bandwidth_halves_memory),
        cmocka_unit_test(eager_is_never_cheaper),
        cmocka_unit_test(a_ring_pays_no_floor),
        cmocka_unit_test(a_host_floor_never_lowers),
        cmocka_unit_test(the_cache_is_faster),
        cmocka_unit_test(devices_want_a_link),
        cmocka_unit_test(a_draft_wants_its_model),
        cmocka_unit_test(a_measured_step_is_of_its_model),
        cmocka_unit_test(layers_that_keep_all_cost_nothing),
        cmocka_unit_test(bands_follow_the_machine),
        cmocka_unit_test(bands_of_eager_evictions),
        cmocka_unit_test(what_binds),
    };
    int n = 0;
    while (tests[n].test_func)
        n++;
    CHECK_ROWS(tests, &n, theory, theory_is_reproduced);
    CHECK_ROWS(tests, &n, params, adapters_are_counted);
    CHECK_ROWS(tests, &n, vectors, vector_holds);
    return CHECK_RUN("cost_time", tests, n);
}
