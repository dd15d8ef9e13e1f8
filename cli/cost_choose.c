/* cost_choose.c - limits, the winner and the front. */
#include "cli/cli.h"
