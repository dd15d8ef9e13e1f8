/* use.c - the text form of a policy: ranking[/allocator][:k=v,...].
 *
 * Every k=v belongs to one of four tables: the policy's, its allocator's, its base's
 * (base.k=v), or the engine's own (weights, probe, base, file, table, threshold, every), of
 * which only those are taken that mean something for the policy. The canonical text holds every
 * parameter of the first three and what is set of the last. */
#include "replay/use_priv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "kvt/arena.h"

enum { TEXT_MAX = USE_TEXT_MAX, WORDS_MAX = 96 };

static const kvt_param own_params[] = {
    {.name = "weights",
     .type = KVT_TEXT,
     .offset = offsetof(kvt_use_params, weights),
     .unit = "",
     .help = "file of learned weights that the policy reads"},
    {.name = "probe",
     .type = KVT_TEXT,
     .offset = offsetof(kvt_use_params, probe),
     .unit = "",
     .help = "another probe of the trace, of the same kind"},
    {.name = "base",
     .type = KVT_TEXT,
     .offset = offsetof(kvt_use_params, base),
     .unit = "",
     .help = "policy that scores in the first of two stages"},
    {.name = "file",
     .type = KVT_TEXT,
     .offset = offsetof(kvt_use_params, file),
     .unit = "",
     .help = "score file made by kvt import --scores"},
    {.name = "table",
     .type = KVT_TEXT,
     .offset = offsetof(kvt_use_params, table),
     .unit = "",
     .help = "file of the allocator's learned table"},
    {.name = "threshold",
     .type = KVT_TEXT,
     .offset = offsetof(kvt_use_params, threshold),
     .unit = "",
     .help = "score above which a slot is kept; empty: the one that meets the budget on the "
             "other traces"},
    KVT_PARAM(kvt_use_params, every, 0, 0, 1048576, "tokens",
              "decode: decide every K tokens; 0: as often as the policy does. A policy of the "
              "prompt only decides anew every K tokens, as at the end of the prompt"),
    {0},
};

const kvt_param *kvt_use_table(void)
{
    return own_params;
}

/* Whether one of the engine's own parameters means something for a policy and its allocator. */
static bool takes(const kvt_policy *p, const kvt_share *s, const char *name)
{
    if (strcmp(name, "weights") == 0)
        return p->weights != NULL;
    if (strcmp(name, "probe") == 0)
        return p->traits.needs & KVT_NEED_PROBE;
    if (strcmp(name, "file") == 0)
        return p->traits.needs & KVT_NEED_SCORES;
    if (strcmp(name, "threshold") == 0)
        return p->traits.by_threshold;
    if (strcmp(name, "base") == 0)
        return p->base != NULL;
    if (strcmp(name, "table") == 0)
        return s && s->weights;
    return strcmp(name, "every") == 0; /* use_again() says where it cannot be */
}

static const kvt_param *find(const kvt_param *table, const char *name)
{
    return table ? kvt_param_find(table, name) : NULL;
}

/* What was typed, sorted by the table that it belongs to. */
typedef struct pieces {
    char policy[TEXT_MAX], share[TEXT_MAX], own[TEXT_MAX], base[TEXT_MAX];
} pieces;

static void append(char *out, const char *piece)
{
    size_t n = strlen(out);
    snprintf(out + n, TEXT_MAX - n, "%s%s", n ? "," : "", piece);
}

static kvt_code unknown(const kvt_policy *p, const kvt_share *s, const char *name, kvt_err *err)
{
    const char *known[WORDS_MAX];
    int n = 0;
    for (const kvt_param *t = p->params; t && t->name && n < WORDS_MAX - 1; t++)
        known[n++] = t->name;
    for (const kvt_param *t = s ? s->params : NULL; t && t->name && n < WORDS_MAX - 1; t++)
        known[n++] = t->name;
    for (const kvt_param *t = own_params; t->name && n < WORDS_MAX - 1; t++)
        if (takes(p, s, t->name))
            known[n++] = t->name;
    known[n] = NULL;
    const char *near = text_nearest(name, known);
    if (near)
        return kvt_fail(err, KVT_USAGE, "no parameter '%.40s' (did you mean '%s'?)", name,
                        near);
    return kvt_fail(err, KVT_USAGE, "no parameter '%.40s'", name);
}

