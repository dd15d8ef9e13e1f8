/* long.c - what the long tables read beside results. */
#include "analyze/long.h"

#include <string.h>

#include "base/text.h"
#include "kvt/analyze.h"

/* Half a character is a token of its own in byte-level vocabularies: what is no character
 * becomes U+FFFD, so that readers of UTF-8 take the table; the hex column has the bytes. out
 * holds REPLACED times as many. */
enum { REPLACED = 3 };
static void put_text(char *out, const uint8_t *bytes, int64_t n)
{
    static const char unknown[] = "\xef\xbf\xbd";
    for (int64_t b = 0; b < n;) {
        uint32_t cp = 0;
        int len = text_decode(&cp, bytes + b, (size_t)(n - b));
        bool good = len > 0 && cp > 0;
        memcpy(out, good ? (const char *)bytes + b : unknown, good ? (size_t)len : REPLACED);
        out += good ? len : REPLACED;
        b += good ? len : 1;
    }
    *out = 0;
}

static kvt_code read_text(long_trace *t, kvt_err *err)
{
    static const char digit[] = "0123456789abcdef";
    int64_t n = t->info->n_token;
    t->text = kvt_arena_new((size_t)1 << 34);
    if (t->text == NULL)
        return kvt_fail_memory(err, sizeof(char *));
    t->token = kvt_arena_array(t->text, n, sizeof *t->token);
    t->hex = kvt_arena_array(t->text, n, sizeof *t->hex);
    if (t->text == NULL || t->token == NULL || t->hex == NULL)
        return kvt_fail_memory(err, (size_t)n * 2 * sizeof(char *));
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *bytes = NULL;
        int64_t n_byte = 0;
        if (kvt_trace_token_text(t->trace, i, &bytes, &n_byte, err) != KVT_OK)
            return err->code;
        char *text = kvt_arena_get(t->text, (size_t)n_byte * REPLACED + 1);
        char *hex = kvt_arena_get(t->text, (size_t)n_byte * 2 + 1);
        if (text == NULL || hex == NULL)
            return kvt_fail_memory(err, (size_t)n_byte * 5);
        put_text(text, bytes, n_byte);
        for (int64_t b = 0; b < n_byte; b++) {
            hex[2 * b] = digit[bytes[b] >> 4];
            hex[2 * b + 1] = digit[bytes[b] & 15];
        }
        t->token[i] = text;
        t->hex[i] = hex;
    }
    return KVT_OK;
}

static void close_trace(long_trace *t)
{
    kvt_rows_close(t->rows);
    if (t->trace != NULL && t->id.data != NULL)
        kvt_trace_done(t->trace, &t->id);
    kvt_trace_close(t->trace);
    kvt_arena_free(t->text);
    *t = (long_trace){0};
}

static kvt_code open_trace(long_trace *out, const kvt_result *result, kvt_err *err)
{
    *out = (long_trace){0};
    kvt_code code = kvt_trace_open(&out->trace, result->trace_path, 0, err);
    if (code != KVT_OK)
        return code;
    out->info = kvt_trace_info_of(out->trace);
    if (strcmp(out->info->digest, result->trace_digest) != 0) {
        code = kvt_fail(err, KVT_FORMAT,
                        "%s: not the trace that was replayed: expected digest %.8s, got %.8s",
                        result->trace_path, result->trace_digest, out->info->digest);
        goto failed;
    }
    for (int l = 0; l < result->n_layer; l++)
        for (int i = 0; i < out->info->n_layer; i++)
            if (out->info->layer_id[i] == result->layer_id[l])
                out->layer[l] = i;
    code = kvt_trace_read(out->trace, KVT_DS_TOKEN_ID, 0, &out->id, err);
    if (code == KVT_OK)
        code = read_text(out, err);
    if (code != KVT_OK)
        goto failed;
    code = kvt_rows_open(&out->rows, out->trace, err);
    if (code == KVT_OK || code == KVT_NOTFOUND)
        return KVT_OK; /* without rows their columns stay empty */

failed:
    close_trace(out);
    return code;
}

