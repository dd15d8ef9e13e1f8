/* second.c - drafts of another, smaller model with the same vocabulary. */
#include "live/live_priv.h"

#include <string.h>

#include "capture/forward.h"

kvt_code second_check(const kvt_model *second, const kvt_model *m, kvt_err *err)
{
    const tokenizer *a = model_tokenizer(m), *b = model_tokenizer(second);
    int64_t n = tokenizer_count(a);
    if (tokenizer_count(b) != n)
        return kvt_fail(err, KVT_FORMAT,
                        "a draft model needs the same vocabulary: expected %lld tokens, got "
                        "%lld",
                        (long long)n, (long long)tokenizer_count(b));
    for (int32_t id = 0; id < n; id++) {
        token_text x = tokenizer_bytes(a, id), y = tokenizer_bytes(b, id);
        if (x.n != y.n || (x.n && memcmp(x.data, y.data, x.n) != 0))
            return kvt_fail(err, KVT_FORMAT,
                            "a draft model needs the same vocabulary: token %d differs", id);
    }
    return KVT_OK;
}

static int32_t likeliest(const float *logit, int64_t n)
{
    int64_t best = 0;
    for (int64_t v = 1; v < n; v++)
        if (logit[v] > logit[best])
            best = v;
    return (int32_t)best;
}

kvt_code second_draft(rows *out, const wish *w, const kvt_prompt *prompt, const kvt_ctx *ctx,
                      kvt_err *err)
{
    const kvt_model *m = w->second;
    const tokenizer *t = model_tokenizer(m);
    forward *f = NULL;
    forward_spec spec = {.weights = model_weights(m),
                         .backend = model_backend(m),
                         .ctx = ctx,
                         .n_token = prompt->n_prompt + w->number,
                         .n_row = prompt->n_prompt,
                         .device = model_device(m)};
    *out = (rows){0};
    kvt_code code = forward_new(&f, &spec, err);
    if (!code)
        code = forward_prefill(f, prompt->id, prompt->n_prompt, err);
    while (!code && out->n < w->number) {
        int32_t id = likeliest(forward_logit(f), tokenizer_count(t));
        if (out->n && tokenizer_is_stop(t, id))
            break;
        code = rows_push(out, id, err);
        if (!code && out->n < w->number)
            code = forward_step(f, id, err);
    }
    forward_free(f);
    if (code)
        rows_free(out);
    return code;
}
