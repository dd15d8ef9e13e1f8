/* tiny_vocab.h - a made byte-level vocabulary, small enough to know by heart.
 *
 * Ids 0 to 255 are the bytes, in order; then one token for each merge, in order; then the extra
 * tokens. The alphabet is written down here a second time, apart from the code under test. */
#ifndef TINY_VOCAB_H
#define TINY_VOCAB_H

#include "capture/tokenizer.h"

#include <string.h>

enum { TINY_MAX = 512, TINY_TEXT = 64 };

typedef struct tiny_vocab {
    char text[TINY_MAX][TINY_TEXT]; /* in the alphabet */
    token_text token[TINY_MAX];
    int32_t type[TINY_MAX];
    char merge_text[TINY_MAX][TINY_TEXT];
    token_text merge[TINY_MAX];
    tokenizer_source source;
} tiny_vocab;

/* Appends the alphabet's character for a byte: n grows. */
static inline void tiny_char(char *out, size_t *n, uint8_t byte)
{
    uint32_t cp = byte;
    if (byte <= 32)
        cp = 0x100u + byte;
    else if (byte >= 127 && byte <= 160)
        cp = 0x100u + 33 + (byte - 127u);
    else if (byte == 173)
        cp = 0x100u + 67;
    if (cp < 0x80) {
        out[(*n)++] = (char)cp;
    } else {
        out[(*n)++] = (char)(0xc0 | cp >> 6);
        out[(*n)++] = (char)(0x80 | (cp & 0x3f));
    }
}

static inline void tiny_spell(char out[TINY_TEXT], size_t *n, const char *bytes)
{
    *n = 0;
    for (; *bytes; bytes++)
        tiny_char(out, n, (uint8_t)*bytes);
}

static inline int32_t tiny_add(tiny_vocab *v, const char *text, size_t n, int32_t type)
{
    int64_t i = v->source.n_token++;
    memcpy(v->text[i], text, n);
    v->token[i] = (token_text){v->text[i], n};
    v->type[i] = type;
    return (int32_t)i;
}

/* The 256 bytes; pre NULL: smollm. */
static inline void tiny_init(tiny_vocab *v, const char *pre)
{
    memset(v, 0, sizeof *v);
    v->source = tokenizer_source_empty();
    v->source.model = "gpt2";
    v->source.pre = pre ? pre : "smollm";
    v->source.token = v->token;
    v->source.type = v->type;
    v->source.merge = v->merge;
    for (int byte = 0; byte < 256; byte++) {
        char text[TINY_TEXT];
        size_t n = 0;
        tiny_char(text, &n, (uint8_t)byte);
        tiny_add(v, text, n, TOKEN_NORMAL);
    }
}

/* The next merge and its token: the token's id. Both parts are plain bytes without zeros. */
static inline int32_t tiny_merge(tiny_vocab *v, const char *left, const char *right)
{
    char a[TINY_TEXT], b[TINY_TEXT];
    size_t n_a, n_b;
    int64_t m = v->source.n_merge++;
    tiny_spell(a, &n_a, left);
    tiny_spell(b, &n_b, right);
    char *to = v->merge_text[m];
    memcpy(to, a, n_a);
    to[n_a] = ' ';
    memcpy(to + n_a + 1, b, n_b);
    v->merge[m] = (token_text){to, n_a + 1 + n_b};
    memcpy(a + n_a, b, n_b);
    return tiny_add(v, a, n_a + n_b, TOKEN_NORMAL);
}

/* A token that stands for its own text. */
static inline int32_t tiny_fixed(tiny_vocab *v, const char *text, int32_t type)
{
    return tiny_add(v, text, strlen(text), type);
}

#endif
