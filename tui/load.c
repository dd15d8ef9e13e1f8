/* load.c - a trace and its results from files. */
#include "tui/load.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/half.h"
#include "kvt/arena.h"

/* What a fresh trace shows: four habits of dropping, one that leaves much and one that leaves
 * little. */
static const char default_policies[] = "snapkv,h2o,streaming,tova";
static const char default_budgets[] = "10%,25%";

struct tui_loaded {
    tui_data data;
    kvt_trace *trace;
    kvt_rows *rows;     /* NULL: the trace has none */
    float *head;        /* f32 [M T] rows of one query head, on demand */
    char results[1024]; /* folder */
    char problem[480];
};

/* ---- attention on demand ----------------------------------------------------------------- */

static int layer_of(const kvt_trace_info *i, int layer_id)
{
    for (int l = 0; l < i->n_layer; l++)
        if (i->layer_id[l] == layer_id)
            return l;
    return 0;
}

static kvt_code head_rows(tui_loaded *l, int layer, int head, const float **rows, kvt_err *err)
{
    const kvt_trace_info *i = kvt_trace_info_of(l->trace);
    int64_t M = i->facts.token.n_response, T = i->n_token;
    const uint16_t *half;
    if (!l->head)
        l->head = kvt_alloc(M * T, sizeof *l->head);
    if (!l->head)
        return kvt_fail_memory(err, (size_t)(M * T) * sizeof *l->head);
    if (kvt_rows_head(l->rows, layer, head, &half, err))
        return err->code;
    half_to_floats(l->head, half + (i->n_query - M) * T, M * T);
    *rows = l->head;
    return KVT_OK;
}

static kvt_code give_rows(void *user, int layer_id, int lane, bool by_query_head,
                          const float **rows, kvt_err *err)
{
    tui_loaded *l = user;
    int layer = layer_of(kvt_trace_info_of(l->trace), layer_id);
    if (!l->rows)
        return kvt_fail(err, KVT_NOTFOUND, "no attention rows");
    if (by_query_head)
        return head_rows(l, layer, lane, rows, err);
    return kvt_rows_group(l->rows, layer, lane, rows, err);
}

/* future/mean is the mean over response rows: times their number, the sum. */
static kvt_code give_future(void *user, int layer_id, int lane, bool by_query_head, double *out,
                            kvt_err *err)
{
    tui_loaded *l = user;
    const kvt_trace_info *i = kvt_trace_info_of(l->trace);
    int n_head = by_query_head ? 1 : l->data.n_head / l->data.n_kv_head;
    kvt_view mean;
    if (kvt_trace_read(l->trace, KVT_DS_FUTURE_MEAN, layer_of(i, layer_id), &mean, err))
        return err->code;
    for (int64_t t = 0; t < l->data.n_prompt; t++) {
        out[t] = 0;
        for (int h = 0; h < n_head; h++)
            out[t] +=
                (double)((const float *)mean.data)[(lane * n_head + h) * l->data.n_prompt + t];
        out[t] *= (double)l->data.n_response / n_head;
    }
    kvt_trace_done(l->trace, &mean);
    return KVT_OK;
}

/* ---- opening ----------------------------------------------------------------------------- */

static kvt_code copy(void **out, kvt_trace *t, kvt_ds ds, kvt_err *err)
{
    kvt_view v;
    if (kvt_trace_read(t, ds, 0, &v, err))
        return err->code;
    size_t size = kvt_dtype_size(v.dtype);
    int64_t n = kvt_view_count(&v);
    *out = kvt_alloc(n, size);
    if (*out && n > 0)
        memcpy(*out, v.data, (size_t)n * size);
    kvt_trace_done(t, &v);
    return *out ? KVT_OK : kvt_fail_memory(err, (size_t)n * size);
}

