/* cmd_policy.c - kvt policy list|show|check|new: what policies say of themselves, whether one
 * obeys the laws, and a file to start one's own from. */
#include <errno.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "cli/help.h"
#include "cli/policy_template.h"
#include "cli/policy_text.h"

typedef struct options {
    cli_list plugin;
    const char *class, *need, *phase;
    bool markdown, variants;
} options;

/* clang-format off */
static const cli_option table[] = {
    {"plugin", 0, CLI_LIST, CLI_OPT(options, plugin), .arg = "FILE", .complete = "file",
     .help = "also load the policies of this shared object"},
    {"class", 0, CLI_TEXT, CLI_OPT(options, class), .arg = "NAME",
     .help = "with list: only those of this class, such as exact or open-loop"},
    {"need", 0, CLI_TEXT, CLI_OPT(options, need), .arg = "NAME",
     .help = "with list: only those that read this, such as attn, keys or probe"},
    {"phase", 0, CLI_TEXT, CLI_OPT(options, phase), .arg = "WHEN",
     .help = "with list: only those that act on the prompt, in decode, or both"},
    {"variants", 0, CLI_FLAG, CLI_OPT(options, variants),
     .help = "with list: every published variant, whose code it follows and what it changes"},
    {"markdown", 0, CLI_FLAG, CLI_OPT(options, markdown),
     .help = "with list: print the generated part of docs/policies.md"},
    {0},
};
/* clang-format on */

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
        cli_note(c, "check it: kvt policy check ./%s.so", name);
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
    const policy_filter filter = {.class = o->class, .need = o->need, .phase = o->phase};
    if (o->markdown)
        return cli_document(stdout, "policies", err);
    return o->variants ? policy_variants(c, r, err) : policy_list(c, r, &filter, err);
}

/* The verbs, and how many names follow them. */
static const struct verb {
    const char *name;
    int least, most;
} verbs[] = {{"list", 0, 0}, {"show", 1, 2}, {"check", 1, 1}, {"new", 1, 1}};
enum { VERBS = sizeof verbs / sizeof *verbs };

static kvt_code find_verb(const struct verb **out, int n_arg, char **arg, kvt_err *err)
{
    const char *names[VERBS + 1] = {NULL}, *text = n_arg ? arg[0] : "list";
    *out = NULL;
    for (int i = 0; i < VERBS; i++) {
        names[i] = verbs[i].name;
        if (strcmp(text, verbs[i].name) == 0)
            *out = &verbs[i];
    }
    const char *near = *out ? NULL : text_nearest(text, names);
    if (!*out)
        return kvt_fail(
            err, KVT_USAGE,
            "no action '%.60s'%s%s%s: list, show NAME [TRACE], check FILE.so or new "
            "NAME",
            text, near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
    int n = n_arg > 0 ? n_arg - 1 : 0;
    if (n < (*out)->least || n > (*out)->most)
        return kvt_fail(err, KVT_USAGE, "%s: expected %s", text,
                        (*out)->most == 0   ? "no name"
                        : (*out)->most == 1 ? "one name"
                                            : "a name, and at most one trace");
    return KVT_OK;
}

static kvt_code check_options(const cli *c, const options *o, const char *verb, kvt_err *err)
{
    const struct {
        const char *name, *goes_with;
        bool given;
    } given[] = {{"markdown", "list", o->markdown},       {"variants", "list", o->variants},
                 {"class", "list", o->class != NULL},     {"need", "list", o->need != NULL},
                 {"phase", "list", o->phase != NULL},     {"json", "list show", c->json},
                 {"plugin", "list show", o->plugin.n > 0}};
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        if (given[i].given && !strstr(given[i].goes_with, verb))
            return kvt_fail(err, KVT_USAGE, "--%s does not go with %s", given[i].name, verb);
    if (o->variants && (c->json || o->class || o->need || o->phase))
        return kvt_fail(err, KVT_USAGE, "--variants takes no other option");
    return KVT_OK;
}

static kvt_code run(cli *c, const void *given, int n_arg, char **arg, kvt_err *err)
{
    const options *o = given;
    const struct verb *verb;
    if (find_verb(&verb, n_arg, arg, err) || check_options(c, o, verb->name, err))
        return err->code;
    if (strcmp(verb->name, "new") == 0)
        return make_new(c, arg[1], err);
    if (strcmp(verb->name, "check") == 0)
        return policy_check(arg[1], err);
    kvt_registry *r;
    kvt_code code = kvt_registry_new(&r, err);
    for (int i = 0; !code && i < o->plugin.n; i++)
        code = kvt_registry_plugin(r, o->plugin.item[i], err);
    if (!code && strcmp(verb->name, "list") == 0)
        code = run_list(c, o, r, err);
    else if (!code)
        code = policy_show(c, r, arg[1], n_arg > 2 ? arg[2] : NULL, &o->plugin, err);
    kvt_registry_free(r);
    return code;
}

const cli_command cli_command_policy = {
    .name = "policy",
    .group = "replay",
    .line = "list policies, explain one, check or start one of your own",
    .usage = "list | show NAME [TRACE] | check FILE.so | new NAME",
    .about =
        "list prints every policy with its class (what its numbers are worth), when it acts, "
        "what it reads and what it does; --variants every published variant. show explains "
        "one: "
        "paper, how the default departs from it, needed datasets, the published variants and "
        "every parameter; with a trace, what that trace lacks. new writes NAME.c into this "
        "folder: a whole policy in one file, with the command that builds it. check runs a "
        "built one through small prompts and says which law of kvt/policy.h it breaks (status "
        "3); kvt replay --plugin runs it beside the others.",
    .options = table,
    .options_size = sizeof(options),
    .examples = {"kvt policy list", "kvt policy list --class exact --need keys",
                 "kvt policy show snapkv", "kvt policy new mine", "kvt policy check ./mine.so",
                 "kvt policy list --json | jq -r '.rows[].name'"},
    .max_args = 3,
    .complete = "policy",
    .run = run,
};
