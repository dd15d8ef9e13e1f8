/* content.c - the digest of a trace's content (described in dataset.h). */
#include "traces/dataset.h"

#include "base/digest.h"

#include <stdio.h>
#include <string.h>

static void add_int(digest *d, int64_t x)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)x);
    digest_add_text(d, text);
}

/* By its bits: a text form would have to be the same in every version. */
static void add_real(digest *d, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    add_int(d, (int64_t)bits);
}

static void add_attr(digest *d, const trace_attr *a, const kvt_trace_facts *f)
{
    const char *at = (const char *)f + a->offset;
    digest_add_text(d, a->group);
    digest_add_text(d, a->name);
    int64_t i;
    uint64_t u;
    double r;
    switch (a->kind) {
    case ATTR_TEXT: digest_add_text(d, at); break;
    case ATTR_LEVEL: digest_add_text(d, kvt_level_name(f->level)); break;
    case ATTR_BOOL: add_int(d, *(const bool *)at); break;
    case ATTR_INT: memcpy(&i, at, sizeof i), add_int(d, i); break;
    case ATTR_U64: memcpy(&u, at, sizeof u), add_int(d, (int64_t)u); break;
    case ATTR_REAL: memcpy(&r, at, sizeof r), add_real(d, r); break;
    }
}

kvt_code content_digest(char out[KVT_DIGEST_TEXT], const trace_content *c, kvt_err *err)
{
    int n_attr;
    const trace_attr *attr = trace_attrs(&n_attr);
    const kvt_trace_facts *f = c->facts;
    digest *d = digest_new();
    if (!d)
        return kvt_fail_memory(err, 1024);
    digest_add_text(d, "kvt-trace 1");
    for (int i = 0; i < n_attr; i++)
        if (!attr[i].run && (f->decision_policy[0] || strcmp(attr[i].group, "decision") != 0))
            add_attr(d, &attr[i], f);
    for (int64_t l = 0; l < f->model.n_layer; l++)
        add_int(d, f->model.window[l]);
    for (int64_t i = 0; i < f->model.head_dim / 2; i++)
        add_real(d, f->model.rope_freq[i]);
    for (int i = 0; i < f->n_span; i++) {
        digest_add_text(d, f->span[i].name);
        add_int(d, f->span[i].begin);
        add_int(d, f->span[i].end);
    }
    for (int ds = 0; ds < KVT_DS_COUNT; ds++) {
        if (!c->n_slab[ds] ||
            ds == KVT_DS_ROWS) /* a cache: the same trace with it and without */
            continue;
        const kvt_dataset *s = kvt_dataset_of((kvt_ds)ds);
        digest_add_text(d, s->path);
        digest_add_text(d, kvt_dtype_name(s->dtype));
        digest_add_text(d, s->axes);
        for (size_t i = 0; i < strlen(s->axes); i++)
            add_int(d, c->dim[ds][i]);
        for (int64_t i = 0; i < c->n_slab[ds]; i++)
            digest_add_text(d, c->slab[ds][i]);
    }
    digest_get(d, out);
    digest_free(d);
    return KVT_OK;
}
