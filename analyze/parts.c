/* parts.c - policies beside a reference: how much they lose more or less, and which part of it
 * is ranking, allocation and the number of slots.
 *
 * On top of a budget loss = least loss of as many slots, shared out in the best way +
 * allocation regret + regret, and each term has its difference. Inside it, regret is against
 * the best schedule of irreversible eviction at the budgets that the lanes have: its difference
 * is the part of the ranking, and what is left (how slots are shared out, when tokens go) is
 * not taken apart, for nobody knows the best budgets of schedules.
 *
 * Every part has one value a trace, and the resamples of all parts draw the same traces. */
#include "analyze/group.h"
#include "analyze/stat.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kvt/arena.h"
#include "kvt/replay.h"

/* clang-format off */
static const kvt_column columns[] = {
    KVT_COLUMN(kvt_comparison_row, policy, "", "policy, with the parameters that tell its uses apart"),
    KVT_COLUMN(kvt_comparison_row, reference, "", "policy that it is compared with"),
    KVT_COLUMN(kvt_comparison_row, metric, "", "column of cells.csv that is compared"),
    KVT_COLUMN(kvt_comparison_row, budget_asked, "", "budget as typed"),
    KVT_COLUMN(kvt_comparison_row, growth, "", "of the policy: on-top, inside or ragged"),
    KVT_COLUMN(kvt_comparison_row, reference_growth, "", "of the reference"),
    KVT_COLUMN(kvt_comparison_row, traces_count, "traces", "traces that both have"),
    KVT_COLUMN(kvt_comparison_row, value_mean, "", "of the policy, mean over these traces"),
    KVT_COLUMN(kvt_comparison_row, reference_mean, "", "of the reference, mean over these traces"),
    KVT_COLUMN(kvt_comparison_row, diff, "", "policy minus reference, paired by trace"),
    KVT_COLUMN(kvt_comparison_row, diff_ci_lo, "", "lower end of its interval"),
    KVT_COLUMN(kvt_comparison_row, diff_ci_hi, "", "upper end of its interval"),
    KVT_COLUMN(kvt_comparison_row, p_value, "", "two-sided, of no difference; not corrected for several rows"),
    KVT_COLUMN(kvt_comparison_row, ranking_diff, "frac", "part of the difference: which tokens hold a lane's slots"),
    KVT_COLUMN(kvt_comparison_row, ranking_ci_lo, "frac", "lower end of its interval"),
    KVT_COLUMN(kvt_comparison_row, ranking_ci_hi, "frac", "upper end of its interval"),
    KVT_COLUMN(kvt_comparison_row, allocation_diff, "frac", "part of the difference: how slots are shared out over lanes"),
    KVT_COLUMN(kvt_comparison_row, allocation_ci_lo, "frac", "lower end of its interval"),
    KVT_COLUMN(kvt_comparison_row, allocation_ci_hi, "frac", "upper end of its interval"),
    KVT_COLUMN(kvt_comparison_row, size_diff, "frac", "part of the difference: how many slots are held"),
    KVT_COLUMN(kvt_comparison_row, size_ci_lo, "frac", "lower end of its interval"),
    KVT_COLUMN(kvt_comparison_row, size_ci_hi, "frac", "upper end of its interval"),
    KVT_COLUMN(kvt_comparison_row, interval, "", "what the intervals are over"),
    KVT_COLUMN(kvt_comparison_row, separable, "", "1: an interval over prompts leaves 0 out"),
    KVT_COLUMN(kvt_comparison_row, prompts_count, "prompts", "that would separate such a difference"),
    {0},
};
/* clang-format on */

kvt_table kvt_comparison_table(const kvt_comparison *c)
{
    return (kvt_table){.name = "compare",
                       .title = "one row a policy beside the reference, and budget",
                       .columns = columns,
                       .rows = c->row,
                       .n_row = c->n,
                       .row_size = sizeof *c->row};
}

void kvt_comparison_free(kvt_comparison *c)
{
    kvt_free(c->row);
    *c = (kvt_comparison){0};
}

/* ---- which uses ----------------------------------------------------------------------------
 */

/* Name and canonical parameters, as a cell has them. */
typedef struct use_name {
    char policy[96], params[384];
} use_name;

