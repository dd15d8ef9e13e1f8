# Tests of the cost model: fit.
kvt_test(test_cost_fit LABEL unit MODULES replay SOURCES test_cost_fit.c cost_fit.c cost_case.c)
kvt_test(test_cost_fit_solve LABEL unit MODULES replay SOURCES test_cost_fit_solve.c)
foreach(name published evict bad)
  kvt_test(test_cost_fit_${name} LABEL unit MODULES replay
    SOURCES test_cost_fit_${name}.c cost_fit.c cost_case.c)
endforeach()
