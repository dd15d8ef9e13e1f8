/* test_config.c - what config.json says about a model: sizes and their defaults (C036), both
 * dialects of rotary scaling against transformers (C031, C032), windows, and what is refused by
 * its name. */
#include "capture/config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "kvt/arena.h"
#include "tests/check.h"

enum { LIMIT = 1 << 20 };

#define SIZES                                                \
    "\"hidden_size\": 64, \"intermediate_size\": 96, "       \
    "\"num_hidden_layers\": 4, \"num_attention_heads\": 4, " \
    "\"num_key_value_heads\": 2, \"vocab_size\": 320, "      \
    "\"max_position_embeddings\": 4096"
#define MODEL(type) "{\"model_type\": \"" type "\", " SIZES

static void read_ok(config_model *m, const char *text)
{
    kvt_err err;
    CHECK_OK(config_parse(m, text, strlen(text), &err), &err);
}

/* ---- sizes ---------------------------------------------------------------------------------
 */

static void what_is_left_out_has_its_default(void **state)
{
    config_model m;
    (void)state;
    read_ok(&m, MODEL("llama") "}");
    const kvt_geometry *g = &m.geometry;
    assert_string_equal(g->arch, "llama");
    assert_true(g->n_layer == 4 && g->n_hidden == 64 && g->n_ff == 96 && g->n_head == 4);
    assert_true(g->n_kv_head == 2 && g->head_dim == 16 && g->n_vocab == 320);
    assert_true(g->n_context == 4096 && g->tied == 0 && g->norm_eps == (double)1e-6f);
    assert_true(g->rope_theta == 10000 && g->attn_scale == 0.25 && g->embed_scale == 1);
    assert_string_equal(g->rope_type, "none");
    assert_string_equal(g->rope_layout, "half");
    assert_true(g->rope_factor == 1 && g->rope_attn_factor == 1 && g->window[0] == 0);
    read_ok(&m, MODEL("llama") ", \"num_key_value_heads2\": 1, \"head_dim\": null}");
    assert_int_equal(m.geometry.head_dim, 16);
    read_ok(&m, "{\"model_type\": \"llama\", \"hidden_size\": 64.0, \"intermediate_size\": 96,"
                "\"num_hidden_layers\": 4, \"num_attention_heads\": 4, \"vocab_size\": 320,"
                "\"max_position_embeddings\": 4096, \"rope_theta\": 500000}");
    assert_true(m.geometry.n_kv_head == 4 && m.geometry.rope_theta == 500000);
}

/* Gemma's folders leave out what equals the 2B model that never came out. */
static void gemma_leaves_sizes_out(void **state)
{
    config_model m;
    (void)state;
    read_ok(&m, "{\"model_type\": \"gemma3_text\"}");
    const kvt_geometry *g = &m.geometry;
    assert_true(g->n_layer == 26 && g->n_hidden == 2304 && g->n_ff == 9216 && g->n_head == 8);
    assert_true(g->n_kv_head == 4 && g->head_dim == 256 && g->n_vocab == 262208);
    assert_true(g->tied == 1 && g->norm_eps == (double)1e-6f && g->attn_scale == 1 / 16.0);
    assert_true(g->rope_theta == 1e6 && g->rope_theta_local == 1e4 && g->window[0] == 4096);
    assert_true(g->window[5] == 0 && g->window[11] == 0 && g->window[24] == 4096);
    assert_true(fabs(g->embed_scale - 48) < 1e-12);
    /* Gemma 3 4B: everything in text_config, a scalar that is not the head's width. */
    read_ok(&m, "{\"model_type\": \"gemma3\", \"tie_word_embeddings\": true, \"text_config\": "
                "{\"model_type\": \"gemma3_text\", \"hidden_size\": 2560, "
                "\"num_hidden_layers\": 34, \"query_pre_attn_scalar\": 168, "
                "\"sliding_window\": 1024, \"rope_scaling\": {\"factor\": 8.0, "
                "\"rope_type\": \"linear\"}}}");
    assert_true(m.nested && g->n_hidden == 2560 && g->n_layer == 34 && g->window[33] == 1024);
    assert_true(fabs(g->attn_scale - 1 / sqrt(168)) < 1e-15 && g->rope_factor == 8);
    assert_string_equal(g->rope_type, "linear");
}

