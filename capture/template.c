/* template.c - recognising and rendering the built-in chat templates.
 *
 * Each form writes pieces: what the template says, and what a message says. The texts below are
 * those of the models' own templates. */
#include "capture/template.h"

#include "base/text.h"
#include "kvt/arena.h"

#include <string.h>

enum { RENDER_LIMIT = 1 << 30 };

static const char SMOLLM2_SYSTEM[] =
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face";
static const char QWEN_SYSTEM[] =
    "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.";
static const char LLAMA31_DATES[] =
    "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n";

/* In the order in which they are tried: a form whose marks are all there and whose `without` is
 * not. */
static const struct form {
    template_form form;
    const char *name;
    const char *mark[2]; /* NULL: none */
    const char *without;
} forms[] = {
    /* clang-format off */
    {TEMPLATE_SMOLLM2,   "smollm2",  {"<|im_start|>", SMOLLM2_SYSTEM},                   "<|im_sep|>"},
    {TEMPLATE_QWEN2_5,   "qwen2.5",  {"<|im_start|>", QWEN_SYSTEM},                      "<|im_sep|>"},
    {TEMPLATE_CHATML,    "chatml",   {"<|im_start|>", NULL},                             "<|im_sep|>"},
    {TEMPLATE_GEMMA,     "gemma",    {"<start_of_turn>", NULL},                          NULL},
    {TEMPLATE_LLAMA3_1,  "llama3.1", {"<|start_header_id|>", "Cutting Knowledge Date"},  NULL},
    {TEMPLATE_LLAMA3,    "llama3",   {"<|start_header_id|>", "<|end_header_id|>"},       NULL},
    {TEMPLATE_LLAMA2,    "llama2",   {"[INST]", "<<SYS>>"},                              NULL},
    /* clang-format on */
};
enum { N_FORM = sizeof forms / sizeof forms[0] };

