/* document.c - the generated parts of the pages in docs, from the lists. */
#include <string.h>

#include "cli/document.h"
#include "cli/help.h"
#include "kvt/analyze.h"
#include "kvt/metric.h"
#include "kvt/replay.h"
#include "kvt/trace.h"
#include "traces/dataset.h"

void document_put(FILE *out, const char *text)
{
    for (const char *s = text ? text : ""; *s; s++) {
        if (strchr("|*_<>`\\", *s))
            fputc('\\', out);
        fputc(*s == '\n' ? ' ' : *s, out);
    }
}

void document_row(FILE *out, const char *const *cell, int n)
{
    fputc('|', out);
    for (int i = 0; i < n; i++) {
        fputc(' ', out);
        document_put(out, cell[i]);
        fputs(" |", out);
    }
    fputc('\n', out);
}

void document_header(FILE *out, const char *const *cell, int n)
{
    document_row(out, cell, n);
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

    document_header(out, (const char *const[]){"axis", "dimension", "what it counts"}, 3);
    for (size_t i = 0; i < sizeof axes / sizeof axes[0]; i++) {
        char letter[2] = {axes[i][0][1], 0};
        document_row(out, (const char *const[]){letter, axes[i][1], axes[i][2]}, 3);
    }
    fputc('\n', out);
    document_header(out,
                    (const char *const[]){"dataset", "type", "axes", "unit", "level", "there",
                                          "what it is"},
                    7);
    for (int i = 0; i < KVT_DS_COUNT; i++) {
        const kvt_dataset *d = kvt_dataset_of((kvt_ds)i);
        document_row(out,
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

    document_header(
        out,
        (const char *const[]){"group", "attribute", "type", "unit", "digest", "what it is"}, 6);
    for (int i = 0; i < n; i++) {
        char group[32];
        snprintf(group, sizeof group, "/%s", a[i].group);
        document_row(out,
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

    document_header(out, (const char *const[]){"kind", "is given", "what runs"}, 3);
    for (int i = 0; i < KVT_PROBE_KINDS; i++)
        document_row(out,
                     (const char *const[]){kvt_probe_kind_name((kvt_probe_kind)i),
                                           kvt_probe_kind_args((kvt_probe_kind)i),
                                           kvt_probe_kind_help((kvt_probe_kind)i)},
                     3);
    fputc('\n', out);
    document_header(
        out, (const char *const[]){"dataset", "type", "axes", "unit", "there", "what it is"},
        6);
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++)
        document_row(out, sets[i], 6);
}

static void results(FILE *out)
{
    static const char *const sets[][5] = {
#define KVT_RESULT_SET(field, path, ctype, type, axes, unit, help) \
    {path, #type, axes, unit, help},
#include "traces/results.def"
#undef KVT_RESULT_SET
    };

    document_header(out, (const char *const[]){"array", "type", "axes", "unit", "what it is"},
                    5);
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++)
        document_row(out, sets[i], 5);
}

void document_line(FILE *out, const char *name, const char *text)
{
    if (!text || !text[0])
        return;
    fprintf(out, "- %s: ", name);
    document_put(out, text);
    fputc('\n', out);
}

static void metrics(FILE *out)
{
    for (int i = 0; kvt_metrics()[i]; i++) {
        const kvt_metric *m = kvt_metrics()[i];
        fprintf(out, "%s### %s\n\n", i ? "\n" : "", m->name);
        document_put(out, m->title);
        fputs(".\n\n", out);
        document_line(out, "formula", m->formula);
        document_line(out, "unit", m->unit[0] ? m->unit : "1");
        document_line(out, "range", m->range);
        document_line(out, "better",
                      m->better < 0   ? "less"
                      : m->better > 0 ? "more"
                                      : "neither");
        document_line(out, "undefined", m->absent);
        if (m->reading)
            document_line(out, "how to read it", m->reading);
        document_line(out, "does not show", m->hides);
        fputs("- columns: ", out);
        for (int k = 0; m->column[k].column; k++)
            fprintf(out, "%s`%s`", k ? ", " : "", m->column[k].column);
        fputc('\n', out);
        document_line(out, "measured", m->extra ? "where --metrics names it" : "always");
    }
}

/* Columns as a schema, cut at its room. */
static void schema_of(kvt_schema *out, const kvt_column *c)
{
    *out = (kvt_schema){0};
    for (; c->name && out->n < KVT_COLUMNS_MAX; c++)
        out->column[out->n++] = *c;
}

bool document_table(int i, const char **name, kvt_schema *out)
{
    int n = 0;
    while (kvt_report_names()[n])
        n++;
    if (i < n) {
        *name = kvt_report_names()[i];
        kvt_report_schema(*name, out);
        return true;
    }
    kvt_table more[] = {kvt_comparison_table(&(kvt_comparison){0}),
                        kvt_cost_table_of(&(kvt_cost_table){0}),
                        kvt_selection_table(&(kvt_selection){0})};
    if (i - n >= (int)(sizeof more / sizeof more[0]))
        return false;
    *name = more[i - n].name;
    schema_of(out, more[i - n].columns);
    return true;
}

static void columns(FILE *out)
{
    kvt_schema schema;
    const char *name;
    for (int i = 0; document_table(i, &name, &schema); i++) {
        fprintf(out, "%s### %s.csv\n\n", i ? "\n" : "", name);
        document_header(out, (const char *const[]){"column", "unit", "what it is"}, 3);
        for (int k = 0; k < schema.n; k++) {
            const kvt_column *c = &schema.column[k];
            document_row(out, (const char *const[]){c->name, c->unit, c->help}, 3);
        }
    }
}

kvt_code cli_document(FILE *out, const char *name, kvt_err *err)
{
    static const struct {
        const char *name;
        void (*print)(FILE *);
    } parts[] = {{"datasets", datasets},
                 {"attributes", attributes},
                 {"probes", probes},
                 {"results", results},
                 {"policies", document_policies},
                 {"variants", document_variants},
                 {"metrics", metrics},
                 {"columns", columns},
                 {"models", document_models},
                 {"cost-geometries", document_cost_geometries},
                 {"cost-machines", document_cost_machines},
                 {"cost-agreement", document_figures_summary},
                 {"cost-figures", document_figures},
                 {"cost-equal", document_equal}};

    char names[400];
    size_t n = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (!strcmp(parts[i].name, name)) {
            parts[i].print(out);
            return KVT_OK;
        }
        n +=
            (size_t)snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "", parts[i].name);
    }
    return kvt_fail(err, KVT_USAGE, "no generated part '%.60s'; they are %s", name, names);
}
