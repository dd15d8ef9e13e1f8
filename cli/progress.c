/* progress.c - messages and the progress line, on standard error.
 *
 * On a terminal the line is redrawn in place at most ten times a second and leaves nothing
 * behind; elsewhere a plain line comes at most every ten seconds, so that a log stays short.
 * Fields: verb, done/total, percent, rate, elapsed, left, what is at hand. */
#include "cli/progress.h"

#include <langinfo.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/text.h"
#include "kvt/arena.h"

enum { REDRAW_MS = 100, PLAIN_MS = 10000, LINE_MAX_BYTES = 512 };

/* Values of --progress. */
enum { HOW_AUTO, HOW_BAR, HOW_PLAIN, HOW_NONE };

typedef struct shown {
    int64_t began_ms, drawn_ms; /* of this stretch of work */
    int64_t first, last, total; /* `done` at its beginning and now, of how many */
    bool on_line;               /* a line stands there without its end */
    bool started;
} shown;

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- what the terminal can do --------------------------------------------------------------
 */

static bool set(const char *variable)
{
    const char *value = getenv(variable);
    return value && value[0];
}

static bool is_dumb(void)
{
    const char *term = getenv("TERM");
    return !term || !strcmp(term, "dumb");
}

bool cli_color(const cli *c, FILE *f)
{
    if (c->color)
        return c->color == 1;
    if (set("NO_COLOR"))
        return false;
    if (set("CLICOLOR_FORCE") || set("FORCE_COLOR"))
        return true;
    return isatty(fileno(f)) && !is_dumb();
}

bool cli_utf8(const cli *c)
{
    return !c->ascii && !strcmp(nl_langinfo(CODESET), "UTF-8");
}

/* ---- messages ------------------------------------------------------------------------------
 */

void cli_progress_end(cli *c)
{
    shown *s = c->shown;
    if (!s || !s->on_line)
        return;
    fputs("\r\033[K", stderr);
    s->on_line = false;
}

/* File names and texts of files may hold anything: only line ends pass as they are. */
static void say(cli *c, const char *text)
{
    buf safe;
    buf_init(&safe, 1 << 16);
    for (const char *at = text; *at;) {
        size_t n = strcspn(at, "\n");
        text_safe(&safe, (const uint8_t *)at, n, !cli_utf8(c));
        at += n + (at[n] == '\n');
        if (*at)
            buf_char(&safe, '\n');
    }
    cli_progress_end(c);
    fprintf(stderr, "kvt: %s\n", buf_get(&safe));
    buf_fini(&safe);
}

static void say_args(cli *c, const char *fmt, va_list args) KVT_PRINTF(2, 0);
static void say_args(cli *c, const char *fmt, va_list args)
{
    char text[1024];
    vsnprintf(text, sizeof text, fmt, args);
    say(c, text);
}

void cli_warn(cli *c, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    say_args(c, fmt, args);
    va_end(args);
}

void cli_note(cli *c, const char *fmt, ...)
{
    va_list args;
    if (c->quiet)
        return;
    va_start(args, fmt);
    say_args(c, fmt, args);
    va_end(args);
}

void cli_error(cli *c, const kvt_err *err)
{
    if (c->verbose && err->file)
        cli_warn(c, "%s (%s, %s:%d)", err->text, kvt_code_name(err->code), err->file,
                 err->line);
    else
        say(c, err->text);
}

/* Errors of the library come as codes as well; its log tells of what went on. */
static void on_log(void *user, kvt_log_level level, const char *area, const char *text)
{
    cli *c = user;
    bool wanted = level <= KVT_LOG_WARN || (level == KVT_LOG_INFO && c->verbose >= 1) ||
                  (level == KVT_LOG_DEBUG && c->verbose >= 2);
    if (wanted)
        cli_warn(c, "%s: %s", area, text);
}

/* ---- the line ------------------------------------------------------------------------------
 */

