/* test_smollm2.c - the first model's real file against what the gguf package reads from it:
 * keys, values, types, places and every dequantised tensor, q and k in Hugging Face's order,
 * and its geometry. tests/golden/smollm2.py says how smollm2.txt was made and
 * what a line is. The model comes from KVT_MODEL or the user's cache; without it the test is
 * skipped. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "capture/weights.h"
#include "compute/quant.h"
#include "kvt/arena.h"
#include "tests/check.h"
#include "tests/model_load.h"

enum { LIMIT = 1 << 20 };

static const char *model_path(char out[1024])
{
    const char *given = getenv("KVT_MODEL"), *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    if (given)
        snprintf(out, 1024, "%s", given);
    else if (cache && *cache)
        snprintf(out, 1024, "%s/kvt/models/smollm2.gguf", cache);
    else
        snprintf(out, 1024, "%s/.cache/kvt/models/smollm2.gguf", home ? home : ".");
    return out;
}

/* An array's elements as smollm2.py digests them. */
static void digest_array(const gguf_array *a, char out[DIGEST_TEXT])
{
    digest *d = digest_new();
    assert_non_null(d);
    if (a->type == GGUF_TEXT) {
        for (int64_t i = 0; i < a->n; i++) {
            digest_add(d, a->text[i].s, a->text[i].n);
            digest_add(d, "", 1);
        }
    } else {
        digest_add(d, a->data, (size_t)a->n * 4); /* i32 or f32 */
    }
    digest_get(d, out);
    digest_free(d);
}

static void check_key(const gguf *g, const char *name, const char *type, char *rest)
{
    kvt_err err;
    char seen[DIGEST_TEXT];
    gguf_text text;
    gguf_array array;
    int64_t whole;
    double real;
    bool flag;
    if (strcmp(type, "array") == 0) {
        char of[16];
        long long n;
        char want[DIGEST_TEXT];
        assert_int_equal(sscanf(rest, "%15s %lld %32s", of, &n, want), 3);
        CHECK_OK(gguf_get_array(g, name, &array, &err), &err);
        assert_int_equal(array.n, n);
        assert_true((array.type == GGUF_TEXT) == (strcmp(of, "text") == 0));
        digest_array(&array, seen);
        assert_string_equal(seen, want);
    } else if (strcmp(type, "text") == 0) {
        CHECK_OK(gguf_get_text(g, name, &text, &err), &err);
        digest_of(text.s, text.n, seen);
        assert_string_equal(seen, rest);
    } else if (strcmp(type, "f32") == 0) {
        CHECK_OK(gguf_get_real(g, name, &real, &err), &err);
        assert_true(real == strtod(rest, NULL));
    } else if (strcmp(type, "bool") == 0) {
        CHECK_OK(gguf_get_bool(g, name, &flag, &err), &err);
        assert_int_equal(flag, atoll(rest));
    } else {
        CHECK_OK(gguf_get_int(g, name, &whole, &err), &err);
        assert_int_equal(whole, atoll(rest));
    }
}

/* *first: the first tensor's offset, which the others' places are compared with. */
static void check_tensor(const gguf *g, const char *name, const char *type, char *rest,
                         long long *first)
{
    const gguf_tensor *t = gguf_find(g, name);
    char seen[DIGEST_TEXT], *end, *space;
    if (!t)
        fail_msg("tensor '%s' is missing", name);
    assert_string_equal(quant_find(t->type)->name, type);
    long long offset = strtoll(rest, &end, 10);
    for (int i = 0; i < t->n_dim; i++)
        assert_int_equal(strtoll(end, &end, 10), t->dim[i]);
    space = strrchr(end, ' ');
    assert_non_null(space);
    assert_ptr_equal(space, end);
    if (t == gguf_tensor_at(g, 0))
        *first = offset;
    assert_int_equal(t->data - gguf_tensor_at(g, 0)->data, offset - *first);
    float *x = kvt_alloc(t->n_weight, sizeof *x);
    assert_non_null(x);
    quant_decode(x, t->type, t->data, t->n_weight);
    digest_of(x, (size_t)t->n_weight * sizeof *x, seen);
    if (strcmp(seen, space + 1) != 0)
        fail_msg("'%s' differs from the gguf package's", name);
    kvt_free(x);
}

