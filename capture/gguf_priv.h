/* gguf_priv.h - a file that was read: shared by gguf.c (rules), gguf_split.c (sets of files)
 * and gguf_values.c (look-up). */
#ifndef CAPTURE_GGUF_PRIV_H
#define CAPTURE_GGUF_PRIV_H

#include "base/file.h"
#include "capture/gguf.h"

typedef struct gguf_key {
    gguf_text name;
    gguf_type type;
    const uint8_t *value; /* as it lies in the file; of an array, its first element */
    gguf_type of;         /* type of an array's elements */
    int64_t n;            /* elements of an array, bytes of a text */
    gguf_text *text;      /* [n] of an array of texts, owned */
} gguf_key;

/* Names in byte order, for look-up and to find those that come twice. */
typedef struct gguf_name {
    const char *s;
    size_t n;
    int64_t index;
} gguf_name;

/* split.no, split.count, split.tensors.count; 0, 1 and -1 without them. */
typedef struct gguf_split {
    int64_t no, count, n_tensor;
} gguf_split;

struct gguf {
    file_map map; /* empty where the bytes are the caller's */
    const uint8_t *data;
    size_t n_byte;
    int version;
    int64_t n_key, n_tensor;
    gguf_key *key;          /* [n_key] */
    gguf_name *key_name;    /* [n_key] sorted */
    gguf_tensor *tensor;    /* [n_tensor] */
    gguf_name *tensor_name; /* [n_tensor] sorted */
    gguf_split split;
    gguf **more; /* [n_more] the other parts of a set, of the first one */
    int n_more;
};

enum { GGUF_SHOWN = 80 };

/* Bytes of the file as safe text for a message; returns out. */
const char *gguf_shown(char out[GGUF_SHOWN], const char *s, size_t n);

/* What a part may be when it is opened: a file of its own, the first one or any other of a set.
 * Of another part than the first, GGUF_FIRST reads the keys only. */
typedef enum gguf_role { GGUF_ALONE, GGUF_FIRST, GGUF_PART } gguf_role;
/* Maps and reads one file, named in errors. */
KVT_CHECKED kvt_code gguf_open_one(gguf **out, const char *path, gguf_role role,
                                   gguf_check *check, kvt_err *err);
/* Sorts the names; FORMAT where one comes twice. */
KVT_CHECKED kvt_code gguf_unique(gguf_name *name, int64_t n, const char *what, kvt_err *err);

int gguf_name_compare(const void *a, const void *b);
/* Index of that name, or -1. */
int64_t gguf_name_find(const gguf_name *sorted, int64_t n, const char *name);

int64_t gguf_type_size(gguf_type type);   /* bytes, of numbers and bools; else 0 */
const char *gguf_type_name(int64_t type); /* "u32" */

#endif
