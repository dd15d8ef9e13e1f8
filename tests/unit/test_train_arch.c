/* test_train_arch.c - what is trained from traces of every architecture, on tiny models: the
 * rows of lookahead tokens beside the engine's and the response's, runs of both adapters whose
 * loss falls and whose file a probe takes, and every trainer that reads a trace alone. */
#include <math.h>

#include "base/file.h"
#include "capture/adapter.h"
#include "capture/model.h"
#include "kvt/scorer.h"
#include "kvt/train.h"
#include "tests/check.h"
#include "tests/folder.h"
#include "tests/model_make.h"
#include "tests/train_rows.h"

enum { FILES = 4, TRAIN = 3 };

static const struct row {
    const char *arch;
} rows[] = {{"llama"}, {"qwen2"}, {"qwen3"}, {"gemma3"}};

static char path[CHECK_COUNT(rows)][FILES][1024];
static kvt_model *model[CHECK_COUNT(rows)];

static int index_of(void *const *state)
{
    return (int)((const struct row *)*state - rows);
}

/* A model whose attention is not flat, and responses of FILES prompts. */
static void make(int i)
{
    kvt_err err;
    kvt_ctx ctx = {.n_thread = 1};
    model_make_options o = model_make_of(rows[i].arch);
    const char *file = folder_path("tiny.gguf");
    o.spread = 0.25f;
    assert_true(model_make_gguf(file, &o));
    CHECK_OK(kvt_model_open(&model[i], file, &(kvt_model_options){.device = "cpu", .f32 = true},
                            &ctx, &err),
             &err);
    for (int k = 0; k < FILES; k++) {
        char name[32], prompt[64];
        kvt_capture_spec spec;
        kvt_capture_counts counts;
        snprintf(name, sizeof name, "%s%d.h5", rows[i].arch, k);
        snprintf(path[i][k], sizeof path[i][k], "%s", folder_path(name));
        snprintf(prompt, sizeof prompt, "%d keepers counted %d ships", k + 2, 7 * k + 11);
        kvt_capture_defaults(&spec);
        spec.prompt = prompt;
        spec.out = path[i][k];
        spec.level = KVT_FULL;
        spec.queries_all = true;
        spec.delay = 4;
        spec.max_new = 12;
        CHECK_OK(kvt_capture(model[i], &spec, &counts, &ctx, &err), &err);
    }
}

static void the_rows(void **state)
{
    int i = index_of(state);
    for (int k = 0; k < 2; k++) {
        train_rows *r = train_rows_open(model[i], path[i][k], 0.25);
        train_rows_direction(r);
        train_rows_probe(r);
        train_rows_begin(r);
        train_rows_response(r, 1e-6);
        train_rows_descent(r, 5e-2);
        train_rows_close(r);
    }
}

static void train(int i, const char *what, const char *out, bool with_model,
                  kvt_train_counts *counts)
{
    kvt_err err;
    kvt_ctx ctx = {.n_thread = 2, .seed = 3};
    const char *item[FILES];
    for (int k = 0; k < FILES; k++)
        item[k] = path[i][k];
    const kvt_train_spec spec = {.what = what,
                                 .trace = item,
                                 .n_trace = TRAIN,
                                 .heldout = item + TRAIN,
                                 .n_heldout = FILES - TRAIN,
                                 .model = with_model ? model[i] : NULL,
                                 .out = out,
                                 .force = true};
    CHECK_OK(kvt_train(&spec, counts, &ctx, &err), &err);
    assert_true(file_exists(out));
}

