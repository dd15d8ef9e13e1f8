/* test_bad_memory.c - whole commands while memory runs out: allocation n fails, for growing n,
 * once or from there on. Each ends with a code and one line; nothing half-written lies under a
 * final name; the sanitizers see no leak. Verbs are run as main.c runs them, in this process.
 */
#include <fcntl.h>

#include "base/buf.h"
#include "base/file.h"
#include "cli/opt.h"
#include "cli/progress.h"
#include "kvt/arena.h"
#include "kvt/trace.h"
#include "tests/check.h"
#include "tests/folder.h"
#include "tests/model_make.h"

enum { WORDS_MAX = 32 };

int cli_signal(void)
{
    return 0; /* main.c's */
}

/* ---- a command line ------------------------------------------------------------------------
 */

static kvt_code run_words(cli *c, int argc, char **argv, kvt_err *err)
{
    const cli_command *command = cli_command_find(argv[0]);
    char *operand[WORDS_MAX];
    int n = 0;
    void *options = kvt_alloc((int64_t)command->options_size, 1);
    kvt_code code = options ? cli_opt_parse(c, command, options, argc, argv, operand, &n, err)
                            : kvt_fail_memory(err, command->options_size);
    if (!code && c->help)
        code = KVT_OK;
    else if (!code) {
        c->ctx.n_thread = (int)c->threads;
        code = command->run(c, options, n, operand, err);
    }
    kvt_free(options);
    return code;
}

static int redirect(int fd, const char *path)
{
    fflush(NULL);
    int was = dup(fd), to = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(to, fd);
    close(to);
    return was;
}

static void back(int fd, int was)
{
    fflush(NULL);
    dup2(was, fd);
    close(was);
}

/* Runs a line of words. What it says goes to talk.txt in the test's folder: there a sanitizer's
 * report stays, too. */
static kvt_code run_line(const char *line, kvt_err *err)
{
    char text[512], *argv[WORDS_MAX], *rest = NULL;
    int argc = 0;
    cli c = {.ctx.user = &c, .command_line = line};
    snprintf(text, sizeof text, "%s", line);
    for (char *w = strtok_r(text, " ", &rest); w && argc < WORDS_MAX;
         w = strtok_r(NULL, " ", &rest))
        argv[argc++] = w;
    cli_opt_defaults(cli_common_options(), &c);
    cli_progress_init(&c);
    c.quiet = true;
    c.verb = argv[0];
    int out = redirect(STDOUT_FILENO, "/dev/null"), talk = redirect(STDERR_FILENO, "talk.txt");
    kvt_code code = run_words(&c, argc, argv, err);
    cli_progress_end(&c);
    back(STDOUT_FILENO, out);
    back(STDERR_FILENO, talk);
    cli_progress_fini(&c);
    return code;
}

/* ---- what may lie there after a failure ----------------------------------------------------
 */

static const char *at; /* the line that runs, for messages */

static kvt_code look(void *user, const char *name, kvt_err *err)
{
    const char *dir = user;
    char path[1024];
    kvt_err why;
    size_t n = strlen(name);
    if (file_join(path, sizeof path, dir, name, err))
        return err->code;
    if (file_is_dir(path))
        return file_list(path, look, path, err);
    if (strstr(name, ".part"))
        fail_msg("%s: %s is left", at, path);
    if (n > 3 && !strcmp(name + n - 3, ".h5") && !strstr(name, "kvt-results")) {
        kvt_trace *t;
        CHECK_OK(kvt_trace_open(&t, path, 0, &why), &why);
        kvt_trace_close(t);
    }
    if (file_size(path) == 0)
        fail_msg("%s: %s is empty", at, path);
    return KVT_OK;
}

static void check_folder(const char *dir)
{
    kvt_err err;
    if (file_is_dir(dir))
        CHECK_OK(file_list(dir, look, (void *)(uintptr_t)dir, &err), &err);
}

