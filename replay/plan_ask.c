/* plan_ask.c - which policies a run has: those that were named, controls and bounds beside
 * them, and what "all" leaves out. */
#include "replay/plan_priv.h"

#include <stdio.h>
#include <string.h>

#include "kvt/arena.h"

/* ---- lists ---------------------------------------------------------------------------------
 */

static kvt_code add_use(plan *p, kvt_use *u, uint64_t seed, bool control, bool by_all,
                        kvt_err *err)
{
    for (int i = 0; i < p->n_use; i++) {
        if (strcmp(p->use[i].use->text, u->text) == 0 && p->use[i].seed == seed) {
            p->use[i].asked |= !control;
            p->use[i].by_all &= by_all;
            return KVT_OK;
        }
    }
    plan_use *use = kvt_resize(p->use, p->n_use, p->n_use + 1, sizeof *use);
    if (!use)
        return kvt_fail_memory(err, sizeof *use);
    p->use = use;
    use[p->n_use++] = (plan_use){.use = u, .seed = seed, .asked = !control, .by_all = by_all};
    return KVT_OK;
}

bool plan_lists(const char *text, const char *name)
{
    for (size_t n = strlen(name); *text; text += *text == ',') {
        if (strncmp(text, name, n) == 0 && strchr(",:/", text[n]))
            return true;
        text += strcspn(text, ",");
    }
    return false;
}

static kvt_code own_uses(plan *p, const char *text, bool control, kvt_err *err)
{
    kvt_use **list;
    int n;
    bool all_of = plan_lists(text, "all");
    if (kvt_uses_parse(&list, &n, p->registry, text, err))
        return err->code;
    kvt_use **all = kvt_resize(p->owned, p->n_owned, p->n_owned + n, sizeof *all);
    if (!all) {
        kvt_uses_free(list, n);
        return kvt_fail_memory(err, n * (int64_t)sizeof *all);
    }
    p->owned = all;
    for (int i = 0; i < n; i++)
        all[p->n_owned++] = list[i];
    kvt_free(list);
    for (int i = p->n_owned - n; i < p->n_owned; i++) {
        bool random = control && strcmp(all[i]->policy->name, "random") == 0;
        for (uint64_t s = 0; s < (random ? 3 : 1); s++)
            if (add_use(p, all[i], p->ctx->seed + s, control,
                        all_of && !plan_lists(text, all[i]->policy->name), err))
                return err->code;
    }
    return KVT_OK;
}

/* The policies that were asked for; "all" holds those that read weights where a file of their
 * kind was offered. */
static kvt_code ask(plan *p, const char *text, kvt_err *err)
{
    if (own_uses(p, text, false, err))
        return err->code;
    const kvt_policy *const *list = kvt_registry_policies(p->registry);
    for (; plan_lists(text, "all") && *list; list++)
        if ((*list)->weights && !(*list)->traits.control && plan_weights_offers(p, *list) &&
            own_uses(p, (*list)->name, false, err))
            return err->code;
    return KVT_OK;
}

/* ---- controls and bounds -------------------------------------------------------------------
 */

bool plan_acts_in_decode(const kvt_use *u, kvt_act act)
{
    unsigned phases = u->traits.phases;
    if (!(phases & KVT_DECODE))
        return false;
    return act != KVT_ACT_PREFILL || !(phases & KVT_PREFILL);
}

/* What was named as the bound must be one, whether or not controls are there. */
static kvt_code check_oracle(const plan *p, const char *text, kvt_err *err)
{
    kvt_use **use;
    int n;
    kvt_code code = KVT_OK;
    if (!text || strcmp(text, "none") == 0)
        return KVT_OK;
    if (kvt_uses_parse(&use, &n, p->registry, text, err))
        return kvt_within(err, "oracle");
    for (int i = 0; i < n && !code; i++)
        if (!use[i]->traits.control)
            code = kvt_fail(err, KVT_USAGE, "oracle: policy %s is no bound", use[i]->name);
    kvt_uses_free(use, n);
    return code;
}

static kvt_code add_controls(plan *p, const kvt_replay_spec *spec, kvt_err *err)
{
    static const char *const names[] = {"full", "random", "position"};
    const char *oracle = spec->oracle ? spec->oracle : "oracle";
    for (int i = 0; i < 3; i++)
        if (kvt_registry_find(p->registry, names[i]) && own_uses(p, names[i], true, err))
            return err->code;
    if (strcmp(oracle, "none") == 0 ||
        (!spec->oracle && !kvt_registry_find(p->registry, oracle)))
        return KVT_OK;
    return own_uses(p, oracle, true, err);
}

