/* test_gguf.c - what a right file gives: every value type, tensors in place; cut at every byte
 * it is truncated (C021); rare but right forms; no memory. */
#include "capture/gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "compute/quant.h"
#include "kvt/arena.h"
#include "tests/check.h"
#include "tests/gguf_make.h"

enum { LIMIT = 1 << 24 };

static const float eight[8] = {0, 1, 2, 3, 4, 5, 6, 7};

static void tensor(gguf_make *m, const char *name, uint64_t n)
{
    gguf_make_tensor(m, name, QUANT_F32, 1, &n, eight, n * sizeof *eight);
}

/* Two keys and two tensors: what each file starts from. */
static void begin(gguf_make *m)
{
    gguf_make_init(m);
    gguf_make_text(m, "general.architecture", "llama");
    gguf_make_int(m, "llama.block_count", GGUF_U32, 2);
}

/* Bytes in memory of exactly their size, so that the sanitizer sees a read past the end. */
static uint8_t *exact(const void *data, size_t n)
{
    uint8_t *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    if (n)
        memcpy(copy, data, n);
    return copy;
}

/* Keys of every type and two tensors; the last needs no padding. */
static void everything(gguf_make *m)
{
    static const char *const words[] = {"a", "", "ccc"};
    static const int32_t numbers[] = {-1, 0, 7};
    begin(m);
    gguf_make_int(m, "u8", GGUF_U8, 200);
    gguf_make_int(m, "i8", GGUF_I8, (uint64_t)-2);
    gguf_make_int(m, "u16", GGUF_U16, 60000);
    gguf_make_int(m, "i16", GGUF_I16, (uint64_t)-3);
    gguf_make_int(m, "u32", GGUF_U32, 4000000000U);
    gguf_make_int(m, "i32", GGUF_I32, (uint64_t)-4);
    gguf_make_f32(m, "f32", 0.5f);
    gguf_make_int(m, "bool", GGUF_BOOL, 1);
    gguf_make_text(m, "text", "word");
    gguf_make_int(m, "u64", GGUF_U64, UINT64_MAX);
    gguf_make_int(m, "i64", GGUF_I64, (uint64_t)INT64_MIN);
    gguf_make_f64(m, "f64", -0.1);
    gguf_make_texts(m, "texts", words, 3);
    gguf_make_i32s(m, "ints", numbers, 3);
    gguf_make_f32s(m, "reals", eight, 8);
    tensor(m, "one", 4);
    tensor(m, "two", 8);
}

static void every_cut_is_truncated(void **state)
{
    gguf_make m;
    buf all;
    kvt_err err;
    gguf *g;
    (void)state;
    everything(&m);
    buf_init(&all, LIMIT);
    gguf_make_bytes(&m, &all);
    for (size_t n = 0; n < all.n; n++) {
        uint8_t *copy = exact(all.data, n);
        if (gguf_read(&g, copy, n, &err) != KVT_FORMAT || !strstr(err.text, "truncated"))
            fail_msg("cut to %zu of %zu bytes: expected 'truncated'", n, all.n);
        free(copy);
    }
    /* C021 by file: the message has the path, the tensor and both numbers of bytes. */
    char path[] = KVT_BINARY_DIR "/test_gguf_cut.gguf", want[128];
    CHECK_OK(file_write(path, all.data, all.n - 1, &err), &err);
    CHECK_FAILS(gguf_open(&g, path, &err), KVT_FORMAT, path, &err);
    snprintf(want, sizeof want,
             "truncated: tensor 'two' needs 32 bytes from byte %zu, the file has"
             " %zu",
             all.n - 32, all.n - 1);
    assert_non_null(strstr(err.text, want));
    unlink(path);
    CHECK_FAILS(gguf_open(&g, path, &err), KVT_NOTFOUND, NULL, &err);
    buf_fini(&all);
    gguf_make_fini(&m);
}

