/* gguf.h - reading GGUF version 2 and 3 files, which are untrusted.
 *
 *   gguf *g;
 *   if (gguf_open(&g, "model.gguf", &err)) ...
 *   gguf_text arch;
 *   if (gguf_get_text(g, "general.architecture", &arch, &err)) ...
 *   const gguf_tensor *t = gguf_find(g, "token_embd.weight");    NULL: none of that name
 *   gguf_close(g);
 *
 * A gguf that was opened has passed every rule listed at the top of gguf.c: all names are
 * unique, all types known, all values and tensors lie inside the file. Whatever a gguf hands
 * out is borrowed from it and valid until gguf_close(); texts are not ended by a NUL and may
 * hold any byte. Reading is safe from several threads at once. */
#ifndef CAPTURE_GGUF_H
#define CAPTURE_GGUF_H

#include "base/digest.h"

/* Types of metadata values, as numbered in the file. */
typedef enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_TEXT,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_TYPE_COUNT
} gguf_type;

enum { GGUF_DIMS_MAX = 4, GGUF_NAME_MAX = 64, GGUF_PARTS_MAX = 10000 };

typedef struct gguf gguf;

typedef struct gguf_text {
    const char *s;
    size_t n; /* bytes */
} gguf_text;

/* An array of the metadata. Elements of numbers lie packed and unaligned: read them with
 * gguf_int_at() and gguf_real_at(). */
typedef struct gguf_array {
    gguf_type type; /* of the elements */
    int64_t n;
    const uint8_t *data;   /* the elements as they lie in the file */
    const gguf_text *text; /* [n] where type is GGUF_TEXT, else NULL */
} gguf_array;

typedef struct gguf_tensor {
    char name[GGUF_NAME_MAX];
    int type; /* a type of compute/quants.def */
    int n_dim;
    int64_t dim[GGUF_DIMS_MAX]; /* dim[0] is the contiguous one; 1 behind n_dim */
    int64_t n_weight;           /* product of dim */
    int64_t n_byte;
    const uint8_t *data; /* [n_byte], not aligned for anything */
} gguf_tensor;

/* Maps and checks a file, or all files of a split set where `path` is any part of it: keys are
 * those of the first part, tensors those of all. NOTFOUND, IO; FORMAT names the field or tensor
 * with what was needed and what is there; a file that only lacks bytes says "truncated". */
KVT_CHECKED kvt_code gguf_open(gguf **out, const char *path, kvt_err *err);
/* The same; `check` sees the keys before a tensor is looked at, and may refuse the file. */
typedef kvt_code gguf_check(const gguf *g, kvt_err *err);
KVT_CHECKED kvt_code gguf_open_checked(gguf **out, const char *path, gguf_check *check,
                                       kvt_err *err);
/* gguf_open() over bytes that the caller keeps until gguf_close(). Refuses a part of a set. */
KVT_CHECKED kvt_code gguf_read(gguf **out, const uint8_t *data, size_t n, kvt_err *err);
void gguf_close(gguf *g); /* NULL is fine */

/* Metadata. NOTFOUND (expected): no such key; FORMAT: of another type. Integers of any width
 * and sign are accepted where they fit; reals are f32, f64 or an integer. */
bool gguf_has(const gguf *g, const char *key);
KVT_CHECKED kvt_code gguf_get_text(const gguf *g, const char *key, gguf_text *out,
                                   kvt_err *err);
KVT_CHECKED kvt_code gguf_get_int(const gguf *g, const char *key, int64_t *out, kvt_err *err);
KVT_CHECKED kvt_code gguf_get_real(const gguf *g, const char *key, double *out, kvt_err *err);
KVT_CHECKED kvt_code gguf_get_bool(const gguf *g, const char *key, bool *out, kvt_err *err);
KVT_CHECKED kvt_code gguf_get_array(const gguf *g, const char *key, gguf_array *out,
                                    kvt_err *err);
/* The same, and the elements must be texts, integers or reals. */
KVT_CHECKED kvt_code gguf_get_texts(const gguf *g, const char *key, gguf_array *out,
                                    kvt_err *err);
KVT_CHECKED kvt_code gguf_get_ints(const gguf *g, const char *key, gguf_array *out,
                                   kvt_err *err);
KVT_CHECKED kvt_code gguf_get_reals(const gguf *g, const char *key, gguf_array *out,
                                    kvt_err *err);
int64_t gguf_int_at(const gguf_array *a, int64_t i); /* of an array of integers or bools; u64
                                                        above 2^63 - 1 gives 2^63 - 1 */
double gguf_real_at(const gguf_array *a, int64_t i); /* of an array of numbers */

/* All of it, in the file's order, for listings and tests. */
int gguf_version(const gguf *g);
int64_t gguf_n_key(const gguf *g);
gguf_text gguf_key_at(const gguf *g, int64_t i, gguf_type *type);

int64_t gguf_n_tensor(const gguf *g);
const gguf_tensor *gguf_tensor_at(const gguf *g, int64_t i);
const gguf_tensor *gguf_find(const gguf *g, const char *name); /* NULL: none of that name */

/* The files: one, or the parts of a set in their order. */
int gguf_n_part(const gguf *g);
const uint8_t *gguf_part_bytes(const gguf *g, int part, size_t *n);
int64_t gguf_n_byte(const gguf *g); /* of all of them */
bool gguf_is_mapped(const gguf *g); /* no bytes of a caller, as of gguf_read() */

static inline bool gguf_text_is(gguf_text t, const char *s)
{
    size_t i = 0;
    while (i < t.n && s[i] && t.s[i] == s[i])
        i++;
    return i == t.n && !s[i];
}

#endif
