/* model.c - opening a model: weights, tokenizer, back end. */
#include "capture/model.h"

#include "capture/capture_priv.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "capture/checkpoint.h"
#include "capture/pre.h"
#include "kvt/arena.h"

/* A name that the caller gave, not the file. */
static kvt_code check_pre(const char *pre, kvt_err *err)
{
    char names[320];
    if (!pre || pre_find(pre))
        return KVT_OK;
    return kvt_fail(err, KVT_USAGE, "pre-tokenizer '%.60s': expected one of %s", pre,
                    pre_names(names, sizeof names));
}

kvt_code kvt_model_open(kvt_model **out, const char *path, const kvt_model_options *options,
                        const kvt_ctx *ctx, kvt_err *err)
{
    static const kvt_model_options plain;
    const kvt_model_options *o = options ? options : &plain;
    checkpoint *s = NULL;
    *out = NULL;
    if (check_pre(o->pre, err))
        return err->code;
    kvt_model *m = kvt_alloc(1, sizeof *m);
    if (!m)
        return kvt_fail_memory(err, sizeof *m);
    m->header_only = o->header_only;
    snprintf(m->asked, sizeof m->asked, "%s", o->device ? o->device : "auto");
    m->f32 = o->f32;
    kvt_code code = kvt_backend_open(&m->backend, o->device, ctx, err);
    if (code) {
        kvt_model_close(m);
        return code;
    }
    code = checkpoint_open(&s, path, err);
    if (!code)
        code = kvt_weights_load(
            &m->weights, s,
            &(kvt_weights_options){.header_only = o->header_only, .f32 = o->f32}, ctx, err);
    if (!code)
        code = checkpoint_tokenizer(&m->tokenizer, s, o->pre, err);
    checkpoint_close(s);
    if (!code && tokenizer_count(m->tokenizer) > m->weights->geometry.n_vocab)
        code = kvt_fail(
            err, KVT_FORMAT, "the tokenizer has %lld tokens, the embedding %lld rows",
            (long long)tokenizer_count(m->tokenizer), (long long)m->weights->geometry.n_vocab);
    if (!code)
        code = model_upload(m, err);
    if (code) {
        kvt_model_close(m);
        return checkpoint_within(err, path);
    }
    memcpy(m->id.file, m->weights->digest, sizeof m->id.file);
    *out = m;
    return KVT_OK;
}

kvt_code model_upload(kvt_model *m, kvt_err *err)
{
    if (!m->backend->device || m->header_only)
        return KVT_OK;
    return device_weights_new(&m->device, m->backend->device, m->weights, err);
}

void kvt_model_close(kvt_model *m)
{
    if (!m)
        return;
    device_weights_free(m->device);
    tokenizer_free(m->tokenizer);
    kvt_weights_free(m->weights);
    kvt_backend_close(m->backend);
    kvt_free(m);
}

const kvt_geometry *kvt_model_geometry(const kvt_model *m)
{
    return &m->weights->geometry;
}

static int64_t matrix_bytes(const kvt_matrix *m)
{
    return m->n_row * m->row_bytes;
}

void kvt_model_bytes(const kvt_model *m, int64_t *layers, int64_t *head, int64_t *all)
{
    const kvt_weights *w = m->weights;
    *layers = 0;
    for (int64_t l = 0; l < w->geometry.n_layer; l++) {
        const kvt_weights_layer *y = &w->layer[l];
        *layers += matrix_bytes(&y->wq) + matrix_bytes(&y->wk) + matrix_bytes(&y->wv) +
                   matrix_bytes(&y->wo) + matrix_bytes(&y->gate) + matrix_bytes(&y->up) +
                   matrix_bytes(&y->down);
    }
    *head = matrix_bytes(&w->lm_head);
    *all = w->bytes;
}

kvt_code kvt_model_digest(const kvt_model *m, kvt_model_id *out, const kvt_ctx *ctx,
                          kvt_err *err)
{
    kvt_model *own = (kvt_model *)(uintptr_t)m; /* what is computed once is no change of it */
    kvt_code code = KVT_OK;
    if (m->header_only) {
        *out = (kvt_model_id){"", ""};
        return KVT_OK;
    }
#pragma omp critical(kvt_model_digest)
    {
        char seen[DIGEST_TEXT] = "";
        if (!own->id.weights[0] && !(code = kvt_weights_digest(m->weights, seen, ctx, err)))
            memcpy(own->id.weights, seen, sizeof own->id.weights);
        *out = own->id;
    }
    return code;
}

const kvt_weights *model_weights(const kvt_model *m)
{
    return m->weights;
}

const kvt_backend *model_backend(const kvt_model *m)
{
    return m->backend;
}

const char *model_asked(const kvt_model *m)
{
    return m->asked;
}

const device_weights *model_device(const kvt_model *m)
{
    return m->device;
}

tokenizer *model_tokenizer(const kvt_model *m)
{
    return m->tokenizer;
}

bool model_header_only(const kvt_model *m)
{
    return m->header_only;
}

kvt_code kvt_model_tokenize(const kvt_model *m, const char *text, size_t n_byte,
                            bool parse_special, int32_t **ids, int64_t *n, kvt_err *err)
{
    token_list list;
    token_list_init(&list);
    *ids = NULL;
    kvt_code code = tokenizer_encode(m->tokenizer, &list, text, n_byte,
                                     &(tokenizer_range){.begin = 0, .end = n_byte},
                                     parse_special, true, err);
    if (!code) {
        *n = list.n;
        *ids = kvt_alloc(list.n, sizeof **ids);
        if (!*ids)
            code = kvt_fail_memory(err, (size_t)list.n * sizeof **ids);
        else if (list.n)
            memcpy(*ids, list.id, (size_t)list.n * sizeof **ids);
    }
    token_list_fini(&list);
    return code;
}
