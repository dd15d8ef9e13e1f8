/* bench/replay.c - how fast replay is, as ratios in one run.
 *
 *   bench_replay [--smoke] [TRACE.h5]
 *   bench_replay --breakdown [TRACE.h5]
 *
 * Prints CSV: what, its seconds (median, smallest, largest), decisions a second, and how many
 * times faster it is than the plain loops of tests/plain.c on the same cells; beside it, where
 * Python with numpy and h5py is there (KVT_PYTHON, else python3), the vectorised numpy script
 * of the folder KVT_OTHERS_BENCH. Seconds are those of the CPU over all threads, without
 * reading and writing, unless a line says otherwise. Without a trace it makes one of random
 * numbers.
 *
 * --breakdown: one replay of all policies at nine budgets, where its seconds went and what
 * memory it took, and how often a plain copy of the stored response rows would fit into the
 * mass metrics of a one-ranking policy. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "kvt/metric.h"
#include "kvt/replay.h"
#include "tests/plain.h"
#include "tests/synth.h"

enum { RUNS = 11 };

/* max(32, N x) of the nine shares of the numpy script, as budgets in tokens. */
static const double share[] = {.02, .05, .10, .15, .20, .25, .30, .40, .50};
enum { N_SHARE = sizeof share / sizeof share[0] };

typedef struct bench {
    const char *trace;
    char folder[256], budgets[256];
    int n_run, n_thread;
} bench;

typedef struct timing {
    double run[RUNS][5]; /* wall, read, rank, judge, write */
    int n;
    kvt_replay_counts counts;
} timing;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Columns from..to-1 of every run added up: median, smallest, largest. */
static void spread(double out[3], const timing *t, int from, int to)
{
    double x[RUNS] = {0};
    for (int i = 0; i < t->n; i++)
        for (int c = from; c < to; c++)
            x[i] += t->run[i][c];
    qsort(x, (size_t)t->n, sizeof *x, by_value);
    out[0] = x[t->n / 2], out[1] = x[0], out[2] = x[t->n - 1];
}

static void line(const char *what, const timing *t, int from, int to, double beside)
{
    double s[3];
    spread(s, t, from, to);
    printf("%s,%.6f,%.6f,%.6f,%.0f,", what, s[0], s[1], s[2],
           s[0] > 0 ? (double)t->counts.decisions / s[0] : 0);
    printf(beside > 0 && s[0] > 0 ? "%.1f\n" : "\n", beside / s[0]);
    fflush(stdout);
}

static kvt_results *replay(const bench *b, kvt_replay_spec *spec, kvt_replay_counts *counts)
{
    kvt_ctx ctx = {.n_thread = b->n_thread};
    kvt_results *found;
    kvt_err err;
    spec->trace = &b->trace;
    spec->n_trace = 1;
    spec->budgets = b->budgets;
    spec->recompute = true;
    kvt_code code = kvt_replay(&found, counts, spec, &ctx, &err);
    if (code) {
        fprintf(stderr, "bench_replay: %s: %s\n", kvt_code_name(code), err.text);
        exit(1);
    }
    return found;
}

static timing repeat(const bench *b, kvt_replay_spec spec)
{
    timing t = {.n = b->n_run};
    for (int i = 0; i < t.n; i++) {
        double from = now();
        kvt_results_free(replay(b, &spec, &t.counts));
        const kvt_replay_counts *n = &t.counts;
        double parts[5] = {now() - from, n->read_s, n->rank_s, n->judge_s, n->write_s};
        memcpy(t.run[i], parts, sizeof parts);
    }
    return t;
}

/* ---- the plain loops -----------------------------------------------------------------------
 */

typedef struct plain_run {
    uint16_t *rows; /* f16 [H M T] of the first layer */
    double *lost, *lane;
    int n_head, n_kv;
} plain_run;

