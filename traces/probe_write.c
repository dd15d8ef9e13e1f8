/* probe_write.c - a probe's group in a file that is being written, and probes added to a trace
 * that is there.
 *
 * Adding never touches the trace itself: a copy beside it gets the groups, is read as a reader
 * reads it, synced, and renamed over the old one. Whoever has that open goes on reading it. */
#include "traces/probe_priv.h"

#include "base/digest.h"
#include "base/file.h"
#include "base/size.h"
#include "traces/io.h"
#include "traces/layout.h"
#include "traces/trace_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <hdf5_hl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kvt/arena.h"

/* ---- one group -----------------------------------------------------------------------------
 */

/* Axes whose extent is the probe's own: their dimension scales lie in its group. */
static bool own_axis(char letter)
{
    return letter == 'P' || letter == 'R' || letter == 'A';
}

static kvt_code attach(hid_t file, hid_t group, hid_t set, const kvt_dataset *d,
                       const int64_t *dim, kvt_err *err)
{
    scales all = {.file = file}, own = {.file = group};
    kvt_code code = KVT_OK;
    kvt_err late;
    scales_init(&all);
    scales_init(&own);
    for (unsigned i = 0; d->axes[i] && !code; i++)
        code = scales_attach_one(own_axis(d->axes[i]) ? &own : &all, set, i, d->axes[i], dim[i],
                                 err);
    for (int k = 0; k < 2; k++)
        if (scales_close(k ? &own : &all, &late) && !code) {
            *err = late;
            code = err->code;
        }
    return code;
}

/* Slabs of a dataset: its layers of the trace are picked from those of the model. */
static kvt_code put_slabs(const probe_put *p, hid_t set, kvt_probe_set i, int rank,
                          const int64_t *dim, uint64_t *sum, char (*text)[KVT_DIGEST_TEXT],
                          kvt_err *err)
{
    const kvt_dataset *d = probe_dataset_of(i);
    bool layers = probe_has_layers(i);
    size_t bytes = (size_t)probe_slab(i, rank, dim) * kvt_dtype_size(d->dtype);
    for (int l = 0; l < (layers ? p->n_layer : 1); l++) {
        const char *from = p->data->data[i];
        from += layers ? (size_t)(p->own_layers ? l : p->layer_id[l]) * bytes : 0;
        if (layout_write(set, d, rank, dim, l, from, err))
            return err->code;
        sum[l] = digest_64(from, bytes);
        digest_of(from, bytes, text[l]);
    }
    return KVT_OK;
}

static kvt_code put_set(const probe_put *p, hid_t group, kvt_probe_set i,
                        char (*text)[KVT_DIGEST_TEXT], kvt_err *err)
{
    const kvt_dataset *d = probe_dataset_of(i);
    int64_t dim[KVT_RANK_MAX];
    uint64_t sum[KVT_LAYERS_MAX];
    hid_t set = -1;
    int rank = probe_dims(p->facts, p->n_layer, &p->data->info, i, dim);
    if (probe_slab(i, rank, dim) < 0)
        return kvt_fail(err, KVT_FORMAT, "%s: its extents are out of range", d->path);
    kvt_code code = layout_create(&set, group, d, rank, dim, p->compress, err);
    if (!code && !(code = put_slabs(p, set, i, rank, dim, sum, text, err)) &&
        !(code = h5_put_array(set, "xxh64", H5T_STD_U64LE, probe_has_layers(i) ? p->n_layer : 1,
                              sum, err)))
        code = attach(p->file, group, set, d, dim, err);
    if (set >= 0 && H5Dclose(set) < 0 && !code)
        code = h5_fail(err, KVT_IO, d->path);
    return code;
}

static kvt_code put_attrs(hid_t group, const kvt_probe_info *p, const char *sum, kvt_err *err)
{
    kvt_code code = h5_put_text(group, "kind", kvt_probe_kind_name(p->kind), err);
    if (code || h5_put_text(group, "args", p->args, err) ||
        h5_put_text(group, "source_digest", p->source_digest, err) ||
        h5_put_int(group, "budget", p->budget, err) ||
        h5_put_int(group, "n_row", p->n_row, err) ||
        h5_put_int(group, "n_segment", p->n_segment, err) ||
        h5_put_int(group, "n_keep", p->n_keep, err) || h5_put_text(group, "digest", sum, err))
        return err->code;
    return KVT_OK;
}

