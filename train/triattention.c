/* triattention.c - the mean query of each rotary frequency: TriAttention (arXiv 2604.04921)
 * from traces.
 *
 * Of the queries before RoPE, as complex numbers q_f for each rotary pair, over all prompts
 *
 *   mean      = mean of q_f                 (real parts, then imaginary ones: half layout)
 *   magnitude = mean of |q_f|
 *
 * for each query head. The traces hold both for their prompt, its first 4 tokens left out; a
 * prompt of n tokens weighs n - 4. Sums in double. */
#include <string.h>

#include "train/table_fit.h"

enum { SKIP = 4 }; /* tokens that /query/mean leaves out where there are more */

typedef struct tri {
    int64_t H, R, D;     /* R query heads a kv head */
    double *sum, weight; /* [H (D + D / 2)] */
} tri;

static const kvt_ds reads[] = {KVT_DS_QUERY_MEAN, KVT_DS_QUERY_FREQ};

static kvt_code begin(void *user, kvt_err *err)
{
    tri *k = user;
    (void)err;
    memset(k->sum, 0, (size_t)(k->H * (k->D + k->D / 2)) * sizeof *k->sum);
    k->weight = 0;
    return KVT_OK;
}

static kvt_code add(void *user, const tracein *s, int layer, kvt_arena *work, kvt_err *err)
{
    tri *k = user;
    int64_t D = k->D, F = D / 2;
    double weight = (double)(s->N > SKIP ? s->N - SKIP : s->N);
    const float *mean = tracein_at(s, KVT_DS_QUERY_MEAN, layer);
    const float *size = tracein_at(s, KVT_DS_QUERY_FREQ, layer);
    (void)work, (void)err;
    for (int64_t i = 0; i < k->H * D; i++)
        k->sum[i] += weight * (double)mean[i];
    for (int64_t i = 0; i < k->H * F; i++)
        k->sum[k->H * D + i] += weight * (double)size[i];
    k->weight += weight;
    return KVT_OK;
}

/* A kv head's numbers: the means of its query heads, then their magnitudes. */
static kvt_code end(void *user, int layer, float *param, kvt_err *err)
{
    const tri *k = user;
    int64_t D = k->D, F = D / 2;
    (void)layer, (void)err;
    int64_t G = k->H / k->R;
    for (int64_t g = 0; g < G; g++) {
        const double *mean = k->sum + g * k->R * D, *size = k->sum + k->H * D + g * k->R * F;
        for (int64_t i = 0; i < k->R * D; i++)
            *param++ = (float)(mean[i] / k->weight);
        for (int64_t i = 0; i < k->R * F; i++)
            *param++ = (float)(size[i] / k->weight);
    }
    return KVT_OK;
}

static table_spec spec_of(tri *k)
{
    return (table_spec){.kind = "triattention",
                        .ds = reads,
                        .n_ds = sizeof reads / sizeof *reads,
                        .n_param = k->R * (k->D + k->D / 2),
                        .user = k,
                        .begin = begin,
                        .add = add,
                        .end = end};
}

static tri tri_of(const train_run *run)
{
    const kvt_geometry *g = &run->info.facts.model;
    return (tri){.H = g->n_head, .R = g->n_head / g->n_kv_head, .D = g->head_dim};
}

static kvt_code run_triattention(train_run *run, kvt_err *err)
{
    tri k = tri_of(run);
    int64_t R = k.R, D = k.D, F = D / 2;
    const fit_tensor tensor[] = {
        {"mean", "mean query before RoPE: real parts, then imaginary ones", "HD", 0, {R, D}},
        {"magnitude", "mean magnitude of each rotary pair", "HF", R * D, {R, F}}};
    k.sum = kvt_alloc(k.H * (D + F), sizeof *k.sum);
    if (!k.sum)
        return kvt_fail_memory(err, (size_t)(k.H * (D + F)) * sizeof *k.sum);
    const table_spec spec = spec_of(&k);
    kvt_code code = table_run(run, &spec, tensor, 2, err);
    kvt_free(k.sum);
    return code;
}

static kvt_code plan_triattention(train_run *run, kvt_err *err)
{
    tri k = tri_of(run);
    const table_spec spec = spec_of(&k);
    run->counts->memory_bytes = k.H * (k.D + k.D / 2) * (int64_t)sizeof *k.sum;
    return table_plan(run, &spec, err);
}

static const kvt_param params[] = {{0}};

const kvt_trainer kvt_trainer_triattention = {
    .name = "triattention",
    .title = "the mean query of each rotary frequency",
    .paper = "Mao et al., TriAttention, 2026, arXiv:2604.04921",
    .about =
        "Before RoPE the queries of a head lie close to one point. Its mean, as a complex "
        "number "
        "for each rotary pair, and the mean magnitude of each pair are all that the policy "
        "reads; they are averaged over the prompts of the traces. No training.",
    .differs =
        "the first 4 tokens of each prompt are left out; the prompts of a set instead of "
        "one long sequence",
    .file = "scorer",
    .reads = "level replay",
    .params = params,
    .run = run_triattention,
    .plan = plan_triattention,
};
