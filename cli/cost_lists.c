/* cost_lists.c - what the cost model brings along: models and machines. */
#include <stdio.h>
#include <string.h>

#include "cli/cost_table.h"
#include "cli/table.h"
#include "kvt/arena.h"

enum { CELL = 96 };

/* ---- models --------------------------------------------------------------------------------
 */

typedef struct geometry_row {
    char name[64], title[96], draft[64];
    int64_t layers, q_heads, kv_heads, head_dim, hidden, params;
    double kv_bytes_token;
} geometry_row;

static const kvt_column geometry_columns[] = {
#define C(field, unit, help) KVT_COLUMN(geometry_row, field, unit, help)
    C(name, "", "as --geometry takes it"),
    C(layers, "1", "layers"),
    C(q_heads, "1", "query heads of a layer"),
    C(kv_heads, "1", "kv heads of a layer"),
    C(head_dim, "1", "channels of a head"),
    C(hidden, "1", "width of the residual stream"),
    C(params, "1", "weights that are stored"),
    C(kv_bytes_token, "bytes", "keys and values of a token in 16 bits, all layers"),
    C(draft, "", "model that usually drafts for it"),
    C(title, "", "where it is from"),
    {0},
#undef C
};

static kvt_code fill_geometry(geometry_row *r, const char *name, kvt_err *err)
{
    kvt_cost_geometry g;
    if (kvt_cost_geometry_find(&g, name, err))
        return err->code;
    *r = (geometry_row){.layers = g.g.n_layer,
                        .q_heads = g.g.n_head,
                        .kv_heads = g.g.n_kv_head,
                        .head_dim = g.g.head_dim,
                        .hidden = g.g.n_hidden,
                        .params = g.theta_all,
                        .kv_bytes_token = kvt_cost_cache_bytes(&g, 1)};
    snprintf(r->name, sizeof r->name, "%.63s", name);
    snprintf(r->title, sizeof r->title, "%s", g.title);
    snprintf(r->draft, sizeof r->draft, "%s", g.draft);
    return KVT_OK;
}

static kvt_code geometry_line(cli_table *t, const geometry_row *r, kvt_err *err)
{
    char shape[CELL], params[CELL], bytes[CELL];
    snprintf(shape, sizeof shape, "%lld x %lld/%lld x %lld", (long long)r->layers,
             (long long)r->q_heads, (long long)r->kv_heads, (long long)r->head_dim);
    snprintf(params, sizeof params, "%.2f B", (double)r->params / 1e9);
    snprintf(bytes, sizeof bytes, "%.0f KiB", r->kv_bytes_token / 1024);
    const char *cell[] = {r->name, shape, params, bytes, r->title, NULL};
    return cli_table_row(t, cell, err);
}

static kvt_code print_geometries(cli *c, const geometry_row *row, int n, kvt_err *err)
{
    static const char *const names[] = {
        "NAME", "LAYERS x HEADS/KV x DIM", "WEIGHTS", "KV/TOKEN", "FROM", NULL};
    static const cli_align align[] = {CLI_LEFT, CLI_LEFT, CLI_RIGHT, CLI_RIGHT, CLI_LEFT};
    cli_table *t = cli_table_new(c, names, align);
    kvt_code code = t ? KVT_OK : kvt_fail_memory(err, sizeof names);
    for (int i = 0; i < n && !code; i++)
        code = geometry_line(t, &row[i], err);
    if (t)
        cli_table_narrow(t, 4);
    if (!code)
        code = cli_table_print(t, stdout, err);
    cli_table_free(t);
    return code;
}

static void print_rows(const char *schema, const kvt_table *t)
{
    printf("{\"schema\": \"%s\",\n \"rows\": ", schema);
    cli_json_rows(stdout, t);
    printf("}\n");
}

static int count(const char *const *names)
{
    int n = 0;
    while (names[n])
        n++;
    return n;
}

kvt_code cli_cost_list_geometries(cli *c, kvt_err *err)
{
    const char *const *names = kvt_cost_geometry_names();
    int n = count(names);
    geometry_row *row = kvt_alloc(n, sizeof *row);
    kvt_code code = row ? KVT_OK : kvt_fail_memory(err, (size_t)n * sizeof *row);
    for (int i = 0; i < n && !code; i++)
        code = fill_geometry(&row[i], names[i], err);
    const kvt_table t = {.name = "geometries",
                         .title = "a built-in model",
                         .columns = geometry_columns,
                         .rows = row,
                         .n_row = n,
                         .row_size = sizeof *row};
    if (!code && c->json)
        print_rows("kvt-geometries-1", &t);
    else if (!code)
        code = print_geometries(c, row, n, err);
    kvt_free(row);
    return code;
}

