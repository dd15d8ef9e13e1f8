/* probe_draft.c - a probe that writes its own rows, one by one. */
#include "capture/probe_priv.h"

#include <string.h>

/* The likeliest token, the lower one among equals. */
static int32_t likeliest(const float *logit, int64_t n)
{
    int64_t best = 0;
    for (int64_t v = 1; v < n; v++)
        if (logit[v] > logit[best])
            best = v;
    return (int32_t)best;
}

/* Arrays with room for cap rows become arrays of n rows. */
static void close_up(probe_out *o, const probe_state *s, int64_t n)
{
    const kvt_geometry *g = s->g;
    int64_t d = g->head_dim, L = g->n_layer, cap = s->cap;
    for (int64_t i = 0; i < L * g->n_head; i++) {
        memmove(o->q + i * n * d, o->q + i * cap * d, (size_t)(n * d) * sizeof *o->q);
        memmove(o->lse + i * n, o->lse + i * cap, (size_t)n * sizeof *o->lse);
    }
    for (int64_t i = 0; i < L * g->n_kv_head; i++)
        memmove(o->k + i * n * d, o->k + i * cap * d, (size_t)(n * d) * sizeof *o->k);
    for (int64_t i = 0; i < L; i++)
        memmove(o->norm + i * n, o->norm + i * cap, (size_t)n * sizeof *o->norm);
    o->n_row = n;
}

kvt_code probe_draft(probe_out *out, const probe_pass *p, int32_t first, int64_t n,
                     bool (*is_stop)(const void *user, int32_t id), const void *user,
                     kvt_err *err)
{
    probe_state s;
    int32_t id = first;
    int64_t fed = 0, n_vocab = p->n_vocab;
    kvt_code code = KVT_OK;
    if (p->embed || p->pos || p->segment) {
        *out = (probe_out){0};
        return kvt_fail(err, KVT_USAGE, "a draft takes neither embeddings nor places");
    }
    code = probe_begin(&s, p, out, n, true, err);
    if (!n_vocab)
        n_vocab = p->weights->geometry.n_vocab;
    while (!code && fed < n && (fed == 0 || !is_stop || !is_stop(user, id))) {
        bool more = fed + 1 < n;
        code = probe_embed(&s, fed, id, err);
        if (!code)
            code = probe_rows(&s, 1, more, err);
        if (!code && more)
            id = likeliest(s.logit, n_vocab);
        fed++;
    }
    if (!code) {
        memcpy(out->pos, s.pos, (size_t)fed * sizeof *s.pos);
        memcpy(out->id, s.id, (size_t)fed * sizeof *s.id);
        close_up(out, &s, fed);
    }
    probe_end(&s);
    if (code)
        probe_out_free(out);
    return code;
}
