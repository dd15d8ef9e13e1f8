/* window_laws.c - see window_laws.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "window_laws.h"

toy *trace;

double attention(const toy *t, int layer, int head, int64_t i, int64_t s)
{
    static float row[512];
    static int64_t pos[512];
    static const toy *of;
    static int at_layer, at_head;
    static int64_t at_row = -1;
    if (s > i)
        return 0;
    if (of != t || at_layer != layer || at_head != head || at_row != i) {
        for (int64_t j = 0; j <= i; j++)
            pos[j] = j;
        toy_row(row, t, layer, head, i, pos, i + 1);
        of = t, at_layer = layer, at_head = head, at_row = i;
    }
    return (double)row[s];
}

void votes(double *out, int layer, int head, int64_t W, int64_t n)
{
    for (int64_t s = 0; s < n; s++)
        out[s] = 0;
    for (int64_t i = N - W; i < N; i++)
        for (int64_t s = 0; s < n; s++)
            out[s] += attention(trace, layer, head, i, s);
}

void pin_last(bool *pinned, int64_t W)
{
    for (int64_t s = 0; s < N; s++)
        pinned[s] = s >= N - W;
}

double size_of(int layer, int group, int64_t s)
{
    double sum = 0;
    for (int h = group * EACH; h < (group + 1) * EACH; h++)
        sum += laws_at(&trace->more[layer].wo_l1, h, s, 0);
    return sum / EACH;
}

void snap(double *out, int layer, int group, int64_t W, int64_t width)
{
    double one[N], sum[N] = {0};
    for (int h = group * EACH; h < (group + 1) * EACH; h++) {
        votes(one, layer, h, W, N - W);
        for (int64_t s = 0; s < N - W; s++)
            sum[s] += one[s];
    }
    laws_pool(out, sum, N - W, width);
}

bool same_sets(const mini_result *a, const mini_result *b)
{
    return a->n_lane == b->n_lane &&
           memcmp(a->held, b->held, (size_t)(LAYERS * a->n_lane * trace->T)) == 0;
}
