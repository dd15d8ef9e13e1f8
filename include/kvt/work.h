/* work.h - what running a policy costs beyond what the engine sees from its traits, its window
 * and its size.
 *
 * Filled by a policy's work() hook; kvt/cost.h includes it, never the reverse. Zero means
 * "nothing of that kind". Of one sequence; shapes are per lane unless a name says otherwise. */
#ifndef KVT_WORK_H
#define KVT_WORK_H

#include "kvt/api.h"

typedef struct kvt_work {
    /* Given. n_prompt and budget are 0 where bytes beside slots are all that is asked. */
    int64_t head_dim;   /* channels of a head of the model */
    int64_t lane_heads; /* query heads of a lane */
    int64_t n_hidden;   /* width of the residual stream; 0: not known */
    int64_t n_prompt;   /* tokens */
    int64_t budget;     /* slots of a lane */

    /* What it keeps while decoding. */
    int64_t state_bytes_slot; /* beside every slot (scores, positions) */
    int64_t state_bytes_lane; /* beside every lane */
    /* And in its published cache, which --fair bytes does not count: positions where the order
     * of slots is not that of tokens, marks that wait. Tables of pages and offsets of ragged
     * lanes are derived. */
    double more_bytes_slot, more_bytes_lane;
    /* Bytes of state that a decision in decode reads and writes for each slot; 0: all of it,
     * both ways, where the rows of that step go into it, else none. */
    int64_t state_moves;
    int64_t page_tokens; /* its published cache is paged by lane; 0: it is not */

    /* What runs beside the prompt. */
    int64_t extra_tokens; /* tokens behind the prompt, in the same pass (lookahead, a draft) */
    int64_t lora_rank; /* of adapters on those tokens, on all linear maps (of the last layer on
                          q and k only); 0: none */
    bool learned_tokens;  /* their embeddings are weights of the policy */
    int64_t draft_tokens; /* generated one at a time before the decision */
    bool draft_model;     /* by a second, smaller model, which reads the prompt, too */
    bool draft_evicts;    /* on a cache that is cut for the draft first */
    int64_t draft_window; /* last queries of the prompt that score for that cut; 0: as many as
                             for the other one */
    double repeats;       /* the prompt runs so many times more behind itself (KVzip) */

    /* How it scores. */
    double rows_frac; /* share of the N x N prompt rows whose sums it needs; 0: of all that
                         are causal, where it needs sums */
    int64_t rows;     /* rows of queries that score, where that is not window(); 0: window() */
    double network_params; /* weights of a scorer that runs on each token, of one lane */
    double network_shared; /* and those that all lanes of a layer share */
    bool whole_rows;       /* needs whole attention rows: no fused kernel as published */

    /* How it selects, where it sees several lanes together. */
    bool cuts_at_once; /* of the whole model: yet no layer waits for the others, for what each
                          gets is known before the prompt, or a threshold decides */
    bool even_lanes;   /* lanes of a layer hold the same number of slots */
} kvt_work;

#endif
