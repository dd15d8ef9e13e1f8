/* cost_best.h - which line of a block costs least. */
#ifndef CLI_COST_BEST_H
#define CLI_COST_BEST_H

#include "cli/cost_columns.h"

/* The least eviction, decode step and peak among the policies of a block, beside the dense
 * cache's: nothing where a block has fewer than two lines of policies. Oracles, controls and
 * what does not fit take no part. */
KVT_CHECKED kvt_code cost_best_print(const cost_block *b, kvt_err *err);

#endif
