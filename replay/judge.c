/* judge.c - one decision against what the response looked at: mass lost and output error of
 * rows.
 *
 * Mass lost is the exact sum of the half attention on evicted tokens, at most 1. A sum of
 * halves that stays at or below 1 is exact in f32 in any order, and one that does not is 1
 * after the cut.
 *
 * Rows are turned, sixteen at a time, so that their attention to a token lies together, and
 * serve every pass while they are in the cache. Where larger budgets keep all that smaller ones
 * keep, one sweep over the evicted tokens, from the last one out, gives every budget. The
 * output error sums p v over what is kept in the order of the ranking, so that its bits at a
 * budget do not depend on which other budgets there are. */
#include "replay/judge_priv.h"

#include <math.h>
#include <string.h>

#include "compute/slots.h"
#include "kvt/arena.h"
#include "kvt/pieces.h"

enum { WIDTH = SLOTS_WIDTH };

/* ---- blocks of rows ------------------------------------------------------------------------
 */

kvt_code row_block_new(row_block *b, int64_t n_prompt, int64_t n_token, int64_t n_dim,
                       kvt_err *err)
{
    *b = (row_block){.n_prompt = n_prompt,
                     .n_token = n_token,
                     .n_dim = n_dim,
                     .turned = kvt_alloc(n_token * WIDTH, sizeof *b->turned),
                     .full = kvt_alloc(WIDTH * n_dim, sizeof *b->full),
                     .late = kvt_alloc(WIDTH * n_dim, sizeof *b->late),
                     .kept = kvt_alloc(WIDTH * n_dim, sizeof *b->kept),
                     .lost = kvt_alloc(KVT_BUDGETS_MAX * WIDTH, sizeof *b->lost),
                     .token = kvt_alloc(n_prompt, sizeof *b->token)};
    if (b->turned && b->full && b->late && b->kept && b->lost && b->token)
        return KVT_OK;
    row_block_free(b);
    return kvt_fail_memory(err, n_token * WIDTH * (int64_t)sizeof *b->turned);
}

void row_block_free(row_block *b)
{
    kvt_free(b->turned);
    kvt_free(b->full);
    kvt_free(b->late);
    kvt_free(b->kept);
    kvt_free(b->lost);
    kvt_free(b->token);
    *b = (row_block){0};
}

/* mass [WIDTH] += the rows' attention to n tokens: in doubles, where it is exact in any order.
 * A float of more than 1 has lost its last bit, and little may be left. */
static void add_mass(double *restrict mass, const float *p, const int32_t *token, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const float *x = p + (token ? token[i] : i) * WIDTH;
        for (int k = 0; k < WIDTH; k++)
            mass[k] += (double)x[k];
    }
}

/* Masses over all tokens and over the response's. */
static void whole_masses(row_block *b)
{
    memset(b->late_sum, 0, sizeof b->late_sum);
    add_mass(b->late_sum, b->turned + b->n_prompt * WIDTH, NULL, b->n_token - b->n_prompt);
    memcpy(b->sum, b->late_sum, sizeof b->sum);
    add_mass(b->sum, b->turned, NULL, b->n_prompt);
}

static void whole_outputs(row_block *b)
{
    const float *late = b->turned + b->n_prompt * WIDTH;
    int64_t n_late = b->n_token - b->n_prompt;
    size_t bytes = (size_t)(WIDTH * b->n_dim) * sizeof *b->late;
    memset(b->late, 0, bytes);
    slots_outer(b->late, late, b->value + b->n_prompt * b->n_dim, NULL, n_late, WIDTH,
                b->n_dim);
    memcpy(b->full, b->late, bytes);
    slots_outer(b->full, b->turned, b->value, NULL, b->n_prompt, WIDTH, b->n_dim);
}

void row_block_fill(row_block *b, double *token_sum, const layer_rows *rows, int head,
                    int64_t first, const float *value)
{
    b->head = head;
    b->first = first;
    b->n_row = kvt_min(WIDTH, rows->n_query - first);
    b->value = value;
    b->summed = false;
    slots_turn(b->turned, token_sum,
               rows->data + head * rows->head_stride + first * rows->row_stride,
               rows->row_stride, b->n_row, b->n_token, WIDTH);
    if (!value)
        return;
    whole_masses(b);
    whole_outputs(b);
}

