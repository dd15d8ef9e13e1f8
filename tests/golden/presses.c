/* presses.c - a small layer with real queries, keys and values: see presses.h. */
#include "presses.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { KEY, VALUE, QUERY, KEY_MEAN, QUERY_MEAN, OUTPUT, FILTER, GATE, KEEP };
enum { D = PRESSES_D, E = PRESSES_E, SINKS = 4 };

static double draw(const toy *t, int kind, int64_t l, int64_t h, int64_t i, int64_t d)
{
    uint64_t key = ((t->seed * 32 + (uint64_t)kind) * 64 + (uint64_t)l) * 64 + (uint64_t)h;
    uint64_t r = toy_mix((key * 4096 + (uint64_t)i) * 4096 + (uint64_t)d);
    return ((double)(r % 2001) - 1000) / 1000;
}

static double query(const toy *t, int64_t l, int64_t h, int64_t i, int64_t d)
{
    return 2 * draw(t, QUERY, l, h, i, d) + 2 * draw(t, QUERY_MEAN, l, h, 0, d);
}

static double key(const toy *t, int64_t l, int64_t g, int64_t i, int64_t d)
{
    return draw(t, KEY, l, g, i, d) + draw(t, KEY_MEAN, l, g, 0, d);
}

static double value(const toy *t, int64_t l, int64_t g, int64_t i, int64_t d)
{
    bool small = t->seed % 2 == 0 && (i == 0 || i == t->N - 2);
    return (double)(float)(draw(t, VALUE, l, g, i, d) / (small ? 1024 : 1));
}

typedef double number(const toy *t, int64_t l, int64_t h, int64_t i, int64_t d);

/* [n_head T D], turned to their positions where `turned`. */
static kvt_view fill(kvt_arena *a, const toy *t, number *of, const char *axes, int64_t l,
                     int64_t n_head, bool turned)
{
    float *x = kvt_arena_array(a, n_head * t->T * D, sizeof *x), *at = x;
    for (int64_t h = 0; h < n_head; h++)
        for (int64_t i = 0; i < t->T; i++, at += D)
            for (int64_t d = 0; d < D; d++) {
                int64_t half = D / 2, other = d < half ? d + half : d - half;
                double angle = turned ? (double)i * t->geometry.rope_freq[d % half] : 0;
                double side = d < half ? -of(t, l, h, i, other) : of(t, l, h, i, other);
                at[d] = (float)(of(t, l, h, i, d) * cos(angle) + side * sin(angle));
            }
    return kvt_view_of(x, KVT_F32, KVT_SHAPE(axes, n_head, t->T, D));
}

/* Mean and covariance over the prompt behind its first tokens, before RoPE. */
static void add_moments(kvt_arena *a, const toy *t, kvt_feed *f, int64_t l)
{
    int64_t H = t->n_head;
    double n = (double)(t->N - SINKS);
    float *mean = kvt_arena_array(a, H * D, sizeof *mean);
    float *cov = kvt_arena_array(a, H * D * D, sizeof *cov);
    for (int64_t h = 0; h < H; h++) {
        double sum[D] = {0}, square[D][D] = {{0}};
        for (int64_t i = SINKS; i < t->N; i++)
            for (int64_t d = 0; d < D; d++)
                sum[d] += query(t, l, h, i, d) / n;
        for (int64_t i = SINKS; i < t->N; i++)
            for (int64_t d = 0; d < D; d++)
                for (int64_t e = 0; e < D; e++)
                    square[d][e] +=
                        (query(t, l, h, i, d) - sum[d]) * (query(t, l, h, i, e) - sum[e]) / n;
        for (int64_t d = 0; d < D; d++) {
            mean[h * D + d] = (float)sum[d];
            for (int64_t e = 0; e < D; e++)
                cov[(h * D + d) * D + e] = (float)square[d][e];
        }
    }
    f->query_mean = kvt_view_of(mean, KVT_F32, KVT_SHAPE("HD", H, D));
    f->query_cov = kvt_view_of(cov, KVT_F32, KVT_SHAPE("HDD", H, D, D));
    float *none = kvt_arena_array(a, H * D / 2, sizeof *none); /* nobody reads it */
    f->query_freq_abs = kvt_view_of(none, KVT_F32, KVT_SHAPE("HF", H, D / 2));
}

