/* test_digest.c - xxHash against its published values. */
#include "tests/check.h"

#include "base/digest.h"
#include "kvt/arena.h"

/* `printf '' | xxhsum -H2`, and Python's xxhash 3.x: xxh3_128_hexdigest(b''),
 * xxh64_intdigest(b''). The values for the empty input stand in xxHash's own documentation and
 * tests, too. */
static void empty_input_is_known(void **state)
{
    (void)state;
    char text[DIGEST_TEXT];
    digest_of(NULL, 0, text);
    assert_string_equal(text, "99aa06d3014798d86001c324468d497f");
    assert_true(digest_64("", 0) == UINT64_C(0xef46db3751d8e999));
    digest *d = digest_new();
    digest_get(d, text);
    assert_string_equal(text, "99aa06d3014798d86001c324468d497f");
    digest_free(d);
    digest_free(NULL);
}

/* XXH64("abc") is in many ports' tests: 44bc2cf5ad770999. */
static void abc_is_known(void **state)
{
    (void)state;
    assert_true(digest_64("abc", 3) == UINT64_C(0x44bc2cf5ad770999));
}

static void parts_do_not_matter(void **state)
{
    (void)state;
    static uint8_t data[5000];
    char whole[DIGEST_TEXT], text[DIGEST_TEXT];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 131 + i / 256);
    digest_of(data, sizeof data, whole);
    for (size_t part = 1; part < 600; part += 37) {
        digest *d = digest_new();
        for (size_t i = 0; i < sizeof data; i += part)
            digest_add(d, data + i, i + part < sizeof data ? part : sizeof data - i);
        digest_get(d, text);
        assert_string_equal(text, whole);
        digest_get(d, text); /* reading it does not end it */
        assert_string_equal(text, whole);
        digest_free(d);
    }
}

static void borders_of_texts_count(void **state)
{
    (void)state;
    char a[DIGEST_TEXT], b[DIGEST_TEXT], whole[DIGEST_TEXT];
    digest *d = digest_new();
    digest_add_text(d, "ab");
    digest_add_text(d, "c");
    digest_get(d, a);
    digest_free(d);
    d = digest_new();
    digest_add_text(d, "a");
    digest_add_text(d, "bc");
    digest_get(d, b);
    digest_free(d);
    digest_of("ab\0c", 5, whole);
    assert_string_equal(a, whole);
    assert_string_not_equal(a, b);
}

static void files_have_the_digest_of_their_bytes(void **state)
{
    (void)state;
    kvt_err err;
    char text[DIGEST_TEXT], other[DIGEST_TEXT];
    CHECK_OK(digest_file(KVT_SOURCE_DIR "/LICENSE", text, &err), &err);
    CHECK_OK(digest_file(KVT_SOURCE_DIR "/CMakeLists.txt", other, &err), &err);
    assert_string_not_equal(text, other);
    CHECK_FAILS(digest_file("no/such/file", text, &err), KVT_NOTFOUND,
                "cannot open 'no/such/file'", &err);
    kvt_alloc_fail_at(1, false);
    assert_null(digest_new());
    kvt_alloc_fail_at(0, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_input_is_known),
        cmocka_unit_test(abc_is_known),
        cmocka_unit_test(parts_do_not_matter),
        cmocka_unit_test(borders_of_texts_count),
        cmocka_unit_test(files_have_the_digest_of_their_bytes),
    };
    return cmocka_run_group_tests_name("digest", tests, NULL, NULL);
}
