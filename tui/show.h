/* show.h - screens as plain text, for pipes, logs and screen readers. */
#ifndef TUI_SHOW_H
#define TUI_SHOW_H

#include "tui/model.h"

/* The screen at the model's size. */
KVT_CHECKED kvt_code tui_show_screen(buf *out, const tui_model *m, kvt_err *err);
/* Lines of the lane's text with tokens from..to, with their marker lines where asked. USAGE. */
KVT_CHECKED kvt_code tui_show_tokens(buf *out, const tui_model *m, int64_t from, int64_t to,
                                     bool markers, kvt_err *err);

#endif
