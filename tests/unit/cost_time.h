/* cost_time.h - what tests of the cost model's times share: a machine, decode steps on it, and
 * all that a whole prediction takes. */
#ifndef TESTS_UNIT_COST_TIME_H
#define TESTS_UNIT_COST_TIME_H

#include "tests/unit/cost_case.h"

/* A fused engine's defaults; nothing of the host. */
kvt_machine machine(double peak, double mem_bw);

/* Of that model, 32,768 tokens, 128 slots. */
kvt_cost_work lookaheadkv(const kvt_cost_geometry *g);

/* Prompts of LookaheadKV's table 15. */
enum { LENGTHS = 4 };
extern const int64_t lengths[LENGTHS];

/* n slots in every lane; the busiest device of several has `longest` times the mean. */
kvt_cost_run slots(const kvt_cost_geometry *g, double n, double longest);
/* Seconds of one such step; its parts must sum to it. NULL: no policy. */
double step(const kvt_cost_geometry *g, const kvt_machine *m, const kvt_cost_setting *s,
            const kvt_cost_work *w, double n, double longest);

/* Everything that a prediction takes, of one policy on llama-3.1-8b. */
typedef struct bench {
    kvt_cost_geometry g, d;
    kvt_published p;
    kvt_cost_work w;
    kvt_cost_load load;
    kvt_cost_setting s;
    kvt_cost_case c;
} bench;

/* n tokens of a prompt, m decoded, on an H100. */
void open_bench(bench *b, const kvt_cost_work *w, int64_t n, int64_t budget, int64_t m);
kvt_cost predict(const bench *b);

#endif
