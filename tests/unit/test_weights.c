/* test_weights.c - tiny llama files become the matrices that were written: rows of q and k in
 * Hugging Face's order (C029), tied and untied, quantised, on any number of threads; what is
 * missing or of a wrong shape is named. */
#include "capture/weights.h"

#include <stdio.h>
#include <stdlib.h>

#include "compute/quant.h"
#include "kvt/arena.h"
#include "tests/check.h"
#include "tests/model_load.h"
#include "tests/model_make.h"

enum { LIMIT = 1 << 26 };

typedef struct model {
    gguf_make m;
    buf bytes;
    gguf *g;
} model;

static void model_init(model *t, const model_make_options *o, void (*more)(gguf_make *m))
{
    kvt_err err;
    gguf_make_init(&t->m);
    model_make_into(&t->m, o);
    if (more)
        more(&t->m);
    buf_init(&t->bytes, LIMIT);
    gguf_make_bytes(&t->m, &t->bytes);
    CHECK_OK(gguf_read(&t->g, (const uint8_t *)t->bytes.data, t->bytes.n, &err), &err);
}

static void model_fini(model *t)
{
    gguf_close(t->g);
    buf_fini(&t->bytes);
    gguf_make_fini(&t->m);
}

/* The tensor's rows as the file has them, decoded by the definition. */
static float *rows_of(const gguf *g, const char *name, int64_t *n_row, int64_t *n_col)
{
    const gguf_tensor *t = gguf_find(g, name);
    if (!t)
        fail_msg("no tensor '%s'", name);
    float *x = malloc((size_t)t->n_weight * sizeof *x);
    assert_non_null(x);
    quant_decode_plain(x, t->type, t->data, t->n_weight);
    *n_row = t->dim[1];
    *n_col = t->dim[0];
    return x;
}

static void same_rows(const gguf *g, const char *name, const float *got)
{
    int64_t n_row, n_col;
    float *want = rows_of(g, name, &n_row, &n_col);
    if (memcmp(want, got, (size_t)(n_row * n_col) * sizeof *want) != 0)
        fail_msg("'%s' is not what the file holds", name);
    free(want);
}

/* Row s D/2 + i of each head is the file's row 2i + s. */
static void same_halves(const gguf *g, const char *name, const float *got, int d)
{
    int64_t n_row, n_col;
    float *want = rows_of(g, name, &n_row, &n_col);
    for (int64_t h = 0; h < n_row / d; h++)
        for (int64_t i = 0; i < d / 2; i++)
            for (int64_t s = 0; s < 2; s++)
                if (memcmp(got + (h * d + s * d / 2 + i) * n_col,
                           want + (h * d + 2 * i + s) * n_col,
                           (size_t)n_col * sizeof *want) != 0)
                    fail_msg("'%s': head %d, pair %d, part %d", name, (int)h, (int)i, (int)s);
    free(want);
}

static const struct row {
    const char *name;
    int n_head, n_kv_head, head_dim, n_hidden, type;
    bool tied;
} rows[] = {
    {"grouped 4 on 2", 4, 2, 12, 48, QUANT_F32, true},
    {"each head its own", 4, 4, 12, 48, QUANT_F32, false},
    {"grouped 8 on 1", 8, 1, 8, 64, QUANT_F16, true},
    {"grouped 14 on 2", 14, 2, 16, 96, QUANT_F32, false},
    {"Q4_0", 4, 2, 16, 64, QUANT_Q4_0, true},
    {"Q8_0", 9, 3, 64, 64, QUANT_Q8_0, false},
};

