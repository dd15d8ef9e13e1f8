/* checkpoint_folder.c - a Hugging Face folder: config.json first, then
 * model.safetensors.index.json and the parts that it names, or model.safetensors.
 *
 * The index decides, not the listing of the folder: a part that is missing is named, and so is
 * a tensor that a part lacks or has without the index; files that the index does not name are
 * not opened. */
#include "capture/checkpoint_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "capture/config.h"
#include "compute/quant.h"
#include "kvt/arena.h"

enum { PATH = 4096, PARTS_MAX = 4096 };

static const char whole_name[] = "model.safetensors";
static const char index_name[] = "model.safetensors.index.json";

/* ---- what else a folder may be -------------------------------------------------------------
 */

static bool has(const char *folder, const char *name)
{
    char path[PATH];
    kvt_err ignored;
    return file_join(path, sizeof path, folder, name, &ignored) == KVT_OK && file_exists(path);
}

typedef struct seen {
    bool gguf, torch, meta;
} seen;

static kvt_code look(void *user, const char *name, kvt_err *err)
{
    seen *s = user;
    (void)err;
    s->gguf |= checkpoint_ends_with(name, ".gguf");
    s->torch |= strncmp(name, "pytorch_model", 13) == 0;
    s->meta |= strncmp(name, "consolidated.", 13) == 0;
    return KVT_OK;
}

/* Why a folder without `missing` is no model that is read. */
static kvt_code no_model(const char *folder, const char *missing, kvt_err *err)
{
    seen s = {false, false, false};
    if (file_list(folder, look, &s, err))
        return err->code;
    if (has(folder, "adapter_config.json") || has(folder, "adapter_model.safetensors"))
        return kvt_fail(err, KVT_FORMAT,
                        "holds an adapter (LoRA) only: merge it into its model first");
    if (has(folder, "snapshots"))
        return kvt_fail(err, KVT_FORMAT,
                        "is a model's folder of a cache: give the one inside, snapshots/...");
    if (s.gguf)
        return kvt_fail(err, KVT_FORMAT, "holds GGUF files: give one of them");
    if (s.torch)
        return kvt_fail(err, KVT_FORMAT,
                        "holds pytorch_model.bin, which is not read (it is a program): convert "
                        "it to safetensors");
    if (s.meta)
        return kvt_fail(err, KVT_FORMAT,
                        "holds consolidated.*, which is not read: take the form with "
                        "model.safetensors");
    return kvt_fail(err, KVT_FORMAT, "'%s' is missing", missing);
}

/* ---- tensors -------------------------------------------------------------------------------
 */

/* Rows are the first axis there and the last one here. */
static void add_tensor(checkpoint *s, const tensor *t)
{
    checkpoint_tensor *to = &s->tensor[s->n_tensor++];
    *to =
        (checkpoint_tensor){.name = t->name, .n_dim = t->rank, .n_weight = 1, .data = t->data};
    to->type = t->dtype == KVT_F32    ? QUANT_F32
               : t->dtype == KVT_F16  ? QUANT_F16
               : t->dtype == KVT_BF16 ? QUANT_BF16
                                      : -1;
    if (t->rank > GGUF_DIMS_MAX)
        to->type = -1;
    for (int i = 0; i < GGUF_DIMS_MAX; i++)
        to->dim[i] = i < t->rank ? t->dim[t->rank - 1 - i] : 1;
    for (int i = 0; i < t->rank; i++)
        to->n_weight *= t->dim[i];
    to->n_byte = to->n_weight * (int64_t)kvt_dtype_size(t->dtype);
}

static kvt_code open_part(checkpoint *s, const char *name, kvt_err *err)
{
    char path[PATH];
    size_t n = 0;
    tensors *t = NULL;
    if (file_join(path, sizeof path, s->folder, name, err) || tensors_open(&t, path, err))
        return err->code;
    s->part[s->n_part++] = t;
    tensors_bytes(t, &n);
    s->bytes += (int64_t)n;
    return KVT_OK;
}

