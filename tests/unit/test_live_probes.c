/* test_live_probes.c - probes on traces and while capturing: the same bytes, drafts that are
 * the model's own answer, what is there already, what is refused and leaves a trace untouched.
 */
#include <math.h>
#include <stdlib.h>

#include "base/digest.h"
#include "base/file.h"
#include "kvt/arena.h"
#include "kvt/live.h"
#include "tiny_capture.h"

static void capture_to(const char *name, const char *layers, kvt_level level, kvt_probes *p)
{
    kvt_capture_spec s = spec_to(name);
    s.layers = layers;
    s.level = level;
    s.probes = p ? kvt_probes_capture : NULL;
    s.probes_user = p;
    (void)run_ok(&s);
}

static kvt_probes *open_ok(const char *const *what, int n)
{
    kvt_err err;
    kvt_probes *p;
    CHECK_OK(kvt_probes_open(&p, model, what, n, &ctx, &err), &err);
    return p;
}

static kvt_probe_counts add_ok(kvt_probes *p, const char *name, bool force)
{
    kvt_err err;
    kvt_probe_counts c = {0};
    CHECK_OK(kvt_probes_add(p, folder_path(name), force, &c, &ctx, &err), &err);
    return c;
}

static kvt_trace *open_trace(const char *name)
{
    kvt_err err;
    kvt_trace *t;
    CHECK_OK(kvt_trace_open(&t, folder_path(name), 0, &err), &err);
    return t;
}

static kvt_view read_probe(kvt_trace *t, const char *name, kvt_probe_set set, int layer)
{
    kvt_err err;
    kvt_view v;
    int i = kvt_trace_probe_find(t, name);
    assert_true(i >= 0);
    CHECK_OK(kvt_trace_read_probe(t, i, set, layer, &v, &err), &err);
    return v;
}

static void done(const kvt_view *v)
{
    kvt_free((void *)(uintptr_t)v->data);
}

static void file_digest(const char *name, char out[DIGEST_TEXT])
{
    kvt_err err;
    CHECK_OK(digest_file(folder_path(name), out, &err), &err);
}

static const char *const many[] = {"own=suffix:response,tokens=6", "laq=draft:tokens=5@40,60%",
                                   "again=repeat:chunk=50", "all=draft:tokens=9@100%"};

/* A probe that ran while capturing is the probe that is added later. */
static void test_same_bytes(void **state)
{
    (void)state;
    kvt_probes *p = open_ok(many, CHECK_COUNT(many));
    capture_to("with.h5", NULL, KVT_REPLAY, p);
    capture_to("later.h5", NULL, KVT_REPLAY, NULL);
    kvt_trace *t = open_trace("later.h5");
    char content[KVT_DIGEST_TEXT];
    snprintf(content, sizeof content, "%s", kvt_trace_info_of(t)->digest);
    assert_int_equal(kvt_trace_probe_count(t), 0);
    kvt_trace_close(t);
    kvt_probe_counts c = add_ok(p, "later.h5", false);
    assert_int_equal(c.added, 5);
    assert_int_equal(c.present, 0);
    t = open_trace("later.h5");
    kvt_trace *w = open_trace("with.h5");
    assert_string_equal(kvt_trace_info_of(t)->digest, content); /* probes are no part of it */
    assert_int_equal(kvt_trace_probe_count(t), 5);
    assert_int_equal(kvt_trace_probe_count(w), 5);
    for (int i = 0; i < 5; i++) {
        const kvt_probe_info *a = kvt_trace_probe_info(t, i), *b = kvt_trace_probe_info(w, i);
        assert_string_equal(a->name, b->name);
        assert_string_equal(a->args, b->args);
        assert_string_equal(a->source_digest, b->source_digest);
        assert_string_equal(a->digest, b->digest); /* of every array */
        assert_int_equal(a->n_row, b->n_row);
        assert_int_equal(a->budget, b->budget);
    }
    assert_true(kvt_trace_probe_find(t, "laq-40") >= 0);
    kvt_trace_close(t);
    kvt_trace_close(w);
    /* Any number of threads, too. */
    ctx.n_thread = 3;
    c = add_ok(p, "later.h5", true);
    ctx.n_thread = 0;
    assert_int_equal(c.added, 5);
    t = open_trace("later.h5");
    w = open_trace("with.h5");
    for (int i = 0; i < 5; i++)
        assert_string_equal(kvt_trace_probe_info(t, i)->digest,
                            kvt_trace_probe_info(w, i)->digest);
    kvt_trace_close(t);
    kvt_trace_close(w);
    kvt_probes_close(p);
}

