/* evict_eager.c - eviction by a framework's operators, one after the other.
 *
 *   max(factor x bytes / (bandwidth e_m), floor)
 *   bytes of a layer: 24 q N H (scores: written in 16 bits, cast, softmax, cast back, reduced)
 *                     + (2 G + 3 H) N D (keys and values expanded to query heads)
 *
 * Factor and floor are those of a published implementation; scores without a decision have no
 * floor. It never takes less than the fused
 * formulae say on the same machine. */
#include "replay/cost/time_priv.h"

enum { SCORE_BYTES = 24 };

double kvt_cost_eager_score(const kvt_cost_geometry *g, const kvt_machine *m, int64_t rows,
                            int64_t n_prompt)
{
    if (rows <= 0)
        return 0;
    double heads = (double)g->g.n_head, lanes = (double)g->g.n_kv_head;
    double token = SCORE_BYTES * (double)rows * heads +
                   (2 * lanes + 3 * heads) * (double)g->g.head_dim * cost_act_bytes(m);
    return cost_tokens(g, NULL, (double)n_prompt) * token / (m->mem_bw * m->e_m);
}

/* Rows that are materialised. */
static double eager_rows(const kvt_cost_case *c)
{
    const kvt_cost_work *w = c->work;
    double n = (double)c->n_prompt;
    if (w->is_bound)
        return 0;
    if (w->whole_rows || w->score == KVT_SCORE_REPEAT)
        return n;
    if (w->score == KVT_SCORE_COLUMNS) /* half of the square is causal: twice as many rows */
        return w->rows_frac > 0 && w->rows_frac < 0.5 ? 2 * w->rows_frac * n : n;
    if (w->draft != KVT_DRAFT_NONE) /* the factor was fitted to the rows of drafts alone */
        return (double)cost_draft_tokens(c);
    return w->score == KVT_SCORE_ROWS ? cost_scoring_rows(c) : 0;
}

double cost_eager_pass(const kvt_cost_case *c)
{
    return kvt_cost_eager_score(c->geometry, &c->constants->machine, (int64_t)eager_rows(c),
                                c->n_prompt) *
           (double)cost_batch(c->setting) / (double)cost_tensor(c->setting);
}

static double floor_of(const kvt_cost_case *c)
{
    return c->work->when == KVT_WHEN_NEVER ? 0 : c->constants->machine.evict_floor;
}

bool cost_eager_floored(const kvt_cost_case *c)
{
    const kvt_machine *m = &c->constants->machine;
    return m->evict_factor * cost_eager_pass(c) < floor_of(c);
}

void cost_eager_stage(kvt_evict_cost *part, const kvt_cost_case *c)
{
    const kvt_machine *m = &c->constants->machine;
    /* the prompt's second run is a forward pass, not traffic of scores */
    double forward = c->work->score == KVT_SCORE_REPEAT ? part->score : 0;
    double device = part->extra + part->score + part->select + part->copy;
    double traffic = m->evict_factor * cost_eager_pass(c);
    double least = floor_of(c), stage = forward + (traffic > least ? traffic : least);
    if (stage > part->total) {
        part->host = stage - device;
        part->total = stage;
    }
}
