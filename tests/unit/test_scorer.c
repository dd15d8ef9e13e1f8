/* test_scorer.c - scorer files: every kind there and back, what is refused in writing and in
 * reading, manifests. */
#include "tests/check.h"
#include "tests/folder.h"
#include "tests/synth_more.h"

#include "traces/h5.h"
#include "traces/io.h"

#include <math.h>
#include <stdio.h>

#include "kvt/arena.h"

static kvt_err err;

static synth_spec small(void)
{
    synth_spec s = synth_default();
    s.n_layer = 2;
    s.model_layers = 5;
    return s;
}

/* ---- there and back ------------------------------------------------------------------------
 */

static void every_kind(void **state)
{
    (void)state;
    synth_spec spec = small();
    const char *path = folder_path("kind.h5");
    for (int i = 0; synth_scorers[i]; i++) {
        kvt_scorer *s;
        kvt_view v;
        CHECK_OK(synth_scorer(synth_scorers[i], &spec, path, &err), &err);
        assert_true(kvt_is_scorer(path));
        CHECK_OK(kvt_scorer_open(&s, path, &err), &err);
        const kvt_scorer_info *info = kvt_scorer_info_of(s);
        assert_string_equal(info->kind, synth_scorers[i]);
        assert_string_equal(info->path, path);
        assert_string_equal(info->recipe, "{\"trainer\": \"none\"}");
        assert_string_equal(info->writer, "synth");
        assert_int_equal(info->n_layer, 2);
        assert_int_equal(kvt_scorer_layer(s, 3), 0);
        assert_int_equal(kvt_scorer_layer(s, 4), 1);
        assert_int_equal(kvt_scorer_layer(s, 2), -1);
        assert_true(kvt_scorer_count(s) > 0);
        assert_null(kvt_scorer_at(s, -1));
        assert_null(kvt_scorer_at(s, kvt_scorer_count(s)));
        for (int k = 0; k < kvt_scorer_count(s); k++) {
            const kvt_scorer_tensor *t = kvt_scorer_at(s, k);
            CHECK_OK(kvt_scorer_find(s, t->name, &v, &err), &err);
            assert_ptr_equal(v.data, t->view.data);
            assert_true(k == 0 || strcmp(kvt_scorer_at(s, k - 1)->name, t->name) < 0);
        }
        CHECK_FAILS(kvt_scorer_find(s, "no/such", &v, &err), KVT_NOTFOUND,
                    "has no tensor 'no/such'", &err);
        assert_non_null(strstr(err.text, synth_scorers[i]));
        kvt_scorer_close(s);
    }
    CHECK_FAILS(synth_scorer("nothing", &spec, path, &err), KVT_NOTFOUND, NULL, &err);
}

/* ---- a file of two tensors, bent in one place ----------------------------------------------
 */

enum { L = 2, G = 2, K = 3, W = 4 };

typedef struct made {
    kvt_scorer_info info;
    kvt_scorer_tensor tensor[3];
    float weight[L * G * K * W], bias[L * G * K], number[1];
    int n;
} made;

static void make(made *m)
{
    const int64_t weight[] = {L, G, K, W};
    memset(m, 0, sizeof *m);
    m->info = (kvt_scorer_info){.n_head = 4,
                                .n_kv_head = G,
                                .head_dim = 8,
                                .n_hidden = 32,
                                .model_layers = 3,
                                .n_layer = L,
                                .layer_id = {0, 2}};
    snprintf(m->info.kind, sizeof m->info.kind, "test-kind");
    snprintf(m->info.recipe, sizeof m->info.recipe, "{}");
    for (int i = 0; i < L * G * K * W; i++)
        m->weight[i] = (float)i / 64 - 0.3f;
    for (int i = 0; i < L * G * K; i++)
        m->bias[i] = (float)i / 7;
    m->number[0] = 12;
    m->n = 3;
    snprintf(m->tensor[0].name, 64, "in/weight");
    snprintf(m->tensor[0].help, 128, "of the hidden units");
    m->tensor[0].view = kvt_view_of(m->weight, KVT_F32, "LGKW", 4, weight);
    snprintf(m->tensor[1].name, 64, "in/bias");
    m->tensor[1].view = kvt_view_of(m->bias, KVT_F32, "LGK", 3, weight);
    snprintf(m->tensor[2].name, 64, "slots");
    m->tensor[2].view = kvt_view_of(m->number, KVT_F32, "", 0, NULL);
}