static void weights_are_those_of_the_file(void **state)
{
    const struct row *r = *state;
    model_make_options o = model_make_defaults();
    model t;
    kvt_err err;
    kvt_weights *w, *plan;
    o.n_head = r->n_head;
    o.n_kv_head = r->n_kv_head;
    o.head_dim = r->head_dim;
    o.n_hidden = r->n_hidden;
    o.type = r->type;
    o.tied = r->tied;
    model_init(&t, &o, NULL);
    CHECK_OK(load_gguf(&w, t.g, &(kvt_weights_options){.f32 = true}, NULL, &err), &err);
    CHECK_OK(load_gguf(&plan, t.g, &(kvt_weights_options){.header_only = true, .f32 = true},
                       NULL, &err),
             &err);
    for (int l = 0; l < o.n_layer; l++) {
        const kvt_weights_layer *y = &w->layer[l];
        const struct {
            const char *name;
            const float *got;
        } plain[] = {{"attn_norm", y->attn_norm},
                     {"attn_v", matrix_floats(&y->wv)},
                     {"attn_output", matrix_floats(&y->wo)},
                     {"ffn_norm", y->ffn_norm},
                     {"ffn_gate", matrix_floats(&y->gate)},
                     {"ffn_up", matrix_floats(&y->up)},
                     {"ffn_down", matrix_floats(&y->down)}};
        char name[64];
        for (int i = 0; i < CHECK_COUNT(plain); i++) {
            snprintf(name, sizeof name, "blk.%d.%s.weight", l, plain[i].name);
            same_rows(t.g, name, plain[i].got);
            assert_int_equal((uintptr_t)plain[i].got % 64, 0);
        }
        snprintf(name, sizeof name, "blk.%d.attn_q.weight", l);
        same_halves(t.g, name, matrix_floats(&y->wq), o.head_dim);
        snprintf(name, sizeof name, "blk.%d.attn_k.weight", l);
        same_halves(t.g, name, matrix_floats(&y->wk), o.head_dim);
    }
    same_rows(t.g, "token_embd.weight", matrix_floats(&w->embed));
    same_rows(t.g, "output_norm.weight", w->out_norm);
    if (r->tied)
        assert_ptr_equal(matrix_floats(&w->lm_head), matrix_floats(&w->embed));
    else
        same_rows(t.g, "output.weight", matrix_floats(&w->lm_head));
    /* E V (twice untied) + E + L (2 E + 2 E HD + 2 E GD + 3 E F) */
    int64_t e = o.n_hidden, q = o.n_head * o.head_dim, k = o.n_kv_head * o.head_dim;
    int64_t n = e * o.n_vocab * (r->tied ? 1 : 2) + e +
                o.n_layer * (2 * e + 2 * e * q + 2 * e * k + 3 * e * o.n_ff);
    assert_int_equal(w->n_weight, n);
    assert_true(w->bytes >= 4 * n && w->bytes < 4 * n + 64 * 64);
    assert_true(plan->bytes == w->bytes && plan->n_weight == n);
    assert_int_equal(plan->layer[0].down.type, w->layer[0].down.type);
    assert_true(!plan->layer[0].down.data && !plan->layer[0].attn_norm && !plan->embed.data);
    assert_true(plan->embed.data == NULL && plan->file_bytes == w->file_bytes);
    assert_string_equal(plan->types, w->types);
    assert_string_equal(plan->digest, "");
    char seen[DIGEST_TEXT];
    digest_of(t.bytes.data, t.bytes.n, seen);
    assert_string_equal(w->digest, seen);
    kvt_weights_free(w);
    kvt_weights_free(plan);
    model_fini(&t);
}

