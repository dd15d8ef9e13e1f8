/* test_probe_run.c - extra rows on a stored prompt, against a forward pass in double over
 * prompt and rows together, and against themselves: for every architecture. */
#include "capture/probe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/half.h"
#include "compute/backend.h"
#include "tests/check.h"
#include "tests/model_load.h"
#include "tests/model_make.h"
#include "tests/naive.h"

enum { LIMIT = 1 << 26, N = 90, P = 12 };

/* A tiny model, and a prompt whose keys and values come from the pass in double. */
typedef struct fixture {
    gguf_make m;
    buf bytes;
    gguf *g;
    kvt_weights *w;
    kvt_backend *b;
    naive *prompt;
    int32_t id[N + P];
    kvt_prompt stored;
    const int32_t *only; /* prompt tokens that are there; NULL: all */
} fixture;

static fixture *f;
static const char *arch_name; /* of the group that runs */

static kvt_code give(const double *from, int lane, float *out)
{
    int64_t D = f->w->geometry.head_dim;
    for (int64_t t = 0; t < f->stored.n_prompt; t++)
        for (int64_t d = 0; d < D; d++)
            out[t * D + d] = (float)from[(lane * N + (f->only ? f->only[t] : t)) * D + d];
    return KVT_OK;
}

static kvt_code keys(void *self, int layer, int kv_head, float *out, kvt_err *err)
{
    (void)self, (void)err;
    return give(f->prompt->k, layer * (int)f->w->geometry.n_kv_head + kv_head, out);
}

static kvt_code values(void *self, int layer, int kv_head, float *out, kvt_err *err)
{
    (void)self, (void)err;
    return give(f->prompt->v, layer * (int)f->w->geometry.n_kv_head + kv_head, out);
}

static void load(fixture *x, const model_make_options *o, const kvt_weights_options *how)
{
    kvt_err err;
    gguf_make_init(&x->m);
    model_make_into(&x->m, o);
    buf_init(&x->bytes, LIMIT);
    gguf_make_bytes(&x->m, &x->bytes);
    CHECK_OK(gguf_read(&x->g, (const uint8_t *)x->bytes.data, x->bytes.n, &err), &err);
    CHECK_OK(load_gguf(&x->w, x->g, how, NULL, &err), &err);
    CHECK_OK(kvt_backend_open(&x->b, "cpu", NULL, &err), &err);
}

static void unload(fixture *x)
{
    kvt_backend_close(x->b);
    kvt_weights_free(x->w);
    gguf_close(x->g);
    buf_fini(&x->bytes);
    gguf_make_fini(&x->m);
}

static model_make_options options(void)
{
    model_make_options o = model_make_of(arch_name);
    o.n_layer = o.window ? 7 : 3;
    o.n_head = 6;
    o.n_kv_head = 2;
    o.head_dim = 16;
    o.n_hidden = 48;
    o.n_ff = 300;
    o.spread = 0.2f;
    return o;
}

static int start(void **state)
{
    model_make_options o = options();
    uint64_t seed = 5;
    (void)state;
    f = calloc(1, sizeof *f);
    o.rope_scaling = NULL; /* that a prompt is shorter changes nothing then */
    if (o.window)
        o.window = 40;
    load(f, &o, NULL);
    if (!o.window)
        f->w->geometry.window[1] = 40; /* one sliding layer */
    for (int i = 0; i < N + P; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        f->id[i] = (int32_t)((seed >> 33) % (uint64_t)f->w->geometry.n_vocab);
    }
    f->prompt = naive_run(f->w, f->id, N, 0);
    f->stored = (kvt_prompt){.geometry = &f->w->geometry,
                             .n_prompt = N,
                             .id = f->id,
                             .first = -1,
                             .keys = keys,
                             .values = values};
    return 0;
}

static int finish(void **state)
{
    (void)state;
    naive_free(f->prompt);
    unload(f);
    free(f);
    return 0;
}

