/* err.h - failures as values that the caller owns.
 *
 *   kvt_err err;
 *   if (kvt_trace_open(&t, path, &err))
 *       return kvt_within(&err, "replay '%s'", path);
 *
 * A function that can fail returns kvt_code and takes kvt_err *err last, never NULL. err is
 * written only on failure. A text is one line that says what, where, expected and got. */
#ifndef KVT_ERR_H
#define KVT_ERR_H

#include "kvt/api.h"

/* X(name, exit status of the command, what it means). The enum, kvt_code_name(), the exit
 * status and the EXIT STATUS section of the manual all come from these lines. */
/* clang-format off */
#define KVT_CODES(X)                                                      \
    X(OK,       0,   "done")                                              \
    X(NOTFOUND, 1,   "no file or dataset of that name")                   \
    X(FORMAT,   1,   "a file does not follow its format")                 \
    X(IO,       1,   "a file could not be read or written")               \
    X(NOMEM,    1,   "out of host or device memory")                      \
    X(DEVICE,   1,   "no usable GPU, or the GPU failed")                  \
    X(USAGE,    2,   "a wrong option, policy or parameter")               \
    X(NO,       3,   "looked, and the answer is no")                      \
    X(PARTLY,   4,   "some cells or prompts failed, the rest is written") \
    X(STOPPED,  130, "stopped by the user, what is finished is kept")
/* clang-format on */

typedef enum kvt_code {
#define X(name, status, text) KVT_##name,
    KVT_CODES(X)
#undef X
} kvt_code;

/* One failure, on the caller's stack; it never allocates, so it can report that memory ran out.
 * The text reads outermost first: "replay 'a.h5': layer 3: attn/rows: expected ..., got ..." */
typedef struct kvt_err {
    kvt_code code;
    const char *file; /* where it was raised, for --verbose */
    int line;
    char text[480];
} kvt_err;

/* Records a failure and returns its code, so that it can end a function. */
KVT_API kvt_code kvt_fail_at(kvt_err *err, kvt_code code, const char *file, int line,
                             const char *fmt, ...) KVT_PRINTF(5, 6);
#define kvt_fail(err, code, ...) kvt_fail_at((err), (code), __FILE__, __LINE__, __VA_ARGS__)

/* Out of memory, in one form everywhere. */
#define kvt_fail_memory(err, bytes) \
    kvt_fail((err), KVT_NOMEM, "out of memory: %zu bytes", (size_t)(bytes))

/* Puts "context: " before the text on the way up. Returns the same code. */
KVT_API kvt_code kvt_within(kvt_err *err, const char *fmt, ...) KVT_PRINTF(2, 3);

KVT_API const char *kvt_code_name(kvt_code code); /* "FORMAT" */
KVT_API const char *kvt_code_text(kvt_code code); /* "a file does not follow its format" */
KVT_API int kvt_exit_status(kvt_code code);       /* 1 */

#endif
