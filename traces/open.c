/* open.c - everything that is checked before a trace is used.
 *
 * A reader trusts nothing: links that leave the file, types, axes, extents that do not agree,
 * data that would lie behind the end of the file, indices. Each is refused with one line. */
#include "traces/trace_priv.h"

#include "base/file.h"
#include "traces/facts.h"
#include "traces/layout.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kvt/arena.h"

static kvt_code check_root(kvt_trace *t, kvt_err *err)
{
    char format[32];
    int32_t version[2];
    int64_t n, complete = 0;
    kvt_code code = h5_get_text(t->file, "format", format, sizeof format, err);
    if (code || strcmp(format, "kvt-trace") != 0)
        return kvt_fail(err, KVT_FORMAT, "is no trace: expected format 'kvt-trace', got %s%s%s",
                        code ? "none" : "'", code ? "" : format, code ? "" : "'");
    if (h5_get_array(t->file, "version", H5T_NATIVE_INT32, 2, &n, version, err))
        return err->code;
    if (n != 2 || version[0] < 1 || version[1] < 0)
        return kvt_fail(err, KVT_FORMAT, "attribute 'version': expected two numbers, from 1.0");
    if (version[0] > KVT_TRACE_MAJOR)
        return kvt_fail(
            err, KVT_FORMAT,
            "has format %d.%d, this program reads up to %d.x: a newer kvt is needed",
            version[0], version[1], KVT_TRACE_MAJOR);
    code = h5_get_int(t->file, "complete", &complete, err);
    if (code == KVT_FORMAT)
        return code;
    if (code || complete != 1)
        return kvt_fail(err, KVT_FORMAT, "is not complete: its writer did not finish");
    t->info.version[0] = version[0];
    t->info.version[1] = version[1];
    return h5_get_text(t->file, "digest", t->info.digest, sizeof t->info.digest, err);
}

/* ---- one dataset ---------------------------------------------------------------------------
 */

static const char *print_dims(char *out, size_t cap, const char *axes, int rank,
                              const int64_t *dim)
{
    kvt_view v = kvt_view_of(NULL, KVT_U8, axes, (size_t)rank, dim);
    char text[160];
    kvt_view_print(&v, text, sizeof text);
    const char *at = strchr(text, '[');
    snprintf(out, cap, "%.120s", at ? at : text);
    return out;
}

/* Extents: the number of axes, then each letter with what is known of it; learns what is not.
 */
static kvt_code check_extents(trace_set *s, trace_extents *e, const kvt_dataset *d,
                              kvt_err *err)
{
    hid_t space = H5Dget_space(s->id);
    hsize_t size[H5S_MAX_RANK];
    int rank = space < 0 ? -1 : H5Sget_simple_extent_ndims(space);
    if (rank > 0)
        H5Sget_simple_extent_dims(space, size, NULL);
    if (space >= 0)
        H5Sclose(space);
    s->rank = (int)strlen(d->axes);
    if (rank != s->rank)
        return kvt_fail(err, KVT_FORMAT, "expected axes %s, got %d axes", d->axes, rank);
    int64_t want[KVT_RANK_MAX];
    bool same = true;
    for (int i = 0; i < rank; i++) {
        if (size[i] > INT64_MAX / 16)
            return kvt_fail(err, KVT_FORMAT, "axis %c: extent out of range", d->axes[i]);
        s->dim[i] = (int64_t)size[i];
        int64_t *known = &extents_at(e, d->axes[i]);
        if (*known < 0)
            *known = s->dim[i];
        want[i] = *known;
        same &= want[i] == s->dim[i];
    }
    if (same)
        return KVT_OK;
    char a[128], b[128];
    return kvt_fail(err, KVT_FORMAT, "expected %s, got %s",
                    print_dims(a, sizeof a, d->axes, rank, want),
                    print_dims(b, sizeof b, d->axes, rank, s->dim));
}

/* That the bytes lie inside the file, and that chunks cannot unfold to more than deflate can.
 */
static kvt_code check_storage(kvt_trace *t, trace_set *s, const kvt_dataset *d, kvt_err *err)
{
    int64_t total = s->n_element * s->n_slab * (int64_t)kvt_dtype_size(d->dtype);
    hid_t list = H5Dget_create_plist(s->id);
    H5D_layout_t layout = list < 0 ? H5D_LAYOUT_ERROR : H5Pget_layout(list);
    s->chunked = layout == H5D_CHUNKED;
    if (list >= 0)
        H5Pclose(list);
    if (layout == H5D_LAYOUT_ERROR)
        return h5_fail(err, KVT_FORMAT, "layout");
    if (layout == H5D_CONTIGUOUS && total > 0) {
        haddr_t at = H5Dget_offset(s->id);
        if (at == HADDR_UNDEF || (int64_t)at < 0 || (int64_t)at > t->info.file_bytes - total)
            return kvt_fail(err, KVT_FORMAT, "its %lld bytes do not lie in the file",
                            (long long)total);
    }
    /* Deflate packs at most 1 : 1032. */
    if (s->chunked && total / 1100 > t->info.file_bytes)
        return kvt_fail(err, KVT_FORMAT, "claims %lld bytes in a file of %lld",
                        (long long)total, (long long)t->info.file_bytes);
    return KVT_OK;
}

