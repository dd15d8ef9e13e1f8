/* source.h - one door to a model, whatever its files are.
 *
 *   source *s;
 *   if (source_open(&s, "model.gguf", &err)) ...            any part of a split set opens all
 *   if (source_open(&s, "Qwen3-0.6B", &err)) ...            config.json and safetensors
 *   source_geometry(s)->n_layer
 *   const source_tensor *t = source_find(s, TENSOR_WQ, 3, name);    NULL: `name` is missing
 *   source_close(s);
 *
 * The architecture and everything that this build cannot compute are looked at before any
 * tensor. What a source hands out is borrowed from it. Reading is safe from several threads. */
#ifndef CAPTURE_SOURCE_H
#define CAPTURE_SOURCE_H

#include "capture/keys.h"

typedef struct source source;
struct tokenizer;

typedef struct source_tensor {
    const char *name;
    int type;  /* a type of compute/quants.def; -1: one that no weight may have */
    int n_dim; /* 0 to GGUF_DIMS_MAX, or more where type is -1 */
    int64_t dim[GGUF_DIMS_MAX]; /* dim[0] is the contiguous one; 1 behind n_dim */
    int64_t n_weight, n_byte;
    const uint8_t *data; /* [n_byte], not aligned for anything */
} source_tensor;

enum { SOURCE_NAME = 160 }; /* a tensor's full name in any format */

/* path: a GGUF file, any part of a split one, or a folder. NOTFOUND, IO; FORMAT with what is
 * not supported, missing or inconsistent. */
KVT_CHECKED kvt_code source_open(source **out, const char *path, kvt_err *err);
/* Of a GGUF file that the caller keeps open. */
KVT_CHECKED kvt_code source_of_gguf(source **out, const gguf *g, kvt_err *err);
void source_close(source *s); /* NULL is fine */

const arch *source_arch(const source *s);
const kvt_geometry *source_geometry(const source *s);
/* Whether rows of q and k lie as rotary pairs (2i, 2i + 1), and whether gains lie as w where
 * 1 + w is multiplied: what a loader must undo. */
bool source_is_permuted(const source *s);
bool source_lacks_one(const source *s);

int64_t source_n_tensor(const source *s);
const source_tensor *source_tensor_at(const source *s, int64_t i); /* by name */
/* NULL: none; `name` is what was looked for. */
const source_tensor *source_find(const source *s, tensor_id id, int64_t layer,
                                 char name[SOURCE_NAME]);
/* Tensors that are no weights of the language model and may lie there: rotary tables, the
 * vision part of Gemma. */
bool source_is_beside(const source *s, const source_tensor *t);

/* XXH128 of the file; of several, of all their bytes in the order of their numbers or names.
 * Reads all of it and lets go of the pages. */
KVT_CHECKED kvt_code source_digest(const source *s, char out[DIGEST_TEXT], kvt_err *err);
/* Lets go of the pages of a mapped file; of bytes that a caller keeps it does nothing. */
void source_drop(const source *s, const void *data, int64_t n_byte);
/* Weights of each type, "Q4_1 210, F32 61, Q8_0 1": most first. */
const char *source_summary(const source *s, char *out, size_t cap);
int64_t source_bytes(const source *s); /* of all files with tensors */

KVT_CHECKED kvt_code source_tokenizer(struct tokenizer **out, const source *s, const char *pre,
                                      kvt_err *err);

#endif
