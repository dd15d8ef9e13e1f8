/* test_import.c - traces and scores from other programs' arrays: the same content as when kvt
 * writes it itself, from .npy and from HDF5; wrong manifests and arrays. */
#include "tests/check.h"
#include "tests/folder.h"
#include "tests/synth.h"

#include "base/half.h"
#include "traces/dataset.h"
#include "traces/npy.h"

#include <math.h>

#include <jansson.h>

#include "kvt/arena.h"

static kvt_err err;

/* ---- .npy ----------------------------------------------------------------------------------
 */

static const char *descr(kvt_dtype t)
{
    return t == KVT_F16   ? "<f2"
           : t == KVT_F32 ? "<f4"
           : t == KVT_F64 ? "<f8"
           : t == KVT_I32 ? "<i4"
           : t == KVT_I64 ? "<i8"
                          : "|u1";
}

static void write_npy(const char *path, kvt_dtype dtype, int rank, const int64_t *dim,
                      const void *data)
{
    char header[256];
    int64_t n = 1;
    int at = snprintf(header, sizeof header,
                      "{'descr': '%s', 'fortran_order': False, 'shape': (", descr(dtype));
    for (int i = 0; i < rank; i++) {
        at += snprintf(header + at, sizeof header - (size_t)at, "%lld,%s", (long long)dim[i],
                       i + 1 < rank ? " " : "");
        n *= dim[i];
    }
    at += snprintf(header + at, sizeof header - (size_t)at, "), }");
    while ((10 + at + 1) % 64)
        header[at++] = ' ';
    header[at++] = '\n';
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    const uint8_t head[10] = {0x93, 'N', 'U', 'M',         'P',
                              'Y',  1,   0,   (uint8_t)at, (uint8_t)(at >> 8)};
    fwrite(head, 1, 10, f);
    fwrite(header, 1, (size_t)at, f);
    if (n)
        fwrite(data, kvt_dtype_size(dtype), (size_t)n, f);
    assert_int_equal(fclose(f), 0);
}

static const struct header {
    const char *name, *text;
    int rank;         /* expected */
    const char *part; /* or part of the message */
} headers[] = {
    {"numpy's own", "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }", 2, NULL},
    {"another order of keys", "{'shape': (3,), 'fortran_order': False, 'descr': '|u1'}", 1,
     NULL},
    {"a scalar", "{'descr': '<i8', 'fortran_order': False, 'shape': (), }", 0, NULL},
    {"big-endian", "{'descr': '>f4', 'fortran_order': False, 'shape': (3, 4), }", 0, "type"},
    {"complex", "{'descr': '<c8', 'fortran_order': False, 'shape': (3, 4), }", 0, "type"},
    {"objects", "{'descr': '|O', 'fortran_order': False, 'shape': (3, 4), }", 0, "type"},
    {"a record", "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }", 0,
     "type"},
    {"Fortran order", "{'descr': '<f4', 'fortran_order': True, 'shape': (3, 4), }", 0,
     "C order"},
    {"six axes", "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1), }", 0,
     "shape"},
    {"a negative extent", "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", 0,
     "shape"},
    {"an endless extent",
     "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", 0,
     "shape"},
    {"no shape", "{'descr': '<f4', 'fortran_order': False, }", 0, "once each"},
    {"shape twice", "{'shape': (3,), 'descr': '<f4', 'fortran_order': False, 'shape': (3,), }",
     0, "once each"},
    {"more behind it", "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), } x", 0,
     "once each"},
    {"not closed", "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), ", 0, "once each"},
    {"code", "__import__('os').system('x')", 0, "begins with"},
};

static void header_is_read(void **state)
{
    const struct header *h = *state;
    uint8_t bytes[512] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
    size_t n = strlen(h->text), size = (10 + n + 63) / 64 * 64 - 10, offset;
    npy a;
    memset(bytes + 10, ' ', size);
    memcpy(bytes + 10, h->text, n);
    bytes[10 + size - 1] = '\n';
    bytes[8] = (uint8_t)size;
    bytes[9] = (uint8_t)(size >> 8);
    if (h->part) {
        CHECK_FAILS(npy_parse(&a, &offset, bytes, 10 + size, &err), KVT_FORMAT, h->part, &err);
        return;
    }
    CHECK_OK(npy_parse(&a, &offset, bytes, 10 + size, &err), &err);
    assert_int_equal(a.rank, h->rank);
    assert_int_equal(offset, 10 + size);
    for (size_t cut = 0; cut < 10 + size; cut++)
        CHECK_FAILS(npy_parse(&a, &offset, bytes, cut, &err), KVT_FORMAT, NULL, &err);
    bytes[6] = 4;
    CHECK_FAILS(npy_parse(&a, &offset, bytes, 10 + size, &err), KVT_FORMAT, "version", &err);
}

