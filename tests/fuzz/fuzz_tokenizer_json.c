/* fuzz_tokenizer_json.c - any tokenizer.json: refused in one line, or used on fixed texts.
 * Where the input has a zero byte, what is behind it is tokenizer_config.json. */
#include <string.h>

#include "capture/tokenizer_json.h"
#include "tests/fuzz/fuzz.h"

static void check(bool holds)
{
    if (!holds)
        __builtin_trap();
}

static void encode(tokenizer *t, const char *text)
{
    kvt_err err;
    token_list list;
    size_t n = strlen(text);
    tokenizer_range all = {0, n};
    token_list_init(&list);
    check(tokenizer_encode(t, &list, text, n, &all, 1, true, &err) == KVT_OK);
    check(list.n == 0 || list.offset[list.n] == (int64_t)list.text.n);
    for (int64_t i = 0; i < list.n; i++) {
        check(list.id[i] >= 0 && list.id[i] < tokenizer_count(t));
        check(list.offset[i + 1] >= list.offset[i]);
    }
    token_list_fini(&list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char *const texts[] = {
        "", "ab a  a\n12 <s>", "\u4f60\u597d \U0001f999 e\u0301", "aaaaaaaaaaaaaaaaaaaaaaab"};
    kvt_err err;
    json_t *root = NULL, *config = NULL;
    tokenizer *t;
    const uint8_t *zero = n ? memchr(data, 0, n) : NULL;
    size_t n_root = zero ? (size_t)(zero - data) : n;
    if (json_read(&root, (const char *)data, n_root, &err))
        return 0;
    if (zero && json_read(&config, (const char *)zero + 1, n - n_root - 1, &err))
        config = NULL;
    tokenizer_config more = {.config = config, .model = config, .generation = config};
    if (tokenizer_from_json(&t, root, &more, NULL, &err) == KVT_OK) {
        for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
            encode(t, texts[i]);
        tokenizer_free(t);
    } else {
        check(err.code == KVT_FORMAT && strlen(err.text) > 0);
    }
    json_decref(root);
    json_decref(config);
    return 0;
}
