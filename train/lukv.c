/* lukv.c - which share of its tokens each head should keep, for any ranking: LU-KV's table
 * (arXiv 2602.08585) from traces.
 *
 * With the prompt tokens of lane i in the base's own order and m_j the attention that the
 * response gives token j (mean over rows and the group's query heads), what the lane keeps of
 * the future at a share x of its N tokens is, between whole tokens in a straight line,
 *
 *   U_i(x) = mean over traces of sum of m_j over the first x N tokens
 *
 * taken at x = o / (O + 1). The upper concave hulls of all lanes are climbed by falling slope,
 * a whole step at a time and of the last one a part, until the mean share is f_o = o / (O + 1):
 * keep[o] of a lane is how far it came. Shares rise with o, and their mean is f_o exactly.
 *
 * The base is replayed on each trace, by the engine that will run it. Memory: the ranking of a
 * trace, L G (O + 2) sums. */
#include <stdio.h>
#include <string.h>

#include "base/select.h"
#include "kvt/pieces.h"
#include "kvt/replay.h"
#include "train/fit.h"
#include "train/targets.h"

typedef struct lukv_params {
    int64_t points;
    char base[KVT_PARAM_TEXT_MAX];
} lukv_params;

typedef struct lukv {
    train_run *run;
    const lukv_params *p;
    const char *base;
    int64_t n_unit, n_point; /* L G; O + 2 */
    double *sum;             /* [n_unit n_point] U at o / (O + 1), o = 0..O + 1, over traces */
} lukv;

static const kvt_ds reads[] = {KVT_DS_FUTURE_MEAN};

/* ---- curves --------------------------------------------------------------------------------
 */

/* The base's ranking of one trace: i32 [L G N] of the result, which the caller frees. */
static kvt_code rank(kvt_results **out, const kvt_result **of, const lukv *k,
                     const train_trace *t, kvt_err *err)
{
    const char *path = t->path;
    const kvt_ctx quiet = {.n_thread = k->run->ctx->n_thread}; /* a run stops between traces */
    const kvt_replay_spec spec = {.trace = &path,
                                  .n_trace = 1,
                                  .policies = k->base,
                                  .budgets = "100%", /* which every window fits in */
                                  .act = KVT_ACT_PREFILL,
                                  .oracle = "none",
                                  .no_controls = true,
                                  .out_dir = "",
                                  .keep_arrays = true,
                                  .no_output_error = true};
    kvt_code code = kvt_replay(out, NULL, &spec, &quiet, err);
    if (code == KVT_NO) /* the trace lacks something */
        err->code = code = KVT_FORMAT;
    *of = !code && (*out)->n == 1 ? (*out)->result[0] : NULL; /* "all" ranks in many ways */
    if (code)
        return kvt_within(err, "base %s", k->base);
    if (!*of || !(*of)->rank)
        return kvt_fail(err, KVT_USAGE,
                        "base %s: expected a policy that ranks the prompt once for all "
                        "budgets",
                        k->base);
    if ((*of)->by_query_head)
        return kvt_fail(err, KVT_USAGE,
                        "base %s: expected a set for each kv head, it keeps one for each "
                        "query head",
                        k->base);
    return KVT_OK;
}

/* Adds U of one lane: mass [N] of its tokens, rank [N], kept [N + 1] is scratch. */
static void add_curve(double *sum, int64_t n_point, const double *mass, const int32_t *rank,
                      double *kept, int64_t N)
{
    memset(kept, 0, (size_t)(N + 1) * sizeof *kept);
    for (int64_t j = 0; j < N; j++)
        kept[rank[j] + 1] = mass[j];
    for (int64_t j = 0; j < N; j++)
        kept[j + 1] += kept[j];
    for (int64_t o = 0; o < n_point; o++) {
        double at = (double)o / (double)(n_point - 1) * (double)N;
        int64_t low = (int64_t)at, high = low + 1 <= N ? low + 1 : N;
        sum[o] += kept[low] + (at - (double)low) * (kept[high] - kept[low]);
    }
}

