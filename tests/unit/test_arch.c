/* test_arch.c - what a file's keys say about a model: refusals by name (C027), head sizes
 * (C036), rows beyond the tokens (C037), rotary frequencies (C031, C032) against transformers.
 */
#include "capture/arch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "capture/keys.h"
#include "kvt/arena.h"
#include "tests/check.h"
#include "tests/model_make.h"

enum { LIMIT = 1 << 26 };

/* A tiny model in memory. */
typedef struct model {
    gguf_make m;
    buf bytes;
    gguf *g;
} model;

static void model_init(model *t, const model_make_options *o, void (*more)(gguf_make *m))
{
    kvt_err err;
    gguf_make_init(&t->m);
    if (more)
        more(&t->m);
    model_make_into(&t->m, o);
    buf_init(&t->bytes, LIMIT);
    gguf_make_bytes(&t->m, &t->bytes);
    CHECK_OK(gguf_read(&t->g, (const uint8_t *)t->bytes.data, t->bytes.n, &err), &err);
}

static void model_fini(model *t)
{
    gguf_close(t->g);
    buf_fini(&t->bytes);
    gguf_make_fini(&t->m);
}

static void everything_is_filled(void **state)
{
    model_make_options o = model_make_defaults();
    model t;
    kvt_err err;
    const arch *a;
    kvt_geometry x;
    (void)state;
    o.n_layer = 3;
    o.pad_rows = 6; /* C037: the embedding has more rows than there are tokens */
    o.rope_theta = 50000;
    model_init(&t, &o, NULL);
    CHECK_OK(arch_of(&a, t.g, &err), &err);
    CHECK_OK(arch_geometry(&x, a, t.g, &err), &err);
    assert_string_equal(x.name, "tiny");
    assert_string_equal(x.arch, "llama");
    assert_true(x.n_layer == 3 && x.n_head == 4 && x.n_kv_head == 2 && x.head_dim == 12);
    assert_true(x.n_hidden == 48 && x.n_ff == 96 && x.n_vocab == 326 && x.n_context == 4096);
    assert_true(x.tied == 1 && x.norm_eps == (double)1e-5f);
    assert_true(x.attn_scale == 1 / sqrt(12) && x.embed_scale == 1);
    assert_string_equal(x.rope_type, "none");
    assert_string_equal(x.rope_layout, "half");
    assert_true(x.rope_theta == 50000 && x.rope_theta_local == 0 && x.rope_factor == 1);
    assert_true(x.rope_attn_factor == 1 && x.rope_original == 0);
    for (int i = 0; i < 6; i++) /* theta^(-2i/d) */
        assert_true(fabs(x.rope_freq[i] * pow(50000, i / 6.0) - 1) < 1e-14);
    for (int l = 0; l < 3; l++)
        assert_int_equal(x.window[l], 0);
    model_fini(&t);
    o.tied = false;
    model_init(&t, &o, NULL);
    CHECK_OK(arch_geometry(&x, a, t.g, &err), &err);
    assert_int_equal(x.tied, 0);
    model_fini(&t);
}

/* C027: the architecture is named before any tensor is missed. */
static void other_architectures_are_refused_by_name(void **state)
{
    static const char *const names[] = {"qwen3moe", "qwen2vl", "phi3", "no\nsuch"};
    static const char *const says[] = {
        "architecture qwen3moe is not supported; supported: llama, qwen2, qwen3, gemma3",
        "architecture qwen2vl is not supported", "architecture phi3 ",
        "is not supported; supported: llama"};
    (void)state;
    for (int i = 0; i < CHECK_COUNT(names); i++) {
        gguf_make m;
        buf b;
        gguf *g;
        kvt_err err;
        const arch *a;
        gguf_make_init(&m);
        gguf_make_text(&m, "general.architecture", names[i]);
        buf_init(&b, LIMIT);
        gguf_make_bytes(&m, &b);
        CHECK_OK(gguf_read(&g, (const uint8_t *)b.data, b.n, &err), &err);
        CHECK_FAILS(arch_of(&a, g, &err), KVT_FORMAT, says[i], &err);
        assert_null(strstr(err.text, "truncated"));
        assert_null(strchr(err.text, '\n'));
        gguf_close(g);
        buf_fini(&b);
        gguf_make_fini(&m);
    }
}