static const char *print_time(int64_t ms, char *out, size_t cap)
{
    long long s = ms / 1000;
    if (s >= 3600)
        snprintf(out, cap, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(out, cap, "%lld:%02lld", s / 60, s % 60);
    return out;
}

static const char *print_rate(double x, char *out, size_t cap)
{
    if (x >= 1e6)
        snprintf(out, cap, "%.1f M/s", x / 1e6);
    else if (x >= 1e4)
        snprintf(out, cap, "%.1f k/s", x / 1e3);
    else
        snprintf(out, cap, x >= 10 ? "%.0f/s" : "%.1f/s", x);
    return out;
}

static void draw(const cli *c, const shown *s, const char *what, int64_t done, int64_t total,
                 char *out, size_t cap)
{
    int64_t ms = now_ms() - s->began_ms, did = done - s->first;
    double rate = ms > 0 ? 1000.0 * (double)did / (double)ms : 0;
    char elapsed[32], left[48] = "", speed[32], share[48] = "", safe[160];

    if (total > 0) {
        snprintf(share, sizeof share, "/%lld %3d%%", (long long)total,
                 (int)(100.0 * (double)done / (double)total));
        if (rate > 0 && did > 0) {
            int64_t rest = (int64_t)(1000.0 * (double)(total - done) / rate);
            char t[32];
            snprintf(left, sizeof left, "  %s left",
                     print_time(rest > 0 ? rest : 0, t, sizeof t));
        }
    }
    text_safe_cut(safe, sizeof safe, (const uint8_t *)what, strlen(what), 32, !cli_utf8(c));
    snprintf(out, cap, "%s  %lld%s  %s  %s%s  %s", c->verb ? c->verb : "kvt", (long long)done,
             share, print_rate(rate, speed, sizeof speed),
             print_time(ms, elapsed, sizeof elapsed), left, safe);
}

static int terminal_columns(void)
{
    const char *text = getenv("COLUMNS");
    int n = text ? (int)strtol(text, NULL, 10) : 0;
    return n >= 20 && n <= 500 ? n : 79;
}

/* The line may not wrap: a wrapped line cannot be redrawn. */
static void print_bar(shown *s, char *line)
{
    char cut[LINE_MAX_BYTES];
    text_safe_cut(cut, sizeof cut, (const uint8_t *)line, strlen(line), terminal_columns(),
                  false);
    fprintf(stderr, "\r%s\033[K", cut);
    fflush(stderr);
    s->on_line = true;
}

static bool on_progress(void *user, const char *what, int64_t done, int64_t total)
{
    cli *c = user;
    shown *s = c->shown;
    char line[LINE_MAX_BYTES];
    bool bar = c->progress == HOW_BAR ||
               (c->progress == HOW_AUTO && isatty(STDERR_FILENO) && !is_dumb());

    if (cli_signal())
        return false;
    if (!s || c->quiet || c->progress == HOW_NONE)
        return true;
    int64_t now = now_ms();
    /* The next stretch of work counts from its own start. */
    if (!s->started || done < s->last || total != s->total)
        *s = (shown){.began_ms = now,
                     .drawn_ms = s->started ? s->drawn_ms : now,
                     .first = done,
                     .total = total,
                     .on_line = s->on_line,
                     .started = true};
    s->last = done;
    if (now - s->drawn_ms < (bar ? REDRAW_MS : PLAIN_MS))
        return true;
    s->drawn_ms = now;
    draw(c, s, what ? what : "", done, total, line, sizeof line);
    if (bar)
        print_bar(s, line);
    else
        fprintf(stderr, "kvt: %s\n", line);
    return true;
}

void cli_progress_init(cli *c)
{
    c->shown = kvt_alloc(1, sizeof(shown)); /* without it nothing is drawn */
    c->ctx.log = on_log;
    c->ctx.progress = on_progress;
    c->ctx.user = c;
}

void cli_progress_fini(cli *c)
{
    cli_progress_end(c);
    kvt_free(c->shown);
    c->shown = NULL;
}
