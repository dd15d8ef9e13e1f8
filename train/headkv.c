/* headkv.c - how much each head retrieves: HeadKV's importance (arXiv 2410.19258) from traces.
 *
 * In a trace whose prompt has a span of n tokens that the response is made from, a query head
 * retrieves, at a response row, what of its n largest attentions lies in the span:
 *
 *   score_h = mean over traces and response rows of sum over the row's best n prompt tokens j
 *             that lie in the span of A_j
 *
 * and a kv head the mean of its group. Memory O(T D). */
#include <stdio.h>
#include <string.h>

#include "base/select.h"
#include "train/table_fit.h"

typedef struct headkv_params {
    int span;
} headkv_params;

static const kvt_choice spans[] = {{"context", "", "the text that is asked about"},
                                   {"needle", "", "the sentence that holds the answer"},
                                   {"answer", "", "the answer itself, in the prompt"},
                                   {"question", "", "the question"}};

typedef struct headkv {
    const headkv_params *p;
    int64_t G;
    double *sum, n; /* [G] */
} headkv;

static const kvt_ds reads[] = {KVT_DS_KEYS, KVT_DS_QUERIES, KVT_DS_QUERY_POS};

static const kvt_span *span_of(const headkv *k, const tracein *s)
{
    const kvt_trace_facts *f = &s->info->facts;
    for (int i = 0; i < f->n_span; i++)
        if (strcmp(f->span[i].name, spans[k->p->span].name) == 0 &&
            f->span[i].end > f->span[i].begin)
            return &f->span[i];
    return NULL;
}

static kvt_code check(void *user, const tracein *s, kvt_err *err)
{
    const headkv *k = user;
    const kvt_trace_facts *f = &s->info->facts;
    char there[300] = "none";
    for (int i = 0, n = 0; i < f->n_span && n < 200; i++)
        n += snprintf(there + n, sizeof there - (size_t)n, "%s%s", i ? ", " : "",
                      f->span[i].name);
    if (!span_of(k, s))
        return kvt_fail(err, KVT_FORMAT,
                        "headkv reads the span '%s' of the prompt, there is %s",
                        spans[k->p->span].name, there);
    return KVT_OK;
}

static kvt_code begin(void *user, kvt_err *err)
{
    headkv *k = user;
    (void)err;
    memset(k->sum, 0, (size_t)k->G * sizeof *k->sum);
    k->n = 0;
    return KVT_OK;
}

typedef struct head_work {
    float *key, *row, *query;
    bool *best;
} head_work;

/* What one row's best n prompt tokens give the span; -1: no memory. */
static double retrieved(const head_work *w, const kvt_span *span, int64_t N, kvt_arena *work)
{
    double sum = 0;
    if (!select_best(w->best, w->row, N, span->end - span->begin, work))
        return -1;
    for (int64_t j = span->begin; j < span->end; j++)
        sum += w->best[j] ? (double)w->row[j] : 0;
    return sum;
}

static kvt_code add_lane(headkv *k, const tracein *s, int layer, int lane, const head_work *w,
                         kvt_arena *work, kvt_err *err)
{
    const kvt_span *span = span_of(k, s);
    tracein_keys(w->key, s, layer, lane);
    for (int64_t r = 0; r < s->R; r++)
        for (int64_t m = s->N; m < s->T; m++) {
            int64_t row = tracein_find(s, m);
            if (row < 0)
                return kvt_fail(err, KVT_FORMAT, "query/q lacks the response position %lld",
                                (long long)m);
            size_t mark = kvt_arena_mark(work);
            tracein_row(w->row, s, layer, lane * s->R + r, row, w->key, w->query);
            double got = retrieved(w, span, s->N, work);
            kvt_arena_rewind(work, mark);
            if (got < 0)
                return kvt_fail_memory(err, (size_t)s->N * sizeof *w->row);
            k->sum[lane] += got / (double)(s->R * (s->T - s->N));
        }
    return KVT_OK;
}

static kvt_code add(void *user, const tracein *s, int layer, kvt_arena *work, kvt_err *err)
{
    headkv *k = user;
    const head_work w = {kvt_arena_array(work, s->T * s->D, sizeof *w.key),
                         kvt_arena_array(work, s->T, sizeof *w.row),
                         kvt_arena_array(work, s->D, sizeof *w.query),
                         kvt_arena_array(work, s->T, sizeof *w.best)};
    if (!w.key || !w.row || !w.query || !w.best)
        return kvt_fail_memory(err, (size_t)(s->T * s->D) * sizeof *w.key);
    kvt_code code = KVT_OK;
    for (int g = 0; !code && g < s->G; g++)
        code = add_lane(k, s, layer, g, &w, work, err);
    k->n += 1;
    return code;
}

static kvt_code end(void *user, int layer, float *param, kvt_err *err)
{
    const headkv *k = user;
    (void)layer, (void)err;
    for (int64_t g = 0; g < k->G; g++)
        param[g] = (float)(k->sum[g] / k->n);
    return KVT_OK;
}

static table_spec spec_of(headkv *k)
{
    return (table_spec){.kind = "headkv",
                        .ds = reads,
                        .n_ds = sizeof reads / sizeof *reads,
                        .n_param = 1,
                        .user = k,
                        .check = check,
                        .begin = begin,
                        .add = add,
                        .end = end};
}

static kvt_code run_headkv(train_run *run, kvt_err *err)
{
    static const fit_tensor tensor[] = {
        {"score",
         "attention to the span among a row's largest, mean of the group",
         "",
         0,
         {0}}};
    headkv k = {.p = run->params, .G = run->info.facts.model.n_kv_head};
    k.sum = kvt_alloc(k.G, sizeof *k.sum);
    if (!k.sum)
        return kvt_fail_memory(err, (size_t)k.G * sizeof *k.sum);
    const table_spec spec = spec_of(&k);
    kvt_code code = table_run(run, &spec, tensor, 1, err);
    kvt_free(k.sum);
    return code;
}

static kvt_code plan_headkv(train_run *run, kvt_err *err)
{
    headkv k = {.p = run->params};
    const table_spec spec = spec_of(&k);
    return table_plan(run, &spec, err);
}

static const kvt_param params[] = {
    KVT_PARAM_CHOICE(headkv_params, span, 0, spans, "span of the prompt that is retrieved"),
    {0}};

const kvt_trainer kvt_trainer_headkv = {
    .name = "headkv",
    .title = "how much each head retrieves from a span of the prompt",
    .paper = "Fu et al., HeadKV, 2024, arXiv:2410.19258",
    .about =
        "How much a head retrieves: in a trace whose response is made from a span of n "
        "prompt tokens, the attention that lies in the span among the head's n largest, mean "
        "over response rows and traces. The table says which kv heads deserve slots.",
    .differs = "any span that the traces name, where the paper plants needles with reasoning "
               "and counts the correct answer only; heads of a group averaged",
    .file = "scorer",
    .reads = "level replay, prompts with such a span",
    .params_size = sizeof(headkv_params),
    .params = params,
    .run = run_headkv,
    .plan = plan_headkv,
};
