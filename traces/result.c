/* result.c - results in memory and sets of them. Files are in result_h5.c. */
#include "kvt/result.h"

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/arena.h"

kvt_result *kvt_result_new(void)
{
    return kvt_alloc(1, sizeof(kvt_result));
}

void kvt_result_drop_arrays(kvt_result *r)
{
#define KVT_RESULT_SET(field, path, ctype, type, axes, unit, help) \
    kvt_free(r->field);                                            \
    r->field = NULL;
#include "traces/results.def"
#undef KVT_RESULT_SET
}

static bool changes_while_decoding(const kvt_result *r)
{
    for (int i = 0; i < r->n_cell; i++)
        if (!strcmp(r->cell[i].status, "ok") && strcmp(r->cell[i].growth, "on-top"))
            return true;
    return false;
}

kvt_code kvt_result_read_steps(kvt_result *r, const kvt_schema *cells, const kvt_schema *lanes,
                               kvt_err *err)
{
    kvt_result *whole = NULL;
    if (r->kept_count || !r->path[0] || !changes_while_decoding(r))
        return KVT_OK;
    if (kvt_result_open(&whole, cells, lanes, r->path, true, err))
        return err->code;
    if (whole->n_cell == r->n_cell && !strcmp(whole->pass_id, r->pass_id)) {
        r->kept_count = whole->kept_count;
        whole->kept_count = NULL;
    }
    kvt_result_free(whole);
    return KVT_OK;
}

void kvt_result_free(kvt_result *r)
{
    if (!r)
        return;
    kvt_result_drop_arrays(r);
    kvt_free(r->cell);
    kvt_free(r->lane);
    kvt_free(r->plan_note);
    kvt_free(r);
}

int32_t kvt_result_evict_step(const kvt_result *r, int cell, int layer, int lane, int64_t token)
{
    int64_t at = (int64_t)layer * r->n_lane + lane;
    int64_t n_lane = (int64_t)r->n_layer * r->n_lane;
    if (r->evict_step) {
        int64_t T = r->n_prompt + r->n_response;
        return r->evict_step[((int64_t)cell * n_lane + at) * T + token];
    }
    /* One ranking cut at the end of the prompt: what comes later stays. */
    if (!r->rank || !r->cut || token >= r->n_prompt)
        return -1;
    return r->rank[at * r->n_prompt + token] < r->cut[(int64_t)cell * n_lane + at] ? -1 : 0;
}

bool kvt_is_result_path(const char *path)
{
    static const char end[] = ".kvt-results.h5";
    size_t n = strlen(path), m = sizeof end - 1;
    return n > m && strcmp(path + n - m, end) == 0;
}

/* ---- sets ----------------------------------------------------------------------------------
 */

void kvt_results_free(kvt_results *s)
{
    if (!s)
        return;
    for (int64_t i = 0; i < s->n; i++)
        kvt_result_free(s->result[i]);
    kvt_free(s->result);
    kvt_free(s);
}

/* Room is a power of two, so that n alone tells when it is full. */
kvt_code kvt_results_add(kvt_results *s, kvt_result *r, kvt_err *err)
{
    if ((s->n & (s->n - 1)) == 0) {
        int64_t room = s->n ? 2 * s->n : 1;
        kvt_result **more = kvt_resize(s->result, s->n, room, sizeof(kvt_result *));
        if (!more)
            return kvt_fail_memory(err, (size_t)room * sizeof(kvt_result *));
        s->result = more;
    }
    s->result[s->n++] = r;
    return KVT_OK;
}

enum { DEPTH_MAX = 8 }; /* DIR/TRACE/PASS is 2; more guards against a link that leads back */

typedef struct walk {
    kvt_results *out;
    const kvt_schema *cells, *lanes;
    bool arrays;
    const char *dir;
    int depth;
} walk;

static kvt_code load_one(walk *w, const char *path, kvt_err *err)
{
    kvt_result *r;
    if (kvt_result_open(&r, w->cells, w->lanes, path, w->arrays, err))
        return err->code;
    if (kvt_results_add(w->out, r, err)) {
        kvt_result_free(r);
        return err->code;
    }
    return KVT_OK;
}

static kvt_code visit(void *user, const char *name, kvt_err *err)
{
    walk *w = user;
    char path[4096];
    if (file_join(path, sizeof path, w->dir, name, err))
        return err->code;
    if (kvt_is_result_path(path))
        return *name == '.' ? KVT_OK : load_one(w, path, err);
    if (w->depth == DEPTH_MAX || *name == '.' || !file_is_dir(path))
        return KVT_OK;
    walk below = *w;
    below.dir = path;
    below.depth++;
    return file_list(path, visit, &below, err);
}

static int by_trace_and_policy(const void *a, const void *b)
{
    const kvt_result *x = *(kvt_result *const *)a, *y = *(kvt_result *const *)b;
    int c = strcmp(x->trace_id, y->trace_id);
    c = c ? c : strcmp(x->trace_digest, y->trace_digest);
    c = c ? c : strcmp(x->policy_text, y->policy_text);
    return c ? c : strcmp(x->pass_id, y->pass_id);
}

kvt_code kvt_results_load(kvt_results **out, const kvt_schema *cells, const kvt_schema *lanes,
                          const char *dir, bool arrays, kvt_err *err)
{
    *out = NULL;
    kvt_results *s = kvt_alloc(1, sizeof *s);
    if (!s)
        return kvt_fail_memory(err, sizeof *s);
    walk w = {.out = s, .cells = cells, .lanes = lanes, .arrays = arrays, .dir = dir};
    kvt_code code = file_is_dir(dir) ? file_list(dir, visit, &w, err) : load_one(&w, dir, err);
    if (code) {
        kvt_results_free(s);
        return code;
    }
    if (s->n)
        qsort(s->result, (size_t)s->n, sizeof *s->result, by_trace_and_policy);
    *out = s;
    return KVT_OK;
}
