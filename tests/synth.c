/* synth.c - small traces made of random numbers, by plain loops in double. */
#include "tests/synth.h"

#include "base/half.h"
#include "base/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/arena.h"

static const char *const words[] = {
    "<s>",    "user\n", "The",    " river",  " runs", " past",   " the",  " old",
    " mill",  ",",      " where", " nobody", " has",  " ground", " corn", " since",
    " 1911",  ".",      " Who",   " owned",  " it",   "?",       "\n",    " Anna",
    " Weber", " did",   " until", " war",    " came", "</s>"};

/* What a prompt may hold: escapes, bidi marks, broken UTF-8, NUL, formulas, CSV's own signs. */
static const struct {
    const char *bytes;
    int n;
} hostile[] = {{"\x1b[31m", 5},
               {"\xe2\x80\xae", 3},
               {"\xe2\x8a", 2},
               {"\0", 1},
               {"=1+2", 4},
               {"@SUM(A1)", 8},
               {"\"", 1},
               {",", 1},
               {"\r\n", 2},
               {"\t", 1},
               {"\xff\xfe", 2},
               {"e\xcc\x81", 3},
               {"\xf0\x9f\x98\x80", 4},
               {"", 0},
               {"-2", 2},
               {"+cmd|' /C'!A0", 13}};

enum {
    N_WORD = sizeof words / sizeof words[0],
    N_HOSTILE = sizeof hostile / sizeof hostile[0]
};
enum { N_VOCAB = 256 };

synth_spec synth_default(void)
{
    return (synth_spec){.n_layer = 2,
                        .n_head = 4,
                        .n_kv_head = 2,
                        .head_dim = 8,
                        .n_prompt = 24,
                        .n_response = 6,
                        .seed = 1,
                        .level = KVT_REPLAY,
                        .delay = 5,
                        .block_tokens = 8,
                        .last_queries = 8,
                        .sharpness = 2,
                        .draft_budget = {8, 16},
                        .probe_rows = 5};
}

static void *need(void *p)
{
    if (!p) {
        fputs("synth: out of memory\n", stderr);
        exit(1);
    }
    return p;
}

/* Sum of twelve uniforms: near enough to a normal number, and the same on every machine. */
static float normal(uint64_t rng[RNG_WORDS])
{
    double x = -6;
    for (int i = 0; i < 12; i++)
        x += rng_real(rng);
    return (float)x;
}

static void *array(synth *s, kvt_ds ds)
{
    const kvt_dataset *d = kvt_dataset_of(ds);
    int64_t n = 1;
    for (int i = 0; d->axes[i]; i++)
        n *= s->dim[ds][i];
    return s->data[ds] = need(kvt_alloc(n, kvt_dtype_size(d->dtype)));
}

static int64_t T_of(const synth *s)
{
    return s->spec.n_prompt + s->spec.n_response;
}

double synth_attn(const synth *s, int layer, int head, int64_t q, int64_t k)
{
    int64_t T = T_of(s);
    return s->attn[(((int64_t)layer * s->spec.n_head + head) * T + q) * T + k];
}

/* ---- facts ---------------------------------------------------------------------------------
 */

static int64_t blocks_of(int64_t n, int64_t size)
{
    return (n + size - 1) / size;
}

static void make_geometry(synth *s)
{
    kvt_geometry *g = &s->out.facts.model;
    const synth_spec *p = &s->spec;
    snprintf(g->name, sizeof g->name, "synthetic");
    snprintf(g->arch, sizeof g->arch, "llama");
    g->n_layer = p->model_layers ? p->model_layers : p->n_layer;
    g->n_head = p->n_head;
    g->n_kv_head = p->n_kv_head;
    g->head_dim = p->head_dim;
    g->n_hidden = (int64_t)p->n_head * p->head_dim;
    g->n_ff = 2 * g->n_hidden;
    g->n_vocab = N_VOCAB;
    g->n_context = 4096;
    g->norm_eps = 1e-5;
    g->attn_scale = 1 / sqrt(p->head_dim);
    g->embed_scale = 1;
    snprintf(g->rope_type, sizeof g->rope_type, "none");
    snprintf(g->rope_layout, sizeof g->rope_layout, "half");
    g->rope_theta = 10000;
    g->rope_factor = 1;
    g->rope_attn_factor = 1;
    for (int i = 0; i < p->head_dim / 2; i++)
        g->rope_freq[i] = pow(10000, -2.0 * i / p->head_dim);
    for (int l = 0; l < p->n_layer; l++) {
        s->out.layer_id[l] = (int32_t)(g->n_layer - p->n_layer + l);
        if (l % 2)
            g->window[s->out.layer_id[l]] = (int32_t)p->window;
    }
    s->out.n_layer = p->n_layer;
}

