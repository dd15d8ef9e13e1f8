/* bench_narrow.c - steps of models that are as narrow as they can be, on the processor or a
 * device: what is left of a step when there is hardly anything to read. */
#include "live/bench_priv.h"

#include "kvt/arena.h"

enum { TOKENS = 64 };

struct bench_narrow {
    bench_weights *weights;
    device_weights *device;
    forward_spec spec;
    forward *f;
};

static kvt_code start(bench_narrow *t, kvt_err *err)
{
    forward_free(t->f);
    t->f = NULL;
    return forward_new(&t->f, &t->spec, err);
}

/* TOKENS steps, of which a start of the sequence is a small part. */
static kvt_code run(void *arg, kvt_err *err)
{
    bench_narrow *t = arg;
    float logit;
    kvt_code code = start(t, err);
    for (int i = 0; !code && i < TOKENS; i++)
        code = forward_step(t->f, 0, err);
    if (!code && forward_on_device(t->f)) /* waits for the last one */
        code = forward_logit_of(t->f, 0, &logit, err);
    return code;
}

kvt_code bench_narrow_new(bench_narrow **out, const bench_case *c, kvt_device *d,
                          int64_t n_layer, kvt_err *err)
{
    kvt_geometry g;
    bench_narrow *t = kvt_alloc(1, sizeof *t);
    *out = t;
    if (!t)
        return kvt_fail_memory(err, sizeof *t);
    bench_narrow_geometry(&g, c->g, n_layer);
    if (bench_weights_new(&t->weights, &g, QUANT_F32, err) ||
        (d && device_weights_new(&t->device, d, &t->weights->w, err)))
        return err->code;
    t->spec = (forward_spec){.weights = &t->weights->w,
                             .backend = c->backend,
                             .device = t->device,
                             .ctx = c->ctx,
                             .n_token = TOKENS,
                             .n_row = 1};
    return start(t, err);
}

void bench_narrow_add(bench_narrow *t, bench_task *task, int *n, const bench_task **slot,
                      const char *name)
{
    bench_add(task, n, slot, name, "s", TOKENS, run, t);
}

void bench_narrow_free(bench_narrow *t)
{
    if (!t)
        return;
    forward_free(t->f);
    device_weights_free(t->device);
    bench_weights_free(t->weights);
    kvt_free(t);
}
