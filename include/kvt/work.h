/* work.h - what running a policy costs beyond what the engine sees from its traits.
 *
 * Filled by a policy's work() hook; kvt/cost.h will include it, never the reverse. Zero means
 * "nothing of that kind". Shapes are per lane unless a name says otherwise. */
#ifndef KVT_WORK_H
#define KVT_WORK_H

#include "kvt/api.h"

typedef struct kvt_work {
    int64_t head_dim;         /* given: channels of a head of the model */
    int64_t lane_heads;       /* given: query heads of a lane */
    int64_t extra_tokens;     /* probe tokens run through the model once (lookahead, draft) */
    int64_t draft_tokens;     /* tokens generated one at a time before the decision */
    double rows_frac;         /* share of the N x N prompt rows that must be formed again */
    int64_t state_bytes_slot; /* kept beside every slot while decoding (scores, positions) */
    int64_t state_bytes_lane; /* kept beside every lane */
    bool by_query_head;       /* K and V are stored once for each query head */
    bool whole_rows;          /* needs whole attention rows: no fused kernel as published */
} kvt_work;

#endif
