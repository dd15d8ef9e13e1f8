/* plan_probe.c - which probe of a trace each cell of a pass reads, and what that makes the
 * number worth.
 *
 * A probe that ran on the full cache serves every budget. One that ran on a cache evicted at a
 * budget is a statement about that budget only: the slots that the policy really gets. With
 * budgets in bytes (--fair bytes) those are fewer than what was typed, and the draft has to be
 * written on as few: a method whose second stage gets B slots has a first stage with B, not
 * with three times as many. */
#include "replay/plan_priv.h"

#include <stdio.h>
#include <string.h>

static bool is_kind(const kvt_probe_info *i, const char *kind)
{
    return strcmp(kvt_probe_kind_name(i->kind), kind) == 0;
}

/* What a cache of that budget holds of the prompt: 0 and the whole prompt are the same. */
static int64_t held(int64_t budget, int64_t n_prompt)
{
    return budget > 0 && budget < n_prompt ? budget : n_prompt;
}

static void worsen(pass_cell *c, kvt_exactness e)
{
    if (c->exactness < e)
        c->exactness = e;
}

static void skip(pass *x, pass_cell *c, const char *text)
{
    snprintf(c->reason, sizeof c->reason, "policy %s: %.220s", x->use->policy->name, text);
}

/* "51 and 256" of the probes of that kind that ran at a budget, by rising budget. */
static void list_budgets(char *out, size_t cap, const kvt_trace *t, const char *kind)
{
    int64_t last = 0, next = 1;
    size_t n = 0;
    *out = 0;
    while (next > 0 && n < cap) {
        int64_t after = 0;
        next = 0;
        for (int i = 0; i < kvt_trace_probe_count(t); i++) {
            const kvt_probe_info *p = kvt_trace_probe_info(t, i);
            if (!is_kind(p, kind) || p->budget <= last)
                continue;
            if (next == 0 || p->budget < next)
                after = next, next = p->budget;
            else if (p->budget > next && (after == 0 || p->budget < after))
                after = p->budget;
        }
        if (next > 0)
            n += (size_t)snprintf(out + n, cap - n, "%s%lld",
                                  last == 0    ? ""
                                  : after == 0 ? " and "
                                               : ", ",
                                  (long long)next);
        last = next;
    }
}

/* What a probe of its kind lacks for whoever reads that kind; NULL: nothing. Only drafts run on
 * an evicted cache, only the repeated prompt in segments, each about a chunk. */
static const char *unfit(const kvt_probe_info *p)
{
    bool repeat = p->kind == KVT_PROBE_REPEAT;
    if (repeat && !p->has[KVT_PROBE_SET_BEGIN])
        return "chunk/begin and chunk/end are missing";
    if (!repeat && p->has[KVT_PROBE_SET_SEGMENT])
        return "expected rows that see each other, got segments";
    if (p->kind != KVT_PROBE_DRAFT && p->has[KVT_PROBE_SET_KEEP])
        return "expected a probe on the full cache, got one on an evicted cache";
    return NULL;
}

/* ---- a probe that is named -----------------------------------------------------------------
 */

static void use_named(pass *x, const kvt_trace *t)
{
    const char *name = x->use->own.probe, *kind = x->use->traits.probe;
    int at = kvt_trace_probe_find(t, name);
    if (at < 0) {
        snprintf(x->reason, sizeof x->reason, "policy %s: the trace has no probe '%.60s'",
                 x->use->policy->name, name);
        return;
    }
    const kvt_probe_info *p = kvt_trace_probe_info(t, at);
    if (!is_kind(p, kind)) {
        snprintf(x->reason, sizeof x->reason,
                 "policy %s: probe '%.60s': expected one of kind %s, got %s",
                 x->use->policy->name, name, kind, kvt_probe_kind_name(p->kind));
        return;
    }
    if (unfit(p)) {
        snprintf(x->reason, sizeof x->reason, "policy %s: probe '%.60s': %s",
                 x->use->policy->name, name, unfit(p));
        return;
    }
    for (int c = 0; c < x->n_cell; c++) {
        x->cell[c].probe = at;
        if (held(p->budget, x->n_prompt) != x->n_prompt)
            worsen(&x->cell[c],
                   held(x->cell[c].tokens, x->n_prompt) == held(p->budget, x->n_prompt)
                       ? KVT_BUDGET_EXACT
                       : KVT_SURROGATE);
    }
}

/* ---- by kind -------------------------------------------------------------------------------
 */

/* The probe of the kind that ran with so many slots, -1: none. Of several the one of the
 * policy's name; -2: there is none of that name. */
static int find_probe(const pass *x, const kvt_trace *t, int64_t slots)
{
    int found = -1, n = 0;
    for (int i = 0; i < kvt_trace_probe_count(t); i++) {
        const kvt_probe_info *p = kvt_trace_probe_info(t, i);
        if (!is_kind(p, x->use->traits.probe) || held(p->budget, x->n_prompt) != slots)
            continue;
        if (strcmp(p->name, x->use->policy->name) == 0)
            return i;
        found = i, n++;
    }
    return n > 1 ? -2 : found;
}

