/* help.c - help and version, printed from the tables. */
#include "cli/help.h"

#include <string.h>

#include "base/json.h"
#include "base/version.h"
#include "cli/about.h"
#include "cli/opt.h"
#include "cli/pager.h"

enum { WIDTH = 80, NAME_COLUMN = 26 };

void cli_show_params(FILE *out, const char *title, const kvt_param *p)
{
    char range[160], def[64], text[640];
    if (p && p->name)
        fprintf(out, "\n%s\n", title);
    for (; p && p->name; p++) {
        if (p->type == KVT_CHOICE)
            snprintf(def, sizeof def, "%s", p->choices[(int)p->def].name);
        else if (p->type == KVT_BOOL)
            snprintf(def, sizeof def, "%s", p->def != 0 ? "true" : "false");
        else
            snprintf(def, sizeof def, "%.10g", p->def);
        fprintf(out, "  %s=%s\n      ", p->name, def);
        snprintf(text, sizeof text, "%s; %s", p->help, kvt_param_range(p, range, sizeof range));
        cli_wrap(out, text, 6, 6, WIDTH);
        for (int i = 0; p->type == KVT_CHOICE && i <= (int)p->max; i++) {
            const kvt_choice *v = &p->choices[i];
            fprintf(out, "      %-19s ", v->name);
            snprintf(text, sizeof text, "%s%s%s%s", v->help, *v->sets ? " (" : "", v->sets,
                     *v->sets ? ")" : "");
            cli_wrap(out, text, 26, 26, WIDTH);
        }
    }
}

/* ---- text ----------------------------------------------------------------------------------
 */

static bool group_seen(int at)
{
    const cli_command *const *all = cli_commands();
    for (int i = 0; i < at; i++)
        if (!strcmp(all[i]->group, all[at]->group))
            return true;
    return false;
}

void cli_help_verbs(FILE *out)
{
    const cli_command *const *all = cli_commands();

    fprintf(out, "usage: kvt VERB [OPTIONS] ...\n");
    for (int i = 0; all[i]; i++) {
        if (group_seen(i))
            continue;
        fprintf(out, "\n%s\n", all[i]->group);
        for (int k = i; all[k]; k++)
            if (!strcmp(all[k]->group, all[i]->group))
                fprintf(out, "  %-12s%s\n", all[k]->name, all[k]->line);
    }
    fprintf(out, "\nkvt VERB --help explains a verb; kvt help VERB does, too.\n");
}

/* Whole sentences behind an option: what it does, what may stand there, what it is otherwise.
 */
static void print_option(FILE *out, const cli_option *o)
{
    char left[64], text[640], range[CLI_RANGE_MAX];
    int n = snprintf(left, sizeof left, "  %c%c%s--%s%s%s", o->letter ? '-' : ' ',
                     o->letter ? o->letter : ' ', o->letter ? ", " : "  ", o->name,
                     o->arg ? " " : "", o->arg ? o->arg : "");
    cli_opt_range(o, range, sizeof range);
    snprintf(text, sizeof text, "%s%s%s%s%s%s%s", o->help, range[0] ? "; " : "", range,
             o->type == CLI_LIST ? "; may be repeated" : "", o->def ? " (default " : "",
             o->def ? o->def : "", o->def ? ")" : "");
    fputs(left, out);
    if (n >= NAME_COLUMN)
        fprintf(out, "\n%*s", NAME_COLUMN, "");
    else
        fprintf(out, "%*s", NAME_COLUMN - n, "");
    cli_wrap(out, text, NAME_COLUMN, NAME_COLUMN, WIDTH);
}

static void print_options(FILE *out, const char *title, const cli_option *table)
{
    if (!table || !table->name)
        return;
    fprintf(out, "\n%s\n", title);
    for (const cli_option *o = table; o->name; o++)
        print_option(out, o);
}

