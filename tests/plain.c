/* plain.c - kept sets judged by plain loops (plain.h). */
#include "tests/plain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"

static double at(const plain_spec *s, int head, int64_t row, int64_t token)
{
    int64_t T = s->n_prompt + s->n_response,
            stride = s->head_stride ? s->head_stride : s->n_response * T;
    return (double)half_to_float(s->rows[head * stride + row * T + token]);
}

/* A row sees a token that had arrived and was not evicted by a decision in front of it. */
static bool sees(const plain_spec *s, int lane, int64_t row, int64_t token)
{
    int32_t step = kvt_result_evict_step(s->result, s->cell, s->layer, lane, token);
    return token <= s->n_prompt + row && (step < 0 || row < step);
}

static void output(double *out, double *sum, const plain_spec *s, int head, int lane,
                   int64_t row, bool all)
{
    int64_t T = s->n_prompt + s->n_response;
    const float *v = s->values + (int64_t)(head * s->n_kv / s->n_head) * T * s->n_dim;
    *sum = 0;
    memset(out, 0, (size_t)s->n_dim * sizeof *out);
    for (int64_t t = 0; t <= s->n_prompt + row; t++) {
        if (!all && !sees(s, lane, row, t))
            continue;
        double p = at(s, head, row, t);
        *sum += p;
        for (int64_t d = 0; d < s->n_dim; d++)
            out[d] += p * (double)v[t * s->n_dim + d];
    }
}

static double error_of(const plain_spec *s, int head, int lane, int64_t row)
{
    double full[1024], kept[1024], a, b, difference = 0, size = 0;
    output(full, &a, s, head, lane, row, true);
    output(kept, &b, s, head, lane, row, false);
    if (b <= 0)
        return NAN;
    for (int64_t d = 0; d < s->n_dim; d++) {
        double o = full[d] / a, e = kept[d] / b - o;
        difference += e * e;
        size += o * o;
    }
    return sqrt(difference / size);
}

/* Mass from rows `step` on, mean over the lane's heads. */
static double remaining(const plain_spec *s, int lane, int64_t step, int64_t token)
{
    int per = s->n_head / s->result->n_lane;
    double sum = 0;
    for (int h = lane * per; h < (lane + 1) * per; h++)
        for (int64_t m = step; m < s->n_response; m++)
            sum += at(s, h, m, token);
    return sum / per;
}

typedef struct ranked {
    double mass;
    int64_t token;
} ranked;

static int best_first(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->mass != y->mass)
        return x->mass > y->mass ? -1 : 1;
    return x->token < y->token ? -1 : 1;
}

static ranked *order(const plain_spec *s, int lane, int64_t step, int64_t n)
{
    ranked *r = malloc((size_t)n * sizeof *r);
    for (int64_t t = 0; t < n; t++)
        r[t] = (ranked){remaining(s, lane, step, t), t};
    qsort(r, (size_t)n, sizeof *r, best_first);
    return r;
}

static double recall_at(const plain_spec *s, int lane, int64_t step, int64_t n, int64_t budget)
{
    ranked *r = order(s, lane, step, n);
    int64_t k = budget < n ? budget : n, hit = 0;
    for (int64_t i = 0; i < k; i++) {
        int32_t gone = kvt_result_evict_step(s->result, s->cell, s->layer, lane, r[i].token);
        hit += gone < 0 || gone > step;
    }
    free(r);
    return (double)hit / (double)k;
}

static const kvt_lane_row *lane_row(const plain_spec *s, int lane)
{
    const kvt_result *r = s->result;
    return &r->lane[((int64_t)s->cell * r->n_layer + s->layer) * r->n_lane + lane];
}

static double recall_of(const plain_spec *s, int lane)
{
    int64_t N = s->n_prompt, B = lane_row(s, lane)->asked_tokens;
    double sum = 0;
    if (!s->inside)
        return recall_at(s, lane, 0, N, B);
    for (int64_t t = 0; t < s->n_response; t++)
        sum += recall_at(s, lane, t, N + t + s->drop_first, B);
    return sum / (double)s->n_response;
}

static double best_of(const plain_spec *s, int lane)
{
    ranked *r = order(s, lane, 0, s->n_prompt);
    int per = s->n_head / s->result->n_lane;
    double sum = 0;
    for (int h = lane * per; h < (lane + 1) * per; h++) {
        for (int64_t m = 0; m < s->n_response; m++) {
            double lost = 0;
            for (int64_t i = lane_row(s, lane)->kept_prefill_tokens; i < s->n_prompt; i++)
                lost += at(s, h, m, r[i].token);
            sum += lost < 1 ? lost : 1;
        }
    }
    free(r);
    return sum / (double)(per * s->n_response);
}

void plain_judge(const plain_out *out, const plain_spec *s)
{
    int per = s->n_head / s->result->n_lane;
    for (int h = 0; h < s->n_head; h++) {
        for (int64_t m = 0; m < s->n_response; m++) {
            double sum = 0;
            for (int64_t t = 0; t <= s->n_prompt + m; t++)
                if (!sees(s, h / per, m, t))
                    sum += at(s, h, m, t);
            out->lost[h * s->n_response + m] = sum < 1 ? sum : 1;
            if (out->out_err)
                out->out_err[h * s->n_response + m] = error_of(s, h, h / per, m);
        }
    }
    for (int a = 0; a < s->result->n_lane; a++) {
        if (out->recall)
            out->recall[a] = recall_of(s, a);
        if (out->best)
            out->best[a] = best_of(s, a);
    }
}
