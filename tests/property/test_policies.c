/* test_policies.c - laws that every policy obeys, over the registry, with every value of every
 * choice: a new policy is tested before its author writes a test. Decisions are those of the
 * plain driver in tests/mini.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kvt/replay.h"
#include "../mini.h"
#include "../toy_more.h"

enum { CASE_MAX = 1024, TEXT_CAP = 96, POSITION_CAP = 8 * 8 * KVT_POSITION_BINS };

/* A policy with one choice set: "snapkv:compat=kvpress". */
typedef struct variant {
    char name[2 * TEXT_CAP], params[TEXT_CAP];
    const kvt_policy *p;
} variant;

static variant cases[CASE_MAX];
static int n_case;
static kvt_arena *memory;

/* A trace, the same one with its heads in another order, and one of a single token. Policies
 * that read no more than attention run on one with many ties; the others on random numbers. */
typedef struct bench {
    toy *trace, *swapped, *thin;
} bench;
static bench plain, rich;
static toy *trace, *swapped, *thin; /* of the policy that runs */

static void set_bench(const variant *v)
{
    const bench *b = toy_needs_more(v->p, v->params) ? &rich : &plain;
    trace = b->trace;
    swapped = b->swapped;
    thin = b->thin;
}
static float mass[POSITION_CAP];
static const int64_t budgets[] = {1, 2, 3, 8, 17, 33, 49};
enum { N_BUDGET = sizeof budgets / sizeof *budgets };

/* Whether laws of slots say nothing of it: it ranks channels, no trace can answer it, or what
 * it reads is solved from the rows (test_regret). */
static bool has_no_slots(const kvt_policy *p)
{
    return p->traits.effect == KVT_CHANNELS || !(p->score || p->select) ||
           (p->traits.needs & KVT_NEED_PLAN);
}

/* ---- running -------------------------------------------------------------------------------
 */

static mini_spec spec_of(const variant *v, const toy *t, int64_t budget, bool prefill_only)
{
    return (mini_spec){.trace = t,
                       .policy = v->p,
                       .params = v->params,
                       .budget = budget,
                       .prefill_only = prefill_only,
                       .seed = 7,
                       .position_mass = mass,
                       .threshold = v->p->traits.threshold};
}

static mini_result run_spec(const mini_spec *spec)
{
    mini_result r;
    kvt_err err;
    if (mini_run(&r, spec, memory, &err))
        fail_msg("%s: %s", spec->params, err.text);
    if (r.lacks)
        fail_msg("%s: the traces of this test lack what it needs", spec->params);
    return r;
}

static mini_result run(const variant *v, const toy *t, int64_t budget, bool prefill_only)
{
    mini_spec spec = spec_of(v, t, budget, prefill_only);
    return run_spec(&spec);
}

static bool same(const mini_result *a, const mini_result *b, const toy *t)
{
    size_t n = (size_t)(a->n_step * t->n_layer * a->n_lane * t->T);
    return a->skipped == b->skipped && a->n_step == b->n_step &&
           (a->skipped || memcmp(a->held, b->held, n) == 0);
}

static kvt_traits traits_of(const variant *v)
{
    return run(v, thin, thin->T, false).traits;
}

static bool is_drawn(const variant *v)
{
    mini_spec a = spec_of(v, trace, 17, false), b = a;
    b.seed = 8;
    mini_result ra = run_spec(&a), rb = run_spec(&b);
    return !same(&ra, &rb, trace);
}

/* ---- laws of decisions ---------------------------------------------------------------------
 */

/* Two growth classes: what it does by itself, and on the prompt only. */
#define FOR_EACH_RUN(b, act)           \
    for (int b = 0; b < N_BUDGET; b++) \
        for (int act = 0; act < 2; act++)

