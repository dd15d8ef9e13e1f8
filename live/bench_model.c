/* bench_model.c - the passes of a model beside their prediction. */
#include "live/bench_priv.h"

#include <stdio.h>

#include "base/clock.h"
#include "kvt/arena.h"

enum { STEPS = 32, GROUP = 4, ROUNDS = 3, LENGTHS = KVT_BENCH_ROWS_MAX / 2 };
static const double ENOUGH = 60; /* s: no round begins that would end behind it */

typedef struct timed {
    int64_t n;
    double prefill, step; /* the shortest prefill; a step of the shortest GROUP of them */
    double took;          /* of the last round, all of it */
} timed;

typedef struct runs {
    const kvt_model *m;
    const kvt_ctx *ctx;
    int32_t *id;
    timed at[LENGTHS];
    int n;
} runs;

double bench_kv_bits(const kvt_model *m)
{
    const device_weights *d = model_device(m);
    return d ? 8 * (double)dev_type_size(d->type) : 32; /* capture/forward.h: all f32 */
}

static void keep_less(double *to, double seconds)
{
    if (*to == 0 || seconds < *to)
        *to = seconds;
}

/* On a device passes are enqueued: the logits that are read at their end wait for them. */
static kvt_code settle(const forward *f, kvt_err *err)
{
    float logit;
    return forward_on_device(f) ? forward_logit_of(f, 0, &logit, err) : KVT_OK;
}

static kvt_code run_passes(const runs *r, timed *t, forward *f, kvt_err *err)
{
    double begin = clock_now();
    if (forward_prefill(f, r->id, t->n, err) || settle(f, err))
        return err->code;
    keep_less(&t->prefill, clock_now() - begin);
    for (int i = 0; i < STEPS; i += GROUP) {
        begin = clock_now();
        for (int k = 0; k < GROUP; k++)
            if (forward_step(f, r->id[i + k], err))
                return err->code;
        if (settle(f, err))
            return err->code;
        keep_less(&t->step, (clock_now() - begin) / GROUP);
    }
    return KVT_OK;
}

static kvt_code run_one(const runs *r, timed *t, kvt_err *err)
{
    double begin = clock_now();
    forward *f;
    forward_spec spec = {.weights = model_weights(r->m),
                         .backend = model_backend(r->m),
                         .ctx = r->ctx,
                         .n_token = t->n + STEPS,
                         .n_row = t->n,
                         .device = model_device(r->m)};
    kvt_code code = forward_new(&f, &spec, err);
    if (!code)
        code = run_passes(r, t, f, err);
    forward_free(f);
    t->took = clock_now() - begin;
    return code;
}

/* Every length once, then again while there is time: what disturbs a machine for a while
 * disturbs one run of each. */
static kvt_code run_all(runs *r, kvt_err *err)
{
    double begin = clock_now();
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < r->n; i++) {
            bool late = clock_now() - begin + r->at[i].took > ENOUGH;
            if (round && late)
                continue;
            kvt_code code = run_one(r, &r->at[i], err);
            if (code)
                return code;
        }
    return KVT_OK;
}

/* ---- prediction ---- */

static void fill(kvt_bench_point *out, const char *quantity, int64_t tokens, double measured,
                 double predicted, kvt_band band)
{
    *out = (kvt_bench_point){.tokens = tokens,
                             .measured_s = measured,
                             .predicted_s = predicted,
                             .error_frac = predicted / measured - 1,
                             .band = band};
    snprintf(out->quantity, sizeof out->quantity, "%s", quantity);
}

/* Slots that the lanes of a full cache hold. */
static double slots(const kvt_geometry *g, int64_t n)
{
    double sum = 0;
    for (int64_t l = 0; l < g->n_layer; l++) {
        int64_t w = g->window[l];
        sum += (double)(w > 0 && w < n ? w : n);
    }
    return sum * (double)g->n_kv_head;
}

static kvt_code predict(kvt_bench_point *out, const runs *r, const kvt_machine *machine,
                        kvt_err *err)
{
    kvt_cost_geometry g;
    kvt_cost_setting s = {.kv_bits = bench_kv_bits(r->m)};
    kvt_published constants = {.machine = *machine};
    if (kvt_cost_geometry_of(&g, kvt_model_geometry(r->m), err))
        return err->code;
    kvt_model_bytes(r->m, &g.lin_bytes, &g.head_bytes, &g.all_bytes);
    kvt_band pass = {machine->band_prefill, machine->band_prefill};
    kvt_band step = {machine->band_decode_lo, machine->band_decode_hi};
    for (int i = 0; i < r->n; i++) {
        const timed *t = &r->at[i];
        kvt_prefill_cost prefill;
        kvt_decode_cost decode;
        int64_t n = t->n + STEPS / 2; /* the middle step */
        double seen = slots(&g.g, n);
        kvt_cost_case c = {
            .geometry = &g, .constants = &constants, .setting = &s, .n_prompt = t->n};
        kvt_cost_prefill(&prefill, &g, machine, &s, t->n);
        kvt_cost_step(
            &decode, &c,
            &(kvt_cost_run){.steps = 1, .slots = seen, .busiest = seen, .held = seen});
        fill(&out[i], "prefill", t->n, t->prefill, prefill.total, pass);
        fill(&out[r->n + i], "decode", n, t->step, decode.total, step);
    }
    return KVT_OK;
}

/* ---- all of it ---- */

static void choose(runs *r, const int64_t *length, int n_length, int cap)
{
    int64_t most = kvt_model_geometry(r->m)->n_context;
    for (int i = 0; i < n_length && 2 * (r->n + 1) <= cap && r->n < LENGTHS; i++)
        if (length[i] > 0 && (most <= 0 || length[i] + STEPS <= most))
            r->at[r->n++].n = length[i];
}

/* Any ids: what a pass takes does not depend on them. */
static kvt_code make_ids(runs *r, kvt_err *err)
{
    int64_t n = STEPS, n_vocab = kvt_model_geometry(r->m)->n_vocab;
    for (int i = 0; i < r->n; i++)
        n = r->at[i].n > n ? r->at[i].n : n;
    r->id = kvt_alloc(n, sizeof *r->id);
    if (!r->id)
        return kvt_fail_memory(err, (size_t)n * sizeof *r->id);
    for (int64_t i = 0; i < n; i++)
        r->id[i] = (int32_t)(i * 7919 % n_vocab);
    return KVT_OK;
}

kvt_code kvt_bench_model(kvt_bench_point *out, int cap, int *n, kvt_model *m,
                         const kvt_machine *machine, const int64_t *length, int n_length,
                         const kvt_ctx *ctx, kvt_err *err)
{
    runs r = {.m = m, .ctx = ctx};
    *n = 0;
    if (model_header_only(m))
        return kvt_fail(err, KVT_USAGE, "a model that is measured needs its weights");
    choose(&r, length, n_length, cap);
    if (r.n == 0)
        return kvt_fail(
            err, KVT_USAGE,
            "no prompt length fits: the model's context is %lld tokens, %d of which "
            "are for steps",
            (long long)kvt_model_geometry(m)->n_context, STEPS);
    kvt_code code = make_ids(&r, err);
    if (!code)
        code = run_all(&r, err);
    if (!code)
        code = predict(out, &r, machine, err);
    kvt_free(r.id);
    *n = code ? 0 : 2 * r.n;
    return code;
}
