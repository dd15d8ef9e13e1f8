/* flow.h - tokens as flowing text: which piece of which token stands on which line and column.
 *
 * A token that does not fit begins a new line; a newline of the text ends one. A character that
 * is split over tokens is drawn at its first token, the others show a dot. The layout depends
 * on the width and on nothing else that a key changes. */
#ifndef TUI_FLOW_H
#define TUI_FLOW_H

#include "base/buf.h"
#include "tui/data.h"

typedef struct flow_piece {
    int64_t at; /* its safe text: text.data[at, at + bytes) */
    int32_t token;
    int32_t bytes;
    int32_t column, width; /* a newline stands at or behind the last column */
    bool newline;
} flow_piece;

typedef struct flow {
    int width;
    bool ascii;
    buf text;
    flow_piece *piece;
    int64_t n_piece, n_line;
    int64_t *line;  /* i64 [n_line + 1] first piece */
    int64_t *first; /* i64 [T + 1] first piece of each token; every token has one */
} flow;

/* width: columns of text, at least 1; a newline may stand in the column behind. */
KVT_CHECKED kvt_code flow_make(flow *f, const tui_data *d, int width, bool ascii, kvt_err *err);
void flow_fini(flow *f);
int64_t flow_line_of(const flow *f, int64_t token); /* line on which a token begins */

#endif
