/* future.c - sums of attention by key (capture/future.h). */
#include "capture/future.h"

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "compute/backend.h"
#include "kvt/arena.h"

/* One layer's wave is summed in at most this much memory; waves depend on shapes only. */
enum { WAVE_BYTES = 64 << 20 };

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

int64_t future_blocks(int64_t block, int64_t n_prompt, int64_t n_response)
{
    return ceil_div(n_prompt, block) + ceil_div(n_response, block);
}

int64_t future_block(int64_t n_layer, int64_t n_head, int64_t n_prompt, int64_t n_token,
                     int64_t limit)
{
    int64_t block = 64, lanes = n_layer * n_head;
    while (block < n_token &&
           future_blocks(block, n_prompt, n_token - n_prompt) > limit / (2 * lanes * n_token))
        block *= 2;
    return block;
}

/* Everything but the pointers. */
static void layout(future *f, const future_spec *s)
{
    f->spec = *s;
    f->sub = s->block < s->tile ? s->block : s->tile;
    int64_t row_bytes = (int64_t)sizeof(float) * 2 * s->n_head * s->n_token;
    int64_t tiles = WAVE_BYTES / (row_bytes * (s->tile / f->sub));
    int64_t longest =
        s->n_prompt > s->n_token - s->n_prompt ? s->n_prompt : s->n_token - s->n_prompt;
    int64_t all = ceil_div(longest, s->tile);
    tiles = tiles < 1 ? 1 : tiles > all ? all : tiles;
    f->wave_rows = tiles * s->tile;
    f->n_sub = f->wave_rows / f->sub;
    f->prompt_blocks = ceil_div(s->n_prompt, s->block);
    f->n_block = future_blocks(s->block, s->n_prompt, s->n_token - s->n_prompt);
}

/* One list for the allocation and the plan: X(member, number of values). */
#define FUTURE_MEMORY(X)                                             \
    X(col_sum, lanes * s->n_prompt)                                  \
    X(future_sum, lanes * s->n_prompt)                               \
    X(late, lanes * s->n_token)                                      \
    X(col_max, lanes * s->n_prompt)                                  \
    X(future_max, lanes * s->n_prompt)                               \
    X(open_sum, s->blocks ? lanes * s->n_token : 0)                  \
    X(open_max, s->block_max ? lanes * s->n_token : 0)               \
    X(block_sum, s->blocks ? lanes * f->n_block * s->n_token : 0)    \
    X(block_max, s->block_max ? lanes * f->n_block * s->n_token : 0) \
    X(sub_sum, s->on_device ? 0 : s->n_head * f->n_sub * s->n_token) \
    X(sub_max, s->on_device ? 0 : s->n_head * f->n_sub * s->n_token) \
    X(band, s->on_device ? 0 : s->n_head * f->n_sub * f->sub)

int64_t future_bytes(const future_spec *s)
{
    future plan, *f = &plan;
    layout(f, s);
    int64_t lanes = (int64_t)s->n_layer * s->n_head, bytes = 0;
#define X(member, n) bytes += (n) * (int64_t)sizeof *f->member;
    FUTURE_MEMORY(X)
#undef X
    return bytes;
}

kvt_code future_new(future **out, const future_spec *s, kvt_err *err)
{
    *out = NULL;
    future *f = kvt_alloc(1, sizeof *f);
    if (!f)
        return kvt_fail_memory(err, sizeof *f);
    layout(f, s);
    int64_t lanes = (int64_t)s->n_layer * s->n_head;
    bool ok = true;
#define X(member, n) ok = ok && (f->member = kvt_alloc((n), sizeof *f->member)) != NULL;
    FUTURE_MEMORY(X)
#undef X
    if (!ok) {
        future_free(f);
        return kvt_fail_memory(err, future_bytes(s));
    }
    *out = f;
    return KVT_OK;
}

void future_free(future *f)
{
    if (!f)
        return;
#define X(member, n) kvt_free(f->member);
    FUTURE_MEMORY(X)
#undef X
    kvt_free(f);
}

/* Begin of the block that row `pos` is in. */
static int64_t block_begin(const future *f, int64_t pos)
{
    int64_t n = f->spec.n_prompt, from = pos < n ? 0 : n;
    return from + (pos - from) / f->spec.block * f->spec.block;
}

static void close_block(future *f, int64_t lane, int64_t begin, int64_t end)
{
    int64_t cap = f->spec.n_token, n = f->spec.n_prompt, block = f->spec.block;
    int64_t j = begin < n ? begin / block : f->prompt_blocks + (begin - n) / block;
    float *sum = f->open_sum + lane * cap, scale = (float)FUTURE_SCALE / (float)(end - begin);
    for (int64_t t = 0; t < end; t++)
        sum[t] *= scale;
    half_from_floats(f->block_sum + (lane * f->n_block + j) * cap, sum, end);
    memset(sum, 0, (size_t)end * sizeof *sum);
    if (f->spec.block_max) {
        float *max = f->open_max + lane * cap;
        half_from_floats(f->block_max + (lane * f->n_block + j) * cap, max, end);
        memset(max, 0, (size_t)end * sizeof *max);
    }
}

/* Adds the column sums and maxima [n_key] of rows begin..end over keys from `first`. band: the
 * sums over the rows that are at least `delay` away, for the keys that only some of them are.
 */