static void plain_open(plain_run *p, const bench *b)
{
    kvt_trace *t;
    kvt_rows *rows;
    kvt_err err;
    if (kvt_trace_open(&t, b->trace, 0, &err) || kvt_rows_open(&rows, t, &err)) {
        fprintf(stderr, "bench_replay: %s\n", err.text);
        exit(1);
    }
    const kvt_trace_info *info = kvt_trace_info_of(t);
    int64_t M = info->facts.token.n_response, T = info->n_token;
    p->n_head = (int)info->facts.model.n_head;
    p->n_kv = (int)info->facts.model.n_kv_head;
    p->rows = malloc((size_t)(p->n_head * M * T) * sizeof *p->rows);
    p->lost = malloc((size_t)(p->n_head * M) * sizeof *p->lost);
    p->lane = malloc((size_t)(2 * p->n_head) * sizeof *p->lane);
    for (int h = 0; h < p->n_head; h++) {
        const uint16_t *head;
        if (kvt_rows_head(rows, 0, h, &head, &err))
            exit(1);
        memcpy(p->rows + h * M * T, head + (info->n_query - M) * T,
               (size_t)(M * T) * sizeof *p->rows);
    }
    kvt_rows_close(rows);
    kvt_trace_close(t);
}

static void plain_cell(const plain_run *p, const kvt_result *r, int cell)
{
    bool inside = strcmp(r->cell[cell].growth, "inside") == 0;
    plain_spec s = {.n_head = p->n_head,
                    .n_kv = p->n_kv,
                    .n_prompt = r->n_prompt,
                    .n_response = r->n_response,
                    .rows = p->rows,
                    .result = r,
                    .cell = cell};
    plain_out out = {.lost = p->lost};
    if (!inside) /* step by step the plain recall takes minutes: it is left out */
        out.recall = p->lane, out.best = p->lane + p->n_head;
    plain_judge(&out, &s);
}

/* Judges the cells of some policies on the first layer, and scales to all of them. */
static double plain_seconds(const bench *b, kvt_replay_spec spec)
{
    kvt_replay_counts counts;
    plain_run p;
    spec.out_dir = "";
    spec.no_output_error = true;
    spec.keep_arrays = true;
    kvt_results *found = replay(b, &spec, &counts);
    plain_open(&p, b);
    double spent = 0;
    for (int64_t i = 0; i < found->n; i++) {
        const kvt_result *r = found->result[i];
        double from = now();
        for (int c = 0; c < r->n_cell; c++)
            if (strcmp(r->cell[c].status, "ok") == 0)
                plain_cell(&p, r, c);
        spent += (now() - from) * r->n_layer;
    }
    free(p.rows);
    free(p.lost);
    free(p.lane);
    kvt_results_free(found);
    return spent;
}

/* ---- numpy ---------------------------------------------------------------------------------
 */

static double numpy_seconds(const bench *b, int n_kv)
{
    const char *python = getenv("KVT_PYTHON"), *folder = getenv("KVT_OTHERS_BENCH");
    char command[2400], text[65536] = "";
    if (!python)
        python = "python3";
    if (!folder)
        folder = KVT_SOURCE_DIR "/../shared/bench";
    snprintf(
        command, sizeof command,
        "{ '%s' '%s/bench/numpy_input.py' '%s' '%s/numpy.h5' && KV_HEADS=%d REPEAT=%d '%s' "
        "'%s/numpy_replay.py' '%s/numpy.h5'; } 2>/dev/null",
        python, KVT_SOURCE_DIR, b->trace, b->folder, n_kv, b->n_run, python, folder, b->folder);
    FILE *f = popen(command, "r");
    if (!f)
        return 0;
    size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = 0;
    if (pclose(f) != 0)
        return 0;
    const char *at = strstr(text, "\"median_s\": ");
    return at ? strtod(at + strlen("\"median_s\": "), NULL) : 0;
}

/* ---- where it goes -------------------------------------------------------------------------
 */

static double peak_bytes(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)u.ru_maxrss * 1024;
}

/* Bytes of the trace's file, and of the response rows of all layers in halves. */
static void sizes(const bench *b, double *file, double *rows)
{
    kvt_trace *t;
    kvt_err err;
    if (kvt_trace_open(&t, b->trace, 0, &err))
        exit(1);
    const kvt_trace_info *i = kvt_trace_info_of(t);
    *file = (double)i->file_bytes;
    *rows = (double)i->n_layer * (double)i->facts.model.n_head *
            (double)i->facts.token.n_response * (double)i->n_token * 2;
    kvt_trace_close(t);
}