static kvt_code route(pieces *out, const kvt_policy *p, const kvt_share *s, const char *text,
                      kvt_err *err)
{
    while (*text) {
        char piece[TEXT_MAX / 2], name[64];
        size_t n = strcspn(text, ","), equal = strcspn(text, "=,");
        if (n >= sizeof piece || equal >= sizeof name)
            return kvt_fail(err, KVT_USAGE, "parameter '%.40s...': too long", text);
        if (text[equal] != '=')
            return kvt_fail(err, KVT_USAGE, "parameter '%.*s': expected name=value", (int)n,
                            text);
        memcpy(piece, text, n);
        piece[n] = 0;
        memcpy(name, text, equal);
        name[equal] = 0;
        if (find(p->params, name))
            append(out->policy, piece);
        else if (s && find(s->params, name))
            append(out->share, piece);
        else if (kvt_param_find(own_params, name) && takes(p, s, name))
            append(out->own, piece);
        else if (p->base && strncmp(name, "base.", 5) == 0)
            append(out->base, piece + 5);
        else
            return unknown(p, s, name, err);
        text += n + (text[n] == ',');
    }
    return KVT_OK;
}

static kvt_code parse(const kvt_param *table, void *out, const char *text, kvt_err *err)
{
    return table && *text ? kvt_param_parse(table, out, text, err) : KVT_OK;
}

static bool is_number(const char *text)
{
    char *end;
    double x = strtod(text, &end);
    return end != text && !*end && isfinite(x);
}

/* Memory and values of the policy's and the allocator's parameters. */
static kvt_code fill(kvt_use *u, const pieces *typed, kvt_err *err)
{
    const kvt_policy *p = u->policy;
    const kvt_share *s = u->share;
    size_t share_size = s ? s->params_size : 0;
    u->params = kvt_alloc(1, p->params_size + 1);
    u->share_params = kvt_alloc(1, share_size + 1);
    if (!u->params || !u->share_params)
        return kvt_fail_memory(err, p->params_size + share_size);
    if (p->params)
        kvt_param_defaults(p->params, u->params);
    if (s && s->params)
        kvt_param_defaults(s->params, u->share_params);
    kvt_param_defaults(own_params, &u->own);
    if (parse(p->params, u->params, typed->policy, err) ||
        parse(own_params, &u->own, typed->own, err))
        return err->code;
    if (*u->own.threshold && !is_number(u->own.threshold))
        return kvt_fail(err, KVT_USAGE, "threshold: expected a finite number, got '%.40s'",
                        u->own.threshold);
    if (p->share_params && s && s == p->share) {
        char set[512] = "";
        p->share_params(u->params, set, sizeof set);
        if (parse(s->params, u->share_params, set, err))
            return err->code;
    }
    return s ? parse(s->params, u->share_params, typed->share, err) : KVT_OK;
}

/* What the allocator sees together, reads and may give out. */
static kvt_code merge_share(kvt_use *u, kvt_err *err)
{
    const kvt_share *s = u->share;
    kvt_traits *t = &u->traits;
    if (!s || t->by_threshold)
        return KVT_OK;
    if (s->by_score && !u->policy->score)
        return kvt_fail(err, KVT_USAGE, "allocator %s compares scores, and the policy has none",
                        s->name);
    if (s->needs & (KVT_NEED_KEYS | KVT_NEED_VALUES))
        t->new_slots_only = false;
    if (s->needs & KVT_NEED_FUTURE)
        t->future_by_position = false;
    t->scope = s->scope > t->scope ? s->scope : t->scope;
    t->may_exceed |= s->may_exceed;
    t->needs |= s->needs;
    t->control |= (s->needs & KVT_NEED_FUTURE) != 0; /* it knows the response */
    return KVT_OK;
}

static kvt_code find_traits(kvt_use *u, kvt_err *err)
{
    u->traits = u->policy->traits;
    if (u->policy->vary)
        u->policy->vary(u->params, &u->traits);
    if (use_base_merge(u, err) || merge_share(u, err))
        return err->code;
    return use_again(u, err);
}

static void add_table(char *out, size_t cap, const kvt_param *table, const void *in)
{
    if (!table || !table->name)
        return;
    size_t n = strlen(out);
    n += (size_t)snprintf(out + n, cap - n, "%s", strchr(out, ':') ? "," : ":");
    if (n < cap)
        kvt_param_print(table, out + n, cap - n, in);
}

