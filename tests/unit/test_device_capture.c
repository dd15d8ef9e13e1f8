/* test_device_capture.c - whole captures on a device whose kernels are the definitions, beside
 * those of the processor: every dataset, for every architecture, level and kind of response. */
#include <math.h>
#include <stdlib.h>

#include "kvt/arena.h"
#include "tests/check.h"
#include "tests/device_pair.h"
#include "tests/folder.h"

static const char text[] =
    "Four ships on the first of March, eleven on the second, none on the third; the keeper "
    "wrote down every one of them, mended the stair, wound the clock, and read the almanac "
    "twice. On the fourth day the wind came round to the north and two of the eleven put back.";

static const char answer[] =
    " They lay under the light until the morning, and the keeper counted them again, and "
    "wrote the number down.";

/* ---- in f32, the same numbers ---- */

static const struct one {
    const char *name, *arch;
    kvt_level level;
    const char *layers, *response;
    int max_new, queries_all;
    int64_t block_limit; /* 0: the default */
} ones[] = {
    {"llama", "llama", KVT_REPLAY, NULL, NULL, 12, 0, 0},
    {"qwen2: biases", "qwen2", KVT_REPLAY, NULL, NULL, 12, 0, 0},
    {"qwen3: norms of q and k", "qwen3", KVT_REPLAY, NULL, NULL, 12, 0, 0},
    {"gemma3: windows, two rotations, norms behind", "gemma3", KVT_REPLAY, NULL, NULL, 12, 0,
     0},
    {"llama, all of it", "llama", KVT_FULL, NULL, NULL, 12, 1, 0},
    {"gemma3, all of it, a given response", "gemma3", KVT_FULL, NULL, answer, 0, 1, 0},
    {"a given response", "llama", KVT_REPLAY, NULL, answer, 0, 0, 0},
    {"sums only", "qwen3", KVT_SUMMARY, NULL, NULL, 12, 0, 0},
    {"for training", "llama", KVT_TRAIN, NULL, answer, 0, 0, 0},
    {"some layers", "gemma3", KVT_REPLAY, "1,4-5", NULL, 12, 0, 0},
    {"no response", "llama", KVT_REPLAY, NULL, NULL, 0, 0, 0},
    {"longer than a block of the response", "llama", KVT_FULL, NULL, NULL, 90, 0, 0},
    {"long blocks", "llama", KVT_FULL, NULL, NULL, 70, 0, 20000},
};

static void the_same_trace(void **state)
{
    const struct one *one = *state;
    model_make_options o = model_make_of(one->arch);
    pair p;
    pair_open(&p, &o, NULL);
    kvt_capture_spec s = pair_spec(text, one->max_new);
    s.level = one->level;
    s.layers = one->layers;
    s.queries_all = one->queries_all;
    s.block_limit = one->block_limit ? one->block_limit : s.block_limit;
    if (one->response)
        s.response = one->response;
    pair_compare(&p, &s, &pair_f32);
    pair_close(&p);
}

/* Prompts of one token to a few tiles: moments with nothing in front, tiles that are not full.
 */
static void short_prompts(void **state)
{
    char cut[200];
    model_make_options o = model_make_of("llama");
    pair p;
    (void)state;
    pair_open(&p, &o, NULL);
    for (int n = 1; n < 140; n += n < 9 ? 1 : 43) {
        snprintf(cut, sizeof cut, "%.*s", n, text);
        kvt_capture_spec s = pair_spec(cut, 3);
        pair_compare(&p, &s, &pair_f32);
    }
    pair_close(&p);
}

/* More than a chunk of rows: what is kept of a layer comes from several, and the last chunk is
 * no whole tile. */