/* A plan counts what probes add to a file, their time, and memory for what they hold. */
static void test_cost(void **state)
{
    (void)state;
    for (size_t i = 0; i < CHECK_COUNT(many); i++) {
        kvt_err err;
        kvt_capture_plan plan, bare;
        kvt_probes *p = open_ok(&many[i], 1);
        kvt_capture_spec s = spec_to("bare.h5");
        s.level = KVT_REPLAY;
        CHECK_OK(kvt_capture_planned(model, &s, &bare, &ctx, &err), &err);
        s.probes = kvt_probes_capture;
        s.probes_cost = kvt_probes_cost;
        s.probes_user = p;
        CHECK_OK(kvt_capture_planned(model, &s, &plan, &ctx, &err), &err);
        capture_to("bare.h5", NULL, KVT_REPLAY, NULL);
        capture_to("cost.h5", NULL, KVT_REPLAY, p);
        int64_t more = file_size(folder_path("cost.h5"));
        more -= file_size(folder_path("bare.h5"));
        /* At most; instructions of repeated chunks may be shorter, responses end. */
        assert_int_equal(plan.probe_bytes, plan.file_bytes - bare.file_bytes);
        assert_in_range(plan.probe_bytes, more, 4 * more);
        /* The plan of a model so small is what its own measurement takes. */
        kvt_probe_cost cost = {0};
        kvt_trace *t = open_trace("bare.h5");
        const kvt_trace_info *info = kvt_trace_info_of(t);
        kvt_probes_cost(p, &info->facts, info->n_layer, &ctx, &cost);
        kvt_trace_close(t);
        assert_true(cost.memory_bytes > more / 4 && plan.memory_bytes >= bare.memory_bytes);
        assert_true(plan.probe_seconds > 0 && plan.seconds > plan.probe_seconds);
        assert_true(bare.probe_bytes == 0 && bare.probe_seconds == 0);
        kvt_probes_close(p);
    }
}

/* On the full cache the draft is the model's own answer, and so are the rows of the response
 * run as a suffix. */
static void test_own_answer(void **state)
{
    (void)state;
    kvt_err err;
    kvt_trace *t = open_trace("with.h5");
    const kvt_trace_info *info = kvt_trace_info_of(t);
    int64_t N = info->facts.token.n_prompt, T = info->n_token;
    kvt_view id, lse, drafted = read_probe(t, "all", KVT_PROBE_SET_ID, 0);
    CHECK_OK(kvt_trace_read(t, KVT_DS_TOKEN_ID, 0, &id, &err), &err);
    assert_memory_equal(drafted.data, (const int32_t *)id.data + N, 9 * sizeof(int32_t));
    kvt_trace_done(t, &id);
    done(&drafted);
    for (int l = 0; l < info->n_layer; l++) {
        kvt_view own = read_probe(t, "own", KVT_PROBE_SET_LSE, l),
                 all = read_probe(t, "all", KVT_PROBE_SET_LSE, l);
        CHECK_OK(kvt_trace_read(t, KVT_DS_LSE, l, &lse, &err), &err);
        for (int64_t h = 0; h < info->facts.model.n_head; h++)
            for (int64_t r = 0; r < 6; r++) {
                double want = ((const float *)lse.data)[h * T + N + r];
                CHECK_NEAR(((const float *)own.data)[h * 6 + r], want, 2e-3);
                CHECK_NEAR(((const float *)all.data)[h * 9 + r], want, 2e-3);
            }
        kvt_trace_done(t, &lse);
        done(&own);
        done(&all);
    }
    kvt_trace_close(t);
}

