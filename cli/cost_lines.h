/* cost_lines.h - rows of a table of costs put together for people: a block for each machine,
 * batch and length, in it a line for each policy at a budget, over traces and profiles. */
#ifndef CLI_COST_LINES_H
#define CLI_COST_LINES_H

#include "cli/cli.h"
#include "kvt/cost.h"

/* What a number rests on. X(id, letter, text) */
/* clang-format off */
#define COST_MARKS(X)                                                                      \
    X(ASSUMED, 'a', "slots by the policy's own rule, no trace was replayed")               \
    X(MAPPED,  'm', "slots counted on another model, or on some of the layers")               \
    X(SCALED,  's', "slots counted at another length")                                     \
    X(DEFAULT, 'd', "PUBLISHED takes defaults: nothing was measured here of this policy")  \
    X(LIMIT,   'l', "a limit: an oracle's scoring costs nothing")                          \
    X(CACHED,  'c', "weights and cache fit into the last-level cache, which is faster")    \
    X(RANGE,   'o', "far outside of what the machine was calibrated on, bands are twice as wide")
/* clang-format on */
enum {
#define X(id, letter, text) COST_AT_##id,
    COST_MARKS(X)
#undef X
        COST_MARKS_N
};

/* Means over traces and seeds; memory is that of the worst one. */
typedef struct cost_line {
    const kvt_cost_row *row; /* the first, under the profile that is shown */
    int64_t n;               /* rows of that profile */
    double slots, ttft, tpot, evict;
    double evict_of[2], frac_of[2]; /* fused, as published; NAN: no row */
    int64_t n_of[2], draft_of[2];
    const kvt_cost_row *worst; /* most memory */
    unsigned marks;            /* bits of COST_AT_* */
} cost_line;

typedef struct cost_block {
    const kvt_cost_row *row; /* the first */
    int64_t least_prompt, most_prompt, n_trace;
    bool by_length; /* of one length */
    cost_line *line;
    int64_t n;
    kvt_band ttft, evict, tpot, memory; /* the widest of its lines */
} cost_block;

typedef struct cost_lines {
    cost_block *block;
    int64_t n;
} cost_lines;

/* `profile`: the one whose times, memory and bands are shown. The dense cache is the first line
 * of every block. Skipped rows are left out. */
KVT_CHECKED kvt_code cost_lines_make(cost_lines *out, const kvt_cost_table *t,
                                     const char *profile, kvt_err *err);
void cost_lines_free(cost_lines *s);
/* The policy, and what tells it from other uses of it in the block: "snapkv:window=8". */
const char *cost_label(char *out, size_t cap, const cost_block *b, const kvt_cost_row *r);

#endif