static void several_chunks(void **state)
{
    kvt_err err;
    model_make_options o = model_make_of(*state);
    char *prompt = malloc(5000);
    int64_t n = 0;
    int32_t *id;
    pair p;
    pair_open(&p, &o, NULL);
    for (int i = 0; i < 4000; i++)
        prompt[i] = (char)('A' + (i * 7919 + i / 13) % 57);
    prompt[DEVICE_CHUNK + 200] = 0;
    CHECK_OK(kvt_model_tokenize(p.cpu, prompt, strlen(prompt), false, &id, &n, &err), &err);
    assert_true(n > DEVICE_CHUNK + 64 && n < DEVICE_CHUNK + 250);
    kvt_capture_spec s = pair_spec(prompt, 2);
    s.rows_limit = 0;
    pair_compare(&p, &s, &pair_f32);
    kvt_free(id);
    pair_close(&p);
    free(prompt);
}

/* ---- in 16 bits: limits are twice what was seen; 7 layers with norms behind them carry the 8
 * bits of bf16 a long way ---- */

static const struct narrow {
    const char *name, *arch;
    int type; /* of the file */
    dev_type runs;
    pair_limits limits;
} narrows[] = {
    {"f16", "llama", 1, DEV_F16, {4e-3, 4e-3}},
    {"bf16", "qwen2", 30, DEV_BF16, {2e-2, 2e-2}},
    {"q8_0, which runs in f16", "qwen3", 8, DEV_F16, {4e-3, 4e-3}},
    {"q4_0, which runs in f16", "llama", 2, DEV_F16, {4e-3, 4e-3}},
    {"gemma3 of f16, which runs in bf16", "gemma3", 1, DEV_BF16, {6e-2, 6e-2}},
    {"gemma3 of q8_0, which runs in bf16", "gemma3", 8, DEV_BF16, {6e-2, 6e-2}},
};

static void close_in_16_bits(void **state)
{
    const struct narrow *n = *state;
    model_make_options o = model_make_of(n->arch);
    pair p;
    o.n_hidden = 64; /* rows of whole blocks */
    o.head_dim = 16;
    o.n_ff = 96;
    o.type = n->type;
    pair_open(&p, &o, NULL);
    assert_int_equal(p.device->device->type, n->runs);
    kvt_capture_spec s = pair_spec(text, 0);
    s.response = answer;
    pair_compare(&p, &s, &n->limits);
    pair_close(&p);
}

static void no_bf16_is_f32(void **state)
{
    kvt_err err;
    kvt_device *d;
    model_make_options o = model_make_of("gemma3");
    pair p;
    (void)state;
    o.n_hidden = 64;
    o.type = 30;
    CHECK_OK(device_open_host(&d, &err), &err);
    d->has_bf16 = false;
    pair_open(&p, &o, d);
    assert_int_equal(p.device->device->type, DEV_F32);
    kvt_capture_spec s = pair_spec(text, 9);
    pair_compare(&p, &s, &pair_f32);
    pair_close(&p);
}

/* ---- tiles of any size ---- */

static void tiles_say_the_same(void **state)
{
    enum { N = 300, MORE = 70 };
    kvt_err err;
    model_make_options o = model_make_of(*state);
    int32_t id[N + MORE];
    pair p;
    pair_open(&p, &o, NULL);
    int64_t n_vocab = p.device->weights->geometry.n_vocab;
    float *first = calloc((size_t)n_vocab, sizeof *first);
    float *logit = calloc((size_t)n_vocab, sizeof *logit);
    for (int i = 0; i < N + MORE; i++)
        id[i] = (int32_t)((i * 7919 + 13) % n_vocab);
    for (int64_t tile = DEVICE_TILE; tile <= DEVICE_TILE_MOST; tile *= 2) {
        device_forward *f;
        device_forward_spec s = {
            .weights = p.device->device, .n_token = N + MORE, .n_row = N, .tile = tile};
        CHECK_OK(device_forward_new(&f, &s, &err), &err);
        CHECK_OK(device_forward_prefill(f, id, N, &err), &err);
        CHECK_OK(device_forward_force(f, id + N, MORE, NULL, NULL, &err), &err);
        CHECK_OK(device_forward_logits(f, tile == DEVICE_TILE ? first : logit, &err), &err);
        device_forward_free(f);
        for (int64_t v = 0; tile > DEVICE_TILE && v < n_vocab; v++)
            CHECK_NEAR((double)logit[v], (double)first[v], 1e-5);
    }
    free(first);
    free(logit);
    pair_close(&p);
}

