/* forward_device.c - forward.h on a device: passes go there, logits and halves come back. */
#include "capture/forward_priv.h"

#include "kvt/arena.h"

static device_forward_spec device_spec(const forward_spec *s)
{
    return (device_forward_spec){.weights = s->device,
                                 .record = s->record,
                                 .ctx = s->ctx,
                                 .n_token = s->n_token,
                                 .n_row = s->n_row,
                                 .tile = s->tile,
                                 .n_vocab = s->n_vocab};
}

int64_t forward_device_bytes(const forward_spec *spec)
{
    device_forward_spec s = device_spec(spec);
    int64_t pinned;
    (void)device_forward_bytes(&s, &pinned);
    return pinned + (spec->top_only ? 0 : spec->weights->geometry.n_vocab * 4);
}

kvt_code forward_device_new(forward *f, const forward_spec *spec, kvt_err *err)
{
    device_forward_spec s = device_spec(spec);
    f->top_only = spec->top_only;
    f->logit = kvt_alloc(f->top_only ? 0 : f->g->n_vocab, sizeof *f->logit);
    if (!f->logit)
        return kvt_fail_memory(err, (size_t)f->g->n_vocab * sizeof *f->logit);
    return device_forward_new(&f->device, &s, err);
}

/* What the tap is told of a row. */
static kvt_code tell(void *user, int64_t pos, const device_top *top, kvt_err *err)
{
    const forward *f = user;
    return f->tap->best ? f->tap->best(f->tap->user, f, pos, top, err) : KVT_OK;
}

kvt_code forward_device_pass(forward *f, const int32_t *id, int64_t n, bool forced,
                             kvt_err *err)
{
    device_forward *d = f->device;
    kvt_code code = forced ? device_forward_force(d, id, n, tell, f, err)
                           : device_forward_prefill(d, id, n, err);
    device_top top;
    if (!code && !forced && f->tap->best && !(code = device_forward_top(d, &top, err)))
        code = tell(f, device_forward_length(d) - 1, &top, err);
    if (!code && !f->top_only)
        code = device_forward_logits(d, f->logit, err);
    return code;
}

bool forward_on_device(const forward *f)
{
    return f->device != NULL;
}

kvt_code forward_top(const forward *f, device_top *out, kvt_err *err)
{
    return device_forward_top(f->device, out, err);
}

kvt_code forward_logit_of(const forward *f, int32_t id, float *out, kvt_err *err)
{
    return device_forward_logit(f->device, id, out, err);
}

kvt_code forward_finish(const forward *f, kvt_err *err)
{
    return f->device ? device_forward_finish(f->device, err) : KVT_OK;
}
