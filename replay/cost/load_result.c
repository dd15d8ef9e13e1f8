/* load_result.c - slots of lanes as sums, from a replay. */
#include "replay/cost/cost_priv.h"