static bool is_use(const kvt_cell *c, const use_name *u)
{
    return strcmp(c->policy, u->policy) == 0 && strcmp(c->policy_params, u->params) == 0;
}

/* Its canonical form; what this build does not know (a plug-in's) is taken as typed. */
static void read_name(use_name *out, const char *text)
{
    kvt_use *u = NULL;
    kvt_err ignored;
    if (!kvt_use_parse(&u, NULL, text, &ignored))
        text = u->text;
    size_t n = strcspn(text, ":");
    snprintf(out->policy, sizeof out->policy, "%.*s", (int)n, text);
    snprintf(out->params, sizeof out->params, "%s", text[n] ? text + n + 1 : "");
    kvt_use_free(u);
}

/* The use that a text means: itself, or the only one of that name. */
static kvt_code find_use(use_name *out, const groups *g, const char *text, kvt_err *err)
{
    const kvt_cell *only = NULL;
    int n_use = 0;
    read_name(out, text);
    for (int64_t i = 0; i < g->n; i++) {
        const kvt_cell *c = g->group[i].cell[0];
        if (is_use(c, out))
            return KVT_OK;
        if (strcmp(c->policy, text) != 0)
            continue;
        n_use += !only || strcmp(only->policy_params, c->policy_params) != 0;
        only = c;
    }
    if (n_use > 1)
        return kvt_fail(err, KVT_USAGE,
                        "policy '%.60s': the results hold %d uses of it; name one with its "
                        "parameters",
                        text, n_use);
    if (!only)
        return kvt_fail(err, KVT_NOTFOUND, "policy '%.60s': the results hold no cell of it",
                        text);
    snprintf(out->params, sizeof out->params, "%s", only->policy_params);
    return KVT_OK;
}

static const group *find_group(const groups *g, const use_name *u, const char *budget)
{
    for (int64_t i = 0; i < g->n; i++)
        if (is_use(g->group[i].cell[0], u) &&
            strcmp(g->group[i].cell[0]->budget_asked, budget) == 0)
            return &g->group[i];
    return NULL;
}

/* ---- one row -------------------------------------------------------------------------------
 */

enum { TOTAL, RANKING, ALLOCATION, SIZE, N_PART };

typedef struct maker {
    const groups *g;
    const kvt_schema *schema;
    const char *column;
    bool parts; /* the column is the lost mass */
    uint64_t seed;
    int64_t cap;            /* traces that a group has at most */
    double *x, *d[N_PART];  /* [cap] */
    const char **at, **all; /* [cap] names of traces */
} maker;

/* Values of a column at the n traces of `all`; NAN where a trace has none. */
static void read_column(const maker *m, double *out, int64_t n, const group *g,
                        const char *column)
{
    int64_t n_x = group_traces(g, m->schema, column, m->x, m->at), k = 0;
    for (int64_t i = 0; i < n; i++) {
        while (k < n_x && strcmp(m->at[k], m->all[i]) < 0)
            k++;
        out[i] = k < n_x && strcmp(m->at[k], m->all[i]) == 0 ? m->x[k] : (double)NAN;
    }
}

/* out[i] = policy - reference. */
static void subtract(const maker *m, double *out, int64_t n, const group *a, const group *b,
                     const char *column)
{
    double *other = m->d[SIZE]; /* filled last */
    read_column(m, out, n, a, column);
    read_column(m, other, n, b, column);
    for (int64_t i = 0; i < n; i++)
        out[i] -= other[i];
}

static bool all_defined(const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (isnan(x[i]))
            return false;
    return n > 0;
}

/* Traces that both groups have, into m->all. */
static int64_t common_traces(const maker *m, const group *a, const group *b)
{
    int64_t n_a = group_traces(a, m->schema, m->column, m->x, m->all), n = 0, k = 0;
    int64_t n_b = group_traces(b, m->schema, m->column, m->x, m->at);
    for (int64_t i = 0; i < n_a; i++) {
        while (k < n_b && strcmp(m->at[k], m->all[i]) < 0)
            k++;
        if (k < n_b && strcmp(m->at[k], m->all[i]) == 0)
            m->all[n++] = m->all[i];
    }
    return n;
}