static void make_facts(synth *s)
{
    kvt_trace_facts *f = &s->out.facts;
    const synth_spec *p = &s->spec;
    kvt_token_info *t = &f->token;
    make_geometry(s);
    snprintf(f->weights_digest, sizeof f->weights_digest, "%032d", 7);
    snprintf(f->weights_type, sizeof f->weights_type, "f32");
    snprintf(f->tokenizer, sizeof f->tokenizer, "words");
    *t = (kvt_token_info){.n_prompt = p->n_prompt,
                          .n_response = p->n_response,
                          .look_until = p->n_prompt,
                          .prefix_end = p->n_prompt < 2 ? p->n_prompt : 2,
                          .bos = true};
    snprintf(t->stop_reason, sizeof t->stop_reason, p->n_response ? "length" : "none");
    if (p->n_prompt > 8) {
        f->n_span = 2;
        f->span[0] = (kvt_span){.name = "context", .begin = 2, .end = p->n_prompt - 4};
        f->span[1] =
            (kvt_span){.name = "question", .begin = p->n_prompt - 4, .end = p->n_prompt};
    }
    f->level = p->level;
    f->seed = p->seed;
    snprintf(f->sampling, sizeof f->sampling, "greedy");
    snprintf(f->attention, sizeof f->attention, "plain loops");
    snprintf(f->attention_types, sizeof f->attention_types, "f64");
    snprintf(f->options_digest, sizeof f->options_digest, "%032llx",
             (unsigned long long)p->seed);
    snprintf(f->created, sizeof f->created, "2000-01-01T00:00:00Z");
    snprintf(f->command, sizeof f->command, "synth");
    f->block_tokens = p->block_tokens;
    f->delay = p->delay;
    f->no_text = p->no_text;
    if (p->decision_policy) {
        snprintf(f->decision_policy, sizeof f->decision_policy, "%s", p->decision_policy);
        snprintf(f->decision_cache, sizeof f->decision_cache, "dense");
        f->decision_shift = p->decision_shift;
    }
}

static void make_extents(synth *s)
{
    const synth_spec *p = &s->spec;
    kvt_writer_spec *o = &s->out;
    int64_t stored =
        p->last_queries < 0 || p->last_queries > p->n_prompt ? p->n_prompt : p->last_queries;
    o->n_query = stored + p->n_response;
    o->n_block =
        blocks_of(p->n_prompt, p->block_tokens) + blocks_of(p->n_response, p->block_tokens);
    o->compress = p->compress;
    o->force = p->force;
    for (int ds = 0; ds < KVT_DS_COUNT; ds++)
        for (int i = 0; kvt_dataset_of((kvt_ds)ds)->axes[i]; i++) {
            int64_t n = 0;
            switch (kvt_dataset_of((kvt_ds)ds)->axes[i]) {
            case 'L': n = p->n_layer; break;
            case 'H': n = p->n_head; break;
            case 'G': n = p->n_kv_head; break;
            case 'D': n = p->head_dim; break;
            case 'F': n = p->head_dim / 2; break;
            case 'E': n = o->facts.model.n_hidden; break;
            case 'N': n = p->n_prompt; break;
            case 'M': n = p->n_response; break;
            case 'T': n = T_of(s); break;
            case 'U': n = T_of(s) + 1; break;
            case 'Q': n = o->n_query; break;
            case 'J': n = o->n_block; break;
            case 'I': n = o->n_block + 1; break;
            case 'X': n = KVT_TOP; break;
            case 'Z': n = o->n_text; break;
            case 'Y': n = o->n_raw; break;
            default: break;
            }
            s->dim[ds][i] = n;
        }
}

