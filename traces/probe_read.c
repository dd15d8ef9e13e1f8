/* probe_read.c - the probes of an open trace: groups /probe/NAME with queries, keys and sums of
 * extra tokens that ran on the stored prompt. They are not part of the content digest: one may
 * be added. */
#include "traces/probe_priv.h"

#include "base/digest.h"
#include "base/half.h"
#include "traces/io.h"
#include "traces/layout.h"
#include "traces/trace_priv.h"

#include <stdio.h>
#include <string.h>

#include "kvt/arena.h"

/* ---- opening -------------------------------------------------------------------------------
 */

static kvt_code read_attrs(hid_t group, kvt_probe_info *p, kvt_err *err)
{
    char kind[32];
    int64_t n_segment, n_keep;
    if (h5_get_text(group, "kind", kind, sizeof kind, err) ||
        h5_get_text(group, "args", p->args, sizeof p->args, err) ||
        h5_get_text(group, "source_digest", p->source_digest, sizeof p->source_digest, err) ||
        h5_get_text(group, "digest", p->digest, sizeof p->digest, err) ||
        h5_get_int(group, "budget", &p->budget, err) ||
        h5_get_int(group, "n_row", &p->n_row, err) ||
        h5_get_int(group, "n_segment", &n_segment, err) ||
        h5_get_int(group, "n_keep", &n_keep, err))
        return err->code;
    int found = kvt_probe_kind_find(kind);
    if (found < 0)
        return kvt_fail(err, KVT_FORMAT, "'%s' is no kind of probe", kind);
    if (n_segment < 1 || n_segment > INT32_MAX || n_keep < 0 || n_keep > INT32_MAX)
        return kvt_fail(err, KVT_FORMAT, "%lld segments, n_keep %lld", (long long)n_segment,
                        (long long)n_keep);
    if (p->n_row < 1)
        return kvt_fail(err, KVT_FORMAT, "n_row: expected 1 or more, got %lld",
                        (long long)p->n_row);
    p->kind = (kvt_probe_kind)found;
    p->n_segment = (int)n_segment;
    p->n_keep = (int)n_keep;
    return KVT_OK;
}

/* Type and extents of an open dataset, as they are known from the attributes. */
static bool shape_fits(hid_t set, const kvt_dataset *d, int rank, const int64_t *dim)
{
    hsize_t size[H5S_MAX_RANK];
    hid_t type = H5Dget_type(set), space = H5Dget_space(set);
    bool fits = type >= 0 && space >= 0 && h5_dtype(type) == (int)d->dtype &&
                H5Sget_simple_extent_ndims(space) == rank &&
                H5Sget_simple_extent_dims(space, size, NULL) == rank;
    for (int i = 0; i < rank && fits; i++)
        fits = (int64_t)size[i] == dim[i];
    if (space >= 0)
        H5Sclose(space);
    if (type >= 0)
        H5Tclose(type);
    return fits;
}

/* That its bytes lie in the file, before anything of its size is allocated. */
static kvt_code check_storage(hid_t set, trace_set *s, int64_t width, int64_t file_bytes,
                              kvt_err *err)
{
    hid_t list = H5Dget_create_plist(set);
    H5D_layout_t layout = list < 0 ? H5D_LAYOUT_ERROR : H5Pget_layout(list);
    int64_t total = s->n_element * s->n_slab * width;
    if (list >= 0)
        H5Pclose(list);
    s->chunked = layout == H5D_CHUNKED;
    if (layout == H5D_LAYOUT_ERROR)
        return h5_fail(err, KVT_FORMAT, "layout");
    haddr_t at = layout == H5D_CONTIGUOUS ? H5Dget_offset(set) : 0;
    bool outside = at == HADDR_UNDEF || (int64_t)at < 0 || (int64_t)at > file_bytes - total;
    if (layout == H5D_CONTIGUOUS && outside)
        return kvt_fail(err, KVT_FORMAT, "its %lld bytes do not lie in the file",
                        (long long)total);
    if (total / 1100 > file_bytes) /* deflate packs at most 1 : 1032 */
        return kvt_fail(err, KVT_FORMAT, "claims %lld bytes in a file of %lld",
                        (long long)total, (long long)file_bytes);
    return KVT_OK;
}

static kvt_code check_attrs(hid_t set, trace_set *s, const kvt_dataset *d, kvt_err *err)
{
    char axes[16];
    int64_t n;
    if (h5_get_text(set, "axes", axes, sizeof axes, err))
        return err->code;
    if (strcmp(axes, d->axes) != 0)
        return kvt_fail(err, KVT_FORMAT, "expected axes %s, got %s", d->axes, axes);
    if (!(s->sum = kvt_alloc(s->n_slab, sizeof *s->sum)))
        return kvt_fail_memory(err, (size_t)s->n_slab * sizeof *s->sum);
    if (h5_get_array(set, "xxh64", H5T_NATIVE_UINT64, s->n_slab, &n, s->sum, err))
        return err->code;
    if (n != s->n_slab)
        return kvt_fail(err, KVT_FORMAT, "attribute 'xxh64': expected [%lld], got [%lld]",
                        (long long)s->n_slab, (long long)n);
    return KVT_OK;
}

