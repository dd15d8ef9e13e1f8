/* capacity.c - what fits. */
#include "replay/cost/cost_priv.h"
