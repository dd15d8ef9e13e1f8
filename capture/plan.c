/* plan.c - what a capture will take: bytes on disk, memory, time. */
#include <omp.h>
#include <string.h>

#include "base/clock.h"
#include "capture/prepare.h"
#include "compute/backend.h"
#include "kvt/arena.h"

/* The program with its libraries, vocabulary, HDF5's own buffers; and what OpenBLAS keeps for
 * each thread that calls it (measured, 0.3.21: the packed panels that a product of these shapes
 * touches). */
enum { BASE_BYTES = 26 << 20, BLAS_BYTES = 3 << 20 };

/* What this machine does now, with all threads. */
typedef struct speed {
    double flops, stream; /* 1/s of matrix products, bytes/s of a weight matrix read once */
} speed;

enum { M = 128, N = 1536, K = 576, STREAM = 24 << 20 }; /* STREAM: floats, beyond the caches */

static kvt_code measure(speed *out, const kvt_backend *b, int n_thread, kvt_err *err)
{
    int64_t own = M * K + M * N;
    float *w = kvt_alloc(STREAM, sizeof *w), *x = kvt_alloc(n_thread * own, sizeof *x);
    kvt_code code = w && x ? KVT_OK : kvt_fail_memory(err, STREAM * sizeof *w);
    for (int pass = 0; !code && pass < 2; pass++) { /* the first warms up */
        int rounds = pass ? 24 : 2;
        double begin = clock_now();
#pragma omp parallel for schedule(static) num_threads(n_thread)
        for (int t = 0; t < n_thread; t++)
            for (int i = 0; i < rounds; i++)
                b->gemm(GEMM_NT, &(gemm_args){.c = x + t * own + M * K,
                                              .a = x + t * own,
                                              .b = w,
                                              .m = M,
                                              .n = N,
                                              .k = K,
                                              .lda = K,
                                              .ldb = K,
                                              .ldc = N,
                                              .alpha = 1.0f});
        out->flops = 2.0 * M * N * K * rounds * n_thread / (clock_now() - begin);
        begin = clock_now();
#pragma omp parallel for schedule(static) num_threads(n_thread)
        for (int t = 0; t < n_thread; t++) /* each writes its own x */
            for (int64_t i = t; i < STREAM / (64 * K); i += n_thread)
                b->gemv(x + t * own, w + i * 64 * K, x + M * K, 64, K);
        out->stream = (double)STREAM * sizeof *w / (clock_now() - begin);
    }
    kvt_free(w);
    kvt_free(x);
    return code;
}

static double probe_seconds(const speed *v, const kvt_probe_cost *c, bool record)
{
    return c->flops / (0.8 * v->flops) + c->stream_bytes / v->stream +
           (record ? (double)c->file_bytes / 400e6 : 0);
}

static double seconds_of(const speed *v, const kvt_model *m, const recorder_spec *r,
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
    return flops / (0.8 * v->flops) + moved / v->stream +
           (record ? (double)file_bytes / 400e6 : 0);
}

static kvt_code plan_one(kvt_capture_plan *out, kvt_model *m, const kvt_capture_spec *spec,
                         const prompt *item, const speed *v, const kvt_ctx *ctx, kvt_err *err)
{
    prepared p;
    recorder_spec r;
    kvt_writer_spec w;
    if (prepare(&p, m, spec, item, ctx, err))
        return err->code;
    kvt_code code = capture_recorder(&r, m, spec, &p, ctx, err);
    if (!code) {
        capture_facts(&w, m, spec, &p, &r, ctx, p.max_new);
        if (!spec->no_text) /* of the response: 4 bytes a token is the usual, the rest is known
                             */
            w.n_text += p.is_forced ? (int64_t)p.forced.text.n : 4 * p.max_new;
        forward_spec f = {.weights = m->weights,
                          .ctx = ctx,
                          .n_token = r.n_token,
                          .n_row =
                              p.is_forced && p.max_new > r.n_prompt ? p.max_new : r.n_prompt};
        int64_t file =
            spec->record ? kvt_writer_bytes(&w, recorder_has_rows(&r, r.n_token)) : 0;
        int64_t run = forward_bytes(&f) + (spec->record ? recorder_bytes(&r, NULL) : 0);
        if (p.is_forced)
            run += FORWARD_LOGIT_ROWS * m->weights->geometry.n_vocab * (int64_t)sizeof(float);
        run += kvt_threads(ctx) * (int64_t)BLAS_BYTES;
        run = run > m->map_bytes ? run : m->map_bytes; /* the file is unmapped before */
        kvt_probe_cost probes = {0};
        if (spec->probes_cost && spec->record)
            spec->probes_cost(spec->probes_user, &w.facts, w.n_layer, ctx, &probes);
        double more = probe_seconds(v, &probes, spec->record);
        file += probes.file_bytes;
        run += BASE_BYTES + m->weights->bytes + probes.memory_bytes;
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

kvt_code capture_plan_all(kvt_capture_plan *out, kvt_model *m, const kvt_capture_spec *spec,
                          const kvt_ctx *ctx, kvt_err *err)
{
    speed v;
    memset(out, 0, sizeof *out);
    out->weight_bytes = m->weights->bytes;
    prepare_warn(m, spec, ctx);
    if (measure(&v, m->backend, kvt_threads(ctx), err))
        return err->code;
    if (!spec->prompts) {
        prompt item;
        template_message message[2];
        if (prepare_single(&item, message, spec, err))
            return err->code;
        return plan_one(out, m, spec, &item, &v, ctx, err);
    }
    prompts *set;
    if (prompts_read(&set, spec->prompts, err))
        return err->code;
    kvt_code code = KVT_OK;
    for (int64_t i = 0; !code && i < set->n; i++)
        if ((code = plan_one(out, m, spec, &set->item[i], &v, ctx, err)))
            kvt_within(err, "prompt '%s'", set->item[i].id);
    prompts_free(set);
    return code;
}
