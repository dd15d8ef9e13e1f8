/* browse.h - what kvt tui and kvt show share: a trace opened with what its view needs. */
#ifndef CLI_BROWSE_H
#define CLI_BROWSE_H

#include "cli/cli.h"
#include "tui/load.h"
#include "tui/model.h"

typedef struct browse_lane {
    int64_t layer, lane; /* -1: not given */
} browse_lane;

/* "13:2" or "L13G2"; NULL is not given. USAGE. */
KVT_CHECKED kvt_code browse_lane_parse(browse_lane *out, const char *text, kvt_err *err);
/* "100x30". USAGE. */
KVT_CHECKED kvt_code browse_size_parse(int *width, int *height, const char *text, kvt_err *err);

#endif
