/* weights.c - learned weights: whether a file fits a policy and a model, and what of it a lane
 * sees. */
#include "replay/engine_priv.h"

#include <math.h>
#include <string.h>

#include "kvt/arena.h"

enum { LETTERS = 26 };

static const char *kind_of(const kvt_policy *p)
{
    return p->weights_kind ? p->weights_kind : p->name;
}

const char *kvt_share_kind(const kvt_share *s)
{
    return s->weights_kind ? s->weights_kind : s->name;
}

/* ---- does the file fit ---------------------------------------------------------------------
 */

static kvt_code check_model(const kvt_scorer_info *s, const kvt_geometry *g,
                            const kvt_model_id *model, const int32_t *layer_id, int n_layer,
                            const kvt_scorer *scorer, kvt_err *err)
{
    const struct {
        const char *what;
        int64_t got, want;
    } extents[] = {{"query heads", s->n_head, g->n_head},
                   {"kv heads", s->n_kv_head, g->n_kv_head},
                   {"channels of a head", s->head_dim, g->head_dim},
                   {"width of the residual stream", s->n_hidden, g->n_hidden},
                   {"layers of the model", s->model_layers, g->n_layer}};
    for (size_t i = 0; i < sizeof extents / sizeof extents[0]; i++)
        if (extents[i].got != extents[i].want)
            return kvt_fail(err, KVT_FORMAT,
                            "'%s' is for another model: %s: expected %lld, "
                            "got %lld",
                            s->path, extents[i].what, (long long)extents[i].want,
                            (long long)extents[i].got);
    const kvt_model_id made_for = kvt_scorer_model(s);
    if (model && !kvt_model_id_same(model, &made_for))
        return kvt_fail(err, KVT_FORMAT,
                        "'%s' is for another model: digest of its weights: expected %.8s, got "
                        "%.8s (%s)",
                        s->path, model->weights, s->weights_digest, s->model);
    for (int l = 0; l < n_layer; l++)
        if (kvt_scorer_layer(scorer, layer_id[l]) < 0)
            return kvt_fail(err, KVT_FORMAT, "'%s' holds no layer %d, which is replayed",
                            s->path, (int)layer_id[l]);
    return KVT_OK;
}

/* Widths of what the kinds of docs/scorer-format.md read of a token: so many channels of a
 * head, of all query heads, of all kv heads, so many numbers a query head of a group, and
 * others. */
static const struct {
    const char *kind;
    int head, queries, keys, group, more;
} inputs[] = {{"kvpop-mlp", 2, 0, 0, 0, 0},
              {"kvpop", 2, 0, 0, 0, 0},
              {"kvp-supervised", 2, 0, 0, 0, 1},
              {"locret", 0, 1, 2, 0, 0},
              {"foresightkv", 2, 0, 0, 8, 0}};

/* The extent of each axis letter: the geometry's, the kind's, or what the first tensor with it
 * has (0). */
static void known_extents(int64_t extent[LETTERS], const kvt_scorer_info *s)
{
    memset(extent, 0, LETTERS * sizeof *extent);
    extent['L' - 'A'] = s->n_layer;
    extent['G' - 'A'] = s->n_kv_head;
    extent['H' - 'A'] = s->n_head;
    extent['D' - 'A'] = s->head_dim;
    extent['E' - 'A'] = s->n_hidden;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        if (strcmp(inputs[i].kind, s->kind) == 0)
            extent['W' - 'A'] = s->head_dim * (inputs[i].head + inputs[i].queries * s->n_head +
                                               inputs[i].keys * s->n_kv_head) +
                                inputs[i].group * s->n_head / s->n_kv_head + inputs[i].more;
    if (strcmp(s->kind, "kvpop") == 0)
        extent['O' - 'A'] = s->head_dim / 2;
}

static kvt_code check_line(const kvt_scorer *s, const kvt_weight *w, int64_t extent[LETTERS],
                           kvt_err *err)
{
    kvt_view v;
    int64_t want[KVT_RANK_MAX] = {0};
    size_t rank = strlen(w->axes);
    if (kvt_scorer_find(s, w->name, &v, err))
        return err->code;
    if (rank > KVT_RANK_MAX)
        return kvt_fail(err, KVT_FORMAT, "%s: expected at most %d axes in the policy's table",
                        w->name, KVT_RANK_MAX);
    for (size_t i = 0; i < rank; i++) {
        int64_t *one = &extent[w->axes[i] - 'A'];
        bool there = (size_t)v.rank == rank && v.axes[i] == w->axes[i];
        if (*one == 0 && there)
            *one = v.dim[i];
        want[i] = *one > 0 ? *one : -1;
    }
    return kvt_view_expect(&v, w->name, KVT_F32, w->axes, rank, want, err);
}

