/* document_policies.c - docs/policies.md from the descriptors: an overview, each policy and
 * allocator, and whose code each published variant follows. */
#include <string.h>

#include "cli/document.h"
#include "cli/opt.h"
#include "cli/policy_text.h"

static void param_rows(FILE *out, const kvt_param *table)
{
    char range[160], def[64];

    if (!table || !table->name)
        return;
    fputc('\n', out);
    document_header(out, (const char *const[]){"parameter", "default", "range", "what it is"},
                    4);
    for (const kvt_param *p = table; p->name; p++) {
        if (p->type == KVT_CHOICE)
            snprintf(def, sizeof def, "%s", p->choices[(int)p->def].name);
        else if (p->type == KVT_BOOL)
            snprintf(def, sizeof def, "%s", p->def != 0 ? "true" : "false");
        else if (p->type == KVT_TEXT)
            def[0] = 0;
        else
            cli_opt_number(p->def, def, sizeof def);
        document_row(out,
                     (const char *const[]){p->name, def,
                                           kvt_param_range(p, range, sizeof range), p->help},
                     4);
    }
    for (const kvt_param *p = table; p->name; p++)
        for (const kvt_choice *v = p->choices;
             p->type == KVT_CHOICE && v < p->choices + (int)p->max + 1; v++) {
            fprintf(out, "%s- `%s=%s`", v == p->choices ? "\n" : "", p->name, v->name);
            if (v->sets && v->sets[0])
                fprintf(out, " sets `%s`", v->sets);
            fputs(": ", out);
            document_put(out, v->help);
            fputc('\n', out);
        }
}

static void phases(unsigned mask, char *out, size_t cap)
{
    snprintf(out, cap, "%s%s%s", mask & KVT_PREFILL ? "prefill" : "",
             (mask & KVT_PREFILL) && (mask & KVT_DECODE) ? " and " : "",
             mask & KVT_DECODE ? "decode" : "");
}

static void needs(unsigned mask, char *out, size_t cap)
{
    static const char *const text[] = {
#define KVT_NEED(id, text, datasets) text,
#include "traces/needs.def"
#undef KVT_NEED
    };
    size_t n = 0;
    snprintf(out, cap, "positions only");
    for (int i = 0; i < KVT_NEED_COUNT && n < cap; i++)
        if (mask & (1u << i))
            n += (size_t)snprintf(out + n, cap - n, "%s%s", n ? ", " : "", text[i]);
}

/* "open-loop (exact with --act prefill)", "surrogate (at best exact)". */
static void class_text(const kvt_policy *p, char *out, size_t cap)
{
    kvt_traits t = policy_usual_traits(p);
    kvt_exactness usual = policy_usual_class(&t);
    const char *name = kvt_exactness_name(usual), *own = kvt_exactness_name(t.exactness);
    const char *best = kvt_exactness_name(p->traits.exactness);
    bool acts_twice = (t.phases & KVT_PREFILL) && usual != t.exactness;
    if (acts_twice)
        snprintf(out, cap, "%s (%s with --act prefill)", name, own);
    else if (usual != p->traits.exactness && t.exactness != p->traits.exactness)
        snprintf(out, cap, "%s (at best %s)", name, best);
    else
        snprintf(out, cap, "%s", name);
}

static void policy(FILE *out, const kvt_policy *p)
{
    char text[600];
    kvt_traits t = policy_usual_traits(p);

    fprintf(out, "\n### %s\n\n", p->name);
    document_put(out, p->title);
    fputs(".\n\n", out);
    document_line(out, "paper", p->paper);
    document_line(out, "differs", p->differs);
    document_line(out, "refused", p->why_not);
    class_text(p, text, sizeof text);
    document_line(out, "class", text);
    if (t.exactness == KVT_NOT_REPLAYABLE && p->why_not)
        return;
    phases(p->traits.phases, text, sizeof text);
    document_line(out, "acts in", text);
    needs(t.needs, text, sizeof text);
    document_line(out, "reads", text);
    document_line(out, "base", p->base);
    document_line(out, "allocator", p->share ? p->share->name : NULL);
    document_line(out, "effect", policy_effect_text(t.effect));
    document_line(out, "one ranking for all budgets", t.one_ranking ? "yes" : "no");
    param_rows(out, p->params);
}

/* A row each: for those who look for a policy. */
static void overview(FILE *out)
{
    document_header(
        out, (const char *const[]){"policy", "class", "acts in", "what it does", "paper"}, 5);
    for (int control = 0; control < 2; control++)
        for (int i = 0; kvt_policies()[i]; i++) {
            const kvt_policy *p = kvt_policies()[i];
            char acts[40];
            kvt_traits t = policy_usual_traits(p);
            if (p->traits.control != (control == 1))
                continue;
            phases(p->traits.phases, acts, sizeof acts);
            const char *class = kvt_exactness_name(policy_usual_class(&t));
            fprintf(out, "| [%s](#%s) ", p->name, p->name);
            document_row(out, (const char *const[]){class, acts, p->title, p->paper}, 4);
        }
}

void document_policies(FILE *out)
{
    fputs("## Overview\n\n", out);
    overview(out);
    for (int control = 0; control < 2; control++) {
        fputs(control ? "\n## Controls and oracles\n" : "\n## Policies\n", out);
        for (int i = 0; kvt_policies()[i]; i++)
            if (kvt_policies()[i]->traits.control == (control == 1))
                policy(out, kvt_policies()[i]);
    }
    fputs("\n## Allocators\n", out);
    for (int i = 0; kvt_shares()[i]; i++) {
        const kvt_share *s = kvt_shares()[i];
        fprintf(out, "\n### /%s\n\n", s->name);
        document_put(out, s->title);
        fputs(".\n\n", out);
        document_line(out, "paper", s->paper);
        document_line(out, "differs", s->differs);
        param_rows(out, s->params);
    }
    fputs("\n## Parameters of the engine\n", out);
    param_rows(out, kvt_use_table());
}

static void variants_of(FILE *out, const char *slash, const char *name, const kvt_param *params)
{
    const kvt_param *p = policy_variants_param(params);
    char value[120];
    for (int i = 0; p && i <= (int)p->max; i++) {
        const kvt_choice *v = &p->choices[i];
        snprintf(value, sizeof value, "%s%s:%s=%s", slash, name, p->name, v->name);
        document_row(out, (const char *const[]){value, v->help, v->sets}, 3);
    }
}

void document_variants(FILE *out)
{
    document_header(out,
                    (const char *const[]){"variant", "whose code, what it changes", "sets"}, 3);
    for (int i = 0; kvt_policies()[i]; i++)
        variants_of(out, "", kvt_policies()[i]->name, kvt_policies()[i]->params);
    for (int i = 0; kvt_shares()[i]; i++)
        variants_of(out, "/", kvt_shares()[i]->name, kvt_shares()[i]->params);
}
