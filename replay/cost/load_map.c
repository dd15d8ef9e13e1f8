/* load_map.c - which lanes of a result stand for those of a geometry.
 *
 * A result of the same model is taken layer by layer; layers that its trace did not hold get
 * those of the nearest one. A result of another model is taken by relative depth, and lanes
 * that differ in number by their rank: the longest of the result stand for the first. */
#include "replay/cost/load_priv.h"

#include <stdlib.h>
#include <string.h>

#include "kvt/arena.h"

/* Place of a layer of the result, as layers of the whole model that it is from. */
typedef struct depths {
    bool by_id; /* it is the same model, or may be */
    int whole;  /* else layers of its own model */
} depths;

static depths depths_of(const kvt_result *r, int cell, const kvt_cost_geometry *g)
{
    bool in_front = true, known = g->g.name[0] && strcmp(r->cell[cell].model, g->g.name) == 0;
    int last = 0;
    for (int i = 0; i < r->n_layer; i++) {
        in_front = in_front && r->layer_id[i] == i;
        last = r->layer_id[i] > last ? r->layer_id[i] : last;
    }
    return (depths){.by_id = last < g->g.n_layer &&
                             (known || r->n_layer == g->g.n_layer || !in_front),
                    .whole = in_front ? r->n_layer : last + 1};
}

/* The result's layer that is nearest; of two the earlier one. */
static int nearest(const kvt_result *r, const depths *d, int layer, int n_layer, bool *exact)
{
    double want = d->by_id ? layer : (layer + 0.5) / n_layer * d->whole - 0.5, gap = 0;
    int best = 0;
    for (int i = 0; i < r->n_layer; i++) {
        double x = r->layer_id[i] > want ? r->layer_id[i] - want : want - r->layer_id[i];
        if (i == 0 || x < gap)
            best = i, gap = x;
    }
    *exact = d->by_id && r->layer_id[best] == layer;
    return best;
}

static int64_t kept(const kvt_result *r, int cell, int32_t at)
{
    return r->lane[(int64_t)cell * r->n_layer * r->n_lane + at].kept_prefill_tokens;
}

/* Lanes of a layer of the result, longest first; of equal ones the earlier. */
static void rank_lanes(int32_t *order, const kvt_result *r, int cell, int layer)
{
    for (int i = 0; i < r->n_lane; i++) {
        int32_t at = (int32_t)(layer * r->n_lane + i);
        int k = i;
        for (; k > 0 && kept(r, cell, order[k - 1]) < kept(r, cell, at); k--)
            order[k] = order[k - 1];
        order[k] = at;
    }
}

kvt_code load_map_new(load_map *out, const kvt_result *r, int cell, const kvt_cost_geometry *g,
                      int n_lane, kvt_err *err)
{
    int A = n_lane, L = (int)g->g.n_layer;
    depths d = depths_of(r, cell, g);
    int32_t *order = kvt_alloc(r->n_lane, sizeof *order);
    *out = (load_map){.from = kvt_alloc((int64_t)L * A, sizeof *out->from),
                      .mapped = r->n_lane != A};
    if (!order || !out->from) {
        kvt_free(order);
        load_map_free(out);
        return kvt_fail(err, KVT_NOMEM, "lanes of a result: out of memory");
    }
    for (int l = 0; l < L; l++) {
        bool exact;
        int from = nearest(r, &d, l, L, &exact);
        out->mapped = out->mapped || !exact;
        if (r->n_lane != A)
            rank_lanes(order, r, cell, from);
        for (int a = 0; a < A; a++)
            out->from[l * A + a] =
                r->n_lane == A ? (int32_t)(from * A + a)
                               : order[(int)((2 * a + 1) * (int64_t)r->n_lane / (2 * A))];
    }
    kvt_free(order);
    return KVT_OK;
}

void load_map_free(load_map *m)
{
    kvt_free(m->from);
    m->from = NULL;
}
