/* replay_table.c - the table after a replay, what was skipped, and what can be told apart. */
#include "cli/replay_table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "cli/table.h"
#include "kvt/analyze.h"
#include "kvt/arena.h"

enum { CELL = 64, N_COLUMN = 13 };

static const char *number(char out[CELL], double x, int digits)
{
    if (isnan(x))
        snprintf(out, CELL, "-");
    else
        snprintf(out, CELL, "%.*f", digits, x);
    /* What rounds to nothing has no sign. */
    return out[0] == '-' && out[1] && !out[1 + strspn(out + 1, "0.")] ? out + 1 : out;
}

static const char *interval(char out[CELL], const kvt_curve_row *row)
{
    if (isnan(row->lost_mass_mean_frac))
        snprintf(out, CELL, "-");
    else if (isnan(row->lost_mass_ci_lo_frac))
        snprintf(out, CELL, "%.4f", row->lost_mass_mean_frac);
    else
        snprintf(out, CELL, "%.4f [%.4f %.4f]", row->lost_mass_mean_frac,
                 row->lost_mass_ci_lo_frac, row->lost_mass_ci_hi_frac);
    return out;
}

/* Whether budgets are bytes: slots then differ from what was asked for. */
static bool is_fair(const kvt_results *results)
{
    for (int64_t i = 0; i < results->n; i++)
        for (int c = 0; c < results->result[i]->n_cell; c++)
            if (strstr(results->result[i]->cell[c].budget_rule, "+bytes") != NULL)
                return true;
    return false;
}

static const char *budget(char out[CELL], const kvt_curve_row *row, bool fair)
{
    if (strcmp(row->policy, "full") == 0)
        return "100%";
    snprintf(out, CELL, fair ? "%s = %.0f" : "%s", row->budget_asked, row->budget_tokens_mean);
    return out;
}

static kvt_code add_row(cli_table *t, const kvt_curve_row *row, bool fair, kvt_err *err)
{
    char asked[CELL], kept[CELL], end[CELL], lost[CELL], regret[CELL], alloc[CELL],
        recall[CELL], kl[CELL], score_kl[CELL], output[CELL];
    char name[KVT_LABEL_MAX + 24];
    if (row->seeds_count > 1)
        snprintf(name, sizeof name, "%s x%lld", row->policy_label, (long long)row->seeds_count);
    else
        snprintf(name, sizeof name, "%s", row->policy_label);
    const char *cell[N_COLUMN + 1] = {
        name,
        row->exactness,
        row->growth,
        budget(asked, row, fair),
        number(kept, row->kept_tokens_mean, 0),
        number(end, row->end_slots_mean_tokens, 0),
        interval(lost, row),
        number(regret, row->regret_mean_frac, 4),
        number(alloc, row->allocation_regret_mean_frac, 4),
        number(recall, row->recall_mean_frac, 3),
        number(kl, row->attn_kl_mean_nats, 3),
        number(score_kl, row->score_kl_mean_nats, 3),
        number(output, row->out_err_mean_rel, 3),
        NULL,
    };
    return cli_table_row(t, cell, err);
}

/* Whether the row's cells of a trace are draws with a seed each. */
static bool is_drawn(const kvt_results *results, const kvt_curve_row *row)
{
    for (int64_t i = 0; i < results->n; i++)
        for (int c = 0; c < results->result[i]->n_cell; c++) {
            const kvt_cell *cell = &results->result[i]->cell[c];
            if (strcmp(cell->policy, row->policy) == 0 && cell->seed != KVT_EMPTY_INT)
                return true;
        }
    return false;
}

/* The full cache is the same at every budget: one line says it. */
static bool is_repeated(const kvt_curve_row *row, int64_t i)
{
    return i > 0 && strcmp(row[i].policy, "full") == 0 &&
           strcmp(row[i - 1].policy, "full") == 0 &&
           strcmp(row[i].policy_params, row[i - 1].policy_params) == 0;
}

