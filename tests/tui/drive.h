/* drive.h - what tests of the model share: small worlds, a model on them, commands as text. */
#ifndef TESTS_DRIVE_H
#define TESTS_DRIVE_H

#include "tests/check.h"
#include "tests/tui/hand.h"
#include "tui/model.h"

static const struct world {
    const char *name;
    hand_spec spec;
} worlds[] = {
    {"plain", {.n_layer = 4, .n_kv_head = 3, .n_head = 9}},
    {"many heads", {.n_layer = 3, .n_kv_head = 40, .n_head = 40}},
    {"many layers", {.n_layer = 70, .n_kv_head = 1, .n_head = 2}},
    {"no oracle", {.n_layer = 2, .n_kv_head = 2, .n_head = 2, .no_oracle = true}},
    {"no rows", {.n_layer = 2, .n_kv_head = 2, .n_head = 2, .no_rows = true}},
    {"no text", {.n_layer = 2, .n_kv_head = 2, .n_head = 2, .no_text = true}},
    {"no response", {.n_layer = 2, .n_kv_head = 2, .n_head = 2, .no_response = true}},
    {"no results", {.n_layer = 2, .n_kv_head = 2, .n_head = 2, .no_results = true}},
    {"hostile", {.n_layer = 2, .n_kv_head = 2, .n_head = 4, .hostile = true}},
};

enum {
    PLAIN,
    MANY_HEADS,
    MANY_LAYERS,
    NO_ORACLE,
    NO_ROWS,
    NO_TEXT,
    NO_RESPONSE,
    NO_RESULTS,
    HOSTILE
};

static const tui_start anywhere = {
    .layer = -1, .lane = -1, .step = -1, .token = -1, .colour = true};

static inline void begin(tui_model *m, hand *h, const tui_start *start)
{
    kvt_err err;
    CHECK_OK(tui_model_init(m, h ? hand_data(h) : NULL, start, &err), &err);
    tui_resize(m, 100, 30);
}

static inline void say(tui_model *m, const char *text)
{
    kvt_err err;
    tui_command c;
    CHECK_OK(tui_command_parse(&c, text, &err), &err);
    tui_update(m, &c);
}

#endif
