/* selftest.c - see selftest.h. Expected values are by hand or from a published vector. */
#include "cli/selftest.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/file.h"
#include "base/half.h"
#include "base/select.h"
#include "compute/backend.h"
#include "compute/rows.h"
#include "kvt/arena.h"
#include "kvt/result.h"

/* C = A B with small whole numbers: every product and sum is exact in f32, so that any order of
 * summation gives the same bits and the comparison needs no tolerance. */
static kvt_code gemm(kvt_err *err)
{
    enum { M = 33, N = 17, K = 65 };
    float a[M * K], b[K * N], c[M * N];

    for (int i = 0; i < M * K; i++)
        a[i] = (float)(i % 7 - 3);
    for (int i = 0; i < K * N; i++)
        b[i] = (float)(i % 5 - 2);
    memset(c, 0, sizeof c);
    gemm_one_thread();
    cpu_gemm(GEMM_NN, &(gemm_args){.c = c,
                                   .a = a,
                                   .b = b,
                                   .m = M,
                                   .n = N,
                                   .k = K,
                                   .lda = K,
                                   .ldb = N,
                                   .ldc = N,
                                   .alpha = 1,
                                   .beta = 0});
    for (int m = 0; m < M; m++)
        for (int n = 0; n < N; n++) {
            long want = 0;
            for (int k = 0; k < K; k++)
                want += ((m * K + k) % 7 - 3) * ((k * N + n) % 5 - 2);
            if (c[m * N + n] != (float)want)
                return kvt_fail(err, KVT_NO, "row %d, column %d: expected %ld, got %g", m, n,
                                want, (double)c[m * N + n]);
        }
    return KVT_OK;
}

/* IEEE 754-2008 binary16: the largest, the smallest, a tie that goes down to even and one that
 * goes up, and the first value that becomes infinite. */
static kvt_code halves(kvt_err *err)
{
    static const struct {
        float in;
        uint16_t want;
    } rows[] = {{1.0f, 0x3c00},
                {65504.0f, 0x7bff},
                {0x1p-24f, 0x0001},
                {1.0f + 0x1p-11f, 0x3c00},
                {1.0f + 0x3p-11f, 0x3c02},
                {65520.0f, 0x7c00},
                {-2.0f, 0xc000}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint16_t got = half_from_float(rows[i].in);
        if (got != rows[i].want)
            return kvt_fail(err, KVT_NO, "%.9g: expected %04x, got %04x", (double)rows[i].in,
                            rows[i].want, got);
    }
    for (uint32_t h = 0; h < 0x7c00; h++)
        if (half_from_float(half_to_float((uint16_t)h)) != h)
            return kvt_fail(err, KVT_NO, "half %04x does not survive its way through f32", h);
    return KVT_OK;
}

/* A query that likes all keys equally sees 1/n of each visible one and nothing of the others.
 */
static kvt_code rows(kvt_err *err)
{
    enum { T = 8, D = 16, SEEN = 4 };
    float q[D], k[T * D];
    uint16_t out[T];
    int32_t pos = SEEN - 1;
    void *scratch = kvt_alloc((int64_t)rows_scratch_bytes(T, D), 1);

    if (!scratch)
        return kvt_fail_memory(err, rows_scratch_bytes(T, D));
    for (int d = 0; d < D; d++)
        q[d] = 1;
    for (int i = 0; i < T * D; i++)
        k[i] = 0.5f;
    rows_head(out, q, k, &pos, 1, T, D, 0.25f, 0, scratch);
    kvt_free(scratch);
    for (int t = 0; t < T; t++) {
        float want = t < SEEN ? 0.25f : 0.0f, got = half_to_float(out[t]);
        if (got != want)
            return kvt_fail(err, KVT_NO, "key %d: expected %g, got %g", t, (double)want,
                            (double)got);
    }
    return KVT_OK;
}

