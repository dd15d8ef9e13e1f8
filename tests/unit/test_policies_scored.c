/* test_policies_scored.c - policies with a learned score, driven through the pushed engine with
 * hand-made scorers and decisions: the memory of KVpop against the paper's formula in double,
 * its sets against the heap, DMS's bits, what flips with age and what does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "base/running.h"
#include "kvt/engine.h"

enum {
    G = 2,
    D = 8,
    O = D / 2,
    DM = 2 * O,
    N = 24,
    M = 40,
    T = N + M,
    TENSORS = 24,
    CAP = 512
};

/* ---- a small model's lanes -----------------------------------------------------------------
 */

typedef struct lanes {
    kvt_geometry geometry;
    int32_t layer_id;
    float key[G][T][D], value[G][T][D], decision[G][T], gamma[G];
    int64_t shift; /* a token's decision comes with the one so far behind it */
} lanes;

/* A run: which policy, of what, and what each row saw. */
typedef struct run {
    const char *policy;
    const kvt_scorer *weights;
    int64_t n_prompt, budget;
    double threshold;
    bool held[T + 1][G][T]; /* [tokens that came after the prompt][lane][position] */
    float score[G][T];      /* at the prompt's end */
    bool ranked;
    char why[KVT_REFUSAL_MAX]; /* of a refusal, "" none */
    bool failed;
} run;

static void fill(float *x, int64_t n, uint64_t rng[RNG_WORDS], double scale)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)((2 * rng_real(rng) - 1) * scale);
}

static lanes *make_lanes(uint64_t seed)
{
    static lanes l;
    uint64_t rng[RNG_WORDS];
    rng_init(rng, &seed, sizeof seed);
    l = (lanes){.geometry = {.n_layer = 1,
                             .n_head = G,
                             .n_kv_head = G,
                             .head_dim = D,
                             .n_hidden = (int64_t)G * D}};
    fill(&l.key[0][0][0], (int64_t)G * T * D, rng, 1);
    fill(&l.value[0][0][0], (int64_t)G * T * D, rng, 1);
    fill(&l.decision[0][0], (int64_t)G * T, rng, 3);
    for (int g = 0; g < G; g++)
        l.gamma[g] = 1;
    return &l;
}

/* The first n tokens of arrays [G T ...]; a decision lies at the token that it is about. */
static kvt_feed feed_of(const lanes *l, int64_t n)
{
    static float decision[G][T];
    for (int g = 0; g < G; g++)
        for (int64_t t = 0; t < n; t++)
            decision[g][t] = t + l->shift < n ? l->decision[g][t + l->shift] : NAN;
    kvt_feed f = {.keys = kvt_view_of(l->key, KVT_F32, KVT_SHAPE("GTD", G, n, D)),
                  .values = kvt_view_of(l->value, KVT_F32, KVT_SHAPE("GTD", G, n, D)),
                  .decision = kvt_view_of(decision, KVT_F32, KVT_SHAPE("GT", G, n)),
                  .decision_gamma = kvt_view_of(l->gamma, KVT_F32, KVT_SHAPE("G", G))};
    f.keys.stride[0] = f.values.stride[0] = (int64_t)T * D;
    f.decision.stride[0] = T;
    return f;
}

static void note(run *r, kvt_engine *e, int64_t at)
{
    bool failed = false;
    const char *why = kvt_engine_refused(e, 0, 0, &failed);
    if (why) {
        snprintf(r->why, sizeof r->why, "%s", why);
        r->failed = failed;
        return;
    }
    for (int g = 0; g < G; g++) {
        const int64_t *pos;
        int64_t n;
        kvt_engine_held(e, 0, 0, g, &pos, &n);
        for (int64_t s = 0; s < n; s++)
            r->held[at][g][pos[s]] = true;
    }
}

