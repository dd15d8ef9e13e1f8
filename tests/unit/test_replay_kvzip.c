/* test_replay_kvzip.c - KVzip and LAQ through a whole replay: scores against plain sums over
 * the numbers of the trace, and lanes of all layers that compete. */
#include "tests/check.h"
#include "tests/runs.h"
#include "tests/synth_more.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static synth *made;

static kvt_results *replay(const char *name, const char *policy, const char *budget)
{
    static char path[400];
    const char *trace = path;
    kvt_err err;
    kvt_replay_counts counts;
    synth_spec spec = synth_default();
    spec.n_layer = 3;
    spec.draft_budget[0] = 6;
    spec.force = true;
    synth_free(made);
    made = synth_new(&spec);
    synth_probes(made);
    snprintf(path, sizeof path, "%s/%s.h5", runs_dir, name);
    CHECK_OK(synth_write(made, path, &err), &err);
    kvt_replay_spec run = runs_spec(&trace, policy, budget);
    return runs_replay(&run, &counts);
}

static int done(void **state)
{
    synth_free(made);
    made = NULL;
    return runs_close(state);
}

/* ---- plain versions ------------------------------------------------------------------------
 */

enum { PREFIX = 2 }; /* tokens that the synthetic trace flags as the template's */

static double zip_row(const kvt_probe_data *p, int l, int h, int64_t i, int64_t begin,
                      int64_t end, int64_t first, int64_t j)
{
    double sum = 0;
    for (int64_t k = 0; k < PREFIX && k < begin; k++)
        sum += exp(synth_probe_logit(made, p, l, h, i, k));
    for (int64_t k = begin; k < end; k++)
        sum += exp(synth_probe_logit(made, p, l, h, i, k));
    for (int64_t k = first; k <= i; k++)
        sum += exp(synth_probe_own(made, p, l, h, i, k));
    return exp(synth_probe_logit(made, p, l, h, i, j)) / sum;
}

static double zip_score(const kvt_probe_data *p, int l, int g, int64_t j, bool plus)
{
    const int32_t *begin = p->data[KVT_PROBE_SET_BEGIN], *end = p->data[KVT_PROBE_SET_END];
    const int32_t *from = p->data[KVT_PROBE_SET_FROM], *of = p->data[KVT_PROBE_SET_SEGMENT];
    const float *norm = p->data[KVT_PROBE_SET_NORM];
    kvt_view wo = synth_view(made, KVT_DS_WO_L2, l);
    int per = made->spec.n_head / made->spec.n_kv_head, c = 0;
    int64_t first = 0;
    double best = 0;
    while (j >= end[c])
        c++;
    while (of[first] < c)
        first++;
    for (int64_t i = from[c]; i < p->info.n_row && of[i] == c; i++)
        for (int h = g * per; h < (g + 1) * per; h++) {
            double a = zip_row(p, l, h, i, begin[c], end[c], first, j);
            if (plus)
                a *= (double)((const float *)wo.data)[h * wo.stride[0] + j] /
                     (double)norm[l * p->info.n_row + i];
            best = a > best ? a : best;
        }
    return best;
}

static void check_zip(const kvt_result *r, bool plus)
{
    const kvt_probe_data *p = synth_probe_of(made, KVT_PROBE_REPEAT, 0);
    for (int l = 0; l < made->spec.n_layer; l++)
        for (int g = 0; g < made->spec.n_kv_head; g++)
            for (int64_t j = 0; j < made->spec.n_prompt; j++) {
                int64_t at = (l * made->spec.n_kv_head + g) * made->spec.n_prompt + j;
                assert_int_equal(r->pinned[at], j < PREFIX);
                if (j >= PREFIX)
                    CHECK_NEAR((double)r->score[at], zip_score(p, l, g, j, plus), 1e-5);
            }
}

static void zip_is_its_formula(void **state)
{
    (void)state;
    static const char *const policies[] = {"kvzip", "kvzip:scope=model", "kvzip:plus=true",
                                           "kvzip:plus=true,scope=model"};
    for (int i = 0; i < 4; i++) {
        kvt_results *s = replay("zip", policies[i], "8,12");
        check_zip(runs_result(s, "kvzip"), i >= 2);
        kvt_results_free(s);
    }
}

/* Every token that stays scores at least what any that went did, in whatever lane. */
static void lanes_of_all_layers_compete(void **state)
{
    (void)state;
    enum { B = 9 };
    kvt_results *s = replay("model", "kvzip:scope=model", "9");
    const kvt_result *r = runs_result(s, "kvzip");
    int64_t N = made->spec.n_prompt, T = N + made->spec.n_response, kept = 0, unequal = 0;
    int64_t n_lane = (int64_t)made->spec.n_layer * made->spec.n_kv_head;
    float least = INFINITY, most = -INFINITY;
    for (int64_t a = 0; a < n_lane; a++) {
        int64_t mine = 0;
        for (int64_t j = 0; j < N; j++) {
            float score = r->score[a * N + j];
            bool stays = r->evict_step[a * T + j] < 0;
            mine += stays;
            if (r->pinned[a * N + j])
                assert_true(stays);
            else if (stays)
                least = score < least ? score : least;
            else
                most = score > most ? score : most;
        }
        kept += mine;
        unequal += mine != B;
    }
    assert_int_equal(kept, B * n_lane);
    assert_true(unequal > 0 && least >= most);
    kvt_results_free(s);
}

/* ---- LAQ -----------------------------------------------------------------------------------
 */

static void laq_is_its_formula(void **state)
{
    (void)state;
    for (int causal = 0; causal < 2; causal++) {
        kvt_results *s = replay("laq", causal ? "laq:pool=0,mask=causal" : "laq:pool=0", "6");
        const kvt_result *r = runs_result(s, "laq");
        const kvt_probe_data *p = synth_probe_of(made, KVT_PROBE_DRAFT, 6);
        int64_t N = made->spec.n_prompt, m = p->info.n_row;
        for (int l = 0; l < made->spec.n_layer; l++)
            for (int h = 0; h < made->spec.n_head; h++)
                for (int64_t j = 0; j < N; j++) {
                    double want = 0;
                    for (int64_t i = 0; i < m; i++) {
                        int64_t see = causal ? N : N - m + i + 1;
                        double sum = 0;
                        for (int64_t k = 0; k < see; k++)
                            sum += exp(synth_probe_logit(made, p, l, h, i, k));
                        if (j < see)
                            want += exp(synth_probe_logit(made, p, l, h, i, j)) / sum;
                    }
                    CHECK_NEAR((double)r->score[(l * made->spec.n_head + h) * N + j], want,
                               1e-5);
                }
        kvt_results_free(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zip_is_its_formula),
        cmocka_unit_test(lanes_of_all_layers_compete),
        cmocka_unit_test(laq_is_its_formula),
    };
    return cmocka_run_group_tests_name("whole replays with probes", tests, runs_open, done);
}
