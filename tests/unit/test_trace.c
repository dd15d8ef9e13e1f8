/* test_trace.c - what is written comes back: every dataset, level and layout; the cache;
 * threads. */
#include "tests/check.h"
#include "tests/folder.h"
#include "tests/synth.h"

#include "base/file.h"
#include "base/half.h"
#include "traces/layout.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "kvt/arena.h"
#include "kvt/policy.h"

#if defined __SANITIZE_THREAD__
#define UNDER_TSAN 1
#elif defined __has_feature
#define UNDER_TSAN __has_feature(thread_sanitizer)
#else
#define UNDER_TSAN 0
#endif

static kvt_err err;

/* ---- round trip ----------------------------------------------------------------------------
 */

static const struct row {
    const char *name;
    synth_spec over; /* what differs from synth_default(); 0: does not */
    bool no_response;
} rows[] = {
    {.name = "replay", .over = {0}},
    {.name = "summary", .over = {.level = (kvt_level)-1}},
    {.name = "full", .over = {.level = KVT_FULL}},
    {.name = "train", .over = {.level = KVT_TRAIN}},
    {.name = "compressed", .over = {.level = KVT_FULL, .compress = true, .n_prompt = 90}},
    {.name = "without text", .over = {.no_text = true}},
    {.name = "without rows", .over = {.no_rows = true}},
    {.name = "hostile text", .over = {.hostile = true, .n_prompt = 40}},
    {.name = "a sliding window", .over = {.window = 4}},
    {.name = "all queries", .over = {.last_queries = -1}},
    {.name = "layers 2 and 3 of 4", .over = {.model_layers = 4}},
    {.name = "one token, no response (C055)", .over = {.n_prompt = 1}, .no_response = true},
    {.name = "the same, compressed",
     .over = {.n_prompt = 1, .compress = true},
     .no_response = true},
    {.name = "one layer, one head", .over = {.n_layer = 1, .n_head = 1, .n_kv_head = 1}},
    {.name = "odd sizes", .over = {.n_layer = 3, .n_head = 3, .n_kv_head = 1, .head_dim = 6}},
};

static synth_spec spec_of(const struct row *r)
{
    synth_spec s = synth_default(), o = r->over;
    s.n_layer = o.n_layer ? o.n_layer : s.n_layer;
    s.n_head = o.n_head ? o.n_head : s.n_head;
    s.n_kv_head = o.n_kv_head ? o.n_kv_head : s.n_kv_head;
    s.head_dim = o.head_dim ? o.head_dim : s.head_dim;
    s.n_prompt = o.n_prompt ? o.n_prompt : s.n_prompt;
    s.last_queries = o.last_queries ? o.last_queries : s.last_queries;
    s.n_response = r->no_response ? 0 : s.n_response;
    s.level = (int)o.level < 0 ? KVT_SUMMARY : o.level ? o.level : s.level;
    s.model_layers = o.model_layers;
    s.window = o.window;
    s.compress = o.compress;
    s.no_text = o.no_text;
    s.no_rows = o.no_rows;
    s.hostile = o.hostile;
    s.force = true;
    return s;
}

static void same_values(const synth *s, kvt_trace *t, kvt_ds ds, int layer)
{
    kvt_view want = synth_view(s, ds, layer), raw, got;
    const char *path = kvt_dataset_of(ds)->path;
    CHECK_OK(kvt_trace_read_raw(t, ds, layer, &raw, &err), &err);
    CHECK_OK(kvt_trace_read(t, ds, layer, &got, &err), &err);
    CHECK_OK(
        kvt_view_expect(&raw, path, want.dtype, want.axes, (size_t)want.rank, want.dim, &err),
        &err);
    int64_t n = kvt_view_count(&want);
    if (memcmp(raw.data, want.data, (size_t)n * kvt_dtype_size(want.dtype)) != 0)
        fail_msg("%s, layer %d: other bytes came back", path, layer);
    if (want.dtype == KVT_F16) {
        assert_int_equal(got.dtype, KVT_F32);
        for (int64_t i = 0; i < n; i++) {
            float f = half_to_float(((const uint16_t *)want.data)[i]);
            assert_memory_equal(&f, (const float *)got.data + i, sizeof f);
        }
    }
    kvt_trace_done(t, &raw);
    kvt_trace_done(t, &got);
}

static void same_facts(const kvt_trace_facts *a, const kvt_trace_facts *b)
{
    int n;
    const trace_attr *attr = trace_attrs(&n);
    for (int i = 0; i < n; i++) {
        if (!strcmp(attr[i].name, "writer") || !strcmp(attr[i].name, "commit"))
            continue; /* the writer's own */
        const char *x = (const char *)a + attr[i].offset, *y = (const char *)b + attr[i].offset;
        size_t width = attr[i].kind == ATTR_TEXT ? strlen(x) + 1 : attr[i].width;
        if (memcmp(x, y, width) != 0)
            fail_msg("/%s %s differs", attr[i].group, attr[i].name);
    }
    assert_memory_equal(a->model.window, b->model.window, sizeof a->model.window);
    assert_memory_equal(a->model.rope_freq, b->model.rope_freq, sizeof a->model.rope_freq);
    assert_int_equal(a->n_span, b->n_span);
    for (int i = 0; i < a->n_span; i++) {
        assert_string_equal(a->span[i].name, b->span[i].name);
        assert_int_equal(a->span[i].begin, b->span[i].begin);
        assert_int_equal(a->span[i].end, b->span[i].end);
    }
}