/* Counts that KVpop's rule takes from a file; a name that the policy does not read is none. */
static const struct {
    const char *name;
    int least;
} counts[] = {{"sinks", 0}, {"window", 1}, {"decay_step", 1}, {"read_delay", 0}};
enum { COUNTS = sizeof counts / sizeof *counts, COUNT_MAX = 1 << 20 };

static bool reads(const kvt_policy *p, const char *name)
{
    for (const kvt_weight *w = p->weights; w->name; w++)
        if (strcmp(w->name, name) == 0)
            return true;
    return false;
}

/* S, w, n_d and the delay are whole, a score is read before its token leaves the window, and
 * none grows with age. */
static kvt_code check_rule(const kvt_policy *p, const kvt_scorer *s, kvt_err *err)
{
    kvt_view v;
    double value[COUNTS] = {0};
    if (strncmp(kvt_scorer_info_of(s)->kind, "kvpop", 5) != 0)
        return KVT_OK;
    for (int i = 0; i < COUNTS; i++) {
        if (!reads(p, counts[i].name))
            continue;
        if (kvt_scorer_find(s, counts[i].name, &v, err))
            return err->code;
        value[i] = (double)*(const float *)v.data;
        if (value[i] < counts[i].least || value[i] > COUNT_MAX || value[i] != floor(value[i]))
            return kvt_fail(err, KVT_FORMAT,
                            "%s: expected a whole number from %d to %d, got %g", counts[i].name,
                            counts[i].least, COUNT_MAX, value[i]);
    }
    if (value[3] > value[1])
        return kvt_fail(err, KVT_FORMAT,
                        "read_delay: expected at most the window of %g tokens, got %g",
                        value[1], value[3]);
    if (!reads(p, "decay/log_gamma"))
        return KVT_OK;
    if (kvt_scorer_find(s, "decay/log_gamma", &v, err))
        return err->code;
    for (int64_t i = 0; i < v.dim[0] * v.dim[1]; i++)
        if (((const float *)v.data)[i] > 0)
            return kvt_fail(err, KVT_FORMAT,
                            "decay/log_gamma, element %lld: expected at most 0, got %g",
                            (long long)i, (double)((const float *)v.data)[i]);
    return KVT_OK;
}

/* Numbers that slots are shared out by: none below 0, not all 0. */
static const struct {
    const char *kind, *tensor;
    double most;
} parts[] = {{"headkv", "score", INFINITY},
             {"shares", "share", INFINITY},
             {"duo", "gate", 1},
             {"lukv", "keep", 1}};

static kvt_code check_parts(const kvt_scorer *s, kvt_err *err)
{
    kvt_view v = {0};
    const char *name = NULL;
    double most = 0, sum = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strcmp(kvt_scorer_info_of(s)->kind, parts[i].kind) == 0)
            name = parts[i].tensor, most = parts[i].most;
    if (!name)
        return KVT_OK;
    if (kvt_scorer_find(s, name, &v, err))
        return err->code;
    for (int64_t i = 0; i < kvt_view_count(&v); i++) {
        double x = (double)((const float *)v.data)[i];
        if (x < 0 || x > most)
            return kvt_fail(err, KVT_FORMAT, "%s, element %lld: expected %s, got %g", name,
                            (long long)i, isinf(most) ? "0 or more" : "a number from 0 to 1",
                            x);
        sum += x;
    }
    if (!(sum > 0))
        return kvt_fail(err, KVT_FORMAT, "%s: expected a number above 0, every one is 0", name);
    return KVT_OK;
}

