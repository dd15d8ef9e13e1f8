/* run.c - the kernel of mass.h with one bug, over shapes and orders of threads, in a process of
 * its own: a sanitizer may end it.
 *
 *   bugs_plain N [tiny]      exit status 0: right values; 1: wrong ones; 2: the shim reports */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/bugs/mass.h"
#include "tests/gpu/shim.h"

enum { RIGHT, WRONG, REPORT, ORDERS = 5, TINY_ORDERS = 2 };

typedef struct shape {
    int64_t n_query, n_key, n_head, dim, n_split;
} shape;

static const shape shapes[] = {{70, 40, 1, 8, 2},  {1, 1, 1, 16, 1},    {33, 31, 1, 16, 2},
                               {64, 64, 3, 32, 1}, {130, 200, 1, 8, 3}, {97, 33, 2, 64, 1}};

static double wanted(const mass_args *a, int64_t h, int64_t t)
{
    double sum = 0;
    for (int64_t r = 0; r < a->n_query; r++) {
        double dot = 0;
        for (int64_t d = 0; d < a->dim; d++)
            dot += (double)a->q[(h * a->n_query + r) * a->dim + d] *
                   (double)a->k[(h * a->n_key + t) * a->dim + d];
        if (t <= a->pos + r)
            sum += exp((double)a->scale * dot - (double)a->lse[h * a->n_query + r]);
    }
    return sum;
}

static float *values(int64_t n, uint64_t seed)
{
    float *x = malloc((size_t)n * sizeof *x);
    for (int64_t i = 0; x && i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        x[i] = (float)(seed >> 40) / (float)(1 << 24) - 0.5f;
    }
    return x;
}

static bool agrees(const mass_args *a)
{
    for (int64_t h = 0; h < a->n_head; h++)
        for (int64_t t = 0; t < a->n_key; t++) {
            double got = 0, want = wanted(a, h, t);
            for (int64_t s = 0; s < a->n_split; s++)
                got += (double)a->mass[(s * a->n_head + h) * a->n_key + t];
            if (!(fabs(got - want) <= 1e-5 * (want + 1)))
                return false;
        }
    return true;
}

static int run(int bug, const shape *s, int orders)
{
    const int64_t n_mass = s->n_split * s->n_head * s->n_key;
    float *q = values(s->n_head * s->n_query * s->dim, 1);
    float *k = values(s->n_head * s->n_key * s->dim, 2);
    float *lse = values(s->n_head * s->n_query, 3);
    float *mass = malloc((size_t)n_mass * sizeof *mass);
    int worst = RIGHT;
    if (!q || !k || !lse || !mass)
        exit(3);
    for (int i = 0; i < orders && worst == RIGHT; i++) {
        kvt_err err;
        mass_args a = {q,          k,          lse,
                       mass,       s->n_query, s->n_key,
                       s->n_head,  s->dim,     s->n_key - s->n_query,
                       s->n_split, 0.3f};
        memset(mass, 0, (size_t)n_mass * sizeof *mass);
        shim_set_order(i < 2 ? (shim_order)i : SHIM_RANDOM, (uint64_t)i);
        if (mass_of_bug[bug](&a, &err)) {
            printf("report: %s\n", err.text);
            worst = REPORT;
        } else if (!agrees(&a)) {
            worst = WRONG;
        }
    }
    free(q), free(k), free(lse), free(mass);
    return worst;
}

int main(int argc, char **argv)
{
    int bug = argc > 1 ? (int)strtol(argv[1], NULL, 10) : -1, worst = RIGHT;
    int n = argc > 2 ? 1 : (int)(sizeof shapes / sizeof shapes[0]);
    if (bug < 0 || bug >= N_BUG)
        return 3;
    for (int i = 0; i < n; i++) {
        shim_clear();
        int got = run(bug, &shapes[i], argc > 2 ? TINY_ORDERS : ORDERS);
        worst = got > worst ? got : worst;
    }
    return worst;
}
