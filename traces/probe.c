/* probe.c - the probes of a trace: groups /probe/NAME with queries, keys and sums of extra
 * tokens that ran on the stored prompt. They are not part of the content digest: one may be
 * added. */
#include "traces/trace_priv.h"

#include <stdio.h>
#include <string.h>

static const char *const kinds[] = {
#define KVT_PROBE(id, name, args, help) name,
#include "traces/probes.def"
#undef KVT_PROBE
};

static kvt_code check_array(hid_t group, const char *name, kvt_dtype dtype, const char *axes,
                            const int64_t *want, kvt_err *err)
{
    hid_t set;
    hsize_t size[H5S_MAX_RANK];
    if (h5_set_open(&set, group, name, err))
        return err->code;
    hid_t type = H5Dget_type(set), space = H5Dget_space(set);
    int rank = space < 0 ? -1 : H5Sget_simple_extent_ndims(space);
    bool fits = type >= 0 && h5_dtype(type) == (int)dtype && rank == (int)strlen(axes);
    if (fits)
        H5Sget_simple_extent_dims(space, size, NULL);
    for (int i = 0; i < rank && fits; i++)
        fits = (int64_t)size[i] == want[i];
    if (space >= 0)
        H5Sclose(space);
    if (type >= 0)
        H5Tclose(type);
    H5Dclose(set);
    if (fits)
        return KVT_OK;
    kvt_view v = kvt_view_of(NULL, dtype, axes, strlen(axes), want);
    char text[128];
    return kvt_fail(err, KVT_FORMAT, "%s: expected %s", name,
                    kvt_view_print(&v, text, sizeof text));
}

static kvt_code read_one(kvt_trace *t, hid_t group, kvt_probe_info *p, kvt_err *err)
{
    const kvt_geometry *g = &t->info.facts.model;
    const int64_t L = t->info.n_layer;
    bool known = false;
    char kind[32];
    kvt_code code = h5_get_text(group, "kind", kind, sizeof kind, err);
    if (!code)
        code = h5_get_text(group, "args", p->args, sizeof p->args, err);
    if (!code)
        code =
            h5_get_text(group, "source_digest", p->source_digest, sizeof p->source_digest, err);
    if (!code)
        code = h5_get_int(group, "budget", &p->budget, err);
    if (!code)
        code = h5_get_int(group, "n_row", &p->n_row, err);
    if (code)
        return code;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i], kind) == 0) {
            p->kind = (kvt_probe_kind)i;
            known = true;
        }
    }
    if (!known)
        return kvt_fail(err, KVT_FORMAT, "'%s' is no kind of probe", kind);
    if (p->n_row < 1 || p->n_row > INT32_MAX || p->budget < 0)
        return kvt_fail(err, KVT_FORMAT, "%lld rows, budget %lld", (long long)p->n_row,
                        (long long)p->budget);
    const int64_t q[] = {L, g->n_head, p->n_row, g->head_dim};
    const int64_t k[] = {L, g->n_kv_head, p->n_row, g->head_dim};
    const int64_t lse[] = {L, g->n_head, p->n_row};
    if (check_array(group, "q", KVT_F16, "LHPD", q, err) ||
        check_array(group, "k", KVT_F16, "LGPD", k, err) ||
        check_array(group, "lse", KVT_F32, "LHP", lse, err) ||
        check_array(group, "pos", KVT_I32, "P", &p->n_row, err))
        return err->code;
    return KVT_OK;
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
        if (n <= 0 || n >= (ssize_t)sizeof p->name || h5_has(at, p->name) <= 0 ||
            (group = H5Gopen2(at, p->name, H5P_DEFAULT)) < 0)
            code = h5_fail(err, KVT_FORMAT, "/probe");
        else if (read_one(t, group, p, err))
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

const char *kvt_probe_kind_name(kvt_probe_kind kind)
{
    return kinds[kind];
}
