# Tests of the cost model: choose.
kvt_test(test_cost_choose LABEL unit MODULES analyze SOURCES test_cost_choose.c cost_choose.c)
foreach(name groups bad)
  kvt_test(test_cost_choose_${name} LABEL unit MODULES analyze
    SOURCES test_cost_choose_${name}.c cost_choose.c)
endforeach()
kvt_test(test_cost_limits LABEL unit MODULES analyze SOURCES test_cost_limits.c)
