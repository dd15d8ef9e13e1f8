/* prepare.c - one prompt made ready to run (capture/prepare.h). */
#include "capture/prepare.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "base/json.h"
#include "base/text.h"
#include "kvt/arena.h"

enum { RAW_LIMIT = 1 << 30, NEW_DEFAULT = 256 };

kvt_code prepare_single(prompt *item, template_message message[2], const kvt_capture_spec *spec,
                        kvt_err *err)
{
    if (!spec->prompt)
        return kvt_fail(err, KVT_USAGE, "no prompt: give a text, a file or a set");
    *item = (prompt){.id = "", .message = message, .max_new = -1};
    message[item->n_message++] = (template_message){
        .role = TEMPLATE_USER, .text = spec->prompt, .n = strlen(spec->prompt)};
    return KVT_OK;
}

/* The item's messages with the spec's system prompt in front where they have none, in the
 * tokenizer's normal form. out [n + 1]; texts lie in a. */
static kvt_code messages(template_message *out, int *n, const kvt_model *m,
                         const kvt_capture_spec *spec, const prompt *item, kvt_arena *a,
                         kvt_err *err)
{
    *n = 0;
    if (spec->system && (item->n_message == 0 || item->message[0].role != TEMPLATE_SYSTEM))
        out[(*n)++] = (template_message){
            .role = TEMPLATE_SYSTEM, .text = spec->system, .n = strlen(spec->system)};
    for (int i = 0; i < item->n_message; i++)
        out[(*n)++] = item->message[i];
    for (int i = 0; i < *n; i++) {
        buf text;
        size_t bad;
        if (!text_valid((const uint8_t *)out[i].text, out[i].n, &bad))
            return kvt_fail(err, KVT_FORMAT, "the prompt is not UTF-8: byte %zu", bad);
        buf_init(&text, RAW_LIMIT);
        kvt_code code = tokenizer_normal_form(m->tokenizer, &text, out[i].text, out[i].n, err);
        char *copy = code ? NULL : kvt_arena_get(a, text.n + 1);
        if (copy && text.n)
            memcpy(copy, text.data, text.n);
        out[i].text = copy;
        out[i].n = text.n;
        buf_fini(&text);
        if (!copy)
            return code ? code : kvt_fail_memory(err, out[i].n + 1);
    }
    return KVT_OK;
}

/* The prompt as given: its text, or its messages as JSON. */
static kvt_code keep_raw(buf *out, const prompt *item, kvt_err *err)
{
    static const char *const role[] = {"system", "user", "assistant"};
    const template_message *last = &item->message[item->n_message - 1];
    buf_init(out, RAW_LIMIT);
    bool plain = item->n_message == 1 ||
                 (item->n_message == 2 && item->message[0].role == TEMPLATE_SYSTEM);
    if (plain) {
        buf_add(out, last->text, last->n);
        return buf_check(out, err);
    }
    for (int i = 0; i < item->n_message; i++) {
        buf_printf(out, "%s{\"role\":\"%s\",\"content\":", i ? "," : "[",
                   role[item->message[i].role]);
        json_quote(out, item->message[i].text, item->message[i].n);
        buf_char(out, '}');
    }
    buf_char(out, ']');
    return buf_check(out, err);
}

/* The tokens and the bytes of a range of the rendered text. */
static void range_of(int64_t *begin, int64_t *end, int64_t bytes[2], const prepared *p,
                     tokenizer_range range)
{
    template_token_range(begin, end, &p->list, range);
    bytes[0] = (int64_t)range.begin;
    bytes[1] = (int64_t)range.end;
}

/* A span of the response that is given: its tokens stand behind the prompt's. Its bytes are not
 * known where some of the text was lost. */
static bool span_of_response(kvt_span *s, const prepared *p, const prompt_span *span)
{
    tokenizer_range bytes;
    const buf *text = &p->forced.text;
    if (!p->is_forced ||
        !prompt_span_in_response(&bytes, span, &p->text, buf_get(text), text->n))
        return false;
    template_token_range(&s->begin, &s->end, &p->forced, bytes);
    s->begin += p->list.n;
    s->end += p->list.n;
    if (p->forced.n_lost == 0) {
        s->byte_begin = (int64_t)(p->list.text.n + bytes.begin);
        s->byte_end = (int64_t)(p->list.text.n + bytes.end);
    }
    return true;
}

static kvt_code spans(prepared *p, const prompt *item, kvt_err *err)
{
    for (int i = 0; i < item->n_span; i++) {
        tokenizer_range bytes;
        kvt_span *s = &p->span[p->n_span++];
        snprintf(s->name, sizeof s->name, "%s", item->span[i].name);
        if (span_of_response(s, p, &item->span[i]))
            continue;
        if (prompt_span_find(&bytes, &item->span[i], &p->text, err))
            return err->code;
        int64_t place[2];
        range_of(&s->begin, &s->end, place, p, bytes);
        s->byte_begin = place[0];
        s->byte_end = place[1];
    }
    return KVT_OK;
}

