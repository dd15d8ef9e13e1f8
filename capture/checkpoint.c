/* checkpoint.c - a model's tensors by what they are, from a GGUF file or from a folder. */
#include "capture/checkpoint_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/pages.h"
#include "capture/tokenizer.h"
#include "compute/quant.h"
#include "kvt/arena.h"

kvt_code checkpoint_reserve(checkpoint *s, int64_t n, kvt_err *err)
{
    s->tensor = kvt_alloc(n, sizeof *s->tensor);
    return s->tensor ? KVT_OK : kvt_fail_memory(err, (size_t)n * sizeof *s->tensor);
}

static int by_name(const void *a, const void *b)
{
    const checkpoint_tensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

void checkpoint_sort(checkpoint *s)
{
    qsort(s->tensor, (size_t)s->n_tensor, sizeof *s->tensor, by_name);
}

const checkpoint_tensor *checkpoint_named(const checkpoint *s, const char *name)
{
    const checkpoint_tensor key = {.name = name};
    return bsearch(&key, s->tensor, (size_t)s->n_tensor, sizeof *s->tensor, by_name);
}

/* ---- opening -------------------------------------------------------------------------------
 */

static kvt_code fill_gguf(checkpoint *s, kvt_err *err)
{
    int64_t n = gguf_n_tensor(s->g);
    if (arch_of(&s->arch, s->g, err) || arch_geometry(&s->geometry, s->arch, s->g, err) ||
        checkpoint_reserve(s, n, err))
        return err->code;
    for (int64_t i = 0; i < n; i++) {
        const gguf_tensor *t = gguf_tensor_at(s->g, i);
        checkpoint_tensor *to = &s->tensor[s->n_tensor++];
        *to = (checkpoint_tensor){.name = t->name,
                                  .type = t->type,
                                  .n_dim = t->n_dim,
                                  .n_weight = t->n_weight,
                                  .n_byte = t->n_byte,
                                  .data = t->data};
        memcpy(to->dim, t->dim, sizeof to->dim);
    }
    checkpoint_sort(s);
    s->bytes = gguf_n_byte(s->g);
    return KVT_OK;
}

kvt_code checkpoint_of_gguf(checkpoint **out, const gguf *g, kvt_err *err)
{
    *out = NULL;
    checkpoint *s = kvt_alloc(1, sizeof *s);
    if (!s)
        return kvt_fail_memory(err, sizeof *s);
    s->g = g;
    if (fill_gguf(s, err)) {
        checkpoint_close(s);
        return err->code;
    }
    *out = s;
    return KVT_OK;
}

/* Messages have paths in quotes; a short path may be a word of any of them. */
kvt_code checkpoint_within(kvt_err *err, const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    for (const char *at = strchr(err->text, '\''); at; at = strchr(at + 1, '\''))
        if (strncmp(at + 1, path, n) == 0 && (at[1 + n] == '\'' || at[1 + n] == '/'))
            return err->code;
    return kvt_within(err, "'%s'", path);
}

/* "Qwen/Qwen3-0.6B": two words and a slash, and nothing of that name here. */
static kvt_code check_there(const char *path, kvt_err *err)
{
    const char *slash = strchr(path, '/');
    if (file_exists(path))
        return KVT_OK;
    if (slash && slash > path && slash[1] && !strchr(slash + 1, '/') && path[0] != '.' &&
        path[0] != '~' && !strstr(path, ".gguf"))
        return kvt_fail(err, KVT_NOTFOUND,
                        "'%s': no such file or folder. Models are not fetched by their names: "
                        "give the folder with config.json, in a cache of Hugging Face "
                        "models--%.*s--%s/snapshots/...",
                        path, (int)(slash - path), path, slash + 1);
    return KVT_OK; /* what opens it says it */
}

/* One of the files of a folder, given in place of it. */
static kvt_code check_whole(const char *path, kvt_err *err)
{
    const char *end = strrchr(path, '.');
    if (!end || (strcmp(end, ".safetensors") != 0 && strcmp(end, ".json") != 0) ||
        file_is_dir(path))
        return KVT_OK;
    return kvt_fail(err, KVT_FORMAT, "'%s': is one file of a model: give the folder it lies in",
                    path);
}

kvt_code checkpoint_open(checkpoint **out, const char *path, kvt_err *err)
{
    *out = NULL;
    if (check_there(path, err) || check_whole(path, err))
        return err->code;
    checkpoint *s = kvt_alloc(1, sizeof *s);
    if (!s)
        return kvt_fail_memory(err, sizeof *s);
    kvt_code code;
    if (file_is_dir(path)) {
        code = checkpoint_folder(s, path, err);
    } else {
        code = arch_open(&s->owned, path, err);
        s->g = s->owned;
        if (!code && fill_gguf(s, err))
            code = kvt_within(err, "'%s'", path);
    }
    if (code)
        checkpoint_close(s);
    else
        *out = s;
    return code;
}

void checkpoint_close(checkpoint *s)
{
    if (!s)
        return;
    gguf_close(s->owned);
    for (int i = 0; i < s->n_part; i++)
        tensors_close(s->part[i]);
    kvt_free(s->part);
    kvt_free(s->folder);
    kvt_free(s->tensor);
    kvt_free(s);
}

/* ---- what is asked -------------------------------------------------------------------------
 */

const arch *checkpoint_arch(const checkpoint *s)
{
    return s->arch;
}

const kvt_geometry *checkpoint_geometry(const checkpoint *s)
{
    return &s->geometry;
}

bool checkpoint_is_permuted(const checkpoint *s)
{
    return s->g && s->arch->is_permuted;
}

bool checkpoint_lacks_one(const checkpoint *s)
{
    return !s->g && s->arch->post_norm;
}

int64_t checkpoint_n_tensor(const checkpoint *s)
{
    return s->n_tensor;
}

const checkpoint_tensor *checkpoint_tensor_at(const checkpoint *s, int64_t i)
{
    return &s->tensor[i];
}

const checkpoint_tensor *checkpoint_find(const checkpoint *s, tensor_id id, int64_t layer,
                                         char name[CHECKPOINT_NAME])
{
    char plain[KEY_TEXT];
    if (s->g)
        snprintf(name, CHECKPOINT_NAME, "%s", key_tensor(plain, id, layer));
    else if (s->is_inside &&
             strncmp(key_tensor_hf(plain, s->arch, id, layer), "model.", 6) == 0)
        snprintf(name, CHECKPOINT_NAME, "model.language_model.%s", plain + 6);
    else
        snprintf(name, CHECKPOINT_NAME, "%s%s", s->prefix,
                 key_tensor_hf(plain, s->arch, id, layer));
    return checkpoint_named(s, name);
}

bool checkpoint_is_beside(const checkpoint *s, const checkpoint_tensor *t)
{
    static const char *const other[] = {"vision_tower.", "multi_modal_projector.",
                                        "model.vision_tower.", "model.multi_modal_projector."};
    if (s->g)
        return strcmp(t->name, "rope_freqs.weight") == 0;
    bool nested = s->prefix[0] || s->is_inside;
    for (size_t i = 0; nested && i < sizeof other / sizeof *other; i++)
        if (strncmp(t->name, other[i], strlen(other[i])) == 0)
            return true;
    return checkpoint_ends_with(t->name, ".rotary_emb.inv_freq");
}

static const uint8_t *file_bytes(const checkpoint *s, int i, size_t *n)
{
    return s->g ? gguf_part_bytes(s->g, i, n) : tensors_bytes(s->part[i], n);
}

kvt_code checkpoint_digest(const checkpoint *s, char out[DIGEST_TEXT], kvt_err *err)
{
    enum { STEP = 1 << 20 };
    int n_file = s->g ? gguf_n_part(s->g) : s->n_part;
    digest *d = digest_new();
    if (!d)
        return kvt_fail_memory(err, 1);
    for (int i = 0; i < n_file; i++) {
        size_t n = 0;
        const uint8_t *bytes = file_bytes(s, i, &n);
        for (size_t at = 0; at < n; at += STEP) {
            size_t step = n - at < STEP ? n - at : STEP;
            digest_add(d, bytes + at, step);
            checkpoint_drop(s, bytes + at, (int64_t)step);
        }
    }
    digest_get(d, out);
    digest_free(d);
    return KVT_OK;
}

void checkpoint_drop(const checkpoint *s, const void *data, int64_t n_byte)
{
    if (!s->g || gguf_is_mapped(s->g))
        pages_drop(data, (size_t)n_byte);
}

typedef struct count {
    int type;
    int64_t n;
} count;

static int most_first(const void *a, const void *b)
{
    const count *x = a, *y = b;
    if (x->n != y->n)
        return x->n > y->n ? -1 : 1;
    return (x->type > y->type) - (x->type < y->type);
}

const char *checkpoint_summary(const checkpoint *s, char *out, size_t cap)
{
    enum { TYPES = 64 }; /* above every number of quants.def */
    count counts[TYPES];
    size_t used = 0;
    for (int t = 0; t < TYPES; t++)
        counts[t] = (count){t, 0};
    for (int64_t i = 0; i < s->n_tensor; i++)
        if (s->tensor[i].type >= 0 && (s->g || !checkpoint_is_beside(s, &s->tensor[i])))
            counts[s->tensor[i].type].n++;
    qsort(counts, TYPES, sizeof counts[0], most_first);
    snprintf(out, cap, "none");
    for (int t = 0; t < TYPES && counts[t].n > 0 && used < cap; t++) {
        int n = snprintf(out + used, cap - used, "%s%s %" PRId64, t > 0 ? ", " : "",
                         quant_find(counts[t].type)->name, counts[t].n);
        used += (size_t)n;
    }
    return out;
}

int64_t checkpoint_bytes(const checkpoint *s)
{
    return s->bytes;
}

kvt_code checkpoint_tokenizer(tokenizer **out, const checkpoint *s, const char *pre,
                              kvt_err *err)
{
    if (s->g)
        return tokenizer_open(out, s->g, pre, err);
    return tokenizer_open_folder(out, s->folder, pre, err);
}
