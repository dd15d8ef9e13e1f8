/* test_tensors.c - safetensors files: there and back, and every rule of the format broken in
 * turn. */
#include "tests/check.h"
#include "tests/folder.h"

#include "base/file.h"
#include "traces/tensors.h"

#include <math.h>
#include <stdio.h>

static kvt_err err;

/* ---- there and back ------------------------------------------------------------------------
 */

static const float six[] = {0, 1, -2.5f, 0x1p-20f, 1e4f, 0.1f};

static void there_and_back(void **state)
{
    (void)state;
    const char *path = folder_path("a.safetensors");
    const tensor list[] = {
        {.name = "z", .dtype = KVT_F32, .rank = 2, .dim = {2, 3}, .data = six},
        {.name = "half \"quoted\"", .dtype = KVT_F16, .rank = 1, .dim = {6}, .data = six},
        {.name = "one", .dtype = KVT_F32, .rank = 0, .data = six + 2},
        {.name = "none", .dtype = KVT_F32, .rank = 2, .dim = {0, 4}, .data = six},
    };
    const tensor_meta meta[] = {{"format", "kvt"}, {"note", "a \"b\"\n"}};
    tensors *t;
    float x[6];
    CHECK_OK(tensors_write(path, list, 4, meta, 2, false, &err), &err);
    CHECK_FAILS(tensors_write(path, list, 4, meta, 2, false, &err), KVT_IO,
                "is there already; --force replaces it", &err);
    CHECK_OK(tensors_write(path, list, 4, meta, 2, true, &err), &err);
    CHECK_OK(tensors_open(&t, path, &err), &err);
    assert_int_equal(tensors_count(t), 4);
    assert_string_equal(tensors_meta(t, "format"), "kvt");
    assert_string_equal(tensors_meta(t, "note"), "a \"b\"\n");
    assert_null(tensors_meta(t, "other"));
    assert_null(tensors_find(t, "other"));
    assert_null(tensors_at(t, -1));
    assert_null(tensors_at(t, 4));
    for (int i = 1; i < 4; i++) /* by place, which is by name */
        assert_true(strcmp(tensors_at(t, i - 1)->name, tensors_at(t, i)->name) < 0);
    const tensor *z = tensors_find(t, "z");
    assert_int_equal(z->rank, 2);
    assert_int_equal(z->dim[1], 3);
    CHECK_OK(tensors_floats(z, x, 6, &err), &err);
    assert_memory_equal(x, six, sizeof six);
    CHECK_OK(tensors_floats(tensors_find(t, "one"), x, 1, &err), &err);
    assert_true(x[0] == -2.5f);
    CHECK_OK(tensors_floats(tensors_find(t, "none"), x, 0, &err), &err);
    CHECK_OK(tensors_floats(tensors_find(t, "half \"quoted\""), x, 6, &err), &err);
    for (int i = 0; i < 6; i++)
        CHECK_NEAR((double)x[i], (double)six[i], fabs((double)six[i]) * 0x1p-11 + 0x1p-25);
    CHECK_FAILS(tensors_floats(z, x, 5, &err), KVT_FORMAT, "'z': expected 5 values, got 6",
                &err);
    tensors_close(t);
}

static void what_is_not_written(void **state)
{
    (void)state;
    const float bad[] = {1, NAN, 2}, large[] = {1e6f}, far[] = {INFINITY};
    const char *path = folder_path("b.safetensors");
    tensor t[2] = {{.name = "a", .dtype = KVT_F32, .rank = 1, .dim = {3}, .data = bad},
                   {.name = "a", .dtype = KVT_F32, .rank = 1, .dim = {1}, .data = six}};
    CHECK_FAILS(tensors_write(path, t, 1, NULL, 0, true, &err), KVT_FORMAT,
                "'a', element 1: NaN", &err);
    t[0] = (tensor){.name = "a", .dtype = KVT_F32, .rank = 1, .dim = {1}, .data = far};
    CHECK_FAILS(tensors_write(path, t, 1, NULL, 0, true, &err), KVT_FORMAT,
                "'a', element 0: infinity", &err);
    t[0] = (tensor){.name = "a", .dtype = KVT_F16, .rank = 1, .dim = {1}, .data = large};
    CHECK_FAILS(tensors_write(path, t, 1, NULL, 0, true, &err), KVT_FORMAT,
                "'a', element 0: does not fit a half", &err);
    t[0].dtype = KVT_I32;
    CHECK_FAILS(tensors_write(path, t, 1, NULL, 0, true, &err), KVT_FORMAT,
                "'a': expected f32 or f16, got i32", &err);
    t[0] = t[1];
    CHECK_FAILS(tensors_write(path, t, 2, NULL, 0, true, &err), KVT_FORMAT, "'a': given twice",
                &err);
    t[0].dim[0] = -1;
    CHECK_FAILS(tensors_write(path, t, 1, NULL, 0, true, &err), KVT_FORMAT,
                "'a': its shape is out of range", &err);
    snprintf(t[1].name, sizeof t[1].name, "__metadata__");
    CHECK_FAILS(tensors_write(path, t + 1, 1, NULL, 0, true, &err), KVT_FORMAT,
                "its name is out of range", &err);
    assert_int_equal(access(path, F_OK), -1);
}

