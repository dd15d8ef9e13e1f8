/* figures.c - published figures beside what the formulae give. */
#include "replay/cost/cost_priv.h"
