/* cmd_completion.c - kvt completion bash|zsh|fish: a script printed from the option tables.
 * Values that change (policies, traces) come from the hidden `kvt __complete KIND`. */
#include <string.h>

#include "base/text.h"
#include "cli/help.h"
#include "kvt/analyze.h"
#include "kvt/metric.h"
#include "kvt/policy.h"
#include "kvt/replay.h"
#include "kvt/trace.h"
#include "kvt/train.h"

static bool wants_value(const cli_option *o)
{
    return o->type != CLI_FLAG && o->type != CLI_COUNT;
}

/* What an option's value is completed by: "choices", a kind of __complete, "file", or "none"
 * for numbers. */
static const char *kind_of(const cli_option *o)
{
    if (o->choices)
        return "choices";
    if (o->complete)
        return o->complete;
    return o->type == CLI_TEXT || o->type == CLI_LIST ? "file" : "none";
}

/* Whether the program itself knows the candidates. */
static bool is_asked(const char *kind)
{
    return strcmp(kind, "file") != 0 && strcmp(kind, "trace") != 0 && strcmp(kind, "none") != 0;
}

static void print_choices(const cli_option *o)
{
    for (int i = 0; o->choices[i]; i++)
        printf("%s%s", i ? " " : "", o->choices[i]);
}

/* Text inside single quotes of a shell. */
static void print_quoted(const char *text)
{
    putchar('\'');
    for (const char *s = text; *s; s++)
        if (*s == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*s);
    putchar('\'');
}

/* ---- bash ----------------------------------------------------------------------------------
 */

static void bash_words(const cli_option *table)
{
    for (const cli_option *o = table; o && o->name; o++)
        printf(" --%s", o->name);
}

/* One case of the previous word: what stands behind it. */
static void bash_values(const char *verb, const cli_option *table)
{
    for (const cli_option *o = table; o && o->name; o++) {
        if (!wants_value(o))
            continue;
        printf("    %s:--%s", verb, o->name);
        if (o->letter)
            printf("|%s:-%c", verb, o->letter);
        fputs(") ", stdout);
        const char *kind = kind_of(o);
        if (!strcmp(kind, "choices")) {
            fputs("_kvt_words '", stdout);
            print_choices(o);
            fputs("'", stdout);
        } else if (is_asked(kind)) {
            printf("_kvt_words \"$(kvt __complete %s 2>/dev/null)\"", kind);
        } else if (!strcmp(kind, "none")) {
            fputs(":", stdout);
        } else {
            fputs("_kvt_files", stdout);
        }
        fputs("; return ;;\n", stdout);
    }
}

static void print_bash(void)
{
    const cli_command *const *all = cli_commands();

    fputs("# bash completion of kvt\n"
          "_kvt_words() { COMPREPLY=($(compgen -W \"$1\" -- \"$cur\")); }\n"
          "_kvt_files() { compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "
          "\"$cur\")); }\n"
          "_kvt_traces() { compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- "
          "\"$cur\") "
          "$(compgen -f -X '!*.h5' -- \"$cur\")); }\n"
          "_kvt() {\n"
          "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} "
          "verb=${COMP_WORDS[1]}\n"
          "  COMPREPLY=()\n"
          "  if [ \"$COMP_CWORD\" -eq 1 ]; then _kvt_words '",
          stdout);
    for (int i = 0; all[i]; i++)
        printf("%s ", all[i]->name);
    fputs("--help --version'; return; fi\n  case $verb:$prev in\n", stdout);
    for (int i = 0; all[i]; i++)
        bash_values(all[i]->name, all[i]->options);
    bash_values("*", cli_common_options());
    fputs("  esac\n  case $verb in\n", stdout);
    for (int i = 0; all[i]; i++) {
        printf("    %s)\n      if [[ $cur == -* ]]; then _kvt_words '", all[i]->name);
        bash_words(all[i]->options);
        bash_words(cli_common_options());
        fputs("'; return; fi\n      ", stdout);
        if (all[i]->first)
            printf("if [ \"$COMP_CWORD\" -eq 2 ]; then _kvt_words \"$(kvt __complete %s "
                   "2>/dev/null)\"; return; fi\n      ",
                   all[i]->first);
        const char *kind = all[i]->complete;
        if (kind && is_asked(kind))
            printf("_kvt_words \"$(kvt __complete %s 2>/dev/null)\" ;;\n", kind);
        else
            fputs(kind && !strcmp(kind, "trace") ? "_kvt_traces ;;\n" : "_kvt_files ;;\n",
                  stdout);
    }
    fputs("  esac\n}\ncomplete -F _kvt kvt\n", stdout);
}

