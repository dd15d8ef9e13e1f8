/* bpe.h - byte-pair merging of one word, with a heap: O(n log n), no recursion.
 *
 *   bpe *b;
 *   bpe_new(&b, token, literal, n_token, merge, n_merge, &err);
 *   bpe_word(b, id, size, &n_id, &n_lost, word, n, false, &err);
 *   bpe_free(b);
 *
 * Tokens and merges are written in the byte-level alphabet, in which every byte is one
 * printable character. A token is a pointer and a length: it may be empty or hold zero bytes.
 */
#ifndef CAPTURE_BPE_H
#define CAPTURE_BPE_H

#include "kvt/err.h"

/* Borrowed bytes. */
typedef struct bpe_text {
    const char *data; /* NULL: a hole, where a vocabulary has no token for this id */
    size_t n;
} bpe_text;

typedef struct bpe bpe;

/* Copies what it needs. A merge is "left right", split at the first space behind its first
 * byte; lower index, earlier merge. Of equal tokens the lowest id is the one that encodes.
 * literal [V] or NULL: tokens that are plain text; so is a token with a character outside the
 * alphabet. They decode to their own bytes and are never merged. FORMAT: a hole, a merge
 * without a space or of something that is no token. */
KVT_CHECKED kvt_code bpe_new(bpe **out, const bpe_text *token, const bool *literal,
                             int64_t n_token, const bpe_text *merge, int64_t n_merge,
                             kvt_err *err);
void bpe_free(bpe *b);

/* Bytes that a token stands for; borrowed until bpe_free. id must be in [0, n_token). */
bpe_text bpe_bytes(const bpe *b, int32_t id);

/* The token of exactly these bytes, or -1. Literal tokens are not found. */
int32_t bpe_find(const bpe *b, const char *bytes, size_t n);

/* Merges one word of n bytes: ids [at most n] and sizes in bytes [at most n], from left to
 * right; *n_id of them. A byte that has no token is left out, as if it had not been there; the
 * symbol before it (or behind it) takes its place in the sizes, which add up to n unless n_id
 * is 0. *n_lost grows by the number of such bytes. whole: a word that is a token is taken as it
 * is (ignore_merges). NOMEM. Not for two threads at once. */
KVT_CHECKED kvt_code bpe_word(bpe *b, int32_t *id, int64_t *size, int64_t *n_id,
                              int64_t *n_lost, const char *word, size_t n, bool whole,
                              kvt_err *err);

#endif
