/* facts.c - kvt_trace_facts to and from the attributes of a file. */
#include "traces/facts.h"

#include <stdio.h>
#include <string.h>

enum { SPAN_NAME = sizeof(((kvt_span *)0)->name), SPANS = 16 };

static kvt_code put_attr(hid_t at, const trace_attr *a, const kvt_trace_facts *f, kvt_err *err)
{
    const char *from = (const char *)f + a->offset;
    uint8_t flag;
    switch (a->kind) {
    case ATTR_TEXT: return h5_put_text(at, a->name, from, err);
    case ATTR_LEVEL: return h5_put_text(at, a->name, kvt_level_name(f->level), err);
    case ATTR_INT: return h5_put_array(at, a->name, H5T_STD_I64LE, -1, from, err);
    case ATTR_U64: return h5_put_array(at, a->name, H5T_STD_U64LE, -1, from, err);
    case ATTR_REAL: return h5_put_array(at, a->name, H5T_IEEE_F64LE, -1, from, err);
    case ATTR_BOOL:
        flag = *(const bool *)from;
        return h5_put_array(at, a->name, H5T_STD_U8LE, -1, &flag, err);
    }
    return KVT_OK;
}

/* Byte ranges, of the text that was tokenized. They are outside the content digest, and not
 * every file has them. */
static kvt_code put_bytes(hid_t at, const kvt_trace_facts *f, kvt_err *err)
{
    int64_t begin[SPANS], end[SPANS];
    for (int i = 0; i < f->n_span; i++) {
        begin[i] = f->span[i].byte_begin;
        end[i] = f->span[i].byte_end;
    }
    if (h5_put_array(at, "prefix_bytes", H5T_STD_I64LE, 2, f->token.prefix_bytes, err) ||
        h5_put_array(at, "system_bytes", H5T_STD_I64LE, 2, f->token.system_bytes, err))
        return err->code;
    if (f->n_span == 0)
        return KVT_OK;
    kvt_code code = h5_put_array(at, "span_byte_begin", H5T_STD_I64LE, f->n_span, begin, err);
    return code ? code : h5_put_array(at, "span_byte_end", H5T_STD_I64LE, f->n_span, end, err);
}

/* n values, or none. */
static kvt_code get_some(hid_t at, const char *name, int64_t n, int64_t *out, kvt_err *err)
{
    int64_t got;
    if (H5Aexists(at, name) <= 0)
        return KVT_OK;
    if (h5_get_array(at, name, H5T_NATIVE_INT64, n, &got, out, err))
        return err->code;
    if (got != n)
        return kvt_fail(err, KVT_FORMAT, "attribute '%s': expected [%lld], got [%lld]", name,
                        (long long)n, (long long)got);
    return KVT_OK;
}

static kvt_code get_bytes(hid_t at, kvt_trace_facts *f, kvt_err *err)
{
    int64_t begin[SPANS] = {0}, end[SPANS] = {0};
    if (get_some(at, "prefix_bytes", 2, f->token.prefix_bytes, err) ||
        get_some(at, "system_bytes", 2, f->token.system_bytes, err) ||
        (f->n_span && get_some(at, "span_byte_begin", f->n_span, begin, err)) ||
        (f->n_span && get_some(at, "span_byte_end", f->n_span, end, err)))
        return err->code;
    for (int i = 0; i < f->n_span; i++) {
        f->span[i].byte_begin = begin[i];
        f->span[i].byte_end = end[i];
    }
    return KVT_OK;
}

/* Spans: three attributes of equal length, absent where there is none. */
static kvt_code put_spans(hid_t at, const kvt_trace_facts *f, kvt_err *err)
{
    char name[SPANS][SPAN_NAME];
    int64_t begin[SPANS], end[SPANS];
    if (f->n_span == 0)
        return KVT_OK;
    for (int i = 0; i < f->n_span; i++) {
        memcpy(name[i], f->span[i].name, SPAN_NAME);
        begin[i] = f->span[i].begin;
        end[i] = f->span[i].end;
    }
    hid_t text = h5_text_type(SPAN_NAME);
    kvt_code code = h5_put_array(at, "span_name", text, f->n_span, name, err);
    H5Tclose(text);
    if (!code)
        code = h5_put_array(at, "span_begin", H5T_STD_I64LE, f->n_span, begin, err);
    if (!code)
        code = h5_put_array(at, "span_end", H5T_STD_I64LE, f->n_span, end, err);
    return code;
}

