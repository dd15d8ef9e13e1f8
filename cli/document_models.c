/* document_models.c - the generated parts of docs/models.md: what works, what was checked
 * against what, what is refused. */
#include <string.h>

#include "capture/arch.h"
#include "capture/pre.h"
#include "capture/template.h"
#include "cli/document.h"
#include "compute/quant.h"

enum { LISTS = 512 };

static void row(FILE *out, const char *a, const char *b, const char *c, const char *d)
{
    document_row(out, (const char *const[]){a, b, c, d}, d ? 4 : c ? 3 : 2);
}

/* "norms of q and k; sandwich norms": what differs from llama, whose traits are all off. */
static void traits(char *out, size_t cap, const arch *a)
{
    char global[64];
    size_t n = 0;
    snprintf(global, sizeof global, "windows, one layer in %d sees everything",
             a->global_every);
    const struct {
        bool on;
        const char *text;
    } each[] = {{a->qkv_bias, "biases of q, k and v"},
                {a->qk_norm, "norms of q and k"},
                {a->post_norm, "norms behind attention and feed-forward, too"},
                {a->gelu, "GELU"},
                {a->embed_scaled, "embedding times the root of the width"},
                {a->global_every > 0, global},
                {a->theta_local > 0, "a second rotary base for windows"},
                {a->is_permuted, "rows of q and k reordered in GGUF files"}};
    out[0] = 0;
    for (size_t i = 0; i < sizeof each / sizeof each[0]; i++)
        if (each[i].on && n < cap)
            n += (size_t)snprintf(out + n, cap - n, "%s%s", n ? "; " : "", each[i].text);
}

static void architectures(FILE *out)
{
    static const char *const archs[][2] = {
#define MODEL_ARCH(arch, models) {#arch, models},
#include "capture/models.def"
    };
    char text[LISTS];
    document_header(out, (const char *const[]){"architecture", "models", "what it has"}, 3);
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
        const arch *a = arch_find(archs[i][0], strlen(archs[i][0]));
        if (!a)
            continue;
        traits(text, sizeof text, a);
        row(out, a->name, archs[i][1], text, NULL);
    }
}

static void rotations(FILE *out)
{
    document_header(
        out,
        (const char *const[]){"rotation", "in a GGUF file", "in config.json", "what it is"}, 4);
#define MODEL_ROPE(name, gguf, config, what) row(out, #name, gguf, config, what);
#include "capture/models.def"
}

static void block_types(FILE *out)
{
    char bits[32], block[32];
    document_header(out, (const char *const[]){"type", "weights a block", "bits a weight"}, 3);
#define QUANT(type, name, n_byte, n_weight, function)                                 \
    snprintf(bits, sizeof bits, "%.3g", 8.0 * (double)(n_byte) / (double)(n_weight)); \
    snprintf(block, sizeof block, "%d", n_weight);                                    \
    row(out, #name, block, bits, NULL);
#define QUANT_REFUSED(type, name)
#include "compute/quants.def"
#undef QUANT
#undef QUANT_REFUSED
    fputs("\nRefused by name: ", out);
    const char *between = "";
#define QUANT(type, name, n_byte, n_weight, function)
#define QUANT_REFUSED(type, name) \
    fputs(between, out);          \
    document_put(out, name);      \
    between = ", ";
#include "compute/quants.def"
#undef QUANT
#undef QUANT_REFUSED
    fputs(".\n", out);
}

static void tokenizers(FILE *out)
{
    char names[LISTS], *save = NULL;
    document_header(
        out,
        (const char *const[]){"pre-tokenizer", "digits", "whole words first", "normal form"},
        4);
    pre_names(names, sizeof names);
    for (char *s = strtok_r(names, ", ", &save); s; s = strtok_r(NULL, ", ", &save)) {
        const pre_form *p = pre_find(s);
        if (p)
            row(out, s,
                p->digits                        ? "one by one"
                : strstr(p->pattern, "{1,3}")    ? "up to three"
                : strstr(p->pattern, " ?\\p{N}") ? "all of a number"
                                                 : "one by one",
                p->whole ? "yes" : "no", p->nfc ? "NFC" : "none");
    }
    fputs("\nSentencePiece vocabularies (`tokenizer.ggml.model` llama, or BPE with byte "
          "fallback in "
          "`tokenizer.json`) need no pre-tokenizer.\n",
          out);
}

static void templates(FILE *out)
{
    fputs("Chat templates that are recognised in a model's files, and named by `--chat`: ",
          out);
    for (int i = 1; i < TEMPLATE_COUNT; i++)
        fprintf(out, "%s`%s`", i > 1 ? ", " : "", template_name((template_form)i));
    fputs(".\n", out);
}

static void checked(FILE *out)
{
    document_header(out,
                    (const char *const[]){"architecture", "variant", "held against",
                                          "what agrees, within what", "test"},
                    5);
#define MODEL_CHECKED(arch, variant, reference, limit, test) \
    document_row(out, (const char *const[]){#arch, variant, reference, limit, #test}, 5);
#include "capture/models.def"
}

static void refused(FILE *out)
{
    document_header(out, (const char *const[]){"what", "the message says"}, 2);
#define MODEL_REFUSED(what, config, words) row(out, what, words, NULL, NULL);
#include "capture/models.def"
}

void document_models(FILE *out)
{
    static const struct {
        const char *title;
        void (*print)(FILE *);
    } parts[] = {{"Architectures", architectures},  {"Rotation", rotations},
                 {"Types of weights", block_types}, {"Tokenizers", tokenizers},
                 {"Chat templates", templates},     {"What was checked against what", checked},
                 {"What is refused", refused}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        fprintf(out, "%s## %s\n\n", i ? "\n" : "", parts[i].title);
        parts[i].print(out);
    }
}
