/* cost_laws.h - a policy at a setting, predicted, and what the laws of the cost model are
 * checked over. */
#ifndef TESTS_COST_LAWS_H
#define TESTS_COST_LAWS_H

#include "kvt/cost.h"

/* One prediction with everything that it was made from. */
typedef struct law_case {
    const char *policy; /* text of a use */
    const kvt_cost_geometry *geometry, *draft;
    const kvt_machine *machine;
    kvt_cost_profile profile;
    kvt_act act;
    kvt_cost_setting setting;
    int64_t n_prompt, n_response, budget;
    /* Made by law_prepare(); a law may change them before law_predict(). */
    kvt_published constants;
    kvt_cost_work work;
    kvt_cost_load load;
    kvt_cost cost;
} law_case;

/* Geometries (with the model that drafts for them), machines and policies that laws run over.
 */
enum { LAW_POLICIES_MAX = 256, LAW_GEOMETRIES = 7, LAW_MACHINES = 6 };
typedef struct law_world {
    kvt_use *use[LAW_POLICIES_MAX];
    const char *policy[LAW_POLICIES_MAX];
    int n_policy;
    kvt_cost_geometry geometry[LAW_GEOMETRIES], draft[LAW_GEOMETRIES];
    kvt_machine machine[LAW_MACHINES];
} law_world;
extern law_world law;

int law_open(void **state); /* group set-up: fills `law` */
int law_close(void **state);

/* A policy of `law` on llama-3.1-8b and h100-sxm, fused: 8,192 tokens, 256 decoded, 512 slots.
 */
law_case law_usual(const char *policy);
/* That one on others, predicted. */
law_case law_made(int policy, int geometry, int machine, kvt_cost_profile profile);
void law_on(law_case *c, int geometry, int machine);

void law_work(law_case *c);    /* constants and work */
void law_load(law_case *c);    /* slots of that work by its own rule */
void law_predict(law_case *c); /* from what is there */
void law_all(law_case *c);     /* the three */
kvt_cost_case law_cost_case(const law_case *c);

/* So many comparisons failed: each prints the case and both numbers, the test fails at its end.
 */
typedef struct law_tally {
    long checked, broken;
} law_tally;
void law_is(law_tally *t, bool holds, const law_case *c, const char *what, double a, double b);
void law_near(law_tally *t, double a, double b, double eps, const law_case *c,
              const char *what); /* relative */
void law_least(law_tally *t, double a, double b, const law_case *c,
               const char *what); /* a >= b, but for rounding */
void law_end(const law_tally *t, long least_checked);

#endif