static kvt_code check_set(kvt_trace *t, hid_t set, const kvt_probe_info *p, kvt_probe_set i,
                          trace_set *s, kvt_err *err)
{
    const kvt_dataset *d = probe_dataset_of(i);
    s->rank = probe_dims(&t->info.facts, t->info.n_layer, p, i, s->dim);
    s->n_slab = probe_has_layers(i) ? s->dim[0] : 1;
    s->n_element = probe_slab(i, s->rank, s->dim);
    if (s->n_element < 0 || !shape_fits(set, d, s->rank, s->dim)) {
        kvt_view v = kvt_view_of(NULL, d->dtype, d->axes, (size_t)s->rank, s->dim);
        char text[128];
        return kvt_fail(err, KVT_FORMAT, "expected %s", kvt_view_print(&v, text, sizeof text));
    }
    if (check_storage(set, s, (int64_t)kvt_dtype_size(d->dtype), t->info.file_bytes, err))
        return err->code;
    return check_attrs(set, s, d, err);
}

static kvt_code read_one(kvt_trace *t, hid_t group, int index, kvt_err *err)
{
    kvt_probe_info *p = &t->probe[index];
    if (read_attrs(group, p, err))
        return err->code;
    for (int i = 0; i < KVT_PROBE_SETS; i++) {
        const kvt_dataset *d = probe_dataset_of((kvt_probe_set)i);
        hid_t set;
        kvt_code code = h5_set_open(&set, group, d->path, err);
        if (code == KVT_NOTFOUND)
            continue;
        if (code)
            return kvt_within(err, "%s", d->path);
        code = check_set(t, set, p, (kvt_probe_set)i, &t->probe_set[index][i], err);
        H5Dclose(set);
        if (code)
            return kvt_within(err, "%s", d->path);
        p->has[i] = true;
    }
    return probe_check(&t->info.facts, p, err);
}

kvt_code probes_read(kvt_trace *t, kvt_err *err)
{
    int has = h5_has(t->file, "probe");
    if (has < 0)
        return h5_fail(err, KVT_FORMAT, "/probe");
    if (!has)
        return KVT_OK;
    hid_t at = H5Gopen2(t->file, "probe", H5P_DEFAULT);
    H5G_info_t info;
    kvt_code code = KVT_OK;
    if (at < 0 || H5Gget_info(at, &info) < 0) {
        code = h5_fail(err, KVT_FORMAT, "/probe");
        goto out;
    }
    if (info.nlinks > TRACE_PROBES_MAX) {
        code = kvt_fail(err, KVT_FORMAT, "/probe: expected at most %d probes, got %llu",
                        TRACE_PROBES_MAX, (unsigned long long)info.nlinks);
        goto out;
    }
    for (hsize_t i = 0; i < info.nlinks && !code; i++) {
        kvt_probe_info *p = &t->probe[t->n_probe];
        ssize_t n = H5Lget_name_by_idx(at, ".", H5_INDEX_NAME, H5_ITER_INC, i, p->name,
                                       sizeof p->name, H5P_DEFAULT);
        hid_t group = -1;
        if (n >= (ssize_t)sizeof p->name)
            code =
                kvt_fail(err, KVT_FORMAT, "/probe/%.40s...: a name of %zd bytes, at most %zu",
                         p->name, n, sizeof p->name - 1);
        else if (n <= 0 || h5_has(at, p->name) <= 0 ||
                 (group = H5Gopen2(at, p->name, H5P_DEFAULT)) < 0)
            code = h5_fail(err, KVT_FORMAT, "/probe");
        else if (read_one(t, group, t->n_probe, err))
            code = kvt_within(err, "/probe/%s", p->name);
        else
            t->n_probe++;
        if (group >= 0)
            H5Gclose(group);
    }
out:
    if (at >= 0)
        H5Gclose(at);
    return code;
}

static kvt_code check_index(kvt_trace *t, int probe, kvt_err *err)
{
    const kvt_probe_info *p = &t->probe[probe];
    int32_t *value[KVT_PROBE_SETS] = {NULL};
    kvt_code code = KVT_OK;
    for (int i = 0; i < KVT_PROBE_SETS && !code; i++) {
        if (!p->has[i] || !probe_is_index((kvt_probe_set)i))
            continue;
        value[i] = kvt_alloc(t->probe_set[probe][i].n_element, sizeof *value[i]);
        code = value[i] ? probe_load(t, probe, (kvt_probe_set)i, 0, value[i], err)
                        : kvt_fail_memory(err, 4096);
    }
    if (!code)
        code = probe_check_index(&t->info.facts, p, (const int32_t *const *)value, err);
    for (int i = 0; i < KVT_PROBE_SETS; i++)
        kvt_free(value[i]);
    return code ? kvt_within(err, "/probe/%s", p->name) : KVT_OK;
}

kvt_code probes_check_index(kvt_trace *t, kvt_err *err)
{
    for (int i = 0; i < t->n_probe; i++)
        if (check_index(t, i, err))
            return err->code;
    return KVT_OK;
}

