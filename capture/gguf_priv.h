/* gguf_priv.h - a file that was read: shared by gguf.c (rules) and gguf_values.c (look-up). */
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
};

enum { GGUF_SHOWN = 80 };

/* Bytes of the file as safe text for a message; returns out. */
const char *gguf_shown(char out[GGUF_SHOWN], const char *s, size_t n);

int gguf_name_compare(const void *a, const void *b);
/* Index of that name, or -1. */
int64_t gguf_name_find(const gguf_name *sorted, int64_t n, const char *name);

int64_t gguf_type_size(gguf_type type);   /* bytes, of numbers and bools; else 0 */
const char *gguf_type_name(int64_t type); /* "u32" */

#endif
