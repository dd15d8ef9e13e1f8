/* load_result.c - slots of lanes as sums, from a replay.
 *
 * After the prompt they are what each lane kept. Where decoded tokens come on top, that is all
 * there is to know; else each step takes what its row saw (kept_count, or a straight line from
 * the first to the last decision where the arrays were not loaded). At another length than the
 * trace's, lanes keep the same share of the prompt, and what a ragged lane grows by stays the
 * same a step; the row's own token is whole. */
#include "replay/cost/load_priv.h"

#include <math.h>
#include <string.h>

#include "kvt/arena.h"
#include "kvt/pieces.h"

/* A cell on a geometry and at lengths. */
typedef struct reader {
    const kvt_result *r;
    const kvt_cell *cell;
    const kvt_lane_row *lane; /* [L A] of the result */
    const float *seen;        /* [L A M], or NULL */
    const kvt_cost_work *work;
    const kvt_cost_geometry *g;
    const kvt_cost_setting *s;
    load_shape shape;
    int rows; /* lanes that rows read */
    load_map map;
    double N, M;    /* tokens asked for */
    double longer;  /* N over the trace's */
    double more;    /* the same of the response's growth */
    double channel; /* share of a kept slot's bytes where channels of keys went */
} reader;

static bool is_on_top(const reader *x)
{
    return strcmp(x->cell->growth, "on-top") == 0 && !x->work->keeps_all;
}

/* Where channels went and no token, bytes say how many slots that is. */
static double channel_share(const reader *x)
{
    const kvt_result *r = x->r;
    double N = (double)r->n_prompt, M = (double)r->n_response;
    if (x->work->keeps_all || x->cell->kept_bytes <= 0 || x->cell->full_bytes <= 0)
        return 1;
    for (int i = 0; i < r->n_layer * r->n_lane; i++)
        if (x->lane[i].kept_prefill_tokens != r->n_prompt ||
            x->lane[i].kept_end_tokens != r->n_prompt + r->n_response)
            return 1;
    double lanes =
        (double)r->n_lane / (double)kvt_max(x->cell->kv_heads, 1); /* for a kv head */
    double part = (double)x->cell->kept_bytes / (double)x->cell->full_bytes / lanes;
    return N > 0 && part < 1 ? fmax(part * (N + M) - M, 0) / N : 1;
}

static double kept(const reader *x, int32_t from)
{
    return (double)x->lane[from].kept_prefill_tokens * x->channel * x->longer;
}

/* ---- decoded tokens come on top ------------------------------------------------------------
 */

static load_path on_top(double start)
{
    return (load_path){.start = start, .slope = 1, .budget = INFINITY, .every = 1};
}

static load_class lane_class(const reader *x, int32_t from)
{
    double start = x->work->keeps_all ? x->N : kept(x, from);
    bool dense = load_is_dense(x->work, x->s);
    return (load_class){.seen = on_top(start),
                        .stored = on_top(dense ? x->N : start),
                        .seen_cap = INFINITY,
                        .n = 1};
}

static void add_layers(const reader *x, load_book *b, load_class *c, bool rows)
{
    int A = x->rows;
    for (int l = 0; l < x->shape.n_layer; l++) {
        double cap = load_cap(x->g, x->s, l);
        for (int a = 0; a < A; a++)
            c[a] = lane_class(x, x->map.from[l * A + a]);
        load_keep(b, l, c, A, cap);
        if (rows)
            load_add(b, c, A, cap);
    }
}

/* ---- each step by itself -------------------------------------------------------------------
 */

/* Slots that a row of the trace saw (0, 1, ...; the last one's number: the fullest). */
static double trace_row(const reader *x, int32_t from, int64_t row)
{
    const kvt_lane_row *lane = &x->lane[from];
    double k = (double)lane->kept_prefill_tokens, end = (double)lane->kept_end_tokens;
    double M = (double)x->r->n_response, most = (double)lane->kept_max_tokens;
    if (row >= x->r->n_response || x->work->keeps_all)
        return x->seen && row < x->r->n_response
                   ? (double)x->seen[from * x->r->n_response + row]
                   : most;
    if (x->seen)
        return (double)x->seen[from * x->r->n_response + row];
    return fmin(most, k + (end - k) * (double)row / M + 1);
}

/* Slots that step t (1, 2, ...) sees of a lane. `row` is the trace's. */
static double step_row(const reader *x, int32_t from, int64_t row, double t)
{
    double c = trace_row(x, from, row), k = (double)x->lane[from].kept_prefill_tokens;
    if (x->work->keeps_all)
        return fmin(c * x->longer, x->N + t);
    c = k * x->longer + (c - 1 - k) * x->more + 1;
    return fmin(fmax(c, 1), x->N + t);
}

