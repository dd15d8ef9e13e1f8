/* template_forms.c - recognising and rendering the built-in chat templates.
 *
 * Each form writes pieces: what the template says, and what a message says. The texts below are
 * those of the models' own templates. */
#include "capture/template_priv.h"

#include "base/buf.h"
#include "base/text.h"

#include <string.h>

static const char SMOLLM2_SYSTEM[] =
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face";
static const char QWEN2_SYSTEM[] = "You are a helpful assistant.";
static const char QWEN2_5_SYSTEM[] =
    "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.";
static const char LLAMA31_DATES[] =
    "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n";
static const char NO_THOUGHT[] = "<think>\n\n</think>\n\n";
static const char EOS[] = "</s>"; /* of the vocabularies that llama2, mistral and zephyr have */

/* How [INST] is written around texts. */
typedef struct inst {
    const char *user[2], *answer[2]; /* before, behind */
    bool system; /* it stands in the last user's text; else there is no place for it */
} inst;

static const inst inst_v1 = {{"[INST] ", " [/INST]"}, {"", "</s> "}, false};
static const inst inst_v2 = {{"[INST] ", " [/INST]"}, {"", "</s>"}, false};
static const inst inst_v3 = {{"[INST] ", "[/INST]"}, {" ", "</s>"}, true};
static const inst inst_nemo = {{"[INST]", "[/INST]"}, {"", "</s>"}, true};

typedef enum turns { ANY_ORDER, TAKE_TURNS } turns;

struct form {
    template_form form;
    const char *name;
    const char *mark[2]; /* NULL: none */
    const char *without;
    void (*render)(render *r, const template_message *m, int n);
    turns turns;
    const char *system; /* text where none is given (llama3.1: in front of it); NULL: none */
    const inst *inst;
};

static const char *const role_names[] = {"system", "user", "assistant", NULL};

kvt_code template_role_parse(template_role *out, const char *name, kvt_err *err)
{
    for (int i = 0; role_names[i]; i++)
        if (strcmp(name, role_names[i]) == 0) {
            *out = (template_role)i;
            return KVT_OK;
        }
    char shown[64];
    text_safe_cut(shown, sizeof shown, (const uint8_t *)name, strlen(name), 40, true);
    return kvt_fail(err, KVT_USAGE, "role: expected system, user or assistant, got '%s'",
                    shown);
}

/* What a text begins and ends a turn of chatml with. */
static void enter_chatml(render *r, const template_message *m, int i)
{
    template_enter(r, m, i);
    template_say(r, "<|im_start|>");
    template_say(r, role_names[m->role]);
    template_say(r, "\n");
}

static void render_chatml(render *r, const template_message *m, int n)
{
    if (r->form->system && m[0].role != TEMPLATE_SYSTEM) {
        template_leave(r, TEMPLATE_SYSTEM);
        template_say(r, "<|im_start|>system\n");
        r->out->system = template_say(r, r->form->system);
        template_say(r, "<|im_end|>\n");
    }
    for (int i = 0; i < n; i++) {
        enter_chatml(r, &m[i], i);
        template_quote(r, &m[i], i, false, false);
        template_say(r, "<|im_end|>\n");
    }
    template_leave(r, TEMPLATE_ASSISTANT);
    template_say(r, "<|im_start|>assistant\n");
}

/* The last place of `what` in [begin, end) of a text, or the first where `first`; -1: none. */
static int64_t place_of(const template_message *m, size_t begin, size_t end, const char *what,
                        bool first)
{
    size_t n = strlen(what);
    int64_t found = -1;
    for (size_t at = begin; at + n <= end; at++)
        if (memcmp(m->text + at, what, n) == 0) {
            found = (int64_t)at;
            if (first)
                break;
        }
    return found;
}

static bool begins_and_ends(const template_message *m, const char *begin, const char *end)
{
    size_t a = strlen(begin), b = strlen(end);
    return m->n >= a && m->n >= b && memcmp(m->text, begin, a) == 0 &&
           memcmp(m->text + m->n - b, end, b) == 0;
}

/* Qwen3 counts questions, not what tools answer. */
static int last_question(const template_message *m, int n)
{
    for (int i = n - 1; i >= 0; i--)
        if (m[i].role == TEMPLATE_USER &&
            !begins_and_ends(&m[i], "<tool_response>", "</tool_response>"))
            return i;
    return n - 1;
}

static size_t skip_lines(const template_message *m, size_t at, size_t end)
{
    while (at < end && m->text[at] == '\n')
        at++;
    return at;
}

static size_t drop_lines(const template_message *m, size_t begin, size_t end)
{
    while (end > begin && m->text[end - 1] == '\n')
        end--;
    return end;
}

