/* data.c - finding a data file by its name. */
#include "replay/cost/cost_priv.h"
