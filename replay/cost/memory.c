/* memory.c - memory, phase by phase. */
#include "replay/cost/cost_priv.h"