/* ---- what has no budget of its own ---------------------------------------------------------
 */

static bool has_line(const kvt_results *results, int64_t n, const kvt_result *r)
{
    for (int64_t i = 0; i < n; i++)
        if (strcmp(results->result[i]->policy_text, r->policy_text) == 0)
            return true;
    return false;
}

/* What a policy's threshold or model kept where a budget was asked for, which one knows what
 * comes, and how much better slots might be shared out, once a policy. */
static void print_notes(const kvt_results *results, const kvt_labels *labels)
{
    for (int64_t i = 0; i < results->n; i++) {
        const kvt_result *r = results->result[i];
        if (r->plan_note == NULL || r->n_cell == 0 || has_line(results, i, r) ||
            (strncmp(r->plan_note, "matched mean", 12) != 0 &&
             strncmp(r->plan_note, "threshold", 9) != 0 &&
             strncmp(r->plan_note, "keeps what", 10) != 0 &&
             strncmp(r->plan_note, "channels of", 11) != 0 &&
             strncmp(r->plan_note, "knows the response", 18) != 0 &&
             !strstr(r->plan_note, "any other sharing out") &&
             !strstr(r->plan_note, "--oracle-limit")))
            continue;
        printf("note  %s on %s: %s\n",
               kvt_label(labels, r->cell[0].policy, r->cell[0].policy_params), r->trace_id,
               r->plan_note);
    }
}

enum { NAMED_MAX = 6 }; /* rows that a line names */

/* "laq at 128 (1)", the first few of a list. */
static void print_row(const kvt_curve_row *row, int64_t count, int place, const char *head)
{
    if (place < NAMED_MAX)
        printf("%s%s at %s (%lld)", place ? ", " : head, row->policy_label, row->budget_asked,
               (long long)count);
}

static void print_more(int n)
{
    if (n > NAMED_MAX)
        printf(" and %d more", n - NAMED_MAX);
}

/* A cell that was skipped is missing from a row's mean: it is of other prompts than the rest. A
 * row without any has no lost mass by its kind (channels, joins). */
static void print_fewer(const kvt_curve_row *row, int64_t n)
{
    int64_t most = 0;
    int said = 0;
    for (int64_t i = 0; i < n; i++)
        most = row[i].traces_count > most ? row[i].traces_count : most;
    for (int64_t i = 0; i < n; i++)
        if (row[i].traces_count > 0 && row[i].traces_count < most)
            print_row(&row[i], row[i].traces_count, said++, "fewer  prompts: ");
    print_more(said);
    if (said)
        printf(" of %lld. Compare with rows of the same prompts.\n", (long long)most);
}

/* A folder may hold results of one use with several files of weights, probes or sets for a
 * threshold. */
static void print_mixed(const kvt_results *results, const kvt_curve_row *row, int64_t n)
{
    int said = 0;
    for (int64_t i = 0; i < n; i++)
        if (row[i].seeds_count > 1 && !is_drawn(results, &row[i]))
            print_row(&row[i], row[i].seeds_count, said++, "mixed  results of a prompt: ");
    print_more(said);
    if (said)
        printf(". They read other weights, another probe or another set of traces, or measured "
               "other metrics, and the row "
               "is their mean; --out DIR keeps runs apart.\n");
}

/* ---- what was skipped ----------------------------------------------------------------------
 */

/* Behind a number or a list of them ("17,38"). */
static const char *skip_numbers(const char *at)
{
    at += strspn(at, "0123456789");
    while (*at == ',' && strspn(at + 1, "0123456789") > 0)
        at += 1 + strspn(at + 1, "0123456789");
    return at;
}

bool cli_same_words(const char *a, const char *b)
{
    for (;;) {
        a = skip_numbers(a);
        b = skip_numbers(b);
        if (*a != *b)
            return false;
        if (*a == '\0' || strncmp(a, ", got ", 6) == 0)
            return true;
        a++, b++;
    }
}

