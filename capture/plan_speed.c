/* plan_speed.c - products and streams of the processor and of a device, measured. */
#include "capture/plan_speed.h"

#include <omp.h>

#include "base/clock.h"
#include "kvt/arena.h"

enum { M = 128, N = 512, K = 576, STREAM_MOST = 24 << 20 }; /* floats, beyond the caches */

/* Floats that are streamed: as many as the weights take, since those of a small model stay in
 * the caches. */
static int64_t stream_floats(const kvt_model *m)
{
    int64_t n = m->weights->bytes / (int64_t)sizeof(float);
    return n < (int64_t)N * K ? (int64_t)N * K : n > STREAM_MOST ? STREAM_MOST : n;
}

enum { OWN = M * K + M * N }; /* of a thread: what it multiplies, and the product */

int64_t plan_measure_bytes(const kvt_model *m, int n_thread)
{
    return (stream_floats(m) + (int64_t)n_thread * OWN) * (int64_t)sizeof(float);
}

static kvt_code measure(plan_speed *out, const kvt_model *m, int n_thread, kvt_err *err)
{
    const kvt_backend *b = m->backend;
    int64_t stream = stream_floats(m);
    float *w = kvt_alloc(stream, sizeof *w), *x = kvt_alloc((int64_t)n_thread * OWN, sizeof *x);
    kvt_code code = w && x ? KVT_OK : kvt_fail_memory(err, (size_t)stream * sizeof *w);
    for (int pass = 0; !code && pass < 2; pass++) { /* the first warms up */
        int rounds = pass ? 24 : 2;
        double begin = clock_now();
#pragma omp parallel for schedule(static) num_threads(n_thread)
        for (int t = 0; t < n_thread; t++)
            for (int i = 0; i < rounds; i++)
                b->gemm(GEMM_NT, &(gemm_args){.c = x + (int64_t)t * OWN + M * K,
                                              .a = x + (int64_t)t * OWN,
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
            for (int64_t i = t; i < stream / (64 * K); i += n_thread)
                b->gemv(x + (int64_t)t * OWN, w + i * 64 * K, x + M * K, 64, K);
        out->stream = (double)(stream / (64 * K)) * 64 * K * sizeof *w / (clock_now() - begin);
    }
    kvt_free(w);
    kvt_free(x);
    return code;
}

/* ---- a device: squares that grow until they take long enough to be measured ---- */

enum { SIDE_FIRST = 128, SIDE_MOST = 8192 };
static const double LONG_ENOUGH = 0.004; /* seconds */

/* Room for a, b typed and c f32, all of them zeros. */
typedef struct square {
    kvt_device *d;
    dev_type type;
    int64_t side;
    char *room;
} square;

static float *result(const square *s)
{
    return (float *)(void *)(s->room + 2 * s->side * s->side * dev_type_size(s->type));
}

static kvt_code product(const square *s, kvt_err *err)
{
    int64_t n = s->side;
    return s->d->gemm(s->d,
                      &(dev_gemm_args){.op = DEV_NT,
                                       .type = s->type,
                                       .c = result(s),
                                       .a = s->room,
                                       .b = s->room + n * n * dev_type_size(s->type),
                                       .m = n,
                                       .n = n,
                                       .k = n,
                                       .lda = n,
                                       .ldb = n,
                                       .ldc = n,
                                       .n_batch = 1,
                                       .alpha = 1.0f},
                      err);
}

static kvt_code vector(const square *s, kvt_err *err)
{
    int64_t n = s->side, size = dev_type_size(s->type);
    return s->d->gemv(s->d,
                      &(dev_gemv_args){.y = result(s),
                                       .w = s->room,
                                       .quant = device_quant(s->type),
                                       .x = s->room + n * n * size,
                                       .type = s->type,
                                       .n_row = n,
                                       .n_col = n,
                                       .row_bytes = n * size},
                      err);
}

static kvt_code timed(const square *s, kvt_code (*run)(const square *s, kvt_err *err),
                      double *seconds, kvt_err *err)
{
    if (run(s, err) || s->d->sync(s->d, err)) /* warms up */
        return err->code;
    double begin = clock_now();
    if (run(s, err) || s->d->sync(s->d, err))
        return err->code;
    *seconds = clock_now() - begin;
    return KVT_OK;
}

/* One side; *seconds: of its product. */
static kvt_code measure_side(plan_speed *out, square *s, double *seconds, kvt_err *err)
{
    double stream = 0, n = (double)s->side;
    int64_t bytes = s->side * s->side * (2 * dev_type_size(s->type) + 4);
    void *room = NULL;
    kvt_code code = s->d->alloc(s->d, &room, bytes, "a short measurement", err);
    s->room = room;
    if (!code && !(code = s->d->clear(s->d, room, bytes, err)) &&
        !(code = timed(s, product, seconds, err)))
        code = timed(s, vector, &stream, err);
    s->d->free(s->d, room);
    if (code)
        return code;
    out->model_flops = 2 * n * n * n / *seconds;
    out->model_stream = n * n * (double)dev_type_size(s->type) / stream;
    return KVT_OK;
}

static kvt_code measure_device(plan_speed *out, kvt_device *d, dev_type type, kvt_err *err)
{
    square s = {.d = d, .type = type, .side = SIDE_FIRST};
    double seconds = 0;
    kvt_code code = KVT_OK;
    for (; !code && seconds < LONG_ENOUGH && s.side <= SIDE_MOST; s.side *= 2)
        code = measure_side(out, &s, &seconds, err);
    if (code == KVT_NOMEM && s.side > 2 * SIDE_FIRST) /* a full device: what is known will do */
        return KVT_OK;
    return code;
}

kvt_code plan_measure(plan_speed *out, const kvt_model *m, int n_thread, kvt_err *err)
{
    device_weights w;
    kvt_code code = measure(out, m, n_thread, err);
    out->model_flops = out->flops;
    out->model_stream = out->stream;
    if (code || !m->backend->device)
        return code;
    device_weights_plan(&w, m->weights, m->backend->device->has_bf16);
    return measure_device(out, m->backend->device, w.type, err);
}