/* Without f32: the same values, in the file's type and no more bytes than that takes. */
static void types_are_those_of_the_file(void **state)
{
    const struct row *r = *state;
    model_make_options o = model_make_defaults();
    char seen[2][DIGEST_TEXT];
    model t;
    kvt_err err;
    kvt_weights *w[2], *plan;
    o.n_head = r->n_head;
    o.n_kv_head = r->n_kv_head;
    o.head_dim = r->head_dim;
    o.n_hidden = r->n_hidden;
    o.type = r->type;
    o.tied = r->tied;
    model_init(&t, &o, NULL);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(load_gguf(&w[i], t.g, &(kvt_weights_options){.f32 = i == 1}, NULL, &err),
                 &err);
        CHECK_OK(kvt_weights_digest(w[i], seen[i], NULL, &err), &err);
    }
    CHECK_OK(load_gguf(&plan, t.g, &(kvt_weights_options){.header_only = true}, NULL, &err),
             &err);
    assert_string_equal(seen[0], seen[1]);
    assert_true(plan->bytes == w[0]->bytes);
    assert_int_equal(plan->layer[0].wq.type, w[0]->layer[0].wq.type);
    assert_null(plan->layer[0].wq.data);
    assert_true(w[0]->bytes >= w[0]->file_bytes && w[0]->bytes < w[0]->file_bytes + 64 * 64);
    const kvt_matrix *m[] = {&w[0]->embed, &w[0]->lm_head, &w[0]->layer[0].wq,
                             &w[0]->layer[1].wk, &w[0]->layer[1].down};
    const kvt_matrix *f[] = {&w[1]->embed, &w[1]->lm_head, &w[1]->layer[0].wq,
                             &w[1]->layer[1].wk, &w[1]->layer[1].down};
    for (int i = 0; i < CHECK_COUNT(m); i++) {
        float *x = calloc((size_t)(m[i]->n_row * m[i]->n_col), sizeof *x);
        assert_non_null(x);
        assert_int_equal(m[i]->type, r->type);
        assert_int_equal((uintptr_t)m[i]->data % 64, 0);
        const float *got = matrix_rows(m[i], 0, m[i]->n_row, x);
        assert_memory_equal(got, matrix_floats(f[i]),
                            (size_t)(m[i]->n_row * m[i]->n_col) * sizeof *x);
        free(x);
    }
    kvt_weights_free(w[0]);
    kvt_weights_free(w[1]);
    kvt_weights_free(plan);
    model_fini(&t);
}

static void threads_change_nothing(void **state)
{
    model_make_options o = model_make_defaults();
    char seen[3][DIGEST_TEXT];
    static const int threads[] = {1, 2, 8};
    model t;
    kvt_err err;
    (void)state;
    o.n_hidden = 256; /* several steps a matrix */
    o.n_ff = 1024;
    o.head_dim = 16;
    o.type = QUANT_Q8_0;
    model_init(&t, &o, NULL);
    for (int i = 0; i < 3; i++) {
        kvt_ctx ctx = {.n_thread = threads[i]};
        kvt_weights *w;
        CHECK_OK(load_gguf(&w, t.g, NULL, &ctx, &err), &err);
        CHECK_OK(kvt_weights_digest(w, seen[i], &ctx, &err), &err);
        kvt_weights_free(w);
    }
    assert_string_equal(seen[0], seen[1]);
    assert_string_equal(seen[0], seen[2]);
    model_fini(&t);
}

static void extra(gguf_make *m, const char *name)
{
    const float zero[48] = {0};
    const uint64_t dim = 48;
    gguf_make_tensor(m, name, QUANT_F32, 1, &dim, zero, sizeof zero);
}

static void bias(gguf_make *m)
{
    extra(m, "blk.0.attn_q.bias");
}
static void fused(gguf_make *m)
{
    extra(m, "blk.0.attn_qkv.weight");
}
static void stranger(gguf_make *m)
{
    extra(m, "blk.1.ffn_gate_inp.weight");
}
static void short_norm(gguf_make *m) /* in place of the one left out */
{
    const float zero[8] = {0};
    const uint64_t dim = 8;
    gguf_make_tensor(m, "blk.1.ffn_norm.weight", QUANT_F32, 1, &dim, zero, sizeof zero);
}
static void turned(gguf_make *m)
{
    float *zero = calloc(48 * 24, sizeof *zero);
    const uint64_t dim[2] = {24, 48};
    assert_non_null(zero);
    gguf_make_tensor(m, "blk.0.attn_k.weight", QUANT_F32, 2, dim, zero, 48 * 24 * sizeof *zero);
    free(zero);
}

static void few_rows(gguf_make *m)
{
    const float zero[12 * 48] = {0};
    const uint64_t dim[2] = {48, 12};
    gguf_make_tensor(m, "blk.0.attn_k.weight", QUANT_F32, 2, dim, zero, sizeof zero);
}

