/* fuzz_prompts.c - any bytes as a prompt set: refused with file and line, or rendered by every
 * template and tokenized, its spans found. */
#include <string.h>

#include "capture/prompts.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/tiny_vocab.h"

static void check(bool holds)
{
    if (!holds)
        __builtin_trap();
}

static void run_prompt(tokenizer *t, const prompt *p, template_form form)
{
    kvt_err err;
    template_text text;
    token_list list;
    template_text_init(&text);
    token_list_init(&list);
    kvt_code code = template_render(&text, form, p->message, p->n_message, "<s>", &err);
    check(code == KVT_OK || code == KVT_USAGE);
    if (code == KVT_OK) {
        check(template_encode(&list, t, &text, false, &err) == KVT_OK);
        check(list.n == 0 || list.offset[list.n] == (int64_t)text.text.n);
        for (int i = 0; i < p->n_span; i++) {
            tokenizer_range r;
            int64_t begin, end;
            code = prompt_span_find(&r, &p->span[i], &text, &err);
            check(code == KVT_OK || code == KVT_USAGE); /* USAGE: trimmed away */
            if (code)
                continue;
            check(r.begin < r.end && r.end <= text.text.n);
            template_token_range(&begin, &end, &list, r);
            check(0 <= begin && begin < end && end <= list.n);
        }
    }
    token_list_fini(&list);
    template_text_fini(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    tiny_vocab v;
    kvt_err err;
    prompts *set;
    tokenizer *t;
    kvt_code code = prompts_parse(&set, n ? (const char *)data : "", n, "x.jsonl", &err);
    if (code) {
        check(code == KVT_FORMAT || code == KVT_USAGE);
        check(strncmp(err.text, "x.jsonl:", 8) == 0);
        return 0;
    }
    tiny_init(&v, "gpt-2");
    tiny_fixed(&v, "<|im_end|>", TOKEN_CONTROL);
    check(tokenizer_new(&t, &v.source, &err) == KVT_OK);
    for (int64_t i = 0; i < set->n; i++)
        for (int form = 0; form < TEMPLATE_COUNT; form++)
            run_prompt(t, &set->item[i], (template_form)form);
    tokenizer_free(t);
    prompts_free(set);
    return 0;
}
