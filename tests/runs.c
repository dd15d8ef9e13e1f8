/* runs.c - whole replays in a test (runs.h). */
#include "tests/runs.h"

#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "kvt/metric.h"

char runs_dir[256];

int runs_open(void **state)
{
    (void)state;
    snprintf(runs_dir, sizeof runs_dir, "%s/runs.XXXXXX", KVT_BINARY_DIR);
    return mkdtemp(runs_dir) ? 0 : -1;
}

int runs_close(void **state)
{
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", runs_dir);
    return system(command);
}

const char *runs_trace(const char *name, const synth_spec *s)
{
    static char path[8][400];
    static int at;
    kvt_err err;
    char *p = path[at++ % 8];
    synth_spec spec = *s;
    spec.force = true;
    snprintf(p, sizeof path[0], "%s/%s.h5", runs_dir, name);
    CHECK_OK(synth_file(&spec, p, &err), &err);
    return p;
}

kvt_replay_spec runs_spec(const char *const *trace, const char *policies, const char *budgets)
{
    return (kvt_replay_spec){.trace = trace,
                             .n_trace = 1,
                             .policies = policies,
                             .budgets = budgets,
                             .out_dir = "",
                             .no_controls = true,
                             .keep_arrays = true};
}

kvt_results *runs_replay(const kvt_replay_spec *spec, kvt_replay_counts *counts)
{
    kvt_ctx ctx = {.n_thread = 1};
    kvt_err err;
    kvt_results *found;
    CHECK_OK(kvt_replay(&found, counts, spec, &ctx, &err), &err);
    return found;
}

kvt_results *runs_plugin(const char *plugin, const char *trace, const char *policies,
                         const char *budgets, kvt_act act)
{
    kvt_replay_spec spec = runs_spec(&trace, policies, budgets);
    spec.plugin = &plugin, spec.n_plugin = 1, spec.act = act;
    kvt_ctx ctx = {.n_thread = 1};
    kvt_results *found;
    kvt_err err;
    kvt_code code = kvt_replay(&found, NULL, &spec, &ctx, &err);
    if (code && code != KVT_NO)
        fail_msg("%s: %s", policies, err.text);
    return found;
}

const kvt_result *runs_result(const kvt_results *s, const char *policy)
{
    for (int64_t i = 0; i < s->n; i++)
        if (s->result[i]->n_cell > 0 && strcmp(s->result[i]->cell[0].policy, policy) == 0)
            return s->result[i];
    fail_msg("no result of %s", policy);
    return NULL;
}

const kvt_cell *runs_cell(const kvt_results *s, const char *policy, const char *budget)
{
    for (int64_t i = 0; i < s->n; i++)
        for (int c = 0; c < s->result[i]->n_cell; c++)
            if (strcmp(s->result[i]->cell[c].policy, policy) == 0 &&
                strcmp(s->result[i]->cell[c].budget_asked, budget) == 0)
                return &s->result[i]->cell[c];
    fail_msg("no cell of %s at %s", policy, budget);
    return NULL;
}

double runs_value(const kvt_cell *c, const char *column)
{
    int at = kvt_metric_value(column);
    assert_true(at >= 0);
    return c->value[at];
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* All columns of a row, names and values. */
static char *print_row(const kvt_schema *schema, const void *row, size_t size)
{
    enum { ROOM = 16384 };
    char *out = malloc(ROOM);
    size_t n = 0;
    kvt_table t = {
        .name = "row", .columns = schema->column, .rows = row, .n_row = 1, .row_size = size};
    for (const kvt_column *c = schema->column; c->name; c++) {
        char text[700];
        kvt_cell_print(&t, 0, c, text, sizeof text);
        n += (size_t)snprintf(out + n, ROOM - n, "%s=%s|", c->name, text);
        assert_true(n < ROOM);
    }
    return out;
}

char *runs_text(const kvt_results *s)
{
    kvt_schema cells, lanes;
    int64_t n = 0, at = 0;
    kvt_cell_schema(&cells);
    kvt_lane_schema(&lanes);
    for (int64_t i = 0; i < s->n; i++)
        n += s->result[i]->n_cell * (1 + s->result[i]->n_layer * s->result[i]->n_lane);
    char **line = malloc((size_t)n * sizeof *line);
    size_t all = 1;
    for (int64_t i = 0; i < s->n; i++) {
        const kvt_result *r = s->result[i];
        int64_t n_lane = (int64_t)r->n_cell * r->n_layer * r->n_lane;
        for (int c = 0; c < r->n_cell; c++)
            line[at++] = print_row(&cells, &r->cell[c], sizeof r->cell[c]);
        for (int64_t k = 0; k < n_lane; k++)
            line[at++] = print_row(&lanes, &r->lane[k], sizeof r->lane[k]);
    }
    qsort(line, (size_t)n, sizeof *line, by_text);
    for (int64_t i = 0; i < n; i++)
        all += strlen(line[i]) + 1;
    char *out = malloc(all), *to = out;
    for (int64_t i = 0; i < n; i++) {
        size_t len = strlen(line[i]);
        memcpy(to, line[i], len);
        to[len] = 0x0a;
        to += len + 1;
        free(line[i]);
    }
    *to = 0;
    free(line);
    return out;
}

void runs_same_text(const char *a, const char *b, const char *what)
{
    if (strcmp(a, b) == 0)
        return;
    size_t i = 0;
    while (a[i] == b[i])
        i++;
    i -= i > 90 ? 90 : i; /* what stands in front says which cell it is */
    fail_msg("%s: differs: '%.180s', '%.180s'", what, a + i, b + i);
}

void runs_same(const kvt_results *a, const kvt_results *b, const char *what)
{
    char *x = runs_text(a), *y = runs_text(b);
    runs_same_text(x, y, what);
    free(x);
    free(y);
}

void runs_join(kvt_results *to, kvt_results *from)
{
    kvt_err err;
    for (int64_t i = 0; i < from->n; i++)
        CHECK_OK(kvt_results_add(to, from->result[i], &err), &err);
    from->n = 0;
    kvt_results_free(from);
}
