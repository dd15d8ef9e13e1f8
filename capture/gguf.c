/* gguf.c - what a GGUF file must look like.
 *
 *  1. Little-endian. Magic "GGUF", u32 version 2 or 3, i64 tensor count, i64 key count.
 *  2. Keys: name, u32 value type, value. Tensor descriptions: name, u32 n_dim, i64 dim[n_dim],
 *     u32 type, u64 offset. Zeros up to the alignment. Tensor data.
 *  3. A text is a u64 length and bytes; an array is a u32 element type, a u64 count and
 *     elements, and no array of arrays. Texts and arrays hold at most 2^30 bytes or elements.
 *  4. Every count is compared with the bytes left before memory is asked for: a key takes at
 *     least 13 bytes, a description 24, a text 8.
 *  5. Names of keys are unique, so are those of tensors. A tensor's name has 1 to 63 bytes.
 *  6. n_dim is 0 (one weight) to 4, each dim at least 1, their product below 2^63. dim[0] is a
 *     multiple of the type's block. The type is one that quants.def reads.
 *  7. general.alignment is a u32 power of two; 32 without it.
 *  8. Tensors lie in the order of their descriptions, each at the next aligned offset: no hole,
 *     no overlap. All of them end inside the file.
 *  9. A second file behind the first is refused. Sets of files: gguf_split.c.
 *
 * Sums that a file could make overflow are differences here: what is needed is compared with
 * what is left. */
#include "capture/gguf_priv.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "compute/quant.h"
#include "kvt/arena.h"

enum {
    KEY_LEAST = 13,    /* u64 length, u32 type, one byte of value */
    TENSOR_LEAST = 24, /* u64 length, u32 n_dim, u32 type, u64 offset */
    CAP = 1 << 30,
    ALIGNMENT = 32
};

/* Where reading is; `at` <= `n` always. */
typedef struct cursor {
    const uint8_t *data;
    size_t n, at;
} cursor;

const char *gguf_shown(char out[GGUF_SHOWN], const char *s, size_t n)
{
    return text_safe_cut(out, GGUF_SHOWN, (const uint8_t *)s, n, GGUF_NAME_MAX, true);
}

static size_t left(const cursor *c)
{
    return c->n - c->at;
}

static kvt_code need(const cursor *c, uint64_t n, const char *what, kvt_err *err)
{
    if (n <= left(c))
        return KVT_OK;
    return kvt_fail(err, KVT_FORMAT,
                    "truncated: %s at byte %zu needs %" PRIu64 " bytes, %zu are left", what,
                    c->at, n, left(c));
}

static uint64_t number(const uint8_t *p, int n_byte)
{
    uint64_t v = 0;
    for (int i = n_byte; i-- > 0;)
        v = v << 8 | p[i];
    return v;
}

static kvt_code take_u32(cursor *c, uint32_t *out, const char *what, kvt_err *err)
{
    if (need(c, 4, what, err))
        return err->code;
    *out = (uint32_t)number(c->data + c->at, 4);
    c->at += 4;
    return KVT_OK;
}

static kvt_code take_u64(cursor *c, uint64_t *out, const char *what, kvt_err *err)
{
    if (need(c, 8, what, err))
        return err->code;
    *out = number(c->data + c->at, 8);
    c->at += 8;
    return KVT_OK;
}

static kvt_code take_text(cursor *c, gguf_text *out, const char *what, kvt_err *err)
{
    uint64_t n = 0;
    if (take_u64(c, &n, what, err))
        return err->code;
    if (n > CAP)
        return kvt_fail(err, KVT_FORMAT,
                        "%s: a text of %" PRIu64 " bytes, at most %d are allowed", what, n,
                        (int)CAP);
    if (need(c, n, what, err))
        return err->code;
    *out = (gguf_text){(const char *)c->data + c->at, (size_t)n};
    c->at += (size_t)n;
    return KVT_OK;
}

/* The texts of an array: checked before memory is taken for them. */
static kvt_code take_texts(cursor *c, gguf_key *k, kvt_err *err)
{
    cursor check = *c;
    gguf_text skipped;
    for (int64_t i = 0; i < k->n; i++)
        if (take_text(&check, &skipped, "a text of the array", err))
            return kvt_within(err, "element %" PRId64, i);
    k->text = kvt_alloc(k->n, sizeof *k->text);
    if (!k->text)
        return kvt_fail_memory(err, (size_t)k->n * sizeof *k->text);
    for (int64_t i = 0; i < k->n; i++)
        if (take_text(c, &k->text[i], "a text of the array", err))
            return err->code;
    return KVT_OK;
}

