/* test_checkpoint.c - the same model as a GGUF file, as a split set of them and as a folder:
 * one geometry, one set of weights; sets and folders with missing, stray and foreign parts
 * (C028, C039), what a folder may be in place of a model. */
#include "capture/checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "capture/weights.h"
#include "compute/quant.h"
#include "kvt/arena.h"
#include "tests/check.h"
#include "tests/folder.h"
#include "tests/model_make.h"

enum { LIMIT = 1 << 26 };

static void folder_clear(void)
{
    kvt_err err;
    folder_end();
    CHECK_OK(file_mkdirs(folder_path(""), &err), &err);
}

/* ---- one model, two formats ----------------------------------------------------------------
 */

static const struct row {
    const char *name, *arch;
    int type;
    model_make_folder_options of;
    bool untied;
} rows[] = {
    {"llama", "llama", QUANT_F32, {0}, false},
    {"llama f16, untied, 3 parts", "llama", QUANT_F16, {.n_part = 3}, true},
    {"llama bf16, new config", "llama", QUANT_BF16, {.v5 = true}, false},
    {"qwen2", "qwen2", QUANT_F32, {.n_part = 2}, true},
    {"qwen2 f16, new config", "qwen2", QUANT_F16, {.v5 = true}, false},
    {"qwen3", "qwen3", QUANT_F32, {.v5 = true}, false},
    {"qwen3 bf16", "qwen3", QUANT_BF16, {.n_part = 8}, true},
    {"gemma3", "gemma3", QUANT_F32, {0}, false},
    {"gemma3, new config, 2 parts", "gemma3", QUANT_F32, {.v5 = true, .n_part = 2}, false},
    {"gemma3 nested", "gemma3", QUANT_BF16, {.nested = true}, false},
};

static void same_geometry(const kvt_geometry *a, const kvt_geometry *b)
{
    assert_string_equal(a->arch, b->arch);
    assert_string_equal(a->rope_type, b->rope_type);
    assert_string_equal(a->rope_layout, b->rope_layout);
#define TEXT(field)
#define INT(field)                 assert_int_equal(a->field, b->field);
#define REAL(field)                assert_true(fabs(a->field - b->field) <= 1e-12 * fabs(a->field));
#define X(kind, field, unit, help) kind(field)
    KVT_GEOMETRY_FIELDS(X)
#undef X
#undef TEXT
#undef INT
#undef REAL
    assert_memory_equal(a->window, b->window, sizeof a->window);
    for (int64_t i = 0; i < a->head_dim / 2; i++)
        assert_true(fabs(a->rope_freq[i] / b->rope_freq[i] - 1) < 1e-12);
}

static void load(kvt_weights **out, kvt_geometry *g, const char *path)
{
    checkpoint *s;
    kvt_err err;
    CHECK_OK(checkpoint_open(&s, path, &err), &err);
    CHECK_OK(kvt_weights_load(out, s, NULL, NULL, &err), &err);
    *g = *checkpoint_geometry(s);
    checkpoint_close(s);
}

static void same_matrix(const kvt_matrix *a, const kvt_matrix *b)
{
    assert_true(a->type == b->type && a->n_row == b->n_row && a->n_col == b->n_col);
    assert_memory_equal(a->data, b->data, (size_t)(a->n_row * a->row_bytes));
}

/* Bit for bit, Gemma's gains too: what 1 is taken from and added to lies in [1/2, 2]. */
static void same_vector(const float *a, const float *b, int64_t n)
{
    assert_true(!a == !b);
    if (a)
        assert_memory_equal(a, b, (size_t)n * sizeof *a);
}

static void same_weights(const kvt_weights *a, const kvt_weights *b)
{
    const kvt_geometry *g = &a->geometry;
    int64_t e = g->n_hidden, q = g->n_head * g->head_dim, k = g->n_kv_head * g->head_dim;
    same_matrix(&a->embed, &b->embed);
    same_matrix(&a->lm_head, &b->lm_head);
    same_vector(a->out_norm, b->out_norm, e);
    for (int64_t l = 0; l < g->n_layer; l++) {
        const kvt_weights_layer *x = &a->layer[l], *y = &b->layer[l];
        same_vector(x->attn_norm, y->attn_norm, e);
        same_vector(x->ffn_norm, y->ffn_norm, e);
        same_vector(x->post_attn_norm, y->post_attn_norm, e);
        same_vector(x->post_ffn_norm, y->post_ffn_norm, e);
        same_vector(x->q_norm, y->q_norm, g->head_dim);
        same_vector(x->k_norm, y->k_norm, g->head_dim);
        same_vector(x->bq, y->bq, q);
        same_vector(x->bk, y->bk, k);
        same_vector(x->bv, y->bv, k);
        same_matrix(&x->wq, &y->wq);
        same_matrix(&x->wk, &y->wk);
        same_matrix(&x->wv, &y->wv);
        same_matrix(&x->wo, &y->wo);
        same_matrix(&x->gate, &y->gate);
        same_matrix(&x->up, &y->up);
        same_matrix(&x->down, &y->down);
    }
}

