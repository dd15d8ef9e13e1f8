/* cmd_compare.c - kvt compare: policies beside a reference, paired by prompt, and how much of a
 * difference is ranking and how much is allocation. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/files.h"
#include "cli/table.h"
#include "kvt/analyze.h"
#include "kvt/replay.h"

enum { CELL = 64, POLICIES_MAX = 64, BUDGETS_MAX = 64, LIST_CAP = 4096 };

typedef struct compare_options {
    const char *policies, *budgets, *metric, *csv;
} compare_options;

/* clang-format off */
static const cli_option options[] = {
    {"policy", 'p', CLI_TEXT, CLI_OPT(compare_options, policies), .arg = "LIST", .complete = "policy",
     .help = "two or more policies; the first is the reference, the others are compared with it"},
    {"budget", 'b', CLI_TEXT, CLI_OPT(compare_options, budgets), .arg = "LIST",
     .help = "budgets as they were asked for (default: all that the reference has)"},
    {"metric", 0, CLI_TEXT, CLI_OPT(compare_options, metric), .arg = "COLUMN", .def = "lost_mass_mean_frac",
     .help = "number of cells.csv that is compared; ranking and allocation are parts of the lost mass"},
    {"csv", 0, CLI_TEXT, CLI_OPT(compare_options, csv), .arg = "FILE", .complete = "file",
     .help = "write the rows as FILE with its metadata; -: on standard output"},
    {0},
};
/* clang-format on */

/* ---- lists ---------------------------------------------------------------------------------
 */

typedef struct words {
    char text[LIST_CAP];
    const char *item[POLICIES_MAX];
    int n;
} words;

/* Cuts a list at its commas; one of policies where the next policy begins. */
static kvt_code cut_list(words *out, const char *list, bool policies, kvt_err *err)
{
    out->n = 0;
    if (strlen(list) >= sizeof out->text)
        return kvt_fail(err, KVT_USAGE, "list '%.40s...': too long", list);
    snprintf(out->text, sizeof out->text, "%s", list);
    for (char *at = out->text; *at;) {
        size_t n = policies ? kvt_use_length(at) : strcspn(at, ",");
        bool more = at[n] == ',';
        at[n] = 0;
        if (out->n == POLICIES_MAX || !*at)
            return kvt_fail(err, KVT_USAGE, "list '%.60s': expected 1 to %d names", list,
                            POLICIES_MAX);
        out->item[out->n++] = at;
        at += n + more;
    }
    return KVT_OK;
}

/* ---- the table -----------------------------------------------------------------------------
 */

/* With its sign; what rounds to nothing has none. */
static const char *signed_number(char out[CELL], double x)
{
    if (isnan(x))
        snprintf(out, CELL, "-");
    else
        snprintf(out, CELL, fabs(x) < 5e-5 ? "%.4f" : "%+.4f", fabs(x) < 5e-5 ? 0 : x);
    return out;
}

/* "+0.0123 [+0.0100 +0.0150]" */
static const char *with_interval(char out[CELL], double x, double lo, double hi)
{
    char mean[CELL], low[CELL], high[CELL];
    if (isnan(x) || isnan(lo))
        return signed_number(out, x);
    snprintf(out, CELL, "%.18s [%.18s %.18s]", signed_number(mean, x), signed_number(low, lo),
             signed_number(high, hi));
    return out;
}

static kvt_code add_row(cli_table *t, const kvt_comparison_row *r, kvt_err *err)
{
    char value[CELL], diff[CELL], rank[CELL], alloc[CELL], size[CELL], n[CELL];
    snprintf(value, sizeof value, isnan(r->value_mean) ? "-" : "%.4f", r->value_mean);
    snprintf(n, sizeof n, "%lld", (long long)r->traces_count);
    const char *cell[] = {
        r->policy,
        r->growth,
        r->budget_asked,
        value,
        with_interval(diff, r->diff, r->diff_ci_lo, r->diff_ci_hi),
        with_interval(rank, r->ranking_diff, r->ranking_ci_lo, r->ranking_ci_hi),
        with_interval(alloc, r->allocation_diff, r->allocation_ci_lo, r->allocation_ci_hi),
        with_interval(size, r->size_diff, r->size_ci_lo, r->size_ci_hi),
        n,
        NULL,
    };
    return cli_table_row(t, cell, err);
}