static kvt_code take_array(cursor *c, gguf_key *k, kvt_err *err)
{
    uint32_t of = 0;
    uint64_t n = 0;
    if (take_u32(c, &of, "element type", err) || take_u64(c, &n, "element count", err))
        return err->code;
    if (of >= GGUF_TYPE_COUNT)
        return kvt_fail(err, KVT_FORMAT, "array of unknown element type %" PRIu32, of);
    if (of == GGUF_ARRAY)
        return kvt_fail(err, KVT_FORMAT, "an array of arrays is not allowed");
    if (n > CAP)
        return kvt_fail(err, KVT_FORMAT,
                        "array of %" PRIu64 " elements, at most %d are allowed", n, (int)CAP);
    k->of = (gguf_type)of;
    k->n = (int64_t)n;
    uint64_t least = of == GGUF_TEXT ? 8 : (uint64_t)gguf_type_size(k->of);
    if (need(c, n * least, "array", err))
        return err->code;
    k->value = c->data + c->at;
    if (of == GGUF_TEXT)
        return take_texts(c, k, err);
    c->at += (size_t)(n * least);
    return KVT_OK;
}

static kvt_code take_value(cursor *c, gguf_key *k, kvt_err *err)
{
    uint32_t type = 0;
    if (take_u32(c, &type, "value type", err))
        return err->code;
    if (type >= GGUF_TYPE_COUNT)
        return kvt_fail(err, KVT_FORMAT, "unknown value type %" PRIu32, type);
    k->type = (gguf_type)type;
    if (k->type == GGUF_ARRAY)
        return take_array(c, k, err);
    if (k->type == GGUF_TEXT) {
        gguf_text t = {NULL, 0};
        if (take_text(c, &t, "text", err))
            return err->code;
        k->value = (const uint8_t *)t.s;
        k->n = (int64_t)t.n;
        return KVT_OK;
    }
    size_t size = (size_t)gguf_type_size(k->type);
    if (need(c, size, "value", err))
        return err->code;
    k->value = c->data + c->at;
    c->at += size;
    return KVT_OK;
}

