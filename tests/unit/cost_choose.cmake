# Tests of the cost model: choose.
kvt_test(test_cost_choose LABEL unit MODULES analyze SOURCES test_cost_choose.c)
kvt_test(test_cost_limits LABEL unit MODULES analyze SOURCES test_cost_limits.c)