static void holds_at_most_the_budget(void **state)
{
    const variant *v = *state;
    FOR_EACH_RUN(b, act)
    {
        mini_result r = run(v, trace, budgets[b], act);
        if (r.skipped || r.traits.by_threshold)
            continue;
        int64_t limit =
            budgets[b] + (r.traits.effect == KVT_SKIP); /* a row sees its own token, too */
        if (r.traits.every > 1)
            limit += r.traits.every - 1;
        for (int64_t m = r.traits.effect == KVT_SKIP; m < r.n_step; m++) {
            int64_t all = 0;
            for (int l = 0; l < trace->n_layer; l++)
                for (int a = 0; a < r.n_lane; a++)
                    all += mini_count(&r, trace, m, l, a);
            /* what a layer has above another one's share is the whole model's, not the trace's
             */
            bool shared = v->p->share && v->p->share != &kvt_share_even;
            if (!r.traits.may_exceed && !shared && all > limit * trace->n_layer * r.n_lane)
                fail_msg("budget %lld after %lld tokens: %lld slots", (long long)budgets[b],
                         (long long)m, (long long)all);
        }
    }
}

/* One that drops before the row attends sees B slots, the others the new token, too. */
static void rows_see_what_they_may(void **state)
{
    const variant *v = *state;
    for (int b = 0; b < N_BUDGET; b++) {
        mini_result r = run(v, trace, budgets[b], false);
        int64_t every = r.traits.every > 1 ? r.traits.every : 1;
        bool shared = v->p->share && v->p->share != &kvt_share_even;
        if (r.skipped || !r.decodes || r.traits.by_threshold || r.traits.may_exceed || shared ||
            r.traits.effect == KVT_SKIP)
            continue;
        int64_t limit = budgets[b] + every - r.traits.drop_first;
        if (r.most > limit)
            fail_msg("budget %lld: a row saw %lld slots, expected at most %lld",
                     (long long)budgets[b], (long long)r.most, (long long)limit);
    }
}

/* Lanes that compete for slots: the first of them, and how many. */
static int scope_size(const mini_result *r)
{
    return r->traits.scope == KVT_BY_LANE    ? 1
           : r->traits.scope == KVT_BY_LAYER ? r->n_lane
                                             : trace->n_layer * r->n_lane;
}

/* All that the lanes of a scope are given; no more where equal scores at the cut go. */
static void fills_its_budget(void **state)
{
    const variant *v = *state;
    bool loose = strstr(v->params, "ties=drop") != NULL;
    if (strcmp(v->p->name, "full") == 0)
        return;
    FOR_EACH_RUN(b, act)
    {
        mini_result r = run(v, trace, budgets[b], act);
        int n = scope_size(&r);
        if (r.skipped || r.traits.by_threshold || r.traits.effect != KVT_EVICT)
            continue;
        /* A select() that may exceed has counts of its own: whole chunks (chunkkv), lanes left
         * whole (cake), shares of the published code (headkv, lukv). Goldens hold them. */
        if (r.traits.may_exceed && v->p->select)
            continue;
        for (int i = 0; i < trace->n_layer * r.n_lane; i += n) {
            int64_t held = 0, given = 0;
            for (int k = i; k < i + n; k++) {
                held += mini_count(&r, trace, 0, k / r.n_lane, k % r.n_lane);
                given += r.budget[k];
            }
            if (loose)
                assert_true(held <= given);
            else
                assert_int_equal(held, given);
        }
    }
}

static void keeps_what_is_there(void **state)
{
    const variant *v = *state;
    FOR_EACH_RUN(b, act)
    {
        mini_result r = run(v, trace, budgets[b], act);
        for (int64_t m = 0; !r.skipped && m < r.n_step; m++)
            for (int l = 0; l < trace->n_layer; l++)
                for (int a = 0; a < r.n_lane; a++) {
                    const uint8_t *now = mini_held(&r, trace, m, l, a);
                    const uint8_t *before = m ? mini_held(&r, trace, m - 1, l, a) : NULL;
                    for (int64_t j = 0; j < trace->T; j++) {
                        bool arrived = j < trace->N + m, is_new = m && j == trace->N + m - 1;
                        bool there =
                            !before || before[j] || is_new || r.traits.effect == KVT_SKIP;
                        if (now[j] && (!arrived || !there))
                            fail_msg("position %lld came from nowhere", (long long)j);
                    }
                }
    }
}

