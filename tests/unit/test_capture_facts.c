/* test_capture_facts.c - what else a captured trace says: levels and their datasets, text,
 * sampling, templates, plans, the same bytes for any number of threads, and what a person
 * should be told. */
#include <stdlib.h>

#include "base/file.h"
#include "tiny_capture.h"

/* ---- levels, facts, text -------------------------------------------------------------------
 */

static void levels_hold_their_datasets(void **state)
{
    (void)state;
    for (int level = KVT_SUMMARY; level <= KVT_TRAIN; level++) {
        kvt_err err;
        kvt_trace *t;
        kvt_capture_spec s = spec_to("level.h5");
        s.level = (kvt_level)level;
        s.max_new = 3;
        run_ok(&s);
        CHECK_OK(kvt_trace_open(&t, s.out, 0, &err), &err);
        const kvt_trace_info *i = kvt_trace_info_of(t);
        assert_int_equal(i->facts.level, level);
        assert_int_equal(i->has[KVT_DS_KEYS], level != KVT_SUMMARY);
        assert_int_equal(i->has[KVT_DS_QUERIES], level == KVT_REPLAY || level == KVT_FULL);
        assert_int_equal(i->has[KVT_DS_ROWS], level == KVT_REPLAY || level == KVT_FULL);
        assert_int_equal(i->has[KVT_DS_HIDDEN], level == KVT_FULL);
        assert_int_equal(i->has[KVT_DS_COL_SUM], level != KVT_TRAIN);
        kvt_trace_close(t);
    }
}

static void text_is_kept_or_left_out(void **state)
{
    kvt_err err;
    (void)state;
    for (int no = 0; no < 2; no++) {
        kvt_trace *t;
        kvt_view flag;
        const uint8_t *bytes;
        int64_t n = 0, all = 0;
        kvt_capture_spec s = spec_to("text.h5");
        s.no_text = no;
        s.raw = true;
        s.response = " And then?";
        run_ok(&s);
        CHECK_OK(kvt_trace_open(&t, s.out, 0, &err), &err);
        const kvt_trace_info *i = kvt_trace_info_of(t);
        assert_int_equal(i->has[KVT_DS_TEXT_BYTES], !no);
        assert_int_equal(i->has[KVT_DS_TEXT_RAW], !no);
        assert_string_equal(i->facts.token.stop_reason, "forced");
        CHECK_OK(kvt_trace_read(t, KVT_DS_TOKEN_FLAG, 0, &flag, &err), &err);
        for (int64_t k = 0; k < i->n_token; k++) {
            bool response = ((const uint8_t *)flag.data)[k] & KVT_TOKEN_RESPONSE;
            assert_int_equal(response, k >= i->facts.token.n_prompt);
            CHECK_OK(kvt_trace_token_text(t, k, &bytes, &n, &err), &err);
            if (!no && n)
                assert_memory_equal(bytes,
                                    all < (int64_t)sizeof text - 1
                                        ? text + all
                                        : &" And then?"[all - (int64_t)(sizeof text - 1)],
                                    (size_t)n);
            all += n;
        }
        if (!no)
            assert_int_equal(all, sizeof text - 1 + strlen(" And then?"));
        kvt_trace_done(t, &flag);
        kvt_trace_close(t);
    }
}

/* Any number of threads writes the same bytes. */
static void threads_change_no_bytes(void **state)
{
    static const int threads[] = {1, 2, 8};
    char content[3][KVT_DIGEST_TEXT];
    (void)state;
    for (int forced = 0; forced < 2; forced++) {
        for (int i = 0; i < 3; i++) {
            kvt_err err;
            kvt_trace *t;
            kvt_capture_spec s = spec_to("threads.h5");
            s.level = KVT_FULL;
            s.response = forced ? text : NULL;
            ctx.n_thread = threads[i];
            run_ok(&s);
            CHECK_OK(kvt_trace_open(&t, s.out, 0, &err), &err);
            snprintf(content[i], sizeof content[i], "%s", kvt_trace_info_of(t)->digest);
            kvt_trace_close(t);
        }
        assert_string_equal(content[0], content[1]);
        assert_string_equal(content[0], content[2]);
    }
    ctx.n_thread = 0;
}