static void note_scores(run *r, const kvt_engine *e)
{
    for (int g = 0; g < G; g++) {
        const float *score;
        const bool *pinned;
        kvt_engine_ranking(e, 0, 0, g, &score, &pinned);
        r->ranked = score != NULL;
        for (int64_t s = 0; score && s < r->n_prompt; s++)
            r->score[g][s] = pinned[s] ? NAN : score[s];
    }
}

static void run_on(run *r, const lanes *l)
{
    kvt_err err;
    kvt_use *use;
    kvt_engine *e = NULL;
    if (kvt_use_parse(&use, NULL, r->policy, &err))
        fail_msg("%s", err.text);
    kvt_sequence seq = {.n_prompt = r->n_prompt,
                        .n_response = T - r->n_prompt,
                        .look_until = r->n_prompt,
                        .geometry = &l->geometry,
                        .layer_id = &l->layer_id,
                        .n_layer = 1};
    kvt_engine_spec spec = {.use = use,
                            .seq = &seq,
                            .budget = &r->budget,
                            .n_budget = 1,
                            .decode = true,
                            .every = 1,
                            .weights = r->weights,
                            .threshold = &r->threshold};
    kvt_feed f = feed_of(l, r->n_prompt);
    if (kvt_engine_new(&e, &spec, &err) || kvt_engine_prompt(e, 0, &f, &err) ||
        kvt_engine_decide(e, -1, &err))
        fail_msg("%s", err.text);
    note(r, e, 0);
    note_scores(r, e);
    for (int64_t t = r->n_prompt; t < T && !r->why[0]; t++) {
        f = feed_of(l, t + 1);
        if (kvt_engine_token(e, 0, &f, &err) || kvt_engine_decide(e, -1, &err))
            fail_msg("%s", err.text);
        note(r, e, t + 1 - r->n_prompt);
    }
    kvt_engine_free(e);
    kvt_use_free(use);
}

static int64_t count(const run *r, int64_t at, int lane)
{
    int64_t n = 0;
    for (int64_t t = 0; t < T; t++)
        n += r->held[at][lane][t];
    return n;
}

/* ---- hand-made scorers ---------------------------------------------------------------------
 */

typedef struct recipe {
    int64_t sinks, window, step, delay;
    double gate; /* scale of the gates' weights: exp() of large ones leaves f32 */
} recipe;

static kvt_scorer_tensor tensors[TENSORS];
static float store[TENSORS][CAP];
static int n_tensor;

static void add(const char *name, const char *axes, size_t rank, const int64_t *dim)
{
    kvt_scorer_tensor *t = &tensors[n_tensor];
    *t = (kvt_scorer_tensor){.view = kvt_view_of(store[n_tensor], KVT_F32, axes, rank, dim)};
    snprintf(t->name, sizeof t->name, "%s", name);
    snprintf(t->help, sizeof t->help, "test");
    n_tensor++;
}

static void add_number(const char *name, double value)
{
    store[n_tensor][0] = (float)value;
    add(name, "", 0, NULL);
}

