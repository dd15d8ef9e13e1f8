/* device_attend.c - rows of attention and what a trace keeps of them (compute/device_args.h):
 * the definitions. */
#include <math.h>

#include "compute/attend.h"
#include "compute/cpu/device_typed.h"

/* p f32 [n_key] of the query at `pos`; returns the lse. */
static float softmax_row(const dev_softmax_args *a, float *p, int64_t pos)
{
    int64_t lo = attend_first(pos, a->window) - a->first, hi = pos + 1 - a->first;
    lo = lo < 0 ? 0 : lo;
    hi = hi < 0 ? 0 : hi > a->n_key ? a->n_key : hi;
    float max = -INFINITY;
    double sum = 0;
    for (int64_t t = lo; t < hi; t++)
        max = p[t] > max ? p[t] : max;
    hi = max == -INFINITY ? lo : hi; /* nothing to see */
    for (int64_t t = lo; t < hi; t++)
        sum += exp((double)p[t] - (double)max);
    double lse = (double)max + log(sum); /* -inf where the sum is 0 */
    for (int64_t t = 0; t < a->n_key; t++)
        p[t] = t >= lo && t < hi ? (float)exp((double)p[t] - lse) : 0.0f;
    return (float)lse;
}

kvt_code host_softmax(kvt_device *d, const dev_softmax_args *a, kvt_err *err)
{
    (void)d, (void)err;
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < a->n_head * a->n_row; row++) {
        int64_t h = row / a->n_row, r = row % a->n_row;
        a->lse[h * a->ld_lse + r] = softmax_row(a, a->p + row * a->ld, a->pos + r);
        for (int64_t t = 0; a->cast && t < a->n_key; t++)
            typed_put(a->type, a->cast, row * a->ld + t, a->p[row * a->ld + t]);
    }
    return KVT_OK;
}

/* The block of queries that the row at `pos` is in. */
typedef struct span {
    int64_t index, begin, end;
} span;

static span block_of(const dev_record_args *a, int64_t pos)
{
    bool prompt = pos < a->n_prompt;
    int64_t from = prompt ? 0 : a->n_prompt, i = (pos - from) / a->block;
    span b = {prompt ? i : a->prompt_blocks + i, from + i * a->block,
              from + (i + 1) * a->block};
    if (prompt && b.end > a->n_prompt)
        b.end = a->n_prompt;
    return b;
}

/* Rows begin .. end of this call, all of one block, of one column: p[r * ld] is the row's. */
static void record_column(const dev_record_args *a, int64_t h, int64_t t, const float *p,
                          int64_t begin, int64_t end)
{
    int64_t lane = h * a->n_token + t, lane_prompt = h * a->n_prompt + t;
    float sum = 0, late = 0, max = 0;
    for (int64_t pos = begin; pos < end; pos++) {
        float x = p[(pos - a->pos) * a->ld];
        sum += x;
        late += pos - t >= a->delay ? x : 0;
        max = x > max ? x : max;
    }
    if (t < a->n_prompt) {
        a->sum[lane_prompt] += (double)sum;
        a->max[lane_prompt] = max > a->max[lane_prompt] ? max : a->max[lane_prompt];
    }
    a->late[lane] += (double)late;
    if (a->open_sum)
        a->open_sum[lane] += sum;
    if (a->open_max)
        a->open_max[lane] = max > a->open_max[lane] ? max : a->open_max[lane];
}

/* All of a block's row, [T]: behind its last query there is nothing open, which gives zeros. */
static void record_close(const dev_record_args *a, int64_t h, span b)
{
    int64_t to = (h * a->n_block + b.index - a->block_first) * a->n_token;
    float scale = a->scale / (float)(b.end - b.begin);
    for (int64_t t = 0; t < a->n_token; t++) {
        float *sum = a->open_sum + h * a->n_token + t;
        a->block_sum[to + t] = half_from_float(*sum * scale);
        *sum = 0;
        if (!a->open_max)
            continue;
        float *max = a->open_max + h * a->n_token + t;
        a->block_max[to + t] = half_from_float(*max);
        *max = 0;
    }
}

kvt_code host_record(kvt_device *d, const dev_record_args *a, kvt_err *err)
{
    (void)d, (void)err;
#pragma omp parallel for schedule(static)
    for (int64_t h = 0; h < a->n_head; h++)
        for (int64_t begin = a->pos; begin < a->pos + a->n_row;) {
            span b = {0, a->pos, a->pos + a->n_row};
            if (a->open_sum)
                b = block_of(a, begin);
            int64_t end = b.end < a->pos + a->n_row ? b.end : a->pos + a->n_row;
            for (int64_t t = 0; t < a->n_key; t++)
                record_column(a, h, a->first + t, a->p + h * a->n_row * a->ld + t, begin, end);
            if (a->open_sum && end == b.end)
                record_close(a, h, b);
            begin = end;
        }
    return KVT_OK;
}
