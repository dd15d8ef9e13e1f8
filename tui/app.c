/* app.c - the browser as a whole. The model says what it wants from outside; here it is done.
 * The loop waits for events, takes all that lie ready, and draws once. */
#include "tui/app.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "kvt/arena.h"
#include "tui/load.h"
#include "tui/show.h"
#include "tui/term/term.h"

enum { SCRIPT_MAX = 1 << 22, WAIT_FOREVER = -1, REDRAW_MS = 100, FILES_MAX = 4096 };

typedef struct app {
    const tui_app_spec *s;
    const kvt_ctx *ctx;
    tui_model m;
    tui_loaded *loaded; /* NULL: none is open */
    tui_file *file;     /* [n_file] */
    int n_file;
    term *t; /* NULL: no terminal */
    int64_t drawn_ms;
    bool ended; /* by a signal */
} app;

/* ---- drawing ----------------------------------------------------------------------------- */

static kvt_code draw(app *a, kvt_err *err)
{
    grid g;
    if (grid_init(&g, a->m.width, a->m.height, a->m.ascii, err))
        return err->code;
    tui_draw(&a->m, &g);
    term_show(a->t, &g);
    grid_fini(&g);
    return KVT_OK;
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- computing --------------------------------------------------------------------------- */

/* While a replay runs, its progress is the message; Esc and signals stop it, other keys wait
 * for nothing and are let go. */
static bool on_progress(void *user, const char *what, int64_t done, int64_t total)
{
    app *a = user;
    term_event e;
    kvt_err err;
    int64_t now = now_ms();
    if (now - a->drawn_ms < REDRAW_MS)
        return true;
    a->drawn_ms = now;
    while (term_next(a->t, &e, 0)) {
        if (e.kind == TERM_END || (e.kind == TERM_KEY && e.key == TUI_KEY_ESC))
            return false;
        if (e.kind == TERM_SIZE) {
            int width, height;
            term_size(a->t, &width, &height);
            tui_resize(&a->m, width, height);
        }
    }
    if (total > 0)
        tui_say(&a->m, "replaying: %.60s %lld of %lld; Esc stops", what, (long long)done,
                (long long)total);
    else
        tui_say(&a->m, "replaying: %.60s; Esc stops", what);
    return draw(a, &err) == KVT_OK;
}

static void on_log(void *user, kvt_log_level level, const char *area, const char *text)
{
    app *a = user;
    if (level <= KVT_LOG_WARN)
        tui_say(&a->m, "%s: %.400s", area, text);
}

static kvt_code compute(app *a, tui_loaded *l, const char *policies, const char *budgets,
                        kvt_err *err)
{
    kvt_ctx ctx = *a->ctx;
    if (a->t) {
        ctx.log = on_log;
        ctx.progress = on_progress;
        ctx.user = a;
    }
    return tui_compute(l, policies, budgets, &ctx, err);
}

/* Fills what the start of a trace lacks. */
static kvt_code fill(app *a, tui_loaded *l, tui_lack *lack, kvt_err *err)
{
    char text[1024];
    if (tui_lacks(lack, l, a->s->policy, a->s->budget, err))
        return err->code;
    if (tui_loaded_problem(l)[0] && !a->t && a->s->note)
        a->s->note(a->s->user, tui_loaded_problem(l));
    if (!lack->any)
        return KVT_OK;
    snprintf(text, sizeof text, "no results for this: replaying %s at %s", lack->said,
             lack->budgets);
    if (!a->t && a->s->note)
        a->s->note(a->s->user, text);
    return compute(a, l, lack->policies, lack->budgets, err);
}

static kvt_code open_trace(app *a, const char *path, kvt_err *err)
{
    tui_loaded *l;
    tui_lack lack;
    if (tui_load(&l, path, a->s->results, err))
        return err->code;
    if (fill(a, l, &lack, err)) {
        tui_loaded_free(l);
        return err->code;
    }
    tui_start start = a->s->start;
    start.policy = lack.policy[0] ? lack.policy : NULL;
    start.budget = a->s->budget;
    kvt_code code = tui_model_data(&a->m, tui_loaded_data(l), &start, true, err);
    tui_loaded_free(a->loaded);
    a->loaded = l;
    return code;
}

/* ---- what the model wants ---------------------------------------------------------------- */

static void run_missing(app *a)
{
    kvt_err err = {0};
    tui_lack lack;
    tui_model *m = &a->m;
    char policy[512], budget[32];
    if (!a->loaded)
        return;
    snprintf(policy, sizeof policy, "%s", m->asked_policy);
    snprintf(budget, sizeof budget, "%s", m->asked_budget);
    const char *p = policy[0] ? policy : "snapkv", *b = budget[0] ? budget : "10%";
    kvt_code code = tui_lacks(&lack, a->loaded, p, b, &err);
    if (!code)
        code = compute(a, a->loaded, lack.policies, lack.budgets, &err);
    tui_start start = {.policy = lack.policy, .budget = b};
    kvt_err data_err = {0};
    if (tui_model_data(m, tui_loaded_data(a->loaded), &start, false, &data_err))
        tui_say(m, "%s", data_err.text);
    else if (code == KVT_STOPPED)
        tui_say(m, "stopped; what is finished is kept");
    else if (code)
        tui_say(m, "%s", err.text);
    else if (m->r)
        tui_say(m, "%s at %s is computed", p, b);
}

static void open_selected(app *a)
{
    kvt_err err = {0};
    tui_say(&a->m, "opening %.400s", a->file[a->m.file_at].path);
    if (open_trace(a, a->file[a->m.file_at].path, &err)) {
        tui_say(&a->m, "%s", err.text);
        return;
    }
    a->m.message[0] = 0;
    tui_go(&a->m, TUI_ON_overview);
}

static bool serve(app *a) /* false: the end */
{
    tui_want want = a->m.want;
    a->m.want = TUI_WANT_NOTHING;
    if (want == TUI_WANT_RUN)
        run_missing(a);
    if (want == TUI_WANT_OPEN)
        open_selected(a);
    return want != TUI_WANT_QUIT;
}

/* ---- with a terminal --------------------------------------------------------------------- */

static void handle(app *a, const term_event *e)
{
    int width, height;
    switch (e->kind) {
    case TERM_KEY:
        tui_key_pressed(&a->m, e->key);
        if (tui_key_command(e->key) == TUI_REDRAW)
            term_repaint(a->t);
        break;
    case TERM_CLICK:
        if (!a->m.input_kind)
            tui_update(&a->m, &(tui_command){.what = TUI_CLICK, .n = e->row, .n2 = e->column});
        break;
    case TERM_SIZE:
        term_size(a->t, &width, &height);
        tui_resize(&a->m, width, height);
        break;
    case TERM_REDRAW: break;
    case TERM_END: a->ended = true; break;
    }
}

static kvt_code loop(app *a, kvt_err *err)
{
    term_event e;
    while (!a->ended) {
        if (draw(a, err))
            return err->code;
        if (!term_next(a->t, &e, WAIT_FOREVER))
            continue;
        do {
            handle(a, &e);
            if (a->m.want && !serve(a))
                return KVT_OK;
        } while (!a->ended && term_next(a->t, &e, 0));
    }
    return kvt_fail(err, KVT_STOPPED, "ended by a signal");
}

static const char *first_path(const app *a)
{
    return a->s->n_path ? a->s->path[0] : "TRACE";
}

/* No terminal to run on: says what works without one. */
static kvt_code name_other_way(const app *a, kvt_err *err)
{
    char why[256];
    snprintf(why, sizeof why, "%.250s", err->text);
    return kvt_fail(err, err->code, "%s; kvt show %.100s prints a screen as text", why,
                    first_path(a));
}

static kvt_code run_on_terminal(app *a, kvt_err *err)
{
    int width, height;
    if (term_open(&a->t, &(term_options){.colour = a->s->colour, .mouse = !a->s->no_mouse},
                  err))
        return name_other_way(a, err);
    term_size(a->t, &width, &height);
    a->m.colour = term_colours(a->t) > 0;
    a->m.markers = a->m.markers || !a->m.colour;
    tui_resize(&a->m, width, height);
    kvt_code code = KVT_OK;
    if (!tui_fits(&a->m))
        code = kvt_fail(
            err, KVT_USAGE,
            "terminal is %dx%d, kvt tui needs at least %dx%d; kvt show %.100s prints a "
            "screen as text",
            width, height, TUI_WIDTH_LEAST, TUI_HEIGHT_LEAST, first_path(a));
    if (!code)
        code = loop(a, err);
    term_close(a->t);
    a->t = NULL;
    return code;
}

/* ---- without one ------------------------------------------------------------------------- */

/* A line is a command as behind ':', "key NAME" is a key; '#' begins a comment. */
static kvt_code run_line(app *a, const char *line, kvt_err *err)
{
    tui_command c;
    if (strncmp(line, "key ", 4) == 0) {
        int key = tui_key_read(line + 4, strlen(line + 4));
        if (key < 0)
            return kvt_fail(err, KVT_USAGE, "no key '%.20s'", line + 4);
        tui_key_pressed(&a->m, key);
        return KVT_OK;
    }
    if (tui_command_parse(&c, line, err))
        return err->code;
    tui_update(&a->m, &c);
    return KVT_OK;
}

static kvt_code run_script(app *a, bool *ended, kvt_err *err)
{
    buf text;
    int number = 0;
    *ended = false;
    if (!a->s->script)
        return KVT_OK;
    buf_init(&text, SCRIPT_MAX);
    kvt_code code = file_read(&text, a->s->script, SCRIPT_MAX, err);
    char *at = text.data;
    while (!code && at && *at && !*ended) {
        char *end = strchr(at, '\n');
        if (end)
            *end = 0;
        number++;
        if (*at && *at != '#' && run_line(a, at, err))
            code = kvt_within(err, "%.200s line %d", a->s->script, number);
        if (!code && a->m.want)
            *ended = !serve(a);
        at = end ? end + 1 : NULL;
    }
    buf_fini(&text);
    return code;
}

static kvt_code write_text(const char *path, const char *text, size_t n, kvt_err *err)
{
    if (strcmp(path, "-") != 0)
        return file_write(path, text, n, err);
    fwrite(text, 1, n, stdout);
    return KVT_OK;
}

static kvt_code run_headless(app *a, kvt_err *err)
{
    bool ended;
    buf out;
    tui_resize(&a->m, a->s->width, a->s->height);
    if (run_script(a, &ended, err))
        return err->code;
    if (!a->s->dump)
        return KVT_OK;
    buf_init(&out, (size_t)1 << 26);
    kvt_code code = tui_show_screen(&out, &a->m, err);
    if (!code)
        code = write_text(a->s->dump, buf_get(&out), out.n, err);
    buf_fini(&out);
    return code;
}

/* ---- files ------------------------------------------------------------------------------- */

static void describe(tui_file *f, const char *path)
{
    kvt_err err = {0};
    kvt_trace *t = NULL;
    snprintf(f->path, sizeof f->path, "%s", path);
    snprintf(f->name, sizeof f->name, "%.127s", file_base(path));
    if (kvt_trace_open(&t, path, 0, &err)) {
        snprintf(f->problem, sizeof f->problem, "%.159s", err.text);
        return;
    }
    const kvt_trace_info *i = kvt_trace_info_of(t);
    snprintf(f->name, sizeof f->name, "%s", i->name);
    snprintf(f->model, sizeof f->model, "%.95s", i->facts.model.name);
    f->n_layer = i->n_layer;
    f->n_kv_head = i->facts.model.n_kv_head;
    f->n_prompt = i->facts.token.n_prompt;
    f->n_response = i->facts.token.n_response;
    f->bytes = i->file_bytes;
    kvt_trace_close(t);
}

static kvt_code list_files(app *a, kvt_err *err)
{
    a->file = kvt_alloc(a->s->n_path, sizeof *a->file);
    if (!a->file)
        return kvt_fail_memory(err, (size_t)a->s->n_path * sizeof *a->file);
    for (int i = 0; i < a->s->n_path && a->n_file < FILES_MAX; i++)
        if (!kvt_is_result_path(a->s->path[i]))
            snprintf(a->file[a->n_file++].path, sizeof a->file->path, "%s", a->s->path[i]);
    if (a->n_file == 0)
        return kvt_fail(err, KVT_USAGE,
                        "no trace among the files; results are read by kvt report");
    for (int i = 0; i < a->n_file && a->n_file > 1; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s", a->file[i].path);
        describe(&a->file[i], path);
    }
    return KVT_OK;
}

static kvt_code begin(app *a, kvt_err *err)
{
    tui_lack lack = {0};
    tui_start start = a->s->start;
    start.ascii = a->s->ascii;
    start.colour = a->s->colour && !a->s->headless;
    start.file = a->file;
    start.n_file = a->n_file;
    if (a->n_file == 1) {
        if (tui_load(&a->loaded, a->file[0].path, a->s->results, err) ||
            fill(a, a->loaded, &lack, err))
            return err->code;
        start.policy = lack.policy[0] ? lack.policy : NULL;
        start.budget = a->s->budget;
    }
    return tui_model_init(&a->m, a->loaded ? tui_loaded_data(a->loaded) : NULL, &start, err);
}

kvt_code tui_run(const tui_app_spec *s, const kvt_ctx *ctx, kvt_err *err)
{
    app *a = kvt_alloc(1, sizeof *a);
    if (!a)
        return kvt_fail_memory(err, sizeof *a);
    *a = (app){.s = s, .ctx = ctx};
    kvt_code code = list_files(a, err);
    if (!code && !s->headless && term_check(err)) /* known before anything is replayed */
        code = name_other_way(a, err);
    if (!code)
        code = begin(a, err);
    if (!code && s->ready)
        s->ready(s->user);
    if (!code)
        code = s->headless ? run_headless(a, err) : run_on_terminal(a, err);
    kvt_err log_err;
    if (s->log && (!code || code == KVT_STOPPED) && a->m.log.n &&
        write_text(s->log, buf_get(&a->m.log), a->m.log.n, &log_err)) {
        *err = log_err;
        code = err->code;
    }
    tui_model_fini(&a->m);
    tui_loaded_free(a->loaded);
    kvt_free(a->file);
    kvt_free(a);
    return code;
}
