/* test_engine_mini.c - the engine against the plain driver: every policy, every choice, both
 * growth classes, four budgets in one pass; what is held after every token must be the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "kvt/engine.h"
#include "../mini.h"
#include "../toy_more.h"

enum { CASE_MAX = 2048, N_BUDGET = 4 };
static const int64_t budgets[N_BUDGET] = {7, 17, 33, 49};
static const double thresholds[N_BUDGET] = {1, 0.25, -0.5, -2}; /* under by_threshold */

typedef struct variant {
    char name[128], params[96], text[160];
    const kvt_policy *p;
    const kvt_share *share; /* NULL: the policy's own */
    bool prefill_only;
} variant;

static variant cases[CASE_MAX];
static int n_case;
static kvt_arena *memory;
static toy *plain_trace, *rich_trace, *trace; /* the last: of the policy that runs */
static float mass[8 * 8 * KVT_POSITION_BINS];
static kvt_registry *registry;

/* Rows first..first + n - 1 of a layer, over the first n_token positions: f32 [H n n_token]. */
static kvt_view rows_of(int layer, int64_t first, int64_t n, int64_t n_token)
{
    int64_t *pos = kvt_arena_array(memory, trace->T, sizeof *pos);
    float *data = kvt_arena_array(memory, trace->n_head * n * n_token, sizeof *data);
    float *row = kvt_arena_array(memory, trace->T, sizeof *row);
    for (int64_t j = 0; j < trace->T; j++)
        pos[j] = j;
    for (int h = 0; h < trace->n_head; h++)
        for (int64_t q = 0; q < n; q++) {
            toy_row(row, trace, layer, h, first + q, pos, trace->T);
            memcpy(data + (h * n + q) * n_token, row, (size_t)n_token * sizeof *row);
        }
    return kvt_view_of(data, KVT_F32, KVT_SHAPE("HQT", trace->n_head, n, n_token));
}

/* The scores that the driver makes up, of n_lane lanes: f32 and u8 [A N]. */
static void add_scores(kvt_feed *feed, int layer, int n_lane)
{
    int64_t N = trace->N;
    float *sum = kvt_arena_array(memory, N, sizeof *sum);
    float *max = kvt_arena_array(memory, n_lane * N, sizeof *max);
    uint8_t *pinned = kvt_arena_array(memory, n_lane * N, sizeof *pinned);
    for (int a = 0; a < n_lane; a++) {
        toy_columns(sum, max + a * N, trace, layer, a * (trace->n_head / n_lane));
        pinned[a * N] = 1;
    }
    feed->scores = kvt_view_of(max, KVT_F32, KVT_SHAPE("AN", n_lane, N));
    feed->scores_pinned = kvt_view_of(pinned, KVT_U8, KVT_SHAPE("AN", n_lane, N));
}

/* ---- what policies read beside attention: of the first n tokens ----------------------------
 */

/* [X T D] or [T D] or [X T]: the first n of T, contiguous. */
static kvt_view first_of(const kvt_view *in, int64_t n)
{
    kvt_view v = *in;
    int axis = (int)(strchr(v.axes, 'T') - v.axes);
    int64_t outer = axis ? v.dim[0] : 1, inner = axis + 1 < v.rank ? v.dim[axis + 1] : 1;
    float *data = kvt_arena_array(memory, outer * n * inner + 1, sizeof *data);
    for (int64_t o = 0; o < outer; o++)
        memcpy(data + o * n * inner, (const float *)v.data + o * v.dim[axis] * inner,
               (size_t)(n * inner) * sizeof *data);
    v.dim[axis] = n;
    return kvt_view_of(data, KVT_F32, v.axes, (size_t)v.rank, v.dim);
}

/* Queries first..first + n - 1 of [H Q X], of X its first n_token: [H n n_token]. */
static kvt_view queries_of(const kvt_view *in, int64_t first, int64_t n, int64_t n_token)
{
    float *data = kvt_arena_array(memory, in->dim[0] * n * n_token + 1, sizeof *data);
    for (int64_t h = 0; h < in->dim[0]; h++)
        for (int64_t q = 0; q < n; q++)
            memcpy(data + (h * n + q) * n_token,
                   (const float *)in->data + (h * in->dim[1] + first + q) * in->dim[2],
                   (size_t)n_token * sizeof *data);
    return kvt_view_of(data, KVT_F32, KVT_SHAPE(in->axes, in->dim[0], n, n_token));
}

