/* tensors.c - reading safetensors files: every rule of the format first, then the arrays as
 * they lie in the mapped file. */
#include "traces/tensors.h"

#include "base/file.h"
#include "base/half.h"
#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/arena.h"

enum { HEADER_MAX = 100000000 };

typedef struct entry {
    tensor t;
    uint64_t begin, end; /* in the bytes behind the header */
} entry;

struct tensors {
    file_map map;
    json_t *header;
    entry *list;         /* by place in the file */
    const entry **named; /* the same by name */
    int n;
};

/* ---- the header ----------------------------------------------------------------------------
 */

static int dtype_of(const char *name)
{
    static const struct {
        const char *name;
        kvt_dtype dtype;
    } known[] = {{"F32", KVT_F32}, {"F16", KVT_F16}, {"BF16", KVT_BF16}, {"I64", KVT_I64},
                 {"I32", KVT_I32}, {"U8", KVT_U8},   {"F64", KVT_F64}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i].name, name) == 0)
            return (int)known[i].dtype;
    return -1;
}

static kvt_code read_shape(entry *e, const json_t *shape, uint64_t *bytes, kvt_err *err)
{
    *bytes = kvt_dtype_size(e->t.dtype);
    if (!json_is_array(shape))
        return kvt_fail(err, KVT_FORMAT, "shape: expected an array");
    if (json_array_size(shape) > KVT_RANK_MAX)
        return kvt_fail(err, KVT_FORMAT, "shape: expected at most %d axes, got %zu",
                        KVT_RANK_MAX, json_array_size(shape));
    e->t.rank = (int)json_array_size(shape);
    for (int i = 0; i < e->t.rank; i++) {
        const json_t *x = json_array_get(shape, (size_t)i);
        if (!json_is_integer(x) || json_integer_value(x) < 0)
            return kvt_fail(err, KVT_FORMAT, "shape[%d]: expected a whole number from 0", i);
        e->t.dim[i] = json_integer_value(x);
        if (__builtin_mul_overflow(*bytes, (uint64_t)e->t.dim[i], bytes) || *bytes > INT64_MAX)
            return kvt_fail(err, KVT_FORMAT, "shape: its sizes multiply to 2^63 bytes or more");
    }
    return KVT_OK;
}

static kvt_code read_entry(entry *e, const char *name, const json_t *v, kvt_err *err)
{
    static const char *const known[] = {"dtype", "shape", "data_offsets", NULL};
    const char *type;
    uint64_t bytes;
    if (strlen(name) >= sizeof e->t.name)
        return kvt_fail(err, KVT_FORMAT, "a name of %zu bytes, at most %zu fit", strlen(name),
                        sizeof e->t.name - 1);
    snprintf(e->t.name, sizeof e->t.name, "%s", name);
    if (!json_is_object(v))
        return kvt_fail(err, KVT_FORMAT, "expected an object");
    if (json_only(v, known, err) || json_text(v, "dtype", &type, err))
        return err->code = KVT_FORMAT;
    int dtype = dtype_of(type);
    if (dtype < 0)
        return kvt_fail(err, KVT_FORMAT, "dtype: %.16s is not supported", type);
    e->t.dtype = (kvt_dtype)dtype;
    if (read_shape(e, json_object_get(v, "shape"), &bytes, err))
        return err->code;
    const json_t *range = json_object_get(v, "data_offsets");
    const json_t *lo = json_array_get(range, 0), *hi = json_array_get(range, 1);
    if (json_array_size(range) != 2 || !json_is_integer(lo) || !json_is_integer(hi) ||
        json_integer_value(lo) < 0 || json_integer_value(hi) < json_integer_value(lo))
        return kvt_fail(err, KVT_FORMAT, "data_offsets: expected [begin, end]");
    e->begin = (uint64_t)json_integer_value(lo);
    e->end = (uint64_t)json_integer_value(hi);
    if (e->end - e->begin != bytes)
        return kvt_fail(err, KVT_FORMAT, "data_offsets: expected %llu bytes, got %llu",
                        (unsigned long long)bytes, (unsigned long long)(e->end - e->begin));
    return KVT_OK;
}