/* A tensor of a type that is not read either: what is said is the architecture. */
static void architecture_goes_before_types(void **state)
{
    static const char path[] = KVT_BINARY_DIR "/test_arch_other.gguf";
    const uint64_t dim = 32;
    gguf_make m;
    gguf *g;
    kvt_err err;
    (void)state;
    gguf_make_init(&m);
    gguf_make_text(&m, "general.architecture", "gpt-oss");
    gguf_make_info(&m, "blk.0.ffn_up_exps.weight", 24, 1, &dim, 1, 39, 0);
    assert_true(gguf_make_write(&m, path));
    CHECK_FAILS(gguf_open(&g, path, &err), KVT_FORMAT, "type 39 (MXFP4) is not supported",
                &err);
    CHECK_FAILS(arch_open(&g, path, &err), KVT_FORMAT,
                "architecture gpt-oss is not supported; supported: llama", &err);
    assert_null(g);
    remove(path);
    gguf_make_fini(&m);
}

/* Keys that would make the tiny model another one; they come first, and where the model has the
 * key itself the defaults leave it out. */
static void experts(gguf_make *m)
{
    gguf_make_int(m, "llama.expert_count", GGUF_U32, 8);
}
static void softcap(gguf_make *m)
{
    gguf_make_f32(m, "llama.attn_logit_softcapping", 50);
}
static void final_cap(gguf_make *m)
{
    gguf_make_f32(m, "llama.final_logit_softcapping", 30);
}
static void longrope(gguf_make *m)
{
    gguf_make_text(m, "llama.rope.scaling.type", "longrope");
}
static void yarn_bare(gguf_make *m)
{
    gguf_make_text(m, "llama.rope.scaling.type", "yarn");
}
static void factor_0(gguf_make *m)
{
    gguf_make_f32(m, "llama.rope.scaling.factor", 0);
}
static void factor_nan(gguf_make *m)
{
    gguf_make_f32(m, "llama.rope.scaling.factor", NAN);
}

static void full_model(model_make_options *o)
{
    (void)o;
}
static void heads_of_7(model_make_options *o)
{
    o->head_dim = 7;
}
static void heads_of_514(model_make_options *o)
{
    o->head_dim = 514;
}
static void three_on_two(model_make_options *o)
{
    o->n_head = 3;
}
static void no_layer(model_make_options *o)
{
    o->n_layer = 0;
}
static void layers_257(model_make_options *o)
{
    o->n_layer = 257;
}
static void no_embedding(model_make_options *o)
{
    o->drop = "token_embd.weight";
}

static const struct row {
    const char *name;
    void (*option)(model_make_options *o);
    void (*more)(gguf_make *m);
    const char *says;
} rows[] = {
    {"experts", full_model, experts,
     "mixture of experts is not supported (key "
     "'llama.expert_count' is 8)"},
    {"soft cap of attention", full_model, softcap, "a soft cap of attention is not supported"},
    {"soft cap of logits", full_model, final_cap, "a soft cap of logits is not supported"},
    {"longrope", full_model, longrope, "rotary scaling 'longrope' is not supported"},
    {"yarn without its context", full_model, yarn_bare, "original_context_length' is missing"},
    {"factor 0", full_model, factor_0, "scaling.factor': expected a number above 0, got 0"},
    {"factor NaN", full_model, factor_nan,
     "scaling.factor': expected a number above 0, got nan"},
    {"odd head size", heads_of_7, NULL, "expected an even head size of 2 to 512, got 7"},
    {"wide heads", heads_of_514, NULL, "expected an even head size of 2 to 512, got 514"},
    {"3 heads on 2", three_on_two, NULL, "3 query heads are no multiple of 2 kv heads"},
    {"no layer", no_layer, NULL, "key 'llama.block_count': expected 1 to 256, got 0"},
    {"257 layers", layers_257, NULL, "key 'llama.block_count': expected 1 to 256, got 257"},
    {"no embedding", no_embedding, NULL, "tensor 'token_embd.weight' is missing"},
};

static void wrong_keys_are_refused_by_name(void **state)
{
    const struct row *r = *state;
    model_make_options o = model_make_defaults();
    model t;
    kvt_err err;
    kvt_geometry x;
    r->option(&o);
    model_init(&t, &o, r->more);
    CHECK_FAILS(arch_geometry(&x, arch_find("llama", 5), t.g, &err), KVT_FORMAT, r->says, &err);
    model_fini(&t);
}