/* Of equal scores the lower position stays. */
static kvt_code selection(kvt_err *err)
{
    static const float score[] = {1, 3, 2, 3, 2, 2};
    static const bool want[] = {false, true, true, true, false, false};
    bool keep[6];
    kvt_arena *work = kvt_arena_new(1 << 20);

    bool done = work && select_best(keep, score, 6, 3, work);
    kvt_arena_free(work);
    if (!done)
        return kvt_fail_memory(err, 1 << 20);
    for (int i = 0; i < 6; i++)
        if (keep[i] != want[i])
            return kvt_fail(err, KVT_NO, "the best 3 of 1 3 2 3 2 2: position %d is %s", i,
                            keep[i] ? "kept" : "lost");
    return KVT_OK;
}

/* The published XXH128 of no bytes with seed 0 (xxHash, tests/sanity_test_vectors.h). */
static kvt_code digests(kvt_err *err)
{
    static const char want[] = "99aa06d3014798d86001c324468d497f";
    char got[DIGEST_TEXT];
    digest_of("", 0, got);
    return strcmp(got, want)
               ? kvt_fail(err, KVT_NO, "XXH128 of nothing: expected %s, got %s", want, got)
               : KVT_OK;
}

/* A result with one cell, written and read back. */
static kvt_code round_trip(const char *path, kvt_err *err)
{
    kvt_result *in = kvt_result_new(), *out = NULL;
    kvt_code code = KVT_OK;
    kvt_schema cells, lanes;

    kvt_cell_schema(&cells);
    kvt_lane_schema(&lanes);
    if (!in || !(in->cell = kvt_alloc(1, sizeof *in->cell)) ||
        !(in->lane = kvt_alloc(1, sizeof *in->lane)))
        code = kvt_fail_memory(err, sizeof *in);
    if (!code) {
        in->n_layer = in->n_lane = in->n_cell = 1;
        in->n_prompt = 8;
        snprintf(in->trace_id, sizeof in->trace_id, "selftest");
        snprintf(in->policy_text, sizeof in->policy_text, "full");
        snprintf(in->cell[0].policy, sizeof in->cell[0].policy, "full");
        in->cell[0].kept_tokens_mean =
            0.1; /* no short binary fraction: all its bits must come back */
        code = kvt_result_write(in, &cells, &lanes, path, err);
    }
    if (!code)
        code = kvt_result_open(&out, &cells, &lanes, path, false, err);
    if (!code && (out->n_cell != 1 || strcmp(out->cell[0].policy, "full") ||
                  out->cell[0].kept_tokens_mean != 0.1))
        code = kvt_fail(err, KVT_NO, "a result came back changed");
    kvt_result_free(out);
    kvt_result_free(in);
    return code;
}

static kvt_code files(kvt_err *err)
{
    const char *dir = getenv("TMPDIR");
    char folder[512], path[600];

    snprintf(folder, sizeof folder, "%s/kvt-doctor-XXXXXX", dir && dir[0] ? dir : P_tmpdir);
    if (!mkdtemp(folder))
        return kvt_fail(err, KVT_IO, "%s: cannot make a folder: %s", folder, strerror(errno));
    snprintf(path, sizeof path, "%s/selftest.kvt-results.h5", folder);
    kvt_code code = round_trip(path, err);
    unlink(path);
    if (rmdir(folder) && !code)
        code =
            kvt_fail(err, KVT_IO, "%s: something was left behind: %s", folder, strerror(errno));
    return code;
}

static const cli_selftest tests[] = {
    {"gemm", "matrix product against whole-number arithmetic", gemm},
    {"halves", "half floats against IEEE 754, all finite ones there and back", halves},
    {"rows", "attention row of equal keys, causal", rows},
    {"select", "the best k, ties to the lower position", selection},
    {"digest", "XXH128 against its published vector", digests},
    {"files", "a result through HDF5 in a temporary folder", files},
    {0},
};

const cli_selftest *cli_selftests(void)
{
    return tests;
}
