/* test_cost_descriptors.c - laws of what kvt_cost_work_of() says, over the registry: each
 * policy with each of its variants and allocators, on several models, prompts and budgets. A
 * policy that is added and says nothing of its probe or its network fails here. */
#include "tests/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kvt/cost.h"

enum { TEXT = 512 };

static int64_t n_use;

/* ---- what is known of policies by their papers, not by their traits ------------------------
 */

static bool listed(const char *name, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(*list, name) == 0)
            return true;
    return false;
}

/* They know the response: bounds, whatever they cost. */
static const char *const bounds[] = {
    "belady",        "h2o-lm-eval", "lookahead-oracle", "oracle",      "oracle-assign",
    "oracle-greedy", "oracle-max",  "oracle-output",    "oracle-step", NULL};
/* Learned numbers that are no network: a gate, an importance or a curve of each head; a
 * direction or a mean of queries; what stands in for a spare neuron of the model. */
static const char *const tables[] = {"duo",          "headkv", "lukv", "qfilters",
                                     "triattention", "dms",    NULL};
/* Positions, a table of heads, or the model itself decide; or nothing is dropped. */
static const char *const unranked[] = {"full", "streaming", "window", "duo",
                                       "dms",  "dmc",       NULL};

/* ---- cases ---------------------------------------------------------------------------------
 */

/* Grouped and ungrouped heads, one kv head, a small model. */
static const kvt_cost_geometry models[] = {
    {.g = {.n_layer = 32,
           .n_hidden = 4096,
           .n_head = 32,
           .n_kv_head = 8,
           .head_dim = 128,
           .n_ff = 14336}},
    {.g = {.n_layer = 32,
           .n_hidden = 4096,
           .n_head = 32,
           .n_kv_head = 32,
           .head_dim = 128,
           .n_ff = 11008}},
    {.g = {.n_layer = 26,
           .n_hidden = 1152,
           .n_head = 4,
           .n_kv_head = 1,
           .head_dim = 256,
           .n_ff = 6912}},
    {.g = {.n_layer = 2,
           .n_hidden = 64,
           .n_head = 6,
           .n_kv_head = 2,
           .head_dim = 16,
           .n_ff = 128}},
};

