/* feed.c - what a trace holds of one layer, in the form in which the engine takes it. */
#include "replay/feed_priv.h"

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "kvt/arena.h"
#include "kvt/pieces.h"

/* Datasets that are handed through as they are: which need asks for them, and where they go. */
typedef struct line {
    unsigned need; /* any of these */
    kvt_ds ds;
    size_t to; /* offset of a view in kvt_feed */
} line;

static const line lines[] = {
    {KVT_NEED_KEYS | KVT_NEED_LAYER, KVT_DS_KEYS, offsetof(kvt_feed, keys)},
    {KVT_NEED_VALUES | KVT_NEED_LAYER, KVT_DS_VALUES, offsetof(kvt_feed, values)},
    {KVT_NEED_QUERIES | KVT_NEED_LAYER, KVT_DS_QUERIES, offsetof(kvt_feed, queries)},
    {KVT_NEED_COLUMNS, KVT_DS_COL_SUM, offsetof(kvt_feed, col_sum)},
    {KVT_NEED_COLUMNS, KVT_DS_COL_MAX, offsetof(kvt_feed, col_max)},
    {KVT_NEED_BLOCKS, KVT_DS_BLOCK_SUM, offsetof(kvt_feed, blocks)},
    {KVT_NEED_MOMENTS, KVT_DS_QUERY_MEAN, offsetof(kvt_feed, query_mean)},
    {KVT_NEED_MOMENTS, KVT_DS_QUERY_COV, offsetof(kvt_feed, query_cov)},
    {KVT_NEED_MOMENTS, KVT_DS_QUERY_FREQ, offsetof(kvt_feed, query_freq_abs)},
    {KVT_NEED_WO_NORM, KVT_DS_WO_L1, offsetof(kvt_feed, wo_l1)},
    {KVT_NEED_WO_NORM, KVT_DS_WO_L2, offsetof(kvt_feed, wo_l2)},
    {KVT_NEED_HIDDEN, KVT_DS_HIDDEN, offsetof(kvt_feed, hidden)},
    {KVT_NEED_DECISION, KVT_DS_DECISION, offsetof(kvt_feed, decision)},
    {KVT_NEED_DECISION, KVT_DS_DECISION_W, offsetof(kvt_feed, decision_weight)},
    {KVT_NEED_DECISION, KVT_DS_DECISION_G, offsetof(kvt_feed, decision_gamma)},
};
enum { N_LINE = sizeof lines / sizeof lines[0] };
_Static_assert((int)N_LINE <= (int)FEED_VIEWS, "room for every dataset");

static kvt_view *view_in(kvt_feed *f, const line *l)
{
    return (kvt_view *)(void *)((char *)f + l->to);
}

/* The first n of the axis of that letter. */
static kvt_view first(kvt_view v, char axis, int64_t n)
{
    for (int i = 0; v.data && i < v.rank; i++)
        if (v.axes[i] == axis && v.dim[i] > n)
            v.dim[i] = n;
    return v;
}

/* f32 [H n T] of the rows from..from+n of a layer. */
static float *decode(const layer_rows *r, int64_t from, int64_t n)
{
    float *out = kvt_alloc(r->n_head * n * r->n_token, sizeof *out);
    for (int64_t h = 0; out && h < r->n_head; h++)
        for (int64_t i = 0; i < n; i++)
            half_to_floats(out + (h * n + i) * r->n_token,
                           r->data + h * r->head_stride + (from + i) * r->row_stride,
                           r->n_token);
    return out;
}

static kvt_view rows_view(const float *data, int64_t n_head, int64_t n, int64_t n_token,
                          int64_t n_seen)
{
    if (!data)
        return (kvt_view){0};
    kvt_view v = kvt_view_of(data, KVT_F32, KVT_SHAPE("HQT", n_head, n, n_token));
    v.dim[2] = n_seen;
    return v;
}

/* Queries before and after the end of the prompt. */
static kvt_view query_range(kvt_view v, int64_t from, int64_t n)
{
    if (v.data) {
        v.data = (const float *)v.data + from * v.stride[1];
        v.dim[1] = n;
    }
    return v;
}

