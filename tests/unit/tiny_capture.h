/* tiny_capture.h - what the tests of whole captures share: a tiny random model, a prompt, a
 * capture that must work, what was said meanwhile. */
#ifndef TINY_CAPTURE_H
#define TINY_CAPTURE_H

#include "capture/capture_priv.h"
#include "kvt/capture.h"
#include "tests/check.h"
#include "tests/folder.h"
#include "tests/model_make.h"

static const char text[] =
    "Four ships on the first of March, eleven on the second, none on the third; the keeper "
    "wrote "
    "down every one of them, mended the stair, wound the clock, and read the almanac twice.";

static kvt_model *model;
static kvt_ctx ctx;

static inline int open_model(void **state)
{
    kvt_err err;
    model_make_options o = model_make_defaults();
    (void)state;
    o.n_layer = 4;
    o.n_head = 6;
    o.n_kv_head = 3;
    o.head_dim = 16;
    o.n_hidden = 64;
    o.n_ff = 128;
    o.n_context = 600;
    o.spread = 0.15f;
    if (!model_make_gguf(folder_path("tiny.gguf"), &o))
        return -1;
    CHECK_OK(kvt_model_open(&model, folder_path("tiny.gguf"), NULL, &ctx, &err), &err);
    /* A window in layer 1: what a model with sliding layers needs of the recorder. */
    model->weights->geometry.window[1] = 50;
    return 0;
}

static inline int close_model(void **state)
{
    (void)state;
    kvt_model_close(model);
    return 0;
}

static inline kvt_capture_spec spec_to(const char *name)
{
    kvt_capture_spec s;
    kvt_capture_defaults(&s);
    s.prompt = text;
    s.out = folder_path(name);
    s.max_new = 30;
    s.delay = 40;
    s.force = true;
    return s;
}

static inline kvt_capture_counts run_ok(const kvt_capture_spec *s)
{
    kvt_err err;
    kvt_capture_counts c;
    CHECK_OK(kvt_capture(model, s, &c, &ctx, &err), &err);
    assert_int_equal(c.captured, 1);
    return c;
}

/* A finding of kvt_trace_check that is a failure of the test. */
static inline void each_is_ok(void *user, const kvt_finding *f)
{
    (void)user;
    if (!f->ok)
        fail_msg("%s: %s", f->check, f->text);
}

/* The last error and the last warning. */
static struct told {
    char error[4096], warning[4096];
    int n_warning;
} told;

static inline void hear(void *user, kvt_log_level level, const char *area, const char *what)
{
    (void)user, (void)area;
    if (level == KVT_LOG_ERROR)
        snprintf(told.error, sizeof told.error, "%s", what);
    if (level != KVT_LOG_WARN)
        return;
    snprintf(told.warning, sizeof told.warning, "%s", what);
    told.n_warning++;
}

#endif
