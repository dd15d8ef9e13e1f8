/* writer.c - a trace is written under a temporary name, checked as a reader checks it, synced
 * and renamed: a file under its final name is whole.
 *
 * What lies where (docs/trace-format.md has all of it):
 *   1. the root: format, version, facts (attributes.def), digest, complete, which comes last;
 *   2. /model, /token, /attn, /future: their attributes;
 *   3. the datasets of datasets.def, each with axes, unit, help and xxh64 u64 [L] or [1], one
 * for each layer slab;
 *   4. /axis_NAME: a dimension scale for each axis letter in use. */
#include "traces/layout.h"

#include "base/digest.h"
#include "base/file.h"
#include "base/half.h"
#include "base/size.h"
#include "base/version.h"
#include "traces/facts.h"
#include "traces/io.h"
#include "traces/probe_priv.h"
#include "traces/writer.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kvt/arena.h"

/* One slab on its way into the file. */
typedef struct put {
    kvt_writer *w;
    kvt_ds ds;
    int layer; /* slab index */
    const void *bytes;
    size_t n_byte;
    uint64_t sum;
    char digest[KVT_DIGEST_TEXT];
    io_later later;
} put;

enum { WRITER_LATER = 8 }; /* puts that may be on their way */

struct kvt_writer {
    char path[1024], temp[1100];
    kvt_writer_spec spec;
    trace_extents extent;
    hid_t file, set[KVT_DS_COUNT];
    trace_content content;       /* extents and slab digests of what was written */
    uint64_t *sum[KVT_DS_COUNT]; /* XXH64 [n_slab] */
    bool *put[KVT_DS_COUNT];     /* [n_slab] */
    bool failed, held;
    int n_probe;
    put later[WRITER_LATER];
    int64_t n_later, n_waited; /* puts that were started, and waited for */
};

int64_t kvt_writer_bytes(const kvt_writer_spec *spec, bool with_rows)
{
    trace_extents e;
    spec_extents(&e, spec);
    int64_t total = 65536; /* headers, attributes, scales */
    for (int ds = 0; ds < KVT_DS_COUNT; ds++) {
        int64_t dim[KVT_RANK_MAX];
        int rank = extents_dims(&e, (kvt_ds)ds, dim);
        int64_t slab = dims_slab((kvt_ds)ds, rank, dim);
        bool text = ds == KVT_DS_TEXT_BYTES || ds == KVT_DS_TEXT_RAW;
        bool wanted = text                ? !spec->facts.no_text
                      : ds == KVT_DS_ROWS ? with_rows
                                          : dataset_required((kvt_ds)ds, &spec->facts);
        if (slab > 0 && wanted)
            total += slab * (dataset_has_layers((kvt_ds)ds) ? spec->n_layer : 1) *
                     (int64_t)kvt_dtype_size(kvt_dataset_of((kvt_ds)ds)->dtype);
    }
    return total;
}

static kvt_code room(const char *path, const kvt_writer_spec *spec, kvt_err *err)
{
    int64_t need = kvt_writer_bytes(spec, false), have = file_free_room(path);
    if (spec->compress)
        need /= 4; /* a guess that is rather low: the writes themselves are checked */
    if (have < 0 || have >= need)
        return KVT_OK;
    char a[32], b[32];
    return kvt_fail(err, KVT_IO, "'%s': no room: needs %s, %s are free", path,
                    size_print(need, a, sizeof a), size_print(have, b, sizeof b));
}

static kvt_code create_job(void *arg, kvt_err *err)
{
    kvt_writer *w = arg;
    return h5_file_new(&w->file, w->temp, err);
}

static kvt_code check_spec(const kvt_writer_spec *spec, kvt_err *err)
{
    if (facts_check(&spec->facts, err))
        return err->code;
    if (spec->n_layer < 1 || spec->n_layer > spec->facts.model.n_layer)
        return kvt_fail(err, KVT_FORMAT, "layers of the trace: expected 1 to %lld, got %d",
                        (long long)spec->facts.model.n_layer, spec->n_layer);
    return KVT_OK;
}

