/* probe.c - what a probe is: kinds, datasets, sizes, indices, digest. Reading is in
 * probe_read.c, writing in probe_write.c. */
#include "traces/probe_priv.h"

#include "base/digest.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *args, *help;
} kinds[KVT_PROBE_KINDS] = {
#define KVT_PROBE(id, name, args, help) {name, args, help},
#include "traces/probes.def"
#undef KVT_PROBE
};

static const kvt_dataset sets[KVT_PROBE_SETS] = {
#define KVT_PROBE_SET(id, name, dtype, axes, unit, required, help) \
    {#id, name, KVT_##dtype, axes, unit, KVT_REPLAY, required, help},
#include "traces/probe_sets.def"
#undef KVT_PROBE_SET
};

const char *kvt_probe_kind_name(kvt_probe_kind kind)
{
    return kinds[kind].name;
}

const char *kvt_probe_kind_args(kvt_probe_kind kind)
{
    return kinds[kind].args;
}

const char *kvt_probe_kind_help(kvt_probe_kind kind)
{
    return kinds[kind].help;
}

int kvt_probe_kind_find(const char *name)
{
    for (int i = 0; i < KVT_PROBE_KINDS; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return i;
    return -1;
}

const kvt_dataset *probe_dataset_of(kvt_probe_set set)
{
    return &sets[set];
}

bool probe_has_layers(kvt_probe_set set)
{
    return sets[set].axes[0] == 'L';
}

int probe_dims(const kvt_trace_facts *f, int n_layer, const kvt_probe_info *p,
               kvt_probe_set set, int64_t dim[KVT_RANK_MAX])
{
    trace_extents e;
    int rank = 0;
    extents_init(&e, f);
    extents_at(&e, 'L') = n_layer;
    extents_at(&e, 'P') = p->n_row;
    extents_at(&e, 'R') = p->n_segment;
    extents_at(&e, 'A') = p->n_keep;
    for (const char *a = sets[set].axes; *a; a++)
        dim[rank++] = extents_at(&e, *a);
    return rank;
}

int64_t probe_slab(kvt_probe_set set, int rank, const int64_t *dim)
{
    int64_t n = 1;
    for (int i = probe_has_layers(set) ? 1 : 0; i < rank; i++)
        if (dim[i] < 0 || __builtin_mul_overflow(n, dim[i], &n))
            return -1;
    return n > INT64_MAX / 8 / KVT_LAYERS_MAX ? -1 : n;
}

int64_t kvt_probe_bytes(const kvt_trace_facts *f, int n_layer, const kvt_probe_info *p)
{
    int64_t total = 0;
    for (int i = 0; i < KVT_PROBE_SETS; i++) {
        int64_t dim[KVT_RANK_MAX];
        int rank = probe_dims(f, n_layer, p, (kvt_probe_set)i, dim);
        int64_t slab = probe_slab((kvt_probe_set)i, rank, dim);
        if (p->has[i] && slab > 0)
            total += slab * (probe_has_layers((kvt_probe_set)i) ? n_layer : 1) *
                     (int64_t)kvt_dtype_size(sets[i].dtype);
    }
    return total;
}

/* ---- sizes ---------------------------------------------------------------------------------
 */

static bool name_fits(const char *name)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789._-");
    return n > 0 && !name[n] && name[0] != '.';
}

static kvt_code check_has(const kvt_probe_info *p, kvt_err *err)
{
    for (int i = 0; i < KVT_PROBE_SETS; i++)
        if (sets[i].required && !p->has[i])
            return kvt_fail(err, KVT_FORMAT, "has no %s", sets[i].path);
    if (p->n_segment > 1 && !p->has[KVT_PROBE_SET_SEGMENT])
        return kvt_fail(err, KVT_FORMAT, "%d segments without segment", p->n_segment);
    if (p->has[KVT_PROBE_SET_BEGIN] != p->has[KVT_PROBE_SET_END])
        return kvt_fail(err, KVT_FORMAT, "chunk/begin and chunk/end go together");
    bool evicted = p->has[KVT_PROBE_SET_KEEP];
    if (evicted != (p->budget > 0) || evicted != (p->n_keep > 0))
        return kvt_fail(
            err, KVT_FORMAT,
            "keep, a budget and n_keep go together: keep is %s, budget %lld, n_keep "
            "%d",
            evicted ? "there" : "not there", (long long)p->budget, p->n_keep);
    return KVT_OK;
}

kvt_code probe_check(const kvt_trace_facts *f, const kvt_probe_info *p, kvt_err *err)
{
    const kvt_geometry *g = &f->model;
    if (!name_fits(p->name))
        return kvt_fail(err, KVT_FORMAT,
                        "'%s': expected a name of a-z, 0-9, '.', '_' and '-', not '.' first",
                        p->name);
    if ((unsigned)p->kind >= KVT_PROBE_KINDS)
        return kvt_fail(err, KVT_FORMAT, "kind %d is no kind of probe", (int)p->kind);
    if (p->n_row < 1 || p->n_row > INT32_MAX / 2 || p->budget < 0 || p->budget > INT32_MAX)
        return kvt_fail(err, KVT_FORMAT, "%lld rows, budget %lld", (long long)p->n_row,
                        (long long)p->budget);
    if (p->n_segment < 1 || p->n_segment > p->n_row)
        return kvt_fail(err, KVT_FORMAT, "segments: expected 1 to %lld (rows), got %d",
                        (long long)p->n_row, p->n_segment);
    if (p->n_keep != 0 && p->n_keep != g->n_kv_head && p->n_keep != g->n_head)
        return kvt_fail(err, KVT_FORMAT, "n_keep: expected 0, %lld or %lld, got %d",
                        (long long)g->n_kv_head, (long long)g->n_head, p->n_keep);
    return check_has(p, err);
}

/* ---- indices -------------------------------------------------------------------------------
 */

bool probe_is_index(kvt_probe_set set)
{
    return sets[set].dtype == KVT_I32;
}

static kvt_code within(kvt_probe_set set, const int32_t *x, int64_t n, int64_t lo, int64_t hi,
                       kvt_err *err)
{
    for (int64_t i = 0; x && i < n; i++)
        if (x[i] < lo || x[i] > hi)
            return kvt_fail(err, KVT_FORMAT, "%s[%lld]: expected %lld to %lld, got %d",
                            sets[set].path, (long long)i, (long long)lo, (long long)hi, x[i]);
    return KVT_OK;
}

/* From 0, each the last one's or the next, up to R - 1. */
static kvt_code check_segment(const kvt_probe_info *p, const int32_t *x, kvt_err *err)
{
    for (int64_t i = 0; x && i < p->n_row; i++)
        if (i == 0 ? x[0] != 0 : x[i] != x[i - 1] && x[i] != x[i - 1] + 1)
            return kvt_fail(err, KVT_FORMAT,
                            "segment[%lld]: expected numbers that rise from 0 by one, got %d",
                            (long long)i, x[i]);
    if (x && x[p->n_row - 1] != p->n_segment - 1)
        return kvt_fail(err, KVT_FORMAT, "segment: expected %d of them, got %d", p->n_segment,
                        x[p->n_row - 1] + 1);
    return KVT_OK;
}

/* Positions rise within a segment: rows see those in front of them. */
static kvt_code check_pos(const kvt_probe_info *p, const int32_t *pos, const int32_t *segment,
                          kvt_err *err)
{
    for (int64_t i = 1; pos && i < p->n_row; i++)
        if (pos[i] <= pos[i - 1] && (!segment || segment[i] == segment[i - 1]))
            return kvt_fail(err, KVT_FORMAT, "pos[%lld]: %d does not come after %d",
                            (long long)i, pos[i], pos[i - 1]);
    return KVT_OK;
}

/* Each segment begins to count at one of its own rows; without numbers all rows are one. */
static kvt_code check_from(const kvt_probe_info *p, const int32_t *from, const int32_t *segment,
                           kvt_err *err)
{
    int64_t begin = 0, end = 0;
    for (int i = 0; from && i < p->n_segment; i++, begin = end) {
        while (end < p->n_row && (!segment || segment[end] == i))
            end++;
        if (from[i] < begin || from[i] >= end)
            return kvt_fail(err, KVT_FORMAT,
                            "chunk/from[%d]: expected a row of its segment, %lld to %lld, got "
                            "%d",
                            i, (long long)begin, (long long)end - 1, from[i]);
    }
    return KVT_OK;
}

kvt_code probe_check_index(const kvt_trace_facts *f, const kvt_probe_info *p,
                           const int32_t *const value[KVT_PROBE_SETS], kvt_err *err)
{
    const int32_t *begin = value[KVT_PROBE_SET_BEGIN], *end = value[KVT_PROBE_SET_END];
    const int32_t *pos = value[KVT_PROBE_SET_POS], *segment = value[KVT_PROBE_SET_SEGMENT];
    int64_t V = f->model.n_vocab ? f->model.n_vocab : INT32_MAX, N = f->token.n_prompt;
    if (check_segment(p, segment, err) ||
        within(KVT_PROBE_SET_POS, pos, p->n_row, 0, INT32_MAX / 2, err) ||
        check_pos(p, pos, segment, err) ||
        within(KVT_PROBE_SET_ID, value[KVT_PROBE_SET_ID], p->n_row, 0, V - 1, err) ||
        within(KVT_PROBE_SET_BEGIN, begin, p->n_segment, 0, N - 1, err) ||
        within(KVT_PROBE_SET_END, end, p->n_segment, 1, N, err) ||
        check_from(p, value[KVT_PROBE_SET_FROM], segment, err))
        return err->code;
    for (int i = 0; begin && end && i < p->n_segment; i++)
        if (begin[i] >= end[i])
            return kvt_fail(err, KVT_FORMAT, "chunk/end[%d]: %d does not come after %d", i,
                            end[i], begin[i]);
    return KVT_OK;
}

/* ---- digest --------------------------------------------------------------------------------
 */

static void add_int(digest *d, int64_t x)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)x);
    digest_add_text(d, text);
}

