/* cost_models.c - geometries and machines as options name them. */
#include "cli/cli.h"