/* Each query head holds its budget, the last window of the prompt among it. */
static void test_draft_cache(void **state)
{
    (void)state;
    kvt_trace *t = open_trace("with.h5");
    const kvt_trace_info *info = kvt_trace_info_of(t);
    int64_t N = info->facts.token.n_prompt, H = info->facts.model.n_head;
    for (int l = 0; l < info->n_layer; l++) {
        kvt_view keep = read_probe(t, "laq-40", KVT_PROBE_SET_KEEP, l);
        assert_int_equal(keep.dim[0], H);
        for (int64_t h = 0; h < H; h++) {
            int n = 0;
            for (int64_t j = 0; j < N; j++) {
                int held = ((const uint8_t *)keep.data)[h * N + j];
                n += held;
                assert_true(held || j < N - 32);
            }
            assert_int_equal(n, 40);
        }
        done(&keep);
    }
    kvt_trace_close(t);
}

/* Segments cover the prompt behind its template; each repeats its own chunk at its end, and its
 * rows count from the first, the instruction's among them: KVzip takes the maximum over all. */
static void test_repeat(void **state)
{
    (void)state;
    kvt_err err;
    kvt_trace *t = open_trace("with.h5");
    int64_t N = kvt_trace_info_of(t)->facts.token.n_prompt;
    kvt_view token, flag, id = read_probe(t, "again", KVT_PROBE_SET_ID, 0),
                          begin = read_probe(t, "again", KVT_PROBE_SET_BEGIN, 0),
                          end = read_probe(t, "again", KVT_PROBE_SET_END, 0),
                          from = read_probe(t, "again", KVT_PROBE_SET_FROM, 0),
                          pos = read_probe(t, "again", KVT_PROBE_SET_POS, 0),
                          segment = read_probe(t, "again", KVT_PROBE_SET_SEGMENT, 0);
    CHECK_OK(kvt_trace_read(t, KVT_DS_TOKEN_ID, 0, &token, &err), &err);
    CHECK_OK(kvt_trace_read(t, KVT_DS_TOKEN_FLAG, 0, &flag, &err), &err);
    int64_t n = begin.dim[0], at = 0;
    const int32_t *b = begin.data, *e = end.data, *f = from.data, *s = segment.data;
    assert_true(n >= 3);
    assert_int_equal(e[n - 1], N);
    for (int64_t j = 0; j < b[0]; j++)
        assert_true(((const uint8_t *)flag.data)[j] & (KVT_TOKEN_TEMPLATE | KVT_TOKEN_SYSTEM));
    for (int64_t i = 0; i < n; i++) {
        assert_true(i == 0 || b[i] == e[i - 1]);
        int64_t stop = at;
        while (stop < id.dim[0] && s[stop] == i)
            stop++;
        assert_int_equal(f[i], at);
        assert_true(stop - at > e[i] - b[i]); /* an instruction stands before the chunk */
        assert_memory_equal((const int32_t *)id.data + stop - (e[i] - b[i]),
                            (const int32_t *)token.data + b[i],
                            (size_t)(e[i] - b[i]) * sizeof(int32_t));
        for (int64_t r = at; r < stop; r++)
            assert_int_equal(((const int32_t *)pos.data)[r], N + r - at);
        at = stop;
    }
    assert_int_equal(at, id.dim[0]);
    kvt_trace_done(t, &token);
    kvt_trace_done(t, &flag);
    done(&id), done(&begin), done(&end), done(&from), done(&pos), done(&segment);
    kvt_trace_close(t);
}

static void test_present(void **state)
{
    (void)state;
    kvt_err err;
    char before[DIGEST_TEXT], after[DIGEST_TEXT];
    kvt_probes *p = open_ok(many, CHECK_COUNT(many));
    file_digest("later.h5", before);
    kvt_probe_counts c = add_ok(p, "later.h5", false);
    assert_int_equal(c.added, 0);
    assert_int_equal(c.present, 5);
    file_digest("later.h5", after);
    assert_string_equal(before, after); /* not written again */
    kvt_probes_close(p);
    const char *other[] = {"own=suffix:response,tokens=7", "laq=draft:tokens=5@40,61%"};
    p = open_ok(other, 1);
    CHECK_FAILS(kvt_probes_add(p, folder_path("later.h5"), false, &c, &ctx, &err), KVT_IO,
                "--force replaces it", &err);
    c = add_ok(p, "later.h5", true);
    assert_int_equal(c.added, 1);
    kvt_probes_close(p);
    p = open_ok(other, 2); /* one budget is new */
    c = add_ok(p, "later.h5", false);
    assert_int_equal(c.added, 1);
    assert_int_equal(c.present, 2);
    kvt_probes_close(p);
}