static kvt_code get_spans(hid_t at, kvt_trace_facts *f, kvt_err *err)
{
    char name[SPANS][SPAN_NAME];
    int64_t begin[SPANS], end[SPANS], n, n_begin, n_end;
    f->n_span = 0;
    if (H5Aexists(at, "span_name") <= 0)
        return KVT_OK;
    hid_t text = h5_text_type(SPAN_NAME);
    kvt_code code = h5_get_array(at, "span_name", text, SPANS, &n, name, err);
    H5Tclose(text);
    if (code || h5_get_array(at, "span_begin", H5T_NATIVE_INT64, SPANS, &n_begin, begin, err) ||
        h5_get_array(at, "span_end", H5T_NATIVE_INT64, SPANS, &n_end, end, err))
        return err->code;
    if (n != n_begin || n != n_end)
        return kvt_fail(err, KVT_FORMAT, "spans: %lld names, %lld begins, %lld ends",
                        (long long)n, (long long)n_begin, (long long)n_end);
    for (int i = 0; i < n; i++) {
        name[i][SPAN_NAME - 1] = 0;
        memcpy(f->span[i].name, name[i], SPAN_NAME);
        f->span[i].begin = begin[i];
        f->span[i].end = end[i];
    }
    f->n_span = (int)n;
    return KVT_OK;
}

static kvt_code get_level(hid_t at, kvt_trace_facts *f, kvt_err *err)
{
    char text[16];
    if (h5_get_text(at, "level", text, sizeof text, err))
        return err->code;
    for (int i = 0; i < KVT_NEVER; i++)
        if (strcmp(text, kvt_level_name((kvt_level)i)) == 0) {
            f->level = (kvt_level)i;
            return KVT_OK;
        }
    return kvt_fail(err, KVT_FORMAT,
                    "attribute 'level': expected summary, replay, full or train, got '%s'",
                    text);
}

static kvt_code get_attr(hid_t at, const trace_attr *a, kvt_trace_facts *f, kvt_err *err)
{
    char *to = (char *)f + a->offset;
    int64_t n, x = 0;
    kvt_code code = KVT_OK;
    switch (a->kind) {
    case ATTR_TEXT: code = h5_get_text(at, a->name, to, a->width, err); break;
    case ATTR_LEVEL: code = get_level(at, f, err); break;
    case ATTR_INT: code = h5_get_int(at, a->name, (int64_t *)(void *)to, err); break;
    case ATTR_U64: code = h5_get_array(at, a->name, H5T_NATIVE_UINT64, 1, &n, to, err); break;
    case ATTR_REAL: code = h5_get_real(at, a->name, (double *)(void *)to, err); break;
    case ATTR_BOOL:
        code = h5_get_int(at, a->name, &x, err);
        *(bool *)to = x != 0;
        break;
    }
    return code == KVT_NOTFOUND && a->run ? KVT_OK : code;
}

/* Attributes of /decision are there only with decisions, and files of 1.0 have none at all. */
static bool left_out(hid_t file, const char *group, bool write, const kvt_trace_facts *f)
{
    if (strcmp(group, "decision") != 0)
        return false;
    if (write)
        return !f->decision_policy[0];
    if (h5_has(file, group) <= 0)
        return true;
    htri_t there = H5Aexists_by_name(file, group, "policy", H5P_DEFAULT);
    H5Eclear2(H5E_DEFAULT);
    return there <= 0;
}

/* Calls for every attribute, with the group that holds it open. `f` is written to by `get`
 * only. */
