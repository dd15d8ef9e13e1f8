/* test_schedules - 10,000 random lanes of 10 tokens: what the best rows are to any schedule,
 * the best schedule is to every policy that evicts for good, through the engine. And the
 * certificate of the best schedules on recorded traces. */
#include "tests/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/half.h"
#include "kvt/pieces.h"
#include "tests/unit/assign_small.h"

enum { N = 5, M = 5, T = N + M, H = 2, LANES = 10000, USES_MAX = 64, N_BUDGET = 4 };

static const int64_t budgets[N_BUDGET] = {2, 3, 4, 6};
static kvt_arena *work;
static kvt_registry *registry;
static kvt_geometry geometry;

/* ---- lanes ---------------------------------------------------------------------------------
 */

typedef struct random_lane {
    small s;
    float prompt[H * N * N];      /* rows of the prompt */
    float response[H * M * T];    /* the halves of s, as floats */
    float sum[H * N], max[H * N]; /* of the prompt's columns */
} random_lane;

static void draw_prompt(random_lane *x, uint64_t *seed)
{
    memset(x->prompt, 0, sizeof x->prompt);
    for (int h = 0; h < H; h++)
        for (int64_t i = 0; i < N; i++) {
            float *row = x->prompt + (h * N + i) * N, all = 0;
            for (int64_t j = 0; j <= i; j++)
                all += row[j] = (float)(small_number(seed) + 0.01);
            for (int64_t j = 0; j <= i; j++)
                row[j] /= all;
        }
}

static void draw(random_lane *x, uint64_t *seed)
{
    small_draw(&x->s, seed, SMALL_ROWS, N, M, H);
    draw_prompt(x, seed);
    half_to_floats(x->response, x->s.half, H * M * T);
    for (int h = 0; h < H; h++)
        for (int64_t j = 0; j < N; j++) {
            x->sum[h * N + j] = x->max[h * N + j] = 0;
            for (int64_t i = j; i < N; i++) {
                float p = x->prompt[(h * N + i) * N + j];
                x->sum[h * N + j] += p;
                x->max[h * N + j] = p > x->max[h * N + j] ? p : x->max[h * N + j];
            }
        }
}

/* ---- policies ------------------------------------------------------------------------------
 */

/* Rows m.. of the response over the first n tokens. */
static kvt_view rows_from(const random_lane *x, int64_t m, int64_t count, int64_t n)
{
    kvt_view v = kvt_view_of(x->response, KVT_F32, KVT_SHAPE("HQT", H, M, T));
    v.data = x->response + m * T;
    v.dim[1] = count, v.dim[2] = n;
    return v;
}

static kvt_feed prompt_feed(const random_lane *x, int64_t window)
{
    kvt_view v = kvt_view_of(x->prompt, KVT_F32, KVT_SHAPE("HQT", H, N, N));
    v.data = x->prompt + (N - window) * N;
    v.dim[1] = window;
    return (kvt_feed){.rows = v,
                      .future = rows_from(x, 0, M, N),
                      .col_sum = kvt_view_of(x->sum, KVT_F32, KVT_SHAPE("HN", H, N)),
                      .col_max = kvt_view_of(x->max, KVT_F32, KVT_SHAPE("HN", H, N))};
}

static kvt_engine *run(const kvt_use *u, const random_lane *x, uint64_t seed)
{
    static const int32_t layer_id[] = {0};
    kvt_sequence seq = {.n_prompt = N,
                        .n_response = M,
                        .look_until = N,
                        .geometry = &geometry,
                        .layer_id = layer_id,
                        .n_layer = 1};
    kvt_engine_spec spec = {.use = u,
                            .seq = &seq,
                            .budget = budgets,
                            .n_budget = N_BUDGET,
                            .decode = true,
                            .every = 1,
                            .seed = seed,
                            .trace_digest = "lane"};
    kvt_engine *e;
    kvt_err err;
    CHECK_OK(kvt_engine_new(&e, &spec, &err), &err);
    kvt_feed feed = prompt_feed(x, kvt_use_window(u, N));
    CHECK_OK(kvt_engine_prompt(e, 0, &feed, &err), &err);
    CHECK_OK(kvt_engine_decide(e, 0, &err), &err);
    for (int64_t m = 0; m < M; m++) {
        kvt_feed token = {.rows = rows_from(x, m, 1, N + m + 1),
                          .future = rows_from(x, m + 1, M - m - 1, N + m + 1)};
        CHECK_OK(kvt_engine_token(e, 0, &token, &err), &err);
        CHECK_OK(kvt_engine_decide(e, 0, &err), &err);
    }
    return e;
}

