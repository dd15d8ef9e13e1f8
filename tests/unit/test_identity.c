/* test_identity.c - which model something is of: the rule, and what a trace says. The digest of
 * canonical weights is computed here once more, from the file by plain loops. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "capture/gguf.h"
#include "capture/weights.h"
#include "compute/quant.h"
#include "kvt/capture.h"
#include "kvt/scorer.h"
#include "tests/check.h"
#include "tests/folder.h"
#include "tests/model_make.h"

#define A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define C "cccccccccccccccccccccccccccccccc"

static const struct row {
    const char *name;
    kvt_model_id a, b;
    bool same;
} rows[] = {
    {"the same weights", {A, B}, {A, C}, true}, /* GGUF and safetensors */
    {"the same file", {A, B}, {C, B}, true},
    {"an old trace, which has the file's digest", {B, ""}, {A, B}, true},
    {"two old ones", {B, ""}, {B, ""}, true},
    {"two old ones of two files", {B, ""}, {C, ""}, false},
    {"an old one of another file", {C, ""}, {A, B}, false},
    {"one names the file where the other has both", {A, B}, {B, C}, true},
    {"nothing in common", {A, ""}, {B, C}, false},
    {"nothing known of one", {"", ""}, {A, B}, false},
    {"nothing known of either", {"", ""}, {"", ""}, true},
    {"no file known", {"", B}, {"", C}, false},
    {"empty is no digest", {"", B}, {"", ""}, false},
};

static void the_rule(void **state)
{
    const struct row *r = *state;
    assert_int_equal(kvt_model_id_same(&r->a, &r->b), r->same);
    assert_int_equal(kvt_model_id_same(&r->b, &r->a), r->same);
}

static void a_scorer_knows_one_digest(void **state)
{
    kvt_scorer_info info = {.weights_digest = A};
    kvt_model_id id = kvt_scorer_model(&info);
    (void)state;
    assert_string_equal(id.weights, A);
    assert_string_equal(id.file, "");
}

/* ---- a model's own -------------------------------------------------------------------------
 */

/* Tiles of one tensor; rows [h d] of q and k of llama are taken from pairs. */
static void add_tensor(digest *d, const gguf *g, const char *name, int64_t head_dim)
{
    const gguf_tensor *t = gguf_find(g, name);
    char text[DIGEST_TEXT];
    assert_non_null(t);
    float *x = malloc((size_t)t->n_weight * sizeof *x),
          *y = malloc((size_t)t->n_weight * sizeof *x);
    assert_true(x && y);
    quant_decode_plain(x, t->type, t->data, t->n_weight);
    for (int64_t r = 0; r < t->dim[1]; r++) {
        int64_t in = head_dim ? r % head_dim : 0, half = head_dim / 2;
        int64_t from = head_dim ? r - in + 2 * (in % half) + in / half : r;
        memcpy(y + r * t->dim[0], x + from * t->dim[0], (size_t)t->dim[0] * sizeof *x);
    }
    for (int64_t at = 0; at < t->n_weight; at += 65536) {
        int64_t n = t->n_weight - at < 65536 ? t->n_weight - at : 65536;
        digest_of(y + at, (size_t)n * sizeof *y, text);
        digest_add(d, text, strlen(text));
    }
    free(x);
    free(y);
}

static void canonical(char out[DIGEST_TEXT], const char *path, int n_layer, int64_t head_dim)
{
    static const char *const names[] = {"attn_norm", "attn_q",      "attn_k",
                                        "attn_v",    "attn_output", "ffn_norm",
                                        "ffn_gate",  "ffn_up",      "ffn_down"};
    gguf *g;
    kvt_err err;
    char name[64];
    digest *d = digest_new();
    assert_non_null(d);
    CHECK_OK(gguf_open(&g, path, &err), &err);
    add_tensor(d, g, "token_embd.weight", 0);
    for (int l = 0; l < n_layer; l++)
        for (int i = 0; i < CHECK_COUNT(names); i++) {
            snprintf(name, sizeof name, "blk.%d.%s.weight", l, names[i]);
            add_tensor(d, g, name, i == 1 || i == 2 ? head_dim : 0);
        }
    add_tensor(d, g, "output_norm.weight", 0);
    digest_get(d, out);
    digest_free(d);
    gguf_close(g);
}

