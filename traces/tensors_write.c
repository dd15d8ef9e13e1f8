/* tensors_write.c - writing safetensors files: built in memory, then through a temporary name.
 */
#include "traces/tensors.h"

#include "base/file.h"
#include "base/half.h"
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/arena.h"

enum { TENSORS_BYTES_MAX = INT32_MAX };

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const tensor *const *)a)->name, (*(const tensor *const *)b)->name);
}

static int64_t count(const tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        if (t->dim[i] < 0 || __builtin_mul_overflow(n, t->dim[i], &n) || n > TENSORS_BYTES_MAX)
            return -1;
    return n;
}

static kvt_code check(const tensor *t, kvt_err *err)
{
    int64_t n = t->rank < 0 || t->rank > KVT_RANK_MAX ? -1 : count(t);
    if (t->dtype != KVT_F32 && t->dtype != KVT_F16)
        return kvt_fail(err, KVT_FORMAT, "tensor '%.100s': expected f32 or f16, got %s",
                        t->name, kvt_dtype_name(t->dtype));
    if (n < 0 || !t->name[0] || strcmp(t->name, "__metadata__") == 0)
        return kvt_fail(err, KVT_FORMAT, "tensor '%.100s': its %s is out of range", t->name,
                        n < 0 ? "shape" : "name");
    for (int64_t i = 0; i < n; i++) {
        float x = ((const float *)t->data)[i];
        bool fits = isfinite(x);
        if (fits && t->dtype == KVT_F16)
            fits = (half_from_float(x) & 0x7c00) != 0x7c00;
        if (!fits)
            return kvt_fail(err, KVT_FORMAT, "tensor '%.100s', element %lld: %s", t->name,
                            (long long)i,
                            isnan(x)   ? "NaN"
                            : isinf(x) ? "infinity"
                                       : "does not fit a half");
    }
    return KVT_OK;
}

static void add_meta(buf *b, const tensor_meta *meta, int n)
{
    buf_text(b, "\"__metadata__\":{");
    for (int i = 0; i < n; i++) {
        if (i)
            buf_char(b, ',');
        json_quote(b, meta[i].key, strlen(meta[i].key));
        buf_char(b, ':');
        json_quote(b, meta[i].value, strlen(meta[i].value));
    }
    buf_char(b, '}');
}

static void add_entry(buf *b, const tensor *t, uint64_t begin, uint64_t end)
{
    json_quote(b, t->name, strlen(t->name));
    buf_printf(b, ":{\"dtype\":\"%s\",\"shape\":[", t->dtype == KVT_F16 ? "F16" : "F32");
    for (int i = 0; i < t->rank; i++)
        buf_printf(b, "%s%lld", i ? "," : "", (long long)t->dim[i]);
    buf_printf(b, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)begin,
               (unsigned long long)end);
}

/* Padded with spaces to a multiple of 8, so that the first array is aligned. */
static void add_header(buf *out, const tensor *const *list, int n, const tensor_meta *meta,
                       int n_meta)
{
    buf head;
    uint64_t at = 0;
    buf_init(&head, TENSORS_BYTES_MAX);
    buf_char(&head, '{');
    if (n_meta)
        add_meta(&head, meta, n_meta);
    for (int i = 0; i < n; i++) {
        uint64_t bytes = (uint64_t)count(list[i]) * kvt_dtype_size(list[i]->dtype);
        if (i || n_meta)
            buf_char(&head, ',');
        add_entry(&head, list[i], at, at + bytes);
        at += bytes;
    }
    buf_char(&head, '}');
    while (head.n % 8 && !head.failed)
        buf_char(&head, ' ');
    for (int i = 0; i < 8; i++)
        buf_char(out, (char)(uint8_t)((uint64_t)head.n >> 8 * i));
    buf_add(out, buf_get(&head), head.n);
    out->failed |= head.failed;
    buf_fini(&head);
}

static void add_values(buf *out, const tensor *t)
{
    int64_t n = count(t);
    if (t->dtype == KVT_F32) {
        buf_add(out, t->data, (size_t)n * sizeof(float));
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        uint16_t h = half_from_float(((const float *)t->data)[i]);
        buf_add(out, &h, sizeof h);
    }
}

static kvt_code write_list(const char *path, const tensor **sorted, int n,
                           const tensor_meta *meta, int n_meta, kvt_err *err)
{
    buf out;
    kvt_code code = KVT_OK;
    qsort(sorted, (size_t)n, sizeof *sorted, by_name);
    for (int i = 0; i < n; i++) {
        if (check(sorted[i], err))
            return err->code;
        if (i > 0 && strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            return kvt_fail(err, KVT_FORMAT, "tensor '%.100s': given twice", sorted[i]->name);
    }
    buf_init(&out, TENSORS_BYTES_MAX);
    add_header(&out, (const tensor *const *)sorted, n, meta, n_meta);
    for (int i = 0; i < n; i++)
        add_values(&out, sorted[i]);
    if (!(code = buf_check(&out, err)))
        code = file_write(path, out.data, out.n, err);
    buf_fini(&out);
    return code;
}

kvt_code tensors_write(const char *path, const tensor *list, int n, const tensor_meta *meta,
                       int n_meta, bool force, kvt_err *err)
{
    if (file_exists(path) && !force)
        return kvt_fail(err, KVT_IO, "'%s' is there already; --force replaces it", path);
    const tensor **sorted = kvt_alloc(n, sizeof *sorted);
    if (!sorted)
        return kvt_fail_memory(err, (size_t)n * sizeof *sorted);
    for (int i = 0; i < n; i++)
        sorted[i] = &list[i];
    kvt_code code = write_list(path, sorted, n, meta, n_meta, err);
    kvt_free(sorted);
    return code ? kvt_within(err, "'%s'", path) : KVT_OK;
}
