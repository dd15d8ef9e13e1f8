/* prompts.c - reading prompt sets.
 *
 * A file is UTF-8 with one JSON object a line:
 *
 *   1. a byte order mark in front is skipped; lines end with LF or CRLF, the last one may end
 *      with neither; lines of white space are skipped
 *   2. "id" and one of "prompt" (text) and "messages" ([{role, content}]) must be there;
 *      "system", "response", "max_new", "spans" may be; any other key is refused
 *   3. ids are file names: unique, not empty, without '/', '..', a leading '.', control
 *      characters
 *
 * One wrong line refuses the file before anything has been run. */
#include "capture/prompts.h"

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

static const char *const prompt_keys[] = {"id",       "prompt",  "messages", "system",
                                          "response", "max_new", "spans",    NULL};
static const char *const message_keys[] = {"role", "content", NULL};

static void *take(prompts *set, int64_t n, size_t size, kvt_err *err)
{
    void *p = kvt_arena_array(set->memory, n ? n : 1, size);
    if (!p)
        (void)kvt_fail_memory(err, (size_t)n * size);
    return p;
}

/* Text of a member, copied; *out is NULL where the key is absent. */
static kvt_code member_text(prompts *set, const json_t *object, const char *key,
                            const char **out, size_t *n, kvt_err *err)
{
    const json_t *value = json_object_get(object, key);
    *out = NULL;
    *n = 0;
    if (!value)
        return KVT_OK;
    if (!json_is_string(value))
        return kvt_fail(err, KVT_FORMAT, "'%s': expected text", key);
    *n = json_string_length(value);
    char *copy = take(set, (int64_t)*n + 1, 1, err);
    if (!copy)
        return err->code;
    memcpy(copy, json_string_value(value), *n);
    *out = copy;
    return KVT_OK;
}

static kvt_code check_id(const char *id, size_t n, kvt_err *err)
{
    char shown[64];
    const char *wrong = NULL;
    if (n == 0)
        return kvt_fail(err, KVT_USAGE, "'id': it is empty; it becomes the trace's file name");
    if (n > PROMPT_ID_MAX)
        wrong = "is longer than 200 bytes";
    else if (strlen(id) != n)
        wrong = "holds a zero byte";
    else if (strchr(id, '/') || strstr(id, "..") || id[0] == '.')
        wrong = "may hold no '/' or '..' and not begin with '.'";
    for (size_t i = 0; i < n && !wrong; i++)
        if ((uint8_t)id[i] < 32 || id[i] == 127)
            wrong = "holds a control character";
    if (!wrong)
        return KVT_OK;
    text_safe_cut(shown, sizeof shown, (const uint8_t *)id, n, 40, true);
    return kvt_fail(err, KVT_USAGE, "'id': '%s' %s; it becomes the trace's file name", shown,
                    wrong);
}

/* One entry of "messages". */
static kvt_code read_message(prompts *set, template_message *m, const json_t *value,
                             kvt_err *err)
{
    const char *role;
    size_t n_role;
    if (!json_is_object(value))
        return kvt_fail(err, KVT_FORMAT, "expected an object with role and content");
    if (json_only(value, message_keys, err) ||
        member_text(set, value, "role", &role, &n_role, err) ||
        member_text(set, value, "content", &m->text, &m->n, err))
        return err->code;
    if (!role || !m->text)
        return kvt_fail(err, KVT_FORMAT, "'%s' is missing", role ? "content" : "role");
    return template_role_parse(&m->role, role, err);
}

