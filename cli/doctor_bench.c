/* doctor_bench.c - kvt doctor --bench. */
#include "cli/cli.h"
