/* cmd_train.c - kvt train: adapters, scorers and tables from recorded traces. What can be
 * trained, and its parameters, come from the trainers themselves. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/size.h"
#include "cli/about.h"
#include "cli/cli.h"
#include "cli/files.h"
#include "cli/help.h"
#include "cli/table.h"
#include "kvt/policy.h"
#include "kvt/train.h"

typedef struct options {
    cli_list heldout;
    const char *model, *out, *log;
    bool resume, plan, force;
} options;

/* clang-format off */
static const cli_option table[] = {
    {"heldout", 0, CLI_LIST, CLI_OPT(options, heldout), .arg = "PATH", .complete = "trace",
     .help = "a trace, or a folder of them, whose loss and recall are printed; never trained on"},
    {"model", 0, CLI_TEXT, CLI_OPT(options, model), .arg = "MODEL", .complete = "file",
     .help = "the model of the traces, a GGUF file or a folder; for what runs its layers"},
    {"out", 'o', CLI_TEXT, CLI_OPT(options, out), .arg = "FILE", .complete = "file",
     .help = "the file to write"},
    {"log", 0, CLI_TEXT, CLI_OPT(options, log), .arg = "FILE", .complete = "file",
     .help = "the curve, as CSV (default the name of -o with .csv behind it)"},
    {"resume", 0, CLI_FLAG, CLI_OPT(options, resume),
     .help = "go on from the checkpoint of a run that was stopped, where there is one"},
    {"plan", 'n', CLI_FLAG, CLI_OPT(options, plan),
     .help = "print parameters, steps, memory and time, then stop"},
    {"force", 0, CLI_FLAG, CLI_OPT(options, force), .help = "replace a file of that name"},
    {0},
};
/* clang-format on */

/* ---- list ----------------------------------------------------------------------------------
 */

static json_t *params_json(const kvt_param *p)
{
    json_t *out = json_array();
    char text[160];
    for (; p->name; p++) {
        json_t *line = json_object();
        json_object_set_new(line, "name", json_string(p->name));
        if (p->type == KVT_CHOICE)
            json_object_set_new(line, "default", json_string(p->choices[(int)p->def].name));
        else if (p->type == KVT_BOOL)
            json_object_set_new(line, "default", json_boolean(p->def != 0));
        else
            json_object_set_new(line, "default", json_real(p->def));
        json_object_set_new(line, "range", json_string(kvt_param_range(p, text, sizeof text)));
        json_object_set_new(line, "help", json_string(p->help));
        json_array_append_new(out, line);
    }
    return out;
}

static kvt_code list_json(kvt_err *err)
{
    json_t *top = json_object(), *rows = json_array();
    for (const kvt_trainer *const *t = kvt_trainers(); *t; t++) {
        json_t *row = json_object();
        json_object_set_new(row, "name", json_string((*t)->name));
        json_object_set_new(row, "title", json_string((*t)->title));
        json_object_set_new(row, "paper", json_string((*t)->paper));
        json_object_set_new(row, "about", json_string((*t)->about));
        json_object_set_new(row, "differs", json_string((*t)->differs));
        json_object_set_new(row, "file", json_string((*t)->file));
        json_object_set_new(row, "reads", json_string((*t)->reads));
        json_object_set_new(row, "needs_model", json_boolean((*t)->needs_model));
        json_object_set_new(row, "parameters", params_json((*t)->params));
        json_array_append_new(rows, row);
    }
    json_object_set_new(top, "schema", json_string("kvt-trainers-1"));
    json_object_set_new(top, "rows", rows);
    return cli_json_print(top, err);
}

static kvt_code list(cli *c, kvt_err *err)
{
    static const char *const columns[] = {"trainer", "makes", "reads", "what", NULL};
    static const cli_align align[] = {CLI_LEFT, CLI_LEFT, CLI_LEFT, CLI_LEFT};
    if (c->json)
        return list_json(err);
    cli_table *t = cli_table_new(c, columns, align);
    kvt_code code = t ? KVT_OK : kvt_fail_memory(err, 1024);
    for (const kvt_trainer *const *i = kvt_trainers(); !code && *i; i++)
        code = cli_table_row(
            t, (const char *[]){(*i)->name, (*i)->file, (*i)->reads, (*i)->title, NULL}, err);
    if (!code)
        code = cli_table_print(t, stdout, err);
    cli_table_free(t);
    return code;
}

enum { LINE_WIDTH = 80, LABEL_WIDTH = 9 };

static void label(const char *name, const char *value)
{
    printf("%-*s", LABEL_WIDTH, name);
    cli_wrap(stdout, value, LABEL_WIDTH, LABEL_WIDTH, LINE_WIDTH);
}