static kvt_code each_attr(hid_t file, bool write, kvt_trace_facts *f, kvt_err *err)
{
    int n;
    const trace_attr *a = trace_attrs(&n);
    kvt_code code = KVT_OK;
    hid_t group = -1;
    for (int i = 0; i < n && !code; i++) {
        if (left_out(file, a[i].group, write, f))
            continue;
        if (i == 0 || strcmp(a[i].group, a[i - 1].group) != 0) {
            if (group >= 0)
                H5Gclose(group);
            group = -1;
            const char *path = *a[i].group ? a[i].group : "/";
            if (!write && *a[i].group && h5_has(file, path) <= 0)
                code = kvt_fail(err, KVT_FORMAT, "no group '/%s'", path);
            else if (*a[i].group)
                code = h5_group(&group, file, path, err);
            else if ((group = H5Gopen2(file, "/", H5P_DEFAULT)) < 0)
                code = h5_fail(err, KVT_FORMAT, "root");
        }
        if (!code)
            code = write ? put_attr(group, &a[i], f, err) : get_attr(group, &a[i], f, err);
        if (code)
            code = kvt_within(err, "/%s", a[i].group);
    }
    if (group >= 0)
        H5Gclose(group);
    return code;
}

kvt_code facts_write(hid_t file, const kvt_trace_facts *facts, kvt_err *err)
{
    const kvt_geometry *g = &facts->model;
    kvt_trace_facts copy = *facts;
    hid_t model = -1, token = -1;
    kvt_code code = each_attr(file, true, &copy, err);
    if (!code && !(code = h5_group(&model, file, "model", err)) &&
        !(code = h5_put_array(model, "window", H5T_STD_I32LE, g->n_layer, g->window, err)) &&
        !(code = h5_put_array(model, "rope_freq", H5T_IEEE_F64LE, g->head_dim / 2, g->rope_freq,
                              err)) &&
        !(code = h5_group(&token, file, "token", err)))
        code = put_spans(token, facts, err) ? err->code : put_bytes(token, facts, err);
    if (model >= 0)
        H5Gclose(model);
    if (token >= 0)
        H5Gclose(token);
    return code;
}

static kvt_code get_arrays(hid_t model, kvt_geometry *g, kvt_err *err)
{
    int64_t n;
    if (h5_get_array(model, "window", H5T_NATIVE_INT32, KVT_LAYERS_MAX, &n, g->window, err))
        return err->code;
    if (n != g->n_layer)
        return kvt_fail(err, KVT_FORMAT,
                        "attribute 'window': expected [%lld] (layers), got [%lld]",
                        (long long)g->n_layer, (long long)n);
    if (h5_get_array(model, "rope_freq", H5T_NATIVE_DOUBLE, KVT_HEAD_DIM_MAX / 2, &n,
                     g->rope_freq, err))
        return err->code;
    if (n != g->head_dim / 2)
        return kvt_fail(err, KVT_FORMAT,
                        "attribute 'rope_freq': expected [%lld] (half of head_dim), got [%lld]",
                        (long long)g->head_dim / 2, (long long)n);
    return KVT_OK;
}

kvt_code facts_read(hid_t file, kvt_trace_facts *facts, kvt_err *err)
{
    hid_t model = -1, token = -1;
    memset(facts, 0, sizeof *facts);
    kvt_code code = each_attr(file, false, facts, err);
    if (!code && !(code = h5_group(&model, file, "model", err)))
        code = get_arrays(model, &facts->model, err) ? kvt_within(err, "/model") : KVT_OK;
    if (!code && !(code = h5_group(&token, file, "token", err)))
        code = get_spans(token, facts, err) || get_bytes(token, facts, err)
                   ? kvt_within(err, "/token")
                   : KVT_OK;
    if (model >= 0)
        H5Gclose(model);
    if (token >= 0)
        H5Gclose(token);
    return code == KVT_NOTFOUND ? (err->code = KVT_FORMAT) : code;
}
