/* document.c - the generated parts of the pages in docs, from the lists. */
#include <string.h>

#include "cli/help.h"
#include "cli/opt.h"
#include "kvt/analyze.h"
#include "kvt/metric.h"
#include "kvt/replay.h"
#include "kvt/trace.h"
#include "traces/dataset.h"

/* Text in a table cell: what Markdown would read as a border or markup is escaped. */
static void put(FILE *out, const char *text)
{
    for (const char *s = text ? text : ""; *s; s++) {
        if (strchr("|*_<>`\\", *s))
            fputc('\\', out);
        fputc(*s == '\n' ? ' ' : *s, out);
    }
}

static void row(FILE *out, const char *const *cell, int n)
{
    fputc('|', out);
    for (int i = 0; i < n; i++) {
        fputc(' ', out);
        put(out, cell[i]);
        fputs(" |", out);
    }
    fputc('\n', out);
}

static void header(FILE *out, const char *const *cell, int n)
{
    row(out, cell, n);
    fputc('|', out);
    for (int i = 0; i < n; i++)
        fputs("---|", out);
    fputc('\n', out);
}

static void datasets(FILE *out)
{
    static const char *const types[] = {
#define KVT_DATASET(id, path, type, axes, unit, level, required, help) #type,
#include "traces/datasets.def"
#undef KVT_DATASET
    };
    static const char *const axes[][3] = {
#define KVT_AXIS(letter, name, text) {#letter, name, text},
#include "traces/axes.def"
#undef KVT_AXIS
    };

    header(out, (const char *const[]){"axis", "dimension", "what it counts"}, 3);
    for (size_t i = 0; i < sizeof axes / sizeof axes[0]; i++) {
        char letter[2] = {axes[i][0][1], 0};
        row(out, (const char *const[]){letter, axes[i][1], axes[i][2]}, 3);
    }
    fputc('\n', out);
    header(out,
           (const char *const[]){"dataset", "type", "axes", "unit", "level", "there",
                                 "what it is"},
           7);
    for (int i = 0; i < KVT_DS_COUNT; i++) {
        const kvt_dataset *d = kvt_dataset_of((kvt_ds)i);
        row(out,
            (const char *const[]){d->path, types[i], d->axes, d->unit,
                                  d->level == KVT_NEVER ? "other files"
                                                        : kvt_level_name(d->level),
                                  d->required ? "always" : "may be", d->help},
            7);
    }
}

static void attributes(FILE *out)
{
    static const char *const types[] = {"text", "i64", "u64", "u8", "text", "f64"};
    int n;
    const trace_attr *a = trace_attrs(&n);

    header(out,
           (const char *const[]){"group", "attribute", "type", "unit", "digest", "what it is"},
           6);
    for (int i = 0; i < n; i++) {
        char group[32];
        snprintf(group, sizeof group, "/%s", a[i].group);
        row(out,
            (const char *const[]){group, a[i].name, types[a[i].kind], a[i].unit,
                                  a[i].run ? "left out" : "counted", a[i].help},
            6);
    }
}

static void probes(FILE *out)
{
    static const char *const sets[][6] = {
#define KVT_PROBE_SET(id, name, dtype, axes, unit, required, help) \
    {name, #dtype, axes, unit, (required) ? "always" : "may be", help},
#include "traces/probe_sets.def"
#undef KVT_PROBE_SET
    };

    header(out, (const char *const[]){"kind", "is given", "what runs"}, 3);
    for (int i = 0; i < KVT_PROBE_KINDS; i++)
        row(out,
            (const char *const[]){kvt_probe_kind_name((kvt_probe_kind)i),
                                  kvt_probe_kind_args((kvt_probe_kind)i),
                                  kvt_probe_kind_help((kvt_probe_kind)i)},
            3);
    fputc('\n', out);
    header(out, (const char *const[]){"dataset", "type", "axes", "unit", "there", "what it is"},
           6);
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++)
        row(out, sets[i], 6);
}

static void results(FILE *out)
{
    static const char *const sets[][5] = {
#define KVT_RESULT_SET(field, path, ctype, type, axes, unit, help) \
    {path, #type, axes, unit, help},
#include "traces/results.def"
#undef KVT_RESULT_SET
    };

    header(out, (const char *const[]){"array", "type", "axes", "unit", "what it is"}, 5);
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++)
        row(out, sets[i], 5);
}

