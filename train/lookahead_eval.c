/* lookahead_eval.c - the held-out prompts: loss, and what would be kept of them at 10 %.
 *
 * Scores of a kv head are the mean over its query heads; no pooling, nothing pinned. recall:
 * the share of the kept tokens that the oracle keeps too; lost: the response's mean attention
 * on what is dropped, of query heads, lanes and prompts the mean (design.md: mass lost). */
#include <math.h>
#include <string.h>

#include "base/select.h"
#include "kvt/arena.h"
#include "train/lookahead_train.h"

typedef struct lane {
    float *mass, *score, *truth; /* [N] */
    bool *keep, *best;           /* [N] */
    kvt_arena *work;
} lane;

static kvt_code lane_new(lane *x, int64_t n, kvt_err *err)
{
    *x = (lane){.mass = kvt_alloc(n, sizeof *x->mass),
                .score = kvt_alloc(n, sizeof *x->score),
                .truth = kvt_alloc(n, sizeof *x->truth),
                .keep = kvt_alloc(n, sizeof *x->keep),
                .best = kvt_alloc(n, sizeof *x->best),
                .work = kvt_arena_new((size_t)n * 64 + (1 << 20))};
    if (!x->mass || !x->score || !x->truth || !x->keep || !x->best || !x->work)
        return kvt_fail_memory(err, n * 32);
    return KVT_OK;
}

static void lane_free(lane *x)
{
    kvt_free(x->mass);
    kvt_free(x->score);
    kvt_free(x->truth);
    kvt_free(x->keep);
    kvt_free(x->best);
    kvt_arena_free(x->work);
}

/* Adds recall and lost of one lane. */
static bool judge(const look_run *r, const look_data *d, int layer, int sample, int64_t g,
                  lane *x, double *recall, double *lost)
{
    int64_t n = d->sample.n_prompt, rep = r->geometry->n_head / r->geometry->n_kv_head;
    int64_t keep = n / 10 < 1 ? 1 : n / 10, hit = 0;
    memset(x->score, 0, (size_t)n * sizeof *x->score);
    memset(x->truth, 0, (size_t)n * sizeof *x->truth);
    for (int64_t h = g * rep; h < (g + 1) * rep; h++) {
        const float *mean = d->mean + (layer * r->geometry->n_head + h) * n;
        look_mass(r->pass, layer, sample, h, x->mass);
        for (int64_t j = 0; j < n; j++) {
            x->score[j] += x->mass[j];
            x->truth[j] += mean[j] / (float)rep;
        }
    }
    size_t mark = kvt_arena_mark(x->work);
    bool ok = select_best(x->keep, x->score, n, keep, x->work) &&
              select_best(x->best, x->truth, n, keep, x->work);
    kvt_arena_rewind(x->work, mark);
    for (int64_t j = 0; j < n; j++) {
        hit += x->keep[j] && x->best[j];
        *lost += x->keep[j] ? 0 : (double)x->truth[j];
    }
    *recall += (double)hit / (double)keep;
    return ok;
}

static kvt_code chunk(look_run *r, const train_trace *t, int n, lane *x, double sum[3],
                      kvt_err *err)
{
    look_sample sample[LOOK_CHUNK];
    double each[LOOK_CHUNK];
    for (int i = 0; i < n; i++) {
        kvt_code code = look_data_read(&r->data[i], r, t + i, true, err);
        if (code)
            return code;
        sample[i] = r->data[i].sample;
    }
    look_forward(r->pass, sample, n, r->param, 1, each);
    for (int i = 0; i < n; i++) {
        double recall = 0, lost = 0,
               lanes = (double)(r->geometry->n_layer * r->geometry->n_kv_head);
        for (int l = 0; l < r->geometry->n_layer; l++)
            for (int64_t g = 0; g < r->geometry->n_kv_head; g++)
                if (!judge(r, &r->data[i], l, i, g, x, &recall, &lost))
                    return kvt_fail_memory(err, r->room.n_prompt * 64);
        sum[0] += each[i];
        sum[1] += recall / lanes;
        sum[2] += lost / lanes;
    }
    return KVT_OK;
}

kvt_code look_evaluate(look_run *r, train_row *row, kvt_err *err)
{
    int n = r->run->spec->n_heldout;
    if (n > r->params->eval_traces)
        n = (int)r->params->eval_traces;
    row->heldout_loss = row->recall = row->lost = NAN;
    if (n < 1)
        return KVT_OK;
    lane x;
    double sum[3] = {0};
    kvt_code code = lane_new(&x, r->room.n_prompt, err);
    for (int i = 0; !code && i < n; i += r->room.n_sample) {
        int m = n - i < r->room.n_sample ? n - i : r->room.n_sample;
        code = chunk(r, r->run->heldout + i, m, &x, sum, err);
    }
    lane_free(&x);
    if (code)
        return code;
    row->heldout_loss = sum[0] / n;
    row->recall = sum[1] / n;
    row->lost = sum[2] / n;
    return KVT_OK;
}