static char failed_check[64], failed_text[400];

static void keep_failed(void *user, const kvt_finding *f)
{
    (void)user;
    if (f->ok || failed_check[0])
        return;
    snprintf(failed_check, sizeof failed_check, "%s", f->check);
    snprintf(failed_text, sizeof failed_text, "%s", f->text);
}

static void all_comes_back(void **state)
{
    synth_spec spec = spec_of(*state);
    synth *s = synth_new(&spec);
    const char *path = folder_path("round.h5");
    kvt_trace *t;
    CHECK_OK(synth_write(s, path, &err), &err);
    CHECK_OK(kvt_trace_open(&t, path, 0, &err), &err);
    const kvt_trace_info *i = kvt_trace_info_of(t);
    same_facts(&s->out.facts, &i->facts);
    assert_string_equal(i->name, "round");
    assert_int_equal(i->n_layer, spec.n_layer);
    assert_int_equal(i->n_token, spec.n_prompt + spec.n_response);
    assert_memory_equal(i->layer_id, s->out.layer_id, (size_t)spec.n_layer * sizeof(int32_t));
    int n = 0;
    for (int ds = 0; ds < KVT_DS_COUNT; ds++) {
        kvt_view v;
        if (!i->has[ds]) {
            CHECK_FAILS(kvt_trace_read(t, (kvt_ds)ds, 0, &v, &err), KVT_NOTFOUND, "has no",
                        &err);
            continue;
        }
        n++;
        for (int l = 0; l < (dataset_has_layers((kvt_ds)ds) ? spec.n_layer : 1); l++)
            same_values(s, t, (kvt_ds)ds, l);
    }
    /* From datasets.def, by hand: what each level holds. */
    int want = spec.level == KVT_SUMMARY ? 18
               : spec.level == KVT_FULL  ? 31
               : spec.level == KVT_TRAIN ? 12
                                         : 29;
    assert_int_equal(n, want - 2 * spec.no_text - spec.no_rows - 2 * (spec.n_response == 0));
    CHECK_OK(kvt_trace_check(t, keep_failed, NULL, &err), &err);
    kvt_trace_close(t);
    synth_free(s);
}

static void digest_of_file(const char *path, char out[KVT_DIGEST_TEXT])
{
    kvt_trace *t;
    CHECK_OK(kvt_trace_open(&t, path, 0, &err), &err);
    memcpy(out, kvt_trace_info_of(t)->digest, KVT_DIGEST_TEXT);
    kvt_trace_close(t);
}

static void digest_is_of_the_content(void **state)
{
    (void)state;
    char a[KVT_DIGEST_TEXT], b[KVT_DIGEST_TEXT], c[KVT_DIGEST_TEXT], d[KVT_DIGEST_TEXT],
        bare[KVT_DIGEST_TEXT];
    synth_spec spec = synth_default();
    spec.force = true;
    synth *s = synth_new(&spec);
    CHECK_OK(synth_write(s, folder_path("d.h5"), &err), &err);
    digest_of_file(folder_path("d.h5"), a);
    s->out.compress = true; /* another layout and other run facts: the same content */
    snprintf(s->out.facts.host, sizeof s->out.facts.host, "elsewhere");
    CHECK_OK(synth_write(s, folder_path("d.h5"), &err), &err);
    digest_of_file(folder_path("d.h5"), b);
    s->out.facts.token.bos = !s->out.facts.token.bos; /* an attribute */
    CHECK_OK(synth_write(s, folder_path("d.h5"), &err), &err);
    digest_of_file(folder_path("d.h5"), c);
    ((uint16_t *)s->data[KVT_DS_VALUES])[3] ^= 1; /* one bit of one layer */
    CHECK_OK(synth_write(s, folder_path("d.h5"), &err), &err);
    digest_of_file(folder_path("d.h5"), d);
    spec.no_rows = true; /* they are a cache of queries and keys */
    CHECK_OK(synth_file(&spec, folder_path("d.h5"), &err), &err);
    digest_of_file(folder_path("d.h5"), bare);
    assert_string_equal(a, b);
    assert_string_equal(a, bare);
    assert_string_not_equal(b, c);
    assert_string_not_equal(c, d);
    synth_free(s);
}

