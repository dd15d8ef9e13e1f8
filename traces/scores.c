/* scores.c - scores that another program computed for one trace, as a file of their own:
 *
 *   1. the root: format "kvt-scores", version, name, trace_digest, digest, complete;
 *   2. score/value f32 [L A N] and, where given, score/pinned u8 [L A N], each with axes, unit,
 *      help, xxh64.
 *
 * The manifest (JSON): "trace" (a trace file, checked against) or "trace_digest", "name", and
 * "datasets" {"score/value": FILE, "score/pinned": FILE}. */
#include "kvt/trace.h"

#include "base/digest.h"
#include "base/file.h"
#include "base/json.h"
#include "base/version.h"
#include "traces/dataset.h"
#include "traces/h5.h"
#include "traces/io.h"
#include "traces/npy.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kvt/arena.h"

enum { SCORES_MAJOR = 1, SCORES_MINOR = 0 };

typedef struct scores_data {
    char name[64], trace_digest[KVT_DIGEST_TEXT];
    int64_t dim[3]; /* L A N */
    float *value;
    uint8_t *pinned; /* NULL: none */
    const char *path;
} scores_data;

static int64_t n_value(const int64_t dim[3])
{
    return dim[0] * dim[1] * dim[2];
}

static void scores_digest(char out[KVT_DIGEST_TEXT], const scores_data *s)
{
    char text[256], a[DIGEST_TEXT], b[DIGEST_TEXT] = "";
    int64_t n = n_value(s->dim);
    digest_of(s->value, (size_t)n * sizeof *s->value, a);
    if (s->pinned)
        digest_of(s->pinned, (size_t)n, b);
    int used = snprintf(text, sizeof text, "kvt-scores 1|%s|%s|%lld %lld %lld|%s|%s", s->name,
                        s->trace_digest, (long long)s->dim[0], (long long)s->dim[1],
                        (long long)s->dim[2], a, b);
    digest_of(text, (size_t)used, out);
}

/* ---- writing -------------------------------------------------------------------------------
 */

static kvt_code put_set(hid_t file, kvt_ds ds, const scores_data *s, const void *data,
                        kvt_err *err)
{
    const kvt_dataset *d = kvt_dataset_of(ds);
    uint64_t sum = digest_64(data, (size_t)n_value(s->dim) * kvt_dtype_size(d->dtype));
    if (h5_set_write(file, d->path, d->dtype, 3, s->dim, data, err))
        return err->code;
    hid_t set = H5Dopen2(file, d->path, H5P_DEFAULT);
    if (set < 0)
        return h5_fail(err, KVT_IO, d->path);
    kvt_code code = h5_put_text(set, "axes", d->axes, err);
    if (!code)
        code = h5_put_text(set, "unit", d->unit, err);
    if (!code)
        code = h5_put_text(set, "help", d->help, err);
    if (!code)
        code = h5_put_array(set, "xxh64", H5T_STD_U64LE, 1, &sum, err);
    H5Dclose(set);
    return code;
}

static kvt_code write_job(void *arg, kvt_err *err)
{
    const scores_data *s = arg;
    const int32_t version[2] = {SCORES_MAJOR, SCORES_MINOR};
    const uint8_t yes = 1;
    char sum[KVT_DIGEST_TEXT], program[64];
    hid_t file;
    scores_digest(sum, s);
    snprintf(program, sizeof program, "kvt %s", version_text());
    if (h5_file_new(&file, s->path, err))
        return err->code;
    if (h5_put_text(file, "format", "kvt-scores", err) ||
        h5_put_array(file, "version", H5T_STD_I32LE, 2, version, err) ||
        h5_put_text(file, "writer", program, err) || h5_put_text(file, "name", s->name, err) ||
        h5_put_text(file, "trace_digest", s->trace_digest, err) ||
        h5_put_text(file, "digest", sum, err) ||
        put_set(file, KVT_DS_SCORES, s, s->value, err) ||
        (s->pinned && put_set(file, KVT_DS_SCORES_PIN, s, s->pinned, err)) ||
        h5_file_sync(file, err) ||
        h5_put_array(file, "complete", H5T_STD_U8LE, -1, &yes, err)) {
        h5_file_drop(file);
        return err->code;
    }
    return h5_file_close(file, err);
}

