/* cost_table.c - what a person reads of costs. */
#include "cli/cli.h"
