/* test_templates.c - rendered dialogues against the models' own templates (templates.txt, made
 * by templates.py with transformers). */
#include "capture/template.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TEXT_MAX = 8192, MESSAGES_MAX = 8, CASES_MAX = 128 };

typedef struct dialogue {
    char name[64];
    char form[32], bos[64];
    template_message message[MESSAGES_MAX];
    int n_message;
    char text[TEXT_MAX]; /* of all messages, one behind the other */
    size_t n_text;
    char want[TEXT_MAX];
    size_t n_want;
} dialogue;

static dialogue cases[CASES_MAX];
static int n_case;

static size_t unhex(char *out, const char *hex)
{
    size_t n = 0;
    for (unsigned byte; hex[2 * n] && sscanf(hex + 2 * n, "%2x", &byte) == 1; n++)
        out[n] = (char)byte;
    return n;
}

static void renders_as_the_model_does(void **state)
{
    const dialogue *d = *state;
    kvt_err err;
    template_form form;
    template_text out;
    template_text_init(&out);
    if (template_find(&form, d->form, NULL, &err) ||
        template_render(&out, form, d->message, d->n_message, d->bos[0] ? d->bos : NULL, &err))
        fail_msg("%s: %s", d->name, err.text);
    if (out.text.n != d->n_want || memcmp(buf_get(&out.text), d->want, d->n_want) != 0)
        fail_msg("%s: expected\n%.*s\ngot\n%.*s", d->name, (int)d->n_want, d->want,
                 (int)out.text.n, buf_get(&out.text));

    /* Pieces tile the text; every message's text is its own, but for what was trimmed. */
    size_t at = 0;
    for (int64_t i = 0; i < out.n_piece; i++) {
        assert_int_equal(out.piece[i].begin, at);
        at = out.piece[i].end;
    }
    assert_int_equal(at, out.text.n);
    for (int i = 0; i < d->n_message; i++) {
        tokenizer_range r;
        assert_true(template_message_range(&r, &out, i));
        assert_true(r.end - r.begin <= d->message[i].n);
    }
    template_text_fini(&out);
}

static void read_cases(FILE *f)
{
    static char line[2 * TEXT_MAX + 64], word[3][2 * TEXT_MAX];
    while (fgets(line, sizeof line, f)) {
        int n = line[0] == '#'
                    ? 0
                    : sscanf(line, "%16s %16383s %16383s", word[0], word[1], word[2]);
        dialogue *d = n_case ? &cases[n_case - 1] : NULL;
        if (n == 3 && strcmp(word[0], "case") == 0 && n_case < CASES_MAX) {
            d = &cases[n_case++];
            snprintf(d->form, sizeof d->form, "%.30s", word[1]);
            snprintf(d->name, sizeof d->name, "%.30s, case %d", word[1], n_case);
            d->bos[unhex(d->bos, word[2])] = 0;
        } else if (n == 3 && strcmp(word[0], "msg") == 0 && d) {
            kvt_err err;
            template_message *m = &d->message[d->n_message++];
            if (template_role_parse(&m->role, word[1], &err))
                fprintf(stderr, "%s\n", err.text);
            m->text = d->text + d->n_text;
            m->n = unhex(d->text + d->n_text, word[2]);
            d->n_text += m->n;
        } else if (n == 2 && strcmp(word[0], "out") == 0 && d) {
            d->n_want = unhex(d->want, word[1]);
        }
    }
}

int main(void)
{
    static struct CMUnitTest tests[CASES_MAX];
    FILE *f = fopen(KVT_SOURCE_DIR "/tests/golden/templates.txt", "r");
    if (f)
        read_cases(f);
    if (!f || n_case < 55) {
        fprintf(stderr, "tests/golden/templates.txt: %d cases\n", n_case);
        return 1;
    }
    fclose(f);
    for (int i = 0; i < n_case; i++)
        tests[i] = (struct CMUnitTest){.name = cases[i].name,
                                       .test_func = renders_as_the_model_does,
                                       .initial_state = &cases[i]};
    return _cmocka_run_group_tests("templates", tests, (size_t)n_case, NULL, NULL);
}
