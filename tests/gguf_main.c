/* gguf_main.c - a tiny random model from the command line, for tests that are scripts:
 *
 *   make_gguf OUT.gguf [layers=2 heads=4 kv_heads=2 dim=12 hidden=48 ff=96 context=4096
 *                       vocab=320 pad_rows=0 type=0 seed=1 spread=0.08 arch=llama drop=TENSOR
 *                       embed_type=0 window=0 vocabulary=1 template=1
 *                       folder=0 v5=0 parts=1 nested=0]
 *
 * The names are those of model_make_options; arch=NAME first gives what model_make_of() gives.
 * folder=1 makes a Hugging Face folder, with the other three of model_make_folder_options.
 * A type that gguf_make cannot write (31, a removed one) gives tensors of that type without
 * data. */
#include "tests/model_make.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    bool is_folder;
    model_make_folder_options of;
} folder;

static bool set_folder(const char *name, double x)
{
    if (!strcmp(name, "folder"))
        folder.is_folder = x > 0.5;
    else if (!strcmp(name, "v5"))
        folder.of.v5 = x > 0.5;
    else if (!strcmp(name, "nested"))
        folder.of.nested = x > 0.5;
    else if (!strcmp(name, "parts"))
        folder.of.n_part = (int)x;
    else
        return false;
    return true;
}

static bool set_text(model_make_options *o, const char *name, const char *text)
{
    if (!strcmp(name, "arch"))
        *o = model_make_of(text);
    else if (!strcmp(name, "drop"))
        o->drop = text;
    else
        return false;
    return true;
}

static bool set(model_make_options *o, const char *name, const char *text)
{
    char *end;
    double x = strtod(text, &end);
    const struct {
        const char *name;
        int *value;
    } field[] = {
        {"layers", &o->n_layer},    {"heads", &o->n_head},          {"kv_heads", &o->n_kv_head},
        {"dim", &o->head_dim},      {"hidden", &o->n_hidden},       {"ff", &o->n_ff},
        {"context", &o->n_context}, {"vocab", &o->n_vocab},         {"type", &o->type},
        {"pad_rows", &o->pad_rows}, {"embed_type", &o->embed_type}, {"window", &o->window},
    };
    if (end == text || *end)
        return set_text(o, name, text);
    for (size_t i = 0; i < sizeof field / sizeof *field; i++)
        if (!strcmp(field[i].name, name)) {
            *field[i].value = (int)x;
            return true;
        }
    if (!strcmp(name, "seed"))
        o->seed = (uint64_t)x;
    else if (!strcmp(name, "spread"))
        o->spread = (float)x;
    else if (!strcmp(name, "vocabulary"))
        o->no_vocab = x < 0.5;
    else if (!strcmp(name, "template"))
        o->no_template = x < 0.5;
    else
        return set_folder(name, x);
    return true;
}

int main(int argc, char **argv)
{
    model_make_options o = model_make_defaults();
    if (argc < 2)
        return fputs("usage: make_gguf OUT.gguf [NAME=VALUE ...]\n", stderr), 2;
    for (int i = 2; i < argc; i++) {
        char name[32] = "";
        const char *is = strchr(argv[i], '=');
        if (is && (size_t)(is - argv[i]) < sizeof name)
            memcpy(name, argv[i], (size_t)(is - argv[i]));
        if (!name[0] || !set(&o, name, is + 1))
            return fprintf(stderr, "make_gguf: cannot use '%s'\n", argv[i]), 2;
    }
    bool done = folder.is_folder ? model_make_folder(argv[1], &o, &folder.of)
                                 : model_make_gguf(argv[1], &o);
    return done ? 0 : 1;
}
