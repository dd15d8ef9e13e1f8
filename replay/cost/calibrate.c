/* calibrate.c - constants from a user's measured points. */
#include "replay/cost/cost_priv.h"
