/* fit_write.c - a scorer's file out of the vectors of its units. */
#include "train/fit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"

void fit_fold(const fit *f, int64_t u, float *weight, float *bias, int64_t rows)
{
    int64_t W = f->spec->n_in;
    const float *mean = f->mean + u * W, *scale = f->scale + u * W;
    for (int64_t r = 0; r < rows; r++) {
        double b = (double)bias[r];
        for (int64_t j = 0; j < W; j++) {
            float w = weight[r * W + j] * scale[j];
            b -= (double)w * (double)mean[j];
            weight[r * W + j] = w;
        }
        bias[r] = (float)b;
    }
}

void fit_normal(float *out, int64_t n, double deviation, uint64_t rng[4])
{
    for (int64_t i = 0; i < n; i++) {
        double radius = sqrt(-2 * log(1 - rng_real(rng))), turn = rng_real(rng);
        out[i] = (float)(deviation * radius * cos(2 * acos(-1.0) * turn));
    }
}

static int64_t tensor_size(const fit_tensor *t)
{
    int64_t n = 1;
    for (size_t i = 0; i < strlen(t->axes); i++)
        n *= t->dim[i];
    return n;
}

/* One tensor's array [L (G) ...] at *at, which moves on. */
static void lay(const fit *f, const train_run *run, const fit_tensor *t, float **at,
                kvt_scorer_tensor *out)
{
    const fit_spec *s = f->spec;
    bool by_head = t->axes[0] == 'H'; /* those of all kv heads, one behind the other */
    int64_t n = tensor_size(t), dim[KVT_RANK_MAX] = {run->info.n_layer};
    size_t rank = 1;
    char axes[KVT_RANK_MAX + 1];
    if (!s->by_layer && !by_head)
        dim[rank++] = run->info.facts.model.n_kv_head;
    snprintf(axes, sizeof axes, "%s%s", s->by_layer || by_head ? "L" : "LG", t->axes);
    for (size_t i = 0; i < strlen(t->axes); i++)
        dim[rank++] = t->dim[i];
    if (by_head && !s->by_layer)
        dim[1] *= run->info.facts.model.n_kv_head;
    for (int64_t u = 0; u < f->n_unit; u++)
        memcpy(*at + u * n, f->param + u * s->n_param + t->offset, (size_t)n * sizeof **at);
    *out = (kvt_scorer_tensor){.view = kvt_view_of(*at, KVT_F32, axes, rank, dim)};
    snprintf(out->name, sizeof out->name, "%s", t->name);
    snprintf(out->help, sizeof out->help, "%s", t->help);
    *at += f->n_unit * n;
}

static void lay_number(const fit_number *number, kvt_scorer_tensor *out)
{
    static const int64_t none[1] = {0};
    *out = (kvt_scorer_tensor){.view = kvt_view_of(&number->value, KVT_F32, "", 0, none)};
    snprintf(out->name, sizeof out->name, "%s", number->name);
    snprintf(out->help, sizeof out->help, "%s", number->help);
}

kvt_code fit_write(const fit *f, train_run *run, const char *kind, const fit_tensor *tensor,
                   int n_tensor, const fit_number *number, int n_number, kvt_err *err)
{
    kvt_scorer_info *info = kvt_alloc(1, sizeof *info);
    kvt_scorer_tensor *list = kvt_alloc(n_tensor + n_number, sizeof *list);
    int64_t n = 0;
    for (int i = 0; i < n_tensor; i++)
        n += f->n_unit * tensor_size(&tensor[i]);
    float *data = kvt_alloc(n, sizeof *data), *at = data;
    kvt_code code = KVT_OK;
    if (!info || !list || !data)
        code = kvt_fail_memory(err, (size_t)n * sizeof *data);
    for (int i = 0; !code && i < n_tensor; i++) {
        lay(f, run, &tensor[i], &at, &list[i]);
        list[i].half = f->spec->plan.half;
    }
    for (int i = 0; !code && i < n_number; i++)
        lay_number(&number[i], &list[n_tensor + i]);
    if (!code) {
        train_scorer_info(run, kind, info);
        code = kvt_scorer_write(run->spec->out, info, list, n_tensor + n_number,
                                run->spec->force, err);
    }
    kvt_free(info);
    kvt_free(list);
    kvt_free(data);
    return code;
}
