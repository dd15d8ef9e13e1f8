/* paper.c - the theory of LookaheadKV's appendix (arXiv 2603.10899, table 15), as it counts.
 *
 * Rates are mixed with units: math at peak x 0.7 in units of 2^40 FLOP/s, memory at bandwidth x
 * 0.9 in units of 2^30 B/s. Attention is the whole square, the output matrix is not counted, a
 * prefill is its math or its bytes, a decode step its bytes alone. 32 rows or drafts. Nothing
 * is taken for selection and launches, nor for scoring, save LAQ's.
 *
 *   X            2 q theta_lin + 4 q N H D L                math, 32 extra tokens
 *   K            what is kept, once
 *   SnapKV       K
 *   LookaheadKV  X + 2 bytes of each adapter weight + K
 *   SpecKV       prefill of the draft, 31 of its steps, X + K
 *   LAQ          32 steps behind the budget, X, all keys and values and 2 q N H L bytes, 2 K
 *
 * The columns of the table count 32 steps and one more pass over the weights of the model that
 * drafts. */
#include "replay/cost/time_priv.h"

enum { ROWS = 32, SPEC_STEPS = 31 };
static const double tera = 1e12, tebi = 1099511627776.0, giga = 1e9, gibi = 1073741824.0;

/* ---- rates and counts ----------------------------------------------------------------------
 */

static double math_rate(const kvt_machine *m)
{
    return m->peak_flops_16 * m->e_lin / tera * tebi;
}

static double memory_rate(const kvt_machine *m)
{
    return m->mem_bw * m->e_w / giga * gibi;
}

static double weight_bytes(const kvt_cost_geometry *g)
{
    return 2 * (double)g->theta_lin;
}

/* Bytes of keys and values of n tokens. */
static double cache(const kvt_cost_case *c, const kvt_cost_geometry *g, double n)
{
    return cost_tokens(g, c->setting, n) *
           kvt_cost_token_bytes(g, cost_kv_bits(c->setting), 0) *
           (double)cost_batch(c->setting);
}

static double square_flops(const kvt_cost_geometry *g, const kvt_cost_setting *s, int64_t n)
{
    return kvt_cost_attention_flops(g, n, true) * (double)cost_batch(s);
}

static double linear_flops(const kvt_cost_geometry *g, const kvt_cost_setting *s, double n)
{
    return 2 * n * (double)g->theta_lin * (double)cost_batch(s);
}

static double extra_flops(const kvt_cost_case *c)
{
    const kvt_geometry *g = &c->geometry->g;
    return linear_flops(c->geometry, c->setting, ROWS) +
           4.0 * ROWS * (double)(c->n_prompt * g->n_layer) *
               (double)(g->n_head * g->head_dim * cost_batch(c->setting));
}

/* Bytes of m decode steps behind n tokens. */
static double step_bytes(const kvt_cost_case *c, const kvt_cost_geometry *g, double n, int m)
{
    double sum = m * weight_bytes(g);
    for (int i = 0; i < m; i++)
        sum += cache(c, g, n + i);
    return sum;
}

/* LAQ's second scoring: all keys and values, and its scores. */
static double score_bytes(const kvt_cost_case *c)
{
    const kvt_geometry *g = &c->geometry->g;
    return cache(c, c->geometry, (double)c->n_prompt) +
           2.0 * ROWS * (double)(c->n_prompt * g->n_head * g->n_layer) * 2 *
               (double)cost_batch(c->setting);
}

/* ---- which of its rows a policy is ---------------------------------------------------------
 */

typedef enum row { FORWARD, SNAPKV, LOOKAHEADKV, SPECKV, LAQ, UNKNOWN } row;

static row row_of(const kvt_cost_case *c)
{
    const kvt_cost_work *w = c->work;
    if (w->when == KVT_WHEN_NEVER)
        return w->in_decode ? UNKNOWN : FORWARD;
    if (w->draft == KVT_DRAFT_SELF)
        return LAQ;
    if (w->draft == KVT_DRAFT_MODEL)
        return c->draft ? SPECKV : UNKNOWN;
    if (w->score != KVT_SCORE_ROWS || w->in_decode)
        return UNKNOWN;
    return w->extra_tokens > 0 ? LOOKAHEADKV : SNAPKV;
}

static double kept_bytes(const kvt_cost_case *c)
{
    return c->budget < c->n_prompt ? cache(c, c->geometry, (double)c->budget) : 0;
}

static double draft_from(const kvt_cost_case *c)
{
    return (double)(c->budget < c->n_prompt ? c->budget : c->n_prompt);
}