void row_block_output(const row_block *b, layer_output *out, int64_t n_row)
{
    int64_t at = b->head * n_row + b->first;
    memcpy(out->full + at * b->n_dim, b->full,
           (size_t)(b->n_row * b->n_dim) * sizeof *out->full);
    memcpy(out->sum + at, b->sum, (size_t)b->n_row * sizeof *out->sum);
}

void row_block_size(const row_block *b, float *size)
{
    for (int64_t i = 0; i < b->n_row; i++) {
        double sum = 0;
        for (int64_t d = 0; d < b->n_dim; d++) {
            double x = (double)b->full[i * b->n_dim + d];
            sum += x * x;
        }
        size[i] = b->sum[i] > 0 ? (float)(sqrt(sum) / b->sum[i]) : NAN;
    }
}

/* ---- the order in which a lane's tokens go -------------------------------------------------
 */

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

bool lane_order_new(lane_order *o, int64_t n_prompt, bool ranked, kvt_arena *work)
{
    *o = (lane_order){.bucket = kvt_arena_array(work, n_prompt, sizeof *o->bucket)};
    if (ranked)
        o->rank = kvt_arena_array(work, n_prompt, sizeof *o->rank);
    o->of_rank = kvt_arena_array(work, n_prompt, sizeof *o->of_rank);
    return o->bucket && o->of_rank && (o->rank || !ranked);
}

/* The same of one ranking, of which each budget keeps the first, no fewer than a smaller one.
 * False: an allocator gives less at a larger budget. */
static bool sort_ranks(lane_order *o, const int32_t *rank, int64_t n, int64_t step, int n_cell)
{
    int64_t next[KVT_BUDGETS_MAX + 1];
    for (int c = 1; c < n_cell; c++)
        if (o->cut[c * step] < o->cut[(c - 1) * step])
            return false;
    o->start[0] = 0, o->start[n_cell + 1] = n;
    for (int c = 0; c < n_cell; c++)
        o->start[n_cell - c] = n - o->cut[c * step];
    for (int i = 0; i <= n_cell; i++) {
        next[i] = o->start[i];
        memset(o->of_rank + n - o->start[i + 1], i, (size_t)(o->start[i + 1] - o->start[i]));
    }
    for (int64_t s = 0; s < n; s++)
        o->bucket[next[o->of_rank[rank[s]]]++] = (int32_t)s;
    return true;
}

void lane_order_fill(lane_order *o, const pass *p, int layer, int lane)
{
    int64_t at = (int64_t)layer * p->n_lane + lane, N = p->n_prompt;
    int64_t step = (int64_t)p->n_layer * p->n_lane;
    o->kept = p->kept + at * N;
    o->cut = p->cut ? p->cut + at : NULL;
    o->nested = o->rank && sort_ranks(o, p->rank + at * N, N, step, p->n_cell);
    if (!o->nested) {
        o->nested = is_nested(o->kept, N, p->n_cell);
        if (o->nested)
            sort_buckets(o->bucket, o->start, o->kept, N, p->n_cell);
    }
    for (int64_t s = 0; o->rank && p->out_err && s < N; s++)
        o->rank[p->rank[at * N + s]] = (int32_t)s;
}

/* ---- mass lost -----------------------------------------------------------------------------
 */

/* A float that has not come to 1 is exact; few rows need their sum again. */
void row_block_prompt(const row_block *b, double *prompt_sum)
{
    float some[WIDTH] = {0};
    if (b->summed)
        memcpy(some, b->prompt, sizeof some);
    else if (!b->value)
        slots_add(some, b->turned, NULL, b->n_prompt);
    for (int64_t i = 0; i < b->n_row; i++) {
        prompt_sum[i] = b->value ? b->sum[i] - b->late_sum[i] : (double)some[i];
        if (b->value || some[i] < 1)
            continue;
        prompt_sum[i] = 0;
        for (int64_t t = 0; t < b->n_prompt; t++)
            prompt_sum[i] += (double)b->turned[t * WIDTH + i];
    }
}

static float *rows_of(float *all, const pass *p, int cell, int layer, const row_block *b)
{
    return all + pass_head(p, cell, layer, b->head) * p->n_response + b->first;
}

static void put_lost(pass *p, int cell, int layer, const row_block *b)
{
    float *out = rows_of(p->lost, p, cell, layer, b);
    const float *lost = b->lost + cell * WIDTH;
    for (int64_t i = 0; i < b->n_row; i++)
        out[i] = lost[i] < 1 ? lost[i] : 1;
}

