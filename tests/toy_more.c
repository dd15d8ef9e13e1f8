/* toy_more.c - a synthetic trace as a toy: see toy_more.h. */
#include "tests/toy_more.h"

#include "base/half.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where an array's heads come from, and how its floats are read. */
typedef struct source {
    kvt_arena *a;
    const synth *s;
    int layer;
    bool swap;
} source;

static void *room(kvt_arena *a, int64_t n, size_t size)
{
    void *p = kvt_arena_array(a, n ? n : 1, size);
    if (!p) {
        fputs("toy: out of memory\n", stderr);
        exit(1);
    }
    return p;
}

/* The head (or kv head) that stands at place i of n. */
static int64_t from_of(const source *x, int64_t i, int64_t n)
{
    int64_t G = x->s->spec.n_kv_head, each = n / G;
    return x->swap ? (G - 1 - i / each) * each + i % each : i;
}

static float number(const void *data, kvt_dtype dtype, int64_t i)
{
    return dtype == KVT_F16 ? half_to_float(((const uint16_t *)data)[i])
                            : ((const float *)data)[i];
}

/* An array [n of `each` numbers] as f32, its n heads in this toy's order. */
static float *heads_of(const source *x, const void *data, kvt_dtype dtype, int64_t n,
                       int64_t each)
{
    float *out = room(x->a, n * each, sizeof *out);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < each; k++)
            out[i * each + k] = number(data, dtype, from_of(x, i, n) * each + k);
    return out;
}

/* One layer of a dataset; those with heads have them as their outermost axis. */
static kvt_view set_of(const source *x, kvt_ds ds)
{
    kvt_view v = synth_view(x->s, ds, x->layer);
    bool heads = v.axes[0] == 'H' || v.axes[0] == 'G';
    int64_t n = heads ? v.dim[0] : 1;
    if (!v.data)
        return (kvt_view){0};
    source plain = *x;
    plain.swap = x->swap && heads;
    float *out = heads_of(&plain, v.data, v.dtype, n, kvt_view_count(&v) / n);
    return kvt_view_of(out, KVT_F32, v.axes, (size_t)v.rank, v.dim);
}

/* ---- probes --------------------------------------------------------------------------------
 */

/* Rows over the prompt, where the probe ran on the full cache in one segment: the softmax over
 * the prompt and its own rows, rounded to half. */
static void add_rows(const source *x, kvt_probe_feed *out, const kvt_probe_data *p)
{
    int64_t H = x->s->spec.n_head, P = p->info.n_row, N = x->s->spec.n_prompt;
    if (p->info.budget > 0 || p->info.n_segment > 1)
        return;
    float *attn = room(x->a, H * P * N, sizeof *attn);
    for (int64_t h = 0; h < H; h++)
        for (int64_t i = 0; i < P; i++) {
            int from = (int)from_of(x, h, H);
            double sum = 0;
            for (int64_t j = 0; j < N; j++)
                if (synth_probe_sees(x->s, p, x->layer, from, i, j))
                    sum += exp(synth_probe_logit(x->s, p, x->layer, from, i, j));
            for (int64_t k = 0; k <= i; k++)
                if (synth_probe_sees_own(x->s, p, x->layer, i, k))
                    sum += exp(synth_probe_own(x->s, p, x->layer, from, i, k));
            for (int64_t j = 0; j < N; j++) {
                double z = synth_probe_logit(x->s, p, x->layer, from, i, j);
                bool sees = synth_probe_sees(x->s, p, x->layer, from, i, j);
                attn[(h * P + i) * N + j] =
                    half_to_float(half_from_float(sees ? (float)(exp(z) / sum) : 0));
            }
        }
    out->attn = kvt_view_of(attn, KVT_F32, KVT_SHAPE("HPN", H, P, N));
}

static int32_t *copy_ints(const source *x, const void *data, int64_t n)
{
    int32_t *out = data ? room(x->a, n, sizeof *out) : NULL;
    if (out)
        memcpy(out, data, (size_t)n * sizeof *out);
    return out;
}

/* Arrays of a probe hold every layer of the model. */
static kvt_view part_of(const source *x, const kvt_probe_data *p, kvt_probe_set set,
                        kvt_dtype dtype, const char *axes, int64_t n, int64_t inner)
{
    int64_t P = p->info.n_row, each = P * inner, layer = x->s->out.layer_id[x->layer];
    const char *at =
        (const char *)p->data[set] + layer * n * each * (int64_t)kvt_dtype_size(dtype);
    float *out = heads_of(x, at, dtype, n, each);
    return strlen(axes) == 3 ? kvt_view_of(out, KVT_F32, KVT_SHAPE(axes, n, P, inner))
                             : kvt_view_of(out, KVT_F32, KVT_SHAPE(axes, n, P));
}

