/* judge.c - kept sets against what the response looked at: mass lost and output error of rows.
 *
 * Mass lost is the exact sum of the half attention on evicted tokens, at most 1. A sum of
 * halves that stays at or below 1 is exact in f32 in any order, and one that does not is 1
 * after the cut.
 *
 * On top (one decision): the rows of a lane are turned once, so that the attention of all rows
 * to a token lies together; where larger budgets keep all that smaller ones keep, one sweep
 * over the evicted tokens, from the last one out, gives every budget. The output error sums p v
 * over what is kept in the same order by matrix products. */
#include "replay/replay_priv.h"

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "compute/backend.h"
#include "kvt/arena.h"
#include "kvt/pieces.h"

enum { WIDTH_MAX = 64, TILE = 16 };

/* ---- turning rows --------------------------------------------------------------------------
 */

static void turn_block(float *out, const float *in, int64_t n_token, int64_t n_row,
                       int64_t width)
{
    for (int64_t t0 = 0; t0 < n_token; t0 += TILE) {
        int64_t end = kvt_min(t0 + TILE, n_token);
        for (int64_t i = 0; i < n_row; i++)
            for (int64_t t = t0; t < end; t++)
                out[t * width + i] = in[i * n_token + t];
    }
}

static float *block_at(const lane_rows *r, int head, int64_t block)
{
    return r->turned + (head * r->n_block + block) * r->n_token * r->width;
}

static void sum_rows(lane_rows *r, int head, int64_t block, const float *in, int64_t n_row)
{
    double *sum = r->row_sum + (head * r->n_block + block) * r->width;
    for (int64_t i = 0; i < n_row; i++) {
        double s = 0;
        for (int64_t t = 0; t < r->n_token; t++)
            s += (double)in[i * r->n_token + t];
        sum[i] = s;
    }
}

/* out f32 [width D] (+)= sum over tokens from..to of p v. */
static void product(float *out, const float *p, const float *v, int64_t n_token, int64_t width,
                    int64_t n_dim, float beta)
{
    if (n_token == 0)
        return;
    gemm_args g = {.c = out,
                   .a = p,
                   .b = v,
                   .m = width,
                   .n = n_dim,
                   .k = n_token,
                   .lda = width,
                   .ldb = n_dim,
                   .ldc = n_dim,
                   .alpha = 1,
                   .beta = beta};
    cpu_gemm(GEMM_TN, &g);
}

/* Outputs over all tokens and over the response's, for the output error. */
static void whole_outputs(lane_rows *r, int64_t n_prompt)
{
    for (int h = 0; h < r->n_head; h++) {
        for (int64_t b = 0; b < r->n_block; b++) {
            int64_t at = (h * r->n_block + b) * r->width * r->n_dim;
            const float *p = block_at(r, h, b);
            product(r->late + at, p + n_prompt * r->width, r->value + n_prompt * r->n_dim,
                    r->n_token - n_prompt, r->width, r->n_dim, 0);
            memcpy(r->full + at, r->late + at, (size_t)(r->width * r->n_dim) * sizeof *r->full);
            product(r->full + at, p, r->value, n_prompt, r->width, r->n_dim, 1);
        }
    }
}

