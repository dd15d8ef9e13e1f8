/* scorer_read.c - opening a scorer file: read whole, every rule checked.
 *
 * Sizes are checked against the file before anything is allocated; objects are reached over
 * hard links only, at most a few groups deep. */
#include "traces/scorer_priv.h"

#include "base/digest.h"
#include "base/file.h"
#include "base/half.h"
#include "traces/h5.h"
#include "traces/io.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/arena.h"

enum { DEPTH_MAX = 4, LINKS_MAX = 1024 };

typedef struct reader {
    kvt_scorer *s;
    const char *path;
    hid_t file;
    int64_t bytes; /* of the file */
    trace_extents extent;
    int n_link;
    char sum[SCORER_TENSORS_MAX][KVT_DIGEST_TEXT];
} reader;

/* ---- root ----------------------------------------------------------------------------------
 */

static kvt_code check_root(reader *r, kvt_err *err)
{
    char format[32];
    int32_t version[2] = {0, 0};
    int64_t n, complete = 0;
    kvt_code code = h5_get_text(r->file, "format", format, sizeof format, err);
    if (code || strcmp(format, "kvt-scorer") != 0)
        return kvt_fail(err, KVT_FORMAT,
                        "is no scorer file: expected format 'kvt-scorer', got %s%s%s",
                        code ? "none" : "'", code ? "" : format, code ? "" : "'");
    if (h5_get_array(r->file, "version", H5T_NATIVE_INT32, 2, &n, version, err))
        return err->code;
    if (n != 2 || version[0] < 1 || version[1] < 0)
        return kvt_fail(err, KVT_FORMAT, "attribute 'version': expected two numbers, from 1.0");
    if (version[0] > SCORER_MAJOR)
        return kvt_fail(
            err, KVT_FORMAT,
            "has format %d.%d, this program reads up to %d.x: a newer kvt is needed",
            version[0], version[1], SCORER_MAJOR);
    if (h5_get_int(r->file, "complete", &complete, err) || complete != 1)
        return kvt_fail(err, KVT_FORMAT, "is not complete: its writer did not finish");
    return h5_get_text(r->file, "digest", r->s->info.digest, KVT_DIGEST_TEXT, err);
}

static kvt_code get_facts(reader *r, kvt_err *err)
{
    int n;
    const scorer_fact *fact = scorer_facts(&n);
    for (int i = 0; i < n; i++) {
        char *to = (char *)&r->s->info + fact[i].offset;
        int64_t x = 0;
        kvt_code code = fact[i].kind == ATTR_TEXT
                            ? h5_get_text(r->file, fact[i].name, to, fact[i].width, err)
                            : h5_get_int(r->file, fact[i].name, &x, err);
        if (!code && fact[i].kind == ATTR_INT)
            memcpy(to, &x, sizeof x);
        if (code && !(code == KVT_NOTFOUND && fact[i].run))
            return code;
    }
    return KVT_OK;
}

/* Rank and extents of a dataset; -1 where there are more axes than KVT_RANK_MAX. */
static int shape_of(hid_t set, int64_t dim[KVT_RANK_MAX])
{
    hsize_t size[H5S_MAX_RANK] = {0};
    hid_t space = H5Dget_space(set);
    int rank = space < 0 ? -1 : H5Sget_simple_extent_ndims(space);
    bool null = space >= 0 && H5Sget_simple_extent_type(space) == H5S_NULL;
    if (rank > KVT_RANK_MAX || null)
        rank = -1;
    if (rank > 0)
        H5Sget_simple_extent_dims(space, size, NULL);
    for (int i = 0; i < rank; i++)
        dim[i] = size[i] > INT32_MAX ? -1 : (int64_t)size[i];
    if (space >= 0)
        H5Sclose(space);
    return rank;
}

static int dtype_of(hid_t set)
{
    hid_t type = H5Dget_type(set);
    int dtype = type < 0 ? -1 : h5_dtype(type);
    if (type >= 0)
        H5Tclose(type);
    return dtype;
}

