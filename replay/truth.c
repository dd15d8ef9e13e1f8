/* truth.c - what the response looks at: how much mass each prompt token still gets, and the
 * order of tokens by it.
 *
 * Halves are whole multiples of 2^-24 and every sum here stays far below 2^29, so that sums in
 * doubles are exact in any order. The mean over the heads of a group divides once. */
#include "replay/replay_priv.h"

#include <string.h>

#include "base/select.h"
#include "kvt/arena.h"

kvt_code truth_new(truth *out, int n_head, int n_kv, int64_t n_prompt, int64_t n_response,
                   kvt_err *err)
{
    *out =
        (truth){.n_head = n_head, .n_kv = n_kv, .n_prompt = n_prompt, .n_response = n_response};
    out->head = kvt_alloc(n_head * n_prompt, sizeof *out->head);
    out->group = kvt_alloc(n_kv * n_prompt, sizeof *out->group);
    out->order = kvt_alloc(n_kv * n_prompt, sizeof *out->order);
    out->best = kvt_alloc(n_kv * (n_prompt + 1), sizeof *out->best);
    if (out->head && out->group && out->order && out->best)
        return KVT_OK;
    truth_free(out);
    return kvt_fail_memory(err, (n_head + 2 * n_kv) * n_prompt * (int64_t)sizeof *out->head);
}

void truth_free(truth *t)
{
    kvt_free(t->head);
    kvt_free(t->group);
    kvt_free(t->order);
    kvt_free(t->best);
    kvt_free(t->head_order);
    kvt_free(t->head_best);
    kvt_free(t->future_mean);
    *t = (truth){0};
}

/* order and running sums of n lanes. */
static kvt_code rank(int32_t *order, double *best, const double *mass, int n, int64_t n_prompt,
                     kvt_err *err)
{
    kvt_arena *work = kvt_arena_new((size_t)1 << 40);
    bool good = work != NULL;
    for (int i = 0; good && i < n; i++, order += n_prompt, mass += n_prompt) {
        good = select_rank_double(order, mass, n_prompt, work);
        kvt_arena_rewind(work, 0);
        *best = 0;
        for (int64_t s = 0; good && s < n_prompt; s++, best++)
            best[1] = best[0] + mass[order[s]];
        best++;
    }
    kvt_arena_free(work);
    return good ? KVT_OK : kvt_fail_memory(err, n_prompt * (int64_t)sizeof *mass);
}

kvt_code truth_finish(truth *t, kvt_err *err)
{
    int n = t->n_head / t->n_kv;
    for (int g = 0; g < t->n_kv; g++) {
        for (int64_t j = 0; j < t->n_prompt; j++) {
            double sum = 0;
            for (int h = 0; h < n; h++)
                sum += t->head[(g * n + h) * t->n_prompt + j];
            t->group[g * t->n_prompt + j] = sum / n;
        }
    }
    return rank(t->order, t->best, t->group, t->n_kv, t->n_prompt, err);
}

kvt_code truth_by_head(truth *t, kvt_err *err)
{
    if (t->head_order)
        return KVT_OK;
    t->head_order = kvt_alloc(t->n_head * t->n_prompt, sizeof *t->head_order);
    t->head_best = kvt_alloc(t->n_head * (t->n_prompt + 1), sizeof *t->head_best);
    if (!t->head_order || !t->head_best)
        return kvt_fail_memory(err, t->n_head * t->n_prompt * (int64_t)sizeof *t->head_order);
    return rank(t->head_order, t->head_best, t->head, t->n_head, t->n_prompt, err);
}

kvt_code truth_over_lanes(double **prefix, const truth *truths, const bool *layers, int n_layer,
                          bool by_head, kvt_err *err)
{
    int64_t n = 0;
    for (int l = 0; l < n_layer; l++)
        if (layers[l])
            n += (by_head ? truths[l].n_head : truths[l].n_kv) * truths[l].n_prompt;
    double *mass = kvt_alloc(n, sizeof *mass);
    int32_t *order = kvt_alloc(n, sizeof *order);
    *prefix = kvt_alloc(n + 1, sizeof **prefix);
    kvt_code code = KVT_OK;
    if (!mass || !order || !*prefix)
        code = kvt_fail_memory(err, n * (int64_t)sizeof *mass);
    n = 0;
    for (int l = 0; !code && l < n_layer; l++) {
        int64_t add = (by_head ? truths[l].n_head : truths[l].n_kv) * truths[l].n_prompt;
        if (!layers[l])
            continue;
        memcpy(mass + n, truth_mass(&truths[l], 0, by_head), (size_t)add * sizeof *mass);
        n += add;
    }
    if (!code)
        code = rank(order, *prefix, mass, 1, n, err);
    kvt_free(mass);
    kvt_free(order);
    if (code) {
        kvt_free(*prefix);
        *prefix = NULL;
    }
    return code;
}
