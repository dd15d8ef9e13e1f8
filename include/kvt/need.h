/* need.h - what a policy may ask for, and a trace may answer: one bit a line of
 * traces/needs.def. */
#ifndef KVT_NEED_H
#define KVT_NEED_H

/* What it reads besides positions: KVT_NEED_ATTN, ... one bit a line of traces/needs.def. Only
 * what is declared is there: the data pointer of everything else is NULL, so that an undeclared
 * use fails a test instead of passing unseen. Where a trace does not hold what is declared, the
 * cell is refused with the dataset's name. */
enum {
#define KVT_NEED(id, text, datasets) KVT_NEED_BIT_##id,
#include "traces/needs.def"
#undef KVT_NEED
    KVT_NEED_COUNT
};
typedef enum kvt_need {
#define KVT_NEED(id, text, datasets) KVT_NEED_##id = 1 << KVT_NEED_BIT_##id,
#include "traces/needs.def"
#undef KVT_NEED
} kvt_need;

#endif