static kvt_code put_group(const probe_put *p, const kvt_probe_info *info, hid_t group,
                          kvt_err *err)
{
    char(*part[KVT_PROBE_SETS])[KVT_DIGEST_TEXT] = {NULL}, sum[KVT_DIGEST_TEXT];
    kvt_code code = KVT_OK;
    for (int i = 0; i < KVT_PROBE_SETS && !code; i++) {
        if (!info->has[i])
            continue;
        part[i] = kvt_alloc(p->n_layer, sizeof *part[i]);
        code = part[i] ? put_set(p, group, (kvt_probe_set)i, part[i], err)
                       : kvt_fail_memory(err, 4096);
    }
    if (!code)
        code = probe_digest(sum, p->facts, p->n_layer, info, part, err);
    if (!code)
        code = put_attrs(group, info, sum, err);
    for (int i = 0; i < KVT_PROBE_SETS; i++)
        kvt_free(part[i]);
    return code;
}

/* What the caller gives, with has[] as its arrays say. */
static kvt_code look_at(kvt_probe_info *out, const probe_put *p, kvt_err *err)
{
    const kvt_trace_facts *f = p->facts;
    const kvt_probe_data *data = p->data;
    const int32_t *value[KVT_PROBE_SETS] = {NULL};
    *out = data->info;
    for (int i = 0; i < KVT_PROBE_SETS; i++) {
        out->has[i] = data->data[i] != NULL;
        value[i] = probe_is_index((kvt_probe_set)i) ? data->data[i] : NULL;
    }
    if (probe_check(f, out, err) || probe_check_index(f, out, value, err))
        return err->code;
    for (int l = 0; l < p->n_layer && !p->own_layers; l++)
        if (p->layer_id[l] < 0 || p->layer_id[l] >= f->model.n_layer)
            return kvt_fail(err, KVT_FORMAT, "layer/id[%d]: expected 0 to %lld, got %d", l,
                            (long long)f->model.n_layer - 1, p->layer_id[l]);
    const uint8_t *keep = data->data[KVT_PROBE_SET_KEEP];
    int64_t n_layer = p->own_layers ? p->n_layer : f->model.n_layer;
    int64_t n = keep ? n_layer * out->n_keep * f->token.n_prompt : 0;
    for (int64_t i = 0; i < n; i++)
        if (keep[i] > 1)
            return kvt_fail(err, KVT_FORMAT, "keep, element %lld: expected 0 or 1, got %d",
                            (long long)i, keep[i]);
    return KVT_OK;
}

kvt_code probe_put_job(void *put, kvt_err *err)
{
    const probe_put *p = put;
    kvt_probe_info info;
    char path[80];
    hid_t group = -1;
    kvt_code code = look_at(&info, p, err);
    snprintf(path, sizeof path, "probe/%s", info.name);
    if (!code && h5_has(p->file, path) > 0)
        code = kvt_fail(err, KVT_FORMAT, "written twice");
    if (!code && !(code = h5_group(&group, p->file, path, err)))
        code = put_group(p, &info, group, err);
    if (group >= 0 && H5Gclose(group) < 0 && !code)
        code = h5_fail(err, KVT_IO, path);
    return code ? kvt_within(err, "/probe/%.64s", p->data->info.name) : KVT_OK;
}

/* ---- adding to a finished trace
 * --------------------------------------------------------------
 */

typedef struct add {
    const char *path, *temp; /* of the trace itself, no link */
    const kvt_probe_data *const *probe;
    int n;
    bool force, compress;
    int64_t bytes; /* that the probes take */
    kvt_trace_facts facts;
    int n_layer;
    int32_t layer_id[KVT_LAYERS_MAX];
    char digest[KVT_DIGEST_TEXT]; /* of the content, which stays */
    int n_after;                  /* probes of the file that is written */
} add;

static kvt_code check_probe(add *a, kvt_trace *t, int i, kvt_err *err)
{
    kvt_probe_info info;
    const probe_put put = {.facts = &a->facts,
                           .n_layer = a->n_layer,
                           .layer_id = a->layer_id,
                           .data = a->probe[i]};
    if (look_at(&info, &put, err))
        return err->code;
    for (int k = 0; k < i; k++)
        if (strcmp(a->probe[k]->info.name, info.name) == 0)
            return kvt_fail(err, KVT_FORMAT, "given twice");
    bool there = kvt_trace_probe_find(t, info.name) >= 0;
    if (there && !a->force)
        return kvt_fail(err, KVT_IO, "is there already; --force replaces it");
    a->n_after += !there;
    a->bytes += 16384; /* headers and attributes */
    for (int k = 0; k < KVT_PROBE_SETS; k++) {
        int64_t dim[KVT_RANK_MAX];
        int rank = probe_dims(&a->facts, a->n_layer, &info, (kvt_probe_set)k, dim);
        int64_t n = info.has[k] ? probe_slab((kvt_probe_set)k, rank, dim) : 0;
        if (n < 0)
            return kvt_fail(err, KVT_FORMAT, "its extents are out of range");
        a->bytes += n * (probe_has_layers((kvt_probe_set)k) ? a->n_layer : 1) *
                    (int64_t)kvt_dtype_size(probe_dataset_of((kvt_probe_set)k)->dtype);
    }
    return KVT_OK;
}

