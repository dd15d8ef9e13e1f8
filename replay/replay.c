/* replay.c - the whole run: traces one after the other, their missing passes together. */
#include "replay/plan_priv.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/digest.h"
#include "base/file.h"
#include "kvt/arena.h"

/* One trace at a time. */
typedef struct job {
    plan *p;
    kvt_results *out;
    kvt_replay_counts *n;
    char dir[1024];    /* "" nothing is written */
    kvt_err unwritten; /* the first result that did not fit on the disk */
    kvt_schema cells, lanes;
    int trace;
    kvt_trace *t;
    const kvt_trace_info *info;
    kvt_sequence seq;
    float *position;
    kvt_results *old; /* of this trace, or NULL */
    pass **list;      /* [n_list] */
    bool *asked;      /* [n_list] */
    int n_list;
    truth *truths;   /* [L] */
    double *best[2]; /* truth_over_lanes(), by kv head and by query head */
    run_times times;
    bool computed_asked;  /* a cell that was asked for is there */
    char why[REASON_MAX]; /* the first reason that one is not */
} job;

/* The folder of the trace's results; false where the path gets too long. */
static bool folder_of(const job *j, char *out, size_t cap)
{
    int n = snprintf(out, cap, "%s/%s", j->dir, j->p->set.trace[j->trace].folder);
    return n > 0 && (size_t)n < cap;
}

/* ---- results that are there already --------------------------------------------------------
 */

static kvt_code load_file(void *user, const char *name, kvt_err *err)
{
    job *j = user;
    char folder[1024], path[1024];
    kvt_result *r;
    if (*name == '.' || !kvt_is_result_path(name) || !folder_of(j, folder, sizeof folder) ||
        file_join(path, sizeof path, folder, name, err))
        return KVT_OK;
    if (kvt_result_open(&r, &j->cells, &j->lanes, path, j->p->spec->keep_arrays, err)) {
        /* A damaged or older file is computed again; its name is then taken by the new one. */
        kvt_log(j->p->ctx, KVT_LOG_WARN, "replay", "%s: computed again", err->text);
        return KVT_OK;
    }
    if (kvt_results_add(j->old, r, err)) {
        kvt_result_free(r);
        return err->code;
    }
    return KVT_OK;
}

static kvt_code load_old(job *j, kvt_err *err)
{
    char path[1024];
    j->old = kvt_alloc(1, sizeof *j->old);
    if (!j->old)
        return kvt_fail_memory(err, sizeof *j->old);
    if (!j->dir[0] || j->p->spec->recompute || !folder_of(j, path, sizeof path) ||
        !file_is_dir(path))
        return KVT_OK;
    return file_list(path, load_file, j, err);
}

/* Moves the wanted cells of an array [n_cell inner] to its front. */
static void keep_cells(void *array, const bool *want, int n_cell, size_t inner_bytes)
{
    int to = 0;
    for (int c = 0; array && c < n_cell; c++)
        if (want[c])
            memmove((char *)array + (size_t)to++ * inner_bytes,
                    (char *)array + (size_t)c * inner_bytes, inner_bytes);
}

static void filter(kvt_result *r, const bool *want)
{
    size_t lanes = (size_t)r->n_layer * (size_t)r->n_lane;
    size_t M = (size_t)r->n_response, T = (size_t)r->n_prompt + M;
    int n = 0;
    keep_cells(r->cell, want, r->n_cell, sizeof *r->cell);
    keep_cells(r->lane, want, r->n_cell, lanes * sizeof *r->lane);
    keep_cells(r->cut, want, r->n_cell, lanes * sizeof *r->cut);
    keep_cells(r->evict_step, want, r->n_cell, lanes * T * sizeof *r->evict_step);
    keep_cells(r->lost, want, r->n_cell, lanes * M * sizeof *r->lost);
    keep_cells(r->kept_count, want, r->n_cell, lanes * M * sizeof *r->kept_count);
    for (int c = 0; c < r->n_cell; c++)
        n += want[c];
    r->n_cell = n;
}