/* Puts system text, prompt or messages into p->message. */
static kvt_code read_messages(prompts *set, prompt *p, const json_t *object, kvt_err *err)
{
    const json_t *list = json_object_get(object, "messages");
    template_message system = {TEMPLATE_SYSTEM, NULL, 0}, user = {TEMPLATE_USER, NULL, 0};
    int n = 0;
    if (member_text(set, object, "system", &system.text, &system.n, err) ||
        member_text(set, object, "prompt", &user.text, &user.n, err))
        return err->code;
    if (!user.text == !list)
        return kvt_fail(err, KVT_USAGE, "expected one of 'prompt' and 'messages', got %s",
                        list ? "both" : "neither");
    if (list && !json_is_array(list))
        return kvt_fail(err, KVT_FORMAT, "'messages': expected a list");
    size_t n_list = list ? json_array_size(list) : 1;
    template_message *m = take(set, (int64_t)n_list + 1, sizeof *m, err);
    if (!m)
        return err->code;
    if (system.text)
        m[n++] = system;
    if (!list)
        m[n++] = user;
    for (size_t i = 0; list && i < n_list; i++)
        if (read_message(set, &m[n++], json_array_get(list, i), err))
            return kvt_within(err, "'messages' %zu", i + 1);
    if (system.text && n > 1 && m[1].role == TEMPLATE_SYSTEM)
        return kvt_fail(err, KVT_USAGE,
                        "'system' is given, and the messages begin with another");
    p->message = m;
    p->n_message = n;
    return KVT_OK;
}

static const template_message *last_user(const prompt *p)
{
    for (int i = p->n_message - 1; i >= 0; i--)
        if (p->message[i].role == TEMPLATE_USER)
            return &p->message[i];
    return NULL;
}

/* The first place of `what` in `text`, or NULL. Both may be long: the search is by memchr and
 * memcmp, as memmem() is not in POSIX. */
static const char *find(const char *text, size_t n, const char *what, size_t n_what)
{
    const char *end = text + n;
    while (n_what && (size_t)(end - text) >= n_what) {
        const char *at = memchr(text, what[0], (size_t)(end - text) - n_what + 1);
        if (!at)
            return NULL;
        if (memcmp(at, what, n_what) == 0)
            return at;
        text = at + 1;
    }
    return NULL;
}

static bool is_in_texts(const prompt *p, const char *what)
{
    for (int i = 0; i < p->n_message; i++)
        if (find(p->message[i].text, p->message[i].n, what, strlen(what)))
            return true;
    return p->response && find(p->response, p->n_response, what, strlen(what));
}

static kvt_code read_span(prompts *set, prompt *p, prompt_span *span, const json_t *value,
                          kvt_err *err)
{
    int64_t n_text = (int64_t)last_user(p)->n;
    if (json_is_string(value)) {
        char *copy = take(set, (int64_t)json_string_length(value) + 1, 1, err);
        if (!copy)
            return err->code;
        memcpy(copy, json_string_value(value), json_string_length(value));
        span->text = copy;
        if (!*copy || strlen(copy) != json_string_length(value) || !is_in_texts(p, copy))
            return kvt_fail(err, KVT_USAGE, "its text is not in the prompt or the response");
        return KVT_OK;
    }
    const json_t *begin = json_array_get(value, 0), *end = json_array_get(value, 1);
    if (json_array_size(value) != 2 || !json_is_integer(begin) || !json_is_integer(end))
        return kvt_fail(err, KVT_FORMAT, "expected text or [begin, end] in bytes");
    span->begin = json_integer_value(begin);
    span->end = json_integer_value(end);
    if (span->begin < 0 || span->end <= span->begin || span->end > n_text)
        return kvt_fail(err, KVT_USAGE, "expected 0 <= begin < end <= %lld, got [%lld, %lld]",
                        (long long)n_text, (long long)span->begin, (long long)span->end);
    return KVT_OK;
}

static kvt_code read_spans(prompts *set, prompt *p, const json_t *object, kvt_err *err)
{
    json_t *spans = json_object_get(object, "spans"), *value;
    const char *name;
    int n = 0;
    if (!spans)
        return KVT_OK;
    if (!json_is_object(spans) || json_object_size(spans) > PROMPT_SPANS_MAX)
        return kvt_fail(err, KVT_FORMAT, "'spans': expected an object of at most %d names",
                        PROMPT_SPANS_MAX);
    prompt_span *span = take(set, (int64_t)json_object_size(spans), sizeof *span, err);
    if (!span)
        return err->code;
    json_object_foreach(spans, name, value)
    {
        char shown[64];
        text_safe_cut(shown, sizeof shown, (const uint8_t *)name, strlen(name), 40, true);
        if (!*name || strlen(name) >= sizeof span->name)
            return kvt_fail(err, KVT_USAGE, "'spans': name '%s': expected 1 to 31 bytes",
                            shown);
        memcpy(span[n].name, name, strlen(name) + 1);
        if (read_span(set, p, &span[n++], value, err))
            return kvt_within(err, "'spans': '%s'", shown);
    }
    p->span = span;
    p->n_span = n;
    return KVT_OK;
}

