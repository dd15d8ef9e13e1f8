/* check.c - laws that every policy obeys, tried on one use of it. */
#include "kvt/check.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kvt/pieces.h"
#include "replay/check_priv.h"

enum { PROMPT = 48 };

static const struct {
    const char *name, *help;
} laws[] = {
#define X(id, name, help) {name, help},
    KVT_LAWS(X)
#undef X
};

const char *kvt_law_name(kvt_law law)
{
    return laws[law].name;
}

const char *kvt_law_help(kvt_law law)
{
    return laws[law].help;
}

typedef struct checker {
    const kvt_use *use;
    bool decode; /* as it acts in this round */
    kvt_arena *memory;
    kvt_check_report *report;
    void *user;
    int64_t n_broken;
    kvt_err *err;
} checker;

static kvt_code run(checker *c, held *h, const check_toy *toy, uint64_t seed)
{
    return check_run(h, c->use, toy, c->decode, seed, c->memory, c->err);
}

static int64_t count(const held *h, int budget, int64_t step, int layer, int lane)
{
    const uint8_t *kept = kept_at(h, budget, step, layer, lane);
    int64_t n = 0;
    for (int64_t s = 0; s < h->toy->T; s++)
        n += kept[s];
    return n;
}

/* ---- findings ------------------------------------------------------------------------------
 */

static kvt_code broken(checker *c, kvt_law law, const char *fmt, ...) KVT_PRINTF(3, 4);
static kvt_code broken(checker *c, kvt_law law, const char *fmt, ...)
{
    char text[TEXT];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    c->n_broken++;
    c->report(c->user, law, text);
    return KVT_OK;
}

static bool same_sets(const held *a, const held *b)
{
    size_t n = (size_t)(N_BUDGET * a->n_step * L * a->n_lane * a->toy->T);
    return a->n_step == b->n_step && memcmp(a->refused, b->refused, sizeof a->refused) == 0 &&
           memcmp(a->kept, b->kept, n) == 0;
}

/* Whether random numbers decide: another seed, another set. */
static kvt_code is_drawn(checker *c, const check_toy *toy, const held *first, bool *drawn)
{
    held other;
    if (run(c, &other, toy, 8))
        return c->err->code;
    *drawn = !same_sets(first, &other);
    return KVT_OK;
}

/* ---- laws ----------------------------------------------------------------------------------
 */

static kvt_code law_runs(checker *c, const check_toy *toy)
{
    held h;
    if (run(c, &h, toy, 7))
        return broken(c, KVT_LAW_RUNS, "on a prompt of %lld tokens: %s", (long long)toy->N,
                      c->err->text);
    for (int b = 0; b < N_BUDGET; b++)
        if (h.failed[b])
            return broken(c, KVT_LAW_RUNS, "on a prompt of %lld tokens at a budget of %lld: %s",
                          (long long)toy->N, (long long)check_budgets[b], h.why[b]);
    if (h.refused[ALL])
        return broken(c, KVT_LAW_RUNS,
                      "on a prompt of %lld tokens it refuses a budget that holds all: %s",
                      (long long)toy->N, h.why[ALL]);
    return KVT_OK;
}

static kvt_code law_finite(checker *c, const check_toy *toy)
{
    held h;
    if (run(c, &h, toy, 7))
        return broken(c, KVT_LAW_FINITE, "%s", c->err->text);
    for (int b = 0; b < N_BUDGET; b++)
        if (h.failed[b])
            return broken(c, KVT_LAW_FINITE, "%s", h.why[b]);
    return KVT_OK;
}

/* Slots of all lanes of a scope together, at the end of a step: lanes that compete share them.
 */