/* An answer: what was thought is left out, but for answers behind the last question. */
static void quote_answer(render *r, const template_message *m, int i, bool thinks, bool last)
{
    static const char open[] = "<think>", close[] = "</think>";
    int64_t first = place_of(m, 0, m->n, close, true);
    int64_t behind = place_of(m, 0, m->n, close, false);
    size_t text = 0, begin = 0, end = 0;
    if (behind >= 0) {
        text = skip_lines(m, (size_t)behind + sizeof close - 1, m->n);
        end = drop_lines(m, 0, (size_t)first);
        int64_t opened = place_of(m, 0, end, open, false);
        begin = skip_lines(m, opened >= 0 ? (size_t)opened + sizeof open - 1 : 0, end);
    }
    if (thinks && (last || end > begin)) {
        template_say(r, "<think>\n");
        if (end > begin)
            template_quote_part(r, m, i, begin, end);
        template_say(r, "\n</think>\n\n");
        text = skip_lines(m, text, m->n);
    }
    template_quote_part(r, m, i, text, m->n);
}

static void render_qwen3(render *r, const template_message *m, int n)
{
    int question = last_question(m, n);
    for (int i = 0; i < n; i++) {
        enter_chatml(r, &m[i], i);
        if (m[i].role == TEMPLATE_ASSISTANT)
            quote_answer(r, &m[i], i, i > question, i == n - 1);
        else
            template_quote(r, &m[i], i, false, false);
        template_say(r, "<|im_end|>\n");
    }
    template_leave(r, TEMPLATE_ASSISTANT);
    template_say(r, "<|im_start|>assistant\n");
    if (r->form->form == TEMPLATE_QWEN3_SHORT)
        template_say(r, NO_THOUGHT);
}

static void llama3_header(render *r, const char *role)
{
    template_say(r, "<|start_header_id|>");
    template_say(r, role);
    template_say(r, "<|end_header_id|>\n\n");
}

static void render_llama3(render *r, const template_message *m, int n)
{
    int i = 0;
    template_leave(r, TEMPLATE_SYSTEM);
    template_say(r, r->bos);
    if (r->form->system) { /* always there: dates, and behind them what is given */
        bool given = m[0].role == TEMPLATE_SYSTEM;
        llama3_header(r, "system");
        r->out->system = template_say(r, r->form->system);
        if (given) {
            template_quote(r, &m[0], 0, true, true);
            r->out->system.end = r->out->text.n;
            i = 1;
        }
        template_say(r, "<|eot_id|>");
    }
    for (; i < n; i++) {
        template_enter(r, &m[i], i);
        llama3_header(r, role_names[m[i].role]);
        template_quote(r, &m[i], i, true, true);
        template_say(r, "<|eot_id|>");
    }
    template_leave(r, TEMPLATE_ASSISTANT);
    llama3_header(r, "assistant");
}

static void render_gemma(render *r, const template_message *m, int n)
{
    bool system = m[0].role == TEMPLATE_SYSTEM;
    template_leave(r, TEMPLATE_USER);
    template_say(r, r->bos);
    for (int i = system; i < n; i++) {
        template_enter(r, &m[i], i);
        template_say(r, "<start_of_turn>");
        template_say(r, m[i].role == TEMPLATE_ASSISTANT ? "model" : "user");
        template_say(r, "\n");
        if (system && i == 1) {
            template_quote(r, &m[0], 0, false, false);
            template_say(r, "\n\n");
        }
        template_quote(r, &m[i], i, true, true);
        template_say(r, "<end_of_turn>\n");
    }
    template_leave(r, TEMPLATE_ASSISTANT);
    template_say(r, "<start_of_turn>model\n");
}

static void render_llama2(render *r, const template_message *m, int n)
{
    bool system = m[0].role == TEMPLATE_SYSTEM;
    for (int i = system; i < n; i++) {
        template_enter(r, &m[i], i);
        if (m[i].role == TEMPLATE_ASSISTANT) {
            template_say(r, " ");
            template_quote(r, &m[i], i, true, true);
            template_say(r, " </s>");
            continue;
        }
        template_say(r, r->bos);
        template_say(r, "[INST] ");
        if (system && i == 1) {
            template_enter(r, &m[0], 0);
            template_say(r, "<<SYS>>\n");
            template_quote(r, &m[0], 0, false, false);
            template_say(r, "\n<</SYS>>\n\n");
        }
        /* The original strips system and user text as one. */
        template_quote(r, &m[i], i, !(system && i == 1), true);
        template_say(r, " [/INST]");
    }
    template_leave(r, TEMPLATE_ASSISTANT);
}