static kvt_code read_prompt(prompts *set, prompt *p, const json_t *object, kvt_err *err)
{
    size_t n_id;
    p->max_new = -1;
    if (!json_is_object(object))
        return kvt_fail(err, KVT_FORMAT, "expected a JSON object");
    if (json_only(object, prompt_keys, err) ||
        member_text(set, object, "id", &p->id, &n_id, err))
        return err->code;
    if (!p->id)
        return kvt_fail(err, KVT_FORMAT, "'id' is missing");
    if (check_id(p->id, n_id, err) || read_messages(set, p, object, err) ||
        member_text(set, object, "response", &p->response, &p->n_response, err))
        return err->code;
    const template_message *user = last_user(p);
    if (!user || user->n == 0)
        return kvt_fail(err, KVT_USAGE,
                        user ? "the prompt is empty" : "'messages': there is none of the user");
    const json_t *max_new = json_object_get(object, "max_new");
    if (max_new && !json_is_integer(max_new))
        return kvt_fail(err, KVT_FORMAT, "'max_new': expected an integer");
    if (max_new && (p->max_new = json_integer_value(max_new)) < 0)
        return kvt_fail(err, KVT_USAGE, "'max_new': expected 0 or more, got %lld",
                        (long long)p->max_new);
    return read_spans(set, p, object, err);
}

static kvt_code read_line(prompts *set, int64_t *cap, const char *line, size_t n,
                          int64_t number, kvt_err *err)
{
    size_t bad, blank = 0;
    while (blank < n && strchr(" \t\r", line[blank]) && line[blank])
        blank++;
    if (blank == n)
        return KVT_OK;
    if (!text_valid((const uint8_t *)line, n, &bad))
        return kvt_fail(err, KVT_FORMAT, "not UTF-8 at byte %zu of the line (0x%02x)", bad,
                        (unsigned)(uint8_t)line[bad]);
    if (set->n == *cap) {
        int64_t more = *cap ? 2 * *cap : 64;
        prompt *item = kvt_resize(set->item, *cap, more, sizeof *item);
        if (!item)
            return kvt_fail_memory(err, (size_t)more * sizeof *item);
        set->item = item;
        *cap = more;
    }
    prompt *p = &set->item[set->n++];
    *p = (prompt){.line = number};
    json_t *value = NULL;
    if (json_read(&value, line, n, err))
        return err->code;
    kvt_code code = read_prompt(set, p, value, err);
    json_decref(value);
    return code;
}

static int by_id(const void *a, const void *b)
{
    const prompt *const *x = a, *const *y = b;
    int order = strcmp((*x)->id, (*y)->id);
    return order ? order : ((*x)->line > (*y)->line) - ((*x)->line < (*y)->line);
}

static kvt_code check_unique(const prompts *set, const char *name, kvt_err *err)
{
    kvt_code code = KVT_OK;
    const prompt **order = kvt_alloc(set->n, sizeof *order);
    if (!order)
        return kvt_fail_memory(err, (size_t)set->n * sizeof *order);
    for (int64_t i = 0; i < set->n; i++)
        order[i] = &set->item[i];
    qsort(order, (size_t)set->n, sizeof *order, by_id);
    for (int64_t i = 1; i < set->n && !code; i++)
        if (strcmp(order[i - 1]->id, order[i]->id) == 0)
            code = kvt_fail(err, KVT_USAGE, "%s:%lld: 'id': '%.60s' is that of line %lld, too",
                            name, (long long)order[i]->line, order[i]->id,
                            (long long)order[i - 1]->line);
    kvt_free(order);
    return code;
}