static kvt_code get_layers(reader *r, kvt_err *err)
{
    kvt_scorer_info *info = &r->s->info;
    int64_t dim[KVT_RANK_MAX] = {0};
    hid_t set, type = -1;
    kvt_code code = h5_set_open(&set, r->file, "layer/id", err);
    if (code)
        return code;
    if (dtype_of(set) != KVT_I32 || shape_of(set, dim) != 1 || dim[0] < 1 ||
        dim[0] > KVT_LAYERS_MAX)
        code =
            kvt_fail(err, KVT_FORMAT, "layer/id: expected i32 [L], at most %d", KVT_LAYERS_MAX);
    if (!code)
        code = h5_chunks_check(set, 0, dim[0], r->bytes, err);
    if (!code && (type = h5_type(KVT_I32)) < 0)
        code = h5_fail(err, KVT_FORMAT, "layer/id");
    if (!code)
        code = h5_set_read(info->layer_id, set, type, err);
    info->n_layer = (int)dim[0];
    if (type >= 0)
        H5Tclose(type);
    H5Dclose(set);
    return code;
}

/* ---- one tensor ----------------------------------------------------------------------------
 */

/* That the bytes lie in the file: contiguous as they are, deflated at most 1 : 1032. */
static kvt_code check_storage(const reader *r, hid_t set, int64_t bytes, kvt_err *err)
{
    hid_t list = H5Dget_create_plist(set);
    H5D_layout_t layout = list < 0 ? H5D_LAYOUT_ERROR : H5Pget_layout(list);
    if (list >= 0)
        H5Pclose(list);
    if (layout == H5D_LAYOUT_ERROR)
        return h5_fail(err, KVT_FORMAT, "layout");
    haddr_t at = layout == H5D_CONTIGUOUS ? H5Dget_offset(set) : 0;
    bool outside = at == HADDR_UNDEF || (int64_t)at < 0 || (int64_t)at > r->bytes - bytes;
    if ((layout == H5D_CONTIGUOUS && outside) || bytes / 1100 > r->bytes)
        return kvt_fail(err, KVT_FORMAT, "its %lld bytes do not lie in the file",
                        (long long)bytes);
    return KVT_OK;
}

/* Bytes as stored, their checksum compared, and as floats. */
static kvt_code get_values(reader *r, hid_t set, kvt_dtype dtype, int64_t n, int64_t outer,
                           float **out, char sum[KVT_DIGEST_TEXT], kvt_err *err)
{
    size_t bytes = (size_t)n * kvt_dtype_size(dtype);
    uint64_t want = 0;
    int64_t n_sum = 0;
    float *x = kvt_alloc(n, sizeof *x);
    void *stored = dtype == KVT_F32 ? x : kvt_alloc(n, kvt_dtype_size(dtype));
    hid_t type = h5_type(dtype);
    kvt_code code = KVT_OK;
    if (!x || !stored)
        code = kvt_fail_memory(err, bytes);
    else if (type < 0)
        code = h5_fail(err, KVT_FORMAT, "type");
    if (!code &&
        !(code = h5_get_array(set, "xxh64", H5T_NATIVE_UINT64, 1, &n_sum, &want, err)) &&
        !(code = h5_chunks_check(set, 0, outer, r->bytes, err)) &&
        !(code = h5_set_read(stored, set, type, err)) &&
        (n_sum != 1 || digest_64(stored, bytes) != want))
        code = kvt_fail(err, KVT_FORMAT, "wrong checksum: the file was changed or damaged");
    if (!code) {
        digest_of(stored, bytes, sum);
        if (dtype == KVT_F16)
            half_to_floats(x, stored, n);
    }
    if (type >= 0)
        H5Tclose(type);
    if (stored != x)
        kvt_free(stored);
    if (code)
        kvt_free(x);
    else
        *out = x;
    return code;
}

