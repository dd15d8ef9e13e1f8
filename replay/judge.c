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

#include "compute/slots.h"
#include "kvt/arena.h"
#include "kvt/pieces.h"

enum { WIDTH_MAX = 64, TILE = 16, HEADS_MAX = 1024 };

/* ---- turning rows --------------------------------------------------------------------------
 */

static float *block_at(const lane_rows *r, int head, int64_t block)
{
    return r->turned + (head * r->n_block + block) * r->n_token * r->width;
}

/* left [width] += the rows' attention to n tokens: in doubles, where it is exact in any order.
 * A float of more than 1 has lost its last bit, and little may be left. */
static void add_mass(double *restrict left, const float *p, const int32_t *token, int64_t n,
                     int64_t width)
{
    for (int64_t i = 0; i < n; i++) {
        const float *x = p + (token ? token[i] : i) * width;
        for (int64_t k = 0; k < width; k++)
            left[k] += (double)x[k];
    }
}

/* Sums of whole rows. */
static void sum_rows(lane_rows *r)
{
    memset(r->row_sum, 0, (size_t)(r->n_head * r->n_block * r->width) * sizeof *r->row_sum);
    for (int64_t b = 0; b < r->n_head * r->n_block; b++)
        add_mass(r->row_sum + b * r->width, r->turned + b * r->n_token * r->width, NULL,
                 r->n_token, r->width);
}

/* Outputs over all tokens and over the response's, for the output error. */
static void whole_outputs(lane_rows *r, int64_t n_prompt)
{
    for (int64_t b = 0; b < r->n_head * r->n_block; b++) {
        int64_t at = b * r->width * r->n_dim, n = r->width * r->n_dim;
        const float *p = r->turned + b * r->n_token * r->width;
        memset(r->late + at, 0, (size_t)n * sizeof *r->late);
        slots_outer(r->late + at, p + n_prompt * r->width, r->value + n_prompt * r->n_dim, NULL,
                    r->n_token - n_prompt, r->width, r->n_dim);
        memcpy(r->full + at, r->late + at, (size_t)n * sizeof *r->full);
        slots_outer(r->full + at, p, r->value, NULL, n_prompt, r->width, r->n_dim);
    }
}

kvt_code lane_rows_new(lane_rows *r, int n_head, int64_t n_token, int64_t n_row, int64_t n_dim,
                       kvt_err *err)
{
    int64_t width = kvt_min((n_row + TILE - 1) / TILE * TILE, WIDTH_MAX);
    *r = (lane_rows){.n_head = n_head,
                     .n_token = n_token,
                     .n_row = n_row,
                     .width = width,
                     .n_block = (n_row + width - 1) / width,
                     .n_dim = n_dim};
    int64_t n_wide = n_head * r->n_block * width;
    r->turned = kvt_alloc(n_wide * n_token, sizeof *r->turned);
    if (n_dim > 0) {
        r->row_sum = kvt_alloc(n_wide, sizeof *r->row_sum);
        r->full = kvt_alloc(n_wide * n_dim, sizeof *r->full);
        r->late = kvt_alloc(n_wide * n_dim, sizeof *r->late);
    }
    if (r->turned && (n_dim == 0 || (r->row_sum && r->full && r->late)))
        return KVT_OK;
    lane_rows_free(r);
    return kvt_fail_memory(err, n_wide * n_token * (int64_t)sizeof *r->turned);
}

void lane_rows_fill(lane_rows *r, const layer_rows *rows, int first_head, int64_t n_prompt,
                    const float *value)
{
    r->first_head = first_head;
    r->value = value;
    for (int h = 0; h < r->n_head; h++) {
        const uint16_t *head = rows->data + (first_head + h) * rows->head_stride;
        for (int64_t b = 0; b < r->n_block; b++)
            slots_turn(block_at(r, h, b), head + b * r->width * rows->row_stride,
                       rows->row_stride, kvt_min(r->width, r->n_row - b * r->width), r->n_token,
                       r->width);
    }
    if (value) {
        sum_rows(r);
        whole_outputs(r, n_prompt);
    }
}

void lane_rows_free(lane_rows *r)
{
    kvt_free(r->turned);
    kvt_free(r->row_sum);
    kvt_free(r->full);
    kvt_free(r->late);
    *r = (lane_rows){0};
}

