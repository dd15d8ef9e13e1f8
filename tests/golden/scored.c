/* scored.c - toys with learned scorers: see scored.h. */
#include "scored.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    KEY,
    VALUE,
    HIDDEN,
    DECISION,
    QUERY,
    GAMMA,
    WO_L1,
    WO_L2,
    WEIGHTS,
    LINES = 20,
    FORMS = 10
};

/* K: hidden width, O: inner width, W: width of what it reads, of R query heads and all heads H
 * of G kv heads. */
typedef struct form {
    const char *kind;
    int K, O;
    struct {
        const char *name, *axes;
    } line[LINES];
} form;

/* clang-format off */
#define NETWORK {"in/weight", "LGKW"}, {"in/bias", "LGK"}, {"out/weight", "LGK"}, {"out/bias", "LG"}
#define NUMBERS {"decay/log_gamma", "LG"}, {"sinks", ""}, {"window", ""}, {"decay_step", ""}
static const form forms[FORMS] = {
    {"kvpop-mlp", 6, 0, {NETWORK, NUMBERS}},
    {"kvpop", 0, SCORED_D / 2,
     {{"query/weight", "LGOW"}, {"query/bias", "LGO"}, {"key/weight", "LGOW"}, {"key/bias", "LGO"},
      {"value/weight", "LGOW"}, {"value/bias", "LGO"}, {"gate_i/weight", "LGW"},
      {"gate_i/bias", "LG"}, {"gate_f/weight", "LGW"}, {"gate_f/bias", "LG"}, {"norm/gain", "LGO"},
      {"out/weight", "LGO"}, {"out/bias", "LG"}, NUMBERS, {"read_delay", ""}}},
    {"kvzap", 0, 0, {{"weight", "LGE"}, {"bias", "LG"}}},
    {"kvp-supervised", 5, 0, {NETWORK}},
    {"locret", 7, 0,
     {{"in/weight", "LKW"}, {"in/bias", "LK"}, {"out/weight", "LGK"}, {"out/bias", "LG"}}},
    {"fast-kvzip", 3, 4,
     {{"query/weight", "LHOE"}, {"query/bias", "LHO"}, {"query/gain", "LO"},
      {"key/weight", "LGOE"}, {"key/gain", "LO"}, {"base", "LGKO"}, {"logit/bias", "LH"}}},
    {"foresightkv", 4, 0, {NETWORK}},
    {"headkv", 0, 0, {{"score", "LG"}}},
    {"duo", 0, 0, {{"gate", "LG"}}},
    {"lukv", 0, 99, {{"keep", "LGO"}}},
};
/* clang-format on */

static double draw(const toy *t, int kind, int64_t l, int64_t h, int64_t i, int64_t d)
{
    uint64_t key = ((t->seed * 32 + (uint64_t)kind) * 64 + (uint64_t)l) * 64 + (uint64_t)h;
    uint64_t r = toy_mix((key * 4096 + (uint64_t)i) * 4096 + (uint64_t)d);
    return ((double)(r % 2001) - 1000) / 1000;
}

/* [n_head T width] */
static float *fill(kvt_arena *a, const toy *t, int kind, int layer, int n_head, int width)
{
    float *x = kvt_arena_array(a, n_head * t->T * width, sizeof *x), *at = x;
    for (int h = 0; h < n_head; h++)
        for (int64_t i = 0; i < t->T; i++)
            for (int d = 0; d < width; d++)
                *at++ = (float)((kind >= WO_L1 ? 1.5 : 0) +
                                draw(t, kind, layer, h, i, d) * (kind == DECISION ? 3 : 1));
    return x;
}

static void add_arrays(kvt_arena *a, toy *t, kvt_feed *f, int l)
{
    int64_t H = t->n_head, G = t->n_group, D = SCORED_D;
    float *gamma = kvt_arena_array(a, G, sizeof *gamma);
    for (int g = 0; g < G; g++)
        gamma[g] = (float)(0.95 + draw(t, GAMMA, l, g, 0, 0) / 50);
    *f = (kvt_feed){
        .keys = kvt_view_of(fill(a, t, KEY, l, (int)G, SCORED_D), KVT_F32,
                            KVT_SHAPE("GTD", G, t->T, D)),
        .values = kvt_view_of(fill(a, t, VALUE, l, (int)G, SCORED_D), KVT_F32,
                              KVT_SHAPE("GTD", G, t->T, D)),
        .queries = kvt_view_of(fill(a, t, QUERY, l, (int)H, SCORED_D), KVT_F32,
                               KVT_SHAPE("HQD", H, t->T, D)),
        .hidden = kvt_view_of(fill(a, t, HIDDEN, l, 1, SCORED_E), KVT_F32,
                              KVT_SHAPE("TE", t->T, SCORED_E)),
        .wo_l1 =
            kvt_view_of(fill(a, t, WO_L1, l, (int)H, 1), KVT_F32, KVT_SHAPE("HT", H, t->T)),
        .wo_l2 =
            kvt_view_of(fill(a, t, WO_L2, l, (int)H, 1), KVT_F32, KVT_SHAPE("HT", H, t->T)),
        .decision =
            kvt_view_of(fill(a, t, DECISION, l, (int)G, 1), KVT_F32, KVT_SHAPE("GT", G, t->T)),
        .decision_weight =
            kvt_view_of(fill(a, t, DECISION, l, (int)G, 1), KVT_F32, KVT_SHAPE("GT", G, t->T)),
        .decision_gamma = kvt_view_of(gamma, KVT_F32, KVT_SHAPE("G", G))};
}

