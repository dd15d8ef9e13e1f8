# Tests of the cost model: models, machines, profiles.
kvt_test(test_cost_data LABEL unit MODULES replay SOURCES test_cost_data.c)
kvt_test(test_cost_machine LABEL unit MODULES replay LIBRARIES jansson SOURCES test_cost_machine.c)