void lane_rows_output(const lane_rows *r, layer_output *out)
{
    for (int h = 0; h < r->n_head; h++) {
        int64_t from = h * r->n_block * r->width, to = (r->first_head + h) * r->n_row;
        memcpy(out->full + to * r->n_dim, r->full + from * r->n_dim,
               (size_t)(r->n_row * r->n_dim) * sizeof *out->full);
        memcpy(out->sum + to, r->row_sum + from, (size_t)r->n_row * sizeof *out->sum);
    }
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
                      const float *kept, const double *left, const float *lost)
{
    float *out = rows_of(p->out_err, p, cell, layer, r, head, block);
    int64_t n = kvt_min(r->width, r->n_row - block * r->width), at = head * r->n_block + block;
    const double *sum = r->row_sum + at * r->width;
    const float *full = r->full + at * r->width * r->n_dim;
    for (int64_t i = 0; i < n; i++, kept += r->n_dim, full += r->n_dim) {
        double difference = 0, size = 0;
        if (lost[i] <= 0 || left[i] <= 0) {
            out[i] = lost[i] <= 0 ? 0 : NAN;
            continue;
        }
        for (int64_t d = 0; d < r->n_dim; d++) {
            double o = (double)full[d] / sum[i], e = (double)kept[d] / left[i] - o;
            difference += e * e;
            size += o * o;
        }
        out[i] = size > 0 ? (float)sqrt(difference / size) : NAN;
    }
}

/* What a lane needs while it is judged. */
typedef struct bench {
    int32_t *token; /* [N] */
    float *sum;     /* [n_cell width] mass lost, before the cut at 1 */
    float *out;     /* [width D] */
    double *left;   /* [width] mass of what is kept */
} bench;

static kvt_code bench_new(bench *b, const pass *p, const lane_rows *r, kvt_arena *work,
                          kvt_err *err)
{
    *b = (bench){.token = kvt_arena_array(work, p->n_prompt, sizeof *b->token),
                 .sum = kvt_arena_array(work, p->n_cell * r->width, sizeof *b->sum),
                 .out = kvt_arena_array(work, r->width * r->n_dim + 1, sizeof *b->out),
                 .left = kvt_arena_array(work, r->width, sizeof *b->left)};
    if (b->token && b->sum && b->out && b->left)
        return KVT_OK;
    return kvt_fail_memory(err, p->n_prompt * r->width * (int64_t)sizeof *b->sum);
}

/* The output and the mass over response tokens, which on-top policies keep. */
static void start_output(bench *b, const lane_rows *r, int head, int64_t block,
                         int64_t n_prompt)
{
    int64_t at = (head * r->n_block + block) * r->width * r->n_dim;
    memcpy(b->out, r->late + at, (size_t)(r->width * r->n_dim) * sizeof *b->out);
    memset(b->left, 0, (size_t)r->width * sizeof *b->left);
    add_mass(b->left, block_at(r, head, block) + n_prompt * r->width, NULL,
             r->n_token - n_prompt, r->width);
}

static void add_output(bench *b, const lane_rows *r, const float *rows, int64_t from, int64_t n)
{
    slots_outer(b->out, rows, r->value, b->token + from, n, r->width, r->n_dim);
    add_mass(b->left, rows, b->token + from, n, r->width);
}

/* Mass lost in one head's block where budgets are nested: one sweep from the last token out.
 * token and start come from sort_buckets(). */
static void lose_nested(pass *p, int layer, const lane_rows *r, int head, int64_t block,
                        const int64_t *start, const bench *b)
{
    int n = p->n_cell;
    float *sum = b->sum + n * r->width;
    for (int c = n - 1; c >= 0; c--) {
        int64_t from = start[n - 1 - c], to = start[n - c];
        sum -= r->width;
        if (c == n - 1)
            memset(sum, 0, (size_t)r->width * sizeof *sum);
        else
            memcpy(sum, sum + r->width, (size_t)r->width * sizeof *sum);
        sweep(sum, block_at(r, head, block), b->token + from, to - from, r->width);
        put_lost(p, c, layer, r, head, block, sum);
    }
}

/* Mass lost at one budget, whatever the others keep. */
static void lose_apart(pass *p, int layer, const lane_rows *r, int head, int64_t block,
                       int cell, const uint64_t *kept, const bench *b)
{
    float *sum = b->sum + cell * r->width;
    int64_t n;
    list_tokens(b->token, &n, kept, p->n_prompt, cell, false);
    memset(sum, 0, (size_t)r->width * sizeof *sum);
    sweep(sum, block_at(r, head, block), b->token, n, r->width);
    put_lost(p, cell, layer, r, head, block, sum);
}

/* Output errors where there is a ranking: one sum in its order, looked at where each budget
 * cuts. The bits at a budget do not depend on which others there are. */
static void err_ranked(pass *p, int layer, const lane_rows *r, int head, int64_t block,
                       const int32_t *cut, int64_t step, bench *b)
{
    const float *rows = block_at(r, head, block);
    int64_t from = 0;
    start_output(b, r, head, block, p->n_prompt);
    for (int c = 0; c < p->n_cell; c++) {
        int64_t to = cut[c * step];
        if (to < from) /* refused: it keeps nothing */
            continue;
        add_output(b, r, rows, from, to - from);
        put_error(p, c, layer, r, head, block, b->out, b->left, b->sum + c * r->width);
        from = to;
    }
}

