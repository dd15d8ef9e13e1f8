/* cmd_policy.c - kvt policy list|show|new: what policies say of themselves, and a file to start
 * one's own from. All text comes from their descriptors. */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/about.h"
#include "cli/help.h"
#include "cli/pager.h"
#include "cli/policy_template.h"
#include "cli/table.h"
#include "kvt/replay.h"
#include "kvt/train.h"

enum { LINE_WIDTH = 80, LABEL_WIDTH = 14, NEEDS_CAP = 400 };

typedef struct options {
    cli_list plugin;
    bool markdown;
} options;

/* clang-format off */
static const cli_option table[] = {
    {"plugin", 0, CLI_LIST, CLI_OPT(options, plugin), .arg = "FILE", .complete = "file",
     .help = "also load the policies of this shared object"},
    {"markdown", 0, CLI_FLAG, CLI_OPT(options, markdown),
     .help = "with list: print the generated part of docs/policies.md"},
    {0},
};
/* clang-format on */

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

static const char *effect_text(kvt_effect effect)
{
    static const char *const texts[] = {
        "tokens that are not kept are gone",
        "tokens that are not kept are not read at that step",
        "tokens that are not kept are averaged into their neighbour",
        "channels of the keys go, all tokens stay"};
    return texts[effect];
}

static const char *acts_text(unsigned phases)
{
    if (phases == KVT_PREFILL)
        return "prompt";
    return phases == KVT_DECODE ? "decode" : "both";
}

/* Its traits as it runs by default: parameters may ask for less. */
static kvt_traits usual_traits(const kvt_policy *p)
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
static kvt_exactness usual_class(const kvt_traits *t)
{
    bool decodes = t->phases & KVT_DECODE;
    return decodes && t->exactness < KVT_OPEN_LOOP ? KVT_OPEN_LOOP : t->exactness;
}

/* ---- list ----------------------------------------------------------------------------------
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

static json_t *policy_json(const kvt_policy *p)
{
    json_t *row = json_object();
    kvt_traits usual = usual_traits(p);
    json_object_set_new(row, "name", json_string(p->name));
    json_object_set_new(row, "title", json_string(p->title));
    json_object_set_new(row, "paper", json_string(p->paper));
    json_object_set_new(row, "about", p->about ? json_string(p->about) : json_null());
    json_object_set_new(row, "differs", json_string(p->differs));
    json_object_set_new(row, "exactness", json_string(kvt_exactness_name(usual_class(&usual))));
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

static kvt_code list_json(const kvt_registry *r, kvt_err *err)
{
    json_t *top = json_object(), *rows = json_array();
    for (int i = 0; kvt_registry_policies(r)[i]; i++)
        json_array_append_new(rows, policy_json(kvt_registry_policies(r)[i]));
    json_object_set_new(top, "schema", json_string("kvt-policies-1"));
    json_object_set_new(top, "rows", rows);
    return cli_json_print(top, err);
}

/* Names of what it reads, short: "attn columns". */
static void needs_short(unsigned needs, char *out, size_t cap)
{
    static const char *const names[] = {
#define KVT_NEED(id, text, datasets) #id,
#include "traces/needs.def"
#undef KVT_NEED
    };
    size_t n = 0;
    snprintf(out, cap, "-");
    for (int i = 0; i < KVT_NEED_COUNT && n < cap; i++)
        if (needs & 1u << i)
            n += (size_t)snprintf(out + n, cap - n, "%s%s", n ? " " : "", names[i]);
    for (char *c = out; *c; c++)
        *c = (char)tolower((unsigned char)*c);
}