kvt_code kvt_writer_open(kvt_writer **out, const char *path, const kvt_writer_spec *spec,
                         kvt_err *err)
{
    *out = NULL;
    if (check_spec(spec, err))
        return err->code;
    if (file_exists(path) && !spec->force)
        return kvt_fail(err, KVT_IO, "'%s' is there already; --force replaces it", path);
    if (room(path, spec, err))
        return err->code;
    kvt_writer *w = kvt_alloc(1, sizeof *w);
    if (!w)
        return kvt_fail_memory(err, sizeof *w);
    w->file = -1;
    for (int i = 0; i < KVT_DS_COUNT; i++)
        w->set[i] = -1;
    w->spec = *spec;
    w->content.facts = &w->spec.facts;
    spec_extents(&w->extent, spec);
    if ((size_t)snprintf(w->path, sizeof w->path, "%s", path) >= sizeof w->path) {
        kvt_free(w);
        return kvt_fail(err, KVT_USAGE, "a path of more than %zu bytes", sizeof w->path - 1);
    }
    kvt_code code = file_temp_name(w->temp, sizeof w->temp, path, err);
    if (!code && !(code = io_hold(err))) {
        w->held = true;
        code = io_do(create_job, w, err);
    }
    if (code) {
        kvt_writer_abort(w);
        return kvt_within(err, "'%s'", path);
    }
    *out = w;
    return KVT_OK;
}

/* ---- one slab ------------------------------------------------------------------------------
 */

static kvt_code make_set(kvt_writer *w, kvt_ds ds, kvt_err *err)
{
    const kvt_dataset *d = kvt_dataset_of(ds);
    int64_t *dim = w->content.dim[ds];
    int rank = extents_dims(&w->extent, ds, dim);
    int64_t n_slab = dataset_has_layers(ds) ? w->spec.n_layer : 1;
    w->sum[ds] = kvt_alloc(n_slab, sizeof *w->sum[ds]);
    w->put[ds] = kvt_alloc(n_slab, sizeof *w->put[ds]);
    w->content.slab[ds] = kvt_alloc(n_slab, sizeof *w->content.slab[ds]);
    if (!w->sum[ds] || !w->put[ds] || !w->content.slab[ds])
        return kvt_fail_memory(err, (size_t)n_slab * 64);
    if (layout_create(&w->set[ds], w->file, d, rank, dim, w->spec.compress, err))
        return err->code;
    w->content.n_slab[ds] = n_slab;
    return KVT_OK;
}

static kvt_code put_job(void *arg, kvt_err *err)
{
    put *p = arg;
    kvt_writer *w = p->w;
    if (w->set[p->ds] < 0 && make_set(w, p->ds, err))
        return err->code;
    if (w->put[p->ds][p->layer])
        return kvt_fail(err, KVT_FORMAT, "written twice");
    const kvt_dataset *d = kvt_dataset_of(p->ds);
    const int64_t *dim = w->content.dim[p->ds];
    int64_t n = dims_slab(p->ds, (int)strlen(d->axes), dim);
    if (n > 0 &&
        layout_write(w->set[p->ds], d, (int)strlen(d->axes), dim, p->layer, p->bytes, err))
        return err->code;
    w->sum[p->ds][p->layer] = p->sum;
    memcpy(w->content.slab[p->ds][p->layer], p->digest, sizeof p->digest);
    w->put[p->ds][p->layer] = true;
    return KVT_OK;
}

static bool contiguous(const kvt_view *v)
{
    int64_t step = 1;
    for (int i = v->rank - 1; i >= 0; i--) {
        if (v->dim[i] != 1 && v->stride[i] != step)
            return false;
        step *= v->dim[i];
    }
    return true;
}

/* Copies a strided view into a contiguous one, outermost axis by outermost axis. */
static char *gather(char *to, const kvt_view *v, size_t size)
{
    if (v->rank == 0) {
        memcpy(to, v->data, size);
        return to + size;
    }
    for (int64_t i = 0; i < v->dim[0]; i++) {
        kvt_view part = kvt_view_at(v, i);
        to = gather(to, &part, size);
    }
    return to;
}

/* Sums, then the slab. */
static kvt_code put_whole_job(void *arg, kvt_err *err)
{
    put *p = arg;
    p->sum = digest_64(p->bytes, p->n_byte);
    digest_of(p->bytes, p->n_byte, p->digest);
    return put_job(p, err);
}