static void err_apart(pass *p, int layer, const lane_rows *r, int head, int64_t block, int cell,
                      const uint64_t *kept, bench *b)
{
    int64_t n;
    list_tokens(b->token, &n, kept, p->n_prompt, cell, true);
    start_output(b, r, head, block, p->n_prompt);
    add_output(b, r, block_at(r, head, block), 0, n);
    put_error(p, cell, layer, r, head, block, b->out, b->left, b->sum + cell * r->width);
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

/* One head's block at every budget. */
static void judge_block(pass *p, int layer, int lane, const lane_rows *r, int head,
                        int64_t block, bench *b)
{
    int64_t at = (int64_t)layer * p->n_lane + lane, N = p->n_prompt, start[KVT_BUDGETS_MAX + 2];
    const uint64_t *kept = p->kept + at * N;
    if (is_nested(kept, N, p->n_cell)) {
        sort_buckets(b->token, start, kept, N, p->n_cell);
        lose_nested(p, layer, r, head, block, start, b);
    } else {
        for (int c = 0; c < p->n_cell; c++)
            lose_apart(p, layer, r, head, block, c, kept, b);
    }
    if (!p->out_err)
        return;
    if (p->rank) {
        for (int64_t s = 0; s < N; s++)
            b->token[p->rank[at * N + s]] = (int32_t)s;
        err_ranked(p, layer, r, head, block, p->cut + at, (int64_t)p->n_layer * p->n_lane, b);
        return;
    }
    for (int c = 0; c < p->n_cell; c++)
        err_apart(p, layer, r, head, block, c, kept, b);
}

kvt_code judge_on_top(pass *p, int layer, const lane_rows *r, kvt_arena *work, kvt_err *err)
{
    int per = p->n_head / p->n_lane; /* heads of a lane: the group's, or one */
    bench b;
    size_t mark = kvt_arena_mark(work);
    if (bench_new(&b, p, r, work, err))
        return err->code;
    for (int h = 0; h < r->n_head; h++)
        for (int64_t block = 0; block < r->n_block; block++)
            judge_block(p, layer, (r->first_head + h) / per, r, h, block, &b);
    kvt_arena_rewind(work, mark);
    return KVT_OK;
}

/* ---- one row at a time ---------------------------------------------------------------------
 */

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

static double sum_all(const float *p, int64_t n)
{
    double s[4] = {0};
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; k++)
            s[k] += (double)p[i + k];
    for (; i < n; i++)
        s[0] += (double)p[i];
    return (s[0] + s[1]) + (s[2] + s[3]);
}

/* out [n] = the row over some slots; returns its exact sum. */
static double take(float *restrict out, const float *row, const int64_t *pos, int64_t n)
{
    for (int64_t s = 0; s < n; s++)
        out[s] = row[pos[s]];
    return sum_all(out, n);
}

static void judge_held(pass *p, int layer, int cell, int lane, const row_job *j,
                       const double *all)
{
    int per = p->n_head / p->n_lane, first = lane * per;
    const int64_t *pos;
    int64_t n, n_dim = p->out_err ? j->values->dim[2] : 0;
    double left[HEADS_MAX];
    bool gone = false;
    kvt_engine_held(p->engine, cell, layer, lane, &pos, &n);
    p->seen[pass_lane(p, cell, layer, lane) * p->n_response + j->row] = (float)n;
    for (int h = 0; h < per; h++) {
        left[h] = take(j->line + h * n, j->rows + (first + h) * j->head_stride, pos, n);
        double lost = all[h] - left[h];
        p->lost[pass_head(p, cell, layer, first + h) * p->n_response + j->row] =
            (float)(lost < 1 ? lost : 1);
        gone |= lost > 0;
    }
    if (!p->out_err || !gone)
        return;
    const kvt_view *V = j->values;
    const float *v = (const float *)V->data + first * V->dim[0] / p->n_head * V->stride[0];
    slots_mix(j->mixed, j->line, pos, n, v, V->stride[1], per, n_dim);
    for (int h = 0; h < per; h++) {
        int64_t at = (first + h) * p->n_response + j->row;
        if (all[h] - left[h] > 0)
            p->out_err[pass_head(p, cell, layer, 0) * p->n_response + at] =
                relative(j->mixed + h * n_dim, left[h], j->whole->full + at * n_dim,
                         j->whole->sum[at], n_dim);
    }
}

void judge_row(pass *p, int layer, const row_job *j)
{
    int per = p->n_head / p->n_lane;
    for (int a = 0; a < p->n_lane; a++) {
        double all[HEADS_MAX];
        bool failed;
        for (int h = 0; h < per; h++)
            all[h] = sum_all(j->rows + (a * per + h) * j->head_stride, j->n_arrived);
        for (int c = 0; c < p->n_cell; c++)
            if (!kvt_engine_refused(p->engine, c, layer, &failed))
                judge_held(p, layer, c, a, j, all);
    }
}
