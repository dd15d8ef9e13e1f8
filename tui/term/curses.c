/* curses.c - a grid on a terminal, keys from it: the only file that includes curses.
 *
 * Every cell has its column by us, never by what stood in front of it. curses would write a row
 * of text in one go and trust that the terminal counts columns as wcwidth() does; terminals do
 * not for emoji, marks and new characters. Those few are left to a second pass: curses draws a
 * '?' in their place, and then each is written behind a cursor address of its own. A terminal
 * with another opinion spoils that cell and nothing behind it. */
#include "tui/term/term.h"

#include <curses.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/text.h"
#include "kvt/arena.h"
#include "tui/keys.h"
#include "tui/term/palette.h"
#include "tui/term/signals.h"

struct term {
    SCREEN *screen;
    bool is_test, mouse, repaint;
    int colours, width, height;
    short pair[GRID_STYLE_COUNT]; /* 0: the terminal's own colours */
    const char *address;          /* "cup": moves the cursor */
    int wheel;                    /* turns of a wheel that are still to be told as keys */
};

/* ---- size -------------------------------------------------------------------------------- */

/* The driver knows. curses would believe LINES and COLUMNS of the environment, which may be of
 * another window, and set the terminal's scrolling region by them. */
static bool ask_size(int *width, int *height)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || size.ws_col == 0 || size.ws_row == 0)
        return false;
    *width = size.ws_col;
    *height = size.ws_row;
    return true;
}

static bool follow_size(term *t)
{
    int width, height;
    if (t->is_test || !ask_size(&width, &height) || (width == t->width && height == t->height))
        return false;
    t->width = width;
    t->height = height;
    resizeterm(height, width);
    t->repaint = true;
    return true;
}

void term_size(const term *t, int *width, int *height)
{
    *width = t->width;
    *height = t->height;
}

int term_colours(const term *t)
{
    return t->colours;
}

/* ---- opening ----------------------------------------------------------------------------- */

static void start_colours(term *t, bool wanted)
{
    t->colours = 0;
    if (!wanted || !has_colors() || start_color() == ERR)
        return;
    bool own = use_default_colors() == OK;
    t->colours = COLORS >= 256 ? 256 : COLORS >= 16 ? 16 : COLORS >= 8 ? 8 : 0;
    const palette_entry *p = palette_of(t->colours);
    short next = 1;
    for (int i = 0; t->colours && i < GRID_STYLE_COUNT; i++) {
        t->pair[i] = 0;
        for (int k = 0; k < i && !t->pair[i]; k++)
            if (p[k].fg == p[i].fg && p[k].bg == p[i].bg)
                t->pair[i] = t->pair[k];
        bool plain = p[i].fg == PALETTE_DEFAULT && p[i].bg == PALETTE_DEFAULT;
        if (t->pair[i] || plain || next >= COLOR_PAIRS)
            continue;
        short fg = p[i].fg >= 0 ? p[i].fg : own ? -1 : COLOR_WHITE;
        short bg = p[i].bg >= 0 ? p[i].bg : own ? -1 : COLOR_BLACK;
        if (init_pair(next, fg, bg) == OK)
            t->pair[i] = next++;
    }
}

/* Appends a string of terminfo without its padding "$<5>". */
static size_t add_string(char *out, size_t at, size_t cap, const char *name)
{
    const char *s = tigetstr((char *)(uintptr_t)name);
    if (!s || s == (char *)-1)
        return at;
    while (*s && at < cap) {
        if (s[0] == '$' && s[1] == '<') {
            s += strcspn(s, ">");
            s += *s == '>';
            continue;
        }
        out[at++] = *s++;
    }
    return at;
}

