/* make.c - policies x budgets x lengths x machines. */
#include "replay/cost/cost_priv.h"
