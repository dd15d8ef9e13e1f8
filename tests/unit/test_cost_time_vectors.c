/* test_cost_time_vectors - prefills and decode steps of eight machines against a table of the
 * specification (G28), by constants that stand here. */
#include "tests/check.h"
#include "tests/unit/cost_time.h"

/* The page's second table of 7.6: ms at 512, 4K, 32K of the prompt, at 128, 4K, 32K slots. */
static const struct vector_row {
    const char *name;
    double peak, mem_bw, e_lin, e_att, e_w, e_kv;
    double ttft_1b[3], ttft_8b[3], step_1b[3], step_8b[3];
    bool is_gpu;
} vectors[] = {
    {"h200",
     989e12,
     4.8e12,
     .65,
     .55,
     .85,
     .78,
     {1.6321, 15.347, 269.78},
     {11.369, 98.015, 1236.9},
     {1.2129, 1.2476, 1.4985},
     {4.7692, 4.9081, 5.9119},
     true},
    {"h100-sxm",
     989e12,
     3.35e12,
     .65,
     .55,
     .85,
     .78,
     {1.6321, 15.347, 269.78},
     {11.369, 98.015, 1236.9},
     {1.4756, 1.5253, 1.8849},
     {6.3635, 6.5625, 8.0007},
     true},
    {"a100-sxm-80",
     312e12,
     2.039e12,
     .70,
     .55,
     .80,
     .70,
     {4.8223, 45.841, 832.7},
     {33.521, 290.56, 3759.7},
     {2.1241, 2.2152, 2.8734},
     {10.299, 10.664, 13.297},
     true},
    {"l40s",
     362e12,
     0.864e12,
     .60,
     .50,
     .85,
     .78,
     {4.8342, 45.558, 806.24},
     {33.661, 290.51, 3684.8},
     {3.9775, 4.1705, 5.5646},
     {21.548, 22.32, 27.897},
     true},
    {"l4",
     121e12,
     0.3e12,
     .60,
     .50,
     .85,
     .78,
     {14.463, 136.3, 2412},
     {100.71, 869.13, 11024},
     {10.316, 10.872, 14.887},
     {60.018, 62.24, 78.301},
     true},
    {"rtx4090",
     165.2e12,
     1.008e12,
     .70,
     .55,
     .85,
     .78,
     {9.1075, 86.576, 1572.7},
     {63.309, 548.75, 7100.6},
     {3.4959, 3.6613, 4.8562},
     {18.625, 19.287, 24.067},
     true},
    {"phone-sd8g3",
     1e12,
     0.0768e12,
     .118,
     .084,
     .62,
     .55,
     {8714.9, 84563, 1628428},
     {61395, 536910, 7227248},
     {52.004, 55.082, 77.325},
     {315.61, 327.93, 416.9},
     false},
    {"cpu-2core",
     110e9,
     13.5e9,
     .70,
     .50,
     .90,
     .80,
     {13354, 129501, 2489861},
     {94081, 822525, 11058115},
     {203.8, 215.84, 302.84},
     {1236.9, 1285, 1633},
     false},
};

static void vector_holds(void **state)
{
    const struct vector_row *r = *state;
    const int64_t prompt[] = {512, 4096, 32768};
    const double cache[] = {128, 4096, 32768};
    kvt_cost_geometry small = model("llama-3.2-1b"), large = model("llama-3.1-8b");
    kvt_cost_setting s = {0};
    kvt_machine m = machine(r->peak, r->mem_bw);
    m.e_lin = r->e_lin;
    m.e_att = r->e_att;
    m.e_w = r->e_w;
    m.e_kv = r->e_kv;
    m.t_launch = r->is_gpu ? 3e-6 : 0;
    m.launches_layer = 12;
    if (!r->is_gpu)
        m.n_half = m.t_layer = m.t_step = 0;
    for (int i = 0; i < 3; i++) {
        within("1B prefill", prefill_time(&m, "llama-3.2-1b", prompt[i]) * 1e3, r->ttft_1b[i],
               1e-3);
        within("8B prefill", prefill_time(&m, "llama-3.1-8b", prompt[i]) * 1e3, r->ttft_8b[i],
               1e-3);
        within("1B step", step(&small, &m, &s, &full, cache[i], 1) * 1e3, r->step_1b[i], 1e-3);
        within("8B step", step(&large, &m, &s, &full, cache[i], 1) * 1e3, r->step_8b[i], 1e-3);
    }
}

int main(void)
{
    struct CMUnitTest tests[CHECK_COUNT(vectors)];
    int n = 0;
    CHECK_ROWS(tests, &n, vectors, vector_holds);
    return CHECK_RUN("cost_time_vectors", tests, n);
}
