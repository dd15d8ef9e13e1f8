/* run_prompt.c - the prompt of a model that has just run, as its trace will give it: through
 * halves and back. */
#include "capture/run_prompt.h"

#include "base/half.h"

enum { CHUNK = 4096 }; /* halves at a time, rows of any head */

static kvt_code read_halves(const run_prompt *r, bool keys, int layer, int kv_head, float *out,
                            kvt_err *err)
{
    int64_t d = r->g->head_dim, rows = CHUNK / d;
    uint16_t half[CHUNK];
    for (int64_t i = 0; i < r->n_prompt; i += rows) {
        int64_t m = r->n_prompt - i < rows ? r->n_prompt - i : rows;
        if (forward_halves(r->f, keys, layer, kv_head, i, m, half, err))
            return err->code;
        half_to_floats(out + i * d, half, m * d);
    }
    return KVT_OK;
}

static kvt_code keys(void *self, int layer, int kv_head, float *out, kvt_err *err)
{
    return read_halves(self, true, layer, kv_head, out, err);
}

static kvt_code values(void *self, int layer, int kv_head, float *out, kvt_err *err)
{
    return read_halves(self, false, layer, kv_head, out, err);
}

static kvt_code queries(void *self, int layer, int head, int64_t n, float *out, kvt_err *err)
{
    const run_prompt *r = self;
    int64_t n_have;
    const uint16_t *q = recorder_queries(r->r, layer, head, &n_have);
    if (!q || n > n_have)
        return kvt_fail(err, KVT_USAGE, "expected the last %lld prompt queries, got %lld",
                        (long long)n, (long long)(q ? n_have : 0));
    half_to_floats(out, q + (n_have - n) * r->g->head_dim, n * r->g->head_dim);
    return KVT_OK;
}

kvt_prompt run_prompt_of(run_prompt *r)
{
    bool all = true;
    for (int l = 0; l < r->g->n_layer; l++)
        all = all && recorder_queries(r->r, l, 0, &(int64_t){0}) != NULL;
    return (kvt_prompt){.geometry = r->g,
                        .n_prompt = r->n_prompt,
                        .n_response = r->n_response,
                        .id = r->id,
                        .flag = r->flag,
                        .first = r->n_response ? r->first : -1, /* as its trace says */
                        .self = r,
                        .keys = keys,
                        .values = values,
                        .queries = all ? queries : NULL};
}
