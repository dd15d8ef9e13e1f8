/* source.c - arrays of an import, from .npy files and from other HDF5 files, converted to the
 * stored types by our own code. */
#include "traces/npy.h"

#include "base/half.h"
#include "traces/h5.h"
#include "traces/io.h"
#include "traces/layout.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kvt/arena.h"

struct source {
    npy array; /* of a .npy file; data NULL: an HDF5 dataset */
    char path[1024], inside[256];
    hid_t file, set;
    bool held;
    kvt_dtype dtype;
    int rank;
    int64_t dim[KVT_RANK_MAX];
};

/* ---- HDF5 ----------------------------------------------------------------------------------
 */

static kvt_code open_job(void *arg, kvt_err *err)
{
    source *s = arg;
    hsize_t size[H5S_MAX_RANK];
    if (h5_file_open(&s->file, s->path, err) || h5_set_open(&s->set, s->file, s->inside, err))
        return err->code;
    hid_t type = H5Dget_type(s->set), space = H5Dget_space(s->set);
    int dtype = type < 0 ? -1 : h5_dtype(type);
    int rank = space < 0 ? -1 : H5Sget_simple_extent_ndims(space);
    kvt_code code = KVT_OK;
    if (dtype < 0 || dtype == KVT_BF16)
        code = kvt_fail(err, KVT_FORMAT,
                        "type: expected f16, f32, f64, i32, i64 or u8, little-endian");
    else if (rank < 0 || rank > KVT_RANK_MAX)
        code =
            kvt_fail(err, KVT_FORMAT, "expected at most %d axes, got %d", KVT_RANK_MAX, rank);
    else if (rank > 0)
        H5Sget_simple_extent_dims(space, size, NULL);
    for (int i = 0; i < rank && !code; i++)
        s->dim[i] = (int64_t)size[i];
    s->dtype = (kvt_dtype)dtype;
    s->rank = rank;
    if (space >= 0)
        H5Sclose(space);
    if (type >= 0)
        H5Tclose(type);
    return code;
}

static kvt_code close_job(void *arg, kvt_err *err)
{
    source *s = arg;
    (void)err;
    if (s->set >= 0)
        H5Dclose(s->set);
    h5_file_drop(s->file);
    return KVT_OK;
}

/* "a.h5:/x/y": the colon that stands in front of a slash. */
static const char *inside(const char *text)
{
    const char *at = strstr(text, ":/");
    return at && at[2] ? at : NULL;
}

kvt_code source_open(source **out, const char *folder, const char *text, kvt_err *err)
{
    *out = NULL;
    source *s = kvt_alloc(1, sizeof *s);
    if (!s)
        return kvt_fail_memory(err, sizeof *s);
    s->file = s->set = -1;
    const char *colon = inside(text);
    char name[1024];
    size_t n = colon ? (size_t)(colon - text) : strlen(text);
    kvt_code code = KVT_OK;
    if (n >= sizeof name || (colon && strlen(colon) - 2 >= sizeof s->inside)) {
        code = kvt_fail(err, KVT_USAGE, "a name of %zu bytes", strlen(text));
        goto out;
    }
    snprintf(name, sizeof name, "%.*s", (int)n, text);
    if (name[0] == '/')
        memcpy(s->path, name, n + 1);
    else if ((code = file_join(s->path, sizeof s->path, folder, name, err)))
        goto out;
    if (!colon) {
        if (!(code = npy_open(&s->array, s->path, err))) {
            s->dtype = s->array.dtype;
            s->rank = s->array.rank;
            memcpy(s->dim, s->array.dim, sizeof s->dim);
        }
        goto out;
    }
    snprintf(s->inside, sizeof s->inside, "%s", colon + 2);
    if (!(code = io_hold(err))) {
        s->held = true;
        if ((code = io_do(open_job, s, err)))
            kvt_within(err, "'%s:/%s'", s->path, s->inside);
    }
out:
    if (code)
        source_close(s);
    else
        *out = s;
    return code;
}

void source_close(source *s)
{
    kvt_err ignored;
    if (!s)
        return;
    if (s->held) {
        if (io_do(close_job, s, &ignored))
            s->file = -1;
        io_release();
    }
    npy_close(&s->array);
    kvt_free(s);
}