/* Keys of a model of which only the geometry is asked. */
static kvt_code geometry_of(kvt_geometry *x, const char *name, int layers, int hidden, int head,
                            int kv, const int *key_length, int window_size, kvt_err *err)
{
    const struct {
        const char *key;
        int value;
    } keys[] = {{"block_count", layers},
                {"context_length", 4096},
                {"embedding_length", hidden},
                {"feed_forward_length", 2048},
                {"attention.head_count", head},
                {"attention.head_count_kv", kv},
                {"attention.sliding_window", window_size}};
    const uint64_t dim[2] = {(uint64_t)hidden, 4};
    char key[96];
    gguf_make m;
    buf b;
    gguf *g;
    gguf_make_init(&m);
    for (int i = 0; i < CHECK_COUNT(keys); i++) {
        snprintf(key, sizeof key, "%s.%s", name, keys[i].key);
        if (keys[i].value > 0)
            gguf_make_int(&m, key, GGUF_U32, (uint64_t)keys[i].value);
    }
    snprintf(key, sizeof key, "%s.attention.key_length", name);
    if (key_length)
        gguf_make_int(&m, key, GGUF_U32, (uint64_t)*key_length);
    snprintf(key, sizeof key, "%s.attention.value_length", name);
    if (key_length)
        gguf_make_int(&m, key, GGUF_U32, (uint64_t)*key_length);
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", name);
    gguf_make_f32(&m, key, 1e-6f);
    float *zero = calloc((size_t)hidden * 4, sizeof *zero);
    assert_non_null(zero);
    gguf_make_tensor(&m, "token_embd.weight", 0, 2, dim, zero,
                     (size_t)hidden * 4 * sizeof *zero);
    buf_init(&b, LIMIT);
    gguf_make_bytes(&m, &b);
    CHECK_OK(gguf_read(&g, (const uint8_t *)b.data, b.n, err), err);
    kvt_code code = arch_geometry(x, arch_find(name, strlen(name)), g, err);
    gguf_close(g);
    buf_fini(&b);
    gguf_make_fini(&m);
    free(zero);
    return code;
}

/* C036: Qwen3-0.6B and Gemma-3-270M say the head size; without it it is width / heads. */
static void head_size_is_not_width_by_heads(void **state)
{
    kvt_err err;
    kvt_geometry x;
    (void)state;
    CHECK_OK(geometry_of(&x, "qwen3", 28, 1024, 16, 8, &(int){128}, 0, &err), &err);
    assert_int_equal(x.n_head * x.head_dim, 2048);
    CHECK_OK(geometry_of(&x, "gemma3", 18, 640, 4, 1, &(int){256}, 512, &err), &err);
    assert_int_equal(x.n_head * x.head_dim, 1024);
    assert_true(fabs(x.embed_scale - 25.298221281347036) < 1e-12); /* sqrt(640) */
    for (int l = 0; l < 18; l++)
        assert_int_equal(x.window[l], l % 6 == 5 ? 0 : 512);
    assert_true(x.rope_theta_local == 10000);
    CHECK_OK(geometry_of(&x, "llama", 30, 576, 9, 3, NULL, 0, &err), &err);
    assert_int_equal(x.head_dim, 64);
    CHECK_FAILS(geometry_of(&x, "llama", 30, 576, 10, 5, NULL, 0, &err), KVT_FORMAT,
                "width 576 is no multiple of 10 heads", &err);
}

static void third_layers_and_base(gguf_make *m)
{
    gguf_make_int(m, "gemma3.attention.sliding_window_pattern", GGUF_U32, 3);
    gguf_make_f32(m, "gemma3.rope.freq_base_swa", 5000);
}

/* An array of bools of n layers: elements' type, count, values. */
static void flags(gguf_make *m, uint64_t n)
{
    const char *key = "gemma3.attention.sliding_window_pattern";
    uint8_t value[4 + 8 + 8] = {GGUF_BOOL, 0, 0, 0, (uint8_t)n, 0, 0, 0, 0,
                                0,         0, 0, 1, 0,          0, 1, 1};
    gguf_make_raw(m, key, strlen(key), GGUF_ARRAY, value, 12 + n);
}

static void flags_of_7_layers(gguf_make *m)
{
    flags(m, 7);
}

static void flags_of_6_layers(gguf_make *m)
{
    flags(m, 6);
}