static void sampling_follows_the_seed(void **state)
{
    char said[3][4096];
    (void)state;
    for (int i = 0; i < 3; i++) {
        kvt_capture_spec s = spec_to("seed.h5");
        s.temperature = 1.0;
        s.top_p = 0.9;
        ctx.seed = i == 2 ? 8 : 7;
        kvt_capture_counts c = run_ok(&s);
        snprintf(said[i], sizeof said[i], "%s", c.text);
    }
    ctx.seed = 0;
    assert_string_equal(said[0], said[1]);
    assert_true(strcmp(said[0], said[2]) != 0);
}

/* What is recorded of an answer does not change the answer. */
static void sampling_does_not_follow_the_options(void **state)
{
    char said[4][4096];
    (void)state;
    for (int i = 0; i < 4; i++) {
        kvt_capture_spec s = spec_to("options.h5");
        s.temperature = 1.0;
        s.level = i == 1 ? KVT_FULL : KVT_REPLAY;
        s.layers = i == 2 ? "1" : NULL;
        s.compress = i == 3;
        s.delay = 40 + i;
        kvt_capture_counts c = run_ok(&s);
        snprintf(said[i], sizeof said[i], "%s", c.text);
        assert_string_equal(said[i], said[0]);
    }
}

/* Prompts of one token and more, no response or one: what is written passes every check. */
static void very_short_prompts_run(void **state)
{
    (void)state;
    for (size_t n = 1; n <= 6; n++) {
        char prompt[8];
        kvt_capture_spec s = spec_to("short.h5");
        snprintf(prompt, sizeof prompt, "%.*s", (int)n, "abcdef");
        s.prompt = prompt;
        s.raw = true;
        s.level = KVT_FULL;
        s.max_new = (int64_t)n % 3;
        run_ok(&s);
        kvt_err err;
        kvt_trace *t;
        CHECK_OK(kvt_trace_open(&t, s.out, 0, &err), &err);
        CHECK_OK(kvt_trace_check(t, each_is_ok, NULL, &err), &err);
        kvt_trace_close(t);
    }
}

/* ---- plans ---------------------------------------------------------------------------------
 */

static void plans_say_the_bytes(void **state)
{
    (void)state;
    for (int level = KVT_SUMMARY; level <= KVT_TRAIN; level++) {
        kvt_err err;
        kvt_capture_plan plan;
        kvt_capture_spec s = spec_to("plan.h5");
        s.level = (kvt_level)level;
        s.response = text;
        CHECK_OK(kvt_capture_planned(model, &s, &plan, &ctx, &err), &err);
        kvt_capture_counts c = run_ok(&s);
        assert_int_equal(plan.n_prompt, c.n_prompt);
        assert_int_equal(plan.n_response, c.n_response);
        /* Exact but for the headers, which the estimate counts as 64 KiB. */
        CHECK_NEAR((double)plan.file_bytes, (double)file_size(s.out), 65536.0);
        assert_true(plan.seconds > 0 && plan.memory_bytes > plan.weight_bytes);
    }
}

/* A level takes no memory for what it leaves out: blocks are the largest part of a summary. */
static void levels_take_what_they_hold(void **state)
{
    int64_t memory[KVT_NEVER];
    (void)state;
    for (int level = KVT_SUMMARY; level <= KVT_TRAIN; level++) {
        kvt_err err;
        kvt_capture_plan plan;
        kvt_capture_spec s = spec_to("plan.h5");
        s.level = (kvt_level)level;
        s.max_new = 3000; /* more than the measurement of the processor takes */
        CHECK_OK(kvt_capture_planned(model, &s, &plan, &ctx, &err), &err);
        memory[level] = plan.memory_bytes;
    }
    assert_true(memory[KVT_TRAIN] < memory[KVT_SUMMARY]);
    assert_true(memory[KVT_SUMMARY] < memory[KVT_REPLAY]);
    assert_true(memory[KVT_REPLAY] < memory[KVT_FULL]);
}

/* ---- notices -------------------------------------------------------------------------------
 */

