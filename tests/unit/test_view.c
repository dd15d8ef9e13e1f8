/* test_view.c - views: shape contract, parts, texts. */
#include "tests/check.h"

#include "kvt/view.h"

static const float data[2 * 3 * 4];

static void contract_names_what_is_wrong(void **state)
{
    (void)state;
    kvt_err err;
    kvt_view v = kvt_view_of(data, KVT_F32, KVT_SHAPE("HQT", 2, 3, 4));
    CHECK_OK(kvt_view_expect(&v, "attn", KVT_F32, KVT_SHAPE("HQT", 2, 3, 4), &err), &err);
    CHECK_OK(kvt_view_expect(&v, "attn", KVT_F32, KVT_SHAPE("HQT", 2, -1, 4), &err), &err);
    CHECK_FAILS(kvt_view_expect(&v, "attn", KVT_F32, KVT_SHAPE("HTQ", 2, 3, 4), &err),
                KVT_FORMAT, "attn: expected f32 [H=2 T=3 Q=4], got f32 [H=2 Q=3 T=4]", &err);
    CHECK_FAILS(kvt_view_expect(&v, "attn", KVT_F16, KVT_SHAPE("HQT", 2, 3, 4), &err),
                KVT_FORMAT, "expected f16 [H=2 Q=3 T=4], got f32", &err);
    CHECK_FAILS(kvt_view_expect(&v, "attn", KVT_F32, KVT_SHAPE("HQT", 2, -1, 5), &err),
                KVT_FORMAT, "expected f32 [H=2 Q=any T=5]", &err);
    CHECK_FAILS(kvt_view_expect(&v, "attn", KVT_F32, KVT_SHAPE("QT", 3, 4), &err), KVT_FORMAT,
                "expected f32 [Q=3 T=4]", &err);
}

static void part_is_a_row_of_the_whole(void **state)
{
    (void)state;
    kvt_view v = kvt_view_of(data, KVT_F32, KVT_SHAPE("HQT", 2, 3, 4));
    assert_int_equal(kvt_view_count(&v), 24);
    kvt_view head = kvt_view_at(&v, 1), row = kvt_view_at(&head, 2);
    assert_ptr_equal(head.data, data + 12);
    assert_string_equal(head.axes, "QT");
    assert_ptr_equal(row.data, data + 12 + 8);
    assert_string_equal(row.axes, "T");
    assert_int_equal(kvt_view_count(&row), 4);
    kvt_view none = {.rank = 1, .dim = {3}, .stride = {1}, .axes = "T"};
    assert_null(kvt_view_at(&none, 2).data);
}

/* numpy: np.arange(24).reshape(2,3,4).transpose(1,0,2)[2].strides -> (12, 1) elements */
static void strides_are_kept(void **state)
{
    (void)state;
    kvt_view v = kvt_view_of(data, KVT_F32, KVT_SHAPE("HQT", 2, 3, 4));
    assert_int_equal(v.stride[0], 12);
    assert_int_equal(v.stride[1], 4);
    assert_int_equal(v.stride[2], 1);
    kvt_view t = v;
    t.dim[0] = 3, t.dim[1] = 2;
    t.stride[0] = 4, t.stride[1] = 12;
    kvt_view part = kvt_view_at(&t, 2);
    assert_ptr_equal(part.data, data + 8);
    assert_int_equal(part.stride[0], 12);
}

static void text_is_always_terminated(void **state)
{
    (void)state;
    int64_t big = INT64_MAX;
    kvt_view v = {
        .dtype = KVT_BF16, .rank = 5, .dim = {big, big, big, big, big}, .axes = "LHGQT"};
    char text[200];
    assert_string_equal(
        kvt_view_print(&v, text, sizeof text),
        "bf16 [L=9223372036854775807 H=9223372036854775807 G=9223372036854775807 "
        "Q=9223372036854775807 T=9223372036854775807]");
    for (size_t cap = 1; cap < 30; cap++)
        assert_int_equal(strlen(kvt_view_print(&v, text, cap)), cap - 1);
    kvt_view scalar = kvt_view_of(data, KVT_I64, "", 0, NULL);
    assert_string_equal(kvt_view_print(&scalar, text, sizeof text), "i64 []");
    assert_int_equal(kvt_view_count(&scalar), 1);
}

static void types_have_names_and_sizes(void **state)
{
    (void)state;
    static const struct {
        kvt_dtype dtype;
        const char *name;
        size_t size;
    } rows[] = {{KVT_F32, "f32", 4}, {KVT_F16, "f16", 2}, {KVT_BF16, "bf16", 2},
                {KVT_I64, "i64", 8}, {KVT_I32, "i32", 4}, {KVT_U8, "u8", 1},
                {KVT_F64, "f64", 8}};
    for (int i = 0; i < CHECK_COUNT(rows); i++) {
        assert_string_equal(kvt_dtype_name(rows[i].dtype), rows[i].name);
        assert_int_equal(kvt_dtype_size(rows[i].dtype), rows[i].size);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contract_names_what_is_wrong),
        cmocka_unit_test(part_is_a_row_of_the_whole),
        cmocka_unit_test(strides_are_kept),
        cmocka_unit_test(text_is_always_terminated),
        cmocka_unit_test(types_have_names_and_sizes),
    };
    return cmocka_run_group_tests_name("view", tests, NULL, NULL);
}
