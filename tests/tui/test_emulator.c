/* The program on a pseudo-terminal with an emulator behind it: what the emulator shows is the
 * picture that the program dumps, for hostile text too (C062, C063, C069); the size is the
 * driver's (C067); whatever ends it, the terminal is as before (C068).
 *
 * test_tui_emulator PROGRAM MAKE_TRACE */
#include "tests/check.h"
#include "tests/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <vterm.h>

#include "base/text.h"
#include "base/buf.h"

static const char *program, *make_trace;

enum { WAIT_MS = 20000, TEXT = 1 << 16 };

typedef struct screen {
    pid_t child;
    int master;
    VTerm *vt;
    VTermScreen *s;
    int width, height;
    bool cursor_seen, alternate, ended;
    int status;
} screen;

/* ---- the emulator ------------------------------------------------------------------------ */

static int on_property(VTermProp prop, VTermValue *value, void *user)
{
    screen *x = user;
    if (prop == VTERM_PROP_CURSORVISIBLE)
        x->cursor_seen = value->boolean;
    if (prop == VTERM_PROP_ALTSCREEN)
        x->alternate = value->boolean;
    return 1;
}

static const VTermScreenCallbacks callbacks = {.settermprop = on_property};

static void emulate(screen *x, int width, int height)
{
    *x = (screen){.width = width, .height = height, .cursor_seen = true};
    x->vt = vterm_new(height, width);
    vterm_set_utf8(x->vt, 1);
    x->s = vterm_obtain_screen(x->vt);
    vterm_screen_set_callbacks(x->s, &callbacks, x);
    vterm_screen_enable_altscreen(x->s, 1);
    vterm_screen_reset(x->s, 1);
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Takes what the program writes, for at most `ms`; false where nothing came. */
static bool feed(screen *x, int ms)
{
    char bytes[4096];
    struct pollfd on = {.fd = x->master, .events = POLLIN};
    if (poll(&on, 1, ms) <= 0)
        return false;
    ssize_t n = read(x->master, bytes, sizeof bytes);
    if (n <= 0) { /* EIO: nobody holds the other side any more */
        x->ended = true;
        return false;
    }
    vterm_input_write(x->vt, bytes, (size_t)n);
    char answer[256];
    size_t m = vterm_output_read(x->vt, answer, sizeof answer);
    if (m && write(x->master, answer, m) < 0)
        x->ended = true;
    return true;
}

static void row_text(const screen *x, int y, char *out, size_t cap)
{
    size_t at = 0, end = 0;
    for (int c = 0; c < x->width && at + 24 < cap; c++) {
        VTermScreenCell cell;
        VTermPos pos = {.row = y, .col = c};
        vterm_screen_get_cell(x->s, pos, &cell);
        if (cell.chars[0] == (uint32_t)-1)
            continue;
        if (!cell.chars[0])
            cell.chars[0] = ' ';
        for (int i = 0; i < VTERM_MAX_CHARS_PER_CELL && cell.chars[i]; i++)
            at += (size_t)text_encode(out + at, cell.chars[i]);
        if (cell.chars[0] != ' ' || cell.chars[1])
            end = at;
    }
    out[end] = 0;
}

static char *all_text(const screen *x)
{
    static char text[TEXT];
    size_t at = 0;
    for (int y = 0; y < x->height; y++) {
        row_text(x, y, text + at, sizeof text - at - 2);
        at += strlen(text + at);
        text[at++] = '\n';
    }
    text[at] = 0;
    return text;
}

static void wait_for(screen *x, const char *text)
{
    int64_t until = now_ms() + WAIT_MS;
    while (!strstr(all_text(x), text)) {
        if (now_ms() > until || x->ended)
            fail_msg("waited for '%s', the screen is\n%s", text, all_text(x));
        feed(x, 50);
    }
    while (feed(x, 30)) /* the rest of the frame */
        continue;
}

static void press(screen *x, const char *keys)
{
    assert_int_equal(write(x->master, keys, strlen(keys)), (ssize_t)strlen(keys));
}

/* ---- the program ------------------------------------------------------------------------- */

static void start(screen *x, int width, int height, char *const *argv, char *const *env)
{
    struct winsize size = {.ws_row = (unsigned short)height, .ws_col = (unsigned short)width};
    emulate(x, width, height);
    x->child = forkpty(&x->master, NULL, NULL, &size);
    assert_true(x->child >= 0);
    if (x->child == 0) {
        for (; env && *env; env++)
            putenv(*env);
        execv(argv[0], argv);
        _exit(127);
    }
}

static int finish(screen *x)
{
    int64_t until = now_ms() + WAIT_MS;
    pid_t done = 0;
    while (done == 0 && now_ms() < until) {
        feed(x, 20);
        done = waitpid(x->child, &x->status, WNOHANG);
    }
    if (done != x->child) {
        kill(x->child, SIGKILL);
        fail_msg("the program does not end; the screen is\n%s", all_text(x));
    }
    while (feed(x, 20))
        continue;
    return WIFEXITED(x->status) ? WEXITSTATUS(x->status) : 128 + WTERMSIG(x->status);
}

static void drop(screen *x)
{
    close(x->master);
    vterm_free(x->vt);
}

/* What the program prints without a terminal, for the same commands. */
static char *dumped(const char *trace, const char *script, const char *size, const char *locale)
{
    static char text[TEXT];
    char command[4096];
    FILE *f = fopen(folder_path("script"), "w");
    assert_non_null(f);
    fputs(script, f);
    fclose(f);
    snprintf(command, sizeof command,
             "LC_ALL=%s '%s' tui '%s' --script '%s' --size %s --dump - 2>&1",
             locale ? locale : "C.UTF-8", program, trace, folder_path("script"), size);
    FILE *p = popen(command, "r");
    assert_non_null(p);
    size_t n = fread(text, 1, sizeof text - 1, p);
    text[n] = 0;
    assert_int_equal(pclose(p), 0);
    return text;
}

static void compare(screen *x, const char *want)
{
    for (int y = 0; y < x->height; y++) {
        char got[8192];
        size_t n = strcspn(want, "\n");
        row_text(x, y, got, sizeof got);
        if (strlen(got) != n || memcmp(got, want, n) != 0)
            fail_msg("row %d: expected\n%.*s\ngot\n%s", y, (int)n, want, got);
        want += n + (want[n] == '\n');
    }
}

static char *trace_of(const char *kind)
{
    char command[4096];
    static char path[2][1024];
    char *at = path[strcmp(kind, "hostile") == 0];
    snprintf(at, 1024, "%s",
             folder_path(strcmp(kind, "hostile") == 0 ? "hostile.h5" : "plain.h5"));
    if (access(at, R_OK) == 0)
        return at;
    snprintf(command, sizeof command, "'%s' '%s' 120 12 3 %s && '%s' show '%s' >/dev/null 2>&1",
             make_trace, at, kind, program, at);
    assert_int_equal(system(command), 0);
    return at;
}

/* ---- what is shown ----------------------------------------------------------------------- */

static const struct shown {
    const char *name, *trace, *term, *keys, *script, *wait, *size;
    int width, height;
    const char *locale; /* NULL: UTF-8 */
} rows[] = {
    {"overview", "plain", "xterm-256color", "", "", "slots a lane", "100x30", 100, 30, NULL},
    {"lane", "plain", "xterm-256color", "\r:step 3\r", "into\nstep 3\n", "step 3/12", "100x30",
     100, 30, NULL},
    {"wide window", "plain", "xterm-256color", "3", "lane\n", "judge:", "200x60", 200, 60,
     NULL},
    {"small window", "plain", "xterm", "3", "lane\n", "lost", "60x15", 60, 15, NULL},
    {"no colours", "plain", "vt100", "3", "lane\n", "judge:", "100x30", 100, 30, NULL},
    {"hostile text", "hostile", "xterm-256color", "3", "lane\n", "judge:", "100x30", 100, 30,
     NULL},
    {"hostile text, scrolled", "hostile", "xterm-256color", "3G\033[5~g",
     "lane\nlast\npage-up\nfirst\n", "tokens 0-", "80x24", 80, 24, NULL},
    {"hostile card", "hostile", "xterm-256color", "3g\r", "lane\nfirst\ninto\n", "Esc closes",
     "100x30", 100, 30, NULL},
    /* In it curses repeats characters where a terminal can (xterm's REP), and libvterm 0.1.4
     * then wraps a column too early: a terminal without. */
    {"C locale", "hostile", "screen-256color", "3g", "lane\nfirst\n", "judge:", "100x30", 100,
     30, "C"},
};

static void emulator_shows_the_picture(void **state)
{
    const struct shown *r = *state;
    screen x;
    char term[64], locale[64], *trace = trace_of(r->trace);
    snprintf(term, sizeof term, "TERM=%s", r->term);
    snprintf(locale, sizeof locale, "LC_ALL=%s", r->locale ? r->locale : "C.UTF-8");
    char *argv[] = {(char *)(uintptr_t)program, "tui", trace, "--no-mouse", NULL};
    /* C067: LINES and COLUMNS of another window. */
    char *env[] = {term, locale, "LINES=17", "COLUMNS=43", NULL};
    start(&x, r->width, r->height, argv, env);
    wait_for(&x, "overview");
    for (const char *k = r->keys; *k;) {
        size_t n = *k == '\033' ? strlen(k) > 3 ? 4 : strlen(k) : 1;
        char key[8] = {0};
        memcpy(key, k, n);
        press(&x, key);
        feed(&x, 100);
        k += n;
    }
    wait_for(&x, r->wait);
    compare(&x, dumped(trace, r->script, r->size, r->locale));
    press(&x, "Q");
    assert_int_equal(finish(&x), 0);
    assert_false(x.alternate);
    assert_true(x.cursor_seen);
    drop(&x);
}

static void resizes_are_followed(void **state)
{
    (void)state;
    static const int sizes[][2] = {{60, 15}, {36, 8}, {140, 40}, {80, 24}};
    screen x;
    char *trace = trace_of("plain");
    char *argv[] = {(char *)(uintptr_t)program, "tui", trace, NULL};
    char *env[] = {"TERM=xterm-256color", NULL};
    start(&x, 100, 30, argv, env);
    wait_for(&x, "slots a lane");
    press(&x, "3");
    wait_for(&x, "judge:");
    for (int i = 0; i < 200; i++) { /* faster than it can draw */
        struct winsize size = {.ws_row = (unsigned short)(10 + i % 30),
                               .ws_col = (unsigned short)(40 + i % 90)};
        ioctl(x.master, TIOCSWINSZ, &size);
    }
    for (int i = 0; i < CHECK_COUNT(sizes); i++) {
        char text[64];
        struct winsize size = {.ws_row = (unsigned short)sizes[i][1],
                               .ws_col = (unsigned short)sizes[i][0]};
        while (feed(&x, 30))
            continue;
        x.width = sizes[i][0];
        x.height = sizes[i][1];
        vterm_set_size(x.vt, x.height, x.width);
        ioctl(x.master, TIOCSWINSZ, &size);
        wait_for(&x, sizes[i][0] == 36 ? "needs at least 40x10" : "L0");
        /* Where the text was scrolled to is a matter of what came before: go to its start. */
        press(&x, "g\f");
        while (feed(&x, 200))
            continue;
        snprintf(text, sizeof text, "%dx%d", sizes[i][0], sizes[i][1]);
        compare(&x, dumped(trace, "lane\nfirst\nredraw\n", text, NULL));
    }
    press(&x, "Q");
    assert_int_equal(finish(&x), 0);
    drop(&x);
}

/* A click selects a lane of the map, a turn of the wheel moves by three, as xterm sends them.
 */
static void mouse_selects(void **state)
{
    (void)state;
    screen x;
    char *argv[] = {(char *)(uintptr_t)program, "tui", trace_of("plain"), NULL};
    char *env[] = {"TERM=xterm-256color", NULL};
    start(&x, 100, 30, argv, env);
    wait_for(&x, "slots a lane");
    press(&x, "\033[<0;9;5M\033[<0;9;5m"); /* column 9, row 5: the cell L01 G0 */
    wait_for(&x, " L01 G0   one kv head");
    press(&x, "\033[<0;15;4M\033[<0;15;4m");
    wait_for(&x, " L00 G1   one kv head");
    press(&x, "3g");
    wait_for(&x, "token 0 ");
    press(&x, "\033[<65;20;20M");
    wait_for(&x, "token 32 "); /* three lines down */
    press(&x, "Q");
    assert_int_equal(finish(&x), 0);
    drop(&x);
}

/* What has no result is replayed within the browser. */
static void missing_result_is_replayed(void **state)
{
    (void)state;
    screen x;
    char *argv[] = {(char *)(uintptr_t)program, "tui", trace_of("plain"), NULL};
    char *env[] = {"TERM=xterm-256color", NULL};
    start(&x, 100, 30, argv, env);
    wait_for(&x, "slots a lane");
    press(&x, ":policy window\r:budget 50%\r");
    wait_for(&x, "50% has no result");
    press(&x, "R");
    wait_for(&x, "50% is computed");
    wait_for(&x, "window (");
    press(&x, ":policy no-such\r");
    wait_for(&x, "R computes it");
    press(&x, "R");
    wait_for(&x, "no policy 'no-such'");
    press(&x, "Q");
    assert_int_equal(finish(&x), 0);
    drop(&x);
}

/* ---- how it ends ------------------------------------------------------------------------- */

static const struct end {
    const char *name;
    int signal, status; /* signal 0: keys */
    const char *keys;
} ends[] = {
    {"q", 0, 0, "q"},
    {"Q", 0, 0, "3Q"},
    {"Ctrl-C", 0, 130, "\003"},
    {"SIGINT", SIGINT, 130, NULL},
    {"SIGTERM", SIGTERM, 143, NULL},
    {"SIGHUP", SIGHUP, 129, NULL},
    {"SIGSEGV", SIGSEGV, 139, NULL},
    {"SIGABRT", SIGABRT, 134, NULL},
};

static bool same_settings(const struct termios *a, const struct termios *b)
{
    return a->c_iflag == b->c_iflag && a->c_oflag == b->c_oflag && a->c_cflag == b->c_cflag &&
           a->c_lflag == b->c_lflag && memcmp(a->c_cc, b->c_cc, sizeof a->c_cc) == 0;
}

static void terminal_is_as_before(void **state)
{
    const struct end *e = *state;
    screen x;
    struct termios before, after;
    char *argv[] = {(char *)(uintptr_t)program, "tui", trace_of("plain"), NULL};
    char *env[] = {"TERM=xterm-256color", NULL};
    start(&x, 100, 30, argv, env);
    assert_int_equal(tcgetattr(x.master, &before), 0);
    wait_for(&x, "slots a lane");
    assert_int_equal(tcgetattr(x.master, &after), 0);
    assert_false(same_settings(&before, &after)); /* it did change them */
    assert_true(x.alternate);
    assert_false(x.cursor_seen);
    if (e->signal)
        kill(x.child, e->signal);
    else
        press(&x, e->keys);
    assert_int_equal(finish(&x), e->status);
    assert_int_equal(tcgetattr(x.master, &after), 0);
    assert_true(same_settings(&before, &after));
    assert_true(x.cursor_seen);
    assert_false(x.alternate);
    drop(&x);
}

/* A shell that stops and continues it, as a person does with Ctrl-Z and fg. */
static void stopping_and_going_on_repaints(void **state)
{
    (void)state;
    screen x;
    char *trace = trace_of("plain");
    char *argv[] = {(char *)(uintptr_t)program, "tui", trace, NULL};
    char *env[] = {"TERM=xterm-256color", NULL};
    start(&x, 100, 30, argv, env);
    wait_for(&x, "slots a lane");
    /* The group of a session's leader is orphaned, in which SIGTSTP does nothing: stop it hard.
     */
    kill(x.child, SIGSTOP);
    int status;
    assert_int_equal(waitpid(x.child, &status, WUNTRACED), x.child);
    assert_true(WIFSTOPPED(status));
    vterm_screen_reset(x.s, 1); /* another program has written here */
    kill(x.child, SIGCONT);
    wait_for(&x, "slots a lane");
    compare(&x, dumped(trace, "", "100x30", NULL));
    press(&x, "Q");
    assert_int_equal(finish(&x), 0);
    drop(&x);
}

/* ---- where it does not begin ------------------------------------------------------------- */

static const struct refusal {
    const char *name, *term;
    int width, height;
    const char *says;
} refusals[] = {
    {"dumb", "TERM=dumb", 100, 30, "cannot place a cursor"},
    {"unknown", "TERM=no-such-thing", 100, 30, "no description of this terminal"},
    {"too small", "TERM=xterm", 36, 8, "needs at least 40x10"},
};

static void refusal_names_show(void **state)
{
    const struct refusal *r = *state;
    screen x;
    char *argv[] = {(char *)(uintptr_t)program, "tui", trace_of("plain"), NULL};
    /* curses keeps memory where it refuses a terminal: nothing that a sanitizer should fail on.
     */
    char *env[] = {(char *)(uintptr_t)r->term, "ASAN_OPTIONS=detect_leaks=0", NULL};
    struct termios before, after;
    start(&x, r->width, r->height, argv, env);
    assert_int_equal(tcgetattr(x.master, &before), 0);
    assert_int_equal(finish(&x), 2);
    /* Lines of an error are broken by the window: look at them as one. */
    char text[TEXT];
    size_t n = 0;
    for (const char *at = all_text(&x); *at; at++)
        if (*at != '\n')
            text[n++] = *at;
    text[n] = 0;
    if (!strstr(text, r->says) || !strstr(text, "kvt show"))
        fail_msg("expected '%s' and kvt show in\n%s", r->says, text);
    assert_int_equal(tcgetattr(x.master, &after), 0);
    assert_true(same_settings(&before, &after));
    drop(&x);
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[40];
    int n = 0;
    if (argc < 3 || !setlocale(LC_ALL, "C.UTF-8"))
        return CHECK_SKIP;
    program = argv[1];
    make_trace = argv[2];
    setenv("LC_ALL", "C.UTF-8", 1);
    unsetenv("NO_COLOR");
    unsetenv("LINES");
    unsetenv("COLUMNS");
    folder_new();
    CHECK_ROWS(tests, &n, rows, emulator_shows_the_picture);
    CHECK_ROWS(tests, &n, ends, terminal_is_as_before);
    CHECK_ROWS(tests, &n, refusals, refusal_names_show);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(mouse_selects);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(missing_result_is_replayed);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(resizes_are_followed);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(stopping_and_going_on_repaints);
    int failed = CHECK_RUN("emulator", tests, n);
    folder_end();
    return failed;
}