/* The trace as a reader sees it, and whether each probe fits. */
static kvt_code check_before(add *a, kvt_err *err)
{
    kvt_trace *t;
    kvt_code code = KVT_OK;
    if (kvt_trace_open(&t, a->path, 0, err))
        return err->code;
    const kvt_trace_info *i = kvt_trace_info_of(t);
    a->facts = i->facts;
    a->n_layer = i->n_layer;
    a->n_after = kvt_trace_probe_count(t);
    memcpy(a->layer_id, i->layer_id, sizeof a->layer_id);
    memcpy(a->digest, i->digest, sizeof a->digest);
    for (int ds = 0; ds < KVT_DS_COUNT; ds++)
        a->compress |= i->has[ds] && t->set[ds].chunked;
    for (int k = 0; k < a->n && !code; k++)
        if ((code = check_probe(a, t, k, err)))
            kvt_within(err, "/probe/%.64s", a->probe[k]->info.name);
    if (!code && a->n_after > TRACE_PROBES_MAX)
        code = kvt_fail(err, KVT_FORMAT, "expected at most %d probes, got %d", TRACE_PROBES_MAX,
                        a->n_after);
    int64_t need = i->file_bytes + a->bytes, have = file_free_room(a->path);
    char x[32], y[32];
    if (!code && have >= 0 && have < need)
        code = kvt_fail(err, KVT_IO, "no room for a copy: needs %s, %s are free",
                        size_print(need, x, sizeof x), size_print(have, y, sizeof y));
    kvt_trace_close(t);
    return code;
}

static int copy_bytes(int to, int from)
{
    enum { PIECE = 1 << 20 };
    int number = 0;
    char *piece = kvt_alloc(PIECE, 1);
    if (!piece)
        return ENOMEM;
    for (;;) {
        ssize_t n = read(from, piece, PIECE);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            number = errno;
        for (ssize_t done = 0; done < n;) {
            ssize_t w = write(to, piece + done, (size_t)(n - done));
            if (w < 0 && errno != EINTR) {
                number = errno;
                break;
            }
            done += w > 0 ? w : 0;
        }
        if (n <= 0 || number)
            break;
    }
    kvt_free(piece);
    return number;
}

/* Bytes and mode. The copy is the writer's alone until it is whole. */
static kvt_code copy_file(const char *to, const char *from, kvt_err *err)
{
    struct stat st;
    int number = 0, out = -1, in = open(from, O_RDONLY | O_CLOEXEC);
    if (in < 0 || fstat(in, &st) != 0 ||
        (out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) < 0)
        number = errno;
    if (!number)
        number = copy_bytes(out, in);
    if (!number && fchmod(out, st.st_mode & 07777) != 0)
        number = errno;
    /* Written on, a read-only file's copy needs the right to. */
    if (!number && !(st.st_mode & S_IWUSR) && fchmod(out, (st.st_mode & 07777) | S_IWUSR) != 0)
        number = errno;
    if (out >= 0 && close(out) != 0 && !number)
        number = errno;
    if (in >= 0)
        close(in);
    if (number == ENOMEM)
        return kvt_fail_memory(err, 1 << 20);
    return number ? kvt_fail(err, KVT_IO, "copy: %s", strerror(number)) : KVT_OK;
}

/* Takes a group out. A scale lists what is attached to it, so that is undone first. */
static kvt_code drop_group(hid_t file, const char *name, kvt_err *err)
{
    char path[160];
    for (int i = 0; i < KVT_PROBE_SETS; i++) {
        const kvt_dataset *d = probe_dataset_of((kvt_probe_set)i);
        hid_t set;
        snprintf(path, sizeof path, "probe/%s/%s", name, d->path);
        kvt_code code = h5_set_open(&set, file, path, err);
        if (code == KVT_NOTFOUND)
            continue;
        for (unsigned k = 0; d->axes[k] && !code; k++) {
            char axis[48];
            hid_t scale;
            snprintf(axis, sizeof axis, "axis_%s", trace_axis_of(d->axes[k])->name);
            if (h5_has(file, axis) <= 0 || own_axis(d->axes[k]))
                continue;
            if ((code = h5_set_open(&scale, file, axis, err)))
                break;
            if (H5DSis_attached(set, scale, k) > 0 && H5DSdetach_scale(set, scale, k) < 0)
                code = h5_fail(err, KVT_IO, path);
            H5Dclose(scale);
        }
        if (set >= 0)
            H5Dclose(set);
        if (code)
            return code;
    }
    snprintf(path, sizeof path, "probe/%s", name);
    return H5Ldelete(file, path, H5P_DEFAULT) < 0 ? h5_fail(err, KVT_IO, path) : KVT_OK;
}