static kvt_code save(scores_data *s, const char *out, bool force, kvt_err *err)
{
    char temp[1100];
    if (file_exists(out) && !force)
        return kvt_fail(err, KVT_IO, "'%s' is there already; --force replaces it", out);
    if (file_temp_name(temp, sizeof temp, out, err))
        return err->code;
    s->path = temp;
    kvt_scores *back = NULL;
    kvt_code code = io_once(write_job, s, err);
    if (!code)
        code = kvt_scores_open(&back, temp, err); /* read once: a full disk may hide */
    kvt_scores_close(back);
    if (!code)
        code = file_commit(temp, out, err);
    if (code)
        unlink(temp);
    return code ? kvt_within(err, "'%s'", out) : KVT_OK;
}

/* ---- the manifest --------------------------------------------------------------------------
 */

/* The trace that the scores are for: its digest, and that extents fit. */
static kvt_code match_trace(scores_data *s, const json_t *json, const char *folder,
                            kvt_err *err)
{
    char path[1024];
    const char *name, *sum;
    kvt_trace *t;
    kvt_code code = json_text(json, "trace", &name, err);
    if (code == KVT_NOTFOUND) {
        if (json_text(json, "trace_digest", &sum, err))
            return kvt_fail(err, KVT_FORMAT, "expected \"trace\" or \"trace_digest\"");
        if (strlen(sum) != KVT_DIGEST_TEXT - 1)
            return kvt_fail(err, KVT_FORMAT, "trace_digest: expected %d hex digits",
                            KVT_DIGEST_TEXT - 1);
        memcpy(s->trace_digest, sum, KVT_DIGEST_TEXT);
        return KVT_OK;
    }
    if (code)
        return code;
    if (name[0] == '/')
        snprintf(path, sizeof path, "%s", name);
    else if (file_join(path, sizeof path, folder, name, err))
        return err->code;
    if (kvt_trace_open(&t, path, 0, err))
        return err->code;
    const kvt_trace_info *i = kvt_trace_info_of(t);
    const kvt_geometry *g = &i->facts.model;
    memcpy(s->trace_digest, i->digest, sizeof s->trace_digest);
    if (s->dim[0] != i->n_layer || (s->dim[1] != g->n_kv_head && s->dim[1] != g->n_head) ||
        s->dim[2] != i->facts.token.n_prompt)
        code =
            kvt_fail(err, KVT_FORMAT,
                     "score/value: expected [L=%d A=%lld or %lld N=%lld], got [%lld %lld %lld]",
                     i->n_layer, (long long)g->n_kv_head, (long long)g->n_head,
                     (long long)i->facts.token.n_prompt, (long long)s->dim[0],
                     (long long)s->dim[1], (long long)s->dim[2]);
    kvt_trace_close(t);
    return code;
}

static kvt_code read_array(void **out, const json_t *sets, kvt_ds ds, const char *folder,
                           int64_t dim[3], kvt_err *err)
{
    const kvt_dataset *d = kvt_dataset_of(ds);
    const char *text;
    source *from;
    kvt_dtype dtype;
    int64_t got[KVT_RANK_MAX];
    *out = NULL;
    kvt_code code = json_text(sets, d->path, &text, err);
    if (code)
        return code;
    if (source_open(&from, folder, text, err))
        return kvt_within(err, "%s", d->path);
    int rank = source_shape(from, &dtype, got);
    int64_t n = 1;
    for (int i = 0; i < 3 && rank == 3 && !code; i++)
        if (got[i] < 1 || got[i] > INT32_MAX || __builtin_mul_overflow(n, got[i], &n) ||
            n > INT64_MAX / 8)
            code = kvt_fail(err, KVT_FORMAT, "%s: extent %lld", d->path, (long long)got[i]);
    if (!code && (rank != 3 || (dim[0] && memcmp(dim, got, 3 * sizeof *dim) != 0)))
        code = kvt_fail(err, KVT_FORMAT, "%s: expected axes LAN, the same for both arrays",
                        d->path);
    if (!code && !(*out = kvt_alloc(n, kvt_dtype_size(d->dtype))))
        code = kvt_fail_memory(err, (size_t)n * 4);
    if (!code)
        code = source_read(from, *out, d->dtype, false, 0, n, err);
    memcpy(dim, got, 3 * sizeof *dim);
    source_close(from);
    return code;
}

