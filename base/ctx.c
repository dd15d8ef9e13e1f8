/* ctx.c - log, progress and threads of the caller. Log texts are as safe as error texts. */
#include "kvt/ctx.h"

#include "base/text.h"

#include <omp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void kvt_log(const kvt_ctx *ctx, kvt_log_level level, const char *area, const char *fmt, ...)
{
    if (!ctx || !ctx->log)
        return;
    enum { MOST = 1024 }; /* bytes */
    char raw[MOST], text[MOST];
    va_list args;
    va_start(args, fmt);
    vsnprintf(raw, sizeof raw, fmt, args);
    va_end(args);
    text_safe_cut(text, sizeof text, (const uint8_t *)raw, strlen(raw), MOST, false);
    ctx->log(ctx->user, level, area, text);
}

kvt_code kvt_progress(const kvt_ctx *ctx, const char *what, int64_t done, int64_t total,
                      kvt_err *err)
{
    if (!ctx || !ctx->progress || ctx->progress(ctx->user, what, done, total))
        return KVT_OK;
    return kvt_fail(err, KVT_STOPPED, "stopped by the user");
}

int kvt_threads(const kvt_ctx *ctx)
{
    int n = ctx && ctx->n_thread > 0 ? ctx->n_thread : omp_get_max_threads();
    return n > 0 ? n : 1;
}
