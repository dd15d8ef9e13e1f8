/* choose.c - which policies and budgets meet limits, and which of them loses least. */
#include "kvt/analyze.h"
