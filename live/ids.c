/* ids.c - which tokens each kind of probe runs. */
#include "live/live_priv.h"

#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "base/file.h"
#include "base/json.h"
#include "kvt/arena.h"

enum { TEXT_LIMIT = 64 << 20, OVERLAP = 8 };

kvt_code rows_push(rows *r, int32_t id, kvt_err *err)
{
    if (r->n == r->cap) {
        int64_t cap = r->cap ? 2 * r->cap : 64;
        int32_t *grown = kvt_resize(r->id, r->cap, cap, sizeof *grown);
        if (!grown)
            return kvt_fail_memory(err, (size_t)cap * sizeof *grown);
        r->id = grown;
        r->cap = cap;
    }
    r->id[r->n++] = id;
    return KVT_OK;
}

void rows_free(rows *r)
{
    kvt_free(r->id);
    kvt_free(r->pos);
    kvt_free(r->segment);
    kvt_free(r->begin);
    kvt_free(r->end);
    kvt_free(r->from);
    *r = (rows){0};
}

void rows_digest(const rows *r, char out[KVT_DIGEST_TEXT])
{
    digest_of(r->id, (size_t)r->n * sizeof *r->id, out);
}

static kvt_code push_all(rows *r, const int32_t *id, int64_t n, kvt_err *err)
{
    for (int64_t i = 0; i < n; i++)
        if (rows_push(r, id[i], err))
            return err->code;
    return KVT_OK;
}

/* Tokens of a text, without a BOS and without special tokens. */
static kvt_code encode(rows *r, const kvt_model *m, const char *text, size_t n, kvt_err *err)
{
    token_list list;
    token_list_init(&list);
    kvt_code code = tokenizer_encode(model_tokenizer(m), &list, text, n, NULL, 0, false, err);
    if (!code)
        code = push_all(r, list.id, list.n, err);
    token_list_fini(&list);
    return code;
}

/* ---- repeat: the prompt again, in chunks ---------------------------------------------------
 */

/* Tokens of the template and the system prompt in front of what is repeated. */
static int64_t prefix_of(const kvt_prompt *p)
{
    int64_t n = 0;
    while (n < p->n_prompt && (p->flag[n] & (KVT_TOKEN_TEMPLATE | KVT_TOKEN_SYSTEM)))
        n++;
    return n < p->n_prompt ? n : 0;
}

/* The template's tokens at the end: what begins an answer. */
static int64_t suffix_of(const kvt_prompt *p)
{
    int64_t n = 0;
    while (n < p->n_prompt && (p->flag[p->n_prompt - 1 - n] & KVT_TOKEN_TEMPLATE))
        n++;
    return n < p->n_prompt ? n : 0;
}

static kvt_code push_segment(rows *r, const kvt_model *m, const kvt_prompt *p, int64_t begin,
                             int64_t end, kvt_err *err)
{
    /* The instructions of the published code; all rows behind them, and their own, count. */
    static const char first[] = "\n\nRepeat the previous context exactly.",
                      next[] = "\n\nRepeat the part of the previous context exactly, "
                               "starting with ";
    int s = r->n_segment++;
    r->from[s] = (int32_t)r->n;
    int64_t n_suffix = suffix_of(p);
    bool is_first = s == 0;
    kvt_code code = encode(r, m, is_first ? first : next,
                           is_first ? sizeof first - 1 : sizeof next - 1, err);
    if (!code && !is_first) {
        int64_t n = begin - r->begin[0] < OVERLAP ? begin - r->begin[0] : OVERLAP;
        code = push_all(r, p->id + begin - n, n, err);
    }
    if (!code)
        code = push_all(r, p->id + p->n_prompt - n_suffix, n_suffix, err);
    r->begin[s] = (int32_t)begin;
    r->end[s] = (int32_t)end;
    if (!code)
        code = push_all(r, p->id + begin, end - begin, err);
    return code;
}