static kvt_code add_parts(checkpoint *s, kvt_err *err)
{
    int64_t n = 0;
    for (int i = 0; i < s->n_part; i++)
        n += tensors_count(s->part[i]);
    if (checkpoint_reserve(s, n, err))
        return err->code;
    for (int i = 0; i < s->n_part; i++)
        for (int k = 0; k < tensors_count(s->part[i]); k++)
            add_tensor(s, tensors_at(s->part[i], k));
    checkpoint_sort(s);
    for (int64_t i = 1; i < n; i++)
        if (strcmp(s->tensor[i].name, s->tensor[i - 1].name) == 0)
            return kvt_fail(err, KVT_FORMAT, "tensor '%.100s' comes in two parts",
                            s->tensor[i].name);
    return KVT_OK;
}

/* ---- the index -----------------------------------------------------------------------------
 */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A plain name that stays in the folder. */
static bool is_plain(const char *name)
{
    return name[0] && name[0] != '.' && !strchr(name, '/') && !strchr(name, '\\');
}

/* Names of the parts, each once, sorted; borrowed from the map. */
static kvt_code part_names(const char ***out, int *n_out, const json_t *map, kvt_err *err)
{
    const char *key, *file;
    char shown[128];
    json_t *v;
    size_t n = json_object_size(map), k = 0;
    const char **name = kvt_alloc((int64_t)n, sizeof *name);
    *out = name;
    if (!name)
        return kvt_fail_memory(err, n * sizeof *name);
    json_object_foreach((json_t *)(uintptr_t)map, key, v) /* its iterator takes no const */
    {
        file = json_string_value(v);
        text_safe_cut(shown, sizeof shown, (const uint8_t *)key, strlen(key), 100, true);
        if (!file || strlen(file) != json_string_length(v))
            return kvt_fail(err, KVT_FORMAT, "weight_map: '%s': expected a file's name", shown);
        name[k++] = file;
        if (is_plain(file))
            continue;
        text_safe_cut(shown, sizeof shown, (const uint8_t *)file, strlen(file), 100, true);
        return kvt_fail(err, KVT_FORMAT, "weight_map: '%s' is no name of a file in this folder",
                        shown);
    }
    qsort(name, k, sizeof *name, by_text);
    int n_part = 0;
    for (size_t i = 0; i < k; i++)
        if (n_part == 0 || strcmp(name[i], name[n_part - 1]) != 0)
            name[n_part++] = name[i];
    *n_out = n_part;
    if (n_part == 0 || n_part > PARTS_MAX)
        return kvt_fail(err, KVT_FORMAT, "weight_map: expected 1 to %d files, got %d",
                        PARTS_MAX, n_part);
    return KVT_OK;
}

/* Each listed tensor is in its part, and each tensor of a part is listed there. */
static kvt_code check_map(const checkpoint *s, const json_t *map, const char *const *name,
                          kvt_err *err)
{
    const char *key;
    json_t *v;
    char shown[128];
    json_object_foreach((json_t *)(uintptr_t)map, key, v)
    {
        int i = 0;
        while (strcmp(name[i], json_string_value(v)) != 0)
            i++;
        text_safe_cut(shown, sizeof shown, (const uint8_t *)key, strlen(key), 100, true);
        if (!tensors_find(s->part[i], key))
            return kvt_fail(err, KVT_FORMAT,
                            "weight_map: tensor '%s' should be in '%.100s', which lacks it",
                            shown, name[i]);
    }
    for (int i = 0; i < s->n_part; i++)
        for (int k = 0; k < tensors_count(s->part[i]); k++) {
            const char *held = tensors_at(s->part[i], k)->name;
            const char *file = json_string_value(json_object_get(map, held));
            if (file && strcmp(file, name[i]) == 0)
                continue;
            text_safe_cut(shown, sizeof shown, (const uint8_t *)held, strlen(held), 100, true);
            return kvt_fail(err, KVT_FORMAT,
                            "weight_map: '%.100s' holds tensor '%s', which is not listed there",
                            name[i], shown);
        }
    return KVT_OK;
}

static kvt_code open_listed(checkpoint *s, const json_t *map, const char *const *name, int n,
                            kvt_err *err)
{
    s->part = kvt_alloc(n, sizeof(tensors *));
    if (!s->part)
        return kvt_fail_memory(err, (size_t)n * sizeof(tensors *));
    for (int i = 0; i < n; i++)
        if (!has(s->folder, name[i]))
            return kvt_fail(err, KVT_FORMAT, "part '%.100s', which '%s' names, is missing",
                            name[i], index_name);
    for (int i = 0; i < n; i++)
        if (open_part(s, name[i], err))
            return err->code;
    if (check_map(s, map, name, err))
        return kvt_within(err, "'%s'", index_name);
    return add_parts(s, err);
}