static probe_pass pass_of(int64_t n)
{
    return (probe_pass){
        .prompt = &f->stored, .weights = f->w, .backend = f->b, .n_row = n, .id = f->id + N};
}

static probe_out run(const probe_pass *p, bool logits)
{
    probe_out out;
    kvt_err err;
    CHECK_OK(probe_run(&out, p, logits, &err), &err);
    assert_int_equal(out.n_row, p->n_row);
    return out;
}

static int64_t heads(void)
{
    return f->w->geometry.n_layer * f->w->geometry.n_head;
}

static int64_t q_values(int64_t n)
{
    return heads() * n * f->w->geometry.head_dim;
}

/* Rows [a, a + n) of one result against rows [b, b + n) of another. */
static void same_rows(const probe_out *x, int64_t a, const probe_out *y, int64_t b, int64_t n,
                      double eps)
{
    int64_t D = f->w->geometry.head_dim, kv = f->w->geometry.n_layer * f->w->geometry.n_kv_head;
    for (int64_t h = 0; h < heads(); h++)
        for (int64_t r = 0; r < n; r++) {
            CHECK_NEAR(x->lse[h * x->n_row + a + r], y->lse[h * y->n_row + b + r], eps);
            for (int64_t d = 0; d < D; d++) {
                double u = half_to_float(x->q[(h * x->n_row + a + r) * D + d]);
                double v = half_to_float(y->q[(h * y->n_row + b + r) * D + d]);
                CHECK_NEAR(u, v, eps + 1e-3 * fabs(v)); /* a half's last bit */
                if (h >= kv)
                    continue;
                u = half_to_float(x->k[(h * x->n_row + a + r) * D + d]);
                v = half_to_float(y->k[(h * y->n_row + b + r) * D + d]);
                CHECK_NEAR(u, v, eps + 1e-3 * fabs(v));
            }
        }
}

static void same_bytes(const probe_out *x, const probe_out *y)
{
    const kvt_geometry *g = &f->w->geometry;
    int64_t n = x->n_row;
    assert_int_equal(n, y->n_row);
    assert_memory_equal(x->q, y->q, (size_t)q_values(n) * sizeof *x->q);
    assert_memory_equal(x->k, y->k,
                        (size_t)(g->n_layer * g->n_kv_head * n * g->head_dim) * sizeof *x->k);
    assert_memory_equal(x->lse, y->lse, (size_t)(heads() * n) * sizeof *x->lse);
    assert_memory_equal(x->norm, y->norm, (size_t)(g->n_layer * n) * sizeof *x->norm);
}

/* Rows behind a stored prompt are the rows of prompt and ids run together. */
static void test_naive(void **state)
{
    (void)state;
    const kvt_geometry *g = &f->w->geometry;
    int64_t D = g->head_dim, T = N + P, E = g->n_hidden;
    naive *whole = naive_run(f->w, f->id, T, 0);
    probe_pass p = pass_of(P);
    probe_out out = run(&p, true);
    for (int64_t h = 0; h < heads(); h++)
        for (int64_t r = 0; r < P; r++) {
            CHECK_NEAR(out.lse[h * P + r], whole->lse[h * T + N + r], 1e-4);
            for (int64_t d = 0; d < D; d++) {
                double want = whole->q[(h * T + N + r) * D + d];
                CHECK_NEAR(half_to_float(out.q[(h * P + r) * D + d]), want,
                           1e-4 + 6e-4 * fabs(want));
                if (h >= g->n_layer * g->n_kv_head)
                    continue;
                want = whole->k[(h * T + N + r) * D + d];
                CHECK_NEAR(half_to_float(out.k[(h * P + r) * D + d]), want,
                           1e-4 + 6e-4 * fabs(want));
            }
        }
    for (int64_t l = 0; l < g->n_layer; l++)
        for (int64_t r = 0; r < P; r++) {
            double sum = 0;
            const double *x = whole->x + (l * T + N + r) * E;
            for (int64_t e = 0; e < E; e++)
                sum += x[e] * x[e];
            CHECK_NEAR(out.norm[l * P + r], sqrt(sum), 1e-4 * (1 + sqrt(sum)));
        }
    for (int64_t v = 0; v < g->n_vocab; v++)
        CHECK_NEAR(out.logit[v], whole->logit[(T - 1) * g->n_vocab + v], 1e-3);
    for (int r = 0; r < P; r++) {
        assert_int_equal(out.pos[r], N + r);
        assert_int_equal(out.id[r], f->id[N + r]);
    }
    probe_out_free(&out);
    naive_free(whole);
}