/* ---- files of another hand -----------------------------------------------------------------
 */

/* A header, n bytes behind it: 1.5 as f32 again and again. */
static void put(const char *path, const char *header, size_t n_data)
{
    uint8_t bytes[4096] = {0};
    const float x = 1.5f;
    size_t n = strlen(header);
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)((uint64_t)n >> 8 * i);
    memcpy(bytes + 8, header, n);
    for (size_t i = 0; i < n_data; i++)
        bytes[8 + n + i] = ((const uint8_t *)&x)[i % 4];
    CHECK_OK(file_write(path, bytes, 8 + n + n_data, &err), &err);
}

static const struct rule {
    const char *name, *header;
    size_t n_data;
    const char *part; /* NULL: it is taken */
} rules[] = {
    {"spaces behind the header",
     "{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}   ", 4, NULL},
    {"no tensor at all", "{}", 0, NULL},
    {"any order in the header",
     "{\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]},"
     "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
     8, NULL},
    {"an empty tensor between two",
     "{\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]},"
     "\"e\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[4,4]},"
     "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
     8, NULL},
    {"a space in front", " {}", 0, "does not begin with '{'"},
    {"an array", "[]", 0, "does not begin with '{'"},
    {"no header", "", 0, "does not begin with '{'"},
    {"no JSON", "{\"a\":", 0, "header: "},
    {"text behind it", "{}x", 0, "header: "},
    {"a name twice",
     "{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
     "\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}",
     4, "header: "},
    {"an unknown type", "{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[4],\"data_offsets\":[0,4]}}",
     4, "tensor 'a': dtype: F8_E4M3 is not supported"},
    {"no type", "{\"a\":{\"shape\":[4],\"data_offsets\":[0,4]}}", 4, "tensor 'a': "},
    {"an unknown member",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4],\"more\":1}}", 4,
     "tensor 'a': unknown member 'more'"},
    {"no object", "{\"a\":4}", 0, "tensor 'a': expected an object"},
    {"a negative extent", "{\"a\":{\"dtype\":\"U8\",\"shape\":[-4],\"data_offsets\":[0,4]}}", 4,
     "shape[0]: expected a whole number from 0"},
    {"a real extent", "{\"a\":{\"dtype\":\"U8\",\"shape\":[4.0],\"data_offsets\":[0,4]}}", 4,
     "shape[0]: expected a whole number from 0"},
    {"no shape", "{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,4]}}", 4,
     "shape: expected an array"},
    {"six axes", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,4],\"data_offsets\":[0,4]}}", 4,
     "shape: expected at most 5 axes, got 6"},
    {"a product that overflows",
     "{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]}}", 0,
     "shape: its sizes multiply to 2^63 bytes or more"},
    {"a product that overflows and comes to nothing",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[4611686018427387904,2,0],\"data_offsets\":[0,0]}}", 0,
     "shape: its sizes multiply to 2^63 bytes or more"},
    {"three offsets", "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4,8]}}", 4,
     "data_offsets: expected [begin, end]"},
    {"offsets that fall", "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,0]}}", 4,
     "data_offsets: expected [begin, end]"},
    {"another number of bytes",
     "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4,
     "data_offsets: expected 8 bytes, got 4"},
    {"behind the end", "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 4,
     "truncated: tensor 'a' needs 8 bytes from byte 0 of the data, which has 4"},
    {"an overlap",
     "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[2,6]}}",
     6, "tensor 'b': data_offsets [2, 6]: expected to begin at 4"},
    {"a hole",
     "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}",
     12, "tensor 'b': data_offsets [8, 12]: expected to begin at 4"},
    {"a hole in front", "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}", 8,
     "expected to begin at 0"},
    {"bytes of no tensor", "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 5,
     "1 bytes belong to no tensor"},
    {"one byte that is no text (C038)", "\xff", 0, "does not begin with '{'"},
    {"one brace (C038)", "{", 0, "header: "},
    {"no UTF-8 (C038)", "{\"\xff\":4}", 0, "header: "},
    {"an extent of 2^64 (C038)",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[2,18446744073709551614],\"data_offsets\":[0,4]}}", 4,
     "header: "},
    {"tensors in one place (C038)",
     "{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]},"
     "\"b\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]},"
     "\"c\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}",
     16, "tensor 'b': data_offsets [0, 16]: expected to begin at 16"},
    {"14 bytes of 16 (C038)",
     "{\"a\":{\"dtype\":\"I32\",\"shape\":[2,2],\"data_offsets\":[0,16]}}", 14,
     "needs 16 bytes from byte 0 of the data, which has 14"},
    {"34 bytes more (C038)",
     "{\"a\":{\"dtype\":\"I32\",\"shape\":[2,2],\"data_offsets\":[0,16]}}", 50,
     "34 bytes belong to no tensor"},
    {"numbers in the metadata", "{\"__metadata__\":{\"a\":1}}", 0,
     "__metadata__: a: expected a text"},
    {"metadata that is a text", "{\"__metadata__\":\"a\"}", 0,
     "__metadata__: expected an object"},
};