/* Newer files say which layers are windowed, by a number or a flag each, and their base. */
static void windows_are_where_the_file_has_them(void **state)
{
    model_make_options o = model_make_of("gemma3");
    model t;
    kvt_err err;
    kvt_geometry x;
    const arch *gemma = arch_find("gemma3", 6);
    (void)state;
    assert_int_equal(o.n_layer, 7);
    model_init(&t, &o, third_layers_and_base);
    CHECK_OK(arch_geometry(&x, gemma, t.g, &err), &err);
    for (int l = 0; l < 7; l++)
        assert_int_equal(x.window[l], l % 3 == 2 ? 0 : o.window);
    assert_true(x.rope_theta_local == 5000);
    model_fini(&t);
    model_init(&t, &o, flags_of_7_layers);
    CHECK_OK(arch_geometry(&x, gemma, t.g, &err), &err);
    for (int l = 0; l < 7; l++)
        assert_int_equal(x.window[l], l == 0 || l == 3 || l == 4 ? o.window : 0);
    assert_true(x.rope_theta_local == 10000);
    model_fini(&t);
    model_init(&t, &o, flags_of_6_layers);
    CHECK_FAILS(arch_geometry(&x, gemma, t.g, &err), KVT_FORMAT,
                "sliding_window_pattern': expected 7 flags, one a layer, got 6", &err);
    model_fini(&t);
}

/* C031: the divisors of head 64 (factor 32) and head 128 (factor 8), base 500000, low 1, high
 * 4, original 8192, as published. Used as a file's rope_freqs. */
static void llama3_divisors_divide(void **state)
{
    static const float mid64[] = {1.651329f, 3.292262f, 9.666729f};
    static const float mid128[] = {1.207484f, 1.553415f, 2.026313f,
                                   2.694530f, 3.684253f, 5.257327f};
    (void)state;
    for (int d = 64; d <= 128; d += 64) {
        const float *mid = d == 64 ? mid64 : mid128;
        int first = d == 64 ? 15 : 29, n_mid = d == 64 ? 3 : 6;
        float divisor[64];
        for (int i = 0; i < d / 2; i++)
            divisor[i] = i < first ? 1 : i < first + n_mid ? mid[i - first] : d == 64 ? 32 : 8;
        model_make_options o = model_make_defaults();
        model t;
        kvt_err err;
        kvt_geometry x;
        o.head_dim = d;
        o.rope_theta = 500000;
        o.rope_divisor = divisor;
        model_init(&t, &o, NULL);
        CHECK_OK(arch_geometry(&x, arch_find("llama", 5), t.g, &err), &err);
        assert_string_equal(x.rope_type, "llama3");
        assert_true(x.rope_factor == (d == 64 ? 32 : 8));
        for (int i = 0; i < d / 2; i++) {
            double want = pow(500000, -2.0 * i / d) / (double)divisor[i];
            assert_true(fabs(x.rope_freq[i] / want - 1) < 1e-13);
        }
        model_fini(&t);
    }
}

/* tests/golden/rope.py has the line's form; transformers computes in f32, so 1e-6 relative. The
 * llama3 lines are compared with divisors made of them, which C031's printed ones must equal.
 */
static void frequencies_are_those_of_transformers(void **state)
{
    kvt_err err;
    buf file;
    int n_line = 0;
    (void)state;
    buf_init(&file, LIMIT);
    CHECK_OK(file_read(&file, KVT_SOURCE_DIR "/tests/golden/rope.txt", LIMIT, &err), &err);
    char *line = file.data, type[16];
    for (; *line; n_line++) {
        double v[7], freq[KVT_HEAD_DIM_MAX / 2], want[KVT_HEAD_DIM_MAX / 2];
        float divisor[KVT_HEAD_DIM_MAX / 2];
        char *p = strchr(line, ' ');
        assert_non_null(p);
        snprintf(type, sizeof type, "%.*s", (int)(p - line), line);
        for (int i = 0; i < 7; i++)
            v[i] = strtod(p, &p);
        int64_t d = (int64_t)v[1];
        for (int i = 0; i < d / 2; i++) {
            want[i] = strtod(p, &p);
            divisor[i] = (float)(pow(v[0], -2.0 * i / (double)d) / want[i]);
        }
        arch_rope r = {.type = type,
                       .theta = v[0],
                       .factor = v[2],
                       .original = v[3],
                       .beta_fast = v[4],
                       .beta_slow = v[5],
                       .divisor = strcmp(type, "llama3") == 0 ? divisor : NULL};
        arch_rope_freq(freq, &r, d);
        for (int i = 0; i < d / 2; i++)
            if (!(fabs(freq[i] / want[i] - 1) < 1e-6))
                fail_msg("%s, head %d, pair %d: expected %.9g, got %.9g", type, (int)d, i,
                         want[i], freq[i]);
        if (r.divisor && d == 64) /* C031 */
            assert_true(fabsf(divisor[14] - 1) < 1e-6f &&
                        fabsf(divisor[15] - 1.651329f) < 2e-6f &&
                        fabsf(divisor[16] - 3.292262f) < 4e-6f &&
                        fabsf(divisor[17] - 9.666729f) < 1e-5f && divisor[18] > 31.999f);
        line = strchr(p, '\n') + 1;
    }
    assert_int_equal(n_line, 7);
    buf_fini(&file);
}