static kvt_code get_tensor(reader *r, hid_t set, const char *name, kvt_err *err)
{
    kvt_scorer *s = r->s;
    int64_t dim[KVT_RANK_MAX] = {0}, n = 1;
    char axes[KVT_RANK_MAX + 1];
    if (s->n == SCORER_TENSORS_MAX)
        return kvt_fail(err, KVT_FORMAT, "more than %d tensors", SCORER_TENSORS_MAX);
    kvt_scorer_tensor *t = &s->tensor[s->n];
    int rank = shape_of(set, dim), dtype = dtype_of(set);
    if (dtype != KVT_F32 && dtype != KVT_F16)
        return kvt_fail(err, KVT_FORMAT, "%s: expected type f32 or f16", name);
    if (h5_get_text(set, "axes", axes, sizeof axes, err) ||
        h5_get_text(set, "help", t->help, sizeof t->help, err))
        return kvt_within(err, "%s", name);
    if (scorer_check_shape(&r->extent, name, axes, rank, dim, err))
        return err->code;
    for (int i = 0; i < rank; i++)
        n *= dim[i];
    float *x = NULL;
    if (check_storage(r, set, n * (int64_t)kvt_dtype_size((kvt_dtype)dtype), err) ||
        get_values(r, set, (kvt_dtype)dtype, n, rank ? dim[0] : 1, &x, r->sum[s->n], err))
        return kvt_within(err, "%s", name);
    snprintf(t->name, sizeof t->name, "%s", name);
    t->half = dtype == KVT_F16;
    t->view = kvt_view_of(x, KVT_F32, axes, (size_t)rank, dim);
    s->n++;
    return scorer_check_values(name, x, n, err);
}

/* ---- all of them ---------------------------------------------------------------------------
 */

static kvt_code walk(reader *r, hid_t group, const char *prefix, int depth, kvt_err *err);

static kvt_code visit(reader *r, const char *name, int depth, kvt_err *err)
{
    kvt_code code = KVT_OK;
    if (h5_has(r->file, name) != 1) /* a link that leaves the file, or dangles */
        return kvt_fail(err, KVT_FORMAT, "%s: is no object of this file", name);
    hid_t object = H5Oopen(r->file, name, H5P_DEFAULT), set;
    if (object < 0)
        return h5_fail(err, KVT_FORMAT, name);
    H5I_type_t kind = H5Iget_type(object);
    if (kind == H5I_GROUP && depth < DEPTH_MAX)
        code = walk(r, object, name, depth + 1, err);
    else if (kind == H5I_GROUP)
        code = kvt_fail(err, KVT_FORMAT, "%s: groups lie too deep", name);
    H5Oclose(object);
    if (kind != H5I_DATASET || strcmp(name, "layer/id") == 0)
        return code;
    if (h5_set_open(&set, r->file, name, err))
        return err->code;
    code = get_tensor(r, set, name, err);
    H5Dclose(set);
    return code;
}

/* In byte order of the names within each group. */
static kvt_code walk(reader *r, hid_t group, const char *prefix, int depth, kvt_err *err)
{
    H5G_info_t info;
    if (H5Gget_info(group, &info) < 0)
        return h5_fail(err, KVT_FORMAT, "group");
    for (hsize_t i = 0; i < info.nlinks; i++) {
        char part[64], name[64];
        ssize_t n = H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, i, part,
                                       sizeof part, H5P_DEFAULT);
        if (++r->n_link > LINKS_MAX)
            return kvt_fail(err, KVT_FORMAT, "more than %d objects", LINKS_MAX);
        if (n <= 0 || n >= (ssize_t)sizeof part ||
            (size_t)snprintf(name, sizeof name, "%s%s%s", prefix, *prefix ? "/" : "", part) >=
                sizeof name)
            return h5_fail(err, KVT_FORMAT, "the name of an object");
        if (visit(r, name, depth, err))
            return err->code;
    }
    return KVT_OK;
}

/* By name, so that the digest does not depend on how the file was made: the order within groups
 * is not that of the whole names ("a-b" stands in front of "a/c"). */