/* The canonical text: what tells two uses apart, and nothing else. */
static kvt_code print(kvt_use *u, kvt_err *err)
{
    char text[TEXT_MAX];
    snprintf(u->name, sizeof u->name, "%s%s%s", u->policy->name, u->share_named ? "/" : "",
             u->share_named ? u->share->name : "");
    snprintf(text, sizeof text, "%s", u->name);
    add_table(text, sizeof text, u->policy->params, u->params);
    if (u->share)
        add_table(text, sizeof text, u->share->params, u->share_params);
    use_base_print(u, text, sizeof text);
    const struct {
        const char *name, *value;
    } texts[] = {{"weights", u->own.weights},
                 {"probe", u->own.probe},
                 {"file", u->own.file},
                 {"table", u->own.table},
                 {"threshold", u->own.threshold}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        size_t n = strlen(text);
        if (*texts[i].value)
            snprintf(text + n, sizeof text - n, "%s%s=%s", strchr(text, ':') ? "," : ":",
                     texts[i].name, texts[i].value);
    }
    size_t n = strlen(text);
    if (u->own.every > 0)
        snprintf(text + n, sizeof text - n, "%severy=%lld", strchr(text, ':') ? "," : ":",
                 (long long)u->own.every);
    /* A result holds that many: uses that differ behind them would be one. */
    const size_t most = sizeof((kvt_cell *)0)->policy_params - 1;
    const char *params = strchr(text, ':');
    if (params && strlen(params + 1) > most)
        return kvt_fail(err, KVT_USAGE,
                        "its parameters take %zu characters, expected at most %zu: name files "
                        "by shorter paths",
                        strlen(params + 1), most);
    memcpy(u->text, text, strlen(text) + 1);
    return KVT_OK;
}

static kvt_code find_policy(kvt_use *u, const kvt_registry *r, const char *name, kvt_err *err)
{
    u->policy = r ? kvt_registry_find(r, name) : kvt_policy_find(name);
    if (u->policy)
        return KVT_OK;
    const char *near = kvt_registry_nearest(r, name);
    if (near)
        return kvt_fail(err, KVT_USAGE, "no policy '%.40s' (did you mean '%s'?)", name, near);
    return kvt_fail(err, KVT_USAGE, "no policy '%.40s' (kvt policy list names them)", name);
}

static kvt_code find_share(kvt_use *u, const char *name, kvt_err *err)
{
    const char *known[WORDS_MAX];
    int n = 0;
    u->share_named = *name != 0;
    if (u->share_named && u->policy->traits.by_threshold)
        return kvt_fail(err, KVT_USAGE,
                        "it keeps by a threshold: no allocator shares its slots out");
    if (u->share_named && u->policy->traits.effect != KVT_EVICT)
        return kvt_fail(err, KVT_USAGE,
                        "it evicts no slots: there are none for an allocator to share out");
    u->share = u->share_named     ? kvt_share_find(name)
               : u->policy->share ? u->policy->share
                                  : &kvt_share_even;
    if (u->share || !u->share_named)
        return KVT_OK;
    for (; kvt_shares()[n] && n < WORDS_MAX - 1; n++)
        known[n] = kvt_shares()[n]->name;
    known[n] = NULL;
    const char *near = text_nearest(name, known);
    if (near)
        return kvt_fail(err, KVT_USAGE, "no allocator '%.40s' (did you mean '%s'?)", name,
                        near);
    return kvt_fail(err, KVT_USAGE, "no allocator '%.40s'", name);
}

kvt_code kvt_use_parse(kvt_use **out, const kvt_registry *r, const char *text, kvt_err *err)
{
    char name[96] = "", share[96] = "";
    size_t head = strcspn(text, ":,"), n = strcspn(text, "/:,");
    *out = NULL;
    size_t n_share = n < head ? head - n - 1 : 0;
    if (n >= sizeof name || n_share >= sizeof share)
        return kvt_fail(err, KVT_USAGE, "policy '%.60s...': too long", text);
    memcpy(name, text, n);
    memcpy(share, text + n + (n < head), n_share);
    pieces *typed = kvt_alloc(1, sizeof *typed);
    kvt_use *u = kvt_alloc(1, sizeof *u);
    kvt_code code = typed && u ? KVT_OK : kvt_fail_memory(err, sizeof *typed + sizeof *u);
    if (!code && n < head && n_share == 0)
        code =
            kvt_fail(err, KVT_USAGE, "policy '%.60s': expected an allocator behind '/'", text);
    if (!code)
        code = find_policy(u, r, name, err);
    if (!code && (find_share(u, share, err) ||
                  route(typed, u->policy, u->share, text + head + (text[head] != 0), err) ||
                  fill(u, typed, err) || use_base_open(u, r, typed->base, err) ||
                  find_traits(u, err) || print(u, err)))
        code = kvt_within(err, "policy %s", name);
    kvt_free(typed);
    if (code)
        kvt_use_free(u);
    else
        *out = u;
    return code;
}

