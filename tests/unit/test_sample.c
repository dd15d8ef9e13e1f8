/* test_sample.c - choosing tokens and describing distributions. Expected numbers are arithmetic
 * on the probabilities 0.1, 0.2, 0.3, 0.4 (logits ln 1 .. ln 4). */
#include "capture/sample.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const float four[] = {0, 0.69314718F, 1.09861229F, 1.38629436F, 99}; /* 99: padding */

static sampler *make(double temperature, double top_p, int64_t top_k, const char *digest,
                     int64_t n)
{
    kvt_err err;
    sampler *s = NULL;
    const sample_spec spec = {temperature, top_p, top_k, 7, digest};
    if (sampler_new(&s, &spec, n, &err))
        fail_msg("%s", err.text);
    return s;
}

static int32_t pick(sampler *s, const float *logit, int64_t step)
{
    kvt_err err;
    int32_t id = -1;
    if (sampler_pick(s, &id, logit, step, &err))
        fail_msg("%s", err.text);
    return id;
}

static void greedy_takes_the_lowest_id_of_the_best(void **state)
{
    (void)state;
    sampler *s = make(0, 1, 0, "d", 4);
    assert_int_equal(pick(s, four, 0), 3); /* not the padding */
    assert_int_equal(pick(s, (float[]){1, 5, 5, 5}, 0), 1);
    assert_int_equal(pick(s, (float[]){-INFINITY, -9, -INFINITY, -9}, 0), 1);
    assert_int_equal(pick(s, (float[]){-0.0F, 0, 0, -1}, 0), 0);
    sampler_free(s);
}

static void a_row_is_described(void **state)
{
    (void)state;
    kvt_err err;
    sample_row row;
    sampler *s = make(0, 1, 0, "d", 4);
    assert_int_equal(sampler_describe(s, &row, four, 1, &err), KVT_OK);
    static const double want[] = {0.4, 0.3, 0.2, 0.1};
    double entropy = 0;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(row.id[i], 3 - i);
        /* the logits above are rounded to floats: 1e-7 of values up to 2.3 */
        assert_true(fabs((double)row.logp[i] - log(want[i])) < 1e-6);
        entropy -= want[i] * log(want[i]);
    }
    assert_int_equal(row.id[4], -1);
    assert_true(isinf(row.logp[4]) && row.logp[63] < 0);
    assert_true(fabs((double)row.nll + log(0.2)) < 1e-6);
    assert_true(fabs((double)row.entropy - entropy) < 1e-6);

    /* Large logits and impossible tokens: one token has it all. */
    assert_int_equal(
        sampler_describe(s, &row, (float[]){FLT_MAX, 0, -INFINITY, -FLT_MAX}, 0, &err), KVT_OK);
    assert_true(row.nll == 0 && row.entropy == 0 && row.logp[0] == 0);
    assert_int_equal(row.id[3], 2);
    assert_true(isinf(row.logp[3]));
    sampler_free(s);
}

static void the_top_is_sorted_with_ties_by_id(void **state)
{
    (void)state;
    enum { N = 300 };
    float logit[N];
    kvt_err err;
    sample_row row;
    sampler *s = make(0, 1, 0, "d", N);
    for (int i = 0; i < N; i++)
        logit[i] = (float)(i * 37 % 10);
    assert_int_equal(sampler_describe(s, &row, logit, 0, &err), KVT_OK);
    for (int i = 0; i < SAMPLE_TOP; i++) { /* by the definition: who stands above me? */
        int above = 0;
        for (int k = 0; k < N; k++)
            above +=
                logit[k] > logit[row.id[i]] || (logit[k] == logit[row.id[i]] && k < row.id[i]);
        assert_int_equal(above, i);
    }
    for (int i = 0; i < N; i++)
        logit[i] = 2;
    assert_int_equal(sampler_describe(s, &row, logit, 5, &err), KVT_OK);
    assert_true(fabs((double)row.entropy - log(300)) < 1e-6);
    assert_true(fabs((double)row.nll - log(300)) < 1e-6);
    assert_int_equal(row.id[63], 63);
    sampler_free(s);
}

