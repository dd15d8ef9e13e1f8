/* browse.c - what kvt tui and kvt show share. */
#include "cli/browse.h"

#include <stdio.h>

kvt_code browse_lane_parse(browse_lane *out, const char *text, kvt_err *err)
{
    long long layer, lane;
    int end = 0;
    *out = (browse_lane){-1, -1};
    if (!text)
        return KVT_OK;
    if ((sscanf(text, "%lld:%lld%n", &layer, &lane, &end) != 2 &&
         sscanf(text, "L%lldG%lld%n", &layer, &lane, &end) != 2 &&
         sscanf(text, "L%lldH%lld%n", &layer, &lane, &end) != 2) ||
        text[end] != 0 || layer < 0 || lane < 0)
        return kvt_fail(err, KVT_USAGE,
                        "--lane: expected LAYER:HEAD such as 13:2 or L13G2, got '%.40s'", text);
    *out = (browse_lane){layer, lane};
    return KVT_OK;
}

kvt_code browse_size_parse(int *width, int *height, const char *text, kvt_err *err)
{
    int w, h, end = 0;
    if (!text)
        return KVT_OK;
    if (sscanf(text, "%dx%d%n", &w, &h, &end) != 2 || text[end] != 0 || w < 1 || h < 1 ||
        w > 1000 || h > 1000)
        return kvt_fail(err, KVT_USAGE,
                        "--size: expected COLUMNSxROWS such as 100x30, got '%.40s'", text);
    *width = w;
    *height = h;
    return KVT_OK;
}
