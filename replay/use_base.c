/* use_base.c - the policy that scores in front of another one: base=NAME,base.PARAM=VALUE. */
#include "replay/use_priv.h"

#include <stdio.h>
#include <string.h>

/* Two controls say something of a second stage: chance, and the truth. */
static bool is_base_control(const kvt_policy *p)
{
    return strcmp(p->name, "random") == 0 || strcmp(p->name, "oracle") == 0;
}

/* Why a policy is no base, or NULL. */
static const char *why_not(const kvt_policy *p, const kvt_traits *t)
{
    const struct {
        bool wrong;
        const char *why;
    } rules[] = {
        {p->base != NULL, "it has a base itself"},
        {t->exactness == KVT_NOT_REPLAYABLE, "it cannot be replayed from a trace"},
        {t->control && !is_base_control(p), "it is a control"},
        {t->effect == KVT_SKIP, "it skips slots instead of evicting them"},
        {t->effect == KVT_JOIN, "it joins slots instead of evicting them"},
        {t->effect == KVT_CHANNELS, "it drops channels instead of slots"},
        {t->by_threshold, "it keeps by a threshold"},
        {!p->score, "it scores nothing"},
        {p->select && t->scope != KVT_BY_LANE, "it selects over several lanes"},
        {p->weights != NULL, "it reads learned weights, which a base cannot"},
        {t->needs & KVT_NEED_SCORES, "it reads a score file, which a base cannot"},
        {t->needs & KVT_NEED_PLAN, "it follows a schedule and scores nothing"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].wrong)
            return rules[i].why;
    return NULL;
}

static kvt_code check(const kvt_policy *p, const kvt_traits *t, kvt_err *err)
{
    const char *why = why_not(p, t);
    return why ? kvt_fail(err, KVT_USAGE, "base=%s: no base: %s", p->name, why) : KVT_OK;
}

/* The engine's own parameters are those of the policy in front. */
static kvt_code check_own(const kvt_use *base, kvt_err *err)
{
    const struct {
        const char *name;
        bool set;
    } own[] = {{"probe", base->own.probe[0]}, {"every", base->own.every > 0}};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (own[i].set)
            return kvt_fail(err, KVT_USAGE, "base.%s: set %s of the policy itself", own[i].name,
                            own[i].name);
    return KVT_OK;
}

kvt_code use_base_open(kvt_use *u, const kvt_registry *r, const char *typed, kvt_err *err)
{
    char text[USE_TEXT_MAX + 128];
    if (!u->policy->base)
        return KVT_OK;
    const char *name = u->own.base[0] ? u->own.base : u->policy->base;
    if (strlen(name) > 64 || name[strcspn(name, ":,/")])
        return kvt_fail(err, KVT_USAGE, "base=%.40s: expected the name of a policy", name);
    if (u->policy->traits.effect == KVT_JOIN || u->policy->traits.effect == KVT_CHANNELS)
        return kvt_fail(err, KVT_USAGE, "a policy that drops no slots has no base");
    const kvt_policy *p = r ? kvt_registry_find(r, name) : kvt_policy_find(name);
    if (!p) {
        const char *near = kvt_registry_nearest(r, name);
        if (near)
            return kvt_fail(err, KVT_USAGE, "base: no policy '%.40s' (did you mean '%s'?)",
                            name, near);
        return kvt_fail(err, KVT_USAGE, "base: no policy '%.40s' (kvt policy list names them)",
                        name);
    }
    if (check(p, &p->traits, err))
        return err->code;
    /* Nothing is shared out in a first stage, whatever allocator the base has of its own. */
    snprintf(text, sizeof text, "%s/even%s%s", name, *typed ? ":" : "", typed);
    if (kvt_use_parse(&u->base, r, text, err))
        return kvt_within(err, "base");
    return check(p, &u->base->traits, err) ? err->code : check_own(u->base, err);
}

/* A name that both set must be the same one. */
static kvt_code merge_name(const char **own, const char *base, const char *what, kvt_err *err)
{
    if (*own && base && strcmp(*own, base) != 0)
        return kvt_fail(err, KVT_USAGE, "base: %s of kind %s, but the policy reads %s", what,
                        base, *own);
    *own = *own ? *own : base;
    return KVT_OK;
}

/* Whether keys and values of other slots than the newest are left out. */
static bool reads_new_only(const kvt_traits *t)
{
    return t->new_slots_only || !(t->needs & (KVT_NEED_KEYS | KVT_NEED_VALUES));
}

/* Whether `future` over the slots that are left is not read. */
static bool reads_by_position(const kvt_traits *t)
{
    return t->future_by_position || !(t->needs & KVT_NEED_FUTURE);
}

kvt_code use_base_merge(kvt_use *u, kvt_err *err)
{
    kvt_traits *t = &u->traits;
    if (!u->base)
        return KVT_OK;
    const kvt_traits *b = &u->base->traits;
    if (!(t->phases & b->phases))
        return kvt_fail(err, KVT_USAGE,
                        "base=%s: one of the two acts on the prompt only, the other while "
                        "decoding only",
                        u->base->policy->name);
    /* What it keeps for each query head of a kv head's lane has no place in one of its own. */
    if (t->by_query_head && !b->by_query_head)
        return kvt_fail(err, KVT_USAGE,
                        "base=%s: it scores a lane for each kv head, the policy has one for "
                        "each query head",
                        u->base->policy->name);
    if (merge_name(&t->probe, b->probe, "it reads a probe", err) ||
        merge_name(&t->decision, b->decision, "it reads decisions", err))
        return err->code;
    t->new_slots_only = reads_new_only(t) && reads_new_only(b);
    t->future_by_position = reads_by_position(t) && reads_by_position(b);
    t->phases &= b->phases;
    t->needs |= b->needs;
    t->exactness = b->exactness > t->exactness ? b->exactness : t->exactness;
    t->by_query_head |= b->by_query_head;
    t->one_ranking &= b->one_ranking;
    t->control |=
        (b->needs & KVT_NEED_FUTURE) != 0; /* it knows the response, as its base does */
    return KVT_OK;
}

void use_base_print(const kvt_use *u, char *text, size_t cap)
{
    char params[USE_TEXT_MAX] = "";
    size_t n = strlen(text);
    if (!u->base)
        return;
    n += (size_t)snprintf(text + n, cap - n, "%sbase=%s", strchr(text, ':') ? "," : ":",
                          u->base->policy->name);
    if (u->base->policy->params)
        kvt_param_print(u->base->policy->params, params, sizeof params, u->base->params);
    for (const char *at = params; *at && n < cap; at += *at == ',') {
        size_t len = strcspn(at, ",");
        n += (size_t)snprintf(text + n, cap - n, ",base.%.*s", (int)len, at);
        at += len;
    }
}
