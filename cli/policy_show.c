/* policy_show.c - one policy or allocator, from its descriptor: paper, what it needs and
 * decides, published variants, parameters, and what a trace lacks for it. */
#include <stdio.h>
#include <string.h>

#include "cli/about.h"
#include "cli/help.h"
#include "cli/pager.h"
#include "cli/policy_text.h"
#include "kvt/train.h"

enum { LINE_WIDTH = 80, LABEL_WIDTH = 14, NEEDS_CAP = 400 };

static const struct need {
    const char *text, *datasets;
} need_lines[] = {
#define KVT_NEED(id, text, datasets) {text, datasets},
#include "traces/needs.def"
#undef KVT_NEED
};

static const char *scope_text(kvt_scope scope)
{
    static const char *const texts[] = {"each lane alone", "the lanes of a layer together",
                                        "all lanes of the model together"};
    return texts[scope];
}

const char *policy_effect_text(kvt_effect effect)
{
    static const char *const texts[] = {
        "tokens that are not kept are gone",
        "tokens that are not kept are not read at that step",
        "tokens that are not kept are averaged into their neighbour",
        "channels of the keys go, all tokens stay"};
    return texts[effect];
}

/* ---- show ----------------------------------------------------------------------------------
 */

void policy_label(FILE *out, const char *name, const char *value)
{
    if (!value || !*value)
        return;
    fprintf(out, "%-*s", LABEL_WIDTH, name);
    cli_wrap(out, value, LABEL_WIDTH, LABEL_WIDTH, LINE_WIDTH);
}

static void show_needs(FILE *out, unsigned needs)
{
    char text[NEEDS_CAP];
    if (!needs)
        policy_label(out, "needs", "positions only, which every trace has");
    for (int i = 0, n = 0; i < KVT_NEED_COUNT; i++)
        if (needs & 1u << i) {
            snprintf(text, sizeof text, "%s%s%s%s", need_lines[i].text,
                     *need_lines[i].datasets ? " (" : "", need_lines[i].datasets,
                     *need_lines[i].datasets ? ")" : "");
            policy_label(out, n++ ? "" : "needs", text);
        }
}

/* What has to be run behind the prompt, and how. */
static void show_probe(FILE *out, const char *kind)
{
    static const struct {
        const char *name, *given, *what;
    } kinds[] = {
#define KVT_PROBE(id, name, given, what) {name, given, what},
#include "traces/probes.def"
#undef KVT_PROBE
    };
    char text[NEEDS_CAP];
    for (size_t i = 0; kind && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, kind) == 0) {
            snprintf(text, sizeof text, "%s; kvt capture --probe NAME=%s:%s", kinds[i].what,
                     kind, kinds[i].given);
            policy_label(out, "probe", text);
        }
}

/* What has to be trained, and how. A trainer's name begins the kinds that it makes. */
static void show_weights(FILE *out, const kvt_policy *p)
{
    const char *kind = p->weights_kind ? p->weights_kind : p->name;
    const kvt_trainer *const *t = kvt_trainers();
    char text[200];
    while (p->weights && *t && strncmp(kind, (*t)->name, strlen((*t)->name)) != 0)
        t++;
    if (!p->weights || !*t)
        return;
    snprintf(text, sizeof text, "a file of kind %s; kvt train %s TRACE... -o FILE", kind,
             (*t)->name);
    policy_label(out, "weights", text);
}

/* How often it decides, and whether every=K changes that. */
static void show_every(FILE *out, const kvt_policy *p, const kvt_traits *t)
{
    char text[200];
    kvt_use *use = NULL;
    kvt_err err; /* of a plug-in: it is not in the registry of the parser */
    if (t->effect != KVT_EVICT || t->control || !kvt_policy_find(p->name))
        return;
    snprintf(text, sizeof text, "%s:every=16", p->name);
    kvt_code code = kvt_use_parse(&use, NULL, text, &err);
    kvt_use_free(use);
    const char *why = code ? strstr(err.text, "prompt: ") : NULL;
    if (code && !why)
        return;
    if (code)
        snprintf(text, sizeof text, "not for it: %s", why + strlen("prompt: "));
    else if (!(t->phases & KVT_DECODE))
        snprintf(text, sizeof text, "every=K: it decides anew, each K tokens of the response");
    else
        snprintf(text, sizeof text,
                 t->every > 1 ? "%lld tokens, as published; every=K" : "token; every=K",
                 (long long)t->every);
    policy_label(out, "every", text);
}

static void heading(FILE *out, const char *slash, const char *name, const char *title)
{
    int at = fprintf(out, "%s%s - ", slash, name);
    cli_wrap(out, title, at, at, LINE_WIDTH);
    fputc('\n', out);
}