int gguf_name_compare(const void *a, const void *b)
{
    const gguf_name *x = a, *y = b;
    int order = memcmp(x->s, y->s, x->n < y->n ? x->n : y->n);
    if (order != 0)
        return order;
    if (x->n != y->n)
        return x->n < y->n ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

kvt_code gguf_unique(gguf_name *name, int64_t n, const char *what, kvt_err *err)
{
    char shown[GGUF_SHOWN];
    qsort(name, (size_t)n, sizeof *name, gguf_name_compare);
    for (int64_t i = 1; i < n; i++)
        if (name[i].n == name[i - 1].n && memcmp(name[i].s, name[i - 1].s, name[i].n) == 0)
            return kvt_fail(err, KVT_FORMAT,
                            "%s '%s' comes twice, as number %" PRId64 " and %" PRId64, what,
                            gguf_shown(shown, name[i].s, name[i].n), name[i - 1].index,
                            name[i].index);
    return KVT_OK;
}

static kvt_code read_start(gguf *g, cursor *c, kvt_err *err)
{
    uint32_t version = 0;
    uint64_t n_tensor = 0, n_key = 0;
    size_t n_magic = c->n < 4 ? c->n : 4;
    if (n_magic > 0 && memcmp(c->data, "GGUF", n_magic) != 0)
        return kvt_fail(err, KVT_FORMAT, "no GGUF file: it begins with %02x %02x %02x %02x",
                        c->data[0], n_magic > 1 ? c->data[1] : 0, n_magic > 2 ? c->data[2] : 0,
                        n_magic > 3 ? c->data[3] : 0);
    if (need(c, 4, "magic", err))
        return err->code;
    c->at = 4;
    if (take_u32(c, &version, "version", err))
        return err->code;
    if (version != 0 && (version & 0xffff) == 0)
        return kvt_fail(err, KVT_FORMAT,
                        "file is big-endian, this build reads little-endian (version %08" PRIx32
                        ")",
                        version);
    if (version < 2)
        return kvt_fail(err, KVT_FORMAT, "version %" PRIu32 " is too old: 2 and 3 are read",
                        version);
    if (version > 3)
        return kvt_fail(err, KVT_FORMAT,
                        "version %" PRIu32 " is newer than this build: 2 and 3 "
                        "are read",
                        version);
    g->version = (int)version;
    if (take_u64(c, &n_tensor, "tensor count", err) || take_u64(c, &n_key, "key count", err))
        return err->code;
    if (n_tensor > INT64_MAX || n_key > INT64_MAX)
        return kvt_fail(err, KVT_FORMAT, "%s count %" PRId64 " is negative",
                        n_tensor > INT64_MAX ? "tensor" : "key",
                        (int64_t)(n_tensor > INT64_MAX ? n_tensor : n_key));
    if (n_key > left(c) / KEY_LEAST)
        return kvt_fail(err, KVT_FORMAT,
                        "truncated: %" PRIu64 " keys need at least %d bytes each, "
                        "%zu are left",
                        n_key, KEY_LEAST, left(c));
    if (n_tensor > (left(c) - n_key * KEY_LEAST) / TENSOR_LEAST)
        return kvt_fail(err, KVT_FORMAT,
                        "truncated: %" PRIu64 " tensors need at least %d bytes "
                        "each, %zu are left",
                        n_tensor, TENSOR_LEAST, left(c));
    g->n_tensor = (int64_t)n_tensor;
    g->n_key = (int64_t)n_key;
    return KVT_OK;
}

static kvt_code read_keys(gguf *g, cursor *c, kvt_err *err)
{
    char shown[GGUF_SHOWN];
    g->key = kvt_alloc(g->n_key, sizeof *g->key);
    g->key_name = kvt_alloc(g->n_key, sizeof *g->key_name);
    if (!g->key || !g->key_name)
        return kvt_fail_memory(err, (size_t)g->n_key * sizeof *g->key);
    for (int64_t i = 0; i < g->n_key; i++) {
        gguf_key *k = &g->key[i];
        if (take_text(c, &k->name, "name", err))
            return kvt_within(err, "key %" PRId64 " of %" PRId64, i, g->n_key);
        if (take_value(c, k, err))
            return kvt_within(err, "key '%s'", gguf_shown(shown, k->name.s, k->name.n));
        g->key_name[i] = (gguf_name){k->name.s, k->name.n, i};
    }
    return gguf_unique(g->key_name, g->n_key, "key", err);
}

/* An unsigned integer of the metadata that must not be anything else; `def` without it. */
static kvt_code whole_key(const gguf *g, const char *key, int64_t def, int64_t *out,
                          kvt_err *err)
{
    *out = def;
    if (gguf_has(g, key) && gguf_get_int(g, key, out, err))
        return err->code;
    return KVT_OK;
}

static kvt_code read_split(gguf *g, kvt_err *err)
{
    gguf_split *s = &g->split;
    if (whole_key(g, "split.no", 0, &s->no, err) ||
        whole_key(g, "split.count", 1, &s->count, err) ||
        whole_key(g, "split.tensors.count", -1, &s->n_tensor, err))
        return err->code;
    s->count += s->count == 0;
    if (s->count < 1 || s->count > GGUF_PARTS_MAX || s->no < 0 || s->no >= s->count)
        return kvt_fail(err, KVT_FORMAT,
                        "keys 'split.no', 'split.count': part %" PRId64 " (from 0) of %" PRId64
                        " cannot be",
                        s->no, s->count);
    return KVT_OK;
}

static kvt_code read_alignment(const gguf *g, int64_t *out, kvt_err *err)
{
    if (whole_key(g, "general.alignment", ALIGNMENT, out, err))
        return err->code;
    if (*out < 1 || *out > UINT32_MAX || (*out & (*out - 1)) != 0)
        return kvt_fail(err, KVT_FORMAT,
                        "key 'general.alignment': expected a power of two, got %" PRId64, *out);
    return KVT_OK;
}

/* Dimensions and type, and from these the bytes. */
static kvt_code read_shape(gguf_tensor *t, cursor *c, kvt_err *err)
{
    char name[32];
    uint32_t n_dim = 0, type = 0;
    if (take_u32(c, &n_dim, "dimension count", err))
        return err->code;
    if (n_dim > GGUF_DIMS_MAX)
        return kvt_fail(err, KVT_FORMAT, "%" PRIu32 " dimensions, at most %d are allowed",
                        n_dim, (int)GGUF_DIMS_MAX);
    t->n_dim = (int)n_dim;
    t->n_weight = 1;
    for (int i = 0; i < GGUF_DIMS_MAX; i++) {
        uint64_t d = 1;
        if (i < t->n_dim && take_u64(c, &d, "dimension", err))
            return err->code;
        if (d == 0 || d > INT64_MAX)
            return kvt_fail(err, KVT_FORMAT, "dimension %d is %" PRId64 ", expected at least 1",
                            i, (int64_t)d);
        if ((int64_t)d > INT64_MAX / t->n_weight)
            return kvt_fail(err, KVT_FORMAT, "its dimensions multiply to 2^63 or more");
        t->dim[i] = (int64_t)d;
        t->n_weight *= (int64_t)d;
    }
    if (take_u32(c, &type, "type", err))
        return err->code;
    const quant_info *q = quant_find(type);
    if (!q)
        return kvt_fail(err, KVT_FORMAT, "type %" PRIu32 " (%s) is not supported", type,
                        quant_name(type, name, sizeof name));
    if (t->dim[0] % q->n_weight != 0)
        return kvt_fail(err, KVT_FORMAT,
                        "%s: row length must be a multiple of %d, got %" PRId64, q->name,
                        q->n_weight, t->dim[0]);
    if (t->n_weight / q->n_weight > INT64_MAX / q->n_byte)
        return kvt_fail(err, KVT_FORMAT, "its size is 2^63 bytes or more");
    t->type = (int)type;
    t->n_byte = t->n_weight / q->n_weight * q->n_byte;
    return KVT_OK;
}

/* One description; *end is where the tensors before it end, padded. */
static kvt_code read_info(gguf_tensor *t, cursor *c, int64_t *end, int64_t alignment,
                          kvt_err *err)
{
    uint64_t offset = 0;
    if (read_shape(t, c, err) || take_u64(c, &offset, "offset", err))
        return err->code;
    if (offset != (uint64_t)*end)
        return kvt_fail(err, KVT_FORMAT,
                        "offset %" PRIu64 ", expected %" PRId64
                        ": tensors lie in order, without holes or overlap",
                        offset, *end);
    int64_t pad = (alignment - t->n_byte % alignment) % alignment;
    if (t->n_byte > INT64_MAX - pad || *end > INT64_MAX - pad - t->n_byte)
        return kvt_fail(err, KVT_FORMAT, "it ends beyond 2^63 bytes");
    *end += t->n_byte + pad;
    return KVT_OK;
}

static kvt_code read_infos(gguf *g, cursor *c, int64_t alignment, kvt_err *err)
{
    char shown[GGUF_SHOWN];
    int64_t end = 0;
    g->tensor = kvt_alloc(g->n_tensor, sizeof *g->tensor);
    g->tensor_name = kvt_alloc(g->n_tensor, sizeof *g->tensor_name);
    if (!g->tensor || !g->tensor_name)
        return kvt_fail_memory(err, (size_t)g->n_tensor * sizeof *g->tensor);
    for (int64_t i = 0; i < g->n_tensor; i++) {
        gguf_tensor *t = &g->tensor[i];
        gguf_text name = {NULL, 0};
        if (take_text(c, &name, "name", err))
            return kvt_within(err, "tensor %" PRId64 " of %" PRId64, i, g->n_tensor);
        gguf_shown(shown, name.s, name.n);
        if (name.n == 0 || name.n >= GGUF_NAME_MAX || memchr(name.s, 0, name.n))
            return kvt_fail(err, KVT_FORMAT,
                            "tensor %" PRId64 ": name '%s' has %zu bytes, expected "
                            "1 to %d and no zero byte",
                            i, shown, name.n, GGUF_NAME_MAX - 1);
        memcpy(t->name, name.s, name.n);
        g->tensor_name[i] = (gguf_name){t->name, name.n, i};
        if (read_info(t, c, &end, alignment, err))
            return kvt_within(err, "tensor '%s'", shown);
    }
    return gguf_unique(g->tensor_name, g->n_tensor, "tensor", err);
}

/* Places the tensors behind the cursor, each at the next multiple of the alignment. */
static kvt_code place(gguf *g, cursor *c, int64_t alignment, kvt_err *err)
{
    char shown[GGUF_SHOWN];
    for (int64_t i = 0; i < g->n_tensor; i++) {
        gguf_tensor *t = &g->tensor[i];
        /* Padding is relative to the file's start before the first tensor, and tensors start at
         * multiples of the alignment from there on. */
        uint64_t pad =
            ((uint64_t)alignment - c->at % (uint64_t)alignment) % (uint64_t)alignment;
        uint64_t needed = (uint64_t)t->n_byte + pad; /* below 2^63 + 2^32 */
        if (needed > left(c))
            return kvt_fail(err, KVT_FORMAT,
                            "truncated: tensor '%s' needs %" PRId64 " bytes from byte %" PRIu64
                            ", the file has %zu",
                            gguf_shown(shown, t->name, strlen(t->name)), t->n_byte, c->at + pad,
                            c->n);
        t->data = c->data + c->at + pad;
        c->at += (size_t)needed;
    }
    for (size_t i = 0; i + 4 <= left(c) && i <= (size_t)alignment; i++)
        if (memcmp(c->data + c->at + i, "GGUF", 4) == 0)
            return kvt_fail(err, KVT_FORMAT,
                            "another GGUF file begins at byte %zu: parts cannot "
                            "be joined by appending them",
                            c->at + i);
    return KVT_OK;
}

static kvt_code read_all(gguf *g, gguf_role role, gguf_check *check, kvt_err *err)
{
    cursor c = {g->data, g->n_byte, 0};
    int64_t alignment = 0;
    if (read_start(g, &c, err) || read_keys(g, &c, err) || read_split(g, err))
        return err->code;
    if (role == GGUF_ALONE && g->split.count > 1)
        return kvt_fail(err, KVT_FORMAT,
                        "part %" PRId64 " of a set of %" PRId64 " files: it must be opened "
                        "where the others lie",
                        g->split.no + 1, g->split.count);
    if (role == GGUF_FIRST && g->split.no > 0) {
        g->n_tensor = 0;
        return KVT_OK;
    }
    if ((check && check(g, err)) || read_alignment(g, &alignment, err) ||
        read_infos(g, &c, alignment, err) || place(g, &c, alignment, err))
        return err->code;
    return KVT_OK;
}

static kvt_code read_checked(gguf **out, const uint8_t *data, size_t n, gguf_role role,
                             gguf_check *check, kvt_err *err)
{
    gguf *g = kvt_alloc(1, sizeof *g);
    *out = NULL;
    if (!g)
        return kvt_fail_memory(err, sizeof *g);
    g->data = data;
    g->n_byte = n;
    if (read_all(g, role, check, err)) {
        gguf_close(g);
        return err->code;
    }
    *out = g;
    return KVT_OK;
}

kvt_code gguf_read(gguf **out, const uint8_t *data, size_t n, kvt_err *err)
{
    return read_checked(out, data, n, GGUF_ALONE, NULL, err);
}

kvt_code gguf_open_one(gguf **out, const char *path, gguf_role role, gguf_check *check,
                       kvt_err *err)
{
    file_map map;
    *out = NULL;
    if (file_map_open(&map, path, err))
        return err->code;
    if (read_checked(out, map.data, map.n, role, check, err)) {
        file_map_close(&map);
        return kvt_within(err, "'%s'", path);
    }
    (*out)->map = map;
    return KVT_OK;
}

void gguf_close(gguf *g)
{
    if (!g)
        return;
    for (int64_t i = 0; g->key && i < g->n_key; i++)
        kvt_free(g->key[i].text);
    kvt_free(g->key);
    kvt_free(g->key_name);
    kvt_free(g->tensor);
    kvt_free(g->tensor_name);
    for (int i = 0; i < g->n_more; i++)
        gguf_close(g->more[i]);
    kvt_free(g->more);
    if (g->map.data)
        file_map_close(&g->map);
    kvt_free(g);
}
