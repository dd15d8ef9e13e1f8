/* laws.c - see laws.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "laws.h"

#include <math.h>
#include <string.h>

kvt_arena *laws_memory;

mini_result laws_try(const toy *t, const char *policy, const char *params, int64_t budget,
                     bool prefill_only)
{
    const kvt_policy *p = kvt_policy_find(policy);
    kvt_err err;
    mini_result r;
    if (!p)
        fail_msg("there is no policy %s", policy);
    mini_spec spec = {.trace = t,
                      .policy = p,
                      .params = params,
                      .budget = budget,
                      .prefill_only = prefill_only,
                      .threshold = p->traits.threshold};
    if (mini_run(&r, &spec, laws_memory, &err))
        fail_msg("%s:%s: %s", policy, params, err.text);
    if (r.lacks)
        fail_msg("%s: the toy lacks what it needs", policy);
    return r;
}

mini_result laws_run(const toy *t, const char *policy, const char *params, int64_t budget,
                     bool prefill_only)
{
    mini_result r = laws_try(t, policy, params, budget, prefill_only);
    if (r.skipped)
        fail_msg("%s:%s at %lld: %s", policy, params, (long long)budget, r.why);
    return r;
}

void laws_best(uint8_t *best, const double *score, int64_t n, int64_t k)
{
    for (int64_t j = 0; j < n; j++)
        best[j] = 0;
    for (; k > 0; k--) {
        int64_t at = -1;
        for (int64_t j = 0; j < n; j++)
            if (!best[j] && (at < 0 || score[j] > score[at]))
                at = j;
        if (at < 0)
            return;
        best[at] = 1;
    }
}

static bool near(double a, double b)
{
    return a == b || fabs(a - b) <= 1e-4 * fmax(fabs(a), fabs(b));
}

void laws_holds(const toy *t, const mini_result *r, int64_t step, int layer, int lane,
                const double *score, const bool *pinned, int64_t n, int64_t budget)
{
    double *s = kvt_arena_array(laws_memory, n, sizeof *s);
    uint8_t *want = kvt_arena_array(laws_memory, n, 1);
    const uint8_t *held = mini_held(r, t, step, layer, lane);
    int64_t more = -1, less = -1;
    for (int64_t j = 0; j < n; j++)
        s[j] = pinned && pinned[j] ? INFINITY : score[j];
    laws_best(want, s, n, budget);
    assert_int_equal(mini_count(r, t, step, layer, lane), budget < n ? budget : n);
    for (int64_t j = 0; j < n; j++) {
        if (held[j] && !want[j] && (more < 0 || s[j] < s[more]))
            more = j;
        if (want[j] && !held[j] && (less < 0 || s[j] > s[less]))
            less = j;
    }
    if (more >= 0 && less >= 0 && !near(s[more], s[less]))
        fail_msg("step %lld layer %d lane %d budget %lld: holds %lld (score %.9g) and not %lld "
                 "(%.9g)",
                 (long long)step, layer, lane, (long long)budget, (long long)more, s[more],
                 (long long)less, s[less]);
}

void laws_scores(const toy *t, const mini_result *r, int layer, int lane, const double *score,
                 const bool *pinned, bool scaled)
{
    const float *got = r->score + (layer * r->n_lane + lane) * t->N;
    double factor = 1, largest = 0, size = 0;
    for (int64_t j = 0; j < t->N; j++) {
        if (pinned && pinned[j])
            continue;
        size = fmax(size, fabs(score[j]));
        if (fabs(score[j]) > largest && scaled) {
            largest = fabs(score[j]);
            factor = (double)got[j] / score[j];
        }
    }
    assert_true(factor > 0);
    for (int64_t j = 0; j < t->N; j++)
        if (!(pinned && pinned[j]) &&
            !(fabs((double)got[j] - factor * score[j]) <= 2e-5 * factor * size))
            fail_msg("layer %d lane %d token %lld: score %.9g, expected %.9g", layer, lane,
                     (long long)j, (double)got[j], factor * score[j]);
}

void laws_pool(double *out, const double *in, int64_t n, int64_t width)
{
    for (int64_t j = 0; j < n; j++) {
        out[j] = -INFINITY;
        for (int64_t k = j - width / 2; k <= j + width / 2; k++)
            if (k >= 0 && k < n)
                out[j] = fmax(out[j], in[k]);
    }
}

void laws_pool_mean(double *out, const double *in, int64_t n, int64_t width, bool inside)
{
    for (int64_t s = 0; s < n; s++) {
        double sum = 0;
        int64_t count = 0;
        for (int64_t k = s - width / 2; k <= s + width / 2; k++)
            if (k >= 0 && k < n) {
                sum += in[k];
                count++;
            }
        out[s] = sum / (double)(inside ? count : width);
    }
}