static const char *const role_names[] = {"system", "user", "assistant", NULL};

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
    for (int i = 0; i < N_FORM; i++)
        names[i + 1] = forms[i].name;
    if (strcmp(name, "raw") == 0) {
        *out = TEMPLATE_RAW;
        return KVT_OK;
    }
    for (int i = 0; i < N_FORM; i++)
        if (strcmp(name, forms[i].name) == 0) {
            *out = forms[i].form;
            return KVT_OK;
        }
    const char *near = text_nearest(name, names);
    return kvt_fail(err, KVT_USAGE,
                    "chat template '%.40s': expected raw, chatml, smollm2, qwen2.5, llama2, "
                    "llama3, llama3.1 or gemma%s%s%s",
                    name, near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

kvt_code template_find(template_form *out, const char *name, const char *text, kvt_err *err)
{
    if (name)
        return find_name(out, name, err);
    *out = TEMPLATE_RAW;
    if (!text)
        return KVT_OK;
    for (int i = 0; i < N_FORM; i++) {
        const struct form *f = &forms[i];
        bool there = strstr(text, f->mark[0]) && (!f->mark[1] || strstr(text, f->mark[1]));
        if (there && !(f->without && strstr(text, f->without))) {
            *out = f->form;
            return KVT_OK;
        }
    }
    return kvt_fail(err, KVT_FORMAT,
                    "the model's chat template is of no known form: name one with "
                    "--chat or use --raw");
}

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

void template_text_init(template_text *t)
{
    *t = (template_text){0};
    buf_init(&t->text, RENDER_LIMIT);
}

void template_text_fini(template_text *t)
{
    buf_fini(&t->text);
    kvt_free(t->piece);
    *t = (template_text){0};
}

/* A rendering on its way. The first failure is kept in `code`; later calls do nothing. */
typedef struct render {
    template_text *out;
    template_role role; /* of the message at hand */
    int message;
    kvt_code code;
    kvt_err *err;
} render;

/* Appends one piece; an empty one only where it is a message's text. */
static tokenizer_range add(render *r, const char *text, size_t n, size_t skip, bool is_template)
{
    template_text *t = r->out;
    tokenizer_range range = {t->text.n, t->text.n};
    if (r->code || (n == 0 && is_template))
        return range;
    if (t->n_piece == t->cap) {
        int64_t cap = t->cap ? 2 * t->cap : 16;
        template_piece *piece = kvt_resize(t->piece, t->cap, cap, sizeof *piece);
        if (!piece) {
            r->code = kvt_fail_memory(r->err, (size_t)cap * sizeof *piece);
            return range;
        }
        t->piece = piece;
        t->cap = cap;
    }
    buf_add(&t->text, text, n);
    if ((r->code = buf_check(&t->text, r->err)))
        return range;
    range.end = t->text.n;
    t->piece[t->n_piece++] = (template_piece){.begin = range.begin,
                                              .end = range.end,
                                              .is_template = is_template,
                                              .role = r->role,
                                              .skip = skip,
                                              .message = r->message};
    return range;
}

static tokenizer_range say(render *r, const char *text)
{
    return add(r, text, strlen(text), 0, true);
}

/* What Python's str.strip() takes away, because the templates were written for it. */
static bool is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xa0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

static size_t leading_space(const char *s, size_t n)
{
    size_t at = 0;
    while (at < n) {
        uint32_t c;
        int width = text_decode(&c, (const uint8_t *)s + at, n - at);
        if (!width || !is_space(c))
            break;
        at += (size_t)width;
    }
    return at;
}

static size_t without_trailing_space(const char *s, size_t n)
{
    while (n > 0) {
        size_t at = n - 1;
        while (at > 0 && n - at < 4 && ((uint8_t)s[at] & 0xc0) == 0x80)
            at--;
        uint32_t c;
        int width = text_decode(&c, (const uint8_t *)s + at, n - at);
        if (!width || at + (size_t)width != n || !is_space(c))
            break;
        n = at;
    }
    return n;
}

/* The text of message i, which is what a person wrote. */
static void quote(render *r, const template_message *m, int i, bool trim_front, bool trim_back)
{
    size_t skip = trim_front ? leading_space(m->text, m->n) : 0;
    size_t end = trim_back ? without_trailing_space(m->text, m->n) : m->n;
    r->message = i;
    r->role = m->role;
    end = end < skip ? skip : end;
    tokenizer_range range = add(r, m->text + skip, end - skip, skip, false);
    if (m->role == TEMPLATE_SYSTEM && r->out->system.end == 0)
        r->out->system = range;
    if (m->role == TEMPLATE_USER) {
        if (r->out->question.end == 0)
            r->out->prefix = (tokenizer_range){0, range.begin};
        r->out->question = range;
    }
}

/* What the template says at the begin of message i. */
static void enter(render *r, const template_message *m, int i)
{
    r->role = m->role;
    r->message = i;
}

/* What belongs to no message. */
static void leave(render *r, template_role role)
{
    r->role = role;
    r->message = -1;
}

static void render_chatml(render *r, const template_message *m, int n, const char *system)
{
    if (system && m[0].role != TEMPLATE_SYSTEM) {
        leave(r, TEMPLATE_SYSTEM);
        say(r, "<|im_start|>system\n");
        r->out->system = say(r, system);
        say(r, "<|im_end|>\n");
    }
    for (int i = 0; i < n; i++) {
        enter(r, &m[i], i);
        say(r, "<|im_start|>");
        say(r, role_names[m[i].role]);
        say(r, "\n");
        quote(r, &m[i], i, false, false);
        say(r, "<|im_end|>\n");
    }
    leave(r, TEMPLATE_ASSISTANT);
    say(r, "<|im_start|>assistant\n");
}

static void llama3_header(render *r, const char *role)
{
    say(r, "<|start_header_id|>");
    say(r, role);
    say(r, "<|end_header_id|>\n\n");
}

static void render_llama3(render *r, const template_message *m, int n, const char *bos,
                          bool dates)
{
    int i = 0;
    leave(r, TEMPLATE_SYSTEM);
    say(r, bos);
    if (dates) {
        bool given = m[0].role == TEMPLATE_SYSTEM;
        llama3_header(r, "system");
        r->out->system = say(r, LLAMA31_DATES);
        if (given) {
            quote(r, &m[0], 0, true, true);
            r->out->system.end = r->out->text.n;
            i = 1;
        }
        say(r, "<|eot_id|>");
    }
    for (; i < n; i++) {
        enter(r, &m[i], i);
        llama3_header(r, role_names[m[i].role]);
        quote(r, &m[i], i, true, true);
        say(r, "<|eot_id|>");
    }
    leave(r, TEMPLATE_ASSISTANT);
    llama3_header(r, "assistant");
}

static void render_gemma(render *r, const template_message *m, int n, const char *bos)
{
    bool system = m[0].role == TEMPLATE_SYSTEM;
    leave(r, TEMPLATE_USER);
    say(r, bos);
    for (int i = system; i < n; i++) {
        enter(r, &m[i], i);
        say(r, "<start_of_turn>");
        say(r, m[i].role == TEMPLATE_ASSISTANT ? "model" : "user");
        say(r, "\n");
        if (system && i == 1) {
            quote(r, &m[0], 0, false, false);
            say(r, "\n\n");
        }
        quote(r, &m[i], i, true, true);
        say(r, "<end_of_turn>\n");
    }
    leave(r, TEMPLATE_ASSISTANT);
    say(r, "<start_of_turn>model\n");
}

static void render_llama2(render *r, const template_message *m, int n, const char *bos)
{
    bool system = m[0].role == TEMPLATE_SYSTEM;
    for (int i = system; i < n; i++) {
        enter(r, &m[i], i);
        if (m[i].role == TEMPLATE_ASSISTANT) {
            say(r, " ");
            quote(r, &m[i], i, true, true);
            say(r, " </s>");
            continue;
        }
        say(r, bos);
        say(r, "[INST] ");
        if (system && i == 1) {
            enter(r, &m[0], 0);
            say(r, "<<SYS>>\n");
            quote(r, &m[0], 0, false, false);
            say(r, "\n<</SYS>>\n\n");
        }
        /* The original strips system and user text as one. */
        quote(r, &m[i], i, !(system && i == 1), true);
        say(r, " [/INST]");
    }
    leave(r, TEMPLATE_ASSISTANT);
}

/* gemma and llama2: at most one system message in front, then user and assistant in turn. */
static kvt_code check_turns(template_form form, const template_message *m, int n, kvt_err *err)
{
    int first = m[0].role == TEMPLATE_SYSTEM;
    if (first == n)
        return kvt_fail(err, KVT_USAGE,
                        "template '%s': a system message needs a user message behind it",
                        template_name(form));
    for (int i = first; i < n; i++) {
        template_role want = (i - first) % 2 ? TEMPLATE_ASSISTANT : TEMPLATE_USER;
        if (m[i].role != want)
            return kvt_fail(
                err, KVT_USAGE,
                "template '%s': message %d: expected %s, got %s: user and assistant "
                "must take turns",
                template_name(form), i + 1, role_names[want], role_names[m[i].role]);
    }
    return KVT_OK;
}

kvt_code template_render(template_text *out, template_form form,
                         const template_message *message, int64_t n_message, const char *bos,
                         kvt_err *err)
{
    if (n_message < 1 || n_message > INT32_MAX)
        return kvt_fail(err, KVT_USAGE, "template '%s': no messages", template_name(form));
    int n = (int)n_message;
    if (form == TEMPLATE_RAW && (n != 1 || message[0].role != TEMPLATE_USER))
        return kvt_fail(err, KVT_USAGE,
                        "without a chat template there is room for one text only: "
                        "no system text, no dialogue");
    if ((form == TEMPLATE_GEMMA || form == TEMPLATE_LLAMA2) &&
        check_turns(form, message, n, err))
        return err->code;
    render r = {.out = out, .err = err};
    bos = bos ? bos : "";
    out->form = form;
    switch (form) {
    case TEMPLATE_RAW: quote(&r, &message[0], 0, false, false); break;
    case TEMPLATE_CHATML: render_chatml(&r, message, n, NULL); break;
    case TEMPLATE_SMOLLM2: render_chatml(&r, message, n, SMOLLM2_SYSTEM); break;
    case TEMPLATE_QWEN2_5: render_chatml(&r, message, n, QWEN_SYSTEM); break;
    case TEMPLATE_LLAMA2: render_llama2(&r, message, n, bos); break;
    case TEMPLATE_LLAMA3: render_llama3(&r, message, n, bos, false); break;
    case TEMPLATE_LLAMA3_1: render_llama3(&r, message, n, bos, true); break;
    case TEMPLATE_GEMMA: render_gemma(&r, message, n, bos); break;
    case TEMPLATE_COUNT: break;
    }
    return r.code;
}

bool template_message_range(tokenizer_range *out, const template_text *text, int message)
{
    for (int64_t i = 0; i < text->n_piece; i++)
        if (!text->piece[i].is_template && text->piece[i].message == message) {
            *out = (tokenizer_range){text->piece[i].begin, text->piece[i].end};
            return true;
        }
    return false;
}

/* The first token that ends behind (or begins at or behind) a byte. */
static int64_t first_token(const token_list *list, int64_t byte, int behind)
{
    int64_t low = 0, high = list->n;
    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (list->offset[mid + behind] >= byte + behind)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

void template_token_range(int64_t *begin, int64_t *end, const token_list *list,
                          tokenizer_range bytes)
{
    *begin = first_token(list, (int64_t)bytes.begin, 1);
    *end = bytes.end > bytes.begin ? first_token(list, (int64_t)bytes.end, 0) : *begin;
}

static void set_flags(token_list *list, const template_text *text)
{
    int64_t p = 0;
    for (int64_t i = 0; i < list->n; i++) {
        size_t begin = (size_t)list->offset[i];
        while (p + 1 < text->n_piece && text->piece[p].end <= begin)
            p++;
        if (text->n_piece && text->piece[p].is_template)
            list->flag[i] |= KVT_TOKEN_TEMPLATE;
        if (begin >= text->system.begin && begin < text->system.end)
            list->flag[i] |= KVT_TOKEN_SYSTEM;
    }
}

/* Moves a range behind the spaces in front of it; `space` are places of the new text. */
static void move_range(tokenizer_range *r, const token_list *list)
{
    size_t begin = r->begin, end = r->end;
    for (int64_t k = 0; k < list->n_space; k++) {
        size_t before = list->space[k] - (size_t)k; /* the byte that it was put in front of */
        r->begin += before <= begin;
        r->end += before < end;
    }
    r->end = r->end < r->begin ? r->begin : r->end;
}

static void move_pieces(template_text *text, const token_list *list)
{
    int64_t k = 0;
    for (int64_t i = 0; i < text->n_piece; i++) {
        template_piece *p = &text->piece[i];
        size_t end = p->end;
        while (k < list->n_space && list->space[k] - (size_t)k <= p->begin)
            k++;
        p->begin += (size_t)k;
        for (p->end += (size_t)k; k < list->n_space && list->space[k] - (size_t)k < end; k++)
            p->end++;
    }
}

/* The text with the spaces that the tokenizer put in; FORMAT where it changed anything else. */
static kvt_code follow(template_text *text, const token_list *list, kvt_err *err)
{
    const char *old = buf_get(&text->text), *new = buf_get(&list->text);
    size_t at = 0;
    bool same = list->text.n == text->text.n + (size_t)list->n_space;
    for (int64_t k = 0; k <= list->n_space && same; k++) {
        size_t end = k < list->n_space ? list->space[k] - (size_t)k : text->text.n;
        same = memcmp(old + at, new + at + k, end - at) == 0;
        at = end;
    }
    if (!same)
        return kvt_fail(err, KVT_FORMAT,
                        "text: bring the messages to the tokenizer's normal form "
                        "before rendering them");
    if (list->n_space == 0)
        return KVT_OK;
    buf_clear(&text->text);
    buf_add(&text->text, new, list->text.n);
    move_pieces(text, list);
    move_range(&text->system, list);
    move_range(&text->question, list);
    move_range(&text->prefix, list);
    text->prefix.begin = 0;
    return buf_check(&text->text, err);
}

kvt_code template_encode(token_list *out, tokenizer *t, template_text *text, bool parse_special,
                         kvt_err *err)
{
    int64_t n_range = 0;
    tokenizer_range *range = kvt_alloc(text->n_piece + 1, sizeof *range);
    if (!range)
        return kvt_fail_memory(err, (size_t)(text->n_piece + 1) * sizeof *range);
    for (int64_t i = 0; i < text->n_piece; i++) {
        const template_piece *p = &text->piece[i];
        if (!p->is_template && !(parse_special && text->form == TEMPLATE_RAW))
            continue;
        if (n_range && range[n_range - 1].end == p->begin)
            range[n_range - 1].end = p->end;
        else
            range[n_range++] = (tokenizer_range){p->begin, p->end};
    }
    kvt_code code =
        tokenizer_encode(t, out, buf_get(&text->text), text->text.n, range, n_range, true, err);
    kvt_free(range);
    if (code || follow(text, out, err))
        return err->code;
    set_flags(out, text);
    return KVT_OK;
}
