/* checkpoint.h - one door to a model, whatever its files are.
 *
 *   checkpoint *s;
 *   if (checkpoint_open(&s, "model.gguf", &err)) ...    any part of a split set opens all of it
 *   if (checkpoint_open(&s, "Qwen3-0.6B", &err)) ...    config.json and safetensors
 *   n_layer = checkpoint_geometry(s)->n_layer;
 *   t = checkpoint_find(s, TENSOR_WQ, 3, name);         NULL: `name` is missing
 *   checkpoint_close(s);
 *
 * The architecture and everything that this build cannot compute are looked at before any
 * tensor. What a checkpoint hands out is borrowed from it. Reading is safe from several
 * threads. */
#ifndef CAPTURE_CHECKPOINT_H
#define CAPTURE_CHECKPOINT_H

#include "capture/keys.h"

typedef struct checkpoint checkpoint;
struct tokenizer;

typedef struct checkpoint_tensor {
    const char *name;
    int type;  /* a type of compute/quants.def; -1: one that no weight may have */
    int n_dim; /* 0 to GGUF_DIMS_MAX, or more where type is -1 */
    int64_t dim[GGUF_DIMS_MAX]; /* dim[0] is the contiguous one; 1 behind n_dim */
    int64_t n_weight, n_byte;
    const uint8_t *data; /* [n_byte], not aligned for anything */
} checkpoint_tensor;

enum { CHECKPOINT_NAME = 160 }; /* a tensor's full name in any format */

/* path: a GGUF file, any part of a split one, or a folder. NOTFOUND, IO; FORMAT with what is
 * not supported, missing or inconsistent. */
KVT_CHECKED kvt_code checkpoint_open(checkpoint **out, const char *path, kvt_err *err);
/* Of a GGUF file that the caller keeps open. */
KVT_CHECKED kvt_code checkpoint_of_gguf(checkpoint **out, const gguf *g, kvt_err *err);
void checkpoint_close(checkpoint *s); /* NULL is fine */
/* Puts the model's path in front of an error that names neither it nor a file in it. */
kvt_code checkpoint_within(kvt_err *err, const char *path);

const arch *checkpoint_arch(const checkpoint *s);
const kvt_geometry *checkpoint_geometry(const checkpoint *s);
/* Whether rows of q and k lie as rotary pairs (2i, 2i + 1), and whether gains lie as w where
 * 1 + w is multiplied: what a loader must undo. */
bool checkpoint_is_permuted(const checkpoint *s);
bool checkpoint_lacks_one(const checkpoint *s);

int64_t checkpoint_n_tensor(const checkpoint *s);
const checkpoint_tensor *checkpoint_tensor_at(const checkpoint *s, int64_t i); /* by name */
/* NULL: none; `name` is what was looked for. */
const checkpoint_tensor *checkpoint_find(const checkpoint *s, tensor_id id, int64_t layer,
                                         char name[CHECKPOINT_NAME]);
/* Tensors that are no weights of the language model and may lie there: rotary tables, the
 * vision part of Gemma. */
bool checkpoint_is_beside(const checkpoint *s, const checkpoint_tensor *t);

/* XXH128 of the file; of several, of all their bytes in the order of their numbers or names.
 * Reads all of it and lets go of the pages. */
KVT_CHECKED kvt_code checkpoint_digest(const checkpoint *s, char out[DIGEST_TEXT],
                                       kvt_err *err);
/* Lets go of the pages of a mapped file; of bytes that a caller keeps it does nothing. */
void checkpoint_drop(const checkpoint *s, const void *data, int64_t n_byte);
/* Weights of each type, "Q4_1 210, F32 61, Q8_0 1": most first. */
const char *checkpoint_summary(const checkpoint *s, char *out, size_t cap);
int64_t checkpoint_bytes(const checkpoint *s); /* of all files with tensors */

KVT_CHECKED kvt_code checkpoint_tokenizer(struct tokenizer **out, const checkpoint *s,
                                          const char *pre, kvt_err *err);

#endif
