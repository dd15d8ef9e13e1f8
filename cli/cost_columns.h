/* cost_columns.h - the columns of the tables that kvt cost prints. */
#ifndef CLI_COST_COLUMNS_H
#define CLI_COST_COLUMNS_H

#include "cli/cost_lines.h"
#include "cli/cost_table.h"
#include "cli/table.h"

enum { COST_CELL = 64 };

/* What the whole table shows, and what its legend has to explain. */
typedef struct cost_view {
    const cli_cost_view *asked;
    const char *profile;
    unsigned shared, varied; /* marks of all lines (the dense one aside); of some */
    const char *reference;
} cost_view;

typedef struct cost_column {
    const char *name;
    cli_align align;
    /* The cell of a line of a block, into out [COST_CELL]; returns out. */
    const char *(*cell)(char *out, const cost_line *l, const cost_view *v, const cost_block *b);
} cost_column;

/* X(id, name, alignment) */
/* clang-format off */
#define COST_COLUMNS(X)                  \
    X(budget,    "BUDGET",       RIGHT)  \
    X(fused,     "FUSED ms",     RIGHT)  \
    X(published, "PUBLISHED ms", RIGHT)  \
    X(theory,    "THEORY ms",    RIGHT)  \
    X(ratio,     "RATIO",        RIGHT)  \
    X(ttft,      "TTFT",         RIGHT)  \
    X(tpot,      "TPOT",         RIGHT)  \
    X(bound,     "BOUND",        LEFT)   \
    X(mark,      "MARK",         LEFT)   \
    X(peak,      "PEAK GiB",     RIGHT)  \
    X(steady,    "STEADY",       RIGHT)  \
    X(kv,        "KV MEAN",      RIGHT)  \
    X(fits,      "FITS",         RIGHT)  \
    X(phase,     "PEAK IS IN",   LEFT)
/* clang-format on */
#define X(id, name, align) extern const cost_column cost_column_##id;
COST_COLUMNS(X)
#undef X

char cost_mark_letter(int mark); /* of COST_AT_* */
/* "38.0 ms", "1.24 s"; GiB without their unit. Into out [COST_CELL]; return out. */
const char *cost_seconds(char *out, double s);
const char *cost_gib(char *out, double bytes);

#endif