static kvt_code add_layers(lukv *k, const tracein *s, const int32_t *rank, kvt_arena *work,
                           kvt_err *err)
{
    double *mass = kvt_arena_array(work, s->N, sizeof *mass);
    double *kept = kvt_arena_array(work, s->N + 1, sizeof *kept);
    if (!mass || !kept)
        return kvt_fail_memory(err, (size_t)s->N * sizeof *kept);
    for (int64_t u = 0; u < k->n_unit; u++) {
        target_prompt(mass, s, KVT_DS_FUTURE_MEAN, (int)(u / s->G), (int)(u % s->G),
                      TARGET_MEAN);
        add_curve(k->sum + u * k->n_point, k->n_point, mass, rank + u * s->N, kept, s->N);
    }
    return KVT_OK;
}

static kvt_code add_trace(lukv *k, const train_trace *t, kvt_arena *work, kvt_err *err)
{
    tracein s;
    kvt_results *found = NULL;
    const kvt_result *of;
    size_t mark = kvt_arena_mark(work);
    kvt_code code = tracein_open(&s, t, reads, 1, err);
    if (!code)
        code = rank(&found, &of, k, t, err);
    if (!code)
        code = add_layers(k, &s, of->rank, work, err);
    tracein_close(&s);
    kvt_results_free(found);
    kvt_arena_rewind(work, mark);
    return code ? kvt_within(err, "'%s'", t->path) : KVT_OK;
}

/* ---- the table -----------------------------------------------------------------------------
 */

/* Steps of all hulls, and their order. */
typedef struct steps {
    double *slope;
    int32_t *unit, *length, *order;
    int64_t n;
} steps;

static bool draw(steps *t, const lukv *k, kvt_arena *work)
{
    int64_t most = k->n_unit * k->n_point;
    int32_t *corner = kvt_arena_array(work, k->n_point, sizeof *corner);
    double *slope = kvt_arena_array(work, k->n_point, sizeof *slope);
    *t = (steps){.slope = kvt_arena_array(work, most, sizeof *t->slope),
                 .unit = kvt_arena_array(work, most, sizeof *t->unit),
                 .length = kvt_arena_array(work, most, sizeof *t->length),
                 .order = kvt_arena_array(work, most, sizeof *t->order)};
    if (!corner || !slope || !t->slope || !t->unit || !t->length || !t->order)
        return false;
    for (int64_t u = 0; u < k->n_unit; u++) {
        int64_t n = kvt_hull(corner, slope, k->sum + u * k->n_point, 0, k->n_point - 1);
        for (int64_t i = 0; i + 1 < n; i++, t->n++) {
            t->slope[t->n] = slope[i];
            t->unit[t->n] = (int32_t)u;
            t->length[t->n] = corner[i + 1] - corner[i];
        }
    }
    return select_rank_double(t->order, t->slope, t->n, work);
}

/* keep [n_unit O]: one climb serves all totals. */
static kvt_code climb(float *keep, const lukv *k, kvt_arena *work, kvt_err *err)
{
    steps t;
    int64_t O = k->n_point - 2, at = 0, inside = 0;
    int64_t *came = kvt_arena_array(work, k->n_unit, sizeof *came);
    if (!came || !draw(&t, k, work))
        return kvt_fail_memory(err, (size_t)(k->n_unit * k->n_point) * 20);
    for (int64_t o = 1; o <= O; o++) {
        for (int64_t left = k->n_unit; left > 0 && at < t.n;) { /* each total is n_unit more */
            int32_t s = t.order[at];
            int64_t rest = t.length[s] - inside, take = rest < left ? rest : left;
            came[t.unit[s]] += take;
            left -= take;
            inside = take < rest ? inside + take : 0;
            at += take == rest;
        }
        for (int64_t u = 0; u < k->n_unit; u++)
            keep[u * O + o - 1] = (float)((double)came[u] / (double)(O + 1));
    }
    return KVT_OK;
}

/* ---- the run -------------------------------------------------------------------------------
 */