/* Mass that the policy kept at a budget; NAN where it was refused or held more. */
static double kept_of(const kvt_engine *e, const kvt_use *u, const random_lane *x, int b)
{
    bool failed;
    int32_t drop[T];
    assign_mass mass;
    kvt_err err;
    const kvt_engine_count n = kvt_engine_counts(e, b, 0, 0);
    if (kvt_engine_refused(e, b, 0, &failed)) {
        assert_false(failed);
        return NAN;
    }
    assert_true(n.most <= budgets[b] + !u->traits.drop_first);
    memcpy(drop, kvt_engine_evict_step(e, b, 0, 0), sizeof drop);
    for (int j = 0; j < T; j++)
        drop[j] = drop[j] < 0 ? ASSIGN_NEVER : drop[j];
    CHECK_OK(assign_replay(&mass, &x->s.lane, drop, work, &err), &err);
    return mass.kept;
}

/* Drops a random slot at each step. */
static double random_schedule(const random_lane *x, int64_t budget, uint64_t *seed)
{
    int32_t drop[T], alive[T];
    int n = 0;
    assign_mass mass;
    kvt_err err;
    for (int64_t t = 0; t < T; t++) {
        drop[t] = ASSIGN_NEVER;
        alive[n++] = (int32_t)t;
        for (; t >= N - 1 && n > budget; n--) {
            int at = (int)(small_number(seed) * n);
            drop[alive[at]] = (int32_t)(t - N + 1);
            alive[at] = alive[n - 1];
        }
    }
    CHECK_OK(assign_replay(&mass, &x->s.lane, drop, work, &err), &err);
    return mass.kept;
}

/* The best at every budget, where a row attends in front of the drop and behind it. */
static void solve(double best[2][N_BUDGET], random_lane *x)
{
    for (int first = 0; first < 2; first++) {
        assign *a;
        kvt_err err;
        x->s.lane.drop_first = first;
        CHECK_OK(assign_new(&a, &x->s.lane, work, &err), &err);
        for (int b = 0; b < N_BUDGET; b++) {
            assert_true(assign_to(a, budgets[b]));
            best[first][b] = assign_kept(a);
        }
    }
    x->s.lane.drop_first = false;
}

/* Whatever acts while decoding, evicts for good, has a budget and reads attention only. */
static int find_uses(kvt_use **use)
{
    static const char *const more[] = {"h2o:recent=0", "streaming:sinks=1",
                                       "tova:keep_last=true"};
    unsigned known = KVT_NEED_ATTN | KVT_NEED_COLUMNS | KVT_NEED_FUTURE;
    int n = 0;
    for (int i = 0; i < CHECK_COUNT(more); i++) {
        kvt_err err;
        CHECK_OK(kvt_use_parse(&use[n++], registry, more[i], &err), &err);
    }
    for (int i = 0; kvt_policies()[i] && n < USES_MAX; i++) {
        kvt_use *u;
        kvt_err err;
        if (kvt_policies()[i]->base ||
            kvt_use_parse(&u, registry, kvt_policies()[i]->name, &err))
            continue;
        const kvt_traits *t = &u->traits;
        if ((t->phases & KVT_DECODE) && t->effect == KVT_EVICT && !t->by_threshold &&
            !t->may_exceed && !(t->needs & ~known) && !t->by_query_head && t->every <= 1 &&
            t->exactness != KVT_NOT_REPLAYABLE && t->scope != KVT_BY_MODEL)
            use[n++] = u;
        else
            kvt_use_free(u);
    }
    return n;
}

static void nothing_beats_the_best_schedule(void **state)
{
    static random_lane x;
    kvt_use *use[USES_MAX];
    int n_use = find_uses(use), ran = 0, greedy_lost = 0;
    uint64_t seed = 11;
    (void)state;
    assert_true(n_use >= 8);
    for (int i = 0; i < LANES; i++) {
        double best[2][N_BUDGET];
        kvt_arena_rewind(work, 0);
        draw(&x, &seed);
        solve(best, &x);
        for (int b = 0; b < N_BUDGET; b++) {
            int32_t drop[T];
            double price[T + 2];
            assign_mass mass;
            kvt_err err;
            CHECK_OK(assign_greedy(drop, price, &x.s.lane, budgets[b], work, &err), &err);
            CHECK_OK(assign_replay(&mass, &x.s.lane, drop, work, &err), &err);
            assert_true(small_step_bound(&x.s, budgets[b]) >= best[0][b]);
            assert_true(best[0][b] >= mass.kept);
            assert_true(best[0][b] >= random_schedule(&x, budgets[b], &seed));
            assert_true(best[0][b] >= best[1][b]);
            greedy_lost += mass.kept < best[0][b];
        }
        /* Policies in turn, so that each sees thousands of lanes. */
        for (int k = i % 3; k < n_use; k += 3) {
            kvt_engine *e = run(use[k], &x, (uint64_t)i);
            for (int b = 0; b < N_BUDGET; b++) {
                double kept = kept_of(e, use[k], &x, b);
                ran += !isnan(kept);
                if (kept > best[use[k]->traits.drop_first][b])
                    fail_msg("%s keeps %.17g of lane %d, the best schedule %.17g", use[k]->text,
                             kept, i, best[use[k]->traits.drop_first][b]);
            }
            kvt_engine_free(e);
        }
    }
    print_message("%d policies, %d cells; greedy is not the best in %d of %d\n", n_use, ran,
                  greedy_lost, LANES * N_BUDGET);
    assert_true(ran > LANES * N_BUDGET);
    assert_true(greedy_lost > 0); /* or the lanes are too easy */
    for (int k = 0; k < n_use; k++)
        kvt_use_free(use[k]);
}