#define LAW(holds)                                                                     \
    do {                                                                               \
        if (!(holds))                                                                  \
            fail_msg("%s, prompt %lld, budget %lld: %s", u->text, (long long)n_prompt, \
                     (long long)budget, #holds);                                       \
    } while (0)

/* Every number is one, and none is below zero. */
static void numbers_are_sane(const kvt_use *u, const kvt_cost_work *w, int64_t n_prompt,
                             int64_t budget)
{
    const double real[] = {w->rows_frac,     w->lora_params,       w->embed_params,
                           w->network_flops, w->network_params,    w->state_slot,
                           w->state_lane,    w->decode_state_moves};
    const int64_t whole[] = {w->rows, w->decode_rows, w->extra_tokens, w->draft_tokens,
                             w->page_tokens};
    for (int i = 0; i < CHECK_COUNT(real); i++)
        LAW(isfinite(real[i]) && real[i] >= 0);
    for (int i = 0; i < CHECK_COUNT(whole); i++)
        LAW(whole[i] >= 0);
    LAW(w->every >= 1);
    LAW(w->rows <= n_prompt + w->extra_tokens + w->draft_tokens);
    LAW(w->k_passes == 1 || (w->k_passes == 2 && w->draft == KVT_DRAFT_SELF));
    LAW((w->score == KVT_SCORE_COLUMNS) == (w->rows_frac > 0));
    LAW(w->rows_frac <= 1);
}

static void scores_are_sane(const kvt_use *u, const kvt_cost_work *w, int64_t n_prompt,
                            int64_t budget)
{
    const char *name = u->policy->name;
    unsigned own = u->base ? u->base->policy->traits.phases : u->policy->traits.phases;
    bool oracle = listed(name, bounds) || (u->base && listed(u->base->policy->name, bounds)) ||
                  strcmp(u->share->name, "oracle-budget") == 0;
    LAW(w->is_bound == oracle);
    LAW(!w->is_bound || (w->score == KVT_SCORE_NONE && w->rows == 0 && w->decode_rows == 0));
    /* No row of the prompt: only where rows of the response make the scores. */
    LAW(w->score != KVT_SCORE_ROWS || w->rows > 0 || (own & KVT_DECODE));
    LAW(w->score != KVT_SCORE_NETWORK || w->network_params > 0);
    LAW(w->score != KVT_SCORE_NONE || (w->network_flops == 0 && !w->reads_values));
    LAW(w->network_flops >= 2 * w->network_params);
    /* What is run behind the prompt is said; what is learned has a size. */
    if ((u->traits.needs & KVT_NEED_PROBE) && !w->is_bound)
        LAW(w->extra_tokens > 0 || w->draft_tokens > 0 || w->score == KVT_SCORE_REPEAT);
    if (u->policy->weights && !w->is_bound)
        LAW(w->network_params > 0 || listed(name, tables));
    LAW(!listed(name, tables) || u->base || w->network_params == 0);
    LAW(w->selects == (!listed(name, unranked) || u->share->by_score));
}

static void drafts_are_sane(const kvt_use *u, const kvt_cost_work *w, int64_t n_prompt,
                            int64_t budget)
{
    LAW((w->draft == KVT_DRAFT_NONE) == (w->draft_tokens == 0));
    LAW(!w->first_stage || w->draft == KVT_DRAFT_SELF);
    LAW(w->draft != KVT_DRAFT_MODEL || w->extra_tokens > 0);
    LAW(w->extra_tokens > 0 || w->lora_params + w->embed_params == 0);
    /* A draft of its own needs the whole cache behind it. */
    LAW(w->draft != KVT_DRAFT_SELF || w->when == KVT_WHEN_AFTER_PREFILL);
}

static void decode_is_sane(const kvt_use *u, const kvt_cost_work *w, kvt_act act,
                           int64_t n_prompt, int64_t budget)
{
    const kvt_traits *t = &u->traits;
    bool decode =
        t->phases == KVT_DECODE || ((t->phases & KVT_DECODE) && act != KVT_ACT_PREFILL);
    LAW(w->in_decode == decode);
    LAW(w->in_decode || (!w->in_place && w->decode_rows == 0 && !w->decode_reads_keys &&
                         !w->decode_reads_values));
    LAW(!w->in_place || (w->every == 1 && !w->keeps_all && !w->joins));
    if (u->own.every > 0)
        LAW(w->every == u->own.every);
    /* One row is seen a step: no more of them than steps, unless it looks back anew, or has all
     * keys look at each other (r-kv). */
    if (!u->again && strcmp(u->policy->name, "r-kv") != 0)
        LAW(w->decode_rows <= w->every);
    LAW(w->keeps_all == (t->effect == KVT_SKIP));
    LAW(w->joins == (t->effect == KVT_JOIN));
    LAW(w->by_query_head == t->by_query_head);
    bool all = strcmp(u->policy->name, "full") == 0;
    LAW((w->when == KVT_WHEN_NEVER) == (all || w->keeps_all));
    LAW(!t->by_threshold || w->ragged);
}

/* What --fair bytes pays for is there, and nothing stands beside slots that nobody decides on.
 */
static void state_is_what_it_was(const kvt_use *u, const kvt_cost_work *w,
                                 const kvt_cost_geometry *g, int64_t n_prompt, int64_t budget)
{
    int64_t lanes = u->traits.by_query_head ? g->g.n_head : g->g.n_kv_head;
    kvt_work own = {.head_dim = g->g.head_dim, .lane_heads = g->g.n_head / lanes};
    if (u->policy->work)
        u->policy->work(u->params, &own);
    if (w->in_decode) {
        LAW(w->state_slot >= (double)own.state_bytes_slot);
        LAW(w->state_lane >= (double)own.state_bytes_lane);
        LAW(w->state_slot <= (double)own.state_bytes_slot + 8);
    } else {
        LAW(w->state_slot < 1 && w->state_lane <= 4);
    }
}

static void holds_at(const kvt_use *u, const kvt_cost_geometry *g, int64_t n_prompt,
                     int64_t budget)
{
    for (int act = KVT_ACT_OWN; act <= KVT_ACT_DECODE; act++) {
        kvt_cost_work w, again;
        memset(&w, 0xff, sizeof w);
        kvt_cost_work_of(&w, u, g, n_prompt, budget, (kvt_act)act);
        numbers_are_sane(u, &w, n_prompt, budget);
        scores_are_sane(u, &w, n_prompt, budget);
        drafts_are_sane(u, &w, n_prompt, budget);
        decode_is_sane(u, &w, (kvt_act)act, n_prompt, budget);
        state_is_what_it_was(u, &w, g, n_prompt, budget);
        /* A longer prompt has as many scoring rows, or more; what it is does not change. */
        kvt_cost_work_of(&again, u, g, 4 * n_prompt, budget, (kvt_act)act);
        LAW(again.rows >= w.rows && again.score == w.score && again.when == w.when);
    }
}

static void holds(const char *text)
{
    static const int64_t lengths[] = {1, 16, 131072}, budgets[] = {1, 64};
    kvt_use *u;
    kvt_err err;
    if (kvt_use_parse(&u, NULL, text, &err))
        return; /* refused with its reason: other laws' matter */
    n_use++;
    for (int m = 0; m < CHECK_COUNT(models); m++)
        for (int i = 0; i < CHECK_COUNT(lengths); i++)
            for (int j = 0; j <= CHECK_COUNT(budgets); j++)
                holds_at(u, &models[m], lengths[i],
                         j < CHECK_COUNT(budgets) ? budgets[j] : lengths[i]);
    kvt_use_free(u);
}

/* Those without hooks are listed and refused: nothing is said of them. */
static bool runs(const kvt_policy *p)
{
    return p->score || p->select || p->join;
}

static void variants_hold(void **state)
{
    char text[TEXT];
    (void)state;
    for (const kvt_policy *const *p = kvt_policies(); *p; p++) {
        if (!runs(*p))
            continue;
        holds((*p)->name);
        snprintf(text, sizeof text, "%s:every=16", (*p)->name);
        holds(text);
        for (const kvt_param *q = (*p)->params; q && q->name; q++)
            for (int i = 0; q->choices && i <= (int)q->max; i++) {
                snprintf(text, sizeof text, "%s:%s=%s", (*p)->name, q->name,
                         q->choices[i].name);
                holds(text);
            }
    }
    assert_true(n_use > 150);
}

static void allocators_and_bases_hold(void **state)
{
    char text[TEXT];
    (void)state;
    for (const kvt_policy *const *p = kvt_policies(); *p; p++) {
        for (const kvt_share *const *s = kvt_shares(); *s && runs(*p); s++) {
            snprintf(text, sizeof text, "%s/%s", (*p)->name, (*s)->name);
            holds(text);
        }
        for (const kvt_policy *const *b = kvt_policies(); *b && (*p)->base; b++) {
            snprintf(text, sizeof text, "%s:base=%s", (*p)->name, (*b)->name);
            holds(text);
        }
    }
    print_message("%lld uses are described\n", (long long)n_use);
    assert_true(n_use > 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variants_hold),
        cmocka_unit_test(allocators_and_bases_hold),
    };
    return cmocka_run_group_tests_name("cost descriptors", tests, NULL, NULL);
}