/* Long sequences take few rows at a time, and a tile is never more than a chunk. */
static void tiles_are_bounded(void **state)
{
    (void)state;
    kvt_geometry g = {.n_head = 32};
    assert_int_equal(device_tile(&g, 600), DEVICE_TILE_MOST);
    assert_int_equal(device_tile(&g, 2048 + 256), DEVICE_TILE_MOST);
    assert_int_equal(device_tile(&g, 8192 + 256), 128);
    assert_int_equal(device_tile(&g, 32768), DEVICE_TILE);
    assert_int_equal(device_tile(&g, 1 << 20), DEVICE_TILE);
    assert_int_equal(DEVICE_CHUNK % DEVICE_TILE_MOST, 0);
}

/* ---- twice, sampled, and without recording ---- */

static void digest_of_file(const char *path, char out[KVT_DIGEST_TEXT])
{
    kvt_err err;
    kvt_trace *t;
    CHECK_OK(kvt_trace_open(&t, path, 0, &err), &err);
    snprintf(out, KVT_DIGEST_TEXT, "%s", kvt_trace_info_of(t)->digest);
    kvt_trace_close(t);
}

static void the_same_bytes_twice(void **state)
{
    kvt_err err;
    kvt_capture_counts c;
    model_make_options o = model_make_of("qwen3");
    char first[KVT_DIGEST_TEXT], again[KVT_DIGEST_TEXT];
    pair p;
    (void)state;
    pair_open(&p, &o, NULL);
    kvt_capture_spec s = pair_spec(text, 9);
    s.level = KVT_FULL;
    s.out = folder_path("twice.h5");
    CHECK_OK(kvt_capture(p.device, &s, &c, &p.ctx, &err), &err);
    digest_of_file(s.out, first);
    p.ctx.n_thread = 1;
    CHECK_OK(kvt_capture(p.device, &s, &c, &p.ctx, &err), &err);
    digest_of_file(s.out, again);
    assert_string_equal(first, again);
    pair_close(&p);
}

static void sampled_tokens_are_the_processors(void **state)
{
    model_make_options o = model_make_of("llama");
    pair p;
    (void)state;
    o.pad_rows = 5; /* rows of the embedding that are no token */
    pair_open(&p, &o, NULL);
    p.ctx.seed = 7;
    kvt_capture_spec s = pair_spec(text, 20);
    s.temperature = 1.5;
    s.top_k = 40;
    pair_compare(&p, &s, &pair_f32);
    s.temperature = 0;
    pair_compare(&p, &s, &pair_f32);
    pair_close(&p);
}

static void nothing_is_recorded(void **state)
{
    kvt_err err;
    kvt_capture_counts a, b;
    model_make_options o = model_make_of("gemma3");
    pair p;
    (void)state;
    pair_open(&p, &o, NULL);
    kvt_capture_spec s = pair_spec(text, 20);
    s.record = false;
    CHECK_OK(kvt_capture(p.cpu, &s, &a, &p.ctx, &err), &err);
    CHECK_OK(kvt_capture(p.device, &s, &b, &p.ctx, &err), &err);
    assert_string_equal(a.text, b.text);
    assert_int_equal(a.n_response, b.n_response);
    pair_close(&p);
}