static kvt_code check_total(checker *c, const held *h, int b, int64_t step)
{
    const kvt_traits *t = &c->use->traits;
    int64_t total = 0, n = (int64_t)L * h->n_lane, arrived = h->toy->N + step;
    int64_t may = kvt_min(check_budgets[b], arrived) * n;
    for (int i = 0; i < n; i++)
        total += count(h, b, step, i / h->n_lane, i % h->n_lane);
    if (total > may && !t->may_exceed)
        return broken(c, KVT_LAW_BUDGET, "holds %lld slots of %lld lanes at a budget of %lld",
                      (long long)total, (long long)n, (long long)check_budgets[b]);
    if (total < n)
        return broken(c, KVT_LAW_BUDGET, "a lane is empty at a budget of %lld",
                      (long long)check_budgets[b]);
    return KVT_OK;
}

/* Between two decisions a lane grows by a period; a row sees no more. Where select() decides
 * over lanes together one may hold what another leaves. */
static kvt_code check_rows(checker *c, const held *h)
{
    int64_t period = check_period(c->use);
    bool together = c->use->policy->select && c->use->traits.scope != KVT_BY_LANE;
    if (!c->decode || together || c->use->traits.may_exceed || h->most <= period)
        return KVT_OK;
    return broken(c, KVT_LAW_BUDGET,
                  "a row sees %lld slots above its lane's, expected at most %lld",
                  (long long)h->most, (long long)period);
}

static kvt_code law_budget(checker *c, const held *h)
{
    const kvt_traits *t = &c->use->traits;
    int64_t before = c->n_broken;
    if (t->by_threshold || t->effect == KVT_SKIP)
        return KVT_OK;
    for (int b = 0; b < N_BUDGET; b++)
        for (int64_t step = 0; step < h->n_step && !h->refused[b]; step++)
            if (step % check_period(c->use) == 0 &&
                (check_total(c, h, b, step) || c->n_broken > before))
                return KVT_OK;
    return check_rows(c, h);
}

static kvt_code law_full(checker *c, const held *h)
{
    const kvt_traits *t = &c->use->traits;
    if (t->by_threshold)
        return KVT_OK;
    for (int l = 0; l < L; l++)
        for (int a = 0; a < h->n_lane; a++)
            if (!h->refused[ALL] &&
                count(h, ALL, h->n_step - 1, l, a) != h->toy->N + h->n_step - 1)
                return broken(c, KVT_LAW_FULL, "layer %d, lane %d holds %lld of %lld tokens", l,
                              a, (long long)count(h, ALL, h->n_step - 1, l, a),
                              (long long)(h->toy->N + h->n_step - 1));
    return KVT_OK;
}

static kvt_code law_pinned(checker *c, const held *h)
{
    for (int b = 0; b < ALL; b++)
        for (int i = 0; i < L * h->n_lane && !h->refused[b] && !h->latest[b]; i++) {
            const bool *pinned = pinned_at(h, b, i / h->n_lane, i % h->n_lane);
            const uint8_t *kept = kept_at(h, b, 0, i / h->n_lane, i % h->n_lane);
            for (int64_t s = 0; s < h->toy->N; s++)
                if (pinned[s] && !kept[s])
                    return broken(c, KVT_LAW_PINNED,
                                  "token %lld is pinned and goes (layer %d, lane %d, budget "
                                  "%lld)",
                                  (long long)s, i / h->n_lane, i % h->n_lane,
                                  (long long)check_budgets[b]);
        }
    return KVT_OK;
}

static kvt_code law_same(checker *c, const check_toy *toy, const held *first)
{
    held again;
    if (run(c, &again, toy, 7))
        return c->err->code;
    return same_sets(first, &again) ? KVT_OK
                                    : broken(c, KVT_LAW_SAME, "two runs with seed 7 differ");
}

/* Another prompt in between changes nothing. */
static kvt_code law_state(checker *c, const check_toy *toy, const check_toy *other,
                          const held *first)
{
    held between, after;
    if (run(c, &between, other, 7) || run(c, &after, toy, 7))
        return c->err->code;
    return same_sets(first, &after)
               ? KVT_OK
               : broken(c, KVT_LAW_STATE,
                        "the same prompt gives another result after another "
                        "one: it keeps something outside marks and state");
}