void prepare_warn(const kvt_model *m, const kvt_capture_spec *spec, const kvt_ctx *ctx)
{
    if (!spec->raw && !spec->chat && !tokenizer_chat(m->tokenizer))
        kvt_log(ctx, KVT_LOG_WARN, "capture",
                "the model file has no chat template: prompts are run as they are, as with "
                "--raw; --chat NAME applies one");
}

/* What should be known of one prompt: with its id where it is of a set. */
static void warn(const kvt_ctx *ctx, const prompt *item, const char *fmt, ...) KVT_PRINTF(3, 4);

static void warn(const kvt_ctx *ctx, const prompt *item, const char *fmt, ...)
{
    char text[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (item->id[0])
        kvt_log(ctx, KVT_LOG_WARN, "capture", "prompt '%s': %s", item->id, text);
    else
        kvt_log(ctx, KVT_LOG_WARN, "capture", "%s", text);
}

/* What the model saw is not what a person would think. */
static void warn_lost(const kvt_ctx *ctx, const prompt *item, const token_list *list,
                      const char *what)
{
    if (list->n_lost)
        warn(ctx, item,
             "the model's vocabulary has no token for %lld bytes of the %s: left out, as the "
             "model's own tokenizer does",
             (long long)list->n_lost, what);
}

static kvt_code render(prepared *p, const kvt_model *m, const kvt_capture_spec *spec,
                       const prompt *item, kvt_arena *a, const kvt_ctx *ctx, kvt_err *err)
{
    template_form form = TEMPLATE_RAW;
    const char *chat = tokenizer_chat(m->tokenizer);
    int n;
    template_message *message = kvt_arena_array(a, item->n_message + 1, sizeof *message);
    if (!message)
        return kvt_fail_memory(err, (size_t)(item->n_message + 1) * sizeof *message);
    if (messages(message, &n, m, spec, item, a, err) ||
        (!spec->raw && template_find(&form, spec->chat, chat, err)))
        return err->code;
    int64_t bytes = 0;
    for (int i = 0; i < n; i++)
        bytes += message[i].role == TEMPLATE_USER ? (int64_t)message[i].n : 0;
    if (bytes == 0)
        return kvt_fail(err, KVT_USAGE, "the prompt is empty");
    int32_t bos = tokenizer_bos(m->tokenizer);
    token_text bos_text = bos >= 0 ? tokenizer_bytes(m->tokenizer, bos) : (token_text){NULL, 0};
    char *first = bos_text.data ? kvt_arena_get(a, bos_text.n + 1) : NULL;
    if (first)
        memcpy(first, bos_text.data, bos_text.n);
    if (template_render(&p->text, form, message, n, first, err) ||
        template_encode(&p->list, m->tokenizer, &p->text, spec->parse_special, err))
        return err->code;
    warn_lost(ctx, item, &p->list, "prompt");
    snprintf(p->info.template_name, sizeof p->info.template_name, "%s",
             form == TEMPLATE_RAW ? "" : template_name(form));
    if (form != TEMPLATE_RAW && !spec->chat) /* one of our own has no text to digest */
        digest_of(chat, strlen(chat), p->info.template_digest);
    return KVT_OK;
}

/* N, ranges, and how many tokens may follow. */
static kvt_code limits(prepared *p, const kvt_model *m, const kvt_capture_spec *spec,
                       const prompt *item, const kvt_ctx *ctx, kvt_err *err)
{
    int64_t n = p->list.n, context = m->weights->geometry.n_context;
    int64_t begin;
    if (n == 0)
        return kvt_fail(err, KVT_USAGE, "the prompt is empty");
    if (n > context)
        return kvt_fail(err, KVT_USAGE, "the prompt has %lld tokens, the model's context %lld",
                        (long long)n, (long long)context);
    p->info.n_prompt = p->info.look_until = n;
    p->info.bos = p->list.id[0] == tokenizer_bos(m->tokenizer);
    if (p->info.template_name[0])
        range_of(&begin, &p->info.prefix_end, p->info.prefix_bytes, p, p->text.prefix);
    if (p->text.system.begin < p->text.system.end)
        range_of(&p->info.system_begin, &p->info.system_end, p->info.system_bytes, p,
                 p->text.system);
    int64_t asked = item->max_new >= 0 ? item->max_new : spec->max_new;
    p->max_new = p->is_forced ? p->forced.n : asked >= 0 ? asked : NEW_DEFAULT;
    if (p->max_new > context - n) {
        warn(ctx, item,
             "the model's context of %lld tokens has room for a response of %lld, not %lld: "
             "it may be cut",
             (long long)context, (long long)(context - n), (long long)p->max_new);
        p->max_new = context - n;
    }
    for (int i = 0; i < p->n_span; i++)
        if (p->span[i].end > n + p->max_new)
            return kvt_fail(
                err, KVT_USAGE,
                "span '%s' ends with token %lld of the response, which is cut to %lld",
                p->span[i].name, (long long)(p->span[i].end - n), (long long)p->max_new);
    return KVT_OK;
}

/* Of the prompt that the model sees: what names the sampler's stream. */
static kvt_code identify_prompt(prepared *p, const kvt_model *m, kvt_err *err)
{
    digest *d = digest_new();
    if (!d)
        return kvt_fail_memory(err, 0);
    digest_add_text(d, m->id.weights);
    digest_add(d, p->list.id, (size_t)p->list.n * sizeof *p->list.id);
    digest_get(d, p->stream);
    digest_free(d);
    return KVT_OK;
}

/* Everything that decides what is in the file; `model` is one of the model's two digests. */
static kvt_code identify(char out[DIGEST_TEXT], const prepared *p, const kvt_model *m,
                         const char *model, const kvt_capture_spec *s, const kvt_ctx *ctx,
                         kvt_err *err)
{
    digest *d = digest_new();
    buf b;
    if (!d)
        return kvt_fail_memory(err, 0);
    buf_init(&b, 1 << 16);
    buf_printf(&b, "kvt-capture 1|%s|%s|%s|%lld|", model, p->info.template_name,
               p->info.template_digest, (long long)p->max_new);
    buf_printf(&b, "%d|%a|%a|%lld|%llu|", p->is_forced, s->temperature, s->top_p,
               (long long)s->top_k, (unsigned long long)ctx->seed);
    buf_printf(&b, "%d|%s|%d|%lld|%lld|%lld|%d|%d|", (int)s->level,
               s->layers ? s->layers : "all", s->queries_all, (long long)s->delay,
               (long long)s->rows_limit, (long long)s->block_limit, s->compress, s->no_text);
    if (m->f32)
        buf_text(&b, "f32|");
    for (int i = 0; i < p->n_span; i++)
        buf_printf(&b, "%s|%lld|%lld|", p->span[i].name, (long long)p->span[i].begin,
                   (long long)p->span[i].end);
    kvt_code code = buf_check(&b, err);
    digest_add_text(d, buf_get(&b));
    digest_add(d, p->list.id, (size_t)p->list.n * sizeof *p->list.id);
    digest_add_text(d, "|");
    digest_add(d, p->forced.id, (size_t)p->forced.n * sizeof *p->forced.id);
    digest_add(d, p->raw.data, p->raw.n);
    digest_get(d, out);
    digest_free(d);
    buf_fini(&b);
    return code;
}

kvt_code prepare(prepared *p, const kvt_model *m, const kvt_capture_spec *spec,
                 const prompt *item, const kvt_ctx *ctx, kvt_err *err)
{
    memset(p, 0, sizeof *p);
    token_list_init(&p->list);
    token_list_init(&p->forced);
    template_text_init(&p->text);
    kvt_arena *a = kvt_arena_new((size_t)RAW_LIMIT);
    if (!a)
        return kvt_fail_memory(err, 0);
    kvt_code code = keep_raw(&p->raw, item, err);
    if (!code)
        code = render(p, m, spec, item, a, ctx, err);
    const char *response = item->response ? item->response : spec->response;
    if (!code && response) {
        size_t n = item->response ? item->n_response : strlen(response);
        p->is_forced = true;
        code = tokenizer_encode(m->tokenizer, &p->forced, response, n, NULL, 0, false, err);
        if (code)
            kvt_within(err, "the response");
        else
            warn_lost(ctx, item, &p->forced, "response");
    }
    if (!code)
        code = spans(p, item, err);
    if (!code)
        code = limits(p, m, spec, item, ctx, err);
    if (!code)
        code = identify_prompt(p, m, err);
    if (!code)
        code = identify(p->digest, p, m, m->id.weights, spec, ctx, err);
    if (!code)
        code = identify(p->digest_of_file, p, m, m->id.file, spec, ctx, err);
    kvt_arena_free(a);
    if (code)
        prepared_fini(p);
    return code;
}

void prepared_fini(prepared *p)
{
    token_list_fini(&p->list);
    token_list_fini(&p->forced);
    template_text_fini(&p->text);
    buf_fini(&p->raw);
    memset(p, 0, sizeof *p);
}
