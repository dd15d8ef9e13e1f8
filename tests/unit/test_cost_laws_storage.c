/* test_cost_laws_storage - how keys and values are stored: by query head, all of them, late or
 * early, in chunks, with logits. */
#include "tests/check.h"

#include <math.h>

#include "tests/unit/cost_laws.h"

static void test_sets_by_query_head(void **state)
{
    law_tally t = {0};
    (void)state;
    for (int p = 0; p < law.n_policy; p++)
        for (int g = 0; g < LAW_GEOMETRIES; g++) {
            law_case a = law_made(p, g, 0, KVT_PROFILE_FUSED), b;
            if (a.work.when == KVT_WHEN_NEVER || a.work.keeps_all)
                continue;
            a.work.by_query_head = false, law_load(&a), law_predict(&a);
            b = a;
            b.work.by_query_head = true, law_load(&b), law_predict(&b);
            double group = (double)(a.geometry->g.n_head / a.geometry->g.n_kv_head);
            law_near(&t, b.cost.steady.kv, group * a.cost.steady.kv, 1e-9, &a, "cache");
            law_near(&t, b.cost.kv_mean, group * a.cost.kv_mean, 1e-9, &a, "mean cache");
            law_near(&t, b.cost.step_last.kv, group * a.cost.step_last.kv, 1e-9, &a, "reading");
            law_near(&t, b.cost.evict.copy, group * a.cost.evict.copy, 1e-9, &a, "copy");
        }
    law_end(&t, 1000);
}

/* Nothing leaves memory: kv heads hold every token, whatever a row reads of them. */
static void test_what_keeps_all(void **state)
{
    law_tally t = {0};
    (void)state;
    for (int p = 0; p < law.n_policy; p++)
        for (int g = 0; g < LAW_GEOMETRIES; g++) {
            law_case c = law_made(p, g, 0, KVT_PROFILE_FUSED);
            double all = kvt_cost_cache_bytes(c.geometry, c.n_prompt + c.n_response);
            if (c.work.keeps_all)
                law_near(&t, c.cost.steady.kv, all, 1e-9, &c, "keeps all");
            /* Masks free nothing; a lane a query head would hold each set by itself. */
            law_case masked = c;
            masked.setting.masked = true;
            law_load(&masked), law_predict(&masked);
            law_near(&t, masked.cost.steady.kv, all, 1e-9, &masked, "masked");
            law_least(&t, masked.cost.peak.total, all, &masked, "peak");
        }
    law_end(&t, 500);
}

static void test_when_layers_are_cut(void **state)
{
    law_tally t = {0};
    (void)state;
    for (int p = 0; p < law.n_policy; p++)
        for (int g = 0; g < LAW_GEOMETRIES; g++)
            for (int64_t n = 1024; n <= 65536; n *= 8) {
                law_case a = law_usual(law.policy[p]);
                law_on(&a, g, 0);
                a.n_prompt = n;
                law_all(&a);
                if (a.work.when == KVT_WHEN_NEVER || a.work.keeps_all || a.work.by_query_head)
                    continue;
                /* State starts with the cut and may be more than the slots that went (MorphKV).
                 */
                a.work.state_slot = a.work.state_lane = 0;
                law_case late = a;
                a.work.when = KVT_WHEN_IN_LAYER, law_predict(&a);
                late.work.when = KVT_WHEN_AFTER_PREFILL, law_predict(&late);
                double layer = 0;
                for (int l = 0; l < a.load.n_layer; l++) {
                    double w = a.geometry->g.window[l];
                    layer = fmax(layer, w > 0 ? fmin(w, (double)n) : (double)n);
                }
                layer *= kvt_cost_token_bytes(a.geometry, 16, 0);
                law_least(&t, late.cost.peak.total, a.cost.peak.total, &a, "late cut's peak");
                law_least(&t, a.cost.peak.total - a.cost.peak.weights, layer, &a, "one layer");
                law_least(&t, late.cost.peak.kv + late.cost.peak.scratch,
                          kvt_cost_cache_bytes(a.geometry, n), &late, "all layers");
            }
    law_end(&t, 1000);
}

/* What the layers hold as the prompt goes through them (7.5): each of the earlier ones what it
 * keeps, or all of it where layers wait for each other; this one all of it, till it is cut. */
