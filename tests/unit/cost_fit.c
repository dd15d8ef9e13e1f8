/* cost_fit.c - files of points, and times for them, for tests of calibrations. */
#include "tests/unit/cost_fit.h"

#include <stdlib.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/unit/cost_case.h"

char dir[64], path[128];

int open_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/kvt-fit-XXXXXX");
    if (!mkdtemp(dir))
        return 1;
    snprintf(path, sizeof path, "%s/points.csv", dir);
    return 0;
}

int close_dir(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(dir);
}

FILE *begin(void)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "quantity,geometry,prompt_tokens,batch,kv_bits,policy,rows,seconds\n");
    return f;
}

void add(FILE *f, const char *quantity, const char *geometry, int64_t tokens, int64_t batch,
         int kv_bits, double seconds)
{
    fprintf(f, "%s,%s,%lld,%lld,%d,,,%.17g\n", quantity, geometry, (long long)tokens,
            (long long)batch, kv_bits, seconds);
}

void calibrate(kvt_calibration *out, const kvt_machine *base, FILE *f)
{
    kvt_err err;
    fclose(f);
    CHECK_OK(kvt_calibrate(out, base, path, &err), &err);
}

kvt_machine machine(const char *name)
{
    kvt_machine m;
    kvt_err err;
    CHECK_OK(kvt_machine_find(&m, name, &err), &err);
    return m;
}

double decode_time(const kvt_machine *m, const char *name, int64_t n, double batch)
{
    kvt_cost_geometry g = model(name);
    double weights = 2 * (double)(g.theta_lin + g.theta_head) / m->mem_bw / m->e_w;
    double kv = batch * kvt_cost_cache_bytes(&g, n) / m->mem_bw / m->e_kv;
    return m->t_step + m->t_layer * (double)g.g.n_layer + batch * m->t_req + weights + kv;
}