/* One sweep from the last token out. */
static void lose_nested(pass *p, int layer, row_block *b, const lane_order *o)
{
    int n = p->n_cell;
    for (int c = n - 1; c >= 0; c--) {
        int64_t from = o->start[n - 1 - c], to = o->start[n - c];
        float *sum = b->lost + c * WIDTH;
        if (c == n - 1)
            memset(sum, 0, WIDTH * sizeof *sum);
        else
            memcpy(sum, sum + WIDTH, WIDTH * sizeof *sum);
        slots_add(sum, b->turned, o->bucket + from, to - from);
        put_lost(p, c, layer, b);
    }
    if (b->summed || b->value)
        return;
    memcpy(b->prompt, b->lost, sizeof b->prompt); /* and what every budget keeps */
    slots_add(b->prompt, b->turned, o->bucket + o->start[n], p->n_prompt - o->start[n]);
    b->summed = true;
}

/* At one budget, whatever the others keep. */
static void lose_apart(pass *p, int layer, int cell, row_block *b, const lane_order *o)
{
    float *sum = b->lost + cell * WIDTH;
    int64_t n;
    list_tokens(b->token, &n, o->kept, p->n_prompt, cell, false);
    memset(sum, 0, WIDTH * sizeof *sum);
    slots_add(sum, b->turned, b->token, n);
    put_lost(p, cell, layer, b);
}

/* ---- output error --------------------------------------------------------------------------
 */

/* The output and the mass over response tokens, which on-top policies keep. */
static void start_output(row_block *b)
{
    memcpy(b->kept, b->late, (size_t)(WIDTH * b->n_dim) * sizeof *b->kept);
    memcpy(b->left, b->late_sum, sizeof b->left);
}

static void add_output(row_block *b, const int32_t *token, int64_t n)
{
    slots_outer(b->kept, b->turned, b->value, token, n, WIDTH, b->n_dim);
    add_mass(b->left, b->turned, token, n);
}

static void put_error(pass *p, int cell, int layer, const row_block *b)
{
    int64_t at = pass_head(p, cell, layer, b->head) * p->n_response + b->first;
    const float *lost = b->lost + cell * WIDTH;
    for (int64_t i = 0; i < b->n_row; i++)
        if (lost[i] > 0)
            judge_output(p, at + i, b->kept + i * b->n_dim, b->left[i], b->full + i * b->n_dim,
                         b->sum[i], b->n_dim);
}

/* Cells by what they keep of a lane: an allocator may give a lane less at a larger budget. */
static void sort_cuts(int *cell, const int32_t *cut, int64_t step, int n_cell)
{
    for (int c = 0; c < n_cell; c++) {
        int at = c;
        for (; at > 0 && cut[cell[at - 1] * step] > cut[c * step]; at--)
            cell[at] = cell[at - 1];
        cell[at] = c;
    }
}

/* One sum in the order of the ranking, looked at where each budget cuts. */
static void err_ranked(pass *p, int layer, row_block *b, const lane_order *o)
{
    int64_t from = 0, step = (int64_t)p->n_layer * p->n_lane;
    int cell[KVT_BUDGETS_MAX];
    sort_cuts(cell, o->cut, step, p->n_cell);
    start_output(b);
    for (int i = 0; i < p->n_cell; i++) {
        int64_t to = o->cut[cell[i] * step];
        add_output(b, o->rank + from, to - from);
        put_error(p, cell[i], layer, b);
        from = to;
    }
}

static void err_apart(pass *p, int layer, int cell, row_block *b, const lane_order *o)
{
    int64_t n;
    list_tokens(b->token, &n, o->kept, p->n_prompt, cell, true);
    start_output(b);
    add_output(b, b->token, n);
    put_error(p, cell, layer, b);
}

void judge_block(pass *p, int layer, row_block *b, const lane_order *o)
{
    if (o->nested)
        lose_nested(p, layer, b, o);
    for (int c = 0; !o->nested && c < p->n_cell; c++)
        lose_apart(p, layer, c, b, o);
    if (!p->out_err || repositions(p))
        return;
    if (o->rank)
        err_ranked(p, layer, b, o);
    for (int c = 0; !o->rank && c < p->n_cell; c++)
        err_apart(p, layer, c, b, o);
}