static void pinned_slots_stay(void **state)
{
    const variant *v = *state;
    FOR_EACH_RUN(b, act)
    {
        mini_result r = run(v, trace, budgets[b], act);
        for (int l = 0; !r.skipped && r.traits.effect == KVT_EVICT && l < trace->n_layer; l++)
            for (int a = 0; a < r.n_lane; a++) {
                const uint8_t *held = mini_held(&r, trace, 0, l, a);
                for (int64_t j = 0; j < trace->N; j++)
                    assert_true(held[j] || !r.pinned[(l * r.n_lane + a) * trace->N + j]);
            }
    }
}

static void scores_are_finite(void **state)
{
    FOR_EACH_RUN(b, act)
    assert_false(run(*state, trace, budgets[b], act).infinite);
}

static void same_seed_same_result(void **state)
{
    FOR_EACH_RUN(b, act)
    {
        mini_result one = run(*state, trace, budgets[b], act),
                    two = run(*state, trace, budgets[b], act);
        assert_true(same(&one, &two, trace));
    }
}

static void everything_loses_nothing(void **state)
{
    for (int act = 0; act < 2; act++)
        for (int64_t extra = 0; extra < 2; extra++) {
            mini_spec spec = spec_of(*state, trace, trace->T + extra * 1000, act);
            spec.threshold = -INFINITY; /* where it has one: all reaches it */
            mini_result r = run_spec(&spec);
            assert_false(r.skipped);
            for (int64_t m = 0; m < r.n_step; m++)
                for (int l = 0; l < trace->n_layer; l++)
                    for (int a = 0; a < r.n_lane; a++)
                        assert_int_equal(mini_count(&r, trace, m, l, a), trace->N + m);
        }
}

/* Whether lane i holds no fewer slots. */
static bool gives_no_less(const mini_result *less, const mini_result *more, int i)
{
    int l = i / more->n_lane, a = i % more->n_lane;
    return mini_count(less, trace, 0, l, a) <= mini_count(more, trace, 0, l, a);
}

/* Of a ranking a smaller budget is a part; where select() shares slots out, of the lanes that
 * get no less. */
static void more_budget_keeps_more(void **state)
{
    const variant *v = *state;
    if (!traits_of(v).one_ranking || traits_of(v).by_threshold)
        return;
    mini_spec spec = spec_of(v, trace, 0, true);
    spec.share = &kvt_share_even;
    mini_result less = {.skipped = true};
    for (int64_t B = 1; B <= trace->N; B++) {
        spec.budget = B;
        mini_result more = run_spec(&spec);
        for (int i = 0; !less.skipped && i < trace->n_layer * more.n_lane; i++) {
            if (v->p->select && !gives_no_less(&less, &more, i))
                continue;
            for (int64_t j = 0; j < trace->T; j++)
                if (less.held[i * trace->T + j] && !more.held[i * trace->T + j])
                    fail_msg("budget %lld drops position %lld", (long long)B, (long long)j);
        }
        less = more;
    }
}

/* What reaches a threshold is what reaches a higher one, and more. */
static void lower_threshold_keeps_more(void **state)
{
    const variant *v = *state;
    if (!traits_of(v).by_threshold)
        return;
    mini_spec spec = spec_of(v, trace, 17, true);
    mini_result more = {.skipped = true};
    int64_t n_most = 0, n_least = 0;
    for (int i = -20; i <= 20; i++) {
        spec.threshold = i == -20 ? -INFINITY : i == 20 ? INFINITY : 0.5 * i;
        mini_result less = run_spec(&spec);
        for (int k = 0; k < trace->n_layer * less.n_lane; k++)
            for (int64_t j = 0; j < trace->N; j++) {
                bool held = less.held[k * trace->T + j];
                if (i > -20 && held && !more.held[k * trace->T + j])
                    fail_msg("threshold %g keeps position %lld", spec.threshold, (long long)j);
                n_most += i == -20 && held;
                n_least += i == 20 && held;
                if (i == 20) /* nothing reaches it: what is left is pinned */
                    assert_true(held == less.pinned[k * trace->N + j]);
            }
        more = less;
    }
    assert_int_equal(n_most, trace->n_layer * more.n_lane * trace->N);
    assert_true(n_least <= n_most);
}