static void add_probe(const source *x, kvt_probe_feed *out, const kvt_probe_data *p)
{
    const synth_spec *spec = &x->s->spec;
    int64_t P = p->info.n_row, layer = x->s->out.layer_id[x->layer];
    float *norm = room(x->a, P, sizeof *norm);
    memcpy(norm, (const float *)p->data[KVT_PROBE_SET_NORM] + layer * P,
           (size_t)P * sizeof *norm);
    *out = (kvt_probe_feed){
        .queries = part_of(x, p, KVT_PROBE_SET_Q, KVT_F16, "HPD", spec->n_head, spec->head_dim),
        .keys = part_of(x, p, KVT_PROBE_SET_K, KVT_F16, "GPD", spec->n_kv_head, spec->head_dim),
        .lse = part_of(x, p, KVT_PROBE_SET_LSE, KVT_F32, "HP", spec->n_head, 1),
        .norm = kvt_view_of(norm, KVT_F32, KVT_SHAPE("P", P)),
        .pos = kvt_view_of(copy_ints(x, p->data[KVT_PROBE_SET_POS], P), KVT_I32,
                           KVT_SHAPE("P", P)),
        .budget = p->info.budget,
        .n_segment = p->info.n_segment,
        .segment = copy_ints(x, p->data[KVT_PROBE_SET_SEGMENT], P),
        .begin = copy_ints(x, p->data[KVT_PROBE_SET_BEGIN], p->info.n_segment),
        .end = copy_ints(x, p->data[KVT_PROBE_SET_END], p->info.n_segment),
        .from = copy_ints(x, p->data[KVT_PROBE_SET_FROM], p->info.n_segment)};
    add_rows(x, out, p);
}

/* ---- a layer -------------------------------------------------------------------------------
 */

/* Blocks of prompt queries, as the mean over each: [H J N]. */
static kvt_view blocks_of(const source *x)
{
    const synth_spec *p = &x->s->spec;
    int64_t N = p->n_prompt, T = N + p->n_response, all = x->s->out.n_block, J = 0;
    const int32_t *start = x->s->data[KVT_DS_BLOCK_START];
    kvt_view v = set_of(x, KVT_DS_BLOCK_SUM);
    while (J < all && start[J] < N)
        J++;
    float *out = room(x->a, p->n_head * J * N, sizeof *out);
    for (int64_t h = 0; h < p->n_head; h++)
        for (int64_t j = 0; j < J; j++)
            for (int64_t k = 0; k < N; k++)
                out[(h * J + j) * N + k] =
                    ((const float *)v.data)[(h * all + j) * T + k] / 1024;
    return kvt_view_of(out, KVT_F32, KVT_SHAPE("HJN", p->n_head, J, N));
}

/* Exact queries and logits of every position: stored queries are those of all positions. */
static void add_queries(const source *x, kvt_feed *f)
{
    int64_t T = x->s->spec.n_prompt + x->s->spec.n_response, H = x->s->spec.n_head;
    float *logit = room(x->a, H * T * T, sizeof *logit);
    for (int64_t h = 0; h < H; h++)
        for (int64_t i = 0; i < T * T; i++)
            logit[h * T * T + i] =
                (float)x->s->logit[((int64_t)x->layer * H + from_of(x, h, H)) * T * T + i];
    f->logits = kvt_view_of(logit, KVT_F32, KVT_SHAPE("HQT", H, T, T));
    f->queries = set_of(x, KVT_DS_QUERIES);
    if (f->queries.dim[1] != T) {
        fputs("toy: a synth that stores queries of every position is needed\n", stderr);
        exit(1);
    }
}

static void add_layer(const source *x, kvt_feed *f)
{
    *f = (kvt_feed){.keys = set_of(x, KVT_DS_KEYS),
                    .values = set_of(x, KVT_DS_VALUES),
                    .blocks = blocks_of(x),
                    .query_mean = set_of(x, KVT_DS_QUERY_MEAN),
                    .query_cov = set_of(x, KVT_DS_QUERY_COV),
                    .query_freq_abs = set_of(x, KVT_DS_QUERY_FREQ),
                    .wo_l1 = set_of(x, KVT_DS_WO_L1),
                    .wo_l2 = set_of(x, KVT_DS_WO_L2),
                    .hidden = set_of(x, KVT_DS_HIDDEN),
                    .n_probe = x->s->n_probe};
    add_queries(x, f);
    if (x->s->data[KVT_DS_DECISION]) {
        f->decision = set_of(x, KVT_DS_DECISION);
        f->decision_weight = set_of(x, KVT_DS_DECISION_W);
        f->decision_gamma = set_of(x, KVT_DS_DECISION_G);
    }
    kvt_probe_feed *probe = room(x->a, x->s->n_probe, sizeof *probe);
    for (int i = 0; i < x->s->n_probe; i++)
        add_probe(x, &probe[i], &x->s->probe[i]);
    f->probe = probe;
}

