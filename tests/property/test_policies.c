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
        if (r.traits.may_exceed && v->p->select) /* whole chunks, lanes that are left whole */
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

/* Whether lane i holds no fewer slots: a select() of its own may give it fewer. */
static bool gives_no_less(const mini_result *less, const mini_result *more, int i)
{
    int l = i / more->n_lane, a = i % more->n_lane;
    return mini_count(less, trace, 0, l, a) <= mini_count(more, trace, 0, l, a);
}

/* Of a ranking a smaller budget is a part, where the lane gets no less. */
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
        for (int i = 0; !less.skipped && i < trace->n_layer * more.n_lane; i++)
            for (int64_t j = 0; gives_no_less(&less, &more, i) && j < trace->T; j++)
                if (less.held[i * trace->T + j] && !more.held[i * trace->T + j])
                    fail_msg("budget %lld drops position %lld", (long long)B, (long long)j);
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
    /* equal maxima of two heads meet at the cut of both: the first head takes the slot */
    if (strcmp(v->p->name, "adakv") == 0 && strcmp(v->params, "rows=max") == 0)
        return;
    FOR_EACH_RUN(b, act)
    {
        mini_result r = run(v, trace, budgets[b], act), s = run(v, swapped, budgets[b], act);
        assert_int_equal(r.skipped, s.skipped);
        int each = r.n_lane / trace->n_group;
        for (int64_t m = 0; !r.skipped && m < r.n_step; m++)
            for (int l = 0; l < trace->n_layer; l++)
                for (int a = 0; a < r.n_lane; a++) {
                    int other = (trace->n_group - 1 - a / each) * each + a % each;
                    assert_memory_equal(mini_held(&r, trace, m, l, a),
                                        mini_held(&s, swapped, m, l, other), (size_t)trace->T);
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

static bool is_name(const char *s)
{
    return s && *s && strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(s);
}

static bool is_sentence(const char *s)
{
    return s && *s && s[strlen(s) - 1] != '.' && s[0] != ' ' && !strchr(s, '\n');
}

static void check_table(const kvt_param *table)
{
    for (const kvt_param *p = table; p && p->name; p++) {
        assert_true(*p->name && is_sentence(p->help) && p->unit);
        if (p->def < p->min || p->def > p->max)
            fail_msg("%s: default %g is not in %g to %g", p->name, p->def, p->min, p->max);
        for (int i = 0; p->type == KVT_CHOICE && i <= (int)p->max; i++)
            assert_true(is_name(p->choices[i].name) && p->choices[i].sets &&
                        is_sentence(p->choices[i].help));
    }
}

/* Defaults survive print and parse; the default of a choice brings the default values. */
static void check_defaults(const kvt_param *table, size_t size)
{
    char text[512], item[256];
    kvt_err err;
    void *defaults = kvt_arena_get(memory, size), *again = kvt_arena_get(memory, size);
    kvt_param_defaults(table, defaults);
    assert_true(kvt_param_print(table, text, sizeof text, defaults) < sizeof text);
    for (const kvt_param *p = table; p->name; p++) {
        char was[512];
        kvt_param_defaults(table, again);
        snprintf(item, sizeof item, "%s=%s", p->name,
                 p->type == KVT_CHOICE ? p->choices[(int)p->def].name : "");
        if (p->type == KVT_CHOICE && kvt_param_parse(table, again, item, &err))
            fail_msg("%s: %s", item, err.text);
        kvt_param_print(table, was, sizeof was, again);
        assert_string_equal(was, text);
    }
    memset(again, 0x55, size); /* whatever was there: the printed form names every parameter */
    kvt_param_defaults(table, again);
    if (kvt_param_parse(table, again, text, &err))
        fail_msg("%s: %s", text, err.text);
    char was[512];
    kvt_param_print(table, was, sizeof was, again);
    assert_string_equal(was, text);
}

static void describes_itself(void **state)
{
    const kvt_policy *p = ((const variant *)*state)->p;
    assert_int_equal(p->abi, KVT_POLICY_ABI);
    assert_true(is_name(p->name) && is_sentence(p->title) && p->paper && *p->paper &&
                p->differs);
    assert_true(strlen(p->paper) < 100 && !strchr(p->paper, '\n'));
    assert_true(!p->about || (*p->about && p->about[strlen(p->about) - 1] == '.'));
    assert_true(p->score || p->select ||
                (p->traits.exactness == KVT_NOT_REPLAYABLE && is_sentence(p->why_not)));
    assert_true((p->params != NULL) == (p->params_size > 0));
    check_table(p->params);
    if (p->params)
        check_defaults(p->params, p->params_size);
}

static void shares_describe_themselves(void **state)
{
    (void)state;
    for (int i = 0; kvt_shares()[i]; i++) {
        const kvt_share *s = kvt_shares()[i];
        assert_int_equal(s->abi, KVT_POLICY_ABI);
        assert_true(is_name(s->name) && is_sentence(s->title) && s->paper && s->differs &&
                    s->split);
        check_table(s->params);
        if (s->params)
            check_defaults(s->params, s->params_size);
        for (int k = 0; kvt_policies()[k]; k++)
            for (const kvt_param *p = kvt_policies()[k]->params; p && p->name; p++)
                if (s->params && kvt_param_find(s->params, p->name))
                    fail_msg("%s and %s: both have '%s'", kvt_policies()[k]->name, s->name,
                             p->name);
    }
}

/* What the engine reads itself (weights=, probe=, ...) would never reach them. */
static void names_of_the_engine_are_free(void **state)
{
    (void)state;
    for (const kvt_param *own = kvt_use_table(); own->name; own++) {
        for (int i = 0; kvt_policies()[i]; i++)
            if (kvt_policies()[i]->params &&
                kvt_param_find(kvt_policies()[i]->params, own->name))
                fail_msg("%s has the engine's '%s'", kvt_policies()[i]->name, own->name);
        for (int i = 0; kvt_shares()[i]; i++)
            if (kvt_shares()[i]->params && kvt_param_find(kvt_shares()[i]->params, own->name))
                fail_msg("%s has the engine's '%s'", kvt_shares()[i]->name, own->name);
    }
}

static void lists_are_by_name(void **state)
{
    (void)state;
    for (int i = 1; kvt_policies()[i]; i++)
        assert_true(strcmp(kvt_policies()[i - 1]->name, kvt_policies()[i]->name) < 0);
    for (int i = 1; kvt_shares()[i]; i++)
        assert_true(strcmp(kvt_shares()[i - 1]->name, kvt_shares()[i]->name) < 0);
}

static void random_draws_by_seed(void **state)
{
    (void)state;
    static const char *const drawers[] = {"keyformer", "leverage", "nacl", "compactor",
                                          "random"};
    for (int i = 0; i < n_case; i++) {
        bool may = false;
        for (size_t k = 0; k < sizeof drawers / sizeof *drawers; k++)
            may |= strcmp(cases[i].p->name, drawers[k]) == 0;
        if (has_no_slots(cases[i].p))
            continue;
        set_bench(&cases[i]);
        if (is_drawn(&cases[i]) && !may)
            fail_msg("%s depends on the seed", cases[i].name);
    }
    variant r = {.p = kvt_policy_find("random")};
    set_bench(&r);
    assert_true(is_drawn(&r));
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
    LAW(describes_itself),
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
    if (has_no_slots(v->p)) {
        describes_itself(state);
        return;
    }
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
        add_case(p, "", "");
        for (const kvt_param *q = p->params; q && q->name; q++)
            for (int k = 0; q->type == KVT_CHOICE && k <= (int)q->max; k++)
                add_case(p, q->name, q->choices[k].name);
    }
    static struct CMUnitTest tests[CASE_MAX + 4];
    int n = 0;
    for (; n < n_case; n++)
        tests[n] = (struct CMUnitTest){
            .name = cases[n].name, .test_func = all_laws, .initial_state = &cases[n]};
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(shares_describe_themselves);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(names_of_the_engine_are_free);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(lists_are_by_name);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(random_draws_by_seed);
    int failed = _cmocka_run_group_tests("laws of policies", tests, (size_t)n, NULL, NULL);
    toy_close(rich.trace);
    toy_close(rich.swapped);
    toy_close(rich.thin);
    kvt_arena_free(memory);
    return failed;
}