/* All that is said in a capture of `prompt`, by a model with these options. */
static void warnings(const model_make_options *o, const char *prompt, const char *response,
                     bool raw)
{
    kvt_err err;
    kvt_model *m;
    kvt_capture_counts c;
    kvt_capture_spec s = spec_to("warned.h5");
    assert_true(model_make_gguf(folder_path("other.gguf"), o));
    CHECK_OK(kvt_model_open(&m, folder_path("other.gguf"), NULL, &ctx, &err), &err);
    s.out = folder_path("warned.h5");
    s.prompt = prompt;
    s.response = response;
    s.raw = raw;
    s.max_new = 2;
    told.warning[0] = 0;
    ctx.log = hear;
    CHECK_OK(kvt_capture(m, &s, &c, &ctx, &err), &err);
    ctx.log = NULL;
    kvt_model_close(m);
}

/* C049: a model without a template is run as with --raw, and says so. */
static void a_missing_template_is_told(void **state)
{
    model_make_options o = model_make_defaults();
    (void)state;
    warnings(&o, "Why?", NULL, false);
    assert_string_equal(told.warning, "");
    o.no_template = true;
    warnings(&o, "Why?", NULL, false);
    assert_non_null(strstr(told.warning, "the model file has no chat template"));
    assert_non_null(strstr(told.warning, "--chat NAME"));
    warnings(&o, "Why?", NULL, true);
    assert_string_equal(told.warning, "");
}

static void lost_bytes_are_told(void **state)
{
    model_make_options o = model_make_defaults();
    (void)state;
    o.no_byte = '~';
    warnings(&o, "A tilde", "or two", false);
    assert_string_equal(told.warning, "");
    warnings(&o, "A ~ tilde~", "or two", false);
    assert_non_null(strstr(told.warning, "of the prompt"));
    assert_non_null(strstr(told.warning, "no token for 2 bytes"));
    warnings(&o, "A tilde", "or ~", false);
    assert_non_null(strstr(told.warning, "of the response"));
    assert_non_null(strstr(told.warning, "no token for 1 bytes"));
}

/* A command line may hold the prompt: without the text it is left out, too. */
static void no_text_means_no_command(void **state)
{
    (void)state;
    for (int no = 0; no < 2; no++) {
        kvt_err err;
        kvt_trace *t;
        kvt_capture_spec s = spec_to("command.h5");
        s.command = "kvt capture --prompt secret";
        s.no_text = no;
        run_ok(&s);
        CHECK_OK(kvt_trace_open(&t, s.out, 0, &err), &err);
        assert_string_equal(kvt_trace_info_of(t)->facts.command, no ? "" : s.command);
        kvt_trace_close(t);
    }
}

/* The model's template has a digest; one of ours, asked for by name, has no text. */
static void only_the_models_template_has_a_digest(void **state)
{
    (void)state;
    for (int named = 0; named < 2; named++) {
        kvt_err err;
        kvt_trace *t;
        kvt_capture_spec s = spec_to("named.h5");
        s.chat = named ? "gemma" : NULL;
        run_ok(&s);
        CHECK_OK(kvt_trace_open(&t, s.out, 0, &err), &err);
        const kvt_token_info *i = &kvt_trace_info_of(t)->facts.token;
        assert_int_equal(strlen(i->template_digest), named ? 0 : KVT_DIGEST_TEXT - 1);
        if (named)
            assert_string_equal(i->template_name, "gemma");
        kvt_trace_close(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_hold_their_datasets),
        cmocka_unit_test(text_is_kept_or_left_out),
        cmocka_unit_test(threads_change_no_bytes),
        cmocka_unit_test(sampling_follows_the_seed),
        cmocka_unit_test(sampling_does_not_follow_the_options),
        cmocka_unit_test(very_short_prompts_run),
        cmocka_unit_test(plans_say_the_bytes),
        cmocka_unit_test(levels_take_what_they_hold),
        cmocka_unit_test(a_missing_template_is_told),
        cmocka_unit_test(lost_bytes_are_told),
        cmocka_unit_test(no_text_means_no_command),
        cmocka_unit_test(only_the_models_template_has_a_digest),
    };
    folder_new();
    int failed = cmocka_run_group_tests_name("capture facts", tests, open_model, close_model);
    folder_drop(folder_name);
    return failed;
}
