/* gguf_values.c - looking things up in a GGUF file that passed the rules of gguf.c. */
#include "capture/gguf_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/quant.h"

static const struct {
    const char *name;
    int size; /* bytes of a value; 0: depends on it */
} types[GGUF_TYPE_COUNT] = {
    [GGUF_U8] = {"u8", 1},       [GGUF_I8] = {"i8", 1},     [GGUF_U16] = {"u16", 2},
    [GGUF_I16] = {"i16", 2},     [GGUF_U32] = {"u32", 4},   [GGUF_I32] = {"i32", 4},
    [GGUF_F32] = {"f32", 4},     [GGUF_BOOL] = {"bool", 1}, [GGUF_TEXT] = {"text", 0},
    [GGUF_ARRAY] = {"array", 0}, [GGUF_U64] = {"u64", 8},   [GGUF_I64] = {"i64", 8},
    [GGUF_F64] = {"f64", 8},
};

int64_t gguf_type_size(gguf_type type)
{
    return types[type].size;
}

const char *gguf_type_name(int64_t type)
{
    return type >= 0 && type < GGUF_TYPE_COUNT ? types[type].name : "unknown";
}

int64_t gguf_name_find(const gguf_name *sorted, int64_t n, const char *name)
{
    size_t n_name = strlen(name);
    int64_t low = 0, high = n;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        const gguf_name *m = &sorted[middle];
        int order = memcmp(name, m->s, n_name < m->n ? n_name : m->n);
        if (order == 0 && n_name == m->n)
            return m->index;
        if (order < 0 || (order == 0 && n_name < m->n))
            high = middle;
        else
            low = middle + 1;
    }
    return -1;
}

static const gguf_key *find(const gguf *g, const char *key)
{
    int64_t i = gguf_name_find(g->key_name, g->n_key, key);
    return i < 0 ? NULL : &g->key[i];
}

static bool is_integer(gguf_type t)
{
    return t <= GGUF_I32 || t == GGUF_U64 || t == GGUF_I64;
}

static bool is_number(gguf_type t)
{
    return is_integer(t) || t == GGUF_F32 || t == GGUF_F64;
}

static kvt_code missing(const char *key, kvt_err *err)
{
    return kvt_fail(err, KVT_NOTFOUND, "key '%s' is missing", key);
}

static kvt_code unlike(const gguf_key *k, const char *key, const char *expected, kvt_err *err)
{
    if (k->type == GGUF_ARRAY)
        return kvt_fail(err, KVT_FORMAT, "key '%s': expected %s, got an array of %s", key,
                        expected, gguf_type_name(k->of));
    return kvt_fail(err, KVT_FORMAT, "key '%s': expected %s, got %s", key, expected,
                    gguf_type_name(k->type));
}

static uint64_t bits(const uint8_t *p, int64_t n_byte)
{
    uint64_t v = 0;
    for (int64_t i = n_byte; i-- > 0;)
        v = v << 8 | p[i];
    return v;
}

static int64_t integer(gguf_type type, const uint8_t *p)
{
    uint64_t v = bits(p, types[type].size);
    switch (type) {
    case GGUF_I8: return (int8_t)v;
    case GGUF_I16: return (int16_t)v;
    case GGUF_I32: return (int32_t)v;
    case GGUF_U64: return v > INT64_MAX ? INT64_MAX : (int64_t)v;
    default: return (int64_t)v;
    }
}

static double real(gguf_type type, const uint8_t *p)
{
    uint64_t v = bits(p, types[type].size);
    if (type == GGUF_F32) {
        uint32_t low = (uint32_t)v;
        float f;
        memcpy(&f, &low, sizeof f);
        return f;
    }
    if (type == GGUF_F64) {
        double d;
        memcpy(&d, &v, sizeof d);
        return d;
    }
    return type == GGUF_U64 ? (double)v : (double)integer(type, p);
}

bool gguf_has(const gguf *g, const char *key)
{
    return find(g, key) != NULL;
}

kvt_code gguf_get_text(const gguf *g, const char *key, gguf_text *out, kvt_err *err)
{
    const gguf_key *k = find(g, key);
    if (!k)
        return missing(key, err);
    if (k->type != GGUF_TEXT)
        return unlike(k, key, "text", err);
    *out = (gguf_text){(const char *)k->value, (size_t)k->n};
    return KVT_OK;
}

