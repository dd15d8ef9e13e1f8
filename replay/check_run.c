/* check_run.c - one use of a policy through the engine on a toy, and what it held. */
#include "replay/check_priv.h"

#include <stdio.h>
#include <string.h>

#include "kvt/pieces.h"

const int64_t check_budgets[N_BUDGET] = {1, 2, 3, 8, 17, 33, 47, 4096};

static void note_held(held *h, const kvt_engine *e, int64_t step)
{
    for (int b = 0; b < N_BUDGET; b++)
        for (int l = 0; l < L && !h->refused[b]; l++)
            for (int a = 0; a < h->n_lane; a++) {
                const int64_t *pos;
                int64_t n;
                kvt_engine_held(e, b, l, a, &pos, &n);
                for (int64_t i = 0; i < n; i++)
                    kept_at(h, b, step, l, a)[pos[i]] = 1;
            }
}

static void note_refusals(held *h, const kvt_engine *e)
{
    for (int b = 0; b < N_BUDGET; b++)
        for (int l = 0; l < L; l++) {
            bool failed = false;
            const char *why = kvt_engine_refused(e, b, l, &failed);
            if (!why)
                continue;
            h->refused[b] = true;
            h->failed[b] |= failed;
            if (!h->why[b][0] || failed)
                snprintf(h->why[b], TEXT, "%s", why);
        }
}

static void note_pinned(held *h, const kvt_engine *e)
{
    for (int b = 0; b < N_BUDGET; b++)
        for (int l = 0; l < L; l++) {
            h->latest[b] |= kvt_engine_kept_latest(e, b, l);
            for (int a = 0; a < h->n_lane; a++) {
                const float *score;
                const bool *pinned;
                kvt_engine_ranking(e, b, l, a, &score, &pinned);
                if (pinned)
                    memcpy(pinned_at(h, b, l, a), pinned, (size_t)h->toy->N * sizeof *pinned);
            }
        }
}

/* Whether lane k of all has a score of lane i among those of its open slots. */
static bool is_tied(const held *h, const kvt_engine *e, int b, int i, int k)
{
    const float *x, *y;
    const bool *x_pinned, *y_pinned;
    kvt_engine_ranking(e, b, i / h->n_lane, i % h->n_lane, &x, &x_pinned);
    kvt_engine_ranking(e, b, k / h->n_lane, k % h->n_lane, &y, &y_pinned);
    for (int64_t s = 0; x && y && s < h->toy->N; s++)
        for (int64_t t = 0; t < h->toy->N; t++)
            if (!x_pinned[s] && !y_pinned[t] && x[s] == y[t])
                return true;
    return false;
}

/* Equal scores of two lanes: the one that is listed first gets the slot. */
static void note_ties(held *h, const kvt_engine *e)
{
    for (int b = 0; b < N_BUDGET && !h->tied; b++)
        for (int i = 0; i < L * h->n_lane && !h->tied; i++)
            for (int k = 0; k < i && !h->tied; k++)
                h->tied = is_tied(h, e, b, i, k);
}

static void note_most(held *h, const kvt_engine *e)
{
    for (int b = 0; b < N_BUDGET; b++)
        for (int l = 0; l < L && !h->refused[b]; l++)
            for (int a = 0; a < h->n_lane; a++) {
                kvt_engine_count n = kvt_engine_counts(e, b, l, a);
                h->most = kvt_max(h->most, n.most - n.budget);
            }
}

static kvt_code drive(held *h, kvt_engine *e, const kvt_use *use, kvt_err *err)
{
    bool by_head = use->traits.by_query_head;
    for (int l = 0; l < L; l++) {
        kvt_feed f = check_toy_prompt(h->toy, l, by_head);
        if (kvt_engine_prompt(e, l, &f, err))
            return err->code;
    }
    if (kvt_engine_decide(e, -1, err))
        return err->code;
    note_refusals(h, e);
    note_pinned(h, e);
    if (use->share->by_score)
        note_ties(h, e);
    note_held(h, e, 0);
    for (int64_t m = 0; m + 1 < h->n_step; m++) {
        for (int l = 0; l < L; l++) {
            kvt_feed f = check_toy_token(h->toy, l, m, by_head);
            if (kvt_engine_token(e, l, &f, err))
                return err->code;
        }
        if (kvt_engine_decide(e, -1, err))
            return err->code;
        note_refusals(h, e);
        note_held(h, e, m + 1);
    }
    note_most(h, e);
    return KVT_OK;
}

int64_t check_period(const kvt_use *use)
{
    return kvt_max(1, use->own.every ? use->own.every : use->traits.every);
}

kvt_code check_run(held *out, const kvt_use *use, const check_toy *toy, bool decode,
                   uint64_t seed, kvt_arena *memory, kvt_err *err)
{
    bool skip = use->traits.effect == KVT_SKIP;
    held *h = out;
    *h = (held){.toy = toy,
                .n_lane = use->traits.by_query_head ? TOY_HEADS : TOY_GROUPS,
                .n_step = decode || skip ? 1 + toy->M : 1};
    h->kept = kvt_arena_array(memory, N_BUDGET * h->n_step * L * h->n_lane * toy->T, 1);
    h->pinned = kvt_arena_array(memory, N_BUDGET * L * h->n_lane * toy->N, sizeof(bool));
    if (!h->kept || !h->pinned)
        return kvt_fail_memory(err, N_BUDGET * h->n_step * L * toy->T);
    double threshold[N_BUDGET];
    for (int b = 0; b < N_BUDGET; b++)
        threshold[b] = use->traits.threshold;
    kvt_engine_spec spec = {.use = use,
                            .seq = &toy->seq,
                            .budget = check_budgets,
                            .n_budget = N_BUDGET,
                            .decode = decode,
                            .every = check_period(use),
                            .seed = seed,
                            .trace_digest = "check",
                            .threshold = use->traits.by_threshold ? threshold : NULL};
    kvt_engine *e;
    if (kvt_engine_new(&e, &spec, err))
        return err->code;
    kvt_code code = drive(h, e, use, err);
    kvt_engine_free(e);
    return code;
}
