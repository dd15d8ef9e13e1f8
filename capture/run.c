/* run.c - one prompt through the model into one trace file. */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/size.h"
#include "base/version.h"
#include "capture/prepare.h"
#include "capture/run_prompt.h"
#include "kvt/arena.h"

typedef struct run {
    kvt_model *m;
    const kvt_capture_spec *spec;
    prepared *p;
    const kvt_ctx *ctx;
    kvt_capture_counts *counts;
    recorder_spec rs;
    recorder *r; /* NULL: nothing is recorded */
    forward *f;
    sampler *sampler;
    bool by_top; /* a device that need not send its logits: the likeliest token is taken */
    int64_t n_response;
    int32_t first; /* likeliest token behind the prompt */
    const char *stop;
} run;

kvt_code capture_recorder(recorder_spec *out, const kvt_model *m, const kvt_capture_spec *spec,
                          const prepared *p, const kvt_ctx *ctx, kvt_err *err)
{
    int n_layer = (int)m->weights->geometry.n_layer;
    bool want[KVT_LAYERS_MAX];
    memset(want, !spec->layers, sizeof want);
    if (spec->layers && list_parse(want, n_layer, spec->layers, err))
        return kvt_within(err, "layers");
    *out = (recorder_spec){.weights = m->weights,
                           .backend = m->backend,
                           .device = m->device,
                           .ctx = ctx,
                           .level = spec->level,
                           .n_prompt = p->info.n_prompt,
                           .n_token = p->info.n_prompt + p->max_new,
                           .tile = FORWARD_TILE,
                           .delay = spec->delay,
                           .block_limit = spec->block_limit,
                           .rows_limit = spec->rows_limit,
                           .queries_all = spec->queries_all};
    if (m->backend->device)
        out->tile = device_tile(&m->weights->geometry, out->n_token);
    for (int l = 0; l < n_layer; l++)
        if (want[l])
            out->layer_id[out->n_layer++] = l;
    return out->n_layer ? KVT_OK : kvt_fail(err, KVT_USAGE, "layers: the list is empty");
}

static void describe_sampling(char *out, size_t cap, const kvt_capture_spec *s)
{
    char t[32], p[32];
    if (s->temperature == 0)
        snprintf(out, cap, "greedy");
    else
        snprintf(out, cap, "temperature=%s,top_p=%s,top_k=%lld",
                 real_print(s->temperature, t, sizeof t), real_print(s->top_p, p, sizeof p),
                 (long long)s->top_k);
}

/* What computes, and in which arithmetic. */
static void describe_engine(kvt_trace_facts *f, const kvt_model *m, int64_t tile)
{
    const kvt_device *d = m->backend->device;
    snprintf(f->attention, sizeof f->attention, "%s tiles of %lld queries, whole rows",
             d ? "device" : kvt_backend_name(m->backend), (long long)tile);
    if (!d) {
        snprintf(f->attention_types, sizeof f->attention_types,
                 "scores f32, softmax f32, sums f32 and f64");
        kvt_blas_name(f->blas, sizeof f->blas);
        snprintf(f->device, sizeof f->device, "%s, %s", kvt_backend_name(m->backend),
                 kvt_simd_name());
        return;
    }
    device_weights plan; /* the weights need not be there */
    device_weights_plan(&plan, m->weights, d->has_bf16);
    snprintf(f->attention_types, sizeof f->attention_types,
             "q, k, v %s, scores f32, softmax f32, sums f32 and f64",
             device_type_name(plan.type));
    snprintf(f->blas, sizeof f->blas, "%s", d->arithmetic);
    snprintf(f->device, sizeof f->device, "%s", d->name);
}