static void prepare_leaving(void)
{
    static const char mouse_off[] = "\033[?1000l\033[?1006l";
    char bytes[256];
    size_t n = add_string(bytes, 0, sizeof bytes, "sgr0");
    n = add_string(bytes, n, sizeof bytes, "rmkx");
    n = add_string(bytes, n, sizeof bytes, "cnorm");
    n = add_string(bytes, n, sizeof bytes, "rmcup");
    if (n + sizeof mouse_off - 1 <= sizeof bytes &&
        tigetstr((char *)(uintptr_t) "kmous") != NULL &&
        tigetstr((char *)(uintptr_t) "kmous") != (char *)-1) {
        memcpy(bytes + n, mouse_off, sizeof mouse_off - 1);
        n += sizeof mouse_off - 1;
    }
    signals_leave_with(bytes, n);
}

static kvt_code set_up(term *t, const term_options *o, kvt_err *err)
{
    t->address = tigetstr((char *)(uintptr_t) "cup");
    if (!t->address || t->address == (char *)-1)
        return kvt_fail(err, KVT_USAGE, "this terminal cannot place a cursor (TERM=%.40s)",
                        getenv("TERM") ? getenv("TERM") : "");
    if (!t->is_test)
        prepare_leaving();
    cbreak();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    meta(stdscr, TRUE);
    curs_set(0);
    leaveok(stdscr, FALSE);
    if (!getenv("ESCDELAY"))
        set_escdelay(25);
    start_colours(t, o->colour);
    if (o->mouse) {
        mousemask(BUTTON1_PRESSED | BUTTON1_CLICKED | BUTTON4_PRESSED | BUTTON5_PRESSED, NULL);
        mouseinterval(0);
    }
    t->repaint = true;
    return KVT_OK;
}

kvt_code term_check(kvt_err *err)
{
    const char *name = getenv("TERM");
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return kvt_fail(err, KVT_USAGE, "standard %s is not a terminal",
                        isatty(STDIN_FILENO) ? "output" : "input");
    if (!name || !name[0] || strcmp(name, "dumb") == 0)
        return kvt_fail(err, KVT_USAGE, "this terminal cannot place a cursor (TERM=%s)",
                        name ? name : "");
    return KVT_OK;
}

kvt_code term_open(term **out, const term_options *o, kvt_err *err)
{
    const char *name = getenv("TERM");
    *out = NULL;
    if (term_check(err))
        return err->code;
    term *t = kvt_alloc(1, sizeof *t);
    if (!t)
        return kvt_fail_memory(err, sizeof *t);
    if (signals_arm(STDOUT_FILENO, err)) {
        kvt_free(t);
        return err->code;
    }
    int width, height;
    bool known = ask_size(&width, &height);
    use_env(known ? FALSE
                  : TRUE); /* without both some descriptions have no size and are refused */
    use_tioctl(known ? TRUE : FALSE);
    t->screen = newterm(NULL, stdout, stdin);
    if (!t->screen) {
        signals_disarm();
        kvt_free(t);
        return kvt_fail(err, KVT_USAGE, "no description of this terminal (TERM=%.60s)", name);
    }
    set_term(t->screen);
    t->width = COLS;
    t->height = LINES;
    if (set_up(t, o, err)) {
        term_close(t);
        return err->code;
    }
    follow_size(t);
    *out = t;
    return KVT_OK;
}

kvt_code term_open_on(term **out, const char *name, void *in, void *out_file, int width,
                      int height, kvt_err *err)
{
    term *t = kvt_alloc(1, sizeof *t);
    *out = NULL;
    if (!t)
        return kvt_fail_memory(err, sizeof *t);
    t->is_test = true;
    t->screen = newterm((char *)(uintptr_t)name, out_file, in);
    if (!t->screen) {
        kvt_free(t);
        return kvt_fail(err, KVT_USAGE, "no description of terminal %.60s", name);
    }
    set_term(t->screen);
    resizeterm(height, width);
    t->width = width;
    t->height = height;
    if (set_up(t, &(term_options){.colour = true}, err)) {
        term_close(t);
        return err->code;
    }
    *out = t;
    return KVT_OK;
}

