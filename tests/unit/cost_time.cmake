# Tests of the cost model: time.
kvt_test(test_cost_time LABEL unit MODULES replay
  SOURCES test_cost_time.c cost_time.c cost_case.c)
foreach(name theory prefill decode vectors evict)
  kvt_test(test_cost_time_${name} LABEL unit MODULES replay
    SOURCES test_cost_time_${name}.c cost_time.c cost_case.c)
endforeach()