static kvt_code check_attrs(kvt_trace *t, trace_set *s, kvt_ds ds, const kvt_dataset *d,
                            kvt_err *err)
{
    char axes[16];
    int64_t n, w;
    double scale;
    if (h5_get_text(s->id, "axes", axes, sizeof axes, err))
        return err->code;
    if (strcmp(axes, d->axes) != 0)
        return kvt_fail(err, KVT_FORMAT, "expected axes %s, got %s", d->axes, axes);
    if (h5_get_array(s->id, "xxh64", H5T_NATIVE_UINT64, s->n_slab, &n, s->sum, err))
        return err->code;
    if (n != s->n_slab)
        return kvt_fail(err, KVT_FORMAT, "attribute 'xxh64': expected [%lld], got [%lld]",
                        (long long)s->n_slab, (long long)n);
    if (ds == KVT_DS_BLOCK_SUM) {
        if (h5_get_real(s->id, "scale", &scale, err))
            return err->code;
        if (!(scale == KVT_BLOCK_SCALE))
            return kvt_fail(err, KVT_FORMAT, "attribute 'scale': expected %g, got %g",
                            KVT_BLOCK_SCALE, scale);
    }
    if (ds == KVT_DS_FUTURE_DELAYED) {
        if (h5_get_int(s->id, "w", &w, err))
            return err->code;
        if (w != t->info.facts.delay)
            return kvt_fail(err, KVT_FORMAT,
                            "attribute 'w': expected %lld as in /future, got %lld",
                            (long long)t->info.facts.delay, (long long)w);
    }
    return KVT_OK;
}

static kvt_code check_set(kvt_trace *t, trace_extents *e, kvt_ds ds, kvt_err *err)
{
    const kvt_dataset *d = kvt_dataset_of(ds);
    trace_set *s = &t->set[ds];
    hid_t type = H5Dget_type(s->id);
    int got = type < 0 ? -1 : h5_dtype(type);
    if (type >= 0)
        H5Tclose(type);
    if (got != (int)d->dtype)
        return kvt_fail(err, KVT_FORMAT, "expected type %s, got %s", kvt_dtype_name(d->dtype),
                        got < 0 ? "another" : kvt_dtype_name((kvt_dtype)got));
    if (check_extents(s, e, d, err))
        return err->code;
    s->n_slab = dataset_has_layers(ds) ? s->dim[0] : 1;
    if (s->n_slab > KVT_LAYERS_MAX)
        return kvt_fail(err, KVT_FORMAT, "expected at most %d layers, got %lld", KVT_LAYERS_MAX,
                        (long long)s->n_slab);
    s->n_element = dims_slab(ds, s->rank, s->dim);
    if (s->n_element < 0)
        return kvt_fail(err, KVT_FORMAT, "its extents are out of range");
    if (!(s->sum = kvt_alloc(s->n_slab, sizeof *s->sum)))
        return kvt_fail_memory(err, (size_t)s->n_slab * sizeof *s->sum);
    if (check_storage(t, s, d, err))
        return err->code;
    return check_attrs(t, s, ds, d, err);
}

static kvt_code open_sets(kvt_trace *t, kvt_err *err)
{
    trace_extents e;
    const kvt_trace_facts *f = &t->info.facts;
    extents_init(&e, f);
    for (int ds = 0; ds < KVT_DS_COUNT; ds++) {
        const kvt_dataset *d = kvt_dataset_of((kvt_ds)ds);
        kvt_code code = h5_set_open(&t->set[ds].id, t->file, d->path, err);
        if (code == KVT_NOTFOUND) {
            if (dataset_required((kvt_ds)ds, f))
                return kvt_fail(err, KVT_FORMAT, "has no %s, which level %s must have", d->path,
                                kvt_level_name(f->level));
            continue;
        }
        if (code || check_set(t, &e, (kvt_ds)ds, err))
            return kvt_within(err, "%s", d->path);
        t->info.has[ds] = true;
    }
    t->info.n_layer = (int)t->set[KVT_DS_LAYER_ID].dim[0];
    t->info.n_token = extents_at(&e, 'T');
    t->info.n_query = extents_at(&e, 'Q') < 0 ? 0 : extents_at(&e, 'Q');
    t->info.n_block = extents_at(&e, 'J') < 0 ? 0 : extents_at(&e, 'J');
    int64_t border = extents_at(&e, 'I');
    if (border >= 0 && extents_at(&e, 'J') >= 0 && border != t->info.n_block + 1)
        return kvt_fail(err, KVT_FORMAT, "attn/block_start: expected [I=%lld], got [I=%lld]",
                        (long long)t->info.n_block + 1, (long long)border);
    if (t->info.n_layer < 1 || t->info.n_layer > f->model.n_layer)
        return kvt_fail(err, KVT_FORMAT, "layer/id: expected 1 to %lld layers, got %d",
                        (long long)f->model.n_layer, t->info.n_layer);
    return KVT_OK;
}