static void sum_step(kvt_cost_run *out, const reader *x, int64_t row, double t)
{
    int A = x->rows;
    bool dense = load_is_dense(x->work, x->s);
    *out = (kvt_cost_run){.steps = 1};
    for (int l = 0; l < x->shape.n_layer; l++) {
        double cap = load_cap(x->g, x->s, l), most = 0, longest = 0, held = 0;
        for (int a = 0; a < A; a++) {
            double c = fmin(step_row(x, x->map.from[l * A + a], row, t), cap);
            double in = dense ? fmin(x->N + t, cap) : c;
            out->slots += c;
            held += load_held(&x->shape, in) * x->shape.n_lane / A;
            most = fmax(most, c);
            longest = fmax(longest, in);
        }
        out->busiest += most * A;
        out->held += x->shape.shared ? load_held(&x->shape, longest) * x->shape.n_lane : held;
    }
}

static void add_steps(const reader *x, load_book *b)
{
    kvt_cost_run sum;
    int64_t from = x->r->n_response;
    for (double t = 1; t <= x->M; t++) {
        int64_t row = from > 0 ? (int64_t)floor((t - 0.5) / x->M * (double)from) : 0;
        sum_step(&sum, x, row, t);
        load_step(b, t, &sum);
    }
    if (x->seen || x->M < 1)
        return;
    sum_step(&sum, x, from, x->M); /* the fullest row of each lane */
    if (sum.held > b->out->top.held)
        b->out->top = sum;
}

/* ---- a cell --------------------------------------------------------------------------------
 */

static kvt_code check(const kvt_result *r, int cell, kvt_err *err)
{
    if (cell < 0 || cell >= r->n_cell)
        return kvt_fail(err, KVT_USAGE, "result '%s': cell %d, expected one of %d",
                        r->policy_text, cell, r->n_cell);
    const kvt_cell *c = &r->cell[cell];
    if (strcmp(c->status, "ok") != 0)
        return kvt_fail(err, KVT_NOTFOUND, "policy %s at a budget of %s is %s: %s", c->policy,
                        c->budget_asked, c->status, c->error);
    if (!r->lane || r->n_layer < 1 || r->n_lane < 1 || r->n_prompt < 1)
        return kvt_fail(err, KVT_FORMAT, "result '%s': no lanes, or an empty prompt",
                        r->policy_text);
    return KVT_OK;
}

static kvt_code fill(kvt_cost_load *out, reader *x, int64_t n_response, kvt_err *err)
{
    load_book b;
    bool top = is_on_top(x);
    load_class *c = kvt_alloc(x->rows, sizeof *c);
    if (!c)
        return kvt_fail(err, KVT_NOMEM, "lanes of a result: out of memory");
    load_open(&b, out, &x->shape, x->rows, n_response, top ? LOAD_PIECES : KVT_COST_RUNS_MAX,
              top ? (double)n_response : 0);
    add_layers(x, &b, c, top);
    if (!top)
        add_steps(x, &b);
    load_close(&b);
    kvt_free(c);
    return KVT_OK;
}

kvt_code kvt_cost_load_result(kvt_cost_load *out, const kvt_result *r, int cell,
                              const kvt_cost_work *work, const kvt_cost_geometry *g,
                              const kvt_cost_setting *s, int64_t n_prompt, int64_t n_response,
                              kvt_err *err)
{
    if (check(r, cell, err))
        return err->code;
    int64_t lanes = (int64_t)r->n_layer * r->n_lane;
    reader x = {.r = r,
                .cell = &r->cell[cell],
                .lane = r->lane + cell * lanes,
                .seen = r->kept_count ? r->kept_count + cell * lanes * r->n_response : NULL,
                .work = work,
                .g = g,
                .s = s,
                .shape = load_shape_of(g, work, s),
                .rows = (int)cost_lanes(g, work),
                .N = (double)n_prompt,
                .M = (double)kvt_max(n_response, 0),
                .longer = (double)n_prompt / (double)r->n_prompt,
                .more = 1};
    if (strcmp(x.cell->growth, "ragged") == 0 && r->n_response > 0)
        x.more = x.M / (double)r->n_response;
    x.channel = channel_share(&x);
    if (load_map_new(&x.map, r, cell, g, x.rows, err))
        return err->code;
    kvt_code code = fill(out, &x, kvt_max(n_response, 0), err);
    out->mapped = x.map.mapped;
    out->scaled = n_prompt != r->n_prompt || n_response != r->n_response;
    load_map_free(&x.map);
    return code;
}
