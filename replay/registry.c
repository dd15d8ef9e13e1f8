/* registry.c - which policies and allocators there are: the two lists, and plug-ins beside
 * them.
 *
 * A plug-in is a shared object with the symbol `kvt_plugin`, an array of kvt_policy pointers
 * that ends with NULL. It is checked before anything of it runs: the interface's number, the
 * name, the hooks, the parameter table. */
#include "replay/replay_priv.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/text.h"
#include "kvt/arena.h"

#define KVT_POLICY(id) extern const kvt_policy kvt_policy_##id;
#include "replay/policies/policies.def"
#undef KVT_POLICY

#define KVT_SHARE(id) extern const kvt_share kvt_share_##id;
#include "replay/shares/shares.def"
#undef KVT_SHARE

static const kvt_policy *const policies[] = {
#define KVT_POLICY(id) &kvt_policy_##id,
#include "replay/policies/policies.def"
#undef KVT_POLICY
    NULL,
};

static const kvt_share *const shares[] = {
#define KVT_SHARE(id) &kvt_share_##id,
#include "replay/shares/shares.def"
#undef KVT_SHARE
    NULL,
};

static const struct {
    const char *name, *help;
} exactnesses[] = {
#define X(id, name, help) {name, help},
    KVT_EXACTNESSES(X)
#undef X
};

const kvt_policy *const *kvt_policies(void)
{
    return policies;
}
const kvt_share *const *kvt_shares(void)
{
    return shares;
}
const char *kvt_exactness_name(kvt_exactness e)
{
    return exactnesses[e].name;
}
const char *kvt_exactness_help(kvt_exactness e)
{
    return exactnesses[e].help;
}

const kvt_policy *kvt_policy_find(const char *name)
{
    for (int i = 0; policies[i]; i++)
        if (strcmp(policies[i]->name, name) == 0)
            return policies[i];
    return NULL;
}

const kvt_share *kvt_share_find(const char *name)
{
    for (int i = 0; shares[i]; i++)
        if (strcmp(shares[i]->name, name) == 0)
            return shares[i];
    return NULL;
}

/* ---- with plug-ins -------------------------------------------------------------------------
 */

typedef struct plugin {
    void *handle;
    char digest[DIGEST_TEXT];
} plugin;

struct kvt_registry {
    const kvt_policy **policy; /* [n] by name, and NULL */
    int *from;                 /* [n] plug-in, -1: built in */
    const char **name;         /* [n] for "did you mean", and NULL */
    int n;
    plugin *plugin;
    int n_plugin;
};

static bool insert(kvt_registry *r, const kvt_policy *p, int from)
{
    const kvt_policy **policy = kvt_resize(r->policy, r->n + 1, r->n + 2, sizeof *policy);
    if (policy)
        r->policy = policy;
    int *origin = kvt_resize(r->from, r->n, r->n + 1, sizeof *origin);
    if (origin)
        r->from = origin;
    const char **name = kvt_resize(r->name, r->n + 1, r->n + 2, sizeof *name);
    if (name)
        r->name = name;
    if (!policy || !origin || !name)
        return false;
    int at = r->n;
    for (; at > 0 && strcmp(policy[at - 1]->name, p->name) > 0; at--) {
        policy[at] = policy[at - 1];
        name[at] = name[at - 1];
        origin[at] = origin[at - 1];
    }
    policy[at] = p;
    name[at] = p->name;
    origin[at] = from;
    r->n++;
    policy[r->n] = NULL;
    name[r->n] = NULL;
    return true;
}

kvt_code kvt_registry_new(kvt_registry **out, kvt_err *err)
{
    *out = NULL;
    kvt_registry *r = kvt_alloc(1, sizeof *r);
    bool made = r && (r->policy = kvt_alloc(1, sizeof *r->policy)) &&
                (r->name = kvt_alloc(1, sizeof *r->name)) &&
                (r->from = kvt_alloc(1, sizeof *r->from));
    for (int i = 0; made && policies[i]; i++)
        made = insert(r, policies[i], -1);
    if (!made) {
        kvt_registry_free(r);
        return kvt_fail_memory(err, sizeof *r);
    }
    *out = r;
    return KVT_OK;
}

void kvt_registry_free(kvt_registry *r)
{
    if (!r)
        return;
    for (int i = 0; i < r->n_plugin; i++)
        dlclose(r->plugin[i].handle);
    kvt_free(r->plugin);
    kvt_free(r->policy);
    kvt_free(r->name);
    kvt_free(r->from);
    kvt_free(r);
}

static bool is_name(const char *s)
{
    if (!s || !*s)
        return false;
    for (; *s; s++)
        if (!islower((unsigned char)*s) && !isdigit((unsigned char)*s) && *s != '-')
            return false;
    return true;
}

