/* model.h - the whole state of the browser, and what a command does to it. No terminal, no
 * files: what a command needs from outside (a replay, another trace, the end) is left in
 * `want`.
 *
 *   tui_model m;
 *   tui_model_init(&m, data, &start, &err);
 *   tui_resize(&m, 100, 30);
 *   tui_key_pressed(&m, ']');        or tui_update(&m, &command)
 *   tui_draw(&m, &grid);
 *   tui_model_fini(&m); */
#ifndef TUI_MODEL_H
#define TUI_MODEL_H

#include "base/buf.h"
#include "base/grid.h"
#include "tui/flow.h"
#include "tui/keys.h"
#include "tui/lane_view.h"

typedef enum tui_where {
#define SCREEN(id, key, letter, name, title) TUI_ON_##id,
#include "tui/screens/screens.def"
#undef SCREEN
    TUI_SCREENS
} tui_where;

typedef enum tui_metric { TUI_LOST, TUI_REGRET, TUI_KL, TUI_METRICS } tui_metric;
const char *tui_metric_name(tui_metric metric); /* "lost mass" */

typedef enum tui_want { TUI_WANT_NOTHING, TUI_WANT_QUIT, TUI_WANT_RUN, TUI_WANT_OPEN } tui_want;

/* A file of the list of traces. */
typedef struct tui_file {
    char path[1024], name[128], model[96];
    int64_t n_layer, n_kv_head, n_prompt, n_response, bytes;
    char problem[160]; /* "" where it can be opened */
} tui_file;

enum { TUI_WIDTH_LEAST = 40, TUI_HEIGHT_LEAST = 10, TUI_STACK = 4 };

typedef struct tui_model {
    const tui_data *data; /* NULL: only the list of traces */
    const tui_file *file; /* [n_file] the list, borrowed */
    int n_file, file_at;
    int width, height;
    bool ascii, colour;

    tui_where stack[TUI_STACK]; /* the last one is seen */
    int depth;

    /* What is looked at. Layer and lane are indices of the result. */
    int policy, budget;
    const kvt_result *r; /* NULL: not computed */
    int cell, layer, lane;
    int64_t step, token;
    tui_metric metric;
    bool minus, markers, white, card;
    int32_t *order; /* i32 [n_order] lanes by falling regret (loss where that is empty) */
    int n_order;
    bool by_loss; /* the order is by loss */
    lane_view view;
    flow text;
    int64_t top; /* first line of text on the screen */
    int help_top;

    char input_kind; /* ':' or '/' while a line is typed, else 0 */
    char input[TUI_TEXT_MAX];
    char asked_policy[512], asked_budget[32]; /* named, but without a result: R runs it */

    char search[TUI_TEXT_MAX]; /* "" : none is on */
    int64_t *match;            /* i64 [n_match] tokens */
    int64_t n_match;
    bool match_more; /* there are more than were kept */

    char message[512]; /* of the last command; "": the screen's own line is shown */
    tui_want want;
    buf log; /* every command, one a line: a script that leads here */
} tui_model;

typedef struct tui_start {
    const char *policy, *budget, *screen; /* NULL: chosen */
    int64_t layer, lane;                  /* of the model; -1: the worst */
    int64_t step, token;                  /* -1: the worst, the most regretted */
    bool ascii, colour, no_markers;
    const tui_file *file;
    int n_file;
} tui_start;

KVT_CHECKED kvt_code tui_model_init(tui_model *m, const tui_data *d, const tui_start *start,
                                    kvt_err *err);
void tui_model_fini(tui_model *m);
/* Other data: another trace, or the same one with more results. `fresh`: begin at the worst
 * lane. */
KVT_CHECKED kvt_code tui_model_data(tui_model *m, const tui_data *d, const tui_start *start,
                                    bool fresh, kvt_err *err);
void tui_update(tui_model *m, const tui_command *c);
void tui_key_pressed(tui_model *m, int key);
void tui_resize(tui_model *m, int width, int height);
void tui_draw(const tui_model *m, grid *g);
bool tui_fits(const tui_model *m); /* the window is large enough for a screen */
/* The command line that prints the view: "kvt show a.h5 --screen lane --lane 13:2 ...". */
void tui_show_command(const tui_model *m, char *out, size_t cap);

/* For screens. */
typedef struct tui_screen {
    char key, letter;
    const char *name, *title;
    bool (*act)(tui_model *m, const tui_command *c); /* false: not its business */
    void (*draw)(const tui_model *m, grid *g);
} tui_screen;
const tui_screen *tui_screen_of(tui_where where);
#define SCREEN(id, key, letter, name, title)                    \
    bool screen_##id##_act(tui_model *m, const tui_command *c); \
    void screen_##id##_draw(const tui_model *m, grid *g);
#include "tui/screens/screens.def"
#undef SCREEN

tui_where tui_at(const tui_model *m);
void tui_go(tui_model *m, tui_where where); /* a screen that is below is gone back to */
void tui_say(tui_model *m, const char *fmt, ...) KVT_PRINTF(2, 3);
/* A value of the map at hand, NAN where it is not defined. */
double tui_value(const tui_model *m, int layer, int lane);
double tui_lane_value(const kvt_result *r, int cell, int layer, int lane, tui_metric metric);
void tui_select_lane(tui_model *m, int layer, int lane);
void tui_select_step(tui_model *m, int64_t step);
void tui_select_token(tui_model *m, int64_t token); /* and scrolls to it */
void tui_lane_name(const tui_model *m, int layer, int lane, char *out,
                   size_t cap); /* "L13 G2" */

#endif
