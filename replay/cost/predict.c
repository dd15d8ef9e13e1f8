/* predict.c - one prediction. */
#include "replay/cost/cost_priv.h"