/* ---- machines ------------------------------------------------------------------------------
 */

typedef struct machine_row {
    char name[64], title[128], aliases[160], calibrated_on[192];
    double peak_flops_16, mem_bw, mem_bytes, link_bw;
} machine_row;

static const kvt_column machine_columns[] = {
#define C(field, unit, help) KVT_COLUMN(machine_row, field, unit, help)
    C(name, "", "as --machine takes it"),
    C(aliases, "", "and so"),
    C(peak_flops_16, "FLOP/s", "dense products of 16 bits; 0: those of 32 bits"),
    C(mem_bw, "B/s", "memory"),
    C(mem_bytes, "B", "its size; 0: not known"),
    C(link_bw, "B/s", "to other devices of a node; 0: none"),
    C(calibrated_on, "", "what was fitted; empty: nothing"),
    C(title, "", "what it is"),
    {0},
#undef C
};

static void fill_machine(machine_row *r, const kvt_machine *m)
{
    const char *const *alias = kvt_machine_aliases(m->name);
    *r = (machine_row){.peak_flops_16 = m->peak_flops_16,
                       .mem_bw = m->mem_bw,
                       .mem_bytes = m->mem_bytes,
                       .link_bw = m->link_bw};
    snprintf(r->name, sizeof r->name, "%s", m->name);
    snprintf(r->title, sizeof r->title, "%s", m->title);
    snprintf(r->calibrated_on, sizeof r->calibrated_on, "%s", m->calibrated_on);
    for (; alias && *alias; alias++) {
        size_t n = strlen(r->aliases);
        snprintf(r->aliases + n, sizeof r->aliases - n, "%s%s", n ? ", " : "", *alias);
    }
}

static kvt_code machine_line(cli_table *t, const machine_row *r, kvt_err *err)
{
    char flops[CELL], speed[CELL], size[CELL], text[320];
    snprintf(flops, sizeof flops, r->peak_flops_16 > 0 ? "%.4g TF/s" : "-",
             r->peak_flops_16 / 1e12);
    snprintf(speed, sizeof speed, "%.4g GB/s", r->mem_bw / 1e9);
    snprintf(size, sizeof size, r->mem_bytes > 0 ? "%.4g GB" : "?", r->mem_bytes / 1e9);
    snprintf(text, sizeof text, "%s%s%s%s", r->title, r->aliases[0] ? " (also " : "",
             r->aliases, r->aliases[0] ? ")" : "");
    const char *cell[] = {r->name, flops, speed, size, text, NULL};
    return cli_table_row(t, cell, err);
}

static kvt_code print_machines(cli *c, const machine_row *row, int n, kvt_err *err)
{
    static const char *const names[] = {"NAME", "16 BITS", "MEMORY", "SIZE", "WHAT", NULL};
    static const cli_align align[] = {CLI_LEFT, CLI_RIGHT, CLI_RIGHT, CLI_RIGHT, CLI_LEFT};
    cli_table *t = cli_table_new(c, names, align);
    kvt_code code = t ? KVT_OK : kvt_fail_memory(err, sizeof names);
    for (int i = 0; i < n && !code; i++)
        code = machine_line(t, &row[i], err);
    if (t)
        cli_table_narrow(t, 4);
    if (!code)
        code = cli_table_print(t, stdout, err);
    cli_table_free(t);
    return code;
}

kvt_code cli_cost_list_machines(cli *c, kvt_err *err)
{
    const char *const *names = kvt_machine_names();
    int n = count(names);
    machine_row *row = kvt_alloc(n, sizeof *row);
    kvt_code code = row ? KVT_OK : kvt_fail_memory(err, (size_t)n * sizeof *row);
    for (int i = 0; i < n && !code; i++) {
        kvt_machine m;
        code = kvt_machine_find(&m, names[i], err);
        if (!code)
            fill_machine(&row[i], &m);
    }
    const kvt_table t = {.name = "machines",
                         .title = "a built-in machine",
                         .columns = machine_columns,
                         .rows = row,
                         .n_row = n,
                         .row_size = sizeof *row};
    if (!code && c->json)
        print_rows("kvt-machines-1", &t);
    else if (!code)
        code = print_machines(c, row, n, err);
    kvt_free(row);
    return code;
}
