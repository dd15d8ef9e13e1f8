/* fuzz_param.c - any bytes as the text of policy parameters: "window=32,pool=7".
 *
 * What is accepted lies in its ranges, and its canonical text reads back to the same text; what
 * is refused leaves the values alone and has one printable line as its reason. */
#include "tests/fuzz/fuzz.h"

#include "base/text.h"
#include "kvt/param.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct sample {
    int64_t window, any;
    double decay, scale;
    bool sorted;
    int kind, compat;
    char file[KVT_PARAM_TEXT_MAX];
} sample;

static const kvt_choice kinds[] = {{"max", "", "largest"}, {"mean", "", "mean"}};
static const kvt_choice compats[] = {
    {"paper", "", "the paper"},
    {"kvpress", "window=64,kind=mean,decay=0.5", "sets others"},
};
static const kvt_param table[] = {
    KVT_PARAM_CHOICE(sample, compat, 0, compats, "implementation to follow"),
    KVT_PARAM(sample, window, 32, 1, 4096, "tokens", "queries that vote"),
    KVT_PARAM(sample, any, -1, -INFINITY, INFINITY, "", "no bounds"),
    KVT_PARAM(sample, decay, 0.9, 0, 1, "frac", "forgetting"),
    KVT_PARAM(sample, scale, 1, -INFINITY, INFINITY, "", "no bounds"),
    KVT_PARAM(sample, sorted, true, 0, 1, "", "a switch"),
    KVT_PARAM_CHOICE(sample, kind, 0, kinds, "what the pool takes"),
    {.name = "file",
     .type = KVT_TEXT,
     .offset = offsetof(sample, file),
     .unit = "",
     .help = "a file"},
    {0},
};

static void expect(bool good)
{
    if (!good)
        abort();
}

static void check_accepted(const sample *s)
{
    kvt_err err;
    sample back;
    char text[800], again[800];
    expect(s->window >= 1 && s->window <= 4096 && s->decay >= 0 && s->decay <= 1);
    expect(!isnan(s->scale) && s->kind >= 0 && s->kind < 2 && s->compat >= 0 && s->compat < 2);
    expect(kvt_param_print(table, text, sizeof text, s) < sizeof text);
    memset(&back, 0, sizeof back);
    expect(!kvt_param_parse(table, &back, text, &err));
    kvt_param_print(table, again, sizeof again, &back);
    expect(!strcmp(text, again));
}

static void check_refused(const sample *s, const sample *before, const kvt_err *err)
{
    expect(err->code == KVT_USAGE && err->text[0]);
    expect(!memcmp(s, before, sizeof *s));
    expect(text_valid((const uint8_t *)err->text, strlen(err->text), NULL));
    for (const char *c = err->text; *c; c++)
        expect((unsigned char)*c >= 0x20 && *c != 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    kvt_err err;
    sample s, before;
    char *text = malloc(n + 1);
    expect(text);
    memcpy(text, data, n);
    text[n] = 0; /* a text ends at its first NUL */
    memset(&s, 0, sizeof s);
    kvt_param_defaults(table, &s);
    memcpy(&before, &s, sizeof s); /* with the padding */
    if (kvt_param_parse(table, &s, text, &err))
        check_refused(&s, &before, &err);
    else
        check_accepted(&s);
    free(text);
    return 0;
}