/* n rows before the softmax, from row `from` of the window and the response behind it. */
static kvt_view logits_view(const layer_feed *f, int64_t from, int64_t n, int64_t n_seen)
{
    kvt_view v = rows_view(f->logits, f->rows.n_head, f->n_window + f->n_response,
                           f->rows.n_token, n_seen);
    return query_range(v, from, n);
}

/* Decisions of a model come with the token that decides, and are about the one that lies
 * `shift` before it: put where the latter is, those that have not arrived are NAN. */
static kvt_view decisions(const layer_feed *f, int64_t n)
{
    const kvt_view *v = &f->all.decision;
    int64_t shift = kvt_trace_info_of(f->trace)->facts.decision_shift;
    int64_t T = f->n_prompt + f->n_response;
    if (!f->decided)
        return (kvt_view){0};
    for (int64_t g = 0; g < v->dim[0]; g++) {
        const float *from = (const float *)v->data + g * v->stride[0];
        for (int64_t t = 0; t < n; t++)
            f->decided[g * T + t] = t + shift < n ? from[t + shift] : NAN;
    }
    return first(kvt_view_of(f->decided, KVT_F32, KVT_SHAPE("GT", v->dim[0], T)), 'T', n);
}

/* What may be left out of a trace that holds the rest of what its need names. */
static bool is_optional(kvt_ds ds)
{
    return ds == KVT_DS_DECISION_W || ds == KVT_DS_DECISION_G;
}

/* What the response's tokens add to the outputs of its rows. */
static kvt_code add_rest(layer_feed *f, kvt_err *err)
{
    const kvt_view *V = &f->all.values;
    int64_t H = f->rows.n_head, M = f->n_response, T = f->rows.n_token, D = V->dim[2];
    f->rest = kvt_alloc(H * M * D, sizeof *f->rest);
    if (!f->rest)
        return kvt_fail_memory(err, H * M * D * (int64_t)sizeof *f->rest);
    for (int64_t h = 0; h < H; h++)
        for (int64_t m = 0; m < M; m++) {
            float *out = f->rest + (h * M + m) * D;
            const float *row = f->future + (h * M + m) * T;
            for (int64_t t = f->n_prompt; t <= f->n_prompt + m; t++) {
                const float *v = (const float *)V->data + h * V->dim[0] / H * V->stride[0] +
                                 t * V->stride[1];
                for (int64_t d = 0; d < D; d++)
                    out[d] += row[t] * v[d];
            }
        }
    return KVT_OK;
}

kvt_code feed_open(layer_feed *out, kvt_trace *t, int layer, const feed_wants *want,
                   kvt_err *err)
{
    const kvt_trace_info *info = kvt_trace_info_of(t);
    unsigned needs = want->needs;
    int64_t n_window = want->n_window;
    int64_t N = info->facts.token.n_prompt, M = info->facts.token.n_response;
    *out = (layer_feed){.trace = t, .layer = layer, .n_prompt = N, .n_response = M};
    out->n_before = info->n_query - M;
    for (int i = 0; i < N_LINE; i++) {
        if (!(needs & lines[i].need) || (is_optional(lines[i].ds) && !info->has[lines[i].ds]))
            continue;
        if (kvt_trace_read(t, lines[i].ds, layer, &out->view[i], err))
            goto failed;
        *view_in(&out->all, &lines[i]) = out->view[i];
    }
    if (out->all.decision.data) {
        out->decided = kvt_alloc(out->all.decision.dim[0] * (N + M), sizeof *out->decided);
        if (!out->decided) {
            (void)kvt_fail_memory(err, (N + M) * 4);
            goto failed;
        }
    }
    if (probes_open(out, want->probe, err))
        goto failed;
    if (!feed_has_rows(info)) {
        out->all.blocks = (kvt_view){0};
        return KVT_OK;
    }
    if (n_window > out->n_before)
        n_window = out->n_before;
    out->n_window = n_window;
    if (rows_read(&out->rows, t, layer, out->n_before - n_window, info->n_query, err))
        goto failed;
    if ((needs & KVT_NEED_LOGITS) &&
        rows_before(&out->logits, t, layer, out->n_before - n_window, info->n_query, err))
        goto failed;
    out->window = n_window > 0 ? decode(&out->rows, 0, n_window) : NULL;
    out->future = want->future ? decode(&out->rows, n_window, M) : NULL;
    out->row = kvt_alloc(out->rows.n_head * out->rows.n_token, sizeof *out->row);
    if ((n_window > 0 && !out->window) || (want->future && !out->future) || !out->row) {
        (void)kvt_fail_memory(err, out->rows.n_head * M * out->rows.n_token * 4);
        goto failed;
    }
    if (out->future && want->rest && out->all.values.data && add_rest(out, err))
        goto failed;
    return KVT_OK;
failed:
    feed_close(out);
    return err->code;
}