static const struct defect {
    const char *name;
    const char *drop;
    void (*more)(gguf_make *m);
    const char *says;
} defects[] = {
    {"no v", "blk.1.attn_v.weight", NULL, "tensor 'blk.1.attn_v.weight' is missing"},
    {"no norm", "output_norm.weight", NULL, "tensor 'output_norm.weight' is missing"},
    {"no embedding", "token_embd.weight", NULL, "tensor 'token_embd.weight' is missing"},
    {"short norm", "blk.1.ffn_norm.weight", short_norm,
     "tensor 'blk.1.ffn_norm.weight': expected [48], got 1 dimensions [1 8]"},
    {"turned k", "blk.0.attn_k.weight", turned,
     "tensor 'blk.0.attn_k.weight': expected [24 48] (out, in), got 2 dimensions [48 24]"},
    {"half of k", "blk.0.attn_k.weight", few_rows,
     "tensor 'blk.0.attn_k.weight': expected [24 48] (out, in), got 2 dimensions [12 48]"},
    {"bias", NULL, bias, "tensor 'blk.0.attn_q.bias' is not supported in architecture llama"},
    {"fused q, k, v", "blk.0.attn_q.weight", fused,
     "tensor 'blk.0.attn_qkv.weight': fused q, k and v"},
    {"fused beside q, k, v", NULL, fused,
     "tensor 'blk.0.attn_qkv.weight' is not supported in architecture llama: q, k and v must"},
    {"router", NULL, stranger, "tensor 'blk.1.ffn_gate_inp.weight' is not supported"},
};

static void defect_is_named(void **state)
{
    const struct defect *d = *state;
    model_make_options o = model_make_defaults();
    model t;
    kvt_err err;
    kvt_weights *w;
    o.drop = d->drop;
    model_init(&t, &o, d->more);
    for (int header_only = 0; header_only < 2; header_only++) {
        CHECK_FAILS(
            load_gguf(&w, t.g, &(kvt_weights_options){.header_only = header_only}, NULL, &err),
            KVT_FORMAT, d->says, &err);
        assert_null(w);
        assert_null(strstr(err.text, "truncated"));
    }
    model_fini(&t);
}

static bool refuse_to_go_on(void *user, const char *what, int64_t done, int64_t total)
{
    (void)what, (void)total;
    *(int64_t *)user = done;
    return done < 4;
}

static void loading_can_be_stopped(void **state)
{
    model_make_options o = model_make_defaults();
    model t;
    kvt_err err;
    kvt_weights *w;
    int64_t done = 0;
    kvt_ctx ctx = {.progress = refuse_to_go_on, .user = &done};
    (void)state;
    model_init(&t, &o, NULL);
    CHECK_FAILS(load_gguf(&w, t.g, NULL, &ctx, &err), KVT_STOPPED, NULL, &err);
    assert_true(w == NULL && done == 4);
    model_fini(&t);
}

static void no_memory_is_an_error(void **state)
{
    model_make_options o = model_make_defaults();
    model t;
    kvt_err err;
    kvt_weights *w = NULL;
    kvt_code code = KVT_NOMEM;
    int n = 0;
    (void)state;
    model_init(&t, &o, NULL);
    while (code == KVT_NOMEM && n++ < 100) {
        kvt_alloc_fail_at(n, false);
        code = load_gguf(&w, t.g, NULL, NULL, &err);
    }
    kvt_alloc_fail_at(0, false);
    CHECK_OK(code, &err);
    assert_true(n > 4); /* the object, layers, parts, the block */
    kvt_weights_free(w);
    model_fini(&t);
}

int main(void)
{
    struct CMUnitTest tests[2 * CHECK_COUNT(rows) + CHECK_COUNT(defects) + 3];
    int n = 0;
    CHECK_ROWS(tests, &n, rows, weights_are_those_of_the_file);
    CHECK_ROWS(tests, &n, rows, types_are_those_of_the_file);
    CHECK_ROWS(tests, &n, defects, defect_is_named);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(threads_change_nothing);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(loading_can_be_stopped);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(no_memory_is_an_error);
    return CHECK_RUN("weights", tests, n);
}
