/* scorer.c - the rules of scorer files, and what is asked of an open one. */
#include "traces/scorer_priv.h"

#include "base/digest.h"
#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define TEXT(field, run)                                     \
    {                                                        \
#field, ATTR_TEXT, offsetof(kvt_scorer_info, field), \
            sizeof(((kvt_scorer_info *)0)->field), run       \
    }
#define INT(field)                                                   \
    {                                                                \
#field, ATTR_INT, offsetof(kvt_scorer_info, field), 0, false \
    }

static const scorer_fact facts[] = {
    TEXT(kind, false),   TEXT(weights_digest, false),
    TEXT(model, false),  INT(n_head),
    INT(n_kv_head),      INT(head_dim),
    INT(n_hidden),       INT(model_layers),
    TEXT(recipe, false), TEXT(writer, true),
    TEXT(created, true),
};

const scorer_fact *scorer_facts(int *n)
{
    *n = (int)(sizeof facts / sizeof facts[0]);
    return facts;
}

/* ---- rules ---------------------------------------------------------------------------------
 */

static kvt_code in_range(const char *name, int64_t x, int64_t lo, int64_t hi, kvt_err *err)
{
    if (x >= lo && x <= hi)
        return KVT_OK;
    return kvt_fail(err, KVT_FORMAT, "%s: expected %lld to %lld, got %lld", name, (long long)lo,
                    (long long)hi, (long long)x);
}

/* Empty, or a JSON object. */
static kvt_code check_recipe(const char *recipe, kvt_err *err)
{
    json_t *json = NULL;
    if (!recipe[0])
        return KVT_OK;
    kvt_code code = json_read(&json, recipe, strlen(recipe), err);
    if (!code && !json_is_object(json))
        code = kvt_fail(err, KVT_FORMAT, "expected an object of JSON");
    if (json)
        json_decref(json);
    return code ? kvt_within(err, "recipe") : KVT_OK;
}

kvt_code scorer_check_info(const kvt_scorer_info *info, kvt_err *err)
{
    size_t n = strspn(info->kind, "abcdefghijklmnopqrstuvwxyz0123456789-");
    if (n == 0 || info->kind[n])
        return kvt_fail(err, KVT_FORMAT, "kind: expected a name of a-z, 0-9 and '-', got '%s'",
                        info->kind);
    n = strspn(info->weights_digest, "0123456789abcdef");
    if (info->weights_digest[n] || (n != 0 && n != KVT_DIGEST_TEXT - 1))
        return kvt_fail(err, KVT_FORMAT, "weights_digest: expected %d hex digits, got '%s'",
                        KVT_DIGEST_TEXT - 1, info->weights_digest);
    if (in_range("n_head", info->n_head, 1, 65536, err) ||
        in_range("n_kv_head", info->n_kv_head, 1, info->n_head, err) ||
        in_range("head_dim", info->head_dim, 1, KVT_HEAD_DIM_MAX, err) ||
        in_range("n_hidden", info->n_hidden, 0, INT32_MAX, err) ||
        in_range("model_layers", info->model_layers, 1, KVT_LAYERS_MAX, err) ||
        in_range("layers of the file", info->n_layer, 1, info->model_layers, err))
        return err->code;
    if (info->n_head % info->n_kv_head != 0)
        return kvt_fail(err, KVT_FORMAT, "%lld query heads are no multiple of %lld kv heads",
                        (long long)info->n_head, (long long)info->n_kv_head);
    for (int i = 0; i < info->n_layer; i++) {
        if (in_range("layer/id", info->layer_id[i], 0, info->model_layers - 1, err))
            return err->code;
        if (i > 0 && info->layer_id[i] <= info->layer_id[i - 1])
            return kvt_fail(err, KVT_FORMAT, "layer/id[%d]: %d does not come after %d", i,
                            info->layer_id[i], info->layer_id[i - 1]);
    }
    return check_recipe(info->recipe, err);
}

void scorer_extents(trace_extents *e, const kvt_scorer_info *info)
{
    for (int i = 0; i < 26; i++)
        e->n[i] = -1;
    extents_at(e, 'L') = info->n_layer;
    extents_at(e, 'H') = info->n_head;
    extents_at(e, 'G') = info->n_kv_head;
    extents_at(e, 'D') = info->head_dim;
    extents_at(e, 'E') = info->n_hidden;
}

/* "in/weight": parts of a-z, 0-9, '_' and '-' between single slashes. */
static bool name_fits(const char *name)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-/");
    return n > 0 && !name[n] && name[0] != '/' && name[n - 1] != '/' && !strstr(name, "//") &&
           strcmp(name, "layer/id") != 0;
}

