/* synth_scorer.c - scorer files of random numbers, one of every kind. */
#include "tests/synth_more.h"

#include "base/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/arena.h"

enum { LINES = 20 };

/* value: of a tensor that is one number. log_gamma: -value. half: stored so. */
typedef struct line {
    const char *name, *axes;
    double value;
} line;

static const struct {
    const char *kind;
    int width, inner; /* K and O; 0: no such axis, or, of O, half of D */
    line line[LINES];
} forms[] = {
    {"kvpop-mlp",
     6,
     0,
     {{"in/weight", "LGKW", 0},
      {"in/bias", "LGK", 0},
      {"out/weight", "LGK", 0},
      {"out/bias", "LG", 0},
      {"decay/log_gamma", "LG", 1e-3},
      {"sinks", "", 2},
      {"window", "", 3},
      {"slots", "", 4},
      {"decay_step", "", 1}}},
    {"kvpop",
     0,
     0,
     {{"query/weight", "LGOW", 0},
      {"query/bias", "LGO", 0},
      {"key/weight", "LGOW", 0},
      {"key/bias", "LGO", 0},
      {"value/weight", "LGOW", 0},
      {"value/bias", "LGO", 0},
      {"gate_i/weight", "LGW", 0},
      {"gate_i/bias", "LG", 0},
      {"gate_f/weight", "LGW", 0},
      {"gate_f/bias", "LG", 0},
      {"norm/gain", "LGO", 0},
      {"out/weight", "LGO", 0},
      {"out/bias", "LG", 0},
      {"decay/log_gamma", "LG", 1e-3},
      {"sinks", "", 2},
      {"window", "", 3},
      {"slots", "", 4},
      {"decay_step", "", 1},
      {"read_delay", "", 3}}},
    {"kvzap", 0, 0, {{"weight", "LGE", 0}, {"bias", "LG", 0}}},
    {"kvp-supervised",
     5,
     0,
     {{"in/weight", "LGKW", 0},
      {"in/bias", "LGK", 0},
      {"out/weight", "LGK", 0},
      {"out/bias", "LG", 0}}},
    {"locret",
     7,
     0,
     {{"in/weight", "LKW", 0},
      {"in/bias", "LK", 0},
      {"out/weight", "LGK", 0},
      {"out/bias", "LG", 0}}},
    {"fast-kvzip",
     16,
     16,
     {{"query/weight", "LHOE", 0},
      {"query/bias", "LHO", 0},
      {"query/gain", "LO", 0},
      {"key/weight", "LGOE", 0},
      {"key/gain", "LO", 0},
      {"base", "LGKO", 0},
      {"logit/bias", "LH", 0}}},
    {"foresightkv",
     4,
     0,
     {{"in/weight", "LGKW", 0},
      {"in/bias", "LGK", 0},
      {"out/weight", "LGK", 0},
      {"out/bias", "LG", 0}}},
    {"headkv", 0, 0, {{"score", "LG", 0}}},
    {"duo", 0, 0, {{"gate", "LG", 0}}},
    {"shares", 0, 0, {{"share", "LG", 0}}},
    {"lukv", 0, 4, {{"keep", "LGO", 0}}},
    {"qfilters", 0, 0, {{"filter", "LGD", 0}}},
    {"triattention", 0, 0, {{"mean", "LHD", 0}, {"magnitude", "LHF", 0}}},
};
enum { N_FORM = sizeof forms / sizeof *forms };

const char *const synth_scorers[] = {
    "kvpop-mlp", "kvpop", "kvzap",  "kvp-supervised", "locret",   "fast-kvzip",   "foresightkv",
    "headkv",    "duo",   "shares", "lukv",           "qfilters", "triattention", NULL};

/* Width of what a kind reads of a token. */
static int64_t input_width(const char *kind, const synth_spec *s)
{
    int64_t D = s->head_dim, H = s->n_head, G = s->n_kv_head;
    if (strcmp(kind, "locret") == 0)
        return H * D + 2 * G * D;
    if (strcmp(kind, "kvp-supervised") == 0)
        return 2 * D + 1;
    if (strcmp(kind, "foresightkv") == 0)
        return 2 * D + 8 * (H / G);
    return 2 * D;
}

