/* synth_main.c - a synthetic trace from the command line, for tests in other languages:
 *
 *   make_synth OUT.h5 [layers=2 heads=4 kv_heads=2 dim=8 model_layers=0 prompt=24 response=6
 * seed=1 window=0 block=8 queries=8 sharpness=2 sink=0 rows=1
 * text=1 level=1 compress=0 hostile=0]
 *
 * The names are those of synth_spec; queries=-1 stores those of every prompt position. */
#include "tests/synth.h"

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

int main(int argc, char **argv)
{
    synth_spec spec = synth_default();
    spec.force = true;
    if (argc < 2)
        return fputs("usage: make_synth OUT.h5 [NAME=NUMBER ...]\n", stderr), 2;
    for (int i = 2; i < argc; i++) {
        char name[32];
        const char *is = strchr(argv[i], '=');
        size_t n = is ? (size_t)(is - argv[i]) : 0;
        if (n >= sizeof name)
            n = 0;
        memcpy(name, argv[i], n);
        name[n] = 0;
        if (!n || !set(&spec, name, is + 1))
            return fprintf(stderr, "make_synth: cannot use '%s'\n", argv[i]), 2;
    }
    kvt_err err = {0};
    if (synth_file(&spec, argv[1], &err))
        return fprintf(stderr, "make_synth: %s\n", err.text), 1;
    return 0;
}