static void the_run_is_described(void **state)
{
    kvt_err err;
    kvt_capture_counts c;
    kvt_trace *t;
    model_make_options o = model_make_of("llama");
    pair p;
    (void)state;
    o.type = 1;
    pair_open(&p, &o, NULL);
    kvt_capture_spec s = pair_spec(text, 2);
    s.out = folder_path("facts.h5");
    CHECK_OK(kvt_capture(p.device, &s, &c, &p.ctx, &err), &err);
    CHECK_OK(kvt_trace_open(&t, s.out, 0, &err), &err);
    const kvt_trace_facts *f = &kvt_trace_info_of(t)->facts;
    assert_string_equal(f->device, "host");
    assert_string_equal(f->blas, p.device->backend->device->arithmetic);
    assert_string_equal(f->attention, "device tiles of 512 queries, whole rows");
    assert_string_equal(f->attention_types,
                        "q, k, v f16, scores f32, softmax f32, sums f32 and f64");
    kvt_trace_close(t);
    pair_close(&p);
}

/* ---- the plan, and what probes read ---- */

static int n_warning;

static void count_warnings(void *user, kvt_log_level level, const char *area, const char *what)
{
    (void)user, (void)area;
    n_warning += level == KVT_LOG_WARN && strstr(what, "on the GPU") != NULL;
}

/* What --plan says of the device's memory is what a capture takes, to the byte. */
static void the_plan_holds(void **state)
{
    kvt_err err;
    kvt_capture_counts c;
    kvt_capture_plan plan;
    (void)state;
    for (int type = 0; type <= 8; type += 8) {
        model_make_options o = model_make_of("gemma3");
        pair p;
        o.n_hidden = 64;
        o.type = type;
        pair_open(&p, &o, NULL);
        kvt_device *d = p.device->backend->device;
        kvt_capture_spec s = pair_spec(text, 9);
        s.out = folder_path("plan.h5");
        n_warning = 0;
        p.ctx.log = count_warnings;
        CHECK_OK(kvt_capture_planned(p.device, &s, &plan, &p.ctx, &err), &err);
        assert_int_equal(plan.device_weight_bytes, d->taken);
        assert_int_equal(plan.device_free_bytes, d->memory);
        d->peak = d->taken;
        CHECK_OK(kvt_capture(p.device, &s, &c, &p.ctx, &err), &err);
        assert_int_equal(plan.device_bytes, d->peak);
        assert_int_equal(n_warning, 0);
        d->memory = d->peak - 1;
        CHECK_OK(kvt_capture_planned(p.device, &s, &plan, &p.ctx, &err), &err);
        assert_int_equal(n_warning, 1);
        CHECK_OK(kvt_capture_planned(p.cpu, &s, &plan, &p.ctx, &err), &err);
        assert_int_equal(plan.device_bytes, 0);
        pair_close(&p);
    }
}

/* The prompt as probes see it while it is captured; layers that are not recorded, too. */
static kvt_code read_prompt(void *user, const kvt_prompt *prompt, kvt_writer *w,
                            const kvt_ctx *ctx, kvt_err *err)
{
    float *to = user;
    const kvt_geometry *g = prompt->geometry;
    int64_t n = prompt->n_prompt * g->head_dim;
    (void)w, (void)ctx;
    *to++ = (float)prompt->first;
    for (int l = 0; l < g->n_layer; l++)
        for (int h = 0; h < g->n_kv_head; h++, to += 2 * n)
            if (prompt->keys(prompt->self, l, h, to, err) ||
                prompt->values(prompt->self, l, h, to + n, err))
                return err->code;
    return KVT_OK;
}

static void probes_see_the_prompt(void **state)
{
    enum { ROOM = 1 << 19 };
    kvt_err err;
    kvt_capture_counts c;
    (void)state;
    for (int type = 0; type <= 1; type++) {
        model_make_options o = model_make_of("qwen2");
        float *a = calloc(ROOM, sizeof *a), *b = calloc(ROOM, sizeof *b), size = 0;
        pair p;
        o.type = type;
        pair_open(&p, &o, NULL);
        kvt_capture_spec s = pair_spec(text, 3);
        s.out = folder_path("probes.h5");
        s.layers = "1";
        s.probes = read_prompt;
        s.probes_user = a;
        CHECK_OK(kvt_capture(p.cpu, &s, &c, &p.ctx, &err), &err);
        s.probes_user = b;
        CHECK_OK(kvt_capture(p.device, &s, &c, &p.ctx, &err), &err);
        for (int i = 0; i < ROOM; i++)
            size = fabsf(a[i]) > size ? fabsf(a[i]) : size;
        assert_true(a[0] == b[0] && size > 0.1f);
        for (int i = 1; i < ROOM; i++)
            CHECK_NEAR((double)b[i], (double)a[i], (type ? 4e-3 : 1e-3) * (double)size);
        pair_close(&p);
        free(a), free(b);
    }
}