static void count_cell(job *j, const kvt_cell *c, bool asked)
{
    bool failed = strcmp(c->status, "failed") == 0;
    if (strcmp(c->status, "ok") == 0)
        j->computed_asked |= asked;
    else if (asked && (!j->why[0] || (failed && j->n->failed == 0)))
        snprintf(j->why, sizeof j->why, "%s", c->error); /* a failure, or the first reason */
    j->n->skipped += strcmp(c->status, "skipped") == 0;
    j->n->failed += failed;
}

static kvt_code give(job *j, kvt_result *r, bool asked, kvt_err *err)
{
    for (int c = 0; c < r->n_cell; c++)
        count_cell(j, &r->cell[c], asked);
    if (!j->p->spec->keep_arrays)
        kvt_result_drop_arrays(r);
    if (kvt_results_add(j->out, r, err)) {
        kvt_result_free(r);
        return err->code;
    }
    return KVT_OK;
}

/* Hands over what old results hold of a pass and takes it off the pass. */
static kvt_code reuse(job *j, pass *x, bool asked, kvt_err *err)
{
    for (int64_t i = 0; i < j->old->n && x->n_cell > 0; i++) {
        bool want[KVT_BUDGETS_MAX] = {false}, any = false;
        kvt_result *r = j->old->result[i];
        for (int c = 0; r && c < r->n_cell && c < KVT_BUDGETS_MAX; c++) {
            for (int k = 0; k < x->n_cell && !want[c]; k++) {
                if (strcmp(r->cell[c].run_id, x->cell[k].run_id) != 0 ||
                    strcmp(r->cell[c].status, "failed") == 0)
                    continue;
                want[c] = any = true;
                memmove(&x->cell[k], &x->cell[k + 1],
                        (size_t)(x->n_cell - k - 1) * sizeof *x->cell);
                x->n_cell--;
                j->n->reused++;
            }
        }
        if (!any)
            continue;
        j->old->result[i] = NULL;
        filter(r, want);
        if (give(j, r, asked, err))
            return err->code;
    }
    return KVT_OK;
}

/* ---- passes of a trace ---------------------------------------------------------------------
 */

static kvt_code add_pass(job *j, pass *x, bool asked, kvt_err *err)
{
    pass **list = kvt_resize(j->list, j->n_list, j->n_list + 1, sizeof(pass *));
    if (list)
        j->list = list;
    bool *flags = kvt_resize(j->asked, j->n_list, j->n_list + 1, sizeof *flags);
    if (flags)
        j->asked = flags;
    if (!list || !flags) {
        pass_free(x);
        return kvt_fail_memory(err, sizeof *list);
    }
    list[j->n_list] = x;
    flags[j->n_list++] = asked;
    return KVT_OK;
}

/* Lists the passes of the trace whose cells are not all there. */
static kvt_code list_passes(job *j, kvt_err *err)
{
    plan *p = j->p;
    for (int u = 0; u < p->n_use; u++) {
        pass *x;
        if (!plan_in_shard(p, (int64_t)j->trace * p->n_use + u))
            continue;
        if (plan_pass(&x, p, &p->use[u], j->trace, j->t, err))
            return err->code;
        x->use_index = u;
        j->n->n_pass++;
        j->n->n_cell += x->n_cell;
        if (reuse(j, x, p->use[u].asked, err)) {
            pass_free(x);
            return err->code;
        }
        if (x->n_cell == 0)
            pass_free(x);
        else if (add_pass(j, x, p->use[u].asked, err))
            return err->code;
    }
    return KVT_OK;
}

static kvt_code start(job *j, pass *x, kvt_err *err)
{
    int64_t budget[KVT_BUDGETS_MAX];
    int probe[KVT_BUDGETS_MAX];
    double threshold[KVT_BUDGETS_MAX];
    if (x->reason[0])
        return KVT_OK;
    for (int c = 0; c < x->n_cell; c++) {
        budget[c] = x->cell[c].reason[0] ? 0 : x->cell[c].tokens; /* 0: the engine refuses it */
        probe[c] = x->cell[c].probe;
        threshold[c] = x->cell[c].threshold;
    }
    kvt_sequence seq = j->seq;
    seq.position_mass = j->position;
    kvt_engine_spec spec = {.use = x->use,
                            .seq = &seq,
                            .budget = budget,
                            .n_budget = x->n_cell,
                            .decode = x->inside,
                            .every = x->every,
                            .seed = x->seed,
                            .trace_digest = j->info->digest,
                            .weights = x->weights,
                            .table = x->table,
                            .probe_of = probe,
                            .threshold = x->use->traits.by_threshold ? threshold : NULL};
    if (!pass_is_apart(x) && kvt_engine_new(&x->engine, &spec, err))
        return err->code;
    return pass_make(x, j->info, err);
}