static void a_folder_is_the_model_of_its_gguf_file(void **state)
{
    const struct row *r = *state;
    model_make_options o = model_make_of(r->arch);
    char same[2][DIGEST_TEXT];
    kvt_weights *w[2];
    kvt_geometry g[2];
    kvt_err err;
    o.type = r->type;
    o.tied = !r->untied;
    assert_true(model_make_gguf(folder_path("m.gguf"), &o));
    assert_true(model_make_folder(folder_path("m"), &o, &r->of));
    load(&w[0], &g[0], folder_path("m.gguf"));
    load(&w[1], &g[1], folder_path("m"));
    same_geometry(&g[0], &g[1]);
    assert_string_equal(g[1].name, "m");
    same_weights(w[0], w[1]);
    assert_true(!w[0]->layer[0].bq == (strcmp(r->arch, "qwen2") != 0));
    assert_true(!w[0]->layer[0].post_ffn_norm == (strcmp(r->arch, "gemma3") != 0));
    for (int i = 0; i < 2; i++)
        CHECK_OK(kvt_weights_digest(w[i], same[i], NULL, &err), &err);
    assert_string_equal(same[0], same[1]);
    assert_string_not_equal(w[0]->digest, w[1]->digest);
    kvt_weights_free(w[0]);
    kvt_weights_free(w[1]);
    folder_clear();
}

/* The values decide, not the type in which they lie. */
static void the_digest_is_that_of_values(void **state)
{
    model_make_options o = model_make_of("llama");
    char same[3][DIGEST_TEXT];
    kvt_weights *w;
    kvt_geometry g;
    kvt_err err;
    (void)state;
    o.n_hidden = 64;
    o.head_dim = 16;
    o.type = QUANT_Q8_0;
    assert_true(model_make_gguf(folder_path("m.gguf"), &o));
    assert_true(model_make_folder(folder_path("m"), &o, NULL)); /* f32 of what blocks hold */
    load(&w, &g, folder_path("m.gguf"));
    CHECK_OK(kvt_weights_digest(w, same[0], NULL, &err), &err);
    kvt_weights_free(w);
    load(&w, &g, folder_path("m"));
    CHECK_OK(kvt_weights_digest(w, same[1], NULL, &err), &err);
    assert_true(w->embed.type == QUANT_F32);
    kvt_weights_free(w);
    o.seed++;
    assert_true(model_make_gguf(folder_path("m.gguf"), &o));
    load(&w, &g, folder_path("m.gguf"));
    CHECK_OK(kvt_weights_digest(w, same[2], NULL, &err), &err);
    kvt_weights_free(w);
    assert_string_equal(same[0], same[1]);
    assert_string_not_equal(same[0], same[2]);
    folder_clear();
}

/* ---- split GGUF ----------------------------------------------------------------------------
 */

typedef struct split {
    const model_make_options *o;
    gguf_make *part;
    int n_part, n_seen, n_tensor;
} split;

static void count(void *user, const model_make_tensor *t)
{
    (void)t;
    ((split *)user)->n_tensor++;
}

static void add(void *user, const model_make_tensor *t)
{
    split *s = user;
    uint64_t dim[2] = {(uint64_t)t->n_col, (uint64_t)t->n_row};
    gguf_make *m = &s->part[s->n_seen++ * s->n_part / s->n_tensor];
    buf b;
    buf_init(&b, LIMIT);
    free(model_make_values(s->o, t, &b));
    gguf_make_tensor(m, t->name, (uint32_t)t->type, t->n_row ? 2 : 1, dim, b.data, b.n);
    buf_fini(&b);
}

