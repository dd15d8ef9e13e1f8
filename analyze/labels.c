/* labels.c - what a use of a policy is called in a table: short, and never the same twice.
 *
 * The canonical text of a use holds every parameter. A label holds the name and those that have
 * to be typed for it: read back, it gives the same use again. Of a file only as much of the end
 * of its path is written as tells it from the others; what is still too long is cut behind what
 * is its own. */
#include "kvt/analyze.h"

#include <stdio.h>
#include <string.h>

#include "kvt/arena.h"
#include "kvt/replay.h"

enum { TEXT_MAX = 512, SHORT = 40, MORE = 8 };

typedef struct label {
    char policy[96], params[384];
    char typed[TEXT_MAX]; /* what has to be typed behind the name: "window=8,pool=1" */
    char full[TEXT_MAX];  /* with its name, files by the end of their path */
    char shown[KVT_LABEL_MAX];
    int depth; /* parts of a path that are written */
} label;

struct kvt_labels {
    label *label;
    int64_t n;
};

/* ---- what has to be typed ------------------------------------------------------------------
 */

/* Whether a list of "k=v" holds exactly that piece. */
static bool holds(const char *list, const char *piece, size_t n)
{
    for (size_t len; *list; list += len + (list[len] == ',')) {
        len = strcspn(list, ",");
        if (len == n && strncmp(list, piece, n) == 0)
            return true;
    }
    return false;
}

static const char *params_of(const char *text)
{
    const char *colon = strchr(text, ':');
    return colon ? colon + 1 : "";
}

static bool add_piece(char *out, const char *piece, size_t n)
{
    size_t at = strlen(out);
    return snprintf(out + at, TEXT_MAX - at, "%s%.*s", at ? "," : "", (int)n, piece) <
           (int)(TEXT_MAX - at);
}

/* The use that a name and what is typed behind it give; NULL: none of this build. */
static kvt_use *read_use(const char *policy, const char *typed)
{
    char text[96 + TEXT_MAX];
    kvt_use *u;
    kvt_err err;
    snprintf(text, sizeof text, "%s%s%s", policy, *typed ? ":" : "", typed);
    return kvt_use_parse(&u, NULL, text, &err) ? NULL : u;
}

/* Adds what the text so far does not give by itself: a compat variant sets its parameters.
 * False: the policy is a plug-in's or an older build's. */
static bool find_typed(label *l)
{
    kvt_use *u = read_use(l->policy, "");
    bool good = u != NULL;
    l->typed[0] = 0;
    for (const char *at = l->params; good && *at;) {
        size_t n = strcspn(at, ",");
        if (!holds(params_of(u->text), at, n)) {
            good = add_piece(l->typed, at, n);
            kvt_use_free(u);
            u = good ? read_use(l->policy, l->typed) : NULL;
            good = u != NULL;
        }
        at += n + (at[n] == ',');
    }
    good = good && strcmp(params_of(u->text), l->params) == 0;
    kvt_use_free(u);
    return good;
}

/* Of a policy whose defaults are not known: what not all its uses have. */
static void find_different(const kvt_labels *s, label *l)
{
    l->typed[0] = 0;
    for (const char *at = l->params; *at;) {
        size_t n = strcspn(at, ",");
        bool all = true;
        for (int64_t i = 0; i < s->n; i++)
            if (strcmp(s->label[i].policy, l->policy) == 0)
                all = all && holds(s->label[i].params, at, n);
        if (!all && !add_piece(l->typed, at, n))
            return;
        at += n + (at[n] == ',');
    }
}

/* ---- short, and its own --------------------------------------------------------------------
 */

/* The last `depth` parts of a path. */
static const char *path_end(const char *value, size_t *n, int depth)
{
    for (size_t i = *n; i > 0; i--)
        if (value[i - 1] == '/' && depth-- == 1) {
            *n -= i;
            return value + i;
        }
    return value;
}

static bool is_file(const char *piece)
{
    return strncmp(piece, "weights=", 8) == 0 || strncmp(piece, "file=", 5) == 0 ||
           strncmp(piece, "table=", 6) == 0;
}

