/* test_cost_time_prefill - times of prefills published for an H20 and an RTX PRO 6000 (G19,
 * G25), by constants that stand here. */
#include "tests/check.h"
#include "tests/unit/cost_time.h"

static void h20_is_reproduced(void **state)
{
    (void)state; /* DapQ, arXiv 2603.11564: fitted at 8K and 128K */
    const double s[] = {1.1106, 2.5607, 6.5718, 18.9441, 60.8399};
    kvt_machine m = machine(148e12, 4e12);
    m.e_lin = 0.830;
    m.e_att = 0.662;
    m.n_half = 0;
    for (int i = 0; i < CHECK_COUNT(s); i++)
        within("G19", prefill_time(&m, "llama-3.1-8b", 8192LL << i), s[i], 0.01);
}

static void pro_6000_is_reproduced(void **state)
{
    (void)state; /* FastDMS README, tokens a second of the prefill */
    static const struct {
        const char *name;
        int64_t n;
        double rate;
    } rows[] = {{"llama-3.2-1b", 8192, 123098},
                {"qwen3-8b", 8192, 17143.6},
                {"llama-3.2-1b", 130944, 22906.4},
                {"qwen3-8b", 40832, 9614.8}};
    kvt_machine m = machine(467.8e12, 1.792e12);
    m.e_lin = 0.659;
    m.e_att = 0.482;
    m.n_half = 0;
    m.hd64_factor = 1;
    for (int i = 0; i < CHECK_COUNT(rows); i++)
        within("G25", prefill_time(&m, rows[i].name, rows[i].n),
               (double)rows[i].n / rows[i].rate, 0.08);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(h20_is_reproduced),
        cmocka_unit_test(pro_6000_is_reproduced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