static void adapters(void **state)
{
    int i = index_of(state);
    const char *out = folder_path("adapter");
    static const char *const what[] = {
        "lookaheadkv:tokens=4,rank=2,steps=40,batch=3,eval_every=10,rate_embed=0.02,rate_lora="
        "0.02",
        "lookaheadkv:tokens=4,rank=2,steps=40,batch=3,eval_every=10,init=random,rate_embed="
        "0.02",
        "judgeq:tokens=4,steps=40,batch=3,eval_every=10,rate_embed=0.02"};
    for (int w = 0; w < CHECK_COUNT(what); w++) {
        kvt_err err;
        kvt_train_counts counts;
        adapter *a;
        train(i, what[w], out, true, &counts);
        if (!(counts.last_loss < 0.9 * counts.first_loss))
            fail_msg("%s: the loss goes from %g to %g", what[w], counts.first_loss,
                     counts.last_loss);
        assert_true(isfinite(counts.heldout_loss));
        const kvt_weights *weights = model_weights(model[i]);
        CHECK_OK(adapter_open(&a, out, &weights->geometry, NULL, &err), &err);
        assert_int_equal(a->n_token, 4);
        adapter_close(a);
    }
}

/* The memory of a plan is that of the run, which has the weights: of a header alone there are
 * traits, but no vectors. */
static void plan(void **state)
{
    int i = index_of(state);
    kvt_err err;
    kvt_ctx ctx = {.n_thread = 1};
    kvt_model *header;
    kvt_train_counts counts, of_header;
    const char *file = folder_path("tiny.gguf"), *item = path[i][0];
    model_make_options o = model_make_of(rows[i].arch);
    o.spread = 0.25f;
    assert_true(model_make_gguf(file, &o));
    const kvt_model_options options = {.device = "cpu", .header_only = true, .f32 = true};
    CHECK_OK(kvt_model_open(&header, file, &options, &ctx, &err), &err);
    kvt_train_spec spec = {
        .what = "lookaheadkv:tokens=4", .trace = &item, .n_trace = 1, .model = model[i]};
    CHECK_OK(kvt_train_plan(&spec, &counts, &ctx, &err), &err);
    spec.model = header;
    CHECK_OK(kvt_train_plan(&spec, &of_header, &ctx, &err), &err);
    assert_true(counts.memory_bytes > 0 && counts.n_parameter > 0);
    assert_int_equal(of_header.memory_bytes, counts.memory_bytes);
    kvt_model_close(header);
}

/* Windows hide keys from queries: no target, loss or parameter is infinite for it. */
static void scorers(void **state)
{
    int i = index_of(state);
    const char *out = folder_path("scorer");
    static const struct {
        const char *what;
        bool has_loss;
    } trainers[] = {{"kvpop:window=4,future=4,steps=2", true},
                    {"kvpop:scorer=mlstm,window=4,future=4,steps=2", true},
                    {"kvzap", true},
                    {"kvp-supervised:recent=4,steps=2", true},
                    {"fast-kvzip:steps=2", true},
                    {"locret:steps=2", true},
                    {"foresightkv:block=8,steps=2", true},
                    {"qfilters", false},
                    {"triattention", false},
                    {"lukv:base=snapkv,points=5", false}};
    for (int w = 0; w < CHECK_COUNT(trainers); w++) {
        kvt_err err;
        kvt_train_counts counts;
        kvt_scorer *scorer;
        train(i, trainers[w].what, out, false, &counts);
        if (trainers[w].has_loss &&
            !(isfinite(counts.last_loss) && isfinite(counts.heldout_loss)))
            fail_msg("%s: loss %g, held out %g", trainers[w].what, counts.last_loss,
                     counts.heldout_loss);
        CHECK_OK(kvt_scorer_open(&scorer, out, &err), &err);
        kvt_scorer_close(scorer);
    }
}

static int run(const char *name, CMUnitTestFunction one)
{
    struct CMUnitTest tests[CHECK_COUNT(rows)];
    int n = 0;
    CHECK_ROWS(tests, &n, rows, one);
    return CHECK_RUN(name, tests, n);
}

int main(void)
{
    folder_new();
    for (int i = 0; i < CHECK_COUNT(rows); i++)
        make(i);
    int failed = run("rows", the_rows) + run("adapters", adapters) + run("plan", plan) +
                 run("scorers", scorers);
    for (int i = 0; i < CHECK_COUNT(rows); i++)
        kvt_model_close(model[i]);
    folder_end();
    return failed;
}
