/* plan_reason.c - why a policy cannot run on a trace at all. */
#include "replay/plan_priv.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kvt/pieces.h"

/* Writes the reason; always true, so that the first one ends the search. */
static bool say(pass *x, const char *fmt, ...) KVT_PRINTF(2, 3);
static bool say(pass *x, const char *fmt, ...)
{
    va_list args;
    int n = snprintf(x->reason, sizeof x->reason, "policy %s", x->use->policy->name);
    va_start(args, fmt);
    if (n > 0 && (size_t)n < sizeof x->reason)
        vsnprintf(x->reason + n, sizeof x->reason - (size_t)n, fmt, args);
    va_end(args);
    return true;
}

static bool holds_decisions(const kvt_trace_info *info, const kvt_traits *traits)
{
    return info->has[KVT_DS_DECISION] &&
           (!traits->decision || strcmp(traits->decision, info->facts.decision_policy) == 0);
}

static bool has_peer(const trace_set *s, int trace)
{
    for (int k = 0; k < s->n; k++)
        if (set_is_peer(s, trace, k))
            return true;
    return false;
}

/* What the pass that drops channels shows to score(). */
static bool reads_more_than_keys(pass *x)
{
    const unsigned shown =
        KVT_NEED_KEYS | KVT_NEED_VALUES | KVT_NEED_QUERIES; /* and the window's queries */
    return x->channels && (x->use->traits.needs & ~shown) &&
           say(x, ": what ranks channels sees keys, values and queries only");
}

static bool is_impossible(pass *x, const kvt_trace_info *info)
{
    const kvt_traits *traits = &x->use->traits;
    int64_t shift = info->facts.decision_shift;
    if (x->joins && !holds_decisions(info, traits))
        return say(x, ": not replayable: the trace holds no decisions of a model that was "
                      "trained for it (decision/logit)");
    if (x->joins && shift != 0)
        return say(x,
                   ": a join is decided by the token itself, the trace's decisions come %lld "
                   "tokens later",
                   (long long)shift);
    const char *why = kvt_use_why_not(x->use);
    return traits->exactness == KVT_NOT_REPLAYABLE && !x->joins &&
           say(x, ": not replayable%s %s", why ? ":" : "", why ? why : "from a trace");
}

/* A decay of KVpop's that is none: scores would grow with age, or have no logarithm. */
static bool has_odd_decay(pass *x, kvt_trace *t)
{
    const kvt_trace_info *info = kvt_trace_info_of(t);
    bool found = false;
    if (!(x->use->traits.needs & KVT_NEED_DECISION) || !info->has[KVT_DS_DECISION_G])
        return false;
    for (int l = 0; l < info->n_layer && !found; l++) {
        kvt_view v;
        kvt_err err;
        if (kvt_trace_read(t, KVT_DS_DECISION_G, l, &v, &err))
            return false; /* the replay will say so */
        for (int64_t g = 0; g < v.dim[0] && !found; g++) {
            double gamma = (double)((const float *)v.data)[g];
            found = !(gamma > 0 && gamma <= 1) &&
                    say(x,
                        ": decision/gamma of layer %d, kv head %lld: expected above 0 and at "
                        "most 1, got %g",
                        (int)info->layer_id[l], (long long)g, gamma);
        }
        kvt_trace_done(t, &v);
    }
    return found;
}

/* What the trace would have to hold. */
static bool lacks_data(pass *x, kvt_trace *t)
{
    const kvt_trace_info *info = kvt_trace_info_of(t);
    const kvt_traits *traits = &x->use->traits;
    char lacks[200];
    unsigned elsewhere = KVT_NEED_PROBE | KVT_NEED_SCORES | KVT_NEED_OTHERS | KVT_NEED_WEIGHTS;
    unsigned needs = traits->needs & ~elsewhere;
    if (x->skip && x->n_response == 0) /* C082: what no row reads has no future */
        needs |= KVT_NEED_FUTURE;
    if (traits->cache_positions && x->output) /* rows are made again */
        needs |= KVT_NEED_KEYS | KVT_NEED_QUERIES;
    if (kvt_trace_lacks(t, needs, lacks, sizeof lacks))
        return say(x, " %s", lacks);
    return (traits->needs & KVT_NEED_DECISION) && !holds_decisions(info, traits) &&
           say(x, " reads decisions of %s, the trace holds those of '%.40s'", traits->decision,
               info->facts.decision_policy);
}

/* The best schedule is known lane by lane, for even budgets, where tokens leave for good. */
static bool has_no_plan(pass *x)
{
    const kvt_use *u = x->use;
    bool even = u->share == &kvt_share_even;
    return (u->traits.needs & KVT_NEED_PLAN) &&
           (!x->inside || u->traits.effect != KVT_EVICT || x->whole_model || !even) &&
           say(x, ": the best schedule is solved for policies that evict while decoding, lane "
                  "by lane, at even budgets");
}

/* What the run would have to bring along. */
static bool lacks_others(const plan *p, pass *x, int trace)
{
    unsigned needs = x->use->traits.needs;
    if ((needs & KVT_NEED_OTHERS) && set_others(&p->set, trace) == 0)
        return say(x, " needs other traces of the same model in the run, and there is none");
    if ((needs & KVT_NEED_SCORES) && !x->use->own.file[0])
        return say(x, " needs file=SCORES (kvt import --scores)");
    return threshold_is_matched(x->use) && !has_peer(&p->set, trace) &&
           say(x, " keeps what reaches a threshold: it needs other traces of the same model "
                  "in the run to match one, or threshold=X");
}

int64_t pass_queries(const pass *p, int64_t row)
{
    if (!p->use->again || !p->inside || (row + 1) % p->every != 0)
        return 1;
    return kvt_max(kvt_use_window(p->use, p->n_prompt + row + 1), 1);
}

int64_t pass_window(const pass *p)
{
    int64_t n = kvt_use_window(p->use, p->n_prompt);
    for (int64_t m = p->every - 1; p->use->again && m < p->n_response; m += p->every)
        n = kvt_max(n, pass_queries(p, m) - m - 1);
    return n;
}

static bool lacks_rows(pass *x, const kvt_trace_info *info)
{
    unsigned needs = x->use->traits.needs;
    int64_t window = pass_window(x);
    int64_t before = info->n_query - x->n_response;
    if ((x->inside || x->skip) && x->n_response > 0 && !info->has[KVT_DS_QUERY_POS])
        return say(x, " acts in decode and needs rows, which this trace (level %s) lacks",
                   kvt_level_name(info->facts.level));
    return (needs & (KVT_NEED_ATTN | KVT_NEED_LOGITS | KVT_NEED_QUERIES | KVT_NEED_LAYER)) &&
           window > before &&
           say(x,
               " needs the last %lld prompt %s, the trace holds %lld (capture with --queries "
               "all)",
               (long long)window,
               needs & (KVT_NEED_ATTN | KVT_NEED_LOGITS) ? "rows" : "queries",
               (long long)before);
}

void plan_reason(const plan *p, pass *x, int trace, kvt_trace *t)
{
    const kvt_trace_info *info = kvt_trace_info_of(t);
    (void)(is_impossible(x, info) || reads_more_than_keys(x) || lacks_data(x, t) ||
           has_odd_decay(x, t) || lacks_others(p, x, trace) || has_no_plan(x) ||
           lacks_rows(x, info));
}
