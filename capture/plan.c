/* plan.c - what a capture will take: bytes on disk, memory, time. */
#include <string.h>

#include "base/size.h"
#include "capture/plan_speed.h"
#include "capture/prepare.h"

/* The program with its libraries and HDF5's own buffers; what a token of the vocabulary takes
 * (measured: tiny models, SmolLM2 and Gemma 3, 400 to 262,144 tokens); and what OpenBLAS keeps
 * for each thread that calls it (measured, 0.3.21: the packed panels that a product of these
 * shapes touches). */
enum { BASE_BYTES = 14 << 20, TOKEN_BYTES = 56, BLAS_BYTES = 3 << 20 };

/* What is there from the first prompt to the last. */
static int64_t standing_bytes(const kvt_model *m, const kvt_ctx *ctx)
{
    return BASE_BYTES + TOKEN_BYTES * tokenizer_count(m->tokenizer) +
           kvt_threads(ctx) * (int64_t)BLAS_BYTES + m->weights->bytes;
}

/* Probes run on the processor, wherever the model does. */
static double probe_seconds(const plan_speed *v, const kvt_probe_cost *c, bool record)
{
    return c->flops / (0.8 * v->flops) + c->stream_bytes / v->stream +
           (record ? (double)c->file_bytes / 400e6 : 0);
}

static double seconds_of(const plan_speed *v, const kvt_model *m, const recorder_spec *r,
                         bool forced, bool record, int64_t file_bytes)
{
    const kvt_geometry *g = &m->weights->geometry;
    double t = (double)r->n_token, response = (double)(r->n_token - r->n_prompt);
    double hd = (double)(g->n_head * g->head_dim), layers = (double)r->n_layer;
    /* Softmax, norms and packing beside the products: 0.8 of the plain rate. */
    double flops = forward_flops(g, r->n_prompt, r->tile), moved = 0;
    if (forced)
        flops += forward_flops(g, r->n_token - r->n_prompt, r->tile);
    else
        moved = response * (double)m->weights->bytes;
    if (record && r->level != KVT_SUMMARY)
        flops += layers * 2 * t * hd * (double)(g->n_hidden + g->head_dim);
    if (record && recorder_has_rows(r, r->n_token))
        flops += layers * 4 * (response + RECORDER_QUERIES) * t * hd;
    return flops / (0.8 * v->model_flops) + moved / v->model_stream +
           (record ? (double)file_bytes / 400e6 : 0);
}

/* Memory of the device, with the largest prompt. */
static void plan_device(kvt_capture_plan *out, const device_weights *w, const forward_spec *f,
                        const recorder_spec *r, bool record)
{
    device_forward_spec d = {.weights = w, .n_token = f->n_token, .n_row = f->n_row};
    int64_t recorded = 0, bytes = w->bytes + device_forward_bytes(&d, NULL);
    if (record)
        (void)recorder_bytes(r, &recorded);
    bytes += recorded;
    out->device_bytes = bytes > out->device_bytes ? bytes : out->device_bytes;
    out->device_weight_bytes = w->bytes;
}