/* C032: yarn of factor 4 multiplies cos and sin by 1.138629, of factor 64 by 1.415888. */
static void yarn_has_its_factor(void **state)
{
    static const double factor[] = {4, 64}, want[] = {1.138629, 1.415888};
    (void)state;
    for (int i = 0; i < 2; i++) {
        model_make_options o = model_make_defaults();
        model t;
        kvt_err err;
        kvt_geometry x;
        o.rope_scaling = "yarn";
        o.rope_factor = factor[i];
        o.rope_original = 2048;
        model_init(&t, &o, NULL);
        CHECK_OK(arch_geometry(&x, arch_find("llama", 5), t.g, &err), &err);
        assert_string_equal(x.rope_type, "yarn");
        assert_true(fabs(x.rope_attn_factor - want[i]) < 1e-6);
        assert_true(x.rope_factor == factor[i] && x.rope_original == 2048);
        model_fini(&t);
    }
    model_make_options o = model_make_defaults();
    model t;
    kvt_err err;
    kvt_geometry x;
    o.rope_scaling = "linear";
    o.rope_factor = 4;
    model_init(&t, &o, NULL);
    CHECK_OK(arch_geometry(&x, arch_find("llama", 5), t.g, &err), &err);
    assert_string_equal(x.rope_type, "linear");
    assert_true(x.rope_freq[0] == 0.25 && x.rope_attn_factor == 1);
    model_fini(&t);
}

static void names_are_put_together(void **state)
{
    char name[KEY_TEXT];
    (void)state;
    assert_string_equal(key_name(name, arch_find("llama", 5), KEY_N_LAYER),
                        "llama.block_count");
    assert_string_equal(key_tensor(name, TENSOR_WQ, 12), "blk.12.attn_q.weight");
    assert_string_equal(key_tensor(name, TENSOR_OUT_NORM, 12), "output_norm.weight");
    const arch *llama = arch_find("llama", 5), *gemma = arch_find("gemma3", 6);
    assert_string_equal(key_tensor_hf(name, llama, TENSOR_FFN_NORM, 3),
                        "model.layers.3.post_attention_layernorm.weight");
    assert_string_equal(key_tensor_hf(name, gemma, TENSOR_FFN_NORM, 3),
                        "model.layers.3.pre_feedforward_layernorm.weight");
    assert_string_equal(key_tensor_hf(name, gemma, TENSOR_ATTN_POST, 3),
                        "model.layers.3.post_attention_layernorm.weight");
    assert_string_equal(key_tensor_hf(name, llama, TENSOR_LM_HEAD, 3), "lm_head.weight");
    assert_string_equal(key_name_hf(KEY_N_KV_HEAD), "num_key_value_heads");
}

/* mistral's files are of architecture llama: all layers have the window. qwen2's files have no
 * such key, and what it would mean is not known. */
static void a_window_of_llama_is_one_of_all_layers(void **state)
{
    model_make_options o = model_make_defaults();
    model t;
    kvt_err err;
    kvt_geometry x;
    (void)state;
    o.window = 9;
    model_init(&t, &o, NULL);
    CHECK_OK(arch_geometry(&x, arch_find("llama", 5), t.g, &err), &err);
    assert_true(x.window[0] == 9 && x.window[1] == 9 && x.rope_theta_local == 0);
    model_fini(&t);
    o.arch = "qwen2";
    model_init(&t, &o, NULL);
    CHECK_FAILS(arch_geometry(&x, arch_find("qwen2", 5), t.g, &err), KVT_FORMAT,
                "a sliding window (9) of architecture qwen2 is not supported", &err);
    model_fini(&t);
}

int main(void)
{
    struct CMUnitTest tests[CHECK_COUNT(rows) + 16];
    int n = 0;
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(everything_is_filled);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(a_window_of_llama_is_one_of_all_layers);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(other_architectures_are_refused_by_name);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(architecture_goes_before_types);
    CHECK_ROWS(tests, &n, rows, wrong_keys_are_refused_by_name);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(head_size_is_not_width_by_heads);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(windows_are_where_the_file_has_them);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(llama3_divisors_divide);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(frequencies_are_those_of_transformers);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(yarn_has_its_factor);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(names_are_put_together);
    return CHECK_RUN("arch", tests, n);
}
