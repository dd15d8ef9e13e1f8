/* manual.c - manual pages as scdoc source, from the tables of verbs, options, exit statuses,
 * datasets, columns and policies. */
#include <string.h>

#include "base/text.h"
#include "base/version.h"
#include "cli/document.h"
#include "cli/help.h"
#include "cli/opt.h"
#include "cli/policy_text.h"
#include "kvt/analyze.h"
#include "kvt/replay.h"
#include "kvt/trace.h"
#include "kvt/train.h"

/* ---- scdoc ---------------------------------------------------------------------------------
 */

/* Text with what scdoc takes for markup escaped. Line ends become paragraphs. */
static void put(FILE *out, const char *text)
{
    bool start = true;
    for (const char *s = text; *s; s++) {
        if (*s == '\n') {
            fputs("\n\n", out);
            start = true;
            continue;
        }
        if (strchr("\\*_`", *s) || (start && strchr("#-.|[]+>~", *s)))
            fputc('\\', out);
        fputc(*s, out);
        start = false;
    }
}

static void bold(FILE *out, const char *text)
{
    fputc('*', out);
    put(out, text);
    fputc('*', out);
}

static void head(FILE *out, const char *page, int section, const char *line)
{
    fprintf(out, "%s(%d) \"kvt %s\" \"kvt manual\"\n\n# NAME\n\n%s - ", page, section,
            version_text(), page);
    put(out, line);
    fputs("\n\n", out);
}

/* "*name*" and, indented, what it is. */
static void item(FILE *out, const char *name, const char *detail, const char *text)
{
    bold(out, name);
    if (detail && detail[0]) {
        fputc(' ', out);
        put(out, detail);
    }
    fputs("\n\t", out);
    put(out, text);
    fputs("\n\n", out);
}

/* ---- verbs ---------------------------------------------------------------------------------
 */

static void option(FILE *out, const cli_option *o)
{
    char range[CLI_RANGE_MAX], letter[8], name[72];

    if (o->letter) {
        snprintf(letter, sizeof letter, "-%c", o->letter);
        bold(out, letter);
        fputs(", ", out);
    }
    snprintf(name, sizeof name, "--%s", o->name);
    bold(out, name);
    if (o->arg) {
        fputs(" _", out);
        put(out, o->arg);
        fputc('_', out);
    }
    fputs("\n\t", out);
    put(out, o->help);
    cli_opt_range(o, range, sizeof range);
    if (range[0]) {
        fputs("; ", out);
        put(out, range);
    }
    if (o->type == CLI_LIST)
        fputs("; may be repeated", out);
    fputc('.', out);
    if (o->def) {
        fputs(" Default: ", out);
        put(out, o->def);
        fputc('.', out);
    }
    fputs("\n\n", out);
}

static void options(FILE *out, const char *title, const cli_option *table)
{
    if (!table || !table->name)
        return;
    fprintf(out, "# %s\n\n", title);
    for (const cli_option *o = table; o->name; o++)
        option(out, o);
}

static void exit_status(FILE *out)
{
    static const struct {
        int status;
        const char *text;
    } code[] = {
#define X(name, status, text) {status, text},
        KVT_CODES(X)
#undef X
    };
    enum { N_CODE = sizeof code / sizeof code[0] };

    fputs("# EXIT STATUS\n\n", out);
    for (int i = 0; i < N_CODE; i++) {
        char number[16];
        if (i && code[i].status == code[i - 1].status)
            continue;
        snprintf(number, sizeof number, "%d", code[i].status);
        bold(out, number);
        fputs("\n\t", out);
        for (int k = i; k < N_CODE && code[k].status == code[i].status; k++) {
            fputs(k > i ? "; " : "", out);
            put(out, code[k].text);
        }
        fputs(".\n\n", out);
    }
    fputs("*143*\n\tstopped by SIGTERM, what is finished is kept.\n\n", out);
}

/* ---- lists of some verbs -------------------------------------------------------------------
 */

static void trainers(FILE *out)
{
    char text[1200];
    fputs("# TRAINERS\n\n", out);
    for (const kvt_trainer *const *t = kvt_trainers(); *t; t++) {
        snprintf(text, sizeof text, "%s (%s). Makes: %s. Reads: %s%s.", (*t)->title,
                 (*t)->paper, (*t)->file, (*t)->reads,
                 (*t)->needs_model ? ", and the model" : "");
        item(out, (*t)->name, "", text);
    }
}

