/* fuzz_tokenizer.c - any vocabulary and any text. An input that begins with GGUF is a model
 * file whose vocabulary is refused or used on fixed texts; any other is a text, of which the
 * first byte says which pre-tokenizer cuts it, or that it is merged by scores, and whether
 * control tokens are parsed. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "capture/gguf.h"
#include "capture/tokenizer.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/tiny_vocab.h"

static void check(bool holds)
{
    if (!holds)
        __builtin_trap();
}

/* Whatever the vocabulary: ids are in it, ranges tile the text, flags are known. */
static void encode(tokenizer *t, const char *text, size_t n, bool parse_special)
{
    kvt_err err;
    token_list list;
    tokenizer_range all = {0, n};
    token_list_init(&list);
    kvt_code code = tokenizer_encode(t, &list, text, n, &all, parse_special, true, &err);
    check(code == KVT_OK || code == KVT_FORMAT);
    check((code == KVT_OK) == (n == 0 || text_valid((const uint8_t *)text, n, NULL)));
    if (code == KVT_OK && list.n) {
        check(list.offset[0] == 0 && list.offset[list.n] == (int64_t)list.text.n);
        for (int64_t i = 0; i < list.n; i++) {
            check(list.id[i] >= 0 && list.id[i] < tokenizer_count(t));
            check(list.offset[i + 1] >= list.offset[i]);
            token_text bytes = tokenizer_bytes(t, list.id[i]);
            int64_t size = list.offset[i + 1] - list.offset[i];
            bool is_bos = i == 0 && size == 0;
            check(is_bos || list.n_lost || size == (int64_t)bytes.n);
            check(is_bos || list.n_lost || !bytes.n ||
                  memcmp(buf_get(&list.text) + list.offset[i], bytes.data, bytes.n) == 0);
            check(tokenizer_is_special(t, list.id[i]) == (list.flag[i] == KVT_TOKEN_SPECIAL));
            check(parse_special || is_bos || list.n_lost ||
                  !tokenizer_is_special(t, list.id[i]));
        }
    }
    check(n == 0 || tokenizer_whole(text, n) <= n);
    token_list_fini(&list);
}

static void run_model(const uint8_t *data, size_t n)
{
    static const char *const texts[] = {"", "hello 12  <|end|>\n\n",
                                        "\u4f60\u597d \U0001f999 e\u0301",
                                        "aaaaaaaaaaaaaaaaaaaaaaab"};
    kvt_err err;
    gguf *g;
    tokenizer *t;
    if (gguf_read(&g, data, n, &err))
        return;
    if (tokenizer_open(&t, g, NULL, &err) == KVT_OK) {
        for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
            encode(t, texts[i], strlen(texts[i]), i % 2);
        tokenizer_free(t);
    } else {
        check(strlen(err.text) > 0);
    }
    gguf_close(g);
}

static void run_text(const uint8_t *data, size_t n)
{
    static const char *const pres[] = {"gpt-2", "smollm", "llama-bpe", "qwen2"};
    tiny_vocab v;
    kvt_err err;
    tokenizer *t;
    tiny_init(&v, pres[data[0] & 3]);
    tiny_merge(&v, "a", "a");
    tiny_merge(&v, " ", "a");
    tiny_merge(&v, "aa", "aa");
    tiny_merge(&v, "\n", "\n");
    tiny_merge(&v, "1", "1");
    tiny_merge(&v, "\xe2", "\x82");
    tiny_fixed(&v, "<|end|>", TOKEN_CONTROL);
    tiny_fixed(&v, "<|end|><|end|>", TOKEN_CONTROL);
    tiny_fixed(&v, "  ", TOKEN_USER);
    v.source.bos = tiny_fixed(&v, "<s>", TOKEN_CONTROL);
    v.type[4] = TOKEN_UNUSED; /* a byte without a token */
    check(tokenizer_new(&t, &v.source, &err) == KVT_OK);
    encode(t, (const char *)data + 1, n - 1, data[0] & 4);
    tokenizer_free(t);
}

/* Pieces with scores, with bytes for the rest or without, and a space in front or none. */
static void run_pieces(const uint8_t *data, size_t n)
{
    static const char *const pieces[] = {"<unk>",   "<s>",  "a",       "b",     " ",
                                         "aa",      "aaa",  "ab",      "  ",    "\u2581",
                                         "\u2581a", "\n\n", "<|end|>", "\u4f60"};
    enum { PIECES = sizeof pieces / sizeof pieces[0], MOST = PIECES + 256 };
    static const int32_t types[PIECES] = {
        TOKEN_UNKNOWN, TOKEN_CONTROL, 1, 1, 1, 1, 1, 1, TOKEN_USER, 1, 1,
        TOKEN_USER,    TOKEN_CONTROL, 1};
    char name[256][8];
    token_text token[MOST];
    int32_t type[MOST];
    float score[MOST];
    kvt_err err;
    tokenizer *t;
    tokenizer_source s = tokenizer_source_empty();
    for (int i = 0; i < MOST; i++) {
        if (i >= PIECES)
            snprintf(name[i - PIECES], sizeof name[0], "<0x%02X>",
                     (unsigned)(i - PIECES) & 0xff);
        const char *text = i < PIECES ? pieces[i] : name[i - PIECES];
        token[i] = (token_text){text, strlen(text)};
        type[i] = i < PIECES ? types[i] : TOKEN_BYTE;
        score[i] = (float)(i % 5);
    }
    s.model = "llama";
    s.token = token;
    s.type = type;
    s.score = score;
    s.n_token = data[0] & 1 ? PIECES : MOST;
    s.unk = data[0] & 2 ? 0 : -1;
    s.bos = 1;
    s.space = (data[0] >> 4) % 3;
    s.space_once = data[0] & 64;
    check(tokenizer_new(&t, &s, &err) == KVT_OK);
    encode(t, (const char *)data + 1, n - 1, data[0] & 4);
    tokenizer_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n >= 4 && memcmp(data, "GGUF", 4) == 0)
        run_model(data, n);
    else if (n > 0 && data[0] & 8)
        run_pieces(data, n);
    else if (n > 0)
        run_text(data, n);
    return 0;
}
