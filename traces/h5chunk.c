/* h5chunk.c - chunks of a dataset, looked at before HDF5's filters see them. */
#include "traces/h5.h"

#include "kvt/arena.h"

typedef struct layout {
    int rank;
    hsize_t dim[H5S_MAX_RANK], chunk[H5S_MAX_RANK];
    hsize_t bytes; /* of a chunk, unpacked */
    bool chunked;
} layout;

static kvt_code get_layout(layout *out, hid_t set, kvt_err *err)
{
    kvt_code code = KVT_OK;
    hid_t list = H5Dget_create_plist(set), space = H5Dget_space(set), type = H5Dget_type(set);
    *out = (layout){0};
    if (list < 0 || space < 0 || type < 0) {
        code = h5_fail(err, KVT_FORMAT, "layout");
        goto out;
    }
    out->rank = H5Sget_simple_extent_ndims(space);
    out->chunked = H5Pget_layout(list) == H5D_CHUNKED && out->rank > 0;
    if (!out->chunked)
        goto out;
    H5Sget_simple_extent_dims(space, out->dim, NULL);
    if (H5Pget_chunk(list, out->rank, out->chunk) != out->rank)
        code = h5_fail(err, KVT_FORMAT, "layout");
    out->bytes = H5Tget_size(type);
    for (int i = 0; i < out->rank && !code; i++)
        if (out->chunk[i] == 0 ||
            __builtin_mul_overflow(out->bytes, out->chunk[i], &out->bytes) ||
            out->bytes > UINT32_MAX)
            code = kvt_fail(err, KVT_FORMAT, "a chunk of 4 GiB or more");
out:
    if (type >= 0)
        H5Tclose(type);
    if (space >= 0)
        H5Sclose(space);
    if (list >= 0)
        H5Pclose(list);
    return code;
}

/* Looked up as H5Dread() does, by coordinates in the tree: a damaged index may hold one twice.
 */
static kvt_code check_chunk(hid_t set, const layout *l, const hsize_t *from, int64_t file_bytes,
                            kvt_err *err)
{
    hsize_t size = 0, most = l->bytes + l->bytes / 100 + 1024; /* what deflate may add */
    uint32_t mask = 0;
    if (H5Dget_chunk_storage_size(set, from, &size) < 0)
        return h5_fail(err, KVT_FORMAT, "a chunk is missing");
    if (size < 8 || size > most || size > (hsize_t)file_bytes)
        return kvt_fail(err, KVT_FORMAT, "a chunk of %llu bytes", (unsigned long long)size);
    void *raw = kvt_alloc((int64_t)size, 1);
    if (!raw)
        return kvt_fail_memory(err, (size_t)size);
    kvt_code code = KVT_OK;
    if (H5Dread_chunk(set, H5P_DEFAULT, from, &mask, raw) < 0)
        code = h5_fail(err, KVT_FORMAT, "a chunk cannot be read");
    else if (mask != 0)
        code = kvt_fail(err, KVT_FORMAT, "a chunk that went through no filter");
    kvt_free(raw);
    return code;
}

kvt_code h5_chunks_check(hid_t set, int64_t lo, int64_t hi, int64_t file_bytes, kvt_err *err)
{
    layout l;
    hsize_t at[H5S_MAX_RANK] = {0};
    if (get_layout(&l, set, err))
        return err->code;
    for (int i = 0; i < l.rank && l.chunked; i++)
        if (l.dim[i] == 0)
            return KVT_OK;
    if (!l.chunked || lo >= hi)
        return KVT_OK;
    at[0] = (hsize_t)lo - (hsize_t)lo % l.chunk[0];
    for (int i = 0; i < l.rank;) {
        if (check_chunk(set, &l, at, file_bytes, err))
            return err->code;
        for (i = 0; i < l.rank; i++) {
            at[i] += l.chunk[i];
            if (at[i] < (i == 0 ? (hsize_t)hi : l.dim[i]))
                break;
            at[i] = i == 0 ? (hsize_t)lo - (hsize_t)lo % l.chunk[0] : 0;
        }
    }
    return KVT_OK;
}
