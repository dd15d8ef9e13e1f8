/* bench_machine.c - this machine as one of the cost model, measured. */
#include "live/bench_priv.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/version.h"
#include "kvt/arena.h"

static const double SECONDS = 0.5;
/* The program, its libraries and what OpenBLAS keeps for a thread (capture/plan.c). */
enum { RUNTIME_BYTES = 14 << 20, THREAD_BYTES = 3 << 20, ROUND_BYTES = 64, LAUNCHES = 5 };

/* "AMD EPYC", without the signs of trade and what follows an "@"; "processor" where it is not
 * told. */
static const char *processor_name(char *out, size_t cap)
{
    FILE *f = fopen("/proc/cpuinfo", "r");
    char line[256];
    snprintf(out, cap, "processor");
    while (f && fgets(line, sizeof line, f)) {
        char *value = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !value)
            continue;
        value += 1 + strspn(value + 1, " ");
        value[strcspn(value, "@\n")] = 0;
        snprintf(out, cap, "%s", value);
        break;
    }
    if (f)
        fclose(f);
    for (size_t n = strlen(out); n && isspace((unsigned char)out[n - 1]); n--)
        out[n - 1] = 0;
    return out;
}

static void describe(kvt_machine *m, const bench_case *c, const kvt_device *d)
{
    char date[16] = "", processor[64], blas[96];
    time_t now = time(NULL);
    struct tm day;
    if (localtime_r(&now, &day))
        strftime(date, sizeof date, "%Y-%m-%d", &day);
    snprintf(m->name, sizeof m->name, "here");
    if (d) {
        snprintf(m->title, sizeof m->title, "this machine: %.80s, kvt's own engine", d->name);
        snprintf(m->calibrated_on, sizeof m->calibrated_on, "%s, %.70s, %.60s, kvt %s", date,
                 d->name, d->arithmetic, version_text());
        return;
    }
    processor_name(processor, sizeof processor);
    kvt_blas_name(blas, sizeof blas);
    snprintf(m->title, sizeof m->title, "this machine: %.60s, %d threads, kvt's own engine",
             processor, c->n_thread);
    snprintf(m->calibrated_on, sizeof m->calibrated_on, "%s, %.50s, %.60s, %d threads, kvt %s",
             date, processor, blas, c->n_thread, version_text());
}

static double physical_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (double)pages * (double)page : 0;
}

static kvt_code processor(bench_task *task, int *n, bench_times *t, const bench_case *c,
                          kvt_err *err)
{
    bench_prefill *prefill = NULL;
    bench_attention *attention = NULL;
    bench_decode *decode = NULL;
    bench_memory *memory = NULL;
    kvt_code code = bench_prefill_new(&prefill, c, task, n, t, err);
    if (!code)
        code = bench_attention_new(&attention, c, task, n, t, err);
    if (!code)
        code = bench_decode_new(&decode, c, task, n, t, err);
    if (!code)
        code = bench_memory_new(&memory, c, task, n, t, err);
    if (!code)
        code = bench_run(task, *n, c->seconds, c->ctx, err);
    bench_prefill_free(prefill);
    bench_attention_free(attention);
    bench_decode_free(decode);
    bench_memory_free(memory);
    t->launches_layer = LAUNCHES; /* regions of threads, capture/prefill.c */
    t->act_bytes = 4;
    t->mem_bytes = physical_bytes();
    t->runtime_bytes = (double)RUNTIME_BYTES + (double)c->n_thread * THREAD_BYTES;
    t->alloc_round = ROUND_BYTES;
    return code;
}

static kvt_code device(bench_task *task, int *n, bench_times *t, const bench_case *c,
                       kvt_device *d, kvt_err *err)
{
    bench_device *b = NULL;
    kvt_code code = bench_device_new(&b, c, d, task, n, t, err);
    if (!code)
        code = bench_run(task, *n, c->seconds, c->ctx, err);
    bench_device_free(b);
    return code;
}

kvt_code bench_measure(kvt_machine *out, kvt_bench_row *row, int *n_row, const bench_case *c,
                       kvt_device *d, kvt_err *err)
{
    bench_task *task = kvt_alloc(BENCH_TASKS, sizeof *task);
    bench_times t = {0};
    int n = 0;
    if (!task)
        return kvt_fail_memory(err, BENCH_TASKS * sizeof *task);
    kvt_code code = d ? device(task, &n, &t, c, d, err) : processor(task, &n, &t, c, err);
    if (!code) {
        bench_fields(out, &t, c->g);
        describe(out, c, d);
        for (*n_row = 0; *n_row < n; ++*n_row)
            row[*n_row] = bench_row_of(&task[*n_row]);
    }
    kvt_free(task);
    return code;
}

/* Weights of the model, or some of SmolLM2's shapes. */
static kvt_code with_weights(kvt_machine *out, kvt_bench_row *row, int *n_row, bench_case *c,
                             const kvt_model *m, kvt_err *err)
{
    bench_weights *own = NULL;
    kvt_geometry g;
    if (m) {
        c->weights = model_weights(m);
    } else {
        bench_default_geometry(&g);
        if (bench_weights_new(&own, &g, QUANT_Q8_0, err))
            return err->code;
        c->weights = &own->w;
    }
    c->g = &c->weights->geometry;
    kvt_code code = bench_measure(out, row, n_row, c, c->backend->device, err);
    bench_weights_free(own);
    return code;
}

kvt_code kvt_bench_machine(kvt_machine *out, kvt_bench_row *row, int *n_row,
                           const kvt_bench_spec *spec, const kvt_ctx *ctx, kvt_err *err)
{
    kvt_backend *own = NULL;
    const kvt_backend *b = spec->model ? model_backend(spec->model) : NULL;
    char name[32];
    memset(out, 0, sizeof *out);
    *n_row = 0;
    if (spec->model && model_header_only(spec->model))
        return kvt_fail(err, KVT_USAGE, "a model that is measured needs its weights");
    snprintf(name, sizeof name, "cuda:%d", spec->device);
    if (!b || !b->device != (spec->device < 0)) { /* it runs elsewhere */
        if (kvt_backend_open(&own, spec->device < 0 ? "cpu" : name, ctx, err))
            return err->code;
        b = own;
    }
    bench_case c = {.backend = b,
                    .device = spec->model && !own ? model_device(spec->model) : NULL,
                    .ctx = ctx,
                    .n_thread = kvt_threads(ctx),
                    .seconds = spec->seconds > 0 ? spec->seconds : SECONDS};
    kvt_code code = with_weights(out, row, n_row, &c, spec->model, err);
    kvt_backend_close(own);
    return code;
}
