/* view.c - arrays with named axes: making, checking, printing. */
#include "kvt/view.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
    [KVT_F32] = {"f32", 4}, [KVT_F16] = {"f16", 2}, [KVT_BF16] = {"bf16", 2},
    [KVT_I64] = {"i64", 8}, [KVT_I32] = {"i32", 4}, [KVT_U8] = {"u8", 1},
    [KVT_F64] = {"f64", 8},
};
enum { N_DTYPE = sizeof dtypes / sizeof dtypes[0] };

size_t kvt_dtype_size(kvt_dtype dtype)
{
    return (unsigned)dtype < N_DTYPE ? dtypes[dtype].size : 0;
}

const char *kvt_dtype_name(kvt_dtype dtype)
{
    return (unsigned)dtype < N_DTYPE ? dtypes[dtype].name : "?";
}

kvt_view kvt_view_of(const void *data, kvt_dtype dtype, const char *axes, size_t rank,
                     const int64_t *dim)
{
    assert(rank <= KVT_RANK_MAX && strlen(axes) == rank);
    kvt_view v = {.data = data, .dtype = dtype, .place = KVT_HOST, .rank = (int)rank};
    int64_t stride = 1;
    for (int i = v.rank - 1; i >= 0; i--) {
        v.dim[i] = dim[i];
        v.stride[i] = stride;
        stride *= dim[i];
        v.axes[i] = axes[i];
    }
    return v;
}

/* "f32 [Q=64 T=4096]"; an extent of -1 prints as "any". */
static void print_shape(char *out, size_t cap, kvt_dtype dtype, const char *axes, int rank,
                        const int64_t *dim)
{
    char text[160]; /* 5 axes of at most 23 bytes */
    size_t n = 0;
    for (int i = 0; i < rank; i++) {
        if (dim[i] < 0)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%c=any", i ? " " : "", axes[i]);
        else
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%c=%" PRId64, i ? " " : "",
                                  axes[i], dim[i]);
    }
    text[n] = 0;
    snprintf(out, cap, "%s [%s]", kvt_dtype_name(dtype), text);
}

const char *kvt_view_print(const kvt_view *v, char *out, size_t cap)
{
    print_shape(out, cap, v->dtype, v->axes, v->rank, v->dim);
    return out;
}

kvt_code kvt_view_expect(const kvt_view *v, const char *name, kvt_dtype dtype, const char *axes,
                         size_t rank, const int64_t *dim, kvt_err *err)
{
    assert(rank <= KVT_RANK_MAX && strlen(axes) == rank);
    bool same = v->dtype == dtype && v->rank == (int)rank && !strcmp(v->axes, axes);
    for (int i = 0; same && i < v->rank; i++)
        same = dim[i] < 0 || v->dim[i] == dim[i];
    if (same)
        return KVT_OK;
    char want[192], got[192];
    print_shape(want, sizeof want, dtype, axes, (int)rank, dim);
    kvt_view_print(v, got, sizeof got);
    return kvt_fail(err, KVT_FORMAT, "%s: expected %s, got %s", name, want, got);
}

kvt_view kvt_view_at(const kvt_view *v, int64_t index)
{
    assert(v->rank > 0 && index >= 0 && index < v->dim[0]);
    kvt_view part = {.dtype = v->dtype, .place = v->place, .rank = v->rank - 1};
    if (v->data)
        part.data =
            (const char *)v->data + index * v->stride[0] * (int64_t)kvt_dtype_size(v->dtype);
    for (int i = 0; i < part.rank; i++) {
        part.dim[i] = v->dim[i + 1];
        part.stride[i] = v->stride[i + 1];
        part.axes[i] = v->axes[i + 1];
    }
    return part;
}

int64_t kvt_view_count(const kvt_view *v)
{
    int64_t n = 1;
    for (int i = 0; i < v->rank; i++)
        n *= v->dim[i];
    return n;
}