static const float *find(const char *name)
{
    for (int i = 0; i < n_tensor; i++)
        if (strcmp(tensors[i].name, name) == 0)
            return store[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

static void fill_all(int from, uint64_t seed, double gate)
{
    uint64_t rng[RNG_WORDS];
    rng_init(rng, &seed, sizeof seed);
    for (int i = from; i < n_tensor; i++) {
        bool is_gate = strncmp(tensors[i].name, "gate", 4) == 0;
        fill(store[i], CAP, rng, is_gate ? gate : 0.7);
        for (int k = 0; strcmp(tensors[i].name, "decay/log_gamma") == 0 && k < G; k++)
            store[i][k] = -0.01f * (float)(k + 1);
    }
}

static kvt_scorer *save(const char *kind)
{
    char path[64];
    kvt_err err;
    kvt_scorer *s;
    kvt_scorer_info info = {.n_head = G,
                            .n_kv_head = G,
                            .head_dim = D,
                            .n_hidden = (int64_t)G * D,
                            .model_layers = 1,
                            .n_layer = 1};
    snprintf(path, sizeof path, "test_policies_scored_%d.h5", (int)getpid());
    snprintf(info.kind, sizeof info.kind, "%s", kind);
    snprintf(info.weights_digest, sizeof info.weights_digest, "%032d", 7);
    snprintf(info.model, sizeof info.model, "test");
    snprintf(info.recipe, sizeof info.recipe, "{\"trainer\": \"none\"}");
    snprintf(info.writer, sizeof info.writer, "test");
    snprintf(info.created, sizeof info.created, "2000-01-01T00:00:00Z");
    if (kvt_scorer_write(path, &info, tensors, n_tensor, true, &err) ||
        kvt_scorer_open(&s, path, &err))
        fail_msg("%s", err.text);
    unlink(path);
    return s;
}

static void add_rule(const recipe *r)
{
    add_number("sinks", (double)r->sinks);
    add_number("window", (double)r->window);
    add_number("slots", 1);
    add_number("decay_step", (double)r->step);
    add_number("read_delay", (double)r->delay);
}

static kvt_scorer *make_memory(const recipe *r)
{
    static const char *const parts[] = {"query", "key", "value", "gate_i", "gate_f"};
    char name[64];
    n_tensor = 0;
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "%s/weight", parts[i]);
        if (i < 3)
            add(name, KVT_SHAPE("LGOW", 1, G, O, 2 * D));
        else
            add(name, KVT_SHAPE("LGW", 1, G, 2 * D));
        snprintf(name, sizeof name, "%s/bias", parts[i]);
        if (i < 3)
            add(name, KVT_SHAPE("LGO", 1, G, O));
        else
            add(name, KVT_SHAPE("LG", 1, G));
    }
    add("norm/gain", KVT_SHAPE("LGO", 1, G, O));
    add("out/weight", KVT_SHAPE("LGO", 1, G, O));
    add("out/bias", KVT_SHAPE("LG", 1, G));
    add("decay/log_gamma", KVT_SHAPE("LG", 1, G));
    fill_all(0, 11, r->gate);
    add_rule(r);
    return save("kvpop");
}

static kvt_scorer *make_network(const recipe *r, int64_t width)
{
    n_tensor = 0;
    add("in/weight", KVT_SHAPE("LGKW", 1, G, width, 2 * D));
    add("in/bias", KVT_SHAPE("LGK", 1, G, width));
    add("out/weight", KVT_SHAPE("LGK", 1, G, width));
    add("out/bias", KVT_SHAPE("LG", 1, G));
    add("decay/log_gamma", KVT_SHAPE("LG", 1, G));
    fill_all(0, 12, 1);
    add_rule(r);
    return save("kvpop-mlp");
}

/* ---- the formulae, in double ---------------------------------------------------------------
 */

static double affine(const char *name, int lane, int64_t row, int64_t n_row, const double *x)
{
    char full[64];
    snprintf(full, sizeof full, "%s/weight", name);
    const float *w = find(full) + (lane * n_row + row) * 2 * D;
    snprintf(full, sizeof full, "%s/bias", name);
    double sum = (double)find(full)[lane * n_row + row];
    for (int d = 0; d < 2 * D; d++)
        sum += (double)w[d] * x[d];
    return sum;
}

static void phi(double out[DM], const char *name, int lane, const double *x)
{
    double u[O], plus = 0, minus = 0;
    for (int o = 0; o < O; o++) {
        u[o] = affine(name, lane, o, O, x);
        plus += exp(u[o]);
        minus += exp(-u[o]);
    }
    for (int o = 0; o < O; o++) {
        out[o] = exp(u[o]) / plus;
        out[O + o] = exp(-u[o]) / minus;
    }
}

