/* marks.c - states of tokens and how they are shown. */
#include "analyze/marks.h"

#include <math.h>

static const mark_kind kinds[MARK_COUNT] = {
#define X(id, letter, style, css, name, help) {letter, GRID_##style, css, name, help},
    MARKS(X)
#undef X
};

const mark_kind *mark_kind_of(mark m)
{
    return &kinds[m];
}

mark mark_of(const mark_facts *f, int64_t step)
{
    if (!f->written)
        return MARK_UNWRITTEN;
    if (f->evict >= 0 && f->evict <= step) {
        if (f->evict == step && step > 0)
            return MARK_NOW;
        return f->regretted ? MARK_SHOULD : MARK_HARMLESS;
    }
    if (f->pinned)
        return MARK_PINNED;
    return f->judged == 0 ? MARK_VAIN : MARK_KEPT;
}

/* A share like 0.3 that arithmetic left a hair below its tenth belongs to it. */
static int tenths(double x)
{
    if (isnan(x))
        return -1;
    int level = (int)floor(x * MARK_LEVELS + 1e-9);
    return level < 0 ? 0 : level >= MARK_LEVELS ? MARK_LEVELS - 1 : level;
}

int mark_level(double share)
{
    return tenths(share);
}

int mark_level_root(double share)
{
    return tenths(sqrt(fmax(share, 0) + (isnan(share) ? share : 0)));
}

char mark_ramp(int level)
{
    static const char ramp[] = " .:-=+*#%@";
    return level < 0 || level >= MARK_LEVELS ? '?' : ramp[level];
}

uint32_t mark_block(int level)
{
    static const uint8_t eighths[MARK_LEVELS] = {0, 1, 2, 3, 4, 5, 5, 6, 7, 8};
    if (level < 0 || level >= MARK_LEVELS)
        return '?';
    return eighths[level] ? 0x2580u + eighths[level] : ' ';
}