static kvt_code put_part(double *mean, double *lo, double *hi, const double *d, int64_t n,
                         uint64_t seed, kvt_err *err)
{
    kvt_difference part;
    if (difference_measure(&part, d, n, seed, err))
        return err->code;
    *mean = part.mean, *lo = part.lo, *hi = part.hi;
    return KVT_OK;
}

static bool is_inside(const group *g)
{
    return strcmp(g->cell[0]->growth, "inside") == 0;
}

static kvt_code put_parts(const maker *m, kvt_comparison_row *row, const group *a,
                          const group *b, int64_t n, kvt_err *err)
{
    subtract(m, m->d[RANKING], n, a, b, "regret_mean_frac");
    subtract(m, m->d[ALLOCATION], n, a, b, "allocation_regret_mean_frac");
    if (!all_defined(m->d[RANKING], n))
        return KVT_OK;
    if (!all_defined(m->d[ALLOCATION], n)) /* regrets of two kinds have no difference */
        return is_inside(a) && is_inside(b)
                   ? put_part(&row->ranking_diff, &row->ranking_ci_lo, &row->ranking_ci_hi,
                              m->d[RANKING], n, m->seed, err)
                   : KVT_OK;
    for (int64_t i = 0; i < n; i++)
        m->d[SIZE][i] = m->d[TOTAL][i] - m->d[RANKING][i] - m->d[ALLOCATION][i];
    if (put_part(&row->ranking_diff, &row->ranking_ci_lo, &row->ranking_ci_hi, m->d[RANKING], n,
                 m->seed, err) ||
        put_part(&row->allocation_diff, &row->allocation_ci_lo, &row->allocation_ci_hi,
                 m->d[ALLOCATION], n, m->seed, err) ||
        put_part(&row->size_diff, &row->size_ci_lo, &row->size_ci_hi, m->d[SIZE], n, m->seed,
                 err))
        return err->code;
    return KVT_OK;
}

static kvt_code make_row(const maker *m, kvt_comparison_row *row, const group *a,
                         const group *b, const kvt_labels *labels, kvt_err *err)
{
    const kvt_cell *x = a->cell[0], *y = b->cell[0];
    kvt_difference whole;
    int64_t n = common_traces(m, a, b);
    *row = (kvt_comparison_row){.traces_count = n};
    snprintf(row->policy, sizeof row->policy, "%s",
             kvt_label(labels, x->policy, x->policy_params));
    snprintf(row->reference, sizeof row->reference, "%s",
             kvt_label(labels, y->policy, y->policy_params));
    snprintf(row->metric, sizeof row->metric, "%s", m->column);
    snprintf(row->budget_asked, sizeof row->budget_asked, "%s", x->budget_asked);
    snprintf(row->growth, sizeof row->growth, "%s", x->growth);
    snprintf(row->reference_growth, sizeof row->reference_growth, "%s", y->growth);
    row->ranking_diff = row->ranking_ci_lo = row->ranking_ci_hi = (double)NAN;
    row->allocation_diff = row->allocation_ci_lo = row->allocation_ci_hi = (double)NAN;
    row->size_diff = row->size_ci_lo = row->size_ci_hi = (double)NAN;
    read_column(m, m->d[TOTAL], n, a, m->column);
    row->value_mean = stat_mean(m->d[TOTAL], n);
    read_column(m, m->d[TOTAL], n, b, m->column);
    row->reference_mean = stat_mean(m->d[TOTAL], n);
    subtract(m, m->d[TOTAL], n, a, b, m->column);
    if (difference_measure(&whole, m->d[TOTAL], n, m->seed, err))
        return err->code;
    row->diff = whole.mean, row->diff_ci_lo = whole.lo, row->diff_ci_hi = whole.hi;
    row->p_value = whole.p_value;
    row->separable = whole.separable;
    row->prompts_count = whole.n_needed;
    snprintf(row->interval, sizeof row->interval, "%s", kvt_interval_name(whole.kind));
    return m->parts && n > 0 ? put_parts(m, row, a, b, n, err) : KVT_OK;
}

/* ---- all rows ------------------------------------------------------------------------------
 */

static kvt_code add_row(kvt_comparison *out, const maker *m, const group *a, const group *b,
                        const kvt_labels *labels, kvt_err *err)
{
    kvt_comparison_row *grown = kvt_resize(out->row, out->n, out->n + 1, sizeof *grown);
    if (!grown)
        return kvt_fail_memory(err, (out->n + 1) * (int64_t)sizeof *grown);
    out->row = grown;
    return make_row(m, &grown[out->n++], a, b, labels, err);
}

