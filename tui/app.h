/* app.h - the browser as a whole: files, model, terminal or script. */
#ifndef TUI_APP_H
#define TUI_APP_H

#include "kvt/ctx.h"
#include "tui/model.h"

typedef struct tui_app_spec {
    const char *const *path; /* traces; result files among them are passed over */
    int n_path;
    const char *results, *policy, *budget; /* as typed, or NULL */
    tui_start start;                       /* without policy, budget and files */
    bool no_mouse, ascii, colour;
    const char *script; /* commands, one a line, "-": standard input; NULL */
    const char *dump;   /* the last screen as text goes there, "-": standard output; NULL */
    const char *log;    /* the commands go there at the end; NULL */
    bool headless;      /* no terminal: script and dump only */
    int width, height;  /* of a headless run */
    /* A line for people, before the screen is there. */
    void (*note)(void *user, const char *text);
    void (*ready)(void *user); /* in front of the screen: what stands on the line may go */
    void *user;
} tui_app_spec;

/* USAGE: no terminal, or too small. STOPPED: a signal. */
KVT_CHECKED kvt_code tui_run(const tui_app_spec *s, const kvt_ctx *ctx, kvt_err *err);

#endif