static kvt_code read_trace(tui_loaded *l, kvt_err *err)
{
    const kvt_trace_info *i = kvt_trace_info_of(l->trace);
    tui_data *d = &l->data;
    void *text = NULL, *offset = NULL, *id = NULL;
    snprintf(d->path, sizeof d->path, "%s", i->path);
    snprintf(d->name, sizeof d->name, "%s", i->name);
    snprintf(d->model, sizeof d->model, "%.95s", i->facts.model.name);
    snprintf(d->digest, sizeof d->digest, "%s", i->digest);
    d->n_head = (int)i->facts.model.n_head;
    d->n_kv_head = (int)i->facts.model.n_kv_head;
    d->n_prompt = i->facts.token.n_prompt;
    d->n_response = i->facts.token.n_response;
    d->n_token = i->n_token;
    d->no_text = !i->has[KVT_DS_TEXT_BYTES];
    kvt_code code = copy(&offset, l->trace, KVT_DS_TOKEN_OFFSET, err);
    d->offset = offset;
    if (!code && !d->no_text)
        code = copy(&text, l->trace, KVT_DS_TEXT_BYTES, err);
    d->text = text;
    if (!code)
        code = copy(&id, l->trace, KVT_DS_TOKEN_ID, err);
    d->id = id;
    if (!code)
        code = kvt_rows_open(&l->rows, l->trace, err);
    d->source = (tui_source){.user = l, .rows = give_rows, .future = give_future};
    return code == KVT_NOTFOUND ? KVT_OK : code;
}

/* Adds what belongs to this trace; the rest is let go. */
static kvt_code adopt(tui_data *d, kvt_results *from, kvt_err *err)
{
    kvt_code code = KVT_OK;
    if (!d->results)
        d->results = kvt_alloc(1, sizeof *d->results);
    if (!d->results)
        code = kvt_fail_memory(err, sizeof *d->results);
    for (int64_t i = 0; !code && from && i < from->n; i++) {
        if (strcmp(from->result[i]->trace_digest, d->digest) != 0)
            continue;
        code = kvt_results_add(d->results, from->result[i], err);
        if (!code)
            from->result[i] = NULL;
    }
    kvt_results_free(from);
    tui_data_index(d);
    return code;
}

typedef struct folder {
    const char *digest;
    const char *dir;
    char path[1024];
} folder;

/* A replay names the folder of a trace NAME-DIGEST, eight digits of it. */
static kvt_code match_folder(void *user, const char *name, kvt_err *err)
{
    folder *f = user;
    size_t n = strlen(name);
    if (n < 9 || name[n - 9] != '-' || strncmp(name + n - 8, f->digest, 8) != 0)
        return KVT_OK;
    return file_join(f->path, sizeof f->path, f->dir, name, err);
}

typedef struct reader {
    tui_loaded *l;
    kvt_schema *schema; /* of cells, of lanes */
    kvt_results *found;
    const char *dir;
} reader;

/* A damaged file is passed over: a replay computes it again. */
static kvt_code read_result(void *user, const char *name, kvt_err *err)
{
    reader *in = user;
    char path[1024];
    kvt_result *r;
    kvt_err why = {0};
    if (*name == '.' || !kvt_is_result_path(name) ||
        file_join(path, sizeof path, in->dir, name, &why))
        return KVT_OK;
    if (kvt_result_open(&r, &in->schema[0], &in->schema[1], path, true, &why)) {
        if (!in->l->problem[0])
            snprintf(in->l->problem, sizeof in->l->problem, "%s", why.text);
        return KVT_OK;
    }
    if (kvt_results_add(in->found, r, err)) {
        kvt_result_free(r);
        return err->code;
    }
    return KVT_OK;
}

/* The folder that a replay wrote for this trace; without one, everything below, or one file. */
static kvt_code read_results(tui_loaded *l, kvt_err *err)
{
    folder f = {.digest = l->data.digest, .dir = l->results};
    reader in = {.l = l, .schema = kvt_alloc(2, sizeof *in.schema)};
    kvt_code code = in.schema ? KVT_OK : kvt_fail_memory(err, 2 * sizeof *in.schema);
    if (!code) {
        kvt_cell_schema(&in.schema[0]);
        kvt_lane_schema(&in.schema[1]);
    }
    if (!code && file_is_dir(l->results))
        code = file_list(l->results, match_folder, &f, err);
    if (!code && f.path[0]) {
        in.dir = f.path;
        in.found = kvt_alloc(1, sizeof *in.found);
        code = in.found ? file_list(f.path, read_result, &in, err)
                        : kvt_fail_memory(err, sizeof *in.found);
    } else if (!code && file_exists(l->results)) {
        code = kvt_results_load(&in.found, &in.schema[0], &in.schema[1], l->results, true, err);
    }
    kvt_free(in.schema);
    if (code) {
        kvt_results_free(in.found);
        return code;
    }
    return adopt(&l->data, in.found, err);
}