/* The file says whose ranking it is for. */
static void settle(void *params)
{
    lukv_params *p = params;
    if (!*p->base)
        snprintf(p->base, sizeof p->base, "%s", kvt_policy_find("lukv")->base);
}

static lukv lukv_of(train_run *run)
{
    lukv k = {.run = run, .p = run->params};
    k.base = k.p->base;
    k.n_unit = run->info.n_layer * run->info.facts.model.n_kv_head;
    k.n_point = k.p->points + 2;
    return k;
}

static kvt_code plan_lukv(train_run *run, kvt_err *err)
{
    lukv k = lukv_of(run);
    kvt_train_counts *c = run->counts;
    c->n_step = c->n_example = run->spec->n_trace;
    c->n_parameter = k.n_unit * k.p->points;
    c->file_bytes = 4 * c->n_parameter;
    c->memory_bytes = k.n_unit * k.n_point * (int64_t)sizeof *k.sum;
    return train_needs(run, reads, 1, err);
}

static kvt_code traces(lukv *k, kvt_arena *work, kvt_err *err)
{
    int64_t step = 0, n = k->run->spec->n_trace;
    const train_part part[] = {
        {"curves", k->sum, k->n_unit * k->n_point * (int64_t)sizeof *k->sum}};
    kvt_code code = train_resume(k->run, &step, part, 1, err);
    while (!code && step < n) {
        code = add_trace(k, &k->run->trace[step], work, err);
        step++;
        if (!code)
            code = train_step_done(k->run, step, n, part, 1, err);
    }
    return code;
}

static kvt_code run_lukv(train_run *run, kvt_err *err)
{
    lukv k = lukv_of(run);
    const fit_spec shape = {.n_param = k.p->points};
    const fit_tensor tensor[] = {
        {"keep",
         "share of its tokens that a kv head keeps, at o / (O + 1) of all",
         "O",
         0,
         {k.p->points}}};
    fit f = {.spec = &shape, .n_unit = k.n_unit};
    kvt_arena *work = kvt_arena_new((size_t)1 << 34);
    f.param = kvt_alloc(k.n_unit * k.p->points, sizeof *f.param);
    k.sum = kvt_alloc(k.n_unit * k.n_point, sizeof *k.sum);
    kvt_code code = KVT_OK;
    if (!work || !f.param || !k.sum)
        code = kvt_fail_memory(err, (size_t)(k.n_unit * k.n_point) * sizeof *k.sum);
    if (!code)
        code = plan_lukv(run, err);
    if (!code)
        code = traces(&k, work, err);
    if (!code)
        code = climb(f.param, &k, work, err);
    if (!code)
        code = fit_write(&f, run, "lukv", tensor, 1, NULL, 0, err);
    kvt_free(k.sum);
    kvt_arena_free(work);
    fit_free(&f);
    return code;
}

static const kvt_param params[] = {
    KVT_PARAM(lukv_params, points, 99, 1, 999, "1", "totals in the table: O"),
    {.name = "base",
     .type = KVT_TEXT,
     .offset = offsetof(lukv_params, base),
     .unit = "",
     .help = "policy that ranks, one parameter at most; empty: that of lukv"},
    {0}};

const kvt_trainer kvt_trainer_lukv = {
    .name = "lukv",
    .title = "which share of its tokens each head should keep, for a ranking",
    .paper = "Tang et al., LU-KV, 2026, arXiv:2602.08585",
    .about =
        "For each kv head the future attention that is kept is drawn against the share of "
        "tokens that stays, in the base's own order, mean over traces. The upper concave "
        "hulls of all heads are climbed by falling slope; how far each came at every total "
        "is the table. Nothing is trained.\n\n"
        "The base is replayed on each trace, so its recording must hold what it reads.",
    .differs = "utility is the attention of the recorded responses, mean over rows and the "
               "heads of a group; every trace counts equally, whatever its length",
    .file = "scorer",
    .reads = "what the base reads (level replay for most), a response",
    .params_size = sizeof(lukv_params),
    .params = params,
    .settle = settle,
    .run = run_lukv,
    .plan = plan_lukv,
};