static void a_rule(void **state)
{
    const struct rule *r = *state;
    const char *path = folder_path("rule.safetensors");
    tensors *t;
    put(path, r->header, r->n_data);
    if (r->part) {
        CHECK_FAILS(tensors_open(&t, path, &err), KVT_FORMAT, r->part, &err);
        assert_non_null(strstr(err.text, "rule.safetensors"));
        return;
    }
    CHECK_OK(tensors_open(&t, path, &err), &err);
    float x = 0;
    if (tensors_find(t, "a"))
        CHECK_OK(tensors_floats(tensors_find(t, "a"), &x, 1, &err), &err);
    assert_true(x == 1.5f || tensors_count(t) == 0);
    tensors_close(t);
}

static void lengths_that_lie(void **state)
{
    (void)state;
    const char *path = folder_path("short.safetensors");
    tensors *t;
    CHECK_FAILS(tensors_open(&t, folder_path("no.safetensors"), &err), KVT_NOTFOUND, NULL,
                &err);
    CHECK_OK(file_write(path, "\3\0\0", 3, &err), &err);
    CHECK_FAILS(tensors_open(&t, path, &err), KVT_FORMAT, "3 bytes", &err);
    CHECK_OK(file_write(path, "\xff\0\0\0\0\0\0\0{}", 10, &err), &err);
    CHECK_FAILS(tensors_open(&t, path, &err), KVT_FORMAT,
                "a header of 255 bytes in a file of 10", &err);
    CHECK_OK(file_write(path, "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10, &err), &err);
    CHECK_FAILS(tensors_open(&t, path, &err), KVT_FORMAT, "is no safetensors file", &err);
    CHECK_OK(file_write(path, "\x89HDF\r\n\x1a\n\0\0\0", 11, &err), &err);
    CHECK_FAILS(tensors_open(&t, path, &err), KVT_FORMAT, "but HDF5", &err);
}

/* Types beside our own; what is no finite float. */
static void types(void **state)
{
    (void)state;
    const char *path = folder_path("types.safetensors");
    tensors *t;
    float x[4];
    const char header[] = "{\"b\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[0,4]},"
                          "\"d\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[4,20]},"
                          "\"i\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[20,28]},"
                          "\"n\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[28,32]}}";
    uint8_t bytes[512];
    const uint16_t brain[] = {0x3fc0, 0xbf80}, half[] = {0x3c00, 0x7c00};
    const double wide[] = {0.1, 1e300};
    const int64_t whole = 7;
    size_t n = sizeof header - 1;
    memset(bytes, 0, sizeof bytes);
    bytes[0] = (uint8_t)n;
    bytes[1] = (uint8_t)(n >> 8);
    memcpy(bytes + 8, header, n);
    memcpy(bytes + 8 + n, brain, 4);
    memcpy(bytes + 12 + n, wide, 16);
    memcpy(bytes + 28 + n, &whole, 8);
    memcpy(bytes + 36 + n, half, 4);
    CHECK_OK(file_write(path, bytes, 40 + n, &err), &err);
    CHECK_OK(tensors_open(&t, path, &err), &err);
    CHECK_OK(tensors_floats(tensors_find(t, "b"), x, 2, &err), &err);
    assert_true(x[0] == 1.5f && x[1] == -1);
    CHECK_FAILS(tensors_floats(tensors_find(t, "d"), x, 2, &err), KVT_FORMAT,
                "'d', element 1: infinity", &err);
    assert_true(x[0] == 0.1f);
    CHECK_FAILS(tensors_floats(tensors_find(t, "i"), x, 1, &err), KVT_FORMAT,
                "'i': expected f32, f16, bf16 or f64, got i64", &err);
    CHECK_FAILS(tensors_floats(tensors_find(t, "n"), x, 2, &err), KVT_FORMAT,
                "'n', element 1: infinity", &err);
    tensors_close(t);
}

int main(void)
{
    struct CMUnitTest tests[48] = {
        cmocka_unit_test(there_and_back),
        cmocka_unit_test(what_is_not_written),
        cmocka_unit_test(lengths_that_lie),
        cmocka_unit_test(types),
    };
    int n = 4;
    CHECK_ROWS(tests, &n, rules, a_rule);
    folder_new();
    int failures = CHECK_RUN("tensors", tests, n);
    folder_end();
    return failures != 0;
}