/* Norms of W_O v of each query head. */
static void add_norms(kvt_arena *a, const toy *t, kvt_feed *f, int64_t l)
{
    int64_t H = t->n_head, R = H / t->n_group;
    float *one = kvt_arena_array(a, H * t->T, sizeof *one);
    float *two = kvt_arena_array(a, H * t->T, sizeof *two);
    for (int64_t h = 0; h < H; h++)
        for (int64_t i = 0; i < t->T; i++) {
            double sum = 0, square = 0;
            for (int64_t e = 0; e < E; e++) {
                double x = 0;
                for (int64_t d = 0; d < D; d++)
                    x += (double)(float)draw(t, OUTPUT, l, h, d, e) * value(t, l, h / R, i, d);
                sum += fabs(x), square += x * x;
            }
            one[h * t->T + i] = (float)sum;
            two[h * t->T + i] = (float)sqrt(square);
        }
    f->wo_l1 = kvt_view_of(one, KVT_F32, KVT_SHAPE("HT", H, t->T));
    f->wo_l2 = kvt_view_of(two, KVT_F32, KVT_SHAPE("HT", H, t->T));
}

/* What toy_row() takes shares of. */
static void add_attention(toy *t, const kvt_feed *f, int64_t l)
{
    const float *q = f->queries.data, *k = f->keys.data;
    for (int64_t h = 0; h < t->n_head; h++)
        for (int64_t i = 0; i < t->T; i++)
            for (int64_t j = 0; j <= i; j++) {
                const float *x = q + (h * t->T + i) * D;
                const float *y = k + (h * t->n_group / t->n_head * t->T + j) * D;
                double z = 0;
                for (int64_t d = 0; d < D; d++)
                    z += (double)x[d] * (double)y[d];
                t->w[((l * t->n_head + h) * t->T + i) * t->T + j] =
                    exp(z * t->geometry.attn_scale);
            }
}

static kvt_scorer_tensor tensor_of(kvt_arena *a, const toy *t, const char *name, int kind,
                                   int64_t width)
{
    kvt_scorer_tensor out = {0};
    int64_t L = t->n_layer, G = t->n_group;
    float *x = kvt_arena_array(a, L * G * width, sizeof *x);
    for (int64_t i = 0; i < L * G * width; i++) {
        int64_t l = i / width / G, g = i / width % G, d = i % width;
        double v = draw(t, kind, l, g, 0, kind == FILTER ? d : 0);
        if (kind == GATE)
            v = v / 2 + 0.5;
        if (kind == KEEP)
            v = floor(256 * pow((double)(d + 1) / (PRESSES_POINTS + 1), exp(1.5 * v))) / 256;
        x[i] = (float)v;
    }
    snprintf(out.name, sizeof out.name, "%s", name);
    out.view = width > 1 ? kvt_view_of(x, KVT_F32, KVT_SHAPE("LGD", L, G, width))
                         : kvt_view_of(x, KVT_F32, KVT_SHAPE("LG", L, G));
    return out;
}

static void add_weights(kvt_arena *a, toy *t)
{
    static const struct {
        const char *policy, *tensor;
        int kind, width;
    } files[] = {{"qfilters", "filter", FILTER, D},
                 {"duo", "gate", GATE, 1},
                 {"lukv", "keep", KEEP, PRESSES_POINTS}};
    int n = (int)(sizeof files / sizeof files[0]);
    toy_weights *w = kvt_arena_array(a, n, sizeof *w);
    for (int i = 0; i < n; i++) {
        kvt_scorer_tensor *tensor = kvt_arena_array(a, 1, sizeof *tensor);
        *tensor = tensor_of(a, t, files[i].tensor, files[i].kind, files[i].width);
        w[i] = (toy_weights){.kind = files[i].policy, .tensor = tensor, .n = 1};
    }
    t->weights = w, t->n_weights = n;
}

toy *presses_new(kvt_arena *a, const char *name)
{
    unsigned long long seed;
    int L, H, G;
    long long N;
    if (sscanf(name, "%llu/%d/%d/%d/%lld", &seed, &L, &H, &G, &N) != 5)
        return NULL;
    toy *t = toy_new(a, seed, L, L, H, G, N, 1, false);
    t->geometry.head_dim = D;
    t->geometry.attn_scale = 1 / sqrt((double)D);
    for (int f = 0; f < D / 2; f++)
        t->geometry.rope_freq[f] = pow(10000, -2.0 * f / D);
    kvt_feed *more = kvt_arena_array(a, L, sizeof *more);
    for (int l = 0; l < L; l++) {
        more[l] = (kvt_feed){.keys = fill(a, t, key, "GTD", l, G, true),
                             .values = fill(a, t, value, "GTD", l, G, false),
                             .queries = fill(a, t, query, "HQD", l, H, true)};
        add_moments(a, t, &more[l], l);
        add_norms(a, t, &more[l], l);
        add_attention(t, &more[l], l);
    }
    t->more = more;
    add_weights(a, t);
    return t;
}
