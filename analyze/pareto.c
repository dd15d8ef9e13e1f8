/* pareto.c - points that no other one beats in both cost and loss. */
#include "kvt/analyze.h"
