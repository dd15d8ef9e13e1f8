/* policy_show.c - one policy or allocator, from its descriptor: paper, what it needs and
 * decides, published variants, parameters, and what a trace lacks for it. */
#include <stdio.h>
#include <string.h>

#include "cli/about.h"
#include "cli/help.h"
#include "cli/pager.h"
#include "cli/policy_text.h"
#include "kvt/arena.h"
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

static void label(FILE *out, const char *name, const char *value)
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
        label(out, "needs", "positions only, which every trace has");
    for (int i = 0, n = 0; i < KVT_NEED_COUNT; i++)
        if (needs & 1u << i) {
            snprintf(text, sizeof text, "%s%s%s%s", need_lines[i].text,
                     *need_lines[i].datasets ? " (" : "", need_lines[i].datasets,
                     *need_lines[i].datasets ? ")" : "");
            label(out, n++ ? "" : "needs", text);
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
            label(out, "probe", text);
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
    label(out, "weights", text);
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
    label(out, "every", text);
}

static kvt_work work_of(const kvt_policy *p, const void *params, int64_t head_dim,
                        int64_t lane_heads)
{
    kvt_work work = {.head_dim = head_dim, .lane_heads = lane_heads};
    p->work(params, &work);
    return work;
}

/* `n` bytes for heads of 128 channels; what they are for heads of half as many, and for two of
 * them, says what they depend on. */
static void show_bytes(FILE *out, const char *name, const char *of, int64_t n, int64_t half,
                       int64_t two)
{
    char text[120];
    if (n == 0)
        return;
    snprintf(text, sizeof text, "%lld bytes beside each %s%s%s", (long long)n, of,
             n == two ? "" : ", of each query head", n == half ? "" : " (128 channels)");
    label(out, name, text);
}

/* What it keeps beside its slots (--fair bytes pays for that), and what it reads as published.
 */
static void show_work(FILE *out, const kvt_policy *p)
{
    void *params = p->work ? kvt_alloc(1, p->params_size) : NULL;
    if (!params)
        return;
    if (p->params)
        kvt_param_defaults(p->params, params);
    kvt_work w = work_of(p, params, 128, 1), half = work_of(p, params, 64, 1);
    kvt_work two = work_of(p, params, 128, 2);
    kvt_free(params);
    show_bytes(out, "keeps", "slot", w.state_bytes_slot, half.state_bytes_slot,
               two.state_bytes_slot);
    show_bytes(out, w.state_bytes_slot > 0 ? "" : "keeps", "lane", w.state_bytes_lane,
               half.state_bytes_lane, two.state_bytes_lane);
    if (w.whole_rows)
        label(out, "reads", "whole rows of attention, which fused kernels do not keep");
}

static void heading(FILE *out, const char *slash, const char *name, const char *title)
{
    int at = fprintf(out, "%s%s - ", slash, name);
    cli_wrap(out, title, at, at, LINE_WIDTH);
    fputc('\n', out);
}

static void show_policy(FILE *out, const kvt_policy *p)
{
    char text[400];
    kvt_traits now = policy_usual_traits(p), *t = &now;
    heading(out, "", p->name, p->title);
    label(out, "paper", p->paper);
    fputc('\n', out);
    label(out, "about", p->about);
    fputs(p->about && *p->about ? "\n" : "", out);
    bool never = t->exactness == KVT_NOT_REPLAYABLE && p->why_not;
    if (never) {
        label(out, "differs", *p->differs ? p->differs : "everything: it is not replayed");
        label(out, "class", "not replayable, from any trace");
        label(out, "refused", p->why_not);
        return;
    }
    label(out, "differs", *p->differs ? p->differs : "nothing in what is kept");
    label(out, "refused", p->why_not);
    snprintf(text, sizeof text, "%s",
             t->phases == KVT_PREFILL ? "once, at the end of the prompt; decoded tokens pile up"
             : t->phases == KVT_DECODE
                 ? "in decode"
                 : "at the end of the prompt, then in decode; --act prefill: "
                   "at the end of the prompt only");
    label(out, "acts", text);
    show_every(out, p, t);
    show_needs(out, t->needs);
    show_probe(out, t->needs & KVT_NEED_PROBE ? t->probe : NULL);
    show_weights(out, p);
    kvt_exactness usual = policy_usual_class(t);
    snprintf(text, sizeof text, "%s: %s%s%s", kvt_exactness_name(usual),
             kvt_exactness_help(usual), usual != t->exactness ? "; with --act prefill " : "",
             usual != t->exactness ? kvt_exactness_name(t->exactness) : "");
    label(out, "class", text);
    label(out, "chooses", scope_text(t->scope));
    if (p->base) {
        snprintf(text, sizeof text,
                 "%s scores first; base=NAME takes another one, base.PARAMETER=VALUE sets it",
                 p->base);
        label(out, "base", text);
    }
    label(out, "effect", policy_effect_text(t->effect));
    bool own = !p->share && p->select && t->scope != KVT_BY_LANE;
    snprintf(text, sizeof text, "%s (%s)", p->share ? p->share->name : "even",
             p->share ? p->share->title
             : own    ? "in total; its own rule says how the lanes that it sees share that"
                      : "the same number of slots for every lane");
    label(out, "allocator",
          t->effect == KVT_EVICT ? text : "none: there are no slots to share out");
    show_work(out, p);
    label(out, "budgets",
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
    label(out, "paper", s->paper);
    label(out, "differs", s->differs);
    label(out, "sees", scope_text(s->scope));
    label(out, "total",
          s->may_exceed ? "never more than asked, but in published forms that are not exact; "
                          "the audit shows it"
                        : "never more than asked");
    char text[160];
    snprintf(text, sizeof text, "behind any policy%s: snapkv/%s",
             s->by_score ? " that scores" : "", s->name);
    label(out, "use", text);
    if (s->weights) {
        snprintf(text, sizeof text, "table=FILE, a file of kind %s",
                 s->weights_kind ? s->weights_kind : s->name);
        label(out, "reads", text);
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
    label(out, "this trace", *why ? why : "answers it");
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
        show_policy(out, p);
    else
        show_share(out, s);
    if (trace)
        code = show_trace(out, name, trace, plugin, &c->ctx, err);
    cli_pager_close(out);
    return code;
}