/* NAME-0000i-of-0000n.gguf. What the parts say of themselves may be wrong: n_said parts. */
static void make_set(const char *name, const model_make_options *o, int n_part, int n_said,
                     int64_t n_tensor)
{
    gguf_make m[4];
    split s = {.o = o, .part = m, .n_part = n_part};
    model_make_each(o, count, &s);
    for (int i = 0; i < n_part; i++) {
        model_make_options keys = *o;
        gguf_make_init(&m[i]);
        gguf_make_int(&m[i], "split.no", GGUF_U16, (uint64_t)i);
        gguf_make_int(&m[i], "split.count", GGUF_U16, (uint64_t)n_said);
        gguf_make_int(&m[i], "split.tensors.count", GGUF_I32,
                      (uint64_t)(n_tensor ? n_tensor : s.n_tensor));
        if (i == 0)
            model_make_keys(&m[i], &keys);
    }
    model_make_each(o, add, &s);
    for (int i = 0; i < n_part; i++) {
        char file[128];
        snprintf(file, sizeof file, "%s-%05d-of-%05d.gguf", name, i + 1, n_part);
        assert_true(gguf_make_write(&m[i], folder_path(file)));
        gguf_make_fini(&m[i]);
    }
}

static void any_part_opens_the_set(void **state)
{
    model_make_options o = model_make_of("gemma3");
    kvt_weights *whole, *w;
    kvt_geometry g, of_set;
    char path[128], first[DIGEST_TEXT] = "";
    (void)state;
    assert_true(model_make_gguf(folder_path("m.gguf"), &o));
    make_set("set", &o, 3, 3, 0);
    load(&whole, &g, folder_path("m.gguf"));
    for (int i = 1; i <= 3; i++) {
        snprintf(path, sizeof path, "set-%05d-of-00003.gguf", i);
        load(&w, &of_set, folder_path(path));
        same_geometry(&g, &of_set);
        same_weights(whole, w);
        assert_true(whole->file_bytes == w->file_bytes);
        if (!first[0])
            memcpy(first, w->digest, sizeof first);
        assert_string_equal(w->digest, first); /* of all parts, whichever was named */
        kvt_weights_free(w);
    }
    kvt_weights_free(whole);
    folder_clear();
}

static void join(const char *to, const char *a, const char *b)
{
    buf all;
    kvt_err err;
    buf_init(&all, LIMIT);
    CHECK_OK(file_read(&all, folder_path(a), LIMIT, &err), &err);
    if (b)
        CHECK_OK(file_read(&all, folder_path(b), LIMIT, &err), &err);
    CHECK_OK(file_write(folder_path(to), all.data, all.n, &err), &err);
    buf_fini(&all);
}

static void fails(const char *name, kvt_code code, const char *says)
{
    checkpoint *s;
    kvt_err err;
    CHECK_FAILS(checkpoint_open(&s, folder_path(name), &err), code, says, &err);
    assert_null(s);
    assert_null(strchr(err.text, '\n'));
}

/* C028. */
static void a_set_that_is_none_is_refused(void **state)
{
    model_make_options o = model_make_of("llama"), other = o;
    (void)state;
    make_set("set", &o, 2, 2, 0);
    assert_int_equal(remove(folder_path("set-00002-of-00002.gguf")), 0);
    fails("set-00001-of-00002.gguf", KVT_NOTFOUND, "part 2 of 2, '");
    make_set("set", &o, 2, 2, 0);
    assert_int_equal(remove(folder_path("set-00001-of-00002.gguf")), 0);
    fails("set-00002-of-00002.gguf", KVT_NOTFOUND, "set-00001-of-00002.gguf', is missing");
    make_set("set", &o, 2, 2, 0);
    make_set("other", &other, 2, 3, 0);
    join("set-00002-of-00002.gguf", "other-00002-of-00002.gguf", NULL);
    fails("set-00001-of-00002.gguf", KVT_FORMAT,
          "is no part of this set: expected split.count 2, got 3");
    other.tied = false;
    make_set("other", &other, 2, 2, 0);
    join("set-00002-of-00002.gguf", "other-00002-of-00002.gguf", NULL);
    fails("set-00001-of-00002.gguf", KVT_FORMAT,
          "is no part of this set: expected split.tensors.count 20, got 21");
    make_set("set", &o, 2, 2, 0);
    join("set-00002-of-00002.gguf", "set-00001-of-00002.gguf", NULL);
    fails("set-00001-of-00002.gguf", KVT_FORMAT,
          "is no part of this set: expected split.no 1, got 0");
    make_set("set", &o, 2, 2, 19);
    fails("set-00001-of-00002.gguf", KVT_FORMAT,
          "'split.tensors.count': the set should have 19 tensors, its 2 parts have 20");
    make_set("set", &o, 2, 2, 0);
    join("joined.gguf", "set-00001-of-00002.gguf", "set-00002-of-00002.gguf");
    fails("joined.gguf", KVT_FORMAT, "parts cannot be joined by appending them");
    join("renamed.gguf", "set-00002-of-00002.gguf", NULL);
    fails("renamed.gguf", KVT_FORMAT,
          "is part 2 of a set of 2 files: expected a name that ends with "
          "'-00002-of-00002.gguf'");
    folder_clear();
}

