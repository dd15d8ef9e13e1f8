/* truth.c - what the response looks at: how much mass each prompt token still gets, and the
 * order of tokens by it.
 *
 * Halves are whole multiples of 2^-24 and every sum here stays far below 2^29, so that sums in
 * doubles are exact in any order. The mean over the heads of a group divides once. */
#include "replay/replay_priv.h"

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
    if (out->head && out->group && out->order)
        return KVT_OK;
    truth_free(out);
    return kvt_fail_memory(err, (n_head + 2 * n_kv) * n_prompt * (int64_t)sizeof *out->head);
}

void truth_free(truth *t)
{
    kvt_free(t->head);
    kvt_free(t->group);
    kvt_free(t->order);
    kvt_free(t->head_order);
    kvt_free(t->future_mean);
    *t = (truth){0};
}

static kvt_code rank(int32_t *order, const double *mass, int n, int64_t n_prompt, kvt_err *err)
{
    kvt_arena *work = kvt_arena_new((size_t)1 << 40);
    bool good = work != NULL;
    for (int i = 0; good && i < n; i++) {
        good = select_rank_double(order + i * n_prompt, mass + i * n_prompt, n_prompt, work);
        kvt_arena_rewind(work, 0);
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
    return rank(t->order, t->group, t->n_kv, t->n_prompt, err);
}

kvt_code truth_by_head(truth *t, kvt_err *err)
{
    if (t->head_order)
        return KVT_OK;
    t->head_order = kvt_alloc(t->n_head * t->n_prompt, sizeof *t->head_order);
    if (!t->head_order)
        return kvt_fail_memory(err, t->n_head * t->n_prompt * (int64_t)sizeof *t->head_order);
    return rank(t->head_order, t->head, t->n_head, t->n_prompt, err);
}