/* Adds them for `n_token` tokens and the last n queries. */
static void add_more(kvt_feed *f, int layer, int64_t n_token, int64_t n)
{
    if (!trace->more)
        return;
    const kvt_feed *all = &trace->more[layer];
    f->keys = first_of(&all->keys, n_token);
    f->values = first_of(&all->values, n_token);
    f->wo_l1 = first_of(&all->wo_l1, n_token);
    f->wo_l2 = first_of(&all->wo_l2, n_token);
    f->hidden = first_of(&all->hidden, n_token);
    f->decision = first_of(&all->decision, n_token);
    f->decision_weight = first_of(&all->decision_weight, n_token);
    f->decision_gamma = all->decision_gamma;
    f->queries = queries_of(&all->queries, n_token - n, n, all->queries.dim[2]);
    f->logits = queries_of(&all->logits, n_token - n, n, n_token);
    f->query_mean = all->query_mean;
    f->query_cov = all->query_cov;
    f->query_freq_abs = all->query_freq_abs;
    if (n_token > trace->N)
        return;
    f->blocks = all->blocks;
    f->probe = all->probe;
    f->n_probe = all->n_probe;
}

static kvt_feed prompt_feed(int layer, int64_t n_window)
{
    int64_t N = trace->N;
    float *sum = kvt_arena_array(memory, trace->n_head * N, sizeof *sum);
    float *max = kvt_arena_array(memory, trace->n_head * N, sizeof *max);
    for (int h = 0; h < trace->n_head; h++)
        toy_columns(sum + h * N, max + h * N, trace, layer, h);
    kvt_feed f = {.rows = rows_of(layer, N - n_window, n_window, N),
                  .future = rows_of(layer, N, trace->M, N),
                  .col_sum = kvt_view_of(sum, KVT_F32, KVT_SHAPE("HN", trace->n_head, N)),
                  .col_max = kvt_view_of(max, KVT_F32, KVT_SHAPE("HN", trace->n_head, N))};
    add_more(&f, layer, N, n_window);
    return f;
}

/* The probe of that kind that was run at each budget, or the first of it. */
static void find_probes(int probe_of[N_BUDGET], const kvt_use *use)
{
    const kvt_feed *f = trace->more;
    for (int b = 0; b < N_BUDGET; b++) {
        probe_of[b] = -1;
        for (int i = 0; f && use->traits.probe && i < f->n_probe; i++)
            if (strcmp(kvt_probe_kind_name(trace->probe_kind[i]), use->traits.probe) == 0 &&
                (probe_of[b] < 0 || f->probe[i].budget == budgets[b]))
                probe_of[b] = i;
        probe_of[b] = probe_of[b] < 0 ? 0 : probe_of[b];
    }
}

static const kvt_scorer *find_weights(const kvt_weight *list, const char *kind)
{
    for (int i = 0; list && i < trace->n_weights; i++)
        if (strcmp(trace->weights[i].kind, kind) == 0)
            return trace->weights[i].file;
    return NULL;
}

/* Slots that the engine holds are those of the driver, at every budget. */
static void compare(const kvt_engine *e, const mini_result *plain, int64_t m)
{
    for (int b = 0; b < N_BUDGET; b++)
        for (int l = 0; l < trace->n_layer; l++) {
            bool failed = false;
            const char *why = kvt_engine_refused(e, b, l, &failed);
            if (failed)
                fail_msg("budget %lld: %s", (long long)budgets[b], why);
            if (plain[b].skipped) {
                assert_non_null(why);
                continue;
            }
            if (why)
                fail_msg("budget %lld: refused: %s", (long long)budgets[b], why);
            for (int a = 0; a < plain[b].n_lane; a++) {
                const int64_t *pos;
                int64_t n;
                const uint8_t *want = mini_held(&plain[b], trace, m, l, a);
                kvt_engine_held(e, b, l, a, &pos, &n);
                assert_int_equal(n, mini_count(&plain[b], trace, m, l, a));
                for (int64_t s = 0; s < n; s++)
                    if (!want[pos[s]])
                        fail_msg(
                            "budget %lld, after %lld tokens, layer %d, lane %d: the engine "
                            "holds %lld, the plain driver does not",
                            (long long)budgets[b], (long long)m, l, a, (long long)pos[s]);
            }
        }
}