/* The digest leaves cached rows out, not the checksums. */
static void a_changed_row_is_found(void **state)
{
    (void)state;
    synth_spec spec = synth_default();
    spec.force = true;
    synth *s = synth_new(&spec);
    const char *path = folder_path("row.h5");
    CHECK_OK(synth_write(s, path, &err), &err);
    int64_t n = 1;
    for (int i = 1; i < 4; i++)
        n *= s->dim[KVT_DS_ROWS][i];
    const uint16_t *layer = (const uint16_t *)s->data[KVT_DS_ROWS] + n; /* layer 1 */
    buf file;
    buf_init(&file, (size_t)1 << 24);
    CHECK_OK(file_read(&file, path, (size_t)1 << 24, &err), &err);
    char *at = NULL;
    for (size_t i = 0; !at && i + 2 * (size_t)n <= file.n; i++)
        if (memcmp(file.data + i, layer, 2 * (size_t)n) == 0)
            at = file.data + i;
    assert_non_null(at);
    at[1] ^= 1;
    CHECK_OK(file_write(path, file.data, file.n, &err), &err);
    kvt_trace *t;
    CHECK_OK(kvt_trace_open(&t, path, 0, &err), &err);
    failed_check[0] = 0;
    CHECK_FAILS(kvt_trace_check(t, keep_failed, NULL, &err), KVT_NO, "", &err);
    assert_string_equal(failed_check, "checksum");
    assert_non_null(strstr(failed_text, "layer 1 of attn/rows"));
    failed_check[0] = 0;
    kvt_trace_close(t);
    buf_fini(&file);
    synth_free(s);
}

/* ---- the writer's errors -------------------------------------------------------------------
 */

static kvt_writer *open_writer(synth *s, const char *name)
{
    kvt_writer *w;
    s->out.force = true;
    CHECK_OK(kvt_writer_open(&w, folder_path(name), &s->out, &err), &err);
    return w;
}

static void puts_are_checked(void **state)
{
    (void)state;
    synth_spec spec = synth_default();
    synth *s = synth_new(&spec);
    kvt_writer *w = open_writer(s, "p.h5");
    kvt_view v = synth_view(s, KVT_DS_LSE, 0), k = synth_view(s, KVT_DS_KEYS, 0), bad = v;
    snprintf(bad.axes, sizeof bad.axes, "TH");
    CHECK_FAILS(kvt_writer_put(w, KVT_DS_LSE, 0, &bad, &err), KVT_FORMAT,
                "expected f32 [H=4 T=30], got f32 [T=4 H=30]", &err);
    bad = v;
    bad.dim[1] = 29;
    CHECK_FAILS(kvt_writer_put(w, KVT_DS_LSE, 0, &bad, &err), KVT_FORMAT, "attn/lse", &err);
    CHECK_FAILS(kvt_writer_put(w, KVT_DS_LSE, 0, &k, &err), KVT_FORMAT, "attn/lse", &err);
    CHECK_FAILS(kvt_writer_put(w, KVT_DS_LSE, 2, &v, &err), KVT_FORMAT, "layer 2", &err);
    CHECK_FAILS(kvt_writer_put(w, KVT_DS_LSE, -1, &v, &err), KVT_FORMAT, "layer -1", &err);
    CHECK_OK(kvt_writer_put(w, KVT_DS_LSE, 1, &v, &err), &err);
    CHECK_FAILS(kvt_writer_put(w, KVT_DS_LSE, 1, &v, &err), KVT_FORMAT, "twice", &err);
    CHECK_FAILS(kvt_writer_close(w, &err), KVT_IO, "p.h5", &err);
    assert_int_equal(access(folder_path("p.h5"), F_OK), -1);
    synth_free(s);
}

/* Everything but one dataset, or but one layer of it. */
static kvt_code write_without(synth *s, kvt_ds without, int layer, const char *path)
{
    kvt_writer *w;
    s->out.force = true;
    if (kvt_writer_open(&w, path, &s->out, &err))
        return err.code;
    for (int ds = 0; ds < KVT_DS_COUNT; ds++)
        for (int l = 0; l < (dataset_has_layers((kvt_ds)ds) ? s->spec.n_layer : 1); l++) {
            if (!s->data[ds] || !dataset_in_level((kvt_ds)ds, s->spec.level) ||
                (ds == (int)without && (layer < 0 || l == layer)))
                continue;
            kvt_view v = synth_view(s, (kvt_ds)ds, l);
            CHECK_OK(kvt_writer_put(w, (kvt_ds)ds, l, &v, &err), &err);
        }
    return kvt_writer_close(w, &err);
}

static void nothing_may_be_missing(void **state)
{
    (void)state;
    synth_spec spec = synth_default();
    synth *s = synth_new(&spec);
    const char *path = folder_path("m.h5");
    CHECK_FAILS(write_without(s, KVT_DS_KEYS, -1, path), KVT_FORMAT, "kv/k was not written",
                &err);
    CHECK_FAILS(write_without(s, KVT_DS_COL_SUM, 1, path), KVT_FORMAT,
                "layer 1 of attn/col_sum was not written", &err);
    CHECK_FAILS(write_without(s, KVT_DS_ROWS, 0, path), KVT_FORMAT, "layer 0 of attn/rows",
                &err);
    CHECK_FAILS(write_without(s, KVT_DS_TEXT_BYTES, -1, path), KVT_FORMAT, "text/bytes", &err);
    assert_int_equal(access(path, F_OK), -1);
    CHECK_OK(write_without(s, KVT_DS_ROWS, -1, path), &err); /* a cache may be */
    s->out.force = false;
    kvt_writer *w;
    CHECK_FAILS(kvt_writer_open(&w, path, &s->out, &err), KVT_IO, "is there already", &err);
    synth_free(s);
}