/* Seconds of one plain copy of so many bytes on one thread, median of the runs. */
static double copy_seconds(const bench *b, double bytes)
{
    size_t n = (size_t)bytes;
    char *from = malloc(n), *to = malloc(n);
    double x[RUNS];
    if (!from || !to)
        exit(1);
    memset(from, 1, n), memset(to, 2, n);
    for (int i = 0; i < b->n_run; i++) {
        double start = now();
        memcpy(to, from, n);
        x[i] = now() - start + (to[n / 2] == 2); /* which it is not: the copy is not left out */
    }
    qsort(x, (size_t)b->n_run, sizeof *x, by_value);
    free(from);
    free(to);
    return x[b->n_run / 2];
}

static void ratio(const char *what, double x, const char *unit)
{
    printf("%s,%.4g,%s\n", what, x, unit);
    fflush(stdout);
}

/* Names of the policies that rank once, separated by commas. */
static void one_rankings(char *out, size_t cap)
{
    for (const kvt_policy *const *p = kvt_policies(); *p; p++) {
        bool plain = (*p)->traits.one_ranking && !(*p)->traits.control && !(*p)->select &&
                     !(*p)->base && (*p)->traits.phases == KVT_PREFILL &&
                     !((*p)->traits.needs & (KVT_NEED_PROBE | KVT_NEED_WEIGHTS |
                                             KVT_NEED_SCORES | KVT_NEED_DECISION));
        size_t at = strlen(out);
        if (plain)
            snprintf(out + at, cap - at, "%s%s", at ? "," : "", (*p)->name);
    }
}

static int64_t passes_run(const kvt_replay_counts *n)
{
    return n->n_pass - n->skipped * n->n_pass / (n->n_cell > 0 ? n->n_cell : 1);
}

static void breakdown(bench *b)
{
    char names[2048] = "";
    kvt_replay_spec all = {.policies = "all", .out_dir = b->folder};
    int n_run = b->n_run;
    double size, rows, s[3], total = 0;
    static const char *const parts[] = {"all: wall time", "read", "rank and judge live",
                                        "judge", "write"};
    sizes(b, &size, &rows);
    b->n_run = 1;
    timing t = repeat(b, all); /* first: its memory is the peak */
    double peak = peak_bytes();
    for (int i = 1; i < 5; i++)
        total += t.run[0][i];
    printf("what,value,unit\n");
    ratio(parts[0], t.run[0][0], "s");
    for (int i = 1; i < 5; i++)
        ratio(parts[i], t.run[0][i] / total, "of CPU seconds");
    ratio("decisions", (double)t.counts.decisions / total, "1/CPU s");
    ratio("peak memory", peak / (1 << 20), "MiB");
    ratio("peak memory less the trace", (peak - size) / (1 << 20), "MiB (goal: at most 512)");
    b->n_run = n_run;
    one_rankings(names, sizeof names);
    kvt_replay_spec one = {
        .policies = names, .out_dir = "", .no_controls = true, .no_output_error = true};
    timing ranked = repeat(b, one);
    double copy = copy_seconds(b, rows);
    spread(s, &ranked, 3, 4);
    ratio("one-ranking policies", (double)passes_run(&ranked.counts), "passes");
    ratio("a copy of the response rows", copy, "s");
    ratio("mass metrics of a one-ranking policy at nine budgets",
          s[0] / (double)passes_run(&ranked.counts) / copy, "copies (goal: at most 4)");
    one.policies = "snapkv";
    timing alone = repeat(b, one);
    spread(s, &alone, 3, 4);
    ratio("the same, one policy alone", s[0] / copy, "copies");
}

/* ---- all of it -----------------------------------------------------------------------------
 */

