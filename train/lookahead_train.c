/* lookahead_train.c - the steps: batches in the order of the epochs, gradient, clip, AdamW, the
 * curve, checkpoints. Which traces step t sees follows from t alone, so that a resumed run goes
 * the same way. */
#include "train/lookahead_train.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/size.h"
#include "capture/model.h"
#include "compute/backend.h"
#include "kvt/arena.h"

const kvt_choice look_inits[2] = {
    {"response", "", "the first tokens of one training trace's response"},
    {"random", "", "normal numbers of deviation 0.02, times the model's factor of embeddings"},
};
const kvt_choice look_targets[2] = {
    {"mean", "", "mean attention of the response (future/mean)"},
    {"max", "", "its maximum (future/max), an ablation"},
};

static unsigned maps_of(const lookahead_params *p)
{
    enum { Q = 1 << ADAPTER_Q, K = 1 << ADAPTER_K, V = 1 << ADAPTER_V };
    static const unsigned bits[] = {(1 << ADAPTER_MAPS) - 1, Q | V, Q | K, Q | K | V, 0};
    return bits[p->maps];
}

static int64_t longest_prompt(const train_run *run)
{
    int64_t most = 0;
    for (int i = 0; i < run->spec->n_trace; i++)
        most = run->trace[i].n_prompt > most ? run->trace[i].n_prompt : most;
    for (int i = 0; i < run->spec->n_heldout; i++)
        most = run->heldout[i].n_prompt > most ? run->heldout[i].n_prompt : most;
    return most;
}

void look_model_of(look_model *out, look_layer *layer, const kvt_weights *w)
{
    for (int64_t i = 0; i < w->geometry.n_layer; i++) {
        const kvt_weights_layer *l = &w->layer[i];
        layer[i] = (look_layer){
            .attn_norm = l->attn_norm,
            .ffn_norm = l->ffn_norm,
            .post_attn_norm = l->post_attn_norm,
            .post_ffn_norm = l->post_ffn_norm,
            .q_norm = l->q_norm,
            .k_norm = l->k_norm,
            .bq = l->bq,
            .bk = l->bk,
            .bv = l->bv,
            .w = {matrix_floats(&l->wq), matrix_floats(&l->wk), matrix_floats(&l->wv),
                  matrix_floats(&l->wo), matrix_floats(&l->gate), matrix_floats(&l->up),
                  matrix_floats(&l->down)},
        };
    }
    *out = (look_model){.geometry = &w->geometry, .arch = w->arch, .layer = layer};
}

/* The pass reads matrices as they lie. */
static kvt_code check_weights(const kvt_weights *w, kvt_err *err)
{
    for (int64_t l = 0; l < w->geometry.n_layer; l++) {
        const kvt_weights_layer *y = &w->layer[l];
        const kvt_matrix *m[] = {&y->wq, &y->wk, &y->wv, &y->wo, &y->gate, &y->up, &y->down};
        for (size_t i = 0; i < sizeof m / sizeof m[0]; i++)
            if (m[i]->type != QUANT_F32)
                return kvt_fail(err, KVT_USAGE,
                                "training needs a model that was opened with weights as f32");
    }
    return KVT_OK;
}

static kvt_code check(const train_run *run, const kvt_geometry *g, kvt_err *err)
{
    static const kvt_ds needs[] = {KVT_DS_KEYS, KVT_DS_VALUES, KVT_DS_FUTURE_MEAN,
                                   KVT_DS_FUTURE_MAX, KVT_DS_TOKEN_ID};
    if (run->info.n_layer != g->n_layer)
        return kvt_fail(err, KVT_FORMAT,
                        "'%s' holds %d of the model's %lld layers; training runs them all",
                        run->info.path, run->info.n_layer, (long long)g->n_layer);
    if (check_weights(model_weights(run->spec->model), err))
        return err->code;
    return train_needs(run, needs, sizeof needs / sizeof *needs, err);
}

/* Everything that follows from parameters and traces; no memory is taken. */
static kvt_code shape(look_run *r, train_run *run, look_loss loss, kvt_err *err)
{
    const lookahead_params *p = run->params;
    const kvt_geometry *g = kvt_model_geometry(run->spec->model);
    unsigned maps = p->rank > 0 ? maps_of(p) : 0;
    int64_t rank = maps ? p->rank : 0, n = run->spec->n_trace;
    kvt_train_counts *c = run->counts;
    *r = (look_run){.run = run, .params = p, .geometry = g, .order_epoch = -1};
    r->room = (look_room){.n_sample = (int)(p->batch < LOOK_CHUNK ? p->batch : LOOK_CHUNK),
                          .n_prompt = longest_prompt(run),
                          .n_thread = kvt_threads(run->ctx),
                          .loss = loss,
                          .prompt_only = p->over == LOOK_OVER_PROMPT};
    look_layout_of(&r->layout, g, p->tokens, rank, maps, p->scale);
    r->n_step = p->steps > 0 ? p->steps : (p->epochs * n + p->batch - 1) / p->batch;
    c->n_step = r->n_step;
    c->n_example = r->n_step * p->batch;
    c->n_parameter = r->layout.n_param;
    const kvt_weights *w = model_weights(run->spec->model);
    c->parameter_frac = (double)r->layout.n_param / (double)w->n_weight;
    look_model m = {.geometry = g, .arch = w->arch};
    c->memory_bytes = look_bytes(&m, &r->layout, &r->room) +
                      4 * r->layout.n_param * (int64_t)sizeof(float) +
                      r->room.n_sample * look_data_bytes(g, r->room.n_prompt) + w->bytes;
    return check(run, g, err);
}