void feed_close(layer_feed *f)
{
    for (int i = 0; i < N_LINE; i++)
        if (f->view[i].data)
            kvt_trace_done(f->trace, &f->view[i]);
    rows_done(&f->rows, f->trace);
    kvt_free(f->window);
    kvt_free(f->logits);
    kvt_free(f->future);
    kvt_free(f->rest);
    kvt_free(f->row);
    kvt_free(f->wide);
    kvt_free(f->blocks);
    kvt_free(f->decided);
    probes_close(f);
    *f = (layer_feed){0};
}

bool feed_has_rows(const kvt_trace_info *info)
{
    return info->has[KVT_DS_QUERY_POS] &&
           (info->has[KVT_DS_ROWS] || (info->has[KVT_DS_QUERIES] && info->has[KVT_DS_KEYS]));
}

layer_rows feed_response(const layer_feed *f)
{
    layer_rows r = f->rows;
    r.data += f->n_window * r.row_stride;
    r.n_query = f->n_response;
    return r;
}

/* Mean attention of each block of prompt queries, from 1024 x the mean as it is stored. */
static kvt_code prompt_blocks(layer_feed *f, kvt_view *out, kvt_err *err)
{
    const kvt_view *v = &f->all.blocks;
    kvt_view start;
    if (!v->data)
        return KVT_OK;
    if (kvt_trace_read(f->trace, KVT_DS_BLOCK_START, 0, &start, err))
        return err->code;
    int64_t n = 0, N = f->n_prompt;
    while (n < v->dim[1] && ((const int32_t *)start.data)[n] < N)
        n++;
    kvt_trace_done(f->trace, &start);
    if (!f->blocks) {
        f->blocks = kvt_alloc(v->dim[0] * n * N, sizeof *f->blocks);
        if (!f->blocks)
            return kvt_fail_memory(err, v->dim[0] * n * N * 4);
        for (int64_t h = 0; h < v->dim[0]; h++)
            for (int64_t j = 0; j < n; j++)
                for (int64_t s = 0; s < N; s++)
                    f->blocks[(h * n + j) * N + s] =
                        ((const float *)v->data)[h * v->stride[0] + j * v->stride[1] + s] /
                        1024;
    }
    *out = kvt_view_of(f->blocks, KVT_F32, KVT_SHAPE("HJN", v->dim[0], n, N));
    return KVT_OK;
}

static void add_scores(kvt_feed *out, const layer_feed *f, const kvt_scores *s)
{
    if (!s)
        return;
    out->scores = kvt_view_at(&s->score, f->layer);
    if (s->pinned.data)
        out->scores_pinned = kvt_view_at(&s->pinned, f->layer);
}

