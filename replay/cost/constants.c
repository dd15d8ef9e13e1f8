/* constants.c - which constants hold for a policy on a machine under a profile. */
#include "replay/cost/cost_priv.h"