void capture_facts(kvt_writer_spec *out, const kvt_model *m, const kvt_capture_spec *spec,
                   const prepared *p, const recorder_spec *r, const kvt_ctx *ctx,
                   int64_t n_response)
{
    memset(out, 0, sizeof *out);
    kvt_trace_facts *f = &out->facts;
    f->model = m->weights->geometry;
    f->token = p->info;
    f->token.n_response = n_response;
    memcpy(f->span, p->span, sizeof f->span);
    f->n_span = p->n_span;
    f->seed = ctx->seed;
    f->no_text = spec->no_text;
    memcpy(f->weights_digest, m->id.weights, sizeof f->weights_digest);
    memcpy(f->file_digest, m->id.file, sizeof f->file_digest);
    snprintf(f->weights_type, sizeof f->weights_type, "%s%.50s", m->f32 ? "f32 from " : "",
             m->weights->types);
    snprintf(f->tokenizer, sizeof f->tokenizer, "%s", tokenizer_kind(m->tokenizer));
    describe_sampling(f->sampling, sizeof f->sampling, spec);
    describe_engine(f, m, r->tile);
    snprintf(f->options_digest, sizeof f->options_digest, "%s", p->digest);
    /* A command line may hold the prompt: it goes with the text. */
    snprintf(f->command, sizeof f->command, "%s",
             spec->command && !spec->no_text ? spec->command : "");
    if (gethostname(f->host, sizeof f->host - 1))
        f->host[0] = 0;
    time_t t = time(NULL);
    struct tm utc;
    if (gmtime_r(&t, &utc))
        strftime(f->created, sizeof f->created, "%Y-%m-%dT%H:%M:%SZ", &utc);
    snprintf(f->writer, sizeof f->writer, "kvt %s", version_text());
    snprintf(f->commit, sizeof f->commit, "%s", version_commit());
    recorder_extents(out, r, r->n_prompt + n_response);
    out->compress = spec->compress;
    out->force = spec->force;
    out->n_text = spec->no_text ? 0 : p->list.n ? p->list.offset[p->list.n] : 0;
    out->n_raw = spec->no_text ? 0 : (int64_t)p->raw.n;
}

/* Takes the memory; where that of the processor is short, with smaller tiles. */
static kvt_code start(run *u, kvt_err *err)
{
    kvt_code code;
    u->by_top = u->m->device && (u->spec->temperature == 0 || u->p->is_forced);
    do {
        recorder_free(u->r);
        u->r = NULL;
        code = u->spec->record ? recorder_new(&u->r, &u->rs, err) : KVT_OK;
        forward_spec fs = {.weights = u->m->weights,
                           .backend = u->m->backend,
                           .tap = u->r ? recorder_tap(u->r) : NULL,
                           .ctx = u->ctx,
                           .n_token = u->rs.n_token,
                           .n_row = u->rs.n_prompt,
                           .tile = u->rs.tile,
                           .device = u->m->device,
                           .record = u->r ? recorder_device(u->r) : NULL,
                           .n_vocab = tokenizer_count(u->m->tokenizer),
                           .top_only = u->by_top};
        if (u->p->is_forced && u->p->max_new > fs.n_row)
            fs.n_row = u->p->max_new;
        if (!code)
            code = forward_new(&u->f, &fs, err);
    } while (code == KVT_NOMEM && !u->m->device && (u->rs.tile /= 2) >= 16);
    if (code)
        return code;
    sample_spec s = {.temperature = u->spec->temperature,
                     .top_p = u->spec->top_p,
                     .top_k = u->spec->top_k,
                     .seed = u->ctx->seed,
                     .digest = u->p->stream};
    return sampler_new(&u->sampler, &s, tokenizer_count(u->m->tokenizer), err);
}

static kvt_code push(run *u, int32_t id, kvt_err *err)
{
    uint8_t flag = KVT_TOKEN_RESPONSE;
    if (tokenizer_is_special(u->m->tokenizer, id))
        flag |= KVT_TOKEN_SPECIAL;
    return token_list_push(&u->p->list, u->m->tokenizer, id, flag, err);
}

