/* cost_calibrate.c - kvt cost --calibrate. */
#include "cli/cli.h"