static kvt_code start_all(job *j, kvt_err *err)
{
    for (int i = 0; i < j->n_list; i++) {
        const pass *x = j->list[i];
        bool others = (x->use->traits.needs & KVT_NEED_OTHERS) && !x->reason[0];
        if (others && !j->position &&
            set_positions(&j->position, &j->p->set, j->trace, j->p->spec->cache_bytes, err))
            return err->code;
    }
    for (int i = 0; i < j->n_list; i++)
        if (threshold_match(j->p, &j->p->use[j->list[i]->use_index], j->trace, j->list[i],
                            err) ||
            start(j, j->list[i], err))
            return err->code;
    return KVT_OK;
}

/* ---- writing -------------------------------------------------------------------------------
 */

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static kvt_code name_pass(kvt_result *r, kvt_err *err)
{
    digest *d = digest_new();
    if (!d)
        return kvt_fail_memory(err, 64);
    for (int c = 0; c < r->n_cell; c++)
        digest_add_text(d, r->cell[c].run_id);
    digest_get(d, r->pass_id);
    digest_free(d);
    return KVT_OK;
}

/* Whether files can be made in the folder at all. */
static bool is_open(const char *folder, const char *path)
{
    char temp[1100];
    kvt_err err;
    return !file_mkdirs(folder, &err) && !file_temp_name(temp, sizeof temp, path, &err);
}

/* A folder that cannot be written costs the file, not the result; a file that was begun and
 * could not be finished (a full disk) is an error, told when all is shown. */
static void write_result(job *j, kvt_result *r)
{
    kvt_err err;
    char folder[900], path[1024];
    if (!j->dir[0])
        return;
    bool fits = folder_of(j, folder, sizeof folder);
    if (fits)
        snprintf(path, sizeof path, "%s/%s.kvt-results.h5", folder, r->pass_id);
    if (!fits) {
        kvt_log(j->p->ctx, KVT_LOG_WARN, "replay", "results are not written: '%s' is too long",
                j->dir);
        j->dir[0] = 0;
        return;
    }
    if (kvt_result_write(r, &j->cells, &j->lanes, path, &err)) {
        if (is_open(folder, path))
            j->unwritten = err;
        else
            kvt_log(j->p->ctx, KVT_LOG_WARN, "replay", "results are not written: %s", err.text);
        j->dir[0] = 0;
        return;
    }
    memcpy(r->path, path, strlen(path) + 1);
}

/* What the best choice loses at every total, once for lanes of kv heads and of query heads. */
static kvt_code find_best(job *j, const pass *x, const double **best, kvt_err *err)
{
    bool compared = !x->reason[0] && pass_is_on_top(x) && x->n_response > 0;
    *best = NULL;
    if (!compared)
        return KVT_OK;
    if (!j->best[x->by_head] && truth_over_lanes(&j->best[x->by_head], j->truths, j->p->layers,
                                                 x->n_layer, x->by_head, err))
        return err->code;
    *best = j->best[x->by_head];
    return KVT_OK;
}

static kvt_code finish(job *j, const pass *x, bool asked, kvt_err *err)
{
    kvt_result *r;
    const double *best;
    double from = cpu_seconds();
    if (find_best(j, x, &best, err) || finish_pass(&r, x, j->info, j->p->layers, j->truths,
                                                   best, j->p->spec->rule, j->p->ctx, err))
        return err->code;
    double middle = cpu_seconds();
    j->times.judge += middle - from;
    if (name_pass(r, err)) {
        kvt_result_free(r);
        return err->code;
    }
    write_result(j, r);
    j->times.write += cpu_seconds() - middle;
    for (int c = 0; c < r->n_cell; c++) {
        bool ok = strcmp(r->cell[c].status, "ok") == 0;
        j->n->computed += ok;
        j->n->decisions += ok ? r->cell[c].decisions_count : 0;
    }
    return give(j, r, asked, err);
}