/* The token that follows, and its row of /logit. */
static kvt_code pick(run *u, int64_t m, int32_t *id, kvt_err *err)
{
    sample_row row;
    device_top top;
    if (u->by_top) {
        if (forward_top(u->f, &top, err))
            return err->code;
        *id = top.id[0];
        if (u->r)
            recorder_top(u->r, m, &top, top.logit[0]);
        return KVT_OK;
    }
    const float *logit = forward_logit(u->f);
    if (sampler_pick(u->sampler, id, logit, m, err))
        return err->code;
    if (!u->r)
        return KVT_OK;
    if (sampler_describe(u->sampler, &row, logit, *id, err))
        return err->code;
    recorder_logit(u->r, m, &row);
    return KVT_OK;
}

static kvt_code generate(run *u, kvt_err *err)
{
    u->stop = u->p->max_new ? "length" : "none";
    for (int64_t m = 0; m < u->p->max_new; m++) {
        int32_t id;
        if (kvt_progress(u->ctx, "decode", m, u->p->max_new, err) || pick(u, m, &id, err) ||
            push(u, id, err) || forward_step(u->f, id, err))
            return err->code;
        u->n_response++;
        if (tokenizer_is_stop(u->m->tokenizer, id)) {
            u->stop = "stop-token";
            break;
        }
    }
    return KVT_OK;
}

static kvt_code force(run *u, kvt_err *err)
{
    u->stop = "forced";
    if (u->p->max_new == 0)
        return KVT_OK;
    for (int64_t m = 0; m < u->p->max_new; m++)
        if (push(u, u->p->forced.id[m], err))
            return err->code;
    u->n_response = u->p->max_new;
    return forward_force(u->f, u->p->forced.id, u->p->max_new, err);
}

static kvt_code likeliest(const run *u, int32_t *id, kvt_err *err)
{
    device_top top;
    int64_t best = 0, n = tokenizer_count(u->m->tokenizer);
    if (u->by_top) {
        kvt_code code = forward_top(u->f, &top, err);
        *id = code ? 0 : top.id[0];
        return code;
    }
    const float *logit = forward_logit(u->f);
    for (int64_t v = 1; v < n; v++)
        if (logit[v] > logit[best])
            best = v;
    *id = (int32_t)best;
    return KVT_OK;
}

static kvt_code execute(run *u, kvt_err *err)
{
    double begin = clock_now();
    if (u->r && u->p->is_forced)
        recorder_expect(u->r, u->sampler, u->p->forced.id, u->p->max_new);
    kvt_code code = forward_prefill(u->f, u->p->list.id, u->rs.n_prompt, err);
    u->counts->prefill_s = clock_now() - begin;
    begin = clock_now();
    if (!code)
        code = likeliest(u, &u->first, err);
    if (!code)
        code = u->p->is_forced ? force(u, err) : generate(u, err);
    u->counts->decode_s = clock_now() - begin;
    if (!code)
        code = kvt_progress(u->ctx, "decode", u->p->max_new, u->p->max_new, err);
    return code;
}

static kvt_code put(kvt_writer *w, kvt_ds ds, const void *data, kvt_dtype dtype,
                    const char *axes, size_t rank, const int64_t *dim, kvt_err *err)
{
    kvt_view v = kvt_view_of(data, dtype, axes, rank, dim);
    return kvt_writer_put(w, ds, 0, &v, err);
}

static kvt_code write_tokens(const run *u, kvt_writer *w, const kvt_writer_spec *ws,
                             kvt_err *err)
{
    const token_list *l = &u->p->list;
    if (put(w, KVT_DS_TOKEN_ID, l->id, KVT_I32, KVT_SHAPE("T", l->n), err) ||
        put(w, KVT_DS_TOKEN_OFFSET, l->offset, KVT_I64, KVT_SHAPE("U", l->n + 1), err) ||
        put(w, KVT_DS_TOKEN_FLAG, l->flag, KVT_U8, KVT_SHAPE("T", l->n), err))
        return err->code;
    if (u->spec->no_text)
        return KVT_OK;
    if (put(w, KVT_DS_TEXT_BYTES, l->text.data, KVT_U8, KVT_SHAPE("Z", ws->n_text), err))
        return err->code;
    return put(w, KVT_DS_TEXT_RAW, u->p->raw.data, KVT_U8, KVT_SHAPE("Y", ws->n_raw), err);
}