static void values_must_be_whole(void **state)
{
    (void)state;
    const int64_t dim[] = {3, 4};
    float x[12] = {0};
    npy a;
    write_npy(folder_path("a.npy"), KVT_F32, 2, dim, x);
    CHECK_OK(npy_open(&a, folder_path("a.npy"), &err), &err);
    npy_close(&a);
    assert_int_equal(truncate(folder_path("a.npy"), 128 + 47), 0);
    CHECK_FAILS(npy_open(&a, folder_path("a.npy"), &err), KVT_FORMAT, "expected 48 bytes",
                &err);
    assert_int_equal(truncate(folder_path("a.npy"), 0), 0);
    CHECK_FAILS(npy_open(&a, folder_path("a.npy"), &err), KVT_FORMAT, "no .npy", &err);
    CHECK_FAILS(npy_open(&a, folder_path("b.npy"), &err), KVT_NOTFOUND, NULL, &err);
}

/* ---- traces --------------------------------------------------------------------------------
 */

/* The manifest of a synthetic trace: its attributes, and datasets as files. */
static json_t *manifest_of(const synth *s)
{
    json_t *j = json_object(), *sets = json_object();
    const kvt_trace_facts *f = &s->out.facts;
    int n;
    const trace_attr *a = trace_attrs(&n);
    for (int i = 0; i < n; i++) {
        const char *at = (const char *)f + a[i].offset;
        json_t *v = NULL, *group = j;
        if (a[i].group[0] && !(group = json_object_get(j, a[i].group))) {
            group = json_object();
            json_object_set_new(j, a[i].group, group);
        }
        switch (a[i].kind) {
        case ATTR_TEXT: v = json_string(at); break;
        case ATTR_LEVEL: v = json_string(kvt_level_name(f->level)); break;
        case ATTR_BOOL: v = json_boolean(*(const bool *)at); break;
        case ATTR_REAL: v = json_real(*(const double *)(const void *)at); break;
        case ATTR_INT:
        case ATTR_U64: v = json_integer(*(const int64_t *)(const void *)at); break;
        }
        json_object_set_new(group, a[i].name, v);
    }
    json_t *window = json_array(), *spans = json_object();
    for (int64_t l = 0; l < f->model.n_layer; l++)
        json_array_append_new(window, json_integer(f->model.window[l]));
    json_object_set_new(json_object_get(j, "model"), "window", window);
    for (int i = 0; i < f->n_span; i++)
        json_object_set_new(
            spans, f->span[i].name,
            json_pack("[I, I]", (json_int_t)f->span[i].begin, (json_int_t)f->span[i].end));
    json_object_set_new(json_object_get(j, "token"), "spans", spans);
    json_object_set_new(j, "datasets", sets);
    return j;
}

static void name_sets(json_t *j, const synth *s, const char *h5)
{
    json_t *sets = json_object_get(j, "datasets");
    for (int ds = 0; ds < KVT_DS_COUNT; ds++) {
        const kvt_dataset *d = kvt_dataset_of((kvt_ds)ds);
        char name[128];
        if (!s->data[ds] || !dataset_in_level((kvt_ds)ds, s->spec.level))
            continue;
        if (h5) {
            snprintf(name, sizeof name, "%s:/%s", h5, d->path);
        } else {
            snprintf(name, sizeof name, "%s.npy", d->id);
            write_npy(folder_path(name), d->dtype, (int)strlen(d->axes), s->dim[ds],
                      s->data[ds]);
        }
        json_object_set_new(sets, d->path, json_string(name));
    }
}

static kvt_code import(json_t *j, const char *out)
{
    assert_int_equal(json_dump_file(j, folder_path("m.json"), JSON_REAL_PRECISION(17)), 0);
    return kvt_trace_import(folder_path("m.json"), out, true, &err);
}