static void probe_kinds(FILE *out)
{
    char name[64];
    fputs("# KINDS OF PROBE\n\n", out);
    for (int i = 0; i < KVT_PROBE_KINDS; i++) {
        kvt_probe_kind kind = (kvt_probe_kind)i;
        snprintf(name, sizeof name, "%s:%s", kvt_probe_kind_name(kind),
                 kvt_probe_kind_args(kind));
        item(out, name, "", kvt_probe_kind_help(kind));
    }
}

static void verb_page(FILE *out, const cli_command *v)
{
    char page[64];

    snprintf(page, sizeof page, "kvt-%s", v->name);
    head(out, page, 1, v->line);
    fputs("# SYNOPSIS\n\n*kvt ", out);
    put(out, v->name);
    fputs("* ", out);
    put(out, v->usage);
    fputs("\n\n# DESCRIPTION\n\n", out);
    put(out, v->about ? v->about : v->line);
    fputs("\n\n", out);
    options(out, "OPTIONS", v->options);
    options(out, "OPTIONS OF ALL VERBS", cli_common_options());
    if (strcmp(v->name, "train") == 0)
        trainers(out);
    if (strcmp(v->name, "capture") == 0)
        probe_kinds(out);
    exit_status(out);
    if (v->examples[0])
        fputs("# EXAMPLES\n\n", out);
    for (int i = 0; i < 8 && v->examples[i]; i++) {
        fputc('\t', out);
        put(out, v->examples[i]);
        fputs("\n\n", out);
    }
    fputs("# SEE ALSO\n\n*kvt*(1)\n", out);
}

static void main_page(FILE *out)
{
    const cli_command *const *all = cli_commands();

    head(out, "kvt", 1,
         "record KV-cache traces of language models and replay eviction policies on them");
    fputs("# SYNOPSIS\n\n*kvt* VERB [OPTIONS] ...\n\n# DESCRIPTION\n\n", out);
    put(out,
        "kvt records traces of the key-value cache from real language models (capture), "
        "replays every "
        "eviction policy on them offline (replay), trains what policies that look ahead read "
        "(train), compares the policies (report) and lets a "
        "person "
        "browse single decisions (tui). Data goes to standard output, talk to standard error.");
    fputs("\n\n# VERBS\n\n", out);
    for (int i = 0; all[i]; i++)
        item(out, all[i]->name, all[i]->usage, all[i]->line);
    options(out, "OPTIONS OF ALL VERBS", cli_common_options());
    exit_status(out);
    fputs("# ENVIRONMENT\n\n", out);
    item(out, "OMP_NUM_THREADS", "", "threads, where --threads is not given.");
    item(out, "NO_COLOR", "", "no colours unless --color always; wins over CLICOLOR_FORCE.");
    item(out, "PAGER", "", "pages help on a terminal, where it is set.");
    item(out, "XDG_CACHE_HOME", "", "models lie in its folder kvt/models; else in ~/.cache.");
    fputs("# SEE ALSO\n\n", out);
    for (int i = 0; all[i]; i++)
        fprintf(out, "*kvt-%s*(1), ", all[i]->name);
    fputs("*kvt-policies*(7), *kvt-tui*(7), *kvt-trace*(5), *kvt-csv*(5)\n", out);
}

/* ---- policies ------------------------------------------------------------------------------
 */

static void params(FILE *out, const kvt_param *table)
{
    char range[160], text[640];
    for (const kvt_param *p = table; p && p->name; p++) {
        char def[64];
        if (p->type == KVT_CHOICE)
            snprintf(def, sizeof def, "%s", p->choices[(int)p->def].name);
        else if (p->type == KVT_BOOL)
            snprintf(def, sizeof def, "%s", p->def != 0 ? "true" : "false");
        else if (p->type == KVT_TEXT)
            def[0] = 0;
        else
            cli_opt_number(p->def, def, sizeof def);
        snprintf(text, sizeof text, "%s: %s; %s%s%s", p->name, p->help,
                 kvt_param_range(p, range, sizeof range), def[0] ? "; default " : "", def);
        fputs("\t- ", out);
        put(out, text);
        fputc('\n', out);
    }
    if (table && table->name)
        fputc('\n', out);
}

