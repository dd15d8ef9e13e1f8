/* judge_row.c - one response row against what each lane held when it attended: policies that
 * stay inside their budget, and those that only skip. */
#include "replay/judge_priv.h"

#include <math.h>
#include <string.h>

#include "compute/slots.h"

enum { HEADS_MAX = 1024 };

float judge_relative(const float *kept, double kept_sum, const float *full, double full_sum,
                     int64_t n)
{
    double difference = 0, size = 0;
    if (kept_sum <= 0 || full_sum <= 0)
        return NAN;
    for (int64_t d = 0; d < n; d++) {
        double o = (double)full[d] / full_sum, e = (double)kept[d] / kept_sum - o;
        difference += e * e;
        size += o * o;
    }
    return size > 0 ? (float)sqrt(difference / size) : NAN;
}

void judge_output(pass *p, int64_t at, const float *kept, double kept_sum, const float *full,
                  double full_sum, int64_t n)
{
    double l1 = 0, size_l1 = 0, dot = 0, kept_2 = 0, full_2 = 0, lost_2 = 0;
    p->out_err[at] = judge_relative(kept, kept_sum, full, full_sum, n);
    if (!p->out_more)
        return;
    for (int64_t d = 0; d < n; d++) {
        double k = (double)kept[d], o = (double)full[d];
        l1 += fabs(k / kept_sum - o / full_sum);
        size_l1 += fabs(o / full_sum);
        dot += k * o;
        kept_2 += k * k;
        full_2 += o * o;
        lost_2 += (k - o) * (k - o);
    }
    double turned = 1 - dot / sqrt(kept_2) / sqrt(full_2);
    float *more = p->out_more + at * OUT_MORE;
    bool some = kept_sum > 0 && full_sum > 0;
    more[OUT_L1] = some && size_l1 > 0 ? (float)(l1 / size_l1) : NAN;
    more[OUT_COS] = some && kept_2 > 0 && full_2 > 0 ? (float)(turned > 0 ? turned : 0) : NAN;
    more[OUT_UNNORM] = full_2 > 0 && !pass_makes_rows(p) ? (float)sqrt(lost_2 / full_2) : NAN;
}

static double sum_all(const float *p, int64_t n)
{
    double s[4] = {0};
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; k++)
            s[k] += (double)p[i + k];
    for (; i < n; i++)
        s[0] += (double)p[i];
    return (s[0] + s[1]) + (s[2] + s[3]);
}

/* out [n] = the row over some slots; returns its exact sum. */
static double take(float *restrict out, const float *row, const int64_t *pos, int64_t n)
{
    for (int64_t s = 0; s < n; s++)
        out[s] = row[pos[s]];
    return sum_all(out, n);
}

static void judge_held(pass *p, int layer, int cell, int lane, const row_job *j,
                       const double *all)
{
    int per = p->n_head / p->n_lane, first = lane * per;
    const int64_t *pos;
    int64_t n, n_dim = p->out_err ? j->values->dim[2] : 0;
    double left[HEADS_MAX];
    bool gone = false;
    kvt_engine_held(p->engine, cell, layer, lane, &pos, &n);
    if (p->saw)
        judge_turn(p, cell, layer, lane, j->row, pos, n);
    if (p->heavy && j->heavy && p->saw)
        judge_heavy(p, cell, layer, lane, j->row, j->heavy);
    p->seen[pass_lane(p, cell, layer, lane) * p->n_response + j->row] = (float)n;
    for (int h = 0; h < per; h++) {
        left[h] = take(j->line + h * n, j->rows + (first + h) * j->head_stride, pos, n);
        double lost = all[h] - left[h];
        p->lost[pass_head(p, cell, layer, first + h) * p->n_response + j->row] =
            (float)(lost < 1 ? lost : 1);
        gone |= lost > 0;
    }
    if (repositions(p))
        reposition_row(j->turned, j->turned_feed, p, cell, layer, lane, pos, n, j->row);
    if (!p->out_err || !gone || repositions(p))
        return;
    const kvt_view *V = j->values;
    const float *v = (const float *)V->data + first * V->dim[0] / p->n_head * V->stride[0];
    slots_mix(j->mixed, j->line, pos, n, v, V->stride[1], per, n_dim);
    for (int h = 0; h < per; h++) {
        int64_t at = (first + h) * p->n_response + j->row;
        if (all[h] - left[h] > 0)
            judge_output(p, pass_head(p, cell, layer, 0) * p->n_response + at,
                         j->mixed + h * n_dim, left[h], j->whole->full + at * n_dim,
                         j->whole->sum[at], n_dim);
    }
}

void judge_row(pass *p, int layer, const row_job *j)
{
    int per = p->n_head / p->n_lane;
    for (int a = 0; a < p->n_lane; a++) {
        double all[HEADS_MAX];
        bool failed;
        for (int h = 0; h < per; h++)
            all[h] = sum_all(j->rows + (a * per + h) * j->head_stride, j->n_arrived);
        for (int c = 0; c < p->n_cell; c++)
            if (!kvt_engine_refused(p->engine, c, layer, &failed))
                judge_held(p, layer, c, a, j, all);
    }
}
