/* test_bugs.c - the shim finds bugs: nine kinds, seeded into one kernel (bugs/mass.h), each
 * caught the way that engine.md 5.2 says, and the right kernel by none. */
#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "tests/gpu/bugs/mass.h"

static const struct row {
    const char *name;
    int bug;
    bool value, asan, tsan, own;
} rows[] = {
    {"the right kernel", BUG_NONE, false, false, false, false},
    {"no barrier after a tile is loaded", BUG_NO_BARRIER_LOADED, true, false, true, false},
    {"no barrier before a tile is overwritten", BUG_NO_BARRIER_USED, true, false, true, false},
    {"shared memory read past its end", BUG_SHARED_END, true, true, false, false},
    {"causal mask off by one", BUG_MASK, true, false, false, false},
    {"global read without a guard", BUG_NO_GUARD, false, true, false, false},
    {"barrier in a divergent branch", BUG_DIVERGENT, false, false, true, true},
    {"shuffle reduction too short", BUG_SHUFFLE, true, false, false, false},
    {"shared value never set", BUG_UNSET, true, false, false, false},
    {"blocks that add to one sum", BUG_BLOCKS, false, false, true, false},
};

/* Exit status; the output, whose end may be cut, into out. */
static int run(const char *program, int bug, const char *more, char *out, size_t cap)
{
    char command[1200];
    snprintf(command, sizeof command, "OMP_NUM_THREADS=1 %s %d %s 2>&1", program, bug, more);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    size_t n = fread(out, 1, cap - 1, f);
    out[n] = 0;
    while (fgetc(f) != EOF) {
    }
    int status = pclose(f);
    if (!WIFEXITED(status))
        fail_msg("%s: signal %d: %.300s", command, WTERMSIG(status), out);
    return WEXITSTATUS(status);
}

static void expect(const struct row *r, const char *column, bool want, bool got,
                   const char *out)
{
    if (want != got)
        fail_msg("%s: %s: expected %s: %.600s", r->name, column, want ? "caught" : "silent",
                 out);
}

static void plain(void **state)
{
    const struct row *r = *state;
    static char out[4096];
    int status = run(KVT_BUGS_PLAIN, r->bug, "", out, sizeof out);
    assert_true(status <= 2);
    expect(r, "value", r->value, status == 1, out);
    expect(r, "own check", r->own, status == 2, out);
}

static void address(void **state)
{
    const struct row *r = *state;
    static char out[4096];
#ifdef KVT_BUGS_ASAN
    run(KVT_BUGS_ASAN, r->bug, "", out, sizeof out);
    bool found = strstr(out, "ERROR: AddressSanitizer: heap-buffer-overflow") != NULL;
    expect(r, "AddressSanitizer", r->asan, found, out);
    if (found)
        assert_non_null(strstr(out, "mass_body.h:"));
#else
    (void)r, (void)out;
    print_message("skipped: this compiler has no AddressSanitizer\n");
    skip();
#endif
}

static void races(void **state)
{
    const struct row *r = *state;
    static char out[8192];
#ifdef KVT_BUGS_TSAN
    run(KVT_BUGS_TSAN, r->bug, "tiny", out, sizeof out);
    bool found = strstr(out, "WARNING: ThreadSanitizer: data race") != NULL;
    if (strstr(out, "FATAL: ThreadSanitizer")) {
        print_message("skipped: ThreadSanitizer does not run here: %.200s\n", out);
        skip();
    }
    expect(r, "ThreadSanitizer", r->tsan, found, out);
    if (found)
        assert_non_null(strstr(out, "mass_body.h:"));
#else
    (void)r, (void)out;
    print_message("skipped: this compiler has no ThreadSanitizer\n");
    skip();
#endif
}

int main(void)
{
    struct CMUnitTest tests[3 * CHECK_COUNT(rows)];
    int n = 0;
    CHECK_ROWS(tests, &n, rows, plain);
    CHECK_ROWS(tests, &n, rows, address);
    CHECK_ROWS(tests, &n, rows, races);
    return CHECK_RUN("bugs", tests, n);
}
