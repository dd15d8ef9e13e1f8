/* fuzz_cost_data.c - any bytes as a model's or a machine's file: refused in one line that names
 * the file, or sound: the total is that of its shapes, a machine reads back equal, a prefill is
 * a time. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kvt/cost.h"
#include "tests/fuzz/fuzz.h"

static void check(bool holds)
{
    if (!holds)
        __builtin_trap();
}

static void check_refused(kvt_code code, const kvt_err *err)
{
    check(code == KVT_FORMAT);
    check(strstr(err->text, "fuzz-cost-") && !strpbrk(err->text, "\n\033"));
}

/* Weights by the formula of the cost model's section 5. */
static double total(const kvt_cost_geometry *g)
{
    const kvt_geometry *s = &g->g;
    double e = (double)s->n_hidden, d = (double)s->head_dim, layers = (double)s->n_layer;
    double q = (double)s->n_head * d, kv = (double)s->n_kv_head * d;
    double layer = 2 * e * q + 2 * e * kv + 3 * e * (double)s->n_ff;
    layer += e * g->norms_per_layer + (g->qkv_bias ? q + 2 * kv : 0) + (g->qk_norm ? 2 * d : 0);
    return layers * layer + e * (double)s->n_vocab * (s->tied ? 1 : 2) + e;
}

/* A file that was accepted has the total of its shapes, or names none. */
static void check_total(const kvt_cost_geometry *g, const char *path)
{
    check(fabs(total(g) - (double)g->theta_all) <= 1e-12 * total(g));
    json_t *file = json_load_file(path, 0, NULL);
    const json_t *named = json_object_get(file, "params_total");
    json_int_t n = json_integer_value(named);
    check(file && (!named || n == 0 || n == g->theta_all));
    json_decref(file);
}

static void use_geometry(const char *path)
{
    kvt_cost_geometry g;
    kvt_err err;
    kvt_code code = kvt_cost_geometry_find(&g, path, &err);
    if (code) {
        check_refused(code, &err);
        return;
    }
    check(g.g.name[0] && g.theta_lin > 0 && g.theta_head > 0);
    check(g.theta_all >= g.theta_lin + g.theta_head);
    check_total(&g, path);
    check(kvt_cost_cache_bytes(&g, 1000) > 0 && kvt_cost_attention_flops(&g, 1000, false) > 0);
}

static void use_machine(const char *path)
{
    kvt_machine m, back;
    kvt_cost_geometry g;
    kvt_prefill_cost cost;
    kvt_published p;
    kvt_err err;
    kvt_code code = kvt_machine_find(&m, path, &err);
    if (code) {
        check_refused(code, &err);
        return;
    }
    check(kvt_machine_save(&m, path, &err) == KVT_OK);
    check(kvt_machine_find(&back, path, &err) == KVT_OK);
    check(!memcmp(&m, &back, sizeof m));
    kvt_cost_constants(&p, &m, KVT_PROFILE_AS_PUBLISHED, "snapkv");
    check(p.machine.mem_bw == m.mem_bw && p.machine.e_lin > 0);
    check(kvt_cost_geometry_find(&g, "llama-3.2-1b", &err) == KVT_OK);
    kvt_cost_prefill(&cost, &g, &m, &(kvt_cost_setting){0}, 4096);
    check(!isnan(cost.total) && cost.total > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char path[64];
    snprintf(path, sizeof path, "./fuzz-cost-%ld.json", (long)getpid());
    FILE *f = fopen(path, "wb");
    check(f && fwrite(data, 1, n, f) == n && fclose(f) == 0);
    use_geometry(path);
    use_machine(path);
    unlink(path);
    return 0;
}
