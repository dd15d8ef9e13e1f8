/* import_probe.c - probes of a manifest: "probes": {"NAME": {"kind": "suffix", "args": TEXT,
 * "source_digest": TEXT, "budget": 0, "datasets": {"q": "q.npy", ...}}, ...}.
 *
 * Their arrays hold the layers of the trace. Sizes follow from them: rows from q, segments from
 * segment, lanes from keep. */
#include "traces/import_priv.h"

#include "base/text.h"
#include "traces/npy.h"
#include "traces/probe_priv.h"

#include <stdio.h>
#include <string.h>

#include "kvt/arena.h"

static kvt_code set_text(char *to, size_t cap, const json_t *object, const char *key,
                         kvt_err *err)
{
    const char *text;
    if (!json_object_get(object, key))
        return KVT_OK;
    if (json_text(object, key, &text, err))
        return err->code;
    if ((size_t)snprintf(to, cap, "%s", text) >= cap)
        return kvt_fail(err, KVT_FORMAT, "%s: text of %zu bytes, at most %zu fit", key,
                        strlen(text), cap - 1);
    return KVT_OK;
}

static kvt_code set_facts(kvt_probe_info *p, const char *name, const json_t *v, kvt_err *err)
{
    static const char *const known[] = {"kind",   "args",     "source_digest",
                                        "budget", "datasets", NULL};
    const char *kind;
    if (strlen(name) >= sizeof p->name)
        return kvt_fail(err, KVT_FORMAT, "a name of %zu bytes, at most %zu fit", strlen(name),
                        sizeof p->name - 1);
    snprintf(p->name, sizeof p->name, "%s", name);
    if (!json_is_object(v))
        return kvt_fail(err, KVT_FORMAT, "expected an object");
    if (json_only(v, known, err) || json_text(v, "kind", &kind, err) ||
        set_text(p->args, sizeof p->args, v, "args", err) ||
        set_text(p->source_digest, sizeof p->source_digest, v, "source_digest", err) ||
        (json_object_get(v, "budget") && json_int(v, "budget", &p->budget, err)))
        return err->code;
    int found = kvt_probe_kind_find(kind);
    if (found < 0)
        return kvt_fail(err, KVT_FORMAT, "'%.60s' is no kind of probe", kind);
    p->kind = (kvt_probe_kind)found;
    return KVT_OK;
}

static int set_of(const char *name)
{
    for (int i = 0; i < KVT_PROBE_SETS; i++)
        if (strcmp(probe_dataset_of((kvt_probe_set)i)->path, name) == 0)
            return i;
    return -1;
}

static kvt_code open_sets(source *from[KVT_PROBE_SETS], int64_t dim[][KVT_RANK_MAX],
                          const json_t *sets, const char *folder, kvt_err *err)
{
    const char *name;
    json_t *v;
    if (!json_is_object(sets))
        return kvt_fail(err, KVT_FORMAT, "datasets: expected {\"q\": \"q.npy\", ...}");
    json_object_foreach((json_t *)(uintptr_t)sets, name, v) /* its iterator takes no const */
    {
        const char *names[KVT_PROBE_SETS + 1] = {NULL};
        kvt_dtype dtype;
        int i = set_of(name);
        for (int k = 0; k < KVT_PROBE_SETS; k++)
            names[k] = probe_dataset_of((kvt_probe_set)k)->path;
        const char *near = i < 0 ? text_nearest(name, names) : NULL;
        if (i < 0)
            return kvt_fail(err, KVT_FORMAT, "no dataset '%.60s'%s%s%s", name,
                            near ? " (did you mean '" : "", near ? near : "",
                            near ? "'?)" : "");
        if (!json_is_string(v))
            return kvt_fail(err, KVT_FORMAT, "%s: expected the name of a file", name);
        if (source_open(&from[i], folder, json_string_value(v), err))
            return kvt_within(err, "%s", name);
        const char *axes = probe_dataset_of((kvt_probe_set)i)->axes;
        int rank = source_shape(from[i], &dtype, dim[i]);
        if (rank != (int)strlen(axes))
            return kvt_fail(err, KVT_FORMAT, "%s: expected axes %s, got %d axes", name, axes,
                            rank);
    }
    return KVT_OK;
}