/* A wrong declaration of one_ranking shows: what it does when it sees the budget is the same.
 */
static void one_ranking_is_all_replays(void **state)
{
    const variant *v = *state;
    if (!traits_of(v).one_ranking)
        return;
    for (int b = 0; b < N_BUDGET; b++) {
        mini_spec spec = spec_of(v, trace, budgets[b], true);
        mini_result hidden = run_spec(&spec);
        spec.show_budget = true;
        mini_result shown = run_spec(&spec);
        assert_true(same(&hidden, &shown, trace));
    }
}

static void names_of_heads_do_not_matter(void **state)
{
    const variant *v = *state;
    /* these go by the lane's name, or by all heads of a layer in their order */
    if (is_drawn(v) || v->p->traits.needs & (KVT_NEED_OTHERS | KVT_NEED_LAYER))
        return;
    /* Equal maxima of two heads meet at the cut of both, where the first head takes the slot:
     * such votes are tried on random numbers. */
    bool maxima = strcmp(v->p->name, "adakv") == 0 && strcmp(v->params, "rows=max") == 0;
    const toy *t = maxima ? rich.trace : trace, *u = maxima ? rich.swapped : swapped;
    FOR_EACH_RUN(b, act)
    {
        mini_result r = run(v, t, budgets[b], act), s = run(v, u, budgets[b], act);
        assert_int_equal(r.skipped, s.skipped);
        int each = r.n_lane / t->n_group;
        for (int64_t m = 0; !r.skipped && m < r.n_step; m++)
            for (int l = 0; l < t->n_layer; l++)
                for (int a = 0; a < r.n_lane; a++) {
                    int other = (t->n_group - 1 - a / each) * each + a % each;
                    assert_memory_equal(mini_held(&r, t, m, l, a),
                                        mini_held(&s, u, m, l, other), (size_t)t->T);
                }
    }
}

/* Attention of the response rows on what a lane holds of the prompt. */
static double kept_mass(const toy *t, const mini_result *r, int l, int a, const uint8_t *held)
{
    int each = t->n_head / r->n_lane;
    int64_t pos[512];
    float row[512];
    double sum = 0;
    for (int64_t j = 0; j < t->T; j++)
        pos[j] = j;
    for (int h = a * each; h < (a + 1) * each; h++)
        for (int64_t i = t->N; i < t->T; i++) {
            toy_row(row, t, l, h, i, pos, t->T);
            for (int64_t j = 0; j < t->N; j++)
                sum += held[j] ? (double)row[j] : 0;
        }
    return sum / each;
}

/* At equal counts, one decision at the end of the prompt: what `oracle` keeps is the most. */
static void the_oracle_is_not_beaten(void **state)
{
    const variant *v = *state;
    variant best = {.p = kvt_policy_find("oracle")};
    for (int b = 0; b < N_BUDGET; b++) {
        mini_result r = run(v, trace, budgets[b], true);
        if (r.skipped || r.traits.by_query_head || r.traits.effect != KVT_EVICT)
            continue; /* sets for each query head have oracles for each query head */
        for (int l = 0; l < trace->n_layer; l++)
            for (int a = 0; a < r.n_lane; a++) {
                int64_t n = mini_count(&r, trace, 0, l, a);
                mini_result o = run(&best, trace, n, true);
                double got = kept_mass(trace, &r, l, a, mini_held(&r, trace, 0, l, a));
                double most = kept_mass(trace, &o, l, a, mini_held(&o, trace, 0, l, a));
                /* scores are f32: equal to 24 bits may be another order */
                if (got > most * (1 + 1e-6))
                    fail_msg("layer %d lane %d: %.9g of %lld slots, oracle %.9g", l, a, got,
                             (long long)n, most);
            }
    }
}

