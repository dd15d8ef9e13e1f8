/* policy_costs.c - what one policy keeps, reads and runs, in words, from its descriptor: the
 * part of `kvt policy show` that no number of a machine is needed for. */
#include <stdarg.h>
#include <stdio.h>

#include "cli/policy_text.h"
#include "kvt/arena.h"
#include "kvt/cost.h"

enum { TEXT_CAP = 600, USUAL_PROMPT = 32768, USUAL_BUDGET = 4096 };

/* Llama-3.1-8B: what sizes are given for. */
static const kvt_cost_geometry usual = {.title = "Llama-3.1-8B",
                                        .g = {.n_layer = 32,
                                              .n_hidden = 4096,
                                              .n_head = 32,
                                              .n_kv_head = 8,
                                              .head_dim = 128,
                                              .n_ff = 14336}};

/* ---- beside slots --------------------------------------------------------------------------
 */

static kvt_work work_of(const kvt_policy *p, const void *params, int64_t head_dim,
                        int64_t lane_heads)
{
    kvt_work work = {.head_dim = head_dim, .lane_heads = lane_heads};
    p->work(params, &work);
    return work;
}

/* `n` bytes for heads of 128 channels; what they are for heads of half as many, and for two of
 * them, says what they depend on. */
static void show_bytes(FILE *out, const char *name, const char *of, int64_t n, int64_t half,
                       int64_t two)
{
    char text[120];
    if (n == 0)
        return;
    snprintf(text, sizeof text, "%lld bytes beside each %s%s%s", (long long)n, of,
             n == two ? "" : ", of each query head", n == half ? "" : " (128 channels)");
    policy_label(out, name, text);
}

/* What it keeps beside its slots (--fair bytes pays for that), and what it reads as published.
 */
static void show_work(FILE *out, const kvt_policy *p)
{
    void *params = p->work ? kvt_alloc(1, p->params_size + 1) : NULL;
    if (!params)
        return;
    if (p->params)
        kvt_param_defaults(p->params, params);
    kvt_work w = work_of(p, params, 128, 1), half = work_of(p, params, 64, 1);
    kvt_work two = work_of(p, params, 128, 2);
    kvt_free(params);
    show_bytes(out, "keeps", "slot", w.state_bytes_slot, half.state_bytes_slot,
               two.state_bytes_slot);
    show_bytes(out, w.state_bytes_slot > 0 ? "" : "keeps", "lane", w.state_bytes_lane,
               half.state_bytes_lane, two.state_bytes_lane);
    if (w.whole_rows)
        policy_label(out, "reads", "whole rows of attention, which fused kernels do not keep");
}

/* ---- what runs -----------------------------------------------------------------------------
 */

/* Clauses with "; " between them. */
typedef struct clauses {
    char text[TEXT_CAP];
    size_t n;
} clauses;

static void add(clauses *c, const char *format, ...) KVT_PRINTF(2, 3);

static void add(clauses *c, const char *format, ...)
{
    va_list args;
    if (c->n > 0 && c->n < TEXT_CAP)
        c->n += (size_t)snprintf(c->text + c->n, TEXT_CAP - c->n, "; ");
    if (c->n >= TEXT_CAP)
        return;
    va_start(args, format);
    c->n += (size_t)vsnprintf(c->text + c->n, TEXT_CAP - c->n, format, args);
    va_end(args);
}

/* Every key with every other one, not rows of queries (R-KV). */
static bool pairs_keys(const kvt_cost_work *w)
{
    return w->score == KVT_SCORE_COLUMNS && w->rows_frac != 0.5;
}

static void add_beside(clauses *c, const kvt_cost_work *w)
{
    long long extra = (long long)w->extra_tokens, draft = (long long)w->draft_tokens;
    double millions = (w->lora_params + w->embed_params) / 1e6;
    if (w->draft == KVT_DRAFT_SELF)
        add(c, "the model drafts %lld tokens%s", draft,
            w->first_stage ? " on a cache that is cut for that first" : "");
    if (w->draft == KVT_DRAFT_MODEL)
        add(c, "a smaller model reads the prompt and drafts %lld tokens, which run behind it",
            draft);
    else if (extra > 0)
        add(c, "%lld tokens run behind the prompt", extra);
    if (millions > 0)
        add(c, "%.1f million weights of %sembeddings on %s", millions,
            w->lora_params > 0 ? "adapters and " : "", usual.title);
}