static void render_inst(render *r, const template_message *m, int n)
{
    const inst *w = r->form->inst;
    bool system = m[0].role == TEMPLATE_SYSTEM;
    template_leave(r, TEMPLATE_USER);
    template_say(r, r->bos);
    for (int i = system; i < n; i++) {
        const char *const *around = m[i].role == TEMPLATE_USER ? w->user : w->answer;
        template_enter(r, &m[i], i);
        template_say(r, around[0]);
        if (system && i == n - 1) {
            template_quote(r, &m[0], 0, false, false);
            template_say(r, "\n\n");
        }
        template_quote(r, &m[i], i, false, false);
        template_say(r, around[1]);
    }
    template_leave(r, TEMPLATE_ASSISTANT);
}

static void render_zephyr(render *r, const template_message *m, int n)
{
    for (int i = 0; i < n; i++) {
        template_enter(r, &m[i], i);
        template_say(r, "<|");
        template_say(r, role_names[m[i].role]);
        template_say(r, "|>\n");
        template_quote(r, &m[i], i, false, false);
        template_say(r, EOS);
        template_say(r, "\n");
    }
    template_leave(r, TEMPLATE_ASSISTANT);
    template_say(r, "<|assistant|>\n");
}

static void render_raw(render *r, const template_message *m, int n)
{
    for (int i = 0; i < n; i++)
        template_quote(r, &m[i], i, false, false);
}

static const struct form raw = {.form = TEMPLATE_RAW, .name = "raw", .render = render_raw};

/* In the order in which they are tried: a form whose marks are all there and whose `without` is
 * not. One without marks is found by its name only. */
static const struct form forms[] = {
    /* clang-format off */
    {TEMPLATE_SMOLLM2,    "smollm2",  {"<|im_start|>", SMOLLM2_SYSTEM},  "<|im_sep|>", render_chatml, ANY_ORDER, SMOLLM2_SYSTEM, NULL},
    {TEMPLATE_QWEN2_5,    "qwen2.5",  {"<|im_start|>", QWEN2_5_SYSTEM},  "<|im_sep|>", render_chatml, ANY_ORDER, QWEN2_5_SYSTEM, NULL},
    {TEMPLATE_QWEN2,      "qwen2",    {"<|im_start|>", "You are a helpful assistant.<|im_end|>"}, "</think>", render_chatml, ANY_ORDER, QWEN2_SYSTEM, NULL},
    {TEMPLATE_QWEN3,      "qwen3",    {"enable_thinking is false", "reasoning_content.strip('\\n') + '\\n</think>"}, "'<think>\\n' }}", render_qwen3, ANY_ORDER, NULL, NULL},
    {TEMPLATE_QWEN3_SHORT, "qwen3-no-think", {NULL, NULL},               NULL, render_qwen3, ANY_ORDER, NULL, NULL},
    {TEMPLATE_CHATML,     "chatml",   {"<|im_start|>", NULL},            "<|im_sep|>", render_chatml, ANY_ORDER, NULL, NULL},
    {TEMPLATE_GEMMA,      "gemma",    {"<start_of_turn>", NULL},         NULL, render_gemma, TAKE_TURNS, NULL, NULL},
    {TEMPLATE_LLAMA3_1,   "llama3.1", {"<|start_header_id|>", "Cutting Knowledge Date"}, NULL, render_llama3, ANY_ORDER, LLAMA31_DATES, NULL},
    {TEMPLATE_LLAMA3,     "llama3",   {"<|start_header_id|>", "<|end_header_id|>"}, NULL, render_llama3, ANY_ORDER, NULL, NULL},
    {TEMPLATE_LLAMA2,     "llama2",   {"[INST]", "<<SYS>>"},             NULL, render_llama2, TAKE_TURNS, NULL, NULL},
    {TEMPLATE_MISTRAL_V1, "mistral-v0.1", {"'[INST] ' + message['content'] + ' [/INST]'", "eos_token + ' '"}, NULL, render_inst, TAKE_TURNS, NULL, &inst_v1},
    {TEMPLATE_MISTRAL,    "mistral",  {"'[INST] ' + message['content'] + ' [/INST]'", "message['content'] + eos_token"}, "' ' + message['content']", render_inst, TAKE_TURNS, NULL, &inst_v2},
    {TEMPLATE_MISTRAL_V3, "mistral-v0.3", {"\"[INST] \" + message[\"content\"] + \"[/INST]\"", "\" \" + message[\"content\"]"}, NULL, render_inst, TAKE_TURNS, NULL, &inst_v3},
    {TEMPLATE_MISTRAL_NEMO, "mistral-nemo", {"\"[INST]\" + message[\"content\"] + \"[/INST]\"", NULL}, NULL, render_inst, TAKE_TURNS, NULL, &inst_nemo},
    {TEMPLATE_ZEPHYR,     "zephyr",   {"<|user|>", "eos_token"},         "<|end|>", render_zephyr, ANY_ORDER, NULL, NULL},
    /* clang-format on */
};
enum { N_FORM = sizeof forms / sizeof forms[0] };