static kvt_code list_table(cli *c, const kvt_registry *r, kvt_err *err)
{
    static const char *const columns[] = {"policy", "class",        "acts",
                                          "needs",  "what it does", NULL};
    static const cli_align align[] = {CLI_LEFT, CLI_LEFT, CLI_LEFT, CLI_LEFT, CLI_LEFT};
    cli_table *t = cli_table_new(c, columns, align);
    if (!t)
        return kvt_fail_memory(err, sizeof columns);
    kvt_code code = KVT_OK;
    for (int control = 0; control < 2; control++)
        for (int i = 0; !code && kvt_registry_policies(r)[i]; i++) {
            const kvt_policy *p = kvt_registry_policies(r)[i];
            char needs[NEEDS_CAP];
            if (p->traits.control != (control == 1))
                continue;
            kvt_traits usual = usual_traits(p);
            needs_short(usual.needs, needs, sizeof needs);
            code = cli_table_row(
                t,
                (const char *const[]){p->name, kvt_exactness_name(usual_class(&usual)),
                                      acts_text(p->traits.phases), needs, p->title, NULL},
                err);
        }
    if (!code)
        code = cli_table_print(t, stdout, err);
    cli_table_free(t);
    return code;
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

static void show_policy(FILE *out, const kvt_policy *p)
{
    char text[400];
    kvt_traits now = usual_traits(p), *t = &now;
    fprintf(out, "%s - %s\n\n", p->name, p->title);
    label(out, "paper", p->paper);
    fputc('\n', out);
    label(out, "about", p->about);
    fputs(p->about && *p->about ? "\n" : "", out);
    label(out, "differs", *p->differs ? p->differs : "nothing in what is kept");
    snprintf(text, sizeof text, "%s",
             t->phases == KVT_PREFILL ? "once, at the end of the prompt; decoded tokens pile up"
             : t->phases == KVT_DECODE
                 ? "in decode"
                 : "at the end of the prompt, then in decode; --act prefill: "
                   "at the end of the prompt only");
    label(out, "acts", text);
    show_needs(out, t->needs);
    show_probe(out, t->needs & KVT_NEED_PROBE ? t->probe : NULL);
    show_weights(out, p);
    kvt_exactness usual = usual_class(t);
    snprintf(text, sizeof text, "%s: %s%s%s", kvt_exactness_name(usual),
             kvt_exactness_help(usual), usual != t->exactness ? "; with --act prefill " : "",
             usual != t->exactness ? kvt_exactness_name(t->exactness) : "");
    label(out, "class", text);
    label(out, "chooses", scope_text(t->scope));
    label(out, "effect", effect_text(t->effect));
    snprintf(text, sizeof text, "%s (%s)", p->share ? p->share->name : "even",
             p->share ? p->share->title : "the same number of slots for every lane");
    label(out, "allocator", text);
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
    fprintf(out, "/%s - %s\n\n", s->name, s->title);
    label(out, "paper", s->paper);
    label(out, "differs", s->differs);
    label(out, "sees", scope_text(s->scope));
    label(out, "total",
          s->may_exceed ? "published arithmetic may give out more; the audit shows it"
                        : "never more than asked");
    label(out, "use", "behind any policy: snapkv/NAME");
    cli_show_params(out, "parameters", s->params);
}

static kvt_code show(cli *c, const kvt_registry *r, const char *name, kvt_err *err)
{
    const kvt_policy *p = kvt_registry_find(r, name);
    const kvt_share *s = p ? NULL : kvt_share_find(name + (*name == '/'));
    if (!p && !s) {
        const char *near = kvt_registry_nearest(r, name);
        return kvt_fail(err, KVT_USAGE, "no policy '%.60s'%s%s%s", name,
                        near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
    }
    if (c->json && p) {
        json_t *row = policy_json(p);
        json_object_set_new(row, "schema", json_string("kvt-policy-1"));
        return cli_json_print(row, err);
    }
    if (c->json)
        return kvt_fail(err, KVT_USAGE, "'%s' is an allocator: --json prints policies only",
                        name);
    FILE *out = cli_pager_open(c);
    if (p)
        show_policy(out, p);
    else
        show_share(out, s);
    cli_pager_close(out);
    return KVT_OK;
}

/* ---- new -----------------------------------------------------------------------------------
 */

static bool is_name(const char *s)
{
    return *s && *s != '-' && strlen(s) < 48 &&
           strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(s);
}

/* Writes NAME.c; "x" of the mode makes that atomic: it never overwrites. */
static kvt_code write_new(const char *path, const buf *text, kvt_err *err)
{
    FILE *f = fopen(path, "wx");
    if (!f && errno == EEXIST)
        return kvt_fail(err, KVT_USAGE, "'%s' is there already: it is not overwritten", path);
    if (!f)
        return kvt_fail(err, KVT_IO, "'%s': %s", path, strerror(errno));
    bool good = fwrite(text->data, 1, text->n, f) == text->n;
    int why = errno;
    if (fclose(f) != 0 && good) {
        good = false;
        why = errno;
    }
    if (good)
        return KVT_OK;
    remove(path); /* nothing half-written stays under its name */
    return kvt_fail(err, KVT_IO, "'%s': %s", path, strerror(why));
}

static kvt_code make_new(cli *c, const char *name, kvt_err *err)
{
    char path[64];
    buf flags, text;
    if (!is_name(name))
        return kvt_fail(err, KVT_USAGE,
                        "'%.60s' is no name for a policy: expected 1 to 47 of a-z, 0-9 and '-'",
                        name);
    if (kvt_policy_find(name))
        return kvt_fail(err, KVT_USAGE, "a policy '%s' is built in: choose another name", name);
    snprintf(path, sizeof path, "%s.c", name);
    buf_init(&flags, 4096);
    buf_init(&text, 1 << 16);
    kvt_code code = policy_header_flags(&flags, err);
    if (!code) {
        policy_template(&text, name, buf_get(&flags));
        code = buf_check(&text, err);
    }
    if (!code)
        code = write_new(path, &text, err);
    if (!code) {
        printf("%s\n", path);
        cli_note(c, "build it: cc -std=c17 -O2 -shared -fPIC %s %s -o %s.so", buf_get(&flags),
                 path, name);
        cli_note(c, "use it: kvt replay TRACE.h5 -p %s,snapkv -b 10%% --plugin ./%s.so", name,
                 name);
    }
    buf_fini(&flags);
    buf_fini(&text);
    return code;
}

/* ---- the verb ------------------------------------------------------------------------------
 */

static kvt_code run_list(cli *c, const options *o, const kvt_registry *r, kvt_err *err)
{
    if (o->markdown)
        return cli_document(stdout, "policies", err);
    return c->json ? list_json(r, err) : list_table(c, r, err);
}

static kvt_code run(cli *c, const void *given, int n_arg, char **arg, kvt_err *err)
{
    static const char *const verbs[] = {"list", "show", "new", NULL};
    const options *o = given;
    const char *verb = n_arg ? arg[0] : "list";
    bool list = strcmp(verb, "list") == 0, is_show = strcmp(verb, "show") == 0;
    if (!list && !is_show && strcmp(verb, "new") != 0) {
        const char *near = text_nearest(verb, verbs);
        return kvt_fail(err, KVT_USAGE, "no action '%.60s'%s%s%s: list, show NAME or new NAME",
                        verb, near ? " (did you mean '" : "", near ? near : "",
                        near ? "'?)" : "");
    }
    if (n_arg != (list ? n_arg > 0 : 2))
        return kvt_fail(err, KVT_USAGE, "%s: expected %s", verb, list ? "no name" : "one name");
    if (o->markdown && !list)
        return kvt_fail(err, KVT_USAGE, "--markdown goes with list");
    if (!list && !is_show && (c->json || o->plugin.n))
        return kvt_fail(err, KVT_USAGE, "--%s does not go with new",
                        c->json ? "json" : "plugin");
    if (!list && !is_show)
        return make_new(c, arg[1], err);
    kvt_registry *r;
    kvt_code code = kvt_registry_new(&r, err);
    for (int i = 0; !code && i < o->plugin.n; i++)
        code = kvt_registry_plugin(r, o->plugin.item[i], err);
    if (!code)
        code = list ? run_list(c, o, r, err) : show(c, r, arg[1], err);
    kvt_registry_free(r);
    return code;
}

const cli_command cli_command_policy = {
    .name = "policy",
    .group = "replay",
    .line = "list policies, explain one, or start a new one",
    .usage = "list | show NAME | new NAME",
    .about =
        "list prints every policy with its class (what its numbers are worth), when it acts, "
        "what "
        "it reads and what it does. show explains one: paper, how the default departs from it, "
        "needed datasets, the published variants and every parameter. new writes NAME.c into "
        "this "
        "folder: a whole policy in one file, with the command that builds it; kvt replay "
        "--plugin "
        "runs it beside the others.",
    .options = table,
    .options_size = sizeof(options),
    .examples = {"kvt policy list", "kvt policy show snapkv", "kvt policy new mine",
                 "kvt policy list --json | jq -r '.rows[].name'"},
    .max_args = 2,
    .complete = "policy",
    .run = run,
};
