/* time_priv.h - what the files of times share: attention, exchange, decode steps, what binds.
 *
 * Seconds of one device and all requests of the setting, as in kvt/cost.h. */
#ifndef REPLAY_COST_TIME_PRIV_H
#define REPLAY_COST_TIME_PRIV_H

#include "replay/cost/cost_priv.h"

/* ---- what binds ---- */

/* Seconds that went into each. */
typedef struct cost_bound {
    double math, memory, host;
} cost_bound;
/* Adds max(math, memory) to the larger one's account and returns it. */
double cost_bound_max(cost_bound *by, double math, double memory);
kvt_bottleneck cost_bound_name(const cost_bound *by);

/* ---- prefill.c ---- */

/* kvt_cost_prefill() with what binds it; `by` is added to. */
void cost_prefill(kvt_prefill_cost *out, cost_bound *by, const kvt_cost_geometry *g,
                  const kvt_machine *m, const kvt_cost_setting *s, int64_t n_prompt);
/* Seconds of the math of `flops` attention FLOP of one request in a layer with that window (0:
 * none), at the rate of a prefill of n tokens. */
double cost_attention_math(const kvt_cost_geometry *g, const kvt_machine *m,
                           const kvt_cost_setting *s, double n, double window, double flops);
/* Two all-reduces a layer over `tokens` of each request, in `rounds` passes: 0 on one device,
 * NAN where the devices have no link. */
double cost_exchange(const kvt_cost_geometry *g, const kvt_machine *m,
                     const kvt_cost_setting *s, double tokens, double rounds);

/* ---- decode.c ---- */

/* Seconds at one speed of memory. */
typedef struct cost_step_rates {
    double weights; /* of a step */
    double kv;      /* of a slot that rows see */
    double rank;    /* the policy's, of a slot that it ranks */
    double token;   /* the policy's, of a step */
    double move;    /* copies, of a slot */
    bool math;      /* the weights are bound by math */
} cost_step_rates;

/* Steps of one case: all that does not depend on the slots. */
typedef struct cost_steps {
    cost_step_rates far, near; /* from memory, from the last-level cache */
    double near_slots;         /* so many slots fit into that cache beside weights; -1: none */
    double fixed, exchange, host, smooth;
    bool ranks_held; /* what is held is ranked, not only what rows see */
} cost_steps;
void cost_steps_of(cost_steps *out, const kvt_cost_case *c);
void cost_step_at(kvt_decode_cost *out, const cost_steps *s, const kvt_cost_run *run);

/* ---- evict.c ---- */

/* cost_evict() with what binds it; `by` is added to. */
void cost_evict_by(kvt_evict_cost *out, cost_bound *by, const kvt_cost_case *c);

/* Whether lanes of the layer lose slots when n tokens are in them. */
bool cost_is_cut(const kvt_cost_case *c, int layer, double n);

/* ---- evict_score.c ---- */

/* Scoring `slots` slots (sum over layers and lanes) of a lane of `heads` query heads by rows of
 * queries: their math, or `passes` reads of keys (1, or 2 with values), at memory of mem_bw. */
double cost_rows_time(cost_bound *by, const kvt_cost_case *c, double mem_bw, double slots,
                      double heads, double rows, double passes);
/* The scoring of a prompt of n tokens whose layers hold `tokens` in all, by work.score. */
double cost_score_time(cost_bound *by, const kvt_cost_case *c, double n, double tokens,
                       double rows, int passes);

/* ---- evict_draft.c ---- */

int64_t cost_draft_tokens(const kvt_cost_case *c); /* that are counted; 0 without a draft */
double cost_scoring_rows(const kvt_cost_case *c);  /* with that many */
double cost_extra_tokens(const kvt_cost_case *c);
/* out->prefill and out->draft: the draft model's prefill, the steps. */
void cost_draft(kvt_evict_cost *out, cost_bound *by, const kvt_cost_case *c);

/* ---- evict_eager.c ---- */

/* Seconds of one eager scoring pass over the prompt before factor and floor. */
double cost_eager_pass(const kvt_cost_case *c);
/* Whether the machine's floor is what an eager eviction takes. */
bool cost_eager_floored(const kvt_cost_case *c);
/* Brings the fused parts of a stage, and their total, up to what an eager one takes; `host` is
 * the rest. */
void cost_eager_stage(kvt_evict_cost *part, const kvt_cost_case *c);

/* ---- paper.c ---- */

void cost_paper_prefill(kvt_prefill_cost *out, cost_bound *by, const kvt_cost_geometry *g,
                        const kvt_machine *m, const kvt_cost_setting *s, int64_t n_prompt);

#endif