/* What the difference of a row can be said to be. */
static void print_sentence(const kvt_comparison_row *r, bool loss)
{
    char rank[CELL], alloc[CELL], size[CELL];
    const char *more = r->diff < 0 ? "less" : "more";
    const char *verb = loss ? "loses" : "has";
    printf("%s at %s %s %.4f %s than %s", r->policy, r->budget_asked, verb, fabs(r->diff), more,
           r->reference);
    if (!isnan(r->ranking_diff) && isnan(r->allocation_diff))
        printf(": ranking %s, the rest %s", signed_number(rank, r->ranking_diff),
               signed_number(size, r->diff - r->ranking_diff));
    else if (!isnan(r->ranking_diff))
        printf(": ranking %s, allocation %s, number of slots %s",
               signed_number(rank, r->ranking_diff), signed_number(alloc, r->allocation_diff),
               signed_number(size, r->size_diff));
    if (r->separable)
        printf(" (p %.2g)", r->p_value);
    else if (strcmp(r->interval, kvt_interval_name(KVT_INTERVAL_PROMPTS)) == 0 &&
             r->prompts_count != KVT_EMPTY_INT)
        printf("; they cannot be told apart (p %.2g): about %lld prompts would be needed",
               r->p_value, (long long)r->prompts_count);
    else
        printf("; %lld %s separate nothing", (long long)r->traces_count,
               r->traces_count == 1 ? "trace does" : "traces do");
    printf("\n");
}

static void print_notes(const kvt_comparison *c, int n_policy, int n_budget)
{
    bool mixed = false, parts = false, inside = false;
    for (int64_t i = 0; i < c->n; i++) {
        mixed |= strcmp(c->row[i].growth, c->row[i].reference_growth) != 0;
        parts |= isnan(c->row[i].ranking_diff);
        inside |= !isnan(c->row[i].ranking_diff) && isnan(c->row[i].allocation_diff);
    }
    if (mixed)
        printf("note  on-top policies hold the decoded tokens beside their budget, inside ones "
               "within it: such a difference is one of size, too\n");
    if (parts && strcmp(c->row[0].metric, "lost_mass_mean_frac") == 0)
        printf("note  parts are known where both policies decide once, at the end of the "
               "prompt, or both evict while decoding\n");
    if (inside)
        printf("note  of inside policies ranking is the difference of their regrets, against "
               "the best schedules at the budgets of their lanes; the rest is how slots are "
               "shared out and when tokens are dropped\n");
    if (n_budget > 0 && c->n < (int64_t)(n_policy - 1) * n_budget)
        printf("note  %lld of %lld comparisons are left out: the results hold no such cell\n",
               (long long)((int64_t)(n_policy - 1) * n_budget - c->n),
               (long long)(n_policy - 1) * n_budget);
}

static kvt_code print_table(cli *c, const kvt_comparison *found, int n_policy, int n_budget,
                            kvt_err *err)
{
    const kvt_comparison_row *first = &found->row[0];
    bool loss = strcmp(first->metric, "lost_mass_mean_frac") == 0;
    const char *const names[] = {"policy",     "growth",
                                 "budget",     loss ? "lost mass" : "mean",
                                 "difference", "of it: ranking",
                                 "allocation", "number of slots",
                                 "traces",     NULL};
    static const cli_align align[] = {CLI_LEFT, CLI_LEFT, CLI_RIGHT, CLI_RIGHT, CLI_LEFT,
                                      CLI_LEFT, CLI_LEFT, CLI_LEFT,  CLI_RIGHT};
    cli_table *t = cli_table_new(c, names, align);
    if (!t)
        return kvt_fail_memory(err, sizeof names);
    kvt_code code = KVT_OK;
    printf("%s against %s; brackets: %s\n", first->metric, first->reference, first->interval);
    for (int64_t i = 0; i < found->n && !code; i++)
        code = add_row(t, &found->row[i], err);
    if (!code)
        code = cli_table_print(t, stdout, err);
    cli_table_free(t);
    if (code)
        return code;
    printf("\n");
    for (int64_t i = 0; i < found->n; i++)
        if (found->row[i].traces_count > 0)
            print_sentence(&found->row[i], loss);
    print_notes(found, n_policy, n_budget);
    return KVT_OK;
}

