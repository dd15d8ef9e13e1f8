/* slo.c - limits of a service as text. */
#include "kvt/analyze.h"