static void show_policy(FILE *out, const kvt_registry *r, const kvt_policy *p)
{
    char text[400];
    kvt_traits now = policy_usual_traits(p), *t = &now;
    heading(out, "", p->name, p->title);
    policy_label(out, "paper", p->paper);
    fputc('\n', out);
    policy_label(out, "about", p->about);
    fputs(p->about && *p->about ? "\n" : "", out);
    bool never = t->exactness == KVT_NOT_REPLAYABLE && p->why_not;
    if (never) {
        policy_label(out, "differs",
                     *p->differs ? p->differs : "everything: it is not replayed");
        policy_label(out, "class", "not replayable, from any trace");
        policy_label(out, "refused", p->why_not);
        return;
    }
    policy_label(out, "differs", *p->differs ? p->differs : "nothing in what is kept");
    policy_label(out, "refused", p->why_not);
    snprintf(text, sizeof text, "%s",
             t->phases == KVT_PREFILL ? "once, at the end of the prompt; decoded tokens pile up"
             : t->phases == KVT_DECODE
                 ? "in decode"
                 : "at the end of the prompt, then in decode; --act prefill: "
                   "at the end of the prompt only");
    policy_label(out, "acts", text);
    show_every(out, p, t);
    show_needs(out, t->needs);
    show_probe(out, t->needs & KVT_NEED_PROBE ? t->probe : NULL);
    show_weights(out, p);
    kvt_exactness usual = policy_usual_class(t);
    snprintf(text, sizeof text, "%s: %s%s%s", kvt_exactness_name(usual),
             kvt_exactness_help(usual), usual != t->exactness ? "; with --act prefill " : "",
             usual != t->exactness ? kvt_exactness_name(t->exactness) : "");
    policy_label(out, "class", text);
    policy_label(out, "chooses", scope_text(t->scope));
    if (p->base) {
        snprintf(text, sizeof text,
                 "%s scores first; base=NAME takes another one, base.PARAMETER=VALUE sets it",
                 p->base);
        policy_label(out, "base", text);
    }
    policy_label(out, "effect", policy_effect_text(t->effect));
    bool own = !p->share && p->select && t->scope != KVT_BY_LANE;
    snprintf(text, sizeof text, "%s (%s)", p->share ? p->share->name : "even",
             p->share ? p->share->title
             : own    ? "in total; its own rule says how the lanes that it sees share that"
                      : "the same number of slots for every lane");
    policy_label(out, "allocator",
                 t->effect == KVT_EVICT ? text : "none: there are no slots to share out");
    policy_show_costs(out, r, p);
    policy_label(out, "budgets",
                 t->own_threshold ? "it has a threshold of its own; threshold=X"
                 : t->by_threshold
                     ? "met in the mean by a threshold, found on the other traces of the "
                       "set; threshold=X"
                 : t->one_ranking ? "one ranking serves all of them, on the prompt"
                                  : "each is replayed");
    cli_show_params(out, "parameters", p->params);
    if (p->share)
        cli_show_params(out, "parameters of its allocator", p->share->params);
}

static void show_share(FILE *out, const kvt_share *s)
{
    heading(out, "/", s->name, s->title);
    policy_label(out, "paper", s->paper);
    policy_label(out, "differs", s->differs);
    policy_label(out, "sees", scope_text(s->scope));
    policy_label(out, "total",
                 s->may_exceed
                     ? "never more than asked, but in published forms that are not exact; "
                       "the audit shows it"
                     : "never more than asked");
    char text[160];
    snprintf(text, sizeof text, "behind any policy%s: snapkv/%s",
             s->by_score ? " that scores" : "", s->name);
    policy_label(out, "use", text);
    if (s->weights) {
        snprintf(text, sizeof text, "table=FILE, a file of kind %s",
                 s->weights_kind ? s->weights_kind : s->name);
        policy_label(out, "reads", text);
    }
    cli_show_params(out, "parameters", s->params);
}

/* Whether a trace answers it, and what is missing. */
static kvt_code show_trace(FILE *out, const char *name, const char *trace,
                           const cli_list *plugin, const kvt_ctx *ctx, kvt_err *err)
{
    char why[NEEDS_CAP];
    const char *traces[] = {trace};
    kvt_replay_spec spec = {.trace = traces,
                            .n_trace = 1,
                            .policies = name,
                            .plugin = plugin->item,
                            .n_plugin = plugin->n,
                            .no_controls = true};
    if (kvt_replay_reason(why, sizeof why, &spec, ctx, err))
        return err->code;
    fputc('\n', out);
    policy_label(out, "this trace", *why ? why : "answers it");
    return KVT_OK;
}

kvt_code policy_show(cli *c, const kvt_registry *r, const char *name, const char *trace,
                     const cli_list *plugin, kvt_err *err)
{
    const kvt_policy *p = kvt_registry_find(r, name);
    const kvt_share *s = p ? NULL : kvt_share_find(name + (*name == '/'));
    if (!p && !s) {
        const char *near = kvt_registry_nearest(r, name);
        return kvt_fail(err, KVT_USAGE, "no policy '%.60s'%s%s%s", name,
                        near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
    }
    if (trace && (!p || c->json))
        return kvt_fail(err, KVT_USAGE,
                        "show %s: a trace goes with a policy and without --json", name);
    if (c->json && p) {
        json_t *row = policy_json(p);
        json_object_set_new(row, "schema", json_string("kvt-policy-1"));
        return cli_json_print(row, err);
    }
    if (c->json)
        return kvt_fail(err, KVT_USAGE, "'%s' is an allocator: --json prints policies only",
                        name);
    FILE *out = cli_pager_open(c);
    kvt_code code = KVT_OK;
    if (p)
        show_policy(out, r, p);
    else
        show_share(out, s);
    if (trace)
        code = show_trace(out, name, trace, plugin, &c->ctx, err);
    cli_pager_close(out);
    return code;
}