/* A draft feeds its rows one by one; the same ids at once give the same rows. */
static void test_one_by_one(void **state)
{
    (void)state;
    kvt_err err;
    probe_out draft;
    probe_pass p = pass_of(P);
    p.id = NULL;
    CHECK_OK(probe_draft(&draft, &p, f->id[N], P, NULL, NULL, &err), &err);
    assert_int_equal(draft.n_row, P);
    assert_int_equal(draft.id[0], f->id[N]);
    p.id = draft.id;
    probe_out block = run(&p, false);
    same_rows(&block, 0, &draft, 0, P, 1e-5);
    /* And each is the likeliest behind the ones before it. */
    for (int n = 1; n < P; n++) {
        p.n_row = n;
        probe_out part = run(&p, true);
        for (int64_t v = 0; v < f->w->geometry.n_vocab; v++)
            assert_true(part.logit[v] <= part.logit[draft.id[n]] + 1e-4f);
        probe_out_free(&part);
    }
    probe_out_free(&block);
    probe_out_free(&draft);
}

static bool is_third(const void *user, int32_t id)
{
    return id == *(const int32_t *)user;
}

/* A stop token is never fed, but for the first. */
static void test_stop(void **state)
{
    (void)state;
    kvt_err err;
    probe_out all, cut;
    probe_pass p = pass_of(P);
    p.id = NULL;
    CHECK_OK(probe_draft(&all, &p, f->id[N], P, NULL, NULL, &err), &err);
    int32_t stop = all.id[3];
    int64_t want = 1;
    while (all.id[want] != stop)
        want++;
    CHECK_OK(probe_draft(&cut, &p, f->id[N], P, is_third, &stop, &err), &err);
    assert_int_equal(cut.n_row, want);
    same_rows(&cut, 0, &all, 0, want, 0);
    probe_out_free(&cut);
    stop = f->id[N];
    CHECK_OK(probe_draft(&cut, &p, f->id[N], 1, is_third, &stop, &err), &err);
    assert_int_equal(cut.n_row, 1);
    probe_out_free(&cut);
    probe_out_free(&all);
}

