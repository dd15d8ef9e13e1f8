/* machine.c - machines and profiles: JSON in and out, names, aliases. */
#include "replay/cost/cost_priv.h"
