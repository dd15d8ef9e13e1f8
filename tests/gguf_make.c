/* gguf_make.c - GGUF files for tests. The format's numbers stand here once more on purpose: a
 * writer that shared them with the reader could not find the reader's errors. */
#include "tests/gguf_make.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/half.h"
#include "base/rng.h"

enum { U32 = 4, I32 = 5, F32 = 6, BOOL = 7, TEXT = 8, ARRAY = 9, F64 = 12, LIMIT = 1 << 30 };

static void put(buf *b, uint64_t value, int n_byte)
{
    for (int i = 0; i < n_byte; i++)
        buf_char(b, (char)(value >> 8 * i & 255));
}

static void put_text(buf *b, const void *s, size_t n)
{
    put(b, n, 8);
    buf_add(b, s, n);
}

static void put_f32(buf *b, float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    put(b, bits, 4);
}

static void begin(gguf_make *m, const char *key, uint32_t type)
{
    put_text(&m->meta, key, strlen(key));
    put(&m->meta, type, 4);
    m->n_meta++;
}

static void begin_array(gguf_make *m, const char *key, uint32_t of, int64_t n)
{
    begin(m, key, ARRAY);
    put(&m->meta, of, 4);
    put(&m->meta, (uint64_t)n, 8);
}

void gguf_make_init(gguf_make *m)
{
    *m = (gguf_make){.version = 3, .alignment = 32};
    buf_init(&m->meta, LIMIT);
    buf_init(&m->info, LIMIT);
    buf_init(&m->data, LIMIT);
}

void gguf_make_fini(gguf_make *m)
{
    buf_fini(&m->meta);
    buf_fini(&m->info);
    buf_fini(&m->data);
}

void gguf_make_text(gguf_make *m, const char *key, const char *text)
{
    begin(m, key, TEXT);
    put_text(&m->meta, text, strlen(text));
}

void gguf_make_int(gguf_make *m, const char *key, int type, uint64_t value)
{
    static const int size[] = {1, 1, 2, 2, 4, 4, 0, 1, 0, 0, 8, 8, 0};
    begin(m, key, (uint32_t)type);
    put(&m->meta, value, size[type]);
}

void gguf_make_f32(gguf_make *m, const char *key, float value)
{
    begin(m, key, F32);
    put_f32(&m->meta, value);
}

void gguf_make_f64(gguf_make *m, const char *key, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    begin(m, key, F64);
    put(&m->meta, bits, 8);
}

void gguf_make_texts(gguf_make *m, const char *key, const char *const *text, int64_t n)
{
    begin_array(m, key, TEXT, n);
    for (int64_t i = 0; i < n; i++)
        put_text(&m->meta, text[i], strlen(text[i]));
}

void gguf_make_i32s(gguf_make *m, const char *key, const int32_t *value, int64_t n)
{
    begin_array(m, key, I32, n);
    for (int64_t i = 0; i < n; i++)
        put(&m->meta, (uint32_t)value[i], 4);
}

void gguf_make_f32s(gguf_make *m, const char *key, const float *value, int64_t n)
{
    begin_array(m, key, F32, n);
    for (int64_t i = 0; i < n; i++)
        put_f32(&m->meta, value[i]);
}

void gguf_make_raw(gguf_make *m, const void *key, size_t n_key, uint32_t type,
                   const void *value, size_t n_value)
{
    put_text(&m->meta, key, n_key);
    put(&m->meta, type, 4);
    buf_add(&m->meta, value, n_value);
    m->n_meta++;
}

void gguf_make_info(gguf_make *m, const void *name, size_t n_name, uint32_t n_dim,
                    const uint64_t *dim, uint32_t n_dim_written, uint32_t type, uint64_t offset)
{
    put_text(&m->info, name, n_name);
    put(&m->info, n_dim, 4);
    for (uint32_t i = 0; i < n_dim_written; i++)
        put(&m->info, dim[i], 8);
    put(&m->info, type, 4);
    put(&m->info, offset, 8);
    m->n_tensor++;
}

static void pad(buf *b, size_t n, uint32_t alignment)
{
    for (; n % alignment != 0; n++)
        buf_char(b, 0);
}

void gguf_make_tensor(gguf_make *m, const char *name, uint32_t type, uint32_t n_dim,
                      const uint64_t *dim, const void *data, size_t n_byte)
{
    gguf_make_info(m, name, strlen(name), n_dim, dim, n_dim, type, m->data.n);
    buf_add(&m->data, data, n_byte);
    pad(&m->data, m->data.n, m->alignment);
}

void gguf_make_bytes(const gguf_make *m, buf *out)
{
    buf_text(out, "GGUF");
    put(out, m->version, 4);
    put(out, m->n_tensor, 8);
    put(out, m->n_meta, 8);
    buf_add(out, m->meta.data, m->meta.n);
    buf_add(out, m->info.data, m->info.n);
    if (m->alignment > 0)
        pad(out, out->n, m->alignment);
    buf_add(out, m->data.data, m->data.n);
}

bool gguf_make_write(const gguf_make *m, const char *path)
{
    kvt_err err;
    buf all;
    buf_init(&all, LIMIT);
    gguf_make_bytes(m, &all);
    bool done = !m->meta.failed && !m->info.failed && !m->data.failed &&
                buf_check(&all, &err) == KVT_OK &&
                file_write(path, all.data, all.n, &err) == KVT_OK;
    if (!done)
        fprintf(stderr, "gguf_make: '%s' could not be written\n", path);
    buf_fini(&all);
    return done;
}
