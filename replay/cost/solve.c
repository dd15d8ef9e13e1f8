/* solve.c - small least squares. */
#include "replay/cost/cost_priv.h"