/* A file against the list of tensors that a policy or an allocator reads. */
static kvt_code check_file(const kvt_weight *list, const char *kind, const kvt_scorer *s,
                           const kvt_geometry *g, const kvt_model_id *model,
                           const int32_t *layer_id, int n_layer, kvt_err *err)
{
    const kvt_scorer_info *info = kvt_scorer_info_of(s);
    int64_t extent[LETTERS];
    if (strcmp(info->kind, kind) != 0)
        return kvt_fail(err, KVT_FORMAT, "'%s': expected a file of kind %s, got %s", info->path,
                        kind, info->kind);
    if (check_model(info, g, model, layer_id, n_layer, s, err))
        return err->code;
    known_extents(extent, info);
    for (const kvt_weight *w = list; w->name; w++)
        if (check_line(s, w, extent, err)) /* what is not found names the file itself */
            return err->code == KVT_NOTFOUND ? KVT_NOTFOUND
                                             : kvt_within(err, "'%s'", info->path);
    return check_parts(s, err) ? kvt_within(err, "'%s'", info->path) : KVT_OK;
}

kvt_code kvt_use_check_weights(const kvt_use *u, const kvt_scorer *s, const kvt_geometry *g,
                               const kvt_model_id *model, const int32_t *layer_id, int n_layer,
                               kvt_err *err)
{
    if (!u->policy->weights)
        return kvt_fail(err, KVT_USAGE, "policy %s reads no weights", u->policy->name);
    if (check_file(u->policy->weights, kind_of(u->policy), s, g, model, layer_id, n_layer, err))
        return err->code;
    return check_rule(u->policy, s, err) ? kvt_within(err, "'%s'", kvt_scorer_info_of(s)->path)
                                         : KVT_OK;
}

kvt_code kvt_use_check_table(const kvt_use *u, const kvt_scorer *s, const kvt_geometry *g,
                             const kvt_model_id *model, const int32_t *layer_id, int n_layer,
                             kvt_err *err)
{
    if (!u->share->weights)
        return kvt_fail(err, KVT_USAGE, "allocator %s reads no table", u->share->name);
    return check_file(u->share->weights, kvt_share_kind(u->share), s, g, model, layer_id,
                      n_layer, err);
}

/* ---- what a lane sees ----------------------------------------------------------------------
 */

kvt_code engine_tensors(engine_table *out, const kvt_weight *list, const kvt_scorer *s,
                        kvt_err *err)
{
    int n = 0;
    if (!s || !list)
        return KVT_OK;
    while (list[n].name)
        n++;
    out->view = kvt_alloc(n, sizeof *out->view);
    if (!out->view)
        return kvt_fail_memory(err, n * (int64_t)sizeof *out->view);
    out->scorer = s;
    for (int i = 0; i < n; i++)
        if (kvt_scorer_find(s, list[i].name, &out->view[i], err))
            return err->code;
    out->n = n;
    return KVT_OK;
}

/* Takes `count` from `first` on of one axis; the axis goes where count is 0. */
static void narrow(kvt_view *v, int axis, int64_t first, int64_t count)
{
    v->data =
        (const char *)v->data + first * v->stride[axis] * (int64_t)kvt_dtype_size(v->dtype);
    v->dim[axis] = count;
    if (count > 0)
        return;
    for (int i = axis; i + 1 < v->rank; i++) {
        v->dim[i] = v->dim[i + 1];
        v->stride[i] = v->stride[i + 1];
    }
    memmove(v->axes + axis, v->axes + axis + 1, strlen(v->axes + axis));
    v->rank--;
}

static void narrow_by(kvt_view *v, char letter, int64_t first, int64_t count)
{
    const char *at = strchr(v->axes, letter);
    if (at)
        narrow(v, (int)(at - v->axes), first, count);
}

kvt_code engine_fill_tensors(const kvt_engine *e, const engine_table *t, const kvt_view **out,
                             int layer, int lane, kvt_err *err)
{
    if (t->n == 0)
        return KVT_OK;
    int model_layer = e->seq.layer_id ? e->seq.layer_id[layer] : layer;
    int at = kvt_scorer_layer(t->scorer, model_layer);
    kvt_view *list = kvt_arena_array(e->layer[layer].work, t->n, sizeof *list);
    if (!list)
        return kvt_fail_memory(err, t->n * (int64_t)sizeof *list);
    if (at < 0)
        return kvt_fail(err, KVT_FORMAT, "'%s' holds no layer %d, which is replayed",
                        kvt_scorer_info_of(t->scorer)->path, model_layer);
    for (int i = 0; i < t->n; i++) {
        list[i] = t->view[i];
        narrow_by(&list[i], 'L', at, 0);
        narrow_by(&list[i], 'G', lane * e->n_kv / e->n_lane, 0);
        narrow_by(&list[i], 'H', (int64_t)lane * e->n_head, e->n_head);
    }
    *out = list;
    return KVT_OK;
}