static int64_t width_of(const form *f, const toy *t)
{
    if (strcmp(f->kind, "locret") == 0)
        return (t->n_head + 2 * t->n_group) * SCORED_D;
    if (strcmp(f->kind, "kvp-supervised") == 0)
        return 2 * SCORED_D + 1;
    if (strcmp(f->kind, "foresightkv") == 0)
        return 2 * SCORED_D + 8 * (t->n_head / t->n_group);
    return 2 * SCORED_D;
}

static int64_t extent(char axis, const form *f, const toy *t)
{
    switch (axis) {
    case 'L': return t->n_layer;
    case 'H': return t->n_head;
    case 'G': return t->n_group;
    case 'E': return SCORED_E;
    case 'K': return f->K;
    case 'O': return f->O;
    default: return width_of(f, t);
    }
}

static double number(const toy *t, const char *name)
{
    if (strcmp(name, "sinks") == 0)
        return 2;
    if (strcmp(name, "decay_step") == 0)
        return t->seed % 2 ? 1 : 4;
    return strcmp(name, "read_delay") == 0 && t->seed % 3 == 0 ? 0 : 5;
}

/* Element n of a table of the heads: of a curve over shares [L G O], which rises; else from 0
 * to 1. */
static double of_table(const toy *t, const form *f, int which, int64_t n)
{
    if (f->O == 0)
        return (1 + draw(t, WEIGHTS + which, 0, 0, n / 4096, n % 4096)) / 2;
    double v = draw(t, WEIGHTS + which, 0, 0, n / f->O / 4096, n / f->O % 4096);
    double x = (double)(n % f->O + 1) / (double)(f->O + 1);
    return x + 0.9 * v * x * (1 - x);
}

static void add_tensor(kvt_arena *a, const toy *t, kvt_scorer_tensor *out, int which, int line)
{
    const form *f = &forms[which];
    const char *name = f->line[line].name, *axes = f->line[line].axes;
    int64_t dim[KVT_RANK_MAX] = {0}, n = 1, last = 1;
    for (int i = 0; axes[i]; i++)
        n *= last = dim[i] = extent(axes[i], f, t);
    float *x = kvt_arena_array(a, n, sizeof *x);
    for (int64_t i = 0; i < n; i++) {
        double v = draw(t, WEIGHTS + which, line, 0, i / 4096, i % 4096);
        if (!*axes)
            x[i] = (float)number(t, name);
        else if (strcmp(name, "score") == 0 || strcmp(name, "gate") == 0 ||
                 strcmp(name, "keep") == 0)
            x[i] = (float)of_table(t, f, which, i);
        else if (strstr(name, "gain"))
            x[i] = (float)(1 + v / 4);
        else if (strstr(name, "gamma"))
            x[i] = (float)(-(2 + v) / 50);
        else
            x[i] = (float)(v * 2 / sqrt((double)last));
    }
    snprintf(out->name, sizeof out->name, "%s", name);
    out->view = kvt_view_of(x, KVT_F32, axes, strlen(axes), dim);
}

toy *scored_new(kvt_arena *a, const char *name)
{
    unsigned long long seed;
    int n_layer, n_model, n_head, n_group;
    long long N, M;
    if (sscanf(name, "%llu/%d/%d/%d/%d/%lld/%lld", &seed, &n_layer, &n_model, &n_head, &n_group,
               &N, &M) != 7)
        return NULL;
    toy *t = toy_new(a, seed, n_layer, n_model, n_head, n_group, N, M, false);
    kvt_feed *more = kvt_arena_array(a, n_layer, sizeof *more);
    toy_weights *weights = kvt_arena_array(a, FORMS, sizeof *weights);
    for (int l = 0; l < n_layer; l++)
        add_arrays(a, t, &more[l], l);
    for (int f = 0; f < FORMS; f++) {
        kvt_scorer_tensor *tensor = kvt_arena_array(a, LINES, sizeof *tensor);
        int n = 0;
        for (; n < LINES && forms[f].line[n].name; n++)
            add_tensor(a, t, &tensor[n], f, n);
        weights[f] = (toy_weights){.kind = forms[f].kind, .tensor = tensor, .n = n};
    }
    t->geometry.attn_scale = 0.5;
    t->more = more;
    t->weights = weights, t->n_weights = FORMS;
    return t;
}
