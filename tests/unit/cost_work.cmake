# Tests of the cost model: what each policy does.
kvt_test(test_cost_work LABEL unit MODULES replay SOURCES test_cost_work.c)