/* ---- times ---------------------------------------------------------------------------------
 */

void cost_paper_prefill(kvt_prefill_cost *out, cost_bound *by, const kvt_cost_geometry *g,
                        const kvt_machine *m, const kvt_cost_setting *s, int64_t n_prompt)
{
    double rate = math_rate(m), memory = weight_bytes(g) / memory_rate(m);
    *out = (kvt_prefill_cost){
        .linear = linear_flops(g, s, (double)n_prompt) / rate,
        .attention = square_flops(g, s, n_prompt) / rate,
    };
    double math = out->linear + out->attention;
    out->total = cost_bound_max(by, math, memory);
    out->linear += out->total - math;
}

static void add_draft(kvt_evict_cost *out, cost_bound *by, const kvt_cost_case *c, row r)
{
    const kvt_machine *m = &c->constants->machine;
    if (r == SPECKV) {
        kvt_prefill_cost pre;
        cost_paper_prefill(&pre, by, c->draft, m, c->setting, c->n_prompt);
        out->prefill = pre.total;
        out->draft = step_bytes(c, c->draft, (double)c->n_prompt, SPEC_STEPS) / memory_rate(m);
    } else if (r == LAQ) {
        out->draft = step_bytes(c, c->geometry, draft_from(c), ROWS) / memory_rate(m);
        out->score = score_bytes(c) / memory_rate(m);
    }
    by->memory += out->draft + out->score;
}

static void evict(kvt_evict_cost *out, cost_bound *by, const kvt_cost_case *c, row r)
{
    const kvt_machine *m = &c->constants->machine;
    *out = (kvt_evict_cost){0};
    if (r == FORWARD)
        return;
    add_draft(out, by, c, r);
    double math = r == SNAPKV ? 0 : extra_flops(c) / math_rate(m);
    double adapter =
        r == LOOKAHEADKV ? 2 * cost_adapter_params(c->geometry, c->work) / memory_rate(m) : 0;
    out->extra = math + adapter;
    out->copy = (r == LAQ ? 2 : 1) * kept_bytes(c) / memory_rate(m);
    by->math += math;
    by->memory += adapter + out->copy;
    out->total = out->extra + out->prefill + out->draft + out->score + out->copy;
}

static const kvt_evict_cost unknown = {
#define X(name, help) .name = NAN,
    KVT_EVICT_PARTS(X)
#undef X
        .total = NAN};

void cost_paper(kvt_cost *out, const kvt_cost_case *c)
{
    row r = row_of(c);
    cost_bound pre = {0}, by = {0};
    cost_paper_prefill(&out->prefill, &pre, c->geometry, &c->constants->machine, c->setting,
                       c->n_prompt);
    out->evict = unknown;
    if (r != UNKNOWN)
        evict(&out->evict, &by, c, r);
    out->evict_bound = cost_bound_name(&by);
    out->ttft_bound =
        cost_bound_name(&(cost_bound){pre.math + by.math, pre.memory + by.memory, 0});
    out->draft_tokens = r == SPECKV || r == LAQ ? ROWS : 0;
}

/* ---- columns -------------------------------------------------------------------------------
 */

double cost_paper_flops(const kvt_cost_case *c)
{
    const kvt_cost_setting *s = c->setting;
    row r = row_of(c);
    double sum = linear_flops(c->geometry, s, (double)c->n_prompt) +
                 square_flops(c->geometry, s, c->n_prompt);
    if (r == UNKNOWN)
        return NAN;
    if (r == FORWARD || r == SNAPKV)
        return sum;
    sum += extra_flops(c);
    if (r == SPECKV)
        sum += linear_flops(c->draft, s, (double)(c->n_prompt + ROWS)) +
               square_flops(c->draft, s, c->n_prompt);
    if (r == LAQ)
        sum += linear_flops(c->geometry, s, ROWS);
    return sum;
}

double cost_paper_bytes(const kvt_cost_case *c)
{
    row r = row_of(c);
    double sum = weight_bytes(c->geometry);
    if (r == UNKNOWN)
        return NAN;
    if (r == LOOKAHEADKV)
        sum += 2 * cost_adapter_params(c->geometry, c->work);
    if (r == SNAPKV || r == LOOKAHEADKV)
        sum += kept_bytes(c);
    if (r == SPECKV)
        sum += weight_bytes(c->draft) + step_bytes(c, c->draft, (double)c->n_prompt, ROWS);
    if (r == LAQ)
        sum += weight_bytes(c->geometry) + step_bytes(c, c->geometry, draft_from(c), ROWS) +
               score_bytes(c);
    return sum;
}
