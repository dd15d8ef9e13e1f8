/* decode.c - decode steps. */
#include "replay/cost/cost_priv.h"