/* ---- a trace -------------------------------------------------------------------------------
 */

/* What went wrong with a trace as a whole becomes the state of its cells. */
static void fail_passes(job *j, const kvt_err *err)
{
    for (int i = 0; i < j->n_list; i++) {
        for (int c = 0; c < j->list[i]->n_cell && !j->list[i]->reason[0]; c++) {
            pass_cell *x = &j->list[i]->cell[c];
            snprintf(x->reason, sizeof x->reason, "%.*s", (int)sizeof x->reason - 1, err->text);
            x->failed = true;
        }
    }
}

static kvt_code run_trace(job *j, kvt_err *err)
{
    plan *p = j->p;
    if (kvt_trace_open(&j->t, p->set.trace[j->trace].path, p->spec->cache_bytes, err))
        return err->code;
    j->info = kvt_trace_info_of(j->t);
    if (plan_layers(p->layers, p, j->info, err) || kvt_trace_sequence(j->t, &j->seq, err) ||
        load_old(j, err) || list_passes(j, err))
        return err->code;
    if (j->n_list == 0)
        return KVT_OK;
    j->truths = kvt_alloc(j->info->n_layer, sizeof *j->truths);
    if (!j->truths)
        return kvt_fail_memory(err, j->info->n_layer * (int64_t)sizeof *j->truths);
    kvt_code code = start_all(j, err);
    if (!code)
        code = pass_run(j->list, j->n_list, j->t, p->layers, j->truths, &j->times, p->ctx, err);
    if (code == KVT_STOPPED || code == KVT_NOMEM)
        return code;
    if (code) {
        if (!strstr(err->text, j->info->path)) /* the reader names its file */
            kvt_within(err, "'%s'", j->info->path);
        if (p->set.n == 1 || p->spec->fail_fast)
            return code;
        kvt_log(p->ctx, KVT_LOG_ERROR, "replay", "%s", err->text);
        fail_passes(j, err);
    }
    code = KVT_OK;
    for (int i = 0; !code && i < j->n_list; i++) {
        code = finish(j, j->list[i], j->asked[i], err);
        pass_free(j->list[i]); /* its place is that of the results to come */
        j->list[i] = NULL;
    }
    return code;
}

static void close_trace(job *j)
{
    for (int i = 0; i < j->n_list; i++)
        pass_free(j->list[i]);
    for (int l = 0; j->truths && l < j->info->n_layer; l++)
        truth_free(&j->truths[l]);
    for (int64_t i = 0; j->old && i < j->old->n; i++)
        kvt_result_free(j->old->result[i]);
    if (j->old)
        kvt_free(j->old->result);
    kvt_free(j->old);
    kvt_free(j->truths);
    kvt_free(j->best[0]);
    kvt_free(j->best[1]);
    kvt_free(j->position);
    kvt_free(j->list);
    kvt_free(j->asked);
    kvt_trace_close(j->t);
    j->n->read_s += j->times.read;
    j->n->rank_s += j->times.rank;
    j->n->judge_s += j->times.judge;
    j->n->write_s += j->times.write;
    j->best[0] = j->best[1] = NULL;
    j->t = NULL, j->old = NULL, j->truths = NULL, j->position = NULL, j->list = NULL;
    j->asked = NULL, j->n_list = 0, j->times = (run_times){0};
}

/* ---- the run -------------------------------------------------------------------------------
 */

static void choose_folder(job *j)
{
    const kvt_replay_spec *s = j->p->spec;
    char beside[900];
    if (s->out_dir)
        snprintf(j->dir, sizeof j->dir, "%s", s->out_dir);
    else
        snprintf(j->dir, sizeof j->dir, "%s/kvt-results",
                 file_dir(beside, sizeof beside, j->p->set.trace[0].path));
}