/* ---- folders -------------------------------------------------------------------------------
 */

static void put(const char *name, const char *text)
{
    kvt_err err;
    CHECK_OK(file_write(folder_path(name), text, strlen(text), &err), &err);
}

/* The first `old` in a file of text becomes `by`. */
static void edit(const char *name, const char *old, const char *by)
{
    buf all, out;
    kvt_err err;
    buf_init(&all, LIMIT);
    buf_init(&out, LIMIT);
    CHECK_OK(file_read(&all, folder_path(name), LIMIT, &err), &err);
    buf_char(&all, 0);
    char *at = strstr(all.data, old);
    assert_non_null(at);
    buf_add(&out, all.data, (size_t)(at - all.data));
    buf_text(&out, by);
    buf_text(&out, at + strlen(old));
    CHECK_OK(file_write(folder_path(name), out.data, out.n, &err), &err);
    buf_fini(&all);
    buf_fini(&out);
}

static void make_parts(void)
{
    model_make_options o = model_make_of("qwen3");
    folder_clear();
    assert_true(
        model_make_folder(folder_path("m"), &o, &(model_make_folder_options){.n_part = 2}));
}

/* C039. */
static void the_index_decides(void **state)
{
    static const char index[] = "m/model.safetensors.index.json";
    checkpoint *s;
    kvt_err err;
    (void)state;
    make_parts();
    put("m/model.safetensors", "a stray file that nobody opens");
    CHECK_OK(checkpoint_open(&s, folder_path("m"), &err), &err);
    checkpoint_close(s);
    assert_int_equal(remove(folder_path("m/model-00002-of-00002.safetensors")), 0);
    fails("m", KVT_FORMAT, "part 'model-00002-of-00002.safetensors', which");
    make_parts();
    edit(index, "\"model.norm.weight\": \"model-00002", "\"model.norm.weight\": \"model-00001");
    fails("m", KVT_FORMAT,
          "tensor 'model.norm.weight' should be in 'model-00001-of-00002.safetensors', which "
          "lacks it");
    make_parts();
    edit(index, "\"model.norm.weight\"", "\"model.gone.weight\"");
    fails("m", KVT_FORMAT, "tensor 'model.gone.weight' should be in");
    make_parts();
    edit(index, "\"model.norm.weight\": \"model-00002-of-00002.safetensors\"",
         "\"model.layers.1.input_layernorm.weight2\": \"model-00002-of-00002.safetensors\"");
    fails("m", KVT_FORMAT, "should be in 'model-00002-of-00002.safetensors', which lacks it");
    static const char *const outside[] = {"../model-00001-of-00002.safetensors", "/etc/passwd",
                                          "a/b.safetensors", "", ".."};
    for (int i = 0; i < CHECK_COUNT(outside); i++) {
        make_parts();
        char by[128];
        snprintf(by, sizeof by, "\"model.norm.weight\": \"%s\"", outside[i]);
        edit(index, "\"model.norm.weight\": \"model-00002-of-00002.safetensors\"", by);
        fails("m", KVT_FORMAT, "is no name of a file in this folder");
    }
    make_parts();
    put(index, "{\"weight_map\": {}}");
    fails("m", KVT_FORMAT, "expected 1 to 4096 files, got 0");
    put(index, "{\"metadata\": {}}");
    fails("m", KVT_FORMAT, "expected an object weight_map");
    put(index, "{\"weight_map\": {\"a\": 1}}");
    fails("m", KVT_FORMAT, "weight_map: 'a': expected a file's name");
    folder_clear();
}

