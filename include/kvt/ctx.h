/* ctx.h - what a long call needs from its caller: log, progress, seed, threads. */
#ifndef KVT_CTX_H
#define KVT_CTX_H

#include "kvt/err.h"

/* error: the command failed; warn: the result stands but should be read with care; info: once a
 * file or a run; debug: once a layer. Nothing logs once a token. */
typedef enum kvt_log_level {
    KVT_LOG_ERROR,
    KVT_LOG_WARN,
    KVT_LOG_INFO,
    KVT_LOG_DEBUG
} kvt_log_level;

typedef struct kvt_ctx {
    void (*log)(void *user, kvt_log_level level, const char *area,
                const char *text); /* or NULL */
    /* Called often, from one thread at a time; `total` 0: not known. False: stop, which yields
     * KVT_STOPPED. NULL: never stops. */
    bool (*progress)(void *user, const char *what, int64_t done, int64_t total);
    void *user;
    uint64_t seed;
    int n_thread; /* 0: as many as OpenMP says */
} kvt_ctx;

KVT_API void kvt_log(const kvt_ctx *ctx, kvt_log_level level, const char *area, const char *fmt,
                     ...) KVT_PRINTF(4, 5);
/* STOPPED when the caller wants to stop, else OK. */
KVT_API KVT_CHECKED kvt_code kvt_progress(const kvt_ctx *ctx, const char *what, int64_t done,
                                          int64_t total, kvt_err *err);
KVT_API int kvt_threads(const kvt_ctx *ctx); /* at least 1 */

#endif