static void strided_and_f32_views_are_taken(void **state)
{
    (void)state;
    synth_spec spec = synth_default();
    spec.force = true;
    synth *s = synth_new(&spec);
    const char *path = folder_path("strided.h5");
    kvt_writer *w = open_writer(s, "strided.h5");
    for (int ds = 0; ds < KVT_DS_COUNT; ds++)
        for (int l = 0; l < (dataset_has_layers((kvt_ds)ds) ? spec.n_layer : 1); l++) {
            if (!s->data[ds] || !dataset_in_level((kvt_ds)ds, spec.level))
                continue;
            kvt_view v = synth_view(s, (kvt_ds)ds, l), flipped = v;
            int64_t n = kvt_view_count(&v);
            float wide[2 * 4 * 30 * 30];
            if (ds ==
                KVT_DS_KEYS) { /* f32 [G T D], stored as [T G D] with a hole behind each row */
                int64_t G = v.dim[0], T = v.dim[1], D = v.dim[2];
                for (int64_t i = 0; i < n; i++) {
                    int64_t g = i / (T * D), t = i / D % T, d = i % D;
                    wide[(t * G + g) * 2 * D + d] =
                        half_to_float(((const uint16_t *)v.data)[i]);
                }
                flipped.data = wide;
                flipped.dtype = KVT_F32;
                flipped.stride[0] = 2 * D;
                flipped.stride[1] = 2 * D * G;
            }
            CHECK_OK(kvt_writer_put(w, (kvt_ds)ds, l, &flipped, &err), &err);
        }
    CHECK_OK(kvt_writer_close(w, &err), &err);
    kvt_trace *t;
    CHECK_OK(kvt_trace_open(&t, path, 0, &err), &err);
    for (int l = 0; l < 2; l++)
        same_values(s, t, KVT_DS_KEYS, l);
    kvt_trace_close(t);
    synth_free(s);
}

/* The writer checks the finished file as a reader does, so that wrong indices end here. */
static const struct index_row {
    const char *name;
    kvt_ds ds;
    int at;
    int64_t value;
    const char *part;
} index_rows[] = {
    {"offsets fall", KVT_DS_TOKEN_OFFSET, 5, 0, "token/offset[5]"},
    {"offset beyond the text", KVT_DS_TOKEN_OFFSET, 30, 1 << 20, "token/offset[30]"},
    {"offset below 0", KVT_DS_TOKEN_OFFSET, 0, -1, "token/offset[0]"},
    {"layer beyond the model", KVT_DS_LAYER_ID, 1, 2, "layer/id[1]"},
    {"layers do not rise", KVT_DS_LAYER_ID, 0, 1, "layer/id[1]"},
    {"query beyond the last token", KVT_DS_QUERY_POS, 13, 30, "query/pos[13]"},
    {"query below 0", KVT_DS_QUERY_POS, 0, -1, "query/pos[0]"},
    {"blocks do not begin at 0", KVT_DS_BLOCK_START, 0, 1, "attn/block_start"},
    {"no block begins at N", KVT_DS_BLOCK_START, 3, 25, "attn/block_start"},
    {"blocks end early", KVT_DS_BLOCK_START, 4, 29, "attn/block_start"},
};

static void index_is_refused(void **state)
{
    const struct index_row *r = *state;
    synth_spec spec = synth_default();
    synth *s = synth_new(&spec);
    const char *path = folder_path("index.h5");
    if (r->ds == KVT_DS_TOKEN_OFFSET)
        ((int64_t *)s->data[r->ds])[r->at] = r->value;
    else
        ((int32_t *)s->data[r->ds])[r->at] = (int32_t)r->value;
    CHECK_FAILS(synth_write(s, path, &err), KVT_FORMAT, r->part, &err);
    assert_int_equal(access(path, F_OK), -1);
    synth_free(s);
}

static const struct fact_row {
    const char *name;
    size_t offset;
    int64_t value;
    const char *part;
} fact_rows[] = {
#define F(field, value, part)                                 \
    {                                                         \
#field, offsetof(kvt_trace_facts, field), value, part \
    }
    F(model.n_layer, 0, "n_layer"),
    F(model.n_layer, 100000, "n_layer"),
    F(model.n_kv_head, 3, "multiple"),
    F(model.n_kv_head, 0, "n_kv_head"),
    F(model.head_dim, 1 << 20, "head_dim"),
    F(token.n_prompt, 0, "n_prompt"),
    F(token.n_response, -1, "n_response"),
    F(token.look_until, 31, "look_until"),
    F(token.n_prompt, INT64_MAX, "n_prompt"),
    F(token.system_end, -1, "system_end"),
    F(span[0].end, 31, "span"),
#undef F
};

