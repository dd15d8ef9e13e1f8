/* reader.c - an open trace and its cache of decoded slabs.
 *
 * A slab is one layer of a dataset (all of it where there is no axis L). Reading and checking
 * its sum, and decoding halves, is done once; a warm read is a lock and a table look-up.
 * Whoever finds a slab that another thread is loading waits for it. Slabs that nobody holds are
 * dropped, least recently used first, when the limit is passed; what is held always stays. */
#include "traces/trace_priv.h"

#include "base/digest.h"
#include "base/file.h"
#include "base/half.h"
#include "traces/io.h"
#include "traces/layout.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "kvt/arena.h"
#include "kvt/need.h"

/* ---- opening -------------------------------------------------------------------------------
 */

static void name_of(char *out, size_t cap, const char *path)
{
    snprintf(out, cap, "%.*s", (int)cap - 1, file_base(path));
    size_t n = strlen(out);
    if (n > 3 && strcmp(out + n - 3, ".h5") == 0)
        out[n - 3] = 0;
}

static kvt_code close_job(void *arg, kvt_err *err)
{
    kvt_trace *t = arg;
    (void)err;
    for (int i = 0; i < KVT_DS_COUNT; i++)
        if (t->set[i].id >= 0)
            H5Dclose(t->set[i].id);
    /* Debug builds: no handle may be left but the file itself. */
    assert(t->file < 0 || h5_file_objects(t->file) == 0);
    h5_file_drop(t->file);
    return KVT_OK;
}

void kvt_trace_close(kvt_trace *t)
{
    kvt_err ignored;
    if (!t)
        return;
    if (t->held) {
        if (io_do(close_job, t, &ignored))
            t->file = -1; /* behind a fork: the parent has the file */
        io_release();
    }
    for (int i = 0; i < t->n_slot; i++)
        kvt_free(t->slot[i]);
    for (int i = 0; i < KVT_DS_COUNT; i++)
        kvt_free(t->set[i].sum);
    for (int i = 0; i < TRACE_PROBES_MAX * KVT_PROBE_SETS; i++)
        kvt_free(t->probe_set[i / KVT_PROBE_SETS][i % KVT_PROBE_SETS].sum);
    kvt_free(t->slot);
    pthread_cond_destroy(&t->loaded);
    pthread_mutex_destroy(&t->lock);
    kvt_free(t);
}

kvt_code kvt_trace_open(kvt_trace **out, const char *path, size_t cache_bytes, kvt_err *err)
{
    *out = NULL;
    kvt_trace *t = kvt_alloc(1, sizeof *t);
    if (!t)
        return kvt_fail_memory(err, sizeof *t);
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->loaded, NULL);
    t->file = -1;
    for (int i = 0; i < KVT_DS_COUNT; i++)
        t->set[i].id = -1;
    t->limit = cache_bytes ? cache_bytes : (size_t)KVT_TRACE_CACHE_DEFAULT << 20;
    name_of(t->info.name, sizeof t->info.name, path);
    kvt_code code = KVT_OK;
    if ((size_t)snprintf(t->info.path, sizeof t->info.path, "%s", path) >= sizeof t->info.path)
        code =
            kvt_fail(err, KVT_USAGE, "a path of more than %zu bytes", sizeof t->info.path - 1);
    else if (!(code = io_hold(err))) {
        t->held = true;
        code = io_do(trace_open_job, t, err);
    }
    if (!code) {
        t->per_set = t->info.n_layer;
        t->slot = kvt_alloc(2 * KVT_DS_COUNT * (int64_t)t->per_set, sizeof(slab *));
        t->n_slot = t->slot ? 2 * KVT_DS_COUNT * t->per_set : 0;
        code = t->slot ? trace_check_index(t, err) : kvt_fail_memory(err, 4096);
    }
    if (code) {
        kvt_trace_close(t);
        return kvt_within(err, "'%s'", path);
    }
    *out = t;
    return KVT_OK;
}

