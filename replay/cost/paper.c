/* paper.c - the conventions of LookaheadKV's theory table. */
#include "replay/cost/cost_priv.h"
