kvt_test(test_cost_descriptors LABEL property MODULES replay SOURCES test_cost_descriptors.c)
