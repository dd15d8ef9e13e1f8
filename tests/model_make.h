/* model_make.h - whole tiny models for tests, of every architecture, with random weights and a
 * byte-level vocabulary: as a GGUF file, and the same weights as a Hugging Face folder.
 *
 *   model_make_options o = model_make_defaults();    llama, 2 layers, 4/2 heads of 12
 *   o.n_layer = 3;
 *   assert(model_make_gguf("tiny.gguf", &o));
 *
 *   o = model_make_of("gemma3");                     7 layers, 4/1 heads of 16, window 5
 *   assert(model_make_gguf("tiny.gguf", &o));
 *   assert(model_make_folder("tiny", &o, NULL));     tiny/config.json, tiny/model.safetensors
 *
 * Link tests/gguf_make.c, tests/model_make.c (tests/model_make_folder.c for folders) and the
 * module base. Errors of writing are failures of the test: these functions return false and
 * print the reason to stderr. */
#ifndef TESTS_MODEL_MAKE_H
#define TESTS_MODEL_MAKE_H

#include "tests/gguf_make.h"

typedef struct model_make_options {
    int n_layer, n_head, n_kv_head, head_dim, n_hidden, n_ff, n_context;
    int n_vocab;      /* tokens: 3 special, 256 bytes, merges, then reserved control tokens */
    int pad_rows;     /* rows of the embedding beyond n_vocab (C037) */
    bool tied;        /* no output matrix of its own */
    bool no_vocab;    /* leave the tokenizer's keys out */
    bool no_template; /* leave tokenizer.chat_template out */
    int no_byte;      /* a byte that has no token of its own; 0: all have */
    int type;         /* of the matrices, as in GGUF: any but f64; rows must be whole blocks */
    int embed_type;   /* of embedding and output matrix; 0: `type` */
    float spread;     /* standard deviation of the matrices, 0: 0.08 */
    uint64_t seed;
    double rope_theta;         /* 0: 10000 */
    const float *rope_divisor; /* f32 [head_dim / 2] written as rope_freqs.weight, or NULL */
    const char *rope_scaling;  /* "linear", "yarn" or NULL */
    double rope_factor, rope_original;
    int window;       /* gemma3: attention.sliding_window; 0: none */
    const char *arch; /* NULL: "llama"; or qwen2, qwen3, gemma3, or one that is not known */
    const char *drop; /* name of a tensor to leave out, or NULL */
} model_make_options;

enum { MODEL_MAKE_EOT = 0, MODEL_MAKE_START = 1, MODEL_MAKE_END = 2, MODEL_MAKE_BYTES = 3 };

model_make_options model_make_defaults(void);
/* A model that shows what is special in an architecture: qwen2 with biases, qwen3 with
 * n_head head_dim != n_hidden, gemma3 with a window of 5, one kv head and linear scaling. */
model_make_options model_make_of(const char *arch);
/* Adds all keys and tensors of such a model. Weights depend on the seed and a tensor's name
 * only. */
void model_make_into(gguf_make *m, const model_make_options *o);
/* The keys only. */
void model_make_keys(gguf_make *m, const model_make_options *o);
bool model_make_gguf(const char *path, const model_make_options *o);

/* ---- tensors, for both formats -------------------------------------------------------------
 */

typedef enum model_make_kind {
    MODEL_MAKE_MATRIX, /* normal around 0 */
    MODEL_MAKE_NORM,   /* normal around 1: gemma's folders hold this minus 1 */
    MODEL_MAKE_BIAS    /* normal around 0, f32 */
} model_make_kind;

typedef struct model_make_tensor {
    char name[64], hf[96]; /* in a GGUF file, in a folder */
    model_make_kind kind;
    int n_row, n_col; /* n_row 0: a vector */
    int heads;        /* > 0: rows are rotary pairs in the GGUF, so many heads */
    int type;         /* in the GGUF */
} model_make_tensor;

/* Calls `each` for every tensor but rope_freqs, in the GGUF file's order; the dropped one is
 * left out. */
void model_make_each(const model_make_options *o,
                     void (*each)(void *user, const model_make_tensor *t), void *user);
/* The tensor's values as a GGUF file of its type holds them, f32 [n_row n_col]: free() it.
 * `bytes`, unless NULL, gets them in that type. K-quants and others of which this file knows
 * no values give NULL: they are random blocks, only their bytes are made. */
float *model_make_values(const model_make_options *o, const model_make_tensor *t, buf *bytes);

/* ---- folders -------------------------------------------------------------------------------
 */

typedef struct model_make_folder_options {
    bool v5;           /* rope_parameters and dtype, as transformers 5 writes them */
    bool nested;       /* gemma3: everything in text_config, tensors behind "language_model." */
    int n_part;        /* 2 to 8: so many parts and model.safetensors.index.json */
    const char *rope;  /* the fields of the rotary scaling, in place of the model's: llama3 */
    const char *extra; /* members of config.json more: "\"use_sliding_window\": true" */
    bool no_config;    /* config.json is the caller's */
    /* For what else belongs into a folder (tokenizer.json); false: it failed. */
    bool (*more)(const char *folder, const model_make_options *o);
} model_make_folder_options;

/* The same values in Hugging Face's names and order of rows. Matrices are F32, F16 or BF16
 * where `type` is that, else F32 of what the blocks hold (Q4_0, Q8_0). */
bool model_make_folder(const char *folder, const model_make_options *o,
                       const model_make_folder_options *f);

#endif
