/* bench_machine.c - this machine as one of the cost model, measured. */
#include "kvt/live.h"
