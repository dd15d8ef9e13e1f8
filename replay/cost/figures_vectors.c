/* figures_vectors.c - the default machines at three lengths and three cache sizes: no
 * measurement, a second calculation of the same formulae. */
#include "replay/cost/figures.h"

#include <math.h>

/* The second calculation has neither what a request adds to a step nor elementwise work. */
static void plain(kvt_published *c)
{
    c->machine.t_req = c->machine.elementwise = 0;
}

typedef struct cell {
    const char *what, *machine, *geometry;
    int64_t n;
    bool step;
    double published; /* ms */
} cell;

/* Rows of one machine: prefills of 512, 4,096 and 32,768 tokens, steps over 128, 4,096 and
 * 32,768 slots; of the 1B first. */
#define PREFILL(machine, geometry, n, text, ms)                                               \
    {                                                                                         \
        machine ", " geometry ", prefill of " text " tokens", machine, geometry, n, false, ms \
    }
#define STEP(machine, geometry, n, text, ms)                                                 \
    {                                                                                        \
        machine ", " geometry ", a step over " text " slots", machine, geometry, n, true, ms \
    }
#define SIX(m, g, a, b, c, d, e, f)                                   \
    PREFILL(m, g, 512, "512", a), PREFILL(m, g, 4096, "4,096", b),    \
        PREFILL(m, g, 32768, "32,768", c), STEP(m, g, 128, "128", d), \
        STEP(m, g, 4096, "4,096", e), STEP(m, g, 32768, "32,768", f)
#define ONE   "llama-3.2-1b"
#define EIGHT "llama-3.1-8b"

/* clang-format off */
static const cell cells[] = {
    SIX("h200", ONE, 1.6321, 15.347, 269.78, 1.2129, 1.2476, 1.4985),
    SIX("h200", EIGHT, 11.369, 98.015, 1236.9, 4.7692, 4.9081, 5.9119),
    SIX("h100-sxm", ONE, 1.6321, 15.347, 269.78, 1.4756, 1.5253, 1.8849),
    SIX("h100-sxm", EIGHT, 11.369, 98.015, 1236.9, 6.3635, 6.5625, 8.0007),
    SIX("a100-sxm-80", ONE, 4.8223, 45.841, 832.7, 2.1241, 2.2152, 2.8734),
    SIX("a100-sxm-80", EIGHT, 33.521, 290.56, 3759.7, 10.299, 10.664, 13.297),
    SIX("l40s", ONE, 4.8342, 45.558, 806.24, 3.9775, 4.1705, 5.5646),
    SIX("l40s", EIGHT, 33.661, 290.51, 3684.8, 21.548, 22.32, 27.897),
    SIX("l4", ONE, 14.463, 136.3, 2412, 10.316, 10.872, 14.887),
    SIX("l4", EIGHT, 100.71, 869.13, 11024, 60.018, 62.24, 78.301),
    SIX("rtx4090", ONE, 9.1075, 86.576, 1572.7, 3.4959, 3.6613, 4.8562),
    SIX("rtx4090", EIGHT, 63.309, 548.75, 7100.6, 18.625, 19.287, 24.067),
    SIX("phone-sd8g3", ONE, 8714.9, 84563, 1628428, 52.004, 55.082, 77.325),
    SIX("phone-sd8g3", EIGHT, 61395, 536910, 7227248, 315.61, 327.93, 416.9),
    SIX("cpu-2core", ONE, 13354, 129501, 2489861, 203.8, 215.84, 302.84),
    SIX("cpu-2core", EIGHT, 94081, 822525, 11058115, 1236.9, 1285, 1633),
};
/* clang-format on */

void figures_vectors(figure_list *list)
{
    static const figure_group g = {"G28",   "Default machines, calculated a second time", "ms",
                                   "fused", "a separate calculator, no measurement",      1e-3,
                                   FITTED};
    for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++) {
        const cell *at = &cells[i];
        figure_case f = {.geometry = at->geometry,
                         .machine = at->machine,
                         .n_prompt = at->n,
                         .budget = at->n,
                         .adjust = plain};
        kvt_cost cost;
        double got;
        if (at->step) {
            got = figure_step(&f, (double)at->n, 1);
        } else {
            figure_predict(&cost, &f);
            got = cost.prefill.total;
        }
        figure_put(list, &g, at->what, at->published, got * 1e3);
    }
}