/* Who reads what it makes: a probe runs an adapter, policies read a scorer of their kind
 * ("kvpop-mlp" of the trainer kvpop). */
static void readers(const kvt_trainer *t, char *out, size_t cap)
{
    size_t n = (size_t)snprintf(out, cap, "%s", t->file), first = n;
    if (strcmp(t->file, "adapter") == 0) {
        snprintf(out + n, cap - n, "; kvt capture --probe NAME=%s:FILE runs it", t->name);
        return;
    }
    for (const kvt_policy *const *p = kvt_policies(); *p && n < cap; p++) {
        const char *kind = (*p)->weights_kind ? (*p)->weights_kind : (*p)->name;
        if ((*p)->weights && strncmp(kind, t->name, strlen(t->name)) == 0)
            n += (size_t)snprintf(out + n, cap - n, "%s%s",
                                  n > first ? ", " : "; kvt replay --weights FILE, for ",
                                  (*p)->name);
    }
    if (n == first)
        snprintf(out + n, cap - n, "; a table that no policy here reads, kvt info prints it");
}

static kvt_code show(const char *name, kvt_err *err)
{
    char text[512];
    const kvt_trainer *t = kvt_trainer_find(name);
    if (!t)
        return kvt_fail(err, KVT_USAGE,
                        "nothing called '%.60s' can be trained; kvt train list names what can",
                        name);
    printf("%s - %s\n\n", t->name, t->title);
    label("paper", t->paper);
    fputs("\n", stdout);
    label("about", t->about);
    fputs("\n", stdout);
    label("differs", *t->differs ? t->differs : "nothing");
    readers(t, text, sizeof text);
    label("makes", text);
    snprintf(text, sizeof text, "%s%s", t->reads, t->needs_model ? ", and the model" : "");
    label("reads", text);
    cli_show_params(stdout, "parameters", t->params);
    return KVT_OK;
}

/* ---- one run -------------------------------------------------------------------------------
 */

/* What a trainer says of a row of the curve is shown without -v. */
static void say(void *user, kvt_log_level level, const char *area, const char *text)
{
    cli *c = user;
    if (level == KVT_LOG_INFO && c->verbose == 0 && strcmp(area, "train") == 0)
        cli_note(c, "%s", text);
    else if (c->ctx.log)
        c->ctx.log(user, level, area, text);
}

static void set_real(json_t *o, const char *key, double x)
{
    json_object_set_new(o, key, isfinite(x) ? json_real(x) : json_null());
}

static kvt_code print_json(const kvt_train_counts *n, const char *out, bool plan, kvt_err *err)
{
    json_t *o = json_object();
    json_object_set_new(o, "schema", json_string(plan ? "kvt-train-plan-1" : "kvt-train-1"));
    json_object_set_new(o, "trainer", json_string(n->trainer));
    json_object_set_new(o, "params", json_string(n->params));
    json_object_set_new(o, "out", out ? json_string(out) : json_null());
    json_object_set_new(o, "traces", json_integer(n->n_trace));
    json_object_set_new(o, "heldout", json_integer(n->n_heldout));
    json_object_set_new(o, "examples", json_integer(n->n_example));
    json_object_set_new(o, "steps", json_integer(n->n_step));
    json_object_set_new(o, "parameters", json_integer(n->n_parameter));
    set_real(o, "parameter_frac", n->parameter_frac);
    json_object_set_new(o, "memory_bytes", json_integer(n->memory_bytes));
    json_object_set_new(o, "file_bytes", json_integer(n->file_bytes));
    set_real(o, plan ? "expected_s" : "seconds", plan ? n->expected_s : n->seconds);
    if (!plan) {
        set_real(o, "first_loss", n->first_loss);
        set_real(o, "last_loss", n->last_loss);
        set_real(o, "heldout_loss", n->heldout_loss);
        set_real(o, "heldout_recall", n->heldout_recall);
        set_real(o, "heldout_lost", n->heldout_lost);
        set_real(o, "blas_s", n->blas_s);
    }
    return cli_json_print(o, err);
}

static void line(const char *name, double x, const char *unit)
{
    char text[64];
    snprintf(text, sizeof text, "%.4g", x);
    if (isfinite(x))
        printf("%-16s %s%s\n", name, text, unit);
}

