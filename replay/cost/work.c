/* work.c - what one policy does, from its traits, window, size and work(). */
#include "replay/cost/cost_priv.h"
