/* spm.h - merging a text by the scores of its tokens, as SentencePiece's BPE models do.
 *
 *   spm *s;
 *   spm_new(&s, vocab, score, unk, &err);
 *   spm_word(s, &room, text, n, &err);
 *   spm_free(s);
 *
 * Two neighbours join where their text is a token; of all such pairs the one of the highest
 * score, the leftmost among equals. A character that is no token in the end becomes its bytes.
 */
#ifndef CAPTURE_SPM_H
#define CAPTURE_SPM_H

#include "capture/bpe.h"

typedef struct spm spm;

/* score [vocab_count]; unk: -1: none. The vocabulary is borrowed until spm_free. FORMAT: a
 * score that is no number. */
KVT_CHECKED kvt_code spm_new(spm **out, const vocab *v, const float *score, int32_t unk,
                             kvt_err *err);
void spm_free(spm *s); /* NULL is fine */

/* The tokens of n bytes of UTF-8, spaces as such; as bpe_word(). */
KVT_CHECKED kvt_code spm_word(spm *s, token_room *room, const char *text, size_t n,
                              kvt_err *err);

#endif
