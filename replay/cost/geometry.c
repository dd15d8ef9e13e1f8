/* geometry.c - models: built in, from JSON, and what follows from their shapes. */
#include "replay/cost/cost_priv.h"
