/* marks.h - what a token of a lane is at a step, and how that is shown: the one place for
 * states, letters, styles and CSS classes. Screens and pages draw from here, colour only
 * repeats it. */
#ifndef ANALYZE_MARKS_H
#define ANALYZE_MARKS_H

#include "base/grid.h"

/* Precedence from top to bottom: the first one that holds is the state. */
/* clang-format off */
#define MARKS(X)                                                                                          \
    X(UNWRITTEN, ' ', PLAIN,    "u", "not written yet",    "generated after this step")                    \
    X(NOW,       '<', NOW,      "n", "evicted now",        "leaves the cache at exactly this step")        \
    X(SHOULD,    '!', SHOULD,   "s", "should be kept",     "gone, and one of those that carry 90% of the regret") \
    X(HARMLESS,  '.', HARMLESS, "h", "evicted, harmless",  "gone, and little is lost by that")             \
    X(PINNED,    '#', PINNED,   "p", "pinned",             "kept by rule: attention sink or recent window") \
    X(VAIN,      '-', VAIN,     "v", "kept in vain",       "in the cache, the oracle would have dropped it") \
    X(KEPT,      '=', PLAIN,    "k", "kept",               "in the cache at this step, and the oracle keeps it too")
/* clang-format on */

typedef enum mark {
#define X(id, letter, style, css, name, help) MARK_##id,
    MARKS(X)
#undef X
        MARK_COUNT
} mark;

typedef struct mark_kind {
    char letter;
    grid_style style;
    const char *css, *name, *help;
} mark_kind;

const mark_kind *mark_kind_of(mark m);

/* A token of a lane; judged: whether the oracle keeps it, 1, 0, or -1: not known. */
typedef struct mark_facts {
    int32_t evict; /* step at which it left, -1: never */
    int judged;
    bool written, pinned, regretted;
} mark_facts;

/* Its state in front of response row `step`. What left at the prompt's end (step 0) is no event
 * of decoding: it shows what it cost, never "now". */
mark mark_of(const mark_facts *f, int64_t step);

/* A ramp of ten characters for shares of 0 to 1. Levels are 0..9; what is undefined is -1. */
enum { MARK_LEVELS = 10 };
int mark_level(double share);      /* tenths */
int mark_level_root(double share); /* tenths of the root: small shares are told apart */
char mark_ramp(int level);         /* " .:-=+*#%@", '?' for -1 */
uint32_t mark_block(int level);    /* lower eighth blocks, of a UTF-8 grid */

#endif