static void values_are_read_by_type(void **state)
{
    gguf_make m;
    buf all;
    kvt_err err;
    gguf *g;
    gguf_text t;
    gguf_array a;
    int64_t i;
    double x;
    bool b;
    static const struct {
        const char *key;
        int64_t want;
    } ints[] = {{"u8", 200},         {"i8", -2},  {"u16", 60000},    {"i16", -3},
                {"u32", 4000000000}, {"i32", -4}, {"i64", INT64_MIN}};
    (void)state;
    everything(&m);
    buf_init(&all, LIMIT);
    gguf_make_bytes(&m, &all);
    CHECK_OK(gguf_read(&g, (const uint8_t *)all.data, all.n, &err), &err);
    assert_int_equal(gguf_version(g), 3);
    assert_int_equal(gguf_n_key(g), 17);
    for (size_t k = 0; k < sizeof ints / sizeof ints[0]; k++) {
        CHECK_OK(gguf_get_int(g, ints[k].key, &i, &err), &err);
        assert_true(i == ints[k].want);
    }
    CHECK_FAILS(gguf_get_int(g, "u64", &i, &err), KVT_FORMAT, "got 18446744073709551615", &err);
    CHECK_FAILS(gguf_get_int(g, "f32", &i, &err), KVT_FORMAT,
                "key 'f32': expected an integer, got f32", &err);
    CHECK_FAILS(gguf_get_int(g, "nowhere", &i, &err), KVT_NOTFOUND, "key 'nowhere' is missing",
                &err);
    CHECK_OK(gguf_get_real(g, "f32", &x, &err), &err);
    assert_true(x == 0.5);
    CHECK_OK(gguf_get_real(g, "f64", &x, &err), &err);
    assert_true(x == -0.1);
    CHECK_OK(gguf_get_real(g, "i8", &x, &err), &err);
    assert_true(x == -2);
    CHECK_OK(gguf_get_bool(g, "bool", &b, &err), &err);
    assert_true(b);
    CHECK_OK(gguf_get_text(g, "text", &t, &err), &err);
    assert_true(gguf_text_is(t, "word") && !gguf_text_is(t, "wor") &&
                !gguf_text_is(t, "words"));
    CHECK_OK(gguf_get_texts(g, "texts", &a, &err), &err);
    assert_true(a.n == 3 && gguf_text_is(a.text[0], "a") && gguf_text_is(a.text[1], "") &&
                gguf_text_is(a.text[2], "ccc"));
    CHECK_OK(gguf_get_ints(g, "ints", &a, &err), &err);
    assert_true(a.n == 3 && gguf_int_at(&a, 0) == -1 && gguf_int_at(&a, 2) == 7);
    CHECK_OK(gguf_get_reals(g, "reals", &a, &err), &err);
    assert_true(a.n == 8 && gguf_real_at(&a, 5) == 5);
    CHECK_FAILS(gguf_get_ints(g, "texts", &a, &err), KVT_FORMAT,
                "expected an array of integers, got an array of text", &err);
    const gguf_tensor *two = gguf_find(g, "two");
    assert_non_null(two);
    assert_null(gguf_find(g, "tw"));
    assert_true(two->n_dim == 1 && two->dim[0] == 8 && two->dim[1] == 1 && two->n_byte == 32);
    assert_memory_equal(two->data, eight, sizeof eight);
    size_t n = 0;
    assert_true(gguf_n_part(g) == 1 && gguf_part_bytes(g, 0, &n) == (uint8_t *)all.data);
    assert_true(n == all.n && gguf_n_byte(g) == (int64_t)all.n && !gguf_is_mapped(g));
    gguf_close(g);
    buf_fini(&all);
    gguf_make_fini(&m);
}

/* C023: 0 to 4 dimensions are fine; version 2 and another alignment, too. */
static void rare_but_right_files_are_read(void **state)
{
    gguf_make m;
    buf all;
    kvt_err err;
    gguf *g;
    static const uint64_t dim[4] = {2, 1, 2, 2};
    (void)state;
    begin(&m);
    m.version = 2;
    m.alignment = 256;
    gguf_make_int(&m, "general.alignment", GGUF_U32, 256);
    gguf_make_tensor(&m, "none", QUANT_F32, 0, dim, eight, 4);
    gguf_make_tensor(&m, "four", QUANT_F32, 4, dim, eight, 32);
    buf_init(&all, LIMIT);
    gguf_make_bytes(&m, &all);
    CHECK_OK(gguf_read(&g, (const uint8_t *)all.data, all.n, &err), &err);
    assert_int_equal(gguf_find(g, "none")->n_weight, 1);
    assert_int_equal(gguf_find(g, "four")->n_weight, 8);
    assert_memory_equal(gguf_find(g, "four")->data, eight, sizeof eight);
    assert_true((gguf_find(g, "four")->data - (const uint8_t *)all.data) % 256 == 0);
    gguf_close(g);
    buf_fini(&all);
    gguf_make_fini(&m);
}

static void other_files_are_told_apart(void **state)
{
    kvt_err err;
    gguf *g;
    (void)state;
    CHECK_FAILS(gguf_read(&g, (const uint8_t *)"GGML\3\0\0\0", 8, &err), KVT_FORMAT,
                "no GGUF file: it begins with 47 47 4d 4c", &err);
    CHECK_FAILS(gguf_read(&g, (const uint8_t *)"P", 1, &err), KVT_FORMAT, "no GGUF file", &err);
    CHECK_FAILS(gguf_read(&g, NULL, 0, &err), KVT_FORMAT, "truncated: magic", &err);
}

static void no_memory_is_an_error(void **state)
{
    gguf_make m;
    buf all;
    kvt_err err;
    gguf *g = NULL;
    kvt_code code = KVT_NOMEM;
    (void)state;
    everything(&m);
    buf_init(&all, LIMIT);
    gguf_make_bytes(&m, &all);
    int n = 0;
    while (code == KVT_NOMEM && n++ < 100) {
        kvt_alloc_fail_at(n, false);
        code = gguf_read(&g, (const uint8_t *)all.data, all.n, &err);
    }
    kvt_alloc_fail_at(0, false);
    CHECK_OK(code, &err);
    assert_true(n > 5); /* the object, keys, names, an array of texts, tensors, names */
    gguf_close(g);
    buf_fini(&all);
    gguf_make_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cut_is_truncated),
        cmocka_unit_test(values_are_read_by_type),
        cmocka_unit_test(rare_but_right_files_are_read),
        cmocka_unit_test(other_files_are_told_apart),
        cmocka_unit_test(no_memory_is_an_error),
    };
    return cmocka_run_group_tests_name("gguf", tests, NULL, NULL);
}
