/* test_gguf_rules.c - a file for each rule of capture/gguf.c, cuts at every byte, and cases
 * C021 to C028 and C035. */
#include "capture/gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "compute/quant.h"
#include "tests/check.h"
#include "tests/gguf_make.h"

enum { LIMIT = 1 << 24, LONG_NAME = 64, DEEP = 10000 };

static const float eight[8] = {0, 1, 2, 3, 4, 5, 6, 7};

static void tensor(gguf_make *m, const char *name, uint64_t n)
{
    gguf_make_tensor(m, name, QUANT_F32, 1, &n, eight, n * sizeof *eight);
}

static void info(gguf_make *m, const char *name, uint32_t n_dim, const uint64_t *dim,
                 uint32_t type, uint64_t offset)
{
    gguf_make_info(m, name, strlen(name), n_dim, dim, n_dim, type, offset);
}

/* Two keys and two tensors: what each defect starts from. */
static void begin(gguf_make *m)
{
    gguf_make_init(m);
    gguf_make_text(m, "general.architecture", "llama");
    gguf_make_int(m, "llama.block_count", GGUF_U32, 2);
}

static void old_version(gguf_make *m)
{
    m->version = 1;
}
static void new_version(gguf_make *m)
{
    m->version = 4;
}
static void no_version(gguf_make *m)
{
    m->version = 0;
}
static void swapped(gguf_make *m)
{
    m->version = 0x03000000;
}
static void keys_2_63(gguf_make *m)
{
    m->n_meta = 1ULL << 63;
}
static void tensors_2_63(gguf_make *m)
{
    m->n_tensor = 1ULL << 63;
}
static void keys_2_62(gguf_make *m)
{
    m->n_meta = 1ULL << 62;
}
static void tensors_2_62(gguf_make *m)
{
    m->n_tensor = 1ULL << 62;
}

static void text_2_62(gguf_make *m)
{
    uint64_t n = 1ULL << 62;
    gguf_make_raw(m, "long", 4, GGUF_TEXT, &n, sizeof n);
}

static void name_2_63(gguf_make *m)
{
    uint64_t n = 1ULL << 63;
    buf_add(&m->meta, &n, sizeof n);
    gguf_make_int(m, "later", GGUF_U32, 1);
    m->n_meta = 3;
}

/* An array's head: element type and count, then nothing. */
static void array(gguf_make *m, uint32_t of, uint64_t n)
{
    uint8_t head[12];
    memcpy(head, &of, 4);
    memcpy(head + 4, &n, 8);
    gguf_make_raw(m, "array", 5, GGUF_ARRAY, head, sizeof head);
}

static void array_2_63(gguf_make *m)
{
    array(m, GGUF_U8, 1ULL << 63);
}
static void array_2_29(gguf_make *m)
{
    array(m, GGUF_F64, 1ULL << 29);
}
static void texts_2_29(gguf_make *m)
{
    array(m, GGUF_TEXT, 1ULL << 29);
}
static void array_255(gguf_make *m)
{
    array(m, 255, 1);
}
static void value_13(gguf_make *m)
{
    gguf_make_raw(m, "odd", 3, 13, "", 0);
}

static void nested(gguf_make *m)
{
    buf deep;
    buf_init(&deep, LIMIT);
    for (int i = 0; i < DEEP; i++) {
        const uint8_t head[12] = {GGUF_ARRAY, 0, 0, 0, 1};
        buf_add(&deep, head, sizeof head);
    }
    gguf_make_raw(m, "deep", 4, GGUF_ARRAY, deep.data, deep.n);
    buf_fini(&deep);
}

static void same_key(gguf_make *m)
{
    gguf_make_int(m, "x", GGUF_U8, 1);
    gguf_make_int(m, "llama.block_count", GGUF_U32, 2);
}

static void same_tensor(gguf_make *m)
{
    tensor(m, "a", 8);
    tensor(m, "b", 8);
    tensor(m, "a", 8);
}

static void long_name(gguf_make *m)
{
    char name[LONG_NAME];
    uint64_t dim = 8;
    memset(name, 'n', sizeof name);
    gguf_make_info(m, name, sizeof name, 1, &dim, 1, QUANT_F32, 0);
}

static void no_name(gguf_make *m)
{
    tensor(m, "", 8);
}

static void zero_in_name(gguf_make *m)
{
    uint64_t dim = 8;
    gguf_make_info(m, "a\0b", 3, 1, &dim, 1, QUANT_F32, 0);
}