/* C036. */
static void head_size_is_not_width_by_heads(void **state)
{
    static const struct {
        const char *text;
        int64_t n_head, head_dim;
    } each[] = {
        {"{\"model_type\": \"qwen3\", \"hidden_size\": 1024, \"num_attention_heads\": 16, "
         "\"num_key_value_heads\": 8, \"head_dim\": 128, \"intermediate_size\": 3072, "
         "\"num_hidden_layers\": 28, \"vocab_size\": 151936, \"max_position_embeddings\": "
         "40960, \"rope_theta\": 1000000, \"rms_norm_eps\": 1e-06}",
         16, 128},
        {"{\"model_type\": \"gemma3_text\", \"hidden_size\": 640, \"num_attention_heads\": 4, "
         "\"num_key_value_heads\": 1, \"head_dim\": 256, \"num_hidden_layers\": 18}",
         4, 256},
        {"{\"model_type\": \"qwen2\", \"hidden_size\": 896, \"num_attention_heads\": 14, "
         "\"num_key_value_heads\": 2, \"intermediate_size\": 4864, \"num_hidden_layers\": 24, "
         "\"vocab_size\": 151936, \"max_position_embeddings\": 32768}",
         14, 64},
        {MODEL("qwen3") "}", 4, 128}, /* as transformers has it where the field is missing */
    };
    (void)state;
    for (int i = 0; i < CHECK_COUNT(each); i++) {
        config_model m;
        read_ok(&m, each[i].text);
        assert_true(m.geometry.n_head == each[i].n_head &&
                    m.geometry.head_dim == each[i].head_dim);
    }
}

/* ---- windows -------------------------------------------------------------------------------
 */

static const struct window_row {
    const char *name, *text;
    int32_t window[4];
} windows[] = {
    {"llama reads no such field", MODEL("llama") ", \"sliding_window\": 9}", {0, 0, 0, 0}},
    {"mistral, all layers", MODEL("mistral") ", \"sliding_window\": 9}", {9, 9, 9, 9}},
    {"mistral, null", MODEL("mistral") ", \"sliding_window\": null}", {0, 0, 0, 0}},
    {"mistral, missing", MODEL("mistral") "}", {4096, 4096, 4096, 4096}},
    {"qwen2, not used",
     MODEL("qwen2") ", \"sliding_window\": 9, \"use_sliding_window\": false, "
                    "\"max_window_layers\": 0}",
     {0, 0, 0, 0}},
    {"qwen2, from a layer on",
     MODEL("qwen2") ", \"sliding_window\": 9, \"use_sliding_window\": true, "
                    "\"max_window_layers\": 3}",
     {0, 0, 0, 9}},
    {"qwen3, by layer_types",
     MODEL("qwen3") ", \"sliding_window\": 9, \"use_sliding_window\": true, \"layer_types\": "
                    "[\"sliding_attention\", \"full_attention\", \"sliding_attention\", "
                    "\"full_attention\"]}",
     {9, 0, 9, 0}},
    {"gemma3, pattern 2",
     MODEL("gemma3_text") ", \"sliding_window\": 9, \"sliding_window_pattern\": 2}",
     {9, 0, 9, 0}},
    {"gemma3, layer_types before the pattern",
     MODEL("gemma3_text") ", \"sliding_window\": 9, \"sliding_window_pattern\": 2, "
                          "\"layer_types\": [\"full_attention\", \"full_attention\", "
                          "\"full_attention\", \"sliding_attention\"]}",
     {0, 0, 0, 9}},
};

static void window_of_each_layer(void **state)
{
    const struct window_row *r = *state;
    config_model m;
    read_ok(&m, r->text);
    assert_memory_equal(m.geometry.window, r->window, sizeof r->window);
}

/* ---- rotation ------------------------------------------------------------------------------
 */