static void run_engine(const variant *v, const kvt_use *use, const mini_result *plain)
{
    kvt_err err;
    kvt_engine *e;
    kvt_sequence seq = trace->seq;
    seq.position_mass = mass;
    bool decode = plain[N_BUDGET - 1].decodes, skip = v->p->traits.effect == KVT_SKIP;
    int probe_of[N_BUDGET];
    double threshold[N_BUDGET];
    find_probes(probe_of, use);
    for (int b = 0; b < N_BUDGET; b++)
        threshold[b] = thresholds[b];
    kvt_engine_spec spec = {
        .use = use,
        .seq = &seq,
        .budget = budgets,
        .n_budget = N_BUDGET,
        .decode = decode,
        .every = use->traits.every > 0 ? use->traits.every : 1,
        .seed = 7,
        .trace_digest = "toy",
        .weights =
            find_weights(v->p->weights, v->p->weights_kind ? v->p->weights_kind : v->p->name),
        .table = find_weights(use->share->weights, use->share->weights_kind),
        .probe_of = probe_of,
        .threshold = threshold};
    if (kvt_engine_new(&e, &spec, &err))
        fail_msg("%s", err.text);
    int64_t n_window = kvt_use_window(use, trace->N);
    for (int l = 0; l < trace->n_layer; l++) {
        kvt_feed feed = prompt_feed(l, n_window);
        add_scores(&feed, l, use->traits.by_query_head ? trace->n_head : trace->n_group);
        if (kvt_engine_prompt(e, l, &feed, &err))
            fail_msg("%s", err.text);
        /* as where layers are read one at a time */
        if (use->traits.scope == KVT_BY_MODEL && !decode)
            kvt_engine_forget(e, l);
    }
    if (kvt_engine_decide(e, -1, &err))
        fail_msg("%s", err.text);
    if (!skip)
        compare(e, plain, 0);
    for (int64_t m = 0; decode && m < trace->M; m++) {
        for (int l = 0; l < trace->n_layer; l++) {
            kvt_feed feed = {.rows = rows_of(l, trace->N + m, 1, trace->N + m + 1)};
            add_more(&feed, l, trace->N + m + 1, 1);
            feed.future = rows_of(l, trace->N + m + 1, trace->M - m - 1, trace->T);
            if (kvt_engine_token(e, l, &feed, &err))
                fail_msg("%s", err.text);
        }
        if (skip) /* what this row read */
            compare(e, plain, m + 1);
        if (kvt_engine_decide(e, -1, &err))
            fail_msg("%s", err.text);
        if (!skip)
            compare(e, plain, m + 1);
    }
    kvt_engine_free(e);
}

/* ---- an allocator over the model -----------------------------------------------------------
 */

/* The (k + 1)-th largest of n scores; of equal ones each counts. */
static float best_score(const float *score, int64_t n, int64_t k)
{
    for (int64_t s = 0; s < n; s++) {
        int64_t above = 0, same = 0;
        for (int64_t i = 0; i < n; i++)
            above += score[i] > score[s], same += score[i] == score[s];
        if (above <= k && k < above + same)
            return score[s];
    }
    return 0;
}

/* Each lane its pinned slots, at least one; then slot by slot to the lane whose next score is
 * the best of all layers: every share depends on the scores of every lane. */
static void split_by_best(const void *params, int64_t *budget, const kvt_lane *lane, int n_lane,
                          const float *const *score, const int64_t *n_pinned, int64_t total)
{
    int64_t left = total;
    (void)params;
    for (int i = 0; i < n_lane; i++) {
        budget[i] = kvt_min(kvt_max(n_pinned[i], 1), kvt_min(total / n_lane, lane[i].n_slot));
        left -= budget[i];
    }
    for (; left > 0; left--) {
        int at = -1;
        float best = 0;
        for (int i = 0; i < n_lane; i++) {
            if (budget[i] >= lane[i].n_slot)
                continue;
            float next = score[i] ? best_score(score[i], lane[i].n_slot, budget[i]) : 0;
            if (at < 0 || next > best)
                at = i, best = next;
        }
        if (at < 0)
            return;
        budget[at]++;
    }
}

static const kvt_share by_best = {
    .abi = KVT_POLICY_ABI,
    .name = "by-best",
    .title = "to the lane whose next score is best",
    .paper = "",
    .differs = "",
    .scope = KVT_BY_MODEL,
    .split = split_by_best,
};

static void engine_is_the_plain_driver(void **state)
{
    const variant *v = *state;
    kvt_err err;
    kvt_use *use;
    mini_result plain[N_BUDGET];
    size_t mark = kvt_arena_mark(memory);
    bool more = toy_needs_more(v->p, v->params) || (v->share && v->share->weights);
    trace = more ? rich_trace : plain_trace;
    for (int b = 0; b < N_BUDGET; b++) {
        mini_spec spec = {.trace = trace,
                          .policy = v->p,
                          .share = v->share,
                          .params = v->params,
                          .budget = budgets[b],
                          .prefill_only = v->prefill_only,
                          .position_mass = mass,
                          .threshold = thresholds[b],
                          .matched = true};
        if (mini_run(&plain[b], &spec, memory, &err))
            fail_msg("%s", err.text);
        if (plain[b].lacks)
            fail_msg("the trace of this test lacks what it needs");
    }
    if (kvt_use_parse(&use, registry, v->text, &err))
        fail_msg("%s", err.text);
    if (v->share == &by_best) {
        use->share = &by_best;
        use->traits.scope = KVT_BY_MODEL;
    }
    run_engine(v, use, plain);
    kvt_use_free(use);
    kvt_arena_rewind(memory, mark);
}