/* Every row: B + 1 slots chosen for it hold at least as much as the B + 1 that a policy has. */
static void oracle_step_is_not_beaten(void **state)
{
    const variant *v = *state;
    variant best = {.p = kvt_policy_find("oracle-step")};
    mini_result r = run(v, trace, 17, false);
    if (r.skipped || !r.decodes || r.traits.effect != KVT_EVICT || r.traits.by_query_head ||
        r.traits.by_threshold)
        return;
    mini_result o = run(&best, trace, 17, false);
    for (int64_t m = 1; m < r.n_step; m++)
        for (int l = 0; l < trace->n_layer; l++)
            for (int a = 0; a < r.n_lane; a++) {
                int64_t pos[512], i = trace->N + m - 1;
                float row[512];
                double got = 0, most = 0;
                int each = trace->n_head / r.n_lane;
                const uint8_t *before = mini_held(&r, trace, m - 1, l, a);
                const uint8_t *read = mini_held(&o, trace, m, l, a);
                for (int64_t j = 0; j < trace->T; j++)
                    pos[j] = j;
                for (int h = a * each; h < (a + 1) * each; h++) {
                    toy_row(row, trace, l, h, i, pos, trace->T);
                    for (int64_t j = 0; j <= i; j++) {
                        got += before[j] || j == i ? (double)row[j] : 0;
                        most += read[j] ? (double)row[j] : 0;
                    }
                }
                assert_true(got <= most * (1 + 1e-6));
            }
}

/* ---- laws of declarations ------------------------------------------------------------------
 */

static void vary_only_narrows(void **state)
{
    const variant *v = *state;
    kvt_traits most = v->p->traits, t = traits_of(v);
    assert_true((t.phases & ~most.phases) == 0 && t.phases != 0);
    if (v->p->base) /* what it reads comes on top */
        most.needs |= kvt_policy_find(v->p->base)->traits.needs;
    assert_true((t.needs & ~most.needs) == 0);
    assert_true(t.exactness >= most.exactness);
    assert_true(t.scope <= most.scope && t.effect == most.effect);
    assert_true(!t.one_ranking || most.one_ranking);
    assert_true(!t.may_exceed || most.may_exceed);
    assert_true(t.control == most.control && t.by_threshold == most.by_threshold);
    assert_true(t.drop_first == most.drop_first);
}

/* The driver leaves all that was not declared NULL: reading it crashes this test. */
static void runs_on_one_token(void **state)
{
    const variant *v = *state;
    for (int act = 0; act < 2; act++) {
        mini_result r = run(v, thin, 1, act);
        assert_false(r.infinite);
        if (r.skipped && r.why[0]) /* it says why one slot is not enough while it decodes */
            continue;
        assert_int_equal(mini_count(&r, thin, 0, 0, 0), 1);
    }
}

/* The policies that draw, and the parameters it takes; "": they do by themselves, with some of
 * their choices. No other case depends on the seed. */
static const struct drawer {
    const char *name, *params;
} drawers[] = {
    {"compactor", "sketch=2"},         {"cur", "random=2"}, {"keyformer", ""},
    {"leverage", "sketch=2"},          {"nacl", ""},        {"random", ""},
    {"scissorhands", "temperature=1"},
};
enum { N_DRAWER = sizeof drawers / sizeof *drawers };

static bool draws_by_itself(const variant *v)
{
    for (int i = 0; i < N_DRAWER; i++)
        if (strcmp(drawers[i].name, v->p->name) == 0 && !*drawers[i].params)
            return true;
    return false;
}

