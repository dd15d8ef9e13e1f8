/* lanes.c - see lanes.h. */
#include "lanes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/arena.h"
#include "kvt/scorer.h"
#include "../toy.h"

enum { FILTER = SYNTH_WO + 1, MEAN, MAGNITUDE };

static float number(const synth_spec *s, int kind, int64_t i)
{
    uint64_t r = toy_mix(((s->seed * 16 + (uint64_t)kind) << 32) + (uint64_t)i);
    return ((float)(r % 4001) - 2000) / 1024;
}

static float draw(const synth_spec *s, synth_kind kind, int64_t i)
{
    return number(s, (int)kind, i);
}

synth *lanes_new(const char *name)
{
    synth_spec s = synth_default();
    unsigned long long seed;
    long long N, M, window = 0;
    if (sscanf(name, "%llu/%d/%d/%d/%d/%lld/%lld/%d/%lld", &seed, &s.n_layer, &s.model_layers,
               &s.n_head, &s.n_kv_head, &N, &M, &s.head_dim, &window) < 8) {
        fprintf(stderr, "no lanes: %s\n", name);
        exit(1);
    }
    s.seed = seed, s.n_prompt = N, s.n_response = M;
    s.window = window;
    s.last_queries = -1;
    s.force = true;
    s.draw = draw;
    return synth_new(&s);
}

/* [L X Y] of one kind, and what is added to each. */
static void add_tensor(kvt_scorer_tensor *out, const synth_spec *s, const char *name, int kind,
                       const char *axes, int64_t n, int64_t each, float plus)
{
    int64_t count = s->n_layer * n * each;
    float *x = kvt_alloc(count, sizeof *x);
    for (int64_t i = 0; x && i < count; i++)
        x[i] = number(s, kind, i) + plus;
    snprintf(out->name, sizeof out->name, "%s", name);
    snprintf(out->help, sizeof out->help, "by a rule");
    out->view = kvt_view_of(x, KVT_F32, KVT_SHAPE(axes, s->n_layer, n, each));
}

kvt_code lanes_scorer(const char *kind, const synth_spec *s, const char *path, kvt_err *err)
{
    kvt_scorer_info info = {.n_head = s->n_head,
                            .n_kv_head = s->n_kv_head,
                            .head_dim = s->head_dim,
                            .n_hidden = (int64_t)s->n_head * s->head_dim,
                            .model_layers = s->model_layers,
                            .n_layer = s->n_layer};
    kvt_scorer_tensor tensor[2] = {{.half = false}};
    int n = 0;
    snprintf(info.kind, sizeof info.kind, "%s", kind);
    snprintf(info.weights_digest, sizeof info.weights_digest, "%032d", 7); /* synth's */
    snprintf(info.model, sizeof info.model, "synthetic");
    snprintf(info.recipe, sizeof info.recipe, "{\"trainer\": \"none\"}");
    snprintf(info.writer, sizeof info.writer, "lanes");
    snprintf(info.created, sizeof info.created, "2000-01-01T00:00:00Z");
    for (int l = 0; l < s->n_layer; l++)
        info.layer_id[l] = (int32_t)(s->model_layers - s->n_layer + l);
    if (strcmp(kind, "qfilters") == 0) {
        add_tensor(&tensor[n++], s, "filter", FILTER, "LGD", s->n_kv_head, s->head_dim, 0);
    } else {
        add_tensor(&tensor[n++], s, "mean", MEAN, "LHD", s->n_head, s->head_dim, 0);
        add_tensor(&tensor[n++], s, "magnitude", MAGNITUDE, "LHF", s->n_head, s->head_dim / 2,
                   2);
    }
    kvt_code code = kvt_scorer_write(path, &info, tensor, n, true, err);
    for (int i = 0; i < n; i++)
        kvt_free((void *)(uintptr_t)tensor[i].view.data);
    return code;
}
