/* check_toy.c - a small prompt made of random numbers. */
#include "replay/check_toy.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "kvt/pieces.h"

enum {
    L = TOY_LAYERS,
    H = TOY_HEADS,
    G = TOY_GROUPS,
    D = TOY_DIM,
    E = TOY_HIDDEN,
    PER = H / G
};
enum { BLOCK = 16 };

static const size_t memory_limit = (size_t)1 << 28;

/* ---- numbers -------------------------------------------------------------------------------
 */

/* About normal, of variance 1, from three uniform numbers. */
static float draw(uint64_t *rng)
{
    double sum = 0;
    for (int i = 0; i < 3; i++)
        sum += kvt_random(rng);
    return (float)(2 * sum - 3);
}

static float *numbers(kvt_arena *a, int64_t n)
{
    return kvt_arena_array(a, n, sizeof(float));
}

/* Values of one head of one layer, from a stream of its own: exchanged heads exchange them. */
static void fill_head(float *out, int64_t n, uint64_t seed, const char *what, int layer,
                      int head)
{
    uint64_t rng[RNG_WORDS];
    char key[64];
    int len =
        snprintf(key, sizeof key, "%llu|%s|%d|%d", (unsigned long long)seed, what, layer, head);
    rng_init(rng, key, (size_t)len);
    for (int64_t i = 0; i < n; i++)
        out[i] = draw(rng);
}

static void fill_heads(float *out, int64_t n, int n_head, uint64_t seed, const char *what,
                       bool exchange)
{
    int per = n_head / G;
    for (int l = 0; l < L; l++)
        for (int h = 0; h < n_head; h++) {
            int from = exchange ? (G - 1 - h / per) * per + h % per : h;
            fill_head(out + (l * n_head + h) * n, n, seed, what, l, from);
        }
}

/* ---- attention -----------------------------------------------------------------------------
 */

static double logit(const check_toy *t, toy_kind kind, int l, int h, int64_t i, int64_t j)
{
    const float *q = t->query + ((l * H + h) * t->T + i) * D;
    const float *k = t->key + ((l * G + h / PER) * t->T + j) * D;
    double z = 0;
    if (kind != TOY_RANDOM)
        return kind == TOY_ZERO && j < i ? -1000 : 0;
    for (int d = 0; d < D; d++)
        z += (double)q[d] * (double)k[d];
    return z * t->geometry.attn_scale * 3;
}

static void fill_row(check_toy *t, toy_kind kind, int l, int h, int64_t i)
{
    int64_t at = ((l * H + h) * t->T + i) * t->T;
    float *row = t->rows + at, *z = t->logits + at;
    double most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < t->T; j++)
        z[j] = j <= i ? (float)logit(t, kind, l, h, i, j) : -INFINITY;
    for (int64_t j = 0; j <= i; j++)
        most = fmax(most, (double)z[j]);
    for (int64_t j = 0; j <= i; j++)
        sum += exp((double)z[j] - most);
    for (int64_t j = 0; j < t->T; j++)
        row[j] = j <= i ? (float)(exp((double)z[j] - most) / sum) : 0;
}

/* Sums, maxima and blocks over the prompt's rows. */
static void fill_columns(check_toy *t, int l, int h)
{
    int64_t n_block = (t->N + BLOCK - 1) / BLOCK, at = l * H + h;
    for (int64_t i = 0; i < t->N; i++)
        for (int64_t j = 0; j <= i; j++) {
            float x = t->rows[(at * t->T + i) * t->T + j];
            int64_t rows = kvt_min(BLOCK, t->N - i / BLOCK * BLOCK);
            t->column[at * t->N + j] += x;
            t->maximum[at * t->N + j] = fmaxf(t->maximum[at * t->N + j], x);
            t->block[(at * n_block + i / BLOCK) * t->N + j] += x / (float)rows;
        }
}

/* Moments of the queries from position 4 on; a made-up covariance that is positive. */
static void fill_moments(check_toy *t, int l, int h)
{
    int64_t at = l * H + h, n = kvt_max(t->N - 4, 1);
    float *mean = t->mean + at * D, *cov = t->cov + at * D * D, *freq = t->freq + at * D / 2;
    const float *q = t->query + at * t->T * D;
    for (int64_t i = kvt_min(4, t->N - 1); i < t->N; i++)
        for (int d = 0; d < D; d++) {
            mean[d] += q[i * D + d] / (float)n;
            cov[d * D + d] += q[i * D + d] * q[i * D + d] / (float)n;
            freq[d % (D / 2)] += fabsf(q[i * D + d]) / (float)n;
        }
}