static void frequencies_are_those_of_transformers(void **state)
{
    buf golden;
    kvt_err err;
    int n = 0;
    (void)state;
    buf_init(&golden, LIMIT);
    CHECK_OK(file_read(&golden, KVT_SOURCE_DIR "/tests/golden/config_rope.txt", LIMIT, &err),
             &err);
    buf_char(&golden, 0);
    for (char *line = golden.data, *end; (end = strchr(line, '\n')); line = end + 1, n++) {
        config_model m;
        *end = 0;
        char *json = strchr(line, '\t'), *at = line;
        assert_non_null(json);
        read_ok(&m, json + 1);
        CHECK_NEAR(m.geometry.rope_attn_factor, strtod(at, &at), 1e-12);
        for (int64_t i = 0; i < m.geometry.head_dim / 2; i++) /* theirs are f32 */
            CHECK_NEAR(m.geometry.rope_freq[i] / strtod(at, &at), 1, 1e-6);
        assert_ptr_equal(at, json);
    }
    assert_int_equal(n, 13);
    buf_fini(&golden);
}

/* C031: the divisors of a table that a GGUF file would have. */
static void llama3_keeps_mixes_and_divides(void **state)
{
    static const double mixed[3] = {1.651329, 3.292262, 9.666729};
    config_model m;
    (void)state;
    read_ok(&m, MODEL("llama") ", \"head_dim\": 64, \"rope_theta\": 500000, \"rope_scaling\": "
                               "{\"rope_type\": \"llama3\", \"factor\": 32, "
                               "\"low_freq_factor\": 1, \"high_freq_factor\": 4, "
                               "\"original_max_position_embeddings\": 8192}}");
    for (int i = 0; i < 32; i++) {
        double divided = pow(500000, -i / 32.0) / m.geometry.rope_freq[i];
        double want = i < 15 ? 1 : i < 18 ? mixed[i - 15] : 32;
        assert_true(fabs(divided / want - 1) < 1e-6);
    }
    assert_true(m.geometry.rope_factor == 32 && m.geometry.rope_original == 8192);
    assert_string_equal(m.geometry.rope_type, "llama3");
}

/* As transformers has it, the length of before the scaling wins where it is no field of it. */
static void the_length_of_before_is_looked_for_outside_too(void **state)
{
    static const char original[] = "\"original_max_position_embeddings\"";
    char text[2][1024];
    config_model m[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        snprintf(text[i], sizeof text[i], "%s, %s%s: %d}}", MODEL("llama"),
                 "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4, ", original,
                 i ? 1000 : 2000);
        if (i)
            snprintf(text[i] + strlen(text[i]) - 1, 64, ", %s: 2000}", original);
        read_ok(&m[i], text[i]);
        assert_int_equal(m[i].geometry.rope_original, 2000);
    }
    assert_memory_equal(m[0].geometry.rope_freq, m[1].geometry.rope_freq,
                        sizeof m[0].geometry.rope_freq);
}

static void gemma_has_two_bases_in_both_dialects(void **state)
{
    static const char *const text[] = {
        MODEL("gemma3_text") ", \"rope_theta\": 500000, \"rope_local_base_freq\": 2000, "
                             "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 8}}",
        MODEL("gemma3_text") ", \"rope_parameters\": {\"full_attention\": {\"rope_theta\": "
                             "500000, \"rope_type\": \"linear\", \"factor\": 8}, "
                             "\"sliding_attention\": {\"rope_theta\": 2000, \"rope_type\": "
                             "\"default\"}}}"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        config_model m;
        read_ok(&m, text[i]);
        assert_true(m.geometry.rope_theta == 500000 && m.geometry.rope_theta_local == 2000);
        assert_true(m.geometry.rope_factor == 8 && m.geometry.rope_freq[0] == 1 / 8.0);
    }
}

/* ---- what is refused -----------------------------------------------------------------------
 */

