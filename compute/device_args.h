/* device_args.h - what each kernel of a device computes, and from what.
 *
 * One struct of arguments a kernel, passed by value to the GPU. Pointers are device memory,
 * strides and leading dimensions count elements, matrices are row-major. "typed" memory is of
 * the dev_type beside it; sums are f32 unless a line says f64. Nothing is summed by atomics:
 * the order of every sum follows from the shapes. Tolerance against host_NAME: 1e-4 relative
 * where there is an exp, a root or a sum; 0 bits for embed, dequant, cast and merge.
 *
 * This header compiles as C17 and as C++17.
 *
 * Letters: E n_hidden, H query heads, G kv heads, D head_dim, F n_ff, V n_vocab, T longest
 * sequence, N prompt, m rows of a tile. */
#ifndef COMPUTE_DEVICE_ARGS_H
#define COMPUTE_DEVICE_ARGS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum dev_type { DEV_F32, DEV_F16, DEV_BF16 } dev_type;

/* Products, strided and batched: c[b] = alpha op(a[b]) op(b[b]) + beta c[b]; a and b are of one
 * type, c is f32, sums are f32 (no TF32). NN: a [m k], b [k n]; NT: b [n k]; TN: a [k m]. */
typedef enum dev_op { DEV_NN, DEV_NT, DEV_TN } dev_op;
typedef struct dev_gemm_args {
    dev_op op;
    dev_type type;
    float *c;
    const void *a, *b;
    int64_t m, n, k, lda, ldb, ldc;
    int64_t n_batch, stride_a, stride_b, stride_c;
    float alpha, beta;
} dev_gemm_args;

/* y[row] = sum over k of W[row, k] x[k]: the matrix of a decode step, read as it lies, blocks
 * too. */
typedef struct dev_gemv_args {
    float *y;      /* f32 [n_row] */
    const void *w; /* [n_row] rows of row_bytes */
    int quant;     /* a type of quants.def */
    const void *x; /* typed [n_col] */
    dev_type type;
    int64_t n_row, n_col, row_bytes;
} dev_gemv_args;

/* Whole blocks to typed values: as quant_decode(), then rounded to the nearest even. */
typedef struct dev_dequant_args {
    void *out; /* typed [n] */
    dev_type type;
    const void *in;
    int quant;
    int64_t n; /* weights, a multiple of the block */
} dev_dequant_args;

/* out[i] = in[i], from one type to another. */
typedef struct dev_cast_args {
    void *out;
    const void *in;
    dev_type to, from;
    int64_t n;
} dev_cast_args;

/* x[r, e] = scale * table[id[r], e] */
typedef struct dev_embed_args {
    float *x; /* f32 [n E] */
    const int32_t *id;
    const void *table; /* rows of row_bytes */
    int quant;
    int64_t n_row, n_hidden, row_bytes;
    float scale;
} dev_embed_args;

/* out[r, e] = x[r, e] / sqrt(mean over e of x[r, e]^2 + eps) * gain[e]; length[r] = sqrt(sum
 * over e of x[r, e]^2). out may be x where the type is f32. */
typedef struct dev_rmsnorm_args {
    void *out; /* typed [n E] */
    dev_type type;
    const float *x, *gain; /* f32 [n E], [E] */
    float *length;         /* f32 [n], or NULL */
    int64_t n_row, n_hidden;
    float eps;
} dev_rmsnorm_args;

/* The heads of n rows, row r head h at x + r * ld + h * D: RMS norm with gain [D] (NULL: none;
 * written back to x), then the rotation of pairs (i, i + D/2) by table [n D] (cosines, then
 * sines; NULL: none), then typed at out + h * head_stride + r * row_stride (NULL: nowhere). */
typedef struct dev_rope_args {
    float *x;
    const float *gain, *table;
    void *out;
    dev_type type;
    int64_t ld, head_stride, row_stride, n_row, n_head, head_dim;
    float eps;
} dev_rope_args;

/* x[i] += y[i % period]: a residual (period n) or a bias (period: its width). */
typedef struct dev_add_args {
    float *x;
    const float *y;
    int64_t n, period;
} dev_add_args;