static kvt_code law_lanes(checker *c, const check_toy *exchanged, const held *first)
{
    held h;
    bool drawn = false;
    int per = first->n_lane / TOY_GROUPS;
    if (is_drawn(c, first->toy, first, &drawn) || run(c, &h, exchanged, 7))
        return c->err->code;
    for (int b = 0; b < N_BUDGET && !drawn && !first->tied; b++)
        for (int i = 0; i < L * h.n_lane && !h.refused[b] && !first->refused[b]; i++) {
            int l = i / h.n_lane, a = i % h.n_lane;
            int from = (TOY_GROUPS - 1 - a / per) * per + a % per;
            for (int64_t step = 0; step < h.n_step; step++)
                if (memcmp(kept_at(&h, b, step, l, a), kept_at(first, b, step, l, from),
                           (size_t)h.toy->T) != 0)
                    return broken(c, KVT_LAW_LANES,
                                  "layer %d, lane %d keeps other tokens when the heads of the "
                                  "layer are listed in another order (budget %lld)",
                                  l, a, (long long)check_budgets[b]);
        }
    return KVT_OK;
}

/* Shown the budget and asked at each one, it decides as its one ranking says. */
static kvt_code law_ranking(checker *c, const check_toy *toy, const held *first)
{
    held h;
    kvt_use asked = *c->use;
    asked.traits.one_ranking = false;
    if (!c->use->traits.one_ranking || c->decode)
        return KVT_OK;
    if (check_run(&h, &asked, toy, c->decode, 7, c->memory, c->err))
        return c->err->code;
    return same_sets(first, &h) ? KVT_OK
                                : broken(c, KVT_LAW_RANKING,
                                         "declares one ranking, and decides otherwise where "
                                         "it sees the budget");
}

static kvt_code law_nested(checker *c, const held *h)
{
    const kvt_traits *t = &c->use->traits;
    bool even = c->use->share == &kvt_share_even;
    if (!t->one_ranking || c->decode || c->use->policy->select || !even)
        return KVT_OK;
    for (int b = 0; b + 1 < N_BUDGET; b++)
        for (int i = 0; i < L * h->n_lane && !h->refused[b] && !h->refused[b + 1]; i++)
            for (int64_t s = 0; s < h->toy->N; s++)
                if (kept_at(h, b, 0, i / h->n_lane, i % h->n_lane)[s] &&
                    !kept_at(h, b + 1, 0, i / h->n_lane, i % h->n_lane)[s] && !h->latest[b])
                    return broken(c, KVT_LAW_NESTED,
                                  "token %lld is kept at a budget of %lld and not at %lld",
                                  (long long)s, (long long)check_budgets[b],
                                  (long long)check_budgets[b + 1]);
    return KVT_OK;
}

/* ---- all of them ---------------------------------------------------------------------------
 */

typedef struct prompts {
    check_toy *tiny[3], *flat, *zero, *whole, *other, *exchanged;
} prompts;

static bool prompts_new(prompts *p)
{
    *p = (prompts){.flat = check_toy_new(1, PROMPT, TOY_FLAT, false),
                   .zero = check_toy_new(2, PROMPT, TOY_ZERO, false),
                   .whole = check_toy_new(3, PROMPT, TOY_RANDOM, false),
                   .other = check_toy_new(4, PROMPT - 9, TOY_RANDOM, false),
                   .exchanged = check_toy_new(3, PROMPT, TOY_RANDOM, true)};
    for (int i = 0; i < 3; i++)
        p->tiny[i] = check_toy_new(5, i + 1, TOY_RANDOM, false);
    return p->flat && p->zero && p->whole && p->other && p->exchanged && p->tiny[0] &&
           p->tiny[1] && p->tiny[2];
}

static void prompts_free(prompts *p)
{
    check_toy *const all[] = {p->tiny[0], p->tiny[1], p->tiny[2], p->flat,
                              p->zero,    p->whole,   p->other,   p->exchanged};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        check_toy_free(all[i]);
}