static int64_t extent(char axis, int form, const synth_spec *s)
{
    switch (axis) {
    case 'L': return s->n_layer;
    case 'H': return s->n_head;
    case 'G': return s->n_kv_head;
    case 'D': return s->head_dim;
    case 'F': return s->head_dim / 2;
    case 'E': return (int64_t)s->n_head * s->head_dim;
    case 'K': return forms[form].width;
    case 'O': return forms[form].inner ? forms[form].inner : s->head_dim / 2;
    default: return input_width(forms[form].kind, s);
    }
}

static void fill_info(kvt_scorer_info *info, const char *kind, const synth_spec *s)
{
    *info = (kvt_scorer_info){.n_head = s->n_head,
                              .n_kv_head = s->n_kv_head,
                              .head_dim = s->head_dim,
                              .n_hidden = (int64_t)s->n_head * s->head_dim,
                              .model_layers = s->model_layers ? s->model_layers : s->n_layer,
                              .n_layer = s->n_layer};
    snprintf(info->kind, sizeof info->kind, "%s", kind);
    snprintf(info->weights_digest, sizeof info->weights_digest, "%032d", 7);
    snprintf(info->model, sizeof info->model, "synthetic");
    snprintf(info->recipe, sizeof info->recipe, "{\"trainer\": \"none\"}");
    snprintf(info->writer, sizeof info->writer, "synth");
    snprintf(info->created, sizeof info->created, "2000-01-01T00:00:00Z");
    for (int l = 0; l < s->n_layer; l++)
        info->layer_id[l] = (int32_t)(info->model_layers - s->n_layer + l);
}

/* Shares of something: from 0 to 1. */
static bool is_share(const char *name)
{
    static const char *const names[] = {"score", "gate", "share", "keep"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* Random numbers whose sums over the last axis stay near 1; gains are near 1. */
static float *random_tensor(const line *of, int64_t n, int64_t last, uint64_t rng[RNG_WORDS])
{
    float *x = kvt_alloc(n, sizeof *x);
    bool gain = strstr(of->name, "gain") != NULL;
    for (int64_t i = 0; x && i < n; i++) {
        double u = 2 * rng_real(rng) - 1;
        if (is_share(of->name))
            x[i] = (float)rng_real(rng);
        else if (of->value > 0)
            x[i] = (float)(of->axes[0] ? -of->value * (0.01 + rng_real(rng)) : of->value);
        else
            x[i] = (float)(gain ? 1 + u / 4 : 2 * u / sqrt((double)last));
    }
    return x;
}

kvt_code synth_scorer(const char *kind, const synth_spec *spec, const char *path, kvt_err *err)
{
    int form = 0, n = 0;
    while (form < N_FORM && strcmp(forms[form].kind, kind) != 0)
        form++;
    if (form == N_FORM)
        return kvt_fail(err, KVT_NOTFOUND, "synth: no scorer of kind '%s'", kind);
    uint64_t rng[RNG_WORDS], key = spec->seed + 0x73636f72 + (uint64_t)form;
    kvt_scorer_info info;
    kvt_scorer_tensor tensor[LINES] = {{.half = false}};
    rng_init(rng, &key, sizeof key);
    fill_info(&info, kind, spec);
    for (; forms[form].line[n].name; n++) {
        const line *of = &forms[form].line[n];
        int64_t dim[KVT_RANK_MAX] = {0}, count = 1, last = 1;
        for (int i = 0; of->axes[i]; i++)
            count *= last = dim[i] = extent(of->axes[i], form, spec);
        float *x = random_tensor(of, count, last, rng);
        if (!x)
            return kvt_fail_memory(err, count * (int64_t)sizeof *x);
        snprintf(tensor[n].name, sizeof tensor[n].name, "%s", of->name);
        snprintf(tensor[n].help, sizeof tensor[n].help, "random");
        tensor[n].view = kvt_view_of(x, KVT_F32, of->axes, strlen(of->axes), dim);
    }
    kvt_code code = kvt_scorer_write(path, &info, tensor, n, true, err);
    for (int i = 0; i < n; i++)
        kvt_free((void *)(uintptr_t)tensor[i].view.data);
    return code;
}
