/* policy_list.c - every policy in a line, as a table or JSON, narrowed by class, need or phase;
 * and every published variant. */
#include <ctype.h>
#include <string.h>

#include "base/text.h"
#include "cli/about.h"
#include "cli/pager.h"
#include "cli/policy_text.h"
#include "cli/table.h"

enum { NEEDS_CAP = 400 };

static const struct need {
    const char *name, *text;
} need_lines[] = {
#define KVT_NEED(id, text, datasets) {#id, text},
#include "traces/needs.def"
#undef KVT_NEED
};

static const char *acts_text(unsigned phases)
{
    if (phases == KVT_PREFILL)
        return "prompt";
    return phases == KVT_DECODE ? "decode" : "both";
}

/* Its traits as it runs by default: parameters may ask for less. */
kvt_traits policy_usual_traits(const kvt_policy *p)
{
    kvt_use *use = NULL;
    kvt_err ignored; /* of a plug-in: what it declares */
    kvt_traits t = p->traits;
    if (kvt_use_parse(&use, NULL, p->name, &ignored) == KVT_OK)
        t = use->traits;
    kvt_use_free(use);
    return t;
}

/* What its numbers are worth as it runs by default: what acts in decode meets queries of the
 * full cache. The engine finds the same. */
kvt_exactness policy_usual_class(const kvt_traits *t)
{
    bool decodes = t->phases & KVT_DECODE;
    return decodes && t->exactness < KVT_OPEN_LOOP ? KVT_OPEN_LOOP : t->exactness;
}

/* ---- JSON ----------------------------------------------------------------------------------
 */

static json_t *needs_json(unsigned needs)
{
    json_t *out = json_array();
    for (int i = 0; i < KVT_NEED_COUNT; i++)
        if (needs & 1u << i)
            json_array_append_new(out, json_string(need_lines[i].text));
    return out;
}

static json_t *params_json(const kvt_param *p)
{
    json_t *out = json_array();
    char range[160];
    for (; p && p->name; p++) {
        json_t *line = json_object();
        json_object_set_new(line, "name", json_string(p->name));
        if (p->type == KVT_CHOICE)
            json_object_set_new(line, "default", json_string(p->choices[(int)p->def].name));
        else if (p->type == KVT_BOOL)
            json_object_set_new(line, "default", json_boolean(p->def != 0));
        else if (p->type == KVT_INT)
            json_object_set_new(line, "default", json_integer((json_int_t)p->def));
        else if (p->type == KVT_REAL)
            json_object_set_new(line, "default", json_real(p->def));
        json_object_set_new(line, "range",
                            json_string(kvt_param_range(p, range, sizeof range)));
        json_object_set_new(line, "unit", json_string(p->unit ? p->unit : ""));
        json_object_set_new(line, "help", json_string(p->help));
        for (int i = 0; p->type == KVT_CHOICE && i <= (int)p->max; i++) {
            json_t *choice = json_object();
            if (i == 0)
                json_object_set_new(line, "choices", json_object());
            json_object_set_new(choice, "sets", json_string(p->choices[i].sets));
            json_object_set_new(choice, "help", json_string(p->choices[i].help));
            json_object_set_new(json_object_get(line, "choices"), p->choices[i].name, choice);
        }
        json_array_append_new(out, line);
    }
    return out;
}

json_t *policy_json(const kvt_policy *p)
{
    json_t *row = json_object();
    kvt_traits usual = policy_usual_traits(p);
    json_object_set_new(row, "name", json_string(p->name));
    json_object_set_new(row, "title", json_string(p->title));
    json_object_set_new(row, "paper", json_string(p->paper));
    json_object_set_new(row, "about", p->about ? json_string(p->about) : json_null());
    json_object_set_new(row, "differs", json_string(p->differs));
    json_object_set_new(row, "exactness",
                        json_string(kvt_exactness_name(policy_usual_class(&usual))));
    json_object_set_new(row, "exactness_best",
                        json_string(kvt_exactness_name(p->traits.exactness)));
    json_object_set_new(row, "acts", json_string(acts_text(p->traits.phases)));
    json_object_set_new(row, "control", json_boolean(p->traits.control));
    json_object_set_new(row, "one_ranking", json_boolean(p->traits.one_ranking));
    json_object_set_new(row, "allocator", json_string(p->share ? p->share->name : "even"));
    json_object_set_new(row, "needs", needs_json(usual.needs));
    json_object_set_new(row, "parameters", params_json(p->params));
    return row;
}

/* "attn columns": the names of what is in the mask. */
static void needs_short(unsigned needs, char *out, size_t cap)
{
    size_t n = 0;
    snprintf(out, cap, "-");
    for (int i = 0; i < KVT_NEED_COUNT && n < cap; i++)
        if (needs & 1u << i)
            n += (size_t)snprintf(out + n, cap - n, "%s%s", n ? " " : "", need_lines[i].name);
    for (char *c = out; *c; c++)
        *c = (char)tolower((unsigned char)*c);
}

/* ---- what is asked for ---------------------------------------------------------------------
 */

static bool is_need(const char *text, int i)
{
    for (const char *a = text, *b = need_lines[i].name;; a++, b++)
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b))
            return false;
        else if (!*a)
            return true;
}

