/* quant.c - weights in blocks: how fast they are decoded and multiplied, beside a plain read of
 * the same memory, which is the machine's limit:
 *
 *   read          the matrix is copied into a piece that stays in the first cache
 *   decode        quant_decode to f32, 64 rows at a time (prefill, --weights f32)
 *   matvec        cpu_matvec on the blocks, 64 rows at a time (a decode step)
 *   row by row    the rows are decoded, then gemv
 *
 *   bench_quant [ROWS COLUMNS [RUNS [THREADS]]]       49152 2048 11 1
 *   bench_quant --smoke        a small matrix, once: that the program works
 *
 * CSV on stdout, one line a type whose blocks fill a row: medians of ratios and rates. The runs
 * of things that are compared take turns, because a machine that others use changes its speed
 * within seconds, and seconds are those that the threads had a processor. KVT_SIMD chooses the
 * code. */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/half.h"
#include "compute/backend.h"
#include "kvt/arena.h"

enum {
    RUNS_MAX = 64,
    STEP = 64,
    PIECE = 8192
}; /* STEP: rows handed out at a time, as in capture/decode.c */

typedef struct bench {
    int64_t n_row, n_col, n_byte; /* n_byte: of all rows */
    int n_run, n_thread;
    void *data;
    float *x, *y;
    float *room; /* f32 [n_thread STEP n_col] */
} bench;

typedef void work_fn(const bench *b, const kvt_matrix *w, int64_t row, int64_t n, int thread);

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void die(const char *what)
{
    fprintf(stderr, "bench_quant: %s\n", what);
    exit(1);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_size);
    return x[n / 2];
}

/* Copied into a piece that stays in the first cache: as fast as memory comes. */
static void read_rows(const bench *b, const kvt_matrix *w, int64_t row, int64_t n, int thread)
{
    const char *from = (const char *)w->data + row * w->row_bytes;
    char *to = (char *)(b->room + thread * STEP * b->n_col);
    for (int64_t i = 0, all = n * w->row_bytes; i < all; i += PIECE)
        memcpy(to, from + i, (size_t)(all - i < PIECE ? all - i : PIECE));
}

static void decode_rows(const bench *b, const kvt_matrix *w, int64_t row, int64_t n, int thread)
{
    float *room = b->room + thread * STEP * b->n_col;
    quant_decode(room, w->type, (const char *)w->data + row * w->row_bytes, n * w->n_col);
}

static void matvec_rows(const bench *b, const kvt_matrix *w, int64_t row, int64_t n, int thread)
{
    (void)thread;
    cpu_matvec(b->y + row, w, row, n, b->x);
}

static void row_by_row(const bench *b, const kvt_matrix *w, int64_t row, int64_t n, int thread)
{
    float *room = b->room + thread * STEP * b->n_col;
    for (int64_t i = row; i < row + n; i++)
        cpu_gemv(b->y + i, matrix_rows(w, i, 1, room), b->x, 1, w->n_col);
}

/* The longest time that a thread took for its share. */
static double seconds(const bench *b, const kvt_matrix *w, work_fn *work)
{
    double most = 0;
#pragma omp parallel num_threads(b->n_thread) reduction(max : most)
    {
        int thread = omp_get_thread_num();
        double begin = now();
#pragma omp for schedule(static)
        for (int64_t row = 0; row < b->n_row; row += STEP)
            work(b, w, row, b->n_row - row < STEP ? b->n_row - row : STEP, thread);
        most = now() - begin;
    }
    return most;
}

/* Random bits; where there are floats or halves they are ordinary numbers, because others are
 * slower by far. */
static void fill(const bench *b, const quant_info *q)
{
    uint32_t x = 1, *word = b->data;
    int64_t n = b->n_row * b->n_col / q->n_weight * q->n_byte;
    for (int64_t i = 0; i < (n + 3) / 4; i++) {
        x = x * 1664525 + 1013904223;
        word[i] = x ^ x >> 15;
        if (q->type == QUANT_F32 || q->type == QUANT_BF16)
            word[i] = (word[i] & 0x807f807fu) | 0x3e003e00u;
        else
            word[i] = (word[i] & 0xbfffbfffu) | 0x20002000u;
    }
}