static kvt_code put(const made *m, const char *path)
{
    return kvt_scorer_write(path, &m->info, m->tensor, m->n, true, &err);
}

/* Order, help, writer and date do not count; values do. */
static void the_digest_is_of_the_content(void **state)
{
    (void)state;
    static made a, b;
    kvt_scorer *s, *r;
    make(&a);
    make(&b);
    b.tensor[0] = a.tensor[2];
    b.tensor[2] = a.tensor[0];
    snprintf(b.tensor[1].help, 128, "another help");
    snprintf(b.info.created, sizeof b.info.created, "today");
    CHECK_OK(put(&a, folder_path("a.h5")), &err);
    CHECK_OK(put(&b, folder_path("b.h5")), &err);
    CHECK_OK(kvt_scorer_open(&s, folder_path("a.h5"), &err), &err);
    CHECK_OK(kvt_scorer_open(&r, folder_path("b.h5"), &err), &err);
    assert_string_equal(kvt_scorer_info_of(s)->digest, kvt_scorer_info_of(r)->digest);
    kvt_scorer_close(r);
    b.bias[3] += 0x1p-20f;
    b.tensor[1].view.data = b.bias;
    CHECK_OK(put(&b, folder_path("b.h5")), &err);
    CHECK_OK(kvt_scorer_open(&r, folder_path("b.h5"), &err), &err);
    assert_string_not_equal(kvt_scorer_info_of(s)->digest, kvt_scorer_info_of(r)->digest);
    kvt_scorer_close(r);
    kvt_scorer_close(s);
}

/* Halves are rounded once; a strided view is stored as its values. */
static void halves_and_strides(void **state)
{
    (void)state;
    static made m;
    static float turned[W][L * G * K];
    kvt_scorer *s;
    kvt_view v;
    make(&m);
    for (int i = 0; i < L * G * K; i++)
        for (int k = 0; k < W; k++)
            turned[k][i] = m.weight[i * W + k];
    kvt_view *t = &m.tensor[0].view;
    t->data = turned;
    t->stride[0] = G * K, t->stride[1] = K, t->stride[2] = 1, t->stride[3] = L * G * K;
    m.tensor[1].half = true;
    CHECK_OK(put(&m, folder_path("s.h5")), &err);
    CHECK_OK(kvt_scorer_open(&s, folder_path("s.h5"), &err), &err);
    CHECK_OK(kvt_scorer_find(s, "in/weight", &v, &err), &err);
    assert_memory_equal(v.data, m.weight, sizeof m.weight);
    CHECK_OK(kvt_scorer_find(s, "in/bias", &v, &err), &err);
    for (int i = 0; i < L * G * K; i++)
        CHECK_NEAR((double)((const float *)v.data)[i], (double)m.bias[i], 0x1p-10);
    assert_true(kvt_scorer_at(s, 0)->half);
    CHECK_OK(kvt_scorer_find(s, "slots", &v, &err), &err);
    assert_int_equal(v.rank, 0);
    assert_true(*(const float *)v.data == 12);
    kvt_scorer_close(s);
}