kvt_code lane_rows_new(lane_rows *out, const layer_rows *rows, int first_head, int n_head,
                       int64_t n_prompt, const float *value, int64_t n_dim, kvt_err *err)
{
    int64_t m = rows->n_query, n = rows->n_token;
    int64_t width = kvt_min((m + TILE - 1) / TILE * TILE, WIDTH_MAX);
    *out = (lane_rows){.n_head = n_head,
                       .first_head = first_head,
                       .n_token = n,
                       .n_row = m,
                       .width = width,
                       .n_block = (m + width - 1) / width,
                       .value = value,
                       .n_dim = n_dim,
                       .memory = kvt_arena_new((size_t)1 << 40)};
    int64_t n_wide = n_head * out->n_block * width;
    float *line = NULL;
    if (out->memory) {
        out->turned = kvt_arena_array(out->memory, n_wide * n, sizeof *out->turned);
        out->row_sum = kvt_arena_array(out->memory, n_wide, sizeof *out->row_sum);
        line = kvt_arena_array(out->memory, width * n, sizeof *line);
        if (value) {
            out->full = kvt_arena_array(out->memory, n_wide * n_dim, sizeof *out->full);
            out->late = kvt_arena_array(out->memory, n_wide * n_dim, sizeof *out->late);
        }
    }
    if (!out->turned || !out->row_sum || !line || (value && (!out->full || !out->late))) {
        lane_rows_free(out);
        return kvt_fail_memory(err, n_wide * n * (int64_t)sizeof *out->turned);
    }
    for (int h = 0; h < n_head; h++) {
        const uint16_t *head = rows->data + (first_head + h) * rows->head_stride;
        for (int64_t b = 0; b < out->n_block; b++) {
            int64_t n_row = kvt_min(width, m - b * width);
            for (int64_t i = 0; i < n_row; i++)
                half_to_floats(line + i * n, head + (b * width + i) * rows->row_stride, n);
            turn_block(block_at(out, h, b), line, n, n_row, width);
            sum_rows(out, h, b, line, n_row);
        }
    }
    if (value)
        whole_outputs(out, n_prompt);
    return KVT_OK;
}

void lane_rows_free(lane_rows *r)
{
    kvt_arena_free(r->memory);
    *r = (lane_rows){0};
}

void lane_rows_sum(const lane_rows *r, double *head, int64_t n_prompt)
{
    for (int h = 0; h < r->n_head; h++) {
        double *sum = head + h * n_prompt;
        for (int64_t b = 0; b < r->n_block; b++) {
            const float *p = block_at(r, h, b);
            for (int64_t j = 0; j < n_prompt; j++, p += r->width) {
                double s[4] = {0};
                for (int64_t i = 0; i < r->width; i += 4)
                    for (int k = 0; k < 4; k++)
                        s[k] += (double)p[i + k];
                sum[j] += (s[0] + s[1]) + (s[2] + s[3]);
            }
        }
    }
}

/* ---- sweeps --------------------------------------------------------------------------------
 */

/* sum [width] += the rows' attention to each of the tokens. Sixteen rows at a time stay in
 * registers. */
static void sweep(float *restrict sum, const float *p, const int32_t *token, int64_t n,
                  int64_t width)
{
    for (int64_t from = 0; from < width; from += TILE) {
        float s[TILE];
        memcpy(s, sum + from, sizeof s);
        for (int64_t i = 0; i < n; i++) {
            const float *x = p + token[i] * width + from;
            for (int k = 0; k < TILE; k++)
                s[k] += x[k];
        }
        memcpy(sum + from, s, sizeof s);
    }
}

/* Tokens in the order in which they go, last ones first: those that no budget keeps, then those
 * of the largest budget only, ... start [n_cell + 2]: bucket i is the tokens that the budgets
 * from n_cell - i on keep. */
static void sort_buckets(int32_t *token, int64_t *start, const uint64_t *kept, int64_t n,
                         int n_cell)
{
    int64_t count[KVT_BUDGETS_MAX + 2] = {0};
    for (int64_t j = 0; j < n; j++) {
        int k = __builtin_popcountll(kept[j]);
        count[k + 1]++;
    }
    for (int i = 0; i <= n_cell; i++)
        count[i + 1] += count[i];
    memcpy(start, count, (size_t)(n_cell + 2) * sizeof *start);
    for (int64_t j = 0; j < n; j++)
        token[count[__builtin_popcountll(kept[j])]++] = (int32_t)j;
}

static void list_tokens(int32_t *token, int64_t *n, const uint64_t *kept, int64_t n_prompt,
                        int cell, bool want)
{
    *n = 0;
    for (int64_t j = 0; j < n_prompt; j++)
        if ((kept[j] >> cell & 1) == want)
            token[(*n)++] = (int32_t)j;
}

