/* access.c - what is asked of an open trace besides its arrays: text, sequence, needs, and the
 * look at a finished file that resume takes. */
#include "traces/trace_priv.h"

#include "traces/io.h"

#include <stdio.h>
#include <string.h>

#include "kvt/need.h"

int kvt_trace_shape(const kvt_trace *t, kvt_ds ds, int64_t dim[KVT_RANK_MAX])
{
    if (!t->info.has[ds])
        return 0;
    memcpy(dim, t->set[ds].dim, sizeof t->set[ds].dim);
    return t->set[ds].rank;
}

/* A dataset that stays until close: its view is never given back. Asked for twice by two
 * threads, both hold the same slab. */
static kvt_code keep(kvt_trace *t, kvt_ds ds, const void **data, int64_t *n, kvt_err *err)
{
    kvt_view v;
    if (kvt_trace_read(t, ds, 0, &v, err))
        return err->code;
    *data = v.data;
    *n = v.dim[0];
    return KVT_OK;
}

kvt_code kvt_trace_token_text(kvt_trace *t, int64_t token, const uint8_t **bytes,
                              int64_t *n_byte, kvt_err *err)
{
    *bytes = NULL;
    *n_byte = 0;
    if (token < 0 || token >= t->info.n_token)
        return kvt_fail(err, KVT_NOTFOUND, "'%s': token %lld of %lld", t->info.path,
                        (long long)token, (long long)t->info.n_token);
    if (!t->info.has[KVT_DS_TEXT_BYTES])
        return KVT_OK;
    pthread_mutex_lock(&t->lock);
    const int64_t *offset = t->offset;
    const uint8_t *text = t->text;
    pthread_mutex_unlock(&t->lock);
    if (!offset) {
        const void *o = NULL, *b = NULL;
        int64_t n_offset, n_text;
        if (keep(t, KVT_DS_TOKEN_OFFSET, &o, &n_offset, err) ||
            keep(t, KVT_DS_TEXT_BYTES, &b, &n_text, err))
            return err->code;
        pthread_mutex_lock(&t->lock);
        t->offset = offset = o;
        t->text = text = b;
        pthread_mutex_unlock(&t->lock);
    }
    /* Offsets were checked when the trace was opened. */
    *bytes = text + offset[token];
    *n_byte = offset[token + 1] - offset[token];
    return KVT_OK;
}

kvt_code kvt_trace_sequence(kvt_trace *t, kvt_sequence *out, kvt_err *err)
{
    const kvt_trace_facts *f = &t->info.facts;
    const void *id = NULL, *flag = NULL;
    int64_t n;
    memset(out, 0, sizeof *out);
    if (keep(t, KVT_DS_TOKEN_ID, &id, &n, err) || keep(t, KVT_DS_TOKEN_FLAG, &flag, &n, err))
        return err->code;
    out->n_prompt = f->token.n_prompt;
    out->n_response = f->token.n_response;
    out->look_until = f->token.look_until;
    out->id = id;
    out->flag = flag;
    out->span = f->span;
    out->n_span = f->n_span;
    out->geometry = &f->model;
    out->layer_id = t->info.layer_id;
    out->n_layer = t->info.n_layer;
    return KVT_OK;
}

/* ---- needs ---------------------------------------------------------------------------------
 */

/* "a b | c d": one of the lists must be there in full. `missing` gets the first path that the
 * last list lacks. */
static bool gives(const kvt_trace *t, const char *datasets, char *missing, size_t cap)
{
    bool whole = true;
    missing[0] = 0;
    for (const char *p = datasets; *p;) {
        size_t n = strcspn(p, " |");
        char path[64];
        snprintf(path, sizeof path, "%.*s", (int)n, p);
        int ds = kvt_dataset_find(path);
        if (n > 0 && whole && (ds < 0 || !t->info.has[ds])) {
            whole = false;
            if (!missing[0])
                snprintf(missing, cap, "%s", path);
        }
        p += n;
        if (*p == '|') {
            if (whole)
                return true;
            whole = true;
        }
        p += *p != 0;
    }
    return whole;
}

unsigned kvt_trace_lacks(const kvt_trace *t, unsigned needs, char *text, size_t cap)
{
    static const struct {
        const char *what, *datasets;
    } need[KVT_NEED_COUNT] = {
#define KVT_NEED(id, text, datasets) {text, datasets},
#include "traces/needs.def"
#undef KVT_NEED
    };
    unsigned lacks = 0;
    if (cap)
        text[0] = 0;
    for (int i = 0; i < KVT_NEED_COUNT; i++) {
        char missing[64];
        unsigned bit = 1u << i;
        if (!(needs & bit))
            continue;
        bool has = gives(t, need[i].datasets, missing, sizeof missing);
        if (bit == KVT_NEED_PROBE)
            has = t->n_probe > 0;
        if (bit == KVT_NEED_FUTURE && t->info.facts.token.n_response == 0)
            has = false;
        if (has)
            continue;
        if (!lacks && cap)
            snprintf(text, cap,
                     missing[0] ? "needs %s (%s), which this trace lacks"
                                : "needs %s%s, which this trace lacks",
                     need[i].what, missing);
        lacks |= bit;
    }
    return lacks;
}

/* ---- resume -------------------------------------------------------------------------------
 */

typedef struct peek {
    const char *path;
    char *digest;
} peek;

static kvt_code peek_job(void *arg, kvt_err *err)
{
    peek *p = arg;
    hid_t file;
    char format[32];
    int64_t complete = 0;
    if (h5_file_open(&file, p->path, err))
        return err->code;
    kvt_code code = h5_get_text(file, "format", format, sizeof format, err);
    if (!code && strcmp(format, "kvt-trace") != 0)
        code = kvt_fail(err, KVT_FORMAT, "is no trace but '%s'", format);
    if (!code)
        code = h5_get_int(file, "complete", &complete, err);
    if (!code && complete != 1)
        code = kvt_fail(err, KVT_FORMAT, "is not complete");
    if (!code)
        code = h5_get_text(file, "options_digest", p->digest, KVT_DIGEST_TEXT, err);
    h5_file_drop(file);
    return code == KVT_NOTFOUND ? (err->code = KVT_FORMAT) : code;
}

kvt_code kvt_trace_peek(const char *path, char digest[KVT_DIGEST_TEXT], kvt_err *err)
{
    peek p = {.path = path, .digest = digest};
    return io_once(peek_job, &p, err) ? kvt_within(err, "'%s'", path) : KVT_OK;
}
