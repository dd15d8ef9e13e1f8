/* judge_made.c - rows that are made again from queries and keys, for passes that change what a
 * row sees: joined slots, dropped channels, keys at other positions. */
#include "replay/judge_priv.h"

#include "base/half.h"
#include "compute/rows.h"
#include "compute/slots.h"
#include "kvt/arena.h"

bool made_row_new(made_row *r, int64_t n_token, int64_t n_dim, kvt_arena *memory)
{
    r->half = kvt_arena_array(memory, n_token, sizeof *r->half);
    r->row = kvt_arena_array(memory, n_token, sizeof *r->row);
    r->mixed = kvt_arena_array(memory, n_dim, sizeof *r->mixed);
    r->rows = kvt_arena_get(memory, rows_scratch_bytes(n_token, n_dim));
    return r->half && r->row && r->mixed && r->rows;
}

void judge_made(const made_row *r, pass *p, int cell, int layer, int head, int64_t m,
                const made_slots *s, const kvt_geometry *g, const layer_output *whole)
{
    int64_t D = g->head_dim, M = p->n_response, at = head * M + m;
    int32_t last = (int32_t)(s->n - 1);
    double sum = 0;
    rows_head(r->half, s->query, s->key, &last, 1, s->n, D, (float)g->attn_scale, 0, r->rows);
    half_to_floats(r->row, r->half, s->n);
    for (int64_t i = 0; i < s->n; i++)
        sum += (double)r->row[i];
    slots_mix(r->mixed, r->row, s->pos, s->n, s->value, s->value_stride, 1, D);
    judge_output(p, pass_head(p, cell, layer, head) * M + m, r->mixed, sum,
                 whole->full + at * D, whole->sum[at], D);
}
