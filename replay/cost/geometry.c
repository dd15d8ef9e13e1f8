/* geometry.c - models: built in, from JSON, and what follows from their shapes.
 *
 * The total of the weights is the check of a geometry: a file that names it is refused where
 * its shapes give another one. It is
 *
 *   matrices   L (2 E H D + 2 E G D + 3 E I)
 *   rows       V E, twice where the output matrix is one of its own
 *   vectors    E (norms L + 1), L (H + 2 G) D of biases, 2 L D of norms of q and k
 *
 * with L layers, E n_hidden, H query heads, G kv heads, D head_dim, I n_ff, V n_vocab. */
#include "replay/cost/cost_priv.h"

#include <inttypes.h>
#include <string.h>

/* What a geometry cannot do without, and what is still a model: no product of them overflows.
 */
static const struct {
    const char *name;
    size_t offset;
    int64_t most;
} sizes[] = {
    {"n_layer", offsetof(kvt_geometry, n_layer), KVT_LAYERS_MAX},
    {"n_head", offsetof(kvt_geometry, n_head), 1 << 12},
    {"n_kv_head", offsetof(kvt_geometry, n_kv_head), 1 << 12},
    {"head_dim", offsetof(kvt_geometry, head_dim), KVT_HEAD_DIM_MAX},
    {"n_hidden", offsetof(kvt_geometry, n_hidden), 1 << 20},
    {"n_ff", offsetof(kvt_geometry, n_ff), 1 << 22},
    {"n_vocab", offsetof(kvt_geometry, n_vocab), 1 << 24},
};
enum { N_SIZE = sizeof sizes / sizeof sizes[0] };

static kvt_code check(const kvt_geometry *g, kvt_err *err)
{
    for (int i = 0; i < N_SIZE; i++) {
        int64_t x;
        memcpy(&x, (const char *)g + sizes[i].offset, sizeof x);
        if (x < 1 || x > sizes[i].most)
            return kvt_fail(err, KVT_USAGE, "%s: expected 1 to %" PRId64 ", got %" PRId64,
                            sizes[i].name, sizes[i].most, x);
    }
    if (g->n_head % g->n_kv_head)
        return kvt_fail(err, KVT_USAGE,
                        "n_kv_head: expected a divisor of n_head %" PRId64 ", got %" PRId64,
                        g->n_head, g->n_kv_head);
    if (g->tied != 0 && g->tied != 1)
        return kvt_fail(err, KVT_USAGE, "tied: expected 0 or 1, got %" PRId64, g->tied);
    if (g->n_context < 0)
        return kvt_fail(err, KVT_USAGE, "n_context: expected 0 or more tokens, got %" PRId64,
                        g->n_context);
    for (int64_t l = 0; l < g->n_layer; l++)
        if (g->window[l] < 0)
            return kvt_fail(err, KVT_USAGE,
                            "window of layer %" PRId64 ": expected 0 or more tokens, got %d", l,
                            (int)g->window[l]);
    return KVT_OK;
}

static void totals(kvt_cost_geometry *c)
{
    const kvt_geometry *g = &c->g;
    int64_t q = g->n_head * g->head_dim, kv = g->n_kv_head * g->head_dim;
    c->theta_lin = g->n_layer * (2 * g->n_hidden * (q + kv) + 3 * g->n_hidden * g->n_ff);
    c->theta_head = g->n_vocab * g->n_hidden;
    c->theta_all = c->theta_lin + c->theta_head * (g->tied ? 1 : 2) +
                   g->n_hidden * (c->norms_per_layer * g->n_layer + 1);
    if (c->qkv_bias)
        c->theta_all += g->n_layer * (q + 2 * kv);
    if (c->qk_norm)
        c->theta_all += 2 * g->n_layer * g->head_dim;
}

/* What the architecture stores; of an unknown one two norms a layer and nothing else. */
static void vectors(kvt_cost_geometry *c)
{
    static const struct {
        const char *arch;
        unsigned bits;
    } known[] = {
#define X(name, bits) {#name, KVT_VECTORS_##name},
        KVT_ARCHITECTURES(X)
#undef X
    };
    unsigned bits = 0;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (!strcmp(known[i].arch, c->g.arch))
            bits = known[i].bits;
    c->qkv_bias = bits & KVT_QKV_BIAS;
    c->qk_norm = bits & KVT_QK_NORM;
    c->norms_per_layer = bits & KVT_POST_NORM ? 4 : 2;
}

kvt_code kvt_cost_geometry_of(kvt_cost_geometry *out, const kvt_geometry *g, kvt_err *err)
{
    memset(out, 0, sizeof *out);
    out->g = *g;
    vectors(out);
    if (check(g, err))
        return kvt_within(err, "geometry");
    totals(out);
    return KVT_OK;
}

/* ---- from JSON ---- */

static kvt_code read_TEXT(const json_t *o, const char *key, char *out, kvt_err *err)
{
    return cost_text(o, key, false, out, sizeof((kvt_geometry *)0)->name, err);
}

static kvt_code read_INT(const json_t *o, const char *key, int64_t *out, kvt_err *err)
{
    bool is_tied = false;
    if (strcmp(key, "tied"))
        return cost_int(o, key, false, out, err);
    kvt_code code = cost_flag(o, key, true, &is_tied, err);
    *out = is_tied;
    return code;
}