/* ---- text ----------------------------------------------------------------------------------
 */

static const char *token_bytes(const synth *s, int64_t t, int *n)
{
    if (s->spec.hostile && t >= 2) {
        int i = (int)(t % N_HOSTILE);
        *n = hostile[i].n;
        return hostile[i].bytes;
    }
    const char *w = words[t % N_WORD];
    *n = (int)strlen(w);
    return w;
}

static void make_text(synth *s)
{
    const synth_spec *p = &s->spec;
    int32_t *id = array(s, KVT_DS_TOKEN_ID);
    int64_t *offset = array(s, KVT_DS_TOKEN_OFFSET);
    uint8_t *flag = array(s, KVT_DS_TOKEN_FLAG);
    for (int64_t t = 0; t < T_of(s); t++) {
        int n;
        token_bytes(s, t, &n);
        id[t] = (int32_t)(p->hostile && t >= 2 ? 100 + t % N_HOSTILE : t % N_WORD);
        offset[t + 1] = offset[t] + n;
        flag[t] = t >= p->n_prompt ? 8 : t < 2 ? 3 : 0;
    }
    if (p->no_text)
        return;
    s->out.n_text = offset[T_of(s)];
    s->out.n_raw = offset[p->n_prompt];
    make_extents(s);
    char *text = array(s, KVT_DS_TEXT_BYTES), *raw = array(s, KVT_DS_TEXT_RAW);
    for (int64_t t = 0; t < T_of(s); t++) {
        int n;
        const char *b = token_bytes(s, t, &n);
        if (n)
            memcpy(text + offset[t], b, (size_t)n);
    }
    memcpy(raw, text, (size_t)s->out.n_raw);
}

/* ---- attention -----------------------------------------------------------------------------
 */

typedef struct parts {
    double *q, *k, *v; /* [L H T D], [L G T D]: the stored halves */
} parts;

/* Numbers from..from + n - 1 of that kind. */
static double *halves(const synth *s, uint64_t rng[RNG_WORDS], synth_kind kind, int64_t from,
                      int64_t n, double factor, uint16_t *store)
{
    double *x = need(kvt_alloc(n, sizeof *x));
    for (int64_t i = 0; i < n; i++) {
        uint16_t h = half_from_float(s->spec.draw ? s->spec.draw(&s->spec, kind, from + i)
                                                  : (float)factor * normal(rng));
        x[i] = (double)half_to_float(h);
        if (store)
            store[i] = h;
    }
    return x;
}

