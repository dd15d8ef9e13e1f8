/* reposition.c - outputs of rows whose keys take the position of their slot
 * (traits.cache_positions; StreamingLLM's code, policies-training-free.md 1.8).
 *
 * A lane that holds n slots gives slot s the position s, and the newest query n - 1. Which
 * slots stay is as ever, and so is the mass lost: it is that of the full cache. The output
 * error is that of rows made again: the softmax over the lane's slots of
 *
 *   scale  q turned by (n - 1 - its position) . k_s turned by (s - its position)
 *
 * against the output of the full cache. Only the difference of the two turns matters, so that
 * the key alone is turned by it: a slot that moved as far as the query did is left as it is.
 * Turning keeps the norm of a stored key (C011: no factor of YaRN's is applied again). A layer
 * with a sliding window sees what its window shows by the tokens' own positions. */
#include "replay/judge_priv.h"

#include <string.h>

#include "kvt/arena.h"
#include "kvt/pieces.h"

kvt_code reposition_new(reposition *r, const kvt_geometry *g, int64_t n_token, kvt_err *err)
{
    int64_t D = g->head_dim;
    *r = (reposition){.geometry = g, .memory = kvt_arena_new((size_t)1 << 40), .freq = NULL};
    if (!r->memory)
        return kvt_fail_memory(err, n_token * D);
    r->freq = kvt_arena_array(r->memory, D / 2, sizeof *r->freq);
    r->key = kvt_arena_array(r->memory, n_token * D, sizeof *r->key);
    r->pos = kvt_arena_array(r->memory, n_token, sizeof *r->pos);
    if (r->freq && r->key && r->pos && made_row_new(&r->made, n_token, D, r->memory))
        return KVT_OK;
    return kvt_fail_memory(err, n_token * D * (int64_t)sizeof *r->key);
}

void reposition_free(reposition *r)
{
    kvt_arena_free(r->memory);
    *r = (reposition){0};
}

/* Keys of a kv head at slots 0..n-1, as a query sees them that moved by `shift`. */
static void gather(reposition *r, const reposition_feed *f, int64_t group, const int64_t *pos,
                   int64_t n, int64_t shift)
{
    int64_t D = r->geometry->head_dim;
    for (int64_t s = 0; s < n; s++) {
        const float *key = kvt_head_row(f->keys, group, pos[s]);
        int64_t delta = s - pos[s] - shift;
        if (delta == 0)
            memcpy(r->key + s * D, key, (size_t)D * sizeof *key);
        else
            kvt_rotate(r->key + s * D, key, r->freq, D, delta);
    }
}

/* Row m of a query head over the first n of the gathered slots. */
static void judge_again(reposition *r, const reposition_feed *f, pass *p, int cell, int layer,
                        int head, const int64_t *pos, int64_t n, int64_t m)
{
    const kvt_geometry *g = r->geometry;
    int64_t group = head * g->n_kv_head / g->n_head, first = 0;
    int64_t seen = kvt_geometry_first(g, f->model_layer, p->n_prompt + m);
    while (first < n - 1 && pos[first] < seen)
        first++;
    made_slots slots = {.query = kvt_head_row(f->queries, head, f->n_before + m),
                        .key = r->key + first * g->head_dim,
                        .value = kvt_head_row(f->values, group, 0),
                        .pos = pos + first,
                        .value_stride = f->values->stride[1],
                        .n = n - first};
    judge_made(&r->made, p, cell, layer, head, m, &slots, g, f->whole);
}

void reposition_begin(reposition *r, const reposition_feed *f)
{
    (void)kvt_rope_freq(r->freq, r->geometry, f->model_layer);
}

void reposition_row(reposition *r, const reposition_feed *f, pass *p, int cell, int layer,
                    int lane, const int64_t *pos, int64_t n, int64_t m)
{
    int64_t now = p->n_prompt + m, group = lane * r->geometry->n_kv_head / p->n_lane;
    int per = p->n_head / p->n_lane;
    if (n < 1 || n > now) /* nothing went: every slot is where it was */
        return;
    gather(r, f, group, pos, n, n - 1 - now);
    for (int h = lane * per; h < (lane + 1) * per; h++)
        judge_again(r, f, p, cell, layer, h, pos, n, m);
}

/* On top the prompt's kept tokens move once, and the response as far as its queries. */
static void run_lane(reposition *r, const reposition_feed *f, pass *p, int cell, int layer,
                     int lane)
{
    const uint64_t *kept = p->kept + ((int64_t)layer * p->n_lane + lane) * p->n_prompt;
    int64_t N = p->n_prompt, M = p->n_response, n = 0;
    int64_t group = lane * r->geometry->n_kv_head / p->n_lane;
    int per = p->n_head / p->n_lane;
    for (int64_t t = 0; t < N; t++)
        if (kept[t] >> cell & 1)
            r->pos[n++] = t;
    if (n == N)
        return;
    for (int64_t m = 0; m < M; m++)
        r->pos[n + m] = N + m;
    gather(r, f, group, r->pos, n + M, n - N);
    for (int h = lane * per; h < (lane + 1) * per; h++)
        for (int64_t m = 0; m < M; m++)
            judge_again(r, f, p, cell, layer, h, r->pos, n + m + 1, m);
}

void reposition_top(reposition *r, const reposition_feed *f, pass *p, int layer)
{
    bool failed;
    for (int c = 0; c < p->n_cell; c++)
        for (int a = 0; a < p->n_lane && !kvt_engine_refused(p->engine, c, layer, &failed); a++)
            run_lane(r, f, p, c, layer, a);
}