static void dims(gguf_make *m, uint32_t n_dim)
{
    uint64_t dim[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    gguf_make_info(m, "many", 4, n_dim, dim, 9, QUANT_F32, 0);
}

static void dims_5(gguf_make *m)
{
    dims(m, 5);
}
static void dims_9(gguf_make *m)
{
    dims(m, 9);
}
static void dims_most(gguf_make *m)
{
    dims(m, UINT32_MAX);
}
static void dim_zero(gguf_make *m)
{
    info(m, "t", 2, (uint64_t[]){8, 0}, QUANT_F32, 0);
}
static void dim_negative(gguf_make *m)
{
    info(m, "t", 1, (uint64_t[]){1ULL << 63}, QUANT_F32, 0);
}

static void product_2_63(gguf_make *m)
{
    info(m, "t", 3, (uint64_t[]){1ULL << 31, 1ULL << 31, 2}, QUANT_F32, 0);
}

static void bytes_2_63(gguf_make *m)
{
    info(m, "t", 1, (uint64_t[]){1ULL << 62}, QUANT_F32, 0);
}

static void ends_2_63(gguf_make *m)
{
    info(m, "t", 1, (uint64_t[]){(1ULL << 62) - 64}, QUANT_F16, 0);
    info(m, "u", 1, (uint64_t[]){(1ULL << 62) - 64}, QUANT_F16, (1ULL << 63) - 128);
}

static void off_the_block(gguf_make *m)
{
    info(m, "t", 1, (uint64_t[]){100}, QUANT_Q4_K, 0);
}
static void iq2_xs(gguf_make *m)
{
    info(m, "t", 1, (uint64_t[]){256}, 17, 0);
}
static void removed_4(gguf_make *m)
{
    info(m, "t", 1, (uint64_t[]){256}, 4, 0);
}
static void removed_36(gguf_make *m)
{
    info(m, "t", 1, (uint64_t[]){256}, 36, 0);
}
static void type_99(gguf_make *m)
{
    info(m, "t", 1, (uint64_t[]){256}, 99, 0);
}
static void type_most(gguf_make *m)
{
    info(m, "t", 1, (uint64_t[]){256}, UINT32_MAX, 0);
}

/* Two descriptions of 8 weights, the second at this offset, with 96 bytes of data. */
static void second_at(gguf_make *m, uint64_t first, uint64_t second)
{
    info(m, "a", 1, (uint64_t[]){8}, QUANT_F32, first);
    info(m, "b", 1, (uint64_t[]){8}, QUANT_F32, second);
    for (int i = 0; i < 3; i++)
        buf_add(&m->data, eight, sizeof eight);
}

static void hole(gguf_make *m)
{
    second_at(m, 0, 64);
}
static void overlap(gguf_make *m)
{
    second_at(m, 0, 16);
}
static void disorder(gguf_make *m)
{
    second_at(m, 32, 0);
}
static void offset_wraps(gguf_make *m)
{
    info(m, "t", 1, (uint64_t[]){4}, 0, UINT64_MAX - 15);
}
static void offset_wraps_too(gguf_make *m)
{
    second_at(m, 0, UINT64_MAX - 100);
}

static void alignment_24(gguf_make *m)
{
    gguf_make_int(m, "general.alignment", GGUF_U32, 24);
    tensor(m, "a", 8);
}

static void alignment_0(gguf_make *m)
{
    gguf_make_int(m, "general.alignment", GGUF_U32, 0);
}
static void alignment_text(gguf_make *m)
{
    gguf_make_text(m, "general.alignment", "32");
}

static void part_1_of_2(gguf_make *m)
{
    gguf_make_int(m, "split.no", GGUF_U16, 0);
    gguf_make_int(m, "split.count", GGUF_U16, 2);
}

static void part_2_of_2(gguf_make *m)
{
    gguf_make_int(m, "split.no", GGUF_U16, 1);
    gguf_make_int(m, "split.count", GGUF_U16, 2);
}

static void joined(gguf_make *m)
{
    tensor(m, "a", 8);
    buf_text(&m->data, "GGUF");
}

static void no_data(gguf_make *m)
{
    info(m, "t", 1, (uint64_t[]){8}, QUANT_F32, 0);
}

static const struct row {
    const char *name;
    void (*defect)(gguf_make *m);
    const char *says;
} rows[] = {
    {"version 1", old_version, "version 1 is too old: 2 and 3 are read"},
    {"version 4", new_version, "version 4 is newer than this build: 2 and 3 are read"},
    {"version 0", no_version, "version 0 is too old"},
    {"C025 byte-swapped", swapped, "file is big-endian, this build reads little-endian"},
    {"C024 2^63 keys", keys_2_63, "key count -9223372036854775808 is negative"},
    {"C024 2^63 tensors", tensors_2_63, "tensor count -9223372036854775808 is negative"},
    {"C024 2^62 keys", keys_2_62, "truncated: 4611686018427387904 keys need"},
    {"C024 2^62 tensors", tensors_2_62, "truncated: 4611686018427387904 tensors need"},
    {"C024 text of 2^62", text_2_62, "key 'long': text: a text of 4611686018427387904 bytes"},
    {"C024 name of 2^63", name_2_63, "key 2 of 3: name: a text of 9223372036854775808 bytes"},
    {"C024 array of 2^63", array_2_63, "key 'array': array of 9223372036854775808 elements"},
    {"array of 2^29 reals", array_2_29, "key 'array': truncated: array at byte"},
    {"array of 2^29 texts", texts_2_29, "key 'array': truncated: array at byte"},
    {"C024 element type 255", array_255, "key 'array': array of unknown element type 255"},
    {"C024 array of arrays", nested, "key 'deep': an array of arrays is not allowed"},
    {"value type 13", value_13, "key 'odd': unknown value type 13"},
    {"C026 key twice", same_key, "key 'llama.block_count' comes twice, as number 1 and 3"},
    {"C026 tensor twice", same_tensor, "tensor 'a' comes twice, as number 0 and 2"},
    {"name of 64 bytes", long_name, "has 64 bytes, expected 1 to 63"},
    {"empty name", no_name, "has 0 bytes, expected 1 to 63"},
    {"zero byte in a name", zero_in_name, "no zero byte"},
    {"C023 5 dimensions", dims_5, "tensor 'many': 5 dimensions, at most 4"},
    {"C023 9 dimensions", dims_9, "tensor 'many': 9 dimensions, at most 4"},
    {"C023 2^32-1 dimensions", dims_most, "tensor 'many': 4294967295 dimensions, at most 4"},
    {"dimension 0", dim_zero, "tensor 't': dimension 1 is 0, expected at least 1"},
    {"negative dimension", dim_negative, "tensor 't': dimension 0 is -9223372036854775808"},
    {"product of 2^63", product_2_63, "tensor 't': its dimensions multiply to 2^63 or more"},
    {"2^64 bytes", bytes_2_63, "tensor 't': its size is 2^63 bytes or more"},
    {"end beyond 2^63", ends_2_63, "tensor 'u': it ends beyond 2^63 bytes"},
    {"C035 row of 100", off_the_block,
     "tensor 't': Q4_K: row length must be a multiple of 256, "
     "got 100"},
    {"type IQ2_XS", iq2_xs, "tensor 't': type 17 (IQ2_XS) is not supported"},
    {"C035 removed type 4", removed_4, "tensor 't': type 4 (Q4_2 (removed)) is not supported"},
    {"C035 removed type 36", removed_36, "tensor 't': type 36 (IQ4_NL_4_4 (removed)) is not"},
    {"C035 type 99", type_99, "tensor 't': type 99 (type 99) is not supported"},
    {"type 2^32-1", type_most, "tensor 't': type 4294967295"},
    {"hole", hole, "tensor 'b': offset 64, expected 32"},
    {"overlap", overlap, "tensor 'b': offset 16, expected 32"},
    {"wrong order", disorder, "tensor 'a': offset 32, expected 0"},
    {"C022 offset 2^64-16", offset_wraps,
     "tensor 't': offset 18446744073709551600, expected 0"},
    {"C022 offset that wraps", offset_wraps_too,
     "tensor 'b': offset 18446744073709551515, exp"},
    {"alignment 24", alignment_24, "key 'general.alignment': expected a power of two, got 24"},
    {"alignment 0", alignment_0, "key 'general.alignment': expected a power of two, got 0"},
    {"alignment as text", alignment_text,
     "key 'general.alignment': expected an integer, got text"},
    {"C028 part 1", part_1_of_2, "part 1 of a set of 2 files"},
    {"C028 part 2", part_2_of_2, "part 2 of a set of 2 files"},
    {"C028 joined by cat", joined, "another GGUF file begins at byte"},
    {"C021 no data", no_data, "truncated: tensor 't' needs 32 bytes from byte"},
};

/* Bytes in memory of exactly their size, so that the sanitizer sees a read past the end. */
static uint8_t *exact(const void *data, size_t n)
{
    uint8_t *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    if (n)
        memcpy(copy, data, n);
    return copy;
}

static void defect_is_refused_by_name(void **state)
{
    const struct row *r = *state;
    gguf_make m;
    buf all;
    kvt_err err;
    gguf *g = (gguf *)(uintptr_t)1;
    begin(&m);
    r->defect(&m);
    buf_init(&all, LIMIT);
    gguf_make_bytes(&m, &all);
    uint8_t *copy = exact(all.data, all.n);
    CHECK_FAILS(gguf_read(&g, copy, all.n, &err), KVT_FORMAT, r->says, &err);
    assert_null(g);
    assert_null(strchr(err.text, '\n'));
    if (strncmp(r->says, "truncated", 9) != 0 && !strstr(r->says, ": truncated"))
        assert_null(strstr(err.text, "truncated")); /* C027: only where bytes are missing */
    free(copy);
    buf_fini(&all);
    gguf_make_fini(&m);
}

/* C024: every such file is refused in under 10 ms with under 1 MiB. A process of its own, so
 * that its greatest memory is its own. */
static void defects_cost_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < CHECK_COUNT(rows); i++) {
        if (strncmp(rows[i].name, "C024", 4) != 0)
            continue;
        gguf_make m;
        buf all;
        begin(&m);
        rows[i].defect(&m);
        buf_init(&all, LIMIT);
        gguf_make_bytes(&m, &all);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            kvt_err err;
            gguf *g;
            struct rusage before, after;
            struct timespec t0, t1;
            /* Another refusal first: pages of code that are touched for the first time count.
             */
            for (size_t cut = 0; cut < 64; cut++)
                if (gguf_read(&g, (const uint8_t *)all.data, cut, &err) == KVT_OK)
                    _exit(1);
            getrusage(RUSAGE_SELF, &before);
            clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t0);
            bool refused = gguf_read(&g, (const uint8_t *)all.data, all.n, &err) == KVT_FORMAT;
            clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t1);
            getrusage(RUSAGE_SELF, &after);
            double ms = 1e3 * (double)(t1.tv_sec - t0.tv_sec) +
                        1e-6 * (double)(t1.tv_nsec - t0.tv_nsec);
            bool small = after.ru_maxrss - before.ru_maxrss < 1024; /* KiB */
            _exit(!refused ? 1 : ms >= 10 ? 2 : !small ? 3 : 0);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            fail_msg("%s: %s", rows[i].name,
                     !WIFEXITED(status)         ? "crashed"
                     : WEXITSTATUS(status) == 1 ? "not refused"
                     : WEXITSTATUS(status) == 2 ? "took 10 ms or more"
                                                : "took 1 MiB or more");
        buf_fini(&all);
        gguf_make_fini(&m);
    }
}