kvt_code probe_digest(char out[KVT_DIGEST_TEXT], const kvt_trace_facts *f, int n_layer,
                      const kvt_probe_info *p,
                      char (*const slab[KVT_PROBE_SETS])[KVT_DIGEST_TEXT], kvt_err *err)
{
    digest *d = digest_new();
    if (!d)
        return kvt_fail_memory(err, 1024);
    digest_add_text(d, PROBE_LIST);
    digest_add_text(d, kvt_probe_kind_name(p->kind));
    digest_add_text(d, p->args);
    digest_add_text(d, p->source_digest);
    add_int(d, p->budget);
    for (int i = 0; i < KVT_PROBE_SETS; i++) {
        int64_t dim[KVT_RANK_MAX];
        if (!p->has[i])
            continue;
        int rank = probe_dims(f, n_layer, p, (kvt_probe_set)i, dim);
        digest_add_text(d, sets[i].path);
        digest_add_text(d, kvt_dtype_name(sets[i].dtype));
        digest_add_text(d, sets[i].axes);
        for (int k = 0; k < rank; k++)
            add_int(d, dim[k]);
        for (int64_t l = 0; l < (probe_has_layers((kvt_probe_set)i) ? dim[0] : 1); l++)
            digest_add_text(d, slab[i][l]);
    }
    digest_get(d, out);
    digest_free(d);
    return KVT_OK;
}
