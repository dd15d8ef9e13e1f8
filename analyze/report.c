/* report.c - the tables of a result set by name: made in memory, or streamed into a CSV file.
 */
#include "analyze/report_priv.h"

#include <stdlib.h>
#include <string.h>

#include "kvt/arena.h"

struct kvt_report {
    kvt_schema schema;
    kvt_table table;
    char *rows;
    int64_t cap;
    size_t row_size;
    kvt_arena **text; /* of token columns, one a trace */
    int64_t n_text;
};

static const report_kind *const kinds[] = {&report_cells,     &report_lanes, &report_steps,
                                           &report_evictions, &report_audit, &report_curve};
enum { N_KIND = sizeof kinds / sizeof kinds[0] };

static const char *const names[N_KIND + 1] = {"cells", "lanes", "steps", "evictions",
                                              "audit", "curve", NULL};

const char *const *kvt_report_names(void)
{
    return names;
}

static const report_kind *find(const char *name)
{
    for (int i = 0; i < N_KIND; i++)
        if (strcmp(kinds[i]->name, name) == 0)
            return kinds[i];
    return NULL;
}

void report_key_of(report_key *out, const kvt_cell *cell)
{
    *out = (report_key){cell->run_id,        cell->trace_id,      cell->policy,
                        cell->policy_params, cell->exactness,     cell->budget_asked,
                        cell->budget_rule,   cell->budget_tokens, cell->budget_frac,
                        cell->seed};
}

void report_schema_add(kvt_schema *out, const kvt_column *columns)
{
    for (; columns->name != NULL && out->n < KVT_COLUMNS_MAX; columns++)
        out->column[out->n++] = *columns;
    out->column[out->n] = (kvt_column){0};
}

void report_key_schema(kvt_schema *out, size_t offset)
{
    static const kvt_column key[] = {
        KVT_COLUMN(report_key, run_id, "",
                   "hash of everything that made the cell; its first 8 digits name it"),
        KVT_COLUMN(report_key, trace_id, "", "name of the trace"),
        KVT_COLUMN(report_key, policy, "", "policy, with its allocator where one was named"),
        KVT_COLUMN(report_key, policy_params, "", "every parameter, defaults written out"),
        KVT_COLUMN(report_key, exactness, "", "what the number is worth"),
        KVT_COLUMN(report_key, budget_asked, "", "budget as typed"),
        KVT_COLUMN(report_key, budget_rule, "", "how a fraction became slots"),
        KVT_COLUMN(report_key, budget_tokens, "tokens",
                   "slots a lane may hold, mean over lanes"),
        KVT_COLUMN(report_key, budget_frac, "frac", "the same as a share of the prompt"),
        KVT_COLUMN(report_key, seed, "",
                   "seed of the random streams; empty where nothing is drawn"),
        {0},
    };
    int first = out->n;
    report_schema_add(out, key);
    for (int i = first; i < out->n; i++)
        out->column[i].offset += offset;
}

bool report_wants(const char *run_id, const kvt_cell *cell)
{
    if (strcmp(cell->status, "ok") != 0)
        return false;
    if (run_id == NULL)
        return true;
    size_t n = strlen(run_id);
    return n >= 6 && strncmp(cell->run_id, run_id, n) == 0;
}

static int by_key(const void *a_, const void *b_)
{
    const kvt_result *a = *(const kvt_result *const *)a_, *b = *(const kvt_result *const *)b_;
    int c = strcmp(a->trace_id, b->trace_id);
    if (c == 0)
        c = (int)a->is_control - (int)b->is_control;
    if (c == 0)
        c = strcmp(a->policy_text, b->policy_text);
    if (c == 0 && a->n_cell > 0 && b->n_cell > 0)
        c = (a->cell[0].seed > b->cell[0].seed) - (a->cell[0].seed < b->cell[0].seed);
    return c != 0 ? c : strcmp(a->pass_id, b->pass_id);
}

const kvt_result **report_order(const kvt_results *results)
{
    const kvt_result **order = kvt_alloc(results->n, sizeof(kvt_result *));
    if (order == NULL)
        return NULL;
    for (int64_t i = 0; i < results->n; i++)
        order[i] = results->result[i];
    qsort(order, (size_t)results->n, sizeof *order, by_key);
    return order;
}

