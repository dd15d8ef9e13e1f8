/* npy.c - strict reader of .npy files.
 *
 *   1. "\x93NUMPY", then the version: one byte each for major and minor;
 *   2. length of the header: u16 in version 1, u32 in 2 and 3, little-endian;
 *   3. the header, a Python literal: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4),
 * }, padded with spaces and ended by \n;
 *   4. the values. */
#include "traces/npy.h"

#include <stdio.h>
#include <string.h>

enum { HEADER_MAX = 4096 };

typedef struct text {
    const char *p, *end;
} text;

static void blanks(text *t)
{
    while (t->p < t->end && (*t->p == ' ' || *t->p == '\n'))
        t->p++;
}

static bool take(text *t, const char *word)
{
    size_t n = strlen(word);
    blanks(t);
    if ((size_t)(t->end - t->p) < n || memcmp(t->p, word, n) != 0)
        return false;
    t->p += n;
    return true;
}

static bool take_number(text *t, int64_t *out)
{
    int64_t x = 0;
    blanks(t);
    const char *from = t->p;
    while (t->p < t->end && *t->p >= '0' && *t->p <= '9')
        if (__builtin_mul_overflow(x, 10, &x) || __builtin_add_overflow(x, *t->p++ - '0', &x))
            return false;
    *out = x;
    return t->p > from;
}

static bool take_dtype(text *t, kvt_dtype *out)
{
    static const struct {
        const char *descr;
        kvt_dtype dtype;
    } all[] = {{"'<f2'", KVT_F16}, {"'<f4'", KVT_F32}, {"'<f8'", KVT_F64},
               {"'<i4'", KVT_I32}, {"'<i8'", KVT_I64}, {"'|u1'", KVT_U8}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (take(t, all[i].descr)) {
            *out = all[i].dtype;
            return true;
        }
    return false;
}

/* "(3, 4)", "(3,)", "()" */
static bool take_shape(text *t, npy *out)
{
    out->rank = 0;
    if (!take(t, "("))
        return false;
    while (!take(t, ")")) {
        if (out->rank == KVT_RANK_MAX || !take_number(t, &out->dim[out->rank++]))
            return false;
        if (!take(t, ",") && !take(t, ")"))
            return false;
        if (t->p[-1] == ')')
            break;
    }
    return true;
}

static kvt_code parse_header(npy *out, text t, kvt_err *err)
{
    bool dtype = false, order = false, shape = false;
    if (!take(&t, "{"))
        return kvt_fail(err, KVT_FORMAT, "expected a header that begins with '{'");
    while (!take(&t, "}")) {
        if (!dtype && take(&t, "'descr':")) {
            if (!(dtype = take_dtype(&t, &out->dtype)))
                return kvt_fail(
                    err, KVT_FORMAT,
                    "type: expected <f2, <f4, <f8, <i4, <i8 or |u1 (little-endian)");
        } else if (!order && take(&t, "'fortran_order':")) {
            if (!(order = take(&t, "False")))
                return kvt_fail(err, KVT_FORMAT, "expected C order (numpy.ascontiguousarray)");
        } else if (!shape && take(&t, "'shape':")) {
            if (!(shape = take_shape(&t, out)))
                return kvt_fail(err, KVT_FORMAT, "shape: expected at most %d whole numbers",
                                KVT_RANK_MAX);
        } else {
            return kvt_fail(err, KVT_FORMAT,
                            "expected descr, fortran_order and shape, once each");
        }
        take(&t, ",");
    }
    blanks(&t);
    if (!dtype || !order || !shape || t.p != t.end)
        return kvt_fail(err, KVT_FORMAT, "expected descr, fortran_order and shape, once each");
    return KVT_OK;
}

kvt_code npy_parse(npy *out, size_t *offset, const uint8_t *bytes, size_t n, kvt_err *err)
{
    if (n < 10 || memcmp(bytes, "\x93NUMPY", 6) != 0)
        return kvt_fail(err, KVT_FORMAT, "is no .npy file");
    int major = bytes[6];
    size_t start = major == 1 ? 10 : 12, size = (size_t)bytes[8] | (size_t)bytes[9] << 8;
    if (major < 1 || major > 3 || bytes[7] != 0)
        return kvt_fail(err, KVT_FORMAT, "version: expected 1.0, 2.0 or 3.0, got %d.%d", major,
                        bytes[7]);
    if (n < start)
        return kvt_fail(err, KVT_FORMAT, "is cut short");
    if (major > 1)
        size |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    if (size > HEADER_MAX || size > n - start)
        return kvt_fail(err, KVT_FORMAT, "a header of %zu bytes in a file of %zu", size, n);
    const char *header = (const char *)bytes + start;
    *offset = start + size;
    if (*offset % 16 != 0) /* so that values are aligned; every numpy pads to 16 or 64 */
        return kvt_fail(err, KVT_FORMAT, "values at byte %zu, which is no multiple of 16",
                        *offset);
    return parse_header(out, (text){.p = header, .end = header + size}, err);
}

kvt_code npy_open(npy *out, const char *path, kvt_err *err)
{
    size_t offset;
    memset(out, 0, sizeof *out);
    kvt_code code = file_map_open(&out->map, path, err);
    if (code)
        return code;
    if (!(code = npy_parse(out, &offset, out->map.data, out->map.n, err))) {
        int64_t want = (int64_t)kvt_dtype_size(out->dtype);
        bool over = false;
        for (int i = 0; i < out->rank; i++)
            over |= __builtin_mul_overflow(want, out->dim[i], &want);
        if (over || want != (int64_t)(out->map.n - offset))
            code = kvt_fail(err, KVT_FORMAT, "expected %lld bytes of values, got %zu",
                            over ? -1LL : (long long)want, out->map.n - offset);
        out->data = out->map.data + offset;
    }
    if (code) {
        npy_close(out);
        return kvt_within(err, "'%s'", path);
    }
    return KVT_OK;
}

void npy_close(npy *a)
{
    file_map_close(&a->map);
    memset(a, 0, sizeof *a);
}