static void facts_are_refused(void **state)
{
    const struct fact_row *r = *state;
    synth_spec spec = synth_default();
    synth *s = synth_new(&spec);
    kvt_writer *w;
    memcpy((char *)&s->out.facts + r->offset, &r->value, sizeof r->value);
    CHECK_FAILS(kvt_writer_open(&w, folder_path("fact.h5"), &s->out, &err), KVT_FORMAT, r->part,
                &err);
    assert_null(w);
    synth_free(s);
}

/* Numbers that a writer may store and that cannot be true: found by the check, by name. */
static const struct untrue {
    const char *name;
    kvt_ds ds;
    int at;
    float value; /* of f32; of f16 as well, converted */
    const char *check;
} untrues[] = {
    {"NaN in lse", KVT_DS_LSE, 3, NAN, "finite"},
    {"infinite keys", KVT_DS_KEYS, 3, INFINITY, "finite"},
    {"a number where no query is far enough", KVT_DS_FUTURE_DELAYED, 29, 0, "finite"},
    {"a column sum too large", KVT_DS_COL_SUM, 5, 20, "columns"},
    {"a column maximum above 1", KVT_DS_COL_MAX, 5, 1.5f, "columns"},
    {"a block that its column does not have", KVT_DS_BLOCK_SUM, 7, 900, "blocks"},
    {"a future mean above its maximum", KVT_DS_FUTURE_MEAN, 2, 0.99f, "future"},
    {"a row that sums to more", KVT_DS_ROWS, 0, 1.5f, "rows"},
    {"attention to a later token", KVT_DS_ROWS, 29, 0.25f, "rows"},
    {"a log-sum-exp of another row", KVT_DS_LSE, 29, 30, "lse"},
    {"log-probabilities that rise", KVT_DS_LOGIT_LOGP, 0, -20, "logits"},
};

static void untrue_numbers_are_found(void **state)
{
    const struct untrue *u = *state;
    synth_spec spec = synth_default();
    kvt_trace *t;
    spec.force = true;
    synth *s = synth_new(&spec);
    if (kvt_dataset_of(u->ds)->dtype == KVT_F16)
        ((uint16_t *)s->data[u->ds])[u->at] = half_from_float(u->value);
    else
        ((float *)s->data[u->ds])[u->at] = u->value;
    CHECK_OK(synth_write(s, folder_path("untrue.h5"), &err), &err);
    CHECK_OK(kvt_trace_open(&t, folder_path("untrue.h5"), 0, &err), &err);
    failed_check[0] = 0;
    CHECK_FAILS(kvt_trace_check(t, keep_failed, NULL, &err), KVT_NO, "failed", &err);
    if (strcmp(failed_check, u->check) != 0)
        fail_msg("expected '%s', got '%s': %s", u->check, failed_check, failed_text);
    kvt_trace_close(t);
    synth_free(s);
}

/* ---- the reader ----------------------------------------------------------------------------
 */

static void text_comes_back(void **state)
{
    (void)state;
    synth_spec spec = synth_default();
    spec.hostile = spec.force = true;
    synth *s = synth_new(&spec);
    kvt_trace *t;
    const uint8_t *b;
    int64_t n;
    CHECK_OK(synth_write(s, folder_path("text.h5"), &err), &err);
    CHECK_OK(kvt_trace_open(&t, folder_path("text.h5"), 1, &err), &err);
    CHECK_OK(kvt_trace_token_text(t, 3, &b, &n, &err), &err); /* the lone NUL */
    assert_int_equal(n, 1);
    assert_int_equal(b[0], 0);
    CHECK_OK(kvt_trace_token_text(t, 4, &b, &n, &err), &err);
    assert_int_equal(n, 4);
    assert_memory_equal(b, "=1+2", 4);
    CHECK_FAILS(kvt_trace_token_text(t, 30, &b, &n, &err), KVT_NOTFOUND, "token 30", &err);
    CHECK_FAILS(kvt_trace_token_text(t, -1, &b, &n, &err), KVT_NOTFOUND, "token -1", &err);
    kvt_sequence q;
    CHECK_OK(kvt_trace_sequence(t, &q, &err), &err);
    assert_int_equal(q.n_prompt, 24);
    assert_int_equal(q.n_response, 6);
    assert_memory_equal(q.id, s->data[KVT_DS_TOKEN_ID], 30 * sizeof(int32_t));
    assert_int_equal(q.flag[29], KVT_TOKEN_RESPONSE);
    assert_int_equal(q.n_span, 2);
    kvt_trace_close(t);
    spec.no_text = true;
    CHECK_OK(synth_file(&spec, folder_path("text.h5"), &err), &err);
    CHECK_OK(kvt_trace_open(&t, folder_path("text.h5"), 0, &err), &err);
    CHECK_OK(kvt_trace_token_text(t, 4, &b, &n, &err), &err);
    assert_int_equal(n, 0);
    kvt_trace_close(t);
    synth_free(s);
}