static void bad_kind(made *m)
{
    snprintf(m->info.kind, sizeof m->info.kind, "Test Kind");
}
static void no_kind(made *m)
{
    m->info.kind[0] = 0;
}
static void bad_digest(made *m)
{
    snprintf(m->info.weights_digest, KVT_DIGEST_TEXT, "abc");
}
static void three_heads(made *m)
{
    m->info.n_head = 3;
}
static void no_layers(made *m)
{
    m->info.n_layer = 0;
}
static void layer_behind(made *m)
{
    m->info.layer_id[1] = 3;
}
static void layers_fall(made *m)
{
    m->info.layer_id[0] = 2;
}
static void bad_recipe(made *m)
{
    snprintf(m->info.recipe, sizeof m->info.recipe, "[1]");
}
static void a_nan(made *m)
{
    m->weight[5] = NAN;
}
static void infinity_there(made *m)
{
    m->bias[0] = -INFINITY;
}
static void too_large_for_half(made *m)
{
    m->bias[2] = 70000;
    m->tensor[1].half = true;
}
static void other_heads(made *m)
{
    m->tensor[1].view.dim[1] = 1;
}
static void other_width(made *m)
{
    m->tensor[1].view.dim[2] = 2;
}
static void unknown_axis(made *m)
{
    m->tensor[1].view.axes[2] = '?';
}
static void an_empty_axis(made *m)
{
    m->tensor[0].view.dim[3] = 0;
}
static void a_huge_axis(made *m)
{
    m->tensor[0].view.dim[3] = INT32_MAX;
}
static void upper_name(made *m)
{
    snprintf(m->tensor[0].name, 64, "In");
}
static void name_of_layers(made *m)
{
    snprintf(m->tensor[0].name, 64, "layer/id");
}
static void name_with_slash(made *m)
{
    snprintf(m->tensor[0].name, 64, "in/");
}
static void twice(made *m)
{
    snprintf(m->tensor[0].name, 64, "slots");
}
static void no_tensor(made *m)
{
    m->n = 0;
}
static void whole_numbers(made *m)
{
    m->tensor[1].view.dtype = KVT_I32;
}

static const struct refusal {
    const char *name;
    void (*edit)(made *m);
    const char *part;
} refusals[] = {
    {"a kind in upper case", bad_kind, "kind: expected a name of a-z"},
    {"no kind", no_kind, "kind: expected a name of a-z"},
    {"a short digest", bad_digest, "weights_digest: expected 32 hex digits, got 'abc'"},
    {"heads no multiple", three_heads, "3 query heads are no multiple of 2 kv heads"},
    {"no layer", no_layers, "layers of the file: expected 1 to 3, got 0"},
    {"a layer behind the last", layer_behind, "layer/id: expected 0 to 2, got 3"},
    {"layers that do not rise", layers_fall, "layer/id[1]: 2 does not come after 2"},
    {"a recipe that is no object", bad_recipe, "recipe: expected an object"},
    {"NaN", a_nan, "in/weight, element 5: NaN"},
    {"infinity", infinity_there, "in/bias, element 0: infinity"},
    {"too large for a half", too_large_for_half, "in/bias, element 2: does not fit a half"},
    {"other heads", other_heads, "in/bias: axis G (kv_head): expected 2, got 1"},
    {"an extent of its own", other_width, "in/weight: axis K (width): expected 2, got 3"},
    {"an unknown axis", unknown_axis, "in/bias: axes LG?: there is no axis '?'"},
    {"an empty axis", an_empty_axis, "in/weight: axis W: an extent of 0 is out of range"},
    {"a huge axis", a_huge_axis, "in/weight: axis W: an extent of 2147483647"},
    {"a name in upper case", upper_name, "'In' is no name of a tensor"},
    {"the name of the layers", name_of_layers, "'layer/id' is no name of a tensor"},
    {"a name that ends in a slash", name_with_slash, "'in/' is no name of a tensor"},
    {"a name twice", twice, "slots: given twice"},
    {"no tensor", no_tensor, "expected 1 to 64 tensors, got 0"},
    {"whole numbers", whole_numbers, "in/bias: expected f32"},
};

static void is_refused(void **state)
{
    const struct refusal *r = *state;
    static made m;
    make(&m);
    r->edit(&m);
    unlink(folder_path("no.h5"));
    CHECK_FAILS(put(&m, folder_path("no.h5")), KVT_FORMAT, r->part, &err);
    assert_int_equal(access(folder_path("no.h5"), F_OK), -1);
}

