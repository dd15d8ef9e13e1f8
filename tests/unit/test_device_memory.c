/* test_device_memory.c - what a model takes on a device, at the size that people have: 8
 * billion weights of 16 bits, 32,768 tokens, recorded. A device that only counts stands in for
 * the GPU: the real functions take their memory from it and nothing runs. */
#include <stdlib.h>

#include "capture/device_forward.h"
#include "capture/recorder.h"
#include "kvt/arena.h"
#include "tests/check.h"

enum { N_TOKEN = 32768, N_RESPONSE = 256 };

/* ---- a device that counts ---- */

static int64_t n_held;

static kvt_code count_alloc(kvt_device *d, void **out, int64_t bytes, const char *name,
                            kvt_err *err)
{
    *out = NULL;
    assert_true(bytes > 0);
    if (bytes > d->memory - d->taken)
        return kvt_fail(err, KVT_NOMEM, "out of device memory: %s", name);
    int64_t *size = malloc(sizeof *size);
    *size = bytes;
    d->taken += bytes;
    d->peak = d->taken > d->peak ? d->taken : d->peak;
    n_held++;
    *out = size;
    return KVT_OK;
}

static void count_free(kvt_device *d, void *p)
{
    if (!p)
        return;
    d->taken -= *(int64_t *)p;
    n_held--;
    free(p);
}

/* Address space that nobody writes costs nothing. */
static int64_t pinned;

static kvt_code count_host_alloc(kvt_device *d, void **out, int64_t bytes, kvt_err *err)
{
    (void)d, (void)err;
    int64_t *p = malloc((size_t)bytes + 64);
    assert_non_null(p);
    *p = bytes;
    pinned += bytes;
    *out = (char *)p + 64;
    return KVT_OK;
}

static void count_host_free(kvt_device *d, void *p)
{
    (void)d;
    if (!p)
        return;
    pinned -= *(int64_t *)(void *)((char *)p - 64);
    free((char *)p - 64);
}

static kvt_code no_move(kvt_device *d, void *to, const void *from, int64_t bytes, kvt_err *err)
{
    (void)d, (void)to, (void)from, (void)bytes, (void)err;
    return KVT_OK;
}

static kvt_code no_clear(kvt_device *d, void *to, int64_t bytes, kvt_err *err)
{
    (void)d, (void)to, (void)bytes, (void)err;
    return KVT_OK;
}

static kvt_code no_wait(kvt_device *d, kvt_err *err)
{
    (void)d, (void)err;
    return KVT_OK;
}

static const kvt_device counting = {.name = "a device that counts",
                                    .memory = 24000000000, /* 24 GB */
                                    .has_bf16 = true,
                                    .alloc = count_alloc,
                                    .free = count_free,
                                    .host_alloc = count_host_alloc,
                                    .host_free = count_host_free,
                                    .upload = no_move,
                                    .clear = no_clear,
                                    .copy = no_move,
                                    .sync = no_wait};

/* ---- a model of which nothing is read ---- */

static kvt_weights_layer layers[32];

static kvt_matrix matrix(int type, int64_t n_row, int64_t n_col)
{
    static const char somewhere;
    const quant_info *q = quant_find(type);
    return (kvt_matrix){type, n_row, n_col, n_col / q->n_weight * q->n_byte, &somewhere};
}

static kvt_weights model_of(int type)
{
    static const float vector;
    static const arch llama = {.name = "llama"};
    kvt_weights w = {.arch = &llama, .layer = layers, .out_norm = &vector};
    kvt_geometry *g = &w.geometry;
    *g = (kvt_geometry){.n_layer = 32,
                        .n_head = 32,
                        .n_kv_head = 8,
                        .head_dim = 128,
                        .n_hidden = 4096,
                        .n_ff = 14336,
                        .n_vocab = 128256,
                        .rope_theta = 500000};
    for (int l = 0; l < 32; l++)
        layers[l] = (kvt_weights_layer){.attn_norm = &vector,
                                        .ffn_norm = &vector,
                                        .wq = matrix(type, 4096, 4096),
                                        .wk = matrix(type, 1024, 4096),
                                        .wv = matrix(type, 1024, 4096),
                                        .wo = matrix(type, 4096, 4096),
                                        .gate = matrix(type, 14336, 4096),
                                        .up = matrix(type, 14336, 4096),
                                        .down = matrix(type, 4096, 14336)};
    w.embed = matrix(type, 128256, 4096);
    w.lm_head = matrix(type, 128256, 4096);
    static const char another; /* not tied */
    w.lm_head.data = &another;
    return w;
}