static void random_draws_by_seed(void **state)
{
    (void)state;
    for (int i = 0; i < n_case; i++) {
        if (draws_by_itself(&cases[i]))
            continue;
        set_bench(&cases[i]);
        if (is_drawn(&cases[i]))
            fail_msg("%s depends on the seed", cases[i].name);
    }
    for (int i = 0; i < N_DRAWER; i++) {
        variant v = {.p = kvt_policy_find(drawers[i].name)};
        snprintf(v.params, sizeof v.params, "%s", drawers[i].params);
        set_bench(&v);
        if (!is_drawn(&v))
            fail_msg("%s:%s does not depend on the seed", drawers[i].name, drawers[i].params);
    }
    variant r = {.p = kvt_policy_find("random")};
    set_bench(&r);
    mini_result one = run(&r, trace, 17, true);
    assert_memory_not_equal(mini_held(&one, trace, 0, 0, 0), mini_held(&one, trace, 0, 0, 1),
                            (size_t)trace->T);
}

/* ---- the list ------------------------------------------------------------------------------
 */

#define LAW(f) \
    {          \
#f, f  \
    }
static const struct law {
    const char *name;
    void (*check)(void **state);
} laws[] = {
    LAW(holds_at_most_the_budget),   LAW(fills_its_budget),
    LAW(rows_see_what_they_may),     LAW(lower_threshold_keeps_more),
    LAW(keeps_what_is_there),        LAW(pinned_slots_stay),
    LAW(scores_are_finite),          LAW(same_seed_same_result),
    LAW(everything_loses_nothing),   LAW(more_budget_keeps_more),
    LAW(one_ranking_is_all_replays), LAW(names_of_heads_do_not_matter),
    LAW(the_oracle_is_not_beaten),   LAW(oracle_step_is_not_beaten),
    LAW(vary_only_narrows),          LAW(runs_on_one_token),
};
enum { N_LAW = sizeof laws / sizeof *laws };

static void add_case(const kvt_policy *p, const char *param, const char *value)
{
    variant *v = &cases[n_case++];
    v->p = p;
    snprintf(v->params, sizeof v->params, *param ? "%s=%s" : "%s%s", param, value);
    snprintf(v->name, sizeof v->name, *param ? "%s:%s=%s" : "%s%s%s", p->name, param, value);
}

static void all_laws(void **state)
{
    const variant *v = *state;
    set_bench(v);
    for (int i = 0; i < N_LAW; i++) {
        size_t mark = kvt_arena_mark(memory);
        print_message("  %s: %s\n", v->name, laws[i].name);
        laws[i].check(state);
        kvt_arena_rewind(memory, mark);
    }
}

int main(void)
{
    memory = kvt_arena_new((size_t)2 << 30);
    plain = (bench){.trace = toy_new(memory, 3, 2, 5, 4, 2, 50, 6, false),
                    .swapped = toy_new(memory, 3, 2, 5, 4, 2, 50, 6, true),
                    .thin = toy_new(memory, 5, 1, 1, 2, 1, 1, 1, false)};
    rich = (bench){.trace = toy_rich(memory, 2, 5, 4, 2, 50, 6, false),
                   .swapped = toy_rich(memory, 2, 5, 4, 2, 50, 6, true),
                   .thin = toy_rich(memory, 1, 1, 2, 1, 1, 1, false)};
    for (int i = 0; i < POSITION_CAP; i++)
        mass[i] = (float)(toy_mix((uint64_t)i) % 1000) / 1000;
    for (int i = 0; kvt_policies()[i]; i++) {
        const kvt_policy *p = kvt_policies()[i];
        if (has_no_slots(p))
            continue;
        add_case(p, "", "");
        for (const kvt_param *q = p->params; q && q->name; q++)
            for (int k = 0; q->type == KVT_CHOICE && k <= (int)q->max; k++)
                add_case(p, q->name, q->choices[k].name);
    }
    static struct CMUnitTest tests[CASE_MAX + 1];
    int n = 0;
    for (; n < n_case; n++)
        tests[n] = (struct CMUnitTest){
            .name = cases[n].name, .test_func = all_laws, .initial_state = &cases[n]};
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(random_draws_by_seed);
    int failed = _cmocka_run_group_tests("laws of policies", tests, (size_t)n, NULL, NULL);
    toy_close(rich.trace);
    toy_close(rich.swapped);
    toy_close(rich.thin);
    kvt_arena_free(memory);
    return failed;
}