static kvt_code plan_one(kvt_capture_plan *out, kvt_model *m, const kvt_capture_spec *spec,
                         const prompt *item, const plan_speed *v, const kvt_ctx *ctx,
                         kvt_err *err)
{
    prepared p;
    recorder_spec r;
    kvt_writer_spec w;
    if (prepare(&p, m, spec, item, ctx, err))
        return err->code;
    kvt_code code = capture_recorder(&r, m, spec, &p, ctx, err);
    const kvt_device *d = m->backend->device;
    device_weights on_device; /* which may not be there: of the header alone */
    if (d)
        device_weights_plan(&on_device, m->weights, d->has_bf16);
    if (!code) {
        r.device = d ? &on_device : NULL;
        capture_facts(&w, m, spec, &p, &r, ctx, p.max_new);
        if (!spec->no_text) /* of the response: 4 bytes a token is the usual, the rest is known
                             */
            w.n_text += p.is_forced ? (int64_t)p.forced.text.n : 4 * p.max_new;
        forward_spec f = {.weights = m->weights,
                          .ctx = ctx,
                          .device = r.device,
                          .top_only = spec->temperature == 0 || p.is_forced,
                          .n_token = r.n_token,
                          .n_row =
                              p.is_forced && p.max_new > r.n_prompt ? p.max_new : r.n_prompt};
        int64_t file =
            spec->record ? kvt_writer_bytes(&w, recorder_has_rows(&r, r.n_token)) : 0;
        int64_t run = forward_bytes(&f) + (spec->record ? recorder_bytes(&r, NULL) : 0);
        if (d)
            plan_device(out, &on_device, &f, &r, spec->record);
        if (p.is_forced && !d)
            run += FORWARD_LOGIT_ROWS * m->weights->geometry.n_vocab * (int64_t)sizeof(float);
        kvt_probe_cost probes = {0};
        if (spec->probes_cost && spec->record)
            spec->probes_cost(spec->probes_user, &w.facts, w.n_layer, ctx, &probes);
        double more = probe_seconds(v, &probes, spec->record);
        file += probes.file_bytes;
        run += standing_bytes(m, ctx) + probes.memory_bytes;
        out->n_prompt = p.info.n_prompt > out->n_prompt ? p.info.n_prompt : out->n_prompt;
        out->n_response = p.max_new > out->n_response ? p.max_new : out->n_response;
        out->memory_bytes = run > out->memory_bytes ? run : out->memory_bytes;
        out->file_bytes += file;
        out->seconds +=
            more + seconds_of(v, m, &r, p.is_forced, spec->record, file - probes.file_bytes);
        out->probe_bytes += probes.file_bytes;
        out->probe_seconds += more;
    }
    prepared_fini(&p);
    return code;
}

/* Says so where a GPU has less than the plan. */
static void warn_full(const kvt_capture_plan *p, const kvt_ctx *ctx)
{
    char need[32], have[32];
    if (p->device_bytes > p->device_free_bytes)
        kvt_log(ctx, KVT_LOG_WARN, "capture", "this needs %s on the GPU, %s are free",
                size_print(p->device_bytes, need, sizeof need),
                size_print(p->device_free_bytes, have, sizeof have));
}

kvt_code capture_plan_all(kvt_capture_plan *out, kvt_model *m, const kvt_capture_spec *spec,
                          const kvt_ctx *ctx, kvt_err *err)
{
    plan_speed v;
    memset(out, 0, sizeof *out);
    out->weight_bytes = m->weights->bytes;
    /* The measurement is over before the run begins: the larger of the two is the peak. */
    out->memory_bytes = standing_bytes(m, ctx) + plan_measure_bytes(m, kvt_threads(ctx));
    if (m->backend->device) /* what the weights hold by now was free */
        out->device_free_bytes = m->backend->device->memory;
    prepare_warn(m, spec, ctx);
    if (plan_measure(&v, m, kvt_threads(ctx), err))
        return err->code;
    if (!spec->prompts) {
        prompt item;
        template_message message[2];
        if (prepare_single(&item, message, spec, err))
            return err->code;
        kvt_code one = plan_one(out, m, spec, &item, &v, ctx, err);
        if (!one)
            warn_full(out, ctx);
        return one;
    }
    prompts *set;
    if (prompts_read(&set, spec->prompts, err))
        return err->code;
    kvt_code code = KVT_OK;
    for (int64_t i = 0; !code && i < set->n; i++)
        if ((code = plan_one(out, m, spec, &set->item[i], &v, ctx, err)))
            kvt_within(err, "prompt '%s'", set->item[i].id);
    prompts_free(set);
    if (!code)
        warn_full(out, ctx);
    return code;
}