/* Whether some use drops tokens for good while decoding. */
static bool stays_inside(const plan *p)
{
    for (int i = 0; i < p->n_use; i++) {
        const kvt_use *u = p->use[i].use;
        if (u->traits.effect == KVT_EVICT && !u->traits.by_threshold &&
            plan_acts_in_decode(u, p->spec->act))
            return true;
    }
    return false;
}

/* The bound of those, behind the other controls. */
static kvt_code add_inside_bound(plan *p, int n_control, kvt_err *err)
{
    static const char name[] = "oracle-assign";
    int n = p->n_use;
    bool none = p->spec->oracle && strcmp(p->spec->oracle, "none") == 0;
    if (p->spec->no_controls || none || !stays_inside(p) ||
        !kvt_registry_find(p->registry, name))
        return KVT_OK;
    if (own_uses(p, name, true, err) || p->n_use == n)
        return err->code;
    plan_use bound = p->use[n];
    memmove(p->use + n_control + 1, p->use + n_control,
            (size_t)(n - n_control) * sizeof *p->use);
    p->use[n_control] = bound;
    return KVT_OK;
}

kvt_code plan_ask(plan *p, kvt_err *err)
{
    const kvt_replay_spec *spec = p->spec;
    if (check_oracle(p, spec->oracle, err) ||
        (!spec->no_controls && add_controls(p, spec, err)))
        return err->code;
    int n_control = p->n_use;
    return ask(p, spec->policies ? spec->policies : "all", err)
               ? err->code
               : add_inside_bound(p, n_control, err);
}

/* ---- what "all" leaves out -----------------------------------------------------------------
 */

/* Takes those out of "all" whose kind of probe no trace has: one line names them. */
static void leave_out(plan *p)
{
    int n = 0;
    for (int i = 0; i < p->n_use; i++) {
        const plan_use *u = &p->use[i];
        size_t at = strlen(p->left_out);
        if (!u->by_all || plan_probe_anywhere(p, u->use))
            p->use[n++] = *u;
        else if (at < sizeof p->left_out)
            snprintf(p->left_out + at, sizeof p->left_out - at, "%s%s", at ? ", " : "",
                     u->use->name);
    }
    p->n_use = n;
}

static bool is_planned(const plan *p, const kvt_policy *policy)
{
    for (int i = 0; i < p->n_use; i++)
        if (p->use[i].use->policy == policy)
            return true;
    return false;
}

/* Names those that "all" leaves out since they read a file that was not named. */
static void name_without_file(plan *p)
{
    for (const kvt_policy *const *all = kvt_registry_policies(p->registry); *all; all++) {
        size_t at = strlen(p->no_file);
        bool reads = (*all)->weights || ((*all)->traits.needs & KVT_NEED_SCORES);
        if (reads && !(*all)->traits.control && !is_planned(p, *all) && at < sizeof p->no_file)
            snprintf(p->no_file + at, sizeof p->no_file - at, "%s%s", at ? ", " : "",
                     (*all)->name);
    }
}

/* Names those that "all" leaves out since no trace could answer them. */
static void name_unanswered(plan *p, const char *text)
{
    for (const kvt_policy *const *all = kvt_registry_policies(p->registry); *all; all++) {
        kvt_use *u;
        kvt_err ignored; /* one that cannot be read without parameters is no part of "all" */
        size_t at = strlen(p->no_trace);
        if ((*all)->traits.control || plan_lists(text, (*all)->name) ||
            kvt_use_parse(&u, p->registry, (*all)->name, &ignored))
            continue;
        if (kvt_use_why_not(u))
            snprintf(p->no_trace + at, sizeof p->no_trace - at, "%s%s (%s)", at ? ", " : "",
                     u->name, kvt_use_why_not(u));
        kvt_use_free(u);
    }
}

void plan_leave_out(plan *p)
{
    const char *policies = p->spec->policies ? p->spec->policies : "all";
    leave_out(p);
    if (!plan_lists(policies, "all"))
        return;
    name_without_file(p);
    name_unanswered(p, policies);
}