/* ---- what goes wrong ---- */

static void logits_that_are_no_numbers(void **state)
{
    kvt_err err;
    kvt_capture_counts c;
    model_make_options o = model_make_of("llama");
    pair p;
    (void)state;
    pair_open(&p, &o, NULL);
    memset((void *)(uintptr_t)p.device->device->out_norm, 0xff, 4); /* of the host: a NAN */
    kvt_capture_spec s = pair_spec(text, 2);
    s.out = folder_path("nan.h5");
    CHECK_FAILS(kvt_capture(p.device, &s, &c, &p.ctx, &err), KVT_FORMAT, "logits", &err);
    assert_int_equal(access(s.out, F_OK), -1);
    pair_close(&p);
}

/* gate * up beyond 65504: no number in f16, one in f32. */
static void activations_beyond_f16(void **state)
{
    kvt_err err;
    kvt_capture_counts c;
    (void)state;
    for (int f16 = 0; f16 < 2; f16++) {
        model_make_options o = model_make_of("llama");
        o.type = f16;
        pair p;
        pair_open(&p, &o, NULL);
        float *gain = (float *)(uintptr_t)p.device->device->layer[0].ffn_norm; /* of the host */
        for (int64_t e = 0; e < p.device->weights->geometry.n_hidden; e++)
            gain[e] = 4000;
        kvt_capture_spec s = pair_spec(text, 2);
        s.out = folder_path("beyond.h5");
        if (f16)
            CHECK_FAILS(
                kvt_capture(p.device, &s, &c, &p.ctx, &err), KVT_FORMAT,
                "activations are f16 here, which ends at 65504: --weights f32 goes beyond",
                &err);
        else
            CHECK_OK(kvt_capture(p.device, &s, &c, &p.ctx, &err), &err);
        pair_close(&p);
    }
}

/* Each allocation of host and device fails in turn: one line, nothing leaked, no file. */
static void no_memory(void **state)
{
    kvt_err err;
    kvt_capture_counts c;
    model_make_options o = model_make_of("gemma3");
    pair p;
    (void)state;
    o.n_layer = 2;
    pair_open(&p, &o, NULL);
    kvt_device *d = p.device->backend->device;
    int64_t held = d->taken;
    kvt_capture_spec s = pair_spec(text, 2);
    s.level = KVT_FULL;
    s.out = folder_path("memory.h5");
    bool failed = true;
    for (int64_t n = 1; failed && n < 2000; n += 1 + n / 40) {
        kvt_alloc_fail_at(n, true);
        kvt_code code = kvt_capture(p.device, &s, &c, &p.ctx, &err);
        kvt_alloc_fail_at(0, false);
        failed = code != KVT_OK;
        if (failed)
            assert_int_not_equal(access(s.out, F_OK), 0);
        assert_int_equal(d->taken, held);
    }
    assert_false(failed);
    pair_close(&p);
}

/* Runs `fail_at` calls of that entry, then refuses. */
static kvt_code (*real_alloc)(kvt_device *d, void **out, int64_t bytes, const char *name,
                              kvt_err *err);
static int n_alloc, fail_at;

static kvt_code full_alloc(kvt_device *d, void **out, int64_t bytes, const char *name,
                           kvt_err *err)
{
    *out = NULL;
    if (++n_alloc == fail_at)
        return kvt_fail(err, KVT_NOMEM, "out of device memory: %s", name);
    return real_alloc(d, out, bytes, name, err);
}

