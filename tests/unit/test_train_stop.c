/* test_train_stop.c - a run that is stopped wherever it tells its progress, then resumed, ends
 * with the bytes of a run that nobody stopped; without a checkpoint nothing is left of it. */
#include "base/buf.h"
#include "base/file.h"
#include "kvt/capture.h"
#include "kvt/train.h"
#include "tests/check.h"
#include "tests/folder.h"
#include "tests/model_make.h"
#include "tests/synth_more.h"

enum { TRAIN = 2, HELD = 1, FILES = TRAIN + HELD };

typedef struct paths {
    char name[FILES][1024];
    const char *item[FILES];
} paths;

static paths synthetic, captured; /* the first TRAIN to learn from */
static kvt_model *model;

/* Stops at the call `left` counts down to. */
static bool progress(void *user, const char *what, int64_t done, int64_t total)
{
    int64_t *left = user;
    (void)what, (void)done, (void)total;
    return --*left != 0;
}

static void make_synthetic(void)
{
    kvt_err err;
    synth_spec spec = synth_default();
    spec.level = KVT_FULL;
    spec.n_prompt = 40;
    spec.n_response = 20;
    spec.last_queries = -1;
    spec.delay = 5;
    for (int i = 0; i < FILES; i++) {
        char name[16];
        spec.seed = (uint64_t)i + 1;
        snprintf(name, sizeof name, "s%d.h5", i);
        snprintf(synthetic.name[i], sizeof synthetic.name[i], "%s", folder_path(name));
        synthetic.item[i] = synthetic.name[i];
        synth *s = synth_new(&spec);
        synth_probes(s);
        CHECK_OK(synth_write(s, synthetic.name[i], &err), &err);
        synth_free(s);
    }
}

static void make_captured(void)
{
    kvt_err err;
    kvt_ctx ctx = {.n_thread = 1};
    model_make_options tiny = model_make_defaults();
    const char *file = folder_path("tiny.gguf");
    assert_true(model_make_gguf(file, &tiny));
    CHECK_OK(kvt_model_open(&model, file, NULL, &ctx, &err), &err);
    for (int i = 0; i < FILES; i++) {
        char name[16], prompt[64];
        kvt_capture_spec spec;
        kvt_capture_counts counts;
        snprintf(name, sizeof name, "c%d.h5", i);
        snprintf(prompt, sizeof prompt, "%d keepers counted %d ships", i + 2, 7 * i + 11);
        snprintf(captured.name[i], sizeof captured.name[i], "%s", folder_path(name));
        captured.item[i] = captured.name[i];
        kvt_capture_defaults(&spec);
        spec.prompt = prompt;
        spec.out = captured.name[i];
        spec.level = KVT_TRAIN;
        spec.delay = 4;
        spec.max_new = 6;
        CHECK_OK(kvt_capture(model, &spec, &counts, &ctx, &err), &err);
    }
}

/* stop: the call of progress() that stops it, 0: none. */
static kvt_code train(const char *what, const char *out, int64_t stop, bool resume,
                      kvt_err *err)
{
    kvt_train_counts counts;
    kvt_ctx ctx = {.progress = progress, .user = &stop, .n_thread = 1, .seed = 3};
    bool adapter = strncmp(what, "lookaheadkv", 11) == 0 || strncmp(what, "judgeq", 6) == 0;
    const paths *p = adapter ? &captured : &synthetic;
    const kvt_train_spec spec = {.what = what,
                                 .trace = p->item,
                                 .n_trace = TRAIN,
                                 .heldout = p->item + TRAIN,
                                 .n_heldout = HELD,
                                 .model = adapter ? model : NULL,
                                 .out = out,
                                 .resume = resume};
    return kvt_train(&spec, &counts, &ctx, err);
}

static void read_whole(buf *out, const char *path)
{
    kvt_err err;
    buf_init(out, (size_t)1 << 24);
    CHECK_OK(file_read(out, path, (size_t)1 << 24, &err), &err);
}

static void drop(const char *path)
{
    char name[1100];
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s%s", path, (const char *[]){"", ".csv", ".ckpt"}[i]);
        remove(name);
    }
}

static void stopped_anywhere(void **state)
{
    const char *what = *state, *whole_path = folder_path("whole"), *part = folder_path("part");
    char checkpoint[1100];
    kvt_err err;
    buf whole, resumed;
    int64_t stop = FILES, saved = 0; /* the last trace that is opened */
    snprintf(checkpoint, sizeof checkpoint, "%s.ckpt", part);
    CHECK_OK(train(what, whole_path, 0, false, &err), &err);
    read_whole(&whole, whole_path);
    for (;; stop++) {
        kvt_code code = train(what, part, stop, false, &err);
        if (!code)
            break;
        CHECK_FAILS(code, KVT_STOPPED, "", &err);
        assert_false(file_exists(part));
        if (file_exists(checkpoint)) {
            assert_non_null(strstr(err.text, "--resume"));
            saved++;
        }
        CHECK_OK(train(what, part, 0, true, &err), &err);
        read_whole(&resumed, part);
        if (resumed.n != whole.n || memcmp(resumed.data, whole.data, whole.n) != 0)
            fail_msg("%s, stopped at call %lld: other bytes", what, (long long)stop);
        assert_false(file_exists(checkpoint));
        buf_fini(&resumed);
        drop(part);
    }
    assert_true(saved >= 1);
    buf_fini(&whole);
    drop(part);
    drop(whole_path);
}

int main(void)
{
    static char *const what[] = {"lookaheadkv:tokens=3,rank=2,steps=3,batch=3,eval_every=2",
                                 "judgeq:tokens=3,steps=2",
                                 "kvpop:window=5,future=4,steps=2",
                                 "kvpop:scorer=mlstm,window=5,future=4,steps=2",
                                 "kvzap:label=repeat-plus",
                                 "kvp-supervised:recent=4,steps=2",
                                 "fast-kvzip:steps=2",
                                 "locret:steps=2",
                                 "foresightkv:block=8,steps=2",
                                 "qfilters",
                                 "triattention",
                                 "lukv:base=snapkv,points=5"};
    struct CMUnitTest tests[CHECK_COUNT(what)];
    for (int i = 0; i < CHECK_COUNT(what); i++)
        tests[i] = (struct CMUnitTest){what[i], stopped_anywhere, NULL, NULL, what[i]};
    folder_new();
    make_synthetic();
    make_captured();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    kvt_model_close(model);
    folder_end();
    return failed;
}
