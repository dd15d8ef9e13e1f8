/* scorer_write.c - a scorer file: under a temporary name, read back, renamed. */
#include "traces/scorer_priv.h"

#include "base/digest.h"
#include "base/file.h"
#include "base/half.h"
#include "base/version.h"
#include "traces/h5.h"
#include "traces/io.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kvt/arena.h"

/* Tensors as they are stored, by name. */
typedef struct job {
    const char *path;
    kvt_scorer_info info;
    kvt_scorer_tensor tensor[SCORER_TENSORS_MAX];
    void *bytes[SCORER_TENSORS_MAX];
    char sum[SCORER_TENSORS_MAX][KVT_DIGEST_TEXT];
    int n;
} job;

static float *gather(float *to, const kvt_view *v)
{
    if (v->rank == 0) {
        *to = *(const float *)v->data;
        return to + 1;
    }
    for (int64_t i = 0; i < v->dim[0]; i++) {
        kvt_view part = kvt_view_at(v, i);
        to = gather(to, &part);
    }
    return to;
}

/* Floats, or halves where they are wanted and all fit one. */
static kvt_code pack(job *j, int i, kvt_err *err)
{
    const kvt_scorer_tensor *t = &j->tensor[i];
    int64_t n = kvt_view_count(&t->view);
    float *x = kvt_alloc(n, sizeof *x);
    if (!x)
        return kvt_fail_memory(err, (size_t)n * sizeof *x);
    j->bytes[i] = x;
    gather(x, &t->view);
    kvt_code code = scorer_check_values(t->name, x, n, err);
    if (code || !t->half)
        return code;
    uint16_t *half = kvt_alloc(n, sizeof *half);
    if (!half)
        return kvt_fail_memory(err, (size_t)n * sizeof *half);
    half_from_floats(half, x, n);
    kvt_free(x);
    j->bytes[i] = half;
    for (int64_t k = 0; k < n; k++)
        if ((half[k] & 0x7c00) == 0x7c00)
            return kvt_fail(err, KVT_FORMAT, "%s, element %lld: does not fit a half", t->name,
                            (long long)k);
    return KVT_OK;
}

static kvt_code prepare(job *j, const kvt_scorer_tensor *tensor, int n, kvt_err *err)
{
    trace_extents e;
    if (n < 1 || n > SCORER_TENSORS_MAX)
        return kvt_fail(err, KVT_FORMAT, "expected 1 to %d tensors, got %d", SCORER_TENSORS_MAX,
                        n);
    if (scorer_check_info(&j->info, err))
        return err->code;
    scorer_extents(&e, &j->info);
    for (int i = 0; i < n; i++) { /* sorted in */
        int at = j->n++;
        for (; at > 0 && strcmp(j->tensor[at - 1].name, tensor[i].name) > 0; at--)
            j->tensor[at] = j->tensor[at - 1];
        j->tensor[at] = tensor[i];
    }
    for (int i = 0; i < n; i++) {
        const kvt_scorer_tensor *t = &j->tensor[i];
        const kvt_view *v = &t->view;
        if (i > 0 && strcmp(j->tensor[i - 1].name, t->name) == 0)
            return kvt_fail(err, KVT_FORMAT, "%s: given twice", t->name);
        if (v->dtype != KVT_F32 || v->place != KVT_HOST || !v->data)
            return kvt_fail(err, KVT_FORMAT, "%s: expected f32 in host memory", t->name);
        if (scorer_check_shape(&e, t->name, v->axes, v->rank, v->dim, err) || pack(j, i, err))
            return err->code;
        digest_of(j->bytes[i],
                  (size_t)kvt_view_count(v) * kvt_dtype_size(t->half ? KVT_F16 : KVT_F32),
                  j->sum[i]);
    }
    return scorer_digest(j->info.digest, &j->info, j->tensor, j->sum, n, err);
}