static kvt_code check_values(const scores_data *s, kvt_err *err)
{
    for (int64_t i = 0; i < n_value(s->dim); i++) {
        if (isnan(s->value[i]))
            return kvt_fail(err, KVT_FORMAT, "score/value, element %lld: NaN has no rank",
                            (long long)i);
        if (s->pinned && s->pinned[i] > 1)
            return kvt_fail(err, KVT_FORMAT,
                            "score/pinned, element %lld: expected 0 or 1, got %d", (long long)i,
                            s->pinned[i]);
    }
    return KVT_OK;
}

static kvt_code read_manifest(scores_data *s, const json_t *json, const char *folder,
                              kvt_err *err)
{
    static const char *const known[] = {"trace", "trace_digest", "name", "datasets", NULL};
    static const char *const paths[] = {"score/value", "score/pinned", NULL};
    const char *name;
    const json_t *sets = json_object_get(json, "datasets");
    void *data;
    if (!json_is_object(json) || json_only(json, known, err))
        return json_is_object(json) ? err->code
                                    : kvt_fail(err, KVT_FORMAT, "expected an object");
    if (!json_is_object(sets))
        return kvt_fail(err, KVT_FORMAT,
                        "datasets: expected {\"score/value\": \"scores.npy\"}");
    if (json_only(sets, paths, err) || json_text(json, "name", &name, err))
        return err->code;
    if (!*name || strlen(name) >= sizeof s->name)
        return kvt_fail(err, KVT_FORMAT, "name: expected 1 to %zu bytes", sizeof s->name - 1);
    snprintf(s->name, sizeof s->name, "%s", name);
    if (read_array(&data, sets, KVT_DS_SCORES, folder, s->dim, err)) {
        kvt_free(data);
        return err->code;
    }
    s->value = data;
    kvt_code code = read_array(&data, sets, KVT_DS_SCORES_PIN, folder, s->dim, err);
    s->pinned = data;
    if (code && code != KVT_NOTFOUND)
        return code;
    if (code == KVT_NOTFOUND && json_object_get(sets, "score/pinned"))
        return code;
    if (check_values(s, err))
        return err->code;
    return match_trace(s, json, folder, err);
}

kvt_code kvt_scores_import(const char *manifest, const char *out, bool force, kvt_err *err)
{
    scores_data s = {.path = out};
    char folder[1024];
    json_t *json = NULL;
    file_dir(folder, sizeof folder, manifest);
    kvt_code code = json_read_file(&json, manifest, err);
    if (!code && !(code = read_manifest(&s, json, folder, err)))
        code = save(&s, out, force, err);
    if (json)
        json_decref(json);
    kvt_free(s.value);
    kvt_free(s.pinned);
    return code ? kvt_within(err, "import '%s'", manifest) : KVT_OK;
}

/* ---- reading -------------------------------------------------------------------------------
 */

typedef struct open_args {
    kvt_scores *out;
    scores_data s;
} open_args;

static kvt_code get_set(hid_t file, kvt_ds ds, int64_t dim[3], void **out, int64_t file_bytes,
                        kvt_err *err)
{
    const kvt_dataset *d = kvt_dataset_of(ds);
    hid_t set;
    hsize_t size[H5S_MAX_RANK];
    int64_t n, count = 1;
    uint64_t sum;
    *out = NULL;
    kvt_code code = h5_set_open(&set, file, d->path, err);
    if (code)
        return code;
    hid_t type = H5Dget_type(set), space = H5Dget_space(set);
    bool fits = type >= 0 && space >= 0 && h5_dtype(type) == (int)d->dtype &&
                H5Sget_simple_extent_ndims(space) == 3 &&
                H5Sget_simple_extent_dims(space, size, NULL) == 3;
    for (int i = 0; i < 3 && fits; i++) {
        fits = size[i] > 0 && size[i] <= INT32_MAX && (!dim[i] || dim[i] == (int64_t)size[i]) &&
               !__builtin_mul_overflow(count, (int64_t)size[i], &count);
        dim[i] = (int64_t)size[i];
    }
    size_t width = kvt_dtype_size(d->dtype);
    if (!fits || count / 1100 * (int64_t)width > file_bytes)
        code = kvt_fail(err, KVT_FORMAT, "expected %s [L A N]", kvt_dtype_name(d->dtype));
    else if (!(code = h5_get_array(set, "xxh64", H5T_NATIVE_UINT64, 1, &n, &sum, err)) &&
             !(*out = kvt_alloc(count, width)))
        code = kvt_fail_memory(err, (size_t)count * width);
    if (!code && !(code = h5_chunks_check(set, 0, dim[0], file_bytes, err)) &&
        !(code = h5_set_read(*out, set, type, err)) &&
        (n != 1 || digest_64(*out, (size_t)count * width) != sum))
        code = kvt_fail(err, KVT_FORMAT, "wrong checksum: the file was changed or damaged");
    if (space >= 0)
        H5Sclose(space);
    if (type >= 0)
        H5Tclose(type);
    H5Dclose(set);
    return code ? kvt_within(err, "%s", d->path) : KVT_OK;
}