/* Which heads of a layer a lane's rows are, and where a block's results go. */
static float *rows_of(float *all, const pass *p, int cell, int layer, const lane_rows *r,
                      int head, int64_t block)
{
    return all + pass_head(p, cell, layer, r->first_head + head) * p->n_response +
           block * r->width;
}

static void put_lost(pass *p, int cell, int layer, const lane_rows *r, int head, int64_t block,
                     const float *sum)
{
    float *out = rows_of(p->lost, p, cell, layer, r, head, block);
    int64_t n = kvt_min(r->width, r->n_row - block * r->width);
    for (int64_t i = 0; i < n; i++)
        out[i] = sum[i] < 1 ? sum[i] : 1;
}

/* ---- output error --------------------------------------------------------------------------
 */

/* |kept / its mass - full / its mass| / |full / its mass| of each row. */
static void put_error(pass *p, int cell, int layer, const lane_rows *r, int head, int64_t block,
                      const float *kept, const float *lost)
{
    float *out = rows_of(p->out_err, p, cell, layer, r, head, block);
    int64_t n = kvt_min(r->width, r->n_row - block * r->width), at = head * r->n_block + block;
    const double *sum = r->row_sum + at * r->width;
    const float *full = r->full + at * r->width * r->n_dim;
    for (int64_t i = 0; i < n; i++, kept += r->n_dim, full += r->n_dim) {
        double left = sum[i] - (double)lost[i], difference = 0, size = 0;
        if (lost[i] <= 0 || left <= 0) {
            out[i] = lost[i] <= 0 ? 0 : NAN;
            continue;
        }
        for (int64_t d = 0; d < r->n_dim; d++) {
            double o = (double)full[d] / sum[i], e = (double)kept[d] / left - o;
            difference += e * e;
            size += o * o;
        }
        out[i] = size > 0 ? (float)sqrt(difference / size) : NAN;
    }
}

/* What a lane needs while it is judged. */
typedef struct bench {
    int32_t *token; /* [N] */
    float *p, *v;   /* gathered rows [N width] and values [N D] */
    float *sum;     /* [width] */
    float *lost;    /* [n_cell width] before the cut at 1 */
    float *out;     /* [width D] */
    kvt_arena *memory;
} bench;

static kvt_code bench_new(bench *b, const pass *p, const lane_rows *r, kvt_err *err)
{
    *b = (bench){.memory = kvt_arena_new((size_t)1 << 40)};
    if (b->memory) {
        b->token = kvt_arena_array(b->memory, p->n_prompt, sizeof *b->token);
        b->sum = kvt_arena_array(b->memory, r->width, sizeof *b->sum);
        b->lost = kvt_arena_array(b->memory, p->n_cell * r->width, sizeof *b->lost);
        if (p->out_err) {
            b->p = kvt_arena_array(b->memory, p->n_prompt * r->width, sizeof *b->p);
            b->v = kvt_arena_array(b->memory, p->n_prompt * r->n_dim, sizeof *b->v);
            b->out = kvt_arena_array(b->memory, r->width * r->n_dim, sizeof *b->out);
        }
    }
    if (!b->token || !b->sum || !b->lost || (p->out_err && (!b->p || !b->v || !b->out))) {
        kvt_arena_free(b->memory);
        return kvt_fail_memory(err, p->n_prompt * r->width * (int64_t)sizeof *b->p);
    }
    return KVT_OK;
}

static void gather(float *out, const float *in, const int32_t *token, int64_t n, int64_t width)
{
    for (int64_t i = 0; i < n; i++)
        memcpy(out + i * width, in + token[i] * width, (size_t)width * sizeof *out);
}

/* One head's block where budgets are nested: mass lost from the last token out, then the output
 * from the first token kept. token and start come from sort_buckets(). */