const char *template_name(template_form form)
{
    for (int i = 0; i < N_FORM; i++)
        if (forms[i].form == form)
            return forms[i].name;
    return "raw";
}

static kvt_code find_name(template_form *out, const char *name, kvt_err *err)
{
    const char *names[N_FORM + 2] = {"raw"};
    buf list;
    *out = TEMPLATE_RAW;
    if (strcmp(name, "raw") == 0)
        return KVT_OK;
    for (int i = 0; i < N_FORM; i++)
        if (strcmp(name, names[i + 1] = forms[i].name) == 0) {
            *out = forms[i].form;
            return KVT_OK;
        }
    buf_init(&list, 1 << 12);
    for (int i = 0; names[i]; i++)
        buf_printf(&list, "%s%s", i ? ", " : "", names[i]);
    const char *near = text_nearest(name, names);
    kvt_fail(err, KVT_USAGE, "chat template '%.40s': expected one of %s%s%s%s", name,
             buf_get(&list), near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    buf_fini(&list);
    return KVT_USAGE;
}

/* Whether a template writes a system text of its own: the role's name, a line's end as such or
 * as \\n, and then no end of a quotation. */
static bool has_system_text(const char *text)
{
    static const char mark[] = "<|im_start|>system";
    while ((text = strstr(text, mark))) {
        text += sizeof mark - 1;
        const char *at = text[0] == '\n'                     ? text + 1
                         : text[0] == '\\' && text[1] == 'n' ? text + 2
                                                             : NULL;
        if (at && *at && !strchr("'\"{", *at))
            return true;
    }
    return false;
}

static bool is_form(const struct form *f, const char *text)
{
    if (!f->mark[0] || !strstr(text, f->mark[0]) || (f->mark[1] && !strstr(text, f->mark[1])) ||
        (f->without && strstr(text, f->without)))
        return false;
    return f->form != TEMPLATE_CHATML || !(strstr(text, "</think>") || has_system_text(text));
}

kvt_code template_find(template_form *out, const char *name, const char *text, kvt_err *err)
{
    if (name)
        return find_name(out, name, err);
    *out = TEMPLATE_RAW;
    if (!text)
        return KVT_OK;
    for (int i = 0; i < N_FORM; i++)
        if (is_form(&forms[i], text)) {
            *out = forms[i].form;
            return KVT_OK;
        }
    return kvt_fail(err, KVT_FORMAT,
                    "the model's chat template is of no known form: name one with "
                    "--chat or use --raw");
}

/* At most one system message in front, then user and assistant in turn. */
static kvt_code check_turns(const struct form *f, const template_message *m, int n,
                            kvt_err *err)
{
    int first = m[0].role == TEMPLATE_SYSTEM;
    if (first && f->inst && !f->inst->system)
        return kvt_fail(err, KVT_USAGE, "template '%s': there is no place for a system message",
                        f->name);
    if (first == n)
        return kvt_fail(err, KVT_USAGE,
                        "template '%s': a system message needs a user message behind it",
                        f->name);
    for (int i = first; i < n; i++) {
        template_role want = (i - first) % 2 ? TEMPLATE_ASSISTANT : TEMPLATE_USER;
        if (m[i].role != want)
            return kvt_fail(
                err, KVT_USAGE,
                "template '%s': message %d: expected %s, got %s: user and assistant "
                "must take turns",
                f->name, i + 1, role_names[want], role_names[m[i].role]);
    }
    if (first && f->inst && m[n - 1].role != TEMPLATE_USER)
        return kvt_fail(err, KVT_USAGE,
                        "template '%s': a system message stands in the last user's: the last "
                        "message must be one",
                        f->name);
    return KVT_OK;
}

kvt_code template_render(template_text *out, template_form form,
                         const template_message *message, int64_t n_message, const char *bos,
                         kvt_err *err)
{
    const struct form *f = &raw;
    for (int i = 0; i < N_FORM; i++)
        if (forms[i].form == form)
            f = &forms[i];
    if (n_message < 1 || n_message > INT32_MAX)
        return kvt_fail(err, KVT_USAGE, "template '%s': no messages", f->name);
    int n = (int)n_message;
    if (f == &raw && (n != 1 || message[0].role != TEMPLATE_USER))
        return kvt_fail(err, KVT_USAGE,
                        "without a chat template there is room for one text only: "
                        "no system text, no dialogue");
    if (f->turns == TAKE_TURNS && check_turns(f, message, n, err))
        return err->code;
    render r = {.out = out, .form = f, .bos = bos ? bos : "", .err = err};
    out->form = f->form;
    f->render(&r, message, n);
    return r.code;
}