void term_close(term *t)
{
    if (!t)
        return;
    int ended = t->is_test ? 0 : signals_ended();
    if (t->screen) {
        curs_set(1);
        endwin();
        delscreen(t->screen);
    }
    if (!t->is_test) {
        fflush(stdout);
        signals_disarm();
        signal(SIGTSTP, SIG_DFL); /* curses leaves its handler behind */
    }
    kvt_free(t);
    if (ended)
        raise(ended);
}

/* ---- drawing ----------------------------------------------------------------------------- */

/* Characters on whose width terminals do not agree: wide ones, marks, and what is no letter,
 * line or block of old. */
static bool is_risky(const grid_cell *c)
{
    uint32_t cp = c->cp[0];
    return c->cp[1] || cp >= 0x2b00 || (cp >= 0x1100 && cp < 0x2000) ||
           (cp >= 0x2600 && cp < 0x27f0 && cp != 0x27e8 && cp != 0x27e9) || text_width(cp) > 1;
}

static attr_t attributes(const term *t, const grid_cell *c)
{
    uint8_t a = palette_of(t->colours)[c->style].attributes;
    if (c->selected)
        a = palette_selected(a);
    return (a & PALETTE_BOLD ? A_BOLD : 0) | (a & PALETTE_DIM ? A_DIM : 0) |
           (a & PALETTE_UNDERLINE ? A_UNDERLINE : 0) | (a & PALETTE_REVERSE ? A_REVERSE : 0);
}

static void put_cell(const term *t, int y, int x, const grid_cell *c)
{
    cchar_t cell;
    wchar_t text[2] = {L' ', 0};
    if (c->cp[0])
        text[0] = is_risky(c) ? L'?' : (wchar_t)c->cp[0];
    setcchar(&cell, text, attributes(t, c), t->pair[c->style], NULL);
    mvadd_wch(y, x, &cell);
}

static int put_byte(int c)
{
    return putchar(c);
}

/* The second pass: one cursor address a character. */
static bool put_risky(const term *t, int y, int x, const grid_cell *c)
{
    char bytes[4];
    putp(tparm((char *)(uintptr_t)t->address, (long)y, (long)x, 0L, 0L, 0L, 0L, 0L, 0L, 0L));
    vid_puts(attributes(t, c), t->pair[c->style], NULL, put_byte);
    for (int i = 0; i < 3 && c->cp[i]; i++)
        fwrite(bytes, 1, (size_t)text_encode(bytes, c->cp[i]), stdout);
    return true;
}

void term_show(term *t, const grid *g)
{
    set_term(t->screen);
    int width = g->width < t->width ? g->width : t->width;
    int height = g->height < t->height ? g->height : t->height;
    if (t->repaint) {
        clearok(curscr, TRUE);
        erase();
        t->repaint = false;
    }
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            put_cell(t, y, x, &g->cell[(int64_t)y * g->width + x]);
    move(0, 0);
    refresh();
    if (t->is_test)
        return;
    bool any = false;
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            const grid_cell *c = &g->cell[(int64_t)y * g->width + x];
            if (c->cp[0] && is_risky(c))
                any = put_risky(t, y, x, c);
        }
    if (any) { /* as curses left it: no attributes, cursor at home */
        vid_puts(A_NORMAL, 0, NULL, put_byte);
        putp(tparm((char *)(uintptr_t)t->address, 0L, 0L, 0L, 0L, 0L, 0L, 0L, 0L, 0L));
    }
    fflush(stdout);
}

void term_repaint(term *t)
{
    t->repaint = true;
}

void term_row(const term *t, int y, char *out, size_t cap)
{
    wchar_t text[1024];
    size_t at = 0;
    set_term(t->screen);
    out[0] = 0;
    if (mvinnwstr(y, 0, text, 1023) == ERR)
        return;
    for (int i = 0; text[i] && at + 5 < cap; i++)
        at += (size_t)text_encode(out + at, (uint32_t)text[i]);
    out[at] = 0;
}