/* A second model drafts: here the same one, so that its draft is the answer. */
static void test_second_model(void **state)
{
    (void)state;
    kvt_err err;
    char what[4][1200];
    snprintf(what[0], sizeof what[0], "two=specdraft:%s,tokens=7", folder_path("tiny.gguf"));
    snprintf(what[1], sizeof what[1], "ids=specdraft:%s", folder_path("ids.json"));
    snprintf(what[2], sizeof what[2], "from=suffix:%s,tokens=5", folder_path("with.h5"));
    snprintf(what[3], sizeof what[3], "text=suffix:%s,tokens=4", folder_path("some.txt"));
    CHECK_OK(file_write(folder_path("ids.json"), "[5, 6, 7]", 9, &err), &err);
    CHECK_OK(file_write(folder_path("some.txt"), "So it is said.", 14, &err), &err);
    const char *list[] = {what[0], what[1], what[2], what[3]};
    kvt_probes *p = open_ok(list, 4);
    capture_to("second.h5", NULL, KVT_REPLAY, p);
    kvt_trace *t = open_trace("second.h5");
    int64_t N = kvt_trace_info_of(t)->facts.token.n_prompt;
    kvt_view token, two = read_probe(t, "two", KVT_PROBE_SET_ID, 0),
                    ids = read_probe(t, "ids", KVT_PROBE_SET_ID, 0),
                    from = read_probe(t, "from", KVT_PROBE_SET_ID, 0);
    CHECK_OK(kvt_trace_read(t, KVT_DS_TOKEN_ID, 0, &token, &err), &err);
    /* The second opening of the file has no window in layer 1: only the first token must agree.
     */
    assert_int_equal(two.dim[0], 7);
    assert_int_equal(ids.dim[0], 3);
    assert_int_equal(((const int32_t *)ids.data)[2], 7);
    assert_memory_equal(from.data, (const int32_t *)token.data + N, 5 * sizeof(int32_t));
    const kvt_probe_info *info = kvt_trace_probe_info(t, kvt_trace_probe_find(t, "text"));
    assert_int_equal(info->n_row, 4);
    assert_string_equal(info->args, "some.txt,tokens=4");
    kvt_trace_done(t, &token);
    done(&two), done(&ids), done(&from);
    kvt_trace_close(t);
    kvt_probes_close(p);
}

/* Its own answer as drafted by the same model without a window. */
static void test_second_is_greedy(void **state)
{
    (void)state;
    kvt_err err;
    char what[1200];
    int32_t window = model->weights->geometry.window[1];
    model->weights->geometry.window[1] = 0;
    snprintf(what, sizeof what, "two=specdraft:%s,tokens=7", folder_path("tiny.gguf"));
    const char *list[] = {what};
    kvt_probes *p = open_ok(list, 1);
    capture_to("greedy.h5", NULL, KVT_REPLAY, p);
    model->weights->geometry.window[1] = window;
    kvt_trace *t = open_trace("greedy.h5");
    kvt_view token, two = read_probe(t, "two", KVT_PROBE_SET_ID, 0);
    CHECK_OK(kvt_trace_read(t, KVT_DS_TOKEN_ID, 0, &token, &err), &err);
    assert_memory_equal(
        two.data, (const int32_t *)token.data + kvt_trace_info_of(t)->facts.token.n_prompt,
        7 * sizeof(int32_t));
    kvt_trace_done(t, &token);
    done(&two);
    kvt_trace_close(t);
    kvt_probes_close(p);
}