static void force_and_names(void **state)
{
    (void)state;
    static made m;
    kvt_scorer *s;
    make(&m);
    CHECK_OK(put(&m, folder_path("f.h5")), &err);
    CHECK_FAILS(kvt_scorer_write(folder_path("f.h5"), &m.info, m.tensor, m.n, false, &err),
                KVT_IO, "is there already; --force replaces it", &err);
    CHECK_FAILS(kvt_scorer_open(&s, folder_path("nothing.h5"), &err), KVT_NOTFOUND, NULL, &err);
    assert_false(kvt_is_scorer(folder_path("nothing.h5")));
    synth_spec spec = synth_default();
    CHECK_OK(synth_file(&spec, folder_path("trace.h5"), &err), &err);
    assert_false(kvt_is_scorer(folder_path("trace.h5")));
    CHECK_FAILS(kvt_scorer_open(&s, folder_path("trace.h5"), &err), KVT_FORMAT,
                "expected format 'kvt-scorer', got 'kvt-trace'", &err);
}

/* ---- files that lie ------------------------------------------------------------------------
 */

static void again(hid_t at, const char *name)
{
    H5Adelete(at, name);
}

static kvt_code other_format(hid_t f)
{
    again(f, "format");
    return h5_put_text(f, "format", "kvt-scores", &err);
}
static kvt_code newer(hid_t f)
{
    again(f, "version");
    return h5_put_array(f, "version", H5T_STD_I32LE, 2, (int32_t[]){2, 3}, &err);
}
static kvt_code incomplete(hid_t f)
{
    again(f, "complete");
    return KVT_OK;
}
static kvt_code no_recipe(hid_t f)
{
    again(f, "recipe");
    return KVT_OK;
}
static kvt_code other_digest(hid_t f)
{
    again(f, "digest");
    return h5_put_text(f, "digest", "0123456789abcdef0123456789abcdef", &err);
}
static kvt_code other_kind(hid_t f)
{
    again(f, "kind");
    return h5_put_text(f, "kind", "another", &err);
}
static kvt_code other_value(hid_t f)
{
    float x = 13;
    hid_t set = H5Dopen2(f, "slots", H5P_DEFAULT);
    H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, &x);
    return H5Dclose(set) < 0 ? KVT_IO : KVT_OK;
}
static kvt_code other_axes(hid_t f)
{
    hid_t set = H5Dopen2(f, "in/bias", H5P_DEFAULT);
    again(set, "axes");
    kvt_code code = h5_put_text(set, "axes", "LGW", &err);
    H5Dclose(set);
    return code;
}
static kvt_code fewer_axes(hid_t f)
{
    hid_t set = H5Dopen2(f, "in/bias", H5P_DEFAULT);
    again(set, "axes");
    kvt_code code = h5_put_text(set, "axes", "LG", &err);
    H5Dclose(set);
    return code;
}
static kvt_code no_sum(hid_t f)
{
    hid_t set = H5Dopen2(f, "in/bias", H5P_DEFAULT);
    again(set, "xxh64");
    H5Dclose(set);
    return KVT_OK;
}
static kvt_code a_soft_link(hid_t f)
{
    return H5Lcreate_soft("/in/bias", f, "soft", H5P_DEFAULT, H5P_DEFAULT) < 0 ? KVT_IO
                                                                               : KVT_OK;
}
static kvt_code a_circle(hid_t f)
{
    return H5Lcreate_hard(f, "/", f, "in/round", H5P_DEFAULT, H5P_DEFAULT) < 0 ? KVT_IO
                                                                               : KVT_OK;
}
static kvt_code a_huge_one(hid_t f)
{
    hid_t set, list = H5Pcreate(H5P_DATASET_CREATE);
    hid_t space = H5Screate_simple(2, (hsize_t[]){2, 1 << 27}, NULL);
    H5Pset_chunk(list, 2, (hsize_t[]){1, 1 << 20});
    set = H5Dcreate2(f, "huge", H5T_IEEE_F32LE, space, H5P_DEFAULT, list, H5P_DEFAULT);
    kvt_code code = h5_put_text(set, "axes", "LV", &err);
    if (!code)
        code = h5_put_text(set, "help", "", &err);
    H5Dclose(set);
    H5Sclose(space);
    H5Pclose(list);
    return code;
}
static kvt_code doubles(hid_t f)
{
    return h5_set_write(f, "wide", KVT_F64, 0, NULL, &(double){1}, &err);
}
static kvt_code no_layer_ids(hid_t f)
{
    return H5Ldelete(f, "layer/id", H5P_DEFAULT) < 0 ? KVT_IO : KVT_OK;
}