static kvt_code get_memory(look_run *r, kvt_err *err)
{
    const kvt_weights *w = model_weights(r->run->spec->model);
    int64_t n = r->layout.n_param;
    r->layer = kvt_alloc(r->geometry->n_layer, sizeof *r->layer);
    r->param = kvt_alloc(n, sizeof *r->param);
    r->grad = kvt_alloc(n, sizeof *r->grad);
    r->m = kvt_alloc(n, sizeof *r->m);
    r->v = kvt_alloc(n, sizeof *r->v);
    r->order = kvt_alloc(r->run->spec->n_trace, sizeof *r->order);
    if (!r->layer || !r->param || !r->grad || !r->m || !r->v || !r->order)
        return kvt_fail_memory(err, 4 * n * (int64_t)sizeof *r->param);
    look_model m;
    look_model_of(&m, r->layer, w);
    kvt_code code = look_new(&r->pass, &m, &r->layout, &r->room, err);
    for (int i = 0; !code && i < r->room.n_sample; i++)
        code = look_data_new(&r->data[i], r, r->room.n_prompt, err);
    return code;
}

static void free_memory(look_run *r)
{
    for (int i = 0; i < r->room.n_sample; i++)
        look_data_free(&r->data[i]);
    look_free(r->pass);
    kvt_free(r->layer);
    kvt_free(r->param);
    kvt_free(r->grad);
    kvt_free(r->m);
    kvt_free(r->v);
    kvt_free(r->order);
}

/* Trace of example i, counted from the first of the run. */
static kvt_code example(look_run *r, int64_t i, const train_trace **out, kvt_err *err)
{
    int n = r->run->spec->n_trace;
    if (r->order_epoch != i / n) {
        r->order_epoch = i / n;
        kvt_code code = train_order(r->run, r->order_epoch, r->order, n, err);
        if (code)
            return code;
    }
    *out = &r->run->trace[r->order[i % n]];
    return KVT_OK;
}

/* Gradient of the batch of step t (from 1), chunk by chunk; its mean loss. */
static kvt_code gradient(look_run *r, int64_t t, double *loss, kvt_err *err)
{
    int64_t batch = r->params->batch, from = (t - 1) * batch;
    memset(r->grad, 0, (size_t)r->layout.n_param * sizeof *r->grad);
    *loss = 0;
    for (int64_t at = 0; at < batch; at += r->room.n_sample) {
        look_sample sample[LOOK_CHUNK];
        int n = (int)(batch - at < r->room.n_sample ? batch - at : r->room.n_sample);
        for (int i = 0; i < n; i++) {
            const train_trace *trace;
            kvt_code code = example(r, from + at + i, &trace, err);
            if (!code)
                code = look_data_read(&r->data[i], r, trace, false, err);
            if (code)
                return code;
            sample[i] = r->data[i].sample;
        }
        *loss += look_forward(r->pass, sample, n, r->param, 1 / (double)batch, NULL);
        look_backward(r->pass, r->param, r->grad);
    }
    return KVT_OK;
}

static void update(look_run *r, int64_t t)
{
    const adamw_spec s = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8};
    const lookahead_params *p = r->params;
    int64_t n = r->layout.n_token * r->geometry->n_hidden, rest = r->layout.n_param - n;
    double share = train_schedule(t, r->n_step, p->warmup);
    if (p->clip > 0)
        adamw_clip((float *const[]){r->grad}, &r->layout.n_param, 1, p->clip);
    adamw_step(&s, r->param, r->grad, r->m, r->v, n, t, share * p->rate_embed);
    adamw_step(&s, r->param + n, r->grad + n, r->m + n, r->v + n, rest, t,
               share * p->rate_lora);
}

/* A row of the curve: at the begin, every eval_every steps, at the end. */
static kvt_code row(look_run *r, int64_t step, kvt_err *err)
{
    kvt_train_counts *c = r->run->counts;
    train_row row = {.step = step,
                     .loss = r->sum[1] > 0 ? r->sum[0] / r->sum[1] : NAN,
                     .rate = step > 0 ? train_schedule(step, r->n_step, r->params->warmup) *
                                            r->params->rate_embed
                                      : NAN};
    kvt_code code = look_evaluate(r, &row, err);
    if (!code)
        code = train_log(r->run, &row, err);
    if (r->sum[1] > 0)
        r->sum[3] = row.loss;
    r->sum[0] = r->sum[1] = 0;
    c->heldout_loss = row.heldout_loss;
    c->heldout_recall = row.recall;
    c->heldout_lost = row.lost;
    return code;
}