/* The command that adds drafts at every budget of the pass that has none. */
static void add_command(char *out, size_t cap, const pass *x, const kvt_trace *t)
{
    const char *kind = x->use->traits.probe;
    const char *args = kvt_probe_kind_args((kvt_probe_kind)kvt_probe_kind_find(kind));
    int64_t missing[KVT_BUDGETS_MAX];
    int m = 0;
    for (int c = 0; c < x->n_cell; c++)
        if (find_probe(x, t, held(x->cell[c].tokens, x->n_prompt)) == -1)
            missing[m++] = x->cell[c].tokens;
    /* Several get their budget behind the name; a single one needs a name that is free. */
    size_t n =
        (size_t)snprintf(out, cap, "kvt capture --trace FILE --probe %s", x->use->policy->name);
    if (m == 1 && n < cap)
        n += (size_t)snprintf(out + n, cap - n, "-%lld", (long long)missing[0]);
    if (n < cap)
        n +=
            (size_t)snprintf(out + n, cap - n, "=%s:%.*s", kind, (int)strcspn(args, "@"), args);
    for (int i = 0; i < m && n < cap; i++)
        n += (size_t)snprintf(out + n, cap - n, "%s%lld", i ? "," : "@", (long long)missing[i]);
    if (n < cap)
        snprintf(out + n, cap - n, " --model MODEL");
}

static void use_kind(pass *x, const kvt_trace *t)
{
    const char *kind = x->use->traits.probe;
    int full = find_probe(x, t, x->n_prompt);
    bool any = false, evicted = false;
    for (int i = 0; i < kvt_trace_probe_count(t); i++) {
        const kvt_probe_info *p = kvt_trace_probe_info(t, i);
        any |= is_kind(p, kind);
        evicted |= is_kind(p, kind) && held(p->budget, x->n_prompt) != x->n_prompt;
    }
    if (!any) {
        snprintf(x->reason, sizeof x->reason,
                 "policy %s needs a probe of kind %s (kvt capture --trace FILE --probe "
                 "NAME=%s:%.60s --model MODEL)",
                 x->use->policy->name, kind, kind,
                 kvt_probe_kind_args((kvt_probe_kind)kvt_probe_kind_find(kind)));
        return;
    }
    if (!evicted && full == -2) { /* for no budget: there is nothing to rank by */
        snprintf(x->reason, sizeof x->reason,
                 "policy %s: the trace has several probes of kind %s, and none is named %s: "
                 "name one with probe=",
                 x->use->policy->name, kind, x->use->policy->name);
        return;
    }
    for (int c = 0; c < x->n_cell; c++) {
        pass_cell *cell = &x->cell[c];
        char text[400], budgets[96], command[160];
        int at = evicted ? find_probe(x, t, held(cell->tokens, x->n_prompt)) : full;
        const kvt_probe_info *p = at >= 0 ? kvt_trace_probe_info(t, at) : NULL;
        /* Where the prompt fits nothing goes, whatever a draft would have said. */
        if (at == -1 && held(cell->tokens, x->n_prompt) == x->n_prompt && !x->use->policy->step)
            continue;
        if (p && unfit(p)) {
            snprintf(text, sizeof text, "probe '%.60s': %.90s", p->name, unfit(p));
            skip(x, cell, text);
            continue;
        }
        if (at >= 0) {
            cell->probe = at;
            if (evicted)
                worsen(cell, KVT_BUDGET_EXACT);
            continue;
        }
        list_budgets(budgets, sizeof budgets, t, kind);
        add_command(command, sizeof command, x, t);
        if (at == -2)
            snprintf(text, sizeof text,
                     "the trace has several probes of kind %s, and none is named %s: name one "
                     "with probe=",
                     kind, x->use->policy->name);
        else
            snprintf(text, sizeof text, "no %s was run at a budget of %lld (there %s %s; %s)",
                     kind, (long long)cell->tokens, strpbrk(budgets, " ") ? "are" : "is",
                     budgets, command);
        skip(x, cell, text);
    }
}

/* Whether a probe ran what the model was yet to say ("response,tokens=8"). */
static bool is_response(const kvt_probe_info *p)
{
    static const char own[] = "response";
    size_t n = sizeof own - 1;
    return p->kind == KVT_PROBE_SUFFIX && strncmp(p->args, own, n) == 0 &&
           (p->args[n] == 0 || p->args[n] == ',');
}

void plan_probe(pass *x, const kvt_trace *t)
{
    if (x->reason[0] || !(x->use->traits.needs & KVT_NEED_PROBE) || !x->use->traits.probe)
        return;
    if (x->use->own.probe[0])
        use_named(x, t);
    else
        use_kind(x, t);
    for (int c = 0; c < x->n_cell; c++)
        if (x->cell[c].probe >= 0)
            x->knows_response |= is_response(kvt_trace_probe_info(t, x->cell[c].probe));
    /* Without a single cell there is nothing to run: step() would be called without a probe. */
    for (int c = 0; c < x->n_cell; c++)
        if (!x->cell[c].reason[0])
            return;
    if (!x->reason[0] && x->n_cell > 0)
        snprintf(x->reason, sizeof x->reason, "%s", x->cell[0].reason);
}

/* ---- policies that no trace can answer -----------------------------------------------------
 */

bool plan_probe_anywhere(const plan *p, const kvt_use *u)
{
    int kind = u->traits.probe ? kvt_probe_kind_find(u->traits.probe) : -1;
    bool any = !(u->traits.needs & KVT_NEED_PROBE) || u->own.probe[0];
    for (int i = 0; !any && kind >= 0 && i < p->set.n; i++)
        any = p->set.trace[i].probe_kinds >> kind & 1;
    return any;
}