/* The slab is one of the dataset, and the view has its shape; *got: type of the values. */
static kvt_code check_slab(const kvt_writer *w, kvt_ds ds, int layer, const kvt_view *data,
                           kvt_dtype *got, kvt_err *err)
{
    const kvt_dataset *d = kvt_dataset_of(ds);
    bool layers = dataset_has_layers(ds);
    int64_t dim[KVT_RANK_MAX], n_slab = layers ? w->spec.n_layer : 1;
    int rank = extents_dims(&w->extent, ds, dim);
    *got = d->dtype == KVT_F16 && data->dtype == KVT_F32 ? KVT_F32 : d->dtype;
    if (layer < 0 || layer >= n_slab)
        return kvt_fail(err, KVT_FORMAT, "layer %d of %lld", layer, (long long)n_slab);
    return kvt_view_expect(data, d->path, *got, d->axes + layers, (size_t)(rank - layers),
                           dim + layers, err);
}

static kvt_code put_slab(kvt_writer *w, kvt_ds ds, int layer, const kvt_view *data,
                         kvt_err *err)
{
    const kvt_dataset *d = kvt_dataset_of(ds);
    kvt_dtype got;
    if (check_slab(w, ds, layer, data, &got, err))
        return err->code;
    int64_t n = kvt_view_count(data);
    size_t size = kvt_dtype_size(got);
    char *flat = NULL, *half = NULL;
    put p = {.w = w, .ds = ds, .layer = layer, .bytes = data->data};
    kvt_code code = KVT_OK;
    if (!contiguous(data)) {
        if (!(flat = kvt_alloc(n, size)))
            return kvt_fail_memory(err, (size_t)n * size);
        gather(flat, data, size);
        p.bytes = flat;
    }
    if (got != d->dtype) {
        if (!(half = kvt_alloc(n, 2)))
            code = kvt_fail_memory(err, (size_t)n * 2);
        else
            half_from_floats((uint16_t *)(void *)half, p.bytes, n);
        p.bytes = half;
    }
    if (!code) {
        p.n_byte = (size_t)n * kvt_dtype_size(d->dtype);
        code = io_do(put_whole_job, &p, err);
    }
    kvt_free(flat);
    kvt_free(half);
    return code;
}

static kvt_code put_failed(kvt_writer *w, kvt_ds ds, int layer, kvt_err *err)
{
    w->failed = true;
    return dataset_has_layers(ds)
               ? kvt_within(err, "'%s': %s, layer %d", w->path, kvt_dataset_of(ds)->path, layer)
               : kvt_within(err, "'%s': %s", w->path, kvt_dataset_of(ds)->path);
}

kvt_code kvt_writer_put(kvt_writer *w, kvt_ds ds, int layer, const kvt_view *data, kvt_err *err)
{
    if (!dataset_has_layers(ds))
        layer = 0;
    kvt_code code = put_slab(w, ds, layer, data, err);
    return code ? put_failed(w, ds, layer, err) : KVT_OK;
}

kvt_code writer_wait(kvt_writer *w, int64_t n, kvt_err *err)
{
    while (w->n_waited < n) {
        put *p = &w->later[w->n_waited++ % WRITER_LATER];
        if (io_wait(&p->later, err))
            return put_failed(w, p->ds, p->layer, err);
    }
    return KVT_OK;
}

kvt_code writer_put_later(kvt_writer *w, kvt_ds ds, int layer, const kvt_view *data, int64_t *n,
                          kvt_err *err)
{
    kvt_dtype got;
    layer = dataset_has_layers(ds) ? layer : 0;
    *n = w->n_later;
    if (writer_wait(w, w->n_later + 1 - WRITER_LATER, err)) /* for a free place */
        return err->code;
    if (check_slab(w, ds, layer, data, &got, err))
        return put_failed(w, ds, layer, err);
    if (!contiguous(data) || got != kvt_dataset_of(ds)->dtype)
        return kvt_writer_put(w, ds, layer, data, err);
    put *p = &w->later[w->n_later++ % WRITER_LATER];
    *p = (put){.w = w,
               .ds = ds,
               .layer = layer,
               .bytes = data->data,
               .n_byte = (size_t)kvt_view_count(data) * kvt_dtype_size(got)};
    *n = w->n_later;
    io_start(&p->later, put_whole_job, p);
    return KVT_OK;
}