static void print_verb(FILE *out, const cli_command *v)
{
    fprintf(out, "kvt %s - %s\n\nusage: kvt %s %s\n", v->name, v->line, v->name, v->usage);
    if (v->about) {
        fputc('\n', out);
        cli_wrap(out, v->about, 0, 0, WIDTH);
    }
    print_options(out, "options", v->options);
    print_options(out, "options of all verbs", cli_common_options());
    if (v->examples[0])
        fputs("\nexamples\n", out);
    for (int i = 0; i < 8 && v->examples[i]; i++)
        fprintf(out, "  %s\n", v->examples[i]);
}

/* ---- JSON ----------------------------------------------------------------------------------
 */

static json_t *option_json(const cli_option *o)
{
    static const char *const types[] = {"flag", "text",   "int",  "real",
                                        "size", "choice", "list", "count"};
    json_t *j = json_object();
    json_object_set_new(j, "name", json_string(o->name));
    if (o->letter)
        json_object_set_new(j, "letter", json_stringn(&o->letter, 1));
    json_object_set_new(j, "type", json_string(types[o->type]));
    json_object_set_new(j, "default", o->def ? json_string(o->def) : json_null());
    if (o->choices) {
        json_t *list = json_array();
        for (int i = 0; o->choices[i]; i++)
            json_array_append_new(list, json_string(o->choices[i]));
        json_object_set_new(j, "choices", list);
    }
    json_object_set_new(j, "help", json_string(o->help));
    return j;
}

static json_t *options_json(const cli_option *table)
{
    json_t *list = json_array();
    for (const cli_option *o = table; o && o->name; o++)
        json_array_append_new(list, option_json(o));
    return list;
}

static json_t *verb_json(const cli_command *v)
{
    json_t *j = json_object(), *examples = json_array();
    json_object_set_new(j, "name", json_string(v->name));
    json_object_set_new(j, "group", json_string(v->group));
    json_object_set_new(j, "line", json_string(v->line));
    json_object_set_new(j, "usage", json_string(v->usage));
    json_object_set_new(j, "options", options_json(v->options));
    for (int i = 0; i < 8 && v->examples[i]; i++)
        json_array_append_new(examples, json_string(v->examples[i]));
    json_object_set_new(j, "examples", examples);
    return j;
}

/* One or all verbs. */
static kvt_code print_json(const cli_command *only, kvt_err *err)
{
    json_t *top = json_object(), *verbs = json_array();
    json_object_set_new(top, "schema", json_string("kvt-help-1"));
    for (int i = 0; cli_commands()[i]; i++)
        if (!only || only == cli_commands()[i])
            json_array_append_new(verbs, verb_json(cli_commands()[i]));
    json_object_set_new(top, "verbs", verbs);
    json_object_set_new(top, "common", options_json(cli_common_options()));
    return cli_json_print(top, err);
}

/* ---- public --------------------------------------------------------------------------------
 */

kvt_code cli_help_all(cli *c, kvt_err *err)
{
    if (c->json)
        return print_json(NULL, err);
    FILE *out = cli_pager_open(c);
    cli_help_verbs(out);
    print_options(out, "options of all verbs", cli_common_options());
    cli_pager_close(out);
    return KVT_OK;
}

kvt_code cli_help_verb(cli *c, const cli_command *command, kvt_err *err)
{
    if (c->json)
        return print_json(command, err);
    FILE *out = cli_pager_open(c);
    print_verb(out, command);
    cli_pager_close(out);
    return KVT_OK;
}

kvt_code cli_help_version(cli *c, kvt_err *err)
{
    cli_fact fact[CLI_FACTS_MAX];
    int n = cli_about_versions(fact);

    if (c->json) {
        json_t *top = json_object();
        json_object_set_new(top, "schema", json_string("kvt-version-1"));
        json_object_set_new(top, "version", json_string(version_text()));
        json_object_set_new(top, "commit", json_string(version_commit()));
        for (int i = 0; i < n; i++)
            json_object_set_new(top, fact[i].name, json_string(fact[i].value));
        return cli_json_print(top, err);
    }
    printf("%s\n", version_full());
    for (int i = 0; i < n; i++)
        printf("%-9s%s\n", fact[i].name, fact[i].value);
    return KVT_OK;
}