static void make_trace(bench *b, bool smoke)
{
    static char path[300];
    synth_spec s = synth_default();
    kvt_err err;
    s.n_head = 9, s.n_kv_head = 3, s.head_dim = 64;
    s.n_prompt = smoke ? 128 : 1024, s.n_response = smoke ? 16 : 128;
    s.last_queries = 64;
    snprintf(path, sizeof path, "%s/random.h5", b->folder);
    if (synth_file(&s, path, &err)) {
        fprintf(stderr, "bench_replay: %s\n", err.text);
        exit(1);
    }
    b->trace = path;
}

static int open_trace(bench *b)
{
    kvt_trace *t;
    kvt_err err;
    if (kvt_trace_open(&t, b->trace, 0, &err)) {
        fprintf(stderr, "bench_replay: %s\n", err.text);
        exit(1);
    }
    const kvt_trace_info *i = kvt_trace_info_of(t);
    int64_t N = i->facts.token.n_prompt;
    int n_kv = (int)i->facts.model.n_kv_head;
    for (int k = 0; k < N_SHARE; k++) {
        int64_t tokens = (int64_t)((double)N * share[k]);
        size_t n = strlen(b->budgets);
        snprintf(b->budgets + n, sizeof b->budgets - n, "%s%lld", k ? "," : "",
                 (long long)(tokens < 32 ? 32 : tokens));
    }
    printf("# %s: %d layers, %lld query heads, %d kv heads, %lld + %lld tokens, %d threads\n",
           i->name, i->n_layer, (long long)i->facts.model.n_head, n_kv, (long long)N,
           (long long)i->facts.token.n_response, b->n_thread);
    kvt_trace_close(t);
    return n_kv;
}

int main(int argc, char **argv)
{
    bench b = {.n_run = RUNS, .n_thread = kvt_threads(&(kvt_ctx){0})};
    bool smoke = argc > 1 && strcmp(argv[1], "--smoke") == 0;
    bool parts = argc > 1 && strcmp(argv[1], "--breakdown") == 0;
    char command[300];
    snprintf(b.folder, sizeof b.folder, "%s/bench.XXXXXX", KVT_BINARY_DIR);
    if (!mkdtemp(b.folder))
        return 1;
    if (smoke)
        b.n_run = 1;
    if (argc > 1 + (smoke || parts))
        b.trace = argv[1 + (smoke || parts)];
    else
        make_trace(&b, smoke);
    int n_kv = open_trace(&b);
    snprintf(command, sizeof command, "rm -rf '%s'", b.folder);
    if (parts) {
        breakdown(&b);
        return system(command) != 0;
    }
    printf("what,median_s,min_s,max_s,decisions_per_s,times_faster\n");
    kvt_replay_spec one = {
        .policies = "snapkv", .out_dir = "", .no_controls = true, .no_output_error = true};
    timing ranked = repeat(&b, one);
    line("snapkv at nine budgets against plain loops", &ranked, 2, 4, plain_seconds(&b, one));
    line("snapkv: rank", &ranked, 2, 3, 0);
    line("snapkv: judge", &ranked, 3, 4, 0);
    line("snapkv: read", &ranked, 1, 2, 0);
    double numpy = numpy_seconds(&b, n_kv);
    if (numpy > 0)
        line("snapkv at nine budgets against the numpy script", &ranked, 2, 4, numpy);
    else
        printf("# no Python with numpy and h5py: the numpy script is not measured\n");
    one.no_output_error = false;
    timing output = repeat(&b, one);
    line("snapkv with output error", &output, 2, 4, 0);
    kvt_replay_spec all = {.policies = "all", .out_dir = b.folder};
    timing every = repeat(&b, all);
    all.no_output_error = true;
    timing bare = repeat(&b, all);
    line("all policies at nine budgets against plain loops", &bare, 2, 4,
         plain_seconds(&b, all));
    line("all policies with output error", &every, 2, 4, 0);
    line("all: read", &every, 1, 2, 0);
    line("all: rank", &every, 2, 3, 0);
    line("all: judge", &every, 3, 4, 0);
    line("all: write", &every, 4, 5, 0);
    line("all: wall time", &every, 0, 1, 0);
    return system(command) != 0;
}