/* With --layers a probe still runs through the whole model, and those layers are stored. */
static void test_some_layers(void **state)
{
    (void)state;
    kvt_err err;
    kvt_probe_counts c = {0};
    char before[DIGEST_TEXT], after[DIGEST_TEXT];
    kvt_probes *p = open_ok(many, 1), *draft = open_ok(many + 1, 1);
    capture_to("some.h5", "1,3", KVT_REPLAY, p);
    kvt_trace *t = open_trace("some.h5"), *all = open_trace("with.h5");
    for (int l = 0; l < 2; l++) {
        kvt_view a = read_probe(t, "own", KVT_PROBE_SET_LSE, l),
                 b = read_probe(all, "own", KVT_PROBE_SET_LSE, 1 + 2 * l);
        assert_memory_equal(a.data, b.data, (size_t)kvt_view_count(&a) * sizeof(float));
        done(&a);
        done(&b);
    }
    kvt_trace_close(t);
    kvt_trace_close(all);
    file_digest("some.h5", before);
    const char *more[] = {"own2=suffix:response"};
    kvt_probes *later = open_ok(more, 1);
    CHECK_FAILS(kvt_probes_add(later, folder_path("some.h5"), false, &c, &ctx, &err),
                KVT_FORMAT, "this trace holds 2 of them", &err);
    file_digest("some.h5", after);
    assert_string_equal(before, after);
    kvt_capture_spec s = spec_to("draft.h5");
    s.layers = "1,3";
    CHECK_FAILS(kvt_probes_check(draft, &s, &err), KVT_USAGE, "--layers", &err);
    s.probes = kvt_probes_capture;
    s.probes_user = draft;
    kvt_capture_counts counts;
    CHECK_FAILS(kvt_capture(model, &s, &counts, &ctx, &err), KVT_FORMAT, "query/q", &err);
    assert_false(file_exists(s.out));
    kvt_probes_close(later);
    kvt_probes_close(draft);
    kvt_probes_close(p);
}

/* A trace that a probe cannot run on stays as it was. */
static void test_untouched(void **state)
{
    (void)state;
    kvt_err err;
    kvt_probe_counts c = {0};
    char before[DIGEST_TEXT], after[DIGEST_TEXT];
    const char *one[] = {"own=suffix:response"};
    kvt_probes *p = open_ok(one, 1);
    capture_to("summary.h5", NULL, KVT_SUMMARY, NULL);
    file_digest("summary.h5", before);
    CHECK_FAILS(kvt_probes_add(p, folder_path("summary.h5"), false, &c, &ctx, &err), KVT_FORMAT,
                "level summary", &err);
    file_digest("summary.h5", after);
    assert_string_equal(before, after);
    /* Of another model. */
    model_make_options o = model_make_defaults();
    o.seed = 99;
    assert_true(model_make_gguf(folder_path("other.gguf"), &o));
    kvt_model *other, *mine = model;
    CHECK_OK(kvt_model_open(&other, folder_path("other.gguf"), NULL, &ctx, &err), &err);
    model = other;
    kvt_probes *q = open_ok(one, 1);
    model = mine;
    file_digest("second.h5", before);
    CHECK_FAILS(kvt_probes_add(q, folder_path("second.h5"), false, &c, &ctx, &err), KVT_FORMAT,
                "another model", &err);
    file_digest("second.h5", after);
    assert_string_equal(before, after);
    kvt_probes_close(q);
    kvt_model_close(other);
    /* No response: nothing that a suffix or a draft could begin with. */
    kvt_capture_spec s = spec_to("none.h5");
    s.max_new = 0;
    (void)run_ok(&s);
    CHECK_FAILS(kvt_probes_add(p, folder_path("none.h5"), false, &c, &ctx, &err), KVT_FORMAT,
                "needs a response", &err);
    kvt_probes_close(p);
    p = open_ok(many + 1, 1);
    CHECK_FAILS(kvt_probes_add(p, folder_path("none.h5"), false, &c, &ctx, &err), KVT_FORMAT,
                "without a response", &err);
    kvt_probes_close(p);
    assert_int_equal(c.traces, 0);
}

/* A budget that is impossible is left out and said; the others run. */
static void test_small_budget(void **state)
{
    (void)state;
    const char *one[] = {"tight=draft:tokens=2@10,50"};
    kvt_probes *p = open_ok(one, 1);
    ctx.log = hear;
    told.n_warning = 0;
    kvt_probe_counts c = add_ok(p, "later.h5", false);
    ctx.log = NULL;
    assert_int_equal(c.added, 1);
    assert_int_equal(told.n_warning, 1);
    assert_non_null(strstr(told.warning, "tight-10"));
    kvt_probes_close(p);
}