int source_shape(const source *s, kvt_dtype *dtype, int64_t dim[KVT_RANK_MAX])
{
    *dtype = s->dtype;
    memcpy(dim, s->dim, sizeof s->dim);
    return s->rank;
}

/* ---- values --------------------------------------------------------------------------------
 */

typedef struct piece {
    source *s;
    int64_t index;
    bool by_part;
    void *out;
} piece;

static kvt_code read_job(void *arg, kvt_err *err)
{
    piece *p = arg;
    /* By its axes a dataset with layers is read by layer, any other whole. */
    const kvt_dataset d = {
        .path = p->s->inside, .dtype = p->s->dtype, .axes = p->by_part ? "LQQQQ" : "QQQQQ"};
    return layout_read(p->s->set, &d, p->s->rank, p->s->dim, (int)p->index, p->out, err);
}

static double real_at(const void *x, kvt_dtype dtype, int64_t i)
{
    switch (dtype) {
    case KVT_F16: return (double)half_to_float(((const uint16_t *)x)[i]);
    case KVT_F32: return (double)((const float *)x)[i];
    case KVT_F64: return ((const double *)x)[i];
    default: return NAN;
    }
}

static int64_t whole_at(const void *x, kvt_dtype dtype, int64_t i)
{
    switch (dtype) {
    case KVT_I32: return ((const int32_t *)x)[i];
    case KVT_I64: return ((const int64_t *)x)[i];
    default: return ((const uint8_t *)x)[i];
    }
}

static bool is_real(kvt_dtype t)
{
    return t == KVT_F16 || t == KVT_F32 || t == KVT_F64;
}

/* Reals to reals, whole numbers to whole numbers: nothing is made up in between. */
static kvt_code convert(void *out, kvt_dtype to, const void *in, kvt_dtype from, int64_t n,
                        kvt_err *err)
{
    if (is_real(from) != is_real(to))
        return kvt_fail(err, KVT_FORMAT, "expected %s, got %s", kvt_dtype_name(to),
                        kvt_dtype_name(from));
    for (int64_t i = 0; i < n && is_real(to); i++) {
        float f = (float)real_at(in, from, i);
        if (to == KVT_F16)
            ((uint16_t *)out)[i] = half_from_float(f);
        else
            ((float *)out)[i] = f;
    }
    const int64_t lo = to == KVT_I32 ? INT32_MIN : to == KVT_I64 ? INT64_MIN : 0;
    const int64_t hi = to == KVT_I32 ? INT32_MAX : to == KVT_I64 ? INT64_MAX : 255;
    for (int64_t i = 0; i < n && !is_real(to); i++) {
        int64_t x = whole_at(in, from, i);
        if (x < lo || x > hi)
            return kvt_fail(err, KVT_FORMAT, "element %lld: %lld is out of the range of %s",
                            (long long)i, (long long)x, kvt_dtype_name(to));
        if (to == KVT_I32)
            ((int32_t *)out)[i] = (int32_t)x;
        else if (to == KVT_I64)
            ((int64_t *)out)[i] = x;
        else
            ((uint8_t *)out)[i] = (uint8_t)x;
    }
    return KVT_OK;
}

kvt_code source_read(source *s, void *out, kvt_dtype dtype, bool by_part, int64_t index,
                     int64_t count, kvt_err *err)
{
    size_t size = kvt_dtype_size(s->dtype);
    char *own = NULL;
    const char *data = s->array.data;
    kvt_code code = KVT_OK;
    if (data && by_part)
        data += (size_t)index * (size_t)count * size;
    if (s->set >= 0) {
        if (!(own = kvt_alloc(count, size)))
            return kvt_fail_memory(err, (size_t)count * size);
        piece p = {.s = s, .index = index, .by_part = by_part, .out = own};
        code = io_do(read_job, &p, err);
        data = own;
    }
    if (!code && s->dtype == dtype)
        memcpy(out, data, (size_t)count * size);
    else if (!code)
        code = convert(out, dtype, data, s->dtype, count, err);
    kvt_free(own);
    return code ? kvt_within(err, "'%s'", s->path) : KVT_OK;
}