/* One law; what it holds of memory goes with it, but the run that others compare with. */
static kvt_code try_law(checker *c, kvt_law law, const prompts *p, const held *first)
{
    kvt_code code = KVT_OK;
    c->report(c->user, law, NULL);
    switch (law) {
    case KVT_LAW_RUNS:
        for (int i = 0; i < 3 && !code; i++)
            code = law_runs(c, p->tiny[i]);
        return code ? code : law_runs(c, p->whole);
    case KVT_LAW_FINITE: return law_finite(c, p->flat) ? c->err->code : law_finite(c, p->zero);
    case KVT_LAW_BUDGET: return law_budget(c, first);
    case KVT_LAW_FULL: return law_full(c, first);
    case KVT_LAW_PINNED: return law_pinned(c, first);
    case KVT_LAW_SAME: return law_same(c, p->whole, first);
    case KVT_LAW_STATE: return law_state(c, p->whole, p->other, first);
    case KVT_LAW_LANES: return law_lanes(c, p->exchanged, first);
    case KVT_LAW_RANKING: return law_ranking(c, p->whole, first);
    case KVT_LAW_NESTED: return law_nested(c, first);
    case KVT_LAW_COUNT: break;
    }
    return code;
}

/* Where it does not even run, nothing else can be said of it. */
static kvt_code try_all(checker *c, const prompts *p)
{
    held first;
    int64_t before = c->n_broken;
    kvt_code code = try_law(c, KVT_LAW_RUNS, p, NULL);
    if (code || c->n_broken > before || run(c, &first, p->whole, 7))
        return code ? code : c->n_broken > before ? KVT_OK : c->err->code;
    size_t mark = kvt_arena_mark(c->memory);
    for (int law = KVT_LAW_RUNS + 1; law < KVT_LAW_COUNT && !code; law++) {
        code = try_law(c, (kvt_law)law, p, &first);
        kvt_arena_rewind(c->memory, mark);
    }
    return code;
}

static kvt_code can_try(const kvt_use *u, kvt_err *err)
{
    const struct {
        bool is;
        const char *what;
    } lacks[] = {
        {u->traits.effect == KVT_JOIN, "joins slots"},
        {u->traits.effect == KVT_CHANNELS, "drops channels"},
        {u->traits.exactness == KVT_NOT_REPLAYABLE, "is not replayable"},
        {u->traits.needs & KVT_NEED_PROBE, "needs a probe"},
        {u->traits.needs & KVT_NEED_WEIGHTS, "needs learned weights"},
        {u->traits.needs & KVT_NEED_PLAN, "needs the best schedule"},
        {u->share->weights != NULL, "needs a table of shares"},
    };
    for (size_t i = 0; i < sizeof lacks / sizeof *lacks; i++)
        if (lacks[i].is)
            return kvt_fail(err, KVT_USAGE, "policy %s %s: it cannot be tried without a trace",
                            u->name, lacks[i].what);
    return KVT_OK;
}

kvt_code kvt_policy_check(const kvt_use *use, kvt_check_report *report, void *user,
                          kvt_err *err)
{
    prompts p;
    checker c = {.use = use, .report = report, .user = user, .err = err};
    if (can_try(use, err))
        return err->code;
    kvt_code code = KVT_OK;
    bool made = prompts_new(&p);
    if (!made)
        code = kvt_fail_memory(err, PROMPT * PROMPT);
    unsigned phases = use->traits.phases;
    for (int decode = 0; decode < 2 && !code; decode++) {
        if (decode ? !(phases & KVT_DECODE) : !(phases & KVT_PREFILL))
            continue;
        c.decode = decode;
        c.memory = kvt_arena_new((size_t)1 << 30);
        code = c.memory ? try_all(&c, &p) : kvt_fail_memory(err, 1 << 20);
        kvt_arena_free(c.memory);
    }
    prompts_free(&p);
    if (!code && c.n_broken > 0)
        code = kvt_fail(err, KVT_NO, "policy %s breaks %lld of the laws of kvt/policy.h",
                        use->name, (long long)c.n_broken);
    return code;
}
