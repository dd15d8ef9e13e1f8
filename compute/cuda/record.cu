/* record.cu - sums of attention by key: the transposed reduction, without atomics.
 *
 * grid: (n_head x columns / 128)   block: 128, a column a thread   shared: none
 * Neighbours read neighbours of a row. Reads each probability once, 4 n_row bytes a column; of
 * the sums about 60 bytes a column and part of a block. A call that ends a block goes over all
 * T columns, so that the block's row is written whole. */
#include "compute/cuda/typed.h"

enum { THREADS = 128 };

typedef struct record_plan {
    dev_record_args a;
    int64_t begin, n_tile; /* first column; tiles of THREADS of a head */
    int64_t end;           /* behind the last column */
} record_plan;

/* Block of queries of a row. */
typedef struct record_block {
    int64_t index, begin, end;
} record_block;

DEVICE_FN record_block block_of(const dev_record_args *a, int64_t pos)
{
    bool prompt = pos < a->n_prompt;
    int64_t from = prompt ? 0 : a->n_prompt;
    record_block b;
    b.index = (pos - from) / a->block;
    b.begin = from + b.index * a->block;
    b.end = b.begin + a->block;
    b.end = prompt && b.end > a->n_prompt ? a->n_prompt : b.end;
    b.index += prompt ? 0 : a->prompt_blocks;
    return b;
}

/* Sum, late sum and maximum of the rows of one part of one column. */
typedef struct record_part {
    float sum, late, max;
} record_part;

DEVICE_FN void part_add(record_part *part, float x, bool late)
{
    part->sum += x;
    part->late += late ? x : 0.0f;
    part->max = x > part->max ? x : part->max;
}

/* p: the column's value of row `pos`; rows pos .. end. Four loads are on their way at a time.
 */
DEVICE_FN record_part part_of(const float *p, int64_t ld, int64_t pos, int64_t end,
                              int64_t late_from)
{
    record_part part;
    part.sum = part.late = part.max = 0;
    for (; pos + 4 <= end; pos += 4, p += 4 * ld) {
        float x0 = p[0], x1 = p[ld], x2 = p[2 * ld], x3 = p[3 * ld];
        part_add(&part, x0, pos >= late_from);
        part_add(&part, x1, pos + 1 >= late_from);
        part_add(&part, x2, pos + 2 >= late_from);
        part_add(&part, x3, pos + 3 >= late_from);
    }
    for (; pos < end; pos++, p += ld)
        part_add(&part, p[0], pos >= late_from);
    return part;
}

DEVICE_FN void part_keep(const dev_record_args *a, int64_t h, int64_t t, record_part part)
{
    int64_t lane = h * a->n_token + t, prompt = h * a->n_prompt + t;
    if (t < a->n_prompt) {
        a->sum[prompt] += (double)part.sum;
        a->max[prompt] = part.max > a->max[prompt] ? part.max : a->max[prompt];
    }
    a->late[lane] += (double)part.late;
    if (a->open_sum)
        a->open_sum[lane] += part.sum;
    if (a->open_max)
        a->open_max[lane] = part.max > a->open_max[lane] ? part.max : a->open_max[lane];
}

DEVICE_FN void column_close(const dev_record_args *a, int64_t h, int64_t t, record_block b)
{
    int64_t lane = h * a->n_token + t;
    int64_t to = (h * a->n_block + b.index - a->block_first) * a->n_token + t;
    a->block_sum[to] = to_half(a->open_sum[lane] * (a->scale / (float)(b.end - b.begin)));
    a->open_sum[lane] = 0;
    if (a->open_max) {
        a->block_max[to] = to_half(a->open_max[lane]);
        a->open_max[lane] = 0;
    }
}

KERNEL(record_kernel, record_plan)
{
    const dev_record_args *r = &a.a;
    int64_t h = BLOCK_X / a.n_tile;
    int64_t t = a.begin + BLOCK_X % a.n_tile * THREADS + THREAD_X;
    if (t >= a.end)
        return;
    bool seen = t >= r->first && t < r->first + r->n_key;
    const float *p = r->p + h * r->n_row * r->ld + (t - r->first);
    int64_t last = r->pos + r->n_row;
    for (int64_t pos = r->pos; pos < last;) {
        record_block b;
        b.index = 0;
        b.begin = r->pos;
        b.end = last;
        if (r->open_sum)
            b = block_of(r, pos);
        int64_t end = b.end < last ? b.end : last;
        if (seen)
            part_keep(r, h, t,
                      part_of(p + (pos - r->pos) * r->ld, r->ld, pos, end, t + r->delay));
        if (r->open_sum && end == b.end)
            column_close(r, h, t, b);
        pos = end;
    }
}

/* Whether a row of this call ends a block. */
static inline bool closes(const dev_record_args *a)
{
    int64_t last = a->pos + a->n_row, from = a->pos < a->n_prompt ? 0 : a->n_prompt;
    return a->open_sum && ((last - from) / a->block > (a->pos - from) / a->block ||
                           (from == 0 && last == a->n_prompt));
}

LAUNCHERS_BEGIN
kvt_code cuda_record(kvt_device *d, const dev_record_args *a, kvt_err *err)
{
    record_plan plan;
    plan.a = *a;
    plan.begin = closes(a) ? 0 : a->first;
    plan.end = closes(a) ? a->n_token : a->first + a->n_key;
    plan.n_tile = blocks_of(plan.end - plan.begin, THREADS);
    if (a->n_head * a->n_row <= 0 || plan.end <= plan.begin)
        return KVT_OK;
    return LAUNCH(d, record_kernel, plan, grid3(a->n_head * plan.n_tile, 1, 1), THREADS, 0,
                  err);
}
LAUNCHERS_END