/* Whether each line of a parameter table points into its struct. */
static bool params_fit(const kvt_param *table, size_t size)
{
    for (; table && table->name; table++) {
        size_t need = table->type == KVT_BOOL     ? sizeof(bool)
                      : table->type == KVT_CHOICE ? sizeof(int)
                                                  : sizeof(int64_t);
        if (table->offset > size || size - table->offset < need || !table->help ||
            (table->type == KVT_CHOICE && !table->choices))
            return false;
    }
    return true;
}

static kvt_code check(const kvt_registry *r, const kvt_policy *p, int i, kvt_err *err)
{
    if (p->abi != KVT_POLICY_ABI)
        return kvt_fail(err, KVT_FORMAT,
                        "policy %d: built for interface %u of kvt/policy.h, expected %d", i,
                        (unsigned)p->abi, KVT_POLICY_ABI);
    if (!is_name(p->name))
        return kvt_fail(err, KVT_FORMAT, "policy %d: its name is not of a-z, 0-9 and '-'", i);
    if (kvt_registry_find(r, p->name))
        return kvt_fail(err, KVT_FORMAT, "policy %s: a policy of that name is already there",
                        p->name);
    if (!p->title || !p->paper || !p->differs)
        return kvt_fail(err, KVT_FORMAT, "policy %s: title, paper and differs must be given",
                        p->name);
    bool refused = p->traits.exactness == KVT_NOT_REPLAYABLE && p->why_not;
    if (!p->score && !p->select && !refused)
        return kvt_fail(err, KVT_FORMAT, "policy %s: neither score nor select is there",
                        p->name);
    if (!(p->traits.phases & (KVT_PREFILL | KVT_DECODE)))
        return kvt_fail(err, KVT_FORMAT, "policy %s: its traits name no phase to act in",
                        p->name);
    if (p->slot_width < 0 || !params_fit(p->params, p->params_size))
        return kvt_fail(err, KVT_FORMAT,
                        "policy %s: its parameter table does not fit its struct", p->name);
    return KVT_OK;
}

static kvt_code open_plugin(plugin *out, const char *path, kvt_err *err)
{
    *out = (plugin){0};
    if (digest_file(path, out->digest, err))
        return err->code;
    /* Without a slash dlopen would search the system's folders. */
    char local[1024];
    if (!strchr(path, '/') && strlen(path) + 3 < sizeof local) {
        memcpy(local, "./", 2);
        memcpy(local + 2, path, strlen(path) + 1);
        path = local;
    }
    out->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!out->handle) {
        const char *why = dlerror();
        return kvt_fail(err, KVT_FORMAT, "cannot be loaded: %.300s",
                        why ? why : "no reason given");
    }
    return KVT_OK;
}

kvt_code kvt_registry_plugin(kvt_registry *r, const char *path, kvt_err *err)
{
    plugin p;
    kvt_code code = open_plugin(&p, path, err);
    if (code)
        return kvt_within(err, "plug-in '%s'", path);
    plugin *all = kvt_resize(r->plugin, r->n_plugin, r->n_plugin + 1, sizeof *all);
    if (!all) {
        dlclose(p.handle);
        return kvt_fail_memory(err, sizeof *all);
    }
    r->plugin = all;
    all[r->n_plugin++] = p; /* from here on kvt_registry_free() closes it */
    const kvt_policy *const *list = dlsym(p.handle, "kvt_plugin");
    if (!list || !*list)
        code = kvt_fail(err, KVT_FORMAT,
                        "it exports no symbol kvt_plugin (a NULL-ended array of policies)");
    for (int i = 0; !code && list[i]; i++) {
        code = check(r, list[i], i, err);
        if (!code && !insert(r, list[i], r->n_plugin - 1))
            code = kvt_fail_memory(err, sizeof *r->policy);
    }
    return code ? kvt_within(err, "plug-in '%s'", path) : KVT_OK;
}

const kvt_policy *const *kvt_registry_policies(const kvt_registry *r)
{
    return r->policy;
}

const kvt_policy *kvt_registry_find(const kvt_registry *r, const char *name)
{
    for (int i = 0; i < r->n; i++)
        if (strcmp(r->policy[i]->name, name) == 0)
            return r->policy[i];
    return NULL;
}

const char *kvt_registry_nearest(const kvt_registry *r, const char *name)
{
    const char *built_in[sizeof policies / sizeof policies[0]] = {0};
    for (int i = 0; policies[i]; i++)
        built_in[i] = policies[i]->name;
    return text_nearest(name, r ? r->name : built_in);
}

const char *registry_digest(const kvt_registry *r, const kvt_policy *p)
{
    for (int i = 0; r && i < r->n; i++)
        if (r->policy[i] == p)
            return r->from[i] < 0 ? "" : r->plugin[r->from[i]].digest;
    return "";
}