/* Positions and segments of all rows: each segment begins behind the prompt. */
static kvt_code place(rows *r, const int64_t *start, int64_t n_prompt, kvt_err *err)
{
    r->pos = kvt_alloc(r->n, sizeof *r->pos);
    r->segment = kvt_alloc(r->n, sizeof *r->segment);
    if (!r->pos || !r->segment)
        return kvt_fail_memory(err, (size_t)r->n * sizeof *r->pos);
    for (int s = 0; s < r->n_segment; s++) {
        int64_t end = s + 1 < r->n_segment ? start[s + 1] : r->n;
        for (int64_t i = start[s]; i < end; i++) {
            r->segment[i] = s;
            r->pos[i] = (int32_t)(n_prompt + i - start[s]);
        }
    }
    return KVT_OK;
}

static kvt_code repeat(rows *r, const wish *w, const kvt_model *m, const kvt_prompt *p,
                       kvt_err *err)
{
    int64_t from = prefix_of(p), n = (p->n_prompt - from + w->number - 1) / w->number;
    int64_t *start = kvt_alloc(n, sizeof *start);
    r->begin = kvt_alloc(n, sizeof *r->begin);
    r->end = kvt_alloc(n, sizeof *r->end);
    r->from = kvt_alloc(n, sizeof *r->from);
    kvt_code code = start && r->begin && r->end && r->from
                        ? KVT_OK
                        : kvt_fail_memory(err, (size_t)n * sizeof *start);
    for (int64_t s = 0; !code && s < n; s++) {
        int64_t begin = from + s * w->number, end = begin + w->number;
        start[s] = r->n;
        code = push_segment(r, m, p, begin, end < p->n_prompt ? end : p->n_prompt, err);
    }
    if (!code)
        code = place(r, start, p->n_prompt, err);
    kvt_free(start);
    return code;
}

/* ---- fixed rows ----------------------------------------------------------------------------
 */

static kvt_code response(rows *r, const wish *w, const kvt_prompt *p, kvt_err *err)
{
    int64_t n = p->n_response < w->number ? p->n_response : w->number;
    if (n < 1)
        return kvt_fail(err, KVT_FORMAT, "suffix:response needs a response, and there is none");
    return push_all(r, p->id + p->n_prompt, n, err);
}

kvt_code rows_of(rows *out, const wish *w, const kvt_model *m, const kvt_prompt *prompt,
                 kvt_err *err)
{
    kvt_code code;
    *out = (rows){0};
    if (w->kind == KVT_PROBE_REPEAT)
        code = repeat(out, w, m, prompt, err);
    else if (w->kind == KVT_PROBE_SUFFIX && !w->id)
        code = response(out, w, prompt, err);
    else
        code = push_all(out, w->id, w->n_id < w->number ? w->n_id : w->number, err);
    if (code)
        rows_free(out);
    return code;
}

/* ---- sources -------------------------------------------------------------------------------
 */

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n > m && strcmp(text + n - m, end) == 0;
}

static kvt_code ids_of_text(rows *r, const wish *w, const kvt_model *m, kvt_err *err)
{
    buf b;
    buf_init(&b, TEXT_LIMIT);
    kvt_code code = file_read(&b, w->source, TEXT_LIMIT, err);
    if (!code)
        code = encode(r, m, buf_get(&b), b.n, err);
    buf_fini(&b);
    return code;
}

static kvt_code ids_of_trace(rows *r, const wish *w, const kvt_model *m, kvt_err *err)
{
    kvt_trace *t;
    kvt_view id;
    if (kvt_trace_open(&t, w->source, 0, err))
        return err->code;
    const kvt_trace_facts *f = &kvt_trace_info_of(t)->facts;
    kvt_code code = KVT_OK;
    kvt_model_id of_trace = kvt_model_id_of(f), mine;
    if (!model_header_only(m) && !(code = kvt_model_digest(m, &mine, NULL, err)) &&
        !kvt_model_id_same(&mine, &of_trace))
        code =
            kvt_fail(err, KVT_FORMAT, "it was captured with another model (%s)", f->model.name);
    if (!code)
        code = kvt_trace_read(t, KVT_DS_TOKEN_ID, 0, &id, err);
    if (!code) {
        code =
            push_all(r, (const int32_t *)id.data + f->token.n_prompt, f->token.n_response, err);
        kvt_trace_done(t, &id);
    }
    kvt_trace_close(t);
    return code;
}