static const struct lie {
    const char *name;
    kvt_code (*edit)(hid_t file);
    const char *part;
} lies[] = {
    {"another format", other_format, "expected format 'kvt-scorer', got 'kvt-scores'"},
    {"a newer version", newer, "has format 2.3, this program reads up to 1.x"},
    {"not complete", incomplete, "is not complete"},
    {"no attribute recipe", no_recipe, "no attribute 'recipe'"},
    {"another digest in the file", other_digest, "got 0123456789abcdef0123456789abcdef"},
    {"another kind in the file", other_kind, "digest: expected"},
    {"another value", other_value, "slots: wrong checksum"},
    {"another axis", other_axes, "axis W (scorer_in)"},
    {"an axis less", fewer_axes, "in/bias: expected axes LG, got 3 axes"},
    {"no checksum", no_sum, "in/bias: no attribute 'xxh64'"},
    {"a soft link", a_soft_link, "soft: is no object of this file"},
    {"a circle of groups", a_circle, "in/round/in/round/in: groups lie too deep"},
    {"more than the file holds", a_huge_one, "bytes do not lie in the file"},
    {"doubles", doubles, "wide: expected type f32 or f16"},
    {"no layers of its own", no_layer_ids, "no dataset 'layer/id'"},
};

typedef struct bend_args {
    const struct lie *lie;
    const char *path;
} bend_args;

static kvt_code bend(void *arg, kvt_err *e)
{
    const bend_args *b = arg;
    hid_t file;
    if (h5_file_change(&file, b->path, e))
        return e->code;
    kvt_code code = b->lie->edit(file);
    h5_file_drop(file);
    return code;
}

static void a_lie_is_found(void **state)
{
    static made m;
    kvt_scorer *s;
    bend_args b = {.lie = *state, .path = folder_path("lie.h5")};
    make(&m);
    CHECK_OK(put(&m, b.path), &err);
    CHECK_OK(io_once(bend, &b, &err), &err);
    CHECK_FAILS(kvt_scorer_open(&s, b.path, &err), KVT_FORMAT, b.lie->part, &err);
}

/* ---- manifests -----------------------------------------------------------------------------
 */

#define MODEL                                                                                \
    "\"n_head\": 4, \"n_kv_head\": 2, \"head_dim\": 8, \"n_hidden\": 32, \"model_layers\": " \
    "3, "

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void a_manifest(void **state)
{
    (void)state;
    static made m;
    kvt_scorer *a, *b;
    make(&m);
    CHECK_OK(put(&m, folder_path("from.h5")), &err);
    write_text(folder_path("m.json"),
               "{\"kind\": \"test-kind\", " MODEL "\"layers\": [0, 2], \"recipe\": {}, "
               "\"tensors\": {\"slots\": 12, "
               "\"in/weight\": {\"file\": \"from.h5:/in/weight\", \"axes\": \"LGKW\", "
               "\"help\": \"of the hidden units\"}, "
               "\"in/bias\": {\"file\": \"from.h5:/in/bias\", \"axes\": \"LGK\"}}}");
    CHECK_OK(kvt_scorer_import(folder_path("m.json"), folder_path("to.h5"), true, &err), &err);
    CHECK_OK(kvt_scorer_open(&a, folder_path("from.h5"), &err), &err);
    CHECK_OK(kvt_scorer_open(&b, folder_path("to.h5"), &err), &err);
    assert_string_equal(kvt_scorer_info_of(a)->digest, kvt_scorer_info_of(b)->digest);
    assert_string_equal(kvt_scorer_at(b, 1)->help, "of the hidden units");
    kvt_scorer_close(a);
    kvt_scorer_close(b);
}