/* Names that all begin alike, many of them: found twice in less than quadratic time. */
static void many_names_take_no_time(void **state)
{
    enum { MANY = 100000 };
    gguf_make m;
    buf all;
    kvt_err err;
    gguf *g;
    char name[48];
    (void)state;
    begin(&m);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "a.name.that.is.the.same.for.long.%d", i);
        gguf_make_int(&m, name, GGUF_U8, 1);
    }
    gguf_make_int(&m, name, GGUF_U8, 1);
    buf_init(&all, LIMIT);
    gguf_make_bytes(&m, &all);
    clock_t start = clock();
    CHECK_FAILS(gguf_read(&g, (const uint8_t *)all.data, all.n, &err), KVT_FORMAT,
                "comes twice, as number 100001 and 100002", &err);
    /* 5e9 comparisons of 33 bytes would take tens of seconds; sorting takes about 0.05. */
    assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 5);
    buf_fini(&all);
    gguf_make_fini(&m);
}

int main(void)
{
    struct CMUnitTest tests[CHECK_COUNT(rows) + 2];
    int n = 0;
    CHECK_ROWS(tests, &n, rows, defect_is_refused_by_name);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(defects_cost_nothing);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(many_names_take_no_time);
    return CHECK_RUN("gguf_rules", tests, n);
}
