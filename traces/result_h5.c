/* result_h5.c - a result in DIR/TRACE/PASS.kvt-results.h5.
 *
 *   1. the root: format "kvt-results", version, facts of the pass, digest, complete;
 *   2. /layer/id i32 [L]; /cells and /lanes, tables of H5TB's layout (table_h5.h);
 *   3. the arrays of results.def that the pass has, each with axes, unit, help and xxh64.
 * The digest is over the facts, the rows and the sums of the arrays, not over paths and
 * versions. */
#include "kvt/result.h"

#include "base/digest.h"
#include "base/file.h"
#include "base/version.h"
#include "traces/dataset.h"
#include "traces/io.h"
#include "traces/table_h5.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kvt/arena.h"

enum { RESULT_MAJOR = 1, RESULT_MINOR = 0, CELLS_MAX = 4096 };

typedef struct result_set {
    kvt_dataset d;
    size_t offset; /* of the pointer in kvt_result */
} result_set;

static const result_set sets[] = {
#define KVT_RESULT_SET(field, path, ctype, type, axes, unit, help)   \
    {{#field, path, KVT_##type, axes, unit, KVT_NEVER, false, help}, \
     offsetof(kvt_result, field)},
#include "traces/results.def"
#undef KVT_RESULT_SET
};
enum { N_SET = sizeof sets / sizeof sets[0] };

/* Facts of a pass that are one value. */
typedef struct fact {
    const char *name;
    attr_kind kind; /* TEXT, INT, BOOL */
    size_t offset, width;
    bool run;
} fact;

#define TEXT(field, run)                                                                      \
    {                                                                                         \
#field, ATTR_TEXT, offsetof(kvt_result, field), sizeof(((kvt_result *)0)->field), run \
    }
#define VALUE(field, kind)                                         \
    {                                                              \
#field, ATTR_##kind, offsetof(kvt_result, field), 0, false \
    }

static const fact facts[] = {
    TEXT(pass_id, false),      TEXT(trace_path, true),     TEXT(trace_id, false),
    TEXT(trace_digest, false), TEXT(policy_text, false),   TEXT(policy_title, false),
    VALUE(is_control, BOOL),   VALUE(by_query_head, BOOL), VALUE(n_prompt, INT),
    VALUE(n_response, INT),
};
enum { N_FACT = sizeof facts / sizeof facts[0] };

static int dims_of(const kvt_result *r, const kvt_dataset *d, int64_t dim[KVT_RANK_MAX])
{
    int rank = 0;
    for (const char *a = d->axes; *a; a++)
        dim[rank++] = *a == 'C'   ? r->n_cell
                      : *a == 'L' ? r->n_layer
                      : *a == 'A' ? r->n_lane
                      : *a == 'N' ? r->n_prompt
                      : *a == 'M' ? r->n_response
                                  : r->n_prompt + r->n_response;
    return rank;
}

static int64_t count(int rank, const int64_t *dim)
{
    int64_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= dim[i];
    return n;
}

/* ---- writing -------------------------------------------------------------------------------
 */

typedef struct write {
    const kvt_result *r;
    const kvt_schema *cells, *lanes;
    const char *path;
    hid_t file;
    digest *sum;
} write_args;

static kvt_code put_facts(write_args *w, kvt_err *err)
{
    const kvt_result *r = w->r;
    for (int i = 0; i < N_FACT; i++) {
        const char *at = (const char *)r + facts[i].offset;
        int64_t x = 0;
        if (facts[i].kind == ATTR_INT)
            memcpy(&x, at, sizeof x);
        else if (facts[i].kind == ATTR_BOOL)
            x = *(const bool *)at;
        if (facts[i].kind == ATTR_TEXT ? h5_put_text(w->file, facts[i].name, at, err)
                                       : h5_put_int(w->file, facts[i].name, x, err))
            return err->code;
        if (!facts[i].run) {
            char text[32];
            snprintf(text, sizeof text, "%lld", (long long)x);
            digest_add_text(w->sum, facts[i].name);
            digest_add_text(w->sum, facts[i].kind == ATTR_TEXT ? at : text);
        }
    }
    if (r->plan_note && h5_put_text(w->file, "plan_note", r->plan_note, err))
        return err->code;
    return h5_put_int(w->file, "n_lane", r->n_lane, err);
}

static kvt_code put_set(write_args *w, const result_set *s, kvt_err *err)
{
    const void *data;
    memcpy(&data, (const char *)w->r + s->offset, sizeof data);
    if (!data)
        return KVT_OK;
    int64_t dim[KVT_RANK_MAX];
    int rank = dims_of(w->r, &s->d, dim);
    size_t bytes = (size_t)count(rank, dim) * kvt_dtype_size(s->d.dtype);
    uint64_t sum = digest_64(data, bytes);
    char whole[DIGEST_TEXT];
    digest_of(data, bytes, whole);
    digest_add_text(w->sum, s->d.path);
    digest_add_text(w->sum, whole);
    if (h5_set_write(w->file, s->d.path, s->d.dtype, rank, dim, data, err))
        return err->code;
    hid_t set = H5Dopen2(w->file, s->d.path, H5P_DEFAULT);
    if (set < 0)
        return h5_fail(err, KVT_IO, s->d.path);
    kvt_code code = h5_put_text(set, "axes", s->d.axes, err);
    if (!code)
        code = h5_put_text(set, "unit", s->d.unit, err);
    if (!code)
        code = h5_put_text(set, "help", s->d.help, err);
    if (!code)
        code = h5_put_array(set, "xxh64", H5T_STD_U64LE, 1, &sum, err);
    if (H5Dclose(set) < 0 && !code)
        code = h5_fail(err, KVT_IO, s->d.path);
    return code;
}

static kvt_code put_table(write_args *w, const char *name, const char *title,
                          const kvt_schema *schema, const void *rows, int64_t n, size_t size,
                          kvt_err *err)
{
    char sum[DIGEST_TEXT];
    kvt_table t = {.name = name,
                   .title = title,
                   .columns = schema->column,
                   .rows = rows,
                   .n_row = n,
                   .row_size = size};
    if (table_write(w->file, &t, sum, err))
        return err->code;
    digest_add_text(w->sum, name);
    digest_add_text(w->sum, sum);
    return KVT_OK;
}

static kvt_code put_all(write_args *w, kvt_err *err)
{
    const kvt_result *r = w->r;
    const int32_t version[2] = {RESULT_MAJOR, RESULT_MINOR};
    const int64_t n_layer = r->n_layer, n_lane_row = (int64_t)r->n_cell * n_layer * r->n_lane;
    const uint8_t yes = 1;
    char program[64], whole[DIGEST_TEXT];
    snprintf(program, sizeof program, "kvt %s", version_text());
    if (h5_put_text(w->file, "format", "kvt-results", err) ||
        h5_put_array(w->file, "version", H5T_STD_I32LE, 2, version, err) ||
        h5_put_text(w->file, "writer", program, err) ||
        h5_put_text(w->file, "commit", version_commit(), err) || put_facts(w, err) ||
        h5_set_write(w->file, "layer/id", KVT_I32, 1, &n_layer, r->layer_id, err) ||
        put_table(w, "cells", "one row a cell: trace x policy x budget", w->cells, r->cell,
                  r->n_cell, sizeof *r->cell, err) ||
        put_table(w, "lanes", "one row a cell and lane", w->lanes, r->lane,
                  r->lane ? n_lane_row : 0, sizeof *r->lane, err))
        return err->code;
    for (int i = 0; i < N_SET; i++)
        if (put_set(w, &sets[i], err))
            return err->code;
    digest_get(w->sum, whole);
    if (h5_put_text(w->file, "digest", whole, err) || h5_file_sync(w->file, err) ||
        h5_put_array(w->file, "complete", H5T_STD_U8LE, -1, &yes, err))
        return err->code;
    return KVT_OK;
}

static kvt_code write_job(void *arg, kvt_err *err)
{
    write_args *w = arg;
    if (h5_file_new(&w->file, w->path, err))
        return err->code;
    if (put_all(w, err)) {
        h5_file_drop(w->file);
        return err->code;
    }
    return h5_file_close(w->file, err);
}

kvt_code kvt_result_write(const kvt_result *r, const kvt_schema *cells, const kvt_schema *lanes,
                          const char *path, kvt_err *err)
{
    char temp[4200], dir[4096];
    write_args w = {.r = r, .cells = cells, .lanes = lanes, .path = temp, .file = -1};
    kvt_code code = file_mkdirs(file_dir(dir, sizeof dir, path), err);
    if (!code)
        code = file_temp_name(temp, sizeof temp, path, err);
    if (code)
        return kvt_within(err, "'%s'", path);
    if (!(w.sum = digest_new()))
        code = kvt_fail_memory(err, 1024);
    if (!code)
        code = io_once(write_job, &w, err);
    digest_free(w.sum);
    /* A full disk may let every call succeed: what was written is read once before it gets its
     * name. */
    kvt_result *back = NULL;
    if (!code)
        code = kvt_result_open(&back, cells, lanes, temp, true, err);
    kvt_result_free(back);
    if (!code)
        code = file_commit(temp, path, err);
    if (code) {
        unlink(temp);
        kvt_within(err, "'%s'", path);
    }
    return code;
}

/* ---- reading -------------------------------------------------------------------------------
 */

typedef struct read {
    kvt_result *r;
    const kvt_schema *cells, *lanes;
    const char *path;
    bool arrays;
    hid_t file;
    int64_t file_bytes;
} read_args;

static kvt_code get_root(read_args *a, kvt_err *err)
{
    char format[32];
    int32_t version[2];
    int64_t n, complete;
    kvt_code code = h5_get_text(a->file, "format", format, sizeof format, err);
    if (code || strcmp(format, "kvt-results") != 0)
        return kvt_fail(err, KVT_FORMAT, "is no result file");
    if (h5_get_array(a->file, "version", H5T_NATIVE_INT32, 2, &n, version, err))
        return err->code;
    if (n != 2 || version[0] < 1)
        return kvt_fail(err, KVT_FORMAT, "attribute 'version': expected two numbers, from 1.0");
    if (version[0] > RESULT_MAJOR)
        return kvt_fail(
            err, KVT_FORMAT,
            "has format %d.%d, this program reads up to %d.x: a newer kvt is needed",
            version[0], version[1], RESULT_MAJOR);
    code = h5_get_int(a->file, "complete", &complete, err);
    if (code || complete != 1)
        return kvt_fail(err, KVT_FORMAT, "is not complete: its writer did not finish");
    return KVT_OK;
}

static kvt_code get_facts(read_args *a, kvt_err *err)
{
    kvt_result *r = a->r;
    int64_t x, n_lane;
    for (int i = 0; i < N_FACT; i++) {
        char *to = (char *)r + facts[i].offset;
        if (facts[i].kind == ATTR_TEXT) {
            if (h5_get_text(a->file, facts[i].name, to, facts[i].width, err))
                return err->code;
            continue;
        }
        if (h5_get_int(a->file, facts[i].name, &x, err))
            return err->code;
        if (facts[i].kind == ATTR_INT)
            memcpy(to, &x, sizeof x);
        else
            *(bool *)to = x != 0;
    }
    if (h5_get_int(a->file, "n_lane", &n_lane, err))
        return err->code;
    if (r->n_prompt < 1 || r->n_prompt > INT32_MAX || r->n_response < 0 ||
        r->n_response > INT32_MAX || n_lane < 1 || n_lane > 65536)
        return kvt_fail(err, KVT_FORMAT,
                        "sizes: %lld prompt and %lld response tokens, %lld lanes",
                        (long long)r->n_prompt, (long long)r->n_response, (long long)n_lane);
    r->n_lane = (int)n_lane;
    char note[1024];
    kvt_code code = h5_get_text(a->file, "plan_note", note, sizeof note, err);
    if (code == KVT_NOTFOUND)
        return KVT_OK;
    if (!code && !(r->plan_note = kvt_copy_text(note)))
        code = kvt_fail_memory(err, sizeof note);
    return code;
}

/* The extents of an open dataset against what they must be. */
static kvt_code check_set(hid_t set, const kvt_dataset *d, const int64_t *want,
                          int64_t file_bytes, kvt_err *err)
{
    hsize_t size[H5S_MAX_RANK];
    hid_t type = H5Dget_type(set), space = H5Dget_space(set);
    int rank = (int)strlen(d->axes);
    bool fits = type >= 0 && space >= 0 && h5_dtype(type) == (int)d->dtype &&
                H5Sget_simple_extent_ndims(space) == rank &&
                H5Sget_simple_extent_dims(space, size, NULL) == rank;
    int64_t n = (int64_t)kvt_dtype_size(d->dtype);
    for (int i = 0; i < rank && fits; i++)
        fits = (int64_t)size[i] == want[i] && !__builtin_mul_overflow(n, want[i], &n);
    if (space >= 0)
        H5Sclose(space);
    if (type >= 0)
        H5Tclose(type);
    H5Eclear2(H5E_DEFAULT);
    if (fits && n / 1100 <= file_bytes)
        return KVT_OK;
    kvt_view v = kvt_view_of(NULL, d->dtype, d->axes, (size_t)rank, want);
    char text[160];
    return kvt_fail(err, KVT_FORMAT, "expected %s", kvt_view_print(&v, text, sizeof text));
}

static kvt_code get_layers(read_args *a, kvt_err *err)
{
    static const kvt_dataset d = {.path = "layer/id", .dtype = KVT_I32, .axes = "L"};
    hid_t set;
    hsize_t n = 0;
    if (h5_set_open(&set, a->file, d.path, err))
        return err->code;
    hid_t space = H5Dget_space(set), type = h5_type(KVT_I32);
    if (space >= 0 && H5Sget_simple_extent_ndims(space) == 1)
        H5Sget_simple_extent_dims(space, &n, NULL);
    int64_t want = (int64_t)n;
    kvt_code code = KVT_OK;
    if (n < 1 || n > KVT_LAYERS_MAX)
        code = kvt_fail(err, KVT_FORMAT, "expected 1 to %d layers", KVT_LAYERS_MAX);
    else if (!(code = check_set(set, &d, &want, a->file_bytes, err)))
        code = h5_set_read(a->r->layer_id, set, type, err);
    for (int i = 0; i < (int)n && !code; i++)
        if (a->r->layer_id[i] < 0 || a->r->layer_id[i] >= KVT_LAYERS_MAX)
            code = kvt_fail(err, KVT_FORMAT, "layer %d", a->r->layer_id[i]);
    a->r->n_layer = (int)n;
    if (space >= 0)
        H5Sclose(space);
    if (type >= 0)
        H5Tclose(type);
    H5Dclose(set);
    return code ? kvt_within(err, "%s", d.path) : KVT_OK;
}

static kvt_code get_tables(read_args *a, kvt_err *err)
{
    kvt_result *r = a->r;
    int64_t n_cell, n_row;
    if (table_count(a->file, "cells", &n_cell, err) ||
        table_count(a->file, "lanes", &n_row, err))
        return err->code;
    if (n_cell < 1 || n_cell > CELLS_MAX ||
        (n_row != 0 && n_row != n_cell * r->n_layer * r->n_lane))
        return kvt_fail(err, KVT_FORMAT,
                        "%lld cells of %d layers x %d lanes, %lld rows of lanes",
                        (long long)n_cell, r->n_layer, r->n_lane, (long long)n_row);
    r->n_cell = (int)n_cell;
    r->cell = kvt_alloc(n_cell, sizeof *r->cell);
    r->lane = n_row ? kvt_alloc(n_row, sizeof *r->lane) : NULL;
    if (!r->cell || (n_row && !r->lane))
        return kvt_fail_memory(err, (size_t)n_row * sizeof *r->lane);
    for (int64_t i = 0; i < n_cell; i++)
        for (int v = 0; v < KVT_VALUES_MAX; v++)
            r->cell[i].value[v] = NAN;
    for (int64_t i = 0; i < n_row; i++)
        for (int v = 0; v < KVT_VALUES_MAX; v++)
            r->lane[i].value[v] = NAN;
    if (table_read(a->file, "cells", a->cells->column, r->cell, n_cell, sizeof *r->cell, err) ||
        table_read(a->file, "lanes", a->lanes->column, r->lane, n_row, sizeof *r->lane, err))
        return err->code;
    return KVT_OK;
}

static kvt_code get_set(read_args *a, const result_set *s, kvt_err *err)
{
    hid_t set = -1, type = -1;
    int64_t dim[KVT_RANK_MAX], n;
    uint64_t sum;
    void *data = NULL;
    kvt_code code = h5_set_open(&set, a->file, s->d.path, err);
    if (code == KVT_NOTFOUND)
        return KVT_OK;
    int rank = dims_of(a->r, &s->d, dim);
    if (code || (code = check_set(set, &s->d, dim, a->file_bytes, err)) ||
        (code = h5_get_array(set, "xxh64", H5T_NATIVE_UINT64, 1, &n, &sum, err)))
        goto out;
    size_t size = kvt_dtype_size(s->d.dtype);
    int64_t n_element = count(rank, dim);
    type = h5_type(s->d.dtype);
    if (!(data = kvt_alloc(n_element, size)) || type < 0) {
        code = kvt_fail_memory(err, (size_t)n_element * size);
        goto out;
    }
    if (n_element > 0 && ((code = h5_chunks_check(set, 0, dim[0], a->file_bytes, err)) ||
                          (code = h5_set_read(data, set, type, err))))
        goto out;
    if (n != 1 || digest_64(data, (size_t)n_element * size) != sum) {
        code = kvt_fail(err, KVT_FORMAT, "wrong checksum: the file was changed or damaged");
        goto out;
    }
    memcpy((char *)a->r + s->offset, &data, sizeof data);
    data = NULL;
out:
    kvt_free(data);
    if (type >= 0)
        H5Tclose(type);
    if (set >= 0)
        H5Dclose(set);
    return code ? kvt_within(err, "%s", s->d.path) : KVT_OK;
}

static kvt_code read_job(void *arg, kvt_err *err)
{
    read_args *a = arg;
    if (h5_file_open(&a->file, a->path, err))
        return err->code;
    kvt_code code = KVT_OK;
    if (get_root(a, err) || get_facts(a, err) || get_layers(a, err) || get_tables(a, err))
        code = err->code;
    for (int i = 0; i < N_SET && a->arrays && !code; i++)
        code = get_set(a, &sets[i], err);
    h5_file_drop(a->file);
    return code == KVT_NOTFOUND ? (err->code = KVT_FORMAT) : code;
}

/* Steps are used as indices by those who draw them. */
static kvt_code check_steps(const kvt_result *r, kvt_err *err)
{
    int64_t n = (int64_t)r->n_cell * r->n_layer * r->n_lane * (r->n_prompt + r->n_response);
    for (int64_t i = 0; r->evict_step && i < n; i++)
        if (r->evict_step[i] < -1 || r->evict_step[i] > r->n_response)
            return kvt_fail(err, KVT_FORMAT, "keep/evict_step: expected -1 to %lld, got %d",
                            (long long)r->n_response, r->evict_step[i]);
    return KVT_OK;
}

kvt_code kvt_result_open(kvt_result **out, const kvt_schema *cells, const kvt_schema *lanes,
                         const char *path, bool arrays, kvt_err *err)
{
    *out = NULL;
    kvt_result *r = kvt_result_new();
    if (!r)
        return kvt_fail_memory(err, sizeof *r);
    read_args a = {.r = r,
                   .cells = cells,
                   .lanes = lanes,
                   .path = path,
                   .arrays = arrays,
                   .file = -1,
                   .file_bytes = file_size(path)};
    kvt_code code = KVT_OK;
    if ((size_t)snprintf(r->path, sizeof r->path, "%s", path) >= sizeof r->path)
        code = kvt_fail(err, KVT_USAGE, "a path of more than %zu bytes", sizeof r->path - 1);
    else if (!(code = io_once(read_job, &a, err)))
        code = check_steps(r, err);
    if (code) {
        kvt_result_free(r);
        return kvt_within(err, "'%s'", path);
    }
    *out = r;
    return KVT_OK;
}