static void digest_of_trace(char out[KVT_DIGEST_TEXT], const char *path)
{
    kvt_trace *t;
    CHECK_OK(kvt_trace_open(&t, path, 0, &err), &err);
    memcpy(out, kvt_trace_info_of(t)->digest, KVT_DIGEST_TEXT);
    kvt_trace_close(t);
}

/* By the content digest: arrays and attributes that come in by a manifest are the same as those
 * that kvt writes. */
static void the_same_content(void **state)
{
    (void)state;
    char want[KVT_DIGEST_TEXT], got[KVT_DIGEST_TEXT];
    for (int level = KVT_SUMMARY; level <= KVT_TRAIN; level++)
        for (int h5 = 0; h5 < 2; h5++) {
            synth_spec spec = synth_default();
            spec.level = (kvt_level)level;
            spec.window = 7;
            spec.force = true;
            synth *s = synth_new(&spec);
            CHECK_OK(synth_write(s, folder_path("want.h5"), &err), &err);
            json_t *j = manifest_of(s);
            name_sets(j, s, h5 ? "want.h5" : NULL);
            json_object_set_new(j, "compress", json_boolean(h5));
            CHECK_OK(import(j, folder_path("got.h5")), &err);
            digest_of_trace(want, folder_path("want.h5"));
            digest_of_trace(got, folder_path("got.h5"));
            assert_string_equal(want, got);
            json_decref(j);
            synth_free(s);
        }
}

/* What follows from the rest need not be given; other types are converted. */
static void the_rest_is_filled_in(void **state)
{
    (void)state;
    static const char *const drop[] = {"layer/id", "query/pos", "attn/block_start"};
    static const char *const drop_model[] = {"n_layer",  "n_head",    "n_kv_head",
                                             "head_dim", "rope_freq", "attn_scale"};
    char want[KVT_DIGEST_TEXT], got[KVT_DIGEST_TEXT];
    synth_spec spec = synth_default();
    spec.last_queries = -1; /* all, so that query/pos is known */
    spec.force = true;
    synth *s = synth_new(&spec);
    CHECK_OK(synth_write(s, folder_path("want.h5"), &err), &err);
    json_t *j = manifest_of(s);
    name_sets(j, s, NULL);
    for (int i = 0; i < CHECK_COUNT(drop); i++)
        assert_int_equal(json_object_del(json_object_get(j, "datasets"), drop[i]), 0);
    for (int i = 0; i < CHECK_COUNT(drop_model); i++)
        json_object_del(json_object_get(j, "model"), drop_model[i]);
    json_object_del(json_object_get(j, "token"), "n_prompt");
    json_object_del(json_object_get(j, "token"), "n_response");
    json_object_del(json_object_get(j, "token"), "look_until");
    /* Keys as f64, ids as i64. */
    int64_t n = 2 * 2 * 30 * 8, wide[30];
    double *k = kvt_alloc(n, sizeof *k);
    for (int64_t i = 0; i < n; i++)
        k[i] = (double)half_to_float(((uint16_t *)s->data[KVT_DS_KEYS])[i]);
    write_npy(folder_path("KEYS.npy"), KVT_F64, 4, s->dim[KVT_DS_KEYS], k);
    for (int i = 0; i < 30; i++)
        wide[i] = ((int32_t *)s->data[KVT_DS_TOKEN_ID])[i];
    write_npy(folder_path("TOKEN_ID.npy"), KVT_I64, 1, s->dim[KVT_DS_TOKEN_ID], wide);
    CHECK_OK(import(j, folder_path("got.h5")), &err);
    digest_of_trace(want, folder_path("want.h5"));
    digest_of_trace(got, folder_path("got.h5"));
    assert_string_equal(want, got);
    kvt_free(k);
    json_decref(j);
    synth_free(s);
}

