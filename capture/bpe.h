/* bpe.h - byte-pair merging of one word by a list of merges.
 *
 *   bpe *b;
 *   bpe_new(&b, vocab, &(bpe_rules){.merge = merge, .n_merge = n}, &err);
 *   token_room room = {id, size, 0, 0};
 *   bpe_word(b, &room, word, n, &err);              ... room.id[0 .. room.n) ...
 *   bpe_free(b);
 *
 * Words begin as bytes where the vocabulary is in the byte-level alphabet, and as characters,
 * with bytes for those that are no token, where it is not. */
#ifndef CAPTURE_BPE_H
#define CAPTURE_BPE_H

#include "capture/vocab.h"

typedef struct bpe_rules {
    const token_text *merge; /* [n_merge] "left right" in the vocabulary's script, */
    const token_text *right; /* or NULL; else merge [n_merge] holds left parts, this the rest */
    int64_t n_merge;
    bool whole;    /* a word that is a token is taken as it is (ignore_merges) */
    bool unknown;  /* characters: one of no token, and no bytes, becomes `unk` */
    int32_t unk;   /* in the vocabulary; read where `unknown` is set */
    bool fuse_unk; /* a run of such characters becomes one */
} bpe_rules;

/* Where the tokens of a word go: id and size [as many as the word has bytes]. */
typedef struct token_room {
    int32_t *id;
    int64_t *size;  /* bytes of the word; they add up to it unless n is 0 */
    int64_t n;      /* of both */
    int64_t n_lost; /* grows by bytes without a token, left out or become `unk`; one left out
                     * is in the size of a neighbour */
} token_room;

typedef struct bpe bpe;

/* The vocabulary is borrowed until bpe_free; so is nothing else. Merges in order of rank: lower
 * is earlier. FORMAT: a merge without a space, or of something that is no token. */
KVT_CHECKED kvt_code bpe_new(bpe **out, const vocab *v, const bpe_rules *rules, kvt_err *err);
void bpe_free(bpe *b); /* NULL is fine */

/* The tokens of one word of n bytes of UTF-8 (in the alphabet: of any bytes), from left to
 * right; sets room->n. A byte that has no token is left out, as if it had not been there.
 * NOMEM. Not for two threads at once. */
KVT_CHECKED kvt_code bpe_word(bpe *b, token_room *room, const char *word, size_t n,
                              kvt_err *err);

#endif