static const struct refusal {
    const char *name, *text, *says;
} refusals[] = {
    {"no object", "[1]", "expected an object"},
    {"no JSON", "{\"a\": }", "JSON"},
    {"a key twice", "{\"model_type\": \"llama\", \"model_type\": \"qwen2\"}", "JSON"},
    {"no type", "{}", "key 'model_type' is missing"},
    {"phi3", MODEL("phi3") "}",
     "architecture phi3 is not supported; supported: llama, mistral, qwen2, qwen3"},
    {"smollm3", MODEL("smollm3") "}", "architecture smollm3 is not supported"},
    {"mixtral", MODEL("mixtral") "}",
     "architecture mixtral is not supported (mixture of experts)"},
    {"qwen3_moe", MODEL("qwen3_moe") "}",
     "architecture qwen3_moe is not supported (mixture of experts)"},
    {"gptq", MODEL("llama") ", \"quantization_config\": {\"quant_method\": \"gptq\"}}",
     "weights quantised by gptq are not supported"},
    {"awq", MODEL("qwen2") ", \"quantization_config\": {\"quant_method\": \"awq\"}}",
     "weights quantised by awq are not supported"},
    {"bitsandbytes",
     MODEL("llama") ", \"quantization_config\": {\"quant_method\": \"bitsandbytes\"}}",
     "weights quantised by bitsandbytes are not supported"},
    {"fp8", MODEL("qwen3") ", \"quantization_config\": {\"quant_method\": \"fp8\"}}",
     "weights quantised by fp8 are not supported"},
    {"compressed-tensors",
     MODEL("llama") ", \"compression_config\": {\"quant_method\": \"compressed-tensors\"}}",
     "key 'compression_config': weights quantised by compressed-tensors are not supported"},
    {"experts", MODEL("llama") ", \"num_local_experts\": 8}",
     "mixture of experts is not supported (key 'num_local_experts')"},
    {"soft cap", MODEL("gemma3_text") ", \"final_logit_softcapping\": 30.0}",
     "a soft cap of logits is not supported (key 'final_logit_softcapping')"},
    {"part of the rotation", MODEL("llama") ", \"partial_rotary_factor\": 0.5}",
     "key 'partial_rotary_factor': a rotation of 0.5 of the channels is not supported"},
    {"part of the rotation, new dialect",
     MODEL("llama") ", \"rope_parameters\": {\"rope_type\": \"default\", "
                    "\"partial_rotary_factor\": 0.75}}",
     "a rotation of 0.75 of the channels is not supported"},
    {"attention_bias", MODEL("llama") ", \"attention_bias\": true}",
     "key 'attention_bias': true is not supported in architecture llama"},
    {"mlp_bias", MODEL("llama") ", \"mlp_bias\": true}",
     "key 'mlp_bias': true is not supported in architecture llama"},
    {"both ways", MODEL("gemma3_text") ", \"use_bidirectional_attention\": true}",
     "key 'use_bidirectional_attention': true is not supported"},
    {"gelu", MODEL("llama") ", \"hidden_act\": \"gelu\"}",
     "key 'hidden_act': expected silu, got gelu"},
    {"silu", MODEL("gemma3_text") ", \"hidden_activation\": \"silu\"}",
     "key 'hidden_activation': expected gelu_pytorch_tanh, got silu"},
    {"longrope",
     MODEL("llama") ", \"rope_scaling\": {\"rope_type\": \"longrope\", \"factor\": 2}}",
     "rotary scaling 'longrope' is not supported; supported: default, linear, llama3, yarn"},
    {"dynamic", MODEL("llama") ", \"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2}}",
     "rotary scaling 'dynamic' is not supported"},
    {"mrope",
     MODEL("qwen2") ", \"rope_scaling\": {\"type\": \"mrope\", \"mrope_section\": [1, 2]}}",
     "rotary scaling 'mrope' is not supported"},
    {"mrope by its sections",
     MODEL("qwen2") ", \"rope_parameters\": {\"rope_type\": \"default\", "
                    "\"mrope_section\": [1, 2]}}",
     "rotary scaling 'mrope' is not supported"},
    {"no factor", MODEL("llama") ", \"rope_scaling\": {\"rope_type\": \"linear\"}}",
     "key 'factor' is missing"},
    {"llama3 without a limit",
     MODEL("llama") ", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, "
                    "\"original_max_position_embeddings\": 8192}}",
     "key 'low_freq_factor' is missing"},
    {"llama3 upside down",
     MODEL("llama") ", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, "
                    "\"low_freq_factor\": 4, \"high_freq_factor\": 1, "
                    "\"original_max_position_embeddings\": 8192}}",
     "key 'high_freq_factor': expected more than low_freq_factor 4, got 1"},
    {"local scaling",
     MODEL("gemma3_text") ", \"rope_parameters\": {\"full_attention\": {}, "
                          "\"sliding_attention\": {\"rope_type\": \"linear\", \"factor\": 2}}}",
     "rotary scaling 'linear' of sliding_attention is not supported"},
    {"two rotations of llama",
     MODEL("llama") ", \"rope_parameters\": {\"full_attention\": {}}}",
     "are not supported in architecture llama"},
    {"no width", "{\"model_type\": \"qwen3\"}", "key 'num_hidden_layers' is missing"},
    {"half a layer", "{\"model_type\": \"qwen3\", \"num_hidden_layers\": 2.5}",
     "key 'num_hidden_layers': expected a whole number"},
    {"no layers", "{\"model_type\": \"qwen3\", \"num_hidden_layers\": 0}",
     "key 'num_hidden_layers': expected 1 to 256, got 0"},
    {"text for a number", "{\"model_type\": \"qwen3\", \"num_hidden_layers\": \"2\"}",
     "key 'num_hidden_layers': expected a whole number"},
    {"heads and kv heads", MODEL("llama") ", \"head_dim\": 7}",
     "key 'head_dim': expected an even head size of 2 to 512, got 7"},
    {"a base below 0", MODEL("llama") ", \"rope_theta\": -1}",
     "key 'rope_theta': expected a number above 0"},
    {"layer types too few", MODEL("qwen2") ", \"layer_types\": [\"full_attention\"]}",
     "key 'layer_types': expected an array of 4 texts"},
    {"another layer type",
     MODEL("qwen2") ", \"layer_types\": [\"full_attention\", \"chunked_attention\", "
                    "\"full_attention\", \"full_attention\"]}",
     "layer 1: chunked_attention is not supported"},
    {"a window that is none",
     MODEL("qwen2") ", \"layer_types\": [\"full_attention\", \"sliding_attention\", "
                    "\"full_attention\", \"full_attention\"]}",
     "layer 1 is sliding_attention, and no 'sliding_window' holds"},
    {"tied by a number", MODEL("llama") ", \"tie_word_embeddings\": 1}",
     "key 'tie_word_embeddings': expected true or false"},
    {"text_config of llama", MODEL("llama") ", \"text_config\": {\"hidden_size\": 8}}",
     "key 'text_config' is not supported in architecture llama"},
};

