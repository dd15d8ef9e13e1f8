/* test_padding.c - C037: an embedding of 16 rows over 10 tokens, where a row without a token
 * has the largest logit. It is never chosen, and never looked up in the table of tokens. */
#include "capture/forward.h"
#include "capture/sample.h"
#include "capture/tokenizer.h"
#include "tests/check.h"
#include "tests/model_load.h"
#include "tests/model_make.h"

enum { LIMIT = 1 << 22, TOKENS = 10, ROWS = 16, WIDTH = 48 };

/* Rows 14 and 15 become +big and -big of the same direction: one of the two has a logit far
 * above all others, whatever the hidden state is. The embedding is the first tensor. */
static void tiny_model(gguf_make *m, buf *bytes)
{
    model_make_options o = model_make_defaults();
    float row[2][WIDTH];
    o.n_vocab = TOKENS;
    o.pad_rows = ROWS - TOKENS;
    gguf_make_init(m);
    model_make_into(m, &o);
    for (int e = 0; e < WIDTH; e++) {
        row[0][e] = (float)(100 + e % 7);
        row[1][e] = -row[0][e];
    }
    memcpy(m->data.data + 14 * sizeof row[0], row, sizeof row);
    buf_init(bytes, LIMIT);
    gguf_make_bytes(m, bytes);
}

static void a_row_without_token_is_never_chosen(void **state)
{
    static const int32_t prompt[] = {MODEL_MAKE_START, 4, 5, MODEL_MAKE_END};
    const sample_spec greedy = {.temperature = 0, .top_p = 1};
    const kvt_ctx ctx = {.n_thread = 1};
    gguf_make m;
    buf bytes;
    kvt_err err;
    gguf *g;
    kvt_weights *w;
    tokenizer *t;
    kvt_backend *b;
    forward *f;
    sampler *s;
    sample_row described;
    token_list list;
    (void)state;
    tiny_model(&m, &bytes);
    CHECK_OK(gguf_read(&g, (const uint8_t *)bytes.data, bytes.n, &err), &err);
    CHECK_OK(load_gguf(&w, g, NULL, &ctx, &err), &err);
    CHECK_OK(tokenizer_open(&t, g, NULL, &err), &err);
    assert_int_equal(w->geometry.n_vocab, ROWS);
    assert_int_equal(tokenizer_count(t), TOKENS);
    CHECK_OK(kvt_backend_open(&b, "cpu", &ctx, &err), &err);
    const forward_spec spec = {
        .weights = w, .backend = b, .ctx = &ctx, .n_token = 16, .n_row = 16};
    CHECK_OK(forward_new(&f, &spec, &err), &err);
    CHECK_OK(sampler_new(&s, &greedy, tokenizer_count(t), &err), &err);
    CHECK_OK(forward_prefill(f, prompt, 4, &err), &err);
    for (int64_t step = 0; step < 8; step++) {
        const float *logit = forward_logit(f);
        int best = 0, best_token = 0;
        int32_t id = -1;
        for (int i = 1; i < ROWS; i++) {
            best = logit[i] > logit[best] ? i : best;
            best_token = i < TOKENS && logit[i] > logit[best_token] ? i : best_token;
        }
        assert_true(best >= 14); /* the case is what it claims to be */
        CHECK_OK(sampler_pick(s, &id, logit, step, &err), &err);
        assert_int_equal(id, best_token);
        CHECK_OK(sampler_describe(s, &described, logit, id, &err), &err);
        for (int i = 0; i < SAMPLE_TOP; i++)
            assert_true(described.id[i] < TOKENS);
        CHECK_OK(forward_step(f, id, &err), &err);
    }
    token_list_init(&list);
    CHECK_FAILS(token_list_push(&list, t, 15, 0, &err), KVT_FORMAT,
                "expected an id below 10, got 15", &err);
    CHECK_FAILS(forward_step(f, ROWS, &err), KVT_USAGE, NULL, &err);
    token_list_fini(&list);
    sampler_free(s);
    forward_free(f);
    kvt_backend_close(b);
    tokenizer_free(t);
    kvt_weights_free(w);
    gguf_close(g);
    buf_fini(&bytes);
    gguf_make_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_row_without_token_is_never_chosen)};
    return cmocka_run_group_tests_name("padding", tests, NULL, NULL);
}
