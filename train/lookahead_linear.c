/* lookahead_linear.c - linear maps with LoRA over the stacked rows. A map's columns are cut
 * into tiles of a fixed width; each is one product on one thread, so that the sums are the same
 * for any number of threads. */
#include <omp.h>

#include "base/clock.h"
#include "compute/backend.h"
#include "train/lookahead_priv.h"

enum { TILE = 96 };

#ifdef TRAIN_DOUBLE
void look_product(look_own *own, gemm_op op, real *c, int64_t ldc, const real *a, int64_t lda,
                  const real *b, int64_t ldb, int64_t m, int64_t n, int64_t k, real alpha,
                  real beta)
{
    (void)own;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            real sum = 0;
            for (int64_t t = 0; t < k; t++)
                sum += (op == GEMM_TN ? a[t * lda + i] : a[i * lda + t]) *
                       (op == GEMM_NT ? b[j * ldb + t] : b[t * ldb + j]);
            c[i * ldc + j] = alpha * sum + (beta != 0 ? beta * c[i * ldc + j] : 0);
        }
}
#else
void look_product(look_own *own, gemm_op op, real *c, int64_t ldc, const real *a, int64_t lda,
                  const real *b, int64_t ldb, int64_t m, int64_t n, int64_t k, real alpha,
                  real beta)
{
    double begin = clock_now();
    cpu_gemm(op, &(gemm_args){.c = c,
                              .a = a,
                              .b = b,
                              .m = m,
                              .n = n,
                              .k = k,
                              .lda = lda,
                              .ldb = ldb,
                              .ldc = ldc,
                              .alpha = alpha,
                              .beta = beta});
    own->blas_s += clock_now() - begin;
}
#endif

static look_own *mine(const look_pass *p)
{
    return &p->own[omp_get_thread_num()];
}

static int64_t tiles(int64_t n)
{
    return (n + TILE - 1) / TILE;
}

/* Map and first column of item i of the tiles of all maps' outputs. */
static const look_linear *tile_of(const look_linear *map, int64_t i, int64_t *column, int *at)
{
    for (*at = 0; i >= tiles(map[*at].out); ++*at)
        i -= tiles(map[*at].out);
    *column = i * TILE;
    return &map[*at];
}

void look_linear_forward(look_pass *p, look_saved *s, const look_linear *map, int n,
                         const real *x, real *const *y)
{
    int64_t rows = p->n_row, r = p->layout.rank, n_item = 0;
    for (int i = 0; i < n; i++)
        n_item += tiles(map[i].out);
#pragma omp parallel num_threads(p->room.n_thread)
    {
#pragma omp for schedule(dynamic, 1)
        for (int i = 0; i < n; i++)
            if (map[i].a)
                look_product(mine(p), GEMM_NT, s->xa[map[i].map], r, x, map[i].in, map[i].a,
                             map[i].in, rows, r, map[i].in, 1, 0);
#pragma omp for schedule(dynamic, 1)
        for (int64_t i = 0; i < n_item; i++) {
            int64_t c;
            int at;
            const look_linear *l = tile_of(map, i, &c, &at);
            int64_t width = l->out - c < TILE ? l->out - c : TILE;
            look_product(mine(p), GEMM_NT, y[at] + c, l->out, x, l->in, l->w + c * l->in, l->in,
                         rows, width, l->in, 1, 0);
            if (l->a)
                look_product(mine(p), GEMM_NT, y[at] + c, l->out, s->xa[l->map], r,
                             l->b + c * r, r, rows, width, r, (real)p->layout.scale, 1);
        }
    }
}

void look_linear_backward(look_pass *p, const look_saved *s, const look_linear *map, int n,
                          const real *x, const real *const *d_y, real *d_x)
{
    int64_t rows = p->n_row, r = p->layout.rank, in = map[0].in, n_item = tiles(in);
    real scale = (real)p->layout.scale;
#pragma omp parallel num_threads(p->room.n_thread)
    {
#pragma omp for schedule(dynamic, 1)
        for (int i = 0; i < 2 * n; i++) {
            const look_linear *l = &map[i / 2];
            if (l->a && i % 2 == 0)
                look_product(mine(p), GEMM_NN, p->lora[i / 2], r, d_y[i / 2], l->out, l->b, r,
                             rows, r, l->out, scale, 0);
            else if (l->a)
                look_product(mine(p), GEMM_TN, l->grad_b, r, d_y[i / 2], l->out, s->xa[l->map],
                             r, l->out, r, rows, scale, 1);
        }
#pragma omp for schedule(dynamic, 1)
        for (int64_t t = 0; t < n_item; t++) {
            int64_t c = t * TILE, width = in - c < TILE ? in - c : TILE;
            for (int i = 0; i < n; i++) {
                const look_linear *l = &map[i];
                look_product(mine(p), GEMM_NN, d_x + c, in, d_y[i], l->out, l->w + c, in, rows,
                             width, l->out, 1, i > 0);
                if (!l->a)
                    continue;
                look_product(mine(p), GEMM_NN, d_x + c, in, p->lora[i], r, l->a + c, in, rows,
                             width, r, 1, 1);
                look_product(mine(p), GEMM_TN, l->grad_a + c, in, p->lora[i], r, x + c, in, r,
                             width, rows, 1, 1);
            }
        }
    }
}
