/* columns.c - the columns of cost.csv. */
#include "replay/cost/cost_priv.h"
