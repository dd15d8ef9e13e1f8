/* gguf_make.h - writes GGUF files for tests: any well-formed file, and files with defects.
 * Whole models: tests/model_make.h.
 *
 * Link tests/gguf_make.c and the module base. Errors of writing are failures of the test: these
 * functions return false and print the reason to stderr. */
#ifndef TESTS_GGUF_MAKE_H
#define TESTS_GGUF_MAKE_H

#include "base/buf.h"

/* A file in the making. Texts and arrays are copied as they are added. */
typedef struct gguf_make {
    uint32_t version, alignment; /* 3, 32; alignment is written as a key only by the caller */
    uint64_t n_meta, n_tensor;   /* may be overwritten before gguf_make_bytes(), for defects */
    buf meta, info, data;        /* bytes of the three sections */
} gguf_make;

void gguf_make_init(gguf_make *m);
void gguf_make_fini(gguf_make *m);

/* Metadata; `type` is a gguf_type. */
void gguf_make_text(gguf_make *m, const char *key, const char *text);
void gguf_make_int(gguf_make *m, const char *key, int type,
                   uint64_t value); /* any integer, bool */
void gguf_make_f32(gguf_make *m, const char *key, float value);
void gguf_make_f64(gguf_make *m, const char *key, double value);
void gguf_make_texts(gguf_make *m, const char *key, const char *const *text, int64_t n);
void gguf_make_i32s(gguf_make *m, const char *key, const int32_t *value, int64_t n);
void gguf_make_f32s(gguf_make *m, const char *key, const float *value, int64_t n);
/* Raw: the key and type, then whatever bytes follow. */
void gguf_make_raw(gguf_make *m, const void *key, size_t n_key, uint32_t type,
                   const void *value, size_t n_value);

/* A tensor with its data, placed at the next aligned offset. dim[0] is the contiguous one. */
void gguf_make_tensor(gguf_make *m, const char *name, uint32_t type, uint32_t n_dim,
                      const uint64_t *dim, const void *data, size_t n_byte);
/* A tensor's description only, with any values. */
void gguf_make_info(gguf_make *m, const void *name, size_t n_name, uint32_t n_dim,
                    const uint64_t *dim, uint32_t n_dim_written, uint32_t type,
                    uint64_t offset);

/* The whole file. */
void gguf_make_bytes(const gguf_make *m, buf *out);
bool gguf_make_write(const gguf_make *m, const char *path);

#endif