/* An array as it is stored, its extents as they follow from the probe's sizes. */
static kvt_code read_set(kvt_probe_data *p, const import_target *to, source *from,
                         kvt_probe_set i, const int64_t *dim, kvt_err *err)
{
    const kvt_dataset *d = probe_dataset_of(i);
    int64_t want[KVT_RANK_MAX], n = 1;
    int rank = probe_dims(to->facts, to->n_layer, &p->info, i, want);
    for (int k = 0; k < rank; k++) {
        if (dim[k] != want[k])
            return kvt_fail(err, KVT_FORMAT, "%s: axis %c: expected %lld, got %lld", d->path,
                            d->axes[k], (long long)want[k], (long long)dim[k]);
        if (__builtin_mul_overflow(n, dim[k], &n) || n > INT64_MAX / 8)
            return kvt_fail(err, KVT_FORMAT, "%s: its extents are out of range", d->path);
    }
    void *x = kvt_alloc(n, kvt_dtype_size(d->dtype));
    if (!x)
        return kvt_fail_memory(err, (size_t)n * kvt_dtype_size(d->dtype));
    p->data[i] = x;
    return source_read(from, x, d->dtype, false, 0, n, err) ? kvt_within(err, "%s", d->path)
                                                            : KVT_OK;
}

/* Rows from q, lanes from keep, segments from the last number of segment. */
static kvt_code read_sets(kvt_probe_data *p, const import_target *to,
                          source *const from[KVT_PROBE_SETS], int64_t dim[][KVT_RANK_MAX],
                          kvt_err *err)
{
    kvt_probe_info *info = &p->info;
    const int64_t lanes = from[KVT_PROBE_SET_KEEP] ? dim[KVT_PROBE_SET_KEEP][1] : 0;
    if (!from[KVT_PROBE_SET_Q])
        return kvt_fail(err, KVT_FORMAT, "has no q");
    info->n_row = dim[KVT_PROBE_SET_Q][2];
    info->n_keep = lanes > INT32_MAX ? -1 : (int)lanes;
    info->n_segment = 1;
    if (info->n_row < 1 || info->n_row > INT32_MAX / 2)
        return kvt_fail(err, KVT_FORMAT, "%lld rows", (long long)info->n_row);
    if (from[KVT_PROBE_SET_SEGMENT]) {
        if (read_set(p, to, from[KVT_PROBE_SET_SEGMENT], KVT_PROBE_SET_SEGMENT,
                     dim[KVT_PROBE_SET_SEGMENT], err))
            return err->code;
        const int32_t *x = p->data[KVT_PROBE_SET_SEGMENT];
        const int32_t last = x[info->n_row - 1];
        info->n_segment = last < 0 || last == INT32_MAX ? 0 : last + 1;
    }
    for (int i = 0; i < KVT_PROBE_SETS; i++)
        if (from[i] && !p->data[i] && read_set(p, to, from[i], (kvt_probe_set)i, dim[i], err))
            return err->code;
    return KVT_OK;
}

static kvt_code import_one(const import_target *to, const char *name, const json_t *v,
                           kvt_err *err)
{
    kvt_probe_data p = {.info = {.budget = 0}};
    source *from[KVT_PROBE_SETS] = {NULL};
    int64_t dim[KVT_PROBE_SETS][KVT_RANK_MAX] = {{0}};
    kvt_code code = set_facts(&p.info, name, v, err);
    if (!code)
        code = open_sets(from, dim, json_object_get(v, "datasets"), to->folder, err);
    if (!code)
        code = read_sets(&p, to, from, dim, err);
    if (!code)
        code = writer_put_own_probe(to->writer, &p, err);
    for (int i = 0; i < KVT_PROBE_SETS; i++) {
        source_close(from[i]);
        kvt_free((void *)(uintptr_t)p.data[i]);
    }
    return code;
}

kvt_code import_probes(const import_target *to, const json_t *probes, kvt_err *err)
{
    const char *name;
    json_t *v;
    if (!probes)
        return KVT_OK;
    if (!json_is_object(probes))
        return kvt_fail(err, KVT_FORMAT, "probes: expected {NAME: {\"kind\": ...}, ...}");
    json_object_foreach(
        (json_t *)(uintptr_t)probes, name,
        v) if (import_one(to, name, v, err)) return kvt_within(err, "probe '%.64s'", name);
    return KVT_OK;
}
