/* test_trace_bad.c - files that are no trace, cut, newer, edited by one byte, or lie about what
 * they hold: each is refused with one line. */
#include "tests/check.h"
#include "tests/folder.h"
#include "tests/synth.h"

#include <hdf5.h>

#include "base/file.h"

static kvt_err err;
static buf good; /* a small whole trace, as bytes */

static void write_bytes(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* One line, printable, that names the file. */
static void message_is_fit(const char *name)
{
    if (!strstr(err.text, name))
        fail_msg("no file name in '%s'", err.text);
    for (const char *p = err.text; *p; p++)
        if ((unsigned char)*p < 32)
            fail_msg("a control character in '%s'", err.text);
}

/* ---- files that are no trace ---------------------------------------------------------------
 */

static void no_trace(void **state)
{
    (void)state;
    kvt_trace *t;
    char text[64] = "not a trace, but long enough to be looked at as if it were one.";
    CHECK_FAILS(kvt_trace_open(&t, folder_path("none.h5"), 0, &err), KVT_NOTFOUND,
                "No such file", &err);
    message_is_fit("none.h5");
    CHECK_FAILS(kvt_trace_open(&t, folder_name, 0, &err), KVT_FORMAT, "not a regular file",
                &err);
    write_bytes(folder_path("x.h5"), "", 0);
    CHECK_FAILS(kvt_trace_open(&t, folder_path("x.h5"), 0, &err), KVT_FORMAT,
                "not an HDF5 file", &err);
    write_bytes(folder_path("x.h5"), "\x12\0\0\0\0\0\0\0{\"__metadata__\":{}}", 26);
    CHECK_FAILS(kvt_trace_open(&t, folder_path("x.h5"), 0, &err), KVT_FORMAT,
                "not an HDF5 file but safetensors", &err);
    write_bytes(folder_path("x.h5"), text, sizeof text);
    CHECK_FAILS(kvt_trace_open(&t, folder_path("x.h5"), 0, &err), KVT_FORMAT,
                "not an HDF5 file", &err);
    message_is_fit("x.h5");
    hid_t f = H5Fcreate(folder_path("x.h5"), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    H5Fclose(f);
    CHECK_FAILS(kvt_trace_open(&t, folder_path("x.h5"), 0, &err), KVT_FORMAT, "is no trace",
                &err);
    assert_null(t);
}

static void a_cut_file_is_told(void **state)
{
    (void)state;
    const char *path = folder_path("cut.h5");
    char digest[KVT_DIGEST_TEXT], want[64];
    kvt_trace *t;
    for (size_t n = 0; n < good.n; n += n < 128 ? 1 : 397) {
        write_bytes(path, good.data, n);
        kvt_code code = kvt_trace_open(&t, path, 0, &err);
        if (code != KVT_FORMAT)
            fail_msg("cut to %zu bytes: %s", n, kvt_code_name(code));
        message_is_fit("cut.h5");
        assert_int_equal(kvt_trace_peek(path, digest, &err), KVT_FORMAT);
    }
    write_bytes(path, good.data, good.n - 1);
    snprintf(want, sizeof want, "is cut short: %zu bytes expected, %zu found", good.n,
             good.n - 1);
    CHECK_FAILS(kvt_trace_open(&t, path, 0, &err), KVT_FORMAT, want, &err);
}

/* ---- one byte ------------------------------------------------------------------------------
 */

static void ignore(void *user, const kvt_finding *f)
{
    (void)user;
    (void)f;
}

/* Whatever byte is changed: it is refused, when it is opened or when it is verified, or the
 * content is still the same (the byte was in a run fact's checksum's shadow, in free space or
 * in what only other programs read). It never crashes. */
static void one_byte_is_found(void **state)
{
    (void)state;
    const char *path = folder_path("edit.h5");
    kvt_trace *t;
    int n_open = 0, n_check = 0, n_same = 0;
    char *copy = malloc(good.n);
    assert_non_null(copy);
    for (size_t i = 0; i < good.n; i += 83) {
        memcpy(copy, good.data, good.n);
        copy[i] = (char)(copy[i] ^ (i % 2 ? 0x40 : 0x01));
        write_bytes(path, copy, good.n);
        kvt_code code = kvt_trace_open(&t, path, 0, &err);
        if (code) {
            n_open++;
            if (code != KVT_FORMAT)
                fail_msg("byte %zu: %s: %s", i, kvt_code_name(code), err.text);
            message_is_fit("edit.h5");
            continue;
        }
        code = kvt_trace_check(t, ignore, NULL, &err);
        if (code && code != KVT_NO && code != KVT_FORMAT)
            fail_msg("byte %zu: %s: %s", i, kvt_code_name(code), err.text);
        n_check += code != KVT_OK;
        n_same += code == KVT_OK;
        kvt_trace_close(t);
    }
    free(copy);
    print_message("%d refused at open, %d by the check, %d without effect\n", n_open, n_check,
                  n_same);
    assert_true(n_open > 50 && n_check > 50);
}

static void an_edited_slab_names_its_dataset(void **state)
{
    (void)state;
    const char *path = folder_path("slab.h5");
    kvt_trace *t;
    kvt_view v;
    write_bytes(path, good.data, good.n);
    hid_t f = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    hid_t set = H5Dopen2(f, "attn/col_sum", H5P_DEFAULT);
    size_t at = (size_t)H5Dget_offset(set) + 4 * 24 * 4 + 17; /* in layer 1 of f32 [2 4 24] */
    H5Dclose(set);
    H5Fclose(f);
    char *copy = malloc(good.n);
    memcpy(copy, good.data, good.n);
    copy[at] ^= 4;
    write_bytes(path, copy, good.n);
    free(copy);
    CHECK_OK(kvt_trace_open(&t, path, 0, &err), &err);
    CHECK_OK(kvt_trace_read(t, KVT_DS_COL_SUM, 0, &v, &err), &err);
    kvt_trace_done(t, &v);
    CHECK_FAILS(kvt_trace_read(t, KVT_DS_COL_SUM, 1, &v, &err), KVT_FORMAT,
                "layer 1 of attn/col_sum: wrong checksum", &err);
    message_is_fit("slab.h5");
    CHECK_FAILS(kvt_trace_read(t, KVT_DS_COL_SUM, 1, &v, &err), KVT_FORMAT, "wrong checksum",
                &err);
    CHECK_FAILS(kvt_trace_check(t, ignore, NULL, &err), KVT_NO, NULL, &err);
    kvt_trace_close(t);
}

/* ---- files that lie ------------------------------------------------------------------------
 */

static void put_i32(hid_t at, const char *name, int n, const int32_t *x)
{
    hsize_t size = (hsize_t)n;
    hid_t space = n ? H5Screate_simple(1, &size, NULL) : H5Screate(H5S_SCALAR);
    H5Adelete(at, name);
    hid_t a = H5Acreate2(at, name, H5T_STD_I32LE, space, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite(a, H5T_NATIVE_INT32, x);
    H5Aclose(a);
    H5Sclose(space);
}

static void put_text(hid_t at, const char *name, const char *text)
{
    hid_t space = H5Screate(H5S_SCALAR), type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, strlen(text) + 1);
    H5Adelete(at, name);
    hid_t a = H5Acreate2(at, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite(a, type, text);
    H5Aclose(a);
    H5Tclose(type);
    H5Sclose(space);
}

static void newer_major(hid_t f)
{
    put_i32(f, "version", 2, (int32_t[]){2, 7});
}
static void higher_minor(hid_t f)
{
    put_i32(f, "version", 2, (int32_t[]){1, 9});
}
static void no_version(hid_t f)
{
    H5Adelete(f, "version");
}
static void text_version(hid_t f)
{
    put_text(f, "version", "1.0");
}
static void not_complete(hid_t f)
{
    H5Adelete(f, "complete");
}
static void complete_is_0(hid_t f)
{
    put_i32(f, "complete", 0, (int32_t[]){0});
}
static void other_format(hid_t f)
{
    put_text(f, "format", "kvt-results");
}
static void no_keys(hid_t f)
{
    H5Ldelete(f, "kv/k", H5P_DEFAULT);
}
static void no_model(hid_t f)
{
    H5Ldelete(f, "model", H5P_DEFAULT);
}
static void unknown_level(hid_t f)
{
    put_text(f, "level", "deep");
}
static void more_there(hid_t f)
{
    hsize_t n = 3;
    hid_t s = H5Screate_simple(1, &n, NULL);
    H5Dclose(
        H5Dcreate2(f, "kv/later", H5T_IEEE_F32LE, s, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Sclose(s);
}

static void wrong_axes(hid_t f)
{
    hid_t d = H5Dopen2(f, "attn/lse", H5P_DEFAULT);
    put_text(d, "axes", "LTH");
    H5Dclose(d);
}

static void model_text_is_long(hid_t f)
{
    char text[200];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    hid_t g = H5Gopen2(f, "model", H5P_DEFAULT);
    put_text(g, "name", text);
    H5Gclose(g);
}

/* Puts another dataset in the place of one. */
static void replace(hid_t f, const char *path, hid_t type, int rank, const hsize_t *dim,
                    hid_t create)
{
    hid_t s = H5Screate_simple(rank, dim, NULL);
    H5Ldelete(f, path, H5P_DEFAULT);
    hid_t d = H5Dcreate2(f, path, type, s, H5P_DEFAULT, create, H5P_DEFAULT);
    put_text(d, "axes", "LGTD");
    H5Dclose(d);
    H5Sclose(s);
}

static void keys_are_f32(hid_t f)
{
    replace(f, "kv/k", H5T_IEEE_F32LE, 4, (hsize_t[]){2, 2, 30, 8}, H5P_DEFAULT);
}
static hid_t half(void)
{
    hid_t t = H5Tcopy(H5T_IEEE_F32LE);
    H5Tset_fields(t, 15, 10, 5, 0, 10);
    H5Tset_size(t, 2);
    H5Tset_ebias(t, 15);
    return t;
}
static void keys_have_3_axes(hid_t f)
{
    replace(f, "kv/k", half(), 3, (hsize_t[]){2, 60, 8}, H5P_DEFAULT);
}
static void keys_have_31_tokens(hid_t f)
{
    replace(f, "kv/k", half(), 4, (hsize_t[]){2, 2, 31, 8}, H5P_DEFAULT);
}
static void keys_have_3_layers(hid_t f)
{
    replace(f, "kv/k", half(), 4, (hsize_t[]){3, 2, 30, 8}, H5P_DEFAULT);
}
static void keys_have_no_data(hid_t f)
{
    replace(f, "kv/k", half(), 4, (hsize_t[]){2, 2, 30, 8}, H5P_DEFAULT);
}
static void keys_lie_elsewhere(hid_t f)
{
    hid_t list = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_external(list, "/etc/passwd", 0, H5F_UNLIMITED);
    replace(f, "kv/k", half(), 4, (hsize_t[]){2, 2, 30, 8}, list);
    H5Pclose(list);
}
static void keys_are_a_link(hid_t f)
{
    H5Ldelete(f, "kv/k", H5P_DEFAULT);
    H5Lcreate_external("other.h5", "kv/k", f, "kv/k", H5P_DEFAULT, H5P_DEFAULT);
}
/* 2 TiB of nothing in a file of 70 KB. */
static void keys_are_a_bomb(hid_t f)
{
    hid_t list = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(list, 4, (hsize_t[]){1, 1, 64, 64});
    H5Pset_deflate(list, 1);
    hid_t g = H5Gopen2(f, "token", H5P_DEFAULT), s = H5Screate(H5S_SCALAR);
    int64_t n = 1 << 30;
    H5Adelete(g, "n_prompt");
    hid_t a = H5Acreate2(g, "n_prompt", H5T_STD_I64LE, s, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite(a, H5T_NATIVE_INT64, &n);
    H5Aclose(a);
    H5Sclose(s);
    H5Gclose(g);
    replace(f, "kv/k", half(), 4, (hsize_t[]){2, 2, (1 << 30) + 6, 8}, list);
    H5Pclose(list);
}
static void bad_probe(hid_t f)
{
    hid_t g = H5Gcreate2(f, "probe", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    hid_t p = H5Gcreate2(g, "look", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    put_text(p, "kind", "guess");
    H5Gclose(p);
    H5Gclose(g);
}

static const struct lie {
    const char *name;
    void (*edit)(hid_t file);
    const char *part; /* NULL: it is taken */
} lies[] = {
    {"newer major version", newer_major, "has format 2.7, this program reads up to 1.x"},
    {"higher minor version", higher_minor, NULL},
    {"unknown datasets beside ours", more_there, NULL},
    {"no version", no_version, "no attribute 'version'"},
    {"version is text", text_version, "attribute 'version': expected an integer"},
    {"complete is missing", not_complete, "is not complete"},
    {"complete is 0", complete_is_0, "is not complete"},
    {"another format", other_format, "expected format 'kvt-trace', got 'kvt-results'"},
    {"no keys", no_keys, "has no kv/k, which level replay must have"},
    {"no model", no_model, "no group '/model'"},
    {"unknown level", unknown_level, "expected summary, replay, full or train, got 'deep'"},
    {"wrong axes", wrong_axes, "attn/lse: expected axes LHT, got LTH"},
    {"a text that does not fit", model_text_is_long, "attribute 'name': text of 199 bytes"},
    {"another type", keys_are_f32, "kv/k: expected type f16, got f32"},
    {"an axis is missing", keys_have_3_axes, "kv/k: expected axes LGTD, got 3 axes"},
    {"another extent", keys_have_31_tokens,
     "kv/k: expected [L=2 G=2 T=30 D=8], got [L=2 G=2 T=31"},
    {"another number of layers", keys_have_3_layers, "kv/k: expected [L=2"},
    {"no data", keys_have_no_data, "kv/k: its 1920 bytes do not lie in the file"},
    {"data in another file", keys_lie_elsewhere, "kv/k: its data lie in another file"},
    {"a link to another file", keys_are_a_link, "has no kv/k"},
    {"more than deflate can pack", keys_are_a_bomb, NULL},
    {"a probe of no known kind", bad_probe, "/probe/look"},
};

static void a_lie_is_told(void **state)
{
    const struct lie *l = *state;
    const char *path = folder_path("lie.h5");
    kvt_trace *t = NULL;
    write_bytes(path, good.data, good.n);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    hid_t f = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    assert_true(f >= 0);
    l->edit(f);
    H5Fclose(f);
    if (l->edit == keys_are_a_bomb) { /* refused, whatever is noticed first */
        CHECK_FAILS(kvt_trace_open(&t, path, 0, &err), KVT_FORMAT, NULL, &err);
    } else if (l->part) {
        CHECK_FAILS(kvt_trace_open(&t, path, 0, &err), KVT_FORMAT, l->part, &err);
        message_is_fit("lie.h5");
    } else {
        CHECK_OK(kvt_trace_open(&t, path, 0, &err), &err);
        kvt_trace_close(t);
    }
}

/* C054: a chunk with one byte changed, and one of all 0xFF. */
static void an_edited_chunk_is_found(void **state)
{
    (void)state;
    const char *path = folder_path("chunk.h5");
    synth_spec spec = synth_default();
    spec.compress = spec.force = true;
    spec.n_prompt = 200;
    kvt_trace *t;
    kvt_view v;
    CHECK_OK(synth_file(&spec, path, &err), &err);
    hid_t f = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT), d = H5Dopen2(f, "kv/v", H5P_DEFAULT);
    unsigned mask;
    haddr_t at;
    hsize_t size;
    assert_true(H5Dget_chunk_info_by_coord(d, (hsize_t[]){1, 1, 0, 0}, &mask, &at, &size) >= 0);
    H5Dclose(d);
    H5Fclose(f);
    for (int all = 0; all < 2; all++) {
        CHECK_OK(synth_file(&spec, path, &err), &err);
        FILE *o = fopen(path, "r+b");
        assert_non_null(o);
        for (hsize_t i = 0; i < size; i++) {
            if (!all && i != size / 2)
                continue;
            fseek(o, (long)(at + i), SEEK_SET);
            int c = fgetc(o);
            fseek(o, (long)(at + i), SEEK_SET);
            fputc(all ? 0xff : c ^ 0x10, o);
        }
        fclose(o);
        CHECK_OK(kvt_trace_open(&t, path, 0, &err), &err);
        CHECK_OK(kvt_trace_read(t, KVT_DS_VALUES, 0, &v, &err), &err);
        kvt_trace_done(t, &v);
        CHECK_FAILS(kvt_trace_read(t, KVT_DS_VALUES, 1, &v, &err), KVT_FORMAT,
                    "layer 1 of kv/v", &err);
        kvt_trace_close(t);
    }
}

int main(void)
{
    struct CMUnitTest t[64];
    int n = 0;
    H5dont_atexit(); /* see traces/io.c: damaged files */
    folder_new();
    synth_spec spec = synth_default();
    spec.n_head = 4;
    if (synth_file(&spec, folder_path("good.h5"), &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    buf_init(&good, 1 << 24);
    if (file_read(&good, folder_path("good.h5"), 1 << 24, &err))
        return 1;
    CHECK_ROWS(t, &n, lies, a_lie_is_told);
    const struct CMUnitTest more[] = {
        cmocka_unit_test(no_trace),
        cmocka_unit_test(a_cut_file_is_told),
        cmocka_unit_test(one_byte_is_found),
        cmocka_unit_test(an_edited_slab_names_its_dataset),
        cmocka_unit_test(an_edited_chunk_is_found),
    };
    for (int i = 0; i < CHECK_COUNT(more); i++)
        t[n++] = more[i];
    int failed = CHECK_RUN("trace_bad", t, n);
    buf_fini(&good);
    folder_end();
    return failed;
}