static const struct bad_text {
    const char *name, *text, *says;
    kvt_code code;
} bad_texts[] = {
    {"no name", "suffix:response", "expected NAME=kind", KVT_USAGE},
    {"bad name", "A b=suffix:response", "a probe's name", KVT_USAGE},
    {"empty name", "=suffix:response", "a probe's name", KVT_USAGE},
    {"kind", "a=suffixes:response", "is no kind of probe", KVT_USAGE},
    {"no source", "a=lookaheadkv", "expected lookaheadkv:ADAPTER", KVT_USAGE},
    {"no budget", "a=draft:tokens=8", "expected a budget", KVT_USAGE},
    {"budget", "a=draft@200%", "probe 'a=draft@200%'", KVT_USAGE},
    {"option", "a=draft:token=8@10%", "draft takes tokens=8@BUDGET", KVT_USAGE},
    {"range", "a=draft:tokens=0@10%", "whole number from 1", KVT_USAGE},
    {"chunk", "a=repeat:chunk=x", "whole number from 16", KVT_USAGE},
    {"no file", "a=suffix:nowhere.txt", "nowhere.txt", KVT_NOTFOUND},
    {"no adapter", "a=judgeq:nowhere.safetensors", "nowhere.safetensors", KVT_NOTFOUND},
    {"no model", "a=specdraft:nowhere.gguf", "nowhere.gguf", KVT_NOTFOUND},
};

static void test_bad_text(void **state)
{
    const struct bad_text *b = *state;
    kvt_err err;
    kvt_probes *p;
    CHECK_FAILS(kvt_probes_open(&p, model, &b->text, 1, &ctx, &err), b->code, b->says, &err);
    assert_null(p);
    assert_null(strchr(err.text, '\n'));
}

static void test_twice(void **state)
{
    (void)state;
    kvt_err err;
    kvt_probes *p;
    const char *two[] = {"a=suffix:response", "a=repeat"};
    CHECK_FAILS(kvt_probes_open(&p, model, two, 2, &ctx, &err), KVT_USAGE, "named twice", &err);
}

/* A draft model needs the same tokens under the same numbers. */
static void test_other_vocabulary(void **state)
{
    (void)state;
    kvt_err err;
    kvt_probes *p;
    model_make_options o = model_make_defaults();
    char what[1200];
    const char *list[] = {what};
    o.n_vocab += 7;
    assert_true(model_make_gguf(folder_path("words.gguf"), &o));
    snprintf(what, sizeof what, "a=specdraft:%s", folder_path("words.gguf"));
    CHECK_FAILS(kvt_probes_open(&p, model, list, 1, &ctx, &err), KVT_FORMAT,
                "the same vocabulary", &err);
    CHECK_OK(file_write(folder_path("many.json"), "[5, 99999999]", 13, &err), &err);
    snprintf(what, sizeof what, "a=specdraft:%s", folder_path("many.json"));
    CHECK_FAILS(kvt_probes_open(&p, model, list, 1, &ctx, &err), KVT_FORMAT, "item 1", &err);
    CHECK_OK(file_write(folder_path("empty.txt"), "", 0, &err), &err);
    snprintf(what, sizeof what, "a=suffix:%s", folder_path("empty.txt"));
    CHECK_FAILS(kvt_probes_open(&p, model, list, 1, &ctx, &err), KVT_FORMAT, "no token", &err);
}

int main(void)
{
    enum { FIXED = 12 };
    struct CMUnitTest tests[FIXED + CHECK_COUNT(bad_texts)] = {
        cmocka_unit_test(test_same_bytes),      cmocka_unit_test(test_cost),
        cmocka_unit_test(test_own_answer),      cmocka_unit_test(test_draft_cache),
        cmocka_unit_test(test_repeat),          cmocka_unit_test(test_present),
        cmocka_unit_test(test_second_model),    cmocka_unit_test(test_second_is_greedy),
        cmocka_unit_test(test_some_layers),     cmocka_unit_test(test_untouched),
        cmocka_unit_test(test_small_budget),    cmocka_unit_test(test_twice),
        cmocka_unit_test(test_other_vocabulary)};
    int n = FIXED;
    CHECK_ROWS(tests, &n, bad_texts, test_bad_text);
    folder_new();
    int code =
        _cmocka_run_group_tests("live_probes", tests, (size_t)n, open_model, close_model);
    folder_end();
    return code;
}
