# Tests of the cost model: fit.
kvt_test(test_cost_fit LABEL unit MODULES replay SOURCES test_cost_fit.c)
kvt_test(test_cost_fit_bad LABEL unit MODULES replay SOURCES test_cost_fit_bad.c)