static void input(double x[2 * D], const lanes *l, int lane, int64_t t)
{
    for (int d = 0; d < D; d++) {
        x[d] = (double)l->key[lane][t][d];
        x[D + d] = (double)l->value[lane][t][d];
    }
}

static double silu(double u)
{
    return u / (1 + exp(-u));
}

/* r of every token that can be read, as the paper prints it: no stabiliser. */
static void memory_scores(double r[T], const lanes *l, int lane, int64_t delay)
{
    static double query[T][DM];
    double C[DM][O] = {{0}}, z[DM] = {0}, x[2 * D], k[DM], v[O], y[O];
    for (int64_t q = 0; q < T; q++) {
        input(x, l, lane, q);
        phi(query[q], "query", lane, x);
        phi(k, "key", lane, x);
        for (int o = 0; o < O; o++)
            v[o] = affine("value", lane, o, O, x);
        double in = exp(affine("gate_i", lane, 0, 1, x));
        double keep = 1 / (1 + exp(-affine("gate_f", lane, 0, 1, x)));
        for (int i = 0; i < DM; i++) {
            z[i] = keep * z[i] + in * k[i];
            for (int o = 0; o < O; o++)
                C[i][o] = keep * C[i][o] + in * k[i] * v[o];
        }
        if (q < delay)
            continue;
        double mass = 0, square = 0, sum = (double)find("out/bias")[lane];
        for (int i = 0; i < DM; i++)
            mass += query[q - delay][i] * z[i];
        for (int o = 0; o < O; o++) {
            y[o] = 0;
            for (int i = 0; i < DM; i++)
                y[o] += query[q - delay][i] * C[i][o];
            y[o] /= mass;
            square += y[o] * y[o] / O;
        }
        for (int o = 0; o < O; o++)
            sum += (double)find("out/weight")[lane * O + o] *
                   silu((double)find("norm/gain")[lane * O + o] * y[o] / sqrt(square + 1e-6));
        r[q - delay] = sum;
    }
}

/* What the heap keeps at every q, beside sinks and window: the paper's online form. */
static void heap_sets(bool held[T][T], const double *r, double log_gamma, const recipe *p,
                      int64_t k)
{
    double score[T];
    int32_t token[T];
    bool in[T] = {false};
    running_heap h = {.score = score, .token = token, .size = k};
    for (int64_t q = 0; q < T; q++) {
        int64_t t = q - p->window; /* it leaves the window */
        if (t >= p->sinks) {
            int32_t gone = running_heap_push(&h, (int32_t)t, r[t] - (double)t * log_gamma);
            in[t] = true;
            if (gone >= 0)
                in[gone] = false;
        }
        for (int64_t j = 0; j <= q; j++)
            held[q][j] = j < p->sinks || q - j < p->window || in[j];
    }
}

static void compare_with_heap(const run *r, const double *score, int lane, const recipe *p)
{
    static bool want[T][T];
    int64_t k = r->budget - p->sinks - p->window;
    memset(want, 0, sizeof want);
    heap_sets(want, score, (double)find("decay/log_gamma")[lane], p, k);
    for (int64_t q = r->n_prompt - 1; q < T; q++) {
        const bool *got = r->held[q + 1 - r->n_prompt][lane];
        int64_t n = count(r, q + 1 - r->n_prompt, lane);
        assert_int_equal(n, q + 1 < r->budget ? q + 1 : r->budget);
        for (int64_t j = 0; j < T; j++)
            if (got[j] != want[q][j])
                fail_msg("lane %d, query %d: token %d is %s, the heap says otherwise", lane,
                         (int)q, (int)j, got[j] ? "kept" : "gone");
    }
}

/* ---- KVpop ---------------------------------------------------------------------------------
 */