/* ---- recorded traces -----------------------------------------------------------------------
 */

static void check_recorded(assign_lane *l)
{
    static const double share[] = {.02, .05, .1, .2, .4, .8, 1.05};
    size_t mark = kvt_arena_mark(work);
    int64_t C = assign_columns(l), length = l->n_prompt + l->n_response;
    assign *a;
    kvt_err err;
    double *price = kvt_arena_array(work, C, sizeof *price);
    int32_t *drop = kvt_arena_array(work, length, sizeof *drop);
    CHECK_OK(assign_new(&a, l, work, &err), &err);
    for (int i = 0; i < CHECK_COUNT(share); i++) {
        int64_t B = (int64_t)(share[i] * (double)l->n_prompt);
        assign_mass mass;
        double bound;
        assert_true(assign_to(a, B));
        assign_prices(a, price);
        assign_drop_steps(a, drop);
        CHECK_OK(assign_replay(&mass, l, drop, work, &err), &err);
        CHECK_OK(assign_bound(&bound, l, B, price, work, &err), &err);
        for (int64_t c = 0; c < C; c++)
            assert_true(price[c] >= 0);
        assert_true(mass.kept == assign_kept(a));
        assert_true(bound == mass.kept);
    }
    kvt_arena_rewind(work, mark);
}

static void certificates_hold_on_recorded_traces(void **state)
{
    static const char *const names[] = {"code-review", "dialogue", "german-workshop"};
    (void)state;
    for (int i = 0; i < CHECK_COUNT(names); i++) {
        char path[512];
        kvt_trace *t;
        kvt_rows *rows;
        kvt_err err;
        snprintf(path, sizeof path, "%s/traces/samples/%s.h5", KVT_SOURCE_DIR, names[i]);
        CHECK_OK(kvt_trace_open(&t, path, 0, &err), &err);
        CHECK_OK(kvt_rows_open(&rows, t, &err), &err);
        const kvt_trace_info *info = kvt_trace_info_of(t);
        int64_t m = info->facts.token.n_response, n = info->n_token;
        int per = (int)(info->facts.model.n_head / info->facts.model.n_kv_head);
        kvt_arena_rewind(work, 0);
        uint16_t *half = kvt_arena_array(work, per * m * n, sizeof *half);
        for (int k = 0; k < info->n_layer * (int)info->facts.model.n_kv_head; k++) {
            assign_lane l = {.rows = {.data = half,
                                      .n_head = per,
                                      .n_query = m,
                                      .n_token = n,
                                      .head_stride = m * n,
                                      .row_stride = n},
                             .n_head = per,
                             .n_prompt = info->facts.token.n_prompt,
                             .n_response = m};
            for (int h = 0; h < per; h++) {
                const uint16_t *head;
                int at = k * per + h;
                CHECK_OK(kvt_rows_head(rows, at / (int)info->facts.model.n_head,
                                       at % (int)info->facts.model.n_head, &head, &err),
                         &err);
                memcpy(half + h * m * n, head + (info->n_query - m) * n,
                       (size_t)(m * n) * sizeof *half);
            }
            for (int kind = 0; kind < 4; kind++) {
                l.every = kind < 2 ? 1 : 8;
                l.drop_first = kind % 2;
                check_recorded(&l);
            }
        }
        kvt_rows_close(rows);
        kvt_trace_close(t);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_beats_the_best_schedule),
        cmocka_unit_test(certificates_hold_on_recorded_traces),
    };
    kvt_err err;
    work = kvt_arena_new((size_t)1 << 32);
    geometry = (kvt_geometry){
        .n_layer = 1, .n_head = H, .n_kv_head = 1, .head_dim = 4, .attn_scale = 0.5};
    if (!work || kvt_registry_new(&registry, &err))
        return 1;
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    kvt_registry_free(registry);
    kvt_arena_free(work);
    return rc;
}
