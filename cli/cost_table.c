/* cost_table.c - see cost_table.h. */
#include "cli/cost_table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "cli/cost_columns.h"
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
    if (v->reference)
        shown[n++] = &cost_column_ratio;
    shown[n++] = &cost_column_ttft;
    shown[n++] = &cost_column_tpot;
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
        printf("%s%s -%.0f+%.0f", (*said)++ ? ", " : "", name, 100 * b->lo, 100 * b->hi);
}

static void print_bands(const cost_block *b)
{
    int said = 0;
    printf("BAND     ");
    print_band("ttft", &b->ttft, &said);
    print_band("eviction", &b->evict, &said);
    print_band("tpot", &b->tpot, &said);
    print_band("memory", &b->memory, &said);
    printf(" %% (widest)\n");
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
    printf("\n");
    return KVT_OK;
}

/* ---- legend --------------------------------------------------------------------------------
 */

static void find_marks(cost_view *v, const cost_lines *lines)
{
    unsigned any = 0, all = ~0u;
    for (int64_t i = 0; i < lines->n; i++)
        for (int64_t k = 0; k < lines->block[i].n; k++) {
            const cost_line *l = &lines->block[i].line[k];
            if (strcmp(l->row->policy, "full") == 0)
                continue;
            any |= l->marks;
            all &= l->marks;
        }
    v->shared = any & all;
    v->varied = any & ~all;
}

static void print_marks(const cost_view *v)
{
    static const char *const text[] = {
#define X(id, letter, text) text,
        COST_MARKS(X)
#undef X
    };
    for (int i = 0; i < COST_MARKS_N; i++) {
        if (v->varied >> i & 1)
            printf("MARK %c   %s.\n", cost_mark_letter(i), text[i]);
        if (v->shared >> i & 1)
            printf("NOTE     all rows: %s.\n", text[i]);
    }
}

static void print_legend(const cost_view *v)
{
    printf("FUSED, PUBLISHED  the eviction in ms, its share of the dense prefill (full):\n"
           "         every policy implemented equally well; as its published code.\n");
    if (v->reference)
        printf("RATIO    of the eviction %s to that of %s at the same budget.\n", v->profile,
               v->reference);
    printf("TTFT     to the first token, eviction included; TPOT mean over the response%s.\n",
           v->asked->brief ? "; PEAK\n         memory" : "");
    if (v->asked->brief)
        return;
    printf("BOUND    what prefill, eviction and a decode step wait for: c math, m memory, h\n"
           "         host. FITS: the most requests together, or GiB that are missing.\n");
}

/* "laq: 8 fused, 32 published, by the model itself" */
static void print_draft(const cost_block *b, const cost_line *l)
{
    char label[LABEL];
    const kvt_cost_row *r = l->row;
    bool itself = strcmp(r->draft_geometry, r->geometry) == 0;
    printf("DRAFT    %s: ", cost_label(label, sizeof label, b, r));
    if (l->n_of[0] && l->n_of[1] && l->draft_of[0] != l->draft_of[1])
        printf("%lld tokens fused, %lld published", (long long)l->draft_of[0],
               (long long)l->draft_of[1]);
    else
        printf("%lld tokens", (long long)r->draft_tokens);
    printf(", by %s.\n", itself ? "the model itself" : r->draft_geometry);
}

/* Whether an earlier line of the block is of the same use. */
static bool is_known(const cost_block *b, int64_t line)
{
    const kvt_cost_row *r = b->line[line].row;
    for (int64_t i = 0; i < line; i++)
        if (strcmp(b->line[i].row->policy, r->policy) == 0 &&
            strcmp(b->line[i].row->policy_params, r->policy_params) == 0)
            return true;
    return false;
}

/* Once a policy: the blocks have the same ones. */
static void print_drafts(const cost_lines *lines)
{
    for (int64_t k = 0; lines->n > 0 && k < lines->block[0].n; k++)
        if (lines->block[0].line[k].row->draft_geometry[0] && !is_known(&lines->block[0], k))
            print_draft(&lines->block[0], &lines->block[0].line[k]);
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
    find_marks(&v, &lines);
    for (int64_t i = 0; i < lines.n && !code; i++)
        code = print_block(c, &lines.block[i], &v, err);
    if (!code) {
        print_legend(&v);
        print_marks(&v);
        print_drafts(&lines);
        code = print_skipped(t, err);
    }
    cost_lines_free(&lines);
    return code;
}

kvt_code cli_cost_csv(cli *c, const kvt_cost_table *t, const char *dir, kvt_err *err)
{
    char path[1024] = "-";
    const kvt_table table = kvt_cost_table_of(t);
    bool to_stdout = strcmp(dir, "-") == 0;
    const kvt_csv_options options = {.metadata = !to_stdout, .command = c->command_line};
    if (!to_stdout &&
        (file_mkdirs(dir, err) || file_join(path, sizeof path, dir, "cost.csv", err)))
        return err->code;
    if (kvt_table_csv(&table, path, &options, err))
        return kvt_within(err, "table cost");
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