static void drop_keys(json_t *j)
{
    json_object_del(json_object_get(j, "datasets"), "kv/k");
}
static void no_sets(json_t *j)
{
    json_object_del(j, "datasets");
}
static void wrong_name(json_t *j)
{
    json_object_set_new(json_object_get(j, "datasets"), "kv/keys", json_string("KEYS.npy"));
}
static void wrong_attr(json_t *j)
{
    json_object_set_new(json_object_get(j, "model"), "n_heads", json_integer(4));
}
static void wrong_root(json_t *j)
{
    json_object_set_new(j, "levels", json_string("full"));
}
static void wrong_type(json_t *j)
{
    json_object_set_new(json_object_get(j, "token"), "n_prompt", json_string("24"));
}
static void wrong_level(json_t *j)
{
    json_object_set_new(j, "level", json_string("deep"));
}
static void wrong_span(json_t *j)
{
    json_object_set_new(json_object_get(j, "token"), "spans", json_pack("{s:[i]}", "a", 3));
}
static void no_file(json_t *j)
{
    json_object_set_new(json_object_get(j, "datasets"), "kv/k", json_string("nowhere.npy"));
}
static void reals_for_ids(json_t *j)
{
    json_object_set_new(json_object_get(j, "datasets"), "token/id", json_string("NLL30.npy"));
}
static void other_axes(json_t *j)
{
    json_object_set_new(json_object_get(j, "datasets"), "kv/k", json_string("LSE.npy"));
}
static void other_extents(json_t *j)
{
    json_object_set_new(json_object_get(j, "datasets"), "kv/k", json_string("QUERIES.npy"));
}
static void no_dataset(json_t *j)
{
    json_object_set_new(json_object_get(j, "datasets"), "kv/k",
                        json_string("want.h5:/kv/none"));
}
static void an_array_of_text(json_t *j)
{
    json_object_set_new(json_object_get(j, "model"), "window", json_pack("[s]", "x"));
}

static const struct wrong {
    const char *name;
    void (*edit)(json_t *j);
    kvt_code code;
    const char *part;
} wrongs[] = {
    {"keys are missing", drop_keys, KVT_FORMAT, "kv/k was not written"},
    {"no datasets", no_sets, KVT_FORMAT, "datasets: expected"},
    {"an unknown dataset", wrong_name, KVT_FORMAT, "no dataset 'kv/keys'"},
    {"an unknown attribute", wrong_attr, KVT_FORMAT, "did you mean 'n_head'?"},
    {"an unknown attribute of the root", wrong_root, KVT_FORMAT, "did you mean 'level'?"},
    {"text for a number", wrong_type, KVT_FORMAT, "token: n_prompt: expected a whole number"},
    {"an unknown level", wrong_level, KVT_FORMAT, "got 'deep'"},
    {"a span of one", wrong_span, KVT_FORMAT, "spans: expected"},
    {"a file that is not there", no_file, KVT_NOTFOUND, "nowhere.npy"},
    {"reals for whole numbers", reals_for_ids, KVT_FORMAT, "expected i32, got f32"},
    {"other axes", other_axes, KVT_FORMAT, "kv/k: expected axes LGTD, got 3 axes"},
    {"other extents", other_extents, KVT_FORMAT, "kv/k"},
    {"an HDF5 file without it", no_dataset, KVT_NOTFOUND, "kv/none"},
    {"windows as text", an_array_of_text, KVT_FORMAT, "window[0]: expected a number"},
};

static void a_wrong_manifest_is_told(void **state)
{
    const struct wrong *w = *state;
    synth_spec spec = synth_default();
    spec.force = true;
    synth *s = synth_new(&spec);
    float nll[30] = {0};
    const int64_t n = 30;
    CHECK_OK(synth_write(s, folder_path("want.h5"), &err), &err);
    write_npy(folder_path("NLL30.npy"), KVT_F32, 1, &n, nll);
    json_t *j = manifest_of(s);
    name_sets(j, s, NULL);
    w->edit(j);
    CHECK_FAILS(import(j, folder_path("wrong.h5")), w->code, w->part, &err);
    assert_int_equal(access(folder_path("wrong.h5"), F_OK), -1);
    json_decref(j);
    synth_free(s);
}

static void no_manifest(void **state)
{
    (void)state;
    CHECK_FAILS(kvt_trace_import(folder_path("none.json"), folder_path("x.h5"), true, &err),
                KVT_NOTFOUND, "none.json", &err);
    FILE *f = fopen(folder_path("bad.json"), "w");
    fputs("{\"level\": \"replay\", }", f);
    fclose(f);
    CHECK_FAILS(kvt_trace_import(folder_path("bad.json"), folder_path("x.h5"), true, &err),
                KVT_FORMAT, "bad.json", &err);
}