/* ---- reading -------------------------------------------------------------------------------
 */

int kvt_trace_probe_count(const kvt_trace *t)
{
    return t->n_probe;
}

const kvt_probe_info *kvt_trace_probe_info(const kvt_trace *t, int i)
{
    return i >= 0 && i < t->n_probe ? &t->probe[i] : NULL;
}

int kvt_trace_probe_find(const kvt_trace *t, const char *name)
{
    for (int i = 0; i < t->n_probe; i++)
        if (strcmp(t->probe[i].name, name) == 0)
            return i;
    return -1;
}

typedef struct load {
    kvt_trace *t;
    int probe, layer;
    kvt_probe_set set;
    void *bytes;
} load;

static kvt_code load_job(void *arg, kvt_err *err)
{
    load *l = arg;
    const trace_set *s = &l->t->probe_set[l->probe][l->set];
    const kvt_dataset *d = probe_dataset_of(l->set);
    char path[160];
    hid_t set;
    snprintf(path, sizeof path, "probe/%s/%s", l->t->probe[l->probe].name, d->path);
    kvt_code code = h5_set_open(&set, l->t->file, path, err);
    if (code)
        return code;
    bool layers = probe_has_layers(l->set);
    int64_t lo = layers ? l->layer : 0, hi = layers ? l->layer + 1 : s->dim[0];
    if (s->chunked)
        code = h5_chunks_check(set, lo, hi, l->t->info.file_bytes, err);
    if (!code)
        code = layout_read(set, d, s->rank, s->dim, l->layer, l->bytes, err);
    H5Dclose(set);
    return code;
}

kvt_code probe_load(kvt_trace *t, int probe, kvt_probe_set set, int layer, void *bytes,
                    kvt_err *err)
{
    const trace_set *s = &t->probe_set[probe][set];
    const kvt_dataset *d = probe_dataset_of(set);
    load l = {.t = t, .probe = probe, .layer = layer, .set = set, .bytes = bytes};
    kvt_code code = io_do(load_job, &l, err);
    if (!code && digest_64(bytes, (size_t)s->n_element * kvt_dtype_size(d->dtype)) !=
                     s->sum[probe_has_layers(set) ? layer : 0])
        code = kvt_fail(err, KVT_FORMAT, "wrong checksum: the file was changed or damaged");
    if (!code)
        return KVT_OK;
    return probe_has_layers(set) ? kvt_within(err, "layer %d of %s", layer, d->path)
                                 : kvt_within(err, "%s", d->path);
}

/* The stored slab as the caller gets it: halves decoded, in memory that is the caller's. */
static kvt_code read_slab(kvt_trace *t, int probe, kvt_probe_set set, int layer, void **out,
                          kvt_err *err)
{
    const trace_set *s = &t->probe_set[probe][set];
    size_t width = kvt_dtype_size(probe_dataset_of(set)->dtype);
    void *bytes = kvt_alloc(s->n_element, width);
    if (!bytes)
        return kvt_fail_memory(err, (size_t)s->n_element * width);
    kvt_code code = probe_load(t, probe, set, layer, bytes, err);
    if (!code && probe_dataset_of(set)->dtype == KVT_F16) {
        float *decoded = kvt_alloc(s->n_element, sizeof *decoded);
        if (decoded)
            half_to_floats(decoded, bytes, s->n_element);
        else
            code = kvt_fail_memory(err, (size_t)s->n_element * sizeof *decoded);
        kvt_free(bytes);
        bytes = decoded;
    }
    if (code)
        kvt_free(bytes);
    else
        *out = bytes;
    return code;
}

kvt_code kvt_trace_read_probe(kvt_trace *t, int probe, kvt_probe_set set, int layer,
                              kvt_view *out, kvt_err *err)
{
    const kvt_probe_info *p = kvt_trace_probe_info(t, probe);
    const kvt_dataset *d = probe_dataset_of(set);
    memset(out, 0, sizeof *out);
    if (!p)
        return kvt_fail(err, KVT_NOTFOUND, "'%s': probe %d of %d", t->info.path, probe,
                        t->n_probe);
    if (!p->has[set])
        return kvt_fail(err, KVT_NOTFOUND, "'%s': probe '%s' (%s) has no %s", t->info.path,
                        p->name, kvt_probe_kind_name(p->kind), d->path);
    const trace_set *s = &t->probe_set[probe][set];
    int layers = probe_has_layers(set);
    if (!layers)
        layer = 0;
    if (layer < 0 || layer >= s->n_slab)
        return kvt_fail(err, KVT_NOTFOUND, "'%s': probe '%s': %s: layer %d of %lld",
                        t->info.path, p->name, d->path, layer, (long long)s->n_slab);
    void *data = NULL;
    if (read_slab(t, probe, set, layer, &data, err))
        return kvt_within(err, "'%s': /probe/%s", t->info.path, p->name);
    *out = kvt_view_of(data, d->dtype == KVT_F16 ? KVT_F32 : d->dtype, d->axes + layers,
                       (size_t)(s->rank - layers), s->dim + layers);
    return KVT_OK;
}