/* A part that has a tensor without the index. */
static void an_unlisted_tensor_is_named(void **state)
{
    (void)state;
    make_parts();
    edit("m/model.safetensors.index.json",
         "\"model.norm.weight\": \"model-00002-of-00002.safetensors\"",
         "\"model.layers.0.mlp.up_proj.weight\": \"model-00001-of-00002.safetensors\"");
    fails("m", KVT_FORMAT, "JSON"); /* the same key twice */
    make_parts();
    edit("m/model.safetensors.index.json",
         ",\n    \"model.norm.weight\": \"model-00002-of-00002.safetensors\"", "");
    fails("m", KVT_FORMAT, "holds tensor 'model.norm.weight', which is not listed there");
    folder_clear();
}

static void other_folders_are_named(void **state)
{
    static const struct {
        const char *file, *says;
    } each[] = {
        {"adapter_config.json", "holds an adapter (LoRA) only"},
        {"pytorch_model-00001-of-00002.bin", "holds pytorch_model.bin, which is not read"},
        {"pytorch_model.bin", "holds pytorch_model.bin, which is not read"},
        {"consolidated.00.pth", "holds consolidated.*, which is not read"},
        {"tiny.gguf", "holds GGUF files: give one of them"},
        {"README.md", "'model.safetensors' is missing"},
    };
    model_make_options o = model_make_of("llama");
    char name[128];
    kvt_err err;
    (void)state;
    for (int with_config = 0; with_config < 2; with_config++)
        for (int i = 0; i < CHECK_COUNT(each); i++) {
            folder_clear();
            assert_true(model_make_folder(folder_path("m"), &o, NULL));
            assert_int_equal(remove(folder_path("m/model.safetensors")), 0);
            if (!with_config)
                assert_int_equal(remove(folder_path("m/config.json")), 0);
            snprintf(name, sizeof name, "m/%s", each[i].file);
            put(name, "x");
            fails("m", KVT_FORMAT,
                  i == 5 && !with_config ? "'config.json' is missing" : each[i].says);
        }
    folder_clear();
    CHECK_OK(file_mkdirs(folder_path("m/snapshots/abc"), &err), &err);
    fails("m", KVT_FORMAT, "give the one inside, snapshots/...");
    folder_clear();
    checkpoint *s;
    CHECK_FAILS(checkpoint_open(&s, "Qwen/Qwen3-0.6B", &err), KVT_NOTFOUND,
                "models--Qwen--Qwen3-0.6B/snapshots/", &err);
    CHECK_FAILS(checkpoint_open(&s, folder_path("nothing.gguf"), &err), KVT_NOTFOUND,
                "nothing.gguf", &err);
}

/* Data may begin at any byte: one more space behind the header. */
static void an_odd_place_in_the_file_is_fine(void **state)
{
    model_make_options o = model_make_of("qwen2");
    kvt_weights *w[2];
    kvt_geometry g;
    kvt_err err;
    buf in, out;
    (void)state;
    o.type = QUANT_BF16;
    assert_true(model_make_folder(folder_path("m"), &o, NULL));
    load(&w[0], &g, folder_path("m"));
    buf_init(&in, LIMIT);
    buf_init(&out, LIMIT);
    CHECK_OK(file_read(&in, folder_path("m/model.safetensors"), LIMIT, &err), &err);
    uint64_t n = 0;
    memcpy(&n, in.data, sizeof n);
    size_t end = 8 + (size_t)n;
    n++;
    buf_add(&out, &n, sizeof n);
    buf_add(&out, in.data + 8, end - 8);
    buf_char(&out, ' ');
    buf_add(&out, in.data + end, in.n - end);
    CHECK_OK(file_write(folder_path("m/model.safetensors"), out.data, out.n, &err), &err);
    load(&w[1], &g, folder_path("m"));
    same_weights(w[0], w[1]);
    kvt_weights_free(w[0]);
    kvt_weights_free(w[1]);
    buf_fini(&in);
    buf_fini(&out);
    folder_clear();
}

static void a_tied_flag_and_an_output_matrix_are_one_fact(void **state)
{
    model_make_options o = model_make_of("qwen2");
    (void)state;
    assert_true(model_make_folder(folder_path("m"), &o, NULL));
    edit("m/config.json", "\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false");
    fails("m", KVT_FORMAT,
          "config.json says tie_word_embeddings false, but tensor 'lm_head.weight' is missing");
    o.tied = false;
    assert_true(model_make_folder(folder_path("m"), &o, NULL));
    edit("m/config.json", "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true");
    fails("m", KVT_FORMAT,
          "config.json says tie_word_embeddings true, but tensor 'lm_head.weight' is there");
    folder_clear();
}