static kvt_code ids_of_json(rows *r, const wish *w, const kvt_model *m, kvt_err *err)
{
    json_t *list;
    kvt_code code = json_read_file(&list, w->source, err);
    if (code)
        return code;
    int64_t n_vocab = kvt_model_geometry(m)->n_vocab;
    if (!json_is_array(list))
        code = kvt_fail(err, KVT_FORMAT, "expected an array of token ids");
    for (size_t i = 0; !code && i < json_array_size(list); i++) {
        const json_t *x = json_array_get(list, i);
        if (!json_is_integer(x) || json_integer_value(x) < 0 ||
            json_integer_value(x) >= n_vocab)
            code = kvt_fail(err, KVT_FORMAT, "item %zu: expected a token id below %lld", i,
                            (long long)n_vocab);
        else
            code = rows_push(r, (int32_t)json_integer_value(x), err);
    }
    json_decref(list);
    return code;
}

static kvt_code open_ids(wish *w, const kvt_model *m, kvt_err *err)
{
    rows r = {0};
    kvt_code code;
    if (w->kind == KVT_PROBE_SPECDRAFT)
        code = ids_of_json(&r, w, m, err);
    else if (ends_with(w->source, ".h5"))
        code = ids_of_trace(&r, w, m, err);
    else
        code = ids_of_text(&r, w, m, err);
    if (!code && !r.n)
        code = kvt_fail(err, KVT_FORMAT, "it holds no token");
    if (code) {
        rows_free(&r);
        return strstr(err->text, w->source) ? code : kvt_within(err, "'%s'", w->source);
    }
    w->id = r.id;
    w->n_id = r.n;
    return KVT_OK;
}

static kvt_code open_adapter(wish *w, const kvt_model *m, kvt_err *err)
{
    const char *kind = kvt_probe_kind_name(w->kind);
    kvt_model_id id;
    if (kvt_model_digest(m, &id, NULL, err) ||
        adapter_open(&w->learned, w->source, kvt_model_geometry(m),
                     model_header_only(m) ? NULL : &id, err))
        return err->code;
    if (strcmp(w->learned->kind, kind) != 0)
        return kvt_fail(err, KVT_FORMAT, "adapter '%s': expected kind %s, got %s", w->source,
                        kind, w->learned->kind);
    return KVT_OK;
}

static kvt_code open_second(wish *w, const kvt_model *m, const kvt_ctx *ctx, kvt_err *err)
{
    kvt_model_options o = {.device = model_asked(m), .header_only = model_header_only(m)};
    if (kvt_model_open(&w->second, w->source, &o, ctx, err))
        return err->code;
    return second_check(w->second, m, err) ? kvt_within(err, "model '%s'", w->source) : KVT_OK;
}

static kvt_code open_source(wish *w, const kvt_model *m, const kvt_ctx *ctx, kvt_err *err)
{
    switch (w->kind) {
    case KVT_PROBE_LOOKAHEADKV:
    case KVT_PROBE_JUDGEQ: return open_adapter(w, m, err);
    case KVT_PROBE_SPECDRAFT:
        return ends_with(w->source, ".json") ? open_ids(w, m, err)
                                             : open_second(w, m, ctx, err);
    case KVT_PROBE_SUFFIX:
        return strcmp(w->source, "response") == 0 ? KVT_OK : open_ids(w, m, err);
    default: return KVT_OK;
    }
}

kvt_code wish_open(wish *w, const kvt_model *m, const kvt_ctx *ctx, kvt_err *err)
{
    return open_source(w, m, ctx, err) ? kvt_within(err, "probe '%s'", w->name) : KVT_OK;
}

void wish_close(wish *w)
{
    adapter_close(w->learned);
    kvt_model_close(w->second);
    kvt_free(w->id);
    *w = (wish){0};
}