static void a_trace_says_both(void **state)
{
    model_make_options o = model_make_of("llama");
    kvt_model *m, *header;
    kvt_model_id id, none, of_trace;
    kvt_capture_spec spec;
    kvt_capture_counts counts;
    kvt_trace *t;
    kvt_err err;
    char weights[DIGEST_TEXT], file[DIGEST_TEXT];
    (void)state;
    o.n_vocab = 1500; /* more than a tile of 65,536 values */
    o.type = QUANT_F16;
    assert_true(model_make_gguf(folder_path("m.gguf"), &o));
    canonical(weights, folder_path("m.gguf"), o.n_layer, o.head_dim);
    CHECK_OK(digest_file(folder_path("m.gguf"), file, &err), &err);
    CHECK_OK(kvt_model_open(&m, folder_path("m.gguf"), NULL, NULL, &err), &err);
    kvt_capture_defaults(&spec);
    spec.prompt = "a b";
    spec.max_new = 2;
    spec.out = folder_path("t.h5");
    CHECK_OK(kvt_capture(m, &spec, &counts, NULL, &err), &err);
    CHECK_OK(kvt_model_digest(m, &id, NULL, &err), &err);
    assert_string_equal(id.weights, weights);
    assert_string_equal(id.file, file);
    CHECK_OK(kvt_trace_open(&t, folder_path("t.h5"), 0, &err), &err);
    of_trace = kvt_model_id_of(&kvt_trace_info_of(t)->facts);
    assert_string_equal(of_trace.weights, weights);
    assert_string_equal(of_trace.file, file);
    kvt_trace_close(t);
    CHECK_OK(kvt_model_open(&header, folder_path("m.gguf"),
                            &(kvt_model_options){.header_only = true}, NULL, &err),
             &err);
    CHECK_OK(kvt_model_digest(header, &none, NULL, &err), &err);
    assert_string_equal(none.weights, "");
    kvt_model_close(header);
    kvt_model_close(m);
}

/* A set that one file of a model began is gone on with by another with the same weights, and
 * samples the same tokens. */
static void a_set_resumes_with_another_file(void **state)
{
    static const char *const files[] = {"one.gguf", "two.gguf", "other.gguf"};
    char said[3][sizeof((kvt_capture_counts *)0)->text];
    kvt_capture_counts counts;
    kvt_capture_spec spec;
    kvt_err err;
    (void)state;
    kvt_capture_defaults(&spec);
    spec.prompt = "a b";
    spec.max_new = 12;
    spec.temperature = 1;
    for (int i = 0; i < 3; i++) {
        model_make_options o = model_make_of("llama");
        gguf_make made;
        kvt_model *m;
        o.seed += i == 2;
        gguf_make_init(&made);
        if (i == 1)
            gguf_make_text(&made, "general.description", "the same in another file");
        model_make_into(&made, &o);
        assert_true(gguf_make_write(&made, folder_path(files[i])));
        gguf_make_fini(&made);
        CHECK_OK(kvt_model_open(&m, folder_path(files[i]), NULL, NULL, &err), &err);
        spec.record = false;
        CHECK_OK(kvt_capture(m, &spec, &counts, NULL, &err), &err);
        memcpy(said[i], counts.text, sizeof said[i]);
        spec.record = true;
        spec.out = folder_path("resumed.h5");
        if (i < 2)
            CHECK_OK(kvt_capture(m, &spec, &counts, NULL, &err), &err);
        else
            CHECK_FAILS(kvt_capture(m, &spec, &counts, NULL, &err), KVT_USAGE,
                        "of another prompt, model or options", &err);
        assert_true(counts.captured == (i == 0) && counts.skipped == (i == 1));
        kvt_model_close(m);
    }
    assert_string_equal(said[0], said[1]);
}

int main(void)
{
    struct CMUnitTest tests[CHECK_COUNT(rows) + 3];
    int n = 0;
    folder_new();
    CHECK_ROWS(tests, &n, rows, the_rule);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(a_scorer_knows_one_digest);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(a_trace_says_both);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(a_set_resumes_with_another_file);
    int failed = CHECK_RUN("identity", tests, n);
    folder_end();
    return failed;
}
