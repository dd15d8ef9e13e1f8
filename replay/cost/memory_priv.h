/* memory_priv.h - the timeline of memory, walked phase by phase (memory_walk.c,
 * memory_layers.c), for what looks at each of them (memory.c) or for the peak alone
 * (capacity.c). */
#ifndef REPLAY_COST_MEMORY_PRIV_H
#define REPLAY_COST_MEMORY_PRIV_H

#include "replay/cost/cost_priv.h"

/* A case with what is the same in all phases, in bytes of one device. */
typedef struct memory_case {
    const kvt_cost_case *c;
    const kvt_cost_geometry *g;
    const kvt_cost_load *load;
    const kvt_cost_work *work;
    const kvt_machine *m;
    load_shape shape;
    double batch;
    double n;     /* tokens of the prompt */
    double scale; /* of what the case's load keeps: n over the case's length */
    double pass;  /* tokens of the pass: with what runs behind the prompt */
    double alive; /* of them at a time: a chunk's */
    double last;  /* tokens of the last chunk; 0: the prompt is whole */
    bool evicts;  /* slots are dropped at the end of the prompt */
    bool copies;  /* and what stays is moved together */
    double slot;  /* keys and values of a slot, of all requests */
    double state_slot, state_lane;
    double token_attention, token_ffn; /* activations of a token */
    double score;                      /* scratch of the scoring of one layer */
    double queries;                    /* saved ones of a draft on the model itself */
    double growth;                     /* slots that a lane grows by while decoding, at most */
    kvt_memory_cost base;              /* weights, adapter, draft, runtime; see memory_walk() */
    double draft_kv;
    bool peak_only; /* of the layers' phases the largest of either kind is enough */
} memory_case;

/* `n` tokens and `batch` requests instead of the case's; what the load keeps is scaled. */
void memory_case_of(memory_case *out, const kvt_cost_case *c, double n, double batch);

/* ---- memory_rows.c ---- */

/* Slots of a layer as bytes, with what rounding adds to its tensors. */
typedef struct memory_held {
    double bytes, slack;
} memory_held;

double memory_rounding(const memory_case *x, double bytes);
memory_held memory_held_of(const memory_case *x, double slots);
double memory_dense(const memory_case *x, int layer, double n); /* slots of n tokens */
double memory_kept(const memory_case *x, int layer);            /* and of what was kept */
double memory_state(const memory_case *x, double slots, int layers);
bool memory_same_layer(const memory_case *x, int layer); /* as the one in front of it */
/* Rounding of what is no cache, the total. */
void memory_finish(kvt_memory_cost *row, const memory_case *x);

/* ---- phases ---- */

typedef void memory_see(void *user, kvt_memory_phase phase, int layer,
                        const kvt_memory_cost *row);
void memory_row(const memory_case *x, memory_see *see, void *user, kvt_memory_phase phase,
                int layer, kvt_memory_cost *row); /* finishes it and shows it */
void memory_walk_layers(const memory_case *x, memory_see *see, void *user);
/* Every phase in order of time; rows have their totals. Where fewer prompts are read together
 * than requests decode, the others' cache and state are in the base of the prompt's phases. */
void memory_walk(const memory_case *x, memory_see *see, void *user);
/* The last decode step, or what is left of the prompt where none is decoded. */
void memory_steady(kvt_memory_cost *out, const memory_case *x);

#endif