static void entry(FILE *out, const char *name, const char *title, const char *paper,
                  const char *differs, const kvt_param *table)
{
    bold(out, name);
    fputs("\n\t", out);
    put(out, title);
    fputc('.', out);
    if (paper && paper[0]) {
        fputc(' ', out);
        put(out, paper);
        fputc('.', out);
    }
    if (differs && differs[0]) {
        fputs(" Differs: ", out);
        put(out, differs);
    }
    fputs("\n\n", out);
    params(out, table);
}

static void variants(FILE *out, const char *slash, const char *name, const kvt_param *params_)
{
    const kvt_param *p = policy_variants_param(params_);
    char text[160];
    for (int i = 0; p && i <= (int)p->max; i++) {
        snprintf(text, sizeof text, "%s%s:%s=%s", slash, name, p->name, p->choices[i].name);
        item(out, text, "", p->choices[i].help);
    }
}

static void policies_page(FILE *out)
{
    head(out, "kvt-policies", 7, "eviction policies, oracles and allocators");
    fputs("# TEXT FORM\n\n", out);
    put(out,
        "A policy is written RANKING[/ALLOCATOR][:NAME=VALUE,...], for example snapkv, "
        "snapkv:compat=kvpress or snapkv/ada:floor=0.2. In a list, a piece with '=' and no ':' "
        "before it belongs to the policy in front of it.");
    fputs("\n\n", out);
    bold(out, "kvt policy show NAME");
    put(out, " summarises the paper and explains each choice.");
    fputs("\n\n# PARAMETERS OF THE ENGINE\n\n", out);
    params(out, kvt_use_table());
    fputs("# POLICIES\n\n", out);
    for (int i = 0; kvt_policies()[i]; i++) {
        const kvt_policy *p = kvt_policies()[i];
        if (!p->traits.control)
            entry(out, p->name, p->title, p->paper, p->differs, p->params);
    }
    fputs("# CONTROLS AND ORACLES\n\n", out);
    for (int i = 0; kvt_policies()[i]; i++) {
        const kvt_policy *p = kvt_policies()[i];
        if (p->traits.control)
            entry(out, p->name, p->title, p->paper, p->differs, p->params);
    }
    fputs("# ALLOCATORS\n\n", out);
    for (int i = 0; kvt_shares()[i]; i++) {
        const kvt_share *s = kvt_shares()[i];
        entry(out, s->name, s->title, s->paper, s->differs, s->params);
    }
    fputs("# PUBLISHED VARIANTS\n\n", out);
    for (int i = 0; kvt_policies()[i]; i++)
        variants(out, "", kvt_policies()[i]->name, kvt_policies()[i]->params);
    for (int i = 0; kvt_shares()[i]; i++)
        variants(out, "/", kvt_shares()[i]->name, kvt_shares()[i]->params);
    fputs("# EXACTNESS\n\n", out);
    for (int e = 0; e <= KVT_NOT_REPLAYABLE; e++)
        item(out, kvt_exactness_name((kvt_exactness)e), "",
             kvt_exactness_help((kvt_exactness)e));
    fputs("# SEE ALSO\n\n*kvt-replay*(1), *kvt-policy*(1)\n", out);
}

/* ---- traces and tables ---------------------------------------------------------------------
 */

static void trace_page(FILE *out)
{
    static const char *const types[] = {
#define KVT_DATASET(id, path, type, axes, unit, level, required, help) #type,
#include "traces/datasets.def"
#undef KVT_DATASET
    };
    char text[600], detail[64];

    head(out, "kvt-trace", 5, "the trace file");
    fputs("# DESCRIPTION\n\n", out);
    put(out,
        "A trace is one prompt, its response and what attention did, as one HDF5 file. A file "
        "under "
        "its final name is whole. Every dataset carries its axes, its unit and what it is.");
    fputs("\n\n# AXES\n\n", out);
#define KVT_AXIS(letter, name, text_)              \
    snprintf(detail, sizeof detail, "%c", letter); \
    item(out, detail, name, text_);
#include "traces/axes.def"
#undef KVT_AXIS
    fputs("# DATASETS\n\n", out);
    for (int i = 0; i < KVT_DS_COUNT; i++) {
        const kvt_dataset *d = kvt_dataset_of((kvt_ds)i);
        if (d->level == KVT_NEVER)
            continue;
        snprintf(detail, sizeof detail, "%s [%s]", types[i], d->axes);
        snprintf(text, sizeof text, "%s; unit %s; from level %s on%s.", d->help, d->unit,
                 kvt_level_name(d->level), d->required ? "" : ", where present");
        item(out, d->path, detail, text);
    }
    fputs("# SEE ALSO\n\n*kvt-capture*(1), *kvt-import*(1), *kvt-verify*(1), *kvt-info*(1)\n",
          out);
}