static kvt_code get_all(hid_t file, open_args *a, kvt_err *err)
{
    char format[32];
    int32_t version[2];
    int64_t n, complete = 0, bytes = file_size(a->s.path);
    void *data;
    kvt_code code = h5_get_text(file, "format", format, sizeof format, err);
    if (code || strcmp(format, "kvt-scores") != 0)
        return kvt_fail(err, KVT_FORMAT, "is no score file (kvt import --scores makes one)");
    if (h5_get_array(file, "version", H5T_NATIVE_INT32, 2, &n, version, err))
        return err->code;
    if (n != 2 || version[0] > SCORES_MAJOR)
        return kvt_fail(
            err, KVT_FORMAT,
            "has format %d.%d, this program reads up to %d.x: a newer kvt is needed",
            version[0], n == 2 ? version[1] : 0, SCORES_MAJOR);
    if (h5_get_int(file, "complete", &complete, err) || complete != 1)
        return kvt_fail(err, KVT_FORMAT, "is not complete: its writer did not finish");
    if (h5_get_text(file, "name", a->s.name, sizeof a->s.name, err) ||
        h5_get_text(file, "trace_digest", a->s.trace_digest, KVT_DIGEST_TEXT, err) ||
        h5_get_text(file, "digest", a->out->digest, KVT_DIGEST_TEXT, err))
        return err->code;
    code = get_set(file, KVT_DS_SCORES, a->s.dim, &data, bytes, err);
    a->s.value = data;
    if (code)
        return code;
    code = get_set(file, KVT_DS_SCORES_PIN, a->s.dim, &data, bytes, err);
    a->s.pinned = data;
    return code == KVT_NOTFOUND ? KVT_OK : code;
}

static kvt_code open_job(void *arg, kvt_err *err)
{
    open_args *a = arg;
    hid_t file;
    if (h5_file_open(&file, a->s.path, err))
        return err->code;
    kvt_code code = get_all(file, a, err);
    h5_file_drop(file);
    return code == KVT_NOTFOUND ? (err->code = KVT_FORMAT) : code;
}

kvt_code kvt_scores_open(kvt_scores **out, const char *path, kvt_err *err)
{
    *out = NULL;
    kvt_scores *s = kvt_alloc(1, sizeof *s);
    if (!s)
        return kvt_fail_memory(err, sizeof *s);
    open_args a = {.out = s, .s = {.path = path}};
    kvt_code code = io_once(open_job, &a, err);
    if (!code)
        code = check_values(&a.s, err);
    s->score = kvt_view_of(a.s.value, KVT_F32, "LAN", 3, a.s.dim);
    s->pinned = kvt_view_of(a.s.pinned, KVT_U8, "LAN", 3, a.s.dim);
    char sum[KVT_DIGEST_TEXT];
    if (!code) {
        scores_digest(sum, &a.s);
        if (strcmp(sum, s->digest) != 0)
            code = kvt_fail(err, KVT_FORMAT, "digest: expected %s of the content, got %s", sum,
                            s->digest);
    }
    if (!code && (size_t)snprintf(s->path, sizeof s->path, "%s", path) >= sizeof s->path)
        code = kvt_fail(err, KVT_USAGE, "a path of more than %zu bytes", sizeof s->path - 1);
    if (code) {
        kvt_scores_close(s);
        return kvt_within(err, "'%s'", path);
    }
    memcpy(s->name, a.s.name, sizeof s->name);
    memcpy(s->trace_digest, a.s.trace_digest, sizeof s->trace_digest);
    *out = s;
    return KVT_OK;
}

void kvt_scores_close(kvt_scores *s)
{
    if (!s)
        return;
    kvt_free((void *)(uintptr_t)s->score.data);
    kvt_free((void *)(uintptr_t)s->pinned.data);
    kvt_free(s);
}