static void set_geometry(check_toy *t)
{
    kvt_geometry *g = &t->geometry;
    *g = (kvt_geometry){.n_layer = L,
                        .n_head = H,
                        .n_kv_head = G,
                        .head_dim = D,
                        .n_hidden = E,
                        .attn_scale = 1 / sqrt((double)D),
                        .rope_factor = 1,
                        .rope_attn_factor = 1,
                        .rope_theta = 10000};
    for (int f = 0; f < D / 2; f++)
        g->rope_freq[f] = pow(10000, -2.0 * f / D);
}

static bool set_arrays(check_toy *t)
{
    kvt_arena *a = t->memory;
    int64_t n = t->T, n_block = (t->N + BLOCK - 1) / BLOCK;
    t->rows = numbers(a, L * H * n * n), t->logits = numbers(a, L * H * n * n);
    t->query = numbers(a, L * H * n * D), t->key = numbers(a, L * G * n * D);
    t->value = numbers(a, L * G * n * D), t->wo = numbers(a, L * H * n);
    t->column = numbers(a, L * H * t->N), t->maximum = numbers(a, L * H * t->N);
    t->block = numbers(a, L * H * n_block * t->N), t->hidden = numbers(a, L * n * E);
    t->decision = numbers(a, L * G * n), t->score = numbers(a, L * H * t->N);
    t->mean = numbers(a, L * H * D), t->cov = numbers(a, L * H * D * D);
    t->freq = numbers(a, L * H * D / 2);
    return t->rows && t->logits && t->query && t->key && t->value && t->wo && t->column &&
           t->maximum && t->block && t->hidden && t->decision && t->score && t->mean &&
           t->cov && t->freq;
}

static bool set_sequence(check_toy *t)
{
    int32_t *id = kvt_arena_array(t->memory, t->T, sizeof *id);
    uint8_t *flag = kvt_arena_array(t->memory, t->T, sizeof *flag);
    int32_t *layer = kvt_arena_array(t->memory, L, sizeof *layer);
    float *mass = numbers(t->memory, L * G * KVT_POSITION_BINS);
    if (!id || !flag || !layer || !mass)
        return false;
    for (int64_t i = 0; i < t->T; i++) {
        id[i] = (int32_t)(i * 7 % 101);
        flag[i] = i == 0 ? KVT_TOKEN_SPECIAL : i >= t->N ? KVT_TOKEN_RESPONSE : 0;
    }
    for (int l = 0; l < L; l++)
        layer[l] = l;
    for (int i = 0; i < L * G * KVT_POSITION_BINS; i++) /* the same for every kv head */
        mass[i] = 1 / (float)(1 + i % KVT_POSITION_BINS);
    t->seq = (kvt_sequence){.n_prompt = t->N,
                            .n_response = t->M,
                            .look_until = t->N,
                            .id = id,
                            .flag = flag,
                            .geometry = &t->geometry,
                            .layer_id = layer,
                            .n_layer = L,
                            .position_mass = mass};
    return true;
}

static void fill(check_toy *t, uint64_t seed, toy_kind kind, bool exchange)
{
    fill_heads(t->query, t->T * D, H, seed, "query", exchange);
    fill_heads(t->key, t->T * D, G, seed, "key", exchange);
    fill_heads(t->value, t->T * D, G, seed, "value", exchange);
    fill_heads(t->decision, t->T, G, seed, "decision", exchange);
    fill_heads(t->wo, t->T, H, seed, "norm", exchange);
    fill_heads(t->score, t->N, H, seed, "score", exchange);
    for (int l = 0; l < L; l++)
        fill_head(t->hidden + l * t->T * E, t->T * E, seed, "hidden", l, 0);
    for (int64_t i = 0; i < L * H * t->T; i++)
        t->wo[i] = fabsf(t->wo[i]);
    for (int64_t i = 0; kind == TOY_FLAT && i < L * G * t->T * D; i++)
        t->key[i] = t->value[i] = i % D == 0; /* every token is the same */
    for (int l = 0; l < L; l++)
        for (int h = 0; h < H; h++) {
            for (int64_t i = 0; i < t->T; i++)
                fill_row(t, kind, l, h, i);
            fill_columns(t, l, h);
            fill_moments(t, l, h);
        }
}

check_toy *check_toy_new(uint64_t seed, int64_t n_prompt, toy_kind kind, bool exchange)
{
    kvt_arena *a = kvt_arena_new(memory_limit);
    check_toy *t = a ? kvt_arena_array(a, 1, sizeof *t) : NULL;
    if (!t) {
        kvt_arena_free(a);
        return NULL;
    }
    t->memory = a;
    t->N = n_prompt, t->M = TOY_RESPONSE, t->T = t->N + t->M;
    set_geometry(t);
    if (!set_arrays(t) || !set_sequence(t)) {
        kvt_arena_free(a);
        return NULL;
    }
    fill(t, seed, kind, exchange);
    return t;
}