/* What is still on its way says nothing any more. */
static void forget_later(kvt_writer *w)
{
    kvt_err ignored;
    while (writer_wait(w, w->n_later, &ignored))
        ;
}

static kvt_code put_probe(kvt_writer *w, const kvt_probe_data *probe, bool own_layers,
                          kvt_err *err)
{
    probe_put one = {.file = w->file,
                     .facts = &w->spec.facts,
                     .n_layer = w->spec.n_layer,
                     .layer_id = w->spec.layer_id,
                     .compress = w->spec.compress,
                     .own_layers = own_layers,
                     .data = probe};
    kvt_code code = w->n_probe == TRACE_PROBES_MAX
                        ? kvt_fail(err, KVT_FORMAT, "expected at most %d probes", w->n_probe)
                        : io_do(probe_put_job, &one, err);
    w->n_probe++;
    if (!code)
        return KVT_OK;
    w->failed = true;
    return kvt_within(err, "'%s'", w->path);
}

kvt_code kvt_writer_put_probe(kvt_writer *w, const kvt_probe_data *probe, kvt_err *err)
{
    return put_probe(w, probe, false, err);
}

kvt_code writer_put_own_probe(kvt_writer *w, const kvt_probe_data *probe, kvt_err *err)
{
    return put_probe(w, probe, true, err);
}

/* ---- the end -------------------------------------------------------------------------------
 */

/* Decisions mean nothing without the policy that made them, and the other way round. */
static kvt_code check_decisions(const kvt_writer *w, kvt_err *err)
{
    bool named = w->spec.facts.decision_policy[0] != 0, logit = w->set[KVT_DS_DECISION] >= 0;
    bool more = w->set[KVT_DS_DECISION_W] >= 0 || w->set[KVT_DS_DECISION_G] >= 0;
    if (more && !logit)
        return kvt_fail(err, KVT_FORMAT,
                        "decision/weight and decision/gamma need decision/logit");
    if (logit && !named)
        return kvt_fail(err, KVT_FORMAT,
                        "decision/logit needs attribute 'policy' of /decision");
    if (named && !logit)
        return kvt_fail(err, KVT_FORMAT, "/decision names policy '%s' without decision/logit",
                        w->spec.facts.decision_policy);
    return KVT_OK;
}

/* Everything that the level asks for is there, and what is there is whole. */
static kvt_code check_whole(kvt_writer *w, kvt_err *err)
{
    if (check_decisions(w, err))
        return err->code;
    for (int ds = 0; ds < KVT_DS_COUNT; ds++) {
        const char *path = kvt_dataset_of((kvt_ds)ds)->path;
        int64_t dim[KVT_RANK_MAX];
        int rank = extents_dims(&w->extent, (kvt_ds)ds, dim);
        bool empty = dims_slab((kvt_ds)ds, rank, dim) == 0;
        if (w->set[ds] < 0 && dataset_required((kvt_ds)ds, &w->spec.facts)) {
            if (!empty)
                return kvt_fail(err, KVT_FORMAT, "%s was not written", path);
            if (make_set(w, (kvt_ds)ds, err))
                return err->code;
        }
        for (int64_t l = 0; l < w->content.n_slab[ds]; l++) {
            if (!w->put[ds][l] && !empty)
                return kvt_fail(err, KVT_FORMAT, "layer %lld of %s was not written",
                                (long long)l, path);
            if (empty) { /* of no bytes */
                w->sum[ds][l] = digest_64("", 0);
                digest_of("", 0, w->content.slab[ds][l]);
            }
        }
    }
    return KVT_OK;
}