/* ---- zsh -----------------------------------------------------------------------------------
 */

static void zsh_action(const char *kind)
{
    if (!strcmp(kind, "none"))
        fputs(" ", stdout);
    else if (!strcmp(kind, "file"))
        fputs("_files", stdout);
    else if (!strcmp(kind, "trace"))
        fputs("_files -g \"*.h5\"", stdout);
    else
        printf("{compadd -- ${(f)\"$(kvt __complete %s 2>/dev/null)\"}}", kind);
}

/* In a specification of _arguments brackets and colons have a meaning. */
static void zsh_text(const char *text)
{
    for (const char *s = text; *s; s++) {
        if (*s == '\'') {
            fputs("'\\''", stdout);
            continue;
        }
        if (strchr("[]:\\", *s))
            putchar('\\');
        putchar(*s);
    }
}

static void zsh_options(const cli_option *table)
{
    for (const cli_option *o = table; o && o->name; o++)
        for (int form = o->letter ? 0 : 1; form < 2; form++) {
            fputs("        '", stdout);
            if (o->type == CLI_LIST || o->type == CLI_COUNT)
                putchar('*');
            if (form)
                printf("--%s", o->name);
            else
                printf("-%c", o->letter);
            fputs(wants_value(o) && form ? "=[" : "[", stdout);
            zsh_text(o->help);
            putchar(']');
            if (wants_value(o)) {
                fputs(":", stdout);
                zsh_text(o->arg ? o->arg : "value");
                putchar(':');
                if (o->choices) {
                    putchar('(');
                    print_choices(o);
                    putchar(')');
                } else {
                    zsh_action(kind_of(o));
                }
            }
            fputs("' \\\n", stdout);
        }
}

static void print_zsh(void)
{
    const cli_command *const *all = cli_commands();

    fputs("#compdef kvt\n_kvt() {\n  local -a verbs\n  verbs=(\n", stdout);
    for (int i = 0; all[i]; i++) {
        printf("    '%s:", all[i]->name);
        zsh_text(all[i]->line);
        fputs("'\n", stdout);
    }
    fputs("  )\n  if (( CURRENT == 2 )); then _describe verb verbs; return; fi\n"
          "  local verb=$words[2]\n  shift words\n  (( CURRENT-- ))\n  case $verb in\n",
          stdout);
    for (int i = 0; all[i]; i++) {
        printf("    %s)\n      _arguments -s \\\n", all[i]->name);
        zsh_options(all[i]->options);
        zsh_options(cli_common_options());
        if (all[i]->first) {
            fputs("        '1:operand:", stdout);
            zsh_action(all[i]->first);
            fputs("' \\\n", stdout);
        }
        fputs("        '*:operand:", stdout);
        zsh_action(all[i]->complete ? all[i]->complete : "file");
        fputs("' ;;\n", stdout);
    }
    fputs("  esac\n}\ncompdef _kvt kvt\n", stdout);
}

/* ---- fish ----------------------------------------------------------------------------------
 */

static void fish_options(const char *condition, const cli_option *table)
{
    for (const cli_option *o = table; o && o->name; o++) {
        printf("complete -c kvt -n '%s' -l %s", condition, o->name);
        if (o->letter)
            printf(" -s %c", o->letter);
        if (wants_value(o)) {
            const char *kind = kind_of(o);
            fputs(strcmp(kind, "none") ? " -r" : " -x", stdout);
            if (o->choices) {
                fputs(" -f -a '", stdout);
                print_choices(o);
                putchar('\'');
            } else if (is_asked(kind)) {
                printf(" -f -a '(kvt __complete %s 2>/dev/null)'", kind);
            } else if (strcmp(kind, "none") != 0) {
                fputs(" -F", stdout);
            }
        }
        fputs(" -d ", stdout);
        print_quoted(o->help);
        putchar('\n');
    }
}

