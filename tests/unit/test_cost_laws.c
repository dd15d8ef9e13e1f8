/* test_cost_laws - what must hold of every prediction, whatever the policy, the model, the
 * machine and the setting: parts sum to totals, nothing is negative, and the orders of the cost
 * model's section 9 with the corrections of its 9b. No number here comes from kvt. */
#include "tests/check.h"

#include <math.h>

#include "tests/unit/cost_laws.h"

/* Sums of an X-macro's parts; t counts parts that are negative or no number, too. */
#define PART(name, help) sum += x->name, low = fmin(low, x->name);
#define SUM_OF(type, PARTS)                                                                   \
    static void sums_##type(law_tally *t, const kvt_##type *x, const law_case *c)             \
    {                                                                                         \
        double sum = 0, low = x->total;                                                       \
        PARTS(PART)                                                                           \
        law_is(t, low >= 0 && x->total < INFINITY, c, "a part of " #type " is negative", low, \
               x->total);                                                                     \
        law_near(t, sum, x->total, 1e-9, c, "parts of " #type " sum to it");                  \
    }
SUM_OF(prefill_cost, KVT_PREFILL_PARTS)
SUM_OF(evict_cost, KVT_EVICT_PARTS)
SUM_OF(decode_cost, KVT_DECODE_PARTS)
SUM_OF(memory_cost, KVT_MEMORY_PARTS)

/* ---- every prediction ----------------------------------------------------------------------
 */

/* What scales a time or a size may take beside its total. */
static void sound_band(law_tally *t, kvt_band b, const law_case *c, const char *what)
{
    law_is(t, b.lo >= 0 && b.lo <= 1 && b.hi >= 0 && b.hi < INFINITY, c, what, b.lo, b.hi);
}

static void sound_times(law_tally *t, const law_case *c)
{
    const kvt_cost *x = &c->cost;
    sums_prefill_cost(t, &x->prefill, c);
    sums_evict_cost(t, &x->evict, c);
    law_is(t, x->prefill.total > 0, c, "a prefill takes time", x->prefill.total, 0);
    law_near(t, x->ttft, x->prefill.total + x->evict.total, 1e-9, c, "ttft");
    law_near(t, x->evict_frac, x->evict.total / x->prefill.total, 1e-9, c, "share");
    sound_band(t, x->ttft_band, c, "band of the ttft");
    sound_band(t, x->evict_band, c, "band of the eviction");
    if (c->n_response == 0)
        return;
    sums_decode_cost(t, &x->step_first, c);
    sums_decode_cost(t, &x->step_mean, c);
    sums_decode_cost(t, &x->step_last, c);
    law_is(t, x->step_first.total > 0, c, "a step takes time", x->step_first.total, 0);
    law_near(t, x->request, x->ttft + x->decode, 1e-9, c, "request");
    law_near(t, x->step_mean.total * (double)c->n_response, x->decode, 1e-9, c, "mean step");
    sound_band(t, x->step_band, c, "band of a step");
}

static void sound_memory(law_tally *t, const law_case *c)
{
    const kvt_cost *x = &c->cost;
    double most = 0;
    kvt_phase_row row[KVT_COST_PHASES_MAX];
    kvt_cost_case cc = law_cost_case(c);
    int n = kvt_cost_timeline(row, &cc);
    law_is(t, n > 0 && n <= KVT_COST_PHASES_MAX, c, "phases", n, KVT_COST_PHASES_MAX);
    for (int i = 0; i < n; i++) {
        sums_memory_cost(t, &row[i].memory, c);
        most = fmax(most, row[i].memory.total);
    }
    law_near(t, x->peak.total, most, 1e-12, c, "the peak is the largest of the phases");
    sums_memory_cost(t, &x->peak, c);
    sums_memory_cost(t, &x->steady, c);
    law_least(t, x->peak.total, x->steady.total, c, "the peak is no less than the end");
    sound_band(t, x->memory_band, c, "band of the memory");
    double room = c->constants.machine.mem_bytes;
    if (room > 0) {
        law_near(t, x->short_bytes, fmax(0, x->peak.total - room), 1e-9, c, "short by");
        law_is(t, x->max_batch >= 0 && x->max_context >= 0, c, "what fits", 0, 0);
    } else {
        law_is(t, isnan(x->short_bytes) && x->max_batch == -1 && x->max_context == -1, c,
               "an unknown memory says nothing of what fits", x->short_bytes, 0);
    }
}

/* Devices without a link have no time for what they exchange: it is unknown, not 0. */
static void sound(law_tally *t, const law_case *c)
{
    if (c->setting.tensor > 1 && !(c->constants.machine.link_bw > 0))
        law_is(t, isnan(c->cost.ttft) && isnan(c->cost.prefill.total), c, "no link",
               c->cost.ttft, c->cost.prefill.total);
    else
        sound_times(t, c);
    sound_memory(t, c);
}

static const kvt_cost_setting settings[] = {
    {0},
    {.batch = 8, .prefill_batch = 3, .kv_bits = 8, .page_tokens = 16},
    {.batch = 3,
     .kv_bits = 4,
     .weight_bits = 4.5,
     .page_tokens = 256,
     .shared_pages = true,
     .chunk = 2048,
     .fragmentation = 0.05},
    {.tensor = 4, .all_logits = true, .full_windows = true},
    {.batch = 2, .prefill_batch = 1, .masked = true, .tensor = 16},
};

static void test_every_prediction_is_sound(void **state)
{
    static const int64_t lengths[] = {1, 100, 4096, 131072}, responses[] = {1, 256, 0};
    static const int64_t budgets[] = {1, 300, 16384};
    law_tally t = {0};
    (void)state;
    /* A counter picks lengths and settings so that each pair meets each policy. */
    int at = 0;
    for (int p = 0; p < law.n_policy; p++)
        for (int g = 0; g < LAW_GEOMETRIES; g++)
            for (int m = 0; m < LAW_MACHINES; m++)
                for (int k = 0; k < 10; k++, at++) {
                    law_case c = law_usual(law.policy[p]);
                    law_on(&c, g, m);
                    c.profile = k & 1 ? KVT_PROFILE_AS_PUBLISHED : KVT_PROFILE_FUSED;
                    c.setting = settings[k / 2];
                    c.n_prompt = lengths[at % 4];
                    c.n_response = responses[at / 4 % 3];
                    c.budget = budgets[at / 12 % 3];
                    c.act = (kvt_act)(at / 36 % 3);
                    law_all(&c);
                    sound(&t, &c);
                }
    law_end(&t, 1000000);
}

/* ---- policies that do nothing --------------------------------------------------------------
 */

static void test_full_costs_nothing(void **state)
{
    law_tally t = {0};
    (void)state;
    for (int g = 0; g < LAW_GEOMETRIES; g++)
        for (int m = 0; m < LAW_MACHINES; m++)
            for (int profile = 0; profile < 3; profile++)
                for (int64_t n = 128; n <= 131072; n *= 8) {
                    law_case c = law_usual("full");
                    law_on(&c, g, m);
                    c.profile = (kvt_cost_profile)profile;
                    c.n_prompt = n;
                    law_all(&c);
                    law_is(&t, c.cost.evict.total == 0 && c.cost.evict.host == 0, &c,
                           "the full cache evicts", c.cost.evict.total, 0);
                    law_is(&t, c.cost.ttft == c.cost.prefill.total, &c, "ttft", c.cost.ttft,
                           c.cost.prefill.total);
                    if (profile == KVT_PROFILE_PAPER_LKV)
                        continue;
                    law_is(&t, c.cost.step_first.policy == 0 && c.cost.step_first.copy == 0, &c,
                           "the full cache scores", c.cost.step_first.policy, 0);
                    law_is(&t, c.cost.peak.state == 0 && c.cost.peak.adapter == 0, &c,
                           "the full cache keeps more", c.cost.peak.state, 0);
                    law_near(&t, c.cost.steady.kv,
                             kvt_cost_cache_bytes(c.geometry, n + c.n_response), 1e-12, &c,
                             "the full cache holds every token");
                }
    law_end(&t, 1000);
}

/* A budget of the prompt or more: nothing is evicted, nothing saved, and it is no gift either.
 */
static void test_room_for_all_saves_nothing(void **state)
{
    law_tally t = {0};
    (void)state;
    for (int p = 0; p < law.n_policy; p++)
        for (int g = 0; g < LAW_GEOMETRIES; g++)
            for (int profile = 0; profile < 2; profile++)
                for (int k = 0; k < 4; k++) {
                    law_case c = law_usual(law.policy[p]), full = law_usual("full");
                    law_on(&c, g, g % LAW_MACHINES);
                    c.profile = (kvt_cost_profile)profile;
                    c.n_prompt = 4096;
                    /* The third: so much that decoded tokens find room, too. */
                    c.budget = c.n_prompt + (const int[]){0, 1, 1 << 20, 0}[k];
                    c.setting.masked = k == 3;
                    full.geometry = c.geometry, full.machine = c.machine;
                    full.n_prompt = c.n_prompt, full.profile = c.profile;
                    law_all(&c), law_all(&full);
                    law_least(&t, c.cost.evict.total, 0, &c, "overhead");
                    law_is(&t, c.cost.evict.copy == 0 && c.cost.evict.select == 0, &c,
                           "nothing is evicted, yet something moves", c.cost.evict.copy,
                           c.cost.evict.select);
                    law_least(&t, c.cost.peak.total, full.cost.peak.total, &c, "peak");
                    for (int l = 0; l < c.load.n_layer; l++)
                        law_near(&t, c.load.kept[l].slots / c.load.n_lane,
                                 full.load.kept[l].slots / full.load.n_lane, 1e-12, &c,
                                 "slots of a lane");
                    if (!c.work.in_decode || k == 2)
                        law_least(&t, c.cost.steady.kv, full.cost.steady.kv, &c, "steady");
                }
    law_end(&t, 10000);
}

static void test_no_response(void **state)
{
    law_tally t = {0};
    (void)state;
    for (int p = 0; p < law.n_policy; p++) {
        law_case c = law_usual(law.policy[p]), one = c;
        c.n_response = 0, one.n_response = 1;
        law_all(&c), law_all(&one);
        law_is(&t,
               isnan(c.cost.step_first.total) && isnan(c.cost.step_mean.total) &&
                   isnan(c.cost.step_last.total),
               &c, "a step that is not", c.cost.step_first.total, 0);
        law_near(&t, c.cost.ttft, one.cost.ttft, 0, &c, "ttft");
        law_is(&t, !(c.cost.decode > 0), &c, "decode", c.cost.decode, 0);
        law_least(&t, one.cost.peak.total, c.cost.peak.total, &c, "peak");
        law_is(&t, c.cost.steady.total > 0, &c, "steady", c.cost.steady.total, 0);
    }
    law_end(&t, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_prediction_is_sound),
        cmocka_unit_test(test_full_costs_nothing),
        cmocka_unit_test(test_room_for_all_saves_nothing),
        cmocka_unit_test(test_no_response),
    };
    return cmocka_run_group_tests(tests, law_open, law_close);
}