static void check_memory(const recipe *p)
{
    const lanes *l = make_lanes(5);
    kvt_scorer *s = make_memory(p);
    static run r;
    r = (run){.policy = "kvpop", .weights = s, .n_prompt = N, .budget = 13};
    run_on(&r, l);
    assert_string_equal(r.why, "");
    assert_true(r.ranked);
    for (int g = 0; g < G; g++) {
        double score[T] = {0}, lg = (double)find("decay/log_gamma")[g];
        memory_scores(score, l, g, p->delay);
        for (int64_t t = p->sinks; t <= N - 1 - p->window; t++) {
            double want = score[t] - (double)t * lg, got = (double)r.score[g][t];
            if (!(fabs(want - got) <= 2e-5 * (1 + fabs(want))))
                fail_msg("lane %d, token %d: %.8g, expected %.8g", g, (int)t, got, want);
        }
        compare_with_heap(&r, score, g, p);
    }
    kvt_scorer_close(s);
}

static void memory_is_the_formula(void **state)
{
    (void)state;
    check_memory(&(recipe){.sinks = 2, .window = 5, .step = 1, .delay = 5, .gate = 1});
}

static void memory_read_at_insertion(void **state)
{
    (void)state;
    check_memory(&(recipe){.sinks = 2, .window = 5, .step = 1, .delay = 0, .gate = 1});
    check_memory(&(recipe){.sinks = 0, .window = 1, .step = 1, .delay = 1, .gate = 1});
}

/* exp(a) of such gates is beyond f32: only the stabilised form survives. */
static void gates_may_be_large(void **state)
{
    (void)state;
    check_memory(&(recipe){.sinks = 1, .window = 4, .step = 1, .delay = 4, .gate = 40});
}

static void network_scores(double r[T], const lanes *l, int lane, int64_t width)
{
    for (int64_t t = 0; t < T; t++) {
        double x[2 * D];
        input(x, l, lane, t);
        r[t] = (double)find("out/bias")[lane];
        for (int64_t k = 0; k < width; k++)
            r[t] += (double)find("out/weight")[lane * width + k] *
                    silu(affine("in", lane, k, width, x));
    }
}

static void network_keeps_what_the_heap_keeps(void **state)
{
    (void)state;
    enum { WIDTH = 6 };
    recipe p = {.sinks = 2, .window = 5, .step = 1};
    const lanes *l = make_lanes(6);
    kvt_scorer *s = make_network(&p, WIDTH);
    for (int64_t B = 8; B <= 40; B += 8) {
        static run r;
        r = (run){.policy = "kvpop-mlp", .weights = s, .n_prompt = N, .budget = B};
        run_on(&r, l);
        assert_string_equal(r.why, "");
        for (int g = 0; g < G; g++) {
            double score[T];
            network_scores(score, l, g, WIDTH);
            compare_with_heap(&r, score, g, &p);
        }
    }
    kvt_scorer_close(s);
}

/* Older buckets lose log gamma at once: the order changes with q, so that the heap's would be
 * another set; chosen anew among what is left. */
static void decay_in_steps_is_online(void **state)
{
    (void)state;
    enum { WIDTH = 6 };
    recipe p = {.sinks = 1, .window = 3, .step = 7};
    const lanes *l = make_lanes(7);
    kvt_scorer *s = make_network(&p, WIDTH);
    static run r;
    r = (run){.policy = "kvpop-mlp", .weights = s, .n_prompt = N, .budget = 12};
    run_on(&r, l);
    for (int g = 0; g < G; g++) {
        double score[T], lg = (double)find("decay/log_gamma")[g];
        network_scores(score, l, g, WIDTH);
        bool held[T] = {false};
        for (int64_t q = 0; q < T; q++) {
            held[q] = true;
            int64_t n = 0, worst;
            for (int64_t j = 0; j <= q; j++)
                n += held[j];
            for (; q >= N - 1 && n > r.budget; n--) {
                worst = -1;
                for (int64_t j = p.sinks; j <= q - p.window; j++) {
                    double now = score[j] + (double)((q - j) / p.step) * lg;
                    double least =
                        worst < 0 ? 0 : score[worst] + (double)((q - worst) / p.step) * lg;
                    if (held[j] && (worst < 0 || now <= least))
                        worst = j;
                }
                held[worst] = false;
            }
            for (int64_t j = 0; q >= N - 1 && j < T; j++)
                assert_int_equal(held[j], r.held[q + 1 - N][g][j]);
        }
    }
    kvt_scorer_close(s);
}

