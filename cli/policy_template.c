/* policy_template.c - the file that `kvt policy new NAME` writes: a small policy that does
 * something of its own, with a parameter and every part that most policies need. */
#include "cli/policy_template.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/version.h"

/* @N is the name as typed, @I as C's, @F the flags. */
static const char text[] =
    "/* @N - keep the first tokens and what the last prompt queries look at.\n"
    " *\n"
    " * Build:  cc -std=c17 -O2 -shared -fPIC @F @N.c -o @N.so\n"
    " * Check:  kvt policy check ./@N.so\n"
    " * Run:    kvt replay TRACE.h5 -p @N,snapkv -b 10%,25% --plugin ./@N.so\n"
    " *\n"
    " * With A the attention of the last `window` queries,\n"
    " *\n"
    " *   score[s] = sum over H, Q of A[H Q s]\n"
    " *\n"
    " * and the first `sinks` and last `window` tokens are pinned. Change what you like: the\n"
    " * comments in kvt/policy.h say what each hook may do, kvt/pieces.h has pools and sums. "
    "*/\n"
    "#include \"kvt/pieces.h\"\n"
    "\n"
    "typedef struct @I {\n"
    "    int64_t window, sinks;\n"
    "} @I;\n"
    "\n"
    "static const kvt_param params[] = {\n"
    "    KVT_PARAM(@I, window, 16, 1, 4096, \"tokens\", \"last prompt queries that vote\"),\n"
    "    KVT_PARAM(@I, sinks, 4, 0, 4096, \"tokens\", \"first tokens that are always kept\"),\n"
    "    {0},\n"
    "};\n"
    "\n"
    "/* How many of the last prompt queries step() gets. */\n"
    "static int64_t window(const void *params_, int64_t n_prompt)\n"
    "{\n"
    "    const @I *p = params_;\n"
    "    return kvt_min(p->window, n_prompt);\n"
    "}\n"
    "\n"
    "/* Learns: mark is one float for each slot (slot_width) and moves with it. */\n"
    "static void step(const void *params_, kvt_lane *lane)\n"
    "{\n"
    "    (void)params_;\n"
    "    kvt_add_rows(lane->mark, &lane->attn);\n"
    "}\n"
    "\n"
    "/* Ranks: higher is kept, pinned is always kept. */\n"
    "static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)\n"
    "{\n"
    "    const @I *p = params_;\n"
    "    int64_t n = kvt_pin_window(out, pinned, lane->n_slot, p->window);\n"
    "    for (int64_t s = 0; s < n; s++) {\n"
    "        out[s] = lane->mark[s];\n"
    "        pinned[s] = lane->pos[s] < p->sinks;\n"
    "    }\n"
    "}\n"
    "\n"
    "static const kvt_policy policy = {\n"
    "    .abi = KVT_POLICY_ABI,\n"
    "    .name = \"@N\",\n"
    "    .title = \"keep the first tokens and what the last prompt queries look at\",\n"
    "    .paper = \"not published\", /* or authors, name, year, arXiv or DOI */\n"
    "    .about = NULL, /* a summary of the paper */\n"
    "    .differs = \"\",\n"
    "    .traits = {.phases = KVT_PREFILL,\n"
    "               .needs = KVT_NEED_ATTN,\n"
    "               .exactness = KVT_EXACT,\n"
    "               .one_ranking = true}, /* score() does not depend on the budget */\n"
    "    .slot_width = 1,\n"
    "    .params_size = sizeof(@I),\n"
    "    .params = params,\n"
    "    .window = window,\n"
    "    .step = step,\n"
    "    .score = score,\n"
    "};\n"
    "\n"
    "/* What kvt looks for: the policies of this file, ended by NULL. */\n"
    "extern KVT_API const kvt_policy *const kvt_plugin[];\n"
    "const kvt_policy *const kvt_plugin[] = {&policy, NULL};\n";

/* A name that is an identifier: '-' becomes '_', and it cannot begin with a digit or be a word
 * of the language. */
static void add_identifier(buf *out, const char *name)
{
    buf_text(out, "policy_");
    for (const char *c = name; *c; c++)
        buf_char(out, isalnum((unsigned char)*c) ? *c : '_');
}

void policy_template(buf *out, const char *name, const char *flags)
{
    for (const char *c = text; *c; c++) {
        if (*c != '@') {
            buf_char(out, *c);
            continue;
        }
        c++;
        if (*c == 'N')
            buf_text(out, name);
        else if (*c == 'I')
            add_identifier(out, name);
        else
            buf_text(out, flags);
    }
}

/* " -IDIR", in single quotes where a shell would read more into it. The text stands in a
 * comment: a folder that would end it is refused by is_plain(). */
static void add_folder(buf *out, const char *dir)
{
    bool plain = true;
    for (const char *c = dir; *c; c++)
        plain = plain && (isalnum((unsigned char)*c) || strchr("/._-+,:@%", *c));
    buf_printf(out, "%s-I%s%s%s", *buf_get(out) ? " " : "", plain ? "" : "'", dir,
               plain ? "" : "'");
}

/* Whether a path may stand in the comment and in single quotes of a shell. */
static bool is_plain(const char *dir)
{
    return !strstr(dir, "*/") && !strpbrk(dir, "'\n");
}

static bool holds(const char *dir, const char *file)
{
    char path[1024];
    int n = snprintf(path, sizeof path, "%s/%s", dir, file);
    return n > 0 && (size_t)n < sizeof path && is_plain(dir) && file_exists(path);
}

kvt_code policy_header_flags(buf *out, kvt_err *err)
{
    /* kvt/policy.h includes traces/needs.def, which lies beside kvt/ where it is installed. */
    char dir[2][1024];
    snprintf(dir[0], sizeof dir[0], "%s/include", version_install_prefix());
    snprintf(dir[1], sizeof dir[1], "%s/include", version_source_dir());
    for (int i = 0; i < 2; i++) {
        if (!holds(dir[i], "kvt/policy.h"))
            continue;
        bool lists = holds(dir[i], "traces/needs.def");
        if (!lists && !holds(version_source_dir(), "traces/needs.def"))
            continue;
        add_folder(out, dir[i]);
        if (!lists)
            add_folder(out, version_source_dir());
        return buf_check(out, err);
    }
    return kvt_fail(
        err, KVT_NOTFOUND,
        "kvt's headers are neither in '%.150s' nor in '%.150s': install kvt, or keep "
        "its source folder where it was built",
        dir[0], dir[1]);
}