static kvt_code put_tensor(hid_t file, const job *j, int i, kvt_err *err)
{
    const kvt_scorer_tensor *t = &j->tensor[i];
    kvt_dtype dtype = t->half ? KVT_F16 : KVT_F32;
    uint64_t sum =
        digest_64(j->bytes[i], (size_t)kvt_view_count(&t->view) * kvt_dtype_size(dtype));
    if (h5_set_write(file, t->name, dtype, t->view.rank, t->view.dim, j->bytes[i], err))
        return err->code;
    hid_t set = H5Dopen2(file, t->name, H5P_DEFAULT);
    if (set < 0)
        return h5_fail(err, KVT_IO, t->name);
    kvt_code code = h5_put_text(set, "axes", t->view.axes, err);
    if (!code)
        code = h5_put_text(set, "help", t->help, err);
    if (!code)
        code = h5_put_array(set, "xxh64", H5T_STD_U64LE, 1, &sum, err);
    H5Dclose(set);
    return code;
}

static kvt_code put_root(hid_t file, const job *j, kvt_err *err)
{
    const int32_t version[2] = {SCORER_MAJOR, SCORER_MINOR};
    int n;
    const scorer_fact *fact = scorer_facts(&n);
    if (h5_put_text(file, "format", "kvt-scorer", err) ||
        h5_put_array(file, "version", H5T_STD_I32LE, 2, version, err) ||
        h5_put_text(file, "digest", j->info.digest, err))
        return err->code;
    for (int i = 0; i < n; i++) {
        const char *at = (const char *)&j->info + fact[i].offset;
        int64_t x = 0;
        if (fact[i].kind == ATTR_INT)
            memcpy(&x, at, sizeof x);
        if (fact[i].kind == ATTR_TEXT ? h5_put_text(file, fact[i].name, at, err)
                                      : h5_put_int(file, fact[i].name, x, err))
            return err->code;
    }
    return KVT_OK;
}

static kvt_code write_job(void *arg, kvt_err *err)
{
    const job *j = arg;
    const uint8_t yes = 1;
    const int64_t n_layer = j->info.n_layer;
    hid_t file;
    if (h5_file_new(&file, j->path, err))
        return err->code;
    kvt_code code = put_root(file, j, err);
    if (!code)
        code = h5_set_write(file, "layer/id", KVT_I32, 1, &n_layer, j->info.layer_id, err);
    for (int i = 0; i < j->n && !code; i++)
        code = put_tensor(file, j, i, err);
    if (!code && !(code = h5_file_sync(file, err)))
        code = h5_put_array(file, "complete", H5T_STD_U8LE, -1, &yes, err);
    if (!code)
        return h5_file_close(file, err);
    h5_file_drop(file);
    return code;
}

static kvt_code save(job *j, const char *path, bool force, kvt_err *err)
{
    char temp[1100];
    kvt_scorer *back = NULL;
    if (file_exists(path) && !force)
        return kvt_fail(err, KVT_IO, "is there already; --force replaces it");
    if (file_temp_name(temp, sizeof temp, path, err))
        return err->code;
    j->path = temp;
    kvt_code code = io_once(write_job, j, err);
    if (!code)
        code = kvt_scorer_open(&back, temp, err); /* read once: a full disk may hide */
    if (!code && strcmp(kvt_scorer_info_of(back)->digest, j->info.digest) != 0)
        code = kvt_fail(err, KVT_IO, "the file is not what was written");
    kvt_scorer_close(back);
    if (!code)
        code = file_commit(temp, path, err);
    if (code)
        unlink(temp);
    return code;
}

kvt_code kvt_scorer_write(const char *path, const kvt_scorer_info *info,
                          const kvt_scorer_tensor *tensor, int n, bool force, kvt_err *err)
{
    job *j = kvt_alloc(1, sizeof *j);
    if (!j)
        return kvt_fail_memory(err, sizeof *j);
    j->info = *info;
    if (!j->info.writer[0])
        snprintf(j->info.writer, sizeof j->info.writer, "kvt %s", version_text());
    kvt_code code = prepare(j, tensor, n, err);
    if (!code)
        code = save(j, path, force, err);
    for (int i = 0; i < SCORER_TENSORS_MAX; i++)
        kvt_free(j->bytes[i]);
    kvt_free(j);
    return code ? kvt_within(err, "'%s'", path) : KVT_OK;
}
