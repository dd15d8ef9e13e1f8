/* work.h - how a policy's scoring is described, between work.c and work_score.c. */
#ifndef REPLAY_COST_WORK_H
#define REPLAY_COST_WORK_H

#include "replay/cost/cost_priv.h"

/* Fills what ranking the prompt takes: score, rows, rows_frac, k_passes, reads_values, selects,
 * network_*, is_bound. `w` is what work() says, a base's included. */
void cost_score(kvt_cost_work *out, const kvt_use *u, const kvt_work *w, const kvt_geometry *g,
                int64_t n_prompt);
/* Rows of queries that score at one decision in decode; after cost_score(), in_decode, every.
 */
int64_t cost_decode_rows(const kvt_cost_work *out, const kvt_use *u, const kvt_work *w);
/* Fills decode_reads_*. */
void cost_decode_reads(kvt_cost_work *out, const kvt_use *u);

#endif
