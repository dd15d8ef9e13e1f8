/* bench/cost.c - what predicting costs, as ratios in one run.
 *
 *   bench_cost [--smoke]
 *
 * Prints CSV: every policy at nine budgets and ten lengths on five machines (kvt_cost_make), in
 * seconds of one thread and microseconds a row, beside kvt_cost_predict() alone on one of these
 * cases: how many times the former a row takes says what making its inputs costs. Then the same
 * with both profiles, which shares the slots of each policy. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kvt/cost.h"

enum { RUNS = 5, CALLS = 20000 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void check(kvt_code code, const kvt_err *err)
{
    if (code) {
        fprintf(stderr, "bench_cost: %s: %s\n", kvt_code_name(code), err->text);
        exit(1);
    }
}

/* One prediction of SnapKV at 10 % of 32,768 tokens, s; the best of some rounds. */
static double predict_alone(const kvt_cost_geometry *g, const kvt_machine *m, int calls)
{
    static kvt_cost_load load;
    kvt_cost_setting setting = {0};
    kvt_published constants;
    kvt_cost_work work;
    kvt_use *use;
    kvt_err err;
    check(kvt_use_parse(&use, NULL, "snapkv", &err), &err);
    int64_t n = 32768, budget = 3276, response = 256;
    kvt_cost_work_of(&work, use, g, n, budget, KVT_ACT_OWN);
    kvt_cost_load_assume(&load, use, &work, g, &setting, n, response, budget);
    kvt_cost_constants(&constants, m, KVT_PROFILE_FUSED, "snapkv");
    kvt_cost_case c = {.geometry = g,
                       .constants = &constants,
                       .work = &work,
                       .load = &load,
                       .setting = &setting,
                       .n_prompt = n,
                       .n_response = response,
                       .budget = budget};
    double best = 1e9, sum = 0;
    for (int run = 0; run < RUNS; run++) {
        kvt_cost cost;
        double begin = now();
        for (int i = 0; i < calls; i++) {
            kvt_cost_predict(&cost, &c);
            sum += cost.request;
        }
        double took = (now() - begin) / calls;
        best = took < best ? took : best;
    }
    kvt_use_free(use);
    if (!(sum > 0))
        fprintf(stderr, "bench_cost: a prediction is not positive\n");
    return best;
}

typedef struct tables {
    double seconds;
    int64_t rows;
} tables;

static tables make(const kvt_cost_spec *spec, int runs)
{
    tables out = {.seconds = 1e9};
    for (int run = 0; run < runs; run++) {
        kvt_ctx ctx = {.n_thread = 1};
        kvt_cost_table t;
        kvt_err err;
        double begin = now();
        check(kvt_cost_make(&t, spec, &ctx, &err), &err);
        double took = now() - begin;
        out.seconds = took < out.seconds ? took : out.seconds;
        out.rows = t.n;
        kvt_cost_table_free(&t);
    }
    return out;
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"h100-sxm", "h200", "a100-sxm-80", "l4", "rtx4090"};
    static const kvt_cost_profile profiles[] = {KVT_PROFILE_FUSED, KVT_PROFILE_AS_PUBLISHED};
    enum { N_MACHINE = sizeof names / sizeof names[0], N_LENGTH = 10 };
    bool smoke = argc == 2 && !strcmp(argv[1], "--smoke");
    static kvt_machine machine[N_MACHINE];
    kvt_cost_geometry g;
    kvt_err err;
    int64_t length[N_LENGTH];
    if (argc > 2 || (argc == 2 && !smoke)) {
        fprintf(stderr, "usage: bench_cost [--smoke]\n");
        return 2;
    }
    check(kvt_cost_geometry_find(&g, "llama-3.1-8b", &err), &err);
    for (int i = 0; i < N_MACHINE; i++)
        check(kvt_machine_find(&machine[i], names[i], &err), &err);
    for (int i = 0; i < N_LENGTH; i++)
        length[i] = (int64_t)512 << i;
    kvt_cost_spec spec = {.geometry = &g,
                          .machine = machine,
                          .n_machine = smoke ? 1 : N_MACHINE,
                          .profile = profiles,
                          .n_profile = 1,
                          .length = length,
                          .n_length = smoke ? 2 : N_LENGTH,
                          .n_response = 256,
                          .policies = "all",
                          .budgets = "1%,2%,5%,10%,15%,20%,25%,30%,50%"};
    double alone = predict_alone(&g, &machine[0], smoke ? 100 : CALLS);
    printf("what,rows,seconds,us_per_row,times_one_prediction\n");
    printf("one prediction,1,%.3g,%.3g,1\n", alone, alone * 1e6);
    for (int p = 1; p <= 2; p++) {
        spec.n_profile = p;
        tables t = make(&spec, smoke ? 1 : RUNS);
        double row = t.seconds / (double)t.rows;
        printf("%s,%lld,%.3g,%.3g,%.3g\n", p == 1 ? "all policies fused" : "both profiles",
               (long long)t.rows, t.seconds, row * 1e6, row / alone);
    }
    return 0;
}
