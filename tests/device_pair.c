/* device_pair.c - a model on the processor and on a device (tests/device_pair.h). */
#include "tests/device_pair.h"

#include <math.h>
#include <stdlib.h>

#include "tests/check.h"
#include "tests/folder.h"

const pair_limits pair_f32 = {1e-4, 1e-3};

void pair_attach(kvt_model *m, kvt_device *device)
{
    kvt_err err;
    if (!device)
        CHECK_OK(device_open_host(&device, &err), &err);
    m->backend->device = device;
    CHECK_OK(model_upload(m, &err), &err);
}

void pair_open(pair *p, const model_make_options *o, kvt_device *device)
{
    kvt_err err;
    const kvt_model_options cpu = {.device = "cpu"};
    const char *path = folder_path("pair.gguf");
    *p = (pair){0};
    assert_true(model_make_gguf(path, o));
    CHECK_OK(kvt_model_open(&p->cpu, path, &cpu, &p->ctx, &err), &err);
    CHECK_OK(kvt_model_open(&p->device, path, &cpu, &p->ctx, &err), &err);
    pair_attach(p->device, device);
}

void pair_close(pair *p)
{
    kvt_model_close(p->cpu);
    kvt_model_close(p->device);
}

kvt_capture_spec pair_spec(const char *prompt, int64_t max_new)
{
    kvt_capture_spec s;
    kvt_capture_defaults(&s);
    s.prompt = prompt;
    s.raw = true;
    s.max_new = max_new;
    s.delay = 40;
    s.force = true;
    return s;
}

/* ---- comparing ---- */

typedef struct both {
    kvt_trace *a, *b;
    kvt_view x, y;
    const char *name;
    kvt_ds ds;
    int layer;
} both;

/* Means on a logarithmic scale are compared as means. */
static double value(const both *c, const kvt_view *v, int64_t i)
{
    double x = (double)((const float *)v->data)[i];
    return c->ds == KVT_DS_FUTURE_DELAYED ? exp(x) : x;
}

static void compare_floats(const both *c, double limit)
{
    int64_t n = kvt_view_count(&c->x), at = 0;
    double gap = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        double x = value(c, &c->x, i), y = value(c, &c->y, i), d = fabs(x - y);
        if (isnan(x) && isnan(y))
            continue;
        if (x == y) /* both -inf, too */
            d = 0;
        size = isfinite(x) && fabs(x) > size ? fabs(x) : size;
        if (d > gap || isnan(d)) {
            gap = d;
            at = i;
        }
    }
    if (getenv("KVT_SHOW"))
        print_message("%s, layer %d: %.3g\n", c->name, c->layer, size > 0 ? gap / size : gap);
    if (!(gap <= limit * size))
        fail_msg("%s, layer %d, value %lld: %.9g on the processor, %.9g on the device, %.3g of "
                 "the largest",
                 c->name, c->layer, (long long)at, value(c, &c->x, at), value(c, &c->y, at),
                 gap / size);
}

static void compare_whole(const both *c, const pair_limits *limits)
{
    size_t size = (size_t)kvt_view_count(&c->x) * kvt_dtype_size(c->x.dtype);
    if (c->ds == KVT_DS_LOGIT_ID) { /* near ties may change places: in 16 bits the first, too */
        for (int64_t m = 0; limits->same <= pair_f32.same && m < c->x.dim[0]; m++)
            assert_int_equal(((const int32_t *)c->x.data)[m * KVT_TOP],
                             ((const int32_t *)c->y.data)[m * KVT_TOP]);
        return;
    }
    if (memcmp(c->x.data, c->y.data, size) != 0)
        fail_msg("%s differs", c->name);
}

static void compare_set(both *c, const pair_limits *limits)
{
    kvt_err err;
    CHECK_OK(kvt_trace_read(c->a, c->ds, c->layer, &c->x, &err), &err);
    CHECK_OK(kvt_trace_read(c->b, c->ds, c->layer, &c->y, &err), &err);
    assert_int_equal(kvt_view_count(&c->x), kvt_view_count(&c->y));
    if (c->x.dtype == KVT_F32)
        compare_floats(c,
                       kvt_dataset_of(c->ds)->dtype == KVT_F16 ? limits->half : limits->same);
    else
        compare_whole(c, limits);
    kvt_trace_done(c->a, &c->x);
    kvt_trace_done(c->b, &c->y);
}

void pair_compare_files(const char *a, const char *b, const pair_limits *limits)
{
    kvt_err err;
    both c;
    CHECK_OK(kvt_trace_open(&c.a, a, 0, &err), &err);
    CHECK_OK(kvt_trace_open(&c.b, b, 0, &err), &err);
    const kvt_trace_info *x = kvt_trace_info_of(c.a), *y = kvt_trace_info_of(c.b);
    assert_int_equal(x->n_token, y->n_token);
    assert_int_equal(x->n_layer, y->n_layer);
    assert_int_equal(x->facts.block_tokens, y->facts.block_tokens);
    assert_string_equal(x->facts.token.stop_reason, y->facts.token.stop_reason);
    for (c.ds = 0; c.ds < KVT_DS_COUNT; c.ds++) {
        const kvt_dataset *d = kvt_dataset_of(c.ds);
        assert_int_equal(x->has[c.ds], y->has[c.ds]);
        c.name = d->path;
        for (c.layer = 0;
             x->has[c.ds] && c.layer < (d->axes[0] == 'L' && d->axes[1] ? x->n_layer : 1);
             c.layer++)
            compare_set(&c, limits);
    }
    kvt_trace_close(c.a);
    kvt_trace_close(c.b);
}

static void capture(kvt_model *m, const kvt_capture_spec *spec, const char *out,
                    const kvt_ctx *ctx)
{
    kvt_err err;
    kvt_capture_counts counts;
    kvt_capture_spec s = *spec;
    s.out = out;
    CHECK_OK(kvt_capture(m, &s, &counts, ctx, &err), &err);
    assert_int_equal(counts.captured, 1);
}

void pair_compare(const pair *p, const kvt_capture_spec *spec, const pair_limits *limits)
{
    const char *a = folder_path("cpu.h5"), *b = folder_path("device.h5");
    capture(p->cpu, spec, a, &p->ctx);
    capture(p->device, spec, b, &p->ctx);
    pair_compare_files(a, b, limits);
}