static kvt_code finish_sets(kvt_writer *w, kvt_err *err)
{
    scales sc = {.file = w->file};
    kvt_code code = KVT_OK;
    scales_init(&sc);
    for (int ds = 0; ds < KVT_DS_COUNT && !code; ds++) {
        if (w->set[ds] < 0)
            continue;
        const kvt_dataset *d = kvt_dataset_of((kvt_ds)ds);
        code = h5_put_array(w->set[ds], "xxh64", H5T_STD_U64LE, w->content.n_slab[ds],
                            w->sum[ds], err);
        if (!code && ds == KVT_DS_BLOCK_SUM)
            code = h5_put_real(w->set[ds], "scale", KVT_BLOCK_SCALE, err);
        if (!code && ds == KVT_DS_FUTURE_DELAYED)
            code = h5_put_int(w->set[ds], "w", w->spec.facts.delay, err);
        if (!code)
            code = scales_attach(&sc, w->set[ds], d->axes, w->content.dim[ds], err);
        if (H5Dclose(w->set[ds]) < 0 && !code)
            code = h5_fail(err, KVT_IO, d->path);
        w->set[ds] = -1;
    }
    kvt_err late;
    if (scales_close(&sc, &late) && !code) {
        *err = late;
        code = err->code;
    }
    return code;
}

static kvt_code put_root(kvt_writer *w, kvt_err *err)
{
    char sum[KVT_DIGEST_TEXT], names[32];
    const int32_t version[2] = {KVT_TRACE_MAJOR, KVT_TRACE_MINOR};
    snprintf(names, sizeof names, "kvt-trace-%d.%d", KVT_TRACE_MAJOR, KVT_TRACE_MINOR);
    kvt_trace_facts *f = &w->spec.facts;
    if (!f->writer[0])
        snprintf(f->writer, sizeof f->writer, "kvt %s", version_text());
    if (!f->commit[0])
        snprintf(f->commit, sizeof f->commit, "%s", version_commit());
    if (content_digest(sum, &w->content, err) ||
        h5_put_text(w->file, "format", "kvt-trace", err) ||
        h5_put_array(w->file, "version", H5T_STD_I32LE, 2, version, err) ||
        h5_put_text(w->file, "Conventions", names, err) || facts_write(w->file, f, err) ||
        h5_put_text(w->file, "digest", sum, err))
        return err->code;
    return KVT_OK;
}

static kvt_code finish_job(void *arg, kvt_err *err)
{
    kvt_writer *w = arg;
    const uint8_t yes = 1;
    if (check_whole(w, err) || finish_sets(w, err) || put_root(w, err) ||
        h5_file_sync(w->file, err) ||
        h5_put_array(w->file, "complete", H5T_STD_U8LE, -1, &yes, err))
        return err->code;
    hid_t file = w->file;
    w->file = -1;
    return h5_file_close(file, err);
}

static kvt_code drop_job(void *arg, kvt_err *err)
{
    kvt_writer *w = arg;
    (void)err;
    for (int i = 0; i < KVT_DS_COUNT; i++)
        if (w->set[i] >= 0)
            H5Dclose(w->set[i]);
    h5_file_drop(w->file);
    w->file = -1;
    return KVT_OK;
}

void kvt_writer_abort(kvt_writer *w)
{
    kvt_err ignored;
    if (!w)
        return;
    if (w->held) {
        forget_later(w);
        if (w->file >= 0 && io_do(drop_job, w, &ignored))
            w->file = -1; /* nothing more can be done for a file that is given up */
        io_release();
    }
    if (w->temp[0])
        unlink(w->temp);
    for (int i = 0; i < KVT_DS_COUNT; i++) {
        kvt_free(w->sum[i]);
        kvt_free(w->put[i]);
        kvt_free(w->content.slab[i]);
    }
    kvt_free(w);
}

kvt_code kvt_writer_close(kvt_writer *w, kvt_err *err)
{
    kvt_code code = writer_wait(w, w->n_later, err);
    if (code) {
        kvt_writer_abort(w);
        return code;
    }
    code = w->failed ? kvt_fail(err, KVT_IO, "a dataset could not be written")
                     : io_do(finish_job, w, err);
    /* The reader's checks on the finished file: also what tells that the disk was full where
     * every call reported success. */
    kvt_trace *t = NULL;
    if (!code)
        code = kvt_trace_open(&t, w->temp, 0, err);
    kvt_trace_close(t);
    if (!code && file_exists(w->path) && !w->spec.force)
        code = kvt_fail(err, KVT_IO, "is there already; --force replaces it");
    if (!code)
        code = file_commit(w->temp, w->path, err);
    if (!code)
        w->temp[0] = 0;
    else
        kvt_within(err, "'%s'", w->path);
    kvt_writer_abort(w);
    return code;
}
