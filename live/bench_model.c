/* bench_model.c - the passes of a model beside their prediction. */
#include "kvt/live.h"