kvt_code scorer_check_shape(trace_extents *e, const char *name, const char *axes, int rank,
                            const int64_t *dim, kvt_err *err)
{
    int64_t n = 1;
    if (!name_fits(name))
        return kvt_fail(err, KVT_FORMAT, "'%.64s' is no name of a tensor", name);
    if ((int)strlen(axes) != rank)
        return kvt_fail(err, KVT_FORMAT, "%s: expected axes %s, got %d axes", name, axes, rank);
    for (int i = 0; i < rank; i++) {
        if (!trace_axis_of(axes[i]))
            return kvt_fail(err, KVT_FORMAT, "%s: axes %s: there is no axis '%c'", name, axes,
                            axes[i]);
        int64_t *known = &extents_at(e, axes[i]);
        if (dim[i] < 1 || __builtin_mul_overflow(n, dim[i], &n) ||
            n > SCORER_BYTES_MAX / (int64_t)sizeof(float))
            return kvt_fail(err, KVT_FORMAT, "%s: axis %c: an extent of %lld is out of range",
                            name, axes[i], (long long)dim[i]);
        if (*known < 0)
            *known = dim[i];
        if (*known != dim[i])
            return kvt_fail(err, KVT_FORMAT, "%s: axis %c (%s): expected %lld, got %lld", name,
                            axes[i], trace_axis_of(axes[i])->name, (long long)*known,
                            (long long)dim[i]);
    }
    return KVT_OK;
}

kvt_code scorer_check_values(const char *name, const float *x, int64_t n, kvt_err *err)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return kvt_fail(err, KVT_FORMAT, "%s, element %lld: %s", name, (long long)i,
                            isnan(x[i]) ? "NaN" : "infinity");
    return KVT_OK;
}

/* ---- digest --------------------------------------------------------------------------------
 */

static void add_int(digest *d, int64_t x)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)x);
    digest_add_text(d, text);
}

static void add_tensor(digest *d, const kvt_scorer_tensor *t, const char *sum)
{
    digest_add_text(d, t->name);
    digest_add_text(d, t->view.axes);
    digest_add_text(d, kvt_dtype_name(t->half ? KVT_F16 : KVT_F32));
    for (int i = 0; i < t->view.rank; i++)
        add_int(d, t->view.dim[i]);
    digest_add_text(d, sum);
}

kvt_code scorer_digest(char out[KVT_DIGEST_TEXT], const kvt_scorer_info *info,
                       const kvt_scorer_tensor *tensor, char (*sum)[KVT_DIGEST_TEXT], int n,
                       kvt_err *err)
{
    int n_fact;
    const scorer_fact *fact = scorer_facts(&n_fact);
    digest *d = digest_new();
    if (!d)
        return kvt_fail_memory(err, 1024);
    digest_add_text(d, "kvt-scorer 1");
    for (int i = 0; i < n_fact; i++) {
        const char *at = (const char *)info + fact[i].offset;
        int64_t x = 0;
        if (fact[i].run)
            continue;
        digest_add_text(d, fact[i].name);
        if (fact[i].kind == ATTR_INT) {
            memcpy(&x, at, sizeof x);
            add_int(d, x);
        } else {
            digest_add_text(d, at);
        }
    }
    for (int i = 0; i < info->n_layer; i++)
        add_int(d, info->layer_id[i]);
    for (int i = 0; i < n; i++)
        add_tensor(d, &tensor[i], sum[i]);
    digest_get(d, out);
    digest_free(d);
    return KVT_OK;
}

/* ---- an open one ---------------------------------------------------------------------------
 */

const kvt_scorer_info *kvt_scorer_info_of(const kvt_scorer *s)
{
    return &s->info;
}

int kvt_scorer_count(const kvt_scorer *s)
{
    return s->n;
}

const kvt_scorer_tensor *kvt_scorer_at(const kvt_scorer *s, int i)
{
    return i >= 0 && i < s->n ? &s->tensor[i] : NULL;
}

kvt_code kvt_scorer_find(const kvt_scorer *s, const char *name, kvt_view *out, kvt_err *err)
{
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->tensor[i].name, name) == 0) {
            *out = s->tensor[i].view;
            return KVT_OK;
        }
    return kvt_fail(err, KVT_NOTFOUND, "'%s': this scorer of kind %s has no tensor '%s'",
                    s->info.path, s->info.kind, name);
}

int kvt_scorer_layer(const kvt_scorer *s, int model_layer)
{
    for (int i = 0; i < s->info.n_layer; i++)
        if (s->info.layer_id[i] == model_layer)
            return i;
    return -1;
}
