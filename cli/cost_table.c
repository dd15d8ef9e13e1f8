/* cost_table.c - see cost_table.h. */
#include "cli/cost_table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "cli/cost_best.h"
#include "cli/cost_columns.h"
#include "cli/cost_legend.h"
#include "cli/cost_lines.h"
#include "cli/replay_table.h"
#include "kvt/arena.h"

enum { LABEL = 256, COLUMNS = 10 };

/* ---- tables --------------------------------------------------------------------------------
 */

/* The policy, then these columns (NULL-ended). */
static kvt_code print_columns(cli *c, const cost_block *b, const cost_view *v,
                              const cost_column *const *shown, kvt_err *err)
{
    const char *names[COLUMNS + 2] = {"POLICY"};
    cli_align align[COLUMNS + 2] = {CLI_LEFT};
    for (int i = 0; shown[i]; i++)
        names[i + 1] = shown[i]->name, align[i + 1] = shown[i]->align;
    cli_table *t = cli_table_new(c, names, align);
    kvt_code code = t ? KVT_OK : kvt_fail_memory(err, sizeof names);
    for (int64_t k = 0; k < b->n && !code; k++) {
        const cost_line *l = &b->line[k];
        char label[LABEL], text[COLUMNS][COST_CELL];
        const char *cell[COLUMNS + 2] = {cost_label(label, sizeof label, b, l->row)};
        if (l->n == 0) /* not under this profile */
            continue;
        for (int i = 0; shown[i]; i++)
            cell[i + 1] = shown[i]->cell(text[i], l, v, b);
        code = cli_table_row(t, cell, err);
    }
    if (!code)
        code = cli_table_print(t, stdout, err);
    cli_table_free(t);
    return code;
}

static kvt_code print_time(cli *c, const cost_block *b, const cost_view *v, kvt_err *err)
{
    const cost_column *shown[COLUMNS + 1] = {&cost_column_budget, &cost_column_fused,
                                             &cost_column_published};
    int n = 3;
    bool theory = v->asked->profile == KVT_PROFILE_PAPER_LKV;
    if (theory)
        shown[n++] = &cost_column_theory;
    if (v->reference)
        shown[n++] = &cost_column_ratio;
    shown[n++] = &cost_column_ttft;
    shown[n++] = &cost_column_tpot;
    if (!theory)
        shown[n++] = v->asked->brief ? &cost_column_peak : &cost_column_bound;
    if (v->varied)
        shown[n++] = &cost_column_mark;
    return print_columns(c, b, v, shown, err);
}

static kvt_code print_memory(cli *c, const cost_block *b, const cost_view *v, kvt_err *err)
{
    const cost_column *shown[COLUMNS + 1] = {&cost_column_budget, &cost_column_peak,
                                             &cost_column_steady, &cost_column_kv,
                                             &cost_column_fits,   &cost_column_phase};
    printf("\n");
    return print_columns(c, b, v, shown, err);
}

/* ---- blocks --------------------------------------------------------------------------------
 */

static void print_heading(const cost_block *b, const cost_view *v)
{
    const kvt_cost_row *r = b->row;
    printf("%s on %s: ", r->geometry, r->machine);
    if (b->least_prompt == b->most_prompt)
        printf("%lld", (long long)b->most_prompt);
    else
        printf("%lld to %lld", (long long)b->least_prompt, (long long)b->most_prompt);
    printf(" + %lld tokens", (long long)r->response_tokens);
    if (b->n_trace > 1)
        printf(" (means of %lld traces)", (long long)b->n_trace);
    printf(", batch %lld, times %s\n", (long long)r->batch, v->profile);
}

static void print_band(const char *name, const kvt_band *b, int *said)
{
    if (!isnan(b->lo) && !isnan(b->hi))
        printf("%s%s -%.0f to +%.0f", (*said)++ ? ", " : "", name, 100 * b->lo, 100 * b->hi);
}

static void print_bands(const cost_block *b)
{
    int said = 0;
    printf("BAND %%   ");
    print_band("ttft", &b->ttft, &said);
    print_band("eviction", &b->evict, &said);
    print_band("tpot", &b->tpot, &said);
    print_band("memory", &b->memory, &said);
    printf("\n");
}