static void refused_by_name(void **state)
{
    const struct refusal *r = *state;
    config_model m;
    kvt_err err;
    CHECK_FAILS(config_parse(&m, r->text, strlen(r->text), &err), KVT_FORMAT, r->says, &err);
    assert_null(strchr(err.text, '\n'));
    assert_null(strstr(err.text, "tensor '"));
}

static void a_missing_file_is_named(void **state)
{
    config_model m;
    kvt_err err;
    (void)state;
    CHECK_FAILS(config_read(&m, KVT_BINARY_DIR "/no/config.json", &err), KVT_NOTFOUND,
                "no/config.json", &err);
}

int main(void)
{
    struct CMUnitTest tests[CHECK_COUNT(refusals) + CHECK_COUNT(windows) + 9];
    int n = 0;
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(what_is_left_out_has_its_default);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(gemma_leaves_sizes_out);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(head_size_is_not_width_by_heads);
    CHECK_ROWS(tests, &n, windows, window_of_each_layer);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(frequencies_are_those_of_transformers);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(llama3_keeps_mixes_and_divides);
    tests[n++] =
        (struct CMUnitTest)cmocka_unit_test(the_length_of_before_is_looked_for_outside_too);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(gemma_has_two_bases_in_both_dialects);
    CHECK_ROWS(tests, &n, refusals, refused_by_name);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(a_missing_file_is_named);
    return CHECK_RUN("config", tests, n);
}
