/* toy_more.h - a toy with all that a policy may read: attention, keys, probes, decisions and
 * learned weights of a synthetic trace. */
#ifndef TESTS_TOY_MORE_H
#define TESTS_TOY_MORE_H

#include "tests/synth_more.h"
#include "tests/toy.h"

/* Random attention, prompts and responses of that size, drafts at 8, 17, 33 and 49 slots, a
 * scorer of each kind. Memory from a, which must outlive it; swap_heads: as toy_new(). Ends the
 * program where it cannot be made. */
toy *toy_rich(kvt_arena *a, int n_layer, int n_model_layer, int n_head, int n_group, int64_t N,
              int64_t M, bool swap_heads);
/* The same of a synth that stores queries of every position; without learned weights. */
toy *toy_of_synth(kvt_arena *a, const synth *s, bool swap_heads);
void toy_close(toy *t); /* its scorers */

/* Whether a policy with these parameters ("" or NULL: defaults) reads more than attention, so
 * that it runs on none of toy_new(). */
bool toy_needs_more(const kvt_policy *p, const char *params);

#endif
