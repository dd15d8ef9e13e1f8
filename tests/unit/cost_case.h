/* cost_case.h - what several tests of the cost model are made of: models by name, policies as
 * their descriptors are, and a comparison that prints both numbers. */
#ifndef TESTS_UNIT_COST_CASE_H
#define TESTS_UNIT_COST_CASE_H

#include "kvt/cost.h"

kvt_cost_geometry model(const char *name); /* must be known */

/* Seconds of a prefill of n tokens, one request. */
double prefill_time(const kvt_machine *m, const char *name, int64_t n);

/* Policies as their descriptors are. */
extern const kvt_cost_work full, snapkv, laq, speckv;

/* Fails unless got is at most tolerance x |want| away from want. */
void within(const char *what, double got, double want, double tolerance);

#endif
