# Tests of the cost model: models, machines, profiles.
kvt_test(test_cost_data LABEL unit MODULES replay SOURCES test_cost_data.c)
foreach(name machine machine_bad machine_profile)
  kvt_test(test_cost_${name} LABEL unit MODULES replay LIBRARIES jansson
    SOURCES test_cost_${name}.c)
endforeach()