static void param_rows(FILE *out, const kvt_param *table)
{
    char range[160], def[64];

    if (!table || !table->name)
        return;
    fputc('\n', out);
    header(out, (const char *const[]){"parameter", "default", "range", "what it is"}, 4);
    for (const kvt_param *p = table; p->name; p++) {
        if (p->type == KVT_CHOICE)
            snprintf(def, sizeof def, "%s", p->choices[(int)p->def].name);
        else if (p->type == KVT_BOOL)
            snprintf(def, sizeof def, "%s", p->def != 0 ? "true" : "false");
        else if (p->type == KVT_TEXT)
            def[0] = 0;
        else
            cli_opt_number(p->def, def, sizeof def);
        row(out,
            (const char *const[]){p->name, def, kvt_param_range(p, range, sizeof range),
                                  p->help},
            4);
    }
    for (const kvt_param *p = table; p->name; p++)
        for (const kvt_choice *v = p->choices;
             p->type == KVT_CHOICE && v < p->choices + (int)p->max + 1; v++) {
            fprintf(out, "%s- `%s=%s`", v == p->choices ? "\n" : "", p->name, v->name);
            if (v->sets && v->sets[0])
                fprintf(out, " sets `%s`", v->sets);
            fputs(": ", out);
            put(out, v->help);
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

static void line(FILE *out, const char *name, const char *text)
{
    if (!text || !text[0])
        return;
    fprintf(out, "- %s: ", name);
    put(out, text);
    fputc('\n', out);
}

static void policy(FILE *out, const kvt_policy *p)
{
    char text[600];

    fprintf(out, "\n### %s\n\n", p->name);
    put(out, p->title);
    fputs(".\n\n", out);
    line(out, "paper", p->paper);
    line(out, "differs", p->differs);
    phases(p->traits.phases, text, sizeof text);
    line(out, "acts in", text);
    line(out, "exactness at best", kvt_exactness_name(p->traits.exactness));
    needs(p->traits.needs, text, sizeof text);
    line(out, "reads", text);
    line(out, "one ranking for all budgets", p->traits.one_ranking ? "yes" : "no");
    param_rows(out, p->params);
}

static void policies(FILE *out)
{
    for (int control = 0; control < 2; control++) {
        fputs(control ? "\n## Controls and oracles\n" : "## Policies\n", out);
        for (int i = 0; kvt_policies()[i]; i++)
            if (kvt_policies()[i]->traits.control == (control == 1))
                policy(out, kvt_policies()[i]);
    }
    fputs("\n## Allocators\n", out);
    for (int i = 0; kvt_shares()[i]; i++) {
        const kvt_share *s = kvt_shares()[i];
        fprintf(out, "\n### /%s\n\n", s->name);
        put(out, s->title);
        fputs(".\n\n", out);
        line(out, "paper", s->paper);
        line(out, "differs", s->differs);
        param_rows(out, s->params);
    }
    fputs("\n## Parameters of the engine\n", out);
    param_rows(out, kvt_use_table());
}

static void metrics(FILE *out)
{
    for (int i = 0; kvt_metrics()[i]; i++) {
        const kvt_metric *m = kvt_metrics()[i];
        fprintf(out, "%s### %s\n\n", i ? "\n" : "", m->name);
        put(out, m->title);
        fputs(".\n\n", out);
        line(out, "formula", m->formula);
        line(out, "unit", m->unit[0] ? m->unit : "1");
        line(out, "range", m->range);
        line(out, "better", m->better < 0 ? "less" : m->better > 0 ? "more" : "neither");
        line(out, "undefined", m->absent);
        if (m->reading)
            line(out, "how to read it", m->reading);
        line(out, "does not show", m->hides);
        fputs("- columns: ", out);
        for (int k = 0; m->column[k].column; k++)
            fprintf(out, "%s`%s`", k ? ", " : "", m->column[k].column);
        fputc('\n', out);
        line(out, "measured", m->extra ? "where --metrics names it" : "always");
    }
}

static void columns(FILE *out)
{
    kvt_schema schema;
    for (int i = 0; kvt_report_names()[i]; i++) {
        fprintf(out, "%s### %s.csv\n\n", i ? "\n" : "", kvt_report_names()[i]);
        kvt_report_schema(kvt_report_names()[i], &schema);
        header(out, (const char *const[]){"column", "unit", "what it is"}, 3);
        for (int k = 0; k < schema.n; k++) {
            const kvt_column *c = &schema.column[k];
            row(out, (const char *const[]){c->name, c->unit, c->help}, 3);
        }
    }
}

kvt_code cli_document(FILE *out, const char *name, kvt_err *err)
{
    static const struct {
        const char *name;
        void (*print)(FILE *);
    } parts[] = {{"datasets", datasets}, {"attributes", attributes}, {"probes", probes},
                 {"results", results},   {"policies", policies},     {"metrics", metrics},
                 {"columns", columns}};

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (!strcmp(parts[i].name, name)) {
            parts[i].print(out);
            return KVT_OK;
        }
    return kvt_fail(
        err, KVT_USAGE,
        "no generated part '%.60s'; they are datasets, attributes, probes, results, "
        "policies, metrics, columns",
        name);
}
