/* plan_weights.c - files of learned weights in a run: opened once, found for each policy. */
#include "replay/plan_priv.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "kvt/arena.h"

const char *plan_weights_kind(const kvt_policy *p)
{
    return p->weights_kind ? p->weights_kind : p->name;
}

static plan_file *file_at(const plan *p, const char *path)
{
    for (int i = 0; i < p->n_file; i++)
        if (strcmp(p->file[i].path, path) == 0)
            return &p->file[i];
    return NULL;
}

/* `what` named it: weights or table. */
static kvt_code add_file(plan *p, const char *path, const char *what, bool offered,
                         kvt_err *err)
{
    if (file_at(p, path))
        return KVT_OK;
    plan_file *file = kvt_resize(p->file, p->n_file, p->n_file + 1, sizeof *file);
    if (!file)
        return kvt_fail_memory(err, sizeof *file);
    p->file = file;
    file += p->n_file;
    *file = (plan_file){.path = path, .offered = offered};
    if (kvt_scorer_open(&file->scorer, path, err))
        return kvt_within(err, "%s", what);
    p->n_file++;
    return KVT_OK;
}

kvt_code plan_weights_offered(plan *p, kvt_err *err)
{
    for (int i = 0; i < p->spec->n_weights; i++)
        if (add_file(p, p->spec->weights[i], "weights", true, err))
            return err->code;
    return KVT_OK;
}

static bool is_read(const plan *p, const char *kind)
{
    for (int i = 0; i < p->n_use; i++) {
        const kvt_policy *policy = p->use[i].use->policy;
        const kvt_share *share = p->use[i].use->share;
        if ((policy->weights && strcmp(plan_weights_kind(policy), kind) == 0) ||
            (share->weights && strcmp(kvt_share_kind(share), kind) == 0))
            return true;
    }
    return false;
}

/* The first that was offered of the file's kind for its model: the one that is taken. */
static const plan_file *first_offered(const plan *p, const plan_file *file)
{
    const kvt_scorer_info *s = kvt_scorer_info_of(file->scorer), *o;
    for (int i = 0; i < p->n_file; i++) {
        o = kvt_scorer_info_of(p->file[i].scorer);
        const kvt_model_id a = kvt_scorer_model(o), b = kvt_scorer_model(s);
        if (p->file[i].offered && strcmp(o->kind, s->kind) == 0 && kvt_model_id_same(&a, &b))
            return &p->file[i];
    }
    return file;
}

/* An offer that nobody takes is most likely a mistake. */
static void check_offers(const plan *p)
{
    for (int i = 0; i < p->n_file; i++) {
        const char *kind = kvt_scorer_info_of(p->file[i].scorer)->kind;
        const plan_file *first = first_offered(p, &p->file[i]);
        if (p->file[i].offered && first != &p->file[i])
            kvt_log(p->ctx, KVT_LOG_WARN, "replay",
                    "weights '%s': not used, '%s' is of kind %s, too; name each behind its "
                    "policy with weights=",
                    p->file[i].path, first->path, kind);
        if (p->file[i].offered && !is_read(p, kind))
            kvt_log(p->ctx, KVT_LOG_WARN, "replay",
                    "weights '%s': no policy or allocator of this run reads a file of kind %s",
                    p->file[i].path, kind);
    }
}

static int64_t number(const kvt_scorer *s, const char *name)
{
    kvt_view v;
    kvt_err err;
    bool there = !kvt_scorer_find(s, name, &v, &err) && v.rank == 0;
    double value = there ? (double)*(const float *)v.data : 0;
    return value >= 0 && value <= 1 << 30 ? (int64_t)value : 0;
}

/* KVpop's files may be made for one k; a budget leaves what it leaves (design.md 6). Said of a
 * file that fits, at the first trace that it is used on. */
static void check_slots(const plan *p, plan_file *file)
{
    const kvt_scorer *s = file->scorer;
    int64_t k = number(s, "slots"), rest = number(s, "sinks") + number(s, "window");
    bool other = false;
    for (int b = 0; b < p->n_budget; b++) /* one without a slot is refused elsewhere */
        other |= p->budget[b].kind != KVT_BUDGET_TOKENS ||
                 (p->budget[b].num > rest && p->budget[b].num != rest + k);
    if (k < 1 || !other || file->slots_said)
        return;
    file->slots_said = true;
    kvt_log(
        p->ctx, KVT_LOG_WARN, "replay",
        "weights '%s': trained for k = %lld beside sinks and window, a budget of %lld; here "
        "k is what each budget leaves",
        file->path, (long long)k, (long long)(rest + k));
}

/* The base that a file was made for, as its recipe has it: "snapkv:window=16". False: it says
 * nothing. */
static bool made_for(char *out, size_t cap, const kvt_scorer *s)
{
    const char *recipe = kvt_scorer_info_of(s)->recipe, *params = NULL;
    json_t *json;
    kvt_err err;
    out[0] = 0;
    if (json_read(&json, recipe, strlen(recipe), &err))
        return false;
    if (json_text(json, "params", &params, &err))
        params = "";
    for (const char *at = params; *at; at += strcspn(at, ","), at += *at == ',')
        if (strncmp(at, "base=", 5) == 0)
            snprintf(out, cap, "%.*s", (int)strcspn(at + 5, ","), at + 5);
    json_decref(json);
    return *out;
}