/* ---- input ------------------------------------------------------------------------------- */

static int key_of(wint_t key, bool is_code)
{
    static const struct {
        wint_t code;
        int key;
    } codes[] = {
        {KEY_UP, TUI_KEY_UP},         {KEY_DOWN, TUI_KEY_DOWN},
        {KEY_LEFT, TUI_KEY_LEFT},     {KEY_RIGHT, TUI_KEY_RIGHT},
        {KEY_PPAGE, TUI_KEY_PAGE_UP}, {KEY_NPAGE, TUI_KEY_PAGE_DOWN},
        {KEY_HOME, TUI_KEY_HOME},     {KEY_END, TUI_KEY_END},
        {KEY_ENTER, TUI_KEY_ENTER},   {KEY_BACKSPACE, TUI_KEY_BACKSPACE},
        {KEY_F(1), TUI_KEY_F1},
    };
    if (!is_code) {
        if (key == '\r' || key == '\n')
            return TUI_KEY_ENTER;
        if (key == 0x1b)
            return TUI_KEY_ESC;
        return key == 0x7f || key == '\b' ? TUI_KEY_BACKSPACE : (int)key;
    }
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (codes[i].code == key)
            return codes[i].key;
    return -1;
}

static bool read_mouse(term *t, term_event *out)
{
    MEVENT m;
    if (getmouse(&m) != OK)
        return false;
    if (m.bstate & (BUTTON4_PRESSED | BUTTON5_PRESSED)) {
        t->wheel = m.bstate & BUTTON4_PRESSED ? -3 : 3;
        return false;
    }
    if (!(m.bstate & (BUTTON1_PRESSED | BUTTON1_CLICKED)))
        return false;
    *out = (term_event){.kind = TERM_CLICK, .row = m.y, .column = m.x};
    return true;
}

/* What lies ready. */
static bool read_event(term *t, term_event *out)
{
    if (!t->is_test) {
        if (signals_ended()) {
            *out = (term_event){.kind = TERM_END, .key = signals_ended()};
            return true;
        }
        bool resized = signals_take_size(), awake = signals_take_awake();
        if (follow_size(t) || resized) {
            *out = (term_event){.kind = TERM_SIZE};
            return true;
        }
        if (awake) {
            t->repaint = true;
            *out = (term_event){.kind = TERM_REDRAW};
            return true;
        }
    }
    if (t->wheel) {
        *out = (term_event){.kind = TERM_KEY, .key = t->wheel < 0 ? TUI_KEY_UP : TUI_KEY_DOWN};
        t->wheel += t->wheel < 0 ? 1 : -1;
        return true;
    }
    for (;;) {
        wint_t key;
        int got = get_wch(&key);
        if (got == ERR)
            return false;
        if (got == KEY_CODE_YES && key == KEY_MOUSE) {
            if (read_mouse(t, out))
                return true;
            if (t->wheel)
                return read_event(t, out);
            continue;
        }
        int code = key_of(key, got == KEY_CODE_YES);
        if (code >= 0) {
            *out = (term_event){.kind = TERM_KEY, .key = code};
            return true;
        }
    }
}

bool term_next(term *t, term_event *out, int wait_ms)
{
    bool gone = false;
    set_term(t->screen);
    while (!read_event(t, out)) {
        struct pollfd on[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
                               {.fd = t->is_test ? -1 : signals_fd(), .events = POLLIN}};
        if (gone) { /* what it had sent is read, and nothing will come any more */
            *out = (term_event){.kind = TERM_END, .key = SIGHUP};
            return true;
        }
        if (wait_ms == 0)
            return false;
        int n = poll(on, 2, wait_ms);
        if (n == 0 || (n < 0 && errno != EINTR))
            return false;
        gone = n > 0 && on[0].revents & (POLLHUP | POLLERR | POLLNVAL);
    }
    return true;
}