static void too_small_a_budget_is_refused(void **state)
{
    (void)state;
    recipe p = {.sinks = 2, .window = 5, .step = 1, .delay = 5, .gate = 1};
    const lanes *l = make_lanes(8);
    kvt_scorer *s = make_memory(&p);
    for (int64_t B = 5; B <= 8; B++) {
        static run r;
        r = (run){.policy = "kvpop", .weights = s, .n_prompt = N, .budget = B};
        run_on(&r, l);
        assert_false(r.failed);
        if (B == 8)
            assert_string_equal(r.why, "");
        else
            assert_non_null(strstr(r.why, "need a budget of 8 or more"));
    }
    static run d;
    d = (run){.policy = "kvpop:from=decisions,sinks=2,window=5", .n_prompt = N, .budget = 7};
    run_on(&d, l);
    assert_non_null(strstr(d.why, "need a budget of 8 or more, got 7"));
    kvt_scorer_close(s);
}

/* A file whose read-out comes after the token left has no score to give. */
static void late_read_out_fails(void **state)
{
    (void)state;
    recipe p = {.sinks = 2, .window = 3, .step = 1, .delay = 5, .gate = 1};
    kvt_scorer *s = make_memory(&p);
    static run r;
    r = (run){.policy = "kvpop", .weights = s, .n_prompt = N, .budget = 13};
    run_on(&r, make_lanes(9));
    assert_true(r.failed && strstr(r.why, "expected a finite number"));
    kvt_scorer_close(s);
}

/* ---- DMS -----------------------------------------------------------------------------------
 */

static void set_bits(lanes *l, float logit)
{
    for (int g = 0; g < G; g++)
        for (int64_t t = 0; t < T; t++)
            l->decision[g][t] = logit;
}

static void bits_of_dms(void **state)
{
    (void)state;
    lanes *l = make_lanes(10);
    static run r;
    for (int bit = 0; bit < 3; bit++) { /* a logit of 0 marks nothing */
        set_bits(l, (float)(bit - 1));
        l->shift = bit % 2;
        r = (run){.policy = "dms:from=decisions,window=6", .n_prompt = N, .budget = T};
        run_on(&r, l);
        for (int64_t at = 0; at <= T - N; at++)
            for (int g = 0; g < G; g++)
                assert_int_equal(count(&r, at, g), bit == 2 ? 6 : N + at);
    }
}

/* The bit that comes with t + 1 decides about t, and about nothing else. */
static void bit_belongs_to_the_token_before(void **state)
{
    (void)state;
    enum { W = 6 };
    static run with, without;
    for (int64_t t = 0; t + 1 < T; t += 7) {
        lanes *l = make_lanes(11);
        l->shift = 1;
        without = (run){.policy = "dms:from=decisions,window=6", .n_prompt = N, .budget = T};
        run_on(&without, l);
        l->decision[1][t + 1] = -l->decision[1][t + 1];
        with = (run){.policy = without.policy, .n_prompt = N, .budget = T};
        run_on(&with, l);
        for (int64_t at = 0; at <= T - N; at++)
            for (int g = 0; g < G; g++)
                for (int64_t j = 0; j < T; j++) {
                    int64_t q = N - 1 + at;
                    bool changes = g == 1 && j == t && q >= t + W;
                    if ((with.held[at][g][j] != without.held[at][g][j]) != changes)
                        fail_msg("bit of token %d: lane %d, query %d, token %d", (int)t + 1, g,
                                 (int)q, (int)j);
                    if (j <= q && q < j + W)
                        assert_true(with.held[at][g][j]);
                }
    }
}