static kvt_code open_index(checkpoint *s, kvt_err *err)
{
    char path[PATH];
    json_t *top = NULL;
    const char **name = NULL;
    int n = 0;
    if (file_join(path, sizeof path, s->folder, index_name, err) ||
        json_read_file(&top, path, err))
        return err->code;
    const json_t *map = json_object_get(top, "weight_map");
    kvt_code code;
    if (!json_is_object(map))
        code = kvt_fail(err, KVT_FORMAT, "'%s': expected an object weight_map", index_name);
    else if (part_names(&name, &n, map, err))
        code = kvt_within(err, "'%s'", index_name);
    else
        code = open_listed(s, map, name, n, err);
    kvt_free(name);
    json_decref(top);
    return code;
}

static kvt_code open_whole(checkpoint *s, kvt_err *err)
{
    s->part = kvt_alloc(1, sizeof(tensors *));
    if (!s->part)
        return kvt_fail_memory(err, sizeof(tensors *));
    if (open_part(s, whole_name, err))
        return err->code;
    return add_parts(s, err);
}

/* ---- all of it -----------------------------------------------------------------------------
 */

/* The folder's own name, or ORG/NAME of a cache's models--ORG--NAME/snapshots/HASH. */
static void set_name(kvt_geometry *g, const char *path)
{
    char name[PATH];
    const char *cache = strstr(path, "models--"), *snapshots = strstr(path, "/snapshots/");
    if (cache && snapshots && snapshots > cache) {
        snprintf(name, sizeof name, "%.*s", (int)(snapshots - cache - 8), cache + 8);
        char *dashes = strstr(name, "--");
        if (dashes) {
            *dashes = '/';
            memmove(dashes + 1, dashes + 2, strlen(dashes + 2) + 1);
        }
    } else {
        size_t n = strlen(path);
        while (n > 1 && path[n - 1] == '/')
            n--;
        snprintf(name, sizeof name, "%.*s", (int)n, path);
        memmove(name, file_base(name), strlen(file_base(name)) + 1);
    }
    text_safe_cut(g->name, sizeof g->name, (const uint8_t *)name, strlen(name),
                  (int)sizeof g->name - 1, false);
}

/* A tied flag and an lm_head are two statements of one fact. */
static kvt_code check_tied(const checkpoint *s, kvt_err *err)
{
    char name[CHECKPOINT_NAME];
    bool there = checkpoint_find(s, TENSOR_LM_HEAD, 0, name) != NULL;
    if (there && s->geometry.tied)
        return kvt_fail(err, KVT_FORMAT,
                        "config.json says tie_word_embeddings true, but tensor '%s' is there",
                        name);
    if (!there && !s->geometry.tied)
        return kvt_fail(
            err, KVT_FORMAT,
            "config.json says tie_word_embeddings false, but tensor '%s' is missing", name);
    return KVT_OK;
}

static void set_prefix(checkpoint *s, bool nested)
{
    s->prefix = "";
    if (nested && checkpoint_named(s, "language_model.model.embed_tokens.weight"))
        s->prefix = "language_model.";
    s->is_inside = nested && checkpoint_named(s, "model.language_model.embed_tokens.weight");
}

static kvt_code fill(checkpoint *s, kvt_err *err)
{
    char path[PATH];
    config_model m;
    if (!has(s->folder, "config.json"))
        return no_model(s->folder, "config.json", err);
    if (file_join(path, sizeof path, s->folder, "config.json", err) ||
        config_read(&m, path, err))
        return err->code;
    s->arch = m.arch;
    s->geometry = m.geometry;
    set_name(&s->geometry, s->folder);
    if (!has(s->folder, index_name) && !has(s->folder, whole_name))
        return no_model(s->folder, whole_name, err);
    if (has(s->folder, index_name) ? open_index(s, err) : open_whole(s, err))
        return err->code;
    set_prefix(s, m.nested);
    return check_tied(s, err);
}

kvt_code checkpoint_folder(checkpoint *s, const char *path, kvt_err *err)
{
    s->folder = kvt_copy_text(path);
    if (!s->folder)
        return kvt_fail_memory(err, strlen(path) + 1);
    return fill(s, err) ? checkpoint_within(err, path) : KVT_OK;
}