static void fill_toy(toy *t, const source *x)
{
    const synth *s = x->s;
    const synth_spec *p = &s->spec;
    *t = (toy){.seed = p->seed,
               .geometry = s->out.facts.model,
               .n_layer = p->n_layer,
               .n_head = p->n_head,
               .n_group = p->n_kv_head,
               .N = p->n_prompt,
               .M = p->n_response,
               .T = p->n_prompt + p->n_response,
               .swapped = x->swap};
    for (int l = 0; l < t->n_layer; l++)
        t->layer_id[l] = s->out.layer_id[l];
    int32_t *id = copy_ints(x, s->data[KVT_DS_TOKEN_ID], t->T);
    uint8_t *flag = room(x->a, t->T, 1);
    memcpy(flag, s->data[KVT_DS_TOKEN_FLAG], (size_t)t->T);
    t->seq = (kvt_sequence){.n_prompt = t->N,
                            .n_response = t->M,
                            .look_until = t->N,
                            .id = id,
                            .flag = flag,
                            .geometry = &t->geometry,
                            .layer_id = t->layer_id,
                            .n_layer = t->n_layer};
}

toy *toy_of_synth(kvt_arena *a, const synth *s, bool swap_heads)
{
    toy *t = room(a, 1, sizeof *t);
    source x = {.a = a, .s = s, .swap = swap_heads};
    fill_toy(t, &x);
    int64_t square = t->T * t->T;
    t->w = room(a, t->n_layer * t->n_head * square, sizeof *t->w);
    kvt_feed *more = room(a, t->n_layer, sizeof *more);
    for (; x.layer < t->n_layer; x.layer++) {
        for (int64_t h = 0; h < t->n_head; h++)
            memcpy(t->w + (x.layer * t->n_head + h) * square,
                   s->attn + (x.layer * t->n_head + from_of(&x, h, t->n_head)) * square,
                   (size_t)square * sizeof *t->w);
        add_layer(&x, &more[x.layer]);
    }
    kvt_probe_kind *kind = room(a, s->n_probe, sizeof *kind);
    for (int i = 0; i < s->n_probe; i++)
        kind[i] = s->probe[i].info.kind;
    t->more = more;
    t->probe_kind = kind;
    return t;
}

/* ---- weights -------------------------------------------------------------------------------
 */

/* Written under a name of its own, opened (which reads it whole), and removed. */
static void open_scorer(kvt_scorer **out, const char *kind, const synth_spec *spec)
{
    char path[512] = KVT_BINARY_DIR "/scorer.XXXXXX";
    kvt_err err = {0};
    int file = mkstemp(path);
    if (file < 0 || synth_scorer(kind, spec, path, &err) || kvt_scorer_open(out, path, &err)) {
        fprintf(stderr, "toy: %s: %s\n", path, err.text);
        exit(1);
    }
    close(file);
    unlink(path);
}

static void add_weights(toy *t, kvt_arena *a, const synth *s)
{
    int n = 0;
    while (synth_scorers[n])
        n++;
    toy_weights *w = room(a, n, sizeof *w);
    for (int i = 0; i < n; i++) {
        w[i].kind = synth_scorers[i];
        open_scorer(&w[i].file, w[i].kind, &s->spec);
        w[i].n = kvt_scorer_count(w[i].file);
        kvt_scorer_tensor *tensor = room(a, w[i].n, sizeof *tensor);
        for (int k = 0; k < w[i].n; k++)
            tensor[k] = *kvt_scorer_at(w[i].file, k);
        w[i].tensor = tensor;
    }
    t->weights = w;
    t->n_weights = n;
}

void toy_close(toy *t)
{
    for (int i = 0; i < t->n_weights; i++)
        kvt_scorer_close(t->weights[i].file);
}

toy *toy_rich(kvt_arena *a, int n_layer, int n_model_layer, int n_head, int n_group, int64_t N,
              int64_t M, bool swap_heads)
{
    static const int64_t drafts[SYNTH_DRAFTS] = {8, 17, 33, 49};
    synth_spec spec = synth_default();
    spec.n_layer = n_layer;
    spec.model_layers = n_model_layer;
    spec.n_head = n_head;
    spec.n_kv_head = n_group;
    spec.n_prompt = N;
    spec.n_response = M;
    spec.last_queries = -1;
    spec.decision_policy = "any";
    memcpy(spec.draft_budget, drafts, sizeof drafts);
    synth *s = synth_new(&spec);
    synth_probes(s);
    toy *t = toy_of_synth(a, s, swap_heads);
    add_weights(t, a, s);
    synth_free(s);
    return t;
}

bool toy_needs_more(const kvt_policy *p, const char *params)
{
    _Alignas(max_align_t) char own[1024] = {0};
    kvt_traits traits = p->traits;
    kvt_err err;
    if (p->params && p->params_size <= sizeof own) {
        kvt_param_defaults(p->params, own);
        if (params && *params && kvt_param_parse(p->params, own, params, &err))
            return true;
    }
    if (p->vary)
        p->vary(own, &traits);
    const unsigned plain =
        KVT_NEED_ATTN | KVT_NEED_COLUMNS | KVT_NEED_FUTURE | KVT_NEED_SCORES | KVT_NEED_OTHERS;
    return traits.needs & ~plain;
}
