/* synth_main.c - a synthetic trace from the command line, for tests in other languages:
 *
 *   make_synth OUT.h5 [decisions=POLICY layers=2 heads=4 kv_heads=2 dim=8 model_layers=0
 * prompt=24 response=6 seed=1 window=0 block=8 queries=8 sharpness=2 sink=0 rows=1 text=1
 * level=1 compress=0 hostile=0 delay=5 shift=0 probes=0 probe_rows=5 draft=8 draft2=16 draft3=0
 * draft4=0]
 *
 *   make_synth scorer:KIND OUT.h5 [...]      a scorer of that model
 *
 * The names are those of synth_spec; queries=-1 stores those of every prompt position. */
#include "tests/synth_more.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool set(synth_spec *p, const char *name, const char *text)
{
    char *end;
    double x = strtod(text, &end);
    if (end == text || *end)
        return false;
    const struct {
        const char *name;
        int *i;
        int64_t *n;
        double *x;
    } field[] = {
        {.name = "layers", .i = &p->n_layer},
        {.name = "heads", .i = &p->n_head},
        {.name = "kv_heads", .i = &p->n_kv_head},
        {.name = "dim", .i = &p->head_dim},
        {.name = "model_layers", .i = &p->model_layers},
        {.name = "prompt", .n = &p->n_prompt},
        {.name = "response", .n = &p->n_response},
        {.name = "window", .n = &p->window},
        {.name = "block", .n = &p->block_tokens},
        {.name = "queries", .n = &p->last_queries},
        {.name = "sharpness", .x = &p->sharpness},
        {.name = "sink", .x = &p->sink},
        {.name = "delay", .n = &p->delay},
        {.name = "shift", .n = &p->decision_shift},
        {.name = "probe_rows", .n = &p->probe_rows},
        {.name = "draft", .n = &p->draft_budget[0]},
        {.name = "draft2", .n = &p->draft_budget[1]},
        {.name = "draft3", .n = &p->draft_budget[2]},
        {.name = "draft4", .n = &p->draft_budget[3]},
    };
    for (size_t i = 0; i < sizeof field / sizeof *field; i++) {
        if (strcmp(field[i].name, name) != 0)
            continue;
        if (field[i].i)
            *field[i].i = (int)x;
        else if (field[i].n)
            *field[i].n = (int64_t)x;
        else
            *field[i].x = x;
        return true;
    }
    if (!strcmp(name, "seed"))
        p->seed = (uint64_t)x;
    else if (!strcmp(name, "rows"))
        p->no_rows = x < 0.5;
    else if (!strcmp(name, "text"))
        p->no_text = x < 0.5;
    else if (!strcmp(name, "level"))
        p->level = (kvt_level)x;
    else if (!strcmp(name, "compress"))
        p->compress = x > 0.5;
    else if (!strcmp(name, "hostile"))
        p->hostile = x > 0.5;
    else
        return false;
    return true;
}

/* NAME=NUMBER, or decisions=POLICY. */
static bool take(synth_spec *p, bool *probes, const char *arg)
{
    static char policy[64];
    char name[32];
    const char *is = strchr(arg, '=');
    size_t n = is ? (size_t)(is - arg) : 0;
    if (!n || n >= sizeof name)
        return false;
    memcpy(name, arg, n);
    name[n] = 0;
    if (!strcmp(name, "decisions")) {
        snprintf(policy, sizeof policy, "%s", is + 1);
        p->decision_policy = policy;
        return true;
    }
    if (!strcmp(name, "probes")) {
        *probes = is[1] == '1';
        return true;
    }
    return set(p, name, is + 1);
}

static kvt_code make_trace(const synth_spec *spec, bool probes, const char *path, kvt_err *err)
{
    synth *s = synth_new(spec);
    if (probes)
        synth_probes(s);
    kvt_code code = synth_write(s, path, err);
    synth_free(s);
    return code;
}

int main(int argc, char **argv)
{
    synth_spec spec = synth_default();
    bool probes = false;
    spec.force = true;
    int scorer = argc > 1 && strncmp(argv[1], "scorer:", 7) == 0;
    if (argc < 2 + scorer)
        return fputs("usage: make_synth [scorer:KIND] OUT.h5 [NAME=NUMBER ...]\n", stderr), 2;
    for (int i = 2 + scorer; i < argc; i++)
        if (!take(&spec, &probes, argv[i]))
            return fprintf(stderr, "make_synth: cannot use '%s'\n", argv[i]), 2;
    kvt_err err = {0};
    if (scorer ? synth_scorer(argv[1] + 7, &spec, argv[2], &err)
               : make_trace(&spec, probes, argv[1], &err))
        return fprintf(stderr, "make_synth: %s\n", err.text), 1;
    return 0;
}