static void weights_fail(const char *says)
{
    checkpoint *s;
    kvt_weights *w;
    kvt_err err;
    CHECK_OK(checkpoint_open(&s, folder_path("m"), &err), &err);
    CHECK_FAILS(kvt_weights_load(&w, s, NULL, NULL, &err), KVT_FORMAT, says, &err);
    checkpoint_close(s);
}

static void a_tensor_too_few_or_too_many_is_named(void **state)
{
    model_make_options o = model_make_of("gemma3");
    (void)state;
    o.drop = "blk.3.post_ffw_norm.weight";
    assert_true(model_make_folder(folder_path("m"), &o, NULL));
    weights_fail("tensor 'model.layers.3.post_feedforward_layernorm.weight' is missing");
    o = model_make_of("qwen2");
    assert_true(model_make_folder(folder_path("m"), &o, NULL));
    edit("m/config.json", "\"model_type\": \"qwen2\"", "\"model_type\": \"llama\"");
    weights_fail("tensor 'model.layers.0.self_attn.k_proj.bias' is not supported in "
                 "architecture llama");
    edit("m/config.json", "\"vocab_size\": 320", "\"vocab_size\": 319");
    weights_fail("tensor 'model.embed_tokens.weight': expected [319 48] (out, in), got 2 "
                 "dimensions [320 48]");
    folder_clear();
}

/* ---- memory --------------------------------------------------------------------------------
 */

static void no_memory_is_an_error(void **state)
{
    static const char *const path[] = {"m", "set-00002-of-00002.gguf"};
    model_make_options o = model_make_of("qwen3");
    (void)state;
    assert_true(
        model_make_folder(folder_path("m"), &o, &(model_make_folder_options){.n_part = 2}));
    make_set("set", &o, 2, 2, 0);
    for (int i = 0; i < 2; i++) {
        kvt_code code = KVT_NOMEM;
        checkpoint *s = NULL;
        kvt_weights *w = NULL;
        kvt_err err;
        int n = 0;
        while (code == KVT_NOMEM && n++ < 2000) {
            kvt_alloc_fail_at(n, false);
            code = checkpoint_open(&s, folder_path(path[i]), &err);
            if (!code)
                code = kvt_weights_load(&w, s, NULL, NULL, &err);
            kvt_alloc_fail_at(0, false);
            if (code)
                checkpoint_close(s);
        }
        CHECK_OK(code, &err);
        assert_true(n > 15);
        kvt_weights_free(w);
        checkpoint_close(s);
    }
    folder_clear();
}

/* A short path that is a word of the message does not name the model. */
static void an_error_names_the_model_once(void **state)
{
    static const struct {
        const char *path, *text, *says;
    } each[] = {
        {"m", "holds GGUF files: give one of them", "'m': holds GGUF files: give one of them"},
        {"model", "tensor 'model.norm.weight' is missing",
         "'model': tensor 'model.norm.weight' is missing"},
        {"model/", "'model/config.json': key 'a' is missing",
         "'model/config.json': key 'a' is missing"},
        {"a/m.gguf", "'a/m.gguf': truncated", "'a/m.gguf': truncated"},
        {"model", "'models/config.json': key 'a' is missing",
         "'model': 'models/config.json': key 'a' is missing"},
    };
    (void)state;
    for (int i = 0; i < CHECK_COUNT(each); i++) {
        kvt_err err;
        kvt_fail(&err, KVT_FORMAT, "%s", each[i].text);
        assert_int_equal(checkpoint_within(&err, each[i].path), KVT_FORMAT);
        assert_string_equal(err.text, each[i].says);
    }
}

int main(void)
{
    struct CMUnitTest tests[CHECK_COUNT(rows) + 11];
    int n = 0;
    folder_new();
    CHECK_ROWS(tests, &n, rows, a_folder_is_the_model_of_its_gguf_file);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(the_digest_is_that_of_values);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(any_part_opens_the_set);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(a_set_that_is_none_is_refused);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(the_index_decides);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(an_unlisted_tensor_is_named);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(other_folders_are_named);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(an_odd_place_in_the_file_is_fine);
    tests[n++] =
        (struct CMUnitTest)cmocka_unit_test(a_tied_flag_and_an_output_matrix_are_one_fact);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(a_tensor_too_few_or_too_many_is_named);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(an_error_names_the_model_once);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(no_memory_is_an_error);
    int failed = CHECK_RUN("checkpoint", tests, n);
    folder_end();
    return failed;
}
