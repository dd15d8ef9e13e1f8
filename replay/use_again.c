/* use_again.c - every=K of a policy of the prompt only: it decides anew while decoding. */
#include "replay/use_priv.h"

/* Needs that are facts of the prompt, or of one decision about it. */
static const struct {
    unsigned need;
    const char *what;
} prompt_only[] = {
    {KVT_NEED_COLUMNS, "sums over all prompt queries"},
    {KVT_NEED_BLOCKS, "attention of blocks of prompt queries"},
    {KVT_NEED_PROBE, "a probe that ran on the prompt"},
    {KVT_NEED_SCORES, "scores of the prompt that another program computed"},
    {KVT_NEED_DECISION, "decisions about the prompt"},
    {KVT_NEED_OTHERS, "what other traces looked at behind their prompts"},
    {KVT_NEED_PLAN, "a schedule that was made for the whole response"},
};

bool use_selects_together(const kvt_use *u)
{
    kvt_traits own = u->policy->traits;
    if (u->policy->vary)
        u->policy->vary(u->params, &own);
    return u->policy->select && own.scope != KVT_BY_LANE;
}

static const char *why_not(const kvt_use *u)
{
    const kvt_traits *t = &u->traits;
    if (t->effect != KVT_EVICT)
        return "it evicts no slots";
    if (t->by_threshold)
        return "it keeps by a threshold";
    if (!u->policy->score)
        return "it scores nothing";
    if (use_selects_together(u)) /* at the end of the prompt they do, later they need not */
        return "it selects over lanes that hold the same slots";
    return NULL;
}

kvt_code use_again(kvt_use *u, kvt_err *err)
{
    kvt_traits *t = &u->traits;
    if (u->own.every < 1 || (t->phases & KVT_DECODE))
        return KVT_OK;
    for (size_t i = 0; i < sizeof prompt_only / sizeof *prompt_only; i++)
        if (t->needs & prompt_only[i].need)
            return kvt_fail(err, KVT_USAGE,
                            "every=%lld: it decides once, at the end of the prompt: it reads "
                            "%s",
                            (long long)u->own.every, prompt_only[i].what);
    const char *why = why_not(u);
    if (why)
        return kvt_fail(err, KVT_USAGE,
                        "every=%lld: it decides once, at the end of the prompt: %s",
                        (long long)u->own.every, why);
    u->again = true;
    t->phases |= KVT_DECODE;
    t->one_ranking = false;
    return KVT_OK;
}
