/* use_priv.h - what the files that read a policy's text form share. */
#ifndef REPLAY_USE_PRIV_H
#define REPLAY_USE_PRIV_H

#include "kvt/replay.h"

enum { USE_TEXT_MAX = 2048 };

/* What the policy writes on each slot and each lane, at no budget and at each of these. */
void use_memory(const kvt_use *u, const kvt_sequence *seq, const int64_t *budget, int n_budget,
                int *slot_width, size_t *state_size);

/* ---- use_base.c ----------------------------------------------------------------------------
 */

/* Finds the policy that scores in front of this one, `typed` its own parameters
 * ("window=16,pool=5"), into u->base. u->own is filled in. USAGE: what is no base. */
KVT_CHECKED kvt_code use_base_open(kvt_use *u, const kvt_registry *r, const char *typed,
                                   kvt_err *err);
/* Takes over what the base reads, is worth and may not do. */
KVT_CHECKED kvt_code use_base_merge(kvt_use *u, kvt_err *err);
/* Adds "base=NAME,base.window=16" to a text of `cap`. */
void use_base_print(const kvt_use *u, char *text, size_t cap);

/* ---- use_again.c ---------------------------------------------------------------------------
 */

/* every=K of a policy of the prompt only: it decides anew while decoding. USAGE: why it cannot.
 */
KVT_CHECKED kvt_code use_again(kvt_use *u, kvt_err *err);

/* Whether one lane's scores do not say which of its slots stay: select() sees several lanes. */
bool use_selects_together(const kvt_use *u);

#endif
