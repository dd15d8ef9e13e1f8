/* main.c - the program: finds the verb, reads its options, runs it, prints the error once, and
 * turns the code into an exit status. Nothing else exits. */
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/text.h"
#include "cli/help.h"
#include "cli/opt.h"
#include "cli/progress.h"
#include "kvt/arena.h"

/* ---- signals -------------------------------------------------------------------------------
 */

static volatile sig_atomic_t signal_seen;

int cli_signal(void)
{
    return signal_seen;
}

/* The first one asks: what runs stops at its next progress call and keeps what is finished. The
 * second one leaves at once. */
static void on_signal(int number)
{
    if (signal_seen)
        _exit(128 + number);
    signal_seen = number;
}

static void catch_signals(void)
{
    struct sigaction ask = {.sa_handler = on_signal}, ignore = {.sa_handler = SIG_IGN};
    sigemptyset(&ask.sa_mask);
    sigemptyset(&ignore.sa_mask);
    sigaction(SIGINT, &ask, NULL);
    sigaction(SIGTERM, &ask, NULL);
    sigaction(SIGPIPE, &ignore, NULL); /* a closed pipe is a write error like others */
    sigaction(SIGXFSZ, &ignore, NULL); /* so is a file that may not grow */
}

/* Of a closed standard stream the number is free, and a trace that is opened would get it: what
 * is printed would land in the trace. The placeholder refuses what a closed stream refuses. */
static void hold_streams(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF &&
            open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) < 0)
            _exit(1); /* nobody is there to be told */
}

/* ---- the command line, for provenance ------------------------------------------------------
 */

static bool is_plain(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "%+,-./:=@_^";
    return word[0] && word[strspn(word, plain)] == 0;
}

/* argv as one line that a shell reads back: words with anything special are quoted. */
static void quote_command(buf *out, int argc, char **argv)
{
    buf_text(out, "kvt");
    for (int i = 1; i < argc; i++) {
        buf_char(out, ' ');
        if (is_plain(argv[i])) {
            buf_text(out, argv[i]);
            continue;
        }
        buf_char(out, '\'');
        for (const char *s = argv[i]; *s; s++)
            if (*s == '\'')
                buf_text(out, "'\\''");
            else
                buf_char(out, *s);
        buf_char(out, '\'');
    }
}

/* ---- running -------------------------------------------------------------------------------
 */

static kvt_code unknown_verb(const char *word, kvt_err *err)
{
    const char *names[64] = {0};
    for (int i = 0; i < 63 && cli_commands()[i]; i++)
        names[i] = cli_commands()[i]->name;
    const char *near = text_nearest(word, names);
    if (near)
        return kvt_fail(err, KVT_USAGE, "no verb '%.60s' (did you mean '%s'?)", word, near);
    return kvt_fail(err, KVT_USAGE, "no verb '%.60s'; see: kvt help", word);
}

static kvt_code run_verb(cli *c, const cli_command *command, int argc, char **argv,
                         kvt_err *err)
{
    char **operand = kvt_alloc(argc + 1, sizeof *operand);
    void *options = kvt_alloc((int64_t)command->options_size, 1);
    int n = 0;
    kvt_code code;

    c->verb = command->name;
    if (!operand || !options)
        code = kvt_fail_memory(err, command->options_size);
    else if ((code = cli_opt_parse(c, command, options, argc, argv, operand, &n, err)))
        ;
    else if (c->help)
        code = cli_help_verb(c, command, err);
    else if (c->version)
        code = cli_help_version(c, err);
    else {
        c->ctx.seed = (uint64_t)c->seed;
        c->ctx.n_thread = (int)c->threads;
        code = command->run(c, options, n, operand, err);
    }
    kvt_free(options);
    kvt_free(operand);
    return code;
}

static kvt_code run(cli *c, int argc, char **argv, kvt_err *err)
{
    int at = argc;
    kvt_code code = cli_opt_front(c, argc, argv, &at, err);
    if (code)
        return code;
    if (c->version)
        return cli_help_version(c, err);
    if (at == argc && c->help)
        return cli_help_all(c, err);
    if (at == argc) {
        cli_help_verbs(stderr);
        return kvt_fail(err, KVT_USAGE, "a verb is missing");
    }
    if (!strcmp(argv[at], "__complete"))
        return cli_complete(c, argc - at - 1, argv + at + 1, err);
    const cli_command *command = cli_command_find(argv[at]);
    if (!command)
        return unknown_verb(argv[at], err);
    return run_verb(c, command, argc - at, argv + at, err);
}

static bool reader_is_gone(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO};
    return poll(&out, 1, 0) == 1 && (out.revents & POLLERR);
}

/* A full disk or a closed pipe shows only when the last bytes leave. A pipe whose reader has
 * gone needs no words: whoever closed it knows. */
static kvt_code close_stdout(kvt_code code, kvt_err *err, bool *silent)
{
    bool bad = ferror(stdout) != 0, gone = reader_is_gone();
    errno = 0;
    if (fclose(stdout))
        bad = true;
    if (!bad || (code && code != KVT_IO && code != KVT_NO && code != KVT_PARTLY))
        return code;
    *silent = gone || errno == EPIPE;
    return kvt_fail(err, KVT_IO, "standard output: cannot write%s%s", errno ? ": " : "",
                    errno ? strerror(errno) : "");
}

int main(int argc, char **argv)
{
    cli c = {.ctx.user = &c};
    kvt_err err = {0};
    buf line;
    bool silent = false;

    hold_streams();
    /* Text, collation and widths by the user's locale, but numbers always with a point: CSV and
     * JSON are read by programs. */
    setlocale(LC_ALL, "");
    setlocale(LC_NUMERIC, "C");
    catch_signals();
    buf_init(&line, 1 << 20);
    quote_command(&line, argc, argv);
    c.command_line = buf_get(&line);
    cli_opt_defaults(cli_common_options(), &c);
    cli_progress_init(&c);

    kvt_code code = run(&c, argc, argv, &err);
    cli_progress_end(&c);
    code = close_stdout(code, &err, &silent);
    if (code && !silent)
        cli_error(&c, &err);
    cli_progress_fini(&c);
    buf_fini(&line);
    if (code == KVT_STOPPED && signal_seen)
        return 128 + signal_seen;
    return kvt_exit_status(code);
}