static kvt_code check_meta(const json_t *meta, kvt_err *err)
{
    const char *key;
    json_t *v;
    if (!json_is_object(meta))
        return kvt_fail(err, KVT_FORMAT, "__metadata__: expected an object");
    json_object_foreach((json_t *)(uintptr_t)meta, key, v) /* its iterator takes no const */
        if (!json_is_string(v)) return kvt_fail(err, KVT_FORMAT,
                                                "__metadata__: %.60s: expected a text", key);
    return KVT_OK;
}

static kvt_code read_entries(tensors *t, kvt_err *err)
{
    const char *name;
    json_t *v;
    size_t most = json_object_size(t->header);
    if (!(t->list = kvt_alloc((int64_t)most, sizeof *t->list)))
        return kvt_fail_memory(err, most * sizeof *t->list);
    json_object_foreach(t->header, name, v)
    {
        if (strcmp(name, "__metadata__") == 0) {
            if (check_meta(v, err))
                return err->code;
            continue;
        }
        if (read_entry(&t->list[t->n], name, v, err))
            return kvt_within(err, "tensor '%.100s'", name);
        t->n++;
    }
    return KVT_OK;
}

static int by_place(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return strcmp(x->t.name, y->t.name);
}

/* Sorted by place, they follow each other from the first byte to the last. */
static kvt_code check_places(tensors *t, const uint8_t *data, uint64_t n, kvt_err *err)
{
    uint64_t at = 0;
    qsort(t->list, (size_t)t->n, sizeof *t->list, by_place);
    for (int i = 0; i < t->n; i++) {
        entry *e = &t->list[i];
        if (e->begin == at && e->end > n)
            return kvt_fail(
                err, KVT_FORMAT,
                "truncated: tensor '%.100s' needs %llu bytes from byte %llu of the data, "
                "which has %llu",
                e->t.name, (unsigned long long)(e->end - e->begin), (unsigned long long)at,
                (unsigned long long)n);
        if (e->begin != at)
            return kvt_fail(err, KVT_FORMAT,
                            "tensor '%.100s': data_offsets [%llu, %llu]: expected to begin at "
                            "%llu: tensors follow each other without holes or overlap",
                            e->t.name, (unsigned long long)e->begin, (unsigned long long)e->end,
                            (unsigned long long)at);
        at = e->end;
        e->t.data = data + e->begin;
    }
    if (at != n)
        return kvt_fail(err, KVT_FORMAT, "%llu bytes belong to no tensor",
                        (unsigned long long)(n - at));
    return KVT_OK;
}

static int by_name(const void *a, const void *b)
{
    const entry *const *x = a, *const *y = b;
    return strcmp((*x)->t.name, (*y)->t.name);
}

static kvt_code sort_names(tensors *t, kvt_err *err)
{
    t->named = kvt_alloc(t->n, sizeof *t->named);
    if (!t->named)
        return kvt_fail_memory(err, (size_t)t->n * sizeof *t->named);
    for (int i = 0; i < t->n; i++)
        t->named[i] = &t->list[i];
    qsort(t->named, (size_t)t->n, sizeof *t->named, by_name);
    return KVT_OK;
}

static kvt_code parse(tensors *t, kvt_err *err)
{
    const uint8_t *bytes = t->map.data;
    uint64_t n = 0;
    if (t->map.n < 8)
        return kvt_fail(err, KVT_FORMAT, "is no safetensors file: %zu bytes", t->map.n);
    if (memcmp(bytes, "\x89HDF\r\n\x1a\n", 8) == 0)
        return kvt_fail(err, KVT_FORMAT,
                        "is no safetensors file but HDF5, as traces and scorers are");
    for (int i = 7; i >= 0; i--)
        n = n << 8 | bytes[i];
    if (n > HEADER_MAX || n > t->map.n - 8)
        return kvt_fail(err, KVT_FORMAT,
                        "is no safetensors file: a header of %llu bytes in a file of %zu",
                        (unsigned long long)n, t->map.n);
    if (n == 0 || bytes[8] != '{')
        return kvt_fail(err, KVT_FORMAT,
                        "is no safetensors file: its header does not begin with '{'");
    kvt_code code = json_read(&t->header, (const char *)bytes + 8, (size_t)n, err);
    if (code)
        return kvt_within(err, "header");
    if (!json_is_object(t->header))
        return kvt_fail(err, KVT_FORMAT, "header: expected an object");
    if (read_entries(t, err) || check_places(t, bytes + 8 + n, t->map.n - 8 - n, err))
        return err->code;
    return sort_names(t, err);
}