kvt_code tui_load(tui_loaded **out, const char *path, const char *results, kvt_err *err)
{
    char dir[1024];
    *out = NULL;
    tui_loaded *l = kvt_alloc(1, sizeof *l);
    if (!l)
        return kvt_fail_memory(err, sizeof *l);
    kvt_code code = kvt_trace_open(&l->trace, path, 0, err);
    if (!code && results)
        snprintf(l->results, sizeof l->results, "%s", results);
    else if (!code)
        code = file_join(l->results, sizeof l->results, file_dir(dir, sizeof dir, path),
                         "kvt-results", err);
    if (!code)
        code = read_trace(l, err);
    if (!code)
        code = read_results(l, err);
    if (code) {
        tui_loaded_free(l);
        return code;
    }
    *out = l;
    return KVT_OK;
}

void tui_loaded_free(tui_loaded *l)
{
    if (!l)
        return;
    tui_data_fini(&l->data);
    kvt_rows_close(l->rows);
    kvt_trace_close(l->trace);
    kvt_free(l->head);
    kvt_free(l);
}

const tui_data *tui_loaded_data(const tui_loaded *l)
{
    return &l->data;
}

const char *tui_loaded_problem(const tui_loaded *l)
{
    return l->problem;
}

/* ---- what is missing --------------------------------------------------------------------- */

/* Whether a cell with a result is there: a policy and budget, or any of what was not named. */
static bool has(const tui_data *d, int policy, const char *budget)
{
    for (int p = policy < 0 ? 0 : policy; p < d->n_policy; p++) {
        for (int b = 0; b < d->n_budget; b++) {
            int cell;
            const kvt_result *r = tui_data_cell(d, p, b, &cell);
            bool wanted = !budget || strcmp(budget, d->budget[b].text) == 0;
            bool known =
                tui_data_shows(r, cell) || (r && strcmp(r->cell[cell].status, "skipped") == 0);
            if (wanted && known && (policy >= 0 || !r->is_control))
                return true;
        }
        if (policy >= 0)
            break;
    }
    return false;
}

kvt_code tui_lacks(tui_lack *out, const tui_loaded *l, const char *policy, const char *budget,
                   kvt_err *err)
{
    const tui_data *d = &l->data;
    int at = policy ? tui_data_find_policy(d, policy) : -1;
    *out = (tui_lack){0};
    if (policy && at < 0) {
        kvt_use *use;
        if (kvt_use_parse(&use, NULL, policy, err))
            return err->code;
        snprintf(out->policy, sizeof out->policy, "%s", use->text);
        kvt_use_free(use);
        at = tui_data_find_policy(d, out->policy);
    } else if (policy) {
        snprintf(out->policy, sizeof out->policy, "%s", d->policy[at].label);
    }
    out->any = (policy && at < 0) || !has(d, at, budget);
    const char *text = at >= 0 ? d->policy[at].of->policy_text : out->policy;
    const char *said = at >= 0 ? d->policy[at].label : policy;
    snprintf(out->policies, sizeof out->policies, "%s", policy ? text : default_policies);
    snprintf(out->said, sizeof out->said, "%s", policy ? said : default_policies);
    snprintf(out->budgets, sizeof out->budgets, "%s", budget ? budget : default_budgets);
    return KVT_OK;
}

kvt_code tui_compute(tui_loaded *l, const char *policies, const char *budgets,
                     const kvt_ctx *ctx, kvt_err *err)
{
    const char *paths[] = {l->data.path};
    kvt_results *found = NULL;
    kvt_replay_counts counts = {0};
    kvt_replay_spec spec = {.trace = paths,
                            .n_trace = 1,
                            .policies = policies,
                            .budgets = budgets,
                            .out_dir = l->results,
                            .keep_arrays = true,
                            .no_output_error = true};
    kvt_err add = {0};
    kvt_code code = kvt_replay(&found, &counts, &spec, ctx, err);
    bool some = found && found->n > 0;
    if (adopt(&l->data, found, &add)) {
        *err = add;
        return err->code;
    }
    return some && (code == KVT_NO || code == KVT_PARTLY) ? KVT_OK : code;
}