static void print(const bench *b, const quant_info *q)
{
    static work_fn *const works[] = {read_rows, decode_rows, matvec_rows, row_by_row};
    enum { READ, DECODE, MATVEC, APART, N_WORK };
    double s[N_WORK][RUNS_MAX], ratio[3][RUNS_MAX];
    double bytes = (double)(b->n_row * b->n_col / q->n_weight * q->n_byte);
    double weights = (double)(b->n_row * b->n_col);
    kvt_matrix w = {q->type, b->n_row, b->n_col, b->n_col / q->n_weight * q->n_byte, b->data};
    fill(b, q);
    for (int i = 0; i < b->n_run; i++) {
        for (int k = 0; k < N_WORK; k++)
            s[k][i] = seconds(b, &w, works[k]);
        ratio[0][i] = s[READ][i] / s[MATVEC][i];
        ratio[1][i] = s[APART][i] / s[MATVEC][i];
        ratio[2][i] = s[READ][i] / s[DECODE][i];
    }
    double read = median(s[READ], b->n_run), decode = median(s[DECODE], b->n_run);
    double matvec = median(s[MATVEC], b->n_run);
    printf("%s,%.2f,%.2f,%.2f,%.3f,%.2f,%.2f,%.3f\n", q->name, bytes / read * 1e-9,
           bytes / matvec * 1e-9, weights / matvec * 1e-9, median(ratio[0], b->n_run),
           median(ratio[1], b->n_run), weights / decode * 1e-9, median(ratio[2], b->n_run));
    fflush(stdout);
}

static void run(bench *b)
{
    int64_t n = b->n_row * b->n_col;
    b->data = kvt_alloc(n, sizeof(float));
    b->x = kvt_alloc(b->n_col, sizeof(float));
    b->y = kvt_alloc(b->n_row, sizeof(float));
    b->room = kvt_alloc((int64_t)b->n_thread * STEP * b->n_col, sizeof(float));
    if (!b->data || !b->x || !b->y || !b->room)
        die("out of memory");
    for (int64_t k = 0; k < b->n_col; k++)
        b->x[k] = (float)(k % 1009) / 1009.0f - 0.5f;
    printf("\"vectors: %s; threads: %d; %lld x %lld\",read GB/s,matvec GB/s,matvec Gweights/s,"
           "matvec / read,matvec / row by row,decode Gweights/s,decode / read\n",
           kvt_simd_name(), b->n_thread, (long long)b->n_row, (long long)b->n_col);
    for (int type = 0; type < 64; type++)
        if (quant_find(type) && b->n_col % quant_find(type)->n_weight == 0)
            print(b, quant_find(type));
    kvt_free(b->data);
    kvt_free(b->x);
    kvt_free(b->y);
    kvt_free(b->room);
}

static int64_t number(int argc, char **argv, int i, int64_t otherwise)
{
    return argc > i ? strtoll(argv[i], NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
    bench b = {.n_row = number(argc, argv, 1, 49152),
               .n_col = number(argc, argv, 2, 2048),
               .n_run = (int)number(argc, argv, 3, 11),
               .n_thread = (int)number(argc, argv, 4, 1)};
    if (argc > 1 && strcmp(argv[1], "--smoke") == 0)
        b = (bench){.n_row = 130, .n_col = 512, .n_run = 1, .n_thread = 2};
    if (b.n_row < 1 || b.n_col < 32 || b.n_col % 32 || b.n_run < 1 || b.n_run > RUNS_MAX ||
        b.n_thread < 1)
        die("usage: bench_quant [ROWS COLUMNS [RUNS [THREADS]]], columns a multiple of 32; or "
            "--smoke");
    run(&b);
    return 0;
}