static void judge_nested(pass *p, int layer, const lane_rows *r, int head, int64_t block,
                         const int64_t *start, bench *b)
{
    const float *rows = block_at(r, head, block);
    int n = p->n_cell;
    memset(b->sum, 0, (size_t)r->width * sizeof *b->sum);
    for (int c = n - 1; c >= 0; c--) {
        int64_t from = start[n - 1 - c], to = start[n - c];
        sweep(b->sum, rows, b->token + from, to - from, r->width);
        memcpy(b->lost + c * r->width, b->sum, (size_t)r->width * sizeof *b->sum);
        put_lost(p, c, layer, r, head, block, b->sum);
    }
    if (!p->out_err)
        return;
    int64_t at = (head * r->n_block + block) * r->width * r->n_dim;
    memcpy(b->out, r->late + at, (size_t)(r->width * r->n_dim) * sizeof *b->out);
    for (int c = 0; c < n; c++) {
        int64_t from = start[n - c], to = start[n - c + 1];
        gather(b->p, rows, b->token + from, to - from, r->width);
        product(b->out, b->p, b->v + from * r->n_dim, to - from, r->width, r->n_dim, 1);
        put_error(p, c, layer, r, head, block, b->out, b->lost + c * r->width);
    }
}

/* One head's block at one budget, whatever the others keep. */
static void judge_apart(pass *p, int layer, const lane_rows *r, int head, int64_t block,
                        int cell, const uint64_t *kept, bench *b)
{
    const float *rows = block_at(r, head, block);
    int64_t n;
    list_tokens(b->token, &n, kept, p->n_prompt, cell, false);
    memset(b->sum, 0, (size_t)r->width * sizeof *b->sum);
    sweep(b->sum, rows, b->token, n, r->width);
    put_lost(p, cell, layer, r, head, block, b->sum);
    if (!p->out_err)
        return;
    int64_t at = (head * r->n_block + block) * r->width * r->n_dim;
    memcpy(b->out, r->late + at, (size_t)(r->width * r->n_dim) * sizeof *b->out);
    list_tokens(b->token, &n, kept, p->n_prompt, cell, true);
    gather(b->p, rows, b->token, n, r->width);
    gather(b->v, r->value, b->token, n, r->n_dim);
    product(b->out, b->p, b->v, n, r->width, r->n_dim, 1);
    put_error(p, cell, layer, r, head, block, b->out, b->sum);
}

/* Whether larger budgets keep all that smaller ones keep: rising runs of ones up to the top
 * bit. Refused budgets keep nothing and lie below. */
static bool is_nested(const uint64_t *kept, int64_t n, int n_cell)
{
    uint64_t all = n_cell == 64 ? UINT64_MAX : (UINT64_C(1) << n_cell) - 1;
    for (int64_t j = 0; j < n; j++) {
        uint64_t gone = all & ~kept[j];
        if (gone & (gone + 1))
            return false;
    }
    return true;
}

kvt_code judge_on_top(pass *p, int layer, const lane_rows *r, kvt_err *err)
{
    /* The lanes that these heads belong to: one, or one for each head. */
    int n_lane = p->by_head ? r->n_head : 1, per = p->n_head / p->n_lane;
    int first = r->first_head / per;
    bench b;
    if (bench_new(&b, p, r, err))
        return err->code;
    for (int a = 0; a < n_lane; a++) {
        const uint64_t *kept = p->kept + ((int64_t)layer * p->n_lane + first + a) * p->n_prompt;
        int from = p->by_head ? a : 0, to = p->by_head ? a + 1 : r->n_head;
        int64_t start[KVT_BUDGETS_MAX + 2];
        bool nested = is_nested(kept, p->n_prompt, p->n_cell);
        if (nested) {
            sort_buckets(b.token, start, kept, p->n_prompt, p->n_cell);
            if (p->out_err)
                gather(b.v, r->value, b.token, p->n_prompt, r->n_dim);
        }
        for (int h = from; h < to; h++)
            for (int64_t block = 0; block < r->n_block; block++)
                for (int c = 0; c < (nested ? 1 : p->n_cell); c++)
                    if (nested)
                        judge_nested(p, layer, r, h, block, start, &b);
                    else
                        judge_apart(p, layer, r, h, block, c, kept, &b);
    }
    kvt_arena_free(b.memory);
    return KVT_OK;
}