/* A trace says what its model is. */
static void a_manifest_with_a_trace(void **state)
{
    (void)state;
    kvt_scorer *s;
    synth_spec spec = synth_default();
    spec.force = true;
    CHECK_OK(synth_file(&spec, folder_path("trace.h5"), &err), &err);
    write_text(
        folder_path("t.json"),
        "{\"kind\": \"qfilters\", \"trace\": \"trace.h5\", \"tensors\": {\"slots\": 1}}");
    CHECK_OK(kvt_scorer_import(folder_path("t.json"), folder_path("t.h5"), true, &err), &err);
    CHECK_OK(kvt_scorer_open(&s, folder_path("t.h5"), &err), &err);
    assert_int_equal(kvt_scorer_info_of(s)->n_head, spec.n_head);
    assert_int_equal(kvt_scorer_info_of(s)->n_layer, spec.n_layer);
    assert_int_equal(kvt_scorer_info_of(s)->head_dim, spec.head_dim);
    kvt_scorer_close(s);
}

static const struct wrong {
    const char *name, *text, *part;
    kvt_code code;
} wrongs[] = {
    {"no object", "[]", "expected an object", KVT_FORMAT},
    {"an unknown member", "{\"knd\": \"a\"}", "did you mean 'kind'?", KVT_USAGE},
    {"no kind in it", "{" MODEL "\"tensors\": {\"a\": 1}}", "kind: expected", KVT_FORMAT},
    {"no tensors in it", "{\"kind\": \"a\", " MODEL "\"layers\": [0]}", "tensors: expected",
     KVT_FORMAT},
    {"a text for a tensor", "{\"kind\": \"a\", " MODEL "\"tensors\": {\"x\": \"y\"}}",
     "x: expected a number or an object", KVT_FORMAT},
    {"no axes", "{\"kind\": \"a\", " MODEL "\"tensors\": {\"x\": {\"file\": \"y.npy\"}}}",
     "axes", KVT_NOTFOUND},
    {"no such file",
     "{\"kind\": \"a\", " MODEL "\"tensors\": {\"x\": {\"file\": \"y.npy\", \"axes\": \"L\"}}}",
     "y.npy", KVT_NOTFOUND},
    {"layers of no model",
     "{\"kind\": \"a\", " MODEL "\"layers\": [7], \"tensors\": {\"x\": 1}}",
     "layer/id: expected 0 to 2, got 7", KVT_FORMAT},
    {"layers that are texts",
     "{\"kind\": \"a\", " MODEL "\"layers\": [\"1\"], \"tensors\": {\"x\": 1}}",
     "layers[0]: expected a layer of the model", KVT_FORMAT},
    {"a recipe of numbers", "{\"kind\": \"a\", \"recipe\": 3, \"tensors\": {}}",
     "recipe: expected an object", KVT_FORMAT},
    {"a number too large", "{\"kind\": \"a\", " MODEL "\"tensors\": {\"x\": 1e300}}",
     "x, element 0: infinity", KVT_FORMAT},
};

static void a_wrong_manifest(void **state)
{
    const struct wrong *w = *state;
    write_text(folder_path("w.json"), w->text);
    CHECK_FAILS(kvt_scorer_import(folder_path("w.json"), folder_path("w.h5"), true, &err),
                w->code, w->part, &err);
    assert_non_null(strstr(err.text, "w.json"));
    assert_int_equal(access(folder_path("w.h5"), F_OK), -1);
}

int main(void)
{
    struct CMUnitTest tests[80] = {
        cmocka_unit_test(every_kind),         cmocka_unit_test(the_digest_is_of_the_content),
        cmocka_unit_test(halves_and_strides), cmocka_unit_test(force_and_names),
        cmocka_unit_test(a_manifest),         cmocka_unit_test(a_manifest_with_a_trace),
    };
    int n = 6;
    CHECK_ROWS(tests, &n, refusals, is_refused);
    CHECK_ROWS(tests, &n, lies, a_lie_is_found);
    CHECK_ROWS(tests, &n, wrongs, a_wrong_manifest);
    folder_new();
    int failures = CHECK_RUN("scorer", tests, n);
    folder_end();
    return failures != 0;
}
