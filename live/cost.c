/* cost.c - what probes of a prompt will take, before a model runs: bytes, memory, products. */
#include "live/live_priv.h"

#include "capture/forward.h"
#include "kvt/pieces.h"

/* Tokens of an instruction of the repeated prompt, with what it quotes and the template's end:
 * more than any of them has. */
enum { INSTRUCTION = 40 };
/* Groups, attributes and checksums of a probe in a file. */
enum { GROUP_BYTES = 24 << 10 };

typedef struct count {
    const kvt_probes *p;
    const kvt_trace_facts *facts;
    int n_layer; /* of the file */
    const kvt_ctx *ctx;
    kvt_probe_cost *to;
    int64_t working; /* the most that one probe takes beside what is kept */
} count;

/* Rows at most, and segments, of one probe of a wish. */
static int64_t rows_most(const count *c, const wish *w, int *n_segment)
{
    const kvt_token_info *t = &c->facts->token;
    *n_segment = 1;
    if (w->learned)
        return w->learned->n_token;
    if (w->kind == KVT_PROBE_REPEAT) {
        int64_t n = (t->n_prompt + w->number - 1) / w->number;
        *n_segment = (int)n;
        return t->n_prompt + n * INSTRUCTION;
    }
    if (w->kind == KVT_PROBE_SUFFIX && !w->id)
        return kvt_min(w->number, t->n_response);
    return w->id ? kvt_min(w->number, w->n_id) : w->number;
}

static kvt_probe_info info_of(const wish *w, int64_t n_row, int n_segment,
                              const kvt_geometry *g)
{
    bool repeat = w->kind == KVT_PROBE_REPEAT, draft = w->kind == KVT_PROBE_DRAFT;
    kvt_probe_info i = {.kind = w->kind,
                        .n_row = n_row,
                        .n_segment = n_segment,
                        .n_keep = draft ? (int)g->n_head : 0};
    i.has[KVT_PROBE_SET_Q] = i.has[KVT_PROBE_SET_K] = i.has[KVT_PROBE_SET_LSE] = true;
    i.has[KVT_PROBE_SET_NORM] = i.has[KVT_PROBE_SET_POS] = true;
    i.has[KVT_PROBE_SET_ID] = !w->learned;
    i.has[KVT_PROBE_SET_SEGMENT] = i.has[KVT_PROBE_SET_BEGIN] = repeat;
    i.has[KVT_PROBE_SET_END] = i.has[KVT_PROBE_SET_FROM] = repeat;
    i.has[KVT_PROBE_SET_KEEP] = draft;
    return i;
}

/* Products of n rows through all layers, over a prompt and half of themselves. */
static double row_flops(const kvt_geometry *g, double n, double n_prompt)
{
    double hd = (double)(g->n_head * g->head_dim), gd = (double)(g->n_kv_head * g->head_dim);
    double e = (double)g->n_hidden;
    double each = 4 * e * (hd + gd) + 6 * e * (double)g->n_ff + 4 * hd * (n_prompt + n / 2);
    return n * (double)g->n_layer * each;
}

/* The eviction that stands before drafts: rows of the window of every head, kept sets. */
static void add_eviction(count *c, const kvt_geometry *g, int n_draft)
{
    int64_t N = c->facts->token.n_prompt, lanes = g->n_layer * g->n_head;
    int64_t own = n_draft * lanes * N + g->n_head * EVICTED_WINDOW * N * (int64_t)sizeof(float);
    c->working = kvt_max(c->working, own + kvt_threads(c->ctx) * 4 * N * g->head_dim * 4);
    c->to->flops += 2.0 * (double)lanes * EVICTED_WINDOW * (double)N * (double)g->head_dim;
}

/* The second model reads the prompt and writes. */
static void add_second(count *c, const wish *w)
{
    const kvt_weights *second = model_weights(w->second);
    int64_t N = c->facts->token.n_prompt;
    forward_spec f = {.weights = second,
                      .ctx = c->ctx,
                      .n_token = N + w->number,
                      .n_row = N,
                      .device = model_device(w->second)};
    c->to->memory_bytes += second->bytes;
    c->working = kvt_max(c->working, forward_bytes(&f));
    c->to->flops += row_flops(&second->geometry, (double)N, 0);
    c->to->stream_bytes += (double)w->number * (double)second->bytes;
}

static void add_wish(count *c, const wish *w)
{
    const kvt_geometry *g = &model_weights(c->p->m)->geometry;
    const bool draft = w->kind == KVT_PROBE_DRAFT;
    int64_t N = c->facts->token.n_prompt, slots[KVT_BUDGETS_MAX];
    int n = draft ? evicted_budgets(slots, w, g, N) : 1, n_segment;
    int64_t n_row = rows_most(c, w, &n_segment);
    if (n_row < 1) /* no response: it will fail */
        return;
    kvt_probe_info info = info_of(w, n_row, n_segment, g);
    int64_t rank = w->learned ? w->learned->rank : 0;
    c->to->file_bytes += n * (GROUP_BYTES + kvt_probe_bytes(c->facts, c->n_layer, &info));
    /* What ran is held until it is stored: all layers of the model. */
    c->to->memory_bytes += n * kvt_probe_bytes(c->facts, (int)g->n_layer, &info);
    c->working = kvt_max(c->working, probe_state_bytes(model_weights(c->p->m), N, n_row, draft,
                                                       rank, kvt_threads(c->ctx)));
    c->to->flops += n * row_flops(g, (double)n_row, (double)N);
    if (draft) { /* token by token */
        c->to->stream_bytes +=
            (double)n * (double)n_row * (double)model_weights(c->p->m)->bytes;
        add_eviction(c, g, n);
    }
    if (w->second)
        add_second(c, w);
}

void kvt_probes_cost(void *probes, const kvt_trace_facts *facts, int n_layer,
                     const kvt_ctx *ctx, kvt_probe_cost *out)
{
    static const kvt_ctx quiet;
    const kvt_probes *p = probes;
    count c = {
        .p = p, .facts = facts, .n_layer = n_layer, .ctx = ctx ? ctx : &quiet, .to = out};
    *out = (kvt_probe_cost){0};
    for (int i = 0; i < p->n; i++)
        add_wish(&c, &p->list[i]);
    out->memory_bytes += c.working;
}
