/* truth.c - what the response looks at: how much mass each prompt token still gets, and the
 * order of tokens by it.
 *
 * Halves are whole multiples of 2^-24 and every sum here stays far below 2^29, so that sums in
 * doubles are exact in any order. The mean over the heads of a group divides once, and is only
 * compared; what is summed further is the sum over the heads. */
#include "replay/replay_priv.h"

#include <string.h>

#include "base/half.h"
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
    kvt_free(t->out_size);
    kvt_free(t->support);
    kvt_free(t->heavy);
    *t = (truth){0};
}

/* order [n n_token] of n lists of masses. */
static kvt_code rank(int32_t *order, const double *mass, int n, int64_t n_token, kvt_err *err)
{
    kvt_arena *work = kvt_arena_new((size_t)1 << 40);
    bool good = work != NULL;
    for (int i = 0; good && i < n; i++) {
        good = select_rank_double(order + i * n_token, mass + i * n_token, n_token, work);
        kvt_arena_rewind(work, 0);
    }
    kvt_arena_free(work);
    return good ? KVT_OK : kvt_fail_memory(err, n_token * (int64_t)sizeof *mass);
}

/* best [n][N + 1] of n lanes of n_head heads: side by side, since each sum waits for its last.
 */
static void add_up(double *best, const int32_t *order, const double *head, int n, int n_head,
                   int64_t n_prompt)
{
    for (int a = 0; a < n; a++)
        best[a * (n_prompt + 1)] = 0;
    for (int64_t s = 0; s < n_prompt; s++)
        for (int a = 0; a < n; a++) {
            double *to = best + a * (n_prompt + 1) + s, sum = to[0];
            const double *mass = head + a * n_head * n_prompt + order[a * n_prompt + s];
            for (int h = 0; h < n_head; h++)
                sum += mass[h * n_prompt];
            to[1] = sum;
        }
}

kvt_code truth_finish(truth *t, kvt_err *err)
{
    int n = t->n_head / t->n_kv;
    for (int g = 0; g < t->n_kv; g++) {
        double *group = t->group + g * t->n_prompt; /* still 0 */
        for (int h = 0; h < n; h++) {
            const double *head = t->head + (g * n + h) * t->n_prompt;
            for (int64_t j = 0; j < t->n_prompt; j++)
                group[j] += head[j];
        }
        for (int64_t j = 0; j < t->n_prompt; j++)
            group[j] /= n;
    }
    if (rank(t->order, t->group, t->n_kv, t->n_prompt, err))
        return err->code;
    add_up(t->best, t->order, t->head, t->n_kv, n, t->n_prompt);
    return KVT_OK;
}

kvt_code truth_by_head(truth *t, kvt_err *err)
{
    if (t->head_order)
        return KVT_OK;
    t->head_order = kvt_alloc(t->n_head * t->n_prompt, sizeof *t->head_order);
    t->head_best = kvt_alloc(t->n_head * (t->n_prompt + 1), sizeof *t->head_best);
    if (!t->head_order || !t->head_best)
        return kvt_fail_memory(err, t->n_head * t->n_prompt * (int64_t)sizeof *t->head_order);
    if (rank(t->head_order, t->head, t->n_head, t->n_prompt, err))
        return err->code;
    add_up(t->head_best, t->head_order, t->head, t->n_head, 1, t->n_prompt);
    return KVT_OK;
}

/* Halves of a row may add up to a little more than 1. Such a row loses 1 until enough of its
 * mass stays: the first tokens of the order are nearly always enough. */
static void cut_row(double *best, const int32_t *order, const uint16_t *row, double lost,
                    int64_t n_prompt)
{
    for (int64_t s = 0; lost > 1 && s < n_prompt; s++) {
        best[s] += lost - 1;
        lost -= (double)half_to_float(row[order[s]]);
    }
}

void truth_cut(truth *t, const layer_rows *response, const double *prompt_sum)
{
    int64_t N = t->n_prompt, M = t->n_response;
    for (int h = 0; h < t->n_head; h++) {
        int g = h / (t->n_head / t->n_kv);
        for (int64_t m = 0; m < M; m++) {
            const uint16_t *row =
                response->data + h * response->head_stride + m * response->row_stride;
            double all = prompt_sum[h * M + m];
            cut_row(t->best + g * (N + 1), t->order + g * N, row, all, N);
            if (t->head_best)
                cut_row(t->head_best + h * (N + 1), t->head_order + h * N, row, all, N);
        }
    }
}

/* Masses of the tokens of all lanes of a layer, and what the loss falls by when each stays
 * beside the better ones of its lane. Returns how many there are. */
static int64_t put_pool(double *mass, double *gain, const truth *t, bool by_head)
{
    int64_t N = t->n_prompt, n = by_head ? t->n_head : t->n_kv;
    memcpy(mass, truth_mass(t, 0, by_head), (size_t)(n * N) * sizeof *mass);
    for (int a = 0; a < n; a++) {
        const double *best = truth_best(t, a, by_head);
        for (int64_t s = 0; s < N; s++)
            gain[a * N + truth_order(t, a, by_head)[s]] = best[s + 1] - best[s];
    }
    return n * N;
}

kvt_code truth_over_lanes(double **prefix, const truth *truths, const bool *layers, int n_layer,
                          bool by_head, kvt_err *err)
{
    int64_t n = 0, at = 0;
    for (int l = 0; l < n_layer; l++)
        if (layers[l])
            n += (by_head ? truths[l].n_head : truths[l].n_kv) * truths[l].n_prompt;
    double *mass = kvt_alloc(n, sizeof *mass), *gain = kvt_alloc(n, sizeof *gain);
    int32_t *order = kvt_alloc(n, sizeof *order);
    double *out = kvt_alloc(n + 1, sizeof *out);
    kvt_code code = KVT_OK;
    if (!mass || !gain || !order || !out)
        code = kvt_fail_memory(err, n * (int64_t)sizeof *mass);
    for (int l = 0; !code && l < n_layer; l++) {
        if (!layers[l])
            continue;
        for (int a = 0; a < (by_head ? truths[l].n_head : truths[l].n_kv); a++)
            out[0] += truth_best(&truths[l], a, by_head)[0];
        at += put_pool(mass + at, gain + at, &truths[l], by_head);
    }
    if (!code)
        code = rank(order, mass, 1, n, err);
    for (int64_t s = 0; !code && s < n; s++)
        out[s + 1] = out[s] + gain[order[s]];
    kvt_free(mass);
    kvt_free(gain);
    kvt_free(order);
    if (code)
        kvt_free(out);
    *prefix = code ? NULL : out;
    return code;
}
