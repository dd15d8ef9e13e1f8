/* test_cost_laws_case.c - cases of the laws: made, predicted, reported. */
#include "tests/unit/cost_laws.h"

#include <math.h>
#include <stdio.h>

#include "tests/check.h"

law_world law;

static const char *const geometries[LAW_GEOMETRIES] = {
    "llama-3.1-8b", "llama-3.2-1b", "qwen2.5-0.5b", "gemma-3-1b",
    "smollm2-1.7b", "qwen3-4b",     "llama-3.1-70b"};
static const char *const machines[LAW_MACHINES] = {"h100-sxm", "a100-sxm-80", "rtx4090",
                                                   "l40s",     "phone-sd8g3", "cpu-2core"};

/* ---- the world -----------------------------------------------------------------------------
 */

static void open_policies(void)
{
    const kvt_policy *const *p = kvt_policies();
    kvt_err err;
    for (int i = 0; p[i]; i++) {
        assert_true(law.n_policy < LAW_POLICIES_MAX - 2);
        /* One that needs a parameter, a file say, is no use by its name alone. */
        if (kvt_use_parse(&law.use[law.n_policy], NULL, p[i]->name, &err) != KVT_OK) {
            print_message("left out: %s: %s\n", p[i]->name, err.text);
            continue;
        }
        law.policy[law.n_policy++] = p[i]->name;
    }
    static const char *const more[] = {"snapkv/global", "snapkv/pyramid"};
    for (int i = 0; i < CHECK_COUNT(more); i++) {
        CHECK_OK(kvt_use_parse(&law.use[law.n_policy], NULL, more[i], &err), &err);
        law.policy[law.n_policy++] = more[i];
    }
    assert_true(law.n_policy > 40);
}

int law_open(void **state)
{
    kvt_err err;
    (void)state;
    open_policies();
    for (int i = 0; i < LAW_GEOMETRIES; i++) {
        CHECK_OK(kvt_cost_geometry_find(&law.geometry[i], geometries[i], &err), &err);
        const char *draft = law.geometry[i].draft[0] ? law.geometry[i].draft : "qwen2.5-0.5b";
        CHECK_OK(kvt_cost_geometry_find(&law.draft[i], draft, &err), &err);
    }
    for (int i = 0; i < LAW_MACHINES; i++)
        CHECK_OK(kvt_machine_find(&law.machine[i], machines[i], &err), &err);
    return 0;
}

int law_close(void **state)
{
    (void)state;
    for (int i = 0; i < law.n_policy; i++)
        kvt_use_free(law.use[i]);
    return 0;
}

/* ---- one case ------------------------------------------------------------------------------
 */

law_case law_usual(const char *policy)
{
    law_case c = {.policy = policy,
                  .profile = KVT_PROFILE_FUSED,
                  .act = KVT_ACT_OWN,
                  .n_prompt = 8192,
                  .n_response = 256,
                  .budget = 512};
    law_on(&c, 0, 0);
    return c;
}

void law_on(law_case *c, int geometry, int machine)
{
    c->geometry = &law.geometry[geometry];
    c->draft = &law.draft[geometry];
    c->machine = &law.machine[machine];
}

static const kvt_use *use_of(const char *policy)
{
    for (int i = 0; i < law.n_policy; i++)
        if (strcmp(law.policy[i], policy) == 0)
            return law.use[i];
    fail_msg("no policy '%s'", policy);
    return NULL;
}

void law_work(law_case *c)
{
    const kvt_use *use = use_of(c->policy);
    kvt_cost_constants(&c->constants, c->machine, c->profile, use->policy->name);
    kvt_cost_work_of(&c->work, use, c->geometry, c->n_prompt, c->budget, c->act);
}

void law_load(law_case *c)
{
    kvt_cost_load_assume(&c->load, use_of(c->policy), &c->work, c->geometry, &c->setting,
                         c->n_prompt, c->n_response, c->budget);
}

kvt_cost_case law_cost_case(const law_case *c)
{
    return (kvt_cost_case){.geometry = c->geometry,
                           .draft = c->draft,
                           .constants = &c->constants,
                           .work = &c->work,
                           .load = &c->load,
                           .setting = &c->setting,
                           .n_prompt = c->n_prompt,
                           .n_response = c->n_response,
                           .budget = c->budget};
}

void law_predict(law_case *c)
{
    kvt_cost_case cc = law_cost_case(c);
    kvt_cost_predict(&c->cost, &cc);
}

void law_all(law_case *c)
{
    law_work(c);
    law_load(c);
    law_predict(c);
}

law_case law_made(int policy, int geometry, int machine, kvt_cost_profile profile)
{
    law_case c = law_usual(law.policy[policy]);
    law_on(&c, geometry, machine);
    c.profile = profile;
    law_all(&c);
    return c;
}

/* ---- comparisons ---------------------------------------------------------------------------
 */

enum { SHOWN_MAX = 12 };

void law_is(law_tally *t, bool holds, const law_case *c, const char *what, double a, double b)
{
    t->checked++;
    if (holds)
        return;
    if (t->broken++ < SHOWN_MAX)
        print_message("broken: %s: %s on %s, %s, %s, %lld + %lld tokens, %lld slots, batch "
                      "%lld: %.17g, %.17g\n",
                      what, c->policy, c->geometry->g.name, c->machine->name,
                      kvt_cost_profile_name(c->profile), (long long)c->n_prompt,
                      (long long)c->n_response, (long long)c->budget,
                      (long long)c->setting.batch, a, b);
}

void law_near(law_tally *t, double a, double b, double eps, const law_case *c, const char *what)
{
    double size = fmax(fabs(a), fabs(b));
    law_is(t, a == b || fabs(a - b) <= eps * size, c, what, a, b);
}

void law_least(law_tally *t, double a, double b, const law_case *c, const char *what)
{
    law_is(t, a >= b - 1e-12 * fabs(b), c, what, a, b);
}

void law_end(const law_tally *t, long least_checked)
{
    if (t->broken)
        fail_msg("%ld of %ld comparisons are broken", t->broken, t->checked);
    if (t->checked < least_checked)
        fail_msg("only %ld comparisons, expected %ld at least", t->checked, least_checked);
}