/* Counts over many steps against the probabilities: four standard deviations. */
static void draws_follow_the_distribution(void **state)
{
    (void)state;
    enum { DRAWS = 20000 };
    static const struct {
        double temperature, top_p;
        int64_t top_k;
        double p[4];
    } rows[] = {
        {1, 1, 0, {0.1, 0.2, 0.3, 0.4}},
        {1, 1, 2, {0, 0, 3.0 / 7, 4.0 / 7}},
        {1, 0.5, 0, {0, 0, 3.0 / 7, 4.0 / 7}}, /* 0.4 alone is not yet half */
        {1, 0.35, 0, {0, 0, 0, 1}},
        {1,
         0.6,
         3,
         {0, 0, 3.0 / 7, 4.0 / 7}}, /* of the three that are left: 4/9 < 0.6 <= 7/9 */
        {0.5, 1, 0, {1.0 / 30, 4.0 / 30, 9.0 / 30, 16.0 / 30}}, /* squares */
        {1e-300, 1, 0, {0, 0, 0, 1}},
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        sampler *s = make(rows[r].temperature, rows[r].top_p, rows[r].top_k, "d", 4);
        int count[4] = {0};
        for (int step = 0; step < DRAWS; step++)
            count[pick(s, four, step)]++;
        for (int i = 0; i < 4; i++) {
            double p = rows[r].p[i], sigma = sqrt(DRAWS * p * (1 - p));
            if (fabs(count[i] - DRAWS * p) > 4 * sigma + 1e-9)
                fail_msg("row %zu, token %d: expected %g of %d, got %d", r, i, DRAWS * p, DRAWS,
                         count[i]);
        }
        sampler_free(s);
    }
}

static void a_draw_depends_on_its_names_only(void **state)
{
    (void)state;
    sampler *a = make(1, 1, 0, "one", 4), *b = make(1, 1, 0, "one", 4),
            *c = make(1, 1, 0, "two", 4);
    int differ = 0;
    for (int step = 63; step >= 0; step--) {
        int32_t first = pick(a, four, step);
        assert_int_equal(first, pick(b, four, step));
        assert_int_equal(first, pick(a, four, step)); /* asked twice, in any order */
        differ += first != pick(c, four, step);
    }
    assert_true(differ > 20);
    sampler_free(a);
    sampler_free(b);
    sampler_free(c);
}

static void what_is_wrong_is_refused(void **state)
{
    (void)state;
    kvt_err err;
    sampler *s = NULL;
    static const sample_spec bad[] = {
        {-1, 1, 0, 0, ""},  {NAN, 1, 0, 0, ""}, {INFINITY, 1, 0, 0, ""}, {1, 0, 0, 0, ""},
        {1, 1.1, 0, 0, ""}, {1, NAN, 0, 0, ""}, {1, 1, -1, 0, ""}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(sampler_new(&s, &bad[i], 4, &err), KVT_USAGE);
    static const float wrong[][4] = {
        {1, NAN, 0, 0}, {0, 0, 0, INFINITY}, {-INFINITY, -INFINITY, -INFINITY, -INFINITY}};
    for (int t = 0; t < 2; t++) {
        s = make(t, 1, 0, "", 4);
        int32_t id;
        sample_row row;
        for (size_t i = 0; i < 3; i++) {
            assert_int_equal(sampler_pick(s, &id, wrong[i], 0, &err), KVT_FORMAT);
            assert_int_equal(sampler_describe(s, &row, wrong[i], 0, &err), KVT_FORMAT);
        }
        assert_int_equal(sampler_describe(s, &row, four, 4, &err), KVT_FORMAT);
        assert_int_equal(sampler_describe(s, &row, four, -1, &err), KVT_FORMAT);
        sampler_free(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_takes_the_lowest_id_of_the_best),
        cmocka_unit_test(a_row_is_described),
        cmocka_unit_test(the_top_is_sorted_with_ties_by_id),
        cmocka_unit_test(draws_follow_the_distribution),
        cmocka_unit_test(a_draw_depends_on_its_names_only),
        cmocka_unit_test(what_is_wrong_is_refused),
    };
    return cmocka_run_group_tests_name("sample", tests, NULL, NULL);
}