static kvt_code finish_trace(long_trace *t, kvt_code code, const report_sink *sink,
                             kvt_err *err)
{
    kvt_arena *text = t->text;
    if (code == KVT_OK && sink->adopt != NULL) {
        t->text = NULL;
        code = sink->adopt(sink->user, text, err);
    }
    close_trace(t);
    return code;
}

static const kvt_result *find_oracle(const kvt_results *results, const kvt_result *of, int cell,
                                     int *oracle_cell)
{
    for (int64_t i = 0; i < results->n; i++) {
        const kvt_result *r = results->result[i];
        if (strcmp(r->trace_digest, of->trace_digest) != 0 || r->n_layer != of->n_layer ||
            r->n_lane != of->n_lane || !kvt_result_is_oracle(r))
            continue;
        for (int c = 0; c < r->n_cell; c++)
            if (strcmp(r->cell[c].budget_asked, of->cell[cell].budget_asked) == 0 &&
                strcmp(r->cell[c].status, "ok") == 0) {
                *oracle_cell = c;
                return r;
            }
    }
    *oracle_cell = -1;
    return NULL;
}

int long_oracle_keeps(const long_lane *at, int64_t token)
{
    const kvt_result *o = at->oracle;
    if (o == NULL || token >= at->r->n_prompt || (o->rank == NULL && o->evict_step == NULL))
        return -1;
    return kvt_result_evict_step(o, at->oracle_cell, at->layer, at->lane, token) < 0;
}

kvt_code long_rows(const float **rows, const long_lane *at, kvt_err *err)
{
    *rows = NULL;
    if (at->trace->rows == NULL || at->r->by_query_head)
        return KVT_OK;
    return kvt_rows_group(at->trace->rows, at->trace->layer[at->layer], at->lane, rows, err);
}

static kvt_code make_cell(const long_kind *kind, long_lane *at, kvt_err *err)
{
    kvt_code code = KVT_OK;
    for (at->layer = 0; at->layer < at->r->n_layer && code == KVT_OK; at->layer++)
        for (at->lane = 0; at->lane < at->r->n_lane && code == KVT_OK; at->lane++)
            code = kind->lane(at, err);
    return code;
}

static kvt_code make_result(const long_kind *kind, const kvt_results *results,
                            const kvt_result *r, const char *run_id, const report_sink *sink,
                            kvt_err *err)
{
    bool wanted = false;
    for (int c = 0; c < r->n_cell; c++)
        wanted = wanted || report_wants(run_id, &r->cell[c]);
    if (!wanted || !kind->has(r))
        return KVT_OK;
    long_trace t;
    kvt_code code = open_trace(&t, r, err);
    if (code != KVT_OK)
        return code;
    long_lane at = {.r = r, .trace = &t, .sink = sink};
    at.work = kind->work(t.text, r->n_prompt + r->n_response);
    if (at.work == NULL)
        code = kvt_fail_memory(err, (size_t)(r->n_prompt + r->n_response) * 64);
    for (int c = 0; c < r->n_cell && code == KVT_OK; c++) {
        if (!report_wants(run_id, &r->cell[c]))
            continue;
        at.cell = c;
        at.oracle = find_oracle(results, r, c, &at.oracle_cell);
        report_key_of(&at.key, &r->cell[c]);
        code = make_cell(kind, &at, err);
    }
    return finish_trace(&t, code, sink, err);
}

kvt_code long_make(const long_kind *kind, const kvt_results *results, const char *run_id,
                   const report_sink *sink, const kvt_ctx *ctx, kvt_err *err)
{
    const kvt_result **order = report_order(results);
    if (order == NULL)
        return kvt_fail_memory(err, (size_t)results->n * sizeof *order);
    kvt_code code = KVT_OK;
    for (int64_t i = 0; i < results->n && code == KVT_OK; i++) {
        code = kvt_progress(ctx, kind->what, i, results->n, err);
        if (code == KVT_OK)
            code = make_result(kind, results, order[i], run_id, sink, err);
    }
    kvt_free(order);
    return code;
}