static void one_timeline(law_tally *t, const law_case *c)
{
    kvt_phase_row row[KVT_COST_PHASES_MAX];
    kvt_cost_case cc = law_cost_case(c);
    int n = kvt_cost_timeline(row, &cc), seen = 0;
    double slot = kvt_cost_token_bytes(c->geometry, 16, 0);
    double lane = slot / (double)c->geometry->g.n_kv_head, before = 0, all = 0, kept = 0;
    for (int i = 0; i < n; i++) {
        int l = row[i].layer;
        double kv = row[i].memory.kv, w = l >= 0 ? c->geometry->g.window[l] : 0;
        double n_all = (double)c->n_prompt, pass = n_all + (double)c->work.extra_tokens;
        double dense = slot * (w > 0 ? fmin(w, n_all) : n_all);
        double passing = slot * (w > 0 ? fmin(w, pass) : pass);
        double left = l >= 0 ? c->load.kept[l].held * lane : 0;
        if (c->work.when == KVT_WHEN_AFTER_PREFILL)
            left = dense;
        if (row[i].phase == KVT_PHASE_ATTENTION) {
            law_near(t, kv, before + passing, 1e-9, c, "attention of a layer");
            all += dense, kept += c->load.kept[l].held * lane, seen++;
        } else if (row[i].phase == KVT_PHASE_FFN) {
            law_near(t, kv, before += left, 1e-9, c, "feed-forward of a layer");
        } else if (row[i].phase == KVT_PHASE_EVICT) {
            law_near(t, kv, all, 1e-9, c, "nothing is gone before the copy");
            law_least(t, row[i].memory.scratch, kept, c, "the copy");
            seen++;
        }
    }
    law_is(t, seen >= c->load.n_layer + (c->work.when == KVT_WHEN_AFTER_PREFILL), c, "phases",
           seen, c->load.n_layer);
}

static void test_layer_by_layer(void **state)
{
    law_tally t = {0};
    (void)state;
    for (int p = 0; p < law.n_policy; p++)
        for (int g = 0; g < LAW_GEOMETRIES; g++)
            for (int late = 0; late < 2; late++) {
                law_case c = law_made(p, g, 0, KVT_PROFILE_FUSED);
                if (c.work.when == KVT_WHEN_NEVER || c.work.keeps_all || c.work.by_query_head)
                    continue;
                c.work.when = late ? KVT_WHEN_AFTER_PREFILL : KVT_WHEN_IN_LAYER;
                law_load(&c);
                one_timeline(&t, &c);
            }
    law_end(&t, 10000);
}

static void test_what_only_raises_memory(void **state)
{
    law_tally t = {0};
    (void)state;
    for (int p = 0; p < law.n_policy; p++)
        for (int g = 0; g < LAW_GEOMETRIES; g++)
            for (int profile = 0; profile < 2; profile++) {
                law_case a = law_made(p, g, 0, (kvt_cost_profile)profile), b = a;
                b.setting.fragmentation = 0.25, law_predict(&b);
                law_is(&t,
                       b.cost.peak.total > a.cost.peak.total &&
                           b.cost.peak.total <= 1.25 * a.cost.peak.total * (1 + 1e-9),
                       &a, "fragmentation", b.cost.peak.total, a.cost.peak.total);
                b = a;
                b.setting.all_logits = true, law_predict(&b);
                /* The larger of logits and activations, never the sum; 2 + 4 bytes each. */
                double logits = (double)a.n_prompt * (double)a.geometry->g.n_vocab * 6;
                law_least(&t, b.cost.peak.total, a.cost.peak.total, &a, "logits");
                law_least(&t, a.cost.peak.total + logits, b.cost.peak.total, &a, "only those");
                law_least(&t, b.cost.peak.total, a.cost.peak.weights + logits, &a,
                          "all of them");
                b = a;
                b.setting.chunk = 1024, law_predict(&b);
                /* No layer is through before the last chunk: none is cut before it. */
                law_case late = a;
                if (a.work.when == KVT_WHEN_IN_LAYER)
                    late.work.when = KVT_WHEN_AFTER_PREFILL, law_predict(&late);
                law_least(&t, late.cost.peak.total, b.cost.peak.total, &a, "chunks hold less");
                law_least(&t, b.cost.prefill.total, a.cost.prefill.total, &a,
                          "and take longer");
                b = a;
                b.setting.full_windows = true, law_load(&b), law_predict(&b);
                law_least(&t, b.cost.peak.total, a.cost.peak.total, &a, "whole windows");
                law_least(&t, b.cost.steady.kv, a.cost.steady.kv, &a, "whole windows' cache");
            }
    law_end(&t, 5000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sets_by_query_head),      cmocka_unit_test(test_what_keeps_all),
        cmocka_unit_test(test_when_layers_are_cut),     cmocka_unit_test(test_layer_by_layer),
        cmocka_unit_test(test_what_only_raises_memory),
    };
    return cmocka_run_group_tests(tests, law_open, law_close);
}