/* ---- what is asked -------------------------------------------------------------------------
 */

kvt_code tensors_open(tensors **out, const char *path, kvt_err *err)
{
    *out = NULL;
    tensors *t = kvt_alloc(1, sizeof *t);
    if (!t)
        return kvt_fail_memory(err, sizeof *t);
    if (file_map_open(&t->map, path, err)) { /* names the file itself */
        kvt_free(t);
        return err->code;
    }
    if (parse(t, err)) {
        tensors_close(t);
        return kvt_within(err, "'%s'", path);
    }
    *out = t;
    return KVT_OK;
}

void tensors_close(tensors *t)
{
    if (!t)
        return;
    if (t->header)
        json_decref(t->header);
    kvt_free(t->list);
    kvt_free(t->named);
    file_map_close(&t->map);
    kvt_free(t);
}

int tensors_count(const tensors *t)
{
    return t->n;
}

const tensor *tensors_at(const tensors *t, int i)
{
    return i >= 0 && i < t->n ? &t->list[i].t : NULL;
}

const tensor *tensors_find(const tensors *t, const char *name)
{
    int low = 0, high = t->n;
    while (low < high) {
        int middle = low + (high - low) / 2;
        int order = strcmp(name, t->named[middle]->t.name);
        if (order == 0)
            return &t->named[middle]->t;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const uint8_t *tensors_bytes(const tensors *t, size_t *n)
{
    *n = t->map.n;
    return t->map.data;
}

const char *tensors_meta(const tensors *t, const char *key)
{
    return json_string_value(json_object_get(json_object_get(t->header, "__metadata__"), key));
}

/* Element i; the bytes need not be aligned. */
static float float_at(const tensor *t, int64_t i)
{
    const char *at = (const char *)t->data + (size_t)i * kvt_dtype_size(t->dtype);
    uint16_t h;
    double d;
    float f;
    switch (t->dtype) {
    case KVT_F16: memcpy(&h, at, sizeof h); return half_to_float(h);
    case KVT_BF16: memcpy(&h, at, sizeof h); return bf16_to_float(h);
    case KVT_F64: memcpy(&d, at, sizeof d); return (float)d;
    default: memcpy(&f, at, sizeof f); return f;
    }
}

kvt_code tensors_floats(const tensor *t, float *out, int64_t n, kvt_err *err)
{
    int64_t count = 1;
    for (int i = 0; i < t->rank; i++)
        count *= t->dim[i];
    if (t->dtype != KVT_F32 && t->dtype != KVT_F16 && t->dtype != KVT_BF16 &&
        t->dtype != KVT_F64)
        return kvt_fail(err, KVT_FORMAT,
                        "tensor '%.100s': expected f32, f16, bf16 or f64, got %s", t->name,
                        kvt_dtype_name(t->dtype));
    if (count != n)
        return kvt_fail(err, KVT_FORMAT, "tensor '%.100s': expected %lld values, got %lld",
                        t->name, (long long)n, (long long)count);
    for (int64_t i = 0; i < n; i++) {
        out[i] = float_at(t, i);
        if (!isfinite(out[i]))
            return kvt_fail(err, KVT_FORMAT, "tensor '%.100s', element %lld: %s", t->name,
                            (long long)i, isnan(out[i]) ? "NaN" : "infinity");
    }
    return KVT_OK;
}
