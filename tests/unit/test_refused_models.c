/* test_refused_models.c - capture/models.def says what is so: its architectures are those of
 * the table in arch.c, and what it calls refused is refused with those words. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "capture/config.h"
#include "tests/check.h"

static const char PLAIN[] =
    "{\"model_type\": \"llama\", \"hidden_size\": 64, \"intermediate_size\": 96, "
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
    "\"max_position_embeddings\": 512, \"rms_norm_eps\": 1e-5, \"vocab_size\": 320, "
    "\"hidden_act\": \"silu\", \"rope_theta\": 10000.0, \"tie_word_embeddings\": false}";

static void a_plain_configuration_is_read(void **state)
{
    kvt_err err;
    config_model m;
    (void)state;
    CHECK_OK(config_parse(&m, PLAIN, sizeof PLAIN - 1, &err), &err);
    assert_string_equal(m.arch->name, "llama");
}

static void architectures_are_those_of_the_engine(void **state)
{
    static const char *const names[] = {
#define MODEL_ARCH(arch, models) #arch,
#include "capture/models.def"
    };
    kvt_err err;
    config_model m;
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_non_null(arch_find(names[i], strlen(names[i])));
    /* One that comes to the engine needs a line of models.def, and a word here. */
    const char other[] = "{\"model_type\": \"rwkv7\"}";
    CHECK_FAILS(config_parse(&m, other, sizeof other - 1, &err), KVT_FORMAT,
                "supported: llama, mistral, qwen2, qwen3, gemma3_text, gemma3", &err);
}

static void is_refused(const char *what, const char *with, const char *words)
{
    kvt_err err;
    config_model m;
    json_t *config = json_loads(PLAIN, 0, NULL), *more = json_loads(with, 0, NULL);
    if (!config || !more || json_object_update(config, more))
        fail_msg("%s: the second column is no object: %s", what, with);
    char *bytes = json_dumps(config, 0);
    kvt_code code = config_parse(&m, bytes, strlen(bytes), &err);
    if (code != KVT_FORMAT || !strstr(err.text, words))
        fail_msg("%s: expected '%s', got '%s'", what, words, code ? err.text : "no error");
    free(bytes);
    json_decref(config);
    json_decref(more);
}

static void what_is_called_refused_is_refused(void **state)
{
    (void)state;
#define MODEL_REFUSED(what, config, words) is_refused(what, config, words);
#include "capture/models.def"
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_configuration_is_read),
        cmocka_unit_test(architectures_are_those_of_the_engine),
        cmocka_unit_test(what_is_called_refused_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