kvt_code report_each(const kvt_results *results, const char *run_id, bool all,
                     kvt_code (*each)(const report_sink *sink, const kvt_result *r, int cell,
                                      kvt_err *err),
                     const report_sink *sink, kvt_err *err)
{
    const kvt_result **order = report_order(results);
    if (order == NULL)
        return kvt_fail_memory(err, (size_t)results->n * sizeof *order);
    kvt_code code = KVT_OK;
    for (int64_t i = 0; i < results->n && code == KVT_OK; i++)
        for (int c = 0; c < order[i]->n_cell && code == KVT_OK; c++)
            if ((all && run_id == NULL) || report_wants(run_id, &order[i]->cell[c]))
                code = each(sink, order[i], c, err);
    kvt_free(order);
    return code;
}

static kvt_code keep_rows(void *user, const void *rows, int64_t n, kvt_err *err)
{
    kvt_report *r = user;
    if (r->table.n_row + n > r->cap) {
        int64_t cap = (r->table.n_row + n) * 2;
        char *grown = kvt_resize(r->rows, r->cap, cap, r->row_size);
        if (grown == NULL)
            return kvt_fail_memory(err, (size_t)cap * r->row_size);
        r->rows = grown;
        r->cap = cap;
    }
    if (n > 0)
        memcpy(r->rows + (size_t)r->table.n_row * r->row_size, rows, (size_t)n * r->row_size);
    r->table.n_row += n;
    return KVT_OK;
}

static kvt_code keep_text(void *user, kvt_arena *text, kvt_err *err)
{
    kvt_report *r = user;
    kvt_arena **grown = kvt_resize(r->text, r->n_text, r->n_text + 1, sizeof(kvt_arena *));
    if (grown == NULL) {
        kvt_arena_free(text);
        return kvt_fail_memory(err, (size_t)(r->n_text + 1) * sizeof(kvt_arena *));
    }
    r->text = grown;
    r->text[r->n_text++] = text;
    return KVT_OK;
}

static kvt_code unknown(kvt_err *err, const char *name)
{
    return kvt_fail(err, KVT_USAGE,
                    "no table '%s'; there are cells, lanes, steps, evictions, audit, curve",
                    name);
}

kvt_code kvt_report_make(kvt_report **out, const char *name, const kvt_results *results,
                         const char *run_id, const kvt_ctx *ctx, kvt_err *err)
{
    *out = NULL;
    const report_kind *kind = find(name);
    if (kind == NULL)
        return unknown(err, name);
    kvt_report *r = kvt_alloc(1, sizeof *r);
    if (r == NULL)
        return kvt_fail_memory(err, sizeof *r);
    kind->schema(&r->schema);
    r->row_size = kind->row_size;
    r->table = (kvt_table){.name = kind->name,
                           .title = kind->title,
                           .columns = r->schema.column,
                           .row_size = kind->row_size};
    kvt_code code =
        kind->make(results, run_id, &(report_sink){keep_rows, keep_text, r}, ctx, err);
    if (code != KVT_OK) {
        kvt_report_free(r);
        return code;
    }
    r->table.rows = r->rows;
    *out = r;
    return KVT_OK;
}

const kvt_table *kvt_report_table(const kvt_report *r)
{
    return &r->table;
}

void kvt_report_free(kvt_report *r)
{
    if (r == NULL)
        return;
    for (int64_t i = 0; i < r->n_text; i++)
        kvt_arena_free(r->text[i]);
    kvt_free(r->text);
    kvt_free(r->rows);
    kvt_free(r);
}

void kvt_report_schema(const char *name, kvt_schema *out)
{
    const report_kind *kind = find(name);
    *out = (kvt_schema){0};
    if (kind != NULL)
        kind->schema(out);
}

typedef struct stream {
    kvt_csv *csv;
    kvt_table table;
} stream;

static kvt_code write_rows(void *user, const void *rows, int64_t n, kvt_err *err)
{
    stream *s = user;
    s->table.rows = rows;
    s->table.n_row = n;
    return kvt_csv_rows(s->csv, &s->table, err);
}

kvt_code kvt_report_csv(const char *name, const kvt_results *results, const char *run_id,
                        const char *path, const kvt_csv_options *options, const kvt_ctx *ctx,
                        kvt_err *err)
{
    const report_kind *kind = find(name);
    if (kind == NULL)
        return unknown(err, name);
    kvt_schema schema = {0};
    kind->schema(&schema);
    stream s = {.table = {.name = kind->name,
                          .title = kind->title,
                          .columns = schema.column,
                          .row_size = kind->row_size}};
    kvt_code code = kvt_csv_open(&s.csv, &s.table, path, options, err);
    if (code != KVT_OK)
        return code;
    code = kind->make(results, run_id, &(report_sink){write_rows, NULL, &s}, ctx, err);
    if (code != KVT_OK) {
        kvt_csv_abort(s.csv);
        return code;
    }
    return kvt_csv_close(s.csv, err);
}