static kvt_code check_filter(const policy_filter *f, kvt_err *err)
{
    char known[NEEDS_CAP] = "";
    bool found = !f->class, need = !f->need;
    for (int e = 0; e <= KVT_NOT_REPLAYABLE; e++)
        found |= f->class && strcmp(f->class, kvt_exactness_name((kvt_exactness)e)) == 0;
    if (!found)
        return kvt_fail(
            err, KVT_USAGE,
            "--class '%.40s': expected exact, budget-exact, open-loop, surrogate or "
            "'not replayable'",
            f->class);
    for (int i = 0; i < KVT_NEED_COUNT; i++)
        need |= f->need && is_need(f->need, i);
    needs_short(~0u, known, sizeof known);
    if (!need)
        return kvt_fail(err, KVT_USAGE, "--need '%.40s': expected one of %s", f->need, known);
    if (f->phase && strcmp(f->phase, "prompt") != 0 && strcmp(f->phase, "decode") != 0 &&
        strcmp(f->phase, "both") != 0)
        return kvt_fail(err, KVT_USAGE, "--phase '%.40s': expected prompt, decode or both",
                        f->phase);
    return KVT_OK;
}

static bool is_wanted(const policy_filter *f, const kvt_policy *p)
{
    kvt_traits usual = policy_usual_traits(p);
    bool good =
        !f->class || strcmp(f->class, kvt_exactness_name(policy_usual_class(&usual))) == 0;
    for (int i = 0; f->need && i < KVT_NEED_COUNT; i++)
        if (is_need(f->need, i))
            good &= (usual.needs & 1u << i) != 0;
    return good && (!f->phase || strcmp(f->phase, acts_text(p->traits.phases)) == 0);
}

/* ---- the list ------------------------------------------------------------------------------
 */

static kvt_code list_json(const kvt_registry *r, const policy_filter *f, kvt_err *err)
{
    json_t *top = json_object(), *rows = json_array();
    for (int i = 0; kvt_registry_policies(r)[i]; i++)
        if (is_wanted(f, kvt_registry_policies(r)[i]))
            json_array_append_new(rows, policy_json(kvt_registry_policies(r)[i]));
    json_object_set_new(top, "schema", json_string("kvt-policies-1"));
    json_object_set_new(top, "rows", rows);
    return cli_json_print(top, err);
}

static kvt_code list_table(cli *c, const kvt_registry *r, const policy_filter *f, kvt_err *err)
{
    static const char *const columns[] = {"policy",       "class", "acts", "needs",
                                          "what it does", "paper", NULL};
    static const cli_align align[] = {CLI_LEFT, CLI_LEFT, CLI_LEFT,
                                      CLI_LEFT, CLI_LEFT, CLI_LEFT};
    cli_table *t = cli_table_new(c, columns, align);
    if (!t)
        return kvt_fail_memory(err, sizeof columns);
    cli_table_narrow(t, 4);
    kvt_code code = KVT_OK;
    for (int control = 0; control < 2; control++)
        for (int i = 0; !code && kvt_registry_policies(r)[i]; i++) {
            const kvt_policy *p = kvt_registry_policies(r)[i];
            char needs[NEEDS_CAP];
            if (p->traits.control != (control == 1) || !is_wanted(f, p))
                continue;
            kvt_traits usual = policy_usual_traits(p);
            needs_short(usual.needs, needs, sizeof needs);
            code =
                cli_table_row(t,
                              (const char *const[]){
                                  p->name, kvt_exactness_name(policy_usual_class(&usual)),
                                  acts_text(p->traits.phases), needs, p->title, p->paper, NULL},
                              err);
        }
    FILE *out = cli_pager_open(c);
    if (!code)
        code = cli_table_print(t, out, err);
    cli_pager_close(out);
    cli_table_free(t);
    return code;
}

kvt_code policy_list(cli *c, const kvt_registry *r, const policy_filter *f, kvt_err *err)
{
    if (check_filter(f, err))
        return err->code;
    return c->json ? list_json(r, f, err) : list_table(c, r, f, err);
}

/* ---- published variants --------------------------------------------------------------------
 */

const kvt_param *policy_variants_param(const kvt_param *params)
{
    static const char *const names[] = {"compat", "form", "rule"};
    const kvt_param *found = NULL;
    for (int i = 0; params && !found && i < 3; i++)
        found = kvt_param_find(params, names[i]);
    return found && found->type == KVT_CHOICE ? found : NULL;
}

static kvt_code add_variants(cli_table *t, const char *name, const kvt_param *params,
                             kvt_err *err)
{
    const kvt_param *compat = policy_variants_param(params);
    for (int i = 0; compat && i <= (int)compat->max; i++) {
        const kvt_choice *v = &compat->choices[i];
        char text[120];
        snprintf(text, sizeof text, "%s:%s=%s", name, compat->name, v->name);
        if (cli_table_row(
                t, (const char *const[]){text, v->help, *v->sets ? v->sets : "-", NULL}, err))
            return err->code;
    }
    return KVT_OK;
}

kvt_code policy_variants(cli *c, const kvt_registry *r, kvt_err *err)
{
    static const char *const columns[] = {"variant", "whose code, what it changes", "sets",
                                          NULL};
    static const cli_align align[] = {CLI_LEFT, CLI_LEFT, CLI_LEFT};
    cli_table *t = cli_table_new(c, columns, align);
    if (!t)
        return kvt_fail_memory(err, sizeof columns);
    cli_table_narrow(t, 1);
    kvt_code code = KVT_OK;
    for (int i = 0; !code && kvt_registry_policies(r)[i]; i++)
        code = add_variants(t, kvt_registry_policies(r)[i]->name,
                            kvt_registry_policies(r)[i]->params, err);
    for (int i = 0; !code && kvt_shares()[i]; i++) {
        char name[64];
        snprintf(name, sizeof name, "POLICY/%s", kvt_shares()[i]->name);
        code = add_variants(t, name, kvt_shares()[i]->params, err);
    }
    FILE *out = cli_pager_open(c);
    if (!code)
        code = cli_table_print(t, out, err);
    cli_pager_close(out);
    cli_table_free(t);
    return code;
}
