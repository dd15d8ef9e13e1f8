/* prefill.c - the dense prefill. */
#include "replay/cost/cost_priv.h"
