/* info_adapter.c - kvt info of an adapter: kind, model, size, maps, recipe. The model's shape
 * is not in the file; whether it fits is checked where it is used. */
#include "cli/info_adapter.h"

#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "capture/adapter.h"
#include "cli/about.h"
#include "cli/info_parts.h"
#include "kvt/arena.h"
#include "traces/tensors.h"

typedef struct facts {
    char digest[DIGEST_TEXT];
    const char *kind, *alpha, *model, *model_digest, *recipe; /* "" where the file has none */
    int64_t n_token, n_hidden, rank, n_param;
    int n_layer;              /* with a LoRA */
    int layers[ADAPTER_MAPS]; /* of each map */
    bool half;
} facts;

bool cli_is_adapter(const char *path)
{
    tensors *t;
    kvt_err ignored;
    if (tensors_open(&t, path, &ignored))
        return false;
    const char *format = tensors_meta(t, "format");
    bool is = format && !strcmp(format, "kvt-adapter");
    tensors_close(t);
    return is;
}

static const char *meta(const tensors *t, const char *key)
{
    const char *value = tensors_meta(t, key);
    return value ? value : "";
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

/* Counts the A of a map; its first dimension is the rank. */
static void count_map(facts *f, const tensor *x)
{
    const char *layer = strstr(x->name, "layers.");
    char end[64];
    for (int i = 0; layer && i < ADAPTER_MAPS; i++) {
        snprintf(end, sizeof end, ".%s.lora_A.weight", adapter_map_name((adapter_map_id)i));
        if (!ends_with(x->name, end))
            continue;
        int id = (int)strtol(layer + 7, NULL, 10);
        f->n_layer = id >= f->n_layer ? id + 1 : f->n_layer;
        f->layers[i]++;
        f->rank = x->rank > 0 ? x->dim[0] : 0;
    }
}

static kvt_code check_finite(const tensor *x, int64_t n, kvt_err *err)
{
    float *value = kvt_alloc(n, sizeof *value);
    if (!value)
        return kvt_fail_memory(err, (size_t)n * sizeof *value);
    kvt_code code = tensors_floats(x, value, n, err);
    kvt_free(value);
    return code && !strstr(err->text, x->name) ? kvt_within(err, "tensor '%s'", x->name) : code;
}

static kvt_code look(facts *f, const tensors *t, kvt_err *err)
{
    for (int i = 0; i < tensors_count(t); i++) {
        const tensor *x = tensors_at(t, i);
        int64_t n = 1;
        for (int d = 0; d < x->rank; d++)
            n *= x->dim[d];
        if (check_finite(x, n, err))
            return err->code;
        f->n_param += n;
        f->half = x->dtype != KVT_F32;
        if (ends_with(x->name, "lookahead.embeddings") && x->rank == 2) {
            f->n_token = x->dim[0];
            f->n_hidden = x->dim[1];
        }
        count_map(f, x);
    }
    f->kind = meta(t, "kind");
    f->alpha = meta(t, "alpha");
    f->model = meta(t, "model");
    f->model_digest = meta(t, "model_digest");
    f->recipe = meta(t, "recipe");
    return KVT_OK;
}

/* ---- for people ----------------------------------------------------------------------------
 */

static void line(const cli *c, const char *name, const char *text)
{
    info_line(stdout, c, 12, name, text);
}

/* "self_attn.q_proj 30, self_attn.o_proj 29": of how many layers. */
static void print_maps(const facts *f, char *out, size_t cap)
{
    size_t n = 0;
    out[0] = 0;
    for (int i = 0; i < ADAPTER_MAPS && n < cap; i++)
        if (f->layers[i])
            n += (size_t)snprintf(out + n, cap - n, "%s%s %d", n ? ", " : "",
                                  adapter_map_name((adapter_map_id)i), f->layers[i]);
}

static void print_text(const cli *c, const facts *f)
{
    char text[4200], maps[512], digits[16];
    snprintf(text, sizeof text, "%s  digest %.8s, %s", f->kind, f->digest,
             f->half ? "halves" : "f32");
    line(c, "adapter", text);
    snprintf(text, sizeof text, "%s  weights %s", f->model,
             info_short(f->model_digest, digits));
    line(c, "model", text);
    snprintf(text, sizeof text, "%lld lookahead tokens of width %lld", (long long)f->n_token,
             (long long)f->n_hidden);
    line(c, "tokens", text);
    print_maps(f, maps, sizeof maps);
    if (f->rank)
        snprintf(text, sizeof text, "rank %lld, alpha %s; layers of each map: %s",
                 (long long)f->rank, f->alpha, maps);
    line(c, "LoRA", f->rank ? text : "none, embeddings only");
    snprintf(text, sizeof text, "%lld", (long long)f->n_param);
    line(c, "parameters", text);
    if (f->recipe[0])
        line(c, "recipe", f->recipe);
}

/* ---- JSON ----------------------------------------------------------------------------------
 */

static kvt_code print_json(const facts *f, const char *path, kvt_err *err)
{
    const info_head head = {path, f->kind, f->digest, f->model_digest, f->model};
    json_t *top = info_head_json("kvt-info-adapter-1", &head), *maps = json_object();
    for (int i = 0; i < ADAPTER_MAPS; i++)
        if (f->layers[i])
            json_object_set_new(maps, adapter_map_name((adapter_map_id)i),
                                json_integer(f->layers[i]));
    json_object_set_new(top, "tokens", json_integer(f->n_token));
    json_object_set_new(top, "hidden", json_integer(f->n_hidden));
    json_object_set_new(top, "rank", json_integer(f->rank));
    json_object_set_new(top, "alpha", json_real(strtod(f->alpha, NULL)));
    json_object_set_new(top, "parameters", json_integer(f->n_param));
    json_object_set_new(top, "half", json_boolean(f->half));
    json_object_set_new(top, "layers", json_integer(f->n_layer));
    json_object_set_new(top, "maps", maps);
    json_object_set_new(top, "recipe", info_recipe_json(f->recipe));
    return cli_json_print(top, err);
}

/* Opens it and looks at everything; the caller closes *out, also after an error. */
static kvt_code read_all(tensors **out, facts *f, const char *path, kvt_err *err)
{
    *out = NULL;
    *f = (facts){0};
    if (tensors_open(out, path, err))
        return err->code;
    if (look(f, *out, err) || digest_file(path, f->digest, err))
        return kvt_within(err, "'%s'", path);
    return KVT_OK;
}

kvt_code cli_check_adapter(const char *path, char *out, size_t cap, kvt_err *err)
{
    facts f;
    tensors *t;
    kvt_code code = read_all(&t, &f, path, err);
    if (!code)
        snprintf(out, cap, "format kvt-adapter, kind %.32s, %lld tokens, rank %lld, %d tensors",
                 f.kind, (long long)f.n_token, (long long)f.rank, tensors_count(t));
    if (t)
        tensors_close(t);
    return code;
}

kvt_code cli_info_adapter(cli *c, const char *path, kvt_err *err)
{
    facts f;
    tensors *t;
    kvt_code code = read_all(&t, &f, path, err);
    if (!code && c->json)
        code = print_json(&f, path, err);
    else if (!code)
        print_text(c, &f);
    if (t)
        tensors_close(t);
    return code;
}
