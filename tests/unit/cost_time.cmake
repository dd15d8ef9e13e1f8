# Tests of the cost model: time.
kvt_test(test_cost_time LABEL unit MODULES replay SOURCES test_cost_time.c)