kvt_code gguf_get_int(const gguf *g, const char *key, int64_t *out, kvt_err *err)
{
    const gguf_key *k = find(g, key);
    if (!k)
        return missing(key, err);
    if (!is_integer(k->type))
        return unlike(k, key, "an integer", err);
    if (k->type == GGUF_U64 && bits(k->value, 8) > INT64_MAX)
        return kvt_fail(err, KVT_FORMAT, "key '%s': expected at most 2^63 - 1, got %" PRIu64,
                        key, bits(k->value, 8));
    *out = integer(k->type, k->value);
    return KVT_OK;
}

kvt_code gguf_get_real(const gguf *g, const char *key, double *out, kvt_err *err)
{
    const gguf_key *k = find(g, key);
    if (!k)
        return missing(key, err);
    if (!is_number(k->type))
        return unlike(k, key, "a number", err);
    *out = real(k->type, k->value);
    return KVT_OK;
}

kvt_code gguf_get_bool(const gguf *g, const char *key, bool *out, kvt_err *err)
{
    const gguf_key *k = find(g, key);
    if (!k)
        return missing(key, err);
    if (k->type != GGUF_BOOL)
        return unlike(k, key, "a bool", err);
    *out = *k->value != 0;
    return KVT_OK;
}

kvt_code gguf_get_array(const gguf *g, const char *key, gguf_array *out, kvt_err *err)
{
    const gguf_key *k = find(g, key);
    if (!k)
        return missing(key, err);
    if (k->type != GGUF_ARRAY)
        return unlike(k, key, "an array", err);
    *out = (gguf_array){k->of, k->n, k->value, k->text};
    return KVT_OK;
}

static kvt_code array_of(const gguf *g, const char *key, gguf_array *out, const char *expected,
                         bool (*fits)(gguf_type), kvt_err *err)
{
    const gguf_key *k = find(g, key);
    if (!k)
        return missing(key, err);
    if (k->type != GGUF_ARRAY || !fits(k->of))
        return unlike(k, key, expected, err);
    return gguf_get_array(g, key, out, err);
}

static bool is_text(gguf_type t)
{
    return t == GGUF_TEXT;
}

kvt_code gguf_get_texts(const gguf *g, const char *key, gguf_array *out, kvt_err *err)
{
    return array_of(g, key, out, "an array of texts", is_text, err);
}

kvt_code gguf_get_ints(const gguf *g, const char *key, gguf_array *out, kvt_err *err)
{
    return array_of(g, key, out, "an array of integers", is_integer, err);
}

kvt_code gguf_get_reals(const gguf *g, const char *key, gguf_array *out, kvt_err *err)
{
    return array_of(g, key, out, "an array of numbers", is_number, err);
}

int64_t gguf_int_at(const gguf_array *a, int64_t i)
{
    return integer(a->type, a->data + i * types[a->type].size);
}

double gguf_real_at(const gguf_array *a, int64_t i)
{
    return real(a->type, a->data + i * types[a->type].size);
}

int gguf_version(const gguf *g)
{
    return g->version;
}

int64_t gguf_n_key(const gguf *g)
{
    return g->n_key;
}

gguf_text gguf_key_at(const gguf *g, int64_t i, gguf_type *type)
{
    *type = g->key[i].type;
    return g->key[i].name;
}

int64_t gguf_n_tensor(const gguf *g)
{
    return g->n_tensor;
}

const gguf_tensor *gguf_tensor_at(const gguf *g, int64_t i)
{
    return &g->tensor[i];
}

const gguf_tensor *gguf_find(const gguf *g, const char *name)
{
    int64_t i = gguf_name_find(g->tensor_name, g->n_tensor, name);
    return i < 0 ? NULL : &g->tensor[i];
}

int gguf_n_part(const gguf *g)
{
    return 1 + g->n_more;
}

const uint8_t *gguf_part_bytes(const gguf *g, int part, size_t *n)
{
    const gguf *p = part == 0 ? g : g->more[part - 1];
    *n = p->n_byte;
    return p->data;
}

bool gguf_is_mapped(const gguf *g)
{
    return g->map.data != NULL;
}

int64_t gguf_n_byte(const gguf *g)
{
    size_t n = 0;
    int64_t sum = 0;
    for (int i = 0; i < gguf_n_part(g); i++) {
        gguf_part_bytes(g, i, &n);
        sum += (int64_t)n;
    }
    return sum;
}