static kvt_code end_of_run(const job *j, int n_bad, kvt_err *err)
{
    const kvt_replay_counts *n = j->n;
    if (j->unwritten.code) {
        *err = j->unwritten;
        return kvt_within(err, "results are not written");
    }
    if (!j->computed_asked && n->n_pass > 0 && (n->skipped > 0 || n->failed > 0) && j->why[0])
        return kvt_fail(err, KVT_NO, "no cell that was asked for could be computed: %s",
                        j->why);
    if (n->failed > 0)
        return kvt_fail(err, KVT_PARTLY, "%lld of %lld cells failed%s%s", (long long)n->failed,
                        (long long)n->n_cell, j->why[0] ? ": " : "", j->why);
    if (n_bad > 0)
        return kvt_fail(err, KVT_PARTLY,
                        "%d of %lld traces cannot be read, the others are done", n_bad,
                        (long long)n->n_trace + n_bad);
    return KVT_OK;
}

/* The folder, and what its files hold. */
static void begin(job *j)
{
    choose_folder(j);
    kvt_cell_schema(&j->cells);
    kvt_lane_schema(&j->lanes);
}

kvt_code kvt_replay(kvt_results **out, kvt_replay_counts *counts, const kvt_replay_spec *spec,
                    const kvt_ctx *ctx, kvt_err *err)
{
    static const kvt_ctx quiet = {0};
    kvt_replay_counts ignored;
    plan p;
    kvt_replay_spec own = *spec;
    job j = {.p = &p, .n = counts ? counts : &ignored};
    *j.n = (kvt_replay_counts){0};
    *out = j.out = kvt_alloc(1, sizeof **out);
    if (!j.out)
        return kvt_fail_memory(err, sizeof **out);
    if (own.cache_bytes == 0)
        own.cache_bytes = (size_t)KVT_REPLAY_CACHE_DEFAULT << 20;
    kvt_code code = plan_open(&p, &own, ctx ? ctx : &quiet, err);
    if (!code)
        begin(&j);
    for (int i = 0; !code && i < p.set.n; i++) {
        j.trace = i;
        j.n->n_trace++;
        code = kvt_progress(p.ctx, "replay", i, p.set.n, err);
        if (!code)
            code = run_trace(&j, err);
        close_trace(&j);
        if (!code && spec->fail_fast && j.n->failed > 0)
            break;
    }
    int n_bad = p.set.n_bad;
    memcpy(j.n->left_out, p.left_out, sizeof j.n->left_out);
    memcpy(j.n->no_file, p.no_file, sizeof j.n->no_file);
    memcpy(j.n->no_trace, p.no_trace, sizeof j.n->no_trace);
    plan_close(&p);
    return code ? code : end_of_run(&j, n_bad, err);
}

/* ---- the plan alone ------------------------------------------------------------------------
 */

/* What a trace has to be run for: cells that have a result are counted and taken off. */
static kvt_code count_trace(job *j, kvt_err *err)
{
    plan *p = j->p;
    if (kvt_trace_open(&j->t, p->set.trace[j->trace].path, p->spec->cache_bytes, err))
        return err->code;
    j->info = kvt_trace_info_of(j->t);
    if (plan_layers(p->layers, p, j->info, err) || load_old(j, err) || list_passes(j, err))
        return err->code;
    for (int i = 0; i < j->n_list; i++) {
        const pass *x = j->list[i];
        j->n->skipped += x->reason[0] ? x->n_cell : 0;
        j->n->bytes_planned += plan_bytes(x, p->layers);
    }
    return KVT_OK;
}

kvt_code kvt_replay_plan(kvt_replay_counts *counts, const kvt_replay_spec *spec,
                         const kvt_ctx *ctx, kvt_err *err)
{
    static const kvt_ctx quiet = {0};
    plan p;
    kvt_replay_spec own = *spec;
    job j = {.p = &p, .n = counts, .out = kvt_alloc(1, sizeof *j.out)};
    own.keep_arrays = false;
    *counts = (kvt_replay_counts){0};
    if (!j.out)
        return kvt_fail_memory(err, sizeof *j.out);
    kvt_code code = plan_open(&p, &own, ctx ? ctx : &quiet, err);
    if (!code)
        begin(&j);
    for (int i = 0; !code && i < p.set.n; i++) {
        j.trace = i;
        counts->n_trace++;
        code = count_trace(&j, err);
        close_trace(&j);
    }
    kvt_results_free(j.out);
    plan_close(&p);
    return code;
}