static void long_text_is_whole(void **state) /* C052 */
{
    (void)state;
    enum { LONG = 70000 };
    synth_spec spec = synth_default();
    spec.force = true;
    synth *s = synth_new(&spec);
    char *raw = kvt_alloc(LONG, 1);
    for (int i = 0; i < LONG; i++)
        raw[i] = (char)(i * 31 + i / 251);
    kvt_free(s->data[KVT_DS_TEXT_RAW]);
    s->data[KVT_DS_TEXT_RAW] = raw;
    s->out.n_raw = s->dim[KVT_DS_TEXT_RAW][0] = LONG;
    memset(s->out.facts.command, 'c', sizeof s->out.facts.command - 1);
    kvt_trace *t;
    CHECK_OK(synth_write(s, folder_path("long.h5"), &err), &err);
    CHECK_OK(kvt_trace_open(&t, folder_path("long.h5"), 0, &err), &err);
    same_values(s, t, KVT_DS_TEXT_RAW, 0);
    assert_int_equal(strlen(kvt_trace_info_of(t)->facts.command),
                     sizeof s->out.facts.command - 1);
    kvt_trace_close(t);
    synth_free(s);
}

static void lacks_name_the_dataset(void **state)
{
    (void)state;
    char text[200];
    kvt_trace *t;
    synth_spec spec = synth_default();
    spec.force = true;
    CHECK_OK(synth_file(&spec, folder_path("l.h5"), &err), &err);
    CHECK_OK(kvt_trace_open(&t, folder_path("l.h5"), 0, &err), &err);
    assert_int_equal(
        kvt_trace_lacks(t, KVT_NEED_KEYS | KVT_NEED_ATTN | KVT_NEED_FUTURE, text, sizeof text),
        0);
    assert_string_equal(text, "");
    assert_int_equal(
        kvt_trace_lacks(t, KVT_NEED_HIDDEN | KVT_NEED_KEYS | KVT_NEED_PROBE, text, sizeof text),
        KVT_NEED_HIDDEN | KVT_NEED_PROBE);
    assert_string_equal(text,
                        "needs input of the projections (hidden/x), which this trace lacks");
    kvt_trace_close(t);
    spec.level = KVT_SUMMARY;
    CHECK_OK(synth_file(&spec, folder_path("l.h5"), &err), &err);
    CHECK_OK(kvt_trace_open(&t, folder_path("l.h5"), 0, &err), &err);
    assert_int_equal(kvt_trace_lacks(t, KVT_NEED_KEYS, text, sizeof text), KVT_NEED_KEYS);
    assert_string_equal(text, "needs keys (kv/k), which this trace lacks");
    kvt_trace_close(t);
    spec = synth_default(); /* C082: no response, so no future */
    spec.n_response = 0;
    spec.force = true;
    CHECK_OK(synth_file(&spec, folder_path("l.h5"), &err), &err);
    CHECK_OK(kvt_trace_open(&t, folder_path("l.h5"), 0, &err), &err);
    assert_int_equal(kvt_trace_lacks(t, KVT_NEED_FUTURE, text, sizeof text), KVT_NEED_FUTURE);
    assert_non_null(strstr(text, "future attention"));
    kvt_trace_close(t);
}

static void peek_gives_the_options(void **state)
{
    (void)state;
    char text[KVT_DIGEST_TEXT];
    synth_spec spec = synth_default();
    spec.force = true;
    spec.seed = 0x1234;
    CHECK_OK(synth_file(&spec, folder_path("peek.h5"), &err), &err);
    CHECK_OK(kvt_trace_peek(folder_path("peek.h5"), text, &err), &err);
    assert_string_equal(text, "00000000000000000000000000001234");
    CHECK_FAILS(kvt_trace_peek(folder_path("none.h5"), text, &err), KVT_NOTFOUND, "none.h5",
                &err);
}

static void what_is_held_stays(void **state)
{
    (void)state;
    synth_spec spec = synth_default();
    spec.force = true;
    synth *s = synth_new(&spec);
    kvt_trace *t;
    kvt_view held[2], v;
    CHECK_OK(synth_write(s, folder_path("c.h5"), &err), &err);
    CHECK_OK(kvt_trace_open(&t, folder_path("c.h5"), 1, &err), &err); /* room for nothing */
    for (int l = 0; l < 2; l++)
        CHECK_OK(kvt_trace_read(t, KVT_DS_KEYS, l, &held[l], &err), &err);
    CHECK_OK(kvt_trace_read(t, KVT_DS_KEYS, 0, &v, &err), &err);
    assert_ptr_equal(v.data, held[0].data); /* held, so not read again */
    kvt_trace_done(t, &v);
    for (int i = 0; i < 50; i++) {
        CHECK_OK(kvt_trace_read(t, KVT_DS_VALUES, i % 2, &v, &err), &err);
        kvt_trace_done(t, &v);
    }
    for (int l = 0; l < 2; l++) {
        kvt_view want = synth_view(s, KVT_DS_KEYS, l);
        for (int64_t i = 0; i < kvt_view_count(&want); i++)
            assert_true(((const float *)held[l].data)[i] ==
                        half_to_float(((const uint16_t *)want.data)[i]));
        kvt_trace_done(t, &held[l]);
    }
    CHECK_FAILS(kvt_trace_read(t, KVT_DS_KEYS, 2, &v, &err), KVT_NOTFOUND, "layer 2 of 2",
                &err);
    CHECK_FAILS(kvt_trace_read(t, KVT_DS_KEYS, -1, &v, &err), KVT_NOTFOUND, "layer -1", &err);
    kvt_trace_close(t);
    synth_free(s);
}