kvt_code prompts_parse(prompts **out, const char *bytes, size_t n, const char *name,
                       kvt_err *err)
{
    int64_t cap = 0, number = 0;
    kvt_code code = KVT_OK;
    prompts *set = kvt_alloc(1, sizeof *set);
    if (!set)
        return kvt_fail_memory(err, sizeof *set);
    set->memory = kvt_arena_new(64 * n + (1 << 20)); /* {} is a message of 24 bytes */
    if (!set->memory)
        code = kvt_fail_memory(err, n);
    size_t at = n >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (at < n && !code) {
        const char *end = memchr(bytes + at, '\n', n - at);
        size_t length = end ? (size_t)(end - bytes) - at : n - at;
        if ((code = read_line(set, &cap, bytes + at, length, ++number, err)))
            code = kvt_within(err, "%s:%lld", name, (long long)number);
        at += length + 1;
    }
    if (!code && set->n == 0)
        code = kvt_fail(err, KVT_USAGE, "%s: there are no prompts in it", name);
    if (!code)
        code = check_unique(set, name, err);
    if (code) {
        prompts_free(set);
        return code;
    }
    *out = set;
    return KVT_OK;
}

kvt_code prompts_read(prompts **out, const char *path, kvt_err *err)
{
    buf bytes;
    buf_init(&bytes, PROMPTS_FILE_LIMIT);
    kvt_code code = file_read(&bytes, path, PROMPTS_FILE_LIMIT, err);
    if (!code)
        code = prompts_parse(out, buf_get(&bytes), bytes.n, path, err);
    buf_fini(&bytes);
    return code;
}

void prompts_free(prompts *set)
{
    if (!set)
        return;
    kvt_arena_free(set->memory);
    kvt_free(set->item);
    kvt_free(set);
}

/* The piece of the last user message, and then those of the others. */
static bool find_text(tokenizer_range *out, const template_text *t, const char *what)
{
    const char *text = buf_get(&t->text);
    for (int64_t i = -1; i < t->n_piece; i++) {
        tokenizer_range in = t->question;
        if (i >= 0)
            in = (tokenizer_range){t->piece[i].begin, t->piece[i].end};
        if (i >= 0 && t->piece[i].is_template)
            continue;
        const char *at = find(text + in.begin, in.end - in.begin, what, strlen(what));
        if (at) {
            out->begin = (size_t)(at - text);
            out->end = out->begin + strlen(what);
            return true;
        }
    }
    return false;
}

bool prompt_span_in_response(tokenizer_range *out, const prompt_span *span,
                             const template_text *rendered, const char *response, size_t n)
{
    if (!span->text || find_text(out, rendered, span->text))
        return false;
    const char *at = find(response, n, span->text, strlen(span->text));
    if (at)
        *out = (tokenizer_range){(size_t)(at - response),
                                 (size_t)(at - response) + strlen(span->text)};
    return at != NULL;
}

kvt_code prompt_span_find(tokenizer_range *out, const prompt_span *span,
                          const template_text *rendered, kvt_err *err)
{
    if (span->text) {
        if (find_text(out, rendered, span->text))
            return KVT_OK;
        return kvt_fail(err, KVT_USAGE,
                        "span '%s': its text is not in the prompt as the template renders it",
                        span->name);
    }
    for (int64_t i = rendered->n_piece - 1; i >= 0; i--) {
        const template_piece *p = &rendered->piece[i];
        if (p->is_template || p->role != TEMPLATE_USER)
            continue;
        int64_t skip = (int64_t)p->skip, n = (int64_t)(p->end - p->begin);
        int64_t begin = span->begin < skip ? 0 : span->begin - skip;
        int64_t end = span->end - skip < n ? span->end - skip : n;
        if (begin >= end)
            break;
        *out = (tokenizer_range){p->begin + (size_t)begin, p->begin + (size_t)end};
        return KVT_OK;
    }
    return kvt_fail(err, KVT_USAGE,
                    "span '%s': bytes %lld to %lld are not in the prompt as the template "
                    "renders it (it may trim white space)",
                    span->name, (long long)span->begin, (long long)span->end);
}