static void write_full(label *l)
{
    size_t n = (size_t)snprintf(l->full, sizeof l->full, "%s", l->policy);
    for (const char *at = l->typed; *at && n < sizeof l->full;) {
        size_t len = strcspn(at, ","), name = strcspn(at, "="), value = len;
        const char *rest = at;
        if (is_file(at)) {
            value = len - name - 1;
            rest = path_end(at + name + 1, &value, l->depth);
        } else {
            name = 0;
        }
        n += (size_t)snprintf(l->full + n, sizeof l->full - n, "%s%.*s%s%.*s",
                              at == l->typed ? ":" : ",", (int)name, at, name ? "=" : "",
                              (int)value, rest);
        at += len + (at[len] == ',');
    }
}

/* More of the path where another file is called the same. */
static void part_files(kvt_labels *s)
{
    for (int depth = 1; depth < 32; depth++) {
        bool any = false;
        for (int64_t i = 0; i < s->n; i++) {
            bool same = false;
            for (int64_t k = 0; k < s->n; k++)
                same |= k != i && strcmp(s->label[i].full, s->label[k].full) == 0;
            s->label[i].depth = same ? depth + 1 : s->label[i].depth;
            any |= same;
        }
        if (!any)
            return;
        for (int64_t i = 0; i < s->n; i++)
            write_full(&s->label[i]);
    }
}

/* The first characters, ".." where something is left out; as many as no other one begins with.
 */
static void cut(const kvt_labels *s, label *l)
{
    size_t len = strlen(l->full), n = SHORT;
    for (bool own = false; !own && n < len; n += own ? 0 : MORE) {
        own = true;
        for (int64_t k = 0; k < s->n; k++)
            own = own && (&s->label[k] == l || strlen(s->label[k].full) <= n ||
                          strncmp(s->label[k].full, l->full, n - 2) != 0);
    }
    if (n >= len || n >= sizeof l->shown)
        snprintf(l->shown, sizeof l->shown, "%s", l->full);
    else
        snprintf(l->shown, sizeof l->shown, "%.*s..", (int)n - 2, l->full);
}

/* ---- of a result set -----------------------------------------------------------------------
 */

static label *find(const kvt_labels *s, const char *policy, const char *params)
{
    for (int64_t i = 0; i < s->n; i++)
        if (strcmp(s->label[i].policy, policy) == 0 && strcmp(s->label[i].params, params) == 0)
            return &s->label[i];
    return NULL;
}

static kvt_code gather(kvt_labels *s, const kvt_results *results, kvt_err *err)
{
    for (int64_t i = 0; i < results->n; i++) {
        const kvt_result *r = results->result[i];
        if (r->n_cell < 1 || find(s, r->cell[0].policy, r->cell[0].policy_params))
            continue;
        label *grown = kvt_resize(s->label, s->n, s->n + 1, sizeof *grown);
        if (!grown)
            return kvt_fail_memory(err, (s->n + 1) * (int64_t)sizeof *grown);
        s->label = grown;
        label *l = &grown[s->n++];
        *l = (label){.depth = 1};
        snprintf(l->policy, sizeof l->policy, "%s", r->cell[0].policy);
        snprintf(l->params, sizeof l->params, "%s", r->cell[0].policy_params);
    }
    return KVT_OK;
}

kvt_code kvt_labels_new(kvt_labels **out, const kvt_results *results, kvt_err *err)
{
    kvt_labels *s = kvt_alloc(1, sizeof *s);
    *out = NULL;
    if (!s)
        return kvt_fail_memory(err, sizeof *s);
    if (gather(s, results, err)) {
        kvt_labels_free(s);
        return err->code;
    }
    for (int64_t i = 0; i < s->n; i++) {
        if (!find_typed(&s->label[i]))
            find_different(s, &s->label[i]);
        write_full(&s->label[i]);
    }
    part_files(s);
    for (int64_t i = 0; i < s->n; i++)
        cut(s, &s->label[i]);
    *out = s;
    return KVT_OK;
}

void kvt_labels_free(kvt_labels *s)
{
    if (!s)
        return;
    kvt_free(s->label);
    kvt_free(s);
}

const char *kvt_label(const kvt_labels *s, const char *policy, const char *params)
{
    const label *l = find(s, policy, params);
    return l ? l->shown : policy;
}

bool kvt_result_is_oracle(const kvt_result *r)
{
    static const char *const plain[] = {"scope=lane,", "sinks=0,", "recent=0"};
    const char *text = r->policy_text;
    size_t n = strlen("oracle");
    if (strncmp(text, "oracle", n) != 0 || (text[n] && text[n] != ':'))
        return false;
    for (size_t i = 0; text[n] && i < sizeof plain / sizeof *plain; i++)
        if (!strstr(text + n, plain[i]))
            return false;
    return true;
}