/* Shares that were learned for one ranking say little of another. */
static void check_base(const plan *p, plan_file *file, const kvt_use *u)
{
    char base[KVT_PARAM_TEXT_MAX], text[KVT_PARAM_TEXT_MAX + 8];
    kvt_use *made;
    kvt_err err;
    if (!u->base || file->base_said || !made_for(base, sizeof base, file->scorer))
        return;
    int n = (int)strcspn(base, ":"); /* as a base is read: use_base.c */
    snprintf(text, sizeof text, "%.*s/even%s", n, base, base + n);
    bool same = false;
    if (!kvt_use_parse(&made, p->registry, text, &err)) {
        same = strcmp(made->text, u->base->text) == 0;
        kvt_use_free(made);
    }
    if (same)
        return;
    file->base_said = true;
    kvt_log(p->ctx, KVT_LOG_WARN, "replay",
            "weights '%s': made for the ranking of base=%s; here another one ranks (%s)",
            file->path, base, u->text);
}

kvt_code plan_weights_named(plan *p, kvt_err *err)
{
    check_offers(p);
    for (int i = 0; i < p->n_use; i++) {
        const kvt_use *u = p->use[i].use;
        if ((u->own.weights[0] && add_file(p, u->own.weights, "weights", false, err)) ||
            (u->own.table[0] && add_file(p, u->own.table, "table", false, err)))
            return kvt_within(err, "policy %s", u->name);
    }
    return KVT_OK;
}

bool plan_weights_offers(const plan *p, const kvt_policy *policy)
{
    for (int i = 0; i < p->n_file; i++)
        if (p->file[i].offered &&
            strcmp(kvt_scorer_info_of(p->file[i].scorer)->kind, plan_weights_kind(policy)) == 0)
            return true;
    return false;
}

/* The file that was named, or one of that kind: that of the trace's model first. */
static plan_file *find_file(const plan *p, const char *named, const char *kind,
                            const kvt_model_id *model)
{
    plan_file *found = NULL;
    if (named[0])
        return file_at(p, named);
    for (int i = 0; i < p->n_file; i++) {
        const kvt_scorer_info *s = kvt_scorer_info_of(p->file[i].scorer);
        if (!p->file[i].offered || strcmp(s->kind, kind) != 0)
            continue;
        const kvt_model_id made_for = kvt_scorer_model(s);
        if (kvt_model_id_same(&made_for, model))
            return &p->file[i];
        found = found ? found : &p->file[i];
    }
    return found;
}

/* What makes a file of that kind; the trainers stand above this layer. */
static const char *trainer_of(const char *kind)
{
    static const char *const made[][2] = {{"kvpop-mlp", "train kvpop"},
                                          {"kvpop", "train kvpop:scorer=mlstm"},
                                          {"duo", "import --scorer"},
                                          {"shares", "import --scorer"}};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        if (strcmp(kind, made[i][0]) == 0)
            return made[i][1];
    return NULL;
}

/* "kvt train locret" into out. */
static const char *how_made(char *out, size_t cap, const char *kind)
{
    const char *verb = trainer_of(kind);
    snprintf(out, cap, "kvt %s%s", verb ? verb : "train ", verb ? "" : kind);
    return out;
}

static void plan_table(const plan *p, pass *x, const kvt_trace_info *info)
{
    kvt_err err;
    char how[64];
    const kvt_share *s = x->use->share;
    const kvt_model_id model = kvt_model_id_of(&info->facts);
    if (!s->weights || x->use->traits.by_threshold || x->reason[0])
        return;
    const plan_file *file = find_file(p, x->use->own.table, kvt_share_kind(s), &model);
    x->table = file ? file->scorer : NULL;
    if (!file)
        snprintf(x->reason, sizeof x->reason, "allocator %s needs table=FILE (%s)", s->name,
                 how_made(how, sizeof how, kvt_share_kind(s)));
    else if (kvt_use_check_table(x->use, x->table, &info->facts.model, &model, info->layer_id,
                                 info->n_layer, &err))
        snprintf(x->reason, sizeof x->reason, "allocator %s: table: %.180s", s->name, err.text);
}

void plan_weights(const plan *p, pass *x, const kvt_trace_info *info)
{
    kvt_err err;
    char how[64];
    const kvt_use *u = x->use;
    const kvt_model_id model = kvt_model_id_of(&info->facts);
    plan_table(p, x, info);
    if (!u->policy->weights || !(u->traits.needs & KVT_NEED_WEIGHTS) || x->reason[0])
        return;
    plan_file *file = find_file(p, u->own.weights, plan_weights_kind(u->policy), &model);
    x->weights = file ? file->scorer : NULL;
    if (!file)
        snprintf(x->reason, sizeof x->reason, "policy %s needs weights=FILE (%s)",
                 u->policy->name, how_made(how, sizeof how, plan_weights_kind(u->policy)));
    else if (kvt_use_check_weights(u, x->weights, &info->facts.model, &model, info->layer_id,
                                   info->n_layer, &err))
        snprintf(x->reason, sizeof x->reason, "policy %s: weights: %.180s", u->policy->name,
                 err.text);
    else if (strncmp(u->policy->name, "kvpop", 5) == 0) /* not DMS, which has no slots */
        check_slots(p, file);
    else
        check_base(p, file, u);
}

void plan_weights_close(plan *p)
{
    for (int i = 0; i < p->n_file; i++)
        kvt_scorer_close(p->file[i].scorer);
    kvt_free(p->file);
}
