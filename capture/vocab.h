/* vocab.h - the tokens of a vocabulary as the bytes that they stand for, and the way back.
 *
 *   vocab *v;
 *   vocab_new(&v, VOCAB_ALPHABET, token, NULL, n, &err);
 *   int32_t id = vocab_find(v, "the", 3);          -1: no token of these bytes
 *   token_text bytes = vocab_bytes(v, id);         borrowed until vocab_free
 *   vocab_free(v);
 *
 * Files write tokens in one of two scripts. A token is a pointer and a length: it may be empty
 * or hold zero bytes. Reading is safe from several threads at once. */
#ifndef CAPTURE_VOCAB_H
#define CAPTURE_VOCAB_H

#include "kvt/err.h"

/* Borrowed bytes. */
typedef struct token_text {
    const char *data; /* NULL: a hole, where a vocabulary has no token for this id */
    size_t n;
} token_text;

typedef enum vocab_script {
    VOCAB_ALPHABET, /* every byte is one printable character (byte-level BPE) */
    VOCAB_SPACES    /* text, with U+2581 for a space (SentencePiece) */
} vocab_script;

/* What a token of the file is. */
typedef enum vocab_sort {
    VOCAB_WRITTEN, /* in the script */
    VOCAB_PLAIN,   /* text as it is; found, but for one with a space where U+2581 is that */
    VOCAB_HIDDEN,  /* text as it is, that is never found */
    VOCAB_BYTE     /* "<0x0A>": one byte, found by vocab_byte() only */
} vocab_sort;

typedef struct vocab vocab;

/* sort [n] of vocab_sort, or NULL: all written. A token that is not in the script (a character
 * outside the alphabet, a plain space where U+2581 stands for it) stands for its own bytes and
 * is never found. Of equal tokens the lowest id is found. FORMAT: a hole, a byte token of
 * another form. */
KVT_CHECKED kvt_code vocab_new(vocab **out, vocab_script script, const token_text *token,
                               const uint8_t *sort, int64_t n, kvt_err *err);
void vocab_free(vocab *v); /* NULL is fine */

int64_t vocab_count(const vocab *v);
vocab_script vocab_script_of(const vocab *v);
size_t vocab_longest(const vocab *v); /* bytes of the longest token that can be found */
/* Bytes that a token stands for; id must be in [0, vocab_count). */
token_text vocab_bytes(const vocab *v, int32_t id);
int32_t vocab_find(const vocab *v, const char *bytes, size_t n); /* -1: none */
/* The token of a byte alone: in the alphabet an ordinary token, else a byte token; -1: none. */
int32_t vocab_byte(const vocab *v, uint8_t byte);

/* Writes the bytes that a text in the script stands for to out (at most text.n): their count,
 * or -1 where it is not in the script. */
int64_t vocab_read(vocab_script script, char *out, token_text text);

#endif
