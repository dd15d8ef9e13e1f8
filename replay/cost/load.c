/* load.c - slots of lanes as sums, by a policy's own rule. */
#include "replay/cost/cost_priv.h"
