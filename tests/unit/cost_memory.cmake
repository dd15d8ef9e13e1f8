# Tests of the cost model: memory.
kvt_test(test_cost_load LABEL unit MODULES replay
  SOURCES test_cost_load.c cost_load.c)
kvt_test(test_cost_load_result LABEL unit MODULES replay
  SOURCES test_cost_load_result.c cost_load.c)
kvt_test(test_cost_load_replay LABEL unit MODULES replay
  SOURCES test_cost_load_replay.c cost_load.c ../runs.c ../synth.c)
kvt_test(test_cost_memory LABEL unit MODULES replay
  SOURCES test_cost_memory.c cost_memory.c cost_case.c)
foreach(name published hand capacity)
  kvt_test(test_cost_memory_${name} LABEL unit MODULES replay
    SOURCES test_cost_memory_${name}.c cost_memory.c cost_case.c)
endforeach()