static void add_score(clauses *c, const kvt_cost_work *w)
{
    const char *values = w->reads_values ? " and values" : "";
    switch (w->score) {
    case KVT_SCORE_NONE:
        add(c, w->is_bound  ? "a bound: what it ranks by is not counted"
               : w->selects ? "nothing is read to rank slots"
                            : "nothing is scored");
        break;
    case KVT_SCORE_ROWS:
        if (w->rows < 1)
            add(c, "no row of the prompt scores");
        else
            add(c, "%lld row%s of attention score%s", (long long)w->rows,
                w->rows == 1 ? "" : "s", w->rows == 1 ? "s" : "");
        break;
    case KVT_SCORE_COLUMNS:
        add(c, "%s",
            pairs_keys(w) ? "all keys of a lane are compared with each other"
                          : "all rows of the prompt score: half of its attention again");
        break;
    case KVT_SCORE_KEYS: add(c, "all keys%s are read", values); break;
    case KVT_SCORE_MOMENTS:
        add(c, "all keys meet moments of queries%s",
            w->reads_values ? ", values are read" : "");
        break;
    case KVT_SCORE_NETWORK: break;
    case KVT_SCORE_REPEAT: add(c, "the prompt runs once more behind itself"); break;
    }
    if (w->network_params > 0)
        add(c, "a network of %.0f weights a lane runs on each token", w->network_params);
    else if (w->network_flops > 0)
        add(c, "W_O is applied to all values");
}

static void show_prompt(FILE *out, const kvt_cost_work *w)
{
    clauses c = {.n = 0};
    if (w->when == KVT_WHEN_NEVER && !w->keeps_all) {
        policy_label(out, "costs", "nothing: every slot stays");
        return;
    }
    add_beside(&c, w);
    add_score(&c, w);
    add(&c, "%s",
        w->keeps_all                        ? "all slots stay in memory"
        : w->when == KVT_WHEN_AFTER_PREFILL ? "all layers stay whole until then"
                                            : "each layer is cut at once");
    policy_label(out, "costs", c.text);
}

static void show_decode(FILE *out, const kvt_cost_work *w)
{
    clauses c = {.n = 0};
    char text[TEXT_CAP + 64], when[40] = "each token";
    if (!w->in_decode)
        return;
    if (w->every > 1)
        snprintf(when, sizeof when, "every %lld tokens", (long long)w->every);
    if (pairs_keys(w))
        add(&c, "keys that are left are compared again");
    else if (w->decode_rows > 0)
        add(&c, "%lld row%s over %s", (long long)w->decode_rows, w->decode_rows == 1 ? "" : "s",
            w->keeps_all ? "all slots" : "what is left");
    if (!pairs_keys(w) && (w->decode_reads_keys || w->decode_reads_values))
        add(&c, "all keys%s are read", w->decode_reads_values ? " and values" : "");
    if (w->decode_state_moves >= 1)
        add(&c, "%.0f bytes of state move for each", w->decode_state_moves);
    add(&c, "%s",
        w->joins       ? "a slot is rewritten where a token joins it"
        : w->in_place  ? "new tokens take slots of dropped ones"
        : w->keeps_all ? "nothing is moved"
                       : "what is kept is moved together");
    snprintf(text, sizeof text, "decoding, %s: %s", when, c.text);
    policy_label(out, "", text);
}

static void show_layout(FILE *out, const kvt_cost_work *w)
{
    clauses c = {.n = 0};
    if (w->by_query_head)
        add(&c, w->keeps_all ? "each query head reads slots of its own"
                             : "keys and values are stored for each query head");
    if (w->ragged)
        add(&c, "lanes of a layer differ in length");
    if (w->page_tokens > 0)
        add(&c, "pages of %lld tokens a lane", (long long)w->page_tokens);
    if (c.n > 0)
        policy_label(out, "", c.text);
}

void policy_show_costs(FILE *out, const kvt_registry *r, const kvt_policy *p)
{
    kvt_use *use;
    kvt_cost_work w;
    kvt_err err;
    show_work(out, p);
    if (kvt_use_parse(&use, r, p->name, &err))
        return;
    kvt_cost_work_of(&w, use, &usual, USUAL_PROMPT, USUAL_BUDGET, KVT_ACT_OWN);
    kvt_use_free(use);
    show_prompt(out, &w);
    show_decode(out, &w);
    show_layout(out, &w);
}