/* ---- order and age -------------------------------------------------------------------------
 */

/* Which of tokens 0 and 5 a budget of one beside the newest keeps, at the end of n tokens. */
static int64_t winner(const char *policy, const lanes *l, int64_t n, int64_t budget)
{
    static run r;
    r = (run){.policy = policy, .n_prompt = n, .budget = budget};
    run_on(&r, l);
    assert_string_equal(r.why, "");
    assert_int_equal(r.held[0][0][0] + r.held[0][0][5], 1);
    return r.held[0][0][0] ? 0 : 5;
}

static void age_flips_trim_and_not_kvpop(void **state)
{
    (void)state;
    lanes *l = make_lanes(12);
    set_bits(l, -30);
    l->decision[0][0] = l->decision[1][0] = 2.25f; /* log beta -0.1 */
    l->decision[0][5] = l->decision[1][5] = 1.05f; /* log beta -0.3 */
    assert_int_equal(winner("trim-kv", l, 7, 1), 5);
    assert_int_equal(winner("trim-kv", l, 16, 1), 0);
    for (int g = 0; g < G; g++)
        l->gamma[g] = 0.7f; /* older tokens lose, all alike */
    const char *pop = "kvpop:from=decisions,sinks=0,window=1";
    int64_t first = winner(pop, l, 8, 2);
    for (int64_t n = 8; n <= N; n++)
        assert_int_equal(winner(pop, l, n, 2), first);
    assert_int_equal(first, 5); /* 1.05 - 5 log 0.7 > 2.25 */
    for (int g = 0; g < G; g++)
        l->gamma[g] = 0.999f;
    assert_int_equal(winner(pop, l, 8, 2), 0);
}

/* ---- admission -----------------------------------------------------------------------------
 */

static void gate_admits_above_its_threshold(void **state)
{
    (void)state;
    enum { W = 4 };
    const lanes *l = make_lanes(13);
    static run r;
    r = (run){.policy = "wg-kv:window=4", .n_prompt = N, .budget = 1, .threshold = 0.1};
    run_on(&r, l);
    for (int64_t at = 0; at <= T - N; at++)
        for (int g = 0; g < G; g++)
            for (int64_t j = 0; j < N + at; j++) {
                bool admitted = 1 / (1 + exp(-(double)l->decision[g][j])) > 0.1;
                assert_int_equal(r.held[at][g][j], admitted || N - 1 + at - j < W);
            }
}

/* An engine that evicts cannot run a policy that joins. */
static void joining_is_refused(void **state)
{
    (void)state;
    kvt_err err;
    kvt_use *use;
    kvt_engine *e;
    const lanes *l = make_lanes(14);
    int64_t budget = 8;
    kvt_sequence seq = {.n_prompt = N, .geometry = &l->geometry, .n_layer = 1};
    assert_int_equal(kvt_use_parse(&use, NULL, "dmc", &err), KVT_OK);
    kvt_engine_spec spec = {
        .use = use, .seq = &seq, .budget = &budget, .n_budget = 1, .every = 1};
    assert_int_equal(kvt_engine_new(&e, &spec, &err), KVT_USAGE);
    assert_null(e);
    kvt_use_free(use);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_the_formula),
        cmocka_unit_test(memory_read_at_insertion),
        cmocka_unit_test(gates_may_be_large),
        cmocka_unit_test(network_keeps_what_the_heap_keeps),
        cmocka_unit_test(decay_in_steps_is_online),
        cmocka_unit_test(too_small_a_budget_is_refused),
        cmocka_unit_test(late_read_out_fails),
        cmocka_unit_test(bits_of_dms),
        cmocka_unit_test(bit_belongs_to_the_token_before),
        cmocka_unit_test(age_flips_trim_and_not_kvpop),
        cmocka_unit_test(gate_admits_above_its_threshold),
        cmocka_unit_test(joining_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