static void check_rows(const kvt_weights *w, const char *name, const char *want)
{
    char seen[DIGEST_TEXT], part[16];
    int l;
    assert_int_equal(sscanf(name, "blk.%d.%15[a-z_]", &l, part), 2);
    const float *x = strcmp(part, "attn_q") == 0 ? matrix_floats(&w->layer[l].wq)
                                                 : matrix_floats(&w->layer[l].wk);
    int64_t rows = strcmp(part, "attn_q") == 0 ? 9 * 64 : 3 * 64;
    digest_of(x, (size_t)rows * 576 * sizeof *x, seen);
    if (strcmp(seen, want) != 0)
        fail_msg("rows of '%s' are not in Hugging Face's order", name);
}

static void the_real_file_is_read_as_gguf_reads_it(void **state)
{
    kvt_err err;
    gguf *g;
    kvt_weights *w;
    buf golden;
    char path[1024], kind[16], name[128], type[16];
    int n_key = 0, n_tensor = 0, n_rows = 0;
    long long first = 0;
    (void)state;
    CHECK_OK(gguf_open(&g, model_path(path), &err), &err);
    CHECK_OK(load_gguf(&w, g, &(kvt_weights_options){.f32 = true}, NULL, &err), &err);
    buf_init(&golden, LIMIT);
    CHECK_OK(file_read(&golden, KVT_SOURCE_DIR "/tests/golden/smollm2.txt", LIMIT, &err), &err);
    for (char *line = golden.data, *end; (end = strchr(line, '\n')); line = end + 1) {
        int at = 0;
        *end = 0;
        assert_true(sscanf(line, "%15s %127s %15s %n", kind, name, type, &at) >= 2);
        if (strcmp(kind, "file") == 0)
            assert_string_equal(w->digest, name);
        else if (strcmp(kind, "key") == 0 && ++n_key)
            check_key(g, name, type, line + at);
        else if (strcmp(kind, "tensor") == 0 && ++n_tensor)
            check_tensor(g, name, type, line + at, &first);
        else if (++n_rows)
            check_rows(w, name, strrchr(line, ' ') + 1);
    }
    assert_true(n_key == 33 && n_tensor == 272 && n_rows == 60);
    assert_true(gguf_n_key(g) == 33 && gguf_n_tensor(g) == 272);
    assert_string_equal(w->types, "Q4_1 210, F32 61, Q8_0 1");
    const kvt_geometry *o = &w->geometry;
    assert_true(o->n_layer == 30 && o->n_hidden == 576 && o->n_head == 9 && o->n_kv_head == 3);
    assert_true(o->head_dim == 64 && o->n_ff == 1536 && o->n_vocab == 49152 && o->tied == 1);
    assert_true(o->n_context == 8192 && o->rope_theta == 100000 &&
                o->norm_eps == (double)1e-5f);
    assert_true(w->n_weight == 134515008); /* 134.5 M, as transformers counts them */
    print_message("loaded %" PRId64 " bytes in %.3f s\n", w->bytes, w->seconds);
    kvt_weights_free(w);
    gguf_close(g);
    buf_fini(&golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_real_file_is_read_as_gguf_reads_it),
    };
    char path[1024];
    if (!file_exists(model_path(path))) {
        printf("skipped: no model at '%s'; set KVT_MODEL or run scripts/fetch-model smollm2\n",
               path);
        return CHECK_SKIP;
    }
    return cmocka_run_group_tests_name("smollm2", tests, NULL, NULL);
}