static kvt_code read_REAL(const json_t *o, const char *key, double *out, kvt_err *err)
{
    kvt_code code = json_number(o, key, out, err);
    if (!code && *out < 0)
        return kvt_fail(err, KVT_FORMAT, "'%s': expected 0 or more, got %g", key, *out);
    return code == KVT_NOTFOUND ? KVT_OK : code;
}

static kvt_code read_fields(kvt_geometry *g, const json_t *o, kvt_err *err)
{
#define AT_TEXT(f) g->f
#define AT_INT(f)  &g->f
#define AT_REAL(f) &g->f
#define X(kind, f, unit, help)                 \
    if (read_##kind(o, #f, AT_##kind(f), err)) \
        return err->code;
    KVT_GEOMETRY_FIELDS(X)
#undef X
#undef AT_TEXT
#undef AT_INT
#undef AT_REAL
    if (!g->name[0])
        return kvt_fail(err, KVT_FORMAT, "'name' is missing");
    for (int i = 0; i < N_SIZE; i++)
        if (!json_object_get(o, sizes[i].name))
            return kvt_fail(err, KVT_FORMAT, "'%s' is missing", sizes[i].name);
    return KVT_OK;
}

/* A whole number of 0 or more that may be missing. */
static kvt_code read_count(const json_t *o, const char *key, int64_t most, int64_t *out,
                           kvt_err *err)
{
    if (cost_int(o, key, false, out, err))
        return err->code;
    if (*out < 0 || *out > most)
        return kvt_fail(err, KVT_FORMAT, "'%s': expected 0 to %" PRId64 ", got %" PRId64, key,
                        most, *out);
    return KVT_OK;
}

/* Layer l sees everything where l % global_every is global_every - 1. */
static kvt_code read_windows(kvt_geometry *g, const json_t *o, kvt_err *err)
{
    int64_t window = 0, every = 0;
    if (read_count(o, "window", INT32_MAX, &window, err) ||
        read_count(o, "global_every", KVT_LAYERS_MAX, &every, err))
        return err->code;
    if (every > 0 && !window)
        return kvt_fail(err, KVT_FORMAT, "'global_every' needs a 'window'");
    for (int64_t l = 0; l < g->n_layer && l < KVT_LAYERS_MAX; l++)
        if (every == 0 || l % every != every - 1)
            g->window[l] = (int32_t)window;
    return KVT_OK;
}

static kvt_code read_bytes(kvt_cost_geometry *c, const json_t *o, kvt_err *err)
{
    const int64_t most = INT64_MAX / 4;
    if (read_count(o, "lin_bytes", most, &c->lin_bytes, err) ||
        read_count(o, "head_bytes", most, &c->head_bytes, err) ||
        read_count(o, "all_bytes", most, &c->all_bytes, err))
        return err->code;
    bool none = !c->lin_bytes && !c->head_bytes && !c->all_bytes;
    if (!none &&
        (!c->lin_bytes || !c->head_bytes || c->all_bytes < c->lin_bytes + c->head_bytes))
        return kvt_fail(
            err, KVT_FORMAT,
            "lin_bytes %" PRId64 ", head_bytes %" PRId64 " and all_bytes %" PRId64
            ": expected none, or all three, the last the sum of the others at least",
            c->lin_bytes, c->head_bytes, c->all_bytes);
    return KVT_OK;
}

static kvt_code read_total(const kvt_cost_geometry *c, const json_t *o, kvt_err *err)
{
    int64_t total = 0;
    if (read_count(o, "params_total", INT64_MAX, &total, err))
        return err->code;
    if (total && total != c->theta_all)
        return kvt_fail(err, KVT_FORMAT,
                        "params_total: the shapes give %" PRId64 " weights, got %" PRId64,
                        c->theta_all, total);
    return KVT_OK;
}

static kvt_code read_object(kvt_cost_geometry *c, const json_t *o, kvt_err *err)
{
    static const char *const known[] = {
#define X(kind, f, unit, help) #f,
        KVT_GEOMETRY_FIELDS(X)
#undef X
            "title",
        "draft",
        "params_total",
        "window",
        "global_every",
        "qkv_bias",
        "qk_norm",
        "norms_per_layer",
        "lin_bytes",
        "head_bytes",
        "all_bytes",
        NULL};
    if (json_only(o, known, err) || read_fields(&c->g, o, err) || read_windows(&c->g, o, err) ||
        cost_text(o, "title", false, c->title, sizeof c->title, err) ||
        cost_text(o, "draft", false, c->draft, sizeof c->draft, err))
        return err->code;
    vectors(c);
    int64_t norms = c->norms_per_layer;
    if (cost_flag(o, "qkv_bias", false, &c->qkv_bias, err) ||
        cost_flag(o, "qk_norm", false, &c->qk_norm, err) ||
        read_count(o, "norms_per_layer", 16, &norms, err) || check(&c->g, err) ||
        read_bytes(c, o, err))
        return err->code;
    c->norms_per_layer = (int)norms;
    totals(c);
    return read_total(c, o, err);
}

kvt_code kvt_cost_geometry_find(kvt_cost_geometry *out, const char *name, kvt_err *err)
{
    json_t *o;
    memset(out, 0, sizeof *out);
    if (cost_file_read(&o, cost_geometries, "geometry", name, err))
        return err->code;
    kvt_code code = read_object(out, o, err);
    if (code)
        code = cost_file_within("geometry", name, err);
    json_decref(o);
    return code;
}

const char *const *kvt_cost_geometry_names(void)
{
    return cost_geometries_names;
}