static void add_shared(const kvt_policy *p, const kvt_share *share, bool prefill_only)
{
    variant *v = &cases[n_case++];
    *v = (variant){.p = p, .share = share, .prefill_only = prefill_only};
    snprintf(v->text, sizeof v->text, "%s%s%s", p->name, share == &by_best ? "" : "/",
             share == &by_best ? "" : share->name);
    snprintf(v->name, sizeof v->name, "%s/%s%s", p->name, share->name,
             prefill_only ? " on the prompt" : "");
}

static void add_case(const kvt_policy *p, const char *param, const char *value,
                     bool prefill_only)
{
    variant *v = &cases[n_case++];
    v->p = p;
    v->prefill_only = prefill_only;
    snprintf(v->params, sizeof v->params, *param ? "%s=%s" : "%s%s", param, value);
    snprintf(v->text, sizeof v->text, *param ? "%s:%s=%s" : "%s%s%s", p->name, param, value);
    snprintf(v->name, sizeof v->name, *param ? "%s %s=%s%s" : "%s%s%s%s", p->name, param, value,
             prefill_only ? " on the prompt" : "");
}

/* Those that draw by themselves, without their draws. False: none of them. */
static bool add_undrawn(const kvt_policy *p)
{
    static const char *const without[][3] = {{"keyformer", "noise", "false"},
                                             {"nacl", "random", "0"}};
    for (size_t i = 0; i < sizeof without / sizeof *without; i++)
        if (strcmp(p->name, without[i][0]) == 0) {
            for (int act = 0; act < 2; act++)
                add_case(p, without[i][1], without[i][2], act);
            return true;
        }
    return false;
}

int main(void)
{
    kvt_err err;
    memory = kvt_arena_new((size_t)2 << 30);
    plain_trace = toy_new(memory, 9, 2, 5, 4, 2, 50, 8, false);
    rich_trace = toy_rich(memory, 2, 5, 4, 2, 50, 8, false);
    for (size_t i = 0; i < sizeof mass / sizeof *mass; i++)
        mass[i] = (float)(toy_mix((uint64_t)i) % 1000) / 1000;
    if (kvt_registry_new(&registry, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    for (int i = 0; kvt_policies()[i]; i++) {
        const kvt_policy *p = kvt_policies()[i];
        if (strcmp(p->name, "random") == 0 || add_undrawn(p))
            continue; /* its streams are the engine's own */
        if (p->traits.effect == KVT_JOIN || p->traits.effect == KVT_CHANNELS)
            continue; /* the plain driver joins no slots and drops no channels */
        if (p->traits.exactness == KVT_NOT_REPLAYABLE || (p->traits.needs & KVT_NEED_PLAN))
            continue; /* nothing to run; what it reads is solved from a trace's rows */
        for (int act = 0; act < 2; act++) {
            /* a bound of retrieval has no decision on the prompt in the plain driver */
            if (act && (!(p->traits.phases & KVT_DECODE) || p->traits.effect == KVT_SKIP))
                continue;
            add_case(p, "", "", act);
            bool shares = p->traits.effect != KVT_SKIP && !p->traits.by_threshold;
            for (int k = 0; shares && kvt_shares()[k]; k++)
                if (p->score || !kvt_shares()[k]->by_score)
                    add_shared(p, kvt_shares()[k], act);
            /* Whatever ranks the prompt; while decoding it is shared out once only. */
            if (shares && (act || !(p->traits.phases & KVT_DECODE)))
                add_shared(p, &by_best, act);
            for (const kvt_param *q = p->params; q && q->name; q++)
                for (int k = 0; q->type == KVT_CHOICE && k <= (int)q->max; k++)
                    add_case(p, q->name, q->choices[k].name, act);
        }
    }
    static struct CMUnitTest tests[CASE_MAX];
    for (int i = 0; i < n_case; i++)
        tests[i] = (struct CMUnitTest){.name = cases[i].name,
                                       .test_func = engine_is_the_plain_driver,
                                       .initial_state = &cases[i]};
    int failed = _cmocka_run_group_tests("engine", tests, (size_t)n_case, NULL, NULL);
    kvt_registry_free(registry);
    toy_close(rich_trace);
    kvt_arena_free(memory);
    return failed;
}
