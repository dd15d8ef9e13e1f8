/* gguf_make.h - writes GGUF files for tests: any well-formed file, files with defects, and
 * whole tiny llama models with random weights and a byte-level vocabulary.
 *
 *   gguf_make_options o = gguf_make_defaults();    hidden 48, 2 layers, 4/2 heads of 12
 *   o.n_layer = 3;
 *   assert(gguf_make_llama("tiny.gguf", &o));
 *
 * Link tests/gguf_make.c, tests/gguf_llama.c and the module base. Errors of writing are
 * failures of the test: these functions return false and print the reason to stderr. */
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

/* A tiny llama model. */
typedef struct gguf_make_options {
    int n_layer, n_head, n_kv_head, head_dim, n_hidden, n_ff, n_context;
    int n_vocab;      /* tokens: 3 special, 256 bytes, merges, then reserved control tokens */
    int pad_rows;     /* rows of the embedding beyond n_vocab (C037) */
    bool tied;        /* no output matrix of its own */
    bool no_vocab;    /* leave the tokenizer's keys out */
    bool no_template; /* leave tokenizer.chat_template out */
    int no_byte;      /* a byte that has no token of its own; 0: all have */
    int type;         /* of the matrices: 0 f32, 1 f16, 2 q4_0, 8 q8_0 (rows of 32) */
    float spread;     /* standard deviation of the matrices, 0: 0.08 */
    uint64_t seed;
    double rope_theta;         /* 0: 10000 */
    const float *rope_divisor; /* f32 [head_dim / 2] written as rope_freqs.weight, or NULL */
    const char *rope_scaling;  /* "linear", "yarn" or NULL */
    double rope_factor, rope_original;
    const char *arch; /* NULL: "llama" */
    const char *drop; /* name of a tensor to leave out, or NULL */
} gguf_make_options;

enum { GGUF_MAKE_EOT = 0, GGUF_MAKE_START = 1, GGUF_MAKE_END = 2, GGUF_MAKE_BYTES = 3 };

gguf_make_options gguf_make_defaults(void);
/* Adds all keys and tensors of such a model. Weights depend on the seed and a tensor's name
 * only. */
void gguf_make_llama_into(gguf_make *m, const gguf_make_options *o);
bool gguf_make_llama(const char *path, const gguf_make_options *o);

#endif