void use_memory(const kvt_use *u, const kvt_sequence *seq, const int64_t *budget, int n_budget,
                int *slot_width, size_t *state_size)
{
    const kvt_policy *p = u->policy;
    *slot_width = p->slot_width;
    *state_size = p->state_size;
    for (int b = -1; p->size && b < n_budget; b++) {
        int width = 0;
        size_t size = 0;
        p->size(u->params, seq, b < 0 ? 0 : budget[b], &width, &size);
        *slot_width = width > *slot_width ? width : *slot_width;
        *state_size = size > *state_size ? size : *state_size;
    }
}

void kvt_use_free(kvt_use *u)
{
    if (!u)
        return;
    kvt_free(u->params);
    kvt_free(u->share_params);
    kvt_use_free(u->base);
    kvt_free(u);
}

void kvt_uses_free(kvt_use **u, int n)
{
    for (int i = 0; u && i < n; i++)
        kvt_use_free(u[i]);
    kvt_free(u);
}

const char *kvt_use_why_not(const kvt_use *u)
{
    if (u->traits.exactness != KVT_NOT_REPLAYABLE)
        return NULL;
    const char *base = u->base ? kvt_use_why_not(u->base) : NULL;
    return base ? base : u->policy->why_not;
}

/* ---- lists ---------------------------------------------------------------------------------
 */

/* Adds a use unless one with the same canonical text is there: takes it in any case. */
static kvt_code add(kvt_use ***list, int *n, kvt_use *u, kvt_err *err)
{
    for (int i = 0; i < *n; i++) {
        if (strcmp((*list)[i]->text, u->text) == 0) {
            kvt_use_free(u);
            return KVT_OK;
        }
    }
    kvt_use **grown = kvt_resize(*list, *n, *n + 1, sizeof *grown);
    if (!grown) {
        kvt_use_free(u);
        return kvt_fail_memory(err, sizeof *grown);
    }
    *list = grown;
    grown[(*n)++] = u;
    return KVT_OK;
}

static kvt_code add_text(kvt_use ***list, int *n, const kvt_registry *r, const char *text,
                         kvt_err *err)
{
    kvt_use *u;
    if (kvt_use_parse(&u, r, text, err))
        return err->code;
    return add(list, n, u, err);
}

/* Adds a policy with its defaults, unless no trace could answer it. */
static kvt_code add_one(kvt_use ***list, int *n, const kvt_registry *r, const char *name,
                        kvt_err *err)
{
    kvt_use *u;
    if (kvt_use_parse(&u, r, name, err))
        return err->code;
    if (!kvt_use_why_not(u))
        return add(list, n, u, err);
    kvt_use_free(u);
    return KVT_OK;
}

static kvt_code add_all(kvt_use ***list, int *n, const kvt_registry *r, kvt_err *err)
{
    const kvt_policy *const *p = r ? kvt_registry_policies(r) : kvt_policies();
    for (; *p; p++) {
        /* What needs a file that nobody named is no part of "all". */
        bool needs_file = (*p)->weights || ((*p)->traits.needs & KVT_NEED_SCORES);
        if (!(*p)->traits.control && !needs_file && add_one(list, n, r, (*p)->name, err))
            return err->code;
    }
    return KVT_OK;
}

size_t kvt_use_length(const char *text)
{
    size_t n = strcspn(text, ",");
    while (text[n] == ',') {
        size_t mark = strcspn(text + n + 1, "=:,");
        if (text[n + 1 + mark] != '=')
            break;
        n += 1 + strcspn(text + n + 1, ",");
    }
    return n;
}

kvt_code kvt_uses_parse(kvt_use ***out, int *n, const kvt_registry *r, const char *text,
                        kvt_err *err)
{
    kvt_use **list = NULL;
    kvt_code code = KVT_OK;
    *out = NULL, *n = 0;
    while (!code && *text) {
        char piece[TEXT_MAX];
        size_t len = kvt_use_length(text);
        if (len >= sizeof piece) {
            code = kvt_fail(err, KVT_USAGE, "policy '%.60s...': too long", text);
            break;
        }
        memcpy(piece, text, len);
        piece[len] = 0;
        code = strcmp(piece, "all") == 0 ? add_all(&list, n, r, err)
                                         : add_text(&list, n, r, piece, err);
        text += len + (text[len] == ',');
    }
    if (!code && *n == 0)
        code = kvt_fail(err, KVT_USAGE, "policies: expected at least one, got none");
    if (code) {
        kvt_uses_free(list, *n);
        *n = 0;
        return code;
    }
    *out = list;
    return KVT_OK;
}