static bool same_reason(const kvt_cell *a, const kvt_cell *b)
{
    return strcmp(a->policy, b->policy) == 0 &&
           strcmp(a->policy_params, b->policy_params) == 0 &&
           strcmp(a->status, b->status) == 0 && cli_same_words(a->error, b->error);
}

/* A reason, and how many cells have it. */
typedef struct skipped {
    const kvt_cell *cell; /* the last of them */
    int64_t n;
    bool varied; /* its numbers are not those of all */
} skipped;

static void add_skipped(skipped *line, int64_t *n_line, const kvt_cell *cell)
{
    int64_t l = 0;
    while (l < *n_line && !same_reason(line[l].cell, cell))
        l++;
    line[l].varied |= l < *n_line && strcmp(line[l].cell->error, cell->error) != 0;
    *n_line += l == *n_line;
    line[l].cell = cell;
    line[l].n++;
}

/* One line a policy and reason, with how many cells it concerns. */
static kvt_code print_skipped(const kvt_results *results, const kvt_labels *labels,
                              kvt_err *err)
{
    int64_t n = 0, n_line = 0;
    for (int64_t i = 0; i < results->n; i++)
        n += results->result[i]->n_cell;
    skipped *line = kvt_alloc(n, sizeof *line);
    if (line == NULL)
        return kvt_fail_memory(err, (size_t)n * sizeof *line);
    for (int64_t i = 0; i < results->n; i++)
        for (int c = 0; c < results->result[i]->n_cell; c++)
            if (strcmp(results->result[i]->cell[c].status, "ok") != 0)
                add_skipped(line, &n_line, &results->result[i]->cell[c]);
    for (int64_t l = 0; l < n_line; l++)
        printf("%s  %s: %s (%lld %s%s)\n", line[l].cell->status,
               kvt_label(labels, line[l].cell->policy, line[l].cell->policy_params),
               line[l].cell->error, (long long)line[l].n, line[l].n == 1 ? "cell" : "cells",
               line[l].varied ? ", some with other numbers" : "");
    kvt_free(line);
    return KVT_OK;
}

/* ---- what can be told apart ----------------------------------------------------------------
 */

/* The policies of a growth class at one budget, best and second best by lost mass: two uses,
 * also where a folder has one at several rules. */
static void best_two(const kvt_curve_row *row, int64_t n, const char *growth,
                     const char *budget, const kvt_curve_row **first,
                     const kvt_curve_row **second)
{
    *first = *second = NULL;
    for (int64_t i = 0; i < n; i++) {
        const kvt_curve_row *r = &row[i];
        if (r->is_control || strcmp(r->growth, growth) != 0 ||
            strcmp(r->budget_asked, budget) != 0 || isnan(r->lost_mass_mean_frac))
            continue;
        bool same = *first != NULL && strcmp(r->policy_label, (*first)->policy_label) == 0;
        if (*first == NULL || r->lost_mass_mean_frac < (*first)->lost_mass_mean_frac) {
            *second = same ? *second : *first;
            *first = r;
        } else if (same) {
            continue;
        } else if (*second == NULL || r->lost_mass_mean_frac < (*second)->lost_mass_mean_frac) {
            *second = r;
        }
    }
}

/* The budget in the middle of those that were computed. */
static const char *middle_budget(const kvt_curve_row *row, int64_t n)
{
    double least = 1, most = 0, wanted, gap = 2;
    const char *budget = "";
    for (int64_t i = 0; i < n; i++)
        if (!row[i].is_control) {
            least = fmin(least, row[i].budget_frac);
            most = fmax(most, row[i].budget_frac);
        }
    wanted = sqrt(least * most);
    for (int64_t i = 0; i < n; i++)
        if (!row[i].is_control && fabs(row[i].budget_frac - wanted) < gap) {
            gap = fabs(row[i].budget_frac - wanted);
            budget = row[i].budget_asked;
        }
    return budget;
}

