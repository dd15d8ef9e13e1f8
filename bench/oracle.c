/* bench/oracle.c - what the best schedule of eviction costs, as ratios in one run.
 *
 *   bench_oracle [--smoke] [TRACE.h5]
 *
 * Prints CSV. On the trace: seconds of the CPU to solve every lane at nine budgets (median,
 * smallest, largest), those of replaying h2o at the same budgets without regret, and how many
 * times the latter the former is; what share reading and searching have; certificates that are
 * equal to the mass that the schedule keeps. Then the same growing with the response, on traces
 * of random numbers of one layer. Without a trace it makes one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kvt/replay.h"
#include "replay/assign.h"
#include "tests/synth.h"

enum { RUNS_MAX = 5, N_SHARE = 9 };

static const double share[N_SHARE] = {.02, .05, .10, .15, .20, .25, .30, .40, .50};

typedef struct bench {
    char folder[256], budgets[256];
    int64_t budget[N_SHARE];
    int n_run;
} bench;

/* A trace in memory: response rows of every layer. */
typedef struct rows_of_trace {
    uint16_t *half; /* f16 [L H M T] */
    int n_layer, n_head, n_kv;
    int64_t n_prompt, n_response;
} rows_of_trace;

typedef struct solved {
    double total, reading;
    int64_t proved, n;
} solved;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void check(kvt_code code, const kvt_err *err)
{
    if (code) {
        fprintf(stderr, "bench_oracle: %s: %s\n", kvt_code_name(code), err->text);
        exit(1);
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double line(const char *what, double *run, int n, double beside)
{
    qsort(run, (size_t)n, sizeof *run, by_value);
    printf("%s,%.6f,%.6f,%.6f,", what, run[n / 2], run[0], run[n - 1]);
    printf(beside > 0 ? "%.2f\n" : "\n", run[n / 2] / beside);
    fflush(stdout);
    return run[n / 2];
}

/* ---- a trace -------------------------------------------------------------------------------
 */

static void load(rows_of_trace *r, const char *path)
{
    kvt_trace *t;
    kvt_rows *rows;
    kvt_err err;
    check(kvt_trace_open(&t, path, 0, &err), &err);
    check(kvt_rows_open(&rows, t, &err), &err);
    const kvt_trace_info *i = kvt_trace_info_of(t);
    int64_t M = i->facts.token.n_response, T = i->n_token;
    *r = (rows_of_trace){.n_layer = i->n_layer,
                         .n_head = (int)i->facts.model.n_head,
                         .n_kv = (int)i->facts.model.n_kv_head,
                         .n_prompt = i->facts.token.n_prompt,
                         .n_response = M};
    r->half = malloc((size_t)(r->n_layer * r->n_head * M * T) * sizeof *r->half);
    for (int k = 0; r->half && k < r->n_layer * r->n_head; k++) {
        const uint16_t *head;
        check(kvt_rows_head(rows, k / r->n_head, k % r->n_head, &head, &err), &err);
        memcpy(r->half + k * M * T, head + (i->n_query - M) * T,
               (size_t)(M * T) * sizeof *head);
    }
    printf("# %s: %d layers, %d query heads, %d kv heads, %lld + %lld tokens\n", i->name,
           r->n_layer, r->n_head, r->n_kv, (long long)r->n_prompt, (long long)M);
    kvt_rows_close(rows);
    kvt_trace_close(t);
    if (!r->half)
        exit(1);
}

static void choose_budgets(bench *b, int64_t n_prompt)
{
    b->budgets[0] = 0;
    for (int k = 0; k < N_SHARE; k++) {
        int64_t tokens = (int64_t)((double)n_prompt * share[k]);
        size_t n = strlen(b->budgets);
        b->budget[k] = tokens < 32 ? 32 : tokens;
        snprintf(b->budgets + n, sizeof b->budgets - n, "%s%lld", k ? "," : "",
                 (long long)b->budget[k]);
    }
}

/* ---- solving -------------------------------------------------------------------------------
 */

static void prove(solved *s, const assign *a, const assign_lane *l, int64_t budget,
                  kvt_arena *work)
{
    kvt_err err;
    double bound, *price = kvt_arena_array(work, assign_columns(l), sizeof *price);
    assign_prices(a, price);
    check(assign_bound(&bound, l, budget, price, work, &err), &err);
    s->proved += bound == assign_kept(a);
    s->n++;
}

static void solve_lane(solved *s, const bench *b, const assign_lane *l, kvt_arena *work,
                       bool proof)
{
    assign *a;
    kvt_err err;
    double from = now();
    kvt_arena_rewind(work, 0);
    check(assign_new(&a, l, work, &err), &err);
    s->reading += now() - from;
    for (int k = 0; k < N_SHARE; k++) {
        (void)assign_to(a, b->budget[k]);
        if (proof)
            prove(s, a, l, b->budget[k], work);
    }
    s->total += now() - from;
}

static solved solve_all(const bench *b, const rows_of_trace *r, kvt_arena *work, bool proof)
{
    solved s = {0};
    int per = r->n_head / r->n_kv;
    int64_t T = r->n_prompt + r->n_response;
    for (int i = 0; i < r->n_layer * r->n_kv; i++) {
        assign_lane l = {.rows = {.data = r->half + i * per * r->n_response * T,
                                  .n_head = per,
                                  .n_query = r->n_response,
                                  .n_token = T,
                                  .head_stride = r->n_response * T,
                                  .row_stride = T},
                         .n_head = per,
                         .n_prompt = r->n_prompt,
                         .n_response = r->n_response,
                         .every = 1};
        solve_lane(&s, b, &l, work, proof);
    }
    return s;
}

/* h2o at the same budgets: ranking and judging. A limit of one byte leaves the regret out. */
static double replay(const bench *b, const char *path, size_t limit)
{
    kvt_replay_spec spec = {.trace = &path,
                            .n_trace = 1,
                            .policies = "h2o",
                            .budgets = b->budgets,
                            .out_dir = "",
                            .no_controls = true,
                            .no_output_error = true,
                            .recompute = true,
                            .oracle_limit = limit};
    kvt_ctx ctx = {.n_thread = 1};
    kvt_replay_counts n;
    kvt_results *found;
    kvt_err err;
    check(kvt_replay(&found, &n, &spec, &ctx, &err), &err);
    kvt_results_free(found);
    return n.rank_s + n.judge_s;
}

static void measure(bench *b, const char *path)
{
    rows_of_trace r;
    double plain[RUNS_MAX], with[RUNS_MAX], total[RUNS_MAX], reading[RUNS_MAX];
    kvt_arena *work = kvt_arena_new((size_t)1 << 34);
    load(&r, path);
    choose_budgets(b, r.n_prompt);
    for (int i = 0; i < b->n_run; i++) {
        plain[i] = replay(b, path, 1);
        with[i] = replay(b, path, 0);
        solved s = solve_all(b, &r, work, false);
        total[i] = s.total, reading[i] = s.reading;
    }
    double h2o = line("h2o at nine budgets", plain, b->n_run, 0);
    line("h2o with its regret", with, b->n_run, h2o);
    line("best schedules of all lanes at nine budgets", total, b->n_run, h2o);
    line("of it: reading rows", reading, b->n_run, h2o);
    solved s = solve_all(b, &r, work, true);
    printf("# certificates equal to the mass kept: %lld of %lld\n", (long long)s.proved,
           (long long)s.n);
    kvt_arena_free(work);
    free(r.half);
}

static const char *make(const bench *b, int64_t n_prompt, int64_t n_response)
{
    static char path[300];
    synth_spec s = synth_default();
    kvt_err err;
    s.n_layer = 1, s.n_head = 3, s.n_kv_head = 1, s.head_dim = 16;
    s.n_prompt = n_prompt, s.n_response = n_response;
    s.sharpness = 2;
    snprintf(path, sizeof path, "%s/%lld.h5", b->folder, (long long)n_response);
    check(synth_file(&s, path, &err), &err);
    return path;
}

int main(int argc, char **argv)
{
    static const int64_t lengths[] = {64, 256, 1024};
    bool smoke = argc > 1 && strcmp(argv[1], "--smoke") == 0;
    bench b = {.n_run = smoke ? 1 : RUNS_MAX};
    char command[300];
    snprintf(b.folder, sizeof b.folder, "%s/bench.XXXXXX", KVT_BINARY_DIR);
    if (!mkdtemp(b.folder))
        return 1;
    printf("what,median_s,min_s,max_s,times_h2o\n");
    measure(&b, argc > 1 + smoke ? argv[1 + smoke] : make(&b, smoke ? 128 : 1024, 64));
    for (int i = 0; i < (smoke ? 1 : 3); i++)
        measure(&b, make(&b, smoke ? 96 : 2034, smoke ? 24 : lengths[i]));
    snprintf(command, sizeof command, "rm -rf '%s'", b.folder);
    return system(command) != 0;
}