/* The policies behind the reference at one budget. */
static kvt_code add_budget(kvt_comparison *out, const maker *m, const use_name *use, int n_use,
                           const char *budget, const kvt_labels *labels, kvt_err *err)
{
    const group *b = find_group(m->g, &use[0], budget);
    if (!b)
        return kvt_fail(err, KVT_NOTFOUND, "policy %s: the results hold no cell of it at %s",
                        use[0].policy, budget);
    for (int i = 1; i < n_use; i++) {
        const group *a = find_group(m->g, &use[i], budget);
        if (a && add_row(out, m, a, b, labels, err))
            return err->code;
    }
    return KVT_OK;
}

static kvt_code add_budgets(kvt_comparison *out, const maker *m, const use_name *use, int n_use,
                            const char *const *budget, int n_budget, const kvt_labels *labels,
                            kvt_err *err)
{
    for (int i = 0; i < n_budget; i++)
        if (add_budget(out, m, use, n_use, budget[i], labels, err))
            return err->code;
    for (int64_t i = 0; n_budget == 0 && i < m->g->n; i++) {
        const kvt_cell *c = m->g->group[i].cell[0];
        if (is_use(c, &use[0]) && add_budget(out, m, use, n_use, c->budget_asked, labels, err))
            return err->code;
    }
    if (out->n == 0)
        return kvt_fail(err, KVT_NOTFOUND,
                        "compare: no budget at which the results hold %s and another of them",
                        use[0].policy);
    return KVT_OK;
}

static bool maker_new(maker *m, const groups *g)
{
    for (int64_t i = 0; i < g->n; i++)
        m->cap = g->group[i].n > m->cap ? g->group[i].n : m->cap;
    m->x = kvt_alloc(m->cap, sizeof *m->x);
    m->at = kvt_alloc(m->cap, sizeof *m->at);
    m->all = kvt_alloc(m->cap, sizeof *m->all);
    bool good = m->x && m->at && m->all;
    for (int i = 0; i < N_PART; i++)
        good = (m->d[i] = kvt_alloc(m->cap, sizeof *m->d[i])) && good;
    return good;
}

static void maker_free(maker *m)
{
    kvt_free(m->x);
    kvt_free((void *)m->at);
    kvt_free((void *)m->all);
    for (int i = 0; i < N_PART; i++)
        kvt_free(m->d[i]);
}

kvt_code kvt_comparison_make(kvt_comparison *out, const kvt_results *results,
                             const char *const *policy, int n_policy, const char *const *budget,
                             int n_budget, const char *column, uint64_t seed, kvt_err *err)
{
    groups g;
    kvt_schema schema = {0};
    kvt_labels *labels = NULL;
    kvt_cell_schema(&schema);
    *out = (kvt_comparison){0};
    const kvt_column *found = kvt_column_find(schema.column, column);
    if (!found || (found->type != KVT_COL_REAL && found->type != KVT_COL_INT))
        return kvt_fail(err, KVT_USAGE, "metric '%.60s': no number of cells.csv", column);
    if (n_policy < 2)
        return kvt_fail(err, KVT_USAGE, "compare: expected two or more policies, got %d",
                        n_policy);
    if (groups_make(&g, results, err))
        return err->code;
    maker m = {.g = &g,
               .schema = &schema,
               .column = column,
               .parts = strcmp(column, "lost_mass_mean_frac") == 0,
               .seed = seed};
    use_name *use = kvt_alloc(n_policy, sizeof *use);
    kvt_code code = KVT_OK;
    if (!use || !maker_new(&m, &g))
        code = kvt_fail_memory(err, m.cap * (int64_t)sizeof *m.x);
    for (int i = 0; !code && i < n_policy; i++)
        code = find_use(&use[i], &g, policy[i], err);
    if (!code)
        code = kvt_labels_new(&labels, results, err);
    if (!code)
        code = add_budgets(out, &m, use, n_policy, budget, n_budget, labels, err);
    if (code)
        kvt_comparison_free(out);
    kvt_labels_free(labels);
    maker_free(&m);
    kvt_free(use);
    groups_free(&g);
    return code;
}