static kvt_code add_job(void *arg, kvt_err *err)
{
    const add *a = arg;
    hid_t file;
    if (h5_file_change(&file, a->temp, err))
        return err->code;
    kvt_code code = KVT_OK;
    for (int i = 0; i < a->n && !code; i++) {
        char path[80];
        probe_put put = {.file = file,
                         .facts = &a->facts,
                         .n_layer = a->n_layer,
                         .layer_id = a->layer_id,
                         .compress = a->compress,
                         .data = a->probe[i]};
        snprintf(path, sizeof path, "probe/%s", a->probe[i]->info.name);
        if (h5_has(file, path) > 0)
            code = drop_group(file, a->probe[i]->info.name, err);
        if (!code)
            code = probe_put_job(&put, err);
    }
    if (!code)
        return h5_file_close(file, err);
    h5_file_drop(file);
    return code;
}

/* Every slab of a probe, read back. */
static kvt_code read_back(kvt_trace *t, int probe, kvt_err *err)
{
    kvt_code code = KVT_OK;
    for (int i = 0; i < KVT_PROBE_SETS && !code; i++) {
        const trace_set *s = &t->probe_set[probe][i];
        if (!t->probe[probe].has[i])
            continue;
        void *part =
            kvt_alloc(s->n_element, kvt_dtype_size(probe_dataset_of((kvt_probe_set)i)->dtype));
        if (!part)
            return kvt_fail_memory(err, (size_t)s->n_element * 4);
        for (int l = 0; l < s->n_slab && !code; l++)
            code = probe_load(t, probe, (kvt_probe_set)i, l, part, err);
        kvt_free(part);
    }
    return code;
}

/* The copy as a reader sees it: also what tells that the disk was full where every call
 * reported success. */
static kvt_code check_after(const add *a, kvt_err *err)
{
    kvt_trace *t;
    kvt_code code = KVT_OK;
    if (kvt_trace_open(&t, a->temp, 0, err))
        return err->code;
    if (strcmp(kvt_trace_info_of(t)->digest, a->digest) != 0 ||
        kvt_trace_probe_count(t) != a->n_after)
        code = kvt_fail(err, KVT_IO, "the copy is not what was written");
    for (int i = 0; i < a->n && !code; i++) {
        int at = kvt_trace_probe_find(t, a->probe[i]->info.name);
        code = at < 0 ? kvt_fail(err, KVT_IO, "the copy lacks a probe") : read_back(t, at, err);
    }
    kvt_trace_close(t);
    return code;
}

static kvt_code add_all(add *a, kvt_err *err)
{
    char temp[1100];
    struct stat st;
    if (check_before(a, err) || file_temp_name(temp, sizeof temp, a->path, err))
        return err->code;
    a->temp = temp;
    kvt_code code = copy_file(temp, a->path, err);
    if (!code)
        code = io_once(add_job, a, err);
    if (!code)
        code = check_after(a, err);
    if (!code && (stat(a->path, &st) != 0 || chmod(temp, st.st_mode & 07777) != 0))
        code = kvt_fail(err, KVT_IO, "mode: %s", strerror(errno));
    if (!code)
        code = file_commit(temp, a->path, err);
    if (code)
        unlink(temp);
    return code;
}

kvt_code kvt_trace_add_probes(const char *path, const kvt_probe_data *const *probe, int n,
                              bool force, kvt_err *err)
{
    if (n < 1)
        return KVT_OK;
    char real[PATH_MAX];
    if (!realpath(path, real))
        return kvt_fail(err, errno == ENOENT || errno == ENOTDIR ? KVT_NOTFOUND : KVT_IO,
                        "'%s': cannot be opened: %s", path, strerror(errno));
    add *a = kvt_alloc(1, sizeof *a);
    kvt_code code = a ? KVT_OK : kvt_fail_memory(err, sizeof *a);
    if (!code) {
        *a = (add){.path = real, .probe = probe, .n = n, .force = force};
        code = add_all(a, err);
    }
    kvt_free(a);
    return code ? kvt_within(err, "add probes to '%s'", path) : KVT_OK;
}