static kvt_code steps(look_run *r, kvt_err *err)
{
    const train_part part[] = {
        {"param", r->param, r->layout.n_param * (int64_t)sizeof *r->param},
        {"m", r->m, r->layout.n_param * (int64_t)sizeof *r->m},
        {"v", r->v, r->layout.n_param * (int64_t)sizeof *r->v},
        {"loss", r->sum, sizeof r->sum},
    };
    enum { PARTS = sizeof part / sizeof *part };
    int64_t t;
    kvt_code code = train_resume(r->run, &t, part, PARTS, err);
    if (!code && t == 0)
        code = row(r, 0, err);
    while (!code && t < r->n_step) {
        double loss;
        code = gradient(r, ++t, &loss, err);
        if (code)
            break;
        if (!isfinite(loss))
            return kvt_fail(err, KVT_FORMAT,
                            "step %lld: the loss is not finite; lower the rates", (long long)t);
        update(r, t);
        r->sum[0] += loss;
        r->sum[1] += 1;
        if (t == 1)
            r->sum[2] = loss;
        if (t % r->params->eval_every == 0 || t == r->n_step)
            code = row(r, t, err);
        if (!code)
            code = train_step_done(r->run, t, r->n_step, part, PARTS, err);
    }
    r->run->counts->first_loss = r->sum[2];
    r->run->counts->last_loss = r->sum[3];
    return code;
}

static void say(const look_run *r)
{
    char size[32];
    const kvt_train_counts *c = r->run->counts;
    kvt_log(r->run->ctx, KVT_LOG_INFO, "train",
            "%lld parameters (%.3f %% of the model), %lld steps of %lld prompts, %s of memory",
            (long long)c->n_parameter, 100 * c->parameter_frac, (long long)c->n_step,
            (long long)r->params->batch, size_print(c->memory_bytes, size, sizeof size));
}

kvt_code lookahead_run(train_run *run, look_loss loss, const char *kind, kvt_err *err)
{
    look_run r;
    kvt_code code = shape(&r, run, loss, err);
    if (!code) {
        say(&r);
        code = get_memory(&r, err);
        if (!code)
            code = look_begin(&r, err);
        if (!code)
            code = steps(&r, err);
        if (r.pass)
            run->counts->blas_s = look_blas_s(r.pass);
        if (!code)
            code = look_save(&r, kind, err);
        free_memory(&r);
    }
    return code;
}

/* Floating-point operations a second of products of these shapes, all threads at work. */
static kvt_code measure(const look_run *r, double *rate, kvt_err *err)
{
    enum { TIMES = 8, WIDTH = 96 };
    int64_t rows = r->room.n_sample * r->layout.n_token, e = r->geometry->n_hidden;
    int n_thread = r->room.n_thread;
    int64_t own = rows * (e + WIDTH) + WIDTH * e;
    float *x = kvt_alloc(own * n_thread, sizeof *x);
    double best = INFINITY;
    if (!x)
        return kvt_fail_memory(err, own * n_thread * (int64_t)sizeof *x);
    for (int i = 0; i < TIMES; i++) {
        double begin = clock_now();
#pragma omp parallel for schedule(static, 1) num_threads(n_thread)
        for (int t = 0; t < n_thread; t++)
            for (int again = 0; again < TIMES; again++)
                cpu_gemm(GEMM_NT, &(gemm_args){.a = x + t * own,
                                               .b = x + t * own + rows * e,
                                               .c = x + t * own + (rows + WIDTH) * e,
                                               .m = rows,
                                               .n = WIDTH,
                                               .k = e,
                                               .lda = e,
                                               .ldb = e,
                                               .ldc = WIDTH,
                                               .alpha = 1});
        double took = clock_now() - begin;
        best = took < best ? took : best;
    }
    kvt_free(x);
    *rate = 2.0 * (double)(rows * WIDTH * e) * n_thread * TIMES / best;
    return KVT_OK;
}

kvt_code lookahead_plan(train_run *run, look_loss loss, kvt_err *err)
{
    look_run r;
    double linear, attention, rate = 1, tokens = 0;
    kvt_code code = shape(&r, run, loss, err);
    if (!code)
        code = measure(&r, &rate, err);
    if (code)
        return code;
    for (int i = 0; i < run->spec->n_trace; i++)
        tokens += (double)run->trace[i].n_prompt / (double)run->spec->n_trace;
    look_flops(r.geometry, &r.layout, (int64_t)tokens, &linear, &attention);
    /* Softmax, norms, gates and reading beside the products: half of the plain rate. */
    run->counts->expected_s =
        (linear + attention) * (double)run->counts->n_example / (0.5 * rate);
    run->counts->file_bytes = r.layout.n_param * (r.params->half ? 2 : 4);
    return KVT_OK;
}