void check_toy_free(check_toy *t)
{
    if (t)
        kvt_arena_free(t->memory);
}

/* ---- feeds ---------------------------------------------------------------------------------
 */

/* The first n of an axis of a view over all T tokens. */
static kvt_view view(const float *data, const char *axes, size_t rank, const int64_t *dim,
                     int axis, int64_t n)
{
    kvt_view v = kvt_view_of(data, KVT_F32, axes, rank, dim);
    v.dim[axis] = n;
    return v;
}

/* Rows first..first+n-1 of every head, n_seen tokens of each. */
static kvt_view rows(const check_toy *t, const float *all, int layer, int64_t first, int64_t n,
                     int64_t n_seen)
{
    kvt_view v =
        view(all + layer * H * t->T * t->T, KVT_SHAPE("HQT", H, t->T, t->T), 2, n_seen);
    v.data = (const float *)v.data + first * t->T;
    v.dim[1] = n;
    return v;
}

/* All that does not depend on whether the prompt has ended. */
static kvt_feed common(const check_toy *t, int l, int64_t n, bool by_head)
{
    int64_t T = t->T, N = t->N, A = by_head ? H : G, n_block = (N + BLOCK - 1) / BLOCK;
    kvt_view score = kvt_view_of(t->score + l * H * N, KVT_F32, KVT_SHAPE("AN", A, N));
    score.stride[0] *= by_head ? 1 : PER; /* those of the first query head of each kv head */
    return (kvt_feed){
        .keys = view(t->key + l * G * T * D, KVT_SHAPE("GTD", G, T, D), 1, n),
        .values = view(t->value + l * G * T * D, KVT_SHAPE("GTD", G, T, D), 1, n),
        .col_sum = kvt_view_of(t->column + l * H * N, KVT_F32, KVT_SHAPE("HN", H, N)),
        .col_max = kvt_view_of(t->maximum + l * H * N, KVT_F32, KVT_SHAPE("HN", H, N)),
        .blocks = kvt_view_of(t->block + l * H * n_block * N, KVT_F32,
                              KVT_SHAPE("HJN", H, n_block, N)),
        .query_mean = kvt_view_of(t->mean + l * H * D, KVT_F32, KVT_SHAPE("HD", H, D)),
        .query_cov = kvt_view_of(t->cov + l * H * D * D, KVT_F32, KVT_SHAPE("HDD", H, D, D)),
        .query_freq_abs =
            kvt_view_of(t->freq + l * H * D / 2, KVT_F32, KVT_SHAPE("HF", H, D / 2)),
        .wo_l1 = view(t->wo + l * H * T, KVT_SHAPE("HT", H, T), 1, n),
        .wo_l2 = view(t->wo + l * H * T, KVT_SHAPE("HT", H, T), 1, n),
        .hidden = view(t->hidden + l * T * E, KVT_SHAPE("TE", T, E), 0, n),
        .decision = view(t->decision + l * G * T, KVT_SHAPE("GT", G, T), 1, n),
        .scores = score,
    };
}

static kvt_view queries(const check_toy *t, int layer, int64_t first, int64_t n)
{
    kvt_view v =
        kvt_view_of(t->query + layer * H * t->T * D, KVT_F32, KVT_SHAPE("HQD", H, t->T, D));
    v.data = (const float *)v.data + first * D;
    v.dim[1] = n;
    return v;
}

kvt_feed check_toy_prompt(const check_toy *t, int layer, bool by_head)
{
    kvt_feed f = common(t, layer, t->N, by_head);
    f.rows = rows(t, t->rows, layer, 0, t->N, t->N);
    f.logits = rows(t, t->logits, layer, 0, t->N, t->N);
    f.queries = queries(t, layer, 0, t->N);
    f.future = rows(t, t->rows, layer, t->N, t->M, t->N);
    return f;
}

kvt_feed check_toy_token(const check_toy *t, int layer, int64_t m, bool by_head)
{
    int64_t n = t->N + m + 1;
    kvt_feed f = common(t, layer, n, by_head);
    f.rows = rows(t, t->rows, layer, 0, n, n);
    f.logits = rows(t, t->logits, layer, 0, n, n);
    f.queries = queries(t, layer, 0, n);
    f.future = rows(t, t->rows, layer, n, t->M - m - 1, n);
    return f;
}
