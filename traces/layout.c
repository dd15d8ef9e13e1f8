/* layout.c - how a dataset lies in a file: chunks, slabs, dimension scales. */
#include "traces/layout.h"

#include <hdf5_hl.h>
#include <stdio.h>
#include <string.h>

enum { CHUNK_BYTES = 1 << 20, CONTIGUOUS_BYTES = 2048 };

void spec_extents(trace_extents *e, const kvt_writer_spec *spec)
{
    extents_init(e, &spec->facts);
    extents_at(e, 'L') = spec->n_layer;
    extents_at(e, 'Q') = spec->n_query;
    extents_at(e, 'J') = spec->n_block;
    extents_at(e, 'I') = spec->n_block + 1;
    extents_at(e, 'Z') = spec->n_text;
    extents_at(e, 'Y') = spec->n_raw;
}

bool layout_chunk(int64_t chunk[KVT_RANK_MAX], const kvt_dataset *d, int rank,
                  const int64_t *dim)
{
    int64_t bytes = (int64_t)kvt_dtype_size(d->dtype), total = bytes;
    for (int i = 0; i < rank; i++) {
        bool lane = strchr("LHGA", d->axes[i]) && !(rank == 1);
        chunk[i] = lane && dim[i] > 0 ? 1 : dim[i];
        bytes *= chunk[i];
        total *= dim[i];
    }
    if (total < CONTIGUOUS_BYTES)
        return false;
    for (int i = 0; i < rank && bytes > CHUNK_BYTES; i++) {
        int64_t inner = bytes / chunk[i];
        chunk[i] = inner >= CHUNK_BYTES ? 1 : CHUNK_BYTES / inner;
        bytes = inner * chunk[i];
    }
    return true;
}

kvt_code layout_create(hid_t *out, hid_t file, const kvt_dataset *d, int rank,
                       const int64_t *dim, bool compress, kvt_err *err)
{
    int64_t chunk[KVT_RANK_MAX];
    bool chunked = compress && layout_chunk(chunk, d, rank, dim);
    hid_t type = h5_type(d->dtype);
    if (type < 0)
        return h5_fail(err, KVT_IO, d->path);
    kvt_code code =
        h5_set_new(out, file, d->path, type, rank, dim, chunked ? chunk : NULL, err);
    H5Tclose(type);
    if (code || (code = h5_put_text(*out, "axes", d->axes, err)) ||
        (code = h5_put_text(*out, "unit", d->unit, err)) ||
        (code = h5_put_text(*out, "help", d->help, err)))
        return code;
    return KVT_OK;
}

/* Calls H5Dread or H5Dwrite on one slab with the file's own type, so that nothing is converted.
 */
static kvt_code move_slab(hid_t set, const kvt_dataset *d, int rank, const int64_t *dim,
                          int layer, const void *from, void *to, kvt_err *err)
{
    bool layers = d->axes[0] == 'L' && rank > 1;
    hsize_t start[KVT_RANK_MAX] = {0}, count[KVT_RANK_MAX], n = 1;
    for (int i = 0; i < rank; i++)
        count[i] = (hsize_t)dim[i];
    if (layers) {
        start[0] = (hsize_t)layer;
        count[0] = 1;
    }
    for (int i = 0; i < rank; i++)
        n *= count[i];
    if (n == 0)
        return KVT_OK;
    kvt_code code = KVT_OK;
    hid_t type = h5_type(d->dtype), memory = H5Screate_simple(1, &n, NULL);
    hid_t space = H5Dget_space(set);
    if (type < 0 || memory < 0 || space < 0 ||
        H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL) < 0)
        code = h5_fail(err, KVT_IO, "select");
    else if (from && H5Dwrite(set, type, memory, space, H5P_DEFAULT, from) < 0)
        code = h5_fail(err, KVT_IO, "write");
    else if (to && H5Dread(set, type, memory, space, H5P_DEFAULT, to) < 0)
        code = h5_fail(err, KVT_FORMAT, "read");
    if (space >= 0)
        H5Sclose(space);
    if (memory >= 0)
        H5Sclose(memory);
    if (type >= 0)
        H5Tclose(type);
    return code;
}

kvt_code layout_write(hid_t set, const kvt_dataset *d, int rank, const int64_t *dim, int layer,
                      const void *bytes, kvt_err *err)
{
    return move_slab(set, d, rank, dim, layer, bytes, NULL, err);
}

kvt_code layout_read(hid_t set, const kvt_dataset *d, int rank, const int64_t *dim, int layer,
                     void *bytes, kvt_err *err)
{
    return move_slab(set, d, rank, dim, layer, NULL, bytes, err);
}

/* ---- dimension scales ----------------------------------------------------------------------
 */

void scales_init(scales *s)
{
    for (int i = 0; i < 26; i++)
        s->scale[i] = -1;
}

/* A scale without values: nothing is stored but its extent, and netCDF's own words say so. */
static kvt_code make_scale(scales *s, char letter, int64_t n, kvt_err *err)
{
    const trace_axis *a = trace_axis_of(letter);
    char path[48], text[80];
    snprintf(path, sizeof path, "axis_%s", a->name);
    if (h5_has(s->file, path) > 0) /* of a file that is added to */
        return h5_set_open(&s->scale[letter - 'A'], s->file, path, err);
    snprintf(text, sizeof text, "This is a netCDF dimension but not a netCDF variable. %9lld",
             (long long)n);
    hid_t set, type = h5_type(KVT_I32);
    kvt_code code = h5_set_new(&set, s->file, path, type, 1, &n, NULL, err);
    if (type >= 0)
        H5Tclose(type);
    if (code)
        return code;
    s->scale[letter - 'A'] = set;
    if (H5DSset_scale(set, text) < 0)
        return h5_fail(err, KVT_IO, path);
    return h5_put_text(set, "help", a->help, err);
}

kvt_code scales_attach_one(scales *s, hid_t set, unsigned at, char letter, int64_t n,
                           kvt_err *err)
{
    hid_t *scale = &s->scale[letter - 'A'];
    if (*scale < 0 && make_scale(s, letter, n, err))
        return err->code;
    if (H5DSattach_scale(set, *scale, at) < 0 ||
        H5DSset_label(set, at, trace_axis_of(letter)->name) < 0)
        return h5_fail(err, KVT_IO, "dimension scale");
    return KVT_OK;
}

kvt_code scales_attach(scales *s, hid_t set, const char *axes, const int64_t *dim, kvt_err *err)
{
    for (unsigned i = 0; axes[i]; i++)
        if (scales_attach_one(s, set, i, axes[i], dim[i], err))
            return err->code;
    return KVT_OK;
}

kvt_code scales_close(scales *s, kvt_err *err)
{
    kvt_code code = KVT_OK;
    for (int i = 0; i < 26; i++)
        if (s->scale[i] >= 0 && H5Dclose(s->scale[i]) < 0 && !code)
            code = h5_fail(err, KVT_IO, "dimension scale");
    return code;
}