static void check_error(kvt_code code, const kvt_err *err, int64_t n)
{
    /* NO and PARTLY: files or cells could not be looked at, and the outcome says so. */
    if (code != KVT_NOMEM && code != KVT_NO && code != KVT_PARTLY)
        fail_msg("%s: allocation %lld: expected NOMEM, got %s: %s", at, (long long)n,
                 kvt_code_name(code), err->text);
    if (!err->text[0] || strchr(err->text, '\n'))
        fail_msg("%s: allocation %lld: no line of error", at, (long long)n);
}

/* ---- lines ---------------------------------------------------------------------------------
 */

typedef struct row {
    const char *name, *line;
    int part; /* n grows by its part-th part: the larger, the more failures are tried */
} row;

static const row rows[] = {
    {"capture", "capture --model tiny.gguf --prompt cat --max-new 2 -o out/a.h5", 2},
    {"capture set", "capture --model tiny.gguf --prompts set.jsonl --max-new 1 -o out/set", 2},
    {"replay", "replay a.h5 -p h2o,snapkv:window=4 -b 8,30% --out out/r", 8},
    {"replay tables",
     "replay a.h5 -p tova -b 8 --out out/r --csv out/c --table cells,lanes,steps,evictions", 8},
    {"replay again", "replay a.h5 -p h2o -b 8 --out results --json", 12},
    {"replay plan", "replay a.h5 -p all -b 8 --plan", 12},
    {"train",
     "train lookaheadkv:tokens=2,rank=1,steps=2 a.h5 --model tiny.gguf -o out/l.safetensors",
     8},
    {"train plan", "train judgeq a.h5 --model tiny.gguf --plan", 12},
    {"train list", "train list", 20},
    {"report", "report results", 12},
    {"report csv", "report results --csv out/c --table cells,lanes,steps,evictions,curve", 12},
    {"report json", "report results --json --table lanes", 12},
    {"info", "info a.h5", 20},
    {"info json", "info a.h5 --json", 20},
    {"ls", "ls .", 20},
    {"ls json", "ls results --json", 20},
    {"verify", "verify a.h5 results", 20},
    {"policy list", "policy list", 20},
    {"policy show", "policy show snapkv", 20},
    {"show", "show a.h5", 20},
    {"help", "help replay", 20},
    {"completion", "completion bash", 20},
};

static void memory_may_end_anywhere(void **state)
{
    const row *r = *state;
    int64_t tried = 0;
    at = r->name;
    for (int stays = 0; stays < 2; stays++) {
        bool last = false;
        for (int64_t n = 1; !last; n += 1 + n / r->part) {
            kvt_err err = {0};
            folder_drop("out");
            mkdir("out", 0700);
            kvt_alloc_fail_at(n, stays != 0);
            kvt_code code = run_line(r->line, &err);
            last = kvt_alloc_count() < n;
            kvt_alloc_fail_at(0, false);
            if (last)
                CHECK_OK(code, &err);
            else if (code)
                check_error(code, &err, n);
            check_folder("out");
            tried++;
        }
    }
    print_message("%s: %lld failures tried\n", at, (long long)tried);
}

/* ---- what the lines work on ----------------------------------------------------------------
 */

static int prepare(void)
{
    static const char set[] =
        "{\"id\": \"a\", \"prompt\": \"one\"}\n{\"id\": \"b\", \"prompt\": \"two\"}\n";
    kvt_err err = {0};
    model_make_options o = model_make_defaults();
    o.no_template = true;
    if (chdir(folder_name) || !model_make_gguf("tiny.gguf", &o) ||
        file_write("set.jsonl", set, sizeof set - 1, &err) ||
        run_line("capture --model tiny.gguf --prompt catdog --max-new 3 -o a.h5", &err) ||
        run_line("replay a.h5 -p h2o -b 8 --out results", &err)) {
        fprintf(stderr, "test_bad_memory: %s\n", err.text);
        return 1;
    }
    return 0;
}

int main(void)
{
    struct CMUnitTest t[CHECK_COUNT(rows)];
    int n = 0;
    folder_new();
    if (prepare())
        return 1;
    CHECK_ROWS(t, &n, rows, memory_may_end_anywhere);
    int failed = CHECK_RUN("bad_memory", t, n);
    if (chdir("/"))
        return 1;
    folder_end();
    return failed;
}