static void full_name(char *out, size_t cap, const kvt_curve_row *row)
{
    if (row->policy_params[0] != '\0')
        snprintf(out, cap, "%s:%s", row->policy, row->policy_params);
    else
        snprintf(out, cap, "%s", row->policy);
}

static kvt_code print_pair(cli *c, const kvt_results *results, const kvt_curve_row *a,
                           const kvt_curve_row *b, kvt_err *err)
{
    char a_name[512], b_name[512];
    kvt_difference d;
    full_name(a_name, sizeof a_name, a);
    full_name(b_name, sizeof b_name, b);
    if (kvt_compare(&d, results, a_name, b_name, a->budget_asked, "lost_mass_mean_frac",
                    (uint64_t)c->seed, err) != KVT_OK)
        return err->code;
    if (d.kind == KVT_INTERVAL_PROMPTS && d.separable) {
        printf("%s (%s): %s lost %.4f less than %s (95%% interval %.4f to %.4f, %lld prompts, "
               "paired).\n",
               a->budget_asked, a->growth, a->policy_label, -d.mean, b->policy_label, -d.hi,
               -d.lo, (long long)d.n_trace);
        return KVT_OK;
    }
    printf("%s (%s): %s and %s cannot be told apart on %s", a->budget_asked, a->growth,
           a->policy_label, b->policy_label,
           d.n_trace == 1 ? "this one prompt" : "these prompts");
    char mean[CELL];
    if (d.kind == KVT_INTERVAL_PROMPTS)
        printf(" (difference %s, p = %.2g)", number(mean, d.mean, 4), d.p_value);
    else
        printf(" (difference %s; intervals need 8 prompts)", number(mean, d.mean, 4));
    if (d.n_needed != KVT_EMPTY_INT && d.n_needed > d.n_trace)
        printf("; about %lld prompts would be needed", (long long)d.n_needed);
    printf(".\n");
    return KVT_OK;
}

static kvt_code print_sentences(cli *c, const kvt_results *results, const kvt_curve_row *row,
                                int64_t n, kvt_err *err)
{
    static const char *const growth[] = {"on-top", "inside"};
    const char *budget = middle_budget(row, n);
    for (int g = 0; g < 2; g++) {
        const kvt_curve_row *first, *second;
        best_two(row, n, growth[g], budget, &first, &second);
        if (first != NULL && second != NULL &&
            print_pair(c, results, first, second, err) != KVT_OK)
            return err->code;
    }
    return KVT_OK;
}

/* ---- all of it -----------------------------------------------------------------------------
 */

static void print_legend(const kvt_curve_row *row, int64_t n)
{
    const char *kind = n > 0 ? row[0].interval : "none";
    for (int64_t i = 0; i < n; i++)
        if (!row[i].is_control)
            kind = row[i].interval;
    printf("LOST MASS  share of the full attention on evicted tokens, 0 is best; in brackets: "
           "%s%s\n",
           kind, strcmp(kind, "95% over lanes") == 0 ? " of this one trace, a spread" : "");
    bool ragged = false;
    for (int64_t i = 0; i < n; i++)
        ragged |= strcmp(row[i].growth, "ragged") == 0;
    printf("GROWTH     on-top: decoded tokens come on top of the budget; inside: they count in "
           "it.%s Compare like with like.\n",
           ragged ? " ragged: a threshold met it in the mean at the prompt's end." : "");
}