/* ---- scores --------------------------------------------------------------------------------
 */

static kvt_code import_scores(const char *text, bool force)
{
    FILE *f = fopen(folder_path("s.json"), "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    return kvt_scores_import(folder_path("s.json"), folder_path("s.h5"), force, &err);
}

static void scores_come_back(void **state)
{
    (void)state;
    synth_spec spec = synth_default();
    spec.force = true;
    CHECK_OK(synth_file(&spec, folder_path("t.h5"), &err), &err);
    const int64_t dim[] = {2, 2, 24}, other[] = {2, 3, 24};
    float x[2 * 3 * 24];
    uint8_t pin[2 * 2 * 24] = {0};
    for (int i = 0; i < 2 * 3 * 24; i++)
        x[i] = (float)sin(i);
    pin[0] = pin[95] = 1;
    write_npy(folder_path("x.npy"), KVT_F32, 3, dim, x);
    write_npy(folder_path("o.npy"), KVT_F32, 3, other, x);
    write_npy(folder_path("p.npy"), KVT_U8, 3, dim, pin);
    CHECK_OK(import_scores("{\"trace\": \"t.h5\", \"name\": \"mine\", \"datasets\": "
                           "{\"score/value\": \"x.npy\", \"score/pinned\": \"p.npy\"}}",
                           false),
             &err);
    kvt_scores *s;
    char digest[KVT_DIGEST_TEXT];
    CHECK_OK(kvt_scores_open(&s, folder_path("s.h5"), &err), &err);
    digest_of_trace(digest, folder_path("t.h5"));
    assert_string_equal(s->trace_digest, digest);
    assert_string_equal(s->name, "mine");
    CHECK_OK(kvt_view_expect(&s->score, "score", KVT_F32, KVT_SHAPE("LAN", 2, 2, 24), &err),
             &err);
    assert_memory_equal(s->score.data, x, 96 * sizeof *x);
    assert_memory_equal(s->pinned.data, pin, 96);
    kvt_scores_close(s);
    const char *plain =
        "{\"trace_digest\": \"0123456789abcdef0123456789abcdef\", \"name\": \"m\", "
        "\"datasets\": {\"score/value\": \"x.npy\"}}";
    CHECK_FAILS(import_scores(plain, false), KVT_IO, "is there already", &err);
    CHECK_OK(import_scores(plain, true), &err);
    CHECK_OK(kvt_scores_open(&s, folder_path("s.h5"), &err), &err);
    assert_null(s->pinned.data);
    kvt_scores_close(s);
    CHECK_FAILS(import_scores("{\"trace\": \"t.h5\", \"name\": \"m\", \"datasets\": "
                              "{\"score/value\": \"o.npy\"}}",
                              true),
                KVT_FORMAT, "expected [L=2 A=2 or 4 N=24], got [2 3 24]", &err);
    CHECK_FAILS(
        import_scores("{\"name\": \"m\", \"datasets\": {\"score/value\": \"x.npy\"}}", true),
        KVT_FORMAT, "\"trace\" or \"trace_digest\"", &err);
    x[7] = NAN;
    write_npy(folder_path("x.npy"), KVT_F32, 3, dim, x);
    CHECK_FAILS(import_scores(plain, true), KVT_FORMAT, "element 7: NaN has no rank", &err);
    CHECK_FAILS(kvt_scores_open(&s, folder_path("t.h5"), &err), KVT_FORMAT, "is no score file",
                &err);
    CHECK_FAILS(kvt_scores_open(&s, folder_path("n.h5"), &err), KVT_NOTFOUND, "n.h5", &err);
}

int main(void)
{
    struct CMUnitTest t[64];
    int n = 0;
    CHECK_ROWS(t, &n, headers, header_is_read);
    CHECK_ROWS(t, &n, wrongs, a_wrong_manifest_is_told);
    const struct CMUnitTest more[] = {
        cmocka_unit_test(values_must_be_whole),  cmocka_unit_test(the_same_content),
        cmocka_unit_test(the_rest_is_filled_in), cmocka_unit_test(no_manifest),
        cmocka_unit_test(scores_come_back),
    };
    for (int i = 0; i < CHECK_COUNT(more); i++)
        t[n++] = more[i];
    folder_new();
    int failed = CHECK_RUN("import", t, n);
    folder_end();
    return failed;
}