static void no_device_memory(void **state)
{
    kvt_err err;
    kvt_capture_counts c;
    model_make_options o = model_make_of("gemma3");
    pair p;
    (void)state;
    pair_open(&p, &o, NULL);
    kvt_device *d = p.device->backend->device;
    int64_t held = d->taken;
    real_alloc = d->alloc;
    d->alloc = full_alloc;
    kvt_capture_spec s = pair_spec(text, 2);
    s.level = KVT_FULL;
    s.out = folder_path("device-memory.h5");
    for (fail_at = 1; fail_at < 200; fail_at++) {
        n_alloc = 0;
        kvt_code code = kvt_capture(p.device, &s, &c, &p.ctx, &err);
        assert_int_equal(d->taken, held);
        if (code == KVT_OK)
            break;
        assert_int_equal(code, KVT_NOMEM);
        assert_non_null(strstr(err.text, "out of device memory"));
        assert_int_not_equal(access(s.out, F_OK), 0);
    }
    assert_in_range(fail_at, 30, 199); /* each of them once, and no more than are there */
    d->alloc = real_alloc;
    /* And when the weights are loaded. */
    device_weights *w;
    d->alloc = full_alloc;
    for (fail_at = 1; fail_at <= 8; fail_at++) {
        n_alloc = 0;
        CHECK_FAILS(device_weights_new(&w, d, p.device->weights, &err), KVT_NOMEM,
                    fail_at < 8 ? "the weights of layer" : "the embedding", &err);
        assert_int_equal(d->taken, held);
    }
    d->alloc = real_alloc;
    pair_close(&p);
}

static bool stop_at_layer(void *user, const char *what, int64_t done, int64_t total)
{
    (void)total;
    return strcmp(what, "prefill") != 0 || done < *(const int64_t *)user;
}

static void stopped(void **state)
{
    kvt_err err;
    kvt_capture_counts c;
    model_make_options o = model_make_of("gemma3");
    pair p;
    (void)state;
    pair_open(&p, &o, NULL);
    kvt_device *d = p.device->backend->device;
    int64_t held = d->taken, layer = 3;
    p.ctx.progress = stop_at_layer;
    p.ctx.user = &layer;
    kvt_capture_spec s = pair_spec(text, 2);
    s.out = folder_path("stopped.h5");
    CHECK_FAILS(kvt_capture(p.device, &s, &c, &p.ctx, &err), KVT_STOPPED, NULL, &err);
    assert_int_equal(d->taken, held);
    pair_close(&p);
}

int main(void)
{
    int n = 0;
    struct CMUnitTest tests[64];
    CHECK_ROWS(tests, &n, ones, the_same_trace);
    CHECK_ROWS(tests, &n, narrows, close_in_16_bits);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(short_prompts);
    tests[n++] = (struct CMUnitTest){.name = "several chunks, llama",
                                     .test_func = several_chunks,
                                     .initial_state = (void *)(uintptr_t) "llama"};
    tests[n++] = (struct CMUnitTest){.name = "several chunks, gemma3",
                                     .test_func = several_chunks,
                                     .initial_state = (void *)(uintptr_t) "gemma3"};
    tests[n++] = (struct CMUnitTest){.name = "tiles, llama",
                                     .test_func = tiles_say_the_same,
                                     .initial_state = (void *)(uintptr_t) "llama"};
    tests[n++] = (struct CMUnitTest){.name = "tiles, gemma3",
                                     .test_func = tiles_say_the_same,
                                     .initial_state = (void *)(uintptr_t) "gemma3"};
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(tiles_are_bounded);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(no_bf16_is_f32);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(the_same_bytes_twice);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(sampled_tokens_are_the_processors);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(nothing_is_recorded);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(the_run_is_described);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(the_plan_holds);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(probes_see_the_prompt);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(logits_that_are_no_numbers);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(activations_beyond_f16);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(no_memory);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(no_device_memory);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(stopped);
    folder_new();
    n = CHECK_RUN("device_capture", tests, n);
    folder_end();
    return n;
}
