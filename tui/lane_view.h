/* lane_view.h - everything about one lane of one cell that screens draw from: evictions, the
 * oracle's set, regretted tokens, lost mass by step, and sums for the map of the prompt. */
#ifndef TUI_LANE_VIEW_H
#define TUI_LANE_VIEW_H

#include "analyze/marks.h"
#include "analyze/regret.h"
#include "tui/data.h"

typedef struct lane_view {
    const kvt_result *r, *oracle; /* r NULL: nothing to show; oracle NULL: no judge */
    int cell, oracle_cell, layer, lane;
    int64_t n_prompt, n_response, n_token;
    int32_t *evict;  /* i32 [T] step at which it left, -1 never */
    int8_t *judged;  /* i8 [T] the oracle keeps it: 1, 0, -1 not known */
    bool *pinned;    /* [T] by rule, at the end of the prompt */
    bool *regretted; /* [T] */
    double *mass;    /* f64 [T] attention still to come after it left, of all where it stays */
    const float *rows;               /* f32 [M T], borrowed from the source; NULL: none */
    const float *lost, *oracle_lost; /* f32 [M] or NULL */
    int32_t *worst;                  /* i32 [M] steps by falling loss */
    int64_t evicted_prefill, evicted_decode;
    int64_t oracle_kept, common; /* prompt tokens that the oracle keeps, and both keep */
    regret_sum sum;
    int64_t top_regret; /* the regretted token with most mass; -1: none */

    int64_t step;           /* that the sums below are of; -1: none yet */
    int64_t *held_before;   /* i64 [N + 1] prompt tokens before t in the cache at that step */
    int64_t *regret_before; /* i64 [N + 1] regretted ones, whatever the step */
    char note[200];         /* why something is missing, "" otherwise */
} lane_view;

KVT_CHECKED kvt_code lane_view_make(lane_view *v, const tui_data *d, const kvt_result *r,
                                    int cell, int layer, int lane, kvt_err *err);
void lane_view_fini(lane_view *v);
void lane_view_at(lane_view *v, int64_t step); /* brings the sums to a step */
mark lane_view_mark(const lane_view *v, int64_t token, int64_t step);
/* The next regretted token behind (dir 1) or in front of (dir -1) a token; -1: none. */
int64_t lane_view_next_regret(const lane_view *v, int64_t token, int dir);

#endif
