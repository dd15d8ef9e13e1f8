# Published figures of the cost model.
kvt_test(test_golden_figures LABEL golden MODULES replay SOURCES test_golden_figures.c)
kvt_test(test_golden_equal LABEL golden MODULES replay SOURCES test_golden_equal.c)
kvt_test(test_golden_cost LABEL golden MODULES replay SOURCES test_golden_cost.c)
