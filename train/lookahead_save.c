/* lookahead_save.c - the trained parameters as an adapter's file. */
#include <stdio.h>

#include "kvt/arena.h"
#include "train/lookahead_train.h"

kvt_code look_save(const look_run *r, const char *kind, kvt_err *err)
{
    adapter *a = kvt_alloc(1, sizeof *a);
    adapter_map(*layer)[ADAPTER_MAPS] = kvt_alloc(r->geometry->n_layer, sizeof *layer);
    kvt_code code = a && layer ? KVT_OK : kvt_fail_memory(err, sizeof *a);
    if (!code)
        code = train_recipe(r->run, a->recipe, sizeof a->recipe, err);
    if (!code) {
        snprintf(a->kind, sizeof a->kind, "%s", kind);
        snprintf(a->model_digest, sizeof a->model_digest, "%s",
                 r->run->info.facts.weights_digest);
        snprintf(a->model, sizeof a->model, "%s", r->geometry->name);
        a->n_token = r->layout.n_token;
        a->rank = r->layout.rank;
        a->alpha = r->layout.scale * (double)r->layout.rank;
        a->token = r->param;
        a->layer = layer;
        a->n_layer = (int)r->geometry->n_layer;
        for (int l = 0; l < a->n_layer; l++)
            for (int m = 0; m < ADAPTER_MAPS; m++)
                if (r->layout.a[l][m] >= 0)
                    layer[l][m] = (adapter_map){r->param + r->layout.a[l][m],
                                                r->param + r->layout.b[l][m]};
        code = adapter_write(r->run->spec->out, a, r->geometry, r->params->half,
                             r->run->spec->force, err);
    }
    kvt_free(layer);
    kvt_free(a);
    return code;
}