static void add_rows(future *f, int64_t lane, int64_t begin, int64_t end, int64_t first,
                     int64_t n_key, const float *sum, const float *max, const float *band)
{
    const future_spec *s = &f->spec;
    bool prompt = begin < s->n_prompt;
    double *total = (prompt ? f->col_sum : f->future_sum) + lane * s->n_prompt + first;
    float *top = (prompt ? f->col_max : f->future_max) + lane * s->n_prompt + first;
    int64_t n = s->n_prompt - first < n_key ? s->n_prompt - first : n_key;
    for (int64_t t = 0; t < n; t++) {
        total[t] += (double)sum[t];
        top[t] = max[t] > top[t] ? max[t] : top[t];
    }
    double *late = f->late + lane * s->n_token;
    int64_t t = first;
    for (; t <= begin - s->delay; t++)
        late[t] += (double)sum[t - first];
    for (int64_t i = t - (begin - s->delay + 1); t <= end - 1 - s->delay; t++, i++)
        late[t] += (double)band[i];
    if (!s->blocks)
        return;
    float *open = f->open_sum + lane * s->n_token + first;
    for (t = 0; t < n_key; t++)
        open[t] += sum[t];
    if (s->block_max) {
        open = f->open_max + lane * s->n_token + first;
        for (t = 0; t < n_key; t++)
            open[t] = max[t] > open[t] ? max[t] : open[t];
    }
    int64_t from = block_begin(f, begin);
    if (end == from + s->block || end == s->n_prompt)
        close_block(f, lane, from, end);
}

/* band[i]: key begin - delay + 1 + i, over the rows from its own `late` on. */
static void sum_band(const future *f, float *band, const tap_tile *t, int64_t begin,
                     int64_t end)
{
    for (int64_t i = 0; i < end - begin - 1; i++) {
        int64_t key = begin - f->spec.delay + 1 + i;
        float sum = 0;
        for (int64_t row = begin + 1 + i; key >= t->first && row < end; row++)
            sum += t->p[(row - t->pos) * t->n_key + key - t->first];
        band[i] = sum;
    }
}

void future_tile(future *f, int layer, const tap_tile *t)
{
    const future_spec *s = &f->spec;
    int64_t lane = (int64_t)layer * s->n_head + t->head;
    if (t->step) {
        add_rows(f, lane, t->pos, t->pos + 1, t->first, t->n_key, t->p, t->p, NULL);
        return;
    }
    int64_t from = t->pos < s->n_prompt ? 0 : s->n_prompt;
    for (int64_t r = 0; r < t->n_row; r += f->sub) {
        int64_t m = t->n_row - r < f->sub ? t->n_row - r : f->sub;
        int64_t i = t->head * f->n_sub + (t->pos + r - from) / f->sub % f->n_sub;
        s->backend->columns(f->sub_sum + i * s->n_token, f->sub_max + i * s->n_token,
                            t->p + r * t->n_key, t->n_key, m, t->n_key);
        sum_band(f, f->band + i * f->sub, t, t->pos + r, t->pos + r + m);
    }
}

void future_wave(future *f, int layer, int64_t pos, int64_t n)
{
    const future_spec *s = &f->spec;
    int64_t from = pos < s->n_prompt ? 0 : s->n_prompt;

#pragma omp parallel for schedule(dynamic, 1) num_threads(s->n_thread)
    for (int h = 0; h < s->n_head; h++)
        for (int64_t begin = pos; begin < pos + n; begin += f->sub) {
            int64_t end = begin + f->sub < pos + n ? begin + f->sub : pos + n;
            int64_t tile = from + (begin - from) / s->tile * s->tile;
            int64_t tile_end = tile + s->tile < pos + n ? tile + s->tile : pos + n;
            int64_t first = attend_first(tile, s->window[layer]);
            int64_t i = h * f->n_sub + (begin - from) / f->sub % f->n_sub;
            add_rows(f, (int64_t)layer * s->n_head + h, begin, end, first, tile_end - first,
                     f->sub_sum + i * s->n_token, f->sub_max + i * s->n_token,
                     f->band + i * f->sub);
        }
}

void future_close(future *f, int64_t n_token)
{
    int64_t n = f->spec.n_prompt, lanes = (int64_t)f->spec.n_layer * f->spec.n_head;
    if (!f->spec.blocks || n_token == n || (n_token - n) % f->spec.block == 0)
        return;
    int64_t begin = block_begin(f, n_token - 1);
    for (int64_t lane = 0; lane < lanes; lane++)
        close_block(f, lane, begin, n_token);
}

void future_mean(const future *f, int layer, int64_t n_token, float *out)
{
    int64_t n = f->spec.n_head * f->spec.n_prompt;
    const double *sum = f->future_sum + layer * n;
    for (int64_t i = 0; i < n; i++)
        out[i] = (float)(sum[i] / (double)(n_token - f->spec.n_prompt));
}

void future_delayed(const future *f, int layer, int64_t n_token, float *out)
{
    const future_spec *s = &f->spec;
    for (int64_t h = 0; h < s->n_head; h++) {
        const double *late = f->late + (layer * s->n_head + h) * s->n_token;
        for (int64_t t = 0; t < n_token; t++) {
            int64_t n = n_token - t - s->delay;
            out[h * n_token + t] = n > 0 ? (float)log(late[t] / (double)n) : NAN;
        }
    }
}

void future_block_rows(const future *f, int which, int layer, int64_t n_token, uint16_t *out)
{
    const future_spec *s = &f->spec;
    int64_t n_block = future_blocks(s->block, s->n_prompt, n_token - s->n_prompt);
    const uint16_t *from = which ? f->block_max : f->block_sum;
    for (int64_t h = 0; h < s->n_head; h++)
        for (int64_t j = 0; j < n_block; j++)
            memcpy(out + (h * n_block + j) * n_token,
                   from + ((layer * s->n_head + h) * f->n_block + j) * s->n_token,
                   (size_t)n_token * sizeof *out);
}
