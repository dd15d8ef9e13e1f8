/* policy_check.c - kvt policy check FILE.so: the laws of kvt/check.h on a plug-in that nobody
 * has reason to trust yet. Each use runs in a process of its own, so that a hook that reads
 * what it does not declare, or writes where it must not, ends that process and is named. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/policy_text.h"
#include "kvt/arena.h"
#include "kvt/check.h"

enum { NAME_CAP = 512, WHAT_CAP = 256, SECONDS = 60 };

/* What the child says: a law that begins (what ""), one that is broken, why nothing can be
 * tried (KVT_LAW_COUNT), or that it came to its end. */
enum { DONE = KVT_LAW_COUNT + 1 };
typedef struct message {
    int law;
    char what[WHAT_CAP];
} message;

/* ---- the child -----------------------------------------------------------------------------
 */

/* A message is smaller than PIPE_BUF: it is written whole or not at all. */
static void send(void *user, kvt_law law, const char *what)
{
    message m = {.law = (int)law};
    snprintf(m.what, sizeof m.what, "%s", what ? what : "");
    ssize_t n = write(*(int *)user, &m, sizeof m);
    (void)n; /* nobody reads any more: the parent is gone */
}

static void try_use(const kvt_use *use, int pipe_end)
{
    kvt_err err;
    alarm(SECONDS); /* a hook that does not come back */
    kvt_code code = kvt_policy_check(use, send, &pipe_end, &err);
    if (code && code != KVT_NO)
        send(&pipe_end, KVT_LAW_COUNT, err.text);
    else
        send(&pipe_end, (kvt_law)DONE, NULL);
    _exit(code == KVT_OK ? 0 : 1);
}

/* ---- the parent ----------------------------------------------------------------------------
 */

static void say(const char *what)
{
    char safe[2 * WHAT_CAP];
    text_safe_cut(safe, sizeof safe, (const uint8_t *)what, strlen(what), 2 * WHAT_CAP, true);
    printf("        %s\n", safe);
}

/* Reads what the child says until it ends; the law at which it was last, or DONE. Returns how
 * many are broken, -1: it could not be tried. */
static int listen(int pipe_end, int *law)
{
    message m;
    int n_broken = 0;
    ssize_t n;
    while ((n = read(pipe_end, &m, sizeof m)) == (ssize_t)sizeof m ||
           (n < 0 && errno == EINTR)) {
        if (n < 0)
            continue;
        m.what[sizeof m.what - 1] = 0;
        if (m.law == KVT_LAW_COUNT) {
            say(m.what);
            return -1;
        }
        if (m.law == DONE) {
            *law = DONE;
            continue;
        }
        *law = m.law >= 0 && m.law < KVT_LAW_COUNT ? m.law : 0;
        if (!m.what[0])
            continue;
        n_broken++;
        printf("  broken  %s: %s\n", kvt_law_name((kvt_law)*law), kvt_law_help((kvt_law)*law));
        say(m.what);
    }
    return n_broken;
}

/* How a process ended that did not come to its end. */
static int report_end(int status, int law)
{
    if (law == DONE)
        return 0;
    int sig = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    printf("  broken  %s: %s\n", kvt_law_name((kvt_law)law), kvt_law_help((kvt_law)law));
    if (sig == 0)
        printf("        ends the process that runs it\n");
    else if (sig == SIGALRM)
        printf("        does not come back within %d seconds\n", SECONDS);
    else
        printf(
            "        crashed (signal %d, %s): a view that its traits do not declare is NULL\n",
            sig, strsignal(sig));
    return 1;
}

/* Broken laws of a use, -1: it could not be tried. */
static kvt_code check_use(const kvt_use *use, int *n_broken, kvt_err *err)
{
    int ends[2], law = 0, status = 0;
    fflush(NULL);
    if (pipe(ends))
        return kvt_fail(err, KVT_IO, "pipe: %s", strerror(errno));
    pid_t child = fork();
    if (child < 0) {
        close(ends[0]), close(ends[1]);
        return kvt_fail(err, KVT_IO, "fork: %s", strerror(errno));
    }
    if (child == 0) {
        close(ends[0]);
        try_use(use, ends[1]);
    }
    close(ends[1]);
    *n_broken = listen(ends[0], &law);
    close(ends[0]);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (*n_broken >= 0)
        *n_broken += report_end(status, law);
    return KVT_OK;
}

static kvt_code check_text(const kvt_registry *r, const char *text, int *broken, int *untried,
                           kvt_err *err)
{
    kvt_use *use;
    int n = 0;
    if (kvt_use_parse(&use, r, text, err))
        return err->code;
    printf("%s\n", text);
    kvt_code code = check_use(use, &n, err);
    kvt_use_free(use);
    if (code)
        return code;
    if (n == 0)
        printf("  all %d laws hold\n", KVT_LAW_COUNT);
    *broken += n > 0 ? n : 0;
    *untried += n < 0;
    return KVT_OK;
}

/* The default, then every value of every choice. */
static kvt_code check_policy(const kvt_registry *r, const kvt_policy *p, int *broken,
                             int *untried, kvt_err *err)
{
    kvt_code code = check_text(r, p->name, broken, untried, err);
    for (const kvt_param *t = p->params; !code && t && t->name; t++)
        for (int i = 0; t->type == KVT_CHOICE && i <= (int)t->max && !code; i++) {
            char text[NAME_CAP];
            if (i == (int)t->def)
                continue;
            snprintf(text, sizeof text, "%s:%s=%s", p->name, t->name, t->choices[i].name);
            code = check_text(r, text, broken, untried, err);
        }
    return code;
}

kvt_code policy_check(const char *path, kvt_err *err)
{
    kvt_registry *r;
    int broken = 0, untried = 0;
    kvt_code code = kvt_registry_new(&r, err);
    if (!code)
        code = kvt_registry_plugin(r, path, err);
    for (int i = 0; !code && kvt_registry_policies(r)[i]; i++) {
        const kvt_policy *p = kvt_registry_policies(r)[i];
        if (kvt_policy_find(p->name) != p)
            code = check_policy(r, p, &broken, &untried, err);
    }
    kvt_registry_free(r);
    if (code)
        return code;
    if (broken > 0)
        return kvt_fail(err, KVT_NO, "%s: %d broken %s", path, broken,
                        broken == 1 ? "law" : "laws");
    return untried > 0
               ? kvt_fail(err, KVT_NO, "%s: %d of its uses could not be tried", path, untried)
               : KVT_OK;
}