/* C059: eight threads over one file and over two, with a cache that is too small. */
typedef struct reader {
    kvt_trace *t[2];
    const synth *s;
    int seed, n_bad;
} reader;

static void *read_much(void *user)
{
    reader *r = user;
    kvt_err mine;
    static const kvt_ds of[] = {KVT_DS_KEYS, KVT_DS_VALUES, KVT_DS_QUERIES, KVT_DS_LSE,
                                KVT_DS_ROWS};
    for (int i = 0; i < 400; i++) {
        int k = i * 7 + r->seed;
        kvt_ds ds = of[k % 5];
        kvt_view v, want = synth_view(r->s, ds, k / 5 % 2);
        kvt_trace *t = r->t[k / 10 % 2];
        if (kvt_trace_read_raw(t, ds, k / 5 % 2, &v, &mine)) {
            r->n_bad++;
            continue;
        }
        size_t bytes = (size_t)kvt_view_count(&want) * kvt_dtype_size(want.dtype);
        r->n_bad += memcmp(v.data, want.data, bytes) != 0;
        kvt_trace_done(t, &v);
    }
    return NULL;
}

static void threads_read_the_same(void **state)
{
    (void)state;
    enum { N = 8 };
    pthread_t thread[N];
    reader r[N];
    kvt_trace *t[2];
    synth_spec spec = synth_default();
    spec.force = true;
    synth *s = synth_new(&spec);
    for (int i = 0; i < 2; i++) {
        s->out.compress = i == 1;
        CHECK_OK(synth_write(s, folder_path("thread.h5"), &err), &err);
        CHECK_OK(kvt_trace_open(&t[i], folder_path("thread.h5"), 6000, &err), &err);
    }
    for (int i = 0; i < N; i++) {
        r[i] = (reader){.t = {t[0], t[1]}, .s = s, .seed = i};
        assert_int_equal(pthread_create(&thread[i], NULL, read_much, &r[i]), 0);
    }
    for (int i = 0; i < N; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(r[i].n_bad, 0);
    }
    kvt_trace_close(t[0]);
    kvt_trace_close(t[1]);
    synth_free(s);
}

static void
open_and_close_leak_nothing(void **state) /* C057, C058; leaks show under ASan too */
{
    (void)state;
    synth_spec spec = synth_default();
    struct rusage before, after;
    kvt_trace *t;
    spec.force = true;
    for (int i = 0; i < 330; i++) {
        if (i % 10 == 0) /* the same name again, in one process */
            CHECK_OK(synth_file(&spec, folder_path("leak.h5"), &err), &err);
        if (i == 30)
            getrusage(RUSAGE_SELF, &before);
        CHECK_OK(kvt_trace_open(&t, folder_path("leak.h5"), 0, &err), &err);
        kvt_trace_close(t);
    }
    getrusage(RUSAGE_SELF, &after);
#ifndef __SANITIZE_ADDRESS__ /* it keeps freed memory, and looks for leaks itself */
    assert_true(after.ru_maxrss - before.ru_maxrss < 4 << 10); /* KiB */
#endif
}

static void descriptors_close_on_exec(void **state) /* C060 */
{
    (void)state;
    synth_spec spec = synth_default();
    kvt_trace *t;
    kvt_writer *w;
    int n = 0;
    spec.force = true;
    synth *s = synth_new(&spec);
    CHECK_OK(synth_write(s, folder_path("fork.h5"), &err), &err);
    CHECK_OK(kvt_trace_open(&t, folder_path("fork.h5"), 0, &err), &err);
    CHECK_OK(kvt_writer_open(&w, folder_path("fork2.h5"), &s->out, &err), &err);
    for (int fd = 3; fd < 256; fd++) {
        char link[64], name[1024];
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t size = readlink(link, name, sizeof name - 1);
        name[size > 0 ? size : 0] = 0;
        if (!strstr(name, folder_name + 1)) /* what the caller of this program left open */
            continue;
        int flags = fcntl(fd, F_GETFD);
        n++;
        assert_true(flags & FD_CLOEXEC);
    }
    assert_true(n >= 2);
#if !UNDER_TSAN /* it does not let a child of a threaded program start a thread */
    pid_t child = fork();
    if (child == 0) { /* the child opens the file itself; the parent's trace is not for it */
        kvt_trace *own;
        kvt_view v;
        int bad = kvt_trace_open(&own, folder_path("fork.h5"), 0, &err) != KVT_OK;
        if (!bad) {
            bad = kvt_trace_read(own, KVT_DS_KEYS, 1, &v, &err) != KVT_OK;
            kvt_trace_close(own);
        }
        _exit(bad);
    }
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
#endif
    kvt_view v;
    CHECK_OK(kvt_trace_read(t, KVT_DS_KEYS, 1, &v, &err), &err);
    kvt_trace_done(t, &v);
    kvt_writer_abort(w);
    kvt_trace_close(t);
    synth_free(s);
}