static recorder_spec record_of(const kvt_weights *w, const device_weights *d, kvt_level level)
{
    recorder_spec s = {.weights = w,
                       .device = d,
                       .level = level,
                       .n_layer = (int)w->geometry.n_layer,
                       .n_prompt = N_TOKEN - N_RESPONSE,
                       .n_token = N_TOKEN,
                       .tile = DEVICE_TILE,
                       .delay = 256,
                       .block_limit = 512LL << 20,
                       .rows_limit = 256LL << 20};
    for (int l = 0; l < s.n_layer; l++)
        s.layer_id[l] = l;
    return s;
}

/* The recorder's own spec for a device: what it wants of it, without memory of the host. */
static device_record *record_new(const recorder_spec *s, kvt_err *err)
{
    device_record *r;
    device_record_spec spec;
    recorder_device_spec(&spec, s);
    CHECK_OK(device_record_new(&r, &spec, err), err);
    return r;
}

static void fits_in_24_gb(void **state)
{
    kvt_err err;
    kvt_device d = counting;
    device_weights *w, plan;
    device_forward *f;
    int64_t planned, planned_record, host;
    kvt_weights m = model_of(QUANT_F16);
    (void)state;
    CHECK_OK(device_weights_new(&w, &d, &m, &err), &err);
    assert_int_equal(w->type, DEV_F16);
    device_weights_plan(&plan, &m, true);
    assert_int_equal(plan.bytes, d.taken);
    assert_true(d.taken > 16000000000 && d.taken < 16100000000); /* 8.03e9 weights, 2 bytes */
    recorder_spec s = record_of(&m, w, KVT_REPLAY);
    device_record *r = record_new(&s, &err);
    device_forward_spec fs = {
        .weights = w, .record = r, .n_token = N_TOKEN, .n_row = s.n_prompt, .n_vocab = 128256};
    CHECK_OK(device_forward_new(&f, &fs, &err), &err);
    /* The plan is what is taken, to the byte. */
    planned = device_forward_bytes(&fs, &host);
    (void)recorder_bytes(&s, &planned_record);
    assert_int_equal(plan.bytes + planned + planned_record, d.taken);
    assert_true(d.peak <= d.memory);
    print_message("8B, f16, %d tokens: %.2f GB of weights, %.2f of the run, %.2f recording; "
                  "%.2f GB pinned\n",
                  N_TOKEN, (double)plan.bytes / 1e9, (double)planned / 1e9,
                  (double)planned_record / 1e9, (double)pinned / 1e9);
    device_forward_free(f);
    device_record_free(r);
    device_weights_free(w);
    assert_int_equal(d.taken, 0);
    assert_int_equal(n_held + pinned, 0);
}

/* Blocks stay on the device as they are; one matrix at a time is made f16. */
static void blocks_stay_blocks(void **state)
{
    kvt_err err;
    kvt_device d = counting;
    device_weights *w;
    device_forward *f;
    kvt_weights m = model_of(QUANT_Q4_K);
    (void)state;
    CHECK_OK(device_weights_new(&w, &d, &m, &err), &err);
    assert_int_equal(w->type, DEV_F16);
    assert_int_equal(w->widest, 14336 * 4096);
    assert_true(d.taken < 8030000000 * 9 / 16 + 20000000);
    device_forward_spec fs = {.weights = w, .n_token = 8192, .n_row = 8192};
    CHECK_OK(device_forward_new(&f, &fs, &err), &err);
    device_forward_free(f);
    device_weights_free(w);
    assert_int_equal(d.taken, 0);
}

/* Keys and values grow with the tokens, and nothing with their square. */
static void grows_as_the_tokens(void **state)
{
    device_weights w;
    kvt_weights m = model_of(QUANT_BF16);
    int64_t bytes[3];
    (void)state;
    device_weights_plan(&w, &m, true);
    assert_int_equal(w.type, DEV_BF16);
    for (int i = 0; i < 3; i++) {
        int64_t n = 8192 * (i + 1), record;
        recorder_spec s = record_of(&m, &w, KVT_REPLAY);
        s.n_token = n;
        s.n_prompt = n - N_RESPONSE;
        s.block_limit = n * 16384; /* the same number of blocks */
        device_forward_spec fs = {.weights = &w, .n_token = n, .n_row = n, .tile = DEVICE_TILE};
        (void)recorder_bytes(&s, &record);
        bytes[i] = device_forward_bytes(&fs, NULL) + record;
    }
    int64_t first = bytes[1] - bytes[0], second = bytes[2] - bytes[1];
    assert_true(llabs(first - second) < first / 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fits_in_24_gb),
        cmocka_unit_test(blocks_stay_blocks),
        cmocka_unit_test(grows_as_the_tokens),
    };
    return CHECK_RUN("device_memory", tests, CHECK_COUNT(tests));
}