const kvt_trace_info *kvt_trace_info_of(const kvt_trace *t)
{
    return &t->info;
}

/* ---- loading one slab ----------------------------------------------------------------------
 */

typedef struct load {
    kvt_trace *t;
    kvt_ds ds;
    int layer;
    void *bytes;
} load;

static kvt_code load_job(void *arg, kvt_err *err)
{
    load *l = arg;
    const trace_set *s = &l->t->set[l->ds];
    if (s->chunked && s->n_element > 0) {
        bool layers = dataset_has_layers(l->ds);
        int64_t lo = layers ? l->layer : 0, hi = layers ? l->layer + 1 : s->dim[0];
        if (h5_chunks_check(s->id, lo, hi, l->t->info.file_bytes, err))
            return err->code;
    }
    return layout_read(s->id, kvt_dataset_of(l->ds), s->rank, s->dim, l->layer, l->bytes, err);
}

kvt_code trace_load(kvt_trace *t, kvt_ds ds, int layer, void *bytes, kvt_err *err)
{
    const trace_set *s = &t->set[ds];
    load l = {.t = t, .ds = ds, .layer = layer, .bytes = bytes};
    kvt_code code = io_do(load_job, &l, err);
    if (!code) {
        size_t n = (size_t)s->n_element * kvt_dtype_size(kvt_dataset_of(ds)->dtype);
        if (digest_64(bytes, n) != s->sum[layer])
            code = kvt_fail(err, KVT_FORMAT, "wrong checksum: the file was changed or damaged");
    }
    if (!code)
        return KVT_OK;
    if (dataset_has_layers(ds))
        return kvt_within(err, "layer %d of %s", layer, kvt_dataset_of(ds)->path);
    return kvt_within(err, "%s", kvt_dataset_of(ds)->path);
}

/* ---- the cache -----------------------------------------------------------------------------
 */

static void *values(slab *b)
{
    return (char *)b + SLAB_HEAD;
}

static void unlink_slab(kvt_trace *t, slab *b)
{
    *(b->older ? &b->older->newer : &t->oldest) = b->newer;
    *(b->newer ? &b->newer->older : &t->newest) = b->older;
    b->older = b->newer = NULL;
}

static void make_newest(kvt_trace *t, slab *b)
{
    b->older = t->newest;
    b->newer = NULL;
    *(t->newest ? &t->newest->newer : &t->oldest) = b;
    t->newest = b;
}

static void drop(kvt_trace *t, slab *b)
{
    unlink_slab(t, b);
    t->used -= b->bytes;
    t->slot[b->index] = NULL;
    kvt_free(b);
}

/* Only slabs that nobody holds are in the list. */
static void shrink(kvt_trace *t)
{
    while (t->used > t->limit && t->oldest)
        drop(t, t->oldest);
}

/* A new slab in the table, held once and marked as loading. */
static kvt_code new_slab(kvt_trace *t, slab **out, int index, size_t bytes, kvt_err *err)
{
    static_assert(sizeof(slab) <= SLAB_HEAD, "values are 64-byte aligned");
    t->used += bytes;
    shrink(t);
    slab *b = kvt_resize(NULL, 0, (int64_t)(SLAB_HEAD + bytes), 1); /* filled, so not zeroed */
    if (!b) {
        t->used -= bytes;
        return kvt_fail_memory(err, bytes);
    }
    *b = (slab){.mark = SLAB_MARK, .index = index, .pins = 1, .loading = true, .bytes = bytes};
    t->slot[index] = b;
    *out = b;
    return KVT_OK;
}