static float *noise(int64_t n, uint64_t seed, float scale)
{
    float *x = malloc((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        x[i] = scale * ((float)(seed >> 40) / (float)(1 << 24) - 0.5f);
    }
    return x;
}

/* A LoRA of every map of every layer. */
static adapter lora(float scale_b)
{
    const kvt_geometry *g = &f->w->geometry;
    adapter a = {.rank = 3, .alpha = 6, .n_layer = (int)g->n_layer};
    a.layer = calloc((size_t)g->n_layer, sizeof *a.layer);
    for (int l = 0; l < a.n_layer; l++)
        for (int i = 0; i < ADAPTER_MAPS; i++) {
            int64_t in, out;
            adapter_map_shape(g, (adapter_map_id)i, &in, &out);
            a.layer[l][i].a = noise(3 * in, (uint64_t)(l * 10 + i + 1), 1);
            a.layer[l][i].b = noise(3 * out, (uint64_t)(l * 10 + i + 77), scale_b);
        }
    return a;
}

static void lora_free(adapter *a)
{
    for (int l = 0; l < a->n_layer; l++)
        for (int i = 0; i < ADAPTER_MAPS; i++) {
            free((void *)(uintptr_t)a->layer[l][i].a);
            free((void *)(uintptr_t)a->layer[l][i].b);
        }
    free(a->layer);
}

static void test_zero_lora(void **state)
{
    (void)state;
    adapter a = lora(0);
    probe_pass p = pass_of(P);
    probe_out base = run(&p, false);
    p.adapter = &a;
    probe_out zero = run(&p, false);
    same_bytes(&base, &zero);
    probe_out_free(&base);
    probe_out_free(&zero);
    lora_free(&a);
}

/* In the last layer v, o, gate, up and down lie behind every row that a score reads: a LoRA of
 * theirs changes no byte of a probe; one of q does. */
static void test_dead_maps(void **state)
{
    (void)state;
    adapter a = lora(0.1f);
    probe_pass p = pass_of(P);
    p.adapter = &a;
    probe_out with = run(&p, false);
    adapter_map *last = a.layer[a.n_layer - 1], all[ADAPTER_MAPS];
    memcpy(all, last, sizeof all);
    for (int i = ADAPTER_V; i < ADAPTER_MAPS; i++)
        last[i] = (adapter_map){0};
    probe_out without = run(&p, false);
    same_bytes(&with, &without);
    probe_out_free(&without);
    last[ADAPTER_Q] = (adapter_map){0};
    without = run(&p, false);
    int64_t at = (heads() - f->w->geometry.n_head) * P;
    assert_memory_equal(with.lse, without.lse, (size_t)at * sizeof *with.lse);
    assert_memory_not_equal(with.lse + at, without.lse + at,
                            (size_t)(f->w->geometry.n_head * P) * sizeof *with.lse);
    memcpy(last, all, sizeof all);
    probe_out_free(&with);
    probe_out_free(&without);
    lora_free(&a);
}

/* w + (alpha / r) B A */
static kvt_matrix merged(const kvt_matrix *matrix, const adapter *a, int l, adapter_map_id map)
{
    int64_t in, out;
    const float *w = matrix_floats(matrix);
    adapter_map_shape(&f->w->geometry, map, &in, &out);
    float *m = malloc((size_t)(in * out) * sizeof *m);
    for (int64_t o = 0; o < out; o++)
        for (int64_t i = 0; i < in; i++) {
            double sum = w[o * in + i];
            for (int64_t r = 0; r < a->rank; r++)
                sum += a->alpha / (double)a->rank *
                       (double)a->layer[l][map].b[o * a->rank + r] *
                       (double)a->layer[l][map].a[r * in + i];
            m[o * in + i] = (float)sum;
        }
    return matrix_of_floats(m, out, in);
}

/* A LoRA is the merged weights on the rows, and the stored prompt stays what it is. */
static void test_merged_lora(void **state)
{
    (void)state;
    adapter a = lora(0.1f);
    kvt_weights w = *f->w;
    int n = (int)w.geometry.n_layer;
    w.layer = calloc((size_t)n, sizeof *w.layer);
    for (int l = 0; l < n; l++) {
        const kvt_weights_layer *x = &f->w->layer[l];
        w.layer[l] = *x;
        w.layer[l].wq = merged(&x->wq, &a, l, ADAPTER_Q);
        w.layer[l].wk = merged(&x->wk, &a, l, ADAPTER_K);
        w.layer[l].wv = merged(&x->wv, &a, l, ADAPTER_V);
        w.layer[l].wo = merged(&x->wo, &a, l, ADAPTER_O);
        w.layer[l].gate = merged(&x->gate, &a, l, ADAPTER_GATE);
        w.layer[l].up = merged(&x->up, &a, l, ADAPTER_UP);
        w.layer[l].down = merged(&x->down, &a, l, ADAPTER_DOWN);
    }
    probe_pass p = pass_of(P);
    probe_out base = run(&p, false);
    p.adapter = &a;
    probe_out with = run(&p, false);
    p.adapter = NULL;
    p.weights = &w;
    probe_out want = run(&p, false);
    same_rows(&with, 0, &want, 0, P, 1e-4);
    double most = 0;
    for (int64_t i = 0; i < heads() * P; i++)
        most = fmax(most, fabs((double)base.lse[i] - (double)with.lse[i]));
    assert_true(most > 0.01); /* it did change something */
    probe_out_free(&base);
    probe_out_free(&with);
    probe_out_free(&want);
    for (int l = 0; l < n; l++) {
        const kvt_weights_layer *x = &w.layer[l];
        const float *own[] = {matrix_floats(&x->wq),   matrix_floats(&x->wk),
                              matrix_floats(&x->wv),   matrix_floats(&x->wo),
                              matrix_floats(&x->gate), matrix_floats(&x->up),
                              matrix_floats(&x->down)};
        for (int i = 0; i < CHECK_COUNT(own); i++)
            free((void *)(uintptr_t)own[i]);
    }
    free(w.layer);
    lora_free(&a);
}

static void test_keep(void **state)
{
    (void)state;
    const kvt_geometry *g = &f->w->geometry;
    int64_t L = g->n_layer, H = g->n_head, G = g->n_kv_head;
    uint8_t *keep = malloc((size_t)(L * H * N));
    probe_pass p = pass_of(P);
    probe_out full = run(&p, false);
    memset(keep, 1, (size_t)(L * H * N));
    p.keep = keep;
    p.n_lane = (int)G;
    probe_out ones = run(&p, false);
    same_bytes(&full, &ones);
    probe_out_free(&ones);
    p.n_lane = (int)H;
    ones = run(&p, false);
    same_bytes(&full, &ones);
    probe_out_free(&ones);
    /* The same set for each kv head and for each of its query heads. */
    for (int64_t i = 0; i < L * G * N; i++)
        keep[i] = i % 3 != 0 || i % N > 70;
    p.n_lane = (int)G;
    probe_out by_kv = run(&p, false);
    uint8_t *by_head = malloc((size_t)(L * H * N));
    for (int64_t lane = 0; lane < L * H; lane++)
        memcpy(by_head + lane * N, keep + lane / (H / G) * N, N);
    p.keep = by_head;
    p.n_lane = (int)H;
    probe_out by_query = run(&p, false);
    same_bytes(&by_kv, &by_query);
    double most = 0;
    for (int64_t i = 0; i < heads() * P; i++)
        most = fmax(most, fabs((double)full.lse[i] - (double)by_kv.lse[i]));
    assert_true(most > 0.01);
    probe_out_free(&by_kv);
    probe_out_free(&by_query);
    probe_out_free(&full);
    free(by_head);
    free(keep);
}

/* A cache without a token is the cache of a prompt that lacks it, at the old positions. */
static void test_keep_is_absence(void **state)
{
    (void)state;
    const kvt_geometry *g = &f->w->geometry;
    int64_t lanes = g->n_layer * g->n_kv_head;
    kvt_geometry kept = *g;
    uint8_t *keep = malloc((size_t)(lanes * N));
    int32_t only[N], pos[P], n = 0;
    /* Distances in a shorter prompt mean nothing. */
    memset(f->w->geometry.window, 0, sizeof f->w->geometry.window);
    for (int32_t t = 0; t < N; t++)
        if (t % 4 == 1 || t < 5 || t > 80)
            only[n++] = t;
    memset(keep, 0, (size_t)(lanes * N));
    for (int64_t lane = 0; lane < lanes; lane++)
        for (int i = 0; i < n; i++)
            keep[lane * N + only[i]] = 1;
    probe_pass p = pass_of(P);
    p.keep = keep;
    p.n_lane = (int)g->n_kv_head;
    probe_out masked = run(&p, false);
    for (int r = 0; r < P; r++)
        pos[r] = N + r;
    p.keep = NULL;
    p.pos = pos;
    f->only = only;
    f->stored.n_prompt = n;
    probe_out absent = run(&p, false);
    same_rows(&masked, 0, &absent, 0, P, 1e-5);
    f->only = NULL;
    f->stored.n_prompt = N;
    f->w->geometry = kept;
    probe_out_free(&masked);
    probe_out_free(&absent);
    free(keep);
}

/* Rows of one segment see no other's: each runs as if it were alone. */
static void test_segments(void **state)
{
    (void)state;
    enum { A = 5, B = P - A };
    int32_t pos[P], segment[P];
    for (int r = 0; r < P; r++) {
        segment[r] = r >= A;
        pos[r] = N + (r < A ? r : r - A);
    }
    probe_pass p = pass_of(P);
    p.pos = pos;
    p.segment = segment;
    probe_out both = run(&p, false);
    probe_pass a = pass_of(A), b = pass_of(B);
    b.id = f->id + N + A;
    probe_out first = run(&a, false), second = run(&b, false);
    same_rows(&both, 0, &first, 0, A, 1e-5);
    same_rows(&both, A, &second, 0, B, 1e-5);
    probe_out_free(&both);
    probe_out_free(&first);
    probe_out_free(&second);
}

/* Many rows, so that tiles are cut: the same bytes for any number of threads, causal, and the
 * first rows do not know how many follow. */
static void test_threads(void **state)
{
    (void)state;
    enum { MANY = 300 };
    int32_t id[MANY];
    kvt_ctx one = {.n_thread = 1}, three = {.n_thread = 3};
    for (int r = 0; r < MANY; r++)
        id[r] = f->id[r % (N + P)];
    probe_pass p = pass_of(MANY);
    p.id = id;
    p.ctx = &one;
    probe_out x = run(&p, false);
    p.ctx = &three;
    probe_out y = run(&p, false);
    same_bytes(&x, &y);
    p.n_row = 140;
    probe_out head = run(&p, false);
    same_rows(&head, 0, &x, 0, 140, 1e-5);
    probe_out_free(&x);
    probe_out_free(&y);
    probe_out_free(&head);
}

static void test_embeddings(void **state)
{
    (void)state;
    int64_t E = f->w->geometry.n_hidden;
    float *x = malloc((size_t)(P * E) * sizeof *x);
    for (int r = 0; r < P; r++)
        for (int64_t e = 0; e < E; e++)
            x[r * E + e] = matrix_floats(&f->w->embed)[f->id[N + r] * E + e] *
                           (float)f->w->geometry.embed_scale;
    probe_pass p = pass_of(P);
    probe_out ids = run(&p, false);
    p.id = NULL;
    p.embed = x;
    probe_out embed = run(&p, false);
    same_bytes(&ids, &embed);
    assert_null(embed.id);
    probe_out_free(&ids);
    probe_out_free(&embed);
    free(x);
}

/* Weights of another type, beside the same values as f32: rows together in equal bytes, rows
 * one by one in 1e-5; and the room for a decoded matrix is counted where it is taken. */
static void test_types(void **state)
{
    (void)state;
    static const int type[] = {QUANT_F16, QUANT_BF16, QUANT_Q8_0};
    kvt_err err;
    fixture a, b;
    for (int i = 0; i < CHECK_COUNT(type); i++) {
        model_make_options o = options();
        o.n_hidden = 64; /* whole blocks */
        o.n_ff = 320;
        o.type = type[i];
        load(&a, &o, NULL);
        load(&b, &o, &(kvt_weights_options){.f32 = true});
        assert_int_equal(a.w->layer[0].down.type, type[i]);
        probe_pass p = pass_of(P), q;
        p.weights = a.w;
        q = p;
        q.weights = b.w;
        probe_out x = run(&p, true), y = run(&q, true);
        same_bytes(&x, &y);
        for (int64_t v = 0; v < a.w->geometry.n_vocab; v++)
            CHECK_NEAR((double)x.logit[v], (double)y.logit[v], 1e-4);
        probe_out_free(&x);
        probe_out_free(&y);
        p.id = q.id = NULL;
        CHECK_OK(probe_draft(&x, &p, f->id[N], 1, NULL, NULL, &err), &err);
        CHECK_OK(probe_draft(&y, &q, f->id[N], 1, NULL, NULL, &err), &err);
        same_rows(&x, 0, &y, 0, 1, 1e-4);
        probe_out_free(&x);
        probe_out_free(&y);
        int64_t room = probe_state_bytes(a.w, N, P, false, 0, 2) -
                       probe_state_bytes(b.w, N, P, false, 0, 2);
        assert_int_equal(room, 64 * 320 * (int64_t)sizeof(float));
        assert_int_equal(probe_state_bytes(a.w, N, P, true, 0, 2),
                         probe_state_bytes(b.w, N, P, true, 0, 2));
        unload(&a);
        unload(&b);
    }
}

static kvt_code broken(void *self, int layer, int kv_head, float *out, kvt_err *err)
{
    (void)self, (void)kv_head, (void)out;
    return kvt_fail(err, KVT_IO, "layer %d is gone", layer);
}

static void test_bad(void **state)
{
    (void)state;
    kvt_err err;
    probe_out out;
    int32_t id[2] = {0, (int32_t)f->w->geometry.n_vocab}, pos[2] = {N, N - 1},
            segment[2] = {1, 0};
    probe_pass p = pass_of(2);
    p.id = id;
    CHECK_FAILS(probe_run(&out, &p, false, &err), KVT_USAGE, "the vocabulary has", &err);
    assert_null(out.q);
    p = pass_of(2);
    p.pos = pos;
    CHECK_FAILS(probe_run(&out, &p, false, &err), KVT_USAGE, "inside the prompt", &err);
    p = pass_of(2);
    p.segment = segment;
    CHECK_FAILS(probe_run(&out, &p, false, &err), KVT_USAGE, "must rise", &err);
    p = pass_of(2);
    p.keep = (const uint8_t *)"";
    p.n_lane = 5;
    CHECK_FAILS(probe_run(&out, &p, false, &err), KVT_USAGE, "5 lanes", &err);
    p = pass_of(0);
    CHECK_FAILS(probe_run(&out, &p, false, &err), KVT_USAGE, "0 rows", &err);
    kvt_prompt bad = f->stored;
    bad.values = broken;
    p = pass_of(2);
    p.prompt = &bad;
    CHECK_FAILS(probe_run(&out, &p, false, &err), KVT_IO, "layer 0 is gone", &err);
    assert_null(out.q);
}

int main(void)
{
    static const char *const archs[] = {"llama", "qwen2", "qwen3", "gemma3"};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_naive),      cmocka_unit_test(test_one_by_one),
        cmocka_unit_test(test_stop),       cmocka_unit_test(test_zero_lora),
        cmocka_unit_test(test_dead_maps),  cmocka_unit_test(test_merged_lora),
        cmocka_unit_test(test_keep),       cmocka_unit_test(test_keep_is_absence),
        cmocka_unit_test(test_segments),   cmocka_unit_test(test_threads),
        cmocka_unit_test(test_embeddings), cmocka_unit_test(test_types),
        cmocka_unit_test(test_bad),
    };
    int failed = 0;
    for (int i = 0; i < CHECK_COUNT(archs); i++) {
        char name[32];
        arch_name = archs[i];
        snprintf(name, sizeof name, "probe_run %s", arch_name);
        failed += cmocka_run_group_tests_name(name, tests, start, finish);
    }
    return failed;
}