/* out[i] = act(gate[i]) * up[i]: z / (1 + exp(-z)), or with gelu 0.5 z (1 + tanh(sqrt(2 / pi)
 * (z + 0.044715 z^3))). */
typedef struct dev_act_args {
    void *out; /* typed [n] */
    dev_type type;
    const float *gate, *up;
    int64_t n;
    bool gelu;
} dev_act_args;

/* Scaled scores to attention, in place. Row r of head h is at p + (h * n_row + r) * ld and
 * holds keys first .. first + n_key; it is the query at pos + r and sees t <= pos + r and, with
 * a window, pos + r - t < window. lse = ln of the sum of exp over what it sees, p = exp(z -
 * lse), 0 elsewhere in n_key. cast: the same rows, typed, or NULL. */
typedef struct dev_softmax_args {
    float *p;
    void *cast;
    dev_type type;
    float *lse; /* f32, head h row r at h * ld_lse + r */
    int64_t n_head, n_row, ld, ld_lse, pos, first, n_key, window;
} dev_softmax_args;

/* out[r, h D + d] = x[h, r, d], typed, rows of ld */
typedef struct dev_merge_args {
    void *out;
    dev_type type;
    const float *x; /* f32 [H n D] */
    int64_t n_row, n_head, head_dim, ld;
} dev_merge_args;

/* What a trace keeps of attention (capture/future.h), of n_row rows as softmax left them: each
 * column's sum is added to sum [H N] (f64) and its maximum to max [H N], for keys below N; to
 * late [H T] (f64) over the rows at pos + r - t >= delay; to open_sum and open_max [H T] of the
 * open block of queries. A row that ends a block (blocks of `block` queries count from position
 * 0 in the prompt and from N behind it, the prompt's last one ends with it) closes it: open_sum
 * * scale / rows and open_max go as halves to block_sum and block_max, block j of head h at (h
 * * n_block + j - block_first) * T, whole rows of T with zeros behind its last query, and start
 * anew. Rows of one call lie all in front of N or all behind. In the order of the rows: f32
 * within a call's part of a block, then added. */
typedef struct dev_record_args {
    const float *p;
    int64_t ld, n_head, n_row, pos, first, n_key;
    int64_t n_prompt, n_token, delay; /* N, T */
    double *sum;
    float *max;
    double *late;
    float *open_sum, *open_max;      /* NULL: no blocks; no maxima of blocks */
    uint16_t *block_sum, *block_max; /* f16 */
    int64_t block, n_block, block_first, prompt_blocks;
    float scale;
} dev_record_args;

/* Of queries before rotation, q f32 [n H D] (rows of ld): centred = q - pivot [H D]; sum [H D]
 * (f64) += sum over rows of centred; magnitude [H D/2] (f64) += sum of sqrt(q[i]^2 + q[i +
 * D/2]^2). */
typedef struct dev_moments_args {
    const float *q, *pivot;
    float *centred; /* f32 [n H D] */
    double *sum, *magnitude;
    int64_t ld, n_row, n_head, head_dim;
} dev_moments_args;

/* l1[r] = sum over e of |x[r, e]|, l2[r] = sqrt(sum of squares); x f32 [n E] */
typedef struct dev_norms_args {
    const float *x;
    float *l1, *l2;
    int64_t n_row, n_hidden;
} dev_norms_args;

/* Of each row of logits f32 [n ld], over the first n_vocab: the DEV_TOP largest with their ids,
 * equal ones by id; lse = ln of the sum of exp; entropy = lse - sum of p z, in nats. Where
 * there are fewer than DEV_TOP, id -1 and logit -inf. */
enum { DEV_TOP = 64 };
typedef struct dev_top_args {
    const float *logit;
    int32_t *id;          /* [n DEV_TOP] */
    float *top;           /* f32 [n DEV_TOP] */
    float *lse, *entropy; /* f32 [n] */
    int64_t n_row, ld, n_vocab;
} dev_top_args;

#endif
