/* keys.h - keys, the commands that they stand for, and commands as text. keys.def is the table.
 */
#ifndef TUI_KEYS_H
#define TUI_KEYS_H

#include "kvt/err.h"

typedef enum tui_do {
#define KEY(id, keys, name, group, screens, place, foot, help) TUI_##id,
#include "tui/keys.def"
#undef KEY
    TUI_KEY_COUNT,
    /* Without a key of their own: they take a value. */
    TUI_TO_STEP = TUI_KEY_COUNT,
    TUI_TO_TOKEN,
    TUI_TO_BUDGET,
    TUI_TO_POLICY,
    TUI_TO_LANE,
    TUI_TO_METRIC,
    TUI_FIND_TEXT,
    TUI_RESIZE,
    TUI_CLICK, /* n, n2: row and column */
    TUI_NOTHING
} tui_do;

typedef struct tui_key_info {
    const char *keys, *name, *group, *screens;
    int place;
    const char *foot, *help;
} tui_key_info;

/* [TUI_KEY_COUNT] in the order of keys.def: for the help screen, footers and the manual. */
const tui_key_info *tui_keys(void);

/* A key is a code point, or one of these. */
typedef enum tui_key {
    TUI_KEY_UP = 0x110000,
    TUI_KEY_DOWN,
    TUI_KEY_LEFT,
    TUI_KEY_RIGHT,
    TUI_KEY_PAGE_UP,
    TUI_KEY_PAGE_DOWN,
    TUI_KEY_HOME,
    TUI_KEY_END,
    TUI_KEY_ENTER,
    TUI_KEY_ESC,
    TUI_KEY_BACKSPACE,
    TUI_KEY_F1
} tui_key;

int tui_key_read(const char *name, size_t n); /* "k", "Up", "^L", "Space"; -1: no such key */
tui_do tui_key_command(int key);              /* TUI_NOTHING where it has none */

enum { TUI_TEXT_MAX = 256 };
typedef struct tui_command {
    tui_do what;
    int64_t n, n2;
    char text[TUI_TEXT_MAX];
} tui_command;

/* "step +1", "step 12", "token 18189", "budget 10%", "policy h2o", "L13G2", "find RE",
 * "resize 80x24", "q". USAGE. */
KVT_CHECKED kvt_code tui_command_parse(tui_command *out, const char *text, kvt_err *err);
/* The text that parses to it. */
void tui_command_print(const tui_command *c, char *out, size_t cap);

#endif