/* The theory of a paper knows no memory. */
static bool has_memory(const cost_block *b)
{
    for (int64_t i = 0; i < b->n; i++)
        if (b->line[i].worst && !isnan(b->line[i].worst->cost.peak.total))
            return true;
    return false;
}

static kvt_code print_block(cli *c, const cost_block *b, const cost_view *v, kvt_err *err)
{
    print_heading(b, v);
    if (print_time(c, b, v, err) ||
        (!v->asked->brief && has_memory(b) && print_memory(c, b, v, err)))
        return err->code;
    print_bands(b);
    if (cost_best_print(b, err))
        return err->code;
    printf("\n");
    return KVT_OK;
}

/* ---- what was skipped ----------------------------------------------------------------------
 */

typedef struct reason {
    const kvt_cost_row *row;
    int64_t n;
    bool varied;
} reason;

static kvt_code print_skipped(const kvt_cost_table *t, kvt_err *err)
{
    int64_t n = 0, n_reason = 0;
    for (int64_t i = 0; i < t->n; i++)
        n += strcmp(t->row[i].status, "ok") != 0;
    reason *at = kvt_alloc(n, sizeof *at);
    if (!at)
        return kvt_fail_memory(err, (size_t)n * sizeof *at);
    for (int64_t i = 0; i < t->n; i++) {
        const kvt_cost_row *r = &t->row[i];
        int64_t k = 0;
        if (strcmp(r->status, "ok") == 0)
            continue;
        while (k < n_reason && (strcmp(at[k].row->policy, r->policy) != 0 ||
                                !cli_same_words(at[k].row->error, r->error)))
            k++;
        if (k == n_reason)
            at[n_reason++].row = r;
        at[k].varied |= strcmp(at[k].row->error, r->error) != 0;
        at[k].n++;
    }
    for (int64_t k = 0; k < n_reason; k++)
        printf("skipped  %s (%lld %s%s)\n", at[k].row->error, (long long)at[k].n,
               at[k].n == 1 ? "row" : "rows", at[k].varied ? ", some with other numbers" : "");
    kvt_free(at);
    return KVT_OK;
}

/* ---- all of it -----------------------------------------------------------------------------
 */

kvt_code cli_cost_table(cli *c, const kvt_cost_table *t, const cli_cost_view *asked,
                        kvt_err *err)
{
    cost_view v = {.asked = asked,
                   .profile = kvt_cost_profile_name(asked->profile),
                   .reference = asked->reference};
    cost_lines lines;
    kvt_code code = cost_lines_make(&lines, t, v.profile, err);
    if (code)
        return code;
    cost_marks_find(&v, &lines);
    for (int64_t i = 0; i < lines.n && !code; i++)
        code = print_block(c, &lines.block[i], &v, err);
    if (!code) {
        cost_legend_print(&v, &lines);
        code = print_skipped(t, err);
    }
    cost_lines_free(&lines);
    return code;
}

kvt_code cli_cost_csv(cli *c, const kvt_table *table, const char *dir, kvt_err *err)
{
    char path[1024] = "-", name[64];
    bool to_stdout = strcmp(dir, "-") == 0;
    const kvt_csv_options options = {.metadata = !to_stdout, .command = c->command_line};
    snprintf(name, sizeof name, "%s.csv", table->name);
    if (!to_stdout && (file_mkdirs(dir, err) || file_join(path, sizeof path, dir, name, err)))
        return err->code;
    if (kvt_table_csv(table, path, &options, err))
        return kvt_within(err, "table %s", table->name);
    if (!to_stdout)
        cli_note(c, "wrote %s", path);
    return KVT_OK;
}

void cli_cost_json(const kvt_cost_table *t)
{
    const kvt_table table = kvt_cost_table_of(t);
    printf("{\"schema\": \"kvt-cost-1\",\n \"rows\": ");
    cli_json_rows(stdout, &table);
    printf("}\n");
}
