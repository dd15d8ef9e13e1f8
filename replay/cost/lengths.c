/* lengths.c - lists of lengths. */
#include "replay/cost/cost_priv.h"