/* A folder that cannot be written, or has no room, is known before the model runs. */
static kvt_code try_path(const run *u, const char *path, kvt_err *err)
{
    kvt_writer_spec ws;
    kvt_writer *w = NULL;
    capture_facts(&ws, u->m, u->spec, u->p, &u->rs, u->ctx, u->p->max_new);
    kvt_code code = kvt_writer_open(&w, path, &ws, err);
    kvt_writer_abort(w);
    return code;
}

static kvt_code run_probes(run *u, kvt_writer *w, kvt_err *err)
{
    const kvt_capture_spec *s = u->spec;
    if (!s->probes)
        return KVT_OK;
    run_prompt ran = {.f = u->f,
                      .r = u->r,
                      .g = &u->m->weights->geometry,
                      .n_prompt = u->rs.n_prompt,
                      .n_response = u->n_response,
                      .id = u->p->list.id,
                      .flag = u->p->list.flag,
                      .first = u->first};
    kvt_prompt p = run_prompt_of(&ran);
    double begin = clock_now();
    kvt_code code = s->probes(s->probes_user, &p, w, u->ctx, err);
    u->counts->probe_s = clock_now() - begin;
    return code;
}

static kvt_code write_trace(run *u, const char *path, kvt_err *err)
{
    kvt_writer_spec ws;
    kvt_writer *w = NULL;
    double begin = clock_now(), computing = 0;
    capture_facts(&ws, u->m, u->spec, u->p, &u->rs, u->ctx, u->n_response);
    snprintf(ws.facts.token.stop_reason, sizeof ws.facts.token.stop_reason, "%s", u->stop);
    kvt_code code = kvt_writer_open(&w, path, &ws, err);
    if (!code)
        code = write_tokens(u, w, &ws, err);
    if (!code)
        code = recorder_write(u->r, u->f, w, &computing, err);
    if (!code)
        code = run_probes(u, w, err);
    if (code) {
        kvt_writer_abort(w);
        return code;
    }
    code = kvt_writer_close(w, err);
    u->counts->future_s = computing;
    u->counts->write_s = clock_now() - begin - computing - u->counts->probe_s;
    return code;
}

static void report(const run *u, const char *path)
{
    kvt_capture_counts *c = u->counts;
    const token_list *l = &u->p->list;
    size_t from = (size_t)l->offset[u->rs.n_prompt], n = l->text.n - from;
    if (n > sizeof c->text - 1)
        n = sizeof c->text - 1;
    n = tokenizer_whole(l->text.data + from, n);
    memcpy(c->text, l->text.data + from, n);
    c->text[n] = 0;
    c->n_prompt = u->rs.n_prompt;
    c->n_response = u->n_response;
    snprintf(c->path, sizeof c->path, "%s", path ? path : "");
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        c->peak_bytes = (int64_t)usage.ru_maxrss * 1024;
}

kvt_code capture_one(kvt_model *m, const kvt_capture_spec *spec, prepared *p, const char *path,
                     kvt_capture_counts *counts, const kvt_ctx *ctx, kvt_err *err)
{
    run u = {.m = m, .spec = spec, .p = p, .ctx = ctx, .counts = counts};
    kvt_code code = capture_recorder(&u.rs, m, spec, p, ctx, err);
    if (!code && spec->record)
        code = try_path(&u, path, err);
    if (!code)
        code = start(&u, err);
    if (!code)
        code = execute(&u, err);
    if (!code && spec->record)
        code = write_trace(&u, path, err);
    if (!code)
        report(&u, path);
    recorder_free(u.r);
    forward_free(u.f);
    sampler_free(u.sampler);
    return code;
}
