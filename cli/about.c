/* about.c - see about.h. */
#include "cli/about.h"

#include <langinfo.h>
#include <locale.h>
#include <omp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/size.h"
#include "base/version.h"
#include "kvt/backend.h"
#include "kvt/trace.h"
#include "tui/term/term.h"

static void add(cli_fact *fact, int *n, const char *name, const char *fmt, ...)
    KVT_PRINTF(4, 5);
static void add(cli_fact *fact, int *n, const char *name, const char *fmt, ...)
{
    va_list args;
    if (*n == CLI_FACTS_MAX)
        return;
    fact[*n].name = name;
    va_start(args, fmt);
    vsnprintf(fact[*n].value, sizeof fact[*n].value, fmt, args);
    va_end(args);
    ++*n;
}

int cli_about_versions(cli_fact fact[CLI_FACTS_MAX])
{
    char text[200];
    int n = 0;

    add(fact, &n, "hdf5", "%s", kvt_hdf5_name(text, sizeof text));
    kvt_blas_name(text, sizeof text);
    /* What OpenBLAS takes for a processor that it does not know has no AVX. */
    bool slow = strstr(text, "kernel Prescott") && strcmp(kvt_simd_name(), "baseline") != 0;
    add(fact, &n, "blas", "%s%s", text,
        slow ? " (slow: it does not know this processor; try OPENBLAS_CORETYPE=Haswell)" : "");
    add(fact, &n, "cuda", "%s", kvt_cuda_status(text, sizeof text));
    add(fact, &n, "curses", "%s", term_version());
    add(fact, &n, "simd", "%s", kvt_simd_name());
    add(fact, &n, "openmp", "%d", _OPENMP);
    add(fact, &n, "jansson", "%s", jansson_version_str());
    add(fact, &n, "compiler", "%s", __VERSION__);
    return n;
}

const char *cli_model_cache(char *out, size_t cap)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    out[0] = 0;
    if (cache && cache[0])
        snprintf(out, cap, "%s/kvt/models", cache);
    else if (home && home[0])
        snprintf(out, cap, "%s/.cache/kvt/models", home);
    return out;
}

/* Bytes of memory that programs may still take; -1: not known. */
static int64_t memory_left(void)
{
    FILE *f = fopen("/proc/meminfo", "r");
    char line[128];
    long long kib = -1;

    while (f && kib < 0 && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %lld kB", &kib) != 1)
            kib = -1;
    if (f)
        fclose(f);
    return kib < 0 ? -1 : (int64_t)kib * 1024;
}

static void add_folder(cli_fact *fact, int *n, const char *name, const char *path)
{
    const char *state = !path[0]                  ? "neither XDG_CACHE_HOME nor HOME is set"
                        : !file_is_dir(path)      ? " (not there)"
                        : access(path, W_OK) != 0 ? " (read only)"
                                                  : "";
    add(fact, n, name, "%s%s", path, state);
}

int cli_about_machine(const cli *c, cli_fact fact[CLI_FACTS_MAX])
{
    char path[1024], total[32], left[32];
    int n = 0;
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    const char *terminal = getenv("TERM");

    add(fact, &n, "threads", "%d (%ld processors online)", kvt_threads(&c->ctx),
        sysconf(_SC_NPROCESSORS_ONLN));
    add(fact, &n, "memory", "%s, %s available",
        size_print((int64_t)pages * page, total, sizeof total),
        size_print(memory_left(), left, sizeof left));
    add(fact, &n, "locale", "%s, %s", setlocale(LC_CTYPE, NULL), nl_langinfo(CODESET));
    add(fact, &n, "terminal", "%s, input %s, output %s, %s",
        terminal && terminal[0] ? terminal : "TERM unset",
        isatty(STDIN_FILENO) ? "tty" : "no tty", isatty(STDOUT_FILENO) ? "tty" : "no tty",
        cli_utf8(c) ? "UTF-8 drawing" : "7-bit drawing");
    add_folder(fact, &n, "models", cli_model_cache(path, sizeof path));
    return n;
}

int cli_about_environment(cli_fact fact[CLI_FACTS_MAX])
{
    /* clang-format off */
    static const char *const names[] = {
        "KVT_SIMD", "KVT_CUBLAS", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "OMP_NUM_THREADS", "OMP_WAIT_POLICY",
        "OPENBLAS_CORETYPE", "NO_COLOR", "CLICOLOR_FORCE",
        "FORCE_COLOR", "TERM", "COLUMNS", "ESCDELAY", "PAGER", "LC_ALL", "HOME", "XDG_CACHE_HOME", "TMPDIR"};
    /* clang-format on */
    int n = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]);
        add(fact, &n, names[i], "%s", value ? value : "");
    }
    return n;
}

kvt_code cli_json_print(json_t *value, kvt_err *err)
{
    kvt_code code = KVT_OK;
    if (!value)
        return kvt_fail_memory(err, 64);
    if (json_dumpf(value, stdout, JSON_INDENT(2)) || fputc('\n', stdout) < 0)
        code = kvt_fail(err, KVT_IO, "standard output: cannot write JSON");
    json_decref(value);
    return code;
}
