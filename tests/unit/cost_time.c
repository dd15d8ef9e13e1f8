/* cost_time.c - machines, steps and whole predictions for tests of the cost model's times. */
#include "tests/unit/cost_time.h"

#include "tests/check.h"

const int64_t lengths[LENGTHS] = {4096, 8192, 16384, 32768};

kvt_machine machine(double peak, double mem_bw)
{
    return (kvt_machine){.engine = KVT_ENGINE_FUSED,
                         .peak_flops_16 = peak,
                         .mem_bw = mem_bw,
                         .cache_gain = 1,
                         .e_lin = 0.65,
                         .e_att = 0.55,
                         .n_half = 500,
                         .hd64_factor = 0.77,
                         .window_half = 700,
                         .e_w = 0.85,
                         .e_kv = 0.78,
                         .e_m = 0.87,
                         .t_layer = 30e-6,
                         .t_step = 126e-6,
                         .kv_traffic = 1};
}

kvt_cost_work lookaheadkv(const kvt_cost_geometry *g)
{
    kvt_cost_work w;
    kvt_use *use;
    kvt_err err;
    CHECK_OK(kvt_use_parse(&use, NULL, "lookaheadkv", &err), &err);
    kvt_cost_work_of(&w, use, g, 32768, 128, KVT_ACT_OWN);
    kvt_use_free(use);
    return w;
}

kvt_cost_run slots(const kvt_cost_geometry *g, double n, double longest)
{
    double all = n * (double)(g->g.n_layer * g->g.n_kv_head);
    return (kvt_cost_run){.steps = 1, .slots = all, .busiest = all * longest, .held = all};
}

double step(const kvt_cost_geometry *g, const kvt_machine *m, const kvt_cost_setting *s,
            const kvt_cost_work *w, double n, double longest)
{
    kvt_published p = {.machine = *m};
    kvt_cost_run run = slots(g, n, longest);
    kvt_decode_cost d;
    kvt_cost_step(&d, &(kvt_cost_case){.geometry = g, .constants = &p, .work = w, .setting = s},
                  &run);
    CHECK_NEAR(d.fixed + d.weights + d.kv + d.policy + d.copy + d.exchange + d.host, d.total,
               1e-9 * d.total);
    return d.total;
}

void open_bench(bench *b, const kvt_cost_work *w, int64_t n, int64_t budget, int64_t m)
{
    *b = (bench){.g = model("llama-3.1-8b"),
                 .d = model("llama-3.2-1b"),
                 .p = {.machine = machine(989e12, 3.35e12)},
                 .w = *w};
    b->p.machine.t_launch = 3e-6;
    b->p.machine.launches_layer = 12;
    int64_t kept = w->when != KVT_WHEN_NEVER && budget < n ? budget : n;
    int lanes = (int)b->g.g.n_kv_head;
    b->load.n_layer = (int)b->g.g.n_layer;
    b->load.n_lane = lanes;
    for (int l = 0; l < b->load.n_layer; l++)
        b->load.kept[l] =
            (kvt_cost_layer){(double)(kept * lanes), (double)kept, (double)(kept * lanes)};
    for (int64_t t = 0; t < m; t++)
        b->load.run[t] = slots(&b->g, (double)(kept + t), 1);
    b->load.n_run = (int)m;
    b->load.first = b->load.run[0];
    b->load.last = b->load.run[m > 0 ? m - 1 : 0];
    b->load.top = b->load.last;
    b->c = (kvt_cost_case){&b->g, &b->d, &b->p, &b->w, &b->load, &b->s, n, m, budget};
}

kvt_cost predict(const bench *b)
{
    kvt_cost cost;
    kvt_cost_case c = b->c;
    c.geometry = &b->g, c.draft = &b->d, c.constants = &b->p, c.work = &b->w;
    c.load = &b->load, c.setting = &b->s;
    kvt_cost_predict(&cost, &c);
    return cost;
}