/* C055: at least 1, never above the dataset, at most about 1 MiB. */
static const struct chunk_row {
    const char *name, *axes;
    kvt_dtype dtype;
    int64_t dim[KVT_RANK_MAX], want[KVT_RANK_MAX]; /* want[0] 0: contiguous */
} chunk_rows[] = {
    {"a plane of 32768 x 32768 floats", "QT", KVT_F32, {32768, 32768}, {8, 32768}},
    {"a lane of keys", "LGTD", KVT_F16, {30, 3, 2048, 64}, {1, 1, 2048, 64}},
    {"a long lane of keys", "LGTD", KVT_F16, {30, 3, 32768, 64}, {1, 1, 8192, 64}},
    {"five elements", "T", KVT_F32, {5}, {0}},
    {"none", "MX", KVT_F32, {0, 64}, {0}},
    {"one long line", "Z", KVT_U8, {5 << 20}, {1 << 20}},
};

static void chunks_fit(void **state)
{
    const struct chunk_row *r = *state;
    int64_t chunk[KVT_RANK_MAX];
    kvt_dataset d = {.path = "x", .axes = r->axes, .dtype = r->dtype};
    int rank = (int)strlen(r->axes);
    bool chunked = layout_chunk(chunk, &d, rank, r->dim);
    assert_int_equal(chunked, r->want[0] != 0);
    for (int i = 0; i < rank && chunked; i++)
        assert_int_equal(chunk[i], r->want[i]);
}

static void sizes_are_foretold(void **state)
{
    (void)state;
    synth_spec spec = synth_default();
    spec.n_prompt = 200;
    spec.head_dim = 32;
    spec.force = true;
    synth *s = synth_new(&spec);
    struct stat st;
    CHECK_OK(synth_write(s, folder_path("size.h5"), &err), &err);
    assert_int_equal(stat(folder_path("size.h5"), &st), 0);
    int64_t said = kvt_writer_bytes(&s->out, true);
    assert_true(llabs(said - (int64_t)st.st_size) < 48 << 10); /* headers vary a little */
    /* By hand: 27,360 bytes a token for 30 layers, 9 and 3 heads of 64, level train; beside
     * them id, offset, flag and headers. */
    kvt_writer_spec *o = &s->out;
    o->facts.model = (kvt_geometry){
        .n_layer = 30, .n_head = 9, .n_kv_head = 3, .head_dim = 64, .n_hidden = 576};
    o->facts.level = KVT_TRAIN;
    o->facts.no_text = true;
    o->facts.token.n_prompt = 10000;
    o->facts.token.n_response = 0;
    o->n_layer = 30;
    /* Without a response there is no future/mean and no future/max: 2 x 4 x 270 bytes less. */
    int64_t a_token = (kvt_writer_bytes(o, false) - 65536 - 120 - 8) / 10000;
    assert_int_equal(a_token, 27360 - 2160 + 4 + 8 + 1);
    synth_free(s);
}

int main(void)
{
    struct CMUnitTest t[128];
    int n = 0;
    CHECK_ROWS(t, &n, rows, all_comes_back);
    CHECK_ROWS(t, &n, index_rows, index_is_refused);
    CHECK_ROWS(t, &n, fact_rows, facts_are_refused);
    CHECK_ROWS(t, &n, chunk_rows, chunks_fit);
    CHECK_ROWS(t, &n, untrues, untrue_numbers_are_found);
    const struct CMUnitTest more[] = {
        cmocka_unit_test(digest_is_of_the_content),
        cmocka_unit_test(a_changed_row_is_found),
        cmocka_unit_test(puts_are_checked),
        cmocka_unit_test(nothing_may_be_missing),
        cmocka_unit_test(strided_and_f32_views_are_taken),
        cmocka_unit_test(text_comes_back),
        cmocka_unit_test(long_text_is_whole),
        cmocka_unit_test(lacks_name_the_dataset),
        cmocka_unit_test(peek_gives_the_options),
        cmocka_unit_test(what_is_held_stays),
        cmocka_unit_test(threads_read_the_same),
        cmocka_unit_test(open_and_close_leak_nothing),
        cmocka_unit_test(descriptors_close_on_exec),
        cmocka_unit_test(sizes_are_foretold),
    };
    for (int i = 0; i < CHECK_COUNT(more); i++)
        t[n++] = more[i];
    folder_new();
    int failed = CHECK_RUN("trace", t, n);
    folder_end();
    return failed;
}