/* ---- one row at a time ---------------------------------------------------------------------
 */

/* Sum of p v over some slots, and of p: out f32 [D]. */
static double mix(float *restrict out, const float *p, const int64_t *pos, int64_t n,
                  const float *v, int64_t row_stride, int64_t n_dim)
{
    double sum = 0;
    memset(out, 0, (size_t)n_dim * sizeof *out);
    for (int64_t s = 0; s < n; s++) {
        float w = p[pos ? pos[s] : s];
        const float *x = v + (pos ? pos[s] : s) * row_stride;
        sum += (double)w;
        if (w > 0)
            for (int64_t d = 0; d < n_dim; d++)
                out[d] += w * x[d];
    }
    return sum;
}

static float relative(const float *kept, double kept_sum, const float *full, double full_sum,
                      int64_t n)
{
    double difference = 0, size = 0;
    if (kept_sum <= 0 || full_sum <= 0)
        return NAN;
    for (int64_t d = 0; d < n; d++) {
        double o = (double)full[d] / full_sum, e = (double)kept[d] / kept_sum - o;
        difference += e * e;
        size += o * o;
    }
    return size > 0 ? (float)sqrt(difference / size) : NAN;
}

static double sum_over(const float *p, const int64_t *pos, int64_t n)
{
    double s[4] = {0};
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; k++)
            s[k] += (double)p[pos ? pos[i + k] : i + k];
    for (; i < n; i++)
        s[0] += (double)p[pos ? pos[i] : i];
    return (s[0] + s[1]) + (s[2] + s[3]);
}

static void judge_head(pass *p, int layer, int lane, int head, const row_job *j)
{
    const float *row = j->rows + head * j->head_stride;
    const kvt_view *V = j->values;
    int64_t n_dim = p->out_err ? V->dim[2] : 0;
    const float *v = NULL;
    double all = sum_over(row, NULL, j->n_arrived);
    bool failed;
    float *full = j->scratch, *kept = j->scratch + n_dim;
    if (p->out_err) {
        v = (const float *)V->data + head * V->dim[0] / p->n_head * V->stride[0];
        mix(full, row, NULL, j->n_arrived, v, V->stride[1], n_dim);
    }
    for (int c = 0; c < p->n_cell; c++) {
        const int64_t *pos;
        int64_t n, at = pass_head(p, c, layer, head) * p->n_response + j->row;
        if (kvt_engine_refused(p->engine, c, layer, &failed))
            continue;
        kvt_engine_held(p->engine, c, layer, lane, &pos, &n);
        double left = sum_over(row, pos, n), lost = all - left;
        p->lost[at] = (float)(lost < 1 ? lost : 1);
        if (p->out_err && lost > 0) {
            mix(kept, row, pos, n, v, V->stride[1], n_dim);
            p->out_err[at] = relative(kept, left, full, all, n_dim);
        }
    }
}

void judge_row(pass *p, int layer, const row_job *j)
{
    int per = p->n_head / p->n_lane;
    for (int h = 0; h < p->n_head; h++)
        judge_head(p, layer, h / per, h, j);
    for (int c = 0; c < p->n_cell; c++) {
        bool failed, off = kvt_engine_refused(p->engine, c, layer, &failed) != NULL;
        for (int a = 0; a < p->n_lane && !off; a++) {
            const int64_t *pos;
            int64_t n;
            kvt_engine_held(p->engine, c, layer, a, &pos, &n);
            p->seen[pass_lane(p, c, layer, a) * p->n_response + j->row] = (float)n;
        }
    }
}