kvt_code cli_replay_table(cli *c, const kvt_results *results, kvt_err *err)
{
    static const char *const names[] = {"POLICY", "CLASS",     "GROWTH",  "BUDGET", "KEPT",
                                        "END",    "LOST MASS", "REGRET",  "ALLOC",  "RECALL",
                                        "KL",     "SCORE KL",  "OUT ERR", NULL};
    static const cli_align align[] = {CLI_LEFT,  CLI_LEFT,  CLI_LEFT,  CLI_RIGHT, CLI_RIGHT,
                                      CLI_RIGHT, CLI_LEFT,  CLI_RIGHT, CLI_RIGHT, CLI_RIGHT,
                                      CLI_RIGHT, CLI_RIGHT, CLI_RIGHT};
    kvt_report *curve;
    kvt_labels *labels = NULL;
    cli_progress_end(c);
    kvt_code code = kvt_report_make(&curve, "curve", results, NULL, &c->ctx, err);
    if (code != KVT_OK)
        return code;
    const kvt_table *rows = kvt_report_table(curve);
    const kvt_curve_row *row = rows->rows;
    bool fair = is_fair(results);
    cli_table *t = cli_table_new(c, names, align);
    if (t == NULL)
        code = kvt_fail_memory(err, sizeof names);
    for (int64_t i = 0; i < rows->n_row && code == KVT_OK; i++)
        if (!is_repeated(row, i))
            code = add_row(t, &row[i], fair, err);
    if (code == KVT_OK)
        code = cli_table_print(t, stdout, err);
    if (code == KVT_OK)
        code = kvt_labels_new(&labels, results, err);
    if (code == KVT_OK) {
        print_legend(row, rows->n_row);
        if (fair)
            printf(
                "BUDGET     asked = slots of a lane that take as many bytes as that budget of "
                "a kv head's.\n");
        print_notes(results, labels);
        print_fewer(row, rows->n_row);
        print_mixed(results, row, rows->n_row);
        code = print_skipped(results, labels, err);
    }
    if (code == KVT_OK)
        code = print_sentences(c, results, row, rows->n_row, err);
    if (t != NULL)
        cli_table_free(t);
    kvt_labels_free(labels);
    kvt_report_free(curve);
    return code;
}

kvt_code cli_check_tables(const char *tables, kvt_err *err)
{
    const char *const *names = kvt_report_names();
    for (const char *at = tables; at && *at;) {
        char name[32];
        bool known = false;
        size_t n = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", (int)n, at);
        for (int i = 0; names[i] && !known; i++)
            known = n == strlen(names[i]) && !strcmp(name, names[i]);
        const char *near = known ? NULL : text_nearest(name, names);
        if (!known && near)
            return kvt_fail(err, KVT_USAGE, "no table '%s' (did you mean '%s'?)", name, near);
        if (!known)
            return kvt_fail(err, KVT_USAGE, "no table '%s'; see --table in the help", name);
        at += n + (at[n] == ',');
    }
    return KVT_OK;
}

kvt_code cli_write_csv(cli *c, const kvt_results *results, const cli_csv_request *r,
                       kvt_err *err)
{
    kvt_csv_options options = {.crlf = r->crlf,
                               .raw_text = r->raw_text,
                               .bom = r->bom,
                               .metadata = !r->no_metadata && strcmp(r->dir, "-") != 0,
                               .command = c->command_line};
    bool to_stdout = strcmp(r->dir, "-") == 0;
    const char *at = r->tables != NULL ? r->tables : to_stdout ? "cells" : "cells,curve,audit";
    if (to_stdout && strchr(at, ',') != NULL)
        return kvt_fail(err, KVT_USAGE, "--csv -: one table goes to standard output, got '%s'",
                        at);
    if (!to_stdout && file_mkdirs(r->dir, err) != KVT_OK)
        return err->code;
    for (size_t n; *at != '\0'; at += n + (at[n] == ',')) {
        char name[32], path[1024], file[64];
        n = strcspn(at, ",");
        if (n >= sizeof name)
            return kvt_fail(err, KVT_USAGE, "no table '%.*s'", (int)n, at);
        memcpy(name, at, n);
        name[n] = '\0';
        snprintf(file, sizeof file, "%s.csv", name);
        snprintf(path, sizeof path, "-");
        if (!to_stdout && file_join(path, sizeof path, r->dir, file, err) != KVT_OK)
            return err->code;
        if (kvt_report_csv(name, results, r->run_id, path, &options, &c->ctx, err) != KVT_OK)
            return kvt_within(err, "table %s", name);
        if (!to_stdout)
            cli_note(c, "wrote %s", path);
    }
    return KVT_OK;
}