static void print_counts(const kvt_train_counts *n, const char *out, bool plan)
{
    char size[2][32];
    printf("%-16s %s:%s\n", "trainer", n->trainer, n->params);
    printf("%-16s %lld, %lld held out\n", "traces", (long long)n->n_trace,
           (long long)n->n_heldout);
    if (n->n_parameter)
        printf("%-16s %lld", "parameters", (long long)n->n_parameter);
    if (n->n_parameter && isfinite(n->parameter_frac))
        printf(" (%.3f %% of the model)", 100 * n->parameter_frac);
    printf("%s", n->n_parameter ? "\n" : "");
    if (n->n_step)
        printf("%-16s %lld, %lld examples\n", "steps", (long long)n->n_step,
               (long long)n->n_example);
    printf("%-16s %s of memory, %s of file\n", "bytes",
           size_print(n->memory_bytes, size[0], sizeof size[0]),
           size_print(n->file_bytes, size[1], sizeof size[1]));
    line("seconds", plan ? n->expected_s : n->seconds, plan ? ", about" : "");
    if (plan)
        return;
    line("first loss", n->first_loss, "");
    line("last loss", n->last_loss, "");
    line("held-out loss", n->heldout_loss, "");
    line("held-out recall", n->heldout_recall, " at 10 % kept");
    line("held-out lost", n->heldout_lost, " at 10 % kept");
    printf("%-16s %s\n", "file", out);
}

static kvt_code train(cli *c, const options *o, kvt_train_spec *spec, kvt_err *err)
{
    kvt_train_counts counts;
    kvt_ctx ctx = c->ctx;
    const kvt_trainer *t;
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(spec->what, ":"), spec->what);
    t = kvt_trainer_find(name); /* an unknown one is refused by the library */
    kvt_code code = KVT_OK;
    if (t && t->needs_model && o->model)
        code = kvt_model_open(
            &spec->model, o->model,
            &(kvt_model_options){.device = "cpu", .header_only = o->plan, .f32 = true}, &c->ctx,
            err);
    if (code)
        return code;
    ctx.log = say;
    code = o->plan ? kvt_train_plan(spec, &counts, &ctx, err)
                   : kvt_train(spec, &counts, &ctx, err);
    cli_progress_end(c);
    if (!code && c->json)
        code = print_json(&counts, spec->out, o->plan, err);
    else if (!code)
        print_counts(&counts, spec->out, o->plan);
    kvt_model_close(spec->model);
    if (fflush(stdout) != 0 && !code)
        code = kvt_fail(err, KVT_IO, "standard output could not be written");
    return code;
}

static kvt_code run(cli *c, const void *opts, int n_arg, char **arg, kvt_err *err)
{
    const options *o = opts;
    cli_traces traces = {0}, heldout = {0};
    kvt_code code = KVT_OK;
    if (strcmp(arg[0], "list") == 0 && n_arg == 1)
        return list(c, err);
    if (strcmp(arg[0], "show") == 0 && n_arg == 2 && !c->json)
        return show(arg[1], err);
    for (int i = 1; !code && i < n_arg; i++)
        code = cli_traces_add(&traces, arg[i], err);
    for (int i = 0; !code && i < o->heldout.n; i++)
        code = cli_traces_add(&heldout, o->heldout.item[i], err);
    if (!code) {
        kvt_train_spec spec = {.what = arg[0],
                               .trace = (const char *const *)traces.item,
                               .n_trace = traces.n,
                               .heldout = (const char *const *)heldout.item,
                               .n_heldout = heldout.n,
                               .out = o->out,
                               .log = o->log,
                               .resume = o->resume,
                               .force = o->force,
                               .command = c->command_line};
        code = train(c, o, &spec, err);
    }
    cli_traces_free(&traces);
    cli_traces_free(&heldout);
    return code;
}

const cli_command cli_command_train = {
    .name = "train",
    .group = "replay",
    .line = "learn what policies read: adapters, scorers, tables",
    .usage = "WHAT[:k=v,...] TRACE... -o OUT [OPTIONS] | list | show WHAT",
    .about =
        "Trains an adapter of lookahead tokens, a scorer or a table from recorded traces; no "
        "prompt is run again. A folder stands for all traces below it. The curve (loss, and "
        "on held-out traces loss, recall and lost mass at 10 % kept) is printed and written "
        "as CSV: step, the mean loss since the row before, the learning rate (of embeddings; "
        "of "
        "kvzap its penalty), the held-out numbers, seconds. The same traces, parameters and "
        "seed give the same bytes for any number of "
        "threads. About once a minute, and where it is stopped, the run writes a checkpoint: "
        "the same command with --resume goes on and ends with the same bytes. "
        "`list` names what can be trained, `show WHAT` its parameters.",
    .options = table,
    .options_size = sizeof(options),
    .examples = {"kvt train list", "kvt train show lookaheadkv",
                 "kvt train lookaheadkv:rank=2 traces/train --heldout traces/held "
                 "--model smollm2.gguf -o look.safetensors",
                 "kvt train lookaheadkv traces/train --model smollm2.gguf -o look.safetensors "
                 "--plan"},
    .min_args = 1,
    .max_args = -1,
    .complete = "trace",
    .first = "trainer",
    .run = run,
};
