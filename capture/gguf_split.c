/* gguf_split.c - a GGUF file, or a set of files that are one model.
 *
 *  1. The parts are NAME-00001-of-0000N.gguf and so on; split.no counts from 0 and the names
 *     from 1. Any of them opens the set.
 *  2. Every part says split.count N and the split.no of its name; where split.tensors.count is
 *     there it is the same in all parts and the sum of their tensors.
 *  3. The first part's keys are the model's. No tensor comes twice. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "capture/gguf_priv.h"
#include "kvt/arena.h"

enum { PATH = 4096, TAIL = sizeof "-00001-of-00002.gguf" - 1 };

/* The path of part `no` of the set that `path`, which is part s->no, belongs to. */
static kvt_code sibling(char out[PATH], const char *path, const gguf_split *s, int64_t no,
                        kvt_err *err)
{
    char tail[64];
    size_t n = strlen(path);
    snprintf(tail, sizeof tail, "-%05" PRId64 "-of-%05" PRId64 ".gguf", s->no + 1, s->count);
    if (n < TAIL || strcmp(path + n - strlen(tail), tail) != 0)
        return kvt_fail(err, KVT_FORMAT,
                        "is part %" PRId64 " of a set of %" PRId64
                        " files: expected a name that ends with '%s', to find the others",
                        s->no + 1, s->count, tail);
    if (n >= PATH)
        return kvt_fail(err, KVT_USAGE, "the path is longer than %d bytes", PATH - 1);
    snprintf(out, PATH, "%.*s-%05" PRId64 "-of-%05" PRId64 ".gguf", (int)(n - TAIL), path,
             no + 1, s->count);
    return KVT_OK;
}

/* Opens part `no`; what it says of itself must be what `as`, another part, says. */
static kvt_code open_part(gguf **out, const char *path, int64_t no, const gguf_split *as,
                          gguf_check *check, kvt_err *err)
{
    *out = NULL;
    if (!file_exists(path))
        return kvt_fail(err, KVT_NOTFOUND, "part %" PRId64 " of %" PRId64 ", '%s', is missing",
                        no + 1, as->count, path);
    if (gguf_open_one(out, path, no == 0 ? GGUF_FIRST : GGUF_PART, check, err))
        return err->code;
    const gguf_split *s = &(*out)->split;
    const char *odd = s->no != no                   ? "no"
                      : s->count != as->count       ? "count"
                      : s->n_tensor != as->n_tensor ? "tensors.count"
                                                    : NULL;
    if (!odd)
        return KVT_OK;
    int64_t want = s->no != no ? no : s->count != as->count ? as->count : as->n_tensor;
    int64_t got = s->no != no ? s->no : s->count != as->count ? s->count : s->n_tensor;
    kvt_fail(err, KVT_FORMAT,
             "'%s' is no part of this set: expected split.%s %" PRId64 ", got %" PRId64, path,
             odd, want, got);
    gguf_close(*out);
    *out = NULL;
    return err->code;
}

/* The tensors of all parts become those of the first. */
static kvt_code merge(gguf *g, kvt_err *err)
{
    int64_t n = g->n_tensor, at = g->n_tensor;
    for (int i = 0; i < g->n_more; i++)
        n += g->more[i]->n_tensor;
    if (g->split.n_tensor >= 0 && n != g->split.n_tensor)
        return kvt_fail(err, KVT_FORMAT,
                        "key 'split.tensors.count': the set should have %" PRId64
                        " tensors, its %" PRId64 " parts have %" PRId64,
                        g->split.n_tensor, g->split.count, n);
    gguf_tensor *all = kvt_alloc(n, sizeof *all);
    gguf_name *name = kvt_alloc(n, sizeof *name);
    if (!all || !name) {
        kvt_free(all);
        kvt_free(name);
        return kvt_fail_memory(err, (size_t)n * sizeof *all);
    }
    if (at)
        memcpy(all, g->tensor, (size_t)at * sizeof *all);
    for (int i = 0; i < g->n_more; i++) {
        const gguf *p = g->more[i];
        if (p->n_tensor)
            memcpy(all + at, p->tensor, (size_t)p->n_tensor * sizeof *all);
        at += p->n_tensor;
    }
    for (int64_t i = 0; i < n; i++)
        name[i] = (gguf_name){all[i].name, strlen(all[i].name), i};
    kvt_free(g->tensor);
    kvt_free(g->tensor_name);
    g->tensor = all;
    g->tensor_name = name;
    g->n_tensor = n;
    return gguf_unique(name, n, "tensor", err);
}

static kvt_code open_others(gguf *g, const char *path, kvt_err *err)
{
    char other[PATH];
    int n = (int)g->split.count - 1;
    g->more = kvt_alloc(n, sizeof(gguf *));
    if (!g->more)
        return kvt_fail_memory(err, (size_t)n * sizeof(gguf *));
    for (int64_t i = 1; i <= n; i++) {
        if (sibling(other, path, &g->split, i, err))
            return kvt_within(err, "'%s'", path);
        if (open_part(&g->more[g->n_more], other, i, &g->split, NULL, err))
            return err->code;
        g->n_more++;
    }
    if (merge(g, err))
        return kvt_within(err, "'%s'", path);
    return KVT_OK;
}

kvt_code gguf_open_checked(gguf **out, const char *path, gguf_check *check, kvt_err *err)
{
    char first[PATH];
    gguf *g = NULL;
    *out = NULL;
    if (gguf_open_one(&g, path, GGUF_FIRST, check, err))
        return err->code;
    if (g->split.no > 0) { /* only its keys were read */
        gguf_split as = g->split;
        gguf_close(g);
        if (sibling(first, path, &as, 0, err))
            return kvt_within(err, "'%s'", path);
        if (open_part(&g, first, 0, &as, check, err))
            return err->code;
        path = first;
    }
    if (g->split.count > 1 && open_others(g, path, err)) {
        gguf_close(g);
        return err->code;
    }
    *out = g;
    return KVT_OK;
}

kvt_code gguf_open(gguf **out, const char *path, kvt_err *err)
{
    return gguf_open_checked(out, path, NULL, err);
}