kvt_code trace_open_job(void *trace, kvt_err *err)
{
    kvt_trace *t = trace;
    if (h5_file_open(&t->file, t->info.path, err))
        return err->code;
    t->info.file_bytes = file_size(t->info.path);
    kvt_code code;
    if (check_root(t, err) || facts_read(t->file, &t->info.facts, err) ||
        facts_check(&t->info.facts, err) || open_sets(t, err))
        code = err->code;
    else
        code = probes_read(t, err);
    /* What a file lacks inside is a fault of the file: NOTFOUND is for the file itself. */
    return code == KVT_NOTFOUND ? (err->code = KVT_FORMAT) : code;
}

/* ---- values that are indices ---------------------------------------------------------------
 */

static kvt_code rising(const char *path, const int32_t *x, int64_t n, int64_t lo, int64_t hi,
                       kvt_err *err)
{
    for (int64_t i = 0; i < n; i++) {
        if (x[i] < lo || x[i] >= hi)
            return kvt_fail(err, KVT_FORMAT, "%s[%lld]: expected %lld to %lld, got %d", path,
                            (long long)i, (long long)lo, (long long)hi - 1, x[i]);
        if (i > 0 && x[i] <= x[i - 1])
            return kvt_fail(err, KVT_FORMAT, "%s[%lld]: %d does not come after %d", path,
                            (long long)i, x[i], x[i - 1]);
    }
    return KVT_OK;
}

static kvt_code check_offset(kvt_trace *t, kvt_err *err)
{
    kvt_view v;
    if (kvt_trace_read(t, KVT_DS_TOKEN_OFFSET, 0, &v, err))
        return err->code;
    const int64_t *x = v.data, n_text = t->info.has[KVT_DS_TEXT_BYTES]
                                            ? t->set[KVT_DS_TEXT_BYTES].dim[0]
                                            : INT64_MAX;
    kvt_code code = KVT_OK;
    for (int64_t i = 0; i < v.dim[0] && !code; i++)
        if (x[i] < 0 || x[i] > n_text || (i > 0 && x[i] < x[i - 1]))
            code = kvt_fail(err, KVT_FORMAT,
                            "token/offset[%lld]: expected rising offsets within %lld bytes of "
                            "text, got %lld",
                            (long long)i, (long long)n_text, (long long)x[i]);
    kvt_trace_done(t, &v);
    return code;
}

static kvt_code check_blocks(kvt_trace *t, kvt_err *err)
{
    kvt_view v;
    if (!t->info.has[KVT_DS_BLOCK_START])
        return KVT_OK;
    if (kvt_trace_read(t, KVT_DS_BLOCK_START, 0, &v, err))
        return err->code;
    const int32_t *x = v.data;
    const kvt_token_info *k = &t->info.facts.token;
    int64_t n = v.dim[0];
    bool at_prompt_end = k->n_response == 0;
    kvt_code code = rising("attn/block_start", x, n, 0, t->info.n_token + 1, err);
    for (int64_t i = 0; i < n && !code; i++)
        at_prompt_end |= x[i] == k->n_prompt;
    if (!code && (n < 2 || x[0] != 0 || x[n - 1] != t->info.n_token || !at_prompt_end))
        code =
            kvt_fail(err, KVT_FORMAT,
                     "attn/block_start: expected blocks from 0 to %lld, one of them from %lld",
                     (long long)t->info.n_token, (long long)k->n_prompt);
    kvt_trace_done(t, &v);
    return code;
}

kvt_code trace_check_index(kvt_trace *t, kvt_err *err)
{
    kvt_view v;
    if (kvt_trace_read(t, KVT_DS_LAYER_ID, 0, &v, err))
        return err->code;
    memcpy(t->info.layer_id, v.data, (size_t)t->info.n_layer * sizeof(int32_t));
    kvt_trace_done(t, &v);
    if (rising("layer/id", t->info.layer_id, t->info.n_layer, 0, t->info.facts.model.n_layer,
               err) ||
        check_offset(t, err) || check_blocks(t, err))
        return err->code;
    if (probes_check_index(t, err))
        return err->code;
    if (!t->info.has[KVT_DS_QUERY_POS])
        return KVT_OK;
    if (kvt_trace_read(t, KVT_DS_QUERY_POS, 0, &v, err))
        return err->code;
    kvt_code code = rising("query/pos", v.data, v.dim[0], 0, t->info.n_token, err);
    kvt_trace_done(t, &v);
    return code;
}
