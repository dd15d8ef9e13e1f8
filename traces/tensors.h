/* tensors.h - safetensors files: a JSON header, then the bytes of named arrays.
 *
 * Reading checks every rule of the format before anything is used (engine.md 1.5): header
 * length, duplicate names, unknown types, ranges that overlap, leave holes or end outside. */
#ifndef TRACES_TENSORS_H
#define TRACES_TENSORS_H

#include "kvt/err.h"
#include "kvt/view.h"

typedef struct tensors tensors;

typedef struct tensor {
    char name[256];
    kvt_dtype dtype; /* F32, F16, BF16, I64, I32, U8, F64 */
    int rank;
    int64_t dim[KVT_RANK_MAX];
    const void *data; /* as stored, in the mapped file; not aligned */
} tensor;

KVT_CHECKED kvt_code tensors_open(tensors **out, const char *path, kvt_err *err);
void tensors_close(tensors *t);
int tensors_count(const tensors *t);
const tensor *tensors_at(const tensors *t, int i);
const tensor *tensors_find(const tensors *t, const char *name); /* or NULL */
/* The whole mapped file. */
const uint8_t *tensors_bytes(const tensors *t, size_t *n);
const char *tensors_meta(const tensors *t, const char *key); /* of __metadata__, or NULL */
/* n floats, decoded from F32, F16, BF16 or F64. FORMAT: another type, or not finite. */
KVT_CHECKED kvt_code tensors_floats(const tensor *t, float *out, int64_t n, kvt_err *err);

typedef struct tensor_meta {
    const char *key, *value;
} tensor_meta;
/* F32 data is written as it is, or as halves where dtype is F16 (data is float in both cases).
 * Sorted by name; under a temporary name, then renamed. */
KVT_CHECKED kvt_code tensors_write(const char *path, const tensor *list, int n,
                                   const tensor_meta *meta, int n_meta, bool force,
                                   kvt_err *err);

#endif
