/* cost_priv.h - what the files of replay/cost share.
 *
 *   data        data.c, geometry.c, machine.c, constants.c   models, machines, profiles
 *   work        work.c                                        what one policy does
 *   slots       load.c, load_result.c                         how many slots its lanes hold
 *   time        bytes.c, prefill.c, decode.c, evict*.c, paper.c (time_priv.h)
 *   memory      memory.c, capacity.c
 *   all of it   predict.c, make.c, columns.c, lengths.c
 *   fits        calibrate.c, solve.c
 *   checks      figures*.c
 */
#ifndef REPLAY_COST_PRIV_H
#define REPLAY_COST_PRIV_H

#include "kvt/cost.h"
#include "replay/cost/data.h"

/* ---- bytes.c: bytes of weights and slots on one device (of setting.tensor) ---- */

int64_t cost_batch(const kvt_cost_setting *s);         /* at least 1 */
int64_t cost_prefill_batch(const kvt_cost_setting *s); /* of them, read together */
/* Of the prompt and its eviction: the batch is what is read together. */
kvt_cost_setting cost_prompt_setting(const kvt_cost_setting *s);
int64_t cost_tensor(const kvt_cost_setting *s); /* at least 1 */
double cost_kv_bits(const kvt_cost_setting *s);
double cost_weight_bits(const kvt_cost_setting *s);
/* Lanes of a layer: kv heads; query heads where the work has a set for each. `w` may be NULL.
 */
double cost_lanes(const kvt_cost_geometry *g, const kvt_cost_work *w);
/* Devices that share the kv heads: at most as many as there are. */
double cost_kv_split(const kvt_cost_geometry *g, const kvt_cost_setting *s);
/* Matrices inside the layers; the output matrix; everything that is stored. Under weight-only
 * quantisation embedding and output matrix keep 16 bits; a model file's own bytes are taken
 * where weight_bits is 0. */
double cost_lin_bytes(const kvt_cost_geometry *g, const kvt_cost_setting *s);
double cost_head_bytes(const kvt_cost_geometry *g, const kvt_cost_setting *s);
double cost_all_bytes(const kvt_cost_geometry *g, const kvt_cost_setting *s);
/* Keys and values of one slot of one lane. */
double cost_slot_bytes(const kvt_cost_geometry *g, const kvt_machine *m,
                       const kvt_cost_setting *s);
/* Slots that n tokens take in a layer: its window at most, unless full_windows. */
double cost_layer_tokens(const kvt_cost_geometry *g, const kvt_cost_setting *s, int layer,
                         double n);
/* Sum over layers of cost_layer_tokens(). */
double cost_tokens(const kvt_cost_geometry *g, const kvt_cost_setting *s, double n);
/* Pairs of query and key that causal attention forms over n tokens in a layer with that window
 * (0: none). */
double cost_pairs(double n, double window);
/* Bytes of one element of activations (2; 4 where the machine has no 16-bit peak). */
double cost_act_bytes(const kvt_machine *m);
/* Math of products with 16-bit weights, and of those inside the layers with the weights that
 * the model has there; of attention for heads of this model before n_half and windows. FLOP/s,
 * efficiency included. */
double cost_dense_rate(const kvt_machine *m, const kvt_cost_setting *s);
double cost_linear_rate(const kvt_machine *m, const kvt_cost_geometry *g,
                        const kvt_cost_setting *s);
double cost_attention_rate(const kvt_machine *m, const kvt_cost_geometry *g);

/* ---- predict.c ---- */

void cost_undefine(kvt_cost *out); /* a prediction of which nothing is known */

/* ---- evict.c ---- */

/* The eviction at the end of the prompt, the draft included; adapter weights and a draft's are
 * not memory here. `bound` may be NULL. */
void cost_evict(kvt_evict_cost *out, const kvt_cost_case *c, kvt_bottleneck *bound);
double cost_adapter_params(const kvt_cost_geometry *g,
                           const kvt_cost_work *w); /* LoRA + embeddings + scorers */

/* ---- paper.c: KVT_ENGINE_PAPER ---- */
void cost_paper(kvt_cost *out, const kvt_cost_case *c); /* prefill, evict, ttft; the rest NAN */
/* Columns of the table: FLOP and bytes of the prompt with its eviction. It prints them in units
 * of 2^40 and 2^30. NAN for a policy that it does not know. */
double cost_paper_flops(const kvt_cost_case *c);
double cost_paper_bytes(const kvt_cost_case *c);

/* ---- decode.c ---- */
/* step_first, step_mean, step_last, decode. */
void cost_decode(kvt_cost *out, const kvt_cost_case *c);

/* ---- memory.c, capacity.c ---- */
/* peak, steady, peak_phase, peak_layer, kv_mean, short_bytes. */
void cost_memory(kvt_cost *out, const kvt_cost_case *c);
/* max_batch, max_context. */
void cost_capacity(kvt_cost *out, const kvt_cost_case *c);

/* ---- load.c: slots of lanes into sums ---- */
typedef struct load_shape {
    int n_layer, n_lane;
    int64_t page; /* tokens; 0: exact */
    bool shared;  /* pages hold all lanes of a layer */
} load_shape;
/* How lanes are stored by this work and setting. */
load_shape load_shape_of(const kvt_cost_geometry *g, const kvt_cost_work *w,
                         const kvt_cost_setting *s);
double load_held(const load_shape *shape, double slots); /* of one lane: whole pages */

#endif