static kvt_code fill(kvt_trace *t, slab *b, kvt_ds ds, int layer, bool decode, kvt_err *err)
{
    int64_t n = t->set[ds].n_element;
    if (!decode)
        return trace_load(t, ds, layer, values(b), err);
    /* The halves are read into the upper half of their floats' place: the decoder walks upwards
     * and would overtake them, so they get a buffer of their own. */
    uint16_t *half = kvt_resize(NULL, 0, n, sizeof *half);
    if (!half)
        return kvt_fail_memory(err, (size_t)n * 2);
    kvt_code code = trace_load(t, ds, layer, half, err);
    if (!code)
        half_to_floats(values(b), half, n);
    kvt_free(half);
    return code;
}

/* Finds or loads; the slab is held once more. */
static kvt_code take(kvt_trace *t, slab **out, kvt_ds ds, int layer, bool decode, kvt_err *err)
{
    int index = ((int)ds * t->per_set + layer) * 2 + decode;
    pthread_mutex_lock(&t->lock);
    slab *b;
    while ((b = t->slot[index]) && b->loading)
        pthread_cond_wait(&t->loaded, &t->lock);
    if (b) {
        if (b->pins++ == 0)
            unlink_slab(t, b);
        pthread_mutex_unlock(&t->lock);
        *out = b;
        return KVT_OK;
    }
    size_t size = decode ? 4 : kvt_dtype_size(kvt_dataset_of(ds)->dtype);
    kvt_code code = new_slab(t, &b, index, (size_t)t->set[ds].n_element * size, err);
    pthread_mutex_unlock(&t->lock);
    if (code)
        return code;
    code = fill(t, b, ds, layer, decode, err);
    pthread_mutex_lock(&t->lock);
    b->loading = false;
    if (code) { /* who waited for it tries again and gets an error of its own */
        t->used -= b->bytes;
        t->slot[index] = NULL;
        kvt_free(b);
    } else {
        *out = b;
    }
    pthread_cond_broadcast(&t->loaded);
    pthread_mutex_unlock(&t->lock);
    return code;
}

static kvt_code read_view(kvt_trace *t, kvt_ds ds, int layer, bool raw, kvt_view *out,
                          kvt_err *err)
{
    const kvt_dataset *d = kvt_dataset_of(ds);
    const trace_set *s = &t->set[ds];
    if (!t->info.has[ds])
        return kvt_fail(err, KVT_NOTFOUND, "'%s': this trace has no %s (level %s)",
                        t->info.path, d->path, kvt_level_name(t->info.facts.level));
    int layers = dataset_has_layers(ds);
    if (!layers)
        layer = 0;
    if (layer < 0 || layer >= s->n_slab)
        return kvt_fail(err, KVT_NOTFOUND, "'%s': %s: layer %d of %lld", t->info.path, d->path,
                        layer, (long long)s->n_slab);
    bool decode = d->dtype == KVT_F16 && !raw;
    slab *b;
    if (take(t, &b, ds, layer, decode, err))
        return kvt_within(err, "'%s'", t->info.path);
    *out = kvt_view_of(values(b), decode ? KVT_F32 : d->dtype, d->axes + layers,
                       (size_t)(s->rank - layers), s->dim + layers);
    return KVT_OK;
}

kvt_code kvt_trace_read(kvt_trace *t, kvt_ds ds, int layer, kvt_view *out, kvt_err *err)
{
    return read_view(t, ds, layer, false, out, err);
}

kvt_code kvt_trace_read_raw(kvt_trace *t, kvt_ds ds, int layer, kvt_view *out, kvt_err *err)
{
    return read_view(t, ds, layer, true, out, err);
}

void kvt_trace_done(kvt_trace *t, const kvt_view *view)
{
    if (!view->data)
        return;
    slab *b = (slab *)(void *)((char *)(uintptr_t)view->data - SLAB_HEAD);
    assert(b->mark == SLAB_MARK); /* the view as it was given, not a part of it */
    pthread_mutex_lock(&t->lock);
    assert(b->pins > 0);
    if (--b->pins == 0) {
        make_newest(t, b);
        shrink(t);
    }
    pthread_mutex_unlock(&t->lock);
}