static void sort(reader *r)
{
    kvt_scorer_tensor *t = r->s->tensor;
    for (int i = 1; i < r->s->n; i++)
        for (int k = i; k > 0 && strcmp(t[k - 1].name, t[k].name) > 0; k--) {
            kvt_scorer_tensor x = t[k];
            char sum[KVT_DIGEST_TEXT];
            memcpy(sum, r->sum[k], sizeof sum);
            t[k] = t[k - 1];
            t[k - 1] = x;
            memcpy(r->sum[k], r->sum[k - 1], sizeof sum);
            memcpy(r->sum[k - 1], sum, sizeof sum);
        }
}

static kvt_code read_all(reader *r, kvt_err *err)
{
    kvt_scorer_info *info = &r->s->info;
    char sum[KVT_DIGEST_TEXT];
    if (check_root(r, err) || get_facts(r, err) || get_layers(r, err) ||
        scorer_check_info(info, err))
        return err->code;
    scorer_extents(&r->extent, info);
    hid_t root = H5Gopen2(r->file, "/", H5P_DEFAULT);
    kvt_code code = root < 0 ? h5_fail(err, KVT_FORMAT, "root") : walk(r, root, "", 0, err);
    if (root >= 0)
        H5Gclose(root);
    if (!code && r->s->n == 0)
        code = kvt_fail(err, KVT_FORMAT, "has no tensor");
    if (code)
        return code;
    sort(r);
    if (scorer_digest(sum, info, r->s->tensor, r->sum, r->s->n, err))
        return err->code;
    if (strcmp(sum, info->digest) != 0)
        return kvt_fail(err, KVT_FORMAT, "digest: expected %s of the content, got %s", sum,
                        info->digest);
    return KVT_OK;
}

static kvt_code open_job(void *arg, kvt_err *err)
{
    reader *r = arg;
    if (h5_file_open(&r->file, r->path, err))
        return err->code;
    r->bytes = file_size(r->path);
    kvt_code code = read_all(r, err);
    h5_file_drop(r->file);
    /* What a file lacks inside is a fault of the file: NOTFOUND is for the file itself. */
    return code == KVT_NOTFOUND ? (err->code = KVT_FORMAT) : code;
}

kvt_code kvt_scorer_open(kvt_scorer **out, const char *path, kvt_err *err)
{
    *out = NULL;
    kvt_scorer *s = kvt_alloc(1, sizeof *s);
    reader *r = kvt_alloc(1, sizeof *r);
    kvt_code code = s && r ? KVT_OK : kvt_fail_memory(err, sizeof *s + sizeof *r);
    if (!code &&
        (size_t)snprintf(s->info.path, sizeof s->info.path, "%s", path) >= sizeof s->info.path)
        code =
            kvt_fail(err, KVT_USAGE, "a path of more than %zu bytes", sizeof s->info.path - 1);
    if (!code) {
        *r = (reader){.s = s, .path = path, .file = -1};
        code = io_once(open_job, r, err);
    }
    kvt_free(r);
    if (code) {
        kvt_scorer_close(s);
        return kvt_within(err, "'%s'", path);
    }
    *out = s;
    return KVT_OK;
}

void kvt_scorer_close(kvt_scorer *s)
{
    if (!s)
        return;
    for (int i = 0; i < SCORER_TENSORS_MAX; i++)
        kvt_free((void *)(uintptr_t)s->tensor[i].view.data);
    kvt_free(s);
}

static kvt_code is_job(void *arg, kvt_err *err)
{
    hid_t file;
    char format[32];
    if (h5_file_open(&file, arg, err))
        return err->code;
    kvt_code code = h5_get_text(file, "format", format, sizeof format, err);
    h5_file_drop(file);
    if (!code && strcmp(format, "kvt-scorer") != 0)
        code = kvt_fail(err, KVT_NO, "another format");
    return code;
}

bool kvt_is_scorer(const char *path)
{
    kvt_err err;
    char copy[1024]; /* a job's argument is not const */
    return (size_t)snprintf(copy, sizeof copy, "%s", path) < sizeof copy &&
           io_once(is_job, copy, &err) == KVT_OK;
}
