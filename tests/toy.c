/* toy.c - a small attention tensor from a rule: see toy.h. */
#include "toy.h"

#include <stdio.h>

uint64_t toy_mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint64_t draw(uint64_t seed, int l, int h, int64_t i, int64_t j)
{
    uint64_t key = (seed * 64 + (uint64_t)l) * 64 + (uint64_t)h;
    return toy_mix((key * 4096 + (uint64_t)i) * 4096 + (uint64_t)j);
}

static double boost(uint64_t seed, int l, int h, int64_t j)
{
    if (j == 0)
        return 16;
    return draw(seed, l, h, 4095, j) % 8 == 0 ? 8 : 1;
}

static void fill_row(double *w, const toy *t, int l, int h, int64_t i)
{
    double sum = 0, full = 1;
    for (int64_t j = 0; j < (i < t->N ? i : i + 1); j++) {
        uint64_t r = draw(t->seed, l, h, i, j);
        w[j] = (double)(i < t->N ? r % 4 : 1 + r % 1000003) * boost(t->seed, l, h, j);
        sum += w[j];
    }
    if (i >= t->N)
        return;
    while (full <= sum)
        full *= 2;
    w[i] = full - sum;
}

toy *toy_new(kvt_arena *a, uint64_t seed, int n_layer, int n_model_layer, int n_head,
             int n_group, int64_t N, int64_t M, bool swap_heads)
{
    toy *t = kvt_arena_get(a, sizeof *t);
    *t = (toy){.seed = seed,
               .n_layer = n_layer,
               .n_head = n_head,
               .n_group = n_group,
               .N = N,
               .M = M,
               .T = N + M,
               .swapped = swap_heads};
    t->w = kvt_arena_array(a, n_layer * n_head * t->T * t->T, sizeof *t->w);
    snprintf(t->geometry.name, sizeof t->geometry.name, "toy");
    t->geometry.n_layer = n_model_layer;
    t->geometry.n_head = n_head;
    t->geometry.n_kv_head = n_group;
    t->geometry.head_dim = 4;
    for (int l = 0; l < n_layer; l++)
        t->layer_id[l] = n_layer > 1 ? l * (n_model_layer - 1) / (n_layer - 1) : 0;
    t->seq = (kvt_sequence){.n_prompt = N,
                            .n_response = M,
                            .look_until = N,
                            .geometry = &t->geometry,
                            .layer_id = t->layer_id,
                            .n_layer = n_layer};
    int each = n_head / n_group;
    for (int l = 0; l < n_layer; l++)
        for (int h = 0; h < n_head; h++) {
            int from = swap_heads ? (n_group - 1 - h / each) * each + h % each : h;
            for (int64_t i = 0; i < t->T; i++)
                fill_row(t->w + ((l * n_head + h) * t->T + i) * t->T, t, l, from, i);
        }
    return t;
}

void toy_row(float *row, const toy *t, int layer, int head, int64_t i, const int64_t *pos,
             int64_t n)
{
    const double *w = t->w + ((layer * t->n_head + head) * t->T + i) * t->T;
    double sum = 0;
    for (int64_t s = 0; s < n && pos[s] <= i; s++)
        sum += w[pos[s]];
    for (int64_t s = 0; s < n; s++)
        row[s] = pos[s] <= i && sum > 0 ? (float)(w[pos[s]] / sum) : 0;
}

void toy_columns(float *sum, float *max, const toy *t, int layer, int head)
{
    for (int64_t j = 0; j < t->N; j++)
        sum[j] = max[j] = 0;
    for (int64_t i = 0; i < t->N; i++) {
        const double *w = t->w + ((layer * t->n_head + head) * t->T + i) * t->T;
        double all = 0;
        for (int64_t j = 0; j <= i; j++)
            all += w[j];
        for (int64_t j = 0; j <= i; j++) {
            float a = (float)(w[j] / all);
            sum[j] += a;
            max[j] = a > max[j] ? a : max[j];
        }
    }
}
