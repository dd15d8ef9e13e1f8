/* evict.c - the eviction step, with drafts and extra tokens. */
#include "replay/cost/cost_priv.h"