static void print_fish(void)
{
    const cli_command *const *all = cli_commands();
    char condition[96];

    fputs("# fish completion of kvt\n", stdout);
    for (int i = 0; all[i]; i++) {
        printf("complete -c kvt -n __fish_use_subcommand -f -a %s -d ", all[i]->name);
        print_quoted(all[i]->line);
        putchar('\n');
    }
    for (int i = 0; all[i]; i++) {
        snprintf(condition, sizeof condition, "__fish_seen_subcommand_from %s", all[i]->name);
        fish_options(condition, all[i]->options);
        const char *kind = all[i]->complete;
        if (all[i]->first) /* beside files, which fish offers by itself */
            printf("complete -c kvt -n '%s' -a '(kvt __complete %s 2>/dev/null)'\n", condition,
                   all[i]->first);
        if (kind && is_asked(kind))
            printf("complete -c kvt -n '%s' -f -a '(kvt __complete %s 2>/dev/null)'\n",
                   condition, kind);
    }
    fish_options("not __fish_use_subcommand", cli_common_options());
}

/* ---- candidates ----------------------------------------------------------------------------
 */

static void print_policies(void)
{
    for (int i = 0; kvt_policies()[i]; i++)
        puts(kvt_policies()[i]->name);
    puts("all");
}

static void print_trainers(void)
{
    for (const kvt_trainer *const *t = kvt_trainers(); *t; t++)
        puts((*t)->name);
    puts("list\nshow");
}

/* The kind as the name of its probe: a beginning that is right as it stands. */
static void print_probes(void)
{
    for (int i = 0; i < KVT_PROBE_KINDS; i++)
        printf("%s=%s:\n", kvt_probe_kind_name((kvt_probe_kind)i),
               kvt_probe_kind_name((kvt_probe_kind)i));
}

static void print_pages(void)
{
    for (int i = 0; cli_manual_names()[i]; i++)
        puts(cli_manual_names()[i]);
    for (int i = 0; cli_commands()[i]; i++)
        puts(cli_commands()[i]->name);
}

static void print_metrics(void)
{
    puts("all\ndefault");
    for (int i = 0; kvt_metrics()[i]; i++)
        puts(kvt_metrics()[i]->name);
}

static void print_names(const char *const *names)
{
    while (*names)
        puts(*names++);
}

kvt_code cli_complete(cli *c, int n_arg, char **arg, kvt_err *err)
{
    (void)c;
    (void)err;
    const char *kind = n_arg ? arg[0] : "";
    /* An unknown kind has no candidates: a script of another version must not print errors into
     * the line that a person is typing. */
    if (!strcmp(kind, "verb"))
        for (int i = 0; cli_commands()[i]; i++)
            puts(cli_commands()[i]->name);
    else if (!strcmp(kind, "policy"))
        print_policies();
    else if (!strcmp(kind, "trainer"))
        print_trainers();
    else if (!strcmp(kind, "probe"))
        print_probes();
    else if (!strcmp(kind, "metric"))
        print_metrics();
    else if (!strcmp(kind, "geometry"))
        print_names(kvt_cost_geometry_names());
    else if (!strcmp(kind, "machine"))
        print_names(kvt_machine_names());
    else if (!strcmp(kind, "costs"))
        puts("geometries\nmachines");
    else if (!strcmp(kind, "axis"))
        print_names(kvt_cost_axis_names());
    else if (!strcmp(kind, "man"))
        print_pages();
    else if (!strcmp(kind, "shell"))
        puts("bash\nzsh\nfish");
    return KVT_OK;
}

/* ---- the verb ------------------------------------------------------------------------------
 */

static kvt_code run(cli *c, const void *options, int n_arg, char **arg, kvt_err *err)
{
    static const char *const shells[] = {"bash", "zsh", "fish", NULL};
    static void (*const print[])(void) = {print_bash, print_zsh, print_fish};

    (void)c;
    (void)options;
    (void)n_arg;
    for (int i = 0; shells[i]; i++)
        if (!strcmp(shells[i], arg[0])) {
            print[i]();
            return KVT_OK;
        }
    return kvt_fail(err, KVT_USAGE,
                    "no completion for '%.60s'; there is one for bash, zsh and fish", arg[0]);
}

const cli_command cli_command_completion = {
    .name = "completion",
    .group = "shell",
    .line = "print a completion script",
    .usage = "bash|zsh|fish",
    .about = "Prints a script that completes verbs, options and their values. Load it from the "
             "shell's "
             "start file.",
    .options = NULL,
    .options_size = 0,
    .examples = {"source <(kvt completion bash)", "kvt completion fish | source"},
    .min_args = 1,
    .max_args = 1,
    .complete = "shell",
    .no_json = true,
    .run = run,
};