static void csv_page(FILE *out)
{
    kvt_schema schema;
    const char *name;
    char text[400];

    head(out, "kvt-csv", 5, "tables of results");
    fputs("# DESCRIPTION\n\n", out);
    put(out, "kvt report --csv writes one file a table, kvt compare and kvt cost one each. The "
             "first line names the columns; text "
             "is quoted, "
             "numbers are bare and read back equal; what is undefined is empty. Beside "
             "NAME.csv stands "
             "NAME.csv-metadata.json with the type and unit of each column.");
    fputs("\n\n", out);
    for (int i = 0; document_table(i, &name, &schema); i++) {
        fprintf(out, "# %s.csv\n\n", name);
        for (int k = 0; k < schema.n; k++) {
            const kvt_column *c = &schema.column[k];
            snprintf(text, sizeof text, "%s%s%s.", c->help,
                     c->unit && c->unit[0] ? "; unit " : "", c->unit ? c->unit : "");
            item(out, c->name, "", text);
        }
    }
    fputs("# SEE ALSO\n\n*kvt-report*(1), *kvt-compare*(1), *kvt-cost*(1)\n", out);
}

/* ---- the browser ----------------------------------------------------------------------------
 */

static const struct {
    const char *keys, *name, *group, *text;
} keys[] = {
#define KEY(command, keys, name, group, screens, place, words, text) {keys, name, group, text},
#include "tui/keys.def"
#undef KEY
};
enum { N_KEY = sizeof keys / sizeof keys[0] };

static bool group_seen(int at)
{
    for (int i = 0; i < at; i++)
        if (!strcmp(keys[i].group, keys[at].group))
            return true;
    return false;
}

/* One group of keys, in the order of the list. */
static void key_group(FILE *out, const char *group)
{
    char detail[80];

    fprintf(out, "## %s\n\n", group);
    for (int i = 0; i < N_KEY; i++)
        if (!strcmp(keys[i].group, group)) {
            snprintf(detail, sizeof detail, "(:%s)", keys[i].name);
            item(out, keys[i].keys, detail, keys[i].text);
        }
}

static void tui_page(FILE *out)
{
    static const struct {
        const char *name, *title;
    } screens[] = {
#define SCREEN(id, digit, letter, name, title) {name, title},
#include "tui/screens/screens.def"
#undef SCREEN
    };

    head(out, "kvt-tui", 7, "screens and keys of the browser");
    fputs("# DESCRIPTION\n\n", out);
    put(out,
        "kvt tui opens traces and their results in a terminal: a map of layers and heads that "
        "opens on the worst lane, and for each lane the prompt as that lane kept it, step by "
        "step. What a key does stands behind it; the name behind the colon can be typed after "
        "':' and in scripts. kvt show prints every screen as text.");
    fputs("\n\n# SCREENS\n\n", out);
    for (size_t i = 0; i < sizeof screens / sizeof screens[0]; i++)
        item(out, screens[i].name, "", screens[i].title);
    fputs("# KEYS\n\n", out);
    for (int i = 0; i < N_KEY; i++)
        if (!group_seen(i))
            key_group(out, keys[i].group);
    fputs("# SEE ALSO\n\n*kvt-tui*(1), *kvt-show*(1)\n", out);
}

/* ---- public --------------------------------------------------------------------------------
 */

static const char *const names[] = {"kvt",     "kvt-policies", "kvt-trace",
                                    "kvt-csv", "kvt-tui",      NULL};

const char *const *cli_manual_names(void)
{
    return names;
}

kvt_code cli_manual(FILE *out, const char *name, kvt_err *err)
{
    static void (*const pages[])(FILE *) = {main_page, policies_page, trace_page, csv_page,
                                            tui_page};
    for (int i = 0; names[i]; i++)
        if (!strcmp(names[i], name)) {
            pages[i](out);
            return KVT_OK;
        }
    const cli_command *v = cli_command_find(!strncmp(name, "kvt-", 4) ? name + 4 : name);
    if (!v)
        return kvt_fail(err, KVT_USAGE,
                        "no manual page '%.60s'; they are kvt, a verb, kvt-policies, "
                        "kvt-trace, kvt-csv, kvt-tui",
                        name);
    verb_page(out, v);
    return KVT_OK;
}