kvt_code feed_prompt(layer_feed *f, kvt_feed *out, const kvt_scores *scores,
                     const float *future_mean, kvt_err *err)
{
    int64_t N = f->n_prompt, H = f->rows.n_head;
    *out = f->all;
    for (int i = 0; i < N_LINE; i++) {
        kvt_view *v = view_in(out, &lines[i]);
        *v = first(*v, 'T', N);
    }
    out->queries = query_range(f->all.queries, 0, f->n_before);
    out->decision = decisions(f, N);
    out->probe = f->probe;
    out->n_probe = f->n_probe;
    out->blocks = (kvt_view){0};
    if (prompt_blocks(f, &out->blocks, err))
        return err->code;
    out->rows = rows_view(f->window, H, f->n_window, f->rows.n_token, N);
    out->logits = logits_view(f, 0, f->n_window, N);
    out->future = rows_view(f->future, H, f->n_response, f->rows.n_token, N);
    if (f->rest)
        out->future_rest = kvt_view_of(
            f->rest, KVT_F32, KVT_SHAPE("HQD", H, f->n_response, f->all.values.dim[2]));
    if (!f->future && future_mean) { /* level summary: one row, the mean of all */
        int64_t n_head = kvt_trace_info_of(f->trace)->facts.model.n_head;
        out->future = kvt_view_of(future_mean, KVT_F32, KVT_SHAPE("HQT", n_head, 1, N));
    }
    add_scores(out, f, scores);
    return KVT_OK;
}

const float *feed_row(layer_feed *f, int64_t row)
{
    const layer_rows *r = &f->rows;
    for (int64_t h = 0; h < r->n_head; h++)
        half_to_floats(f->row + h * r->n_token,
                       r->data + h * r->head_stride + (f->n_window + row) * r->row_stride,
                       f->n_prompt + row + 1);
    return f->row;
}

kvt_code feed_rows(layer_feed *f, int64_t row, int64_t n, kvt_err *err)
{
    const layer_rows *r = &f->rows;
    int64_t T = r->n_token, n_seen = f->n_prompt + row + 1;
    n = kvt_min(n, f->n_window + row + 1);
    if (n * r->n_head * T > f->wide_room) {
        kvt_free(f->wide);
        f->wide = kvt_alloc(n * r->n_head * T, sizeof *f->wide);
        f->wide_room = f->wide ? n * r->n_head * T : 0;
        if (!f->wide)
            return kvt_fail_memory(err, n * r->n_head * T * (int64_t)sizeof *f->wide);
    }
    f->n_wide = n;
    for (int64_t h = 0; h < r->n_head; h++) {
        for (int64_t i = 0; i < n; i++) {
            int64_t at = row + 1 - n + i; /* below 0: of the prompt */
            int64_t sees = f->n_prompt + (at < 0 ? 0 : at + 1);
            float *to = f->wide + (h * n + i) * T;
            half_to_floats(
                to, r->data + h * r->head_stride + (f->n_window + at) * r->row_stride, sees);
            memset(to + sees, 0, (size_t)(n_seen - sees) * sizeof *to);
        }
    }
    return KVT_OK;
}

/* The last n_query rows of those that were decoded. */
static kvt_view last_rows(const layer_feed *f, int64_t n_query, int64_t n_seen)
{
    int64_t H = f->rows.n_head, T = f->rows.n_token;
    if (n_query == 1 || !f->wide)
        return rows_view(f->row, H, 1, T, n_seen);
    int64_t n = kvt_min(n_query, f->n_wide);
    return query_range(rows_view(f->wide, H, f->n_wide, T, n_seen), f->n_wide - n, n);
}

void feed_token(const layer_feed *f, kvt_feed *out, int64_t row, int64_t n_query,
                const kvt_scores *scores)
{
    int64_t n = f->n_prompt + row + 1, n_row = kvt_min(n_query, f->n_window + row + 1);
    *out = f->all;
    for (int i = 0; i < N_LINE; i++) {
        kvt_view *v = view_in(out, &lines[i]);
        *v = first(*v, 'T', n);
    }
    n_query = kvt_min(n_query, f->n_before + row + 1);
    out->queries = query_range(f->all.queries, f->n_before + row + 1 - n_query, n_query);
    out->decision = decisions(f, n);
    out->blocks = (kvt_view){0};
    out->rows = last_rows(f, n_row, n);
    out->logits = logits_view(f, f->n_window + row + 1 - n_row, n_row, n);
    if (f->future) {
        int64_t T = f->rows.n_token;
        out->future = rows_view(f->future, f->rows.n_head, f->n_response, T, T);
        out->future = query_range(out->future, row + 1, f->n_response - row - 1);
    }
    add_scores(out, f, scores);
}