static void print_json(const kvt_table *t)
{
    printf("{\"schema\": \"kvt-compare-1\",\n \"rows\": ");
    cli_json_rows(stdout, t);
    printf("}\n");
}

/* ---- the verb ------------------------------------------------------------------------------
 */

static kvt_code show(cli *c, const compare_options *o, const kvt_comparison *found,
                     int n_policy, int n_budget, kvt_err *err)
{
    kvt_table t = kvt_comparison_table(found);
    kvt_csv_options csv = {.metadata = true, .command = c->command_line};
    if (c->json)
        print_json(&t);
    else if (!o->csv || strcmp(o->csv, "-") != 0) {
        if (print_table(c, found, n_policy, n_budget, err))
            return err->code;
    }
    return o->csv ? kvt_table_csv(&t, o->csv, &csv, err) : KVT_OK;
}

static kvt_code run(cli *c, const void *options_, int n_arg, char **arg, kvt_err *err)
{
    const compare_options *o = options_;
    static words policy, budget; /* too large for a stack frame that is read */
    kvt_results *results = NULL;
    kvt_comparison found = {0};
    if (c->json && o->csv && strcmp(o->csv, "-") == 0)
        return kvt_fail(err, KVT_USAGE, "--json and --csv - both want standard output");
    if (!o->policies)
        return kvt_fail(err, KVT_USAGE, "-p: expected two or more policies, got none");
    if (cut_list(&policy, o->policies, true, err))
        return kvt_within(err, "-p");
    budget.n = 0;
    if (o->budgets && cut_list(&budget, o->budgets, false, err))
        return kvt_within(err, "-b");
    kvt_code code = cli_results(&results, n_arg, arg, false, err);
    if (!code)
        code = kvt_comparison_make(&found, results, policy.item, policy.n, budget.item,
                                   budget.n, o->metric, c->ctx.seed, err);
    if (!code)
        code = show(c, o, &found, policy.n, budget.n, err);
    kvt_comparison_free(&found);
    kvt_results_free(results);
    return code;
}

const cli_command cli_command_compare = {
    .name = "compare",
    .group = "report",
    .line = "policies beside a reference: difference, ranking, allocation",
    .usage = "-p REFERENCE,POLICY[,POLICY...] [OPTIONS] RESULTS...",
    .about =
        "Reads result files, or every one below a folder, and compares policies with the first "
        "one that is named, budget by budget, over the prompts that both have. Differences are "
        "paired by prompt, with 95 % bootstrap intervals over prompts (10,000 resamples); "
        "below "
        "8 prompts the brackets are the range.\n\n"
        "What a policy loses is the sum of three parts: what the best slots of the whole model "
        "would lose that are as many (number of slots), what was lost by how the slots were "
        "shared out over lanes (allocation), and by which tokens hold the slots of a lane "
        "(ranking). Each part is compared by itself. Of two policies that evict while decoding "
        "the ranking alone is taken apart: their regret against the best schedules of "
        "irreversible eviction.",
    .options = options,
    .options_size = sizeof(compare_options),
    .examples = {"kvt compare kvt-results -p snapkv,pyramidkv,snapkv/ada -b 10%",
                 "kvt compare kvt-results -p snapkv,snapkv:compat=kvpress --metric "
                 "out_err_mean_rel",
                 "kvt compare kvt-results -p h2o,tova --csv compare.csv"},
    .min_args = 1,
    .max_args = -1,
    .complete = "file",
    .run = run,
};
