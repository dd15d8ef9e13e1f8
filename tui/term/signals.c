/* signals.c - handlers that restore the terminal. They call what POSIX allows in a handler:
 * tcsetattr, write, sigaction, raise, _exit. */
#include "tui/term/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

enum { BYTES_MAX = 256 };

static const int asks[] = {SIGINT, SIGTERM, SIGHUP};
static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
static const int news[] = {SIGWINCH, SIGCONT};
enum { N_ASK = 3, N_CRASH = 5, N_NEWS = 2 };

static struct {
    volatile sig_atomic_t armed, ended, resized, awake;
    int fd, pipe[2];
    struct termios found;
    char bytes[BYTES_MAX];
    size_t n_byte;
    struct sigaction old[N_ASK + N_CRASH + N_NEWS];
} state = {.pipe = {-1, -1}};

static void restore(void)
{
    if (!state.armed)
        return;
    for (size_t at = 0; at < state.n_byte;) {
        ssize_t n = write(state.fd, state.bytes + at, state.n_byte - at);
        if (n <= 0)
            break;
        at += (size_t)n;
    }
    tcsetattr(state.fd, TCSANOW, &state.found);
}

static void wake(void)
{
    ssize_t ignored = write(state.pipe[1], "", 1); /* full: the reader wakes anyway */
    (void)ignored;
}

static void on_ask(int number)
{
    int kept = errno;
    if (state.ended) {
        restore();
        _exit(128 + number);
    }
    state.ended = number;
    wake();
    errno = kept;
}

static void on_crash(int number)
{
    struct sigaction plain = {.sa_handler = SIG_DFL};
    restore();
    sigaction(number, &plain, NULL);
    raise(number);
}

static void on_news(int number)
{
    int kept = errno;
    if (number == SIGWINCH)
        state.resized = 1;
    else
        state.awake = 1;
    wake();
    errno = kept;
}

static void install(const int *signals, int n, void (*handler)(int), struct sigaction *old)
{
    struct sigaction action = {.sa_handler = handler};
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < n; i++)
        sigaction(signals[i], &action, &old[i]);
}

static void uninstall(const int *signals, int n, const struct sigaction *old)
{
    for (int i = 0; i < n; i++)
        sigaction(signals[i], &old[i], NULL);
}

kvt_code signals_arm(int fd, kvt_err *err)
{
    if (tcgetattr(fd, &state.found))
        return kvt_fail(err, KVT_IO, "terminal: cannot read its settings: %s", strerror(errno));
    if (pipe(state.pipe))
        return kvt_fail(err, KVT_IO, "pipe: %s", strerror(errno));
    for (int i = 0; i < 2; i++) {
        fcntl(state.pipe[i], F_SETFL, O_NONBLOCK);
        fcntl(state.pipe[i], F_SETFD, FD_CLOEXEC);
    }
    state.fd = fd;
    state.n_byte = 0;
    state.ended = state.resized = state.awake = 0;
    state.armed = 1;
    install(asks, N_ASK, on_ask, state.old);
    install(crashes, N_CRASH, on_crash, state.old + N_ASK);
    install(news, N_NEWS, on_news, state.old + N_ASK + N_CRASH);
    return KVT_OK;
}

void signals_leave_with(const char *bytes, size_t n)
{
    n = n < BYTES_MAX ? n : BYTES_MAX;
    memcpy(state.bytes, bytes, n);
    state.n_byte = n;
}

void signals_disarm(void)
{
    if (!state.armed)
        return;
    uninstall(asks, N_ASK, state.old);
    uninstall(crashes, N_CRASH, state.old + N_ASK);
    uninstall(news, N_NEWS, state.old + N_ASK + N_CRASH);
    state.armed = 0;
    close(state.pipe[0]);
    close(state.pipe[1]);
    state.pipe[0] = state.pipe[1] = -1;
}

int signals_fd(void)
{
    return state.pipe[0];
}

int signals_ended(void)
{
    return state.ended;
}

static void empty_pipe(void)
{
    char bytes[64];
    while (read(state.pipe[0], bytes, sizeof bytes) > 0)
        continue;
}

bool signals_take_size(void)
{
    empty_pipe();
    bool was = state.resized;
    state.resized = 0;
    return was;
}

bool signals_take_awake(void)
{
    bool was = state.awake;
    state.awake = 0;
    return was;
}
