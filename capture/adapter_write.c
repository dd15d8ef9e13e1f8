/* adapter_write.c - from memory into a safetensors file. */
#include "capture/adapter.h"

#include <math.h>
#include <stdio.h>

#include "base/size.h"
#include "kvt/arena.h"
#include "traces/tensors.h"

enum { META = 7 };

static void describe(tensor *x, bool half, int64_t rows, int64_t cols, const float *data)
{
    x->dtype = half ? KVT_F16 : KVT_F32;
    x->rank = 2;
    x->dim[0] = rows;
    x->dim[1] = cols;
    x->data = data;
}

/* All tensors of the adapter into `list`; returns how many. */
static int list_of(tensor *list, const adapter *a, const kvt_geometry *g, bool half)
{
    int n = 0;
    snprintf(list[n].name, sizeof list[n].name, "lookahead.embeddings");
    describe(&list[n++], half, a->n_token, g->n_hidden, a->token);
    for (int l = 0; a->rank && l < a->n_layer; l++)
        for (int i = 0; i < ADAPTER_MAPS; i++) {
            const adapter_map *m = &a->layer[l][i];
            const char *name = adapter_map_name((adapter_map_id)i);
            int64_t in, out;
            if (!m->a)
                continue;
            adapter_map_shape(g, (adapter_map_id)i, &in, &out);
            snprintf(list[n].name, sizeof list[n].name, "model.layers.%d.%s.lora_A.weight", l,
                     name);
            describe(&list[n++], half, a->rank, in, m->a);
            snprintf(list[n].name, sizeof list[n].name, "model.layers.%d.%s.lora_B.weight", l,
                     name);
            describe(&list[n++], half, out, a->rank, m->b);
        }
    return n;
}

static kvt_code check_finite(const tensor *list, int n, kvt_err *err)
{
    for (int i = 0; i < n; i++) {
        const float *x = list[i].data;
        float most = list[i].dtype == KVT_F16 ? 65504.0f : INFINITY;
        for (int64_t j = 0; j < list[i].dim[0] * list[i].dim[1]; j++)
            if (!isfinite(x[j]) || fabsf(x[j]) > most)
                return kvt_fail(err, KVT_FORMAT, "tensor '%s' holds %g, which cannot be stored",
                                list[i].name, (double)x[j]);
    }
    return KVT_OK;
}

kvt_code adapter_write(const char *path, const adapter *a, const kvt_geometry *g, bool half,
                       bool force, kvt_err *err)
{
    char alpha[32];
    tensor_meta meta[META] = {
        {"format", "kvt-adapter"},
        {"version", "1"},
        {"kind", a->kind},
        {"alpha", real_print(a->alpha, alpha, sizeof alpha)},
        {"model_digest", a->model_digest},
        {"model", a->model},
        {"recipe", a->recipe},
    };
    tensor *list = kvt_alloc(1 + 2 * ADAPTER_MAPS * (int64_t)a->n_layer, sizeof *list);
    if (!list)
        return kvt_fail_memory(err, 2 * ADAPTER_MAPS * sizeof *list * (size_t)a->n_layer);
    int n = list_of(list, a, g, half);
    kvt_code code = check_finite(list, n, err);
    if (!code)
        code = tensors_write(path, list, n, meta, META, force, err);
    kvt_free(list);
    if (code)
        return code;
    adapter *back;
    code = adapter_open(&back, path, g, NULL, err);
    adapter_close(code ? NULL : back);
    return code;
}