static double dot(const double *a, const double *b, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Rows of one head: logits, softmax over what is seen, log-sum-exp. */
static void head_rows(synth *s, const parts *x, int l, int h, float *lse)
{
    const synth_spec *p = &s->spec;
    const kvt_geometry *g = &s->out.facts.model;
    int64_t T = T_of(s), D = p->head_dim, lh = (int64_t)l * p->n_head + h;
    int64_t lg = (int64_t)l * p->n_kv_head + h / (p->n_head / p->n_kv_head);
    for (int64_t q = 0; q < T; q++) {
        double *row = s->attn + (lh * T + q) * T, *z = s->logit + (lh * T + q) * T;
        double most = -INFINITY, sum = 0;
        for (int64_t k = 0; k < T; k++) {
            z[k] = kvt_geometry_sees(g, s->out.layer_id[l], q, k)
                       ? g->attn_scale *
                             dot(x->q + (lh * T + q) * D, x->k + (lg * T + k) * D, (int)D)
                       : -INFINITY;
            most = z[k] > most ? z[k] : most;
        }
        for (int64_t k = 0; k < T; k++)
            sum += row[k] = exp(z[k] - most);
        for (int64_t k = 0; k < T; k++)
            row[k] /= sum;
        lse[q] = (float)(most + log(sum));
    }
}

/* Sums and maxima over columns: prompt queries, response queries, delayed ones. */
static void head_columns(synth *s, int l, int h)
{
    const synth_spec *p = &s->spec;
    int64_t T = T_of(s), N = p->n_prompt, M = p->n_response, lh = (int64_t)l * p->n_head + h;
    float *sum = s->data[KVT_DS_COL_SUM], *max = s->data[KVT_DS_COL_MAX];
    float *mean = s->data[KVT_DS_FUTURE_MEAN], *top = s->data[KVT_DS_FUTURE_MAX];
    float *late = s->data[KVT_DS_FUTURE_DELAYED];
    for (int64_t k = 0; k < T; k++) {
        double past = 0, past_max = 0, next = 0, next_max = 0, far = 0;
        for (int64_t q = 0; q < T; q++) {
            double a = synth_attn(s, l, h, q, k);
            if (q < N) {
                past += a;
                past_max = fmax(past_max, a);
            } else {
                next += a;
                next_max = fmax(next_max, a);
            }
            far += q - k >= p->delay ? a : 0;
        }
        int64_t n_far = T - k - p->delay;
        late[lh * T + k] = n_far <= 0 ? NAN : (float)log(far / (double)n_far);
        if (k >= N)
            continue;
        sum[lh * N + k] = (float)past;
        max[lh * N + k] = (float)past_max;
        if (M) {
            mean[lh * N + k] = (float)(next / (double)M);
            top[lh * N + k] = (float)next_max;
        }
    }
}

static void head_blocks(synth *s, int l, int h)
{
    int64_t T = T_of(s), J = s->out.n_block, lh = (int64_t)l * s->spec.n_head + h;
    const int32_t *start = s->data[KVT_DS_BLOCK_START];
    uint16_t *sum = s->data[KVT_DS_BLOCK_SUM], *max = s->data[KVT_DS_BLOCK_MAX];
    for (int64_t j = 0; j < J; j++)
        for (int64_t k = 0; k < T; k++) {
            double a = 0, most = 0;
            for (int64_t q = start[j]; q < start[j + 1]; q++) {
                a += synth_attn(s, l, h, q, k);
                most = fmax(most, synth_attn(s, l, h, q, k));
            }
            sum[(lh * J + j) * T + k] =
                half_from_float((float)(1024 * a / (start[j + 1] - start[j])));
            if (max)
                max[(lh * J + j) * T + k] = half_from_float((float)most);
        }
}

static void make_blocks(synth *s)
{
    int32_t *start = array(s, KVT_DS_BLOCK_START);
    int64_t n = 0;
    for (int64_t q = 0; q < s->spec.n_prompt; q += s->spec.block_tokens)
        start[n++] = (int32_t)q;
    for (int64_t q = s->spec.n_prompt; q < T_of(s); q += s->spec.block_tokens)
        start[n++] = (int32_t)q;
    start[n] = (int32_t)T_of(s);
}

/* The stored queries and, from the exact rows, their rows as halves. */
static void make_queries(synth *s, const parts *x)
{
    const synth_spec *p = &s->spec;
    int64_t T = T_of(s), Q = s->out.n_query, D = p->head_dim;
    int32_t *pos = array(s, KVT_DS_QUERY_POS);
    uint16_t *q = array(s, KVT_DS_QUERIES);
    uint16_t *rows = p->no_rows ? NULL : array(s, KVT_DS_ROWS);
    for (int64_t i = 0; i < Q; i++)
        pos[i] = (int32_t)(T - Q + i);
    for (int64_t lh = 0; lh < (int64_t)p->n_layer * p->n_head; lh++)
        for (int64_t i = 0; i < Q; i++) {
            for (int64_t d = 0; d < D; d++)
                q[(lh * Q + i) * D + d] =
                    half_from_float((float)x->q[(lh * T + pos[i]) * D + d]);
            for (int64_t k = 0; k < T && rows; k++)
                rows[(lh * Q + i) * T + k] =
                    half_from_float((float)s->attn[(lh * T + pos[i]) * T + k]);
        }
}

/* Mean, covariance and magnitudes of the prompt's queries, turned back by RoPE's angle; the
 * first four positions are left out. */
static void head_moments(synth *s, const parts *x, int64_t lh)
{
    const synth_spec *p = &s->spec;
    int D = p->head_dim, F = D / 2;
    int64_t T = T_of(s), first = 4, n = p->n_prompt - first;
    float *mean = (float *)s->data[KVT_DS_QUERY_MEAN] + lh * D;
    float *cov = (float *)s->data[KVT_DS_QUERY_COV] + lh * D * D;
    float *freq = (float *)s->data[KVT_DS_QUERY_FREQ] + lh * F;
    if (n <= 0)
        return;
    double *raw = need(kvt_alloc(n * D, sizeof *raw)), *m = need(kvt_alloc(D, sizeof *m));
    for (int64_t i = 0; i < n; i++)
        for (int f = 0; f < F; f++) {
            const double *q = x->q + (lh * T + first + i) * D;
            double angle = (double)(first + i) * s->out.facts.model.rope_freq[f];
            raw[i * D + f] = q[f] * cos(angle) + q[f + F] * sin(angle);
            raw[i * D + f + F] = q[f + F] * cos(angle) - q[f] * sin(angle);
            freq[f] += (float)(hypot(q[f], q[f + F]) / (double)n);
        }
    for (int d = 0; d < D; d++) {
        for (int64_t i = 0; i < n; i++)
            m[d] += raw[i * D + d] / (double)n;
        mean[d] = (float)m[d];
    }
    for (int a = 0; a < D; a++)
        for (int b = 0; b < D; b++) {
            double sum = 0;
            for (int64_t i = 0; i < n; i++)
                sum += (raw[i * D + a] - m[a]) * (raw[i * D + b] - m[b]);
            cov[a * D + b] = (float)(sum / (double)n);
        }
    kvt_free(raw);
    kvt_free(m);
}

static void make_values(synth *s, const parts *x, uint64_t rng[RNG_WORDS])
{
    const synth_spec *p = &s->spec;
    int64_t T = T_of(s), D = p->head_dim, E = s->out.facts.model.n_hidden;
    float *l1 = array(s, KVT_DS_WO_L1), *l2 = array(s, KVT_DS_WO_L2);
    for (int l = 0; l < p->n_layer; l++)
        for (int h = 0; h < p->n_head; h++) {
            int64_t at = ((int64_t)l * p->n_head + h) * D * E;
            double *wo = halves(s, rng, SYNTH_WO, at, D * E, 0.1, NULL); /* [D E] */
            int64_t lg = (int64_t)l * p->n_kv_head + h / (p->n_head / p->n_kv_head);
            for (int64_t t = 0; t < T; t++) {
                double a = 0, b = 0;
                for (int64_t e = 0; e < E; e++) {
                    double y = 0;
                    for (int64_t d = 0; d < D; d++)
                        y += x->v[(lg * T + t) * D + d] * wo[d * E + e];
                    a += fabs(y);
                    b += y * y;
                }
                l1[((int64_t)l * p->n_head + h) * T + t] = (float)a;
                l2[((int64_t)l * p->n_head + h) * T + t] = (float)sqrt(b);
            }
            kvt_free(wo);
        }
}

static void make_hidden(synth *s, uint64_t rng[RNG_WORDS])
{
    float *norm = array(s, KVT_DS_HIDDEN_NORM);
    uint16_t *x = array(s, KVT_DS_HIDDEN);
    int64_t n = s->spec.n_layer * T_of(s), E = s->out.facts.model.n_hidden;
    for (int64_t i = 0; i < n; i++)
        norm[i] = (float)(1 + rng_real(rng) * 10);
    for (int64_t i = 0; i < n * E; i++)
        x[i] = half_from_float(normal(rng));
}

/* Joins weigh from 0 to 1; a lane's scores decay by 0.999 to 1 a token. */
static void make_decisions(synth *s, uint64_t rng[RNG_WORDS])
{
    float *logit = array(s, KVT_DS_DECISION), *weight = array(s, KVT_DS_DECISION_W);
    float *gamma = array(s, KVT_DS_DECISION_G);
    int64_t lanes = (int64_t)s->spec.n_layer * s->spec.n_kv_head;
    for (int64_t i = 0; i < lanes * T_of(s); i++) {
        logit[i] = normal(rng);
        weight[i] = (float)rng_real(rng);
    }
    for (int64_t i = 0; i < lanes; i++)
        gamma[i] = (float)(0.999 + rng_real(rng) / 1000);
}

static void make_logits(synth *s, uint64_t rng[RNG_WORDS])
{
    int32_t *id = array(s, KVT_DS_LOGIT_ID);
    float *logp = array(s, KVT_DS_LOGIT_LOGP), *nll = array(s, KVT_DS_LOGIT_NLL);
    float *entropy = array(s, KVT_DS_LOGIT_ENTROPY);
    const int32_t *token = s->data[KVT_DS_TOKEN_ID];
    for (int64_t m = 0; m < s->spec.n_response; m++) {
        double z[N_VOCAB], sum = 0, h = 0;
        for (int v = 0; v < N_VOCAB; v++)
            sum += exp(z[v] = 2 * (double)normal(rng));
        for (int v = 0; v < N_VOCAB; v++) {
            z[v] -= log(sum);
            h -= z[v] * exp(z[v]);
        }
        nll[m] = (float)-z[token[s->spec.n_prompt + m]];
        entropy[m] = (float)h;
        for (int i = 0; i < KVT_TOP; i++) {
            int best = 0;
            for (int v = 1; v < N_VOCAB; v++)
                best = z[v] > z[best] ? v : best;
            id[m * KVT_TOP + i] = best;
            logp[m * KVT_TOP + i] = (float)z[best];
            z[best] = -INFINITY;
        }
    }
}

/* ---- all of it -----------------------------------------------------------------------------
 */

static void make_attention(synth *s, const parts *x)
{
    const synth_spec *p = &s->spec;
    int64_t T = T_of(s), n = (int64_t)p->n_layer * p->n_head;
    s->attn = need(kvt_alloc(n * T * T, sizeof *s->attn));
    s->logit = need(kvt_alloc(n * T * T, sizeof *s->logit));
    float *lse = array(s, KVT_DS_LSE);
    array(s, KVT_DS_COL_SUM);
    array(s, KVT_DS_COL_MAX);
    array(s, KVT_DS_FUTURE_DELAYED);
    array(s, KVT_DS_BLOCK_SUM);
    array(s, KVT_DS_BLOCK_MAX);
    array(s, KVT_DS_QUERY_MEAN);
    array(s, KVT_DS_QUERY_COV);
    array(s, KVT_DS_QUERY_FREQ);
    if (p->n_response) {
        array(s, KVT_DS_FUTURE_MEAN);
        array(s, KVT_DS_FUTURE_MAX);
    }
    make_blocks(s);
    for (int l = 0; l < p->n_layer; l++)
        for (int h = 0; h < p->n_head; h++) {
            int64_t lh = (int64_t)l * p->n_head + h;
            head_rows(s, x, l, h, lse + lh * T);
            head_columns(s, l, h);
            head_blocks(s, l, h);
            head_moments(s, x, lh);
        }
}

/* An attention sink: the last channel adds scale x sink^2 to the logit of key 0, nothing
 * elsewhere.
 */
static void make_sink(synth *s, parts *x)
{
    const synth_spec *p = &s->spec;
    int64_t T = T_of(s), D = p->head_dim;
    uint16_t *k = s->data[KVT_DS_KEYS], on = half_from_float((float)p->sink);
    for (int64_t i = 0; i < p->n_layer * p->n_head * T; i++)
        x->q[i * D + D - 1] = (double)half_to_float(on);
    for (int64_t i = 0; i < p->n_layer * p->n_kv_head * T; i++) {
        bool first = i % T == 0;
        k[i * D + D - 1] = first ? on : 0;
        x->k[i * D + D - 1] = first ? (double)half_to_float(on) : 0;
    }
}

synth *synth_new(const synth_spec *spec)
{
    synth *s = need(kvt_alloc(1, sizeof *s));
    uint64_t rng[RNG_WORDS];
    s->spec = *spec;
    rng_init(rng, &spec->seed, sizeof spec->seed);
    make_facts(s);
    make_extents(s);
    make_text(s);
    int64_t T = T_of(s), n = spec->n_layer * T * spec->head_dim;
    int32_t *layer = array(s, KVT_DS_LAYER_ID);
    memcpy(layer, s->out.layer_id, (size_t)spec->n_layer * sizeof *layer);
    int64_t n_kv = n * spec->n_kv_head;
    parts x = {.q = halves(s, rng, SYNTH_Q, 0, n * spec->n_head, spec->sharpness, NULL),
               .k = halves(s, rng, SYNTH_K, 0, n_kv, 1, array(s, KVT_DS_KEYS)),
               .v = halves(s, rng, SYNTH_V, 0, n_kv, 1, array(s, KVT_DS_VALUES))};
    if (spec->sink > 0)
        make_sink(s, &x);
    make_attention(s, &x);
    make_queries(s, &x);
    make_values(s, &x, rng);
    make_hidden(s, rng);
    make_logits(s, rng);
    if (spec->decision_policy)
        make_decisions(s, rng);
    kvt_free(x.q);
    kvt_free(x.k);
    kvt_free(x.v);
    return s;
}

void synth_free(synth *s)
{
    if (!s)
        return;
    for (int ds = 0; ds < KVT_DS_COUNT; ds++)
        kvt_free(s->data[ds]);
    for (int i = 0; i < s->n_probe; i++)
        for (int set = 0; set < KVT_PROBE_SETS; set++)
            kvt_free((void *)(uintptr_t)s->probe[i].data[set]);
    kvt_free(s->attn);
    kvt_free(s->logit);
    kvt_free(s);
}

kvt_view synth_view(const synth *s, kvt_ds ds, int layer)
{
    const kvt_dataset *d = kvt_dataset_of(ds);
    kvt_view v = kvt_view_of(s->data[ds], d->dtype, d->axes, strlen(d->axes), s->dim[ds]);
    return d->axes[0] == 'L' && d->axes[1] ? kvt_view_at(&v, layer) : v;
}

/* Datasets of the level; `train` is a list of its own (kvt/trace.h has no public one). */
static bool wanted(const synth *s, kvt_ds ds)
{
    const kvt_dataset *d = kvt_dataset_of(ds);
    if (!s->data[ds])
        return false;
    if (s->spec.level != KVT_TRAIN)
        return d->level <= s->spec.level;
    return ds <= KVT_DS_LSE || ds == KVT_DS_KEYS || ds == KVT_DS_VALUES ||
           ds == KVT_DS_FUTURE_MEAN || ds == KVT_DS_FUTURE_MAX || ds == KVT_DS_FUTURE_DELAYED;
}

kvt_code synth_write(const synth *s, const char *path, kvt_err *err)
{
    kvt_writer *w;
    if (kvt_writer_open(&w, path, &s->out, err))
        return err->code;
    for (int ds = 0; ds < KVT_DS_COUNT; ds++) {
        const kvt_dataset *d = kvt_dataset_of((kvt_ds)ds);
        int n = d->axes[0] == 'L' && d->axes[1] ? s->spec.n_layer : 1;
        for (int l = 0; l < n && wanted(s, (kvt_ds)ds); l++) {
            kvt_view v = synth_view(s, (kvt_ds)ds, l);
            if (kvt_writer_put(w, (kvt_ds)ds, l, &v, err)) {
                kvt_writer_abort(w);
                return err->code;
            }
        }
    }
    if (s->write_probes && s->write_probes(s, w, err)) {
        kvt_writer_abort(w);
        return err->code;
    }
    return kvt_writer_close(w, err);
}

kvt_code synth_file(const synth_spec *spec, const char *path, kvt_err *err)
{
    synth *s = synth_new(spec);
    kvt_code code = synth_write(s, path, err);
    synth_free(s);
    return code;
}
